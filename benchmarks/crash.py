"""Kill -9 a writing process at 200 random moments, and look at the store after each.

    python -m benchmarks.crash [ROUNDS] [postgresql://…]

No visit that was told as committed may be missing, none may be there twice, no row of the outbox
lost or doubled, and the doctor must find nothing.
"""

import sys
import tempfile
import time

from tests.test_store_crash import kill_at_random_moments


def main(rounds=200, place=None):
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        visits, unfinished = kill_at_random_moments(place or f"{folder}/store.db", rounds, seed=1)
    print(
        f"killed {rounds} times in {time.perf_counter() - began:.0f} s: {visits:,} visits, none "
        f"lost, none twice; {unfinished} times a commit was through before it could be told"
    )


if __name__ == "__main__":
    main(int((sys.argv[1:] or ["200"])[0]), *sys.argv[2:3])
