"""What the sampling methods tend to in long logs, for a known process: Li's formulas.

`updates` is the process of the source, `gaps` that of the visits: a process whose intervals are the
gaps, or a number of days for a constant gap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.estimation.intervals.curve import Floats, positive

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.processes import Process

__all__ = ["changed_share", "g_m4_tail", "m1_tail", "m3_mean", "m3_tail", "m4_mean"]


def changed_share(updates: Process, gaps: Process | float) -> float:
    """p, the share of visits that find a change, which M1 and M3 keep. E[G(S)], Li (9).

    >>> from observant.processes import Pareto
    >>> round(changed_share(Pareto(3.0, 1.0), 1.0), 12)
    0.75
    """
    return float(_mass_after(updates, gaps, np.zeros(1))[0])


def m1_tail(updates: Process, gaps: Process | float, x: ArrayLike) -> Floats:
    """1 − G₁(x), what M1 measures: E[G(x + S) − G(x)]/E[G(S)]. Li (12)."""
    ages = np.asarray(x, np.float64)
    mass = _mass_after(updates, gaps, np.append(0.0, ages.ravel()))
    return np.reshape(mass[1:] / mass[0], ages.shape)


def m3_tail(updates: Process, gap: float, n: ArrayLike) -> Floats:
    """1 − G₃ at n gaps, what M3 measures: (G((n+1)Δ) − G(nΔ))/G(Δ). Li (40)."""
    return m1_tail(updates, positive("gap", gap), np.asarray(n) * gap)


def m3_mean(updates: Process, gap: float) -> float:
    """E[D₃], the mean sample of M3: Δ/G(Δ). Li (42).

    >>> from observant.processes import Pareto
    >>> round(m3_mean(Pareto(3.0, 1.0), 1.0), 12)
    1.333333333333
    """
    return gap / updates.age_cdf(positive("gap", gap))


def m4_mean(updates: Process, gap: float) -> float:
    """E[D₄], the mean sample of M4: Δ Σ (1 − G(nΔ)) from n = 0 on. Infinite with the mean age.

    For Li's Pareto(3, 1) and Δ = 1 it is π²/6 = 1.645. Li prints 1.63, the mean of a simulation,
    which need not come near: the samples have no finite variance (errata L-4).

    >>> from observant.processes import Pareto
    >>> round(m4_mean(Pareto(3.0, 1.0), 1.0), 9)
    1.644934067
    """
    n = 2000
    head = updates.age_sf(positive("gap", gap) * np.arange(n, dtype=np.float64)).sum() * gap
    # Beyond, the sum is its integral and two terms of Euler and Maclaurin.
    end = gap * n
    tail = updates.mean_age - updates.integrated_age_sf(end)
    tail += gap * updates.age_sf(end) / 2 + gap**2 * updates.age_pdf(end) / 12
    return float(head + tail)


def g_m4_tail(updates: Process, rate: float, x: ArrayLike) -> Floats:
    """What G-M4 measures under exponential gaps: the tail of the age plus Exp(rate). Errata L-11.

    >>> from observant.processes import Pareto
    >>> g_m4_tail(Pareto(3.0, 1.0), 1.0, [1.0, 10.0]).round(4)
    array([0.6498, 0.0106])
    """
    ages = np.asarray(x, np.float64)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    share = (nodes + 1) / 2
    y = ages[..., None] * share
    # The exponential part is longer than what the age y leaves of x.
    left = updates.age_pdf(y) * np.exp(-positive("rate", rate) * (ages[..., None] - y))
    return np.asarray(updates.age_sf(ages) + ages / 2 * (left @ weights), np.float64)


def _mass_after(updates: Process, gaps: Process | float, x: Floats) -> Floats:
    """E[G(x + S) − G(x)], which is the integral of g(x + s)·P(S > s) over s."""
    if isinstance(gaps, int | float):
        # From the tails, which keep their digits far out.
        return updates.age_sf(x) - updates.age_sf(x + positive("gap", gaps))
    # Panels in the logarithm of s: beginnings and tails of any length are equally near.
    nodes, weights = np.polynomial.legendre.leggauss(12)
    edges = np.arange(-40.0, 30.0, 0.5)
    y = (edges[:, None] + 0.25 * (nodes + 1)).ravel()
    s = np.exp(y)
    weight = np.tile(0.25 * weights, edges.size) * s * gaps.interval_sf(s)
    return np.array([updates.age_pdf(start + s) @ weight for start in x])
