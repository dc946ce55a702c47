"""Fuzzing of everything that reads text of strangers.

    python -m benchmarks.fuzz [TARGET...] [--minutes 60] [--jobs 2] [--folder WORK] [--keep]

Each target (`benchmarks.fuzz_targets`) gets an equal share of the minutes in a process of its own:
a fifth with mutations that know words, numbers and nesting, the rest with atheris (libFuzzer guided
by coverage of our Python code) where it is installed. A finding is an exception that the contract
does not allow, a warning, more than 5 seconds of CPU or 512 MiB of new memory for one input of at
most 64 KiB, or the death of the process. Findings are written to WORK/findings, one for each place
in the code, the smallest input that shows it. With --keep what was learned is reduced to the few
small inputs that reach every line that was reached, in tests/corpus, and replayed by the tests.
"""

import argparse
import contextlib
import faulthandler
import hashlib
import json
import os
import random
import re
import resource
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

LARGEST = 1 << 16
CPU_SECONDS = 5.0
NEW_MEMORY = 512 << 10  # KiB, as getrusage tells it
LARGEST_KEPT, MOST_KEPT = 3_000, 10
HOSTILE = (
    b"", b"\0", b"-", b"-1", b"0", b"1e999", b"-1e-999", b"NaN", b"Infinity", b"null", b"true",
    b"[]", b"{}", b'""', b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\\ud800", b"\r", b"\x85",
    b"9" * 20, b"9" * 400, b"9" * 5_000, b"9223372036854775808", b"0001-01-01T00:00:00+23:59",
    b"9999-12-31T23:59:59.999999-23:59", b"99999999999999", b"%00", b"&#0;", b"&x;", b"<!--",
    b"]]>", b"[" * 3_000, b'{"a":' * 3_000, b"<a>" * 3_000, b"(" * 3_000, b"a" * 10_000, b"../" * 9,
)  # fmt: skip
"""Words that readers stumble over."""
PARSERS = ("feedparser", "protego", "cssselect", "jmespath")
"""Readers in Python that we rely on: guided through as well."""
_WORD = re.compile(rb"[A-Za-z_]+|\d+|\s+|[^\w\s]", re.ASCII)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="or the beginning of a name")
    parser.add_argument("--minutes", type=float, default=60.0, help="by the clock, times jobs")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="of findings and grown corpora")
    parser.add_argument("--keep", action="store_true", help="renew tests/corpus")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="observant-fuzz-"))
    try:
        import atheris
    except ImportError:
        atheris = None
    with imported(atheris if options.minutes > 0 else None) as every:
        names = [n for n in every if not options.targets or n.startswith(tuple(options.targets))]
        if not names:
            sys.exit(f"there is no such target; there are {', '.join(every)}")
        if options.minutes > 0:
            seconds = options.minutes * 60 * options.jobs / len(names)
            run([every[name] for name in names], folder, seconds, options.jobs, atheris)
        if options.keep:
            for name in names:
                keep(every[name], folder)


def run(chosen, folder, seconds, jobs, atheris):
    """Fuzz all targets, `jobs` at a time, each in a process of its own; prints a line for each."""
    (folder / "findings").mkdir(parents=True, exist_ok=True)
    print(f"{len(chosen)} targets, {seconds:.0f} s each, {jobs} at a time, in {folder}")
    print(f"{'target':24s}{'executions':>12s}{'CPU s':>8s}{'corpus':>8s}  findings", flush=True)
    waiting, running, total = list(chosen), {}, [0, 0.0, 0]
    while waiting or running:
        while waiting and len(running) < jobs:
            target = waiting.pop(0)
            child = os.fork()
            if not child:
                with (folder / f"{target.name}.log").open("wb") as log:
                    os.dup2(log.fileno(), 1)
                    os.dup2(log.fileno(), 2)
                try:
                    fuzz(target, folder, seconds, atheris)
                finally:
                    os._exit(1)  # fuzz does not come back unless something is wrong
            running[child] = target
        child, status = os.wait()
        told = report(running.pop(child).name, folder, os.waitstatus_to_exitcode(status))
        total = [sum(pair) for pair in zip(total, told, strict=True)]
    print(f"{'together':24s}{total[0]:12,d}{total[1]:8.0f}{'':8s}  {total[2]}")


def report(name, folder, status):
    with contextlib.suppress(FileNotFoundError):
        stats = json.loads((folder / f"{name}.json").read_text())
        found = sorted(file.name for file in (folder / "findings").glob(f"{name}@*"))
        if status:
            found.append(f"the process ended with {status}: see {name}.log and {name}.last")
        grown = len(list((folder / "grown" / name).glob("*")))
        print(
            f"{name:24s}{stats['runs']:12,d}{stats['cpu']:8.1f}{grown:8d}  {'; '.join(found)}",
            flush=True,
        )
        return stats["runs"], stats["cpu"], len(found)
    print(f"{name:24s} never began: see {name}.log", flush=True)
    return 0, 0.0, 1


# -- one target, in a process of its own ----------------------------------------------------------


def fuzz(target, folder, seconds, atheris):
    """Fuzz one target; the process ends inside."""
    faulthandler.enable()
    began = time.monotonic()
    name, seeds = target.name, target.seeds()
    for seed in seeds:  # what is imported or compiled late, comes now
        with contextlib.suppress(Exception):
            target.check(seed)
    watch = Watch(target, folder)
    grown = folder / "grown" / name
    grown.mkdir(parents=True, exist_ok=True)
    for seed in [*seeds, *HOSTILE]:
        watch(seed)
    luck = random.Random()  # noqa: S311 - other ones each time; what they find is kept
    while time.monotonic() < began + (seconds / 5 if atheris else seconds):
        watch(mutated(luck.choice(seeds or [b""]), luck))
    watch.tell()
    if atheris is None:
        os._exit(0)
    for seed in seeds:
        (grown / hashlib.sha1(seed).hexdigest()).write_bytes(seed)  # noqa: S324 - libFuzzer's names
    words = folder / f"{name}.dict"
    words.write_text("\n".join(dictionary(seeds)))
    flags = {
        "max_total_time": max(int(seconds - (time.monotonic() - began)), 1),
        "max_len": 8_000,
        "timeout": 120,
        "rss_limit_mb": 4096,
        "dict": words,
        "artifact_prefix": f"{folder / 'findings'}/{name}@",
        "print_final_stats": 1,
    }
    atheris.Setup([sys.argv[0], *(f"-{k}={v}" for k, v in flags.items()), str(grown)], watch)
    atheris.Fuzz()


class Watch:
    """Calls a target and writes down what the contract does not allow."""

    def __init__(self, target, folder):
        self.target, self.folder = target, folder
        self.runs, self.told = 0, time.monotonic()
        self.last = os.open(folder / f"{target.name}.last", os.O_RDWR | os.O_CREAT)
        warnings.simplefilter("error")

    def __call__(self, data):
        self.runs += 1
        os.truncate(self.last, os.pwrite(self.last, data, 0))  # should the process die
        cpu, memory = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            self.target.check(data)
        except Exception as error:  # noqa: BLE001 - that is what we are after
            self.write(data, place_of(error), "".join(traceback.format_exception(error, limit=-8)))
        spent = time.process_time() - cpu
        if spent > CPU_SECONDS:
            self.write(data, "slow", f"{spent:.1f} s of CPU")
        more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
        if more > NEW_MEMORY and self.runs > 1:
            self.write(data, "memory", f"{more >> 10} MiB of memory")
        if time.monotonic() > self.told + 1:
            self.tell()

    def write(self, data, what, story):
        """Keep the smallest input for each place."""
        file = self.folder / "findings" / f"{self.target.name}@{what}"
        if not file.exists() or file.stat().st_size > len(data):
            file.write_bytes(data)
            print(f"== {self.target.name}: {what}, {len(data)} bytes\n{story}", flush=True)

    def tell(self):
        self.told = time.monotonic()
        stats = {"runs": self.runs, "cpu": time.process_time()}
        (self.folder / f"{self.target.name}.json").write_text(json.dumps(stats))


def place_of(error):
    """The kind of an error, and the line of ours that it came through last."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "observant" in Path(frame.filename).parts] or frames
    return f"{type(error).__name__}-{Path(ours[-1].filename).stem}-{ours[-1].lineno}"


def mutated(data, luck):
    """The input with some words, lines or bytes replaced, repeated, moved or lost."""
    for _ in range(luck.choice((1, 1, 1, 2, 4))):
        way = luck.randrange(6)
        if way < 3:
            pieces = _WORD.findall(data)
        elif way < 5:
            pieces = data.splitlines(keepends=True)
        else:
            pieces = [data[k : k + 1] for k in range(len(data))]
        if not pieces:
            pieces = [b""]
        at, other = luck.randrange(len(pieces)), luck.randrange(len(pieces))
        change = luck.randrange(6)
        if change == 0:
            pieces[at] = luck.choice(HOSTILE)
        elif change == 1:
            pieces[at] += luck.choice(HOSTILE)
        elif change == 2:
            del pieces[at]
        elif change == 3:
            # Up to as much as fits: what takes time with the square of a length shows.
            pieces[at] *= luck.choice((2, 3, 100, LARGEST // max(len(pieces[at]), 1)))
        elif change == 4:
            pieces[at] = pieces[other]
        else:
            del pieces[min(at, other) : max(at, other)]
        data = b"".join(pieces)[:LARGEST]
    return data


def dictionary(seeds):
    """Words of the seeds and hostile ones, in the form of libFuzzer."""
    words = [word for seed in seeds for word in re.findall(rb"[\w:./-]{3,30}", seed)]
    chosen = [*dict.fromkeys(words)][:150] + [word for word in HOSTILE if 0 < len(word) < 40]
    for word in [*chosen, b"\n----\n"]:
        yield '"' + "".join(f"\\x{byte:02x}" for byte in word) + '"'


@contextlib.contextmanager
def imported(atheris=None):
    """The targets; with atheris, our modules are instrumented, but for the compiled loops."""
    if atheris is None:
        from benchmarks.fuzz_targets import targets

        yield targets()
        return
    import numba  # noqa: F401 - not to be instrumented

    with atheris.instrument_imports(
        include=["observant", *PARSERS], exclude=[*compiled_modules()], enable_loader_override=False
    ):
        from benchmarks.fuzz_targets import targets

        yield targets()


def compiled_modules():
    import importlib.util

    root = Path(importlib.util.find_spec("observant").origin).parent
    for file in root.rglob("*.py"):
        if re.search(r"^\s*(import|from) numba", file.read_text(), re.MULTILINE):
            parts = file.relative_to(root.parent).with_suffix("").parts
            yield ".".join(parts).removesuffix(".__init__")


# -- what is worth keeping ------------------------------------------------------------------------


def keep(target, folder):
    """Reduce what was grown to a few small inputs that reach all lines that any of them reaches."""
    name = target.name
    files = sorted((folder / "grown" / name).glob("*"), key=lambda file: file.stat().st_size)
    place = Path(__file__).parents[1] / "tests" / "corpus" / name
    kept = sorted(place.glob("*")) if place.exists() else []
    inputs = [file.read_bytes() for file in [*kept, *files] if file.stat().st_size <= LARGEST_KEPT]
    for seed in target.samples:
        with contextlib.suppress(Exception):
            target.check(seed)
    known = set().union(*(lines_of(target, seed) for seed in target.samples))
    chosen = [file.read_bytes() for file in kept if file.name.startswith("found-")]
    reached = [(data, lines_of(target, data)) for data in dict.fromkeys(inputs[:600])]
    for data in chosen:
        known |= lines_of(target, data)
    while len(chosen) < MOST_KEPT:
        data, lines = max(
            reached, key=lambda r: (len(r[1] - known), -len(r[0])), default=(b"", set())
        )
        if not lines - known:
            break
        chosen.append(data)
        known |= lines
    for file in kept:
        if not file.name.startswith("found-"):
            file.unlink()
    place.mkdir(parents=True, exist_ok=True)
    found = {file.read_bytes() for file in place.glob("found-*")}
    for data in chosen:
        if data not in found:
            (place / hashlib.sha256(data).hexdigest()[:12]).write_bytes(data)
    print(f"{name:24s}{len(inputs):6d} inputs, {len(chosen):3d} kept", flush=True)


def lines_of(target, data):
    """The lines of our modules that an input runs through."""
    found = set()

    def local(frame, event, _):
        if event == "line":
            found.add((frame.f_code.co_filename, frame.f_lineno))
        return local

    def tracer(frame, _event, _argument):
        return local if f"{os.sep}observant{os.sep}" in frame.f_code.co_filename else None

    sys.settrace(tracer)
    try:
        with contextlib.suppress(Exception):
            target.check(data)
    finally:
        sys.settrace(None)
    return found


if __name__ == "__main__":
    main()
