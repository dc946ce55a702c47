"""The exact optimum for a budget: ten million sources, and CVXPY at ten thousand.

    python -m benchmarks.planning

The rival is CVXPY with its default conic solver (Clarabel) on the same problem, freshness under a
budget, written with exponential cones: f·e^(−λ/f) ≤ u. It is not a dependency of the project; where
it is missing (`pip install --group bench`), the comparison is skipped and the output says so.
"""

import resource
import time

import numpy as np

from observant import estimate_rates
from observant.planning import Currency, plan
from observant.testing import synthetic_visits

__all__ = ["main", "run"]


def run(sources=10_000_000, rival_sources=10_000, seed=0):
    """Measure and return numbers by name."""
    rng = np.random.default_rng(seed)
    plan(rng.gamma(0.6, 1.0, 40_000), budget=8_000, objective="currency", grace=1.0)  # compile
    rates, weight = rng.gamma(0.6, 1.0, sources), rng.pareto(1.2, sources) + 0.1
    before, started = _peak(), time.perf_counter()
    best = plan(rates, budget=0.2 * sources, objective="currency", grace=1.0, importance=weight)
    results = {
        "sources": sources,
        "seconds": time.perf_counter() - started,
        "gigabytes_beyond_input": _peak() - before,
        "currency": best.collection_alpha,
        "uniform": best.uniform_alpha,
        "kkt_residual": _residual(best, rates, weight, 0.2 * sources),
    }
    del best
    results |= on_posteriors()
    # A conic solver gives up on rates and weights that span ten decades: it gets two or three.
    few = np.clip(rates[:rival_sources], 0.02, 10)
    worth = np.clip(weight[:rival_sources], 0.1, 20)
    return results | against_cvxpy(few, worth, 0.2 * rival_sources)


def on_posteriors(sources=10_000):
    """Seconds of the processor for a plan that averages over what is known of each rate."""
    log, _ = synthetic_visits(sources=sources, seed=1)
    known = estimate_rates(log, "pooled")
    plan(known, budget=0.2 * sources)  # compile
    started = time.process_time()
    plan(known, budget=0.2 * sources)
    return {"posterior_sources": sources, "posterior_cpu_seconds": time.process_time() - started}


def against_cvxpy(rates, weight, budget):
    """Seconds of both, and how far their values are apart."""
    try:
        import cvxpy as cp
    except ModuleNotFoundError:
        print("cvxpy is not installed: the comparison with it is skipped")
        return {}
    plan(rates, budget=budget, importance=weight)
    started = time.perf_counter()
    ours = plan(rates, budget=budget, importance=weight)
    our_seconds = time.perf_counter() - started

    # Importance in the objective, scaled to a mean of one, as an ordinary user would hand it over.
    share = weight / weight.mean()
    visits, gone = cp.Variable(len(rates), nonneg=True), cp.Variable(len(rates), nonneg=True)
    fresh = cp.sum(cp.multiply(share / rates, visits - gone)) / len(rates)
    problem = cp.Problem(
        cp.Maximize(fresh),
        [cp.sum(visits) <= budget, cp.constraints.ExpCone(-rates, visits, gone)],
    )
    started = time.perf_counter()
    problem.solve()
    their_seconds = time.perf_counter() - started
    return {
        "rival_sources": len(rates),
        "our_seconds": our_seconds,
        "cvxpy_seconds": their_seconds,
        "times_faster": their_seconds / our_seconds,
        "our_freshness": ours.collection_alpha,
        "cvxpy_freshness": float(fresh.value),
    }


def main():
    for name, value in run().items():
        print(f"{name:24} {value:,.10g}")


def _residual(best, rates, weight, budget):
    """The largest relative violation of the conditions of optimality, budget included."""
    known = Currency(rates, 1.0)
    gain = weight * known.index(best.period_days) / best.price
    visited = best.visits_per_day > 0
    wrong = np.abs(gain[visited] - 1).max()
    never = max(0.0, (gain[~visited].max(initial=0.0) - 1))
    return max(wrong, never, abs(best.spent / budget - 1))


def _peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    main()
