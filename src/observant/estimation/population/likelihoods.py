"""What can be seen of a population: ages, lifetimes, first lifetimes, and whole histories.

Each class says how likely what was seen is under given parameters, and what distribution they
would show, so that `observant.estimation.population.inference` can do the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.errors import EstimationError, InputError
from observant.estimation.evidence import CHANGED, DATED
from observant.estimation.population import mixture
from observant.estimation.priors import grid_likelihood

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.arrays import Floats
    from observant.estimation.evidence import Evidence
    from observant.estimation.population.inference import Rows


class Ages:
    """Ages of sources, one each, seen once: Brewington (3.8), with growth to be found or given."""

    def __init__(self, ages: ArrayLike, growth: float | None, resolution: float) -> None:
        self.days = np.sort(_durations(ages, "ages"))
        self.units, self.resolution = len(self.days), resolution
        # What is younger than the resolution is known to be young, and no more.
        self.blurred = int(np.searchsorted(self.days, resolution, side="right"))
        self.grid = _LogGrid(self.days[self.blurred :])
        self.growth = _Growth(growth, self.days)
        self.start, self.lowest, self.highest = self.growth.bounds(self.days)
        self.points = _quantiles(self.days[self.blurred :])

    def values(self, parameters: Floats) -> tuple[float, float, float]:
        return self.growth.values(parameters)

    def even_points(self) -> Floats:
        return _evenly(0.0, self.days)

    def _logs(self, parameters: Floats) -> tuple[float, Floats]:
        values = self.growth.values(parameters)
        young = float(_log(mixture.age_cdf(self.resolution, *values)))
        return young, _log(mixture.age_pdf(self.grid.nodes, *values))

    def log_density(self, parameters: Floats) -> Floats:
        young, logs = self._logs(parameters)
        return np.concatenate([np.full(self.blurred, young), self.grid.at(logs)])

    def mean_log_density(self, parameters: Floats) -> float:
        young, logs = self._logs(parameters)
        return (self.blurred * young + self.grid.total(logs)) / self.units

    def model(self, parameters: Floats, points: Floats) -> Floats:
        return mixture.age_cdf(points, *self.growth.values(parameters))

    def shown(self, parameters: Floats, points: Floats, rows: Rows) -> Floats:
        return (self.days[rows, None] <= points).astype(np.float64)


class Lifetimes:
    """All lifetimes seen, every source with the same weight: Brewington (3.14) as printed.

    Lifetimes below `bound` are left out, and the others compared with what (3.14) says of those
    above it, because shorter ones than the gap between visits hide each other.
    """

    def __init__(
        self, lifetimes: ArrayLike, sources: ArrayLike, spans: ArrayLike, bound: float
    ) -> None:
        days, owner, spans = _checked(lifetimes, sources, spans)
        long = days > bound
        self.days, owner = days[long], owner[long]
        _, self.owner, counts = np.unique(owner, return_inverse=True, return_counts=True)
        self.units, self.bound = len(counts), bound
        self.weight = 1.0 / counts[self.owner]
        self.begins = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.spans = _thinned(spans[spans > 0.0])
        self.grid = _LogGrid(self.days, self.weight)
        self.start, self.lowest, self.highest = _bounds(self.days)
        self.points = _quantiles(self.days)

    def values(self, parameters: Floats) -> tuple[float, float, float]:
        return _without_growth(parameters)

    def even_points(self) -> Floats:
        return _evenly(self.bound, self.days)

    def log_density(self, parameters: Floats) -> Floats:
        shape, scale = np.exp(parameters)
        density = mixture.lifetime_pdf(self.grid.nodes, shape, scale, self.spans)
        logs = self.grid.at(_log(density)) - _log(self._above_bound(shape, scale))
        return np.add.reduceat(self.weight * logs, self.begins[:-1])

    def mean_log_density(self, parameters: Floats) -> float:
        shape, scale = np.exp(parameters)
        density = mixture.lifetime_pdf(self.grid.nodes, shape, scale, self.spans)
        above = _log(self._above_bound(shape, scale))
        return self.grid.total(_log(density)) / self.units - float(above)

    def model(self, parameters: Floats, points: Floats) -> Floats:
        shape, scale = np.exp(parameters)
        above = 1.0 - mixture.lifetime_cdf(points, shape, scale, self.spans)
        return np.maximum(1.0 - above / self._above_bound(shape, scale), 0.0)

    def shown(self, parameters: Floats, points: Floats, rows: Rows) -> Floats:
        parts = np.empty((len(rows), len(points)))
        # Sources come in blocks, so that no more than a block of lifetimes is spread out at once.
        for start in range(0, len(rows), _BLOCK):
            block = rows[start : start + _BLOCK]
            sizes = self.begins[block + 1] - self.begins[block]
            first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
            each = np.repeat(self.begins[block] - first, sizes) + np.arange(sizes.sum())
            below = self.weight[each, None] * (self.days[each, None] <= points)
            parts[start : start + _BLOCK] = np.add.reduceat(below, first)
        return parts

    def _above_bound(self, shape: float, scale: float) -> Floats:
        return 1.0 - mixture.lifetime_cdf(self.bound, shape, scale, self.spans)


class FirstLifetimes:
    """The first lifetime seen of each source, with its length bias (errata B-14).

    One lifetime a source, each with the span it was seen in: an exact likelihood for visits that
    miss no update. `bound` is as in `Lifetimes`, growth as in `Ages`.
    """

    def __init__(
        self,
        lifetimes: ArrayLike,
        sources: ArrayLike,
        spans: ArrayLike,
        bound: float,
        growth: float | None,
    ) -> None:
        days, owner, spans = _checked(lifetimes, sources, spans)
        first = np.ones(len(owner), bool)
        first[1:] = owner[1:] != owner[:-1]
        first &= days > bound
        self.days, self.own, self.bound = days[first], spans[owner[first]], bound
        if np.any(self.own == 0.0):
            raise InputError("a source seen to change must have been watched for a span above 0")
        self.units = len(self.days)
        self.spans = _thinned(spans[spans > 0.0])
        self.grid, self.span_grid = _LogGrid(self.days), _LogGrid(self.own)
        self.growth = _Growth(growth, self.days)
        self.start, self.lowest, self.highest = self.growth.bounds(self.days)
        self.points = _quantiles(self.days)

    def values(self, parameters: Floats) -> tuple[float, float, float]:
        return self.growth.values(parameters)

    def even_points(self) -> Floats:
        return _evenly(self.bound, self.days)

    def log_density(self, parameters: Floats) -> Floats:
        shape, scale, growth = self.growth.values(parameters)
        _, density, curvature = mixture.averages(self.grid.nodes, shape, scale)
        shown = mixture.first_lifetimes_shown(
            self.span_grid.nodes, self.bound, shape, scale, growth
        )
        straddling = mixture.straddling(self.days, self.own, growth)
        return (
            self.grid.at(_log(growth * density + curvature))
            + _log(straddling)
            - self.span_grid.at(_log(shown))
        )

    def mean_log_density(self, parameters: Floats) -> float:
        return float(self.log_density(parameters).mean())

    def model(self, parameters: Floats, points: Floats) -> Floats:
        shape, scale, growth = self.growth.values(parameters)
        below = mixture.first_lifetime_cdf(
            np.append(points, self.bound), shape, scale, self.spans, growth
        )
        above: Floats = (below[:-1] - below[-1]) / (1.0 - below[-1])
        return np.maximum(above, 0.0)

    def shown(self, parameters: Floats, points: Floats, rows: Rows) -> Floats:
        return (self.days[rows, None] <= points).astype(np.float64)


class Histories:
    """Everything the visits to each source say, changes and quiet gaps, dated or not.

    A visit after a gap t contributes e^(−λt) if it found no change, 1 − e^(−λt) if it found one,
    and λ e^(−λa) if the change is dated a days before the visit. That is exact whatever the gaps,
    so that aliasing, short spans and sources never seen to change need no correction. The rates
    are put on a grid; what is compared is the mean of the posteriors with the population.
    """

    def __init__(self, evidence: Evidence) -> None:
        changes = evidence.sums((evidence.kind & CHANGED > 0).astype(np.float64))
        if not changes.any():
            raise EstimationError("no visit found a change, so the rates cannot be told apart")
        # What each comparison lasted, as far as it is known: of a dated change, its age.
        dated = (evidence.kind & (CHANGED | DATED)) == CHANGED | DATED
        watched = evidence.sums(np.where(dated, evidence.ages, evidence.gaps))
        per_change = watched / np.maximum(changes, 1.0)
        self.units = len(changes)
        # Beyond e⁴ times the fastest and the slowest history, the likelihood is flat or nil.
        low = max(float(np.log(per_change.min())) - 4.0, _FASTEST)
        high = min(float(np.log(watched.max())) + 4.0, _SLOWEST)
        self.log_times = np.arange(low, max(high, low + 8.0), _LOG_STEP)
        self.points: Floats = np.exp(self.log_times)
        self.likelihood = grid_likelihood(evidence, 1.0 / self.points)
        self.start, self.lowest, self.highest = _bounds(np.array([watched.sum() / changes.sum()]))

    def values(self, parameters: Floats) -> tuple[float, float, float]:
        return _without_growth(parameters)

    def even_points(self) -> Floats:
        return self.points

    def _weights(self, parameters: Floats) -> Floats:
        """Share of the population in each cell of the grid; the outer cells reach to 0 and ∞."""
        edges = self.log_times[:-1] + _LOG_STEP / 2
        shares: Floats = np.diff(_weibull_cdf(edges, parameters), prepend=0.0, append=1.0)
        return shares

    def log_density(self, parameters: Floats) -> Floats:
        return _log(self.likelihood @ self._weights(parameters))

    def mean_log_density(self, parameters: Floats) -> float:
        return float(self.log_density(parameters).mean())

    def model(self, parameters: Floats, points: Floats) -> Floats:
        return _weibull_cdf(np.log(points) + _LOG_STEP / 2, parameters)

    def shown(self, parameters: Floats, points: Floats, rows: Rows) -> Floats:
        posterior = self.likelihood[rows] * self._weights(parameters)
        posterior /= posterior.sum(axis=1, keepdims=True)
        cells = np.searchsorted(self.points, points * (1.0 + 1e-9)) - 1
        parts: Floats = np.cumsum(posterior, axis=1)[:, cells]
        return parts


class _Growth:
    """The growth of the collection: given, or the third parameter, per mean duration seen."""

    def __init__(self, given: float | None, days: Floats) -> None:
        self.given = given
        self.day = float(days.mean()) if days.size else 1.0

    def bounds(self, days: Floats) -> tuple[Floats, Floats, Floats]:
        both = _bounds(days)
        if self.given is not None:
            return both
        start, low, high = (np.append(b, g) for b, g in zip(both, (0.3, 0.0, 1.0), strict=True))
        return start, low, high

    def values(self, parameters: Floats) -> tuple[float, float, float]:
        """Return shape, scale in days and growth per day."""
        growth = parameters[2] / self.day if self.given is None else self.given
        return float(np.exp(parameters[0])), float(np.exp(parameters[1])), float(growth)


class _LogGrid:
    """Durations placed on an even grid of their logarithms, to evaluate smooth functions once."""

    def __init__(self, days: Floats, weight: Floats | None = None) -> None:
        if not days.size:
            raise EstimationError("nothing is left to fit a population to")
        logs = np.log(days)
        low, high = float(logs.min()), float(logs.max())
        axis = np.linspace(low, max(high, low + 1e-6), _GRID_POINTS)
        place = np.clip((logs - low) / (axis[1] - axis[0]), 0.0, _GRID_POINTS - 1.0)
        self.nodes = np.exp(axis)
        self.left = np.minimum(place.astype(np.int64), _GRID_POINTS - 2)
        self.part = place - self.left
        weight = np.ones(len(days)) if weight is None else weight
        self.mass = np.bincount(
            self.left, weight * (1.0 - self.part), minlength=_GRID_POINTS
        ) + np.bincount(self.left + 1, weight * self.part, minlength=_GRID_POINTS)

    def at(self, values: Floats) -> Floats:
        """Read a function given at the nodes at every duration."""
        read: Floats = values[self.left] * (1.0 - self.part) + values[self.left + 1] * self.part
        return read

    def total(self, values: Floats) -> float:
        """Weighted sum of the same over all durations."""
        return float(self.mass @ values)


def _checked(
    lifetimes: ArrayLike, sources: ArrayLike, spans: ArrayLike
) -> tuple[Floats, Rows, Floats]:
    days, watched = _durations(lifetimes, "lifetimes"), _durations(spans, "spans")
    owner = np.ravel(np.asarray(sources, np.int64))
    if len(owner) != len(days):
        raise InputError(f"{len(days)} lifetimes but {len(owner)} sources; give one for each")
    if owner.size and not (owner.min() >= 0 and owner.max() < len(watched)):
        raise InputError("sources must be places in the list of spans, counted from 0")
    if np.any(days == 0.0):
        raise InputError("a lifetime of 0 days is no lifetime; leave it out")
    order = np.argsort(owner, kind="stable")
    return days[order], owner[order], watched


def _durations(values: ArrayLike, name: str) -> Floats:
    days = np.ravel(np.asarray(values, np.float64))
    if not (np.all(np.isfinite(days)) and np.all(days >= 0.0)):
        raise InputError(f"{name} must be finite numbers of days, not negative")
    return days


def _bounds(days: Floats) -> tuple[Floats, Floats, Floats]:
    middle = float(np.log(np.median(days) / np.log(2.0)))
    return (
        np.array([0.0, middle]),
        np.array([_LEAST_SHAPE, middle - 8.0]),
        np.array([_MOST_SHAPE, middle + 8.0]),
    )


def _without_growth(parameters: Floats) -> tuple[float, float, float]:
    return float(np.exp(parameters[0])), float(np.exp(parameters[1])), 0.0


def _evenly(bound: float, days: Floats) -> Floats:
    end = max(float(np.quantile(days, 0.999)), 2.0 * bound)
    return np.linspace(bound, end, _EVEN_POINTS + 1)[1:]


def _quantiles(days: Floats) -> Floats:
    if not days.size:
        return np.empty(0)
    return np.unique(np.quantile(days, (np.arange(_POINTS) + 0.5) / _POINTS))


def _thinned(spans: Floats) -> Floats:
    """Few spans that stand for many: the means of groups of equal size."""
    if not spans.size:
        raise EstimationError("no source was visited twice, so no lifetime could be seen")
    if len(spans) <= _MOST_SPANS:
        return spans
    return np.array([part.mean() for part in np.array_split(np.sort(spans), _MOST_SPANS)])


def _weibull_cdf(log_times: Floats, parameters: Floats) -> Floats:
    log_shape, log_scale = parameters
    power = np.minimum(np.exp(log_shape) * (log_times - log_scale), 700.0)
    cdf: Floats = -np.expm1(-np.exp(power))
    return cdf


def _log(values: Floats) -> Floats:
    return np.log(np.maximum(values, 1e-300))


_LEAST_SHAPE, _MOST_SHAPE = np.log(0.15), np.log(20.0)
_EVEN_POINTS = 200
_POINTS, _GRID_POINTS, _MOST_SPANS, _BLOCK = 100, 512, 256, 2_000
# Logarithms of mean times between updates, in days: from a second to some ten thousand years.
_FASTEST, _SLOWEST, _LOG_STEP = -11.4, 15.0, 0.1
