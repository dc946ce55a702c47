"""Settings that somebody changed while it ran: they are kept in the store, win over the
configuration file and the environment, and running observers take them up.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from observant.errors import InputError
from observant.names import OBJECTIVES
from observant.observer.config import Config, Retention, usual_budget

if TYPE_CHECKING:
    from collections.abc import Mapping

    from observant.store import Store

KEPT = "observer.settings"
CHANGED_BY_HAND = "sources.changed"
HOURS_LEARNED = "observer.hours"
"""At which hours sources change: see `planning.schedule.pace.joined`."""
_GOOD = "observer.settings.good"
"""The last ones that were found usable when they were kept."""


class SettingsChanges(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings to be changed; those that are not given stay, null goes back to the file's."""

    budget: str | float | msgspec.UnsetType | None = msgspec.UNSET
    """As in ``5000/day``."""
    objective: str | msgspec.UnsetType | None = msgspec.UNSET
    grace: str | float | msgspec.UnsetType | None = msgspec.UNSET
    """As in ``6h``."""
    retention: Retention | msgspec.UnsetType | None = msgspec.UNSET


class InForce(NamedTuple):
    """The configuration that is in force, and which kept settings are not, with the reasons."""

    config: Config
    refused: dict[str, str]


def in_force(
    config: Config, kept: Mapping[str, Any] | None, good: Mapping[str, Any] | None = None
) -> InForce:
    """The configuration with the kept settings in it.

    A kept setting that cannot be used (it was kept by another version or another hand, or the
    configuration file has changed under it) is replaced by the `good` one before it, or else by
    what the file says; the others stand.

    >>> in_force(Config(budget="10/day"), {"budget": "20/day"}).config.budget_per_day
    20.0
    >>> found = in_force(Config(), {"budget": "20/day", "grace": "6h"}, {"budget": "30/day"})
    >>> found.config.budget, found.config.grace
    ('20/day', 0.0)
    >>> found.refused["grace"]
    'a grace belongs to the objective currency, not to freshness: choose currency, or a grace of 0'
    """
    refused: dict[str, str] = {}
    kept = kept if isinstance(kept, dict) else {}
    good = good if isinstance(good, dict) else {}
    for name in _NAMES:  # the objective comes before its grace
        for values in (kept, good):
            if values.get(name) is None:
                continue
            try:
                config = _with(config, name, values[name])
                break
            except InputError as error:
                refused.setdefault(name, error.message)
    return InForce(config, refused)


def settings_of(store: Store, config: Config) -> InForce:
    """The same for a store: a budget that is left to us follows from the number of its sources."""
    found = in_force(config, store.settings.get(KEPT), store.settings.get(_GOOD))
    if found.config.budget != "auto":
        return found
    budget = f"{usual_budget(store.sources.active()):.0f}/day"
    return found._replace(config=msgspec.structs.replace(found.config, budget=budget))


def is_usual_budget(store: Store, config: Config) -> bool:
    """Whether nobody has said how many visits may be made."""
    return in_force(config, store.settings.get(KEPT)).config.budget == "auto"


def kept_settings(store: Store, config: Config) -> SettingsChanges:
    """What was changed while it ran, without what cannot be used."""
    stored, refused = store.settings.get(KEPT), settings_of(store, config).refused
    usable = {
        name: value
        for name, value in (stored if isinstance(stored, dict) else {}).items()
        if name in _NAMES and name not in refused
    }
    return msgspec.convert(usable, SettingsChanges)


def keep(store: Store, config: Config, changes: SettingsChanges) -> Config:
    """Check changes, keep them in the store, and give the configuration that is in force then.

    What was kept before and cannot be used is forgotten. An objective that has no grace takes the
    grace of before with it.
    """
    kept: dict[str, Any] = msgspec.to_builtins(kept_settings(store, config))
    for name in _NAMES:
        value = getattr(changes, name)
        if value is None:
            kept.pop(name, None)
        elif value is not msgspec.UNSET:
            kept[name] = msgspec.to_builtins(value)
    objective = kept.get("objective", config.objective)
    if objective != "currency" and changes.grace is msgspec.UNSET:
        kept.pop("grace", None)
    found = in_force(config, kept)
    for name, reason in found.refused.items():
        raise InputError(reason, column=None if name in reason else name)
    store.settings.set(_GOOD, kept or None)
    store.settings.set(KEPT, kept or None)
    return found.config


def give_way(store: Store, flags: Mapping[str, Any]) -> None:
    """Forget what was kept of settings that somebody gives as flags now: the latest word holds.

    What is changed while it runs wins again.
    """
    kept: dict[str, Any] = dict(store.settings.get(KEPT) or {})
    left = {name: value for name, value in kept.items() if flags.get(name) is None}
    if left != kept:
        store.settings.set(_GOOD, left or None)
        store.settings.set(KEPT, left or None)


def _with(config: Config, name: str, value: Any) -> Config:
    try:
        if name == "retention":
            value = msgspec.convert(value, Retention)
        elif not isinstance(value, str | int | float) or isinstance(value, bool):
            raise InputError(f"{name}: this is no such setting")
        elif name == "objective" and value not in {*OBJECTIVES, config.objective}:
            raise InputError(f"no objective {value!r}; one of {', '.join(OBJECTIVES)}")
    except msgspec.ValidationError as error:
        raise InputError(f"{name}: {error}") from error
    without = {"grace": 0.0} if name == "objective" and value != "currency" else {}
    return msgspec.structs.replace(config, **without, **{name: value})


_NAMES = SettingsChanges.__struct_fields__


def touch(store: Store) -> None:
    """Tell running observers that somebody has added, changed or removed sources."""
    store.settings.set(CHANGED_BY_HAND, os.urandom(8).hex())
