"""The same pages watched by observant and by other watchers, with a browser and without one.

    python -m benchmarks.rival_browser [--pages 50] [--seconds 120] [--ways browser,plain]
    python -m benchmarks.rival_browser --ways minutes [--pages 50]
    python -m benchmarks.rival_browser --ways cron [--pages 50]

Each watches the pages of a server on loopback, which scripts make (`benchmarks.rendering`), as fast
as it can with what it comes with; both drive the same Chromium. After half of the time three pages
are edited. Measured are pages a minute, also for a minute of a processor, the memory of all its
processes at rest and at most, and the seconds from an edit to the moment when it is known.

The way `minutes` is what somebody new lives through: the program with its web page is started from
an empty folder, the pages are entered at once by its API, each to be looked at every ten seconds,
and when all were seen three are edited, a third of that time apart. Measured are the seconds until
the program answers, until the first page and all pages were seen, and from the edit until it is
known and a webhook has it.

The way `cron` is one run of a command, as a crontab starts it: the first look at all pages, a look
that finds the same, and one after three pages were edited, by `observant check --all`, webchanges
and urlwatch. Measured are seconds, processor time and memory of a run, and how many edits it names.

Rivals are installed from PyPI into environments of their own in a temporary folder, or
`--rival FOLDER` names one with changedetection.io and Playwright. Its fetcher reaches Chromium by
PLAYWRIGHT_DRIVER_URL; its wait before a page is read is the shortest that it allows (the usual five
seconds would make it slower on the clock, not by processor time).
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import URLError

from tests.observer_world import Site

from benchmarks.rendering import SHELLS, words
from observant.observer.browser import BrowserSettings
from observant.observer.browser.process_tree import ProcessTree
from observant.observer.settings import touch
from observant.store import Source, open_store

__all__ = ["main", "measure"]

OBSERVANT = [sys.executable, "-m", "observant"]
EDITED = (7, 23, 41)
EVERY = 10
"""Seconds between two looks at a page, for somebody new."""
_VERSION = "from importlib.metadata import version; print(version('changedetection.io'))"


class Pages:
    """Pages that scripts make, each under an address of its own; it counts who asks for them."""

    def __init__(self, number):
        self.versions, self.asked, self.first = [1] * number, 0, {}
        # A host for each page: no program asks one host for two pages at once if it is polite.
        self.sites = [Site(self.page, f"127.0.1.{k + 1}") for k in range(number)]

    def close(self):
        for site in self.sites:
            site.close()

    def page(self, path):
        kind, _, number = path.strip("/").replace("?", "/").partition("/")
        if kind not in {"shell", "plain", "data"} or not number.isdigit():
            return None
        k = int(number)
        text = words(f"{k}v{self.versions[k]}")
        if kind == "data":
            return text
        self.asked += 1
        self.first.setdefault(k, time.monotonic())
        shell = SHELLS[k % 2] if kind == "shell" else "<main>{0}</main>"
        return f"<html><body>{shell.format(text, k)}</body></html>"

    def address(self, k, way):
        kind = "shell" if way == "browser" else "plain"
        return f"{self.sites[k].url}{kind}/{k}"


class Hook:
    """Takes messages, and remembers when one first named an address."""

    def __init__(self):
        self.messages = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.messages.append((time.monotonic(), body.decode("utf-8", "replace")))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def named(self, address, since):
        return next((at for at, body in self.messages if address in body and at > since), None)


class Watcher:
    """A program that watches pages, with all its processes."""

    def __init__(self, folder):
        self.folder, self.processes, self.trees = folder, [], []

    def start(self, command, mark, **env):
        log = (self.folder / f"log{len(self.processes)}").open("wb")
        made = subprocess.Popen(  # noqa: S603
            command, stdout=log, stderr=log, cwd=self.folder, env=os.environ | env
        )
        self.processes.append(made)
        self.trees.append(ProcessTree(mark))

    def usage(self):
        found = [tree.usage() for tree in self.trees]
        return sum(one.seconds for one in found), sum(one.memory for one in found)

    def stop(self):
        for tree in self.trees:
            tree.kill()
        for process in self.processes:
            process.kill()
            process.wait()


class Observant(Watcher):
    name, begins = "observant", True

    def rest(self, way, address):
        """Start with one page to watch, which is no work."""
        self.store = self.folder / "observant.db"
        render = "always" if way == "browser" else "never"
        (self.folder / "observant.toml").write_text(
            'allow = ["127.0.0.0/8"]\nhost_delay = 0\nbudget = "40/s"\nspot_checks = 0\n'
            f'[defaults]\nrender = "{render}"\nmin_period = "1s"\nmax_period = "1min"\n'
            "robots = false\n"
        )
        self.watch([address], way)
        command = [*OBSERVANT, "run", "--store", str(self.store)]
        self.start(command, str(self.store))

    def serve(self, hook):
        """Start as somebody new does, and be told by a webhook."""
        self.store, port = self.folder / "observant.db", free_port()
        (self.folder / "observant.toml").write_text(
            f'allow = ["127.0.0.0/8"]\nbudget = "40/s"\n[defaults]\n'
            f'min_period = "{EVERY}s"\nmax_period = "{EVERY}s"\n'
        )
        at = ["--store", str(self.store)]
        token = self.command("access", "token", "bench", "--scope", "write", "--json", *at)
        self.token = json.loads(token)["secret"]
        self.command("notify", "add", "me", f"http://{hook}", *at)
        self.api = f"http://127.0.0.1:{port}/api/v1"
        self.start([*OBSERVANT, "serve", "--port", str(port), *at], str(self.store))
        patiently(lambda: self.ask("GET", "sources"), every=0.05)

    def command(self, *given):
        run = [*OBSERVANT, *given]
        return subprocess.check_output(run, text=True, cwd=self.folder)  # noqa: S603

    def ask(self, method, path, body=None):
        head = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        return asked(f"{self.api}/{path}", method, head, body)

    def enter(self, addresses, _hook):
        self.addresses = addresses
        self.ask("POST", "sources/import", [{"url": url} for url in addresses])

    def watch(self, addresses, _way):
        self.addresses = addresses
        with open_store(str(self.store)) as store:
            store.sources.add([Source(name=url, url=url) for url in addresses])
            touch(store)

    def known(self, k):
        with open_store(str(self.store)) as store:
            visits = store.visits.list(self.addresses[k], limit=5)
        return any(visit.outcome == "changed" for visit in visits)


class ChangeDetection(Watcher):
    name, begins = "changedetection.io", False

    def __init__(self, folder, python):
        super().__init__(folder)
        self.python = python

    def rest(self, way, _address):
        env = {"WEBDRIVER_DELAY_BEFORE_CONTENT_READY": "1", "MINIMUM_SECONDS_RECHECK_TIME": "1"}
        env |= {"DISABLE_VERSION_CHECK": "true", "ALLOW_IANA_RESTRICTED_ADDRESSES": "true"}
        if way == "browser":
            profile, port = self.folder / "profile", free_port()
            flags = ["--headless", "--no-sandbox", "--no-first-run", f"--user-data-dir={profile}"]
            program = BrowserSettings().program() or "chromium"
            self.start([program, *flags, f"--remote-debugging-port={port}"], str(profile))
            told = patiently(lambda: asked(f"http://127.0.0.1:{port}/json/version"))
            env["PLAYWRIGHT_DRIVER_URL"] = told["webSocketDebuggerUrl"]
        self.data, self.port = self.folder / "data", free_port()
        script = str(Path(self.python).with_name("changedetection.io"))
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-d", str(self.data), "-C", "-l", "ERROR"]
        self.start([self.python, script, *where], str(self.data), **env)
        patiently(lambda: self.ask("GET", "systeminfo"))
        for number in self.ask("GET", "watch"):
            self.ask("DELETE", f"watch/{number}")

    def ask(self, method, path, body=None):
        kept = json.loads((self.data / "changedetection.json").read_text())
        key = kept["settings"]["application"]["api_access_token"]
        head = {"x-api-key": key, "Content-Type": "application/json"}
        return asked(f"http://127.0.0.1:{self.port}/api/v1/{path}", method, head, body)

    def serve(self, _hook):
        self.rest("minutes", "")

    def enter(self, addresses, hook):
        more = {"notification_urls": [f"json://{hook}"]}
        self.watch(addresses, "minutes", EVERY, **more)

    def watch(self, addresses, way, seconds=1, **more):
        backend = "html_webdriver" if way == "browser" else "html_requests"
        often = {"weeks": 0, "days": 0, "hours": 0, "minutes": 0, "seconds": seconds}
        self.numbers = [
            self.ask(
                "POST",
                "watch",
                {
                    "url": url,
                    "fetch_backend": backend,
                    "time_between_check": often,
                    "time_between_check_use_default": False,
                    **more,
                },
            )["uuid"]
            for url in addresses
        ]

    def known(self, k):
        return self.ask("GET", f"watch/{self.numbers[k]}")["history_n"] > 1


def asked(url, method="GET", head=None, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, head or {}, method=method)  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        text = answer.read()
    return json.loads(text) if text.strip() else None


def patiently(work, seconds=120.0, every=0.5):
    """Try until it works."""
    end = time.monotonic() + seconds
    while True:
        try:
            return work()
        except (URLError, OSError, ValueError, KeyError):
            if time.monotonic() > end:
                raise
            time.sleep(every)


def free_port():
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def measured(watcher, way, pages, seconds):
    """Let a program watch these pages for a while."""
    server = Pages(pages)
    try:
        watcher.rest(way, server.address(0, way))
        end = time.monotonic() + 5 * seconds
        while watcher.begins and not server.asked and time.monotonic() < end:
            time.sleep(0.2)
        time.sleep(10)
        _, at_rest = watcher.usage()
        watcher.watch([server.address(k, way) for k in range(pages)], way)
        begin = time.monotonic()
        while server.asked < pages and time.monotonic() < begin + 10 * seconds:
            time.sleep(0.2)  # until every page was seen for the first time
        first = time.monotonic() - begin
        (cpu, most), asked_before, began = watcher.usage(), server.asked, time.monotonic()
        edited, waits = None, {}
        while time.monotonic() < began + seconds or (
            len(waits) < len(EDITED) and time.monotonic() < began + 5 * seconds
        ):
            now = time.monotonic()
            if edited is None and now > began + seconds / 2:
                used, peak = watcher.usage()
                done = server.asked - asked_before, used - cpu, now - began
                most, edited = max(most, peak), now
                for k in EDITED:
                    server.versions[k % pages] = 2
            for k in EDITED if edited else ():
                if k not in waits and watcher.known(k % pages):
                    waits[k] = time.monotonic() - edited
            most = max(most, watcher.usage()[1])
            time.sleep(0.5)
        number, cpu, took = done
    finally:
        watcher.stop()
        server.close()
    return {
        "seconds until all pages were seen": round(first, 1),
        "pages a minute": round(60 * number / took, 1),
        "pages a minute of a processor": round(60 * number / max(cpu, 0.01), 1),
        "seconds of processor time a page": round(cpu / max(number, 1), 3),
        "megabytes at rest": at_rest >> 20,
        f"megabytes at most, {pages} pages": most >> 20,
        "seconds until an edit was known": [round(waits[k], 1) for k in EDITED if k in waits],
    }


def first_minutes(watcher, pages, most=600.0):
    """What somebody new waits for."""
    server, hook = Pages(pages), Hook()
    addresses = [server.address(k, "plain") for k in range(pages)]
    try:
        begin = time.monotonic()
        watcher.serve(hook.address)
        up = time.monotonic() - begin
        begin = time.monotonic()
        watcher.enter(addresses, hook.address)
        entered = time.monotonic() - begin
        while len(server.first) < pages and time.monotonic() < begin + most:
            time.sleep(0.05)
        seen = [at - begin for at in server.first.values()]
        time.sleep(2 * EVERY)
        begin, edited, known, told = time.monotonic(), {}, {}, {}
        while len(told) < len(EDITED) and time.monotonic() < begin + most:
            for n, k in enumerate(EDITED):
                # A third of the time between two looks apart: when an edit comes is chance.
                if k not in edited and time.monotonic() > begin + n * EVERY / len(EDITED):
                    server.versions[k % pages], edited[k] = 2, time.monotonic()
                if k not in edited:
                    continue
                if k not in known and watcher.known(k % pages):
                    known[k] = time.monotonic() - edited[k]
                at = hook.named(addresses[k % pages], edited[k])
                if k not in told and at is not None:
                    told[k] = at - edited[k]
            time.sleep(0.1)
        false = sum(at < begin for at, _ in hook.messages)
    finally:
        watcher.stop()
        server.close()
        hook.server.shutdown()
    return {
        "seconds until the program answers": round(up, 1),
        f"seconds to enter {pages} pages": round(entered, 1),
        "seconds until the first page was seen": round(min(seen), 1),
        f"seconds until all {pages} were seen": round(max(seen), 1),
        "seconds from an edit until it is known": [round(known[k], 1) for k in EDITED],
        "seconds from an edit until it is told": [round(told[k], 1) for k in EDITED],
        "messages before anything was edited": false,
    }


def one_run(command, folder, addresses):
    """What a command took, and which of these addresses it names."""
    with (folder / "printed").open("wb") as printed:
        begin = time.monotonic()
        made = subprocess.Popen(command, stdout=printed, stderr=printed, cwd=folder)  # noqa: S603
        _, _, used = os.wait4(made.pid, 0)
        took = time.monotonic() - begin
    text = (folder / "printed").read_text("utf-8", "replace")
    return {
        "seconds": round(took, 1),
        "of processor time": round(used.ru_utime + used.ru_stime, 1),
        "megabytes": used.ru_maxrss >> 10,
        "edited pages named": sum(url in text for url in addresses),
    }


def cron(folder, pages):
    """One run after the other, as a crontab starts them."""
    server, found = Pages(pages), {}
    addresses = [server.address(k, "plain") for k in range(pages)]
    edited = [addresses[k % pages] for k in EDITED]
    (folder / "observant.toml").write_text('allow = ["127.0.0.0/8"]\n')
    (folder / "list.txt").write_text("\n".join(addresses))
    (folder / "jobs.yaml").write_text("\n---\n".join(f"url: {url}" for url in addresses))
    subprocess.run([*OBSERVANT, "add", "--file", "list.txt", "--later"], cwd=folder, check=True)  # noqa: S603
    commands = {"observant": [*OBSERVANT, "check", "--all"]}
    for name, kept in (("webchanges", "--database"), ("urlwatch", "--cache")):
        python = installed(folder / name, name)
        files = ["--config", f"{name}.yaml", kept, f"{name}.db"]
        jobs = "--jobs" if name == "webchanges" else "--urls"
        commands[name] = [str(Path(python).with_name(name)), jobs, "jobs.yaml", *files]
    try:
        for name, command in commands.items():
            server.versions = [1] * pages
            found[name] = {"first": one_run(command, folder, edited)}
            found[name]["the same"] = one_run(command, folder, edited)
            for k in EDITED:
                server.versions[k % pages] = 2
            found[name]["three edits"] = one_run(command, folder, edited)
            print(json.dumps({name: found[name]}), file=sys.stderr)
    finally:
        server.close()
    return found


def installed(folder, *packages):
    """The Python of an environment of its own with these packages in it."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)  # noqa: S603
    python = folder / "bin" / "python"
    words = [str(python), "-m", "pip", "install", "-q", *packages]
    subprocess.run(words, check=True)  # noqa: S603
    return str(python)


def measure(pages=50, seconds=120.0, ways=("browser", "plain"), rival=""):
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        if "cron" in ways:
            return {"cron": cron(place, pages)}
        names = "changedetection.io", "playwright"
        python = (
            str(Path(rival) / "bin" / "python") if rival else installed(place / "rival", *names)
        )
        version = [
            python,
            "-c",
            _VERSION,
        ]
        said = subprocess.check_output(version, text=True)  # noqa: S603
        found = {"changedetection.io": said.strip()}
        for way in ways:
            found[way] = {}
            for kind in (Observant, ChangeDetection):
                folder = place / f"{kind.name}-{way}"
                folder.mkdir()
                watcher = kind(folder) if kind is Observant else kind(folder, python)
                if way == "minutes":
                    found[way][kind.name] = first_minutes(watcher, pages)
                else:
                    found[way][kind.name] = measured(watcher, way, pages, seconds)
                print(json.dumps({way: {kind.name: found[way][kind.name]}}), file=sys.stderr)
        return found


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pages", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--ways", default="browser,plain")
    parser.add_argument("--rival", default="", help="a folder with an environment that has it")
    given = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and nothing stays behind
    found = measure(given.pages, given.seconds, given.ways.split(","), given.rival)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
