# ruff: noqa: E501 (what is written down is prose)
"""Walk through the dashboard as a new user does, and write the walk down: `python docs/walk.py`.

Serves a small site on this machine and an empty store, signs in with Chromium, adds the site, changes
it, and takes pictures on the way at 1440 and 390 pixels, light and dark. Writes walk.md.
"""

import re
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from screenshots import drawn, signed_in

DOCS = Path(__file__).parent
IMAGES = DOCS / "images"
OBSERVANT = [sys.executable, "-m", "observant"]
SIZES = {1440: 900, 390: 844}
SCHEMES = ("light", "dark")
NEWS = """<html><head><title>Harbour news</title><link rel="alternate" type="application/rss+xml"
href="/feed.xml"></head><body><h1>Harbour news</h1><p>The ferry to the island sails at {0}.</p>
<p>A ticket costs {1} EUR. Dogs travel free of charge, and bicycles find room on the lower deck.</p>
<p>Tickets are sold at the pier from one hour before departure, by card or in cash.</p></body></html>"""
FEED = """<rss version="2.0"><channel><title>Harbour</title><item><title>New timetable</title>
<link>http://127.0.0.1/1</link></item></channel></rss>"""
CONFIG = 'allow = ["127.0.0.0/8"]\nhost_delay = 0\nbudget = "200/day"\n'
HEAD = """# A walk through the dashboard

This page is written by a program, `docs/walk.py`, that takes the walk: an empty store, a small site on the same machine, and a browser. Each picture is of the page as it
was then, on a desk (1440 pixels wide) and on a phone (390), in the light and in the dark. The last picture of a step is the same page of the same site in the first release (15 November 2026), for comparison.

"""
STEPS = {
    "add": "Add an address",
    "home": "What changed",
    "source": "One source",
    "difference": "The difference",
    "edit": "Edit with a preview",
    "plan": "The plan",
}
TEXTS = {
    "add": "*Add sources* looks at each address and says what it found before anything is watched: here a page that names a feed, the feed itself, and JSON.",
    "home": "The first page shows what changed, newest first, with one click to mark a change as seen, to ignore the part or to be notified of changes like it. {change}",
    "source": "When is it visited next, and why? The sentence at the top answers this; the estimate of its rate is below.",
    "difference": "What was removed and what was added, word by word; a price is one word. Mark a text to ignore it.",
    "edit": "Every setting has a field, and the preview follows what you type: it shows the text that would be watched.",
    "plan": "How the budget is shared out, and what another budget would buy.",
}


class Site(BaseHTTPRequestHandler):
    """A page that changes, a feed, and JSON."""

    said = ("9:30", "12.50")

    def do_GET(self):
        pages = {
            "/news": ("text/html", NEWS.format(*self.said)),
            "/feed.xml": ("application/rss+xml", FEED),
            "/tide.json": ("application/json", '{"tide": {"high": "4.1 m", "at": "06:12"}}'),
        }
        kind, text = pages.get(self.path, ("text/plain", ""))
        self.send_response(200 if text else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


def main() -> None:
    """Take the walk, and write it down."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as place:
        Path(place, "observant.toml").write_text(CONFIG)
        serving = subprocess.Popen(  # noqa: S603
            [*OBSERVANT, "serve", "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=place,
        )
        try:
            told = "".join(serving.stdout.readline() for _ in range(2))
            address = re.search(r"http://\S+", told)[0].rstrip("/")
            password = re.search(r"password (\S+)", told)[1]
            said = walk(address, password, f"http://127.0.0.1:{server.server_port}")
        finally:
            serving.terminate()
            serving.wait()
    server.shutdown()
    (DOCS / "walk.md").write_text(written(said), "utf-8")


def walk(address: str, password: str, site: str) -> dict[str, str]:
    """Go from page to page; returns what was seen on the way."""
    with signed_in(address, password, locale="en-GB") as page:
        page.goto(f"{address}/add")
        page.fill(
            "#urls", "\n".join(f"{site}/{name}" for name in ("news", "feed.xml", "tide.json"))
        )
        page.fill("#new-tags", "harbour")
        page.get_by_role("button", name="See what is there").click()
        page.get_by_text("This is a feed").wait_for()
        pictures(page, "add")
        begun = time.monotonic()
        page.get_by_role("button", name="Watch", exact=True).click()
        page.get_by_text("3 of 3 on this page").wait_for()
        while "not seen yet" in page.inner_text("tbody"):
            page.wait_for_timeout(500)
            page.reload()
        seen = time.monotonic() - begun
        source = page.get_by_role("link", name="Harbour news").get_attribute("href")
        Site.said = ("9:45", "13.00")
        page.goto(f"{address}{source}")
        page.get_by_role("button", name="Visit now").click()
        page.locator("del").first.wait_for()
        for name, where in {
            "home": "/",
            "source": source,
            "difference": f"{source}#versions",
            "plan": "/plan",
        }.items():
            page.goto(f"{address}{where}")
            page.wait_for_timeout(4000)
            pictures(page, name)
        page.goto(f"{address}{source}/edit")
        page.fill("#selector", "p:nth-of-type(2)")
        page.get_by_role("button", name="Preview").click()
        page.get_by_role("heading", name="What would be taken now").wait_for()
        pictures(page, "edit")
    return {"change": f"All three were seen {seen:.0f} s after *Watch* was pressed."}


def pictures(page, name: str) -> None:
    """The page as it is, in each size, light and dark; what it is about is in sight."""
    about = {"difference": "#versions", "edit": "#preview"}.get(name)
    for width, height in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            if about:
                page.locator(about).evaluate("element => element.scrollIntoView()")
            page.wait_for_timeout(400)
            drawn(page)
            file = IMAGES / f"walk-{name}-{width}-{scheme}.jpg"
            page.screenshot(path=file, type="jpeg", quality=70)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1440, "height": 900})


def written(said: dict[str, str]) -> str:
    """The page of the walk."""
    parts = []
    for name, title in STEPS.items():
        shown = [
            f"![{title}, {width} pixels wide, {scheme}](images/walk-{name}-{width}-{scheme}.jpg)"
            for width in SIZES
            for scheme in SCHEMES
        ]
        if (IMAGES / f"before-{name}.jpg").exists():
            shown.append(
                f"\nIn the first release:\n\n![{title}, in the first release](images/before-{name}.jpg)"
            )
        parts.append(f"## {title}\n\n{TEXTS[name].format(**said)}\n\n" + "\n".join(shown) + "\n")
    return HEAD + "\n".join(parts)


if __name__ == "__main__":
    main()
