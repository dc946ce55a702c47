"""A browser, the service as people start it, and somebody who is told, for tests."""

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from observant.observer.browser.settings import BrowserSettings
from observant.observer.clock import AcceleratedClock
from observant.times import DAY

from .browser_scripts import ALARM, COMPUTED
from .patience import PATIENCE, patience_here, until

SIZES = {"desktop": (1440, 900), "phone": (390, 844)}


def chromium():
    """The browser of this machine, if there is one."""
    return BrowserSettings().program() or None


# -- the service ------------------------------------------------------------------------------


class Service:
    """`observant serve` in a process of its own."""

    def __init__(self, folder, *options, config=""):
        self.folder = folder
        self.log = folder / f"serve-{len(list(folder.glob('serve-*')))}.log"
        settings = folder / "observant.toml"
        settings.write_text(config, "utf-8")
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603
                [
                    sys.executable, "-m", "observant", "serve", "--port", "0",
                    "--store", str(folder / "watch.db"), "--config", str(settings), *options,
                ],
                stdout=log, stderr=log, cwd=folder,
            )  # fmt: skip
        try:
            self.address = until(self._address, "the service to start")
        except BaseException:
            self.stop()
            raise

    def _address(self):
        assert self._process.poll() is None, self.told()
        found = re.search(r"^Serving at (http://\S+)/\n", self.told(), re.MULTILINE)
        return found and found[1]

    def told(self):
        return self.log.read_text("utf-8", "replace")

    @property
    def credentials(self):
        """Name and password, each time that they were printed."""
        return re.findall(r"sign in as '(\S+)' with the password (\S+)", self.told())

    def stop(self):
        """End it as Ctrl-C does."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        return self._process.returncode


@contextmanager
def service(folder, *options, config=""):
    made = Service(folder, *options, config=config)
    try:
        yield made
    finally:
        made.stop()


def leap(server, days, speed=600.0):
    """Let the synthetic web be at this day of its life now, and go on quickly."""
    ticks = time.monotonic() - days * DAY / speed
    server.begin(AcceleratedClock(speed=speed, start=time.time() - 60 * DAY, origin=ticks))


# -- somebody who is told -----------------------------------------------------------------------


class Receiver:
    """A local endpoint for a webhook; keeps headers and bodies."""

    def __init__(self):
        self.messages = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.messages.append((dict(self.headers), body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def events(self, topic):
        """Events of a topic that have come, each with the headers and body that brought it."""
        return [
            (event, headers, body)
            for headers, body in list(self.messages)
            for event in json.loads(body)["events"]
            if event["topic"] == topic
        ]

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


# -- somebody who looks ---------------------------------------------------------------------------


class Visitor:
    """Somebody with a browser of this size, and everything that went wrong before their eyes."""

    def __init__(self, browser, address, size="desktop", *, state=None):
        width, height = SIZES[size]
        self.address, self.width, self.size = address, width, size
        self.wrong, self.dialogs, self.requested = [], [], Counter()
        phone = {"is_mobile": True, "has_touch": True} if size == "phone" else {}
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            storage_state=state,
            reduced_motion="reduce",
            accept_downloads=True,
            **phone,
        )
        # An element that is not there never comes; a page that is asked for, at last.
        self.context.set_default_timeout(1000 * patience_here())
        self.context.set_default_navigation_timeout(1000 * PATIENCE)
        self.context.add_init_script(ALARM)
        self.context.on("request", self._requested)
        self.context.on("response", self._answered)
        self.context.on("requestfailed", self._failed)
        self.context.on("console", self._said)
        self.context.on("weberror", lambda error: self.wrong.append(f"script: {error.error}"))
        self.page = self.context.new_page()
        self.page.on("dialog", self._asked)
        self._expected = 0

    def _requested(self, request):
        self.requested[request.url.partition("?")[0]] += 1
        if not request.url.startswith((f"{self.address}/", "data:", "blob:")):
            self.wrong.append(f"outside: {request.url}")

    def _answered(self, response):
        if response.status >= 400 and response.status != self._expected:
            self.wrong.append(f"{response.status}: {response.url}")

    def _failed(self, request):
        # A page that is left takes the requests that are under way with it.
        if request.failure != "net::ERR_ABORTED":
            self.wrong.append(f"failed: {request.url} {request.failure}")

    def _said(self, message):
        told = f"the server responded with a status of {self._expected} "
        if message.type in {"error", "warning"} and told not in message.text:
            self.wrong.append(f"console: {message.text}")

    def _asked(self, dialog):
        self.dialogs.append(dialog.message)
        dialog.accept()

    @contextmanager
    def expecting(self, status):
        """An answer of this status is wanted here."""
        self._expected = status
        yield
        self.page.evaluate("1")  # what the console had to say has come by now
        self._expected = 0

    def sign_in(self, name, password):
        self.page.goto(f"{self.address}/login")
        self.page.get_by_label("Name").fill(name)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.get_by_role("button", name="Sign out").wait_for()

    def go(self, path):
        """Open a page; come back when nothing on it is still being computed or drawn."""
        self.page.goto(f"{self.address}{path}")
        return self.settled()

    def computed(self):
        """Wait until the page has stopped loading itself again."""
        until(self._is_computed, "the page to be computed")

    def _is_computed(self):
        from playwright.sync_api import Error

        try:
            return self.page.evaluate(COMPUTED)
        except Error:  # it has just begun to load itself again
            return False

    def settled(self):
        """Wait until the page has stopped loading itself again, and its figures are drawn."""
        self.computed()
        figures = self.page.locator("figure[data-chart]")
        for place in range(figures.count()):
            figure = figures.nth(place)
            figure.scroll_into_view_if_needed()
            # Drawn, or saying in words why there is nothing to draw.
            figure.locator("canvas, .missing:not(:text('being computed'))").first.wait_for()
        self.page.evaluate("scrollTo(0, 0)")
        return self.page

    def seen(self):
        """What is before their eyes, in words, for a test that fails."""
        text = self.page.locator("body").inner_text()
        return "\n".join([self.page.url, *self.wrong, text[:2000]])

    def close(self):
        self.context.close()


@contextmanager
def visitor(browser, address, size="desktop", *, state=None):
    """Somebody who looks; nothing may have gone wrong before their eyes."""
    made = Visitor(browser, address, size, state=state)
    try:
        yield made
        assert made.wrong == []
    except BaseException as error:
        error.add_note(made.seen())
        raise
    finally:
        made.close()
