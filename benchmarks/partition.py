"""Brewington's table of the web, by his method and by ours: python -m benchmarks.partition

The thesis anneals a 6×6 grid in 200,000 steps, "about 8 hours per solution". Here the same search
runs for every T₀, on 6×6 and 10×10 grids, beside the best partition by ascent, the optimum without
a partition, and the figures of the thesis.
"""

import time

from observant.papers.thesis.partition import (
    SourceDensity,
    anneal,
    equiprobable,
    exact_optimum,
    refine,
    single_queue,
)

__all__ = ["run"]

GRACE = 1.0
THESIS = {
    10: "94 -> 96 %",
    30: "about +3 %",
    100: ".62, +.04",
    200: "about +15 %",
    300: "about +20 %",
    600: ".2 -> .3",
}


def run(periods=tuple(THESIS), steps=200_000, small=(6, 6), large=(10, 10), cells=(240, 160)):
    """One row a period: α of each method, and the seconds that annealing took."""
    web = SourceDensity.independent(cut=0.1, cells=cells)
    rows = []
    for period in periods:
        row = {"T0": period, "thesis": THESIS.get(period, "")}
        row["alpha_0"] = single_queue(web, period, GRACE)
        for name, grid, effort in (("small", small, steps), ("large", large, 2 * steps)):
            start = equiprobable(web, period, grid, GRACE)
            begin = time.perf_counter()
            row[f"{name}_annealed"] = anneal(start, effort).alpha
            row[f"{name}_seconds"] = time.perf_counter() - begin
            row[f"{name}_best"] = refine(start).alpha
        row["optimum"] = exact_optimum(web, period, GRACE).alpha
        rows.append(row)
    return rows


def main():
    print("T0 days  alpha_0   6x6 annealed (s)   6x6 best   10x10 annealed (s)  10x10 best", end="")
    print("  optimum   thesis")
    for row in run():
        print(
            f"{row['T0']:>7}   {row['alpha_0']:.4f}   {row['small_annealed']:.4f} "
            f"({row['small_seconds']:>4.1f})      {row['small_best']:.4f}     "
            f"{row['large_annealed']:.4f} ({row['large_seconds']:>4.1f})       "
            f"{row['large_best']:.4f}     {row['optimum']:.4f}   {row['thesis']}"
        )


if __name__ == "__main__":
    main()
