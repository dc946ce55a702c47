"""Every example in the documentation and in a docstring is run.

Examples of one page share their names and run in order; `console` blocks are not run here.
"""

import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from sybil import Sybil
from sybil.integration.pytest import SybilItem
from sybil.parsers.doctest import DocTestParser
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser
from tests import compiling
from xdist.scheduler import LoadFileScheduling

# Tests start hundreds of interpreters: without bytecode each compiles the whole package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# What this user has configured is no matter of the tests.
for _usual in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
    os.environ[_usual] = str(Path(tempfile.gettempdir(), "observant-no-user"))

# Spark lives for a minute here: compiling its Java well takes longer than running it.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# The same examples on every machine and in every run: a failure is news, never luck.
settings.register_profile("steady", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("steady")


def _in_a_folder_of_its_own(namespace: dict[str, object]) -> None:
    folder = tempfile.TemporaryDirectory()
    namespace["_folder"], namespace["_before"] = folder, Path.cwd()
    os.chdir(folder.name)


def _back_again(namespace: dict[str, object]) -> None:
    os.chdir(str(namespace["_before"]))
    namespace["_folder"].cleanup()  # type: ignore[attr-defined]


_pages = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=ELLIPSIS | NORMALIZE_WHITESPACE),
        SkipParser(),
    ],
    patterns=["docs/*.md", "README.md", "CONTRIBUTING.md"],
    excludes=["docs/journey-*.md"],  # tests/journeys.py walks these
    setup=_in_a_folder_of_its_own,
    teardown=_back_again,
)
_docstrings = Sybil(
    parsers=[DocTestParser(optionflags=ELLIPSIS | NORMALIZE_WHITESPACE)],
    path="src",
    patterns=["**/*.py"],
)
_examples = (_pages + _docstrings).pytest()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A module without a prompt has no examples, and need not be parsed."""
    parsed = file_path.suffix != ".py" or b">>>" in file_path.read_bytes()
    return _examples(file_path, parent) if parsed else None


# Files that take minutes and mostly wait: begun last, they would be waited for alone.
_LONG = ("test_spark.py", "test_browser.py", "test_journeys.py")
# These and tests with PostgreSQL or a browser are `live`: they use other programs, or pass time.
_LIVE = frozenset(
    {
        *_LONG,
        *(
            f"test_{name}.py"
            for name in ("cli_observer", "distribution", "documentation", "notebooks")
        ),
        *(f"test_{name}.py" for name in ("observer", "observer_proofs", "outages", "pictures")),
        *(f"test_{name}.py" for name in ("rendering", "scale", "scrapy_addon", "service_client")),
        *(f"test_{name}.py" for name in ("store_crash", "transport_hostile", "vulnerabilities")),
    }
)
_COMPILED, _REWRITTEN = "TESTS_ARE_COMPILED_IN", "collected"


def pytest_sessionstart(session: pytest.Session) -> None:
    """On a new clone most loops are compiled: once, while the workers collect their tests."""
    if session.config.getoption("numprocesses", None) and "PYTEST_XDIST_WORKER" not in os.environ:
        folder = tempfile.TemporaryDirectory()
        session.config.add_cleanup(folder.cleanup)
        os.environ[_COMPILED] = folder.name
        if any(session.config.rootpath.glob("tests/__pycache__/test_*-pytest-*.pyc")):
            Path(folder.name, _REWRITTEN).touch()
        for part in compiling.PARTS:
            given = [sys.executable, "-m", "tests.compiling", folder.name, part]
            session.config.add_cleanup(subprocess.Popen(given, cwd=session.config.rootpath).wait)  # noqa: S603


def _wait_until(is_done: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not is_done():
        time.sleep(0.1)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """On a new clone the first worker rewrites the assertions, which takes longest, for all."""
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0") != "gw0" and _COMPILED in os.environ:
        _wait_until(Path(os.environ[_COMPILED], _REWRITTEN).exists, 300)
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()  # thousands of tests that stay: no need to look through them again and again


def pytest_unconfigure() -> None:
    gc.unfreeze()  # or libraries would say at the end that somebody has kept their objects


def pytest_collection_finish() -> None:
    """Workers wait for it: else each of them, and each program they start, would compile too."""
    if "PYTEST_XDIST_WORKER" in os.environ and _COMPILED in os.environ:
        folder = os.environ[_COMPILED]
        Path(folder, _REWRITTEN).touch()
        compiling.compile_once(folder)
        _wait_until(lambda: compiling.is_done(folder), 1200)


class _Files(LoadFileScheduling):
    """Workers take whole files, in our order; but each journey, the longest tests, by itself."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return nodeid if file.endswith("test_journeys.py") else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Files | None:
    config.option.loadscopereorder = False  # it puts files with few tests last, however long
    return _Files(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``-m "not live …"`` such files need not even be imported."""
    wanted = "not live" not in (config.getoption("markexpr", "") or "")
    return None if wanted or collection_path.name not in _LIVE else True


def _is_live(item: pytest.Item) -> bool:
    given = getattr(getattr(item, "callspec", None), "params", {}).values()
    return (
        item.path.name in _LIVE
        or not {"postgres", "rendering"}.isdisjoint(getattr(item, "fixturenames", ()))
        or any(isinstance(value, str) and value == "postgres" for value in given)
    )


def _turn(item: pytest.Item) -> tuple[int, bool]:
    """Of those that wait, long files come first, and in the longest what takes long."""
    place = _LONG.index(item.path.name) if item.path.name in _LONG else len(_LONG)
    return place, "can_be_followed" not in item.name


def _unit(item: pytest.Item) -> tuple[Path, str]:
    return item.path, item.name if "can_be_followed" in item.name else ""


def _mixed(waiting: list[pytest.Item], working: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Three files that compute after each that waits: while one waits, others use the processor."""
    files = [list(file) for _, file in groupby(working, key=lambda item: item.path)]
    for _, unit in groupby(waiting, key=_unit):
        yield from unit
        for file in files[:3]:
            yield from file
        del files[:3]
    for file in files:
        yield from file


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """After tests were shuffled, put the examples of a page back in order, and long files first."""
    for item in items:
        if _is_live(item):
            item.add_marker("live")
    examples = sorted(
        (item for item in items if isinstance(item, SybilItem)),
        key=lambda item: (str(item.path), item.example.start),
    )
    tests = [item for item in items if not isinstance(item, SybilItem)]
    waiting = sorted((item for item in tests if item.path.name in _LIVE), key=_turn)
    working = [item for item in tests if item.path.name not in _LIVE]
    items[:] = [*_mixed(waiting, working), *examples]
