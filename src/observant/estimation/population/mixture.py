"""What a collection shows when the mean times between updates of its sources are Weibull.

Each source changes at random at its own rate λ = 1/x (a Poisson process), and x, the mean time
between its updates, is spread over the collection with the density

    w(x) = (σ/δ) (x/δ)^(σ−1) e^(−(x/δ)^σ)          Brewington (3.9), (3.16)

σ is called `shape` and δ `scale`, in days. All that can be seen of the collection is made of three
averages over it: S(t) = E e^(−λt), f(t) = E λ e^(−λt) and φ(t) = E λ² e^(−λt).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.arrays import Floats


def age_cdf(t: ArrayLike, shape: float, scale: float, growth: float = 0.0) -> Floats:
    """Share of sources not older than `t` days, G(t) of Brewington (3.8).

    The collection grows like e^(ξt) with ξ = `growth` per day, so that many sources are young
    because they are new: 1 − G(t) = e^(−ξt) S(t). The exponent of (3.8) lost its sign in print
    (errata B-10).

    >>> print(age_cdf([11, 100, 365], 0.78, 651.1, growth=0.00176).round(2))
    [0.12 0.45 0.79]
    """
    t = _days(t)
    return 1.0 - np.exp(-growth * t) * averages(t, shape, scale)[0]


def age_pdf(t: ArrayLike, shape: float, scale: float, growth: float = 0.0) -> Floats:
    """Density of the ages, Brewington (3.8) with the exponent mended (errata B-10)."""
    t = _days(t)
    survival, density, _ = averages(t, shape, scale)
    return np.exp(-growth * t) * (growth * survival + density)


def seen_share(spans: ArrayLike, shape: float, scale: float) -> Floats:
    """Share of sources that change at least once while they are watched for `spans` days.

    Brewington (3.11), averaged over the collection.
    """
    return 1.0 - averages(spans, shape, scale)[0]


def lifetime_cdf(t: ArrayLike, shape: float, scale: float, spans: ArrayLike) -> Floats:
    """Distribution of the lifetimes seen, as printed: Brewington (3.12) to (3.14).

    A source watched for a span τ shows a lifetime with probability 1 − e^(−λτ), and (3.14) takes
    the lifetimes it shows for draws of Exp(λ). That is not so of the first one (errata B-14): see
    `first_lifetime_cdf`. Spans are independent of rates and are weighted equally.

    >>> print(lifetime_cdf([10, 60, 240], 1.4, 152.2, spans=[100.0]).round(3))
    [0.175 0.555 0.888]
    """
    survival, _ = _lifetimes(t, shape, scale, spans)
    return 1.0 - survival


def lifetime_pdf(t: ArrayLike, shape: float, scale: float, spans: ArrayLike) -> Floats:
    """Density of the lifetimes seen, as printed in Brewington (3.14)."""
    return _lifetimes(t, shape, scale, spans)[1]


def first_lifetime_cdf(
    t: ArrayLike, shape: float, scale: float, spans: ArrayLike, growth: float = 0.0
) -> Floats:
    """Distribution of the first lifetime seen of each source, which is length-biased.

    The first lifetime that two dates of modification reveal began before the first visit. It is
    the one that straddles a given moment, and long ones straddle it more often. Given λ and the
    span τ its density is λ² e^(−λt) min(t, τ), where (3.14) has λ e^(−λt) (errata B-14); in a
    growing collection it may also have begun with the source itself. `spans` are those of all
    sources, seen to change or not, and are weighted equally.

    >>> print(first_lifetime_cdf([10, 60, 240], 1.4, 152.2, spans=[100.0]).round(3))
    [0.043 0.334 0.849]
    """
    t = _days(t)
    spans = np.sort(np.ravel(_days(spans)))
    survival, density, _ = averages(t, shape, scale)
    seen = np.concatenate([[0.0], np.cumsum(seen_share(spans, shape, scale))])
    reach = np.concatenate([[0.0], np.cumsum(_compounded(spans, growth))])
    # Sources watched for less than t, and the others, whose first lifetime may be cut short.
    shorter = np.searchsorted(spans, t)
    within = (len(spans) - shorter) * (1.0 - survival - _compounded(t, -growth) * density)
    beyond = seen[shorter] - reach[shorter] * np.exp(-growth * t) * density
    cdf: Floats = (within + beyond) / seen[-1]
    return cdf


def straddling(t: Floats, spans: Floats, growth: float) -> Floats:
    """How many ways a lifetime t can begin before a span and end in it: min(t, τ) if no growth."""
    return np.exp(-growth * t) * _compounded(np.minimum(t, spans), growth)


def first_lifetimes_shown(
    spans: Floats, bound: float, shape: float, scale: float, growth: float
) -> Floats:
    """Share of sources, each with its span, whose first lifetime is seen and is above `bound`."""
    seen = seen_share(spans, shape, scale)
    if not bound:
        return seen
    survival, density, _ = averages(bound, shape, scale)
    short = np.where(
        spans < bound,
        seen - _compounded(spans, growth) * np.exp(-growth * bound) * density,
        1.0 - survival - _compounded(np.asarray(bound), -growth) * density,
    )
    return seen - short


def averages(t: ArrayLike, shape: float, scale: float) -> tuple[Floats, Floats, Floats]:
    """S(t), f(t) and φ(t): the averages of e^(−λt), λ e^(−λt) and λ² e^(−λt) over the collection.

    >>> at_scale = averages(152.2, shape=1.0, scale=152.2)  # 2 K₁(2), 2 K₀(2)/δ in closed form
    >>> print(at_scale[0].round(6), (152.2 * at_scale[1]).round(6))
    0.279732 0.227788
    """
    t = _days(t)
    times, weights = mean_times(shape, scale)
    if t.size:
        # Sources so fast that e^(−λt) is 0 for every t asked for add nothing.
        felt = times * _UNDERFLOW > t.min()
        times, weights = times[felt], weights[felt]
    rates = np.minimum(1.0 / times, _FASTEST)
    columns = np.stack([weights, weights * rates, weights * rates**2], axis=1)
    flat, rows = t.ravel(), max(1, _BLOCK // len(rates))
    values = np.empty((flat.size, 3))
    for start in range(0, flat.size, rows):
        values[start : start + rows] = np.exp(-flat[start : start + rows, None] * rates) @ columns
    survival, density, curvature = values.T.reshape(3, *t.shape)
    return survival, density, curvature


def mean_times(shape: float, scale: float) -> tuple[Floats, Floats]:
    """A few hundred mean times with weights that stand for the whole collection.

    With x = δ u^(1/σ) and u from e^(−u), the integrand is smooth in log u and dies away at both
    ends, so that the plain trapezoidal sum converges exponentially fast; its step is chosen for
    about twelve digits, its ends so that ages and lifetimes from a second to 10⁴ δ are served.
    """
    if not (0.0 < shape < np.inf and 0.0 < scale < np.inf):
        raise InputError(f"shape and scale must be positive numbers, not {shape!r} and {scale!r}")
    step = _STEP * min(shape, 1.0)
    log_u = np.arange(-40.0, 6.5, step)
    return scale * np.exp(log_u / shape), step * np.exp(log_u - np.exp(log_u))


def _lifetimes(t: ArrayLike, shape: float, scale: float, spans: ArrayLike) -> tuple[Floats, Floats]:
    """Survival and density of the lifetimes of the sources that (3.12) lets be seen."""
    times, weights = mean_times(shape, scale)
    rates = np.minimum(1.0 / times, _FASTEST)
    spans = np.ravel(_days(spans))
    seen = weights * -np.expm1(-rates[:, None] * spans).mean(axis=1)
    seen /= seen.sum()
    decay = np.exp(-_days(t)[..., None] * rates)
    return decay @ seen, decay @ (seen * rates)


def _compounded(t: Floats, growth: float) -> Floats:
    """∫₀ᵗ e^(ξs) ds, which is t itself without growth."""
    return np.expm1(growth * t) / growth if growth else t


def _days(values: ArrayLike) -> Floats:
    days = np.asarray(values, np.float64)
    if np.any(days < 0.0):
        raise InputError("ages, lifetimes and spans cannot be negative")
    return days


_STEP = 0.28
_FASTEST = 1e150
"""A rate beyond any clock, whose square is still a number."""
_UNDERFLOW = 750.0
_BLOCK = 1 << 20
