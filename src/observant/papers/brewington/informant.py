"""The web that the Informant saw, drawn again.

The thesis's data are gone. In their place stands a collection drawn from the models that it fitted
to them, observed the way it says; so what can be checked is whether the methods find again what
they should, and what the stated numbers imply.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from observant.currency import WeibullPopulation
from observant.estimation.population import describe
from observant.visits import VisitLog

if TYPE_CHECKING:
    from observant.arrays import Floats
    from observant.estimation.population import Description, PopulationFit
    from observant.papers.result import Options


WEB = WeibullPopulation(1.4, 152.2)
"""The mean times between updates, fitted to lifetimes (3.3.2)."""
BY_AGES, GROWTH = WeibullPopulation(0.78, 651.1), 0.00176
"""The same fitted to ages (3.3.1), and the growth of the web per day."""
SPAN, VISITS = 37.0, 12
"""The average page is observed 12 times over 37 days (3.1.3)."""
PAGES = 40_000
GONE = "data: synthetic; the Informant's are gone"


def pages_of(options: Options) -> int:
    """How many pages are asked for, and never too few to fit a population to."""
    return max(options.runs or PAGES, 1_000)


@lru_cache(maxsize=2)
def informant(seed: int, pages: int, kind: str = "dated") -> Description:
    """Pages with mean times from `WEB`, visited at night, every third or fourth day.

    "dated" pages all tell when they were modified. "mixed" ones are as section 3.1 describes them:
    35 % tell no date and change twice as often, and 4 % are new at every visit.
    """
    rng = np.random.default_rng([seed, 3])
    rates = 1.0 / (WEB.scale * rng.weibull(WEB.shape, pages))
    undated = np.zeros(pages, bool)
    if kind == "mixed":
        dynamic = rng.random(pages) < 0.04
        undated = rng.random(pages) < np.where(dynamic, 0.7, 0.35)
        rates = np.where(dynamic, 1e3, rates * np.where(undated, 2.0, 1.0))
    counts = 1 + rng.geometric(1 / (VISITS - 1), pages)
    first = np.cumsum(counts) - counts
    owner = np.repeat(np.arange(pages), counts)
    is_first = np.zeros(len(owner), bool)
    is_first[first] = True
    gaps = np.where(rng.random(len(owner)) < SPAN / (VISITS - 1) - 3.0, 4.0, 3.0)
    gaps[is_first] = 0.0
    time = np.cumsum(gaps)
    time -= np.repeat(time[first], counts)
    # Looking back from a visit, the last update lies an exponential time ago; if that is before
    # the last visit, nothing happened since.
    since = rng.exponential(1 / rates[owner])
    new = is_first | (since < gaps)
    latest = np.maximum.accumulate(np.where(new, np.arange(len(owner)), 0))
    modified = (time - since)[latest]
    changed = np.where(is_first, -1, new & ~is_first)
    start = 20_000.0  # a day in 2024, so that no date of modification is before 1970
    log = VisitLog.from_columns(
        source=np.char.mod("%09d", owner),
        time=start + time,
        changed=[None if c < 0 else bool(c) for c in changed],
        last_modified=[
            None if hidden else float(start + date)
            for date, hidden in zip(np.maximum(modified, -start), undated[owner], strict=True)
        ],
        time_unit="d",
    )
    return describe(log)


@lru_cache(maxsize=2)
def page_ages(seed: int, pages: int) -> Floats:
    """Ages in a growing web, the model fitted in 3.3.1: a page changed or was born so long ago."""
    rng = np.random.default_rng([seed, 7])
    times = BY_AGES.scale * rng.weibull(BY_AGES.shape, pages)
    return np.minimum(rng.exponential(times), rng.exponential(1 / GROWTH, pages))


def reach(fit: PopulationFit, parameter: str) -> float:
    """Three standard errors of an estimate."""
    low, high = fit.intervals[parameter]
    return 3 * (high - low) / (2 * 1.96)
