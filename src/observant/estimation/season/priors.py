"""What a season may look like before anything was seen: smooth, and rather flat.

The logarithm η of the relative intensity is a Gaussian process on the clock. Neighbouring hours are
alike (a periodic Ornstein-Uhlenbeck kernel, which allows sharp edges such as the opening of an
office), the days of a week are alike, working days among themselves and weekends among themselves
more so. How far η strays from flat, and whether days differ at all, is chosen from the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from observant.estimation.season.wall_clock import WallClock

__all__ = ["SeasonPrior", "harmonic_priors", "smooth_priors"]

_STRENGTHS = (0.1, 0.4, 1.5, 6.0)
"""Candidate variances of η: a season of about ±35 %, a factor 2, 3.5, and more than 10."""


@dataclass(frozen=True, eq=False)
class SeasonPrior:
    """η = basis·β with β normal around 0. The columns of the basis add up to 0."""

    name: str
    basis: NDArray[np.float64]
    covariance: NDArray[np.float64]

    @property
    def precision(self) -> NDArray[np.float64]:
        return np.asarray(np.linalg.inv(self.covariance))


def smooth_priors(clock: WallClock) -> list[SeasonPrior]:
    """Candidates with a free value in every bin."""
    bins = clock.count
    level = np.full((bins, 1), bins**-0.5)
    # An orthonormal basis of everything that is orthogonal to flat.
    basis = np.linalg.qr(np.hstack([level, np.eye(bins)[:, :-1]]))[0][:, 1:]
    kernels: dict[str, NDArray[np.float64]]
    if clock.bins == "weekday":
        kernels = {"days": _days()}
    elif clock.bins == "hour-of-day":
        kernels = {"sharp": _hours(3.0), "smooth": _hours(10.0)}
    else:
        every, flat = np.ones((7, 7)), np.ones((24, 24))
        daily = np.kron(every, _hours(4.0))
        own = np.kron(_days(), _hours(4.0))
        kernels = {
            "every day alike": 0.98 * daily + 0.02 * own,
            "days differ": 0.4 * daily + 0.3 * np.kron(_days(), flat) + 0.3 * own,
        }
    return [
        SeasonPrior(f"{name}, variance {strength:g}", basis, strength * (basis.T @ kernel @ basis))
        for name, kernel in kernels.items()
        for strength in _STRENGTHS
    ]


def harmonic_priors(clock: WallClock, daily: int, weekly: int) -> list[SeasonPrior]:
    """Candidates with a few sines and cosines only: `daily` of a day, `weekly` of a week."""
    if clock.bins == "weekday":
        daily = 0
    if clock.bins == "hour-of-day":
        weekly = 0
    if not (0 <= daily <= 11 and 0 <= weekly <= 3 and daily + weekly > 0):
        raise InputError(
            "harmonics are a pair (daily, weekly) with 0 to 11 daily and 0 to 3 weekly ones, and "
            "at least one that the bins can show"
        )
    middle = (np.arange(clock.count) + 0.5) * clock.width
    turns = [(k / 1.0, 1 / k**2) for k in range(1, daily + 1)]
    turns += [(k / 7.0, 1 / k**2) for k in range(1, weekly + 1)]
    columns = [
        wave(2 * np.pi * per_day * middle) for per_day, _ in turns for wave in (np.cos, np.sin)
    ]
    share = np.repeat([part for _, part in turns], 2)
    return [
        SeasonPrior(
            f"harmonics {daily} daily {weekly} weekly, variance {strength:g}",
            np.stack(columns, axis=1),
            np.diag(strength * share),
        )
        for strength in _STRENGTHS
    ]


def _hours(length: float) -> NDArray[np.float64]:
    """Correlation of the hours of a day, falling by e in `length` hours, round the clock."""
    apart = np.abs(np.subtract.outer(np.arange(24.0), np.arange(24.0)))
    round_the_clock = np.cosh((apart - 12.0) / length)
    return np.asarray(round_the_clock / np.cosh(12.0 / length))


def _days() -> NDArray[np.float64]:
    """Correlation of the days of a week: working days are alike, and so are the weekend's."""
    weekend = np.arange(7) >= 5
    return np.asarray(0.4 * np.eye(7) + 0.6 * np.equal.outer(weekend, weekend))
