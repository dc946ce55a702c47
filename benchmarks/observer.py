"""The real observer in the synthetic web, over several seeds: is α what it says it is?

python -m benchmarks.observer [SEEDS] [SECONDS] [PAGES] [FIRST_SEED]

Every seed takes about a minute: 2,000 pages, real HTTP on loopback, a month in SECONDS. For each it
prints what was achieved (by the truth), predicted by the observer, reached by uniform visits and by
a clairvoyant with the same number of visits, and how many 95 % intervals hold the true rate; then
the same by the kind of process. On a machine that has other work give it more SECONDS.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

import numpy as np

from observant.observer.synthetic.trial import run_demo
from observant.observer.synthetic.web import KINDS, DemoWorld

COLUMNS = (
    "seed", "visits/s", "spent", "achieved", "predicted", "planned", "uniform", "clairvoyant",
    "of it", "covered", "Poisson", "lies",
)  # fmt: skip


def main(seeds=3, seconds=60.0, pages=2000, first=11, visits_per_page=12.0):
    print("  ".join(f"{name:>11}" for name in COLUMNS))
    rows, inside, kinds = [], [], []
    for seed in range(first, first + seeds):
        world = DemoWorld(pages=pages, hosts=pages // 20, seed=seed)
        with tempfile.TemporaryDirectory() as folder:
            result = asyncio.run(
                run_demo(
                    Path(folder) / "observant.db",
                    world,
                    seconds=seconds,
                    visits_per_page=visits_per_page,
                )
            )
        row = (
            seed,
            result.visits / seconds,
            result.spent / result.budget,
            result.achieved,
            result.predicted,
            result.planned,
            result.uniform,
            result.clairvoyant,
            result.achieved / result.clairvoyant,
            result.covered,
            result.covered_poisson,
            result.lies,
        )
        rows.append(row)
        inside.append((result.rate_low <= result.truth) & (result.truth <= result.rate_high))
        unreliable = ~world.reliable
        kinds.append(np.where(unreliable, "failing or stuck", np.array(world.kinds)))
        print("  ".join(f"{value:>11.3f}" for value in row), flush=True)
    table = np.array(rows, float)
    print("  ".join(f"{value:>11.3f}" for value in table.mean(axis=0)), " mean")
    achieved, predicted, planned, uniform, share = table[:, [3, 4, 5, 6, 8]].T
    print(f"\nfarthest from predicted: {100 * np.abs(achieved - predicted).max():.1f} points")
    print(f"farthest from planned:   {100 * np.abs(achieved - planned).max():.1f} points")
    print(f"least gain over uniform: {100 * (achieved - uniform).min():.1f} points")
    print(f"least share of the clairvoyant's: {share.min():.1%}")
    print("\n95 % intervals that hold the true rate")
    held, kind = np.concatenate(inside), np.concatenate(kinds)
    for name in dict.fromkeys([*KINDS, "failing or stuck"]):
        here = kind == name
        error = np.sqrt(held[here].mean() * (1 - held[here].mean()) / max(here.sum(), 1))
        print(f"  {name:<18}{held[here].mean():>7.1%} ± {error:.1%} of {here.sum():,} pages")


if __name__ == "__main__":
    words = sys.argv[1:]
    main(
        int(words[0]) if words else 3,
        float(words[1]) if len(words) > 1 else 60.0,
        int(words[2]) if len(words) > 2 else 2000,
        int(words[3]) if len(words) > 3 else 11,
    )
