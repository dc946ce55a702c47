"""The collection on one page: how current it is, what that costs, and what is going on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError, ObservantError
from observant.service.answers import (
    BudgetOption,
    BudgetView,
    CurvePoint,
    Estimate,
    EventItem,
    EventPage,
    HostItem,
    HourItem,
    Lateness,
    Measured,
    ObserverItem,
    Overview,
    finite,
)
from observant.service.collection.base import Base
from observant.service.collection.masking import masked_url
from observant.service.collection.reading import searchable
from observant.service.measured import measured
from observant.service.studies import plan_study
from observant.times import DAY, utc

if TYPE_CHECKING:
    from observant.observer.config import Config
    from observant.service.beliefs import Beliefs
    from observant.store.types import StoredEvent

__all__ = ["GRACES", "Overviews", "event_item"]

HOURS = 48
GRACES = (0.0, *(float(x) for x in np.round(np.geomspace(1 / 96, 60.0, 28), 6)))
"""Days of grace of the performance curve: none, then from a quarter of an hour to two months."""
_FACTORS = (0.5, 1.0, 1.5)
_LIVELY = 90.0
"""Seconds since an observer's last sign of life after which it counts as gone."""


class Overviews(Base):
    """The part of the collection that sums it up."""

    def overview(self, grace_days: float | None = None, *, patience: float = 0.2) -> Overview:
        """The collection at any grace; that of the settings unless told.

        What takes long (what was measured, what other budgets would buy) is left out if it is not
        there after `patience` seconds: it is being computed, and will be there later.
        """
        config = self.config
        grace = config.grace_days if grace_days is None else float(grace_days)
        if not 0 <= grace <= 36_500:
            raise InputError("the grace is from 0 to 36500 days")
        now = self.now()
        notes: list[str] = []
        totals = self.totals()
        beliefs = None
        if totals.by_state.get("active"):
            try:
                beliefs = self.beliefs()
            except ObservantError as error:
                notes.append(str(error))
        alpha, curve = None, []
        if beliefs is not None and len(beliefs):
            alpha = self.alpha(grace)
            curve = self.curve()
            if len(beliefs) < beliefs.total:
                notes.append(
                    f"α is computed from {len(beliefs):,} of {beliefs.total:,} sources, evenly "
                    "spread, and its interval allows for that"
                )
        return Overview(
            at=utc(now),
            sources=totals.sources,
            by_state=totals.by_state,
            visits=totals.visits,
            changes=totals.changes,
            failures=totals.failures,
            grace_days=grace,
            alpha=alpha,
            alpha_planned=self.planned(grace, patience=patience),
            curve=curve,
            measured=self.measured(grace, patience=patience),
            budget=self._budget(config, beliefs, grace, now, patience),
            hours=self.hours(HOURS),
            lateness=self.lateness(beliefs, now),
            hosts=self.hosts(),
            latest=self.events(limit=10).events,
            observing=bool(self.observers(lively=True)),
            age_seconds=0.0 if beliefs is None else max(now - beliefs.at, 0.0),
            notes=notes,
        )

    def alpha(self, grace: float) -> Estimate:
        """Share of copies that are current now, weighted with importance."""
        mean, low, high = self.beliefs().expected(grace)
        return Estimate(value=float(mean[0]), low=float(low[0]), high=float(high[0]))

    def curve(self) -> list[CurvePoint]:
        """α now over the grace."""
        beliefs = self.beliefs()

        def compute() -> list[CurvePoint]:
            columns = zip(GRACES, *(c.tolist() for c in beliefs.expected(GRACES)), strict=True)
            return [CurvePoint(grace_days=g, alpha=a, low=l, high=h) for g, a, l, h in columns]

        return self.cache.get("curve", compute, max_age=15.0, wait=10.0).value or []

    def measured(self, grace: float, *, patience: float = 0.2) -> Measured | None:
        """Currency as visits found it; computed beside the pages and kept for five minutes."""
        grid = min(GRACES, key=lambda g: abs(g - grace))  # one of few keys, whatever is asked
        config = self.config
        near = grace if math.isclose(grace, config.grace_days) else grid

        try:
            beliefs = self.beliefs()  # here: a job of the cache must not wait for another
        except ObservantError:
            return None

        def compute() -> Measured | None:
            return measured(self.store, beliefs, near, config)

        return self.cache.get(("measured", near), compute, max_age=300.0, wait=patience).value

    def hours(self, count: int) -> list[HourItem]:
        """The last hours, also those without a visit."""
        if not 1 <= count <= 24 * 366:
            raise InputError("from 1 to 8784 hours can be asked for")
        last = int(self.now() // 3600)
        since = (last - count + 1) * 3600.0
        known = {hour.at: hour for hour in self.store.visits.hours(since=since)}
        items = []
        for k in range(count):
            at = since + 3600.0 * k
            hour = known.get(at)
            items.append(
                HourItem(
                    at=utc(at),
                    visits=hour.visits if hour else 0,
                    changes=hour.changes if hour else 0,
                    failures=hour.failures if hour else 0,
                    bytes=hour.bytes if hour else 0,
                )
            )
        return items

    def lateness(self, beliefs: Beliefs | None, now: float) -> Lateness:
        """By how much sources that are due have been waiting."""
        if beliefs is None or not len(beliefs):
            return Lateness(due=0, mean_seconds=0.0, max_seconds=0.0)
        late = now - beliefs.columns.due_at
        late = late[np.isfinite(late) & (late > 0)]
        share = len(beliefs) / max(beliefs.total, 1)
        return Lateness(
            due=round(len(late) / share),
            mean_seconds=float(late.mean()) if len(late) else 0.0,
            max_seconds=float(late.max()) if len(late) else 0.0,
        )

    def hosts(self, limit: int = 10) -> list[HostItem]:
        """Hosts with sources whose last visits failed, those with most first."""
        if not 1 <= limit <= 1000:
            raise InputError(f"from 1 to 1000 hosts are listed, not {limit}")
        found = self.cache.get(
            ("hosts", limit),
            lambda: self.store.sources.failing_hosts(limit),
            max_age=10.0,
            wait=10.0,
        )
        return [
            HostItem(
                host=host.host,
                sources=host.sources,
                failing=host.failing,
                failed_in_row=host.in_row,
                error=host.error,
                seen_at=utc(host.seen_at),
            )
            for host in found.value or []
        ]

    def observers(self, *, lively: bool = False) -> list[ObserverItem]:
        """Observers of this store; those seen lately, or all of the last day."""
        now = self.now()
        shards: dict[str, int] = {}
        for lease in self.store.leases.list():
            if lease.expires_at > now:
                shards[lease.observer] = shards.get(lease.observer, 0) + 1
        since = now - (_LIVELY if lively else DAY)
        rows = self.store.leases.observers(since=since, living=lively, now=now)
        return [
            ObserverItem(
                name=row.name,
                started_at=utc(row.started_at),
                seen_at=utc(row.seen_at),
                shards=shards.get(row.name, 0),
            )
            for row in rows
            if not lively or shards.get(row.name)
        ]

    def events(
        self,
        *,
        topic: str | None = None,
        source: int | str | None = None,
        tag: str | None = None,
        after: int | None = None,
        limit: int = 100,
    ) -> EventPage:
        """Events, newest first."""
        if not 1 <= limit <= 1000:
            raise InputError(f"a page has from 1 to 1000 events, not {limit}")
        name = None if source is None else self.find(source).name
        rows = self.store.outbox.list(
            topic=searchable(topic, "topic"),
            source=name,
            tag=searchable(tag, "tag"),
            after=after,
            limit=limit + 1,
        )
        more = len(rows) > limit
        return EventPage(
            events=[event_item(row) for row in rows[:limit]],
            next=rows[limit - 1].number if more else None,
        )

    def planned(self, grace: float, *, patience: float = 0.2) -> float | None:
        """α that the plan in force promises in the long run; None until it is computed."""
        plan = plan_study(self, wait=patience).value
        return None if plan is None else plan.answer.promised([grace])[0]

    def _budget(
        self, config: Config, beliefs: Beliefs | None, grace: float, now: float, patience: float
    ) -> BudgetView:
        per_day = config.budget_per_day
        spent = sum(hour.visits for hour in self.store.visits.hours(since=now - DAY + 3600.0))
        return BudgetView(
            per_day=per_day,
            spent_today=spent,
            spent_share=spent / per_day,
            spot_checks_per_day=config.spot_checks_per_day,
            options=[] if beliefs is None else self._options(grace, patience),
        )

    def _options(self, grace: float, patience: float) -> list[BudgetOption]:
        """What half of the budget, the budget, and half as much again would buy."""
        near = min(GRACES, key=lambda g: abs(g - grace))
        plan = plan_study(self, grace=near, wait=patience).value
        return [
            BudgetOption(factor=factor, per_day=point["budget"], alpha=point["alpha"])
            for point in (plan.curve if plan else ())
            if (factor := round(point["budget"] / self.config.budget_per_day, 6)) in _FACTORS
        ]


def event_item(row: StoredEvent) -> EventItem:
    """An event for an answer. Its payload is what receivers get."""
    payload = dict(row.payload) if isinstance(row.payload, dict) else {}
    if "url" in payload:
        payload["url"] = masked_url(str(payload["url"]))
    at, magnitude = payload.get("at"), payload.get("magnitude")
    return EventItem(
        number=row.number,
        id=row.id,
        topic=row.topic,
        source=row.source,
        source_id=row.source_id,
        title=str(payload.get("title") or ""),
        url=str(payload.get("url") or row.source or ""),
        at=utc(at if isinstance(at, int | float) else row.created_at),
        magnitude=finite(magnitude) if isinstance(magnitude, int | float) else None,
        reason=str(payload.get("reason") or ""),
        tags=[str(tag) for tag in payload.get("tags") or ()],
        delivered_at=utc(row.delivered_at),
        attempts=row.attempts,
        error=row.error,
        payload=payload,
    )
