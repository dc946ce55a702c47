"""Settings while it runs, and whether all is well."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

import msgspec

from observant.errors import ObservantError
from observant.observer.settings import KEPT, SettingsChanges, keep, settings_of
from observant.service.answers import Health, SettingsView
from observant.service.collection.masking import masked_settings
from observant.service.collection.overview import Overviews
from observant.store import StoreAwayError
from observant.units import format_duration

if TYPE_CHECKING:
    from observant.observer.config import Config

__all__ = ["STORE_AWAY", "Settings"]

STORE_AWAY = "the database is away; the observer waits, and goes on when it is back"


class Settings(Overviews):
    """The part of the collection that holds settings and health."""

    def settings(self) -> SettingsView:
        """The settings in force."""
        return self._view(self.config)

    def change_settings(self, changes: SettingsChanges) -> SettingsView:
        """Change budget, objective, grace or retention; running observers take it up."""
        found = keep(self.store, self.given, changes)
        return self._view(found)

    def health(self) -> Health:
        """Say ok, or what is wrong, without secrets."""
        problems = []
        try:
            observing = bool(self.observers(lively=True))
            totals = self.totals()
        except ObservantError as error:
            away = isinstance(error, StoreAwayError)
            return Health(
                ok=False,
                problems=[STORE_AWAY if away else "the store cannot be read"],
                version=version("observant"),
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
        status = self.status()
        if status is not None and status.outage:
            problems.append("the network seems to be out")
        if status is not None and status.store_away:
            problems.append(STORE_AWAY)
        return Health(
            ok=not problems,
            problems=problems,
            version=version("observant"),
            observing=observing,
            sources=totals.sources,
            pending_events=totals.pending,
        )

    def _view(self, config: Config) -> SettingsView:
        kept = self.store.settings.get(KEPT) or {}
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
            refused=settings_of(self.store, self.given).refused,
        )


def _text(value: str | float, unit: str) -> str:
    return value if isinstance(value, str) else f"{value:g}{unit}"
