"""Rates by a prior of one's own: the posterior mean, or the most likely rate (Cho, appendix B).

A prior says what is believed of a rate before the first visit; each visit changes it by Bayes'
rule. Here the prior is given, by a law or by any density of the rate. (`pooled` learns it from the
collection, and is what to use where there is one.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from observant.errors import InputError
from observant.estimation.evidence import CHANGED, DATED
from observant.units import parse_rate

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.arrays import Floats, Integers
    from observant.estimation.evidence import Evidence

    Density = Callable[[Floats], Floats]

__all__ = ["GRID", "PRIORS", "BayesEstimator", "as_weights"]

PRIORS = {
    "gamma": "gamma:SHAPE,MEAN, such as gamma:2,1/7d",
    "lognormal": "lognormal:MEDIAN,SIGMA, such as lognormal:1/7d,1.5",
    "uniform": "uniform:LOW,HIGH, every rate between alike",
    "loguniform": "loguniform:LOW,HIGH, every order of magnitude alike",
    "beta": "beta:ALPHA,BETA for the share of visits that find a change (Cho)",
}
"""Laws that a prior can be told by, and how."""
GRID = np.geomspace(1e-6, 1e5, 1 + 37 * 24)
"""Rates a day at which posteriors are computed: 24 an octave."""
_CELLS = 4_000_000


@dataclass(frozen=True)
class BayesEstimator:
    """An estimator for `estimate_rates`: ``estimate_rates(log, BayesEstimator("gamma:2,1/7d"))``.

    `prior` is one of `PRIORS` as text, or a function that gives the density at an array of rates a
    day, up to a factor. `point` is ``mean`` or ``map``, the top of the density of the rate. The
    interval is that of the posterior.

    >>> from observant import VisitLog, estimate_rates
    >>> seen = [None, 1, 0, 1, 1, 0, 1, 0, 1, 1, 0]  # Cho's example 1
    >>> log = VisitLog.from_columns(["page"] * 11, range(11), seen, time_unit="d")
    >>> for prior in ("beta:1,1", "gamma:2,1/7d"):
    ...     print(estimate_rates(log, BayesEstimator(prior)).rate_per_day.round(3))
    [0.937]
    [0.385]
    """

    prior: str | Density
    point: Literal["mean", "map"] = "mean"
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if self.point not in {"mean", "map"}:
            raise InputError(f"the point of a posterior is mean or map, not {self.point!r}")
        if not 0 < self.confidence < 1:
            raise InputError(f"confidence lies between 0 and 1, not {self.confidence}")
        if isinstance(self.prior, str):
            self._density(np.ones(1))  # a bad text is better found now

    @property
    def name(self) -> str:
        return f"bayes-{self.point}"

    def __call__(self, evidence: Evidence) -> tuple[Floats, Floats, Floats]:
        """Rates and the ends of their intervals, for each source of some evidence."""
        sources = len(evidence.offsets) - 1
        answer = np.full((3, sources), np.nan)
        answer[1:] = [[0.0], [np.inf]]
        step = max(1, int(_CELLS / len(GRID) / max(1.0, len(evidence.gaps) / max(sources, 1))))
        for first in range(0, sources, step):
            self._some(evidence, first, min(first + step, sources), answer)
        return answer[0], answer[1], answer[2]

    def _some(self, evidence: Evidence, first: int, last: int, answer: Floats) -> None:
        seen, density = self.log_posterior(evidence, first, last)
        if not len(seen):
            return
        weights = as_weights(density)
        place = first + seen
        passed = np.cumsum(weights, axis=1)
        answer[0, place] = weights @ GRID if self.point == "mean" else _tops(density)
        for row, share in ((1, (1 - self.confidence) / 2), (2, (1 + self.confidence) / 2)):
            answer[row, place] = GRID[np.argmax(passed >= share, axis=1)]

    def log_posterior(
        self, evidence: Evidence, first: int = 0, last: int | None = None
    ) -> tuple[Integers, Floats]:
        """Of some sources: which of them were compared at all, and their density at `GRID`."""
        last = len(evidence.offsets) - 1 if last is None else last
        offsets = evidence.offsets[first : last + 1]
        rows = slice(int(offsets[0]), int(offsets[-1]))
        logs = _log_likelihood(evidence, rows, GRID)
        counts = np.diff(offsets)
        seen = np.flatnonzero(counts > 0)
        if not len(seen):
            return seen, np.empty((0, len(GRID)))
        total = np.add.reduceat(logs, (offsets[:-1] - offsets[0])[seen], axis=0)
        gaps = np.where(np.isfinite(evidence.gaps[rows]), evidence.gaps[rows], 0.0)
        mean_gap = np.add.reduceat(gaps, (offsets[:-1] - offsets[0])[seen]) / counts[seen]
        with np.errstate(divide="ignore"):
            density = total + np.log(self._density(mean_gap))
        return seen, np.asarray(density - density.max(axis=1, keepdims=True))

    def _density(self, mean_gap: Floats) -> Floats:
        """The prior at each rate of the grid, a row for each source where it depends on gaps."""
        if not isinstance(self.prior, str):
            given = np.asarray(self.prior(GRID), np.float64)
            if given.shape != GRID.shape or not np.all(given >= 0) or not given.any():
                raise InputError("a prior gives a density, 0 or more, for each of the rates")
            return given[None, :]
        law, _, rest = self.prior.partition(":")
        parts = [part.strip() for part in rest.split(",")]
        if law not in PRIORS or len(parts) != 2:
            known = "; ".join(PRIORS.values())
            raise InputError(f"{self.prior!r} is no prior; write {known}")
        first, second = (_number(law, part, k) for k, part in enumerate(parts))
        if law == "beta":
            quiet = np.exp(-GRID[None, :] * mean_gap[:, None])
            with np.errstate(divide="ignore"):
                return np.asarray((1 - quiet) ** (first - 1) * quiet**second)
        if law == "gamma":
            logs = (first - 1) * np.log(GRID) - first * GRID / second
        elif law == "lognormal":
            logs = -0.5 * (np.log(GRID / first) / second) ** 2 - np.log(GRID)
        else:
            logs = -np.log(GRID) if law == "loguniform" else np.zeros(len(GRID))
            logs = np.where((first <= GRID) & (second >= GRID), logs, -np.inf)
            if np.isinf(logs).all():
                raise InputError(f"{self.prior!r} holds no rate: the lower one comes first")
        return np.asarray(np.exp(logs - logs.max()))[None, :]


def as_weights(density: Floats) -> Floats:
    """Probabilities of the rates of `GRID` from logarithms of a density of the rate."""
    weights = np.exp(density) * GRID  # an even step of log λ holds a mass in proportion to λ
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _number(law: str, text: str, place: int) -> float:
    """A rate where the law has one, else a plain number; both above zero."""
    is_rate = law in {"uniform", "loguniform"} or (law, place) in {("gamma", 1), ("lognormal", 0)}
    try:
        value = parse_rate(text) if is_rate else float(text)
    except (ValueError, InputError):
        value = np.nan
    if not 0 < value < np.inf:
        raise InputError(f"{text!r} is no number above 0; write {PRIORS[law]}")
    return value


def _log_likelihood(evidence: Evidence, rows: slice, rates: Floats) -> Floats:
    """Log probability of each comparison under each rate."""
    gap, kind, age = evidence.gaps[rows], evidence.kind[rows], evidence.ages[rows]
    changed, dated = (kind & CHANGED) > 0, (kind & DATED) > 0
    known = np.where(changed & dated, age, gap)
    logs = -np.outer(known, rates)
    logs[changed & dated] += np.log(rates)
    blind = changed & ~dated
    with np.errstate(divide="ignore"):
        logs[blind] = np.log(-np.expm1(logs[blind]))
    if evidence.weight is not None:
        logs *= evidence.weight[rows][:, None]
    return np.asarray(logs)


def _tops(density: Floats) -> Floats:
    """Where each row is highest; between the rates of the grid by a parabola in log λ."""
    at = np.argmax(density, axis=1)
    inner = np.clip(at, 1, len(GRID) - 2)
    row = np.arange(len(at))
    left, middle, right = (density[row, inner + k] for k in (-1, 0, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = 0.5 * (left - right) / (left - 2 * middle + right)
    shift = np.where((at == inner) & np.isfinite(shift), np.clip(shift, -1, 1), 0.0)
    return np.asarray(GRID[at] * (GRID[1] / GRID[0]) ** shift)
