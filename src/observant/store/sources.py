"""Sources: adding, changing, listing, and what their next visit needs to know."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import InputError
from observant.store.contents import unpacked
from observant.store.door import as_json, checked_source, from_json, instant
from observant.store.engine import micros, seconds
from observant.store.errors import UnknownSourceError
from observant.store.listing import (
    SORTS,
    condition_of,
    one_source,
    page_of,
    read_cursor,
    select_sources,
    steady,
    write_cursor,
)
from observant.store.part import CHUNK, Part, chunks
from observant.store.types import (
    KEEP,
    Page,
    Remembered,
    Scheduled,
    Source,
    StoredSource,
    Totals,
    Validators,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from observant.store.engine import Row, Session

__all__ = ["Sources", "validators_json"]

_FIELDS = {name for name in Source.__struct_fields__ if name != "name"}


class Sources(Part):
    """The part of the store that keeps sources."""

    def add_sources(self, sources: Iterable[Source], *, now: float | None = None) -> int:
        instant_ = self._now(now)
        rows = {source.name: checked_source(source, instant_) for source in sources}
        tags = {name: msgspec.json.decode(row["tags"]) for name, row in rows.items()}

        def work(session: Session) -> int:
            states: dict[str, str] = {}
            for names in chunks(rows):
                states.update(
                    (name, state)
                    for name, _, state in session.all("sources_by_name", names=list(names))
                )
            new = [row | {"now": micros(instant_)} for n, row in rows.items() if n not in states]
            back = [
                row | {"now": micros(instant_)}
                for name, row in rows.items()
                if states.get(name) == "removed"
            ]
            session.many("add_source", new)
            session.many("describe_source", back)
            added = [row["name"] for row in (*new, *back)]
            session.many("tag", [{"tag": tag, "name": n} for n in added for tag in tags[n]])
            return len(added)

        return self._engine.write(work)

    def update_source(self, name: str, *, now: float | None = None, **changes: Any) -> StoredSource:
        instant_ = self._now(now)
        return self._engine.write(lambda session: _describe(session, name, changes, instant_))

    def update_sources(
        self, changes: Mapping[str, Mapping[str, Any]], *, now: float | None = None
    ) -> int:
        instant_ = self._now(now)

        def work(session: Session, some: Sequence[str]) -> None:
            for name in some:
                _describe(session, name, changes[name], instant_)

        for some in chunks(changes, _AT_ONCE):  # visits are committed in between
            self._engine.write(partial(work, some=some))
        return len(changes)

    def remove_source(self, name: str, *, forget: bool = False, now: float | None = None) -> bool:
        instant_ = self._now(now)

        def work(session: Session) -> bool:
            found = session.run("remove_source", name=name, now=micros(instant_)) > 0
            source = session.value("source_id", name=name)
            if source is None:
                return False
            session.run("untag", sources=[source])
            if not forget:
                return found
            for table in _OF_A_SOURCE:
                session.change(f"DELETE FROM {table} WHERE source = :source", {"source": source})  # noqa: S608
            session.run("forget_source", source=source)
            session.run("sweep")
            return True

        return self._engine.write(work)

    def source(self, name: str) -> StoredSource:
        return self._engine.read(lambda session: one_source(session, name))

    def find_source(self, text: str) -> StoredSource:
        def work(session: Session) -> StoredSource:
            exact = select_sources(
                session, "s.name = :name AND s.state <> 'removed'", {"name": text}
            )
            if exact:
                return exact[0]
            contains = session.text("contains").replace("{word}", "word")
            statement = session.text("names_containing").replace("{contains}", contains)
            names = session.sql(statement, {"word": text.casefold()})
            if len(names) > 1:
                raise UnknownSourceError(
                    f"several sources have {text!r} in their name, {names[0][0]!r} and "
                    f"{names[1][0]!r} among them; say more of it"
                )
            if not names:
                raise UnknownSourceError(f"there is no source {text!r}")
            return one_source(session, names[0][0])

        return self._engine.read(work)

    def list_sources(
        self,
        *,
        search: str | None = None,
        tag: str | None = None,
        host: str | None = None,
        state: str | None = None,
        kind: str | None = None,
        sort: str = "name",
        descending: bool = False,
        limit: int = 100,
        offset: int = 0,
        after: str | None = None,
    ) -> Page:
        if sort not in SORTS:
            raise InputError(
                f"sources cannot be sorted by {sort!r}; choose from {', '.join(SORTS)}"
            )
        if limit < 1 or offset < 0:
            raise InputError("a page has at least one source, and an offset is zero or more")
        cursor = None if after is None else read_cursor(after, sort, descending)

        def work(session: Session) -> Page:
            where, given = condition_of(session, search, tag, host, state, kind)
            now = steady(self._now(None, session))
            found = page_of(session, where, given, sort, descending, limit + 1, offset, cursor, now)
            following = None
            if len(found) > limit:
                found = found[:limit]
                following = write_cursor(found[-1], sort, descending, now)
            return Page(sources=tuple(found), next=following)

        return self._engine.read(work)

    def count(
        self,
        *,
        search: str | None = None,
        tag: str | None = None,
        host: str | None = None,
        state: str | None = None,
        kind: str | None = None,
    ) -> int:
        def work(session: Session) -> int:
            where, given = condition_of(session, search, tag, host, state, kind)
            return int(session.sql(f"SELECT count(*) FROM sources AS s WHERE {where}", given)[0][0])  # noqa: S608

        return self._engine.read(work)

    def tags(self) -> dict[str, int]:
        return self._engine.read(lambda session: dict(session.all("all_tags")))

    def totals(self) -> Totals:
        def work(session: Session) -> Totals:
            rows = session.all("counts")
            by_state = {row[0]: row[1] for row in rows if row[0] != "removed"}
            snapshots = session.one("count_snapshots") or (0, 0)
            return Totals(
                sources=sum(by_state.values()),
                by_state=by_state,
                visits=int(sum(row[2] for row in rows)),
                changes=int(sum(row[3] for row in rows)),
                failures=int(sum(row[4] for row in rows)),
                pending=session.value("count_pending"),
                snapshots=int(snapshots[0]),
                snapshot_bytes=int(snapshots[1]),
            )

        return self._engine.read(work)

    def scheduled(
        self, shards: Iterable[int] | None = None, *, states: Sequence[str] = ("active",)
    ) -> Iterator[Scheduled]:
        wanted = None if shards is None else sorted(set(shards))
        following: Sequence[Scheduled] | None = None
        while following is None or len(following) == CHUNK:
            last = following[-1].source.id if following else 0
            following = self._engine.read(partial(_chunk, last=last, shards=wanted, states=states))
            yield from following

    def due(
        self, *, now: float | None = None, shards: Iterable[int] | None = None, limit: int = 1000
    ) -> list[StoredSource]:
        given: dict[str, Any] = {"now": micros(self._now(now)), "most": limit}
        where = "s.state = 'active' AND s.due_at <= :now"
        if shards is not None:
            given["shards"] = list(shards)
            where += " AND s.shard + 0 IN :shards"  # + 0: walk along the due times all the same
        where += " ORDER BY s.due_at, s.id LIMIT :most"
        return self._engine.read(lambda session: select_sources(session, where, given))

    def set_due(self, due: Mapping[str, float | None]) -> None:
        rows = [
            {"name": name, "due_at": instant(at, "a due time")} for name, at in sorted(due.items())
        ]
        self._engine.write(lambda session: session.many("set_due", rows))

    def remembered(self, name: str, *, text: bool = True) -> Remembered:
        try:
            return self.remembered_many([name], text=text)[name]
        except KeyError:
            raise UnknownSourceError(f"there is no source {name!r}") from None

    def remembered_many(self, names: Iterable[str], *, text: bool = True) -> dict[str, Remembered]:
        found: dict[str, Remembered] = {}
        for some in chunks(names):

            def work(session: Session, some: Sequence[str] = some) -> None:
                rows = session.all("remembered", names=list(some))
                texts = (
                    session.all("latest_contents", sources=[row[1] for row in rows], kind="text")
                    if text
                    else []
                )
                by_source = {row[0]: unpacked(*row[1:]).decode("utf-8", "replace") for row in texts}
                found.update((row[0], _remembered(row, by_source.get(row[1]))) for row in rows)

            self._engine.read(work)
        return found

    def set_memory(
        self, name: str, memory: dict[str, Any] | None, *, validators: Any = KEEP
    ) -> None:
        def work(session: Session) -> None:
            source = one_source(session, name).id
            session.run(
                "set_memory",
                source=source,
                memory=None if memory is None else as_json(memory),
                validators=validators_json(validators),
                set_validators=int(validators is not KEEP),
            )

        self._engine.write(work)


_AT_ONCE = 500
"""Sources that are described anew in one transaction."""


def _describe(
    session: Session, name: str, changes: Mapping[str, Any], instant_: float
) -> StoredSource:
    unknown = set(changes) - _FIELDS
    if unknown:
        raise InputError(
            f"a source has no field {', '.join(sorted(unknown))} that can be changed; there "
            f"are {', '.join(sorted(_FIELDS))}",
            source=name,
        )
    before = one_source(session, name)
    given = {field: getattr(before, field) for field in _FIELDS} | dict(changes)
    row = checked_source(Source(name=name, **given), instant_)
    row["due_at"] = instant(given["due_at"], "due_at")  # None stays None
    session.run("describe_source", **row, now=micros(instant_))
    if "tags" in changes:
        session.run("untag", sources=[before.id])
        tags = msgspec.json.decode(row["tags"])
        session.many("tag", [{"tag": tag, "name": name} for tag in tags])
    return one_source(session, name)


_OF_A_SOURCE = ("comparisons", "versions", "posteriors", "memories", "members", "events", "visits")
"""Tables that hold rows of a source, besides `tags`."""


def validators_json(validators: Any) -> str | None:
    """Validators as the database keeps them."""
    if validators is None or validators is KEEP:
        return None
    return as_json(
        {name: getattr(validators, name, None) for name in ("url", "etag", "last_modified")}
    )


def _remembered(row: Row, text: str | None) -> Remembered:
    validators = from_json(row[6])
    return Remembered(
        source=row[0],
        digest_raw=row[2],
        digest_text=row[3],
        text=text,
        record=from_json(row[4]) or {},
        memory=from_json(row[5]) or {},
        validators=None if validators is None else Validators(**validators),
        last_modified=seconds(row[7]),
        selection_version=row[8] or "",
        visited_at=seconds(row[9]),
        posterior=row[10],
    )


def _chunk(
    session: Session, last: int, shards: list[int] | None, states: Sequence[str]
) -> list[Scheduled]:
    given: dict[str, Any] = {"last": last, "states": list(states), "most": CHUNK}
    where = "s.id > :last AND s.state IN :states"
    if shards is not None:
        where, given["shards"] = f"{where} AND s.shard + 0 IN :shards", shards  # in order of id
    sources = select_sources(session, f"{where} ORDER BY s.id LIMIT :most", given)
    posteriors: dict[int, bytes] = dict(
        session.all("posteriors", sources=[source.id for source in sources])
    )
    return [Scheduled(source=s, posterior=posteriors.get(s.id)) for s in sources]
