"""When does a source reach the price? Compiled, one source at a time.

The index of a source is W(s) = s·c(s) − ∫₀ˢ c. `crossing` finds the time s since the last visit at
which W(s) reaches a price: the same numbers as `observant.planning.objectives`, for a loop that
takes one decision at a time. Import it only where it is used, since numba takes a second to load.

With signals (`signalled`), time runs as seff = s + b·n, n the number of signals since the visit:
a signal is worth b days (Busa-Fekete et al. 2025). Changes come silently at rate a, signals at rate
g, of which ν are false.
"""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201

import math

from observant.compiled import borrowing

# Codes of the objectives; freshness is currency without grace.
CODES = {"freshness": 0, "currency": 0, "harmonic": 1, "age": 2, "delay": 3, "detected": 4}
EXACT = 1e-11
"""Relative error of a crossing where the rate is known."""
_FRESHNESS, _HARMONIC, _AGE, _DELAY = 0, 1, 2, 3
_MOST_SIGNALS = 400  # terms of the sums over the number of signals; more than ever matter


@borrowing
def value(code, rate, grace, s):
    """W(s) and its logarithmic slope s·W'(s) = s²·c'(s) of a Poisson source."""
    y = s - grace if code == _FRESHNESS else s
    x = rate * y
    if x <= 0:
        return 0.0, 0.0
    left = math.exp(-x)
    gone = -math.expm1(-x)
    if code == _FRESHNESS:
        w = x * x * (0.5 - x * (1 / 3 - x / 8)) if x < 1e-3 else gone - x * left
        return grace * gone + w / rate, s * s * rate * left
    if code == _HARMONIC:
        w = x * x * (0.5 - x * (1 / 6 - x / 24)) if x < 1e-3 else x - gone
        return w / rate, s * gone
    if code == _AGE:
        w = x**3 * (1 / 3 - x * (1 / 8 - x / 30)) if x < 1e-2 else x * x / 2 + x * left - gone
        return w / rate**2, s * s * gone
    if code == _DELAY:
        return rate * s * s / 2, rate * s * s
    w = x * x * (0.5 - x * (1 / 3 - x / 8)) if x < 1e-3 else gone - x * left
    return w, x * x * left


@borrowing
def limit(code, rate, grace):
    """W(∞): a dearer visit is never worth its price."""
    if rate <= 0:
        return 0.0
    if code == _FRESHNESS:
        return grace + 1 / rate
    return math.inf if code <= _DELAY else 1.0


@borrowing
def average(code, rates, weights, grace, s):
    """`value` averaged over a posterior on a grid of rates."""
    w, slope = 0.0, 0.0
    for k in range(len(rates)):
        if weights[k] > 0:
            one, its = value(code, rates[k], grace, s)
            w += weights[k] * one
            slope += weights[k] * its
    return w, slope


@borrowing
def crossing(code, rates, weights, grace, price, guess, tolerance=EXACT):
    """Smallest s with W(s) >= price, infinite where there is none.

    Newton in log s on log W, kept inside a bracket. `guess` saves steps, nothing else.
    """
    most = 0.0
    for k in range(len(rates)):
        if weights[k] > 0:
            most += weights[k] * limit(code, rates[k], grace)
    if price >= most * (1 - 1e-12):
        return math.inf
    start = grace if code == _FRESHNESS else 0.0
    if price <= 0:
        return start
    low, high = start, math.inf
    s = guess if start < guess < math.inf else start + math.sqrt(price)
    for _ in range(200):
        w, slope = average(code, rates, weights, grace, s)
        if w < price:
            low = s
        else:
            high = s
        step = math.log(price / w) * w / slope if w > 0 and slope > 0 else math.inf
        ahead = s * math.exp(min(max(step, -3.0), 3.0))
        if abs(step) < tolerance:
            return ahead
        if not low < ahead < high:
            if high == math.inf:
                ahead = max(2 * low, 1e-12)
            elif low == 0:
                ahead = high / 8
            else:
                ahead = math.sqrt(low * high)
        if high - low < tolerance * low:
            return high
        s = ahead
    return s


@borrowing
def tail(k, x):
    """Regularised lower incomplete gamma P(k + 1, x): more than k arrivals where x are expected."""
    if x <= 0:
        return 0.0
    if x > k + 1:  # 1 minus the sum up to k, no digits lost
        term = math.exp(-x)
        total = term
        for j in range(1, k + 1):
            term *= x / j
            total += term
        return max(1.0 - total, 0.0)
    term = math.exp((k + 1) * math.log(x) - x - math.lgamma(k + 2.0))
    total, j = term, k + 1
    while term > 1e-17 * total:
        j += 1
        term *= x / j
        total += term
    return total


@borrowing
def cycle(silent, signal, false, iota):
    """ψ(ι) and w(ι): expected length and fresh time of a cycle that ends at seff = ι."""
    if signal <= 0:
        return iota, -math.expm1(-silent * iota) / silent if silent > 0 else iota
    both = silent + signal
    if false <= 0:  # no false signals: the first one ends the cycle
        return -math.expm1(-signal * iota) / signal, -math.expm1(-both * iota) / both
    worth = worth_of_signal(silent, signal, false)
    if worth * _MOST_SIGNALS < iota:  # too many to be counted one by one
        length = iota / (1 + worth * signal)
        return length, length * (-math.expm1(-silent * iota) / (silent * iota))
    length, fresh = 0.0, 0.0
    share = 1.0 / both
    for k in range(_MOST_SIGNALS):
        rest = iota - k * worth
        if rest <= 0:
            break
        more = tail(k, signal * rest) / signal
        length += more
        fresh += share * tail(k, both * rest)
        share *= false / both
        if more < 1e-14 * length:
            break
    return length, fresh


@borrowing
def worth_of_signal(silent, signal, false):
    """Days of waiting that one signal counts for, b = −ln(ν/g)/a."""
    if false <= 0 or silent <= 0:
        return math.inf if signal > false else 0.0
    return math.log(signal / false) / silent


@borrowing
def signalled(silent, signal, false, iota):
    """V(ι) = w(ι) − e^(−aι)·ψ(ι): the index of freshness with signals."""
    length, fresh = cycle(silent, signal, false, iota)
    return fresh - math.exp(-silent * iota) * length


@borrowing
def signalled_crossing(silent, signal, false, price):
    """Smallest effective time ι with V(ι) >= price, infinite where there is none."""
    rate = silent + signal - false
    if rate <= 0 or price >= (1 - 1e-9) / rate:
        return math.inf
    low, high = 0.0, math.sqrt(price / rate) + price
    while signalled(silent, signal, false, high) < price:
        low, high = high, 2 * high
        if high > 1e12:
            return math.inf
    # The false-position rule with Illinois' halving: V is smooth but for corners at multiples of b.
    at_low, at_high = signalled(silent, signal, false, low) - price, 0.0
    at_high = signalled(silent, signal, false, high) - price
    side = 0
    for _ in range(100):
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        at = signalled(silent, signal, false, middle) - price
        if abs(at) < 1e-11 * price or high - low < 1e-11 * high:
            return middle
        if at < 0:
            low, at_low = middle, at
            if side == -1:
                at_high /= 2
            side = -1
        else:
            high, at_high = middle, at
            if side == 1:
                at_low /= 2
            side = 1
    return high


@borrowing
def cycles_of(silent, signal, false, lengths, waits, fresh):
    """Of cycles of these mean lengths: the effective time at which they end, and fresh time."""
    for i in range(len(lengths)):
        low = high = lengths[i]
        if not 0 < high < math.inf:
            waits[i] = fresh[i] = high
            continue
        while cycle(silent[i], signal[i], false[i], high)[0] < lengths[i] and high < 1e15:
            low, high = high, 2 * high
        for _ in range(60):
            middle = 0.5 * (low + high)
            if cycle(silent[i], signal[i], false[i], middle)[0] < lengths[i]:
                low = middle
            else:
                high = middle
            if high - low < 1e-12 * high:
                break
        waits[i], fresh[i] = high, cycle(silent[i], signal[i], false[i], high)[1]


@borrowing
def cycles_at(silent, signal, false, prices, lengths):
    """Mean lengths of the cycles that end where the index reaches these prices."""
    for i in range(len(lengths)):
        iota = (
            signalled_crossing(silent[i], signal[i], false[i], prices[i]) if prices[i] > 0 else 0.0
        )
        lengths[i] = cycle(silent[i], signal[i], false[i], iota)[0] if iota < math.inf else math.inf
