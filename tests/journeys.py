"""Walk a journey: do what its page says, in order, in an empty folder, as a new user would.

    python -m tests.journeys [docs/journey-pages.md ...]   walk, and renew the pictures

That walk uses the very ports that a page names, since its pictures show them.
A page is Markdown. What is done with it, from top to bottom:

- A block with a title is written as that file.
- ```console: each `$ command` is run by bash and must succeed, unless the page shows `Error:`. What
  the page shows below it is compared with what it printed (`...` stands for anything). A command
  that ends in `&` goes on in the background; the page shows what it prints when it is ready, or
  nothing if nobody has to wait for it. `kill %2` ends the second of them.
- `$ export NAME=VALUE`: for all that comes after it, in Python too.
- ```python with `>>>`: a doctest; all of a page share their names.
- `<!-- ports: 8000 8321 -->`: ports that the page uses. Others that are free take their place.
- `<!-- needs: java pyspark -->`: programs and packages. Where one is missing, the walk is skipped
  with a reason. For `postgresql` a server is started; it takes the place of the DATABASE_URL that
  the page exports.
- `<!-- screenshot: journey-x.png http://127.0.0.1:8321/ 700 -->`: what a browser shows there, so
  many points high, to the owner whom `observant serve` has made. Where there is no Chromium, the
  picture is not asked for.
- `![...](images/journey-*)`: the commands must have made a picture of this name.
"""

from __future__ import annotations

import doctest
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, chdir, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch
from urllib.parse import urlsplit

import pytest
from tests.browser_world import chromium, visitor
from tests.patience import PATIENCE
from tests.postgres_server import server as postgres_server

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs").glob("journey-*.md"))
STEP = re.compile(
    r"^```(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<body>.*?)^```$"
    r"|^<!-- (?P<order>\w+): (?P<words>.*?) -->$",
    re.DOTALL | re.MULTILINE,
)
PICTURE = re.compile(r"!\[[^\]]*\]\(images/(journey-[\w.-]+)\)")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Journey:
    """One walk through one page, in `folder`; with `own_ports` on other ports than it says."""

    def __init__(self, page: Path, folder: Path, *, own_ports: bool = True) -> None:
        self.page, self.folder, self._own_ports = page, folder, own_ports
        self.shown_as: dict[str, str] = {}
        """Words of the page, and what stands for them in this walk: ports, addresses."""
        self.names: dict[str, object] = {"__name__": "__main__"}
        self.environment = os.environ | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONUNBUFFERED": "1",
            "COLUMNS": "100",
            "NO_COLOR": "1",
        }
        self._running = ExitStack()
        self._jobs: list[tuple[subprocess.Popen[bytes], Path]] = []
        self._given: dict[str, str] = {}
        self._unseen: set[str] = set()

    def walk(self) -> None:
        """Do everything that the page says, then stop what still runs."""
        text = self.page.read_text("utf-8")
        with self._running, self._logs_of_jobs():
            for step in STEP.finditer(text):
                if step["order"]:
                    self._obey(step["order"], step["words"])
                elif step["title"]:
                    file = self.folder / step["title"]
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(self._here(step["body"]), "utf-8")
                elif step["kind"] == "console":
                    for command, shown in transcripts(step["body"]):
                        self._run(command, shown)
                elif step["kind"] == "python" and ">>>" in step["body"]:
                    self._examples(step["body"], line=text.count("\n", 0, step.start()))
        for picture in self.pictures():
            if picture in self._unseen:
                continue
            file = self.folder / picture
            assert file.is_file(), f"{self.page.name} shows {picture}, which nothing has made"
            assert file.stat().st_size > 2_000, f"{picture} is empty"

    def pictures(self) -> list[str]:
        return PICTURE.findall(self.page.read_text("utf-8"))

    def _obey(self, order: str, words: str) -> None:
        if order == "ports" and self._own_ports:
            self.shown_as |= {port: str(free_port()) for port in words.split()}
        elif order == "needs":
            for word in words.split():
                self._need(word)
        elif order == "screenshot":
            self._look(*words.split())

    def _need(self, what: str) -> None:
        if what == "postgresql":
            url = self._running.enter_context(contextmanager(postgres_server)())
            self._given["DATABASE_URL"] = self.environment["DATABASE_URL"] = url
        elif shutil.which(what) is None and find_spec(what) is None:
            pytest.skip(f"there is no {what} on this machine")

    def _here(self, text: str) -> str:
        """The page's words with those of this walk."""
        for shown, real in self.shown_as.items():
            text = re.sub(rf"(?<!\w){re.escape(shown)}(?!\w)", lambda _, real=real: real, text)
        return text

    def _there(self, text: str) -> str:
        """What was printed, with the words of the page."""
        for shown, real in self.shown_as.items():
            text = re.sub(rf"(?<!\w){re.escape(real)}(?!\w)", lambda _, shown=shown: shown, text)
        return text

    def _run(self, command: str, shown: str) -> None:
        if command.startswith("export "):
            self._export(command)
        elif command.endswith("&"):
            self._start(command[:-1], shown)
        else:
            if command.startswith("kill "):
                command = re.sub(
                    r"%(\d+)", lambda job: str(self._jobs[int(job[1]) - 1][0].pid), command
                )
            status, out = self._bash(command)
            printed = self._there(out)
            told = f"{self.page.name}: $ {command}\n{printed}"
            assert (status != 0) == ("Error:" in shown), told
            assert not shown.strip() or same(shown, printed), (
                f"{told}\n-- the page shows --\n{shown}"
            )

    def _bash(self, command: str) -> tuple[int, str]:
        done = subprocess.run(  # noqa: S603 - our own page
            ["bash", "-c", self._here(command)],  # noqa: S607
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return done.returncode, done.stdout

    def _export(self, command: str) -> None:
        name = command.removeprefix("export ").partition("=")[0]
        status, value = self._bash(f"{command} && printenv {name}")
        value = value.removesuffix("\n")
        assert status == 0, f"{self.page.name}: $ {command}\n{value}"
        if name in self._given:
            self.shown_as[value] = self._given[name]
        else:
            self.environment[name] = value

    @contextmanager
    def _logs_of_jobs(self) -> Iterator[None]:
        """What failed shows what the commands in the background have printed last."""
        try:
            yield
        except AssertionError as error:
            for _, log in self._jobs:
                error.add_note(log.read_text("utf-8", "replace")[-4000:])
            raise

    def _start(self, command: str, shown: str) -> None:
        """Start a command in the background and wait until it has printed what the page shows."""
        with tempfile.NamedTemporaryFile("w+", suffix=".log", delete=False) as log:
            started = subprocess.Popen(  # noqa: S603
                ["bash", "-c", f"exec {self._here(command)}"],  # noqa: S607
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._running.callback(Path(log.name).unlink)
        self._running.callback(stop, started)
        self._jobs.append((started, Path(log.name)))
        if not shown.strip():
            return
        until = time.monotonic() + PATIENCE
        while True:
            printed = self._there(Path(log.name).read_text("utf-8"))
            if same(shown, printed):
                return
            told = f"{self.page.name}: $ {command}&\n{printed}\n-- the page shows --\n{shown}"
            assert started.poll() is None, told
            assert time.monotonic() < until, told
            time.sleep(0.05)

    def _examples(self, body: str, line: int) -> None:
        parsed = doctest.DocTestParser().get_doctest(
            self._here(body), self.names, self.page.name, str(self.page), line
        )
        parsed.globs = self.names  # shared, not copied
        out: list[str] = []
        with chdir(self.folder), patch.dict(os.environ, self.environment):
            runner = doctest.DocTestRunner(optionflags=FLAGS)
            runner.run(parsed, out=out.append, clear_globs=False)
        assert not runner.failures, "".join(out)

    def _look(self, picture: str, url: str, height: str = "800") -> None:
        """Take a picture of a page of the dashboard, as its owner sees it."""
        if chromium() is None:
            self._unseen.add(picture)
            return
        from playwright.sync_api import sync_playwright

        told = "".join(log.read_text("utf-8") for _, log in self._jobs)
        owner = re.search(r"sign in as '(\S+)' with the password (\S+)", told)
        assert owner, f"{self.page.name}: no password was printed, so nobody can look\n{told}"
        place = urlsplit(self._here(url))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium(), args=["--no-sandbox"], timeout=1000 * PATIENCE
            )
            with visitor(browser, f"{place.scheme}://{place.netloc}") as someone:
                someone.page.set_viewport_size({"width": 1280, "height": int(height)})
                someone.sign_in(owner[1], owner[2])
                someone.page.goto(place.geturl())
                someone.computed()
                figures = someone.page.locator("figure[data-chart]")
                for figure in (figures.nth(n) for n in range(figures.count())):
                    if figure.bounding_box()["y"] < int(height):
                        figure.locator("canvas, .missing").first.wait_for()
                someone.page.screenshot(path=self.folder / picture)
            browser.close()


def transcripts(block: str) -> list[tuple[str, str]]:
    """Split a console block into commands and the output shown below each."""
    found = []
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        while command.endswith("\\"):
            more, _, shown = shown.partition("\n")
            command = command[:-1] + more
        found.append((command.strip(), shown))
    return found


def same(shown: str, printed: str) -> bool:
    return doctest.OutputChecker().check_output(shown, printed, FLAGS)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def stop(started: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C does; by force if that does not help."""
    for how in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        if started.poll() is None:
            os.killpg(started.pid, how)
            try:
                started.wait(60)
            except subprocess.TimeoutExpired:
                continue


def main() -> None:
    for page in [Path(word) for word in sys.argv[1:]] or PAGES:
        with tempfile.TemporaryDirectory() as folder:
            journey = Journey(page, Path(folder), own_ports=False)
            start = time.monotonic()
            try:
                journey.walk()
            except pytest.skip.Exception as reason:
                print(f"{page.name}: skipped, {reason}")  # noqa: T201
                continue
            made = [name for name in journey.pictures() if (Path(folder) / name).is_file()]
            for picture in made:
                shutil.copy(Path(folder) / picture, ROOT / "docs" / "images" / picture)
            print(f"{page.name}: {time.monotonic() - start:.0f} s, {len(made)} pictures")  # noqa: T201


if __name__ == "__main__":
    main()
