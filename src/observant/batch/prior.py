"""The prior of a collection that is in parts: the histories it is learnt from, and its file.

In memory the prior is learnt from the histories of at most 20,000 sources, evenly spread over the
alphabet (`observant.estimation.pooling.sampled_ranks`). A collection in parts is asked for the
histories of the very same sources: they are the statistic that is merged, its size does not grow
with the log, and the prior is the same to the bit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.estimation.priors import Prior
from observant.visits import VisitLog

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pyarrow as pa

__all__ = ["joined", "load_prior", "save_prior"]


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
