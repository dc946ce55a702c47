"""The program around an observer: its sources, its log, signals of the system, and metrics."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import InputError
from observant.observer.metrics import Metrics
from observant.observer.settings import touch
from observant.observer.sources import host_of, kinds
from observant.observer.sources.base import ON_THE_WEB
from observant.store import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from observant.observer.config import Config
    from observant.observer.loop import Observer
    from observant.observer.metrics import Status
    from observant.observer.transport import Transport
    from observant.store import Store, StoredSource
    from observant.store.visit import Visit

__all__ = [
    "add_sources",
    "describe",
    "described",
    "pages_of_sitemap",
    "run_observer",
    "set_up_logging",
    "take_up_config",
]

_FIELDS = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_SITEMAPS = 1000
_TAKEN_UP = "config.sources"
"""The sources of the configuration file as they were taken up last."""
_DESCRIBED = ("kind", "url", "host", "tags", "importance", "config")
log = logging.getLogger("observant.observer")


def describe(
    address: str,
    *,
    kind: str = "http",
    name: str = "",
    title: str = "",
    tags: Iterable[str] = (),
    importance: float = 1.0,
    host: str = "",
    settings: dict[str, Any] | None = None,
) -> Source:
    """A source for the store, checked. The canonical form of an address is its name.

    `host` says whom a visit is a burden to: visits to one host never overlap. Unless told it is
    the server of an address on the web, and the kind of anything else.

    >>> describe("HTTP://Example.org:80/a#top").name
    'http://example.org/a'
    """
    from observant.errors import BadURL
    from observant.observer.transport.urls import parse

    if kind not in kinds():
        known = ", ".join(sorted(kinds()))
        raise InputError(f"there is no kind of source {kind!r}; known: {known}", source=address)
    canonical = address.strip()
    if kind in ON_THE_WEB:
        try:
            canonical = parse(canonical).href
        except BadURL as error:
            hint = _meant(canonical)
            raise InputError(f"{error}{hint}", source=address) from error
    elif kind == "file":
        plain = canonical.removeprefix("file://")
        canonical = str(Path(plain).absolute())
    # A password in the address is needed to visit, and has no place in a name.
    secret = kind in ON_THE_WEB and "@" in address
    return Source(
        name=name or canonical,
        kind=kind,
        url=address.strip() if secret else canonical,
        host=host or host_of(kind, canonical),
        title=title,
        tags=tuple(dict.fromkeys(tags)),
        importance=importance,
        config=settings or {},
    )


def _meant(address: str) -> str:
    """What somebody meant who left out the scheme; a port is mostly one of a server at home.

    >>> _meant("example.org/news"), _meant("localhost:8000"), _meant("ftp://a.example/")
    ('; did you mean https://example.org/news?', '; did you mean http://localhost:8000?', '')
    """
    if "://" in address or not address or " " in address:
        return ""
    host, colon, port = address.partition("/")[0].partition(":")
    if colon and not (host and port.isdecimal()):
        return ""
    return f"; did you mean http{'' if colon else 's'}://{address}?"


def add_sources(store: Store, config: Config, sources: list[Source]) -> int:
    """Add sources after their settings were checked, and tell running observers."""
    for source in sources:
        config.settings_of(source.tags, source.config, source.name, kind=source.kind)
    added = store.sources.add(sources)
    if added:
        touch(store)
    return added


def described(config: Config) -> list[Source]:
    """The sources that the configuration names."""
    return [
        describe(
            entry.url,
            kind=entry.kind,
            name=entry.name,
            tags=entry.tags,
            importance=float(entry.settings.get("importance", 1.0)),
            settings=entry.settings,
        )
        for entry in config.sources
    ]


def take_up_config(store: Store, config: Config) -> int:
    """Add the sources that the configuration file names; returns how many were new.

    Known ones are described anew where the file was edited since it was last taken up. What was
    changed elsewhere (at the dashboard, say) stands until then; but what runs code or reads files
    is always what the file says.
    """
    found = described(config)
    added = add_sources(store, config, found) if found else 0
    before = store.settings.get(_TAKEN_UP)
    before = before if isinstance(before, dict) else {}
    entries = {source.name: msgspec.json.decode(msgspec.json.encode(source)) for source in found}
    changes = {}
    for source in found:
        known = store.sources.get(source.name)
        edited = entries[source.name] != before.get(source.name)
        local = source.kind not in ON_THE_WEB or known.kind not in ON_THE_WEB
        names = _DESCRIBED if edited else ("kind", "url", "host") if local else ()
        fields = {name: getattr(source, name) for name in names}
        fields = {name: value for name, value in fields.items() if value != _plain(known, name)}
        if fields:
            changes[source.name] = fields
            told = {"source": source.name, "fields": ", ".join(fields)}
            log.info("taken up from the configuration file", extra=told)
    if changes:
        store.sources.update_many(changes)
        touch(store)
    if entries != before:
        store.settings.set(_TAKEN_UP, entries or None)
    return added


def _plain(known: StoredSource, name: str) -> Any:
    return tuple(getattr(known, name)) if name == "tags" else getattr(known, name)


async def pages_of_sitemap(transport: Transport, url: str) -> list[str]:
    """The pages of a sitemap and of the sitemaps it names."""
    from observant.observer.pool import pool
    from observant.observer.sources.sitemap import Sitemap

    pages: dict[str, None] = {}
    waiting, seen = [url], {url}
    while waiting and len(seen) <= _SITEMAPS:
        place = waiting.pop()
        fetched = await transport.fetch(place)
        if fetched.error is not None:
            how = "; to allow it, give --allow NETWORK, or `allow` in observant.toml"
            hint = how if fetched.error == "refused-address" else ""
            raise InputError(f"the sitemap cannot be read: {fetched.message}{hint}", source=place)
        kind: Any = Sitemap | None
        sitemap = await pool().run("sitemap", fetched.body, kind)
        if sitemap is None:
            raise InputError("this is no sitemap", source=place)
        pages |= dict.fromkeys(page for page, _ in sitemap.pages)
        fresh = [other for other in sitemap.sitemaps if other not in seen]
        seen.update(fresh)
        waiting.extend(fresh)
    return list(pages)


async def run_observer(
    observer: Observer,
    *,
    seconds: float | None = None,
    until: float | None = None,
    visits: int | None = None,
    each: float = 0.5,
    show: Callable[[Status], None] | None = None,
    on_visit: Callable[[Visit], None] | None = None,
) -> Status:
    """Run an observer until its time is over or somebody stops it (Ctrl-C, SIGTERM).

    The first signal lets visits under way end, a second one abandons them. `show` is called every
    `each` seconds.
    """
    metrics = None
    if observer.config.metrics:
        metrics = Metrics(observer.config.metrics, observer.status, observer.tally)
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    asked = 0

    def stop() -> None:
        nonlocal asked
        asked += 1
        observer.stop()
        if asked > 1 and task is not None:
            task.cancel()
        elif busy := observer.status().under_way:
            log.info(
                "ending after %s under way; once more to abandon %s",
                "the visit" if busy == 1 else f"the {busy} visits",
                "it" if busy == 1 else "them",
            )

    with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
    ticking = asyncio.create_task(_tick(observer, metrics, show, each))
    try:
        return await observer.run(seconds=seconds, until=until, visits=visits, on_visit=on_visit)
    finally:
        ticking.cancel()
        if metrics is not None:
            await asyncio.to_thread(metrics.close)
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)


async def _tick(
    observer: Observer,
    metrics: Metrics | None,
    show: Callable[[Status], None] | None,
    each: float,
) -> None:
    written = 0.0
    while True:
        await asyncio.sleep(each)
        if show is not None:
            show(observer.status())
        if metrics is not None and time.monotonic() - written > 5.0:
            written = time.monotonic()
            metrics.write()


def set_up_logging(form: str = "text", level: int = logging.INFO) -> None:
    """Send what observers log to standard error, a line each: for people, or as JSON."""
    if form not in {"text", "json"}:
        raise InputError(f"log must be text or json, not {form!r}")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if form == "json" else _Lines())
    logger = logging.getLogger("observant")
    logger.handlers[:] = [handler]
    logger.setLevel(level)
    logger.propagate = False


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in record.__dict__.items() if key not in _FIELDS}


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%H:%M:%S", time.localtime(record.created))
        more = " ".join(f"{key}={value}" for key, value in _extra(record).items())
        text = f"{at} {record.levelname.lower()}: {record.getMessage()} {more}".rstrip()
        return text if not record.exc_info else f"{text}\n{self.formatException(record.exc_info)}"


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": round(record.created, 6),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)
