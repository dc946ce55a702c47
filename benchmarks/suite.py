"""`make test` again and again, each time on a fresh clone: does it pass, and how long does it take?

    python -m benchmarks.suite [--quiet 5] [--busy 5] [--loops 2] [--together 1]

--quiet     runs with nothing beside them
--busy      runs with --loops busy loops for each core beside them
--together  so many runs of a kind at a time: each has the others beside it (5 GB of memory each)

A run is a clone of what is committed, its set-up, and everything that CI asks for. The output of a
run that fails is kept, and what failed is told.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = re.compile(r"^=+ (.*\d+ passed.*) in ([\d.]+)s.* =+$", re.MULTILINE)


def main(quiet, busy, loops, together):
    row("beside it", "whole", "tests", "CPU", " outcome")
    several(quiet, 0, together)
    several(busy, loops * (os.cpu_count() or 1), together)


def several(runs, loops, together):
    """So many runs, `together` at a time, with busy loops beside all of them."""
    with ExitStack() as stack:
        for _ in range(loops if runs else 0):
            loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(loop.kill)
        for first in range(0, runs, together):
            these = min(together, runs - first)
            beside = [f"{loops} busy loops"] * (loops > 0) + [f"{these - 1} runs"] * (these > 1)
            with ThreadPoolExecutor(these) as threads:
                for told in threads.map(lambda _: one(), range(these)):
                    row(", ".join(beside) or "nothing of ours", *told)


def row(beside, whole, tests, cpu, outcome):
    print(f"{beside:24}{whole:>9}{tests:>9}{cpu:>9}  {outcome}", flush=True)


def one():
    """How long everything and the tests took, the CPU of all that has ended, and the outcome."""
    folder = tempfile.mkdtemp(prefix="observant-suite-")
    clone, log = Path(folder) / "observant", Path(folder) / "log"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)  # noqa: S603, S607
    with log.open("wb") as output:
        began = time.monotonic()
        run = subprocess.Popen(["make", "test"], cwd=clone, stdout=output, stderr=output)  # noqa: S607
        _, status, used = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
        whole = time.monotonic() - began
    text = log.read_text("utf-8", "replace")
    found = TESTS.search(text)
    tests = float(found[2]) if found else float("nan")
    outcome = found[1] if found else "no tests"
    if run.returncode:
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", text, re.MULTILINE)
        outcome += f", FAILED: {', '.join(failed) or 'not in a test'} ({log})"
    else:
        shutil.rmtree(folder)
    return *map(minutes, (whole, tests, used.ru_utime + used.ru_stime)), outcome


def minutes(seconds):
    return f"{seconds // 60:.0f}:{seconds % 60:02.0f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quiet", type=int, default=5)
    parser.add_argument("--busy", type=int, default=5)
    parser.add_argument("--loops", type=int, default=2)
    parser.add_argument("--together", type=int, default=1)
    main(**vars(parser.parse_args()))
