"""The shape of a season from windows, most of which only say "changed" or "not changed".

The model: source s changes at rate ℓ_s·θ(t), with θ constant in each bin of the clock. A window
with M = ℓ∫θ updates expected is unchanged with probability e^{−M}; a change dated d says that an
update fell into the bin of d and none after it. The likelihood is maximised over log θ by Fisher's
scoring with a smooth prior and over each ℓ on the way, and the prior is the
candidate with the largest marginal likelihood (Laplace). The EM of interval-censored Poisson
counts climbs the same likelihood; scoring arrives in a few steps where EM takes hundreds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError
from observant.estimation.evidence import CHANGED, DATED, Evidence
from observant.times import MICROSECONDS_PER_DAY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from observant.arrays import Flags, Floats, Integers
    from observant.estimation.season.wall_clock import WallClock
    from observant.visits import VisitLog


# -- What a season may look like before anything was seen: smooth, and rather flat ----------------
#
# The logarithm η of the relative intensity is a Gaussian process on the clock. Neighbouring hours
# are alike (a periodic Ornstein-Uhlenbeck kernel, which allows sharp edges such as the opening of
# an office), the days of a week are alike, working days among themselves and weekends among
# themselves more so. How far η strays from flat, and whether days differ at all, is chosen from the
# data.


_STRENGTHS = (0.1, 0.4, 1.5, 6.0)
"""Candidate variances of η: a season of about ±35 %, a factor 2, 3.5, and more than 10."""


@dataclass(frozen=True, eq=False)
class SeasonPrior:
    """η = basis·β with β normal around 0. The columns of the basis add up to 0."""

    name: str
    basis: Floats
    covariance: Floats

    @property
    def precision(self) -> Floats:
        return np.asarray(np.linalg.inv(self.covariance))


def smooth_priors(clock: WallClock) -> list[SeasonPrior]:
    """Candidates with a free value in every bin."""
    bins = clock.count
    level = np.full((bins, 1), bins**-0.5)
    # An orthonormal basis of everything that is orthogonal to flat.
    basis = np.linalg.qr(np.hstack([level, np.eye(bins)[:, :-1]]))[0][:, 1:]
    kernels: dict[str, Floats]
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


def _hours(length: float) -> Floats:
    """Correlation of the hours of a day, falling by e in `length` hours, round the clock."""
    apart = np.abs(np.subtract.outer(np.arange(24.0), np.arange(24.0)))
    round_the_clock = np.cosh((apart - 12.0) / length)
    return np.asarray(round_the_clock / np.cosh(12.0 / length))


def _days() -> Floats:
    """Correlation of the days of a week: working days are alike, and so are the weekend's."""
    weekend = np.arange(7) >= 5
    return np.asarray(0.4 * np.eye(7) + 0.6 * np.equal.outer(weekend, weekend))


_CHUNK = 4096  # sources whose crossing with the shape is held at once
_ITERATIONS = 60
_ENOUGH_TO_CHOOSE = 100_000  # windows


@dataclass(frozen=True, eq=False)
class ObservedWindows:
    """Comparisons with their place in time: the evidence of a log, and where each window lies."""

    clock: WallClock
    evidence: Evidence
    start: Floats
    """Days since 1970 UTC."""
    stop: Floats

    @classmethod
    def from_log(
        cls, log: VisitLog, clock: WallClock, *, use_dates: bool = True
    ) -> ObservedWindows:
        evidence = Evidence.from_log(log, use_dates=use_dates)
        rows = np.flatnonzero(log.succeeded)
        owner = np.searchsorted(log.offsets, rows, side="right")
        compared = np.zeros(len(rows), bool)
        compared[1:] = owner[1:] == owner[:-1]
        compared &= log.changed[rows] >= 0
        stop = log.time[rows[compared]] / MICROSECONDS_PER_DAY
        return cls(clock, evidence, stop - evidence.gaps, stop)

    @property
    def known(self) -> Floats:
        """Where the part of a window begins that is known to be quiet, when it was dated."""
        both = CHANGED | DATED
        dated = self.evidence.kind & both == both
        return np.where(dated, self.stop - self.evidence.ages, self.start)

    def select(self, sources: Flags) -> ObservedWindows:
        rows = np.repeat(sources, self.evidence.counts)
        return ObservedWindows(
            self.clock, self.evidence.select(sources), self.start[rows], self.stop[rows]
        )

    def thinned(self, most: int) -> ObservedWindows:
        """Every k-th window, so that at most `most` are left. Given the levels any set will do."""
        every = -(-len(self.stop) // most)
        kept = np.zeros(len(self.stop), bool)
        kept[::every] = True
        offsets = np.concatenate([[0], np.cumsum(kept)])[self.evidence.offsets]
        evidence = Evidence(
            offsets, self.evidence.gaps[kept], self.evidence.kind[kept], self.evidence.ages[kept]
        )
        return ObservedWindows(self.clock, evidence, self.start[kept], self.stop[kept])

    def warped(self, weights: Floats) -> Evidence:
        """The same evidence in a time that runs as fast as the season: there the rate is constant.

        So everything that is known of constant rates applies: estimates, intervals, pooling.
        """
        reached = [self.clock.integral(weights, t) for t in (self.start, self.known, self.stop)]
        changed_dated = self.evidence.ages > 0
        gaps = np.maximum(reached[2] - reached[0], 1e-12)
        ages = np.where(changed_dated, np.maximum(reached[2] - reached[1], 1e-12), 0.0)
        return replace(self.evidence, gaps=gaps, ages=np.minimum(ages, gaps))


@dataclass(frozen=True, eq=False)
class SeasonFit:
    """A maximum of the penalised likelihood."""

    prior: SeasonPrior
    log_shape: Floats
    covariance: Floats
    """Of log_shape, given the levels' own uncertainty."""
    level: Floats
    log_evidence: float
    """Log marginal likelihood, up to a constant of the data."""


@dataclass(eq=False)
class _Pass:
    """What one pass over the windows found."""

    log_likelihood: float
    gradient: Floats
    information: Floats
    level: Floats


class Likelihood:
    """The likelihood of a shape, with the level of every source at its best."""

    def __init__(self, windows: ObservedWindows) -> None:
        self.windows, self.clock = windows, windows.clock
        times = (windows.start, windows.known, windows.stop)
        # Positions far from 0 would cost digits; whole cycles can go.
        earliest = float(np.floor(times[0].min() / 7.0) * 7.0) if len(times[0]) else 0.0
        whole = earliest * (self.clock.count / self.clock.period)
        self.positions = [self.clock.position(t) - whole for t in times]
        self.zones = [self.clock.zone(t) for t in times]
        self.level = np.zeros(len(windows.evidence.offsets) - 1)

    def at(self, log_shape: Floats, *, information: bool = True, profile: bool = False) -> _Pass:
        """One pass. With `profile`, the uncertainty of the levels is taken off the information."""
        offsets, kind = self.windows.evidence.offsets, self.windows.evidence.kind
        size = len(offsets) - 1
        if not profile:
            return self._some(log_shape, offsets, kind, slice(0, size), information, False)
        parts = [
            self._some(log_shape, offsets, kind, slice(at, min(at + _CHUNK, size)), True, True)
            for at in range(0, size, _CHUNK)
        ]
        return _Pass(
            sum(p.log_likelihood for p in parts),
            np.sum([p.gradient for p in parts], axis=0),
            np.sum([p.information for p in parts], axis=0),
            np.concatenate([p.level for p in parts]),
        )

    def _some(
        self,
        log_shape: Floats,
        offsets: Integers,
        kind: NDArray[np.int8],
        sources: slice,
        information: bool,
        profile: bool,
    ) -> _Pass:
        from observant.estimation.season import kernels

        bins, theta = self.clock.count, np.exp(log_shape)
        level = self.level[sources]
        gradient, curvature = np.zeros(bins + 1), np.zeros(bins + 1)
        spread = np.zeros((bins + 1, bins + 1))
        crossing = np.zeros((len(level) if profile else 0, bins + 2))
        corrections = self.clock.corrections
        zone_weight = np.zeros(len(corrections))
        sweep: Any = kernels.sweep
        value = sweep(
            offsets[sources.start : sources.stop + 1],
            kind,
            *self.positions,
            *self.zones,
            theta,
            np.concatenate([[0.0], np.cumsum(theta)]),
            corrections @ theta,
            self.clock.width,
            level,
            True,
            gradient,
            spread,
            crossing,
            zone_weight,
            curvature,
            information,
        )
        slope = theta * (_after(gradient) + zone_weight @ corrections)
        inner = _after(_after(spread + spread.T).T) * np.outer(theta, theta)
        inner[np.diag_indices(bins)] += theta * _after(curvature)
        if profile:
            between = theta * _after(crossing[:, :-1])
            own = crossing[:, -1]
            scaled = between / np.sqrt(np.where(own > 0, own, np.inf))[:, None]
            inner -= scaled.T @ scaled
        return _Pass(value, slope, inner, level)


def _after(steps: Floats) -> Floats:
    """From coefficients of steps to bins: bin b has the sum of the steps beyond b."""
    return np.asarray(np.cumsum(steps[..., :0:-1], axis=-1)[..., ::-1])


def fit_shape(
    likelihood: Likelihood,
    prior: SeasonPrior,
    start: Floats | None = None,
    *,
    tolerance: float = 1e-3,
) -> SeasonFit:
    """Fisher's scoring for one prior; from `start` (log shape) when a neighbour is known."""
    basis, precision = prior.basis, prior.precision
    many = len(likelihood.level) > _CHUNK // 2
    beta = np.zeros(basis.shape[1])
    if start is not None:
        beta = np.linalg.lstsq(basis, start - start.mean(), rcond=None)[0]
    now = likelihood.at(basis @ beta, profile=not many)
    value = now.log_likelihood - 0.5 * beta @ precision @ beta
    for _ in range(_ITERATIONS):
        hessian = basis.T @ now.information @ basis + precision
        slope = basis.T @ now.gradient - precision @ beta
        step = np.linalg.solve(hessian, slope)
        # An expected gain below the tolerance is a distance to the top below it, too.
        if 0.5 * slope @ step < tolerance:
            break
        step *= min(1.0, 3.0 / max(float(np.abs(basis @ step).max()), 1e-12))
        size = 1.0
        for _halving in range(8):
            trial = beta + size * step
            new = likelihood.at(basis @ trial, profile=not many)
            reached = new.log_likelihood - 0.5 * trial @ precision @ trial
            if reached > value:
                break
            size /= 2
        else:
            break  # the last digits of the top
        beta, now, value = trial, new, reached
    if many:
        now = likelihood.at(basis @ beta, profile=True)
    hessian = basis.T @ now.information @ basis + precision
    covariance = np.linalg.inv(hessian)
    log_evidence = value + 0.5 * (np.linalg.slogdet(precision)[1] - np.linalg.slogdet(hessian)[1])
    return SeasonFit(
        prior, basis @ beta, basis @ covariance @ basis.T, now.level.copy(), float(log_evidence)
    )


def best_fit(likelihood: Likelihood, priors: list[SeasonPrior]) -> SeasonFit:
    """The maximum for the candidate with the largest marginal likelihood.

    Of many windows a part is enough to choose the candidate; all decide the shape.
    """
    trial = likelihood
    if len(likelihood.windows.stop) > _ENOUGH_TO_CHOOSE:
        trial = Likelihood(likelihood.windows.thinned(_ENOUGH_TO_CHOOSE))
    best: SeasonFit | None = None
    start = None
    for prior in priors:
        fit = fit_shape(trial, prior, start, tolerance=0.02)
        start = fit.log_shape
        if best is None or fit.log_evidence > best.log_evidence:
            best = fit
    if best is None:
        raise InputError("give at least one prior")
    return fit_shape(likelihood, best.prior, best.log_shape, tolerance=1e-4)
