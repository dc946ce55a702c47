"""A real PostgreSQL for the tests: started in a temporary folder, stopped at the end."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
import uuid
from importlib.resources import files
from pathlib import Path

import pytest

from observant.store import open_store
from observant.store.backup import TABLES

from .patience import PATIENCE

USER = "observant"


def _binaries():
    """The folder of the newest server, or None."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda p: float(p.parts[-3])
    )
    on_path = shutil.which("postgres")
    return found[-1].parent if found else Path(on_path).parent if on_path else None


def _other_user():
    """PostgreSQL refuses to run as root: somebody else must."""
    if os.geteuid():
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.skip("running as root, and there is no other user to run PostgreSQL")


def _run(command, folder, user):
    who = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    log = folder / "commands.log"
    with log.open("ab") as output:
        subprocess.run(  # noqa: S603
            [str(part) for part in command],
            check=True,
            cwd=folder,
            stdout=output,
            stderr=output,
            stdin=subprocess.DEVNULL,
            timeout=PATIENCE,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            **who,
        )


class Server:
    """A server that can be stopped and started again."""

    def __init__(self, binaries, folder, user):
        self.url = f"postgresql://{USER}@/postgres?host={folder}"
        self._control = [binaries / "pg_ctl", "-D", folder / "data", "-w", "-t", "100"]
        self._options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
        self._folder, self._user = folder, user

    def start(self):
        log = self._folder / "log"
        self._run([*self._control, "-l", log, "-o", self._options, "start"])

    def stop(self, mode="immediate"):
        self._run([*self._control, "-m", mode, "stop"])

    def _run(self, command):
        _run(command, self._folder, self._user)


def server():
    """Yield the URL of a server that listens on a socket in a folder of its own only."""
    for made in servers():
        yield made.url


def servers():
    """Yield one `Server`, started."""
    pytest.importorskip("psycopg")
    binaries = _binaries()
    if binaries is None:
        pytest.skip("the server programs of PostgreSQL are not installed")
    user = _other_user()
    folder = Path(tempfile.mkdtemp(prefix="obs-pg-", dir="/tmp"))
    try:
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        data = folder / "data"
        _run(
            [binaries / "initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync"],
            folder,
            user,
        )
        made = Server(binaries, folder, user)
        made.start()
        try:
            yield made
        finally:
            made.stop()
    finally:
        for _ in range(5):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break
            time.sleep(0.2)


@pytest.fixture(scope="session")
def postgres():
    """The URL of a running server; a test is skipped where there is none."""
    yield from server()


ENGINE_NAMES = sorted(
    file.name.removesuffix(".sql")
    for file in files("observant.store").joinpath("sql").iterdir()
    if file.name != "common.sql"
)
"""The databases that there is SQL for."""


def new_place(engine, request, tmp_path):
    """An empty place for a store on this engine."""
    if engine == "sqlite":
        return str(tmp_path / "store.db")
    if engine == "postgres":
        return f"{request.getfixturevalue('postgres')}&schema=test_{uuid.uuid4().hex}"
    raise LookupError(f"say here where the tests can make a store on {engine}")


@pytest.fixture(params=ENGINE_NAMES)
def place(request, tmp_path):
    """An empty place for a store, on each engine."""
    return new_place(request.param, request, tmp_path)


@pytest.fixture(scope="session")
def shared_postgres(postgres):
    """One schema for many tests: making one takes longer than most tests."""
    with open_store(f"{postgres}&schema=shared", durable=False) as opened:
        yield opened


@pytest.fixture(params=ENGINE_NAMES)
def store(request, tmp_path):
    """An empty store, on each engine."""
    if request.param != "postgres":
        place = new_place(request.param, request, tmp_path)
        with open_store(place, durable=False) as opened:
            yield opened
        return
    opened = request.getfixturevalue("shared_postgres")

    def empty(session):
        for table in reversed(TABLES):
            session.change(f"DELETE FROM {table}", {})  # noqa: S608
        session.change("UPDATE leases SET observer = '', fence = 0, expires_at = 0", {})

    opened.engine.write(empty)
    yield opened
