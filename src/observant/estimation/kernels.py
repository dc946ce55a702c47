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
EXACT_UP_TO, WEIGHT_OF_TIES, DELTA = 60, 0.7, 0.175  # see `score`
TOLERANCE = 1e-12
BOUND_TOLERANCE = 1e-9


@jit
def solve(offsets, gaps, kind, ages, reduction, tail, rate, low, high):
    """Rate and bounds of every source in the block.

    `reduction` is ½ for the bias-reduced rate, 0 for maximum likelihood.
    """
    longest = 0
    for i in range(len(offsets) - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    t = np.empty(longest)  # gaps of one source: without dates first, dated ones after
    hit = np.empty(longest)  # 1 where such a comparison saw a change, else 0
    chance = np.empty(EXACT_UP_TO + 1)  # of each number of changes
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
            low[i] = math.exp(bound_root(t, undated, s, changes, quiet_dated, -1.0, tail, chance))
            high[i] = math.exp(bound_root(t, undated, s, changes, quiet_dated, 1.0, tail, chance))


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
def information(t, undated, rate):
    """λ² times the information of the undated comparisons: Σ xB."""
    v = 0.0
    for k in range(undated):
        x = rate * t[k]
        m, e = decay(x)
        v += x * x * e / m
    return v


@jit
def bound_root(t, undated, s, changes, quiet_dated, side, tail, chance):
    """Find the rate at which so few (side 1) or so many changes have the probability `tail`.

    Secant steps in s = log λ, on log P for the lower bound and log(−log P) for the upper, which
    are both nearly straight, kept inside a shrinking bracket.
    """
    rate = math.exp(s)
    spread = 1 / math.sqrt(information(t, undated, rate) + rate * quiet_dated)
    s += side * min(2 * spread, 3.0)
    low, high = -math.inf, math.inf
    target = math.log(tail) if side < 0 else math.log(-math.log(tail))
    f = straightened(t, undated, s, changes, quiet_dated, side, chance) - target
    slope = changes if side < 0 else 1.0
    for _ in range(100):
        if f < 0:
            low = s
        else:
            high = s
        step = min(max(-f / slope, -2.0), 2.0)
        if abs(step) <= BOUND_TOLERANCE:
            return s + step
        new = s + step
        if not low < new < high:
            new = (low + high) / 2
        f_new = straightened(t, undated, new, changes, quiet_dated, side, chance) - target
        change = (f_new - f) / (new - s)
        slope = change if change > 0.05 else 1.0
        s, f = new, f_new
    return s


@jit
def straightened(t, undated, s, changes, quiet_dated, side, chance):
    """Return log P(so many or more), or log(−log P(so few or fewer)), at the rate exp(s)."""
    rate = math.exp(s)
    if undated <= EXACT_UP_TO and changes <= EXACT_UP_TO:
        fewer, same = exact_tail(t, undated, rate, changes, quiet_dated, chance)
        p = (1 - fewer - same if side < 0 else fewer) + WEIGHT_OF_TIES * same
    else:
        p = large_tail(t, undated, rate, changes, quiet_dated, side)
    p = min(max(p, 1e-290), 1 - 1e-15)
    return math.log(p) if side < 0 else math.log(-math.log(p))


@jit
def exact_tail(t, undated, rate, changes, quiet_dated, chance):
    """P(fewer changes than observed) and P(as many): Poisson-binomial, plus Poisson when dated.

    Where most visits saw a change it is quicker to count those that did not.
    """
    most = int(changes)
    quiet_ones = quiet_dated == 0 and 2 * most > undated
    if quiet_ones:
        most = undated - most
    chance[0] = math.exp(-rate * quiet_dated)
    for k in range(1, most + 1):
        chance[k] = chance[k - 1] * rate * quiet_dated / k
    for i in range(undated):
        p, q = decay(rate * t[i])
        if quiet_ones:
            p, q = q, p
        for k in range(most, 0, -1):
            chance[k] = chance[k] * q + chance[k - 1] * p
        chance[0] *= q
    below = 0.0
    for k in range(most):
        below += chance[k]
    return (1 - below - chance[most] if quiet_ones else below), chance[most]


@vector
def moments(t, undated, rate):
    """Mean, variance and third central moment of the number of undated changes."""
    mean = v = third = 0.0
    for k in range(undated):
        p, q = decay(rate * t[k])
        mean += p
        v += p * q
        third += p * q * (q - p)
    return mean, v, third


@jit
def large_tail(t, undated, rate, changes, quiet_dated, side):
    """Tail of the binomial with the same three moments, by Peizer and Pratt."""
    known = rate * quiet_dated
    mean, v, third = moments(t, undated, rate)
    v = max(v + known, 1e-290)
    lean = min(max((third + known) / v, -1 + 1e-9), 1 - 1e-9)
    p, q = (1 - lean) / 2, (1 + lean) / 2
    n = v / (p * q)
    count = changes - mean - known + n * p
    up = DELTA if side < 0 else 1 - DELTA
    a, b = max(count + up, 0.55), max(n - count + (1 - up), 0.55)
    m = a + b - 1
    off = a - 0.5 - m * p
    d = a - 1 / 3 - (m + 1 / 3) * p + 0.02 * (q / a - p / b + (q - 0.5) / (a + b))
    if abs(off) < 1e-4 * math.sqrt(m * p * q):
        slope = 1 / math.sqrt(m * p * q)
    else:
        deviance = (a - 0.5) * math.log1p(off / (m * p)) + (b - 0.5) * math.log1p(-off / (m * q))
        slope = math.sqrt(2 * max(deviance, 0.0)) / abs(off)
    z = d * slope / math.sqrt(1 + 1 / (6 * m))
    return 0.5 * math.erfc((z if side < 0 else -z) / math.sqrt(2))


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
