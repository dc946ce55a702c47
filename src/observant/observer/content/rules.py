"""What a user may say about one source: where to look, what to overlook, what counts as a change.

`Rules` is a plain value that can stand in a config file. Bad rules are refused when they are
made, with the rule named, never at the hundredth visit.
"""

import functools
import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, Literal, get_args

import msgspec

from observant.errors import InputError
from observant.observer import bounds
from observant.observer.content.document import Document, short_digest
from observant.observer.content.numbers import parse_condition
from observant.observer.content.pictures import parse_box
from observant.observer.content.record import STRUCTURE, Difference
from observant.units import counted

Change = Literal["bytes", "text", "structure", "magnitude", "columns", "query", "visual"]
CHANGES: tuple[str, ...] = get_args(Change)

LONGEST_EXPRESSION = 2_000
MOST_EXPRESSIONS = 200
"""Of one list: every one is compiled, and all of them are tried at every visit."""
MOST_REPEATS = 100_000
SELECTORS = ("css", "xpath", "jsonpath", "jmespath", "regex")


class Rules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selection, noise and definition of change for one source.

    >>> Rules(css="#price", ignore=("updated at .*",)).version == Rules(css="#price").version
    False
    >>> Rules(css="#price[")
    Traceback (most recent call last):
    observant.errors.InputError: css: this is not a CSS selector: '#price[' ...
    """

    kind: Literal["auto", "html", "json", "xml", "text"] = "auto"
    """How to read the body; "auto" asks its type and its first bytes."""

    css: str | None = None
    xpath: str | None = None
    jsonpath: str | None = None
    jmespath: str | None = None
    regex: str | None = None
    """After the other selections: keep what matches (its first group when it has one)."""

    drop: tuple[str, ...] = ()
    """CSS selectors of parts that do not count."""
    ignore: tuple[str, ...] = ()
    """Regular expressions of text that does not count."""
    whitespace: bool = False
    """True: white space counts. It is folded otherwise."""
    sort_lines: bool = False
    unique_lines: bool = False

    change: Change = "text"
    """What counts: any byte; the normalised text; the structure (`attributes`); a magnitude of at
    least `threshold`; more than `columns` columns of a record; a magnitude weighted by the terms
    of `query`; how it looks in a browser, where at least the share `threshold` of it differs."""
    threshold: float = 0.0
    masks: tuple[str, ...] = ()
    """For "visual": what does not count, by CSS selectors or boxes, "x y width height"."""
    tolerance: int = 2
    """For "visual": pixels by which parts may have moved."""
    columns: int = 0
    """For "columns": so many may differ before it counts (Cho, section 2)."""
    attributes: tuple[str, ...] = ()
    """For "structure": these attributes of the record only, e.g. num_links and link_hash."""
    query: dict[str, float] = {}
    """Terms that matter and how much, e.g. {"bayesian": 2, "network": 1}."""
    other_terms: float = 0.0
    """The weight of all other terms under "query"."""
    terms: Literal["words", "stems", "phrases"] = "words"
    """What a magnitude counts: words, words without their plural (English), or words and pairs of
    words that stand side by side."""

    confirm: int = 0
    """So many further visits must see the same change before it is reported."""
    learn_noise: bool = True
    keep: tuple[str, ...] = ()
    """Addresses of fields that are never noise, as the list of learned noise shows them."""
    conditions: tuple[str, ...] = ()
    """What is told when it comes true, such as "below 50", "price at least 10" or "in stock"."""

    def __post_init__(self) -> None:
        chosen = [name for name in SELECTORS[:4] if getattr(self, name)]
        if len(chosen) > 1:
            raise InputError(f"choose one of {' and '.join(chosen)}: a source has one selection")
        for name in SELECTORS:
            check_expression(name, getattr(self, name))
        for name in ("drop", "ignore", "masks", "attributes", "conditions"):
            bounds.several(name, getattr(self, name), MOST_EXPRESSIONS)
        bounds.several("keep", self.keep, 10_000)
        for expression in self.drop:
            check_expression("css", expression, named="drop")
        for expression in self.ignore:
            check_expression("regex", expression, named="ignore")
        if sum(map(_written_out, self.ignore)) > MOST_REPEATS:
            raise InputError(f"ignore: these repeat too much (more than {MOST_REPEATS:,} parts)")
        if self.change not in CHANGES:
            raise InputError(f"change: {self.change!r} is none of {', '.join(CHANGES)}")
        if not 0 <= self.threshold <= 1:
            raise InputError(f"threshold: {self.threshold} is not between 0 and 1")
        if not 0 <= self.tolerance <= 4:
            raise InputError(f"tolerance: {self.tolerance} is not between 0 and 4 pixels")
        for mask in self.masks:
            if parse_box(mask) is None:
                check_expression("css", mask, named="masks")
        if self.columns < 0:
            raise InputError(f"columns: {self.columns} is below 0")
        bounds.number("columns", self.columns, 0)
        if not 0 <= self.confirm <= 10:
            raise InputError(f"confirm: {self.confirm} is not between 0 and 10 further visits")
        bounds.weights("query", self.query)
        bounds.number("other_terms", self.other_terms, 0, bounds.HEAVIEST)
        if self.change == "query" and not self.query:
            raise InputError('query: change = "query" needs the terms that matter')
        for condition in self.conditions:
            parse_condition(condition)
        if self.attributes:
            from observant.observer.content.record import ATTRIBUTES

            unknown = sorted(set(self.attributes) - set(ATTRIBUTES))
            if unknown:
                raise InputError(
                    f"attributes: {', '.join(unknown)} is none of {', '.join(ATTRIBUTES)}"
                )

    @property
    def selects(self) -> bool:
        return any(getattr(self, name) for name in SELECTORS)

    @property
    def css_masks(self) -> list[str]:
        """Masks that are not boxes: a browser covers them."""
        return [mask for mask in self.masks if parse_box(mask) is None]

    @property
    def expressions(self) -> bool:
        """Whether anything of the user's is evaluated on the page."""
        return self.selects or bool(self.drop or self.ignore)

    @property
    def version(self) -> str:
        """Changes with everything that shapes the text, and with nothing else.

        Validators and snapshots of another version cannot be compared with: the next request must
        be unconditional.
        """
        return _version(
            msgspec.json.encode(
                [
                    self.kind,
                    *(getattr(self, name) for name in SELECTORS),
                    self.drop,
                    self.ignore,
                    self.whitespace,
                    self.sort_lines,
                    self.unique_lines,
                    self.change == "bytes",
                    *([self.masks] if self.change == "visual" else ()),
                ]
            )
        )


@functools.lru_cache(maxsize=1024)
def read_rules(packed: bytes) -> Rules:
    """Rules from JSON; many sources have the same ones."""
    return msgspec.json.decode(packed, type=Rules)


@functools.lru_cache(maxsize=4096)
def _version(shape: bytes) -> str:
    return short_digest(shape)


def check_expression(language: str, expression: str | None, *, named: str | None = None) -> None:
    if expression is None:
        return
    name = named or language
    if not expression.strip() or len(expression) > LONGEST_EXPRESSION:
        raise InputError(f"{name}: empty, or longer than {LONGEST_EXPRESSION:,} characters")
    from observant.observer.content import selection

    try:
        selection.COMPILERS[language](expression)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


_REPEAT = re.compile(r"\{(\d+)(?:,\d*)?\}")
_CLASS = re.compile(r"\[\^?\]?(?:[^\]\\]|\\.)*\]", re.DOTALL)


def _written_out(expression: str) -> int:
    r"""About how many parts a regular expression has once ``{n}`` is written out: (a{9}){9} has 81.

    Compiling does that, whatever memory it takes.

    >>> _written_out("(a{9}){9}") > 81, _written_out(r"[{9}]\{9}x*") < 9
    (True, True)
    """
    sizes, last, place = [0], 0, 0
    while place < len(expression):
        character = expression[place]
        repeat = _REPEAT.match(expression, place) if character == "{" else None
        cluster = _CLASS.match(expression, place) if character == "[" else None
        place = (repeat or cluster).end() if repeat or cluster else place + 1  # type: ignore[union-attr]
        if character == "(":
            sizes.append(0)
            continue
        if repeat:
            times = min(int(repeat[1][:9]), 10**9)
            added = last * max(times - 1, 0)
            last += added
        elif character == ")" and len(sizes) > 1:
            added = last = 1 + sizes.pop()
        else:
            place += character == "\\"
            added = last = 1
        sizes[-1] += added
        if sizes[-1] > MOST_REPEATS:
            break
    return max(sizes)


def compiled_pattern(expression: str) -> Any:
    """A regular expression of the user's, to be run only with a time limit."""
    import regex

    if _written_out(expression) > MOST_REPEATS:
        raise InputError(
            f"this regular expression repeats too much: {expression!r} (it would be written out to "
            f"more than {MOST_REPEATS:,} parts)"
        )
    try:
        return regex.compile(expression, regex.MULTILINE | regex.VERSION0)
    except (regex.error, OverflowError, RecursionError) as error:
        raise InputError(f"this is not a regular expression: {expression!r} ({error})") from None


def ignoring(text: str, before: str = "", page: str = "") -> list[str]:
    """Regular expressions for `Rules.ignore`: these lines, whatever numbers they have.

    With the lines of `before`, words that differ from them may be any, too. A part of a line of the
    `page` is left out wherever it stands; without a letter, it stands for the whole line.

    >>> ignoring("Updated at 12:04", "Updated at 12:03")
    ['^Updated\\\\s+at\\\\s+\\\\d+:\\\\d+$']
    >>> ignoring("Hello Ada", "Hello Bob"), ignoring("Ada", "Bob")
    (['^Hello\\\\s+\\\\S+$'], ['^Ada$'])
    >>> page = "Seen 12 times today"
    >>> ignoring("12 times", page=page), ignoring("12", page=page)
    (['\\\\d+\\\\s+times'], ['^Seen\\\\s+\\\\d+\\\\s+times\\\\s+today$'])
    """
    lines, old = text.split("\n"), before.split("\n")
    old = old if len(old) == len(lines) else [""] * len(lines)
    there = page.split("\n") if page else []
    found = []
    for given, other in zip(lines, old, strict=True):
        line = given.strip()
        part = bool(there and line) and line not in there
        if part and not any(character.isalpha() for character in line):
            line = next((whole for whole in there if line in whole), line)
            part = False
        words, others = line.split(), other.split()
        others = others if len(others) == len(words) else words
        exact = [re.sub(r"\d+", r"\\d+", re.escape(word)) for word in words]
        loose = [
            one if word == was or r"\d" in one else r"\S+"
            for one, word, was in zip(exact, words, others, strict=True)
        ]
        if exact:
            pattern = r"\s+".join(loose if {*loose} != {r"\S+"} else exact)
            found.append(pattern if part else f"^{pattern}$")
    return list(dict.fromkeys(found))


# -- What counts as a change, and what as an appearance or a disappearance ------------------------


GONE_STATUSES = frozenset({404, 410})
WHOLESALE = 0.7
"""Brewington's figure 3.14: appearances and disappearances lie at a magnitude near 1."""

_NOT_FOUND = re.compile(
    r"\b(404|410|(page|file|document|site|content|resource)?\s*(was |could )?not (be )?found"
    r"|(page|content) (does not|doesn.t|no longer) exists?|no longer available|nicht gefunden"
    r"|introuvable|no encontrad[ao]|non trovat[ao]|niet gevonden|não encontrad[ao])\b",
    re.IGNORECASE,
)
_TROUBLE = re.compile(
    r"\b(50[0234]|(internal )?server error|service unavailable|bad gateway|gateway time-?out"
    r"|temporarily unavailable|down for maintenance|under maintenance|access denied|forbidden"
    r"|too many requests|error establishing a database connection|attention required"
    r"|just a moment|are you (a )?(human|robot)|captcha)\b",
    re.IGNORECASE,
)


def judge(
    rules: Rules,
    bytes_differ: bool,
    text_differs: bool,
    attributes: tuple[str, ...],
    difference: Difference,
    columns: tuple[str, ...] = (),
) -> bool:
    """Whether what differs is a change, by this source's definition.

    >>> small = Difference(angle=0.01, distance=1.4, magnitude=0.05)
    >>> judge(Rules(change="magnitude", threshold=0.1), True, True, (), small)
    False
    """
    if rules.change == "bytes":
        return bytes_differ
    if rules.change == "structure":
        return bool(set(attributes) & set(rules.attributes or STRUCTURE))
    if rules.change == "visual":
        return difference.magnitude > 0 and difference.magnitude >= rules.threshold
    if rules.change in {"magnitude", "query"}:
        return text_differs and difference.magnitude > 0 and difference.magnitude >= rules.threshold
    if rules.change == "columns":
        return len(columns) > rules.columns
    return text_differs


_COLUMN = re.compile(r' ("(?:[^"\\]|\\.)*"): ')


def changed_columns(old: Sequence[str], new: Sequence[str]) -> tuple[str, ...]:
    """Columns of a record that differ: members of a JSON object; of any other text, its lines.

    >>> old, new = (["{", ' "a": 1,', f' "b": {b}', "}"] for b in (2, 3))
    >>> changed_columns(old, new)
    ('b',)
    """
    before, after = _columns(old), _columns(new)
    if before is None or after is None:
        pairs = zip_longest(old, new)
        return tuple(f"line {n}" for n, (a, b) in enumerate(pairs, 1) if a != b)
    return tuple(key for key in {**before, **after} if before.get(key) != after.get(key))


def _columns(lines: Sequence[str]) -> dict[str, list[str]] | None:
    """The lines of each member of the object that these lines are, by its key."""
    if lines[:1] != ["{"]:
        return None
    found: dict[str, list[str]] = {}
    key = ""
    for line in lines[1:-1]:
        match = _COLUMN.match(line)
        if match:
            key = match[1][1:-1]
        found.setdefault(key, []).append(line.rstrip(","))
    return found


def describe_change(
    rules: Rules,
    difference: Difference,
    attributes: tuple[str, ...],
    old: dict[str, Any],
    new: dict[str, Any],
    columns: tuple[str, ...] = (),
    what: str = "text",
) -> str:
    """One sentence for people: why this counted; of what is no text, nobody counts the words."""
    if rules.change == "structure":
        names = [name for name in attributes if name in (rules.attributes or STRUCTURE)]
        parts = [
            f"{name} {old.get(name)} → {new.get(name)}" if name.startswith("num_") else name
            for name in names
        ]
        return f"the structure changed: {', '.join(parts)}"
    if rules.change == "bytes":
        return "the bytes changed"
    if rules.change == "columns":
        some = ", ".join(columns[:5]) + (", …" if len(columns) > 5 else "")
        return (
            f"{counted(len(columns), 'column')} changed ({some}), more than {rules.columns} count"
        )
    share = _percent(difference.magnitude)
    if rules.change == "visual":
        return f"{share} of the picture changed"
    if rules.change in {"magnitude", "query"}:
        return f"the text changed by {share}, at least {_percent(rules.threshold)} counts"
    return f"the text changed by {share}" if what == "text" else f"the {what} changed"


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


def error_page(
    document: Document, old_record: dict[str, Any], difference: Difference, smaller: bool
) -> Literal["not-found", "trouble"] | None:
    """Whether a page with a good status is really an error page.

    Modest on purpose. All of these must hold: the title or first heading says so, the last good
    version's title did not, nearly everything changed, and the new text is less than half the old.

    >>> page = Document("html", title="404 Not Found")
    >>> error_page(page, {"title": "News"}, Difference(1.0, 30.0, 1.0), smaller=True)
    'not-found'
    >>> error_page(page, {"title": "What 404 means"}, Difference(1.0, 30.0, 1.0), smaller=True)
    """
    if difference.magnitude < WHOLESALE or not smaller:
        return None
    said = f"{document.title}\n{document.heading}"[:300]
    before = str(old_record.get("title", ""))
    if _NOT_FOUND.search(said) and not _NOT_FOUND.search(before):
        return "not-found"
    if _TROUBLE.search(said) and not _TROUBLE.search(before):
        return "trouble"
    return None
