"""Fields that change on every visit are learned, and ignored: clocks, tokens, counters, adverts.

Every line has an address. A line that is new at its address becomes a candidate, and we watch what
happens at that address on the following visits. It is noise

- after 3 visits that all changed it, when only dates, clocks or tokens differed;
- after 5 visits that all changed it, when only numbers differed, or in a place called an advert;
- after 8 visits that all changed it, whatever the words;
- after 4 changes among at least 3 values, two of which came back (or 6 changes and four returns
  among 2 values), on four of ten visits or more: an advert that rotates.

Where only some words of a line change, only these are masked (`Updated ▒ by Ann`), and only by
words of the same sort: any other edit of the line is still a change. A field that stops changing
is no longer noise, and is harder to learn the second time. At most a quarter of the text can be
noise: what changes more than that is the content.

The state is a small JSON value. `describe` shows it, `Rules.keep` overrules it.
"""

import re
from typing import Any, NamedTuple

import msgspec

from observant.observer.content.document import Document, short_digest
from observant.store.visit import Previous

MASK = "▒"
CHANGES_OF_CLOCKS = 3
CHANGES_OF_NUMBERS = 5
CHANGES_OF_WORDS = 8
CHANGES_OF_ROTATION = 4
QUIET = 2
"""A learned field unchanged on so many visits in a row is noise no longer (adverts: 8)."""
QUIET_ROTATION = 8
PATIENCE = 3
"""A candidate is dropped when it stayed so many times more often than it changed."""
MOST_FIELDS = 32
LONGEST_LINE = 400
LARGEST_SHARE = 0.25
FORGOTTEN = 20
"""A field that was not there on so many visits is forgotten."""


class Field(msgspec.Struct, omit_defaults=True):
    """What is known of the line at an address; of one that stopped varying, only `lost`."""

    changes: int = msgspec.field(default=0, name="n")
    stays: int = msgspec.field(default=0, name="s")
    """Visits without a change."""
    last: str | None = None
    """The line on the last visit, or its digest."""
    form: str | None = None
    """What stays of the line; None while nothing is known of that."""
    clock: bool | None = None
    """Whether all that varies looks like a clock or a token."""
    seen: list[str] = []
    """Digests of recent values."""
    back: int = 0
    """Values that returned."""
    noise: bool = False
    quiet: int = 0
    """Visits in a row without change."""
    away: int = 0
    """Visits in a row without the field."""
    lost: int = 0
    """How often it stopped being noise."""


State = dict[str, Field]
"""Fields by address."""


def known_noise(memory: dict[str, Any]) -> State:
    """What the memory of a comparer holds; what cannot be read is forgotten."""
    try:
        return msgspec.convert(memory.get("noise", {}), State)
    except msgspec.ValidationError:
        return {}


_CLOCK_WORDS = frozenset(
    """
    jan feb mar apr may jun jul aug sep oct nov dec mon tue wed thu fri sat sun
    january february march april june july august september october november december
    monday tuesday wednesday thursday friday saturday sunday am pm utc gmt z
    second seconds minute minutes hour hours day days ago now just yesterday today
    """.split()  # noqa: SIM905 (a list of words is easier to read as words)
)
_EDGES = ".,;:!?()[]{}<>\"'"


class LearnedNoise(NamedTuple):
    """What noise learning makes of a visit."""

    lines: list[str]
    """The new lines, noise masked or left out."""
    old_lines: list[str]
    """The old lines with the same fields masked, so that the two can be compared."""
    state: State
    ignored: list[str]
    """Addresses that were masked in this visit."""
    settled: list[str]
    """Fields that stopped changing: their value is content again, and so it is told as a change."""


def learn(
    document: Document,
    old_lines: list[str],
    state: State,
    *,
    keep: tuple[str, ...] = (),
) -> LearnedNoise:
    """Follow every candidate one visit further, and mask what is noise.

    >>> news = "A long story, with many words that stay as they are."
    >>> page = lambda clock: Document("html", [news, f"It is {clock}"], ["h1", "p"])
    >>> old, state = [news, "It is 12:00:00"], {}
    >>> for minute in range(1, 5):
    ...     found = learn(page(f"12:0{minute}:00"), old, state)
    ...     print(found.lines == found.old_lines, found.lines[1])
    ...     old, state = found.lines, found.state
    False It is 12:01:00
    False It is 12:02:00
    True It is ▒
    True It is ▒
    """
    fields = dict(zip(document.addresses, document.lines, strict=True))
    if len(fields) < len(document.addresses):
        fields = _numbered(document)
    addresses = list(fields)
    state = {a: msgspec.structs.replace(entry) for a, entry in state.items() if a not in keep}
    settled: list[str] = []
    known = set(old_lines)
    before = {address: entry.last for address, entry in state.items()}

    for address, entry in list(state.items()):
        if address.startswith("@"):
            continue
        line = fields.get(address)
        if line is None:
            entry.away += 1
            if entry.away > (FORGOTTEN if entry.noise else 3):
                del state[address]
            continue
        entry.away = 0
        followed = _follow(entry, line)
        if followed is not None:
            state[address] = followed
            continue
        if entry.noise:
            settled.append(address)
        _drop(state, address)

    fresh = [
        address
        for address in addresses
        if fields[address] not in known
        and address not in keep
        and address not in before
        and not (address in state and state[address].changes)
    ]
    if fresh:
        _make_room(state)
        # What looks like a clock or a token first, then short lines: these are noise most often.
        fresh.sort(key=lambda address: (not _has_digit(fields[address]), len(fields[address])))
        for address in fresh[: max(0, MOST_FIELDS - len(state))]:
            state[address] = _candidate(fields[address])
    for address, entry in state.items():
        if entry.last is None and address in fields and fields[address] not in known:
            state[address] = _candidate(fields[address], entry.lost)

    _decide(state, fields, addresses)
    return _mask(document, addresses, fields, old_lines, state, before, settled)


def learn_attributes(
    state: State, fields: dict[str, str], keep: tuple[str, ...] = ()
) -> tuple[State, list[str]]:
    """The same for attributes of the record, on visits where the text is the same.

    A page whose text is as it was, and whose links differ on every visit, has a token in them.

    >>> state = {}
    >>> for visit in range(5):
    ...     state, ignored = learn_attributes(state, {"@link_hash": f"{visit}"})
    >>> ignored
    ['@link_hash']
    """
    state = {a: msgspec.structs.replace(entry) for a, entry in state.items() if a not in keep}
    for address, value in fields.items():
        if address in keep:
            continue
        entry = state.get(address)
        if entry is None or entry.last is None:
            state[address] = Field(last=value, form=MASK, lost=entry.lost if entry else 0)
        elif value == entry.last:
            entry.stays, entry.quiet = entry.stays + 1, entry.quiet + 1
            if entry.noise and entry.quiet >= QUIET:
                state[address] = Field(lost=entry.lost + 1)
            elif not entry.noise:
                entry.changes = entry.stays = 0
        else:
            entry.changes, entry.quiet, entry.last = entry.changes + 1, 0, value
            if not entry.stays and entry.changes >= CHANGES_OF_CLOCKS * 2**entry.lost:
                entry.noise = True
    return state, [a for a in fields if a in state and state[a].noise]


def seen_unchanged(state: State) -> State:
    """A visit found the very same bytes: no candidate changed, and noise was quiet once more."""
    kept: State = {}
    for address, before in state.items():
        entry = msgspec.structs.replace(before)
        if entry.last is not None:
            entry.quiet += 1
        if entry.last is not None and not entry.noise:
            entry.stays += 1
            if address.startswith("@"):
                entry.changes = entry.stays = 0
            elif entry.stays > entry.changes + PATIENCE:
                entry = Field(lost=entry.lost)
        if entry.last is not None or entry.lost:
            kept[address] = entry
    return kept


def describe(state: State) -> list[dict[str, Any]]:
    """The learned noise, for people: address, what stays of the line, how often it changed."""
    return [
        {"address": address, "form": entry.form or MASK, "changes": entry.changes}
        for address, entry in sorted(state.items())
        if entry.noise
    ]


def learned_noise(previous: Previous | None) -> list[dict[str, Any]]:
    """The fields of a source that were learned to be noise, for people.

    To watch a field all the same, put its address into `Rules.keep`.
    """
    return describe(known_noise(previous.memory)) if previous else []


# -- one field ------------------------------------------------------------------------------------


def _drop(state: State, address: str) -> None:
    """No longer a candidate, or no longer noise: then it is harder to become noise again."""
    entry = state.pop(address)
    if lost := entry.lost + entry.noise:
        state[address] = Field(lost=lost)


def _make_room(state: State) -> None:
    """What has varied for long and was not taken for noise is content: stop following it."""
    if len(state) >= MOST_FIELDS:
        for address, entry in list(state.items()):
            settled = entry.last is None or entry.changes >= 2 * CHANGES_OF_WORDS
            if settled and not entry.noise:
                del state[address]


def _has_digit(line: str) -> bool:
    return any(character.isdigit() for character in line)


def _candidate(line: str, lost: int = 0) -> Field:
    digest = short_digest(line)
    entry = Field(changes=1, last=line, seen=[digest[:8]], lost=lost)
    if len(line) > LONGEST_LINE:
        entry.last, entry.form = digest, MASK
    return entry


def _follow(entry: Field, line: str) -> Field | None:
    """The field after one more visit. None: it is not, or no longer, one that varies."""
    if entry.last is None:
        return entry  # it stopped being noise earlier: wait until it changes again
    digest = short_digest(line)
    limit = QUIET_ROTATION if entry.back > 1 else QUIET
    if entry.last in {line, digest}:
        entry.stays += 1
        entry.quiet += 1
        varies = entry.quiet < limit if entry.noise else entry.stays <= entry.changes + PATIENCE
        return entry if varies else None
    if entry.noise and entry.quiet >= limit:
        return None  # it had settled, while the bytes were the same and nobody looked
    mark = digest[:8]
    entry.back += mark in entry.seen
    entry.seen = [*(one for one in entry.seen if one != mark), mark][-8:]
    form, clock = _form(entry, line)
    if entry.noise and form is None:
        # Another sort of change in a masked line: it is reported, and learned anew.
        return msgspec.structs.replace(_candidate(line, entry.lost), seen=entry.seen)
    if form is None:
        form, clock = MASK, False
    entry.changes += 1
    entry.quiet = 0
    entry.form, entry.clock = form, clock
    keeps_words = form != MASK and not entry.noise and len(line) <= LONGEST_LINE
    entry.last = line if keeps_words else digest
    return entry


def _form(entry: Field, line: str) -> tuple[str | None, bool]:
    """What stays of the line, and whether all that varies looks like a clock or a token.

    None: the line does not fit what was learned of it.
    """
    words = line.split(" ")
    form = entry.form
    if form == MASK:
        return MASK, False
    if entry.noise:
        kept = form.split(" ") if form else []
        fits = len(kept) == len(words) and all(
            (_is_volatile(word) or not entry.clock) if stays == MASK else stays == word
            for stays, word in zip(kept, words, strict=False)
        )
        return (form, bool(entry.clock)) if fits else (None, False)
    last = (form or entry.last or "").split(" ")
    if len(last) != len(words):
        return MASK, False
    varied = [
        MASK if old in {MASK, ""} or old != new else new
        for old, new in zip(last, words, strict=True)
    ]
    clock = entry.clock is not False and all(
        _is_volatile(new) for stays, new in zip(varied, words, strict=True) if stays == MASK
    )
    if all(word == MASK for word in varied):
        return (MASK if not clock else " ".join(varied)), clock
    return " ".join(varied), clock


def _is_volatile(word: str) -> bool:
    """Numbers, dates, clocks, hexadecimal and random tokens; not a word of a language."""
    word = word.strip(_EDGES)
    if not word or any(character.isdigit() for character in word):
        return True
    return word.lower() in _CLOCK_WORDS or (len(word) >= 16 and _looks_random(word))


_RUNS = re.compile(r"[A-Z]+|[a-z]+|[^A-Za-z]+")


def _looks_random(word: str) -> bool:
    return len(_RUNS.findall(word)) > len(word) / 4


def _decide(state: State, fields: dict[str, str], addresses: list[str]) -> None:
    """Candidates that have varied long enough become noise, the smallest first."""
    total = sum(len(fields[address]) for address in addresses)
    here = [(address, entry) for address, entry in state.items() if address in fields]
    masked = sum(_size(entry, fields[address]) for address, entry in here if entry.noise)
    ready = [
        address
        for address, entry in here
        if not entry.noise and _is_ready(entry, address, fields[address])
    ]
    for address in sorted(ready, key=lambda address: len(fields[address])):
        entry = state[address]
        size = _size(entry, fields[address])
        if masked + size <= LARGEST_SHARE * total:
            masked += size
            entry.noise = True
            entry.last = short_digest(fields[address])
            if entry.clock:
                entry.form = _whole_clock(entry.form or MASK)


def _whole_clock(form: str) -> str:
    """Mask the slow parts of a clock with the fast ones: in `Nov 10 ▒ UTC` the day varies too."""
    words = form.split(" ")
    for order in (range(len(words)), range(len(words) - 1, -1, -1)):
        beside = False
        for i in order:
            if words[i] == MASK:
                beside = True
            elif beside and _is_volatile(words[i]):
                words[i] = MASK
            else:
                beside = False
    return " ".join(words)


def _size(entry: Field, line: str) -> int:
    """How many characters of a line are masked."""
    form = entry.form or MASK
    if form == MASK:
        return len(line)
    words = zip(form.split(" "), line.split(" "), strict=False)
    return sum(len(word) for stays, word in words if stays == MASK)


def _is_ready(entry: Field, address: str, line: str) -> bool:
    changes, stays, harder = entry.changes, entry.stays, 2**entry.lost
    if not stays and changes >= harder * _changes_needed(entry, address, line):
        return True
    values, returns = len(entry.seen), entry.back
    rotates = changes >= harder * CHANGES_OF_ROTATION and returns >= 2 and values >= 3
    # Two values that take turns may be news (in stock, out of stock): ask for more.
    takes_turns = changes >= harder * 2 * CHANGES_OF_CLOCKS and returns >= 4
    return bool((rotates or takes_turns) and changes >= 0.4 * (changes + stays))


_ADVERT_PLACE = re.compile(
    r"(^|[#./_-])(ads?|advert\w*|sponsor\w*|promo\w*|banner\w*)([#./\[_-]|\d|$)", re.IGNORECASE
)
_CLOCK_OR_TOKEN = re.compile(
    r"\d:\d\d|\d{4}-\d\d|\d[./]\d{1,2}[./]\d\d|\d{9}"  # clocks, dates, seconds since 1970
    r"|(?=\w*\d)(?=\w*[A-Za-z])[\w-]{8,}"  # letters and figures mixed
)


def _changes_needed(entry: Field, address: str, line: str) -> int:
    """How sure we must be. What looks like news (words, prices) needs more than a clock."""
    if not entry.clock or entry.form is None:
        return CHANGES_OF_NUMBERS if _ADVERT_PLACE.search(address) else CHANGES_OF_WORDS
    words = line.split(" ")
    varied = [
        word for stays, word in zip(entry.form.split(" "), words, strict=False) if stays == MASK
    ]
    if all(_CLOCK_OR_TOKEN.search(word) or not _has_digit(word) for word in varied):
        return CHANGES_OF_CLOCKS
    of_time = any(word.strip(_EDGES).lower() in _CLOCK_WORDS for word in words)
    return CHANGES_OF_CLOCKS if of_time else CHANGES_OF_NUMBERS


# -- masking --------------------------------------------------------------------------------------


def _mask(
    document: Document,
    addresses: list[str],
    fields: dict[str, str],
    old_lines: list[str],
    state: State,
    before: dict[str, str | None],
    settled: list[str],
) -> LearnedNoise:
    lines: list[str] = []
    ignored: list[str] = []
    old = list(old_lines)
    digests: dict[str, int] | None = None
    for address in addresses:
        line, entry = fields[address], state.get(address)
        if entry is None or not entry.noise:
            lines.append(line)
            continue
        masked = _masked(line, entry, document.kind)
        if masked is None:
            lines.append(line)
            continue
        ignored.append(address)
        if masked:
            lines.append(masked)
        if masked and masked in old:
            continue
        # The old text still shows this field, unmasked: mask it there as well.
        last = before.get(address)
        place = None
        if last is not None and last in old:
            place = old.index(last)
        elif last is not None:
            digests = digests or {short_digest(text): i for i, text in enumerate(old)}
            place = digests.get(last)
            if place is not None and (place >= len(old) or short_digest(old[place]) != last):
                place = next((i for i, text in enumerate(old) if short_digest(text) == last), None)
        if place is None and masked and entry.form not in {None, MASK}:
            place = next(
                (i for i, text in enumerate(old) if _masked(text, entry, document.kind) == masked),
                None,
            )
        if place is not None:
            old[place : place + 1] = [masked] if masked else []
            digests = None
    return LearnedNoise(lines, old, state, ignored, settled)


_JSON_LINE = re.compile(r'(\s*(?:"(?:[^"\\]|\\.)*": )?)(.*?)(,?)', re.DOTALL)


def _masked(line: str, entry: Field, kind: str) -> str | None:
    """The line with its noise masked; "" when all of it is noise, None when it does not fit."""
    form = entry.form or MASK
    if kind == "json":
        match = _JSON_LINE.fullmatch(line)
        if match is None or match[2] in {"{", "[", "}", "]"}:
            return None
        return f'{match[1]}"{MASK}"{match[3]}'
    if form == MASK:
        return ""
    kept, words = form.split(" "), line.split(" ")
    if len(kept) != len(words):
        return None
    for stays, word in zip(kept, words, strict=True):
        if stays == MASK:
            if entry.clock and word != MASK and not _is_volatile(word):
                return None
        elif stays != word:
            return None
    return form


def _numbered(document: Document) -> dict[str, str]:
    """Two lines at one address (text before and after a child): the second is numbered."""
    fields: dict[str, str] = {}
    counts: dict[str, int] = {}
    for address, line in zip(document.addresses, document.lines, strict=True):
        place = counts[address] = counts.get(address, 0) + 1
        fields[f"{address}({place})" if place > 1 else address] = line
    return fields
