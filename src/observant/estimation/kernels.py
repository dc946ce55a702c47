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
    w = np.empty(longest)  # how much a change counts in the test behind a bound
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
        start = s
        s = root(t, hit, undated, n, start, quiet, dated_changes, 0.5)
        rate[i] = math.exp(s)
        if reduction == 0:
            likeliest = math.inf
            if not always:
                likeliest = math.exp(root(t, hit, undated, n, start, quiet, dated_changes, 0.0))
            rate[i] = likeliest
        if always:
            low[i] = math.exp(always_root(t, n, s, math.log(tail)))
        else:
            dated = (quiet_dated, dated_changes)
            low[i] = math.exp(bound_root(t, hit, w, undated, s, -1.0, z, delta, dated))
            high[i] = math.exp(bound_root(t, hit, w, undated, s, 1.0, z, delta, dated))


@inlined
def decay(x):
    """Return 1 − e⁻ˣ and e⁻ˣ, by plain arithmetic that the compiler can vectorise.

    A series at x/1024, then ten doublings, 1 − e⁻²ʸ = (1 − e⁻ʸ)(1 + e⁻ʸ). The relative error of
    1 − e⁻ˣ is under 1e-14, that of e⁻ˣ under 1e-12; beyond x = 64, e⁻ˣ is taken as 0.
    """
    y = min(x, 64.0) * (1 / 1024)
    m = y * (
        1 - y * (1 / 2 - y * (1 / 6 - y * (1 / 24 - y * (1 / 120 - y * (1 / 720 - y / 5040)))))
    )
    e = 1 - m
    for _ in range(10):
        m *= 1 + e
        e *= e
    return m, (e if x < 64.0 else 0.0)


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
    """Newton on log P − log M in s = log λ, kept inside a shrinking bracket."""
    low, high = -math.inf, math.inf
    for _ in range(200):
        rate = math.exp(s)
        p, dp, n1, n2, dn1, dn2 = firth_sums(t, hit, undated, n, rate)
        p += dated_changes
        if p <= 0 or n1 <= 0:  # so fast that not even the shortest gap could have been quiet
            high = s
            s = (low + high) / 2 if low > -math.inf else s - 2
            continue
        m = rate * quiet + reduction * n2 / n1
        dm = rate * quiet + reduction * (dn2 * n1 - n2 * dn1) / (n1 * n1)
        g = math.log(p / m)
        if g > 0:
            low = s
        else:
            high = s
        # With gaps of very different length log P − log M can level out: walk on from there.
        slope = dp / p - dm / m
        step = -g / slope if slope < -0.1 else math.copysign(1.0, g)
        if abs(step) <= TOLERANCE:
            return s + step
        s += min(max(step, -2.0), 2.0)
        if not low <= s <= high:
            s = (low + high) / 2
    return s


@vector
def weigh(t, hit, w, undated, rate):
    """Set the weights x/(1 − e⁻ˣ) at a rate; return the weighted count of changes."""
    count = 0.0
    for k in range(undated):
        x = rate * t[k]
        m, _ = decay(x)
        w[k] = x / m
        count += hit[k] * w[k]
    return count


@vector
def information(t, undated, rate):
    """λ² times the information of the undated comparisons: Σ xB."""
    v = 0.0
    for k in range(undated):
        x = rate * t[k]
        m, e = decay(x)
        v += x * x * e / m
    return v


@vector
def tail_sums(t, w, undated, rate):
    """Mean of the weighted count, and Σ w²pq, Σ w³pq, Σ w³pq(q − p) at a rate."""
    mean = v = vw = third = 0.0
    for k in range(undated):
        p, q = decay(rate * t[k])
        a = w[k] * w[k] * p * q
        mean += w[k] * p
        v += a
        vw += a * w[k]
        third += a * w[k] * (q - p)
    return mean, v, vw, third


@jit
def tail_score(t, w, undated, s, observed, up, quiet_dated):
    """Normal score of the observed weighted count at exp(s); decreasing in s."""
    rate = math.exp(s)
    mean, v, vw, third = tail_sums(t, w, undated, rate)
    known = rate * quiet_dated
    v = max(v + known, 1e-290)
    j = max(vw + known, 1e-290) / v
    lean = min(max((third + known) / (v * j), -1 + 1e-9), 1 - 1e-9)
    p, q = (1 - lean) / 2, (1 + lean) / 2
    n = v / (p * q * j * j)
    count = (observed - mean - known) / j + n * p
    a, b = count + up, n - count + (1 - up)
    # A count outside its range is further out than any tail: go on falling (or rising) there.
    beyond = 10 * (max(0.55 - b, 0.0) - max(0.55 - a, 0.0))
    a, b = max(a, 0.55), max(b, 0.55)

    m = a + b - 1
    off = a - 0.5 - m * p
    d = a - 1 / 3 - (m + 1 / 3) * p + 0.02 * (q / a - p / b + (q - 0.5) / (a + b))
    if abs(off) < 1e-4 * math.sqrt(m * p * q):
        slope = 1 / math.sqrt(m * p * q)
    else:
        deviance = (a - 0.5) * math.log1p(off / (m * p)) + (b - 0.5) * math.log1p(-off / (m * q))
        slope = math.sqrt(2 * max(deviance, 0.0)) / abs(off)
    return beyond + d * slope / math.sqrt(1 + 1 / (6 * m))


@jit
def bound_root(t, hit, w, undated, s, side, z, delta, dated):
    """Solve tail_score(s) = −side · z with weights near the bound, then at the bound so found."""
    quiet_dated, dated_changes = dated
    rate = math.exp(s)
    spread = 1 / math.sqrt(information(t, undated, rate) + rate * quiet_dated)
    up = delta if side < 0 else 1 - delta
    s += side * min(z * spread, 3.0)
    if undated > 0:  # dates carry no weights
        observed = dated_changes + weigh(t, hit, w, undated, math.exp(s))
        s = secant_root(t, w, undated, s, observed, up, quiet_dated, side * z, -1 / spread, 1e-5)
    observed = dated_changes + weigh(t, hit, w, undated, math.exp(s))
    return secant_root(
        t, w, undated, s, observed, up, quiet_dated, side * z, -1 / spread, BOUND_TOLERANCE
    )


@jit
def secant_root(t, w, undated, s, observed, up, quiet_dated, target, rough, tolerance):
    """Secant steps on tail_score(s) + target = 0, kept inside a shrinking bracket."""
    low, high = -math.inf, math.inf
    f = tail_score(t, w, undated, s, observed, up, quiet_dated) + target
    slope = rough
    for _ in range(100):
        if f > 0:
            low = s
        else:
            high = s
        step = min(max(-f / slope, -3.0), 3.0)
        if abs(step) <= tolerance:
            return s + step
        new = s + step
        if not low < new < high:
            new = (low + high) / 2
        f_new = tail_score(t, w, undated, new, observed, up, quiet_dated) + target
        change = (f_new - f) / (new - s)
        # Far from the root the secant may mislead; the rough slope never points the wrong way.
        slope = change if change < 0.1 * rough else rough
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
