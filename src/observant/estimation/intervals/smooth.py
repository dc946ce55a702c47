"""F from constant gaps, by smoothing (Li, V.A).

Visits Δ apart show G at Δ, 2Δ, … and nothing between, so F cannot be known from them: it is the
slope of G, and its first value the slope at 0. With some knowledge of the source it can be guessed.
Here the knowledge is that the longer a source has been quiet, the longer it will stay so (bursty,
or memoryless): then G is a mixture of exponentials,

    G(x) = Σ wⱼ (1 − e^(−x/sⱼ)),  F(x) = 1 − G′(x) / G′(0)

The weights are those of least squares, none negative, as smooth over the logarithm of s as the
measured points allow. A source that is more regular than Poisson is not described by this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.errors import EstimationError
from observant.estimation.intervals.curves import AgeCurve

if TYPE_CHECKING:
    from observant.arrays import Floats


_PER_DECADE = 8
_SMOOTH = (300.0, 100.0, 30.0, 10.0, 3.0, 1.0)
"""Weights of the roughness, the smoothest first."""
_WORSE, _SLACK = 1.25, 0.02
"""How much worse than the roughest a smoother fit may be."""
_ADD_UP = 1e4


def smooth_intervals(curve: AgeCurve) -> tuple[AgeCurve, Floats, Floats, float, tuple[str, ...]]:
    """G as a smooth curve, points and F at them, the mean interval, and notes.

    >>> x = np.arange(1.0, 30.0)
    >>> exponential = AgeCurve("m4", x, -np.expm1(-x / 2.0), 10_000, 1.0)
    >>> _, at, F, mean, _ = smooth_intervals(exponential)
    >>> print(round(mean, 1), np.abs(F + np.expm1(-at / 2.0)).max() < 0.02)
    1.9 True
    """
    known = (curve.values > 0) & (curve.values < 1 - 1e-9)
    x, G = curve.x[known], curve.values[known]
    if len(x) < 4:
        raise EstimationError("fewer than four points of G are known: too few to smooth")
    gap = curve.resolution
    decades = np.log10(160 * x[-1] / gap)
    scale = np.geomspace(gap / 8, 20 * x[-1], int(_PER_DECADE * decades) + 1)
    error = np.sqrt(np.maximum(G * (1 - G), 1e-4) * 4 / max(curve.observations, 4))
    shape = -np.expm1(-x[:, None] / scale) / error[:, None]
    weights = _smoothest(shape, G / error)
    first = float((weights / scale).sum())
    at = np.geomspace(gap / 20, float(curve.x[-1]), 400)
    values = -np.expm1(-at[:, None] / scale) @ weights
    F = 1 - np.exp(-at[:, None] / scale) @ (weights / scale) / first
    note = (
        f"intervals below the gap of the visits are a guess: F is that of a source that is bursty "
        f"or memoryless, smoothed through {len(x)} points of G"
    )
    smooth = AgeCurve(curve.method, at, np.minimum(values, 1.0), curve.observations, gap)
    return smooth, at, np.asarray(F), 1 / first, (*curve.notes, note)


def _smoothest(shape: Floats, wanted: Floats) -> Floats:
    from scipy.optimize import nnls

    sizes = shape.shape[1]
    rough = np.diff(np.eye(sizes), 2, axis=0)

    def fitted(weight: float) -> tuple[Floats, float]:
        rows = np.vstack([shape, weight * rough, np.full((1, sizes), _ADD_UP)])
        right = np.concatenate([wanted, np.zeros(len(rough)), [_ADD_UP]])
        found, _ = nnls(rows, right, maxiter=100 * sizes)
        return found / found.sum(), float(np.mean((shape @ found - wanted) ** 2))

    best, least = fitted(_SMOOTH[-1])
    for weight in _SMOOTH[:-1]:
        found, off = fitted(weight)
        if off <= _WORSE * least + _SLACK:
            return found
    return best
