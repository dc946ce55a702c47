"""Visit logs of sources whose rates are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError
from observant.visits import VisitLog

if TYPE_CHECKING:
    from observant.arrays import Floats

_START = 20_000.0
"""The first visits happen on this day since 1970: in October 2024."""


def synthetic_visits(
    sources: int = 3000,
    visits: float = 15,
    *,
    period: float = 3.0,
    sources_per_host: int = 40,
    dated: float = 0.3,
    failing: float = 0.02,
    seed: int = 1,
) -> tuple[VisitLog, Floats]:
    """Visit logs of web pages that change by Poisson processes, and their true rates per day.

    Pages live on hosts, and the rates of one host resemble each other. Each page has been visited
    a random number of times (`visits` on average, at least twice), `period` days apart on average.
    A share `dated` of the hosts tells dates of modification, and a share `failing` of visits fails.

    >>> log, rates = synthetic_visits(sources=100, seed=7)
    >>> log
    VisitLog: 1,503 visits to 100 sources over 103d, 434 changes in 1,372 comparisons
    """
    if sources < 1 or visits < 2:
        raise InputError("synthetic_visits needs at least one source and two visits to each")
    rng = np.random.default_rng(seed)
    hosts = 1 + (sources - 1) // sources_per_host
    host = np.arange(sources) // sources_per_host
    rates = np.exp(rng.normal(np.log(0.15), 1.2, hosts)[host] + rng.normal(0, 0.8, sources))
    tells_dates = (rng.random(hosts) < dated)[host]

    number = 2 + rng.poisson(visits - 2, sources)
    offsets = np.concatenate([[0], np.cumsum(number)])
    first = offsets[:-1]
    owner = np.repeat(np.arange(sources), number)
    gap = np.maximum(rng.exponential(period, offsets[-1]), 1e-3)
    gap[first] = rng.uniform(0, period, sources)
    passed = np.cumsum(gap)
    time = _START + passed - np.repeat(passed[first] - gap[first], number)

    # Looking back from a visit, the last update of a Poisson process is exponentially distant.
    back = rng.exponential(1.0, offsets[-1]) / rates[owner]
    back[first] = np.minimum(back[first], 400.0)
    changed = back < gap
    changed[first] = True  # the copy was empty
    latest = np.maximum.accumulate(np.where(changed, np.arange(offsets[-1]), 0))
    modified = np.where(tells_dates[owner], time[latest] - back[latest], np.nan)

    names = np.array(
        [
            f"https://site{h}.example/{'news' if rate > 0.3 else 'page'}/{i}"
            for i, (h, rate) in enumerate(zip(host, rates, strict=True))
        ]
    )
    status = np.where(rng.random(offsets[-1]) < failing, 503, 200)
    failed = status == 503
    # What a failed visit missed, the next one sees: content is told by a digest of its version.
    version = np.cumsum(changed) - np.repeat(np.cumsum(changed)[first], number)
    digest = [
        None if bad else int(seen).to_bytes(4) for bad, seen in zip(failed, version, strict=True)
    ]
    log = VisitLog.from_columns(
        source=names[owner],
        time=time,
        last_modified=np.where(failed, np.nan, modified),
        digest=digest,
        status=status,
        time_unit="d",
    )
    order = np.argsort(names)
    return log, rates[order]
