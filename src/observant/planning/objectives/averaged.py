"""Objectives of sources whose rates are not known exactly, or that are not Poisson."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.currency import GammaRates, PoissonRates, RateMixture
from observant.currency.age_models import NODES, WEIGHTS, AgeModel, Source, as_model
from observant.errors import InputError
from observant.planning.objectives.closed_forms import POISSON
from observant.planning.objectives.index import (
    LONG,
    Choice,
    Objective,
    checked_grace,
    checked_rates,
)
from observant.planning.objectives.numerics import COMPILED_FROM
from observant.planning.objectives.own import OwnObjective

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from observant.arrays import Floats

_ROWS = 8_192
_CELLS = 1 << 20
"""Values that a penalty of somebody's own is asked for at once."""


class RenewalObjective(Objective):
    """Sources that need not be Poisson, through the age distribution G: c(s) = G((s − β)⁺).

    `source` is a process, a posterior `GammaRates`, a `RateMixture`, a measured `AgeTable` or G
    itself. One without arrays stands for `count` sources alike.

    >>> from observant.currency import GammaRates
    >>> known = RenewalObjective(GammaRates(shape=[2.0, 2.0], exposure=[10.0, 20.0]))
    >>> print(known.limit.round(3), known.period_at(4.0).round(3))
    [10. 20.] [17.208 16.18 ]
    """

    name = "renewal"

    def __init__(self, source: Source, grace: ArrayLike = 0.0, count: int | None = None) -> None:
        self.model: AgeModel = as_model(source)
        shape = np.shape(self.model.age_cdf(1.0))
        if len(shape) > 1 or (shape and count not in {None, shape[0]}):
            raise InputError(f"a model of shape {shape} cannot stand for {count} sources")
        self._alike = not shape
        self._count = shape[0] if shape else int(count or 1)
        self.grace = checked_grace(grace, self._count)

    def __len__(self) -> int:
        return self._count

    def penalty(self, s: ArrayLike) -> Floats:
        return np.broadcast_to(self.model.age_cdf(self._late(s)), self._shape(s))

    def mean_penalty(self, period: ArrayLike) -> Floats:
        period = np.broadcast_to(np.asarray(period, float), self._shape(period))
        finite = np.where(np.isfinite(period) & (period > 0.0), period, 1.0)
        mean = self.model.integrated_age_cdf(self._late(finite)) / finite
        mean = np.where(np.isinf(period), self.model.age_cdf(np.inf), mean)
        return np.where(period == 0.0, 0.0, mean)

    def index(self, s: ArrayLike) -> Floats:
        late = np.minimum(self._late(s), LONG)
        age_cdf = np.asarray(self.model.age_cdf(late))
        if np.max(late, initial=0.0) < LONG:
            gain = late * age_cdf - self.model.integrated_age_cdf(late)
        else:  # the same, without the difference of two huge numbers
            rest = 1.0 - age_cdf
            rest = np.where(rest < 1e-15, 0.0, rest)
            gain = self.model.integrated_age_sf(late) - late * rest
        return np.broadcast_to(np.maximum(gain + self.grace * age_cdf, 0.0), self._shape(s))

    def select(self, which: Choice) -> Objective:
        positions = np.arange(self._count)[which]
        grace = self.grace if self.grace.ndim == 0 else self.grace[which]
        return RenewalObjective(
            self.model if self._alike else _part_of(self.model, which), grace, len(positions)
        )

    def _late(self, s: ArrayLike) -> Floats:
        return np.maximum(np.asarray(s, float) - self.grace, 0.0)

    def _shape(self, s: ArrayLike) -> tuple[int, ...]:
        return np.broadcast_shapes(np.shape(s), (self._count,))


_AT_ONCE = 1 << 17
"""Posteriors of so many sources are read once, some 100 MB; of more, block by block each time."""


class PosteriorMean(Objective):
    """An objective averaged over posteriors on a grid of rates: W is linear, so its mean is used.

    The grid is one for all, or has a row for each source. `weights` has one row a source, or is
    the `posterior` of a pooled `RateTable`, which is then read in blocks of sources, so that memory
    stays bounded.

    >>> mean = PosteriorMean("freshness", [0.1, 1.0], [[0.5, 0.5]])
    >>> print(mean.limit, mean.period_at(1.0).round(3))
    [5.5] [5.41]
    """

    name = "posterior"

    def __init__(self, kind: Any, rates: ArrayLike, weights: Any, grace: ArrayLike = 0.0) -> None:
        if hasattr(weights, "points") and len(weights) <= _AT_ONCE:
            rates, weights = weights.points(0, len(weights))
        self.kind, self.weights = kind, weights
        self.grid: Floats = np.zeros(0)
        if not hasattr(weights, "points"):
            grid, self.weights = np.asarray(rates, float), np.asarray(weights, float)
            self.grid = checked_rates(grid.ravel() if grid.ndim == 2 else grid)
            if grid.ndim == 2:
                self.grid = self.grid.reshape(grid.shape)
            if (
                self.weights.ndim != 2
                or self.weights.shape[1] != self.grid.shape[-1]
                or (self.grid.ndim == 2 and len(self.grid) != len(self.weights))
            ):
                raise InputError(
                    f"the posterior needs one row a source and one column for each of the "
                    f"{self.grid.shape[-1]} rates, not shape {self.weights.shape}"
                )
        self.grace = checked_grace(grace, len(self.weights))

    def __len__(self) -> int:
        return len(self.weights)

    def penalty(self, s: ArrayLike) -> Floats:
        return self._average(lambda known, s: known.penalty(s), s)

    def mean_penalty(self, period: ArrayLike) -> Floats:
        return self._average(lambda known, s: known.mean_penalty(s), period)

    def mean_penalty_variance(self, period: ArrayLike) -> Floats:
        square = self._average(lambda known, s: known.mean_penalty(s) ** 2, period)
        return np.maximum(square - self.mean_penalty(period) ** 2, 0.0)

    def index(self, s: ArrayLike) -> Floats:
        if self._compiled:
            from observant.planning.objectives import kernels

            s, answer = np.broadcast_to(np.asarray(s, float), len(self)), np.empty(len(self))
            grid, grace = np.atleast_2d(self.grid), np.atleast_1d(self.grace)
            kernels.mean_currency_index(s, grid, self.weights, grace, answer)
            return answer
        return self._average(lambda known, s: known.index(s), s)

    @property
    def _compiled(self) -> bool:
        """Whether compiled loops are worth their loading."""
        known = self.kind in {"freshness", "currency"} and isinstance(self.weights, np.ndarray)
        return known and self.weights.size >= COMPILED_FROM

    @property
    def mean_rate(self) -> Floats:
        return self._average(lambda known, s: known.rates + 0.0 * s, 0.0)

    @property
    def limit(self) -> Floats:
        return self._average(lambda known, s: known.limit + 0.0 * s, 0.0)

    def period_at(self, price: ArrayLike, start: Floats | None = None) -> Floats:
        price = np.array(np.broadcast_to(np.asarray(price, float), (len(self),)))
        if self._compiled:
            from observant.planning.objectives import kernels

            answer = np.empty(len(self))
            grid, grace = np.atleast_2d(self.grid), np.atleast_1d(self.grace)
            begin = np.zeros(len(self)) if start is None else np.asarray(start, float)
            kernels.mean_currency_crossing(
                price, self.limit, begin, grid, self.weights, grace, answer
            )
            return answer
        if isinstance(self.weights, np.ndarray):
            return super().period_at(price, start)
        return np.concatenate(
            [
                self.select(rows).period_at(price[rows], None if start is None else start[rows])
                for rows in _blocks(len(self))
            ]
        )

    def select(self, which: Choice) -> PosteriorMean:
        grace = self.grace if self.grace.ndim == 0 else self.grace[which]
        return PosteriorMean(self.kind, *self._points(which), grace)

    def _points(self, which: Choice) -> tuple[Floats, Floats]:
        """Rates and weights of some sources; one row of rates for all, or one for each."""
        if isinstance(self.weights, np.ndarray):
            return self.grid if self.grid.ndim == 1 else self.grid[which], self.weights[which]
        if isinstance(which, slice):
            first, last, step = which.indices(len(self))
            if step == 1:
                rates, weights = self.weights.points(first, max(first, last))
                return rates, weights
        wanted = np.arange(len(self))[which]
        rates, weights = self.weights.points(0, 0)
        own = rates.ndim == 2
        rows = np.empty((len(wanted), weights.shape[1]))
        grid = np.empty_like(rows) if own else rates
        for block in _blocks(len(self)):
            inside = (wanted >= block.start) & (wanted < block.stop)
            if inside.any():
                rates, weights = self.weights.points(block.start, block.stop)
                rows[inside] = weights[wanted[inside] - block.start]
                if own:
                    grid[inside] = rates[wanted[inside] - block.start]
        return grid, rows

    def _average(self, value: Callable[[Any, Floats], Floats], s: ArrayLike) -> Floats:
        """Mean over the grid, a block of sources at a time."""
        s = np.broadcast_to(np.asarray(s, float), (len(self),))
        total = np.empty(len(self))
        for rows in _blocks(len(self)):
            grid, weights = self._points(rows)
            grace = self.grace if self.grace.ndim == 0 else self.grace[rows][:, None]
            known = _on_grid(self.kind, grid, grace)
            with np.errstate(invalid="ignore"):
                values = np.where(weights > 0.0, value(known, s[rows, None]), 0.0)
                total[rows] = np.einsum("ij,ij->i", weights, values)
        return total


class Custom(Objective):
    """Any penalty of your own: `penalty(s, *parameters)`, with one entry of each array a source.

    It must not fall with s. Its integral, its index and the periods are found numerically.

    >>> late = Custom(lambda s, rate: 1 - np.exp(-((rate * s) ** 2)), [0.1, 1.0])
    >>> print(late.period_at(0.3).round(4))
    [3.6523 0.8918]
    """

    name = "custom"

    def __init__(
        self, penalty: Callable[..., Floats], *parameters: ArrayLike, count: int | None = None
    ) -> None:
        self._penalty = penalty
        self.parameters = tuple(np.atleast_1d(np.asarray(p, float)) for p in parameters)
        if not self.parameters and count is None:
            raise InputError("a custom objective needs an array with an entry for each source")
        self._count = len(self.parameters[0]) if self.parameters else int(count or 1)
        self._takes_rows = self._looks_at_each_alone()

    def _looks_at_each_alone(self) -> bool:
        """Whether the penalty can be asked for many rows of s at once, and says the same."""
        rows = np.multiply.outer([0.5, 2.0], np.arange(1.0, self._count + 1.0))
        alone = [self.penalty(row) for row in rows]
        try:
            found = np.asarray(self._penalty(rows, *self.parameters), float)
        except Exception:  # noqa: BLE001 - somebody's own code: then row by row
            return False
        return found.shape == rows.shape and np.array_equal(found, alone, equal_nan=True)

    def __len__(self) -> int:
        return self._count

    def penalty(self, s: ArrayLike) -> Floats:
        s = np.broadcast_to(np.asarray(s, float), (self._count,))
        return np.broadcast_to(np.asarray(self._penalty(s, *self.parameters), float), s.shape)

    def mean_penalty(self, period: ArrayLike) -> Floats:
        period = np.broadcast_to(np.asarray(period, float), (self._count,))
        finite = np.where(np.isfinite(period) & (period > 0.0), period, 1.0)
        mean, step = np.zeros(self._count), max(_CELLS // self._count, 1)
        for some in (slice(k, k + step) for k in range(0, len(NODES), step)):
            s = NODES[some, None] * finite
            one = self._penalty(s, *self.parameters) if self._takes_rows else None
            mean += WEIGHTS[some] @ ([*map(self.penalty, s)] if one is None else np.asarray(one))
        mean = np.where(np.isinf(period), self.penalty(np.full(self._count, np.inf)), mean)
        return np.where(period == 0.0, 0.0, mean)

    def select(self, which: Choice) -> Objective:
        return Custom(
            self._penalty,
            *(p[which] for p in self.parameters),
            count=len(np.arange(self._count)[which]),
        )


def _on_grid(kind: Any, grid: Floats, grace: Floats) -> Any:
    known: Any = POISSON[kind] if isinstance(kind, str) else partial(OwnObjective, kind)
    known = known(grid.ravel())
    known.rates = grid
    if kind == "currency":
        known.grace = grace
    return known


def _part_of(model: AgeModel, which: Choice) -> AgeModel:
    if isinstance(model, PoissonRates):
        return PoissonRates(model.rate[which])
    if isinstance(model, GammaRates):
        shape, exposure = np.broadcast_arrays(model.shape, model.exposure)
        return GammaRates(shape[which], exposure[which])
    if isinstance(model, RateMixture):
        return RateMixture(model.rates[which], model.weights[which])
    raise InputError(
        f"a {type(model).__name__} for several sources cannot be divided; "
        "give PoissonRates, GammaRates, a RateMixture, or one model for all"
    )


def _blocks(count: int) -> list[slice]:
    return [slice(i, min(i + _ROWS, count)) for i in range(0, count, _ROWS)]
