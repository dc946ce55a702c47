"""Every response of a spider becomes a visit."""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from scrapy import signals
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.asyncio import create_looping_call

from observant.errors import BadURL, ObservantError
from observant.observer.fetched import Fetched
from observant.observer.transport.headers import charset_of, last_modified_of, media_type
from observant.observer.transport.urls import parse
from observant.scrapy.ledger import open_ledger
from observant.scrapy.settings import AddonSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from scrapy.crawler import Crawler
    from scrapy.http import Request, Response

    from observant.scrapy.ledger import Ledger
    from observant.store.visit import Error

log = logging.getLogger("observant.scrapy")

SOURCE = "observant_source"
"""Key of a request's meta: the source that the request visits, through all redirects."""
ASKED = "observant"
"""Key of a request's meta: False keeps the add-on away from it."""

_LEDGERS: WeakKeyDictionary[Crawler, Ledger] = WeakKeyDictionary()


class VisitRecorder:
    """A downloader middleware next to the engine: it sees what the spider sees, after redirects,
    retries and decompression. Whatever goes wrong in it is logged, and never reaches the spider.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._ledger = ledger_of(crawler)
        self._timer: Any = None
        crawler.signals.connect(self._open, signals.spider_opened)
        crawler.signals.connect(self._close, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_request(self, request: Request) -> None:
        """Remember which source this is, before redirects lead elsewhere."""
        if _is_ours(request):
            request.meta.setdefault(SOURCE, source_of(request.url))
            request.meta.pop("download_latency", None)  # of an earlier request of the chain

    def process_response(self, request: Request, response: Response) -> Response:
        """Keep the visit; one that the cache answered without asking anybody is none."""
        with self._guarded("a response could not be recorded"):
            from_cache = "cached" in response.flags and "download_latency" not in request.meta
            if _is_ours(request) and not from_cache:
                self._keep(request, _fetched(request, response))
        return response

    def process_exception(self, request: Request, exception: Exception) -> None:
        """Keep a visit that failed for good; retries come before this."""
        if not _is_ours(request) or isinstance(exception, IgnoreRequest):
            return
        with self._guarded("a failed visit could not be recorded"):
            now = time.time()
            failure = Fetched(
                url=request.url,
                started_at=now,
                ended_at=now,
                error=_error_of(exception),
                message=str(exception)[:200],
            )
            self._keep(request, failure)

    def _keep(self, request: Request, fetched: Fetched) -> None:
        source = request.meta.get(SOURCE) or source_of(request.url)
        self._ledger.record(source, fetched, _callback_name(request, self._crawler.spider))
        self._count("visits")

    # -- beginning and end --------------------------------------------------------------------

    def _open(self) -> None:
        seconds = AddonSettings.read(self._crawler.settings).batch_seconds
        self._timer = create_looping_call(self._flush)
        self._timer.start(seconds, now=False)

    def _flush(self) -> None:
        with self._guarded("visits could not be written"):
            self._ledger.flush()

    def _close(self) -> None:
        if self._timer is not None and self._timer.running:
            self._timer.stop()
        with self._guarded("the last visits could not be written"):
            self._ledger.close()

    @contextmanager
    def _guarded(self, trouble: str) -> Iterator[None]:
        """Whatever goes wrong here is ours: it is logged and counted, and the spider goes on."""
        try:
            yield
        except Exception:
            log.exception(trouble)
            self._count("errors")

    def _count(self, what: str) -> None:
        if self._crawler.stats is not None:
            self._crawler.stats.inc_value(f"observant/{what}")


def ledger_of(crawler: Crawler) -> Ledger:
    """The ledger of this crawl; the add-on switches itself off, and says why, if it has none."""
    if crawler not in _LEDGERS:
        try:
            _LEDGERS[crawler] = open_ledger(AddonSettings.read(crawler.settings), time.time())
        except (ObservantError, OSError) as error:
            raise NotConfigured(f"observant: {error}") from error
    return _LEDGERS[crawler]


def source_of(url: str) -> str:
    """The name of the source at an address: its canonical form, as everywhere in observant.

    >>> source_of("HTTPS://example.org:443/a#top")
    'https://example.org/a'
    """
    try:
        return parse(url).href
    except BadURL:
        return url.partition("#")[0]


def _is_ours(request: Request) -> bool:
    """Pages that the spider asks for, not robots.txt, pictures or forms."""
    return (
        request.method == "GET"
        and not request.body
        and request.callback is not NO_CALLBACK
        and request.meta.get(ASKED) is not False
        and request.url.startswith(("http://", "https://"))
    )


def _fetched(request: Request, response: Response) -> Fetched:
    now = time.time()
    headers = tuple(
        (name.decode("latin-1").lower(), value.decode("latin-1"))
        for name, values in response.headers.items()
        for value in values
    )
    first = dict(reversed(headers))
    content_type, length = first.get("content-type", ""), first.get("content-length", "")
    whole = not {"partial", "dataloss"} & set(response.flags)
    asked = "cached" not in response.flags
    return Fetched(
        url=request.url,
        final_url=response.url,
        # The cache hands out the old page where the server said that it is not modified.
        status=response.status if asked else 304,
        headers=headers,
        body=response.body,
        content_type=media_type(content_type),
        charset=charset_of(content_type),
        etag=first.get("etag"),
        last_modified=last_modified_of(first.get("last-modified"), first.get("date"), now),
        not_modified=response.status == 304 or not asked,
        started_at=now - float(request.meta.get("download_latency") or 0.0),
        ended_at=now,
        wire_bytes=int(length) if length.isdecimal() and len(length) < 16 else len(response.body),
        error=None if whole else "protocol",
        message="" if whole else "the body is incomplete",
    )


def _callback_name(request: Request, spider: Any) -> str:
    """Who parses the response, if it is a method of the spider that can be asked for again.

    Rules of a CrawlSpider are told apart by their number.
    """
    callback = request.callback
    name = getattr(callback, "__name__", "")
    if callback is None or getattr(callback, "__self__", None) is not spider or name == "parse":
        return ""
    if name == "_callback" and isinstance(request.meta.get("rule"), int):
        return f"{name}#{request.meta['rule']}"
    return name


def _error_of(exception: Exception) -> Error:
    name = type(exception).__name__.lower()
    if "timeout" in name:
        return "timeout"
    if "dns" in name or "resolve" in name:
        return "dns"
    return "tls" if "ssl" in name or "tls" in name or "certificate" in name else "connect"
