"""Numbers behind the objectives: functions that keep their digits, and equations solved in bulk."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from observant.currency.shares import below_one

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.arrays import Floats


_STEPS = 60
COMPILED_FROM = 30_000
"""Below so many values, NumPy answers sooner than numba can load."""
# The error left after a step is of the order of its third (Halley) or second power (Newton).
_CLOSE_FOR_HALLEY = 1e-5
_CLOSE_FOR_NEWTON = 1e-8


def ein(x: Floats) -> Floats:
    """Ein(x) = ∫₀ˣ (1 − e⁻ᵗ)/t dt = γ + log x + E₁(x): the mean of 1 + 1/2 + … + 1/N.

    N is Poisson with mean x.

    >>> print(ein(np.array([0.0, 1.0, 10.0, np.inf])).round(6))
    [0.       0.7966   2.879805      inf]
    """
    from scipy.special import exp1

    return below_one(x, _ein_series, lambda x: np.euler_gamma + np.log(x) + exp1(x))


def currency_crossing(
    price: Floats, rates: Floats, grace: Floats, start: Floats | None = None
) -> Floats:
    """Days past the grace at which the currency index W reaches the price; infinite if never.

    With x = λy, B = λβ and x = u(1 + B), W(β + y) = price reads

        B·u + (u − log(1 + u)) = −log(1 − λ·price/(1 + B))

    where the left side is convex and rises, so Newton's (here Halley's)
    steps cannot fail. `start` is a guess of the answer.
    """
    if rates.ndim == 1 and rates.size >= COMPILED_FROM and price.shape in {(), rates.shape}:
        from observant.planning.objectives import kernels

        answer = np.empty(rates.shape)
        guess = np.zeros(1) if start is None else start
        kernels.currency_crossing(np.atleast_1d(price), rates, np.atleast_1d(grace), guess, answer)
        return answer
    price, rates, grace = np.broadcast_arrays(price, rates, grace)
    B = rates * grace
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.maximum(price * rates / (1.0 + B), 0.0)
        worth = (share < 1.0) & (rates > 0.0)
        R = -np.log1p(-np.where(worth, share, 0.0))
        # Two lower bounds: the parabola for small u, the logarithm for large u.
        low = 2.0 * R / (B + np.sqrt(B * B + 2.0 * R) + np.finfo(float).tiny)
        far = R + np.log1p(R / (1.0 + B))
        u = np.maximum(low, far / (1.0 + B))
        for _ in range(_STEPS):
            excess = B * u + _less_log(u) - R
            slope = B + u / (1.0 + u)
            step = excess / slope
            step = step / np.maximum(1.0 - step / (2.0 * slope * (1.0 + u) ** 2), 0.5)
            step = np.where(u > 0.0, np.minimum(step, 0.9 * u), 0.0)
            u = u - step
            if not np.any(np.abs(step) > _CLOSE_FOR_HALLEY * u):
                break
        y = u * (1.0 + B) / rates
    return np.where(worth, y, np.inf)


def newton_crossing(
    price: Floats,
    rates: Floats,
    power: int,
    index: Callable[[Floats], Floats],
    slope: Callable[[Floats], Floats],
    start: Callable[[Floats], Floats],
) -> Floats:
    """Solve w(λs)/λᵖ = price for s, where w is convex, rises without bound, and w(0) = 0."""
    with np.errstate(invalid="ignore", over="ignore"):
        wanted, rates = np.broadcast_arrays(price * rates**power, rates)
    solvable = (rates > 0.0) & (wanted > 0.0) & np.isfinite(wanted)
    q = np.where(solvable, wanted, 1.0)
    x = start(q)
    for _ in range(_STEPS):
        step = np.minimum((index(x) - q) / slope(x), 0.9 * x)
        x = x - step
        if not np.any(np.abs(step) > _CLOSE_FOR_NEWTON * x):
            break
    with np.errstate(divide="ignore", invalid="ignore"):
        s = np.where(solvable, x / rates, np.where(wanted > 0.0, np.inf, 0.0))
    return np.where(rates > 0.0, s, np.inf)


def crossing(
    index: Callable[[Floats], Floats], price: Floats, limit: Floats, start: Floats | None = None
) -> Floats:
    """Smallest s at which an index that never falls reaches the price, for many sources at once.

    The bracket grows from the guess; then Chandrupatla's method in log s, which bisects where
    interpolation would mislead it.
    """
    never = ~(price < limit)
    guess = np.ones(price.shape) if start is None else np.asarray(start, float)
    guess = np.where(np.isfinite(guess) & (guess > 0.0), guess, 1.0)
    target = np.where(never, 0.0, price)
    middle = np.log(guess)
    f_middle = index(guess) - target
    rise = np.where(f_middle < 0.0, 1.0, -1.0)
    other, f_other = middle.copy(), f_middle.copy()
    reach = 0.01 if start is not None else 1.0
    for _ in range(_STEPS):
        open_ = ~never & (np.where(rise > 0.0, f_other < 0.0, f_other >= 0.0))
        open_ &= np.abs(other) < _ANY_LOG
        if not open_.any():
            break
        middle = np.where(open_, other, middle)
        f_middle = np.where(open_, f_other, f_middle)
        other = np.clip(np.where(open_, other + rise * reach, other), -_ANY_LOG, _ANY_LOG)
        f_other = np.where(open_, index(np.exp(other)) - target, f_other)
        reach *= 2.0
    root = _chandrupatla(lambda t: index(np.exp(t)) - target, other, f_other, middle, f_middle)
    return np.where(never, np.inf, np.where(root <= -_ANY_LOG, 0.0, np.exp(root)))


def _chandrupatla(
    f: Callable[[Floats], Floats], a: Floats, fa: Floats, b: Floats, fb: Floats
) -> Floats:
    """Roots between a and b, for many functions at once (Chandrupatla 1997).

    `scipy.optimize.elementwise.find_root` is the same method; it took 2 to 5 times as long here
    (10 to 100,000 sources), since it sets aside who is done and ours stops when all are.
    """
    c, fc = a, fa
    t = np.full(a.shape, 0.5)
    for _ in range(2 * _STEPS):
        x = a + t * (b - a)
        fx = f(x)
        same = np.sign(fx) == np.sign(fa)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = x, fx
        best = np.where(np.abs(fa) < np.abs(fb), a, b)
        width = np.abs(b - a)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            least = 1e-14 * (1.0 + np.abs(best)) / width
            if np.all((least > 0.5) | (fa == 0.0) | (width == 0.0)):
                break
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            inverse = (phi**2 < xi) & ((1.0 - phi) ** 2 < 1.0 - xi)
            iqi = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (
                fc - fb
            )
            t = np.where(inverse & np.isfinite(iqi), iqi, 0.5)
            t = np.where(width > 0.0, np.clip(t, np.minimum(least, 0.5), 1.0 - least), 0.5)
    return np.where(np.abs(fa) < np.abs(fb), a, b)


_ANY_LOG = 300.0


def _less_log(u: Floats) -> Floats:
    """Return u − log(1 + u) with all its digits."""
    z = u / (2.0 + u)
    zz = z * z
    tail = np.zeros_like(z)
    for n in (17, 15, 13, 11, 9, 7, 5, 3):
        tail = zz * tail + 1.0 / n
    return np.where(u < 0.3, u * z - 2.0 * z * zz * tail, u - np.log1p(u))


def _ein_series(x: Floats) -> Floats:
    total = np.zeros_like(x)
    for k in range(18, 0, -1):
        total = 1.0 / (k * math.factorial(k)) - x * total
    return x * total
