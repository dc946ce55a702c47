"""The settings of the add-on, read once and checked: every name begins with ``OBSERVANT_``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from observant.errors import InputError
from observant.units import parse_budget, parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from observant.observer.content import Rules

_PREFIX = "OBSERVANT_"


@dataclass(frozen=True, kw_only=True)
class AddonSettings:
    """Where visits go, and what decides what is due. Durations are days, the budget is per day."""

    visits: str | None = None
    """``OBSERVANT_VISITS``: a JSON Lines file that visits are appended to."""
    store: str | None = None
    """``OBSERVANT_STORE``: a store of observant, instead of the file."""
    plan: str | None = None
    """``OBSERVANT_PLAN``: a plan that `observant plan -o` wrote; its periods decide."""
    budget: float | None = None
    """``OBSERVANT_BUDGET``: visits a day; without a plan, one is made from the visits so far."""
    objective: str = "freshness"
    grace: float = 0.0
    min_period: float = 0.0
    max_period: float = 365.0
    most: int = 100_000
    """``OBSERVANT_MOST``: the most sources that one run is given to visit."""
    batch: int = 100
    """``OBSERVANT_BATCH``: so many visits are written at once."""
    batch_seconds: float = 5.0
    """``OBSERVANT_BATCH_SECONDS``: none waits longer than this to be written."""
    rules: Rules
    """``OBSERVANT_COMPARE``: what counts as a change, as in ``compare`` of a source."""

    @property
    def decides(self) -> bool:
        """Whether anything is set that says what is due."""
        return self.plan is not None or self.budget is not None or self.store is not None

    @classmethod
    def read(cls, settings: Mapping[str, Any] | Any) -> AddonSettings:
        """Read them from Scrapy's settings, or from any mapping.

        >>> AddonSettings.read({"OBSERVANT_VISITS": "v.jsonl", "OBSERVANT_BUDGET": "2/s"}).budget
        172800.0
        >>> AddonSettings.read({"OBSERVANT_BUDGET": "2/s"})
        Traceback (most recent call last):
            ...
        observant.errors.InputError: set OBSERVANT_VISITS (a file) or OBSERVANT_STORE
        """
        import msgspec

        from observant.observer.content import Rules

        def get(name: str) -> Any:
            return settings.get(f"{_PREFIX}{name}")

        visits, store = get("VISITS"), get("STORE")
        if visits and store:
            raise InputError("OBSERVANT_VISITS and OBSERVANT_STORE are both set: choose one")
        if not visits and not store:
            raise InputError("set OBSERVANT_VISITS (a file) or OBSERVANT_STORE")
        if store and get("PLAN"):
            raise InputError("OBSERVANT_PLAN goes with OBSERVANT_VISITS; a store plans by itself")
        if visits and not str(visits).endswith((".jsonl", ".ndjson")):
            raise InputError(
                "OBSERVANT_VISITS is a JSON Lines file, which can be appended to: end its name in "
                ".jsonl"
            )
        given: dict[str, Any] = {
            "visits": str(visits) if visits else None,
            "store": str(store) if store else None,
            "plan": str(get("PLAN")) if get("PLAN") else None,
        }
        readers = {
            "BUDGET": parse_budget,
            "OBJECTIVE": str,
            "GRACE": parse_duration,
            "MIN_PERIOD": parse_duration,
            "MAX_PERIOD": parse_duration,
            "MOST": int,
            "BATCH": int,
            "BATCH_SECONDS": float,
        }
        for name, read in readers.items():
            value = get(name)
            if value is None:
                continue
            try:
                given[name.lower()] = read(value)  # type: ignore[operator]
            except (ValueError, TypeError, InputError) as error:
                raise InputError(f"{_PREFIX}{name}: {error}") from error
        for name in ("most", "batch"):
            if given.get(name, 1) < 1:
                raise InputError(f"{_PREFIX}{name.upper()} is at least 1, not {given[name]}")
        try:
            rules = msgspec.convert(dict(get("COMPARE") or {}), Rules)
        except (msgspec.ValidationError, InputError, TypeError, ValueError) as error:
            raise InputError(f"{_PREFIX}COMPARE: {error}") from error
        return cls(**given, rules=rules)
