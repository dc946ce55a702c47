"""Gaps that mix ages (`sampling = "mixed"`): what they show, and what they cost (Li, VI)."""

import asyncio
from itertools import pairwise

import numpy as np
import pytest

from observant import VisitLog
from observant.errors import InputError
from observant.estimation.intervals import estimate_intervals
from observant.observer.clock import AcceleratedClock
from observant.observer.config import Config
from observant.observer.loop import Observer
from observant.observer.program import add_sources, describe
from observant.processes import Gamma, Poisson
from observant.simulation import simulate
from observant.simulation.traces import Trace
from observant.store import open_store

from .patience import in_simulated_time


def spread(gaps):
    return float(np.std(gaps) / np.mean(gaps))


@pytest.mark.slow
def test_an_observer_whose_gaps_are_mixed(tmp_path):
    """Eight alike sources, a visit an hour each: gaps vary a little, or from near 0 to near 2.

    A thousand gaps: the mean has a standard error of 1.6 %, the spread one of 2 %.
    """

    def gaps_with(sampling):
        config = Config(budget="192/day", host_delay=0, spot_checks=0, sampling=sampling)

        async def main():
            clock = AcceleratedClock(
                speed=43_200.0, ticks=asyncio.get_running_loop().time, start=1.7e9
            )
            with open_store(tmp_path / f"{sampling}.db", durable=False, clock=clock.time) as store:
                names = [f"row{n}" for n in range(8)]
                add_sources(store, config, [describe(n, kind="callable", host=n) for n in names])
                functions = {name: lambda _: str(int(clock.time() / 7200)) for name in names}
                observer = Observer(store, config, clock=clock, functions=functions)
                await observer.run(seconds=6 * 86_400)
                times = [
                    sorted(v.started_at for v in store.visits.list(name, limit=1000))[20:]
                    for name in names
                ]
                return [b - a for own in times for a, b in pairwise(own)]

        return in_simulated_time(main())

    even, mixed = gaps_with("even"), gaps_with("mixed")
    assert np.mean(mixed) == pytest.approx(np.mean(even), rel=0.1)  # the same budget
    assert spread(mixed) > 0.35
    assert spread(mixed) > 2 * spread(even)
    assert np.quantile(mixed, 0.05) < 0.4 * np.mean(mixed)
    with pytest.raises(InputError, match="sampling must be even or mixed, not 'odd'"):
        Config(sampling="odd")


@pytest.mark.slow
def test_mixed_gaps_show_the_distribution_inside_a_period():
    """A regular source, visited about as often as it changes: blind to even gaps, seen by mixed."""
    source = Gamma.with_mean(1.0, 16.0)
    updates = source.sample(6_000.0, seed=1).times
    rng = np.random.default_rng(2)
    x = np.linspace(0.3, 1.8, 16)
    found = {}
    for name, gaps in (
        ("even", np.full(5_000, 1.0)),
        ("mixed", rng.uniform(0.1, 1.9, 5_000)),
    ):
        visits = 10 + np.cumsum(gaps)
        seen = np.searchsorted(updates, visits)
        outcomes = [None, *(np.diff(seen) > 0).tolist()]
        log = VisitLog.from_columns(["a"] * len(visits), visits, outcomes, time_unit="d")
        found[name] = estimate_intervals(log, bands=0)
    assert not found["even"].identified
    assert found["mixed"].identified
    assert found["mixed"].mean == pytest.approx(1.0, rel=0.1)
    assert np.abs(found["mixed"].interval_cdf(x) - source.interval_cdf(x)).max() < 0.25


@pytest.mark.slow
def test_what_it_costs_is_what_the_formula_says():
    """λT = 1: 0.632 fresh with even gaps, 0.580 with gaps even on [0.1, 1.9] T."""
    trace = Trace.sample(Poisson(1.0), np.full(60, 1.0), horizon=120, seed=3)
    found = simulate(
        trace,
        ["observant", "observant-mixed"],
        budget=60.0,
        score_from="half",
        seeds=(1, 2),
        jobs=1,
    )
    even, mixed = (found[name].metrics["freshness"] for name in ("observant", "observant-mixed"))
    assert 0.02 < even - mixed < 0.09
    assert found["observant-mixed"].relative_staleness < 1.3 * found["observant"].relative_staleness
