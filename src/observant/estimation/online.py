"""The same estimates, one visit at a time, in constant memory.

Counts are enough for `naive`, `improved`, `bayes-beta` and `last-modified`: they agree with the
batch to rounding. So does the belief (`OnlinePosterior`), which is that of the pooled estimates.
`mle` and `bias-reduced` need every gap; gaps are kept in bins of a sixteenth of an octave (those of
one bin by their mean), which moves the rate by less than `TOLERANCE` of itself, and by nothing when
the visits are regular.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError
from observant.estimation.belief import DRIFT, Beliefs, Likelihoods, RateBelief
from observant.estimation.evidence import CHANGED, DATED, Evidence
from observant.estimation.firth import Totals
from observant.estimation.priors import Prior, first
from observant.estimation.rates import EVIDENCE, closed_form, evidence_codes, solve

if TYPE_CHECKING:
    from observant.arrays import Floats

__all__ = ["TOLERANCE", "OnlinePosterior", "OnlineRate", "RateEstimate"]

TOLERANCE = 1e-3
"""By how much binning may move a rate that needs every gap, relative to itself."""

_BINS_PER_OCTAVE = 16


@dataclass(frozen=True)
class RateEstimate:
    """A rate with its interval and what stands behind it; fields as in `RateTable`."""

    visits: int
    changes: int
    exposure_days: float
    rate_per_day: float
    rate_low: float
    rate_high: float
    method: str
    evidence: str


@dataclass
class OnlineRate:
    """The rate of one source, updated visit by visit.

    >>> page = OnlineRate("improved")
    >>> for day, changed in enumerate(
    ...     [None, True, False, True]
    ... ):  # the first visit compares nothing
    ...     page.visit(day, changed)
    >>> round(page.estimate().rate_per_day, 4)
    0.8473

    Times are days on any clock; they must increase. A failed visit is not told.
    """

    method: str = "bias-reduced"
    offsets: tuple[float, float] = (0.5, 0.5)
    beta_prior: tuple[float, float] = (1.0, 1.0)
    _last: float | None = field(default=None, init=False, repr=False)
    _visits: int = field(default=0, init=False, repr=False)
    # per bin of gaps and kind of comparison: how many, their gaps and their ages added up
    _bins: dict[tuple[int, int], list[float]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        known = {"naive", "improved", "bayes-beta", "mle", "bias-reduced"}
        if self.method not in known | {"last-modified", "last-modified-raw"}:
            raise InputError(f"there is no online form of {self.method!r}")

    def visit(self, time: float, changed: bool | None, age: float | None = None) -> None:
        """Take in a successful visit at `time`.

        `changed` compares it with the one before (None if that cannot be known), and `age` is the
        time since the source's date of modification, if it has one.
        """
        if self._last is not None and time <= self._last:
            raise InputError(f"visits must come in order of time: {time} after {self._last}")
        self._visits += 1
        before, self._last = self._last, time
        if before is None or changed is None:
            return
        gap = time - before
        kind = CHANGED if changed else 0
        if self.method != "mle" and age is not None and (age < gap) == changed:
            kind |= DATED
        bin_ = int(np.floor(np.log2(gap) * _BINS_PER_OCTAVE))
        sums = self._bins.setdefault((bin_, kind), [0.0, 0.0, 0.0])
        sums[0] += 1.0
        sums[1] += gap
        sums[2] += age if kind == CHANGED | DATED and age is not None else 0.0

    def estimate(self, confidence: float = 0.95) -> RateEstimate:
        """The estimate as it stands."""
        evidence = self._evidence()
        totals = Totals.of(evidence)
        rate, low, high = solve(evidence, confidence, method="mle" if self.method == "mle" else "")
        if self.method not in {"mle", "bias-reduced"}:
            rate = closed_form(self.method, evidence, totals, self.offsets, self.beta_prior)
        return RateEstimate(
            visits=self._visits,
            changes=int(totals.changes[0]),
            exposure_days=float(totals.time[0]),
            rate_per_day=float(rate[0]),
            rate_low=float(low[0]),
            rate_high=float(high[0]),
            method=self.method,
            evidence=EVIDENCE[int(evidence_codes(totals)[0])],
        )

    def _evidence(self) -> Evidence:
        sums = np.array(list(self._bins.values())).reshape(-1, 3)
        number = sums[:, 0]
        return Evidence(
            offsets=np.array([0, len(sums)]),
            gaps=sums[:, 1] / np.maximum(number, 1),
            kind=np.array([kind for _, kind in self._bins], np.int8),
            ages=sums[:, 2] / np.maximum(number, 1),
            weight=number,
        )


@dataclass
class OnlinePosterior:
    """What is believed of one source's rate, visit by visit; `observant.estimation.belief`.

    Without a `prior` it is the one before anything is learned. `drift` is how many days a rate
    lasts on average.

    >>> page = OnlinePosterior()
    >>> for changed in [True, False, False, True]:
    ...     page.visit(1.0, changed)
    >>> rate, low, high = page.belief()
    >>> round(rate, 2), round(low, 2), round(high, 2), round(page.change_probability(2.0), 2)
    (0.46, 0.07, 1.82, 0.61)
    """

    prior: Prior = field(default_factory=first)
    group: str = ""
    drift: float = DRIFT
    _known: Likelihoods = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._known = Likelihoods.empty(1)

    def visit(self, gap: float, changed: bool, age: float | None = None) -> None:
        """Take in a visit `gap` days after the last, and the age of the source if it is known."""
        if gap <= 0:
            raise InputError(f"the gap between visits must be above zero, not {gap}")
        self._known.learn(0, gap, changed, age, self.drift)

    @property
    def beliefs(self) -> Beliefs:
        """The posterior: rates and their probabilities, in one row."""
        rows, own = self.prior.rows(), self.prior.row_of([self.group])
        return self._known.under(rows, own)

    def belief(self) -> RateBelief:
        """The rate, with its 95 % interval."""
        return self.beliefs.one(0)

    def change_probability(self, days: float) -> float:
        """Probability that the source has changed, so many days after its last visit."""
        return float(1.0 - self.beliefs.unchanged(days)[0])


def comparison_log_likelihood(
    rates: Floats, gap: float, changed: bool, age: float | None = None
) -> Floats:
    """Log-likelihood of each rate, given one comparison."""
    if gap <= 0:
        raise InputError(f"the gap between visits must be above zero, not {gap}")
    if not changed:
        return -rates * gap
    if age is not None and 0 <= age < gap:
        return np.asarray(np.log(rates) - rates * age)
    return np.asarray(np.log(-np.expm1(-rates * gap)))
