"""Each method by name, from the visits to one source to a model of its ages and intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from observant.errors import ObservantError
from observant.estimation.intervals.ages import m1, m2
from observant.estimation.intervals.comparisons import m3, m3_samples, m4, m5
from observant.estimation.intervals.concave import censored_pairs, fit_concave_pairs
from observant.estimation.intervals.curve import AgeCurve, bins_in
from observant.estimation.intervals.derivative import interval_curve
from observant.estimation.intervals.models import CurveModel, Model, ProcessModel
from observant.estimation.intervals.pairs import g_m4, m6
from observant.estimation.intervals.parametric import fit_parametric

if TYPE_CHECKING:
    from observant.estimation.intervals.diagnostics import SamplingCheck
    from observant.processes import Process

__all__ = ["FORMULAS", "Fit", "Segment", "fit_method"]

Floats: TypeAlias = NDArray[np.float64]
Segment: TypeAlias = tuple[Floats, NDArray[np.bool_], Floats]
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
