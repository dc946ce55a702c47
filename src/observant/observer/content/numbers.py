"""Numbers in texts, and conditions on them: "below 50", "price at most 1,299.00", "in stock"."""

from __future__ import annotations

import operator
import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from observant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Condition", "number_of", "parse_condition"]

_NUMBER = re.compile(r"[-−]?\d{1,30}(?:[.,'\u00a0\u202f ]\d{1,30}){0,10}")
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "below": operator.lt,
    "under": operator.lt,
    "<": operator.lt,
    "at most": operator.le,
    "<=": operator.le,
    "above": operator.gt,
    "over": operator.gt,
    ">": operator.gt,
    "at least": operator.ge,
    ">=": operator.ge,
}
_ON_A_NUMBER = re.compile(
    r"(?P<name>.*?)\s*\b(?P<how>below|under|at most|above|over|at least)\s+(?P<number>\S.*)"
    r"|(?P<name2>.*?)\s*(?P<how2><=|>=|<|>)\s*(?P<number2>\S.*)",
    re.IGNORECASE,
)
_STOCK = {
    "in stock": "in stock",
    "back in stock": "in stock",
    "out of stock": "out of stock",
    "sold out": "out of stock",
}
_LONGEST = 200
_TEXT = 1 << 20
"""Characters of a text in which numbers are looked for."""


class Condition(NamedTuple):
    """Something that a text can meet: a bound on a number, or words that it has or lacks."""

    text: str
    """As somebody wrote it."""
    name: str = ""
    """Which number: the first one in or after a line that begins so; the first of all if empty."""
    how: str = ""
    """One of the comparisons; "has" or "lacks" for words."""
    bound: float = 0.0
    words: str = ""

    def met_by(self, text: str) -> bool:
        """Whether a text meets it; a number that is not there meets nothing.

        >>> parse_condition("below 50").met_by("Price: 49,90 EUR")
        True
        >>> parse_condition("price below 50").met_by("rating: 5\\nprice: 1.299,00")
        False
        >>> parse_condition("back in stock").met_by("price: 10\\navailability: in stock")
        True
        """
        if self.how == "has":
            return self.words in text[:_TEXT].casefold()
        if self.how == "lacks":
            return self.words not in text[:_TEXT].casefold()
        found = number_of(text, self.name)
        return found is not None and _COMPARISONS[self.how](found, self.bound)


@lru_cache(maxsize=1000)
def parse_condition(text: str) -> Condition:
    """Read a condition as people write it.

    >>> parse_condition("price at most 1,299.00").bound
    1299.0
    >>> parse_condition("cheap")
    Traceback (most recent call last):
        ...
    observant.errors.InputError: 'cheap' is no condition; write 'below 50', 'price at least 10', ...
    """
    plain = " ".join(text.split())
    low = plain.casefold()
    if len(plain) > _LONGEST:
        raise InputError(f"a condition has at most {_LONGEST} characters")
    if low in _STOCK:
        return Condition(text, how="has", words=f"availability: {_STOCK[low]}")
    for word in ("has", "lacks"):
        if low.startswith(f"{word} "):
            return Condition(text, how=word, words=low.removeprefix(f"{word} "))
    found = _ON_A_NUMBER.fullmatch(plain)
    if found is not None:
        name, how, number = found.group("name", "how", "number")
        if how is None:
            name, how, number = found.group("name2", "how2", "number2")
        bound = number_of(number)
        if bound is not None:
            return Condition(text, name=name.casefold(), how=how.lower(), bound=bound)
    raise InputError(
        f"{text!r} is no condition; write 'below 50', 'price at least 10', 'in stock', "
        "'has sold out' or 'lacks sold out'"
    )


def number_of(text: str, name: str = "") -> float | None:
    """The first number of a text; with a name, that of the first line that begins with it, or of
    what follows.

    >>> number_of("now 1.299,50 EUR"), number_of("$1,299"), number_of("0.999"), number_of("none")
    (1299.5, 1299.0, 0.999, None)
    >>> number_of("rating 5\\nprice\\n12.00", "price")
    12.0
    """
    text = text[:_TEXT]
    if name:
        low = f"\n{text.casefold()}"
        place = low.find(f"\n{name}")
        if place < 0 or len(low) != len(text) + 1:
            return None
        text = text[place + len(name) :]
    found = _NUMBER.search(text)
    return None if found is None else _value(found[0])


def _value(written: str) -> float:
    """A number as it is written anywhere: the last separator is the decimal one, unless three
    digits follow it, which make it one of thousands.
    """
    text = re.sub(r"['\u00a0\u202f ]", "", written).replace("−", "-")
    last = max(text.rfind("."), text.rfind(","))
    if last < 0:
        return float(text)
    mark, whole, rest = text[last], text[:last], text[last + 1 :]
    other = "," if mark == "." else "."
    grouped = len(rest) == 3 and other not in whole and whole.lstrip("-") != "0"
    if grouped or mark in whole:
        whole, rest = whole + rest, ""
    whole = whole.replace(".", "").replace(",", "")
    return float(f"{whole}.{rest}" if rest else whole)
