"""How often does each source change? One constant rate per source, from naive to bias-reduced.

`estimate_rates` is the front door; `METHODS` lists what it can do. The pooled methods, which let
the collection speak for sources with few visits, are in `pooling`.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from observant.errors import EstimationError, InputError
from observant.estimation.belief import DRIFT
from observant.estimation.evidence import CHANGED, DATED, Evidence
from observant.estimation.firth import (
    Totals,
    bias_reduced_rates,
    confidence_bounds,
    mle_rates,
)
from observant.names import RATE_METHODS
from observant.tables import Note, Table, first_rows
from observant.units import counted, format_rate
from observant.visits.log import require_log
from observant.visits.order import blocks_of_sources

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from numpy.typing import NDArray

    from observant.arrays import Floats, Integers
    from observant.estimation.pooling import RatePosterior
    from observant.visits import VisitLog

    Own = Callable[[Evidence], Any]
    """An estimator of somebody's own: see `estimate_rates`."""

__all__ = [
    "ENOUGH_TO_POOL",
    "EVIDENCE",
    "METHODS",
    "RateTable",
    "closed_form",
    "estimate_rates",
    "rate_table",
    "refuse_bad_options",
    "run_blocks",
    "solve",
]

METHODS = RATE_METHODS
"""The methods by name, and what each is in a line."""

EVIDENCE = ("ok", "never-changed", "always-changed", "too-few")
"""What the visits can say: two bounds, an upper bound, a lower bound, or nothing."""

_OK, _NEVER, _ALWAYS, _TOO_FEW = range(4)
_COMPILED_FROM = 20_000
"""Below so many visits, NumPy answers sooner than numba can load."""
ENOUGH_TO_POOL = 50
"""Sources from which on the method `auto` takes the collection as prior."""


@dataclass(frozen=True, eq=False, repr=False)
class RateTable(Table):
    """A rate for every source, with its interval and what stands behind it."""

    figure: ClassVar[str] = "observant.figures.rates:rate_figure"

    columns: ClassVar[tuple[str, ...]] = (
        "source",
        "visits",
        "changes",
        "exposure_days",
        "rate_per_day",
        "rate_low",
        "rate_high",
        "rate_ahead",
        "rate_mean",
        "method",
        "evidence",
    )

    source: pa.Array
    visits: Integers
    """Successful visits, the first one included."""
    changes: Integers
    """How many of them found a change."""
    exposure_days: Floats
    """Time between visits that could be compared."""
    rate_per_day: Floats
    rate_low: Floats
    rate_high: Floats
    evidence_code: NDArray[np.int8]
    """Index into `EVIDENCE`."""
    method: str
    confidence: float
    notes: tuple[str, ...] = ()
    """What a reader should know: evidence set aside, methods chosen, assumptions."""
    posterior: RatePosterior | None = None
    """The full posterior of every rate, from the pooled methods."""
    rate_ahead: Floats | None = None
    """Geometric mean of each rate in the time to come, from the pooled methods: `rate_per_day`,
    drawn to the middle of the collection where rates do not last. No value for other methods."""
    rate_mean: Floats | None = None
    """Mean of each rate in the time to come. With `rate_ahead` it is what planning needs."""

    @property
    def evidence(self) -> NDArray[np.str_]:
        """What the visits can say of each source: one of `EVIDENCE`."""
        return np.array(EVIDENCE)[self.evidence_code]

    def to_arrow(self) -> pa.Table:
        """Return the columns as a PyArrow table."""
        import pyarrow as pa

        constant = pa.DictionaryArray.from_arrays(
            np.zeros(len(self), np.int8), pa.array([self.method])
        )
        evidence = pa.DictionaryArray.from_arrays(self.evidence_code, pa.array(EVIDENCE))
        given = {"method": constant.cast(pa.string()), "evidence": evidence.cast(pa.string())}
        for name in ("rate_ahead", "rate_mean"):
            if getattr(self, name) is None:
                given[name] = pa.nulls(len(self), pa.float64())
        return pa.table(
            {
                name: given[name] if name in given else pa.array(getattr(self, name))
                for name in self.columns
            }
        )

    def summary(self) -> dict[str, Any]:
        """The collection in a few numbers; the median comes with an interval for the population.

        The interval is that of order statistics, so it assumes nothing about the distribution.
        """
        known = np.sort(self.rate_per_day[self.evidence_code != _TOO_FEW])
        counts = np.bincount(self.evidence_code, minlength=len(EVIDENCE))
        low, middle, high = _median_with_interval(known, self.confidence)
        return {
            "sources": len(self),
            "visits": int(self.visits.sum()),
            "changes": int(self.changes.sum()),
            **{name.replace("-", "_"): int(n) for name, n in zip(EVIDENCE, counts, strict=True)},
            "median_rate_per_day": middle,
            "median_rate_low": low,
            "median_rate_high": high,
            "method": self.method,
            "confidence": self.confidence,
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        return f"<RateTable: {len(self):,} sources, method {self.method}>"

    def __str__(self) -> str:
        def row(i: int) -> str:
            interval = f"{format_rate(self.rate_low[i])} to {format_rate(self.rate_high[i])}"
            return (
                f"{self.visits[i]:6}  {self.changes[i]:7}  "
                f"{format_rate(self.rate_per_day[i]):>9}  {interval:>21}"
            )

        percent = f"{100 * self.confidence:g} % interval"
        return first_rows(self.source, f"visits  changes  {'rate':>9}  {percent:>21}", row)


def estimate_rates(
    log: VisitLog,
    method: str | Own = "bias-reduced",
    *,
    confidence: float = 0.95,
    offsets: tuple[float, float] = (0.5, 0.5),
    beta_prior: tuple[float, float] = (1.0, 1.0),
    use_first_age: bool = False,
    zero_truncated: bool = False,
    drift: float = DRIFT,
    signals: Any | None = None,
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> RateTable:
    """Estimate how often each source of a visit log changes.

    Parameters
    ----------
    log
        The visits. Groups in the log are used by the pooled methods.
    method
        One of `METHODS`, or a function of your own: it gets the `Evidence` of some sources and
        returns a rate for each (0 or more; NaN where nothing can be said), or a tuple of rates,
        lower and upper bounds. It is called block by block, perhaps in several threads.
    confidence
        Of the interval. It is the interval of the evidence, the same for every method that is not
        Bayesian: a naive estimate below its own interval is its bias made visible. A source that
        never (or always) changed has one bound only, which holds with (1 + confidence)/2.
    offsets
        The pair (a, b) of `improved`, −log((n−X+a)/(n+b)) (Cho, appendix B).
    beta_prior
        The pair (α, β) of the prior of `bayes-beta` for the share of visits that see a change.
    use_first_age
        Let the age at a dated first visit count. Right for sources much older than 1/λ.
    zero_truncated
        The log holds only sources that changed at least once (pooled methods).
    drift
        Days that a rate lasts, on average, before it is another (pooled methods); `inf`: for ever.
    signals
        What `estimate_signals` found for this log: signals, and their silence, are evidence of the
        rates as well (pooled methods).
    threads
        How many blocks are worked on at once; all cores by default. The answer is the same.
    progress
        Called with the number of sources done, block by block.

    >>> from observant import VisitLog
    >>> log = VisitLog.from_columns(  # Cho's example 1: 6 changes in 10 days
    ...     source=["page"] * 11,
    ...     time=range(11),
    ...     time_unit="d",
    ...     changed=[None, 1, 0, 1, 1, 0, 1, 0, 1, 1, 0],
    ... )
    >>> print(estimate_rates(log))
    source  visits  changes       rate          95 % interval
    page        11        6    1/1.18d      1/3.06d to 2.01/d
    >>> def twice(evidence):
    ...     return 2 * Totals.of(evidence).changes / Totals.of(evidence).time
    >>> estimate_rates(log, twice).rate_per_day
    array([1.2])
    """
    require_log(log)
    own: Own | None = None
    if callable(method):
        own, method = method, name_of(method)
    refuse_bad_options(None if own else method, confidence)
    notes = list(log.notes)
    if signals is not None:
        if own is not None or method not in {"auto", "pooled", "pooled-gamma"}:
            raise InputError(f"signals are used by the pooled methods, not by {method}")
        log, method = signals.log, "pooled" if method == "auto" else method
    if own is None and method == "auto":
        method = "pooled" if len(log.sources) >= ENOUGH_TO_POOL else "bias-reduced"
        notes.append(f"method {method} was chosen for {counted(len(log.sources), 'source')}")
    if own is None and method.startswith("pooled"):
        from observant.estimation.pooling import estimate_pooled

        return estimate_pooled(
            log,
            method,
            confidence=confidence,
            notes=notes,
            use_first_age=use_first_age,
            zero_truncated=zero_truncated,
            drift=drift,
            threads=threads,
            progress=progress,
        )
    if zero_truncated:
        raise InputError(f"zero_truncated is for the pooled methods, not for {method}")
    if own is None and method.startswith("last-modified") and log.last_modified is None:
        raise EstimationError(f"method {method} needs the column last_modified")

    def one_block(evidence: Evidence, totals: Totals, _sources: slice) -> tuple[Floats, ...]:
        compiled = len(log) >= _COMPILED_FROM
        likely = "mle" if method == "mle" and own is None else ""
        solved = solve(evidence, confidence, method=likely, fast=compiled)
        rate, low, high = solved
        if own is not None:
            return _by(own, method, evidence, low, high)
        if method not in {"mle", "bias-reduced"}:
            rate = closed_form(method, evidence, totals, offsets, beta_prior)
        if method == "bayes-beta":
            low, high = _beta_interval(totals, beta_prior, confidence)
        return rate, low, high

    columns, conflicts = run_blocks(
        log,
        one_block,
        use_first_age=use_first_age,
        use_dates=method != "mle" or own is not None,
        threads=threads,
        progress=progress,
    )
    return rate_table(log, columns, method, confidence, conflicts, notes)


def refuse_bad_options(
    method: str | None, confidence: float, *, zero_truncated: bool = False
) -> None:
    """Refuse options that no estimate of rates takes; None is a method of somebody's own."""
    if method is not None and method not in METHODS:
        raise InputError(f"unknown method {method!r}; choose one of {', '.join(METHODS)}")
    if not 0 < confidence < 1:
        raise InputError(f"confidence lies between 0 and 1, not {confidence}")
    if zero_truncated and method not in {"auto", "pooled", "pooled-gamma"}:
        raise InputError(f"zero_truncated is for the pooled methods, not for {method}")


def name_of(own: Own) -> str:
    """What an estimator of somebody's own is called in tables: its `name`, or that of the function.

    >>> name_of(lambda evidence: evidence.gaps)
    '<lambda>'
    """
    return str(getattr(own, "name", None) or getattr(own, "__name__", type(own).__name__))


def _by(own: Own, name: str, evidence: Evidence, low: Floats, high: Floats) -> tuple[Floats, ...]:
    """The rates of somebody's own estimator; the interval of the evidence, unless it has one."""
    answer = own(evidence)
    parts = answer if isinstance(answer, tuple) else (answer, low, high)
    columns = tuple(np.asarray(part, np.float64) for part in parts)
    if len(columns) != 3 or any(column.shape != low.shape for column in columns):
        raise InputError(
            f"estimator {name} must return a rate for each of {len(low)} sources, or a tuple of "
            "rates, lower and upper bounds"
        )
    if any((column < 0).any() for column in columns):
        raise InputError(f"estimator {name} returned a rate below 0")
    return columns


def solve(
    evidence: Evidence, confidence: float, *, method: str = "", fast: bool = False
) -> tuple[Floats, Floats, Floats]:
    """Bias-reduced (or ``mle``) rate with its bounds, by NumPy or, if `fast`, compiled."""
    if not fast:
        rate = mle_rates(evidence) if method == "mle" else bias_reduced_rates(evidence)
        low, high = confidence_bounds(evidence, confidence)
    else:
        from observant.estimation import kernels

        rate, low, high = (np.empty(len(evidence.offsets) - 1) for _ in range(3))
        kernels.solve(
            evidence.offsets,
            evidence.gaps,
            evidence.kind,
            evidence.ages,
            0.0 if method == "mle" else 0.5,
            (1 - confidence) / 2,
            rate,
            low,
            high,
        )
    if method == "":
        # The two solve different equations; with one or two visits they can cross by a hair.
        low, high = np.fmin(low, rate), np.fmax(high, rate)
    return rate, low, high


def run_blocks(
    log: VisitLog,
    one_block: Callable[[Evidence, Totals, slice], tuple[Floats, ...]],
    *,
    use_first_age: bool,
    use_dates: bool = True,
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> tuple[list[Floats], int]:
    """Run a function over the evidence of all sources, in blocks and threads.

    Returns its columns laid end to end, after three of our own (changes, exposure, and the code
    of the evidence); and how many dates were in conflict with what was seen.
    """

    def work(block: tuple[int, int]) -> tuple[list[Floats], int]:
        evidence = Evidence.from_log(log, *block, use_first_age=use_first_age, use_dates=use_dates)
        totals = Totals.of(evidence)
        answer = one_block(evidence, totals, slice(*block))
        codes = evidence_codes(totals).astype(np.float64)
        return [totals.changes, totals.time, codes, *answer], evidence.conflicts

    pieces: list[list[Floats]] = []
    conflicts = 0
    blocks = list(blocks_of_sources(log.offsets, rows=1 << 19))
    with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
        for block, (columns, conflict) in zip(blocks, pool.map(work, blocks), strict=True):
            pieces.append(columns)
            conflicts += conflict
            if progress is not None:
                progress(block[1] - block[0])
    return [np.concatenate(parts) for parts in zip(*pieces, strict=True)], conflicts


def evidence_codes(totals: Totals) -> NDArray[np.int8]:
    """Index into `EVIDENCE` for every source."""
    return np.select(
        [totals.comparisons == 0, totals.never_changed, totals.always_changed],
        [np.int8(_TOO_FEW), np.int8(_NEVER), np.int8(_ALWAYS)],
        np.int8(_OK),
    )


def rate_table(
    log: VisitLog,
    columns: list[Floats],
    method: str,
    confidence: float,
    conflicts: int,
    notes: list[str],
    **known: Any,
) -> RateTable:
    """Put the columns of `run_blocks` into a `RateTable`."""
    changes, exposure, code, rate, low, high = columns
    notes = [*notes, *conflicts_told(conflicts)]
    open_ended = int(np.count_nonzero((code == _ALWAYS) & np.isinf(high)))
    if open_ended:
        rest = "bound is known, and more visits at such gaps would not tell; shorter gaps would"
        many, one = (
            f"{{n}} {who} changed at every visit: only {whose} lower {rest}"
            for who, whose in (("sources", "their"), ("source", "its"))
        )
        notes = [*notes, Note(many, open_ended, one)]
    return RateTable(
        source=log.sources,
        visits=log.successes_per_source,
        changes=changes.astype(np.int64),
        exposure_days=exposure,
        rate_per_day=rate,
        rate_low=low,
        rate_high=high,
        evidence_code=code.astype(np.int8),
        method=method,
        confidence=confidence,
        notes=tuple(notes),
        **known,
    )


def conflicts_told(conflicts: int) -> list[Note]:
    """What to say of dates that contradict what visits saw."""
    rest = "which lie before the last visit that did not see them"
    many, one = (f"set aside: the dates of {{n}} {word}, {rest}" for word in ("changes", "change"))
    return [Note(many, conflicts, one)] if conflicts else []


# -- Cho's closed forms ------------------------------------------------------------------------


def closed_form(
    method: str,
    evidence: Evidence,
    totals: Totals,
    offsets: tuple[float, float],
    beta_prior: tuple[float, float],
) -> Floats:
    """Rates by one of Cho's formulas, from sums alone."""
    n, x, time = totals.comparisons, totals.changes, totals.time
    with np.errstate(divide="ignore", invalid="ignore"):
        if method == "naive":
            return x / time  # Cho 4.1
        if method == "improved":
            a, b = offsets
            return -np.log((n - x + a) / (n + b)) * n / time  # Cho 4.2 and appendix B
        if method == "bayes-beta":
            alpha, beta = beta_prior
            return -np.log((n - x + beta) / (n + alpha + beta)) * n / time  # Cho, appendix B
        return _last_modified(evidence, totals, corrected=method == "last-modified")


def _last_modified(evidence: Evidence, totals: Totals, *, corrected: bool) -> Floats:
    """Cho's figures 10 and 13. A change without a date says nothing here and is left out."""
    undated = evidence.sums(((evidence.kind & (CHANGED | DATED)) == CHANGED).astype(float))
    n, x = totals.comparisons - undated, totals.dated_changes
    if corrected:
        share = x / n
        inner = (x - 1) - x / (n * np.log1p(-share))
        x = np.where(x == n, n - 1, np.where(x == 0, 0.0, inner))
    nothing = (totals.comparisons == 0) | ((totals.dated_changes == 0) & (undated > 0))
    return np.where(nothing, np.nan, x / totals.quiet)


def _beta_interval(
    totals: Totals, beta_prior: tuple[float, float], confidence: float
) -> tuple[Floats, Floats]:
    from scipy.special import betaincinv

    n, x = totals.comparisons, totals.changes
    alpha, beta = beta_prior
    tail = (1 - confidence) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = (
            -np.log1p(-betaincinv(x + alpha, n - x + beta, q)) * n / totals.time
            for q in (tail, 1 - tail)
        )
    return np.where(n > 0, low, 0.0), np.where(n > 0, high, np.inf)


def _median_with_interval(ordered: Floats, confidence: float) -> tuple[float, float, float]:
    if not len(ordered):
        return np.nan, np.nan, np.nan
    from statistics import NormalDist  # SciPy's takes longer to load than a small log to estimate

    n = len(ordered)
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * np.sqrt(n) / 2
    low = ordered[max(int(np.floor(n / 2 - reach)), 0)]
    high = ordered[min(int(np.ceil(n / 2 + reach)), n - 1)]
    return float(low), float(np.median(ordered)), float(high)
