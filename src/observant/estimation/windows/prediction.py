"""When is the next update due? From the latest window; and how well that would have gone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from observant.errors import InputError
from observant.estimation.windows import scan_loops as scanning
from observant.estimation.windows.consistent import COMPILED_FROM, consistent_windows
from observant.estimation.windows.points import instants, update_points
from observant.estimation.windows.weibull_rate import log_sum, rates_at_points
from observant.tables import Table
from observant.units import counted

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import ArrayLike

    from observant.arrays import Floats, Integers
    from observant.estimation.windows.consistent import Windows
    from observant.estimation.windows.points import History, UpdatePoints
    from observant.processes.updates import Seed


MODELS = ("weibull", "count")
"""A power law in the latest window, or a constant rate in it."""

ROLLED = {
    "count": scanning.BY_COUNT,
    "weibull": scanning.WEIBULL,
    "weibull-corrected": scanning.CORRECTED,
    "duane": scanning.DUANE,
    "cho": scanning.CHO,
    "matloff": scanning.MATLOFF,
}
"""Estimators that can be rolled forward, and the number by which the loop knows them."""


@dataclass(frozen=True, eq=False, repr=False)
class Predictions(Table):
    """When the next update of each source is due, given that none was seen until `now`."""

    columns: ClassVar[tuple[str, ...]] = (
        "source",
        "points",
        "last_update",
        "now",
        "next_update",
        "next_low",
        "next_high",
        "next_by_rate",
        "silence_probability",
    )

    source: pa.Array
    points: Integers
    """Of the latest window; 0 where a source was never seen to be updated."""
    days: dict[str, Floats]
    silence_probability: Floats
    """How likely so long a silence, from the last update until now, was."""
    calendar: bool
    model: str
    confidence: float
    notes: tuple[str, ...] = ()

    def _instants(self, name: str) -> Any:
        return instants(self.days[name], self.calendar)

    @property
    def last_update(self) -> Any:
        """The last update that was seen."""
        return self._instants("last_update")

    @property
    def now(self) -> Any:
        """Until when nothing was seen since."""
        return self._instants("now")

    @property
    def next_update(self) -> Any:
        """As likely before as after: the median."""
        return self._instants("next_update")

    @property
    def next_low(self) -> Any:
        return self._instants("next_low")

    @property
    def next_high(self) -> Any:
        return self._instants("next_high")

    @property
    def next_by_rate(self) -> Any:
        """The paper's prediction: the last update plus 1/λ̌(tₙ)."""
        return self._instants("next_by_rate")

    def __repr__(self) -> str:
        return f"<Predictions: {counted(len(self), 'source')}, model {self.model}>"


def predict_next(
    data: History,
    *,
    model: str = "weibull",
    now: ArrayLike | None = None,
    confidence: float = 0.95,
    place: str = "middle",
    start: ArrayLike | None = None,
    seed: Seed = 0,
    **cutting: Any,
) -> Predictions:
    """Predict the next update of each source from its latest window.

    Under the power law, n ln(tₙ₊₁/tₙ)(n−1)/S has the F distribution with 2 and 2(n−1) degrees of
    freedom, whatever β and η are. So the prediction is exact, with the estimation error in it:

        P(next update after t) = (1 + n ln(t/tₙ)/S)^{−(n−1)}

    and with a constant rate (`model` ``count``) it is (t/tₙ)^{−n}, times counted from the start of
    the window. What is known to be over is taken out: nothing was seen until `now` (of a visit
    log, its last visit; of update times, the last update), in the same days.

    `cutting` are the options of `consistent_windows`, the others those of `update_points`.

    >>> clock = predict_next([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0], model="count")
    >>> clock.days["next_update"].round(2), clock.days["next_high"].round(2)
    (array([6.73]), array([11.1]))
    """
    if model not in MODELS:
        raise InputError(f"model is one of {', '.join(MODELS)}, not {model!r}")
    if not 0 < confidence < 1:
        raise InputError(f"confidence lies between 0 and 1, not {confidence}")
    points = update_points(data, place=place, start=start, seed=seed)
    windows = consistent_windows(points, **cutting)
    windows = windows.select(windows.is_last)
    last = windows.last
    here = _moments(points, now)[windows.owner]
    if (here < last).any():
        first = points.names(windows.owner)[int(np.argmax(here < last))].as_py()
        raise InputError("now lies before the last update", source=first)
    middle, low, high = next_after(windows, confidence, model, since=here)
    paper = rates_at_points(windows, "weibull")[windows.offsets[1:] - 1]
    with np.errstate(divide="ignore"):
        known = {
            "last_update": last,
            "now": here,
            "next_update": middle,
            "next_low": low,
            "next_high": high,
            "next_by_rate": last + 1 / paper,
        }
    days = {name: _spread(windows.owner, values, len(points)) for name, values in known.items()}
    counts = np.zeros(len(points), np.int64)
    counts[windows.owner] = windows.n
    silent = _survival(windows, model, here - last)
    return Predictions(
        source=points.names(np.arange(len(points))),
        points=counts,
        days=days,
        silence_probability=_spread(windows.owner, silent, len(points)),
        calendar=points.calendar,
        model=model,
        confidence=confidence,
        notes=points.notes,
    )


def next_after(
    windows: Windows, confidence: float, model: str = "weibull", since: Floats | None = None
) -> tuple[Floats, Floats, Floats]:
    """Median and interval of the update after each window, with none until `since`."""
    n, s, end = windows.n, log_sum(windows), windows.end
    waited = np.zeros(len(n)) if since is None else since - windows.last
    tail = (1 - confidence) / 2
    by_count = (n < 2) | (model == "count")

    def at(survival: float) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            passed = np.log1p(waited / end)
            growth = survival ** (-1 / np.maximum(n - 1, 1))
            log_time = ((s + n * passed) * growth - s) / n
            power = end * np.exp(log_time)
            constant = (end + waited) * survival ** (-1 / n)
        return windows.origin + np.where(by_count, constant, power)

    return at(0.5), at(1 - tail), at(tail)


def _survival(windows: Windows, model: str, waited: Floats) -> Floats:
    """Probability that nothing happens for so long after the last point."""
    n, s = windows.n, log_sum(windows)
    passed = np.log1p(waited / windows.end)
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.exp(-(n - 1) * np.log1p(n * passed / s))
    return np.where((n < 2) | (model == "count"), np.exp(-n * passed), power)


def _moments(points: UpdatePoints, now: ArrayLike | None) -> Floats:
    if now is None:
        return points.until
    return np.array(np.broadcast_to(np.asarray(now, float), len(points)))


def _spread(owner: Integers, values: Floats, sources: int) -> Floats:
    out = np.full(sources, np.nan)
    out[owner] = values
    return out


# -- rolled forward -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Rolled:
    """What visiting at predicted times would have found: a row of Singh's table 4."""

    estimator: str
    updates: int
    """After the windows that predictions began with."""
    visits: int
    detections: int
    """Visits that found at least one update; of several, only the last one is seen."""

    @property
    def observed(self) -> float:
        """Share of the updates that were seen (Singh: %Obs)."""
        return self.detections / self.updates if self.updates else float("nan")

    @property
    def premature(self) -> float:
        """Share of the visits that found nothing (Singh: %Prem)."""
        return 1 - self.precision

    @property
    def precision(self) -> float:
        """Updates seen per visit (Singh: %Prec)."""
        return self.detections / self.visits if self.visits else float("nan")


def roll_forward(
    windows: Windows,
    estimator: str = "weibull",
    *,
    tau: float = 1.0,
    most: int = 10,
    shortest: float = 0.0,
    stretch: float = 1.0,
) -> Rolled:
    """Start with the first window of each source, visit when an update is due, learn, go on.

    Singh, section 5, in our reading: the first window opens the history with at most its first
    `most` points; a visit is made 1/λ(tₙ) days after the one before, times `stretch`, and not
    sooner than `shortest`; a visit that finds an update adds its date to the window (of several
    updates the last one, as dates of modification do); a visit that finds none is premature and
    adds nothing. It ends with the last update of the source.
    """
    if estimator not in ROLLED:
        raise InputError(f"only {', '.join(ROLLED)} can be rolled forward, not {estimator!r}")
    if not stretch > 0 or not tau > 0 or shortest < 0:
        raise InputError("stretch and tau must be positive, and shortest not negative")
    points = windows.points
    opening = np.zeros(len(points), np.int64)
    first = np.ones(len(windows), bool)
    first[1:] = windows.owner[1:] != windows.owner[:-1]
    long_enough = first & (windows.n >= 4)
    opening[windows.owner[long_enough]] = np.minimum(windows.n[long_enough], max(most, 4))
    last = points.start.copy()
    filled = points.counts > 0
    last[filled] = points.times[points.offsets[1:][filled] - 1]
    out = np.zeros((len(points), 3), np.int64)
    run: Any = scanning.roll
    if len(points.times) >= COMPILED_FROM:
        from observant.estimation.windows import kernels

        run = kernels.roll
    # Nobody visits more than a few thousand times per update seen.
    floor = max(shortest, 1e-3 * float(np.median(windows.end / windows.n))) if len(windows) else 1.0
    run(
        points.times,
        points.offsets,
        points.start,
        opening,
        last,
        ROLLED[estimator],
        float(tau),
        float(stretch),
        floor,
        out,
    )
    updates, visits, detections = (int(total) for total in out.sum(axis=0))
    return Rolled(estimator, updates, visits, detections)
