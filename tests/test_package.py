"""The package as a package: its names, its weight, what it says of itself."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import observant

ROOT = Path(__file__).resolve().parents[1]
HEAVY = "numba scipy pyarrow altair litestar pyspark scrapy pandas lxml"
"""What takes long to load, or is not installed everywhere."""


def test_every_public_name_exists_once():
    assert observant.__all__ == sorted(
        observant.__all__, key=lambda name: (not name[0].isupper(), name)
    )
    assert set(observant.__all__) == set(observant._HOMES)
    for name, home in observant._HOMES.items():
        assert getattr(observant, name) is getattr(importlib.import_module(home), name)
        assert name in dir(observant)


def test_public_names_are_exactly_those_that_the_documentation_lists():
    """The table under "The names to import" on the front page of the documentation."""
    page = (ROOT / "docs" / "index.md").read_text("utf-8")
    assert sorted(documented_names(page)) == sorted(observant.__all__)


def documented_names(page):
    _, _, after = page.partition("\n## The names to import\n")
    section = re.split(r"^## ", after, maxsplit=1, flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`(\w+)`", row)]


def test_documented_names_are_read_from_the_first_column_only():
    table = "| name | what it is |\n|---|---|\n| `a`, `b` | `c` |\n"
    page = f"x\n## The names to import\n\n{table}\n## Next\n\n| `d` | |\n"
    assert documented_names(page) == ["a", "b"]


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'estimate_everything'"):
        observant.estimate_everything  # noqa: B018


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import observant", f"{HEAVY} numpy click rich asyncio"),
        ("import observant.cli", f"{HEAVY} numpy rich asyncio"),
        ("from observant import VisitLog, estimate_rates", f"{HEAVY} click rich"),
        (
            "from observant.store import open_store; open_store(':memory:')",
            f"{HEAVY} numpy rich asyncio",
        ),
    ],
)
def test_heavy_things_load_late(statement, unwanted):
    """Start-up time is what a person waits for; see benchmarks/startup.py for the seconds."""
    assert loaded(statement, unwanted) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "unwanted"),
    [
        ("--help", f"{HEAVY} numpy rich"),
        ("--version", f"{HEAVY} numpy rich"),
        ("estimate --help", f"{HEAVY} numpy"),
        ("serve --help", f"{HEAVY} numpy"),
        ("list --store s.db", f"{HEAVY} numpy asyncio"),
        # PyArrow reads the file, and loads pandas by itself where that is installed.
        ("estimate v.csv", "numba scipy altair litestar pyspark scrapy lxml observant.planning"),
    ],
)
def test_a_command_loads_what_it_needs(words, unwanted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "v.csv").write_text("source,time,changed\na,0,\na,86400,1\na,172800,0\n")
    if "s.db" in words:
        from observant.store import Source, open_store

        with open_store("s.db") as store:
            store.sources.add([Source(name="https://example.org/", host="example.org")])
    command = f"import sys; sys.argv[1:] = {words.split()}; from observant.cli import main\n"
    assert loaded(f"{command}try: main()\nexcept SystemExit: pass", unwanted) == []


def loaded(code, names):
    """Which of these modules a fresh interpreter has loaded after running some code."""
    ask = f"\nimport sys; print('loaded', *[m for m in {names.split()} if m in sys.modules])"
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", code + ask], capture_output=True, text=True, check=True
    )
    return done.stdout.rpartition("loaded")[2].split()


def test_what_is_loaded_is_seen():
    """Or the tests above would pass for no reason."""
    assert loaded("import numpy, json", "json numpy scipy") == ["json", "numpy"]


@pytest.mark.parametrize(("old", "new"), observant._MOVED.items())
def test_modules_that_moved_are_found_under_their_old_names_for_a_release(old, new, monkeypatch):
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match=f"{old} is {new} now"):
        found = importlib.import_module(old)
    assert found is importlib.import_module(new)
    assert found.__spec__.name == found.__name__ == new


def test_parts_of_a_module_that_moved_are_not_loaded_twice(monkeypatch):
    for old in ("observant.traces", "observant.traces.trace"):
        monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match="is observant.simulation.traces"):
        from observant.traces.trace import Trace
    from observant.simulation.traces import Trace as Now

    assert Trace is Now


def test_the_package_is_a_program():
    words = [sys.executable, "-m", "observant", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout == f"observant {observant.__version__}\n"
