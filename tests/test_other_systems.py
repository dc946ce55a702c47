"""What only Linux has is taken away: everything is imported, and estimating and planning run."""

import asyncio
import subprocess
import sys

import pytest

from observant.errors import InputError
from observant.observer.permission import who_else_can_write
from observant.observer.transport.curl import watch

from .patience import PATIENCE
from .test_extras import UPDATES, VISITS

WINDOWS = """
import asyncio, os, select, signal, sys
import observant.cli, numba, pyarrow.parquet, scipy.optimize, subprocess, tempfile  # with theirs
for module in ("fcntl", "resource", "pwd", "grp", "termios", "pty"):
    sys.modules[module] = None
for module, names in (
    (os, "sysconf getuid geteuid getgid getloadavg fork killpg sched_getaffinity"),
    (signal, "SIGKILL SIGHUP SIGUSR1"),
    (select, "epoll poll"),
):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
def missing(*_):
    raise NotImplementedError
loop = asyncio.SelectorEventLoop
loop.add_reader = loop.add_writer = loop.add_signal_handler = missing
"""
EVERYTHING = """
import importlib, pkgutil, observant
apart = ("observant.scrapy", "observant.batch.spark", "observant.notifications.channels.apprise")
for found in pkgutil.walk_packages(observant.__path__, "observant."):
    if not found.name.startswith(apart) and not found.name.endswith("__main__"):
        importlib.import_module(found.name)
print("imported")
"""


def run(code, folder):
    return subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", WINDOWS + code],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.slow
def test_everything_can_be_imported(tmp_path):
    done = run(EVERYTHING, tmp_path)
    assert done.stdout == "imported\n", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "estimate visits.csv",
        "estimate visits.csv --engine disk -o rates.parquet",
        "plan visits.csv --budget 3/day",
        "simulate updates.csv --budget 2/day --seeds 1",
    ],
)
def test_estimating_and_planning_run(words, tmp_path):
    (tmp_path / "visits.csv").write_text(VISITS)
    (tmp_path / "updates.csv").write_text(UPDATES)
    code = f"sys.argv[1:] = {words.split()!r}\nfrom observant.cli import main\nmain()"
    done = run(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_watching_says_what_it_needs(monkeypatch):
    async def start():
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(asyncio, "ProactorEventLoop", type(loop), raising=False)
        watch(loop, print)

    with pytest.raises(InputError, match="watching needs Linux or macOS"):
        asyncio.run(start())


def test_no_command_is_run_from_a_file_that_anybody_may_have_written(monkeypatch, tmp_path):
    file = tmp_path / "observant.toml"
    file.touch(0o600)
    monkeypatch.delattr("os.getuid")
    assert "does not say who can write" in who_else_can_write(file)
