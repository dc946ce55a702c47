"""A spider begins with what is due, and follows links to what is due or new."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from scrapy import Request

from observant.scrapy.recorder import ASKED, SOURCE, ledger_of, source_of
from observant.scrapy.settings import AddonSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator
    from typing import Self

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from observant.scrapy.ledger import Due

log = logging.getLogger("observant.scrapy")


class DueRequests:
    """A spider middleware. Sources that are due come first; then the spider's own start, and the
    links that it follows, without sources that are known and not due.

    A request with ``meta={"observant": False}`` passes always. A spider that has to make its
    requests in a way of its own has a method ``due_request(url, callback)`` that returns one.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._ledger = ledger_of(crawler)  # or NotConfigured, and the spider goes on without us
        self._given: set[str] = set()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not AddonSettings.read(crawler.settings).decides:
            log.info(
                "everything is visited and recorded; to visit only what is due, set "
                "OBSERVANT_BUDGET, OBSERVANT_PLAN or OBSERVANT_STORE"
            )
        return cls(crawler)

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """What is due, then what the spider starts with and is due or new."""
        for due in self._due():
            request = self._request(due)
            if request is not None:
                self._given.add(due.source)
                self._count("due")
                yield request
        async for item in start:
            if self._passes(item):
                yield item

    def process_spider_output(
        self,
        response: Response,
        result: Iterable[Any],
    ) -> Iterator[Any]:
        """Items, and requests for what is due or new."""
        for item in result:
            if self._passes(item):
                yield item

    async def process_spider_output_async(
        self,
        response: Response,
        result: AsyncIterator[Any],
    ) -> AsyncIterator[Any]:
        """The same for callbacks that are asynchronous generators."""
        async for item in result:
            if self._passes(item):
                yield item

    def _due(self) -> Iterator[Due]:
        try:
            yield from self._ledger.due(time.time())
        except Exception:
            log.exception("what is due could not be found; the spider starts as it always does")
            self._count("errors")

    def _passes(self, item: Any) -> bool:
        """Whether an item of the spider's goes on its way; only requests can be held back."""
        if not isinstance(item, Request) or item.method != "GET" or item.body:
            return True
        # Meta that a spider hands on from a response tells of the page before.
        item.meta.pop(SOURCE, None)
        if item.meta.get(ASKED) is False:
            return True
        try:
            source = source_of(item.url)
            wanted = source not in self._given and self._ledger.is_due(source, time.time())
        except Exception:
            log.exception("whether %s is due could not be found; it is visited", item)
            self._count("errors")
            return True
        if not wanted:
            self._count("not_due")
        return wanted

    def _request(self, due: Due) -> Request | None:
        """The request for a source, parsed as it was last time."""
        spider: Any = self._crawler.spider
        try:
            name, _, rule = due.callback.partition("#")
            callback = getattr(spider, name, None) if name else None
            own = getattr(spider, "due_request", None)
            if own is not None:
                request = own(due.url, callback)
            else:
                meta = {"rule": int(rule), "link_text": ""} if rule.isdecimal() else {}
                request = Request(due.url, callback=callback, meta=meta)
            if isinstance(request, Request):
                request.meta[SOURCE] = due.source
                return request
            log.error("due_request gave no request for %s", due.url)
        except Exception:
            log.exception("there is no request for %s, which is due", due.url)
        self._count("errors")
        return None

    def _count(self, what: str) -> None:
        if self._crawler.stats is not None:
            self._crawler.stats.inc_value(f"observant/{what}")
