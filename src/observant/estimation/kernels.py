"""Compiled loops of `score`: the same arithmetic, one source at a time, no temporaries.

Import this only where it is used: numba takes a second to load. The first call on a machine
compiles for some seconds; the machine code is then kept on disk.

One call solves a block of sources. Calls run side by side in threads (the interpreter's lock is
released), and since sources do not depend on each other the answer is the same on any number of
cores.
"""

import math

import numba
import numpy as np

__all__ = ["solve"]

jit = numba.njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")
# Sums may be taken in any order here, so that the compiler can use vector instructions.
vector = numba.njit(
    cache=True,
    nogil=True,
    boundscheck=False,
    error_model="numpy",
    fastmath={"reassoc", "contract", "nsz"},
)
inlined = numba.njit(inline="always")

CHANGED, DATED = 1, 2
TOLERANCE = 1e-12
BOUND_TOLERANCE = 1e-9


@jit
def solve(offsets, gaps, kind, ages, reduction, z, tail, delta, rate, low, high):
    """Rate and bounds of every source in the block.

    `reduction` is ½ for the bias-reduced rate, 0 for maximum likelihood.
    """
    longest = 0
    for i in range(len(offsets) - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    t = np.empty(longest)  # gaps of one source: without dates first, dated ones after
    hit = np.empty(longest)  # 1 where such a comparison saw a change, else 0
    for i in range(len(offsets) - 1):
        begin, end = offsets[i], offsets[i + 1]
        rate[i], low[i], high[i] = math.nan, 0.0, math.inf
        if begin == end:
            continue
        undated, back = 0, end - begin
        time, changes = 0.0, 0.0
        quiet = 0.0  # known to hold no update
        quiet_dated, dated_changes = 0.0, 0.0
        for k in range(begin, end):
            changed = 1.0 if kind[k] & CHANGED else 0.0
            changes += changed
            if kind[k] & DATED:
                back -= 1
                t[back] = gaps[k]
                known = ages[k] if kind[k] & CHANGED else gaps[k]
                quiet_dated += known
                dated_changes += changed
                time += gaps[k] if gaps[k] < math.inf else ages[k]
            else:
                t[undated] = gaps[k]
                hit[undated] = changed
                undated += 1
                quiet += gaps[k] * (1 - changed)
                time += gaps[k]
        if changes == 0:
            rate[i] = 0.0
            high[i] = -math.log(tail) / time
            continue
        quiet += quiet_dated
        n = end - begin
        guess = changes / (quiet + 0.5 * (changes - dated_changes) * time / n)
        s = math.log(guess) if 0 < guess < math.inf else 0.0
        always = changes == n and dated_changes == 0
        if always and reduction == 0:
            rate[i] = math.inf
            s = root(t, hit, undated, n, s, quiet, dated_changes, 0.5)
        else:
            s = root(t, hit, undated, n, s, quiet, dated_changes, reduction)
            rate[i] = math.exp(s)
        if always:
            low[i] = math.exp(always_root(t, n, s, math.log(tail)))
        else:
            args = (quiet - quiet_dated, quiet_dated, dated_changes, delta)
            low[i] = math.exp(bound_root(t, hit, undated, s, -1.0, z, args))
            high[i] = math.exp(bound_root(t, hit, undated, s, 1.0, z, args))


@inlined
def decay(x):
    """Return 1 − e⁻ˣ and e⁻ˣ, by plain arithmetic that the compiler can vectorise.

    A series at x/1024, then ten doublings, 1 − e⁻²ʸ = (1 − e⁻ʸ)(1 + e⁻ʸ). The relative error of
    1 − e⁻ˣ is under 1e-14, that of e⁻ˣ under 1e-12; beyond x = 64, e⁻ˣ stays at e⁻⁶⁴.
    """
    y = min(x, 64.0) * (1 / 1024)
    m = y * (
        1 - y * (1 / 2 - y * (1 / 6 - y * (1 / 24 - y * (1 / 120 - y * (1 / 720 - y / 5040)))))
    )
    e = 1 - m
    for _ in range(10):
        m *= 1 + e
        e *= e
    return m, e


@vector
def firth_sums(t, hit, undated, n, rate):
    """P without dated changes, N₁, N₂, and the derivatives of all three in log λ."""
    p = dp = n1 = n2 = dn1 = dn2 = 0.0
    for k in range(undated):
        x = rate * t[k]
        m, e = decay(x)
        b = x * e / m
        j = b + x
        w = x * b
        p += hit[k] * b
        dp += hit[k] * b * (1 - j)
        n1 += w
        n2 += w * x
        dn1 += w * (2 - j)
        dn2 += w * x * (3 - j)
    for k in range(undated, n):
        x = min(rate * t[k], 800.0)
        m, e = decay(x)
        n1 += m
        n2 += 2 * (m - x * e)
        dn1 += x * e
        dn2 += 2 * x * x * e
    return p, dp, n1, n2, dn1, dn2


@jit
def root(t, hit, undated, n, s, quiet, dated_changes, reduction):
    """Newton on log P − log M, which is decreasing and concave in s = log λ."""
    low, high = s - 60.0, s + 60.0
    for _ in range(100):
        rate = math.exp(s)
        p, dp, n1, n2, dn1, dn2 = firth_sums(t, hit, undated, n, rate)
        p += dated_changes
        m = rate * quiet + reduction * n2 / n1
        dm = rate * quiet + reduction * (dn2 * n1 - n2 * dn1) / (n1 * n1)
        g = math.log(p / m)
        if g > 0:
            low = s
        else:
            high = s
        new = s - g / (dp / p - dm / m)
        if not low <= new <= high:
            new = (low + high) / 2
        done = abs(new - s) <= TOLERANCE
        s = new
        if done:
            break
    return s


@vector
def tail_sums(t, hit, undated, rate):
    """Sums of xB, xB², x²B over undated comparisons, and of B over their changes."""
    v = vb = vx = p = 0.0
    for k in range(undated):
        x = rate * t[k]
        m, e = decay(x)
        b = x * e / m
        w = x * b
        v += w
        vb += w * b
        vx += w * x
        p += hit[k] * b
    return v, vb, vx, p


@jit
def tail_score(t, hit, undated, s, side, args):
    """Normal score of the observed weighted count at exp(s), and its slope in s, roughly."""
    quiet, quiet_dated, dated_changes, delta = args
    rate = math.exp(s)
    v, vb, vx, p_sum = tail_sums(t, hit, undated, rate)
    known = rate * quiet_dated
    score = p_sum - rate * quiet + dated_changes - known
    total = v + known
    j = (vb + vx + known) / total
    lean = (vb - vx + known) / (total * j)
    lean = min(max(lean, -1 + 1e-9), 1 - 1e-9)
    p, q = (1 - lean) / 2, (1 + lean) / 2
    n = total / (p * q * j * j)
    count = score / j + n * p
    up = delta if side < 0 else 1 - delta
    a, b = max(count + up, 0.55), max(n - count + (1 - up), 0.55)

    m = a + b - 1
    off = a - 0.5 - m * p
    d = a - 1 / 3 - (m + 1 / 3) * p + 0.02 * (q / a - p / b + (q - 0.5) / (a + b))
    if abs(off) < 1e-4 * math.sqrt(m * p * q):
        slope = 1 / math.sqrt(m * p * q)
    else:
        deviance = (a - 0.5) * math.log1p(off / (m * p)) + (b - 0.5) * math.log1p(-off / (m * q))
        slope = math.sqrt(2 * max(deviance, 0.0)) / abs(off)
    return d * slope / math.sqrt(1 + 1 / (6 * m)), -math.sqrt(total)


@jit
def bound_root(t, hit, undated, s, side, z, args):
    """Secant steps on tail_score(s) = −side · z, kept inside a shrinking bracket."""
    low, high = -math.inf, math.inf
    f, slope = tail_score(t, hit, undated, s, side, args)
    f += side * z
    for _ in range(100):
        if f > 0:
            low = s
        else:
            high = s
        step = min(max(-f / slope, -3.0), 3.0)
        if abs(step) <= BOUND_TOLERANCE:
            return s + step
        new = s + step
        if not low < new < high:
            new = (low + high) / 2
        f_new, rough = tail_score(t, hit, undated, new, side, args)
        f_new += side * z
        change = (f_new - f) / (new - s)
        # Far from the root the secant may mislead; the rough slope never points the wrong way.
        slope = change if change < 0.2 * rough else rough
        s, f = new, f_new
    return s


@jit
def always_root(t, n, s, log_tail):
    """Solve Σ log(1 − e⁻ˣ) = log tail; increasing and concave in s, so Newton from the left."""
    s = s + log_tail / n
    for _ in range(200):
        rate = math.exp(s)
        f, df = -log_tail, 0.0
        for k in range(n):
            x = rate * t[k]
            gone = -math.expm1(-x)
            f += math.log(gone)
            df += x * (1 - gone) / gone
        step = -f / df
        s += min(max(step, -3.0), 3.0)
        if abs(step) <= BOUND_TOLERANCE:
            break
    return s
