"""Replays: how many visits a second, from the first slot to the last number of the account.

    python -m benchmarks.simulation

Goals: uniform at least 5 million visits a second (reached); our own policy 10⁵ sources and 10⁷
visits in two minutes (126 s when last measured on an idle machine). A rule (heritrix) and a
clairvoyant stand beside them.
"""

import time

import numpy as np

from observant.processes import Poisson
from observant.simulation import account, named, names, replay, world_of
from observant.simulation.traces import Trace

__all__ = ["main", "run"]


POLICIES = ("uniform", "clairvoyant", "heritrix", "observant")


def run(sources=100_000, visits=10_000_000, policies=POLICIES):
    """Visits a second of each policy, replayed and accounted for."""
    rng = np.random.default_rng(1)
    # A few hundred distinct rates, so that drawing the trace is not what takes the time.
    rates = rng.choice(rng.gamma(0.6, 0.2, 500), sources)
    trace = Trace.sample(Poisson(1.0), rates, horizon=365.0, seed=1)
    small = world_of(trace.select(slice(0, 200)), budget=20.0)
    world = world_of(trace, budget=visits / 365.0)
    results = {"sources": sources, "updates": trace.updates.times.size}
    for name in policies:
        if name not in names():
            continue
        policy = named(name)
        account(replay(policy, small), small)  # compile
        started = time.perf_counter()
        paid = replay(policy, world)
        score = account(paid, world, graces=[1.0])
        seconds = time.perf_counter() - started
        results[f"{name}_visits"] = len(paid)
        results[f"{name}_seconds"] = seconds
        results[f"{name}_visits_per_second"] = len(paid) / seconds
        results[f"{name}_freshness"] = score.summary()["freshness"]
    return results


def main():
    for name, value in run().items():
        print(f"{name:36} {value:,.10g}")


if __name__ == "__main__":
    main()
