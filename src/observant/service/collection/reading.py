"""Reading sources, their visits, versions and differences."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from observant.errors import InputError, MissingError
from observant.names import DIFFS
from observant.observer.config import SourceSettings
from observant.observer.tasks import show
from observant.observer.watching import own_settings
from observant.service.answers import (
    DiffAnswer,
    DiffPart,
    SourceDetail,
    SourcePage,
    SourceRow,
    TagItem,
    VersionItem,
    VisitItem,
    VisitPage,
    finite,
)
from observant.service.collection.base import Base
from observant.service.collection.masking import masked_settings, masked_url
from observant.times import DAY, utc

if TYPE_CHECKING:
    import datetime as dt

    from observant.store import StoredSource, Version, Visit

__all__ = ["Reading", "SourceQuery", "source_row"]

_SURROGATE = re.compile("[\ud800-\udfff]")


class SourceQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which sources, in which order, which page. `search` is words that must all occur."""

    search: str | None = None
    tag: str | None = None
    host: str | None = None
    state: str | None = None
    kind: str | None = None
    sort: str = "name"
    descending: bool = False
    limit: int = 100
    offset: int = 0
    after: str | None = None

    def filters(self) -> dict[str, str | None]:
        """What narrows the list down."""
        names = ("search", "tag", "host", "state", "kind")
        return {name: searchable(getattr(self, name), name) for name in names}


def searchable(text: str | None, what: str) -> str | None:
    """A text that every store can look for."""
    if text is not None and ("\0" in text or (not text.isascii() and _SURROGATE.search(text))):
        raise InputError(f"the {what} holds a character that no text has")
    return text


class Reading(Base):
    """The part of the collection that tells of sources."""

    def sources(self, query: SourceQuery | None = None) -> SourcePage:
        """One page of sources, as the query asks for it."""
        query = query or SourceQuery()
        if not 1 <= query.limit <= 1000:
            raise InputError(f"a page has from 1 to 1000 sources, not {query.limit}")
        if not 0 <= query.offset <= 10_000_000:
            raise InputError("an offset is from 0 to 10,000,000")
        only: dict[str, Any] = query.filters()
        page = self.store.sources.list(
            **only,
            sort=query.sort,
            descending=query.descending,
            limit=query.limit,
            offset=query.offset,
            after=query.after,
        )
        now = self.now()
        return SourcePage(
            sources=[source_row(source, now) for source in page.sources],
            next=page.next,
            total=self._count(only),
        )

    def _count(self, only: dict[str, Any]) -> int:
        """How many a list has, a few seconds old at most: the pages of one list ask for it again
        and again, and counting 100,000 sources takes a while.
        """
        found = self.cache.get(
            ("count", *only.values()),
            lambda: self.store.sources.count(**only),
            max_age=5.0,
            wait=20.0,
        )
        return found.value if found.value is not None else self.store.sources.count(**only)

    def row(self, source: int | str) -> SourceRow:
        """One source as it stands in a list."""
        return source_row(self.find(source), self.now())

    def source(self, source: int | str) -> SourceDetail:
        """Everything about one source but its visits."""
        found = self.find(source)
        try:
            in_force = self.config.settings_of(
                found.tags, own_settings(found), found.name, found.url or found.name
            )
        except InputError:
            in_force = SourceSettings()
        return SourceDetail(
            source=source_row(found, self.now()),
            settings=masked_settings(found.config),
            in_force=masked_settings(msgspec.to_builtins(in_force)),
            why=self.why(found.name),
            versions=len(self.store.snapshots.versions(found.name, limit=1000)),
            noise=self.store.sources.previous(found.name, text=False).memory.get("noise"),
            last_modified=utc(found.last_modified),
        )

    def visits(
        self,
        source: int | str | None = None,
        *,
        since: dt.datetime | None = None,
        until: dt.datetime | None = None,
        changed: bool | None = None,
        limit: int = 100,
        after: int | None = None,
    ) -> VisitPage:
        """Visits, newest first, of one source or of all."""
        if not 1 <= limit <= 1000:
            raise InputError(f"a page has from 1 to 1000 visits, not {limit}")
        rows = self.store.visits.list(
            None if source is None else self.find(source).name,
            since=None if since is None else since.timestamp(),
            until=None if until is None else until.timestamp(),
            changed=changed,
            limit=limit + 1,
            after=after,
            details=True,
        )
        more = len(rows) > limit
        return VisitPage(
            visits=[visit_item(row) for row in rows[:limit]],
            next=rows[limit - 1].id if more else None,
        )

    def versions(self, source: int | str, *, limit: int = 100) -> list[VersionItem]:
        """Kept versions of a source, newest first."""
        if not 1 <= limit <= 1000:
            raise InputError(f"from 1 to 1000 versions are listed, not {limit}")
        name = self.find(source).name
        return [
            version_item(version) for version in self.store.snapshots.versions(name, limit=limit)
        ]

    def snapshot(self, source: int | str, digest: str) -> bytes:
        """The content of a version; InputError if this source has none with this digest."""
        found = self._version(self.find(source).name, digest)
        return self.store.snapshots.get(found.digest)

    def diff(
        self,
        source: int | str,
        old: str | None = None,
        new: str | None = None,
        *,
        by: str = "auto",
    ) -> DiffAnswer:
        """What changed between two kept versions, by their digests; the last two unless told."""
        if by not in DIFFS:
            raise InputError(f"differences are by auto, lines, words or json, not {by!r}")
        name = self.find(source).name
        kept = self.store.snapshots.versions(name, limit=2)
        if (old is None or new is None) and len(kept) < 2:
            raise InputError(f"{len(kept)} versions are kept, too few to compare", source=name)
        newer = kept[0] if new is None else self._version(name, new)
        older = kept[1] if old is None else self._version(name, old)
        texts = [
            self.store.snapshots.get(v.digest).decode("utf-8", "replace") for v in (older, newer)
        ]
        found = show(texts[0], texts[1], by)
        return DiffAnswer(
            source=name,
            old=version_item(older),
            new=version_item(newer),
            kind=found.kind,
            parts=[
                DiffPart(
                    kind="equal" if part.equal else "changed",
                    old=part.old,
                    new=part.new,
                    path=part.path,
                )
                for part in found.parts
            ],
            text=found.text,
        )

    def why(self, source: int | str) -> str:
        """Why a source is visited when it is, in one sentence."""
        from observant.service.collection.reasons import why

        return why(self, self.find(source))

    def tags(self) -> list[TagItem]:
        """Every tag and how many sources have it."""
        found = self.cache.get("tags", self.store.sources.tags, max_age=5.0, wait=20.0)
        return [TagItem(tag=tag, sources=count) for tag, count in (found.value or {}).items()]

    def _version(self, name: str, digest: str) -> Version:
        for version in self.store.snapshots.versions(name, limit=100_000):
            if version.digest.hex() == digest:
                return version
        raise MissingError(f"no version {digest[:64]!r} is kept", source=name)


def source_row(source: StoredSource, now: float) -> SourceRow:
    """A source as it stands in a list."""
    return SourceRow(
        id=source.id,
        name=source.name,
        kind=source.kind,
        url=masked_url(source.url or source.name),
        host=source.host,
        title=source.title,
        tags=list(source.tags),
        importance=source.importance,
        state=source.state,
        created_at=utc(source.created_at),
        updated_at=utc(source.updated_at),
        visited_at=utc(source.visited_at),
        good_at=utc(source.good_at),
        changed_at=utc(source.changed_at),
        due_at=utc(source.due_at),
        visits=source.visits,
        changes=source.changes,
        failures=source.failures,
        failed_in_row=source.failed_in_row,
        outcome=source.outcome,
        status=source.status,
        error=source.error,
        rate=finite(source.rate),
        rate_low=finite(source.rate_low),
        rate_high=finite(source.rate_high),
        period_days=_period(source),
        changed_probability=_changed_by_now(source, now),
    )


def _period(source: StoredSource) -> float | None:
    if source.due_at is None or source.good_at is None or source.state != "active":
        return None
    return max(source.due_at - source.good_at, 0.0) / DAY


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
_WEIGHTS /= _WEIGHTS.sum()


def _changed_by_now(source: StoredSource, now: float) -> float | None:
    """P(an update since the last good visit), the rate log-normal within its interval."""
    if source.good_at is None or source.rate is None:
        return None
    low, high = source.rate_low or source.rate, source.rate_high or source.rate
    spread = math.log(max(high / max(low, 1e-300), 1.0)) / (2 * 1.96)
    rates = source.rate * np.exp(np.minimum(spread, 20.0) * _NODES)
    waited = max(now - source.good_at, 0.0) / DAY
    return float(_WEIGHTS @ -np.expm1(-np.minimum(rates * waited, 700.0)))


def visit_item(row: Visit) -> VisitItem:
    """A visit for an answer."""
    detail = row.detail or {}
    return VisitItem(
        id=row.id,
        source=row.source,
        started_at=utc(row.started_at),
        seconds=max(row.ended_at - row.started_at, 0.0),
        outcome=row.outcome,
        changed=row.changed,
        status=row.status,
        last_modified=utc(row.last_modified),
        magnitude=finite(row.magnitude),
        bytes=row.bytes,
        error=row.error,
        digest=None if row.digest is None else row.digest.hex(),
        reason=str(detail.get("reason", "")),
        attributes=[str(name) for name in detail.get("attributes", ())],
    )


def version_item(version: Version) -> VersionItem:
    """A version for an answer."""
    return VersionItem(
        at=utc(version.at),
        kind=version.kind,
        digest=version.digest.hex(),
        size=version.size,
        stored=version.stored,
    )
