"""What no visit tells: sources that are silent for too long, and an observer that cannot keep up.

Each is told once. A silence has an id of its own (the source and its last change); an alarm goes on
at one level and off at another, so that it does not flutter in between.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from observant.observer.events import event_id, subject_of
from observant.store import Event
from observant.times import DAY
from observant.units import format_duration, format_share

if TYPE_CHECKING:
    from observant.observer.config import Notify
    from observant.observer.metrics import Status
    from observant.store import Store, StoredSource

_KEPT = "notify.episodes"
_CLEAR = 0.5
"""The lateness alarm goes off when half of its level is reached."""
_MARGIN = 0.02
"""The budget alarm goes off when α is this much above the wanted one."""
_OVERSPENT, _WITHIN = 1.25, 1.1
_HOUR = 3600.0
_SILENT = 180.0
"""Seconds after which an observer that says nothing no longer keeps an alarm on."""
_MOST = 1000
"""Sources that are looked at closely in one round."""


class Alarms:
    """Lateness and budget of the observers of a store, with hysteresis.

    An alarm goes on with the first observer that has reason for it and off when none has any: it is
    told once, however many there are. What is on is kept in the store and survives a restart.

    - ``lateness``: due visits wait for longer than `Notify.lateness`, on average.
    - ``budget``: the budget buys less currency than `Notify.currency`, or in an hour a quarter more
      than the budget was spent.
    """

    def __init__(self, store: Store, notify: Notify, observer: str = "") -> None:
        self._store, self._notify, self._observer = store, notify, observer
        self._episodes: dict[str, Any] = {}
        """Of each alarm that is on: since when, and which observers said so when."""
        self._spent: list[tuple[float, float]] = []

    def look(self, status: Status) -> list[Event]:
        """The events that this status causes; they are in the outbox when this returns."""
        before = self._store.settings.get(_KEPT) or {}
        self._episodes = dict(before)
        told = [*self._lateness(status), *self._budget(status)]
        if self._episodes != before:
            self._store.settings.set(_KEPT, self._episodes)
        if told:
            self._store.outbox.add(told)
        return told

    def _lateness(self, status: Status) -> list[Event]:
        level = self._notify.seconds("lateness")
        late = status.lateness
        words = f"due visits have been waiting for {format_duration(late / DAY)} on average"
        return self._turn(
            "lateness",
            status.at,
            on=level > 0 and late > level,
            off=level <= 0 or late < _CLEAR * level,
            reason=words,
            details={"lateness": late, "lateness_max": status.lateness_max},
        )

    def _budget(self, status: Status) -> list[Event]:
        wanted, planned = self._notify.currency, status.alpha_planned
        known = wanted > 0 and not math.isnan(planned)
        ratio = self._spending(status)
        poor, rich = known and planned < wanted, not known or planned > wanted + _MARGIN
        reason = f"the budget buys a currency of {format_share(planned)}" if known else "the budget"
        if ratio > _OVERSPENT:
            reason = f"{ratio:.2f} times the budget was spent in the last hour"
        return self._turn(
            "budget",
            status.at,
            on=poor or ratio > _OVERSPENT,
            off=rich and ratio < _WITHIN,
            reason=reason,
            details={"alpha_planned": None if math.isnan(planned) else planned, "wanted": wanted},
        )

    def _spending(self, status: Status) -> float:
        """Visits of the last hour over those that were planned; 1 while less than an hour is
        known.
        """
        self._spent.append((status.at, status.spent))
        while len(self._spent) > 2 and self._spent[1][0] <= status.at - _HOUR:
            self._spent.pop(0)
        first_at, first = self._spent[0]
        passed = status.at - first_at
        planned = status.budget_per_day * passed / DAY
        if passed < 0.9 * _HOUR or planned < 20.0:  # chance alone would overspend so few
            return 1.0
        return (status.spent - first) / planned

    def _turn(
        self, alarm: str, at: float, *, on: bool, off: bool, reason: str, details: dict[str, Any]
    ) -> list[Event]:
        episode = self._episodes.pop(alarm, None)
        said = {} if episode is None else episode["said"]
        said = {
            name: when
            for name, when in said.items()
            if name != self._observer and when > at - _SILENT
        }
        if on or (episode is not None and not off):
            said[self._observer] = at
        since = at if episode is None else episode["since"]
        if said:
            self._episodes[alarm] = {"since": since, "said": said}
        if (episode is None) == (not said):
            return []
        state = "on" if said else "off"
        payload = {
            "alarm": alarm,
            "state": state,
            "title": f"{alarm} alarm {state}",
            "reason": reason if said else f"over: {reason}",
            "at": at,
            "since": since,
        }
        identity = event_id("alarm", alarm, state, since)
        return [Event(id=identity, topic="alarm", payload=payload | details)]


def silences(store: Store, epsilon: float, now: float) -> int:
    """Tell of sources that should have changed long ago; returns how many silences are new.

    Candidates are those whose rate alone makes their silence unlikely. They are judged by
    `observant.estimation.overdue`, which knows how sure the rate is.
    """
    if not epsilon:
        return 0
    quiet = _candidates(store, epsilon)
    if not quiet:
        return 0
    from observant.estimation.overdue import overdue

    log = store.visits.log_of([source.id for source in quiet.values()])
    if log is None:
        return 0
    table = overdue(log, epsilon=epsilon)
    new = 0
    for row in range(len(table)):
        if table.reason[row] != "silent":
            continue
        source = quiet[str(table.source[row])]
        days, chance = float(table.days[row]), float(table.probability[row])
        payload = {
            **subject_of(source),
            "at": now,
            "since": source.changed_at,
            "days": days,
            "probability": chance,
            "reason": f"no change for {format_duration(days)}, "
            f"which its rate makes {chance:.2g} likely",
        }
        event = Event(
            id=event_id("overdue", source.name, source.changed_at), topic="overdue", payload=payload
        )
        new += store.outbox.add([event], source=source.name)
    return new


def _candidates(store: Store, epsilon: float) -> dict[str, StoredSource]:
    """Active sources whose silence up to the last visit is unlikely at their estimated rate."""
    least = -math.log(epsilon) / 2  # the rate may be twice what it is estimated to be
    found: list[tuple[float, StoredSource]] = []
    for source in store.sources.each(state="active"):
        if source.changed_at is None or source.good_at is None or not source.rate:
            continue
        expected = source.rate * (source.good_at - source.changed_at) / DAY
        if expected > least:
            found.append((expected, source))
    found.sort(key=lambda one: -one[0])
    return {source.name: source for _, source in found[:_MOST]}
