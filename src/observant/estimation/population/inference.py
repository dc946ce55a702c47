"""Fit a population to what was seen of it, with intervals and a test of the fit.

The evidence says what a population with given parameters would show; this module turns that into
an estimate. All of it hangs on one thing: how much each unit (a source) pulls at the estimate, its
influence. The estimate is the truth plus the mean influence, whatever the method, so that

- the spread of the influences gives the intervals (the robust or "sandwich" form), and
- the distance between what was seen and what was fitted, with the pull of the fit taken out, has a
  known Gaussian limit, from which the p-value of the Kolmogorov-Smirnov distance is simulated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import numpy as np

from observant.errors import EstimationError, InputError
from observant.tables import Table
from observant.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import ArrayLike

    from observant.arrays import Floats, Integers
    from observant.processes import Weibull

Rows: TypeAlias = "Integers"

METHODS = ("likelihood", "least-squares")


@dataclass(frozen=True, eq=False, repr=False)
class PopulationFit(Table):
    """The population that describes best what was seen, and how well it does.

    As a table it is the distribution seen beside the one fitted (figures 3.16 and 3.20).
    """

    columns: ClassVar[tuple[str, ...]] = ("days", "observed", "fitted")

    shape: float
    """σ of the Weibull distribution of mean times between updates."""
    scale: float
    """δ of the same, in days."""
    growth: float
    """ξ, the share by which the collection grows per day; 0 where it is not part of the model."""
    intervals: Mapping[str, tuple[float, float]]
    """Low and high end of each parameter that was estimated."""
    confidence: float
    method: str
    evidence: str
    """What the fit is made from: ages, lifetimes, first lifetimes or histories."""
    sources: int
    """How many sources had such evidence."""
    objective: float
    """Mean squared error of the distributions, or minus the mean log-likelihood per source."""
    distance: float
    """Largest difference between the distribution seen and the one fitted (Kolmogorov-Smirnov)."""
    p_value: float
    """How often a true model would be that far off; small when the model is a poor description."""
    days: Floats
    """Where both distributions are given."""
    observed: Floats
    """Share of the evidence up to so many days."""
    fitted: Floats
    """The same by the model."""
    notes: tuple[str, ...] = ()
    objective_function: Callable[[Floats], float] | None = field(default=None, compare=False)

    @property
    def mean_times(self) -> Weibull:
        """The distribution of mean times between updates (figure 3.22), as a process has it."""
        from observant.processes import Weibull

        return Weibull(self.shape, self.scale)

    @property
    def mean(self) -> float:
        """Mean of the mean times between updates, in days."""
        return self.scale * math.gamma(1.0 + 1.0 / self.shape)

    @property
    def median(self) -> float:
        """Half of the sources change more often than once in this many days."""
        return float(self.scale * math.log(2.0) ** (1.0 / self.shape))

    def error_surface(self, shapes: ArrayLike, scales: ArrayLike) -> Floats:
        """What the fit made smallest, for every pair of shape and scale (figure 3.19).

        One row a shape, one column a scale. Growth stays at its estimate.
        """
        if self.objective_function is None:
            raise EstimationError("this fit does not remember its evidence")
        shapes, scales = np.asarray(shapes, float), np.asarray(scales, float)
        return np.array(
            [
                [self.objective_function(np.array([shape, scale])) for scale in scales.ravel()]
                for shape in shapes.ravel()
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """The fit in plain values, without the curves."""
        told: dict[str, Any] = {"evidence": self.evidence, "method": self.method}
        for name, key in (
            ("shape", "shape"),
            ("scale", "scale_days"),
            ("growth", "growth_per_day"),
        ):
            if name in self.intervals or name != "growth":
                told[key] = getattr(self, name)
                told[f"{key}_low"], told[f"{key}_high"] = self.intervals[name]
        return {
            **told,
            "confidence": self.confidence,
            "mean_days": self.mean,
            "median_days": self.median,
            "sources": self.sources,
            "objective": self.objective,
            "distance": self.distance,
            "p_value": self.p_value,
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        return f"<PopulationFit: shape {self.shape:.3g}, scale {self.scale:.4g} d, {self.method}>"

    def __str__(self) -> str:
        shape, scale = self.intervals["shape"], self.intervals["scale"]
        lines = [
            f"from the {self.evidence} of {self.sources:,} sources, by {self.method}",
            f"  shape   {self.shape:.3g}  ({shape[0]:.3g} to {shape[1]:.3g})",
            f"  scale   {format_duration(self.scale)}  ({_range(scale)})",
        ]
        if "growth" in self.intervals:
            low, high = self.intervals["growth"]
            lines.append(
                f"  growth  doubles in {_doubling(self.growth)}  "
                f"({_doubling(high)} to {_doubling(low)})"
            )
        median, mean = format_duration(self.median), format_duration(self.mean)
        lines += [
            f"  half change more often than once in {median}; the mean time is {mean}",
            f"  farthest from what was seen: {self.distance:.3f} (p = {self.p_value:.2g})",
            *(f"  note: {note}" for note in self.notes),
        ]
        return "\n".join(lines)


class PopulationEvidence(Protocol):
    """What was seen of a population, and what one with given parameters would show.

    Parameters come as a flat array: log shape, log scale, and for some evidence the growth, times
    a scale that makes it a number near one.
    """

    units: int
    """Independent pieces of evidence: sources."""
    start: Floats
    lowest: Floats
    highest: Floats
    points: Floats
    """Where the distribution seen is compared with the one fitted."""

    def values(self, parameters: Floats) -> tuple[float, float, float]:
        """Shape, scale in days, and growth per day."""

    def even_points(self) -> Floats:
        """Evenly spaced durations, up to where hardly anything lies beyond."""

    def log_density(self, parameters: Floats) -> Floats:
        """Logarithm of the density of each unit."""

    def mean_log_density(self, parameters: Floats) -> float:
        """Mean of the same over all units."""

    def model(self, parameters: Floats, points: Floats) -> Floats:
        """The distribution these parameters would show."""

    def shown(self, parameters: Floats, points: Floats, rows: Rows) -> Floats:
        """Each unit's part in the distribution that was seen, one row a unit."""


def fit_evidence(
    evidence: PopulationEvidence,
    name: str,
    method: str,
    *,
    points: ArrayLike | None = None,
    confidence: float = 0.95,
    notes: Sequence[str] = (),
    seed: int = 0,
) -> PopulationFit:
    """Estimate the parameters, their intervals and the goodness of the fit.

    `points` are where least squares compares the distributions, (3.10) and (3.15); evenly spaced,
    as in the thesis, when not given.
    """
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}; choose one of {', '.join(METHODS)}")
    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence is a share between 0 and 1, not {confidence!r}")
    if evidence.units < _FEWEST:
        raise EstimationError(
            f"only {evidence.units} sources can be used; a population needs {_FEWEST} or more"
        )
    places = evidence.even_points() if points is None else np.ravel(np.asarray(points, float))
    rng = np.random.default_rng(seed)
    rows = np.arange(evidence.units)
    if len(rows) > _MOST_ROWS:
        rows = np.sort(rng.choice(rows, _MOST_ROWS, replace=False))
    objective = _objective(evidence, method, places)
    if method == "least-squares":
        best, influence = _least_squares(evidence, places, rows)
    else:
        best, influence = _likelihood(evidence, objective, rows)
    influence -= influence.mean(axis=0)
    covariance = influence.T @ influence / (len(rows) * evidence.units)
    values, intervals = _intervals(evidence, best, np.sqrt(np.diag(covariance)), confidence)

    observed = _mean_shown(evidence, best, evidence.points)
    fitted = evidence.model(best, evidence.points)
    distance = float(np.abs(observed - fitted).max())
    return PopulationFit(
        shape=values[0],
        scale=values[1],
        growth=values[2],
        intervals=intervals,
        confidence=confidence,
        method=method,
        evidence=name,
        sources=evidence.units,
        objective=objective(best),
        distance=distance,
        p_value=_p_value(evidence, best, influence, rows, distance, rng),
        days=evidence.points,
        observed=observed,
        fitted=fitted,
        notes=(*notes, *_doubts(best, intervals, evidence)),
        objective_function=lambda pair: objective(np.append(np.log(pair), best[2:])),
    )


def _intervals(
    evidence: PopulationEvidence, best: Floats, error: Floats, confidence: float
) -> tuple[tuple[float, float, float], dict[str, tuple[float, float]]]:
    """Shape, scale and growth with intervals, on a logarithmic scale for the first two."""
    from scipy.special import ndtri

    # An error of nothing, or of no number, means that the evidence says nothing.
    error = np.where(error > _NOTHING, error, np.inf)
    half = float(ndtri(0.5 + confidence / 2.0)) * error
    below = np.where(best - evidence.lowest < _AT_THE_END, -np.inf, best - half)
    above = np.where(evidence.highest - best < _AT_THE_END, np.inf, best + half)
    middle, low, high = (evidence.values(end) for end in (best, below, above))
    intervals = {
        name: (max(low[i], 0.0), high[i])
        for i, name in enumerate(("shape", "scale", "growth")[: len(best)])
    }
    return middle, intervals


def _objective(
    evidence: PopulationEvidence, method: str, points: Floats
) -> Callable[[Floats], float]:
    """What a fit makes as small as it can."""
    seen = _mean_shown(evidence, evidence.start, points)

    def unlikelihood(parameters: Floats) -> float:
        return -evidence.mean_log_density(parameters)

    def squared_error(parameters: Floats) -> float:
        return float(np.mean((evidence.model(parameters, points) - seen) ** 2))

    return unlikelihood if method == "likelihood" else squared_error


def _least_squares(
    evidence: PopulationEvidence, points: Floats, rows: Rows
) -> tuple[Floats, Floats]:
    """Parameters, and the influence of each unit on them."""
    from scipy.optimize import least_squares

    seen = _mean_shown(evidence, evidence.start, points)

    def misfit(parameters: Floats) -> Floats:
        return evidence.model(parameters, points) - seen

    answer = least_squares(
        misfit,
        evidence.start,
        bounds=(evidence.lowest, evidence.highest),
        xtol=1e-10,
        ftol=1e-12,
        gtol=1e-14,
    )
    best: Floats = answer.x
    slope = _slope(misfit, best)
    parts = evidence.shown(best, points, rows)
    influence = (parts - parts.mean(axis=0)) @ slope @ _inverse(slope.T @ slope)
    return best, influence


def _likelihood(
    evidence: PopulationEvidence, objective: Callable[[Floats], float], rows: Rows
) -> tuple[Floats, Floats]:
    """The same for maximum likelihood."""
    from scipy.optimize import minimize

    answer = minimize(
        objective,
        evidence.start,
        method="L-BFGS-B",
        bounds=list(zip(evidence.lowest, evidence.highest, strict=True)),
        options={"ftol": 1e-13, "gtol": 1e-7, "maxiter": 200},
    )
    best: Floats = answer.x
    scores = _slope(evidence.log_density, best)[rows]
    return best, scores @ _inverse(_curvature(objective, best), least=_ROUNDING)


def _mean_shown(evidence: PopulationEvidence, parameters: Floats, points: Floats) -> Floats:
    total = np.zeros(len(points))
    for start in range(0, evidence.units, _MOST_ROWS):
        rows = np.arange(start, min(start + _MOST_ROWS, evidence.units))
        total += evidence.shown(parameters, points, rows).sum(axis=0)
    return total / evidence.units


def _p_value(
    evidence: PopulationEvidence,
    best: Floats,
    influence: Floats,
    rows: Rows,
    distance: float,
    rng: np.random.Generator,
) -> float:
    """How often the Gaussian limit of the fitted process strays as far."""
    if not np.all(np.isfinite(influence)):
        return np.nan

    def misfit(parameters: Floats) -> Floats:
        mean: Floats = evidence.shown(parameters, evidence.points, rows).mean(axis=0)
        return mean - evidence.model(parameters, evidence.points)

    parts = evidence.shown(best, evidence.points, rows)
    residual = parts - parts.mean(axis=0) + influence @ _slope(misfit, best).T
    values, vectors = np.linalg.eigh(residual.T @ residual / len(residual))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    strays = np.abs(rng.standard_normal((_DRAWS, len(values))) @ root.T).max(axis=1)
    return float((1 + np.count_nonzero(strays >= distance * evidence.units**0.5)) / (1 + _DRAWS))


def _doubts(
    best: Floats, intervals: Mapping[str, tuple[float, float]], evidence: PopulationEvidence
) -> list[str]:
    notes = []
    if any(math.isinf(high) for _, high in intervals.values()):
        notes.append("the evidence does not fix every parameter: an interval has no end")
    if len(best) > 2 and best[2] - evidence.lowest[2] < _AT_THE_END:
        notes.append("no growth was found; its interval is one-sided")
    return notes


def _range(ends: tuple[float, float]) -> str:
    return " to ".join(format_duration(end) for end in ends)


def _doubling(growth: float) -> str:
    """Say a growth per day as the time in which a collection doubles.

    >>> _doubling(0.00176), _doubling(0.0)  # the thesis has 390 days, errata B-11
    ('1.08y', 'never')
    """
    return format_duration(math.log(2.0) / growth if growth > 0.0 else math.inf)


def _slope(function: Callable[[Floats], Floats], at: Floats) -> Floats:
    """Derivatives by central differences, one column a parameter."""
    steps = _STEP * np.eye(len(at))
    return np.stack([(function(at + h) - function(at - h)) / (2 * _STEP) for h in steps], axis=1)


def _inverse(curvature: Floats, least: float = 0.0) -> Floats:
    """Invert a curvature; of one that is flat or bent the wrong way, nothing can be said.

    One below `least` cannot be told from a flat one.
    """
    values = np.linalg.eigvalsh(curvature)
    if values[0] <= max(_FLAT * max(values[-1], _FLAT), least):
        return np.full(curvature.shape, np.nan)
    inverse: Floats = np.linalg.inv(curvature).astype(np.float64)
    return inverse


def _curvature(function: Callable[[Floats], float], at: Floats) -> Floats:
    def gradient(parameters: Floats) -> Floats:
        return np.array(
            [
                (function(parameters + h) - function(parameters - h)) / (2 * _CURVE_STEP)
                for h in _CURVE_STEP * np.eye(len(at))
            ]
        )

    slope = np.stack(
        [
            (gradient(at + h) - gradient(at - h)) / (2 * _CURVE_STEP)
            for h in _CURVE_STEP * np.eye(len(at))
        ]
    )
    return (slope + slope.T) / 2


_FEWEST = 20
_FLAT, _NOTHING, _AT_THE_END = 1e-7, 1e-9, 1e-6
_MOST_ROWS = 20_000
"""Influences are taken from a sample of sources no larger than this."""
_DRAWS = 999
_STEP, _CURVE_STEP = 1e-4, 1e-3
_ROUNDING = 1e-8
"""Less than this, a curvature from differences of such steps is rounding: some 1e-16 / step²."""
