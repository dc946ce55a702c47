"""How long between updates? The whole distribution of intervals, from what visits reveal.

`estimate_intervals` is the front door; `METHODS` lists what it can do. Its answer for one source is
an `IntervalEstimate`: F (intervals), G (ages), the mean, and bands. For many sources at once see
`pooled`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from observant.arrays import Flags, Floats
from observant.errors import EstimationError, InputError, ObservantError
from observant.estimation.intervals.answer import Bands, Diagnostics, IntervalEstimate
from observant.estimation.intervals.concave import censored_pairs, fit_concave_pairs
from observant.estimation.intervals.curves import (
    AgeCurve,
    CurveModel,
    Model,
    ProcessModel,
    bins_in,
    interval_curve,
)
from observant.estimation.intervals.diagnostics import (
    SamplingCheck,
    block_bands,
    poisson_test_of_visits,
    sampling_check,
    visits_needed,
)
from observant.estimation.intervals.methods import g_m4, m1, m2, m3, m3_samples, m4, m5, m6
from observant.estimation.intervals.observations import Observations, find_source
from observant.estimation.intervals.parametric import fit_parametric
from observant.estimation.intervals.smooth import smooth_intervals
from observant.names import INTERVAL_METHODS
from observant.units import counted, format_duration
from observant.visits.log import require_log

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.estimation.intervals.pooled import PooledIntervals
    from observant.processes import Process
    from observant.visits import VisitLog


# -- Each method by name, from the visits to one source to a model of its ages and intervals ------


Segment: TypeAlias = tuple[Floats, Flags, Floats]
"""Times, outcomes and ages of consecutive visits; the first outcome means nothing."""

FORMULAS = ("exponential", "weibull", "lomax", "gamma", "lognormal")
_NAMES = {"pareto": "lomax"}
_AS_INTERVALS = ("m1", "m3")
"""Methods whose samples were once taken for intervals; what they measure is neither F nor G."""
_POINTS = 150
_MOST_POINTS = 2000


@dataclass(frozen=True, eq=False)
class Fit:
    """What a method found."""

    model: Model
    x: Floats
    """Where its curves are worth reading."""
    notes: tuple[str, ...] = ()
    mean_at_most: float = math.inf
    smoothing: float | Literal["auto"] = "auto"
    """The blur that `concave` chose."""
    formulas: tuple[dict[str, Any], ...] = ()
    """All families, best first, where one of them was asked for."""


def fit_method(
    method: str,
    segments: list[Segment],
    check: SamplingCheck,
    step: float | None,
    maximum: float | None,
    smoothing: float | Literal["auto"] = "auto",
) -> Fit:
    """Run one method on the visits to one source, the longest segment first."""
    times, changed, ages = segments[0]
    if method == "concave":
        return _concave(segments, step, maximum, smoothing)
    if method in FORMULAS:
        return _formula(method, segments[0], step, maximum)
    if method == "smooth":
        curve, at, F, mean, notes = smooth_intervals(m4(times, changed))
        return Fit(CurveModel(curve, at, F, mean), _fewer(curve.x), notes)
    if method == "m2":
        curve = m2(ages, step=step, maximum=maximum)
    elif method == "m1":
        curve = m1(ages, changed, step=step, maximum=maximum)
    elif method == "m3":
        curve = m3(times, changed)
    elif method == "m4":
        curve = m4(times, changed)
    elif method == "m5":
        curve = m5(*m3_samples(times, changed))
    elif method == "g-m4":
        curve = g_m4(times, changed, step=step, maximum=maximum)
    else:
        curve = m6(times, changed, step, maximum)
    dated = method in ("m1", "m2")
    return _of_curve(curve, None if dated else check.lattice_days, maximum)


def _concave(
    segments: list[Segment],
    step: float | None,
    maximum: float | None,
    smoothing: float | Literal["auto"],
) -> Fit:
    """Ours, on all segments at once."""
    parts = [censored_pairs(*part) for part in segments if len(part[0]) > 1]
    pairs = (np.concatenate(side) for side in zip(*parts, strict=True))
    found = fit_concave_pairs(*pairs, smoothing=smoothing)
    source = found.process()
    return Fit(
        ProcessModel(source, found.identified),
        _points(source, step, maximum),
        found.notes,
        math.inf if found.identified else source.mean,
        found.smoothing,
    )


def _formula(method: str, visits: Segment, step: float | None, maximum: float | None) -> Fit:
    """One family; the others are fitted too, to say which describes the visits best."""
    fits = fit_parametric(*visits)
    chosen = next(fit for fit in fits if _NAMES.get(fit.family, fit.family) == method)
    table = tuple(
        {
            "family": _NAMES.get(fit.family, fit.family),
            "mean_days": fit.process.mean,
            "aic": fit.aic,
            "ks": fit.ks,
            "process": repr(fit.process),
        }
        for fit in fits
    )
    notes = list(chosen.notes)
    if table[0]["family"] != method:
        gain = chosen.aic - fits[0].aic
        notes.append(f"{table[0]['family']} fits better: its AIC is {gain:.3g} less")
    return Fit(
        ProcessModel(chosen.process),
        _points(chosen.process, step, maximum),
        tuple(notes),
        formulas=table,
    )


def _points(source: Process, step: float | None, maximum: float | None) -> Floats:
    """Where G of a process rises: multiples of the step, or evenly in the logarithm."""
    far = source.mean * np.geomspace(1e-6, 1e6, 4001)
    G = np.asarray(source.age_cdf(far))
    low = float(far[int(np.searchsorted(G, 0.002))])
    high = maximum or float(far[min(int(np.searchsorted(G, 0.999)), len(far) - 1)])
    if step is None:
        return np.asarray(np.geomspace(min(low, high / 2.0), high, _POINTS), np.float64)
    return np.asarray(step * np.arange(1, bins_in(high, step) + 1), np.float64)


def _of_curve(curve: AgeCurve, lattice: float | None, maximum: float | None) -> Fit:
    """F from G by differentiation (Li, IV.E), where the visits let it be seen."""
    x = curve.x if maximum is None else curve.x[curve.x <= maximum * (1 + 1e-9)]
    x = _fewer(x if len(x) else curve.x[:1])
    if curve.method in _AS_INTERVALS:
        knots, values = np.append(0.0, curve.x), np.append(0.0, curve.values)
        mean = float(np.trapezoid(1.0 - values, knots)) if curve.method == "m1" else _steps(curve)
        return Fit(CurveModel(curve, knots, values, mean), x, curve.notes)
    if lattice is not None:
        first = float(curve.age_cdf(lattice))
        bound = lattice / first if first > 0.0 else math.inf
        return Fit(CurveModel(curve, None, None, math.nan), x, curve.notes, bound)
    try:
        at, F, mean, notes = interval_curve(curve)
    except ObservantError as error:
        notes = (*curve.notes, f"no intervals could be read from the ages: {error}")
        return Fit(CurveModel(curve, None, None, math.nan), x, notes)
    return Fit(CurveModel(curve, at, F, mean), x, notes)


def _steps(curve: AgeCurve) -> float:
    """Mean of samples that are multiples of the gap, Li (43)."""
    return float(curve.resolution * (1.0 + (1.0 - curve.values[:-1]).sum()))


def _fewer(x: Floats) -> Floats:
    """At most so many points, the first and last among them, even in the logarithm."""
    if len(x) <= _MOST_POINTS:
        return x
    at = np.searchsorted(x, np.geomspace(x[0], x[-1], _MOST_POINTS // 4) * (1 - 1e-12))
    kept: Floats = x[np.unique(np.minimum(at, len(x) - 1))]
    return kept


METHODS = INTERVAL_METHODS
"""The methods by name, and what each is in a line."""


_ALIASES = {"pareto": "lomax", "g_m4": "g-m4"}
_UNDATED = ("m4", "m5", "m6", "g-m4", "smooth")
"""Methods that do not look at dates."""
_ERRORS = (0.1, 0.05, 0.02)
_ENOUGH_CHANGES = 200
"""So many changes without a trace of memory, and a source may be called memoryless."""


def estimate_intervals(
    log: VisitLog,
    source: str | None = None,
    method: str = "auto",
    *,
    step: float | None = None,
    maximum: float | None = None,
    group: Any = None,
    bands: int | None = None,
    confidence: float = 0.95,
    seed: int = 1,
) -> IntervalEstimate | PooledIntervals:
    """Estimate the distribution of the time between updates of a source, from its visits.

    Parameters
    ----------
    log
        The visits. Failed ones observe nothing; dates that contradict what a visit found are set
        aside and counted in the notes.
    source
        Which source. Without one, a log of one source is that source, and a log of several is
        pooled: one shape for all (or for each group), after each source is scaled by its mean. The
        answer is then a `PooledIntervals`.
    method
        One of `METHODS`.
    step, maximum
        Days: where the curves are read. M6 counts pairs of visits in bins of `step` up to
        `maximum`. Unless told, both follow the data.
    group
        A label for each source, to be pooled apart; the log's own groups unless told.
    bands
        How many bootstrap samples make the bands, 20 or more; 0 for none. Unless told 100, and
        fewer for logs of more than 5,000 visits, down to 20. Stretches of the log are drawn,
        because neighbouring visits tell of the same interval. Formulas and pooled shapes have none.
    confidence
        Of the bands, at each x by itself.
    seed
        Of the bootstrap.

    Assumes that the source is stationary and that visits do not follow its updates.

    >>> import numpy as np
    >>> from observant import VisitLog
    >>> rng = np.random.default_rng(1)
    >>> updates = np.cumsum(rng.gamma(4.0, 0.5, 2000))  # every two days, rather regular
    >>> visits = np.cumsum(rng.exponential(1.0, 3500))
    >>> version = np.searchsorted(updates, visits)
    >>> log = VisitLog.from_columns(
    ...     ["page"] * 3500, visits, np.append(True, np.diff(version) > 0), time_unit="d"
    ... )
    >>> found = estimate_intervals(log, bands=0)
    >>> found.method, round(found.mean), found.diagnostics.ageing
    ('concave', 2, 'regular')
    """
    require_log(log)
    method = _checked(method, step, maximum, bands, confidence)
    if source is None and len(log.sources) > 1:
        from observant.estimation.intervals.pooled import pool_intervals

        return pool_intervals(log, method, group=group)
    place = 0 if source is None else find_source(log, source)
    name = str(log.sources[place])
    seen = Observations.from_log(log.select(name))
    try:
        return _estimate(seen, name, method, step, maximum, bands, confidence, seed)
    except InputError as error:
        if error.source is not None:
            raise
        raise InputError(error.message, source=name) from error
    except EstimationError as error:
        raise EstimationError(f"source {name!r}: {error}") from error


def _checked(
    method: str,
    step: float | None,
    maximum: float | None,
    bands: int | None,
    confidence: float,
) -> str:
    name = _ALIASES.get(method, method)
    if name not in METHODS:
        import difflib

        near = difflib.get_close_matches(method, METHODS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(METHODS)}"
        raise InputError(f"unknown method {method!r}; {hint}")
    for what, value in (("step", step), ("maximum", maximum)):
        if value is not None and not (math.isfinite(value) and value > 0.0):
            raise InputError(f"the {what} must be a finite duration above 0, not {value!r}")
    if step is not None and maximum is not None and step > maximum:
        raise InputError(f"the step ({step:g} d) is longer than the maximum ({maximum:g} d)")
    if bands is not None and bands != 0 and bands < 20:
        raise InputError(f"bands need 20 bootstrap samples or more (0 for none), not {bands!r}")
    if not 0.0 < confidence < 1.0:
        raise InputError(f"the confidence must lie between 0 and 1, not {confidence!r}")
    return name


def _estimate(
    seen: Observations,
    name: str,
    method: str,
    step: float | None,
    maximum: float | None,
    bands: int | None,
    confidence: float,
    seed: int,
) -> IntervalEstimate:
    segments = sorted(seen.segments(0), key=lambda part: -len(part[0]))
    _require_changes(segments)
    check = sampling_check(*segments[0])
    chosen, why = _choose(check) if method == "auto" else (method, "asked for")
    if (chosen in _UNDATED or not check.dated) and segments[0][1][1:].all():
        raise EstimationError(_always_changed(segments[0][0]))
    maximum, cut = _within(step, maximum, check.days)
    fit = fit_method(chosen, segments, check, step, maximum)
    if fit.model.identified:
        check = sampling_check(*segments[0], mean=fit.model.mean)

    def again(times: Floats, changed: Flags, ages: Floats) -> Model:
        part = [(times, changed, ages)]
        return fit_method(chosen, part, check, step, maximum, fit.smoothing).model

    samples = min(max(500_000 // check.visits, 20), 100) if bands is None else bands
    samples = 0 if chosen in FORMULAS else samples  # they are compared with each other instead
    drawn, doubt = _bands(again, segments[0], fit, samples, confidence, seed)
    notes = [*_notes_on(seen, segments, chosen), *cut, *fit.notes, *check.warnings, *doubt]
    return IntervalEstimate(
        source=name,
        x_days=fit.x,
        method=chosen,
        why=why,
        mean=fit.model.mean,
        mean_at_most=fit.mean_at_most,
        notes=tuple(dict.fromkeys(notes)),
        diagnostics=_diagnosed(fit, check, seen),
        bands=drawn,
        formulas=fit.formulas,
        _model=fit.model,
    )


def _choose(check: SamplingCheck) -> tuple[str, str]:
    """Li's figure 22, extended by ours, which has the smaller error wherever F can be seen."""
    if check.dated > 0.9:
        return "concave", (
            "visits are dated: figure 22 of Li says M2, and this uses the same ages with a smaller "
            "error and without differentiation"
        )
    if check.dated > 0.0:
        return "concave", "some visits are dated and some are not, and this uses both"
    if check.constant:
        return "m4", (
            "the gaps between visits are constant and nothing is dated, so G can be known at "
            "multiples of the gap only: by M4 (Li, figure 22)"
        )
    return "concave", (
        "the gaps between visits vary and nothing is dated: figure 22 of Li says M6, and this has "
        "less than half its error"
    )


def _bands(
    again: Callable[[Floats, Flags, Floats], Model],
    visits: Segment,
    fit: Fit,
    samples: int,
    confidence: float,
    seed: int,
) -> tuple[Bands | None, list[str]]:
    """The same method on logs put together from stretches of this one."""
    if not samples:
        return None, []
    x, count = fit.x, len(fit.x)

    def estimator(times: Floats, changed: Flags, ages: Floats, _: Floats) -> Floats:
        model = again(times, changed, ages)
        G = model.age_cdf(x)
        if not fit.model.identified:
            return G
        # A resampled log without F has one all the same, if not a good one: that of its process.
        curve = model if model.identified else ProcessModel(model.process())
        return np.concatenate([G, curve.interval_cdf(x), [curve.mean]])

    try:
        found = block_bands(
            *visits, estimator, [0.0], replicates=samples, level=confidence, seed=seed
        )
    except EstimationError as error:
        return None, [f"no bands: {error}"]
    low, high = (np.clip(side, 0.0, 1.0) for side in (found.low, found.high))
    known = fit.model.identified
    nothing = np.full(count, np.nan)
    return Bands(
        age_low=low[:count],
        age_high=high[:count],
        interval_low=low[count:-1] if known else nothing,
        interval_high=high[count:-1] if known else nothing,
        mean_low=float(found.low[-1]) if known else math.nan,
        mean_high=float(found.high[-1]) if known else math.nan,
        confidence=confidence,
        samples=found.replicates,
    ), list(found.notes)


def _diagnosed(fit: Fit, check: SamplingCheck, seen: Observations) -> Diagnostics:
    test = poisson_test_of_visits(seen)
    memory, p = float(test.memory[0]), float(test.memory_p[0])
    source = fit.model.process()
    ratio = source.mean_age / source.mean if fit.model.identified else math.nan
    return Diagnostics(
        sampling=check,
        ageing=_ageing(memory, p, ratio, check.changes),
        memory=memory,
        memory_p=p,
        age_over_interval=ratio,
        visits_for_error={
            error: visits_needed(source, error, gap=check.mean_gap_days, dated=check.dated > 0.9)
            for error in _ERRORS
        },
    )


def _ageing(memory: float, p: float, ratio: float, changes: int) -> str | None:
    """What the visits say of memory, unless the fitted curves contradict it.

    An estimated F is too rough near 0 to be compared with G point by point (`ageing` does that for
    known curves); the score test of the visits has a level that holds, and E[age]/E[interval],
    which is above 1 for every source that is new worse than used, hardly feels the roughness.
    """
    if math.isnan(p):
        return None
    if p >= 0.05:
        return "memoryless" if changes >= _ENOUGH_CHANGES else None
    kind = "bursty" if memory < 0.0 else "regular"
    opposite = ratio < 1.0 if kind == "bursty" else ratio > 1.0
    return "mixed" if opposite else kind


def _notes_on(seen: Observations, segments: list[Segment], method: str) -> list[str]:
    notes = []
    if seen.failed:
        notes.append(f"{counted(seen.failed, 'visit')} failed and observed nothing")
    if seen.conflicts:
        dates = counted(seen.conflicts, "date of modification", "dates of modification")
        notes.append(f"{dates} set aside: they contradict what the visit found")
    if len(segments) > 1 and method != "concave":
        left = sum(len(part[0]) for part in segments[1:])
        notes.append(
            f"the outcome of {counted(len(segments) - 1, 'visit')} is not known; the longest "
            f"stretch without such a visit is used, {counted(left, 'visit')} left out"
        )
    return notes


def _within(
    step: float | None, maximum: float | None, days: float
) -> tuple[float | None, list[str]]:
    """Nothing longer than the log was seen."""
    if step is not None and step > days:
        raise InputError(
            f"the step, {format_duration(step)}, is longer than the log, {format_duration(days)}"
        )
    if maximum is None or maximum <= days * (1 + 1e-9):
        return maximum, []
    asked, length = format_duration(maximum), format_duration(days)
    return days, [f"no two visits are {asked} apart: the curves end at the log's {length}"]


def _require_changes(segments: list[Segment]) -> None:
    visits = sum(len(part[0]) for part in segments)
    if not segments:
        raise EstimationError("no visit succeeded, so nothing was observed")
    times = segments[0][0]
    if len(times) < 2:
        raise EstimationError(
            f"{counted(visits, 'visit')}, none of which could be compared with another: a curve "
            "needs at least two, and some twenty changes to be any good"
        )
    if not any(part[1][1:].any() for part in segments):
        raise EstimationError(
            f"no change was seen in {counted(visits, 'visit')} over "
            f"{format_duration(float(times[-1] - times[0]))}, so nothing is known of the intervals "
            "but that they are long; `observant estimate` gives an upper bound of the rate"
        )


def _always_changed(times: Floats) -> str:
    gap = format_duration(float(np.diff(times).min()))
    return (
        f"every one of {counted(len(times) - 1, 'comparison')} found a change, so intervals are "
        f"shorter than the gaps between visits (the shortest is {gap}) and nothing shows how much: "
        "visit more often, or record dates of modification"
    )
