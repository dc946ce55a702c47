"""Compiled loops of `firth`: the same arithmetic, one source at a time, no temporaries.

Import this only where it is used: numba takes a second to load. The first call on a machine
compiles for some seconds; the machine code is then kept on disk.

One call solves a block of sources. Calls run side by side in threads (the interpreter's lock is
released), and since sources do not depend on each other the answer is the same on any number of
cores.
"""

import math

import numpy as np

from observant.compiled import inlined, jit, vector

CHANGED, DATED = 1, 2
WEIGHT_OF_TIES = 0.73  # see `firth`
MEDIAN = math.sqrt(-2 * math.log(0.5))  # √(−2 log P) at the likeliest rate, about
TOLERANCE = 1e-12
BOUND_TOLERANCE = 1e-6  # of the last step; the bound is closer to the root than that, 1e-9


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
    odds = np.empty(longest)  # log odds of a change in each gap, at the likeliest rate
    spread = np.empty(longest)  # and the variance of seeing one
    m = np.empty(longest)  # and the chance, at another rate
    for i in range(len(offsets) - 1):
        begin, end = offsets[i], offsets[i + 1]
        rate[i], low[i], high[i] = math.nan, 0.0, math.inf
        if begin == end:
            continue
        # Not a plain zero: numba would compile what it is given to once more, for that alone.
        undated, back = np.int64(0), end - begin
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
        s = root(t, hit, undated, n, s, quiet, dated_changes, 0.5)
        rate[i] = math.exp(s)
        if always:
            low[i] = math.exp(always_root(t, n, s, math.log(tail)))
            if reduction == 0:
                rate[i] = math.inf
            continue
        best = s
        if quiet > 0:
            best = root(t, hit, undated, n, s, quiet, dated_changes, 0.0)
        if reduction == 0:
            rate[i] = math.exp(best)
        told = math.exp(best) * quiet_dated
        top, observed, expected = weigh(t, hit, undated, math.exp(best), odds, spread)
        top += dated_changes * best - math.exp(best) * quiet
        observed, expected = observed + dated_changes, expected + told
        scale = observed / expected if observed > 0 and expected > 0 else 1.0
        far = 1 / math.sqrt(max(observed, 1e-6))
        known = (
            t,
            hit,
            undated,
            quiet,
            dated_changes,
            best,
            top,
            odds,
            spread,
            told,
            scale,
            far,
            m,
        )
        low[i] = math.exp(bound_root(known, -1.0, tail))
        high[i] = math.exp(bound_root(known, 1.0, tail))


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


@jit
def weigh(t, hit, undated, rate, odds, spread):
    """What the undated comparisons say at a rate.

    Writes down the log odds of a change in each gap and the variance of seeing one; returns
    Σ log(1 − e⁻ˣ) over those that saw a change, and λ² times their information, as observed and as
    expected.
    """
    value = observed = expected = 0.0
    for k in range(undated):
        x = max(rate * t[k], 1e-300)
        m, e = decay(x)
        gone = math.log(m)
        odds[k] = x + gone
        spread[k] = m * e
        value += hit[k] * gone
        each = x * x * e / m
        expected += each
        observed += hit[k] * each / m
    return value, observed, expected


@vector
def chances(t, undated, rate, m):
    """1 − e⁻ˣ of each gap: apart from the logarithms, so that they are made four at a time."""
    for k in range(undated):
        m[k] = decay(max(rate * t[k], 1e-300))[0]


@jit
def bound_root(known, side, tail):
    """Find how far from the likeliest rate, in log λ, the evidence has the probability `tail`.

    Secant steps on √(−2 log P), which is nearly straight, kept inside a shrinking bracket.
    """
    best, far = known[5], min(2.2 * known[11], 3.0)
    goal = math.sqrt(-2 * math.log(tail))
    near, beyond = 0.0, math.inf
    f = surprise(known, best + side * far) - goal
    slope = max(f + goal - MEDIAN, 0.1 * goal) / far
    for _ in range(100):
        if f < 0:
            near = far
        else:
            beyond = far
        step = min(max(-f / slope, -3.0), 3.0)
        if abs(step) <= BOUND_TOLERANCE:
            return best + side * (far + step)
        new = far + step
        if not near < new < beyond:
            new = (near + beyond) / 2 if beyond < math.inf else 2 * far + 0.1
        if abs(new - far) <= BOUND_TOLERANCE:
            return best + side * new
        f_new = surprise(known, best + side * new) - goal
        change = (f_new - f) / (new - far)
        slope = change if change > 1e-3 else goal / new
        far, f = new, f_new
    return best + side * far


@jit
def surprise(known, s):
    """√(−2 log P) at the rate exp(s), with P as `firth` describes it."""
    t, hit, undated, quiet, dated_changes, best, top, odds, spread, told, scale, _, m = known
    rate, apart = math.exp(s), abs(best - s)
    value = dated_changes * s - rate * quiet
    u2, cubes = apart * apart * told, apart**3 * told
    chances(t, undated, rate, m)
    for k in range(undated):
        gone = math.log(m[k])
        value += hit[k] * gone
        tilt = abs(odds[k] - rate * t[k] - gone)
        u2 += tilt * tilt * spread[k]
        cubes += tilt**3 * spread[k]
    w = math.sqrt(max(2 * (top - value), 0.0))
    if w < 1e-4:
        return 0.0
    once = math.exp(-w * w / 2)
    p = WEIGHT_OF_TIES * once
    if u2 > 0:
        u, step = math.sqrt(u2 * scale), cubes / u2
        whole = (step / -math.expm1(-step) if step > 0 else 1.0) / u - 1 / w
        half = 1 / u - 1 / w
        share = half + (2 * WEIGHT_OF_TIES - 1) * (whole - half)
        far = 0.5 * math.erfc(w / math.sqrt(2))
        p = min(far + once / math.sqrt(2 * math.pi) * share, p)
    return math.sqrt(-2 * math.log(min(max(p, 1e-290), 1.0)))


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
