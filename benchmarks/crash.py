"""Kill -9 at 200 random moments, and look at the store after each.

    python -m benchmarks.crash [ROUNDS]                  the whole observer, over real HTTP
    python -m benchmarks.crash store [ROUNDS] [URL]      a process that only writes to the store

No visit that was told as committed may be missing, none may be there twice, no row of the outbox
lost or doubled, the doctor must find nothing, and the next observer must go on. What was learned
must be what the visits in the store teach, each counted once. The first takes about four minutes.
"""

import sys
import tempfile
import time
from collections import Counter

from benchmarks.lives import kill_at_random_moments


def observers(rounds=200):
    began = time.perf_counter()

    def progress(number, visits):
        if sys.stderr.isatty():
            print(f"\r{number} of {rounds} killed, {visits:,} visits", end="", file=sys.stderr)

    with tempfile.TemporaryDirectory() as folder:
        visits, idle, far = kill_at_random_moments(f"{folder}/observant.db", rounds, 1, progress)
    outcomes = Counter(visits.values())
    print(
        f"observer killed {rounds} times in {time.perf_counter() - began:.0f} s: {len(visits):,} "
        f"visits ({', '.join(f'{n:,} {what}' for what, n in outcomes.most_common())}), none lost, "
        f"none twice, {outcomes['changed']:,} events, each once; {idle} were killed before their "
        f"first commit; learned likelihoods within {far:.3f} of those of the visits"
    )


def stores(rounds=200, place=None):
    from tests.test_store_crash import kill_at_random_moments as kill_writers

    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        place = place or f"{folder}/store.db"
        visits, unfinished = kill_writers(place, rounds, seed=1)
    print(
        f"killed {rounds} times in {time.perf_counter() - began:.0f} s: {visits:,} visits, none "
        f"lost, none twice; {unfinished} times a commit was through before it could be told"
    )


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["store"]:
        stores(int((words[1:] or ["200"])[0]), *words[2:3])
    else:
        observers(int((words or ["200"])[0]))
