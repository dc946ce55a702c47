"""Bounds of settings: what no use of them could survive is refused where they are made.

The structs of `observant.observer.config` check themselves with these when they are made, so every
way in (file, environment, flag, page, API, import, restore) refuses the same, and a configuration
that exists can be used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from observant.errors import InputError, UnitError
from observant.times import DAY
from observant.units import format_duration, parse_budget, parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sized

LONGEST = 365_250.0
"""Days: a thousand years. More would leave what databases and calendars can count."""
LARGEST = 2**31 - 1
"""Of anything that is counted; what libcurl and databases take everywhere."""
HEAVIEST = 10**9
"""Of weights, which are squared and added up."""
SECOND = 1 / DAY
_LEAST_BUDGET, _MOST_BUDGET = 1 / LONGEST, 1e6 * DAY


def duration(
    name: str, value: str | float, *, least: float = 0.0, most: float = LONGEST, above: bool = False
) -> float:
    """Days of a duration within bounds; `above` refuses the lower bound itself.

    >>> duration("grace", "6h")
    0.25
    >>> duration("max_period", 0, above=True)
    Traceback (most recent call last):
        ...
    observant.errors.InputError: max_period must be longer than 0s, not 0
    """
    try:
        days = parse_duration(value)
    except UnitError as error:
        raise InputError(f"{name}: {error}") from error
    if days < least or (above and days == least):
        kind = "longer than" if above else "at least"
        raise InputError(f"{name} must be {kind} {format_duration(least)}, not {value}")
    if days > most:
        raise InputError(f"{name} must be at most {format_duration(most)}, not {value}")
    return days


def budget(value: str | float) -> float:
    """Visits per day of a budget that a schedule can keep to."""
    try:
        per_day = parse_budget(value)
    except UnitError as error:
        raise InputError(f"budget: {error}") from error
    if not _LEAST_BUDGET <= per_day <= _MOST_BUDGET:
        raise InputError(f"a budget lies between 1/1000y and 1000000/s, not {value}")
    return per_day


def number(name: str, value: float, least: float, most: float = LARGEST) -> None:
    """Refuse a number out of bounds."""
    if not least <= value <= most:
        shown = "a number that is longer than this line" if abs(value) > 1e18 else f"{value:g}"
        raise InputError(f"{name} must be between {least:,} and {most:,}, not {shown}")


def several(name: str, values: Sized, most: int) -> None:
    """Refuse a list that is too long: it is gone through at every visit.

    >>> several("drop", ["aside"] * 300, 200)
    Traceback (most recent call last):
        ...
    observant.errors.InputError: drop: at most 200, not 300
    """
    if len(values) > most:
        raise InputError(f"{name}: at most {most:,}, not {len(values):,}")


def weights(name: str, terms: Mapping[str, float]) -> None:
    """Refuse weights of terms that cannot be added up, or too many of them.

    >>> weights("query", {"bees": -1})
    Traceback (most recent call last):
        ...
    observant.errors.InputError: query: bees must be between 0 and 1,000,000,000, not -1
    """
    several(name, terms, 10_000)
    for term, weight in terms.items():
        number(f"{name}: {term}", weight, 0, HEAVIEST)
