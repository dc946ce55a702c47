"""A source that an observer watches, with its settings as they are in force."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec

from observant.observer.content import learned_noise
from observant.observer.events import Standing
from observant.store.visit import Previous

if TYPE_CHECKING:
    from observant.errors import InputError
    from observant.observer.active_hours import ActiveHours
    from observant.observer.config import SourceSettings
    from observant.store import StoredSource
    from observant.store.visit import Visit


class Watched(msgspec.Struct, eq=False, gc=False):
    """A source that this observer visits. A million of them must be small, and are part of no
    cycle that a collection of garbage would have to find.
    """

    row: StoredSource
    settings: SourceSettings
    hours: ActiveHours | None
    noise: int = 0
    """Fields that were known to be noise before the last visit."""
    selection: str = ""
    """Which rules the version before was compared by."""
    text: str | None = None
    """The version before, while a visit is under way."""
    standing: Standing = msgspec.field(default_factory=Standing)
    due_at: float | None = None
    """When it is due, as the store has it."""
    refused: InputError | None = None
    """Why its settings cannot be used: every visit fails with that until somebody mends them."""
    cost: float | None = None
    """What a visit costs, in plain visits; None before the first."""
    wish: float = math.inf
    """Days after which somebody wants it to be visited again."""
    spot_check: float | None = None
    """How many spot checks a day it could expect, while the visit under way is one."""

    def begins_anew(self, visit: Visit) -> bool:
        """Whether what earlier visits said counts no more: for the rate, for charts, for exports.

        It does not when somebody has edited what is compared, and when this visit has unmasked
        noise: earlier changes may have been nothing else.
        """
        found = visit.comparison
        if found is None or visit.outcome == "failed":
            return False
        if self.selection and found.selection_version != self.selection:
            return True
        if found.outcome != "same" or not found.noise:
            return False
        return len(learned_noise(Previous(memory=found.memory))) > self.noise


def own_settings(row: StoredSource) -> dict[str, Any]:
    """The settings of a source itself; an importance of 1 leaves the word to its tags."""
    return row.config | ({"importance": row.importance} if row.importance != 1.0 else {})
