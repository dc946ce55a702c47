"""Visits in a store of observant, compared, learned from and scheduled as its observer does."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import ObservantError
from observant.estimation.priors import Prior
from observant.observer.config import Config
from observant.observer.content import Comparer, Rules
from observant.observer.events import Standing, look_up_events
from observant.observer.fetched import visit_of
from observant.observer.schedule import Planned, Schedule
from observant.observer.sources import host_of
from observant.observer.watched import own_settings
from observant.scrapy.ledger import Due, give_up_oldest
from observant.store import Entry, Posterior, Source, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observant.observer.fetched import Fetched
    from observant.scrapy.settings import AddonSettings
    from observant.store import StoredSource

log = logging.getLogger("observant.scrapy")

_TAG = "scrapy:"
_USUAL_BUDGET = 1000.0


class StoreLedger:
    """A store. Sources that it does not know are added when they are visited."""

    def __init__(self, settings: AddonSettings, now: float) -> None:
        assert settings.store is not None  # noqa: S101 - open_ledger has looked
        self._settings = settings
        self._store = open_store(settings.store)
        self._schedule = Schedule(
            settings.budget or _USUAL_BUDGET,
            objective=settings.objective,
            grace=settings.grace,
            start=now,
        )
        prior = self._store.settings.get("observer.prior")
        if prior is not None:
            self._schedule.restore_prior(Prior.restore(prior))
        self._comparer = Comparer(settings.rules)
        self._own: dict[str, Comparer] = {}
        self._known: dict[str, tuple[float | None, str, str]] = {}
        """Of each source, when it is due, where it is and who parses it."""
        self._waiting: list[Entry] = []
        self._unwritten: set[str] = set()
        self._take_up()

    def due(self, now: float) -> Iterator[Due]:
        times = {name: known[0] or 0.0 for name, known in self._known.items()}
        names = sorted((n for n, due_at in times.items() if due_at <= now), key=times.__getitem__)
        for name in names[: self._settings.most]:
            _, url, callback = self._known[name]
            yield Due(name, url, callback)

    def is_due(self, source: str, now: float) -> bool:
        known = self._known.get(source)
        return known is None or (known[0] or 0.0) <= now

    def record(self, source: str, fetched: Fetched, callback: str = "") -> None:
        if source in self._unwritten:
            self.flush()  # what it is compared with must be in the store
        if source not in self._schedule:
            self._add(source, callback)
        known = self._store.sources.previous(source)
        previous = None if known.is_empty else known
        found = self._own.get(source, self._comparer).compare(previous, fetched)
        visit = visit_of(source, fetched, found)
        if visit.outcome == "failed":
            self._schedule.visited(source, visit.started_at, "failed")
        elif visit.outcome != "unconfirmed":
            self._schedule.visited(source, visit.started_at, visit.changed)
        belief, due_at = self._schedule.belief(source), self._schedule.due_at(source)
        row = self._store.sources.get(source)
        before = Standing.of(row)
        told = look_up_events(
            *(self._store, row, visit, before, before.after(visit), Config().notify),
            text_before=previous.text if previous else None,
        )
        posterior = Posterior(
            data=self._schedule.likelihood(source),
            rate=belief.rate,
            rate_low=belief.low,
            rate_high=belief.high,
        )
        self._known[source] = (due_at, *self._known[source][1:])
        self._waiting.append(Entry(visit=visit, posterior=posterior, due_at=due_at, outbox=told))
        self._unwritten.add(source)
        if len(self._waiting) >= self._settings.batch:
            self.flush()

    def flush(self) -> None:
        if not self._waiting:
            return
        try:
            self._store.visits.record_many(self._waiting)
        except ObservantError as error:
            log.error("visits could not be stored: %s", error)  # noqa: TRY400
            give_up_oldest(self._waiting, self._settings)
            return
        self._waiting.clear()
        self._unwritten.clear()

    def close(self) -> None:
        self.flush()
        self._store.close()

    # -- sources ------------------------------------------------------------------------------

    def _take_up(self) -> None:
        planned = []
        for item in self._store.sources.scheduled():
            row = item.source
            url = row.url or row.name
            if row.kind != "http" or not url.startswith(("http://", "https://")):
                continue
            self._known[row.name] = (row.due_at, url, _callback_of(row))
            planned.append(self._planned(row, item.posterior))
        self._schedule.add(planned)

    def _planned(self, row: StoredSource, likelihood: bytes | None) -> Planned:
        limits: dict[str, Any] = {
            "min_period": self._settings.min_period,
            "max_period": self._settings.max_period,
        }
        if row.config:
            try:
                usual = Config(objective=self._settings.objective, grace=self._settings.grace)
                own = usual.settings_of(row.tags, own_settings(row), row.name)
                limits = usual.limits_of(own)
                if own.compare:
                    self._own[row.name] = Comparer(msgspec.convert(own.compare, Rules))
            except ObservantError as error:
                log.error("the settings of a source are passed over: %s", error)  # noqa: TRY400
        return Planned(
            row.name,
            row.host or row.name,
            importance=row.importance,
            **limits,
            last_at=row.good_at,
            likelihood=likelihood,
        )

    def _add(self, source: str, callback: str) -> None:
        host = host_of("http", source)
        tags = (f"{_TAG}{callback}",) if callback else ()
        self._store.sources.add([Source(name=source, host=host, tags=tags)])
        self._known[source] = (None, source, callback)
        self._schedule.add(
            [
                Planned(
                    source,
                    host,
                    min_period=self._settings.min_period,
                    max_period=self._settings.max_period,
                )
            ]
        )


def _callback_of(row: Any) -> str:
    """Who parses a source is kept as one of its tags."""
    tags = (tag.removeprefix(_TAG) for tag in row.tags if tag.startswith(_TAG))
    return next(tags, "")
