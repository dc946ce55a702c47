"""Changing the collection: adding, describing anew, pausing, removing, visiting now."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from observant.errors import BusyError, InputError, ObservantError
from observant.service.answers import Added, BulkAnswer, CheckAnswer, Imported, Refused, SourceRow
from observant.service.collection.entries import (
    MOST_SOURCES,
    BulkChange,
    NewSource,
    SourceChanges,
    checked,
    checked_changes,
)
from observant.service.collection.reading import Reading, SourceQuery, visit_item

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from observant.store import Source

__all__ = ["Changing"]

_CHECK_SECONDS = 120.0
_CHECKS = threading.BoundedSemaphore(4)
"""Visits that people have asked for, at once."""
_PAGE = 1000


class Changing(Reading):
    """The part of the collection that changes it."""

    def add(self, entry: NewSource, *, trusted: bool = False) -> Added:
        """Watch a source; one that is there already keeps all it has."""
        source = checked(entry, self.config, trusted=trusted)
        new = self.store.sources.add([source], now=self.now()) > 0
        self.changed()
        return Added(source=self.row(source.name), new=new)

    def add_many(self, entries: Sequence[NewSource], *, trusted: bool = False) -> Imported:
        """Watch many sources; bad ones are refused one by one, with the reason."""
        if len(entries) > MOST_SOURCES:
            raise InputError(f"at most {MOST_SOURCES:,} sources at a time")
        config, refused = self.config, []
        good: list[Source] = []
        for row, entry in enumerate(entries, 1):
            try:
                good.append(checked(entry, config, trusted=trusted))
            except InputError as error:
                refused.append(Refused(row=row, what=entry.url[:200], reason=error.message))
        added = self.store.sources.add(good, now=self.now())
        self.changed()
        return Imported(added=added, changed=0, known=len(good) - added, refused=refused)

    def update(
        self, source: int | str, changes: SourceChanges, *, trusted: bool = False
    ) -> SourceRow:
        """Change what somebody entered of a source."""
        before = self.find(source)
        fields = checked_changes(before, changes, self.config, trusted=trusted)
        if fields:
            self.store.sources.update(before.name, now=self.now(), **fields)
            self.changed()
        return self.row(before.name)

    def remove(self, source: int | str, *, forget: bool = False) -> None:
        """Stop watching a source; `forget` deletes its visits and versions as well."""
        self.store.sources.remove(self.find(source).name, forget=forget, now=self.now())
        self.changed()

    def pause(self, source: int | str) -> SourceRow:
        """Stop visiting a source for a while."""
        return self.update(source, SourceChanges(state="paused"))

    def resume(self, source: int | str) -> SourceRow:
        """Go on visiting a source."""
        return self.update(source, SourceChanges(state="active"))

    def bulk(self, change: BulkChange) -> BulkAnswer:
        """Do one thing to many sources."""
        if change.action in {"tag", "untag"} and not isinstance(change.value, str):
            raise InputError(f"to {change.action} sources, give the tag as value")
        if change.action == "importance" and not isinstance(change.value, int | float):
            raise InputError("to set the importance, give a number as value")
        names = list(self._chosen(change))
        now = self.now()
        if change.action == "remove":
            for name, _ in names:
                self.store.sources.remove(name, now=now)
        else:
            fields = {name: _fields(change, tags) for name, tags in names}
            self.store.sources.update_many(fields, now=now)
        if names:
            self.changed()
        return BulkAnswer(sources=len(names))

    def check(self, source: int | str) -> CheckAnswer:
        """Visit a source now, due or not, and wait for what it finds."""
        found = self.find(source)
        if found.state != "active":
            raise InputError("this source is paused: resume it first", source=found.name)
        if not _CHECKS.acquire(blocking=False):
            raise BusyError("many visits are asked for at once: try again soon")
        try:
            self._visit(found.name)
        except TimeoutError:
            raise ObservantError("the visit takes long: look again later") from None
        finally:
            _CHECKS.release()
        (last,) = self.store.visits.list(found.name, limit=1, details=True)
        return CheckAnswer(visit=visit_item(last))

    def _visit(self, name: str) -> None:
        """Visit a source: with the running observer, if it has taken the source up already."""
        if self.observer is not None and self.loop is not None:
            try:
                self.in_loop(self.observer.visit_now(name), seconds=_CHECK_SECONDS)
            except InputError:
                pass
            else:
                return
        from observant.observer.loop import Observer

        async def once() -> None:
            async with asyncio.timeout(_CHECK_SECONDS):
                await Observer(self.store, self.config).check(name)

        asyncio.run(once())

    def _chosen(self, change: BulkChange) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Names and tags of the sources that are meant, all known before any is changed."""
        if change.ids:
            for number in change.ids:
                found = self.store.sources.numbered(number)
                yield found.name, found.tags
            return
        only: dict[str, Any] = SourceQuery(
            **{n: getattr(change, n) for n in ("search", "tag", "host", "state", "kind")}
        ).filters()
        if not change.all and not any(value for value in only.values()):
            raise InputError("say which sources: ids, filters, or all")
        after: str | None = None
        while True:
            page = self.store.sources.list(**only, limit=_PAGE, after=after)
            for found in page.sources:
                yield found.name, found.tags
            after = page.next
            if after is None:
                return


def _fields(change: BulkChange, tags: tuple[str, ...]) -> dict[str, Any]:
    if change.action == "tag":
        return {"tags": tuple(dict.fromkeys((*tags, str(change.value))))}
    if change.action == "untag":
        return {"tags": tuple(tag for tag in tags if tag != change.value)}
    if change.action == "importance":
        return {"importance": float(change.value or 0.0)}
    return {"state": "paused" if change.action == "pause" else "active"}
