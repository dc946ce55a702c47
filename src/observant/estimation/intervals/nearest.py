"""A measured age curve as a process: the nearest source that could have made it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.estimation.intervals.em.histogram import AgeHistogram

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.processes.base import Floats

__all__ = ["nearest_concave"]

_MOST_POINTS = 400
_CELLS = 150


def nearest_concave(
    x: ArrayLike, age_cdf: ArrayLike, weights: ArrayLike | None = None
) -> AgeHistogram:
    """Find the source whose G is nearest to a measured curve, by least squares.

    A measured curve need be neither concave nor reach 1; that of a stationary source is and does.
    What is missing to 1 at the last x is put beyond it, where nothing was seen. `weights` say how
    much each point counts. Without noise the curve itself comes back:

    >>> at = np.linspace(0.05, 20, 400)
    >>> source = nearest_concave(at, 1 - np.exp(-at))
    >>> print(source.age_cdf(np.array([0.5, 1.0, 3.0])).round(3), round(source.mean, 2))
    [0.393 0.632 0.95 ] 0.98
    """
    from scipy.optimize import nnls

    points, G = np.asarray(x, np.float64), np.asarray(age_cdf, np.float64)
    counts = np.ones(len(points)) if weights is None else np.asarray(weights, np.float64)
    points, G, counts = _thinned(points, G, counts)
    edges = np.append(0.0, np.geomspace(points[0], points[-1] * 1.0001, _CELLS))
    edges = np.append(edges, points[-1] * np.array([2.0, 4.0, 16.0, 64.0]))
    scale = np.sqrt(counts / counts.max())
    closing = 10.0 * np.sqrt(len(points))  # the weights must add up to 1
    matrix = np.vstack([_shapes(points, edges) * scale[:, None], np.full(len(edges) - 1, closing)])
    share, _ = nnls(matrix, np.append(G * scale, closing), maxiter=100 * len(edges))
    return AgeHistogram(edges, share / (edges[1:] + edges[:-1]))


def _shapes(x: Floats, edges: Floats) -> Floats:
    """G of a source whose intervals all lie in one cell, for each cell."""
    low, high = edges[:-1], edges[1:]
    width = high - low
    inside = np.clip(x[:, None] - low, 0.0, width)
    lasted = np.minimum(x[:, None], low) + inside - inside**2 / (2.0 * width)
    return np.asarray(lasted / ((low + high) / 2.0))


def _thinned(x: Floats, G: Floats, counts: Floats) -> tuple[Floats, Floats, Floats]:
    """Few enough points, evenly spread over the logarithm of x; the first and last stay."""
    if len(x) <= _MOST_POINTS:
        return x, G, counts
    wanted = np.geomspace(x[0], x[-1], _MOST_POINTS)
    at = np.unique(np.minimum(np.searchsorted(x, wanted * (1 - 1e-12)), len(x) - 1))
    if np.ptp(counts) == 0.0:
        return x[at], G[at], counts[at]
    total = np.add.reduceat(counts, at)  # bins are averaged, so that no pair is lost
    return (
        np.add.reduceat(x * counts, at) / total,
        np.add.reduceat(G * counts, at) / total,
        total,
    )
