"""Renew the pictures of the dashboard: `python docs/screenshots.py [FOLDER]`.

Watches the demo world for a minute, serves its store, signs in with Chromium and takes pictures.
With FOLDER, which holds the files of `observant demo`, that demo is shown.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parent / "images"
OBSERVANT = [sys.executable, "-c", "from observant.cli import main; main()"]
PAGES = {
    "dashboard.png": ("/", 1280, 960),
    "dashboard-source.png": ("", 1280, 1120),
    "dashboard-plan.png": ("/plan", 1280, 1000),
}
"""File, page ("" is that of a source with many visits), width and height."""


def main() -> None:
    """Take all pictures."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(sys.argv[1]) if sys.argv[1:] else Path(place) / "demo"
        if not sys.argv[1:]:
            subprocess.run([*OBSERVANT, "demo", "-d", str(folder)], check=True)  # noqa: S603
        store = Path(place) / "shown.db"
        shutil.copy(folder / "observant.db", store)
        serving = subprocess.Popen(  # noqa: S603
            [*OBSERVANT, "serve", "--no-observer", "--port", "0", "--store", str(store)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=place,
        )
        try:
            told = "".join(serving.stdout.readline() for _ in range(2))
            take(
                re.search(r"http://\S+", told)[0].rstrip("/"),
                re.search(r"password (\S+)", told)[1],
            )
        finally:
            serving.terminate()
            serving.wait()


def take(address: str, password: str) -> None:
    """Sign in and take the pictures."""
    with sync_playwright() as playwright:
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(color_scheme="light")
        page.goto(f"{address}/login")
        page.fill("input[name=name]", "owner")
        page.fill("input[name=password]", password)
        page.click("main button")
        page.goto(f"{address}/sources?sort=visits&descending=1")
        source = page.locator("td a[href*='/sources/']").nth(3).get_attribute("href")
        for taking in (False, True):  # the first time, answers that take a while are begun
            for name, (where, width, height) in PAGES.items():
                page.set_viewport_size({"width": width, "height": height})
                page.goto(f"{address}{where or source}")
                page.wait_for_timeout(12_000)
                if taking:
                    page.screenshot(path=IMAGES / name)
        browser.close()


if __name__ == "__main__":
    main()
