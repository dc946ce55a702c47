"""What an option may be given: numbers, durations, budgets, names. A mistake names the option."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from observant.errors import InputError, UnitError
from observant.units import parse_budget, parse_duration, parse_rate

if TYPE_CHECKING:
    from collections.abc import Callable


class Choice(click.Choice):  # type: ignore[type-arg]  # generic since click 8.4
    """One of several names; a misspelt one is told the nearest."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        import difflib

        if value in self.choices:
            return value
        near = difflib.get_close_matches(str(value), self.choices, n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(self.choices)}"
        return self.fail(f"there is no {value!r}; {hint}", param, ctx)


class Integer(click.IntRange):
    """A whole number within limits."""

    name = "integer"


class Number(click.FloatRange):
    """A finite number within limits."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"must be a finite number, not {value}", param, ctx)
        return number


class Quantity(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """Something with a unit, read by a function of `observant.units`.

    With `text` it is only checked here, and handed on as it was written: where it is kept in a
    store, or where its meaning needs the number of sources.
    """

    def __init__(
        self, name: str, parse: Callable[[str], Any], *, text: bool = False, above: bool = False
    ) -> None:
        self.name, self._parse, self._text, self._above = name, parse, text, above

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            number = self._parse(value)
        except InputError as error:
            self.fail(str(error), param, ctx)
        if self._above and number == 0:
            self.fail(f"must be more than zero: {value!r}", param, ctx)
        return value if self._text else number

    def kept(self) -> Quantity:
        """The same, checked and kept as text."""
        return Quantity(self.name, self._parse, text=True, above=self._above)

    def above_zero(self) -> Quantity:
        """The same, but zero is refused."""
        return Quantity(self.name, self._parse, text=self._text, above=True)


def _budget(text: str) -> float:
    budget = parse_budget(text, sources=1)
    if budget > _LARGEST_BUDGET:
        raise UnitError(f"so many visits nobody can make: {text!r}; write for example 1000/day")
    return budget


def _durations(text: str) -> list[float]:
    days = [parse_duration(part) for part in text.split(",") if part.strip()]
    if not days:
        raise UnitError(f"there is no duration in {text!r}; write for example 0d,1d,7d")
    return days


def _rates(text: str) -> list[float]:
    rates = [parse_rate(part) for part in text.split(",") if part.strip()]
    if not rates:
        raise UnitError(f"there is no rate in {text!r}; write for example 0.1,1/7d")
    return rates


def _share(text: str) -> float:
    """Read 0.35 or 35%. A bare 35 could be either, so it is refused."""
    percent = text.strip().endswith("%")
    try:
        share = float(text.strip().removesuffix("%")) / (100 if percent else 1)
    except ValueError:
        share = -1.0
    if not 0 < share < math.inf or (share > 1 and not percent):
        raise UnitError(f"this is not a share: {text!r}; write for example 35% or 0.35")
    return share


def _size(text: str) -> int:
    from observant.batch import parse_size

    return parse_size(text)


def _zone(name: str) -> object:
    from observant.times import zone_of

    return zone_of(name)


def _network(text: str) -> object:
    from observant.observer.transport.guard import Guard

    return Guard([text])


_LARGEST_BUDGET = 1e15
"""Visits a day. What is above would be a number without digits to spare for one visit more."""

DURATION = Quantity("duration", parse_duration)
DURATIONS = Quantity("durations", _durations)
RATE = Quantity("rate", parse_rate)
RATES = Quantity("rates", _rates)
BUDGET = Quantity("budget", _budget, text=True)
SHARE = Quantity("share", _share)
SIZE = Quantity("size", _size)
ZONE = Quantity("zone", _zone, text=True)
NETWORK = Quantity("network", _network, text=True)
