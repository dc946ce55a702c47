"""Is there a season at all, and can these visits show one?

The score of log θ at flat, U, is a sum over windows with mean 0 and the information V as its
variance, when the source is Poisson without a season. Q = U'KU with the covariance K of the
candidate seasons is the locally best test against them, and has the distribution of a weighted sum
of χ²₁, weights the eigenvalues of V^½KV^½. Its tail is taken by Kuonen's saddlepoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from observant.estimation.season.shape import Likelihood, ObservedWindows, SeasonPrior

__all__ = ["doubts", "flat_p_value", "quadratic_tail", "visible_share"]


_VISIBLE = 1e-6


def flat_p_value(likelihood: Likelihood, priors: list[SeasonPrior]) -> float:
    """P-value of "this source has no season"; 1 where the visits cannot show one."""
    basis = priors[0].basis
    # Candidates differ in scale; each counts for the same.
    kernel = sum(p.covariance / np.trace(p.covariance) for p in priors)
    flat = likelihood.at(np.zeros(likelihood.clock.count), profile=True)
    score = basis.T @ flat.gradient
    variance = basis.T @ flat.information @ basis
    if np.trace(variance) < _VISIBLE:
        return 1.0
    root = np.linalg.cholesky(kernel)
    weights = np.linalg.eigvalsh(root.T @ variance @ root)
    return quadratic_tail(float(score @ kernel @ score), weights.astype(np.float64))


def quadratic_tail(q: float, weights: NDArray[np.float64]) -> float:
    """P(Σ wᵢ χ²₁ > q), by the saddlepoint of Kuonen (1999).

    >>> round(quadratic_tail(3.8415, np.array([1.0])), 3)  # exactly 0.050
    0.052
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr

    w = weights[weights > 1e-9 * max(weights.max(), 0.0)]
    if not w.size or q <= 0:
        return 1.0
    w, q = w / w.sum(), q / w.sum()  # now the mean is 1

    def slope(z: float) -> float:
        return float((w / (1 - 2 * z * w)).sum() - q)

    if abs(q - 1) < 1e-3:  # the formula has a hole at the mean; its sides meet
        return 0.5 * (quadratic_tail(1.002, w) + quadratic_tail(0.998, w))
    high = (0.5 / w.max()) * (1 - 1e-12)
    low = -1.0
    while slope(low) > 0:
        low *= 4
    z = brentq(slope, low, high, xtol=1e-14)
    generating = -0.5 * np.log1p(-2 * z * w).sum()
    bend = 2 * (w**2 / (1 - 2 * z * w) ** 2).sum()
    r = np.sign(z) * np.sqrt(max(2 * (z * q - generating), 0.0))
    v = z * np.sqrt(bend)
    return float(ndtr(-(r + np.log(v / r) / r)))


# -- What the visits can show of a season, and what they hide -------------------------------------
#
# A window of a whole day holds every hour once, whenever it began: it says nothing about hours. So
# visits at the same hour every day see no hours, and visits a week apart see no weekdays.


_HIDDEN = 0.01
_FEW_CHANGES = 50


def visible_share(likelihood: Likelihood) -> dict[str, float]:
    """Information about the first waves of day and week, relative to knowing every update time."""
    clock = likelihood.clock
    flat = likelihood.at(np.zeros(clock.count), profile=True)
    gaps = likelihood.windows.evidence.gaps
    per_window = np.repeat(flat.level, likelihood.windows.evidence.counts)
    updates = float(np.sum(gaps * np.where(np.isfinite(per_window), per_window, 0.0)))
    middle = (np.arange(clock.count) + 0.5) * clock.width
    waves = {}
    if clock.bins != "weekday":
        waves["hours of the day"] = (1.0, 2.0)
    if clock.period == 7.0:
        waves["days of the week"] = (1 / 7, 2 / 7)
    shares = {}
    for name, turns in waves.items():
        columns = [w(2 * np.pi * f * middle) for f in turns for w in (np.cos, np.sin)]
        basis = np.stack(columns, axis=1)
        full = updates / clock.count * np.square(basis).sum()
        shares[name] = float(np.trace(basis.T @ flat.information @ basis)) / full if full else 0.0
    return shares


def doubts(windows: ObservedWindows, visible: dict[str, float], changes: int) -> list[str]:
    """What a reader should know before believing the shape."""
    notes = []
    hidden = [name for name, share in visible.items() if share < _HIDDEN]
    if hidden:
        what = " and ".join(hidden)
        notes.append(f"the {what} cannot be seen: {_reason(windows, hidden[0])}")
    if changes < _FEW_CHANGES:
        notes.append(f"only {changes} changes were seen; a shape needs hundreds of visits")
    return notes


def _reason(windows: ObservedWindows, what: str) -> str:
    clock = windows.clock
    cycle, unit = (1.0, "day") if what.startswith("hours") else (7.0, "week")
    phase = clock.position(windows.stop) * clock.width / cycle
    together = abs(np.exp(2j * np.pi * phase).mean())
    gaps = windows.evidence.gaps / cycle
    if together > 0.99:
        middle = np.angle(np.exp(2j * np.pi * phase).mean()) / (2 * np.pi) % 1.0
        when = f"{round(middle * 24) % 24:02d}:00" if unit == "day" else "the same day"
        return f"all visits fall at about {when}. Visit at varying times"
    if np.mean(np.abs(gaps - np.rint(gaps)) < 0.02) > 0.9 and np.median(gaps) > 0.5:
        return f"windows are whole {unit}s. Visit at varying times"
    return f"windows are too long against a {unit}, or nearly every visit found a change"
