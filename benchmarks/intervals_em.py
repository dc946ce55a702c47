"""Speed and accuracy of the concave fit: any gaps, no dates.

    python -m benchmarks.intervals_em [--runs 20]

- `em`: seconds for one fit to 100,000 visits (the promise is 30 on one core), with the blur chosen
  by cross-validation, and how far the gradient is above its bound.
- `accuracy`: KS distance of G for Li's Pareto(3, 1) source under exponential gaps of mean 1, at
  x = 1 … 10 and on a fine grid, as means over runs, beside the plain maximum of the likelihood.
"""

import argparse
import time

import numpy as np

from observant.estimation.intervals.concave import fit_concave
from observant.processes import Pareto

SOURCE = Pareto(shape=3.0, scale=1.0)
WHOLE = np.arange(1.0, 11.0)
FINE = np.concatenate([np.geomspace(1e-3, 1.0, 300), np.linspace(1.0, 20.0, 400)])


def blind_visits(visits, seed):
    """Times and changes of visits with exponential gaps of mean 1."""
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.exponential(1.0, visits))
    updates = SOURCE.sample(times[-1], seed=rng).times
    return times, np.diff(np.searchsorted(updates, times), prepend=0) > 0


def em(visits=100_000):
    """Seconds for one fit."""
    times, changed = blind_visits(visits, 1)
    fit_concave(times[:1000], changed[:1000])  # SciPy loads
    start = time.perf_counter()
    fit = fit_concave(times, changed)
    return time.perf_counter() - start, fit


def accuracy(span, runs, smoothing):
    """Mean KS at whole x and on the fine grid, and mean and spread of the mean interval."""
    rows = []
    for run in range(runs):
        fit = fit_concave(*blind_visits(span, 1000 + run), smoothing=smoothing)
        error = [np.abs(fit.age_cdf(x) - SOURCE.age_cdf(x)).max() for x in (WHOLE, FINE)]
        rows.append([*error, fit.process().mean])
    table = np.array(rows)
    return *table.mean(axis=0), table[:, 2].std()


def main(runs=20):
    seconds, fit = em()
    print(f"100,000 visits: {seconds:.1f} s, gradient {fit.excess:.1e} above its bound")
    print(f"{'visits':>8} {'blur':>6} {'KS x=1..10':>11} {'KS fine':>9} {'E[U] = 0.5':>16}")
    for span in (100, 1_000, 10_000):
        for smoothing in ("auto", 0.0):
            whole, fine, mean, spread = accuracy(span, runs, smoothing)
            name = smoothing if smoothing == "auto" else "none"
            print(f"{span:8,} {name:>6} {whole:11.2%} {fine:9.2%} {mean:8.3f} ± {spread:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    main(parser.parse_args().runs)
