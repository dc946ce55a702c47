"""One page in a browser: opened, left until it is quiet, and read."""

from __future__ import annotations

import asyncio
import contextlib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from playwright.async_api import Error as BrowserError
from playwright.async_api import TimeoutError as BrowserTimeout

from observant.errors import Unreachable
from observant.observer.transport.urls import parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from playwright.async_api import BrowserContext, CDPSession, Page, Response, Route

    from observant.store.visit import Error

_MOST_FRAMES = 20
_SHOT = 1280, 2000
_UNANSWERED: tuple[tuple[str, Error], ...] = (
    ("ERR_CERT", "tls"),
    ("ERR_SSL", "tls"),
    ("ERR_TOO_MANY_REDIRECTS", "too-many-redirects"),
    ("ERR_TIMED_OUT", "timeout"),
    ("ERR_UNSAFE", "bad-url"),
    ("ERR_UNKNOWN_URL_SCHEME", "bad-url"),
    ("ERR_INVALID", "protocol"),
    ("ERR_RESPONSE", "protocol"),
    ("Download is starting", "content"),
    ("ERR_ABORTED", "content"),
)
"""What the browser says when a page does not come, and the error of the visit."""


class RenderedPage:
    """A page in a context of its own, with the bounds it has."""

    def __init__(self, page: Page, most_requests: int) -> None:
        self.page, self._most = page, most_requests
        self.requests = 0
        self.crashed = False
        self.response: Response | None = None
        self.shot: bytes | None = None
        """A picture of the page, for who looks at the visit."""
        self.masked: list[str] = []
        """What no picture may show."""
        page.context.on("request", self._requested)
        page.context.on("page", self._popup)
        page.on("crash", self._crash)
        page.on("response", self._responded)
        self._closing: set[asyncio.Task[Any]] = set()

    def _requested(self, _: object) -> None:
        self.requests += 1

    def _responded(self, response: Response) -> None:
        request = response.request
        if request.is_navigation_request() and request.frame == self.page.main_frame:
            self.response = response  # also of an answer that the browser shows nothing of

    def _crash(self, _: object) -> None:
        self.crashed = True

    def _popup(self, popup: Page) -> None:
        if popup is not self.page:
            closing = asyncio.ensure_future(_quietly(popup))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def go(self, url: str, seconds: float, settle: float) -> None:
        """Open the address, and wait until it loads nothing any more, or long enough."""
        try:
            await self.page.goto(url, wait_until="domcontentloaded", timeout=1000 * seconds)
        except BrowserTimeout:
            raise Unreachable("timeout", f"not read within {seconds:g} seconds") from None
        except BrowserError as error:
            if not self.is_open:
                raise
            if "ERR_HTTP_RESPONSE_CODE_FAILURE" not in error.message:  # an error without a page
                raise _unanswered(error) from None
        await self.rest(settle)

    async def rest(self, seconds: float) -> None:
        """Wait until the page loads nothing any more, or long enough."""
        with contextlib.suppress(BrowserTimeout):
            await self.page.wait_for_load_state("networkidle", timeout=1000 * seconds)
        self.check()

    @property
    def is_open(self) -> bool:
        """Whether the browser still has it."""
        browser = self.page.context.browser
        return browser is not None and browser.is_connected()

    def check(self) -> None:
        """Refuse a page that has gone beyond its bounds, or whose process has ended."""
        if self.crashed:
            raise Unreachable("content", "the page took down the process that showed it")
        if self.requests > self._most:
            raise Unreachable("too-large", f"the page asks for more than {self._most} things")

    @property
    def is_html(self) -> bool:
        """Whether the answer is a document, and not an image or a file of data."""
        headers = self.response.headers if self.response else {}
        return "html" in headers.get("content-type", "text/html").lower()

    async def html(self, limit: int) -> bytes:
        """The document as it stands, frames and shadow roots included, as HTML."""
        session = await self.page.context.new_cdp_session(self.page)
        main, *rest = [await _read(session, frame, limit) for frame in await _frames(session)]
        for frame in self.page.frames[1:_MOST_FRAMES]:
            with contextlib.suppress(BrowserError):  # of the same process: read already
                own = await self.page.context.new_cdp_session(frame)
                rest.append(await _read(own, (await _frames(own))[0], limit))
        some = filter(None, rest)
        inner = "".join(f'<div data-frame="{n}">{html}</div>' for n, html in enumerate(some, 1))
        whole = main.replace("</body>", f"{inner}</body>", 1) if inner else main
        if len(whole) > limit:
            raise Unreachable("too-large", f"the document is longer than {limit} characters")
        return f"<!doctype html>{whole}".encode("utf-8", "replace")

    async def elements(self, most: int) -> Any:
        """Elements with their places, as `boxes.js` gives them."""
        session = await self.page.context.new_cdp_session(self.page)
        return await _apart(session, (await _frames(session))[0], "boxes.js", most)

    async def take_shot(self, quality: int = 75) -> None:
        """Take the picture that is kept with a version; a page that gives none is read without."""
        with contextlib.suppress(BrowserError):
            self.shot = await self.picture(*_SHOT, quality)

    async def picture(self, width: int, height: int, quality: int = 75) -> bytes:
        """The page from its top, as a JPEG."""
        clip: Any = {"x": 0, "y": 0, "width": width, "height": height}
        return await self.page.screenshot(
            type="jpeg",
            quality=quality,
            full_page=True,
            clip=clip,
            animations="disabled",
            mask=[self.page.locator(css) for css in self.masked],
            mask_color="#888",
        )

    def latency(self) -> float:
        """Seconds until the server began to answer."""
        timing = self.response.request.timing if self.response else None
        return max(timing["responseStart"], 0.0) / 1000 if timing else 0.0

    def places(self) -> list[str]:
        """Every address of the page, from the first to where it is now."""
        hops, request = list[str](), self.response.request if self.response else None
        while request is not None:
            hops.append(request.url)
            request = request.redirected_from
        hops.reverse()
        if self.page.url.startswith(("http://", "https://")) and self.page.url not in hops[-1:]:
            hops.append(self.page.url)
        return hops


async def open_page(
    context: BrowserContext, url: str, headers: Sequence[str], most_requests: int
) -> RenderedPage:
    """A new page; headers of the source go to its own origin, and nowhere else."""
    page = RenderedPage(await context.new_page(), most_requests)
    own = dict(_header(line) for line in headers)
    if own:
        origin = parse(url).origin

        async def with_headers(route: Route) -> None:
            with contextlib.suppress(BrowserError):
                if not route.request.url.startswith(f"{origin}/"):
                    await route.fallback()
                    return
                sent = await route.request.all_headers() | own
                # Not continued: what is continued takes its headers along into redirects.
                await route.fulfill(response=await route.fetch(headers=sent, max_redirects=0))

        await context.route("**/*", with_headers)
    return page


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":") if ":" in line else line.partition(";")
    return name.lower(), value.strip()


def _unanswered(error: BrowserError) -> Unreachable:
    said = str(error.message).partition("\n")[0].removeprefix("Page.goto: ")
    for words, kind in _UNANSWERED:
        if words in said:
            if kind == "content":
                return Unreachable(kind, "this is a download, not a page")
            return Unreachable(kind, said)
    return Unreachable("connect", said)


async def _frames(session: CDPSession) -> list[str]:
    """The frames of a session, the outermost first."""
    found = list[str]()
    waiting = [(await session.send("Page.getFrameTree"))["frameTree"]]
    while waiting and len(found) < _MOST_FRAMES:
        tree = waiting.pop(0)
        found.append(tree["frame"]["id"])
        waiting += tree.get("childFrames", ())
    return found


async def _read(session: CDPSession, frame: str, limit: int) -> str:
    """The HTML of a frame that no other frame holds already."""
    found = await _apart(session, frame, "document.js", limit)
    return "" if found["inlined"] else str(found["html"])


async def _apart(session: CDPSession, frame: str, script: str, limit: int) -> Any:
    """What a script of ours finds, in a world where the page can change nothing of it."""
    made = await session.send("Page.createIsolatedWorld", {"frameId": frame})
    answer = await session.send(
        "Runtime.evaluate",
        {
            "expression": f"({_script(script)})({limit})",
            "contextId": made["executionContextId"],
            "returnByValue": True,
        },
    )
    if "exceptionDetails" in answer:
        said = answer["exceptionDetails"].get("exception", {}).get("description", "")
        first = said.partition("\n")[0].removeprefix("Error: ")
        large = first.startswith("the document is longer")
        raise Unreachable("too-large" if large else "content", first or "it cannot be read")
    return answer["result"]["value"]


@cache
def _script(name: str) -> str:
    return (files("observant.observer.browser") / name).read_text("utf-8")


async def _quietly(popup: Page) -> None:
    with contextlib.suppress(BrowserError):
        await popup.close()
