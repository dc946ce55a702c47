"""The browser of an observer: a pool of pages, each alone in a context of its own.

Nothing survives from one page to the next. A browser that is dead, hung or too large is replaced,
and the pages that were under way in it are looked at again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import secrets
import time
from typing import TYPE_CHECKING, Any

from observant.errors import BrowserDied, InputError, Unreachable
from observant.observer.browser.process_tree import Meter, ProcessTree
from observant.observer.browser.proxy import FilteringProxy
from observant.observer.browser.settings import BrowserSettings, missing, unsandboxed
from observant.observer.transport.transfer import Reply
from observant.observer.transport.urls import parse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from observant.observer.browser.page import RenderedPage
    from observant.observer.transport import Transport
    from observant.observer.transport.transfer import Request
    from observant.store.visit import Error

log = logging.getLogger("observant.observer")

FLAGS = (
    "--disable-quic",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",  # its name until 2024
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--no-pings",
    "--deny-permission-prompts",
    "--js-flags=--max-old-space-size=512",
)
"""Every way to the network but our proxy is closed: the browser cannot even resolve a name."""
_NO_WEBRTC = "delete window.RTCPeerConnection; delete window.webkitRTCPeerConnection;"
_NOWHERE = "http://127.0.0.1:9"
_LIVES = 3
"""So many browsers may die under a page before the visit fails."""
_REST = 600.0
"""Seconds until a browser that did not start is tried again."""
_OPENING = 30.0
_CLOSING = 10.0
_WATCH = 1.0
_OF_THE_FILE = frozenset(
    {"content-encoding", "content-length", "content-type", "etag", "last-modified"}
)
_NOT_OURS = re.compile(r"(accept-encoding|expect|if-[a-z-]+):", re.IGNORECASE)


class Browser:
    """Looks at pages with Chromium, for `Transport.fetch(through=…)`. Close it after use."""

    def __init__(self, transport: Transport, settings: BrowserSettings | None = None) -> None:
        self._transport, self.settings = transport, settings or BrowserSettings()
        self._room = asyncio.Semaphore(self.settings.pages)
        self._starting = asyncio.Lock()
        self._running: _Running | None = None
        self._problem, self._try_again = "", 0.0
        self.started = 0
        """Browsers so far."""

    async def perform(self, request: Request) -> Reply:
        """Open a page, wait until it is quiet, and give its document."""
        return await self.look(request, self._document)

    async def look(
        self,
        request: Request,
        look: Callable[[RenderedPage, Request], Awaitable[bytes]],
        state: Any = None,
    ) -> Reply:
        """The same with another way of looking at the page that has been opened.

        `state` are cookies and storage to begin with, as Playwright gives them.
        """
        async with self._room:
            message = ""
            for _ in range(_LIVES):
                running = await self._ready()
                try:
                    return await self._visit(running, request, look, state)
                except BrowserDied as death:
                    message = str(death)
                    await self._replace(running, message)
            return _failed("content", f"the browser was ended {_LIVES} times: {message}")

    async def close(self) -> None:
        """End the browser."""
        running, self._running = self._running, None
        if running is not None:
            await running.close()

    @property
    def tree(self) -> ProcessTree | None:
        """The processes of the browser that runs now, if it is ours."""
        return self._running.tree if self._running else None

    async def _ready(self) -> _Running:
        async with self._starting:
            if self._running is not None and self._running.alive:
                return self._running
            if self._problem and time.monotonic() < self._try_again:
                raise InputError(self._problem)
            if self._running is not None:
                await self._running.close()
            try:
                self._running = await _Running.start(self.settings)
            except InputError as error:
                self._problem, self._try_again = str(error), time.monotonic() + _REST
                raise
            self.started += 1
            return self._running

    async def _replace(self, running: _Running, reason: str) -> None:
        async with self._starting:
            if self._running is running:
                log.warning("the browser is replaced", extra={"reason": reason})
                self._running = None
                await running.close()

    async def _visit(
        self,
        running: _Running,
        request: Request,
        look: Callable[[RenderedPage, Request], Awaitable[bytes]],
        state: Any,
    ) -> Reply:
        from playwright.async_api import Error as BrowserError

        from observant.observer.browser.page import open_page

        bounds, key = self.settings, object()
        seconds = min(bounds.seconds, request.seconds)
        error: Error | None = None
        message, body = "", b""
        page: RenderedPage | None = None
        lines = list[bytes]()
        await asyncio.to_thread(running.meter.start, key)
        async with FilteringProxy(
            self._transport.connect, most_bytes=bounds.bytes, listen=bounds.listen
        ) as proxy:
            context = await running.context(proxy.address, verify=request.verify, state=state)
            own = [line for line in request.headers if not _NOT_OURS.match(line)]
            try:
                async with asyncio.timeout(seconds):
                    page = await open_page(context, request.url, own, bounds.requests)
                    await page.go(request.url, seconds, min(bounds.settle, seconds / 2))
                    body = await look(page, request)
                page.check()
                lines = await _head(page)
            except TimeoutError:
                error, message = "timeout", f"more than {seconds:g} seconds"
            except Unreachable as problem:
                error, message = problem.error, str(problem)
            except BrowserError as problem:
                if not running.alive:
                    raise BrowserDied(running.reason or "it ended") from None
                error, message = "content", str(problem).partition("\n")[0]
            closed = await running.close_context(context)
            if not closed or not running.alive:
                # Whatever was read, the browser may have been dying.
                raise BrowserDied(running.reason or "it does not answer")
        refused = _by_proxy(proxy, page, error, request.url, lines)
        if refused is not None:
            (error, message), lines = refused, []
        return Reply(
            lines=lines,
            status=page.response.status if page and page.response and not refused else 0,
            body=body if error is None else b"",
            error=error,
            message=message,
            first_byte_at=None,
            wire_bytes=proxy.bytes,
            places=_onward(page, request.url),
            cpu=await asyncio.to_thread(running.meter.stop, key),
            latency=page.latency() if page else 0.0,
            shot=page.shot if page else None,
        )

    async def _document(self, page: RenderedPage, request: Request) -> bytes:
        if page.response is not None and not page.is_html:
            return await page.response.body()
        html = await page.html(request.limits.body)
        if self.settings.screenshots:
            await page.take_shot()
        return html


class _Running:
    """One browser, and the program that drives it."""

    def __init__(self, playwright: Any, browser: Any, mark: str, settings: BrowserSettings) -> None:
        self._playwright, self._browser = playwright, browser
        self.tree = ProcessTree(mark)
        self.meter = Meter(lambda: self.tree.usage().seconds)
        self.reason = ""
        """Why we have ended it."""
        version = browser.version.partition(".")[0]
        self._agent = (
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
            f"Chrome/{version}.0.0.0 Safari/537.36 "
        )
        self._settings = settings
        self._watching = asyncio.create_task(self._watch())

    @classmethod
    async def start(cls, settings: BrowserSettings) -> _Running:
        if problem := missing(settings):
            raise InputError(f"this page needs a browser: {problem}")
        from playwright.async_api import Error as BrowserError
        from playwright.async_api import async_playwright

        mark = f"--observant-browser={secrets.token_hex(8)}"
        playwright = await async_playwright().start()
        try:
            if settings.address:
                remote = await playwright.chromium.connect_over_cdp(settings.address)
                return cls(playwright, remote, mark, settings)
            bare, browser = unsandboxed(settings), None
            if not bare:
                with contextlib.suppress(BrowserError):
                    browser = await _launch(playwright, settings, mark, sandbox=True)
                bare = "Chromium does not start with its sandbox here"
            if browser is None:
                log.warning("the browser runs without its sandbox: %s", bare)
                browser = await _launch(playwright, settings, mark, sandbox=False)
        except BrowserError as error:
            await playwright.stop()
            said = str(error).partition("\n")[0]
            raise InputError(f"the browser does not start: {said}") from error
        return cls(playwright, browser, mark, settings)

    @property
    def alive(self) -> bool:
        return not self.reason and self._browser.is_connected()

    async def context(self, proxy: str, *, verify: bool, state: Any = None) -> Any:
        """A context of its own, whose only way out is this proxy."""
        from playwright.async_api import Error as BrowserError

        try:
            async with asyncio.timeout(_OPENING):
                context = await self._browser.new_context(
                    proxy={"server": proxy},
                    user_agent=self._agent + "observant/0.1",
                    viewport={"width": 1280, "height": 900},
                    service_workers="block",
                    accept_downloads=False,
                    ignore_https_errors=not verify,
                    reduced_motion="reduce",
                    storage_state=state,
                )
                await context.grant_permissions([])  # all others are denied
                await context.add_init_script(_NO_WEBRTC)
        except (TimeoutError, BrowserError) as problem:
            raise BrowserDied(self.reason or f"no new page: {problem}"[:200]) from None
        return context

    async def close_context(self, context: Any) -> bool:
        """False if the browser does not even answer to this."""
        from playwright.async_api import Error as BrowserError

        try:
            async with asyncio.timeout(_CLOSING):
                await context.close()
        except BrowserError:
            return self.alive
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        self._watching.cancel()
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_CLOSING if not self.reason else 0.1):
                await self._browser.close()
        await asyncio.to_thread(self.tree.kill)
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_CLOSING):
                await self._playwright.stop()

    async def _watch(self) -> None:
        """End a browser that has grown too large."""
        while True:
            await asyncio.sleep(_WATCH)
            used = await asyncio.to_thread(self.tree.usage)
            if used.memory > self._settings.memory:
                self.reason = f"its pages took more than {self._settings.memory >> 20} MB"
                await asyncio.to_thread(self.tree.kill)
                return


async def _launch(playwright: Any, settings: BrowserSettings, mark: str, *, sandbox: bool) -> Any:
    return await playwright.chromium.launch(
        executable_path=settings.program() or None,
        args=[*FLAGS, mark],
        chromium_sandbox=sandbox,
        proxy={"server": _NOWHERE},
        handle_sigint=False,
        handle_sigterm=False,
        handle_sighup=False,
        timeout=120_000,
    )


async def _head(page: RenderedPage) -> list[bytes]:
    """The lines of the answer's head, without what is no longer true of the document."""
    if page.response is None:
        return []
    found = await page.response.headers_array()
    old = _OF_THE_FILE if page.is_html else frozenset({"content-encoding"})
    lines = [
        f"{one['name']}: {one['value']}".encode("latin-1", "replace")
        for one in found
        if one["name"].lower() not in old
    ]
    if page.is_html:
        lines.append(b"Content-Type: text/html; charset=utf-8")
    return [b"HTTP/1.1 %d" % page.response.status, *lines]


def _by_proxy(
    proxy: FilteringProxy,
    page: RenderedPage | None,
    error: Error | None,
    url: str,
    lines: list[bytes],
) -> tuple[Error, str] | None:
    """What our proxy knows better than the browser: why it did not let the page through."""
    if proxy.overdrawn:
        return "too-large", f"the page loads more than {proxy.most_bytes} bytes"
    if error == "connect" or any(proxy.seal.encode() in line for line in lines):
        for place in (*reversed(page.places() if page else []), url):
            if (known := proxy.refused.get(parse(place).host)) is not None:
                return known
    return None


def _onward(page: RenderedPage | None, url: str) -> tuple[str, ...]:
    """Addresses that the page was sent on to."""
    places = page.places() if page else []
    first = parse(url).href
    return tuple(place for place in places if parse(place).href != first)


def _failed(error: Error, message: str) -> Reply:
    return Reply(
        lines=[],
        status=0,
        body=b"",
        error=error,
        message=message,
        first_byte_at=None,
        wire_bytes=0,
    )
