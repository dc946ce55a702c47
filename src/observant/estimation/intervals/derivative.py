"""From the age distribution G to intervals: F = 1 − g/g(0) and E[U] = 1/g(0). Li, IV.E.

A derivative of an estimate is noise when it looks too near, and wrong when it looks too far. The
step h decides, and figure 9 of Li finds it where E[U] stays the same for smaller and larger h.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import EstimationError, InputError
from observant.estimation.intervals.curve import AgeCurve, Floats, positive
from observant.units import format_share

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

__all__ = ["difference_weights", "flat_region", "interval_curve", "mean_by_step"]


def interval_curve(
    curve: AgeCurve, h: float | None = None, points: int = 5
) -> tuple[Floats, Floats, float, tuple[str, ...]]:
    """F at multiples of h, and the mean interval: ``(x, interval_cdf, mean_days, notes)``.

    g comes from `points` values of G spaced h apart: at 0 all of them lie to the right, elsewhere
    as many left as right, as far as the curve reaches. Without an h, that of `flat_region`.

    F is cut to [0, 1] and made monotone by the nearest rising curve in the sense of least squares
    (pool adjacent violators), which keeps its level where noise goes up and down; F(0) is 0.

    >>> x = np.linspace(0.01, 10, 1000)
    >>> exponential = AgeCurve("m2", x, 1 - np.exp(-x / 2), 10_000, 0.01)
    >>> at, F, mean, notes = interval_curve(exponential, h=0.2)
    >>> round(mean, 3), F[10].round(2), round(1 - np.exp(-1), 2).item()
    (2.0, np.float64(0.63), 0.63)
    """
    from scipy.optimize import isotonic_regression

    _check(curve, points)
    notes = list(curve.notes)
    if h is None:
        h, noise = flat_region(curve, points)
        notes.append(f"differentiated with {points} points, h = {h:.4g} d from the flat region")
        if noise > 0.1:
            notes.append(
                f"the mean interval is uncertain: its noise alone is about {format_share(noise, 0)}"
            )
    elif positive("h", h) < curve.resolution * (1 - 1e-9):
        notes.append(f"h = {h:g} d is below the data's resolution, {curve.resolution:.4g} d: noise")
    steps = int(curve.x[-1] / h * (1 + 1e-9))
    if steps < points - 1:
        raise InputError(
            f"h = {h:g} d is too long: {points} points must fit into the curve's {curve.x[-1]:g} d"
        )
    x = h * np.arange(steps + 1, dtype=np.float64)
    G = curve.age_cdf(x)
    mean = float(mean_by_step(curve, h, points)[()])
    if not 0 < mean < np.inf:
        raise EstimationError(
            f"G does not rise at 0 when looked at in steps of {h:g} d: take a longer h"
        )
    raw = np.clip(1.0 - mean * _slopes(G, h, points), 0.0, 1.0)
    raw[0] = 0.0
    F = np.clip(isotonic_regression(raw).x, 0.0, 1.0)
    return x, F, mean, tuple(notes)


def mean_by_step(curve: AgeCurve, h: ArrayLike, points: int = 5) -> Floats:
    """E[U] = 1/g(0) by the one-sided difference of each step h, Li's figure 9a.

    Infinite where the difference is not positive.
    """
    steps = np.asarray(h, np.float64)
    weights = difference_weights(0, points)
    slope = curve.age_cdf(np.arange(points) * steps[..., None]) @ weights / steps
    with np.errstate(divide="ignore"):
        return np.where(slope > 0, 1.0 / slope, np.inf)


def flat_region(curve: AgeCurve, points: int = 5) -> tuple[float, float]:
    """The h at which E[U] depends on h the least, and the relative noise of E[U] there.

    Steps are halved from the longest that fits down to the data's resolution, and no further
    (errata L-12). Taken is the step at which the change of E[U] on halving, plus twice the sampling
    noise, is least: a region is flat only beyond its noise.
    """
    _check(curve, points)
    longest = float(curve.x[-1]) / (points - 1)
    halvings = max(0.0, 2 * math.log2(longest / curve.resolution))
    h = longest * 2.0 ** (-np.arange(int(halvings + 1e-9) + 1) / 2)
    means = mean_by_step(curve, h, points)
    finer = mean_by_step(curve, np.maximum(h / 2, curve.resolution), points)
    usable = np.isfinite(means) & np.isfinite(finer)
    if not usable.any():
        raise EstimationError("G does not rise at 0, so no mean interval can be read from it")
    h, means, finer = h[usable], means[usable], finer[usable]
    noise = _relative_noise(curve, h, means, points)
    best = int(np.argmin(np.abs(means - finer) / finer + 2 * noise))
    return float(h[best]), float(noise[best])


def difference_weights(place: int, points: int) -> Floats:
    """Weights of values at 0, 1, …, points − 1 for the slope at `place`, exact to that degree.

    >>> difference_weights(0, 3).round(12)
    array([-1.5,  2. , -0.5])
    """
    powers = np.arange(points, dtype=np.float64)
    slope = np.zeros(points)
    slope[1] = 1.0
    weights = np.linalg.solve((powers - place) ** powers[:, None], slope)
    return np.asarray(weights, np.float64)


def _slopes(G: Floats, h: float, points: int) -> Floats:
    half = points // 2
    slopes = np.convolve(G, difference_weights(half, points)[::-1], mode="same")
    last = G.size - 1
    for place in range(half):
        slopes[place] = G[:points] @ difference_weights(place, points)
        slopes[last - place] = G[-points:] @ difference_weights(points - 1 - place, points)
    return slopes / h


def _relative_noise(curve: AgeCurve, h: Floats, means: Floats, points: int) -> Floats:
    """Standard error of 1/E[U] over its size, as if observations were independent."""
    weights = difference_weights(0, points)
    if curve.counts is None:
        # Counts of disjoint steps are nearly independent, each about n·h/E[U].
        tails = np.cumsum(weights[::-1])[::-1][1:]
        noise = np.sqrt((tails**2).sum() * means / h / curve.observations)
    else:
        at = np.arange(points) * h[:, None]
        G = np.clip(curve.age_cdf(at), 0.0, 1.0)
        pairs = np.interp(at, curve.x, curve.counts)
        noise = np.sqrt((weights**2 * G * (1 - G) / pairs).sum(axis=1)) * means / h
    return np.asarray(noise, np.float64)


def _check(curve: AgeCurve, points: int) -> None:
    if points < 2:
        raise InputError(f"a difference needs two points or more, not {points}")
    if not (curve.values > 0).any():
        raise EstimationError("no change was seen, so nothing can be said about intervals")
