"""A rate that is constant for a while, then another: Singh's windows as a process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError
from observant.processes.base import not_negative, positive
from observant.processes.intensity import NonStationary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from observant.arrays import Floats


@dataclass(frozen=True)
class Piecewise(NonStationary):
    """Rate rates[i] from starts[i] to the next start; the last rate holds for ever.

    >>> project = Piecewise(starts=(0, 30, 60), rates=(2, 0, 0.5))
    >>> project.cumulative(80.0), project.intensity(45.0)
    (70.0, 0.0)
    """

    starts: Sequence[float]
    rates: Sequence[float]

    def __post_init__(self) -> None:
        starts = tuple(not_negative("Piecewise: a start", start) for start in self.starts)
        rates = tuple(not_negative("Piecewise: a rate", rate) for rate in self.rates)
        if not starts or len(starts) != len(rates) or starts[0] != 0:
            raise InputError("Piecewise: give one rate for each start, and 0 as the first start")
        if (np.diff(starts) <= 0).any():
            raise InputError("Piecewise: starts must increase")
        object.__setattr__(self, "starts", starts)
        object.__setattr__(self, "rates", rates)

    def scaled(self, factor: float) -> Piecewise:
        by = positive("factor", factor)
        return Piecewise(
            tuple(start * by for start in self.starts), tuple(rate / by for rate in self.rates)
        )

    @cached_property
    def _pieces(self) -> tuple[Floats, Floats, Floats]:
        starts, rates = np.array(self.starts), np.array(self.rates)
        reached = np.concatenate([[0.0], np.cumsum(np.diff(starts) * rates[:-1])])
        return starts, rates, reached

    def _intensity(self, t: Floats) -> Floats:
        starts, rates, _ = self._pieces
        return rates[np.searchsorted(starts, t, side="right") - 1]

    def _cumulative(self, t: Floats) -> Floats:
        starts, rates, reached = self._pieces
        piece = np.searchsorted(starts, t, side="right") - 1
        return reached[piece] + rates[piece] * (t - starts[piece])

    def _inverse(self, expected: Floats) -> Floats:
        starts, rates, reached = self._pieces
        # From the left, the piece found is one in which Λ rises: its rate is not zero.
        piece = np.maximum(np.searchsorted(reached, expected, side="left") - 1, 0)
        return starts[piece] + (expected - reached[piece]) / rates[piece]
