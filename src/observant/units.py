"""Durations, rates and budgets, as people write them: ``90s``, ``6h``, ``1/7d``, ``1000/day``.

Inside observant a duration is a number of days and a rate a number per day, both float64.

>>> parse_duration("36h"), parse_rate("1/7d"), parse_budget("2/s")
(1.5, 0.14285714285714285, 172800.0)
>>> format_duration(1.5), format_duration(1 / 4320), format_rate(1 / 7)
('1.5d', '20s', '1/7d')
"""

from __future__ import annotations

import math
import re
from numbers import Real
from typing import TYPE_CHECKING, Any

from observant.errors import UnitError
from observant.language import N_
from observant.language import gettext as _
from observant.times import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "counted",
    "counts_cost",
    "duration_in_words",
    "format_duration",
    "format_rate",
    "format_share",
    "in_days",
    "parse_budget",
    "parse_duration",
    "parse_rate",
    "per_day",
    "rate_in_words",
]

# A month and a year are the mean ones of the Gregorian calendar.
_DAYS = {
    "us": 1e-6 * SECOND,
    "ms": 1e-3 * SECOND,
    "s": SECOND,
    "min": 60 * SECOND,
    "h": 1 / 24,
    "d": 1.0,
    "w": 7.0,
    "mo": 365.2425 / 12,
    "y": 365.2425,
}
_ALIASES = {
    **{name: name for name in _DAYS},
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("m", "mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
    **dict.fromkeys(("wk", "week", "weeks"), "w"),
    **dict.fromkeys(("month", "months"), "mo"),
    **dict.fromkeys(("yr", "year", "years"), "y"),
}
_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_UNSIGNED = _NUMBER.removeprefix("[+-]?")
_LONGEST = 200
"""Characters of a quantity: the patterns below would take long over endless spaces."""
_DURATION = re.compile(rf"({_UNSIGNED})?\s*([a-zA-Z]+)")
_RATE = re.compile(rf"\s*({_NUMBER})\s*(?:/\s*({_NUMBER})?\s*([a-zA-Z]+)\s*)?")
_EXAMPLES = "write for example 90s, 30min, 6h, 8.5d, 2w, or 1d12h"
_RATE_EXAMPLES = "write for example 0.3, 1/7d or 2/week"


_EACH = ("/source", "/page", "/url")
_COUNTED = re.compile(r"(?<=[\d.])\s*(visits?|cost)\s*(?=/|$)", re.IGNORECASE)
"""What a budget counts."""


def parse_duration(text: str | float) -> float:
    """Days in a duration. A bare number is taken as days; parts add up.

    >>> parse_duration("1d12h"), parse_duration("8.5"), parse_duration("week")
    (1.5, 8.5, 7.0)
    """
    number = _as_number(text)
    if number is not None:
        return _finite(number, text)
    if not isinstance(text, str):
        raise UnitError(f"this is not a duration: {text!r}; {_EXAMPLES}")
    stripped = text.strip()
    sign = -1 if stripped.startswith("-") else 1
    stripped = stripped[1:] if stripped[:1] in ("+", "-") else stripped
    days, end = 0.0, 0
    for part in _DURATION.finditer(stripped):
        if stripped[end : part.start()].strip():
            break
        count, unit = part.groups()
        if unit.lower() not in _ALIASES:
            raise UnitError(f"unknown unit {unit!r} in the duration {text!r}; {_EXAMPLES}")
        days += float(count or 1) * _DAYS[_ALIASES[unit.lower()]]
        end = part.end()
    if end == 0 or stripped[end:].strip():
        raise UnitError(f"this is not a duration: {text!r}; {_EXAMPLES}")
    return _finite(sign * days, text)


def parse_rate(text: str | float) -> float:
    """Events per day in a rate such as ``0.3`` (per day), ``1/7d``, ``2/week``.

    >>> parse_rate("0.3"), parse_rate("2/week"), parse_rate("3/2h")
    (0.3, 0.2857142857142857, 36.0)
    """
    number = _as_number(text)
    if number is not None:
        return _finite(number, text)
    match = _RATE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise UnitError(f"this is not a rate: {text!r}; {_RATE_EXAMPLES}")
    count, span, unit = match.groups()
    if unit.lower() not in _ALIASES:
        raise UnitError(f"unknown unit {unit!r} in the rate {text!r}; {_RATE_EXAMPLES}")
    days = float(span or 1) * _DAYS[_ALIASES[unit.lower()]]
    if not days:
        raise UnitError(f"the rate {text!r} divides by a duration of zero")
    return _finite(float(count) / days, text)


def parse_budget(text: str | float, sources: int | None = None) -> float:
    """Visits per day in a budget such as ``1000/day`` or ``2/s``; a bare number is per day.

    With the number of sources known, a budget may be for each of them. What it counts may be named:
    visits, or their cost (see `counts_cost`).

    >>> parse_budget("0.1/source/day", sources=3_000), parse_budget("5 cost/h")
    (300.0, 120.0)
    """
    if isinstance(text, str) and len(text) <= _LONGEST:
        text = _COUNTED.sub("", text, count=1)
        squeezed = text.replace(" ", "").lower()
        each = next((unit for unit in _EACH if unit in squeezed), None)
        if each is not None:
            if sources is None:
                raise UnitError(f"here a budget is for all sources together: {text!r}")
            return sources * parse_budget(squeezed.replace(each, "", 1))
    try:
        budget = parse_rate(text)
    except UnitError as error:
        raise UnitError(
            f"this is not a budget: {str(text)[:_LONGEST]!r}; write for example 1000/day or 2/s"
        ) from error
    if budget == 0:
        raise UnitError(f"a budget must be more than zero: {text!r}")
    return budget


def counts_cost(text: str | float) -> bool:
    """Whether a budget is one of cost, in which a plain visit counts 1 and others what they cost.

    >>> counts_cost("500 cost/h"), counts_cost("500/h")
    (True, False)
    """
    found = _COUNTED.search(text[:_LONGEST]) if isinstance(text, str) else None
    return found is not None and found[1].lower() == "cost"


def in_days(value: Any) -> Any:
    """Durations that may be text, alone or in a list; numbers and arrays stay as they are.

    >>> in_days("6h"), in_days(["6h", 2]), in_days(2.0)
    (0.25, [0.25, 2.0], 2.0)
    """
    return _read(value, parse_duration)


def per_day(value: Any) -> Any:
    """Rates that may be text, alone or in a list; numbers and arrays stay as they are.

    >>> per_day("1/4d"), per_day(["2/d", 1])
    (0.25, [2.0, 1.0])
    """
    return _read(value, parse_rate)


def _read(value: Any, parse: Callable[[str | float], float]) -> Any:
    if isinstance(value, str):
        return parse(value)
    if isinstance(value, list | tuple) and any(isinstance(one, str) for one in value):
        return [parse(one) for one in value]
    return value


def format_duration(days: float) -> str:
    """Write a duration with the unit a person would choose and three significant digits.

    >>> [format_duration(d) for d in (0.0, 0.5 / 24, 1 / 24, 3.0, 45.0, 400.0, float("inf"))]
    ['0s', '30min', '1h', '3d', '45d', '1.1y', 'never']
    """
    if math.isnan(days):
        return "?"
    if math.isinf(days):
        return "never"
    if days == 0:
        return "0s"
    for unit, up_to in (("ms", "s"), ("s", "min"), ("min", "h"), ("h", "d")):
        printed = abs(float(f"{days / _DAYS[unit]:.3g}"))
        whole = round(_DAYS[up_to] / _DAYS[unit])
        if printed == whole:  # 60 s is 1 min
            return f"{math.copysign(1, days):.0f}{up_to}"
        if printed < whole:
            return f"{_three_digits(days / _DAYS[unit])}{unit}"
    if abs(days) < _DAYS["y"]:
        return f"{_three_digits(days)}d"
    return f"{_three_digits(days / _DAYS['y'])}y"


_WORDS = (
    (365.25, N_("%(n)s years")),
    (30.4375, N_("%(n)s months")),
    (7.0, N_("%(n)s weeks")),
    (1.0, N_("%(n)s days")),
    (1 / 24, N_("%(n)s hours")),
)


def duration_in_words(days: float) -> str:
    """About how long, for people: whole numbers of the largest unit of which there are two.

    >>> [duration_in_words(d) for d in (0.0001, 0.02, 1.4, 2.0, 10, 45, 800)]
    ['a minute', '29 minutes', '34 hours', '2 days', '10 days', '6 weeks', '2 years']
    """
    for unit, words in _WORDS:
        if days >= 1.95 * unit:
            return _(words) % {"n": f"{days / unit:.0f}"}
    minutes = round(days * 1440)
    return _("%(n)s minutes") % {"n": minutes} if minutes > 1 else _("a minute")


def rate_in_words(
    per_day: float | None, low: float | None = None, high: float | None = None
) -> str:
    """How often, for people, with the bounds of the rate.

    >>> rate_in_words(1 / 1.42, 1 / 3, 1.0)
    'about every 34 hours (24 hours to 3 days)'
    >>> rate_in_words(1190, 45, 2000)
    'about every minute (a minute to 32 minutes)'
    >>> rate_in_words(None), rate_in_words(0.0)
    ('not known yet', 'never')
    """
    if per_day is None or math.isnan(per_day):
        return _("not known yet")
    if per_day <= 0:
        return _("never")
    span = {"span": duration_in_words(1 / per_day)}
    often = _("about every %(span)s") % span
    if span["span"] == _("a minute"):
        often = _("about every minute")
    bounds = [duration_in_words(1 / rate) for rate in (high, low) if rate]
    if len({*bounds}) < 2:
        return often
    within = {"often": often, "low": bounds[0], "high": bounds[1]}
    return _("%(often)s (%(low)s to %(high)s)") % within


def format_rate(per_day: float) -> str:
    """Write a rate as ``2.5/d`` when there is one a day or more, else as one per so long.

    >>> format_rate(2.5), format_rate(0.1), format_rate(0.0)
    ('2.5/d', '1/10d', '0')
    """
    if math.isnan(per_day):
        return "?"
    if math.isinf(per_day):
        return "∞"
    if per_day == 0 or math.isinf(1 / per_day):
        return "0"
    if per_day >= 1:
        return f"{_three_digits(per_day)}/d"
    return f"1/{format_duration(1 / per_day)}"


def format_share(share: float, digits: int = 1) -> str:
    """Write a share in hundredths.

    >>> format_share(0.7512), format_share(0.05, 0), format_share(float("nan"))
    ('75.1 %', '5 %', '?')
    """
    return "?" if math.isnan(share) else f"{100 * share:.{digits}f} %"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Write a number with its noun.

    >>> counted(1, "visit"), counted(1200, "date of modification", "dates of modification")
    ('1 visit', '1,200 dates of modification')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _three_digits(value: float) -> str:
    text = f"{value:.3g}"
    return f"{float(text):.0f}" if "e+" in text and abs(value) < 1e9 else text


def _as_number(text: object) -> float | None:
    """Read a number of any type, or a text that is nothing but a number."""
    if isinstance(text, bool):
        return None
    if isinstance(text, Real):
        try:
            return float(text)
        except OverflowError:
            return math.inf
    if isinstance(text, str) and len(text) > _LONGEST:
        raise UnitError(f"this is too long for a quantity: {text[:40]!r}…")
    if isinstance(text, str) and re.fullmatch(_NUMBER, text.strip()):
        return float(text.strip())  # float itself strips less
    return None


def _finite(value: float, text: object) -> float:
    if not math.isfinite(value) or value < 0:
        raise UnitError(f"must be a finite number, not negative: {_shown(text)}")
    return abs(value)  # of minus zero the zero


def _shown(text: object) -> str:
    try:
        shown = repr(text) if isinstance(text, str) else f"{text}"
    except ValueError:  # Python does not write whole numbers of thousands of digits
        return "a number too large to write"
    return shown if len(shown) <= 60 else f"{shown[:60]}..."
