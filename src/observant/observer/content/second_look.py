"""What differs by itself: told by looking again, a moment later.

A page has changed since the last visit. Is that news, or an advert, a token, a counter, a shuffled
list, one of two variants, a cookie wall? Fetched again at once, news is still there and the others
are not. A change is news when something that was not there before stands in all looks, or something
that was there stands in none of them and nothing that varies has taken its place. What tells the
time of the visit (a clock, today's date) varies too, however short the time between two looks.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from observant.observer.content.document import short_digest

if TYPE_CHECKING:
    from collections.abc import Sequence

LEARNING = 12
"""After so many changes in a row that were still there a moment later, a page is believed at once,
unless it has ever differed by itself."""
HIDDEN = 3
"""A page that shows nothing but what comes and goes (a cookie wall) has changed if it does so on
more visits in a row than this."""
LOOKS = 2
"""Further looks at a change; one that shows it to be nothing is the last."""
MASK = "▒"
_MOST_LINES = 400
"""Lines that vary, up to which it is worth to find out which is which."""
_MOST_KNOWN = 128
"""Lines that come and go, of which a page is remembered."""
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()  # noqa: SIM905
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_TIMES = re.compile(
    r"\b(?=[\dadefjmnostw])(?:(?P<iso>\d{4}-\d\d-\d\d)|(?P<dots>\d{1,2}[./]\d{1,2}[./]\d{4}\b)"
    rf"|(?P<day>\d{{1,2}}\.? {_MONTH},? \d{{4}}\b)|(?P<named>{_MONTH} \d{{1,2}},? \d{{4}}\b)"
    r"|(?P<clock>\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?\b)|(?P<unix>1\d{9}(?:\d{3})?\b)"
    r"|(?P<ago>(?:\d+|an?|one|few) (?:second|minute|hour)s? ago\b|just now\b)"
    r"|(?P<weekday>(?:mon|tues|wednes|thurs|fri|satur|sun)day\b))",
    re.IGNORECASE,
)


class SecondLook(NamedTuple):
    """What several looks at a changed page have shown."""

    news: bool | None
    """Whether it has changed; else it differs by itself. None: another look is needed."""
    pick: int | None
    """The look that is most like what was seen before; None if none is to be kept."""
    strange: bool
    """Whether some look was at another page altogether, which teaches nothing about this one."""
    varying: list[str]
    """Short digests of lines that come and go by themselves, those of before too."""


def judge_looks(
    before: str,
    past: float,
    looks: list[str],
    now: float,
    varying: Sequence[str] = (),
    hidden: int = 0,
) -> SecondLook:
    """Judge what differs from `before`, seen at `past`. `varying` is known to come and go.

    On so many visits before this one, the page was `hidden` behind what comes and goes.
    """
    if not varying and len(looks) > 1 and len(set(looks)) == 1:
        went, came = _differing(before, looks[0])
        shown = without_clocks(went, past) + without_clocks(came, now)
        if MASK not in shown:  # as usual: it stays as it is, and no clock is in what differs
            return SecondLook(bool(shown), len(looks) - 1, False, [])
    old, seen, forms = _counted(before, past, looks, now, all_lines=bool(varying))
    marks = set(varying)
    known = set[str]()
    if marks:
        known = {line for text, line in forms.items() if {_mark(text), _mark(line)} & marks}
    walls = [_hides(lines, old, known) for lines in seen]
    far = [_distance(old, lines) for lines in seen]
    pick = max(range(len(far)), key=lambda i: (not walls[i], -far[i], i))
    alike = [0 if wall else (old & s).total() for s, wall in zip(seen, walls, strict=True)]
    near = [lines for lines, number in zip(seen, alike, strict=True) if 2 * number >= max(alike)]
    # Lines that some of those looks have, and lines of what is another page: a cookie wall, say.
    often = Counter(line for lines in near for line in lines)
    fresh = {line for line, times in often.items() if times < len(near)}
    fresh |= {line for lines in seen for line in lines if line not in often and line not in old}
    # "Every Monday" is a clock on some days only: a line is remembered as it stands, and without.
    new = {_mark(text) for text, line in forms.items() if line in fresh} | set(map(_mark, fresh))
    after = [*varying, *sorted(new - marks)][-_MOST_KNOWN:]
    if all(walls) and hidden < HIDDEN:
        return SecondLook(False, None, True, after)
    if len(near) < 2:
        return SecondLook(None, None, True, after)
    news = not differs_by_itself(old, near, known)
    if news and 2 * max(alike) < old.total():  # another page now: what comes and goes is another
        stays = {line for line in near[-1] if all(line in lines for lines in near)}
        gone = {_mark(t) for t, line in forms.items() if line in stays} | set(map(_mark, stays))
        after = [mark for mark in after if mark not in gone]
    return SecondLook(news, pick, len(near) < len(seen), after)


def _differing(old: str, new: str) -> tuple[str, str]:
    """The lines that went, and those that came, each with its end."""
    before, after = Counter(old.split("\n")), Counter(new.split("\n"))
    return "".join(f"{line}\n" for line in before - after), "".join(
        f"{line}\n" for line in after - before
    )


def _hides(lines: Counter[str], old: Counter[str], known: set[str]) -> bool:
    """Whether a look shows less than half of what was there, and else what comes and goes only."""
    return (
        not known.isdisjoint(lines)
        and lines.total() < old.total()
        and 2 * (lines & old).total() < old.total()
        and all(line in known or line in old for line in lines)
    )


def differs_by_itself(old: Counter[str], seen: list[Counter[str]], known: set[str]) -> bool:
    """Whether all that differs from `old` differs between the looks as well, or is known to.

    >>> lines = lambda *lines: Counter(lines)
    >>> shoes, rome, sleep = ("Buy shoes", "Fly to Rome", "Sleep well")
    >>> differs_by_itself(lines("News", shoes), [lines("News", rome), lines("News", sleep)], set())
    True
    >>> differs_by_itself(lines("10", shoes), [lines("12", rome), lines("12", sleep)], set())
    False
    >>> differs_by_itself(lines("10 id=a"), [lines("12 id=b"), lines("12 id=c")], set())
    False
    """
    everywhere, anywhere = seen[0].copy(), seen[0].copy()
    for lines in seen[1:]:
        everywhere &= lines
        anywhere |= lines
    if any(line not in known for line in everywhere - old):
        return False
    missing = [line for line in (old - anywhere).elements() if line not in known]
    if not missing:
        return True
    # What varies may have taken the place of what is missing; of lines that are alike, in part.
    vary = sorted((list((lines - everywhere).elements()) for lines in seen), key=len)[-2:]
    if max(map(len, (*vary, missing))) > _MOST_LINES:
        return False
    forms = _forms(*vary)
    for line in missing:
        found = next((form for form in forms if _fits(form, line)), None)
        if found is None:
            return False
        forms.remove(found)
    return True


def _counted(
    before: str, past: float, looks: list[str], now: float, *, all_lines: bool
) -> tuple[Counter[str], list[Counter[str]], dict[str, str]]:
    """The lines of all texts without clocks, counted, and which form each has.

    Clocks are looked for only where they matter: in lines that not all texts have as often, unless
    there is one in them.
    """
    each = {text: Counter(text.split("\n")) for text in (before, *looks)}
    counts = list(each.values())
    alike = set() if all_lines else set(counts[0].items()).intersection(*map(Counter.items, counts))
    forms = {line: line for line, _ in alike}
    shown = {}
    for text, lines in each.items():
        shown[text], forms = _lines(lines, past if text == before else now, forms)
    if alike and any(MASK in forms[line] for line in forms.keys() - dict(alike)):
        return _counted(before, past, looks, now, all_lines=True)
    return shown[before], [shown[text] for text in looks], forms


def _lines(
    lines: Counter[str], now: float, forms: dict[str, str]
) -> tuple[Counter[str], dict[str, str]]:
    """The lines without clocks, and which form each has; one that was seen keeps its form."""
    new = [line for line in lines if line not in forms]
    if new:
        shown = without_clocks("\n".join(new), now).split("\n")
        forms = forms | dict(zip(new, shown, strict=True))
    counted: Counter[str] = Counter()
    for line, times in lines.items():
        counted[forms[line]] += times
    return counted, forms


def _mark(line: str) -> str:
    return short_digest(line)[:8]


def _distance(old: Counter[str], new: Counter[str]) -> int:
    return (old - new).total() + (new - old).total()


def _forms(first: list[str], second: list[str]) -> list[list[str]]:
    """What stays of each line that varies: some of its words, or nothing. Fullest first."""
    forms, left = [], [line.split(" ") for line in second]
    for line in first:
        words = line.split(" ")
        alike = [other for other in left if len(other) == len(words)]
        best = max(alike, key=lambda other: _shared(words, other), default=None)
        if best is not None and 2 * _shared(words, best) >= len(words) > 1:
            left.remove(best)
            forms.append([a if a == b else MASK for a, b in zip(words, best, strict=True)])
        else:
            forms.append([MASK])
            left = left[1:] if len(left) == len(first) else left
    forms += [[MASK]] * max(len(second) - len(first), 0)
    return sorted(forms, key=lambda form: form == [MASK])


def _shared(words: list[str], others: list[str]) -> int:
    return sum(a == b for a, b in zip(words, others, strict=True))


def _fits(form: list[str], line: str) -> bool:
    if form == [MASK]:
        return True
    words = line.split(" ")
    return len(words) == len(form) and all(
        stays in {MASK, word} for stays, word in zip(form, words, strict=True)
    )


def without_clocks(text: str, now: float) -> str:
    """The text without what tells the time of a visit at `now` (seconds since 1970), in any zone
    that differs by whole hours.

    >>> without_clocks("Open 08:00. It is 16:31, 11 Nov 2023, 3 minutes ago", 1_699_720_261.0)
    'Open 08:00. It is ▒, ▒, ▒'
    """
    moment = dt.datetime.fromtimestamp(now, dt.UTC)
    days = {moment.date() + dt.timedelta(days=shift) for shift in (-1, 0, 1)}

    def mask(match: re.Match[str]) -> str:
        word, kind = match[0], match.lastgroup
        if kind == "ago":
            return MASK
        if kind == "weekday":
            return MASK if any(d.strftime("%A").lower() == word.lower() for d in days) else word
        if kind == "clock":
            behind = (moment.minute - int(word.split(":")[1])) % 60  # zones differ by hours
            return MASK if behind in {0, 1, 59} else word
        if kind == "unix":
            return MASK if abs(int(word[:10]) - now) < 86_400 else word
        return MASK if _date(word, kind or "") & days else word

    return _TIMES.sub(mask, text)


def _date(word: str, kind: str) -> set[dt.date]:
    """The dates that this may be."""
    numbers = [int(number) for number in re.findall(r"\d+", word)]
    try:
        if kind == "iso":
            return {dt.date(*numbers)}
        if kind == "dots":
            first, second, year = numbers
            pairs = ((first, second), (second, first))
            return {dt.date(year, month, day) for day, month in pairs if 1 <= month <= 12}
        month = next(i for i, name in enumerate(_MONTHS, 1) if name in word.lower())
        return {dt.date(numbers[1], month, numbers[0])}
    except ValueError:
        return set()
