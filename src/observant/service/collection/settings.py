"""Settings while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from observant.observer.settings import KEPT, SettingsChanges, keep, settings_of
from observant.service.collection.entries import masked_settings
from observant.service.summaries import SettingsView
from observant.units import format_duration

if TYPE_CHECKING:
    from observant.observer.config import Config
    from observant.service.collection.context import Context

__all__ = ["CollectionSettings"]


class CollectionSettings:
    """The settings in force."""

    def __init__(self, context: Context) -> None:
        self._in = context

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
