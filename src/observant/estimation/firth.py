"""One equation for all evidence: the bias-reduced rate, and an interval for every source.

A comparison at gap t, with x = λt and B(x) = x/(eˣ − 1), adds to λ times the score of the Poisson
likelihood, and to the sums N₁ = λ²ΣI and N₂ = λ³ΣK of DESIGN section 4:

    ====================  ================  ==========  ================
    comparison            λ · score         λ² I        λ³ K
    ====================  ================  ==========  ================
    unchanged             −x                x B         x² B
    changed, no date      B                 x B         x² B
    unchanged, dated      −x                1 − e⁻ˣ     2(1 − (1 + x)e⁻ˣ)
    changed at age a      1 − λa            1 − e⁻ˣ     2(1 − (1 + x)e⁻ˣ)
    ====================  ================  ==========  ================

**The rate.** Maximum likelihood (Cho's equation 2) sets the sum of scores to zero. It is biased,
and infinite when every visit saw a change. Firth's reduction solves Σ score − ½ ΣK/ΣI = 0 instead:
finite for every history, and −log((n − X + ½)/(n + ½)) exactly when the visits are regular.
It is written as P(λ) = M(λ) with P = Σ B + (dated changes), M = λ · (time known to be quiet) +
½N₂/N₁, because log P − log M is close to a falling straight line in log λ where it matters, and
Newton's method, kept inside a bracket, needs few steps. Where every visit saw a change and the gaps
are very uneven, the equation can have more than one root; the one next to changes over time is
taken.

**The interval** asks which rates make what was seen neither too surprising one way nor the other.
For a rate λ₀ and the likeliest rate λ̂, what matters of a history is T = Σ aᵢZᵢ, the sum over the
comparisons that saw a change of aᵢ, the log odds of a change at λ̂ over those at λ₀: the best test
of the one rate against the other, so it counts which gap changed, not only how many. With

    w² = 2 (ℓ(λ̂) − ℓ(λ₀))        u² = (J/I) (Σ aᵢ² p̂ᵢ(1 − p̂ᵢ) + log²(λ̂/λ₀) λ̂Q)

(Q: time that dated visits tell of; J and I: information at λ̂ as observed and as expected, which
are the same for equal gaps) the probability of a T as far out as the one seen is, by Lugannani and
Rice's saddlepoint formula,

    P = Φ(−w) + φ(w)(1/u − 1/w)

which counts half of the probability of T itself. T takes steps of about a = Σa³p̂q̂/Σa²p̂q̂; with
u(1 − e⁻ᵃ)/a for u the formula counts all of it. A share ω of it is right: 1 gives Clopper and
Pearson's bounds where gaps are equal, never too narrow and often too wide; ½ the mid-P bounds, too
narrow at times. ω = 0.73 covers at least 93 % of the time at a nominal 95 %, and 98 % on average,
for equal gaps and for gaps that differ a thousandfold (`benchmarks/coverage.py`). Chernoff's bound
P ≤ e^(−w²/2), which is exact where only one outcome is as far out, holds the formula where few
gaps can still tell. The bounds are where P is (1 − confidence)/2.

A source that never changed has an upper bound only, −log(tail)/T; one that changed at every visit,
none of them dated, a lower bound only, from Π(1 − e⁻ˣ) = tail. Both are exact.

This module is the readable form, vectorised over sources with NumPy. `kernels` holds the same
arithmetic as compiled loops; the tests hold the two together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from observant.estimation.evidence import CHANGED, DATED, Evidence

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.arrays import Flags, Floats

WEIGHT_OF_TIES = 0.73
"""ω: how much of the probability of the very outcome seen counts as a tail."""

_TOLERANCE = 1e-12


@dataclass(frozen=True)
class Totals:
    """Sums over each source's comparisons that do not depend on the rate."""

    comparisons: Floats
    changes: Floats
    dated_changes: Floats
    time: Floats
    """All gaps, in days."""
    quiet: Floats
    """Time known to hold no update: unchanged gaps, and ages of dated changes."""

    @classmethod
    def of(cls, evidence: Evidence) -> Totals:
        """Add them up."""
        changed = evidence.kind & CHANGED == CHANGED
        dated = changed & (evidence.kind & DATED == DATED)
        finite = np.where(np.isfinite(evidence.gaps), evidence.gaps, evidence.ages)
        return cls(
            comparisons=evidence.sums(np.ones(len(evidence.gaps))),
            changes=evidence.sums(changed.astype(float)),
            dated_changes=evidence.sums(dated.astype(float)),
            time=evidence.sums(finite),
            quiet=evidence.sums(np.where(changed, evidence.ages, evidence.gaps)),
        )

    @property
    def never_changed(self) -> Flags:
        """Compared, and never found changed."""
        never: Flags = (self.comparisons > 0) & (self.changes == 0)
        return never

    @property
    def always_changed(self) -> Flags:
        """Changed at every comparison, none of them dated: no upper bound exists."""
        every = (self.comparisons > 0) & (self.changes == self.comparisons)
        always: Flags = every & (self.dated_changes == 0)
        return always


def bias_reduced_rates(evidence: Evidence) -> Floats:
    """Firth's bias-reduced rate of each source; 0 where it never changed, NaN without evidence.

    >>> bias_reduced_rates(Evidence.from_gaps([1.0] * 10, [True] * 6 + [False] * 4)).round(4)
    array([0.8473])
    """

    def balance(part: Evidence, quiet: Floats, s: Floats) -> _Balance:
        x, bernoulli, changed, dated = _terms(part, s)
        j = bernoulli + x
        undated_change = changed & ~dated
        seen = part.sums((changed & dated).astype(float))
        p = part.sums(np.where(undated_change, bernoulli, 0.0)) + seen
        dp = part.sums(np.where(undated_change, bernoulli * (1 - j), 0.0))
        gone = np.exp(-x)
        n1 = part.sums(np.where(dated, 1 - gone, x * bernoulli))
        n2 = part.sums(np.where(dated, 2 * (1 - gone - _times(x, gone)), x * x * bernoulli))
        dn1 = part.sums(np.where(dated, _times(x, gone), x * bernoulli * (2 - j)))
        dn2 = part.sums(np.where(dated, 2 * _times(x * x, gone), x * x * bernoulli * (3 - j)))
        n1 = np.maximum(n1, 1e-150)
        m = np.exp(s) * quiet + 0.5 * n2 / n1
        dm = np.exp(s) * quiet + 0.5 * (dn2 * n1 - n2 * dn1) / (n1 * n1)
        return p, dp, m, dm

    return _solve(evidence, balance, solvable=lambda totals: totals.changes > 0)


def mle_rates(evidence: Evidence) -> Floats:
    """Maximum likelihood: Cho's equation 2, with dated changes where there are any.

    0 where the source never changed, infinite where it changed at every visit (its singularity).

    >>> gaps = [6 / 24, 4 / 24, 3 / 24, 7 / 24]  # Cho's example 5, in days
    >>> mle_rates(Evidence.from_gaps(gaps, [True, False, True, False])) * 20 / 24
    array([2.66584592])
    """

    def balance(part: Evidence, quiet: Floats, s: Floats) -> _Balance:
        x, bernoulli, changed, dated = _terms(part, s)
        undated_change = changed & ~dated
        seen = part.sums((changed & dated).astype(float))
        p = part.sums(np.where(undated_change, bernoulli, 0.0)) + seen
        dp = part.sums(np.where(undated_change, bernoulli * (1 - bernoulli - x), 0.0))
        m = np.exp(s) * quiet
        return p, dp, m, m

    rates = _solve(
        evidence,
        balance,
        solvable=lambda totals: (totals.changes > 0) & ~totals.always_changed,
    )
    rates[Totals.of(evidence).always_changed] = np.inf
    return rates


def confidence_bounds(evidence: Evidence, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Lower and upper bound of each source's rate, as the module describes.

    >>> low, high = confidence_bounds(Evidence.from_gaps([1.0] * 10, [True] * 6 + [False] * 4))
    >>> low.round(3), high.round(3)
    (array([0.327]), array([2.012]))
    """
    totals = Totals.of(evidence)
    tail = (1 - confidence) / 2
    low, high = np.zeros(len(totals.changes)), np.full(len(totals.changes), np.inf)
    never, always = totals.never_changed, totals.always_changed
    high[never] = -np.log(tail) / totals.time[never]

    ordinary = (totals.comparisons > 0) & ~never & ~always
    if ordinary.any():
        part = evidence.select(ordinary)
        tails = _Tails.of(part)
        start = np.log(tails.likeliest)
        low[ordinary] = _root(lambda s: tails.log(s, -1.0) - np.log(tail), start, downhill=False)
        high[ordinary] = _root(lambda s: tails.log(s, 1.0) - np.log(tail), start, downhill=True)
    if always.any():
        part = evidence.select(always)
        low[always] = _root(
            lambda s: (
                part.sums(np.log(-np.expm1(-_rows(part, np.exp(s)) * part.gaps))) - np.log(tail)
            ),
            np.log(_first_guess(totals))[always],
            downhill=False,
        )
    return low, high


@dataclass(frozen=True)
class _Tails:
    """How surprising the evidence is at other rates than the likeliest; see the module."""

    evidence: Evidence
    totals: Totals
    likeliest: Floats
    top: Floats
    """The log likelihood there."""
    log_odds: Floats
    """Of a change in each gap, at the likeliest rate."""
    variance: Floats
    """p̂(1 − p̂) of each comparison without a date."""
    told: Floats
    """Updates expected, at the likeliest rate, in the time that dated visits tell of."""
    scale: Floats
    """Observed over expected information."""

    @classmethod
    def of(cls, evidence: Evidence) -> _Tails:
        likeliest = mle_rates(evidence)
        reduced = bias_reduced_rates(evidence)
        good = np.isfinite(likeliest) & (likeliest > 0)
        likeliest = np.where(good, likeliest, reduced)
        totals = Totals.of(evidence)
        changed, dated = evidence.kind & CHANGED == CHANGED, evidence.kind & DATED == DATED
        quiet = np.where(dated, np.where(changed, evidence.ages, evidence.gaps), 0.0)
        top, log_odds, x = _log_likelihood(evidence, totals, np.log(likeliest))
        p, q = -np.expm1(-x), np.exp(-x)
        told = likeliest * evidence.sums(quiet)
        with np.errstate(invalid="ignore"):
            each = np.where(dated, 0.0, (x / p) ** 2 * p * q)
            seen = np.where(changed & ~dated, (x / p) ** 2 * q, 0.0)
        observed, expected = evidence.sums(seen) + totals.dated_changes, evidence.sums(each) + told
        good = (observed > 0) & (expected > 0)
        scale = np.divide(observed, expected, out=np.ones(len(told)), where=good)
        variance = np.where(dated, 0.0, p * q)
        return cls(evidence, totals, likeliest, top, log_odds, variance, told, scale)

    def log(self, s: Floats, side: float) -> Floats:
        """Log P at the rates eˢ; side −1 below the likeliest rate, 1 above it."""
        value, log_odds, _ = _log_likelihood(self.evidence, self.totals, s)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            tilt = np.where(self.variance > 0, np.abs(self.log_odds - log_odds), 0.0)
            apart = np.abs(np.log(self.likeliest) - s)
            u2 = self.evidence.sums(tilt**2 * self.variance) + apart**2 * self.told
            step = (self.evidence.sums(tilt**3 * self.variance) + apart**3 * self.told) / u2
            u2 = u2 * self.scale
            w = np.sqrt(np.maximum(2 * (self.top - value), 0.0))
            once = np.exp(-(w**2) / 2)
            half, far = 1 / np.sqrt(u2) - 1 / w, _beyond(w)
            whole = step / -np.expm1(-step) / np.sqrt(u2) - 1 / w
            share = half + (2 * WEIGHT_OF_TIES - 1) * (whole - half)
            p = np.minimum(far + once / np.sqrt(2 * np.pi) * share, WEIGHT_OF_TIES * once)
        inside = (w < 1e-4) | ((s - np.log(self.likeliest)) * side <= 0) | np.isnan(p)
        return np.log(np.where(inside, 0.5, np.maximum(p, 1e-290)))


def _beyond(w: Floats) -> Floats:
    """Φ(−w); SciPy's would take longer to load than a small log to estimate."""
    return np.array([0.5 * math.erfc(each / math.sqrt(2)) for each in w.tolist()])


def _log_likelihood(evidence: Evidence, totals: Totals, s: Floats) -> tuple[Floats, Floats, Floats]:
    """Log likelihood of each source at the rates eˢ; log odds of a change, and x, of each gap."""
    rate = np.exp(s)
    x = np.maximum(_rows(evidence, rate) * evidence.gaps, 1e-300)
    gone = np.log(-np.expm1(-x))
    undated = evidence.kind & (CHANGED | DATED) == CHANGED
    value = evidence.sums(np.where(undated, gone, 0.0)) - rate * totals.quiet
    return value + totals.dated_changes * s, x + gone, x


# -- solving for all sources at once ----------------------------------------------------------

_Balance = tuple["Floats", "Floats", "Floats", "Floats"]


def _solve(
    evidence: Evidence,
    balance: Callable[[Evidence, Floats, Floats], _Balance],
    *,
    solvable: Callable[[Totals], Flags],
) -> Floats:
    """Newton on log P − log M in log λ, kept inside a bracket; sources leave when they are done."""
    totals = Totals.of(evidence)
    rates = np.where(totals.comparisons > 0, 0.0, np.nan)
    todo = solvable(totals)
    s = np.log(_first_guess(totals))
    low, high = np.full(len(s), -np.inf), np.full(len(s), np.inf)
    for _ in range(200):
        if not todo.any():
            break
        p, dp, m, dm = balance(evidence.select(todo), totals.quiet[todo], s[todo])
        here, lower, upper = s[todo], low[todo], high[todo]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            g = np.where(p > 0, np.log(p / m), -np.inf)
            slope = dp / p - dm / m
            # With gaps of very different length log P − log M can level out: walk on from there.
            step = np.where(slope < -0.1, -g / slope, np.copysign(1.0, g))
        step = np.where(np.isfinite(g), step, -2.0)
        lower, upper = np.where(g > 0, here, lower), np.where(g > 0, upper, here)
        new = here + np.clip(step, -2.0, 2.0)
        done = np.abs(step) <= _TOLERANCE
        outside = ~done & ((new < lower) | (new > upper))
        new[outside] = (lower[outside] + upper[outside]) / 2
        s[todo], low[todo], high[todo] = new, lower, upper
        todo[todo] = ~done
    rates[solvable(totals)] = np.exp(s[solvable(totals)])
    return rates


def _root(function: Callable[[Floats], Floats], start: Floats, *, downhill: bool) -> Floats:
    """Bracket outwards from the start, then the Illinois form of false position, in log λ."""
    sign = 1.0 if downhill else -1.0
    a, b = start - 0.5, start + 0.5
    fa, fb = sign * function(a), sign * function(b)
    for reach in (1, 2, 4, 8, 16, 32):
        if not ((fa < 0) | (fb > 0)).any():
            break
        a = np.where(fa < 0, a - reach, a)
        b = np.where(fb > 0, b + reach, b)
        fa, fb = sign * function(a), sign * function(b)
    root, error = start, np.full(len(start), np.inf)
    for _ in range(200):
        with np.errstate(divide="ignore", invalid="ignore"):
            c = b - fb * (b - a) / (fb - fa)
        c = np.where((c >= a) & (c <= b), c, (a + b) / 2)
        fc = sign * function(c)
        right = fc < 0
        # An end that stays put gets half its weight, or the other end would creep.
        fa, fb = np.where(right, fa / 2, fc), np.where(right, fc, fb / 2)
        a, b = np.where(right, a, c), np.where(right, c, b)
        better = np.abs(fc) < error
        root, error = np.where(better, c, root), np.where(better, np.abs(fc), error)
        if ((error < _TOLERANCE) | (b - a < _TOLERANCE)).all():
            break
    return np.exp(root)


def _first_guess(totals: Totals) -> Floats:
    """Changes over quiet time, with half a gap for each change whose date is unknown."""
    undated = totals.changes - totals.dated_changes
    with np.errstate(divide="ignore", invalid="ignore"):
        guess = totals.changes / (totals.quiet + 0.5 * undated * totals.time / totals.comparisons)
    return np.where(np.isfinite(guess) & (guess > 0), guess, 1.0)


def _terms(evidence: Evidence, s: Floats) -> tuple[Floats, Floats, Flags, Flags]:
    """Terms of every comparison: x, B(x), changed, dated."""
    x = _rows(evidence, np.exp(s)) * evidence.gaps
    return (
        x,
        bernoulli(x),
        evidence.kind & CHANGED == CHANGED,
        evidence.kind & DATED == DATED,
    )


def bernoulli(x: Floats) -> Floats:
    """B(x) = x/(eˣ − 1), stable from 0 to infinity.

    >>> bernoulli(np.array([1e-9, 1.0, 800.0])).round(6)
    array([1.      , 0.581977, 0.      ])
    """
    capped = np.clip(x, 1e-300, 700.0)
    return capped / np.expm1(capped)


def _rows(evidence: Evidence, values: Floats) -> Floats:
    return np.repeat(values, evidence.counts)


def _times(x: Floats, vanishing: Floats) -> Floats:
    """X · e⁻ˣ and its like, which are 0 at infinity."""
    return np.where(vanishing > 0, np.minimum(x, 1e300) * vanishing, 0.0)
