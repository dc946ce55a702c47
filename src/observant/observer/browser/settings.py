"""Which browser is used and what a page may cost it; whether there is one at all."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import msgspec

from observant.errors import InputError
from observant.observer import bounds

_NAMES = (
    # A browser without windows: half the processor time for the same pages.
    *("chromium-headless-shell", "chrome-headless-shell"),
    *("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome"),
)


class BrowserSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The browser of an observer, and the bounds of a page in it."""

    executable: str = ""
    """A Chromium or Chrome; unless told, the one of this machine, or else Playwright's own."""
    address: str = ""
    """The CDP address of a browser that runs already, such as ``http://127.0.0.1:9222``."""
    listen: str = "127.0.0.1"
    """Where our proxy waits for the browser; a browser on another machine must reach it there."""
    pages: int = 2
    """The most pages that are open at once."""
    seconds: float = 30.0
    """For a page with everything that it loads."""
    settle: float = 5.0
    """Of these, the most for a page that has been read and goes on loading."""
    memory: int = 2**31
    """Bytes, of all pages together; a browser that takes more is replaced."""
    requests: int = 500
    """Of a page."""
    bytes: int = 50 * 2**20
    """Of a page on the wire, with everything that it loads."""
    screenshots: bool = True
    """Whether a picture of the page is kept with each version."""
    key: str = ""
    """A file with the key that keeps signed-in states; beside an SQLite store unless told."""

    def __post_init__(self) -> None:
        bounds.number("browser: pages", self.pages, 1, 64)
        bounds.number("browser: seconds", self.seconds, 1, 600)
        bounds.number("browser: settle", self.settle, 0, 600)
        bounds.number("browser: memory", self.memory, 2**26, 2**50)
        bounds.number("browser: requests", self.requests, 1)
        bounds.number("browser: bytes", self.bytes, 2**10, 2**40)
        if self.address and not self.address.startswith(("http://", "https://", "ws://", "wss://")):
            raise InputError("browser: address is one such as http://127.0.0.1:9222")

    def program(self) -> str:
        """The browser's program; empty when there is none but Playwright's own download."""
        if self.executable:
            return self.executable
        return next(filter(None, map(shutil.which, _NAMES)), "")


def missing(settings: BrowserSettings) -> str:
    """What has to be installed before pages can be rendered, in one line; empty if nothing has."""
    if importlib.util.find_spec("playwright") is None:
        return "Playwright is not installed: pip install 'observant[browser]'"
    if settings.address:
        return ""
    if settings.executable and not Path(settings.executable).is_file():
        return f"there is no browser at {settings.executable}"
    if settings.program() or _downloaded():
        return ""
    return (
        "there is no Chromium: apt-get install chromium-headless-shell (or chromium),"
        " or playwright install chromium"
    )


def available(settings: BrowserSettings) -> bool:
    """Whether pages can be rendered here."""
    return not missing(settings)


def unsandboxed(settings: BrowserSettings) -> str:
    """Why the browser runs without its own sandbox; empty if it has one."""
    if settings.address:
        return ""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return "Chromium has no sandbox for root: run observant as another user"
    cloning = Path("/proc/sys/kernel/unprivileged_userns_clone")
    apparmor = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
    for file, off in ((cloning, "0"), (apparmor, "1")):
        if file.is_file() and file.read_text("ascii").strip() == off:
            return f"this system forbids the sandbox of Chromium to users ({file.name} = {off})"
    return ""


def _downloaded() -> bool:
    """Whether Playwright has fetched a browser of its own."""
    given = os.environ.get("PLAYWRIGHT_BROWSERS_PATH")
    folder = Path(given) if given else Path.home() / ".cache" / "ms-playwright"
    return any(folder.glob("chromium*"))
