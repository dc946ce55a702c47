"""Currency of (rate, period) pairs, per second, on two threads; the rival integrates each pair.

    python -m benchmarks.currency

The rival is `scipy.integrate.quad` on the integral (2.39), one call a pair: what a person would
write who does not know the closed form, and the only way when G is a plain function.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from observant.currency import (
    GammaRates,
    WeibullPopulation,
    currency,
    required_period,
    stale_probability,
)

__all__ = ["main", "run"]

CHUNK = 1 << 15  # three arrays of this length and their temporaries stay in the cache


def run(pairs=20_000_000, sample=2_000, threads=2, seed=0):
    """Measure and return numbers by name; rates are in pairs per second."""
    rng = np.random.default_rng(seed)
    rates = 10.0 ** rng.uniform(-4.0, 2.0, pairs)
    periods = 10.0 ** rng.uniform(-1.0, 3.0, pairs)
    few = slice(0, max(pairs // 20, 1))

    results = {
        "pairs": pairs,
        "threads": threads,
        "currency": _speed(currency, rates, periods, threads),
        "stale_probability": _speed(stale_probability, rates, periods, threads),
        "gamma_posterior": _speed(
            lambda shape, period, grace: currency(GammaRates(shape, 10.0), period, grace),
            rates,
            periods,
            threads,
        ),
        "required_period": _speed(
            lambda rate, _, grace: required_period(rate, 0.9, grace),
            rates[few],
            periods[few],
            threads,
        ),
        "weibull_population": _speed(
            lambda _, period, grace: currency(WeibullPopulation(1.4, 152.2), period, grace),
            rates[: pairs // 400],
            periods[: pairs // 400],
            threads,
        ),
    }
    rival, difference = _rival(rates[:sample], periods[:sample])
    results |= {
        "quad": rival,
        "currency_over_quad": results["currency"] / rival,
        "largest_difference": difference,
    }
    return results


def _speed(function, rates, periods, threads, grace=1.0):
    """Pairs per second of the best of three runs over chunks."""
    out = np.empty(rates.size)

    def work(start):
        chunk = slice(start, start + CHUNK)
        out[chunk] = function(rates[chunk], periods[chunk], grace)

    best = np.inf
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(3):
            begin = time.perf_counter()
            list(pool.map(work, range(0, rates.size, CHUNK)))
            best = min(best, time.perf_counter() - begin)
    return rates.size / best


def _rival(rates, periods, grace=1.0):
    from scipy.integrate import quad

    begin, answers = time.perf_counter(), []
    for rate, period in zip(rates.tolist(), periods.tolist(), strict=True):
        exposed = max(period - grace, 0.0)
        # Break where the integrand has died away, or quad misses the fast sources altogether.
        end = min(exposed, 40.0 / rate)
        area = quad(lambda x, rate=rate: np.exp(-rate * x), 0.0, end)[0] if end else 0.0
        answers.append((min(grace, period) + area) / period)
    seconds = time.perf_counter() - begin
    return rates.size / seconds, float(np.max(np.abs(answers - currency(rates, periods, grace))))


def main():
    print("currency, per second (pairs of a rate and a period):")
    for name, value in run().items():
        print(f"  {name:<20} {value:,.4g}" if value < 1e3 else f"  {name:<20} {value:,.0f}")


if __name__ == "__main__":
    main()
