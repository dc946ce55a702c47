"""What `estimate_intervals` answers with: F, G, the mean, bands, and what to doubt."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from observant.errors import EstimationError, InputError
from observant.estimation.intervals.diagnostics import SamplingCheck, visits_needed
from observant.tables import Table
from observant.units import format_duration

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import ArrayLike

    from observant.arrays import Floats
    from observant.estimation.intervals.curves import Model
    from observant.processes import Process


@dataclass(frozen=True, eq=False)
class Bands:
    """Where the curves may lie as well, at each x of the estimate."""

    age_low: Floats
    age_high: Floats
    interval_low: Floats
    interval_high: Floats
    mean_low: float
    mean_high: float
    confidence: float
    samples: int


@dataclass(frozen=True)
class Diagnostics:
    """What to know before believing the curve; see `diagnostics`."""

    sampling: SamplingCheck
    ageing: str | None
    """bursty (new worse than used), regular (new better than used), memoryless, mixed, or None
    where it cannot be said."""
    memory: float
    """From the visits alone, rate ∝ ageᵞ: γ, 0 for Poisson; NaN with too few changes."""
    memory_p: float
    age_over_interval: float
    """E[age]/E[interval]: 1 for Poisson, ½ for a clock, above 1 for bursts; NaN without F."""
    visits_for_error: dict[float, int]
    """Visits that would bring the error of G down to each of these, with 95 % confidence."""

    def summary(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        sampling = {
            name: getattr(self.sampling, name)
            for name in self.sampling.__dataclass_fields__
            if name != "warnings"
        }
        return {
            **sampling,
            "ageing": self.ageing,
            "memory": self.memory,
            "memory_p": self.memory_p,
            "age_over_interval": self.age_over_interval,
            "visits_for_error": {f"{error:g}": n for error, n in self.visits_for_error.items()},
        }


@dataclass(frozen=True, eq=False, repr=False)
class IntervalEstimate(Table):
    """The distribution of the time between updates of one source, as far as visits show it.

    It has an `age_cdf`, so it goes into `observant.currency` as it is; `process()` also has what
    planning and simulation need.
    """

    figure: ClassVar[str] = "observant.figures.intervals:interval_figure"

    columns: ClassVar[tuple[str, ...]] = ("x_days", "age_cdf", "interval_cdf")

    source: str
    x_days: Floats
    """Where the curves were estimated; the functions take any x."""
    method: str
    why: str
    """Why this method was taken."""
    mean: float
    """Mean interval in days; NaN where the visits cannot show it."""
    mean_at_most: float
    """A bound that constant gaps still give: Δ/G(Δ); infinite where there is none."""
    notes: tuple[str, ...]
    diagnostics: Diagnostics | None
    """None for a pooled shape."""
    bands: Bands | None
    formulas: tuple[Any, ...] = ()
    """The parametric fits with their AIC, best first, where a formula was asked for."""
    _model: Model = field(repr=False, default=None)  # type: ignore[assignment]

    @property
    def identified(self) -> bool:
        """Whether F and the mean can be known: not from constant gaps without dates."""
        return self._model.identified

    def age_cdf(self, x: ArrayLike) -> Floats:
        """G(x): probability that the last update, or the next, is at most x days away."""
        at = np.asarray(x, np.float64)
        inside = np.clip(self._model.age_cdf(np.maximum(at, 0.0)), 0.0, 1.0)
        return np.where(at <= 0.0, 0.0, inside)[()]

    def integrated_age_sf(self, x: ArrayLike) -> Floats:
        """∫₀ˣ (1 − G), which is what currency needs; it is x for negative x."""
        at = np.asarray(x, np.float64)
        return np.where(at <= 0.0, at, self._model.integrated_age_sf(np.maximum(at, 0.0)))[()]

    def interval_cdf(self, x: ArrayLike) -> Floats:
        """F(x): probability that an interval is at most x days; NaN where it is not identified."""
        at = np.asarray(x, np.float64)
        inside = np.clip(self._model.interval_cdf(np.maximum(at, 0.0)), 0.0, 1.0)
        return np.where(at < 0.0, 0.0, inside)[()]

    def quantile(self, q: ArrayLike) -> Floats:
        """Interval that a share q of all does not exceed; infinite beyond what was estimated."""
        self._require_f("quantiles")
        share = np.asarray(q, np.float64)
        if not np.all((share >= 0.0) & (share <= 1.0)):
            raise InputError("a quantile is asked for a share between 0 and 1")
        top = float(self.x_days[-1])
        low, high = np.zeros(share.shape), np.full(share.shape, 1e3 * top)
        inside = self.interval_cdf(high) >= share
        for _ in range(100):
            middle = (low + high) / 2.0
            reached = self.interval_cdf(middle) >= share
            low, high = np.where(reached, low, middle), np.where(reached, middle, high)
        return np.where(inside, high, np.inf)[()]

    def hazard(self, x: ArrayLike) -> Floats:
        """Rate of an update x days after the last one, averaged around x where F has steps."""
        self._require_f("hazard")
        return self._model.hazard(x)

    def process(self) -> Process:
        """Return the source as a process, for currency, planning and simulation.

        For the methods of Li it is the source whose G is nearest to the measured one and concave,
        as every G is. Where F is not identified its intervals are one possibility among many; its
        G is what was measured.
        """
        return self._model.process()

    def visits_needed(self, error: float) -> int:
        """Visits like these that would bring the error of G down to `error`.

        With bands it follows from their width, which shrinks like 1/√n; without, from the formula
        of `diagnostics.visits_needed`.
        """
        if self.diagnostics is None:
            raise EstimationError("a pooled shape has no visits of its own")
        sampling = self.diagnostics.sampling
        if self.bands is not None and error > 0.0:
            half = float(np.max(self.bands.age_high - self.bands.age_low)) / 2.0
            return max(2, math.ceil(sampling.visits * (half / error) ** 2))
        return visits_needed(
            self.process(), error, gap=sampling.mean_gap_days, dated=sampling.dated > 0.9
        )

    def __len__(self) -> int:
        return len(self.x_days)

    def to_arrow(self) -> pa.Table:
        """Return the curves at `x_days` as a PyArrow table, with the bands where there are any."""
        import pyarrow as pa

        table = {
            "x_days": self.x_days,
            "age_cdf": self.age_cdf(self.x_days),
            "interval_cdf": self.interval_cdf(self.x_days),
        }
        if self.bands is not None:
            for name in ("age_low", "age_high", "interval_low", "interval_high"):
                table[name] = getattr(self.bands, name)
        return pa.table(table)

    def summary(self) -> dict[str, Any]:
        """The answer as plain values, for JSON."""
        bands = None
        if self.bands is not None:
            bands = {name: getattr(self.bands, name) for name in self.bands.__dataclass_fields__}
        return {
            "source": self.source,
            "method": self.method,
            "why": self.why,
            "mean_days": self.mean,
            "mean_at_most_days": self.mean_at_most,
            "x_days": self.x_days,
            "age_cdf": self.age_cdf(self.x_days),
            "interval_cdf": self.interval_cdf(self.x_days),
            "warnings": list(self.notes),
            "bands": bands,
            "diagnostics": None if self.diagnostics is None else self.diagnostics.summary(),
            "formulas": [dict(fit) for fit in self.formulas],
        }

    def __repr__(self) -> str:
        mean = format_duration(self.mean) if self.identified else "not identified"
        return f"<IntervalEstimate: {self.source!r}, method {self.method}, mean interval {mean}>"

    def _require_f(self, what: str) -> None:
        if not self.identified:
            raise EstimationError(
                f"source {self.source!r}: no {what} can be told: the visits do not show what "
                "happens within one gap (constant gaps, or all of them too long)"
            )
