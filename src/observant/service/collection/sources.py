"""Sources: listing and finding them, what their visits found, and every change to them."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np

from observant.errors import InputError, MissingError, ObservantError
from observant.formats.accesses import Accesses
from observant.names import DIFFS
from observant.observer.browser.need import BrowserNeed
from observant.observer.browser.settings import missing
from observant.observer.config import SourceSettings
from observant.observer.content.diffs import changed_lines
from observant.observer.content.rules import ignoring
from observant.observer.query_members import retire_members
from observant.observer.tasks import show
from observant.observer.watched import own_settings
from observant.service.answers import (
    Added,
    AddressItem,
    BulkAnswer,
    CheckAnswer,
    DiffAnswer,
    DiffPart,
    EditedSource,
    Imported,
    MemberItem,
    PreviewAnswer,
    Refused,
    RenderingItem,
    SourceDetail,
    SourcePage,
    SourceRow,
    TagItem,
    VersionItem,
    VisitItem,
    VisitPage,
)
from observant.service.collection.context import CollectionPiece, some
from observant.service.collection.edits import asked_for, edit, preview, recognise
from observant.service.collection.entries import (
    MOST_SOURCES,
    BulkChange,
    NewSource,
    PreviewRequest,
    SourceChanges,
    checked,
    masked_settings,
    masked_url,
)
from observant.service.collection.reasons import copy_of, freshness_elsewhere, why
from observant.service.posteriors import beliefs_of
from observant.store import SourceQuery
from observant.times import DAY, utc

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Iterable, Sequence

    from observant.service.collection.context import Context
    from observant.store import Source, StoredSource, Version, Visit
    from observant.store.visit import Previous

Rows: TypeAlias = list[SourceRow]

FILTERS = ("search", "tag", "host", "state", "kind")
"""Fields of a query that narrow a list down."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_CHECK_SECONDS = 120.0
_MOST_EDITED = 1000
_LONGEST = 2000
"""Characters of a text to be ignored."""
_NOISY = 8
_FEW_LINES = 3


def searchable(text: str | None, what: str) -> str | None:
    """A text that every store can look for."""
    if text is not None and ("\0" in text or (not text.isascii() and _SURROGATE.search(text))):
        raise InputError(f"the {what} holds a character that no text has")
    return text


class CollectionSources(CollectionPiece):
    """The sources of a collection."""

    # -- reading ------------------------------------------------------------------------------

    def row(self, source: int | str) -> SourceRow:
        """One source as it stands in a list."""
        return self._rows([self._in.find(source)])[0]

    def get(self, source: int | str) -> SourceDetail:
        """Everything about one source but its visits."""
        found, store = self._in.find(source), self._in.store
        try:
            in_force = self._in.config.settings_of(
                found.tags, own_settings(found), found.name, found.url or found.name
            )
        except InputError:
            in_force = SourceSettings()
        previous = store.sources.previous(found.name, text=False)
        return SourceDetail(
            source=self._rows([found])[0],
            settings=masked_settings(found.config),
            in_force=masked_settings(msgspec.to_builtins(in_force)),
            why=why(self._in, found),
            versions=len(store.snapshots.versions(found.name, limit=1000)),
            noise=previous.memory.get("noise"),
            **self._noisy(found),
            last_modified=utc(found.last_modified),
            rendering=_rendering(self._in, found, previous),
            copy=copy_of(self._in, found, in_force),
        )

    def _noisy(self, found: StoredSource) -> dict[str, str]:
        """Whether a page differs at every visit, and what would make it quiet."""
        visits = self._in.store.visits.list(found.name, limit=_NOISY)
        if len(visits) < _NOISY or any(visit.outcome != "changed" for visit in visits):
            return {"noisy": "", "proposal": ""}
        snapshots, said = (
            self._in.store.snapshots,
            f"It differed at each of its last {_NOISY} visits",
        )
        kept = snapshots.versions(found.name, limit=2)
        texts = [snapshots.get(v.digest).decode("utf-8", "replace") for v in kept]
        added, removed = changed_lines(texts[1], texts[0]) if len(texts) > 1 else ("", "")
        if not added or added.count("\n") >= _FEW_LINES:
            return {"noisy": f"{said}: choose the part that matters.", "proposal": ""}
        shown = added.replace("\n", " … ")[:200]
        proposal = "|".join(ignoring(added, removed))
        return {"noisy": f"{said}, last in: {shown}", "proposal": proposal}

    def why(self, source: int | str) -> str:
        """When a source is visited next, and why, in one sentence."""
        return why(self._in, self._in.find(source))

    def tags(self) -> list[TagItem]:
        """Every tag and how many sources have it."""
        tags = self._in.store.sources.tags
        found = self._in.cache.get("tags", tags, max_age=5.0, wait=20.0).value or {}
        return [TagItem(tag=tag, sources=count) for tag, count in found.items()]

    def members(self, source: int | str, *, left: bool = False) -> list[MemberItem]:
        """The results of a standing query by rank; with `left` those that were dropped too."""
        rows = self._in.store.members.list(self._in.find(source).name, left=left)
        return [MemberItem.of(row) for row in rows]

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
        rows = self._in.store.visits.list(
            None if source is None else self._in.find(source).name,
            since=None if since is None else since.timestamp(),
            until=None if until is None else until.timestamp(),
            changed=changed,
            limit=some(limit, "visits") + 1,
            after=after,
            details=True,
        )
        return VisitPage(
            visits=[_visit(row) for row in rows[:limit]],
            next=rows[limit - 1].id if len(rows) > limit else None,
        )

    def versions(self, source: int | str, *, limit: int = 100) -> list[VersionItem]:
        """Kept versions of a source, newest first."""
        name = self._in.find(source).name
        rows = self._in.store.snapshots.versions(name, limit=some(limit, "versions"))
        return [VersionItem.of(version) for version in rows]

    def snapshot(self, source: int | str, digest: str) -> bytes:
        """The content of a version; `MissingError` if this source has none with this digest."""
        return self._in.store.snapshots.get(
            self._version(self._in.find(source).name, digest).digest
        )

    def diff(
        self, source: int | str, old: str | None = None, new: str | None = None, *, by: str = "auto"
    ) -> DiffAnswer:
        """What changed between two kept versions, by their digests; by default the last two."""
        if by not in DIFFS:
            raise InputError(f"differences are by auto, lines, words or json, not {by!r}")
        row, snapshots = self._in.find(source), self._in.store.snapshots
        name = row.name
        if by == "auto" and row.kind in {"feed", "sitemap", "query"}:
            by = "lines"  # an entry on each
        kept = snapshots.versions(name, limit=2)
        if (old is None or new is None) and len(kept) < 2:
            raise InputError(f"{len(kept)} versions are kept, too few to compare", source=name)
        newer = kept[0] if new is None else self._version(name, new)
        older = kept[1] if old is None else self._version(name, old)
        texts = [snapshots.get(v.digest).decode("utf-8", "replace") for v in (older, newer)]
        found = show(texts[0], texts[1], by)
        return DiffAnswer(
            source=name,
            old=VersionItem.of(older),
            new=VersionItem.of(newer),
            kind=found.kind,
            parts=[
                DiffPart.of(part, kind="equal" if part.equal else "changed") for part in found.parts
            ],
            text=found.text,
        )

    def _version(self, name: str, digest: str) -> Version:
        for version in self._in.store.snapshots.versions(name, limit=100_000):
            if version.digest.hex() == digest:
                return version
        raise MissingError(f"no version {digest[:64]!r} is kept", source=name)

    # -- changing -----------------------------------------------------------------------------

    def add(self, entry: NewSource, *, update: bool = False, trusted: bool = False) -> Added:
        """Watch a source; one that is there already keeps all it has, unless it is to `update`."""
        source = checked(entry, self._in.config, trusted=trusted)
        found = self.add_described([source], update=update, trusted=trusted)
        changes = found.edited[0].changes if found.edited else []
        return Added(source=self.row(source.name), new=found.added > 0, changes=changes)

    def add_described(
        self, sources: Sequence[Source], *, update: bool = False, trusted: bool = False
    ) -> Imported:
        """Watch sources that were checked. Those that are there are said to differ from what was
        entered, and changed if they are to `update`.
        """
        store = self._in.store.sources
        entered = {source.name: source for source in sources}
        known = {name: SourceChanges.of(entered[name]) for name in store.known(entered)}
        rows = [store.get(name) for name, said in known.items() if said != SourceChanges()]
        added = store.add(sources, now=self._in.now())
        edited = edit(self._in, rows, known, dry_run=not update, trusted=trusted)
        if added:
            self._in.changed()
        return Imported(
            added=added,
            changed=len(edited) if update else 0,
            known=len(known),
            refused=[],
            edited=edited[:_MOST_EDITED],
        )

    def add_many(
        self, entries: Sequence[NewSource], *, update: bool = False, trusted: bool = False
    ) -> Imported:
        """Watch many sources; bad ones are refused one by one, with the reason."""
        if len(entries) > MOST_SOURCES:
            raise InputError(f"at most {MOST_SOURCES:,} sources at a time")
        config, refused = self._in.config, []
        good: list[Source] = []
        for row, entry in enumerate(entries, 1):
            try:
                good.append(checked(entry, config, trusted=trusted))
            except InputError as error:
                refused.append(Refused(row=row, what=entry.url[:200], reason=error.message))
        found = self.add_described(good, update=update, trusted=trusted)
        return msgspec.structs.replace(found, refused=refused)

    def update(
        self, source: int | str, changes: SourceChanges, *, trusted: bool = False
    ) -> SourceRow:
        """Change what somebody entered of a source."""
        before = self._in.find(source)
        edit(self._in, [before], changes, trusted=trusted)
        return self.row(before.name)

    def edit(
        self,
        sources: Iterable[StoredSource],
        changes: SourceChanges,
        *,
        dry_run: bool = False,
        trusted: bool = False,
    ) -> list[EditedSource]:
        """Change sources alike; returns what is another now, or would be."""
        return edit(self._in, sources, changes, dry_run=dry_run, trusted=trusted)

    def ignore(
        self, source: int | str, text: str, before: str = "", *, expression: str = ""
    ) -> SourceRow:
        """Leave a text out from now on, whatever numbers it has (`ignoring`), or what a regular
        expression finds.
        """
        found = self._in.find(source)
        page = "" if before else self._in.store.sources.previous(found.name).text or ""
        kept = found.config.get("compare", {}).get("ignore", ())
        new = ignoring(text[:_LONGEST], before[:_LONGEST], page)
        patterns = list(dict.fromkeys((*kept, *([expression] if expression else new))))
        if len(patterns) == len(kept):
            raise InputError("there is no text to ignore, or it is ignored already")
        return self.update(source, SourceChanges(patch={"compare": {"ignore": patterns}}))

    def remove(self, source: int | str, *, forget: bool = False) -> int:
        """Stop watching a source; `forget` deletes its visits and versions as well.

        With a standing query go the results that were watched for it: returns how many.
        """
        retired = self._remove(self._in.find(source), forget)
        self._in.changed()
        return retired

    def _remove(self, source: StoredSource, forget: bool) -> int:
        self._in.store.sources.remove(source.name, forget=forget, now=self._in.now())
        return retire_members(self._in.store, source.name) if source.kind == "query" else 0

    def pause(self, source: int | str) -> SourceRow:
        """Stop visiting a source for a while."""
        return self.update(source, SourceChanges(state="paused"))

    def resume(self, source: int | str) -> SourceRow:
        """Go on visiting a source."""
        return self.update(source, SourceChanges(state="active"))

    def bulk(self, change: BulkChange, *, forget: bool = False) -> BulkAnswer:
        """Do one thing to many sources; removed ones lose their visits too if `forget`."""
        changes = change.as_changes()
        chosen = {source.name: source for source in self._chosen(change)}
        if change.action != "remove":
            edited = edit(self._in, chosen.values(), changes, dry_run=change.dry_run)
            return BulkAnswer(sources=len(chosen), edited=edited[:_MOST_EDITED])
        for source in chosen.values():
            self._remove(source, forget)
        if chosen:
            self._in.changed()
        return BulkAnswer(sources=len(chosen))

    def accesses(self, site: str = "", *, robots: bool = False) -> Accesses:
        """What counts the lines of access logs for the sources here; then `weigh`."""
        addresses = [url for _, url, _ in self._in.store.sources.addresses()]
        return Accesses(addresses, site, robots=robots)

    def weigh(self, accesses: Accesses, *, dry_run: bool = False) -> dict[str, float]:
        """Weigh sources by how often they were asked for; returns the importance of each.

        The mean of those that the log is of becomes 1, which is what a new source has. What has
        hardly moved is left as it is.
        """
        ours, table = accesses.importance()
        weights = table.importance / table.importance.mean()
        asked = [url for url, own in zip(accesses.sources, ours, strict=True) if own]
        by_address = dict(zip(asked, weights.tolist(), strict=True))
        rows = [(n, old, by_address.get(url)) for n, url, old in self._in.store.sources.addresses()]
        moved = {n: w for n, old, w in rows if w is not None and abs(w - old) > _MOVED * w}
        if moved and not dry_run:
            self._in.store.sources.set_importance(moved, now=self._in.now())
            self._in.changed()
        return {name: weight for name, _, weight in rows if weight is not None}

    def check(self, source: int | str) -> CheckAnswer:
        """Visit a source now, due or not, and wait for what it finds."""
        found = self._in.find(source)
        if found.state != "active":
            raise InputError("this source is paused: resume it first", source=found.name)
        try:
            with asked_for():
                self._look(found.name)
        except TimeoutError:
            raise ObservantError("the visit takes long: look again later") from None
        (last,) = self._in.store.visits.list(found.name, limit=1, details=True)
        return CheckAnswer(visit=_visit(last))

    def preview(self, asked: PreviewRequest, *, trusted: bool = False) -> PreviewAnswer:
        """What a page gives under other settings: now, and at the versions that are kept."""
        return preview(self._in, asked, trusted=trusted)

    def recognise(
        self,
        addresses: Iterable[str],
        *,
        trusted: bool = False,
        advance: Callable[[int], None] | None = None,
    ) -> list[AddressItem]:
        """Look at addresses that are to be watched, and say what is there."""
        return recognise(self._in, addresses, trusted=trusted, advance=advance)

    def _look(self, name: str) -> None:
        """Visit a source: with the running observer, if it has taken the source up already."""
        if self._in.observer is not None and self._in.loop is not None:
            try:
                self._in.in_loop(self._in.observer.visit_now(name), seconds=_CHECK_SECONDS)
            except InputError:
                pass
            else:
                return
        from observant.observer.loop import Observer

        async def once() -> None:
            async with asyncio.timeout(_CHECK_SECONDS):
                await Observer(self._in.store, self._in.config).check(name)

        asyncio.run(once())

    def _chosen(self, change: BulkChange) -> Iterable[StoredSource]:
        """The sources that are meant."""
        if change.ids:
            return [self._in.store.sources.numbered(number) for number in change.ids]
        only: dict[str, Any] = {n: searchable(getattr(change, n), n) for n in FILTERS}
        if not change.all and not any(only.values()):
            raise InputError("say which sources: ids, filters, or all")
        return self._in.store.sources.each(**only)

    def _rows(self, sources: Sequence[StoredSource]) -> Rows:
        """Sources as they are shown, with the probability that each has changed by now."""
        store, now = self._in.store, self._in.now()
        names, hosts = [one.name for one in sources], [one.host for one in sources]
        beliefs = beliefs_of(store, names, hosts, store.sources.likelihoods(sources))
        waited = np.array([max(now - (one.good_at or now), 0.0) / DAY for one in sources])
        changed = 1.0 - beliefs.unchanged(waited)
        return [
            SourceRow.of(
                one,
                url=masked_url(one.url or one.name),
                period_days=_period(one),
                changed_probability=None if one.good_at is None else float(probability),
            )
            for one, probability in zip(sources, changed, strict=True)
        ]

    def list(self, query: SourceQuery | None = None) -> SourcePage:
        """One page of sources, as the query asks for it."""
        query = query or SourceQuery()
        some(query.limit, "sources")
        if not 0 <= query.offset <= 10_000_000:
            raise InputError("an offset is from 0 to 10,000,000")
        only = {name: searchable(getattr(query, name), name) for name in FILTERS}
        page = self._in.store.sources.list(query)

        def count() -> int:
            return self._in.store.sources.count(query)

        # The pages of one list ask for it again and again, and counting 100,000 takes a while.
        total = self._in.cache.get(("count", *only.values()), count, max_age=5.0, wait=20.0).value
        return SourcePage(
            sources=self._rows(page.sources),
            next=page.next,
            total=count() if total is None else total,
        )

    def first(self, number: int, query: SourceQuery) -> SourcePage:
        """The first sources of a list, however many that are."""
        rows: Rows = []
        while True:
            fields = {"limit": min(number - len(rows), 1000)}
            page = self.list(msgspec.structs.replace(query, **fields))
            rows += page.sources
            if page.next is None or len(rows) >= number:
                return msgspec.structs.replace(page, sources=rows)
            query = msgspec.structs.replace(query, after=page.next)


_MOVED = 0.05
"""By which share an importance must have moved to be written down."""


def _period(source: StoredSource) -> float | None:
    if source.due_at is None or source.good_at is None or source.state != "active":
        return None
    return max(source.due_at - source.good_at, 0.0) / DAY


def _visit(row: Visit) -> VisitItem:
    detail = row.detail or {}
    return VisitItem.of(
        row,
        seconds=max(row.ended_at - row.started_at, 0.0),
        reason=str(detail.get("reason", "")),
        attributes=[str(name) for name in detail.get("attributes", ())],
    )


def _rendering(collection: Context, source: StoredSource, previous: Previous) -> RenderingItem:
    need, config = BrowserNeed.of(previous), collection.config
    rendered = need.is_rendered(previous)
    return RenderingItem(
        rendered=rendered,
        plain_visits=source.cost,
        freshness_elsewhere=freshness_elsewhere(collection, source) if rendered else None,
        shell=need.shell,
        cpu_seconds=need.cpu if need.looks else None,
        bytes=need.bytes if need.looks else None,
        missing=missing(config.browser),
    )
