"""The prior of a collection that is in parts, and the rates of a part under it.

In memory the prior is learnt from the histories of at most 20,000 sources, evenly spread over the
alphabet. A collection in parts is asked for the histories of the very same sources: they are the
statistic that is merged, its size does not grow with the log, and the prior is the same to the bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.estimation.pooling import (
    _SOURCES_TO_FIT,
    STRENGTH,
    _fit_groups,
    _posterior,
    estimate_pooled,
    grid_quantiles,
)
from observant.estimation.priors import Prior
from observant.estimation.rates import RateTable, rate_table, run_blocks
from observant.visits import VisitLog

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    from observant.estimation.evidence import Evidence
    from observant.estimation.score import Totals

__all__ = ["joined", "learn_prior", "load_prior", "rates_under", "sampled_ranks", "save_prior"]


def sampled_ranks(sources: int) -> NDArray[np.int64]:
    """Places in the alphabet of the sources from which the prior of so many is learnt.

    >>> sampled_ranks(3).tolist(), len(sampled_ranks(1_000_000))
    ([0, 1, 2], 20000)
    """
    if sources <= _SOURCES_TO_FIT:
        return np.arange(sources)
    return np.unique(np.linspace(0, sources - 1, _SOURCES_TO_FIT).astype(np.int64))


def learn_prior(
    sample: VisitLog, method: str, *, use_first_age: bool = False, zero_truncated: bool = False
) -> tuple[Prior, list[str]]:
    """Prior of the whole collection from its sampled histories, and what is to be said of it."""
    table = estimate_pooled(
        VisitLog(**{**_fields(sample), "groups": None}),
        method,
        notes=[],
        use_first_age=use_first_age,
        zero_truncated=zero_truncated,
    )
    assert table.posterior is not None  # noqa: S101 - for the type checker
    return table.posterior.prior, [note for note in table.notes if "set aside" not in note]


def rates_under(
    log: VisitLog,
    prior: Prior,
    method: str,
    *,
    confidence: float = 0.95,
    use_first_age: bool = False,
    threads: int | None = None,
) -> RateTable:
    """Posterior rates of a part of the collection, whose groups it must hold whole."""
    group: NDArray[np.int64] | None = None
    if log.groups is not None and method == "pooled":
        prior, group = _fit_groups(log, prior, STRENGTH, use_first_age=use_first_age)
    tail = (1 - confidence) / 2

    def one_block(
        evidence: Evidence, _totals: Totals, sources: slice
    ) -> tuple[NDArray[np.float64], ...]:
        weights = _posterior(evidence, prior, None if group is None else group[sources])
        low, high = grid_quantiles(weights, prior.rates, (tail, 1 - tail))
        return np.exp(weights @ np.log(prior.rates)), low, high

    columns, conflicts = run_blocks(log, one_block, use_first_age=use_first_age, threads=threads)
    return rate_table(log, columns, method, confidence, conflicts, list(log.notes))


def joined(tables: Iterable[pa.Table]) -> VisitLog:
    """One log of many small ones, given as tables of visits that were checked before."""
    import pyarrow as pa

    parts = [
        part.drop_columns([n for n in ("group",) if n in part.column_names]) for part in tables
    ]
    return VisitLog.from_arrow(pa.concat_tables(parts, promote_options="default"), skew=36_525.0)


def save_prior(prior: Prior, path: Path) -> None:
    """Write the prior of a collection to a file."""
    with path.open("wb") as stream:
        np.savez(
            stream,
            rates=prior.rates,
            weights=prior.weights,
            scalars=np.array([prior.log_likelihood, prior.trust, *(prior.gamma or ())]),
        )


def load_prior(path: Path) -> Prior:
    """Read what `save_prior` wrote."""
    with np.load(path) as found:
        likelihood, trust, *gamma = found["scalars"].tolist()
        return Prior(
            rates=found["rates"],
            weights=found["weights"],
            log_likelihood=likelihood,
            trust=trust,
            gamma=(gamma[0], gamma[1]) if gamma else None,
        )


def _fields(log: VisitLog) -> dict[str, Any]:
    return {name: getattr(log, name) for name in log.__dataclass_fields__}
