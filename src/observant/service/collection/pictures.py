"""Pictures of pages: as they are now, after steps, and as versions and failed visits looked."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import InputError, MissingError
from observant.observer.browser.settings import missing
from observant.observer.browser.steps import check_steps
from observant.observer.connections import make_transport
from observant.observer.content import Rules
from observant.observer.content.pictures import PictureDifference, parse_box
from observant.observer.fetched import Fetched
from observant.observer.pool import pool
from observant.observer.tasks import BodyTask, Read
from observant.observer.watched import own_settings
from observant.service.collection.context import CollectionPiece, some
from observant.service.collection.edits import asked_for
from observant.service.summaries import PictureDiff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Hashable, Sequence

    from observant.observer.browser.chooser import PagePicture
    from observant.observer.browser.engine import Browser
    from observant.observer.browser.steps import StepPicture
    from observant.observer.config import Config, SourceSettings
    from observant.observer.transport import Transport
    from observant.store import StoredSource, Version

_PICTURES: dict[Hashable, tuple[float, PagePicture]] = {}
"""The last pictures of pages: one is asked for again at each click on it."""
_MOST_PICTURES = 8
_PICTURE_SECONDS = 300.0


class CollectionPictures(CollectionPiece):
    """The pictures of a collection."""

    def page(self, source: int | str) -> PagePicture:
        """The page of a source as a browser shows it, to be pointed at; kept for some minutes."""
        found = self._in.find(source)
        if found.kind not in {"http", "product"}:
            raise InputError("only pages can be pointed at", source=found.name)
        if problem := missing(self._in.config.browser):
            raise InputError(f"a picture needs a browser: {problem}")

        key = (id(self._in.store), found.name, found.updated_at)
        kept = _PICTURES.get(key)
        if kept is not None and time.monotonic() - kept[0] < _PICTURE_SECONDS:
            return kept[1]
        with asked_for():
            taken = asyncio.run(_picture(self._in.config, found))
        while len(_PICTURES) >= _MOST_PICTURES:
            _PICTURES.pop(next(iter(_PICTURES)), None)
        _PICTURES[key] = time.monotonic(), taken
        return taken

    def try_steps(
        self, source: int | str, steps: Sequence[str], sign_in: Sequence[str] = ()
    ) -> tuple[list[StepPicture], str]:
        """Take steps on the page of a source now: pictures of it after each, and why it failed."""
        found = self._in.find(source)
        if problem := missing(self._in.config.browser):
            raise InputError(f"steps need a browser: {problem}")
        check_steps("steps", steps)
        check_steps("sign_in", sign_in)
        with asked_for():
            return asyncio.run(_try_steps(self._in.config, found, steps, sign_in))

    def get(self, source: int | str, digest: str) -> bytes:
        """A picture that is kept with a version or a failed visit."""
        if not any(one.digest.hex() == digest for one in self.list(source, 1000, failures=True)):
            raise MissingError("this picture is not kept")
        return self._in.store.snapshots.get(bytes.fromhex(digest))

    def list(self, source: int | str, limit: int = 50, *, failures: bool = False) -> list[Version]:
        """Which pictures of versions are kept, and of failed visits if asked, newest first."""
        name, most = self._in.find(source).name, some(limit, "pictures")
        versions = self._in.store.snapshots.versions
        found = versions(name, kind="screenshot", limit=most)
        if failures:
            found += versions(name, kind="failure", limit=most)
        return sorted(found, key=lambda one: -one.at)[:most]

    def difference(self, source: int | str, old: str, new: str) -> PictureDifference:
        """Where two kept pictures of a page differ, by the masks and tolerance of the source."""
        found = self._in.find(source)
        settings = self._in.config.settings_of(
            found.tags, own_settings(found), found.name, found.url or found.name
        )
        rules = msgspec.convert(settings.compare, Rules)
        boxes = [box for mask in rules.masks if (box := parse_box(mask))]
        given = self.get(source, old), self.get(source, new), boxes, rules.tolerance
        return pool().call("pictures", given, PictureDifference, lane="asked")

    def diff(
        self, source: int | str, old: str | None = None, new: str | None = None
    ) -> PictureDiff:
        """The same as an answer; by default the last two pictures."""
        kept = [one.digest.hex() for one in self.list(source, 2)]
        if len(kept) < 2 and not (old and new):
            raise InputError("fewer than two pictures of this page are kept")
        old, new = old or kept[1], new or kept[0]
        found = self.difference(source, old, new)
        return PictureDiff(
            old=old,
            new=new,
            share=found.share,
            boxes=list(found.boxes),
            width=found.width,
            height=found.height,
        )

    def chosen_text(self, source: int | str, css: str) -> str:
        """The text that a selector finds on the picture of a source."""
        page = Fetched(url="x:", status=200, body=self.page(source).html, content_type="text/html")
        rules = msgspec.to_builtins(Rules(css=css))
        task = BodyTask(rules=rules, fetched=msgspec.structs.replace(page, charset="utf-8"))
        found = pool().call("read", task, Read, lane="asked").comparison
        if found.text is None:
            raise InputError(found.reason)
        return found.text


@asynccontextmanager
async def _browser(
    config: Config, source: StoredSource
) -> AsyncIterator[tuple[Transport, Browser, str, SourceSettings]]:
    """A browser of its own, for one look at the page of a source."""
    from observant.observer.browser.engine import Browser

    url = source.url or source.name
    settings = config.settings_of(source.tags, own_settings(source), source.name, url)
    async with make_transport(config) as transport:
        browser = Browser(transport, config.browser)
        try:
            yield transport, browser, url, settings
        finally:
            await browser.close()


async def _picture(config: Config, source: StoredSource) -> PagePicture:
    from observant.observer.browser.chooser import Camera
    from observant.observer.browser.steps import SteppingBrowser

    async with _browser(config, source) as (transport, browser, url, settings):
        camera, own = Camera(browser), (settings.steps, settings.sign_in)
        through: Any = SteppingBrowser(camera, *own, secrets=config.secrets) if any(own) else camera
        more = {"headers": tuple(settings.headers.items()), "verify": settings.verify}
        return await camera.take(transport, url, through=through, robots=settings.robots, **more)


async def _try_steps(
    config: Config, source: StoredSource, steps: Sequence[str], sign_in: Sequence[str]
) -> tuple[list[StepPicture], str]:
    from observant.observer.browser.steps import SteppingBrowser

    async with _browser(config, source) as (transport, browser, url, settings):
        stepping = SteppingBrowser(browser, steps, sign_in, secrets=config.secrets, pictures=True)
        given = tuple(settings.headers.items())
        found = await transport.fetch(
            url, headers=given, robots=settings.robots, verify=settings.verify, through=stepping
        )
        return stepping.pictures or [], found.message if found.error else ""
