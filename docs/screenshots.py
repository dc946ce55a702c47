"""Renew the pictures of the dashboard: `python docs/screenshots.py [FOLDER|browser]`.

Watches the demo world for a minute, serves its store, signs in with Chromium and takes pictures.
With FOLDER, which holds the files of `observant demo`, that demo is shown. Then a shop on this
machine is watched with a browser, for the pictures of choosing, of steps and of a difference; with
``browser`` only these are taken.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright

from observant.observer.browser.settings import BrowserSettings

IMAGES = Path(__file__).parent / "images"
OBSERVANT = [sys.executable, "-m", "observant"]
PAGES = {
    "dashboard.png": ("/", 1280, 960),
    "dashboard-source.png": ("", 1280, 1120),
    "dashboard-plan.png": ("/plan", 1280, 1000),
}
"""File, page ("" is that of a source with many visits), width and height."""


STEPS = {"steps": "dismiss\nchoose Large in #size\nwait for .price"}
BROWSER_PAGES = {
    "browser-choose.png": ("/sources/1/choose?css=b.price", 1280, 720),
    "browser-steps.png": (f"/sources/1/steps?{urlencode(STEPS)}", 1280, 1000),
    "browser-difference.png": ("/sources/1?look=differences#pictures", 1280, 600),
}
SHOP = """<!doctype html><html><head><title>Lamps</title><style>body {{ font: 18px sans-serif;
margin: 2em }} .card {{ border: 1px solid #bbb; border-radius: 8px; padding: 1em 2em; width: 24em }}
#wall {{ position: fixed; inset: auto 0 0 0; background: #eee; padding: 1em }} .price {{ color: #a00
}}</style></head><body><h1>Lamps of the week</h1><div class=card><h2>Desk lamp</h2><p>Oak and brass,
with a long cord.</p><select id=size><option>Small</option><option>Large</option></select>
<p><b class=price>{0}</b></p><p id=stock>{1}</p></div><div id=wall>We would like to set cookies.
<button onclick="wall.remove()">Reject all</button></div></body></html>"""


def main() -> None:
    """Take all pictures."""
    with tempfile.TemporaryDirectory() as place:
        if sys.argv[1:] != ["browser"]:
            folder = Path(sys.argv[1]) if sys.argv[1:] else Path(place) / "demo"
            if not sys.argv[1:]:
                observant("demo", "--pages", "2000", "--seconds", "120", "-d", str(folder))
            shutil.copy(folder / "observant.db", Path(place) / "shown.db")
            show(place, PAGES)
        with shop() as (address, say):
            (Path(place) / "observant.toml").write_text('allow = ["127.0.0.0/8"]\nhost_delay = 0\n')
            store = ["--store", str(Path(place) / "shop.db")]
            say("49 EUR", "In stock: 12")
            observant("add", address, "--render", "always", *store, cwd=place)
            say("44 EUR", "In stock: 3")
            observant("check", address, *store, cwd=place)
            show(place, BROWSER_PAGES, "shop.db")


def observant(*words: str, cwd: str | None = None) -> None:
    """Run a command."""
    subprocess.run([*OBSERVANT, *words], check=False, cwd=cwd)  # noqa: S603


@contextmanager
def shop():
    """A page on this machine, and a function that sets its price and stock."""
    said = ["", ""]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = SHOP.format(*said).encode()
            found = self.path == "/lamps"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body) if found else 0))
            self.end_headers()
            self.wfile.write(body if found else b"")

        def log_message(self, *_):
            pass

    def say(*words):
        said[:] = words

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/lamps", say
    server.shutdown()


def show(place: str, pages: dict[str, tuple[str, int, int]], store: str = "shown.db") -> None:
    """Serve a store and take pictures of these pages."""
    serving = subprocess.Popen(  # noqa: S603
        [*OBSERVANT, "serve", "--no-observer", "--port", "0", "--store", str(Path(place) / store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=place,
    )
    try:
        told = "".join(serving.stdout.readline() for _ in range(2))
        address = re.search(r"http://\S+", told)[0].rstrip("/")
        take(address, re.search(r"password (\S+)", told)[1], pages)
    finally:
        serving.terminate()
        serving.wait()


@contextmanager
def signed_in(address: str, password: str, **options):
    """A page of a browser whose owner has signed in."""
    with sync_playwright() as playwright:
        program = BrowserSettings().program() or None
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(**options)
        page.set_default_timeout(180_000)
        page.goto(f"{address}/login")
        page.fill("input[name=name]", "owner")
        page.fill("input[name=password]", password)
        page.click("main button")
        yield page
        browser.close()


def drawn(page) -> None:
    """Wait until every chart in sight is drawn, or says why there is none."""
    page.wait_for_function(
        """() => [...document.querySelectorAll("figure[data-chart]")].filter((figure) => {
          const box = figure.getBoundingClientRect();
          return box.bottom > 0 && box.top < innerHeight;
        }).every((figure) => {
          const said = figure.querySelector(".drawing .missing");
          const waits = !said || said.textContent.includes("…");
          return figure.querySelector(".drawing canvas") || !waits;
        })"""
    )
    page.wait_for_timeout(300)  # the last frame of it


def typical(page, address: str) -> str:
    """The path of the most visited source that never failed and changed at two visits of five."""
    asked = "sort=visits&descending=true&limit=500"
    for row in page.request.get(f"{address}/api/v1/sources?{asked}").json()["sources"]:
        if not row["failures"] and 0.3 < row["changes"] / row["visits"] < 0.5:
            return f"/sources/{row['id']}"
    raise SystemExit("of the most visited sources each fails, or changes always or never")


def take(address: str, password: str, pages: dict[str, tuple[str, int, int]]) -> None:
    """Sign in and take the pictures."""
    with signed_in(address, password, color_scheme="light") as page:
        source = ""
        if pages is PAGES:
            source = typical(page, address)
        for taking in (False, True):  # the first time, answers that take a while are begun
            for name, (where, width, height) in pages.items():
                page.set_viewport_size({"width": width, "height": height})
                page.goto(f"{address}{where or source}")
                if "/steps" in where:
                    page.click("button[name=try]")
                page.wait_for_timeout(12_000)
                drawn(page)
                if taking:
                    page.screenshot(path=IMAGES / name)


if __name__ == "__main__":
    main()
