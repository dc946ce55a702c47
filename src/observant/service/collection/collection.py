"""`Collection`: every read and every change that the service offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from observant import __version__
from observant.errors import InputError, ObservantError
from observant.observer.permission import Permission, not_allowed
from observant.observer.settings import KEPT, SettingsChanges, keep, settings_of
from observant.service.collection.activity import Activity
from observant.service.collection.context import CollectionPiece, Context
from observant.service.collection.currency import CollectionCurrency
from observant.service.collection.entries import masked_settings
from observant.service.collection.export import CollectionTransfer
from observant.service.collection.pictures import CollectionPictures
from observant.service.collection.signals import CollectionSignals
from observant.service.collection.sources import CollectionSources
from observant.service.collection.subscriptions import CollectionSubscriptions
from observant.service.summaries import Health, Overview, SettingsView
from observant.store import StoreAwayError
from observant.times import utc
from observant.units import counted, format_duration

if TYPE_CHECKING:
    from observant.observer.config import Config


STORE_AWAY = "the database is away; the observer waits, and goes on when it is back"

_HOURS = 48


class Collection(Context):
    """A store, its settings and (perhaps) its running observer, as the service sees them.

    >>> from observant.observer.config import Config
    >>> from observant.service.collection import NewSource, SourceQuery
    >>> from observant.store import open_store
    >>> with open_store(":memory:") as store:
    ...     collection = Collection(store, Config())
    ...     added = collection.sources.add(NewSource(url="https://example.org/a", tags=("news",)))
    ...     collection.sources.list(SourceQuery(tag="news")).total
    1
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.sources = CollectionSources(self)
        self.pictures = CollectionPictures(self)
        self.subscriptions = CollectionSubscriptions(self)
        self.currency = CollectionCurrency(self)
        self.activity = Activity(self)
        self.settings = CollectionSettings(self)
        self.signals = CollectionSignals(self)
        self.document = CollectionTransfer(self)

    def overview(self, grace_days: float | None = None, *, patience: float = 0.2) -> Overview:
        """The collection at any grace; unless given, that of each source.

        What takes long (what was measured, what other budgets would buy) is left out if it is not
        there after `patience` seconds: it is being computed, and will be there later.
        """
        config = self.config
        grace = grace_days
        if grace is not None and not 0 <= grace <= 36_500:
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
            alpha = self.currency.alpha(grace)
            curve = self.currency.curve()
            own = int((beliefs.graces() != config.grace_days).sum())
            if grace is None and own:
                notes.append(f"{counted(own, 'source has', 'sources have')} a grace of their own")
            if len(beliefs) < beliefs.total:
                notes.append(
                    f"α is computed from {len(beliefs):,} of {beliefs.total:,} sources, evenly "
                    "spread, and its interval allows for that"
                )
        return Overview(
            at=utc(now),
            sources=totals.sources,
            by_state=totals.by_state,
            unseen=self.cache.get("unseen", self.store.sources.unseen, max_age=1.0, wait=1.0).value
            or 0,
            visits=totals.visits,
            changes=totals.changes,
            failures=totals.failures,
            grace_days=config.grace_days if grace is None else grace,
            alpha=alpha,
            alpha_planned=self.currency.planned(grace, patience=patience),
            curve=curve,
            measured=self.currency.measured(grace, patience=patience),
            budget=self.currency.budget(grace, options=beliefs is not None, patience=patience),
            hours=self.activity.hours(_HOURS),
            lateness=self.currency.lateness(beliefs),
            hosts=self.activity.hosts(),
            latest=self.activity.unseen(10),
            observing=bool(self.activity.observers(lively=True)),
            age_seconds=0.0 if beliefs is None else max(now - beliefs.at, 0.0),
            notes=notes,
        )

    def _disabled(self) -> int:
        """How many active sources are not visited, since the configuration does not allow them."""
        observer = self.observer
        permission = Permission(self.given) if observer is None else observer.permission

        def count() -> int:
            return sum(s.state == "active" for s, _ in not_allowed(self.store, permission))

        return self.cache.get("disabled", count, max_age=600.0, wait=0.1).value or 0

    def health(self) -> Health:
        """Say ok, or what is wrong, without secrets."""
        problems = []
        try:
            observing = bool(self.activity.observers(lively=True))
            totals = self.totals()
        except ObservantError as error:
            away = isinstance(error, StoreAwayError)
            return Health(
                ok=False,
                problems=[STORE_AWAY if away else "the store cannot be read"],
                version=__version__,
                observing=False,
                sources=0,
                pending_events=0,
            )
        if totals.by_state.get("active") and not observing:
            problems.append("no observer is running")
        if self.observer is not None and self.observer.problem:
            problems.append("the observer ended with an error and is started again: see the log")
        problems += [
            f"the setting {name} that is kept cannot be used, the one before it holds ({reason})"
            for name, reason in settings_of(self.store, self.given).refused.items()
        ]
        if disabled := self._disabled():
            told = counted(disabled, "source is", "sources are")
            problems.append(f"{told} not visited until the configuration allows it: see the log")
        if self.observer is not None and self.observer.outage.on:
            problems.append("the network seems to be out")
        if self.observer is not None and self.observer.patience.away_since is not None:
            problems.append(STORE_AWAY)
        return Health(
            ok=not problems,
            problems=problems,
            version=__version__,
            observing=observing,
            sources=totals.sources,
            pending_events=totals.pending,
        )


# -- settings -------------------------------------------------------------------------------------


class CollectionSettings(CollectionPiece):
    """The settings in force."""

    def get(self) -> SettingsView:
        """The settings in force."""
        return self._view(self._in.config)

    def change(self, changes: SettingsChanges) -> SettingsView:
        """Change budget, objective, grace or retention; running observers take it up."""
        return self._view(keep(self._in.store, self._in.given, changes))

    def _view(self, config: Config) -> SettingsView:
        kept = self._in.store.settings.get(KEPT) or {}
        postgres = config.store.startswith(("postgresql://", "postgres://"))
        return SettingsView(
            budget=_text(config.budget, "/day"),
            budget_per_day=config.budget_per_day,
            objective=config.objective,
            grace=_text(config.grace, "d"),
            grace_days=config.grace_days,
            retention={
                name: value
                for name, value in msgspec.to_builtins(config.retention).items()
                if value is not None
            },
            host_delay=format_duration(config.host_delay_days),
            downloaders=config.downloaders,
            contact=config.contact,
            allow=list(config.allow),
            defaults=masked_settings(config.defaults),
            tags={tag: masked_settings(own) for tag, own in config.tags.items()},
            store="PostgreSQL" if postgres else "SQLite",
            kept=sorted(kept),
            refused=settings_of(self._in.store, self._in.given).refused,
        )


def _text(value: str | float, unit: str) -> str:
    return value if isinstance(value, str) else f"{value:g}{unit}"
