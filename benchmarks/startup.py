"""What a person waits for: help, a first answer, the import.

python -m benchmarks.startup
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path


def seconds(command, repeat=5):
    """Best of some runs, after one that fills the caches."""
    best = float("inf")
    for turn in range(repeat + 1):
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own
        if turn:
            best = min(best, time.perf_counter() - began)
    return best


def main():
    observant = Path(sys.executable).with_name("observant")
    with tempfile.TemporaryDirectory() as folder:
        visits = Path(folder, "visits.csv")
        rows = [
            f"page{i % 50},{1_700_000_000 + 86_400 * (i // 50)},{i % 3 == 0}" for i in range(1000)
        ]
        visits.write_text("source,time,changed\n" + "\n".join(rows))
        bare = seconds([sys.executable, "-c", "pass"])
        for name, command in {
            "python -c pass": [sys.executable, "-c", "pass"],
            "import observant": [sys.executable, "-c", "import observant"],
            "observant --help": [observant, "--help"],
            "observant estimate (1,000 visits)": [observant, "estimate", visits],
            "observant design": [observant, "design", "--rate", "1/7d", "--visits", "10"],
        }.items():
            took = seconds(command)
            print(f"{name:36} {took:6.2f} s   ({took / bare:5.1f} times bare Python)")


if __name__ == "__main__":
    main()
