"""What a person waits for: the import, the help, a first answer.

python -m benchmarks.startup

Beside them, in the same run, bare Python and two programs that everybody knows. All take turns, so
that a busy moment is nobody's alone, and the best of some runs counts.
"""

import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

RIVALS = ("python -c pass", "import pandas", "scrapy version")


def seconds(commands, repeat=7):
    """Best time of each command, after one run that fills the caches."""
    best = dict.fromkeys(commands, float("inf"))
    for turn in range(repeat + 1):
        for name, command in commands.items():
            began = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own
            if turn:
                best[name] = min(best[name], time.perf_counter() - began)
    return best


def commands(folder):
    """The commands by the names they are printed with; a rival that is not here is left out."""
    python, observant = sys.executable, Path(sys.executable).with_name("observant")
    visits, store = Path(folder, "visits.csv"), Path(folder, "observant.db")
    rows = [f"page,{1_700_000_000 + 86_400 * day},{day % 3 == 0}" for day in range(10)]
    visits.write_text("source,time,changed\n" + "\n".join(rows))
    watched = [f"https://example.org/{page}" for page in range(50)]
    add = [observant, "add", "--store", store, *watched]
    subprocess.run(add, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own
    rivals = (
        [python, "-c", "pass"],
        [python, "-c", "import pandas"],
        [python, "-m", "scrapy", "version"],
    )
    needed = "sys", "pandas", "scrapy"
    return {
        name: command
        for name, command, module in zip(RIVALS, rivals, needed, strict=True)
        if find_spec(module)
    } | {
        "import observant": [python, "-c", "import observant"],
        "observant --help": [observant, "--help"],
        "observant list (50 sources)": [observant, "list", "--store", store],
        "observant estimate (10 visits)": [observant, "estimate", visits],
        "observant study design": [
            observant,
            "study",
            "design",
            "--rate",
            "1/7d",
            "--visits",
            "10",
        ],
    }


def main():
    with tempfile.TemporaryDirectory() as folder:
        took = seconds(commands(folder))
    rivals = [name for name in RIVALS if name in took]
    print(f"{'':32}{'seconds':>9}" + "".join(f"{'/ ' + name:>18}" for name in rivals))
    for name, own in took.items():
        ratios = "".join(f"{own / took[rival]:18.2f}" for rival in rivals)
        print(f"{name:32}{own:9.3f}{ratios}")


if __name__ == "__main__":
    main()
