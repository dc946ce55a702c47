"""The weights of a mixture that make the data likeliest: a convex problem, solved to its optimum.

A few EM passes find the region; then Newton steps, each a least-squares problem with weights that
must not be negative (Wang 2007, the constrained Newton method), with a line search so that no
step loses likelihood. The answer is checked: at the optimum no component's gradient exceeds 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from observant.processes.base import floats

if TYPE_CHECKING:
    from observant.processes.base import Floats

__all__ = ["Weights", "likeliest_weights"]

EM_PASSES = 30
# Components this far below the optimality bound, and without weight, sit a Newton step out.
IDLE = 0.2


class Weights(NamedTuple):
    """Weights on the simplex, and how far they are from the optimum."""

    weights: Floats
    log_likelihood: float
    iterations: int
    excess: float
    """Largest gradient above 1, of the mean log-likelihood; 0 at the optimum."""


def likeliest_weights(
    likelihood: Floats,
    counts: Floats,
    *,
    start: Floats | None = None,
    max_iterations: int = 100,
    tolerance: float = 1e-6,
) -> Weights:
    """Maximise Σ counts·log(likelihood @ w) over w ≥ 0 with Σ w = 1.

    Rows are observations, columns components. Every row must have a positive entry.

    >>> answer = likeliest_weights(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([3.0, 1.0]))
    >>> answer.weights.round(6).tolist()
    [0.75, 0.25]
    """
    total, size = float(counts.sum()), likelihood.shape[1]
    even = np.full(size, 1.0 / size)
    # A start that gave a row no chance at all could never be divided by.
    weights = even if start is None else 0.99 * start + 0.01 * even
    for _ in range(EM_PASSES if start is None else 3):
        weights = _em(likelihood, counts, weights, total)
    value, root, excess, iterations = -np.inf, np.sqrt(counts), np.inf, 0
    for iterations in range(max_iterations + 1):
        chance = likelihood @ weights
        value = float(counts @ np.log(chance)) - total * float(weights.sum())
        gradient = likelihood.T @ (counts / chance)
        excess = float(gradient.max()) / total - 1.0
        if excess <= tolerance or iterations == max_iterations:
            break
        busy = np.flatnonzero((weights > 1e-10) | (gradient > (1.0 - IDLE) * total))
        target = _newton(likelihood[:, busy] * (root / chance)[:, None], gradient[busy], total)
        step = -weights
        step[busy] += target
        weights = np.maximum(
            weights + _length(likelihood, counts, weights, step, value, total) * step, 0.0
        )
        weights = _em(likelihood, counts, weights, total)
    return Weights(weights, value + total, iterations, max(excess, 0.0))


def _em(likelihood: Floats, counts: Floats, weights: Floats, total: float) -> Floats:
    """One pass of EM: each component takes its share of every observation."""
    shares: Floats = weights * (likelihood.T @ (counts / (likelihood @ weights))) / total
    return floats(shares / shares.sum())


def _newton(scaled: Floats, gradient: Floats, total: float) -> Floats:
    """Maximise the quadratic approximation over w ≥ 0.

    With Σ w charged at its multiplier, the number of observations, the optimum sums to 1 by
    itself.
    """
    from scipy.linalg import cholesky, solve_triangular
    from scipy.optimize import nnls

    curvature = scaled.T @ scaled
    curvature[np.diag_indices_from(curvature)] += 1e-9 * np.trace(curvature) / len(curvature)
    factor = cholesky(curvature)
    aim = solve_triangular(factor, 2.0 * gradient - total, trans=1)
    return np.asarray(nnls(factor, aim, maxiter=100 * len(aim))[0], np.float64)


def _length(
    likelihood: Floats,
    counts: Floats,
    weights: Floats,
    step: Floats,
    value: float,
    total: float,
) -> float:
    """Halve the step until it gains."""
    chance, change = likelihood @ weights, likelihood @ step
    mass, growth = float(weights.sum()), float(step.sum())
    length = 1.0
    while length > 1e-9:
        reached = chance + length * change
        if reached.min() > 0.0:
            gained = float(counts @ np.log(reached)) - total * (mass + length * growth) - value
            if gained >= 0.0:
                return length
        length /= 2.0
    return 0.0
