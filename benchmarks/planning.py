"""The exact optimum for a budget: ten million sources, and a generic solver at ten thousand.

    python -m benchmarks.planning

The rival is SciPy's trust-region solver for constrained problems (`trust-constr`), with exact
gradients and curvatures: a generic convex solver that is everywhere at hand. CVXPY, the usual
choice, is not a dependency of the project and is not measured here. The rival stops after 200
steps; read its time together with its penalty (lower is better, ours is the optimum) and with how
far it violates the budget or the bounds. A ratio of times means something only where both penalties
agree and the violation is nil.
"""

import resource
import time

import numpy as np

from observant.planning import Currency, plan

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
    few, worth = rates[:rival_sources].copy(), weight[:rival_sources].copy()
    budget = 0.2 * rival_sources
    started = time.perf_counter()
    ours = plan(few, budget=budget, objective="currency", grace=1.0, importance=worth)
    our_seconds = time.perf_counter() - started
    theirs, their_seconds, violation = _generic(few, worth, budget)
    return results | {
        "rival_sources": rival_sources,
        "our_seconds": our_seconds,
        "rival_seconds": their_seconds,
        "our_penalty": ours.penalty,
        "rival_penalty": theirs,
        "rival_violation": violation,
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


def _generic(rates, weight, budget):
    from scipy.optimize import Bounds, LinearConstraint, minimize
    from scipy.sparse import csr_array, diags_array

    known, weight = Currency(rates, 1.0), weight / weight.sum()
    n = len(rates)
    # In visits f = 1/T: the gradient of the mean penalty is −W(T), its curvature T³ c'(T).
    started = time.perf_counter()
    found = minimize(
        lambda f: weight @ known.mean_penalty(1 / f),
        np.full(n, budget / n),
        jac=lambda f: -weight * known.index(1 / f),
        hess=lambda f: diags_array(
            weight * f**-3.0 * np.where(f < 1, rates * np.exp(-rates * np.maximum(1 / f - 1, 0)), 0)
        ),
        bounds=Bounds(np.full(n, 1e-6), np.full(n, np.inf), keep_feasible=True),
        constraints=LinearConstraint(csr_array(np.ones((1, n))), -np.inf, budget),
        method="trust-constr",
        options={"maxiter": 200, "gtol": 1e-9, "xtol": 1e-12},
    )
    violation = max(0.0, found.x.sum() / budget - 1, 1e-6 - found.x.min())
    return float(found.fun), time.perf_counter() - started, violation


def _peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == "__main__":
    main()
