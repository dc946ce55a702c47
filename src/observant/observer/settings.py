"""Settings that somebody changed while it ran: they are kept in the store, win over the
configuration file and the environment, and running observers take them up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import InputError
from observant.observer.config import Config, Retention
from observant.planning.objectives import OBJECTIVES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from observant.store import Store

__all__ = ["KEPT", "SettingsChanges", "give_way", "in_force", "keep"]

KEPT = "observer.settings"


class SettingsChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings to be changed; those that are not given stay, null goes back to the file's."""

    budget: str | float | msgspec.UnsetType | None = msgspec.UNSET
    """As in ``5000/day``."""
    objective: str | msgspec.UnsetType | None = msgspec.UNSET
    grace: str | float | msgspec.UnsetType | None = msgspec.UNSET
    """As in ``6h``."""
    retention: Retention | msgspec.UnsetType | None = msgspec.UNSET


def in_force(config: Config, kept: dict[str, Any] | None) -> Config:
    """The configuration with the kept settings in it.

    >>> in_force(Config(budget="10/day"), {"budget": "20/day"}).budget_per_day
    20.0
    """
    if not kept:
        return config
    values = {name: kept[name] for name in _NAMES if kept.get(name) is not None}
    if "retention" in values:
        values["retention"] = msgspec.convert(values["retention"], Retention)
    return msgspec.structs.replace(config, **values)


def keep(store: Store, config: Config, changes: SettingsChanges) -> Config:
    """Check changes, keep them in the store, and give the configuration that is in force then."""
    kept: dict[str, Any] = dict(store.settings.get(KEPT) or {})
    for name in _NAMES:
        value = getattr(changes, name)
        if value is None:
            kept.pop(name, None)
        elif value is not msgspec.UNSET:
            kept[name] = msgspec.to_builtins(value)
    found = in_force(config, kept)
    if found.objective not in OBJECTIVES:
        raise InputError(f"no objective {found.objective!r}; one of {', '.join(OBJECTIVES)}")
    for what in ("budget_per_day", "grace_days"):
        getattr(found, what)
    found.retention.limits()
    store.settings.set(KEPT, kept or None)
    return found


def give_way(store: Store, flags: Mapping[str, Any]) -> None:
    """Forget what was kept of settings that somebody gives as flags now: the latest word holds.

    What is changed while it runs wins again.
    """
    kept: dict[str, Any] = dict(store.settings.get(KEPT) or {})
    left = {name: value for name, value in kept.items() if flags.get(name) is None}
    if left != kept:
        store.settings.set(KEPT, left or None)


_NAMES = SettingsChanges.__struct_fields__
