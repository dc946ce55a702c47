"""Every reader of strangers' text keeps its contract: it returns, or raises an `ObservantError`.

The kept corpus is replayed (what `python -m benchmarks.fuzz` found, and inputs that reach far), and
the samples are mutated anew. The files called ``found-…`` once broke a reader.
"""

import importlib
import random
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from observant.errors import ObservantError

from .patience import check_cpu

ROOT = Path(__file__).parents[1]
CORPUS = ROOT / "tests" / "corpus"
CPU_SECONDS = 5.0


@pytest.fixture(scope="module")
def fuzzing():
    """The modules benchmarks.fuzz and benchmarks.fuzz_targets."""
    sys.path.insert(0, str(ROOT))
    try:
        yield [importlib.import_module(f"benchmarks.{n}") for n in ("fuzz", "fuzz_targets")]
    finally:
        sys.path.remove(str(ROOT))


def check(target, data):
    check_cpu(lambda: target.check(data), CPU_SECONDS, f"{target.name}: {data[:200]!r}")


@pytest.mark.slow
def test_the_kept_corpus_breaks_no_reader(fuzzing):
    every = fuzzing[1].targets()
    kept = sorted(CORPUS.glob("*/*"))
    assert len(kept) > 100
    for file in kept:
        assert file.parent.name in every, f"{file} belongs to no target"
        try:
            check(every[file.parent.name], file.read_bytes())
        except Exception as error:
            error.add_note(f"the input is {file.relative_to(ROOT)}")
            raise


def test_samples_are_understood(fuzzing):
    """A sample that its reader refuses would be fuzzed in vain."""
    for target in fuzzing[1].targets().values():
        accepted = 0
        for sample in target.samples:
            try:
                target.read(sample)
            except (ObservantError, *target.verdicts):
                continue
            accepted += 1
        assert accepted, target.name


@pytest.mark.slow
@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],  # the input is in the note; smaller ones are for benchmarks.fuzz
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(0, 2**32))
def test_mutations_break_no_reader(fuzzing, seed):
    fuzz, fuzz_targets = fuzzing
    luck = random.Random(seed)  # noqa: S311 - not for secrets
    for target in fuzz_targets.targets().values():
        sample = luck.choice(target.seeds() or [b""])
        data = fuzz.mutated(sample, luck)
        try:
            check(target, data)
        except Exception as error:
            error.add_note(f"target {target.name}, input {data[:2000]!r}")
            raise


def test_every_importer_format_and_kind_of_source_is_a_target(fuzzing):
    from observant.formats import ARCHIVES, FORMATS
    from observant.formats.imports import importers

    every = fuzzing[1].targets()
    assert {f"import-{name}" for name in importers() if name != "git"} <= set(every)
    assert {f"format-{name}" for name in (*FORMATS, *ARCHIVES)} <= set(every)
    assert {"source-http", "source-feed", "source-sitemap", "source-query"} <= set(every)


def test_the_fuzzer_sees_what_the_contract_does_not_allow(fuzzing, tmp_path, monkeypatch):
    fuzz, fuzz_targets = fuzzing
    monkeypatch.setattr(fuzz, "CPU_SECONDS", 0.2)

    def read(data):
        if data == b"slow":
            began = time.process_time()
            while time.process_time() < began + 0.3:
                pass
        if data.startswith(b"bad"):
            int(data)

    (tmp_path / "findings").mkdir()
    watch = fuzz.Watch(fuzz_targets.Target("x", read, ()), tmp_path)
    for data in (b"good", b"slow", b"bad and long", b"bad"):
        watch(data)
    found = {file.name: file.read_bytes() for file in (tmp_path / "findings").iterdir()}
    assert sorted(found.values()) == [b"bad", b"slow"]  # the smallest of each place
    assert any(name.startswith("x@ValueError-test_fuzz") for name in found)


def test_the_corpus_is_small():
    sizes = [file.stat().st_size for file in CORPUS.glob("*/*")]
    assert sum(sizes) < 300_000
    assert max(sizes) <= 8_000
