"""Sources: as users describe them, what their visits showed, and what the next one must know."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import InputError, UnknownSourceError
from observant.store.engine import CHUNK, Columns, StorePiece, chunks
from observant.store.lists import condition_of, one_source, page_of, select_sources, steady
from observant.store.snapshots import unpacked
from observant.store.types import (
    FailingHost,
    Page,
    Scheduled,
    Source,
    SourceColumns,
    SourceQuery,
    StoredSource,
)
from observant.store.validation import checked_importance, checked_source, instant
from observant.store.visit import Previous, Validators
from observant.times import micros

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from observant.arrays import Floats
    from observant.store.engine import Session

__all__ = ["Sources"]

_SCHEMES = ("", "https://", "http://")
_FIELDS = {name for name in Source.__struct_fields__ if name != "name"}


class Sources(StorePiece):
    """Sources by name."""

    def add(self, sources: Iterable[Source], *, now: float | None = None) -> int:
        """Add those that are new; returns how many were.

        One that is there already keeps all it has. One that was removed comes back, with the new
        description and its old visits. Any bad one refuses all, and is named.
        """
        instant_ = self._engine.now(now)
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

    def known(self, names: Iterable[str]) -> list[str]:
        """Those of the names that are sources already, in their order."""
        wanted = list(dict.fromkeys(names))

        def work(session: Session) -> set[str]:
            rows = (session.all("sources_by_name", names=list(some)) for some in chunks(wanted))
            return {name for some in rows for name, _, state in some if state != "removed"}

        there = self._engine.read(work)
        return [name for name in wanted if name in there]

    def update(self, name: str, *, now: float | None = None, **changes: Any) -> StoredSource:
        """Change fields of `Source` (not the name): ``update(name, state="paused")``.

        `config` is replaced, not merged.
        """
        instant_ = self._engine.now(now)
        return self._engine.write(lambda session: _describe(session, name, changes, instant_))

    def update_many(
        self, changes: Mapping[str, Mapping[str, Any]], *, now: float | None = None
    ) -> int:
        """Change many sources, given fields by name; some hundred in each transaction."""
        instant_ = self._engine.now(now)

        def work(session: Session, some: Sequence[str]) -> None:
            for name in some:
                _describe(session, name, changes[name], instant_)

        for some in chunks(changes, _AT_ONCE):  # visits are committed in between
            self._engine.write(partial(work, some=some))
        return len(changes)

    def remove(self, name: str, *, forget: bool = False, now: float | None = None) -> bool:
        """Take a source off all lists and schedules; False if there is none.

        Its visits stay in the log. `forget` deletes its visits, versions and events as well.
        """
        instant_ = self._engine.now(now)

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

    def get(self, name: str) -> StoredSource:
        """The source of this name, or `UnknownSourceError`."""
        return self._engine.read(lambda session: one_source(session, name))

    def numbered(self, number: int) -> StoredSource:
        """The source with this `id`, or `UnknownSourceError`."""
        where = "s.id = :id AND s.state <> 'removed'"
        found = self._engine.read(lambda s: select_sources(s, where, {"id": number}))
        if not found:
            raise UnknownSourceError(f"there is no source with the number {number}")
        return found[0]

    def find(self, text: str) -> StoredSource:
        """The source of this name or, if only one name contains the text, that one.

        An address without its scheme, and without the last slash, is a name too: `example.org`.
        """
        whole = [f"{scheme}{text}{slash}" for scheme in _SCHEMES for slash in ("", "/")]

        def work(session: Session) -> StoredSource:
            where = "s.name IN :names AND s.state <> 'removed'"
            exact = {row.name: row for row in select_sources(session, where, {"names": whole})}
            for name in whole:
                if name in exact:
                    return exact[name]
            contains = session.text("contains").replace("{word}", "word")
            statement = session.text("names_containing").replace("{contains}", contains)
            names = session.sql(statement, {"word": text.casefold()})
            if len(names) > 1:
                raise UnknownSourceError(
                    f"several sources have {text!r} in their name, {names[0][0]!r} and "
                    f"{names[1][0]!r} among them; say more of it"
                )
            if not names:
                raise UnknownSourceError(
                    f"there is no source {text!r}; `observant list` shows the names"
                )
            return one_source(session, names[0][0])

        return self._engine.read(work)

    def count(self, query: SourceQuery | None = None, /, **fields: Any) -> int:
        """How many sources a list has, on all its pages."""
        query = _query(query, fields)

        def work(session: Session) -> int:
            where, given = condition_of(session, query)
            return int(session.sql(f"SELECT count(*) FROM sources AS s WHERE {where}", given)[0][0])  # noqa: S608

        return self._engine.read(work)

    def active(self, shards: Iterable[int] | None = None) -> int:
        """How many are watched, in all shards or in some."""
        if shards is None:
            return self._engine.read(lambda session: int(session.value("count_active") or 0))
        some = sorted(set(shards))
        return self._engine.read(lambda session: int(session.value("count_in", shards=some) or 0))

    def unseen(self) -> int:
        """How many of them were never visited."""
        return self._engine.read(lambda session: int(session.value("count_unseen") or 0))

    def tags(self) -> dict[str, int]:
        """Every tag and how many sources have it."""
        return self._engine.read(lambda session: dict(session.all("all_tags")))

    def scheduled(
        self,
        shards: Iterable[int] | None = None,
        *,
        states: Sequence[str] = ("active",),
        since: float | None = None,
    ) -> Iterator[Scheduled]:
        """Every source of these shards with its posterior, to fill a scheduler after a start; or
        those that somebody has added, changed or removed `since`, if their `states` are asked for.
        """
        wanted = None if shards is None else sorted(set(shards))
        following: Sequence[Scheduled] | None = None
        texts, nothing = dict[str, str](), dict[str, Any]()
        while following is None or len(following) == CHUNK:
            last = following[-1].source.id if following else 0
            work = partial(_chunk, last=last, shards=wanted, states=states, since=since)
            following = self._engine.read(work)
            for one in following:
                _share(one.source, texts, nothing)
            yield from following

    def due(
        self, *, now: float | None = None, shards: Iterable[int] | None = None, limit: int = 1000
    ) -> list[StoredSource]:
        """Active sources whose time has come, longest due first."""
        given: dict[str, Any] = {"now": micros(self._engine.now(now)), "most": limit}
        where = "s.state = 'active' AND s.due_at <= :now"
        if shards is not None:
            given["shards"] = list(shards)
            where += " AND s.shard + 0 IN :shards"  # + 0: walk along the due times all the same
        where += " ORDER BY s.due_at, s.id LIMIT :most"
        return self._engine.read(lambda session: select_sources(session, where, given))

    def set_due(self, due: Mapping[str, float | None]) -> None:
        """Move due times without a visit, all in one transaction."""
        rows = [
            {"name": name, "due_at": instant(at, "a due time")} for name, at in sorted(due.items())
        ]
        self._engine.write(lambda session: session.many("set_due", rows))

    def likelihoods(self, sources: Sequence[StoredSource]) -> list[bytes | None]:
        """What the visits of these sources have taught of their rates; None for nothing."""
        found: dict[int, bytes] = {}
        for some in chunks([source.id for source in sources]):
            found.update(self._engine.read(partial(_kept_likelihoods, ids=some)))
        return [found.get(source.id) for source in sources]

    def sampled_likelihoods(self, shards: Iterable[int], one_in: int = 1) -> list[bytes]:
        """What visits have taught of one in so many active sources of these shards."""
        given = {"shards": sorted(shards), "one_in": one_in}
        return [row[0] for row in self._engine.read(lambda s: s.all("sampled_posteriors", **given))]

    def set_rates(self, rates: Mapping[str, tuple[float, float, float]]) -> None:
        """Replace rates and their intervals without a visit, all in one transaction."""
        rows = [
            {"name": name, "rate": rate, "rate_low": low, "rate_high": high}
            for name, (rate, low, high) in sorted(rates.items())
        ]
        self._engine.write(lambda session: session.many("set_rate", rows))

    def addresses(self) -> list[tuple[str, str, float]]:
        """Name, address and importance of every active source."""
        return [tuple(row) for row in self._engine.read(lambda session: session.all("addresses"))]

    def set_importance(self, importance: Mapping[str, float], *, now: float | None = None) -> None:
        """Weigh many sources anew, some hundreds in a transaction."""
        at = micros(self._engine.now(now))
        for names in chunks(sorted(importance)):
            rows = [
                {"name": name, "importance": checked_importance(importance[name], name), "now": at}
                for name in names
            ]
            self._engine.write(partial(_weigh, rows=rows))

    def previous(self, name: str, *, text: bool = True) -> Previous:
        """What the next visit needs to know; without `text` the snapshot is not read."""
        try:
            return self.previous_many([name], text=text)[name]
        except KeyError:
            raise UnknownSourceError(f"there is no source {name!r}") from None

    def previous_many(self, names: Iterable[str], *, text: bool = True) -> dict[str, Previous]:
        """The same for many; unknown names are absent."""
        found: dict[str, Previous] = {}
        for some in chunks(names):

            def work(session: Session, some: Sequence[str] = some) -> None:
                rows = session.all("remembered", names=list(some))
                ids = [row[0] for row in rows] if text else []
                contents = session.all("latest_contents", sources=ids, kind="text") if ids else []
                texts = {row[0]: unpacked(*row[1:]).decode("utf-8", "replace") for row in contents}
                found.update((row[1], _PREVIOUS(row[1:], text=texts.get(row[0]))) for row in rows)

            self._engine.read(work)
        return found

    def columns(self, limit: int = 4000) -> SourceColumns:
        """Active sources as columns: all of them, or about so many, evenly spread by their numbers,
        which have nothing to do with how they change.
        """
        import numpy as np

        def work(session: Session) -> tuple[int, list[Any]]:
            total = int(session.value("count_active") or 0)
            step = max(-(-total // limit), 1)
            return total, session.all("summary_sources", step=step)

        total, rows = self._engine.read(work)
        columns: list[Any] = list(zip(*rows, strict=True)) if rows else [()] * 16
        id_, name, host, weight, tags, config, good, due, changed, *rest = columns
        rate, low, high, cost, visits, changes, data = rest

        def instants(values: Sequence[int | None]) -> Floats:
            return np.array([np.nan if v is None else v / 1e6 for v in values], np.float64)

        def numbers(values: Sequence[float | None]) -> Floats:
            return np.array([np.nan if v is None else v for v in values], np.float64)

        return SourceColumns(
            total=total,
            id=np.array(id_, np.int64),
            name=list(name),
            host=list(host),
            importance=np.array(weight, np.float64),
            tags=list(tags),
            config=list(config),
            good_at=instants(good),
            due_at=instants(due),
            changed_at=instants(changed),
            rate=numbers(rate),
            rate_low=numbers(low),
            rate_high=numbers(high),
            cost=numbers(cost),
            visits=np.array(visits, np.int64),
            changes=np.array(changes, np.int64),
            posterior=[None if one is None else bytes(one) for one in data],
        )

    def failing_hosts(self, limit: int = 10) -> list[FailingHost]:
        """Hosts with failing sources, those with most first."""
        rows = self._engine.read(lambda session: session.all("failing_hosts", most=limit))
        return [
            FailingHost(host, sources, failing, in_row, error or "", status, at and at / 1e6)
            for host, sources, failing, in_row, error, status, at in rows
        ]

    def each(self, query: SourceQuery | None = None, /, **fields: Any) -> Iterator[StoredSource]:
        """Every source of a list, read page after page: of a thousand, unless `limit` says less."""
        page = self.list(query, **{"limit": CHUNK} | fields)
        yield from page.sources
        while page.next is not None:
            page = self.list(query, **{"limit": CHUNK} | fields | {"after": page.next})
            yield from page.sources

    def list(self, query: SourceQuery | None = None, /, **fields: Any) -> Page:
        """One page of sources, as a query or its fields ask for: ``list(tag="news", limit=20)``."""
        query = _query(query, fields)

        def work(session: Session) -> Page:
            return page_of(session, query, steady(self._engine.now(session=session)))

        return self._engine.read(work)


_AT_ONCE = 500
"""Sources that are described anew in one transaction."""


def _query(query: SourceQuery | None, fields: dict[str, Any]) -> SourceQuery:
    return msgspec.structs.replace(query or SourceQuery(), **fields)


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


def _kept_likelihoods(session: Session, ids: Sequence[int]) -> dict[int, bytes]:
    return dict(session.all("posteriors", sources=list(ids)))


def _weigh(session: Session, rows: list[dict[str, Any]]) -> None:
    session.many("set_importance", rows)


_OF_A_SOURCE = ("comparisons", "versions", "posteriors", "memories", "members", "events", "visits")
"""Tables that hold rows of a source, besides `tags`."""


_PREVIOUS = Columns(
    Previous,
    "source digest_raw digest_text record:json memory:json validators:validators last_modified:at "
    "selection_version visited_at posterior",
    validators=lambda text: Validators(**msgspec.json.decode(text)),
)


def _share(source: StoredSource, texts: dict[str, str], nothing: dict[str, Any]) -> None:
    """Of what is equal keep one: an observer holds all its sources in memory."""
    change = msgspec.structs.force_setattr
    if not source.config:
        change(source, "config", nothing)
    if source.url == source.name:
        change(source, "url", source.name)
    change(source, "host", texts.setdefault(source.host, source.host))
    change(source, "kind", texts.setdefault(source.kind, source.kind))
    change(source, "state", texts.setdefault(source.state, source.state))


def _chunk(
    session: Session,
    last: int,
    shards: list[int] | None,
    states: Sequence[str],
    since: float | None,
) -> list[Scheduled]:
    given: dict[str, Any] = {"last": last, "states": list(states), "most": CHUNK}
    where = "s.id > :last AND s.state IN :states"
    if shards is not None:
        where, given["shards"] = f"{where} AND s.shard + 0 IN :shards", shards  # in order of id
    if since is not None:
        where, given["since"] = f"{where} AND s.updated_at >= :since", micros(since)
    sources = select_sources(session, f"{where} ORDER BY s.id LIMIT :most", given)
    posteriors = _kept_likelihoods(session, [source.id for source in sources])
    return [Scheduled(source=s, posterior=posteriors.get(s.id)) for s in sources]
