"""From intervals to ages and back, for any F or G: functions or values on a grid.

    G(x) = (1/m) ∫₀ˣ (1 − F)        Brewington (2.17), Li (5)
    F(x) = 1 − g(x)/g(0)            with g = G′ and g(0) = 1/m, Li section IV

The first is an integral and forgives everything. The second is a derivative and forgives nothing:
it needs a concave G, and it blurs jumps of F over the step of the difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError
from observant.processes.base import Times, evaluate, floats, positive

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from observant.arrays import Floats


def age_cdf_from(
    interval_cdf: Callable[[Floats], Floats], *, mean: float | None = None
) -> Callable[[Times], Times]:
    """G as a function, from F as a function of an array.

    The mean interval is computed when it is not given. Adaptive quadrature: about 12 digits,
    also where F jumps.

    >>> import numpy as np
    >>> age_cdf = age_cdf_from(lambda x: np.minimum(x / 2.0, 1.0))  # uniform on 0 to 2
    >>> round(age_cdf(1.0), 9)
    0.75
    """

    def survival(x: Floats) -> Floats:
        return 1.0 - np.asarray(interval_cdf(x), dtype=np.float64)

    m = _mean(survival) if mean is None else positive("mean", mean)

    def age_cdf(x: Floats) -> Floats:
        ends, back = np.unique(x, return_inverse=True)
        starts = np.concatenate([[0.0], ends[:-1]])
        parts = integrals(survival, starts, ends, tolerance=1e-13 * m)
        return np.minimum(np.cumsum(parts) / m, 1.0)[back].reshape(x.shape)

    return lambda x: evaluate(age_cdf, x, before=0.0, at_infinity=1.0)


def interval_cdf_from(
    age_cdf: Callable[[Floats], Floats], *, mean: float | None = None
) -> Callable[[Times], Times]:
    """F as a function, from G as a function of an array.

    The derivative is that of a polynomial of degree 6 through points near x, at most 2 % of a mean
    interval away and never below 0. For smooth G it has about 8 digits; a jump of F is blurred over
    that width. Give the mean interval if it is known: short intervals without number (an infinite
    density at 0) make the slope at 0 the weakest number.

    >>> import numpy as np
    >>> interval_cdf = interval_cdf_from(lambda x: -np.expm1(-x / 3.0))
    >>> round(interval_cdf(2.0), 8), round(1 - np.exp(-2 / 3), 8).item()
    (0.48658288, 0.48658288)
    """
    scale = _scale(age_cdf) if mean is None else positive("mean", mean)
    at_zero = 1.0 / scale if mean is not None else float(_slope(age_cdf, np.zeros(1), scale)[0])

    def interval_cdf(x: Floats) -> Floats:
        return np.clip(1.0 - _slope(age_cdf, x, scale) / at_zero, 0.0, 1.0)

    return lambda x: evaluate(interval_cdf, x, before=0.0, at_infinity=1.0)


def age_cdf_on_grid(x: ArrayLike, interval_cdf: ArrayLike, *, mean: float | None = None) -> Floats:
    """G at the points of a grid that begins with 0, from F there, by the trapezoid rule.

    Exact when F is linear between the points. The mean is that of the grid, and then F must
    reach 1 at its end; give the mean for a grid that ends before.

    >>> age_cdf_on_grid([0.0, 1.0, 2.0], [0.0, 0.5, 1.0])
    array([0.  , 0.75, 1.  ])
    """
    points, F = _grid(x, interval_cdf, "F")
    if (np.diff(F) < 0).any() or F[0] < 0 or F[-1] > 1:
        raise InputError("F must rise from 0 or more to at most 1")
    survival = 1.0 - F
    area = np.concatenate([[0.0], np.cumsum(np.diff(points) * (survival[1:] + survival[:-1]) / 2)])
    if mean is None:
        if survival[-1] > 1e-9:
            raise InputError(
                f"F ends at {F[-1]:.6g} and not at 1, so the mean interval is unknown; "
                "give mean=, or a longer grid"
            )
        mean = float(area[-1])
    return np.minimum(area / positive("mean", mean), 1.0)


def interval_cdf_on_grid(x: ArrayLike, age_cdf: ArrayLike, *, mean: float | None = None) -> Floats:
    """F at the points of a grid that begins with 0, from G there.

    g at a point is the slope there of the parabola through it and its neighbours, which lies
    between the slopes on both sides: a concave G gives a rising F, whatever the spacing. The error
    for a smooth G falls with the square of the spacing. Give the mean interval if it is known:
    the slope at 0 is the weakest number otherwise.

    >>> import numpy as np
    >>> x = np.linspace(0, 2, 201)
    >>> np.round(interval_cdf_on_grid(x, x - x**2 / 4)[[0, 50, 100]], 12)
    array([0.  , 0.25, 0.5 ])
    """
    points, G = _grid(x, age_cdf, "G")
    if points.size < 3:
        raise InputError("a derivative needs at least three points")
    steps = np.diff(points)
    slopes = np.diff(G) / steps
    noise = 1e-9 * slopes[0]
    if (np.diff(slopes) > noise).any() or slopes[-1] < -noise or abs(G[0]) > 1e-12:
        raise InputError(
            "G must begin with 0 and be concave (its slope never rises); take the least concave "
            "majorant of an estimate first"
        )
    near, far = steps[:-1], steps[1:]
    g = np.empty_like(G)
    g[1:-1] = (far * slopes[:-1] + near * slopes[1:]) / (near + far)
    g[0] = slopes[0] + (slopes[0] - slopes[1]) * steps[0] / (steps[0] + steps[1])
    g[-1] = slopes[-1] - (slopes[-2] - slopes[-1]) * steps[-1] / (steps[-1] + steps[-2])
    at_zero = g[0] if mean is None else 1.0 / positive("mean", mean)
    return np.maximum.accumulate(np.clip(1.0 - g / at_zero, 0.0, 1.0))


def integrals(
    function: Callable[[Floats], Floats], low: Floats, high: Floats, tolerance: float
) -> Floats:
    """Integrate a function over many intervals at once, halving those that need it.

    The estimate of a piece is Gauss and Legendre with 12 nodes; its error, the difference to the
    sum over both halves. A jump is followed down to a piece as short as a rounding; a function that
    is all noise is taken as it is, when the pieces become many.
    """
    nodes, weights = np.polynomial.legendre.leggauss(12)

    def estimate(a: Floats, b: Floats) -> Floats:
        half = (b - a) / 2.0
        points = a[:, None] + half[:, None] * (nodes + 1.0)
        return half * (function(points.ravel()).reshape(points.shape) @ weights)

    out = np.zeros(low.size)
    owner = np.arange(low.size)
    a, b = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    coarse = estimate(a, b)
    while a.size < 20_000 + 4 * low.size:
        middle = (a + b) / 2.0
        left, right = estimate(a, middle), estimate(middle, b)
        done = np.abs(left + right - coarse) <= tolerance + 1e-14 * np.abs(coarse)
        done |= (middle <= a) | (middle >= b)
        np.add.at(out, owner[done], (left + right)[done])
        if done.all():
            return out
        going = ~done
        owner = np.concatenate([owner[going], owner[going]])
        a, b = np.concatenate([a[going], middle[going]]), np.concatenate([middle[going], b[going]])
        coarse = np.concatenate([left[going], right[going]])
    np.add.at(out, owner, coarse)
    return out


def _mean(survival: Callable[[Floats], Floats]) -> float:
    """∫₀^∞ (1 − F), over x = e^y: tails and beginnings of any scale are equally near."""

    def by_logarithm(y: Floats) -> Floats:
        x = np.exp(y)
        return x * survival(x)

    edges = np.arange(-80.0, 80.0)
    size = float(integrals(by_logarithm, edges, edges + 1.0, tolerance=np.inf).sum())
    parts = integrals(by_logarithm, edges, edges + 1.0, tolerance=1e-15 * size)
    mean = float(parts.sum())
    # Where 1 − F sinks into the rounding of F, the tail beyond must be nothing, or the sum is not
    # the mean. If it sinks within one panel, from over 1e-6, there is no such tail.
    left = survival(np.exp(edges))
    last = int(np.flatnonzero(left > 1e-12)[-1]) if (left > 1e-12).any() else 0
    heavy = left[last] < 1e-6 and parts[last] > 1e-4 * mean
    if heavy or not (0 < mean < np.inf):
        raise InputError(
            "no finite mean interval was found: F is not the distribution of an interval in days, "
            "or its tail is too heavy to be seen from F; give mean="
        )
    return mean


def _scale(age_cdf: Callable[[Floats], Floats]) -> float:
    """Roughly the mean interval: the inverse of the steepest chord of G from 0."""
    x = np.exp(np.arange(-60.0, 60.0, 0.5))
    G = floats(age_cdf(x))
    certain = G > 1e-6  # below, a G that was computed as 1 − (1 − G) is rounding
    if not certain.any() or not np.isfinite(G).all():
        raise InputError("G must be the distribution of an age in days, as a function of arrays")
    return float(1.0 / np.max(G[certain] / x[certain]))


def _slope(function: Callable[[Floats], Floats], x: Floats, scale: float) -> Floats:
    """Slope of the polynomial through Chebyshev points around each x, none of them below 0."""
    degree = 6
    # Near 0 as near as the digits of a difference allow, since G may bend sharply there.
    reach = np.clip(x / 2.0, 1e-5 * scale, 0.02 * scale)
    middle = np.maximum(x, reach)
    nodes = np.cos(np.pi * np.arange(degree + 1) / degree)
    points = middle[:, None] + reach[:, None] * nodes
    values = np.asarray(function(np.maximum(points, 0.0).ravel())).reshape(points.shape)
    chebyshev = np.linalg.inv(np.polynomial.chebyshev.chebvander(nodes, degree)) @ values.T
    slopes = np.polynomial.chebyshev.chebder(chebyshev)
    where = (x - middle) / reach
    return floats(np.polynomial.chebyshev.chebval(where, slopes, tensor=False) / reach)


def _grid(x: ArrayLike, values: ArrayLike, name: str) -> tuple[Floats, Floats]:
    points, heights = np.asarray(x, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if points.ndim != 1 or points.size < 2 or points.shape != heights.shape:
        raise InputError(f"give x and {name} as two flat arrays of equal length, two or more")
    if points[0] != 0 or (np.diff(points) <= 0).any() or not np.isfinite(points).all():
        raise InputError("the grid must begin with 0 and increase")
    if not np.isfinite(heights).all():
        raise InputError(f"{name} must be finite")
    return points, heights
