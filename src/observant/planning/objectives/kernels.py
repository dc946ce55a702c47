"""Compiled loops over sources. Each does what its namesake in `numerics` says, one by one."""

import math

import numpy as np

from observant.compiled import jit

_SERIES = np.array([(n - 1) / math.factorial(n) for n in range(19, 1, -1)])
"""1 − (1 + x)e⁻ˣ = Σ (n − 1)(−x)ⁿ/n!, the last first: for small x, where the left side is lost."""


@jit
def currency_crossing(price, rates, grace, start, answer):
    """Days past the grace at which the currency index reaches the price; see `numerics`."""
    # A single price, grace or start stands for all.
    to_price, to_grace = min(price.size - 1, 1), min(grace.size - 1, 1)
    to_start = min(start.size - 1, 1)
    for i in range(rates.size):
        rate = rates[i]
        B = rate * grace[i * to_grace]
        share = price[i * to_price] * rate / (1.0 + B)
        if not (rate > 0.0 and share < 1.0):
            answer[i] = np.inf
            continue
        if share <= 0.0:
            answer[i] = 0.0
            continue
        R = -math.log1p(-share)
        u = start[i * to_start] * rate / (1.0 + B)
        if not (u > 0.0 and u < np.inf):
            low = 2.0 * R / (B + math.sqrt(B * B + 2.0 * R))
            u = max(low, (R + math.log1p(R / (1.0 + B))) / (1.0 + B))
        for _ in range(60):
            slope = B + u / (1.0 + u)
            step = (B * u + _less_log(u) - R) / slope
            bend = 1.0 - step / (2.0 * slope * (1.0 + u) * (1.0 + u))
            step /= max(bend, 0.5)
            step = min(step, 0.9 * u)
            u -= step
            if abs(step) <= 1e-5 * u:
                break
        answer[i] = u * (1.0 + B) / rate


@jit
def _less_log(u):
    """Return u − log(1 + u) with all its digits."""
    if u >= 0.3:
        return u - math.log1p(u)
    z = u / (2.0 + u)
    zz = z * z
    tail = 1.0 / 17.0
    for n in (15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0):
        tail = zz * tail + 1.0 / n
    return u * z - 2.0 * z * zz * tail


@jit
def mean_currency_index(s, rates, weights, grace, answer):
    """The currency index of each source, averaged over its rates; see `averaged`."""
    to_rates, to_grace = min(len(rates) - 1, 1), min(grace.size - 1, 1)  # one stands for all
    for i in range(len(weights)):
        beta = grace[i * to_grace]
        late = max(s[i] - beta, 0.0)
        answer[i] = _mean_index(late, rates[i * to_rates], weights[i], beta)[0]


@jit
def _mean_index(late, rates, weights, beta):
    """W of one source so late after the grace, and its slope there."""
    total = slope = 0.0
    for j in range(weights.size):
        rate = rates[j]
        if weights[j] > 0.0 and rate > 0.0:
            x = min(rate * late, 800.0)
            stays = math.exp(-x)
            gone = -math.expm1(-x) if x < 1.0 else 1.0 - stays
            gain = gone - x * stays
            if x < 1.0:
                gain = 0.0
                for k in range(_SERIES.size):
                    gain = _SERIES[k] - x * gain
                gain *= x * x
            total += weights[j] * (gain / rate + beta * gone)
            slope += weights[j] * stays * (x + beta * rate)
    return total, slope


@jit
def mean_currency_crossing(price, limit, start, rates, weights, grace, answer):
    """When the mean index of each source reaches the price: Newton's method for log W of log s,
    which is nearly a line, within a bracket.
    """
    to_rates, to_grace = min(len(rates) - 1, 1), min(grace.size - 1, 1)
    for i in range(len(weights)):
        if not price[i] < limit[i]:
            answer[i] = np.inf
            continue
        if price[i] <= 0.0:
            answer[i] = 0.0
            continue
        beta, own = grace[i * to_grace], rates[i * to_rates]
        late = start[i] - beta
        if not (late > 0.0 and late < np.inf):
            rate = 0.0
            for j in range(own.size):
                rate += weights[i, j] * own[j]
            edge = beta * rate
            late = 2.0 * price[i] / (edge + math.sqrt(edge * edge + 2.0 * rate * price[i]))
        low, high, wanted, u = -700.0, 700.0, math.log(price[i]), math.log(late)
        for _ in range(200):
            value, slope = _mean_index(math.exp(u), own, weights[i], beta)
            above = math.log(value) - wanted if value > 0.0 else -np.inf
            if above < 0.0:
                low = u
            else:
                high = u
            step = above * value / (slope * math.exp(u))
            if not low <= u - step <= high:
                if low > -700.0 and high < 700.0:
                    step = u - 0.5 * (low + high)
                else:
                    step = -2.0 if above < 0.0 else 2.0
            u -= step
            if abs(step) <= 1e-9 * (1.0 + abs(u)) or above == 0.0 or not abs(u) < 700.0:
                break
        answer[i] = beta + math.exp(u)
