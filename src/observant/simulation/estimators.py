"""Many estimators over one trace: whose rates are nearer to the truth?

`observe` visits the sources of a trace as somebody would who comes now and then, and gives the
visit log of that. `compare_estimators` estimates from such a log by every method that is asked for,
one's own too, and holds the rates against the true ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from observant.errors import InputError
from observant.estimation.rates import estimate_rates
from observant.processes.updates import generator
from observant.tables import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from observant.arrays import Floats
    from observant.estimation.rates import Own
    from observant.processes import Process
    from observant.processes.updates import Seed
    from observant.simulation.traces import Trace
    from observant.visits import VisitLog

_METHODS = ("naive", "improved", "mle", "bias-reduced", "pooled")


def observe(trace: Trace, visits: Process, *, dated: bool = False, seed: Seed = None) -> VisitLog:
    """Visit every source of a trace from its start to its end, and write down what is seen.

    `visits` says when: ``Poisson(1 / 7)`` comes at random, once a week on average, and
    ``Constant(7.0)`` every week, from a random day on. Each source is also visited at the start.
    With `dated`, visits tell when the source was last modified.

    >>> from observant.processes import Constant, Poisson
    >>> from observant.simulation.traces import Trace
    >>> trace = Trace.sample(Poisson(1.0), [0.1] * 3, horizon=365, seed=1)
    >>> observe(trace, Constant(7.0), seed=1)
    VisitLog: 160 visits to 3 sources over 364d, 82 changes in 157 comparisons
    """
    from observant.simulation import kernels
    from observant.visits import VisitLog

    if not trace.span > 0:
        raise InputError("the trace has no span to visit it in: give it a start and an end")
    sources = len(trace)
    coming = visits.sample(trace.span, sources=sources, seed=generator(seed))
    which = np.concatenate([np.arange(sources), coming.sources])
    at = trace.start + np.concatenate([np.zeros(sources), coming.times])
    order = np.lexsort((at, which))
    which, at = which[order], at[order]
    first = np.ones(len(which), bool)
    first[1:] = which[1:] != which[:-1]
    since = np.where(first, at, np.concatenate([[0.0], at[:-1]]))
    changed, age = kernels.look(trace.updates.times, trace.updates.offsets, which, since, at)
    names = np.array(trace.sources, object)
    groups = None if trace.groups is None else np.array(trace.groups, object)[trace.group]
    return VisitLog.from_columns(
        names[which],
        at,
        np.where(first, None, changed),
        at - age if dated else None,
        group=None if groups is None else groups[which],
        time_unit="d",
        on_duplicate="last",
    )


@dataclass(frozen=True, eq=False, repr=False)
class EstimatorComparison(Table):
    """How far each estimator was from the truth, over all sources."""

    columns: ClassVar[tuple[str, ...]] = ("method", "bias", "factor", "covered", "no_rate")

    method: Any
    bias: Floats
    """All rates that it gave together, over the true ones of the same sources, less 1."""
    factor: Floats
    """Half of its rates lie within this factor of the truth; infinite where most are 0."""
    covered: Floats
    """Share of the intervals that hold the true rate."""
    no_rate: Floats
    """Share of sources to which it gave 0, infinity, or no rate."""
    confidence: float
    sources: int
    visits: int

    def __repr__(self) -> str:
        return f"<EstimatorComparison: {len(self)} methods, {self.sources:,} sources>"

    def __str__(self) -> str:
        width = max([6, *(len(name) for name in self.method)])
        hold = f"{100 * self.confidence:g} % hold it"
        lines = [f"{'method':{width}}     bias  half within  {hold:>12}  no rate"]
        for row in self.rows():
            factor = "?" if row["factor"] is None else f"×{row['factor']:.2f}"
            bias = "?" if row["bias"] is None else f"{100 * row['bias']:+.1f} %"
            lines.append(
                f"{row['method']:{width}}  {bias:>7}  {factor:>11}  "
                f"{100 * row['covered']:>10.1f} %  {100 * row['no_rate']:>5.1f} %"
            )
        return "\n".join(lines)


def compare_estimators(
    log: VisitLog,
    truth: Trace | ArrayLike,
    methods: Sequence[str | Own] = _METHODS,
    *,
    confidence: float = 0.95,
) -> EstimatorComparison:
    """Estimate the rates of a log by several methods, and hold them against the truth.

    Parameters
    ----------
    log
        What was seen, for instance by `observe`.
    truth
        The true rate per day of each source of the log, in the log's order; or the trace, whose
        updates over its span are then taken for the truth.
    methods
        Names or functions, as `estimate_rates` takes them.
    confidence
        Of the intervals.

    Sources that never change are left out: no factor leads to a rate of 0.

    >>> from observant.processes import Constant, Poisson
    >>> from observant.simulation.traces import Trace
    >>> rates = np.repeat([0.02, 0.2], 200)
    >>> trace = Trace.sample(Poisson(1.0), rates, horizon=140, seed=1)
    >>> print(compare_estimators(observe(trace, Constant(7.0), seed=1), rates))
    method           bias  half within  95 % hold it  no rate
    naive         -42.7 %        ×1.75        96.5 %    2.7 %
    improved       -2.3 %        ×1.33        96.5 %    2.7 %
    mle            +3.6 %        ×1.30        96.5 %    3.2 %
    bias-reduced   -0.8 %        ×1.32        96.5 %    2.7 %
    pooled         -2.6 %        ×1.23        98.8 %    0.0 %
    """
    if not len(methods):
        raise InputError("give one estimator or more")
    rates = _true_rates(log, truth)
    moving = rates > 0
    rows, names = [], []
    for method in methods:
        table = estimate_rates(log, method, confidence=confidence)
        names.append(table.method)
        rows.append(
            _judged(
                table.rate_per_day[moving],
                table.rate_low[moving],
                table.rate_high[moving],
                rates[moving],
            )
        )
    bias, factor, covered, no_rate = np.array(rows, float).T
    return EstimatorComparison(
        method=np.array(names, object),
        bias=bias,
        factor=factor,
        covered=covered,
        no_rate=no_rate,
        confidence=confidence,
        sources=int(np.count_nonzero(moving)),
        visits=len(log),
    )


def _judged(
    rate: Floats, low: Floats, high: Floats, truth: Floats
) -> tuple[float, float, float, float]:
    usable = np.isfinite(rate) & (rate > 0)
    finite = np.isfinite(rate)
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.where(np.isfinite(rate), np.abs(np.log(rate / truth)), np.inf)
        bias = rate[finite].sum() / truth[finite].sum() - 1.0
    # Half of them, without a mean of two: one of these may be infinite.
    factor = float(np.exp(np.sort(off)[(len(off) - 1) // 2])) if len(off) else np.nan
    covered = np.mean((low <= truth) & (truth <= high)) if len(off) else np.nan
    return float(bias), factor, float(covered), float(1.0 - usable.mean()) if len(off) else np.nan


def _true_rates(log: VisitLog, truth: Trace | ArrayLike) -> Floats:
    if hasattr(truth, "updates"):
        trace: Any = truth
        if log.sources.to_pylist() != list(trace.sources):
            raise InputError("the log and the trace are not of the same sources")
        counts = trace.updates.count_until(trace.end) - trace.updates.count_until(trace.start)
        return np.asarray(counts / trace.span, float)
    rates = np.asarray(truth, float)
    if rates.shape != (len(log.sources),):
        raise InputError(f"give one true rate for each of the {len(log.sources)} sources")
    if not (np.isfinite(rates) & (rates >= 0)).all():
        raise InputError("a true rate is a finite number, 0 or more")
    return rates
