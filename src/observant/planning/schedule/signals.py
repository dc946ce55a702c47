"""Signals that a source may have changed (sitemap dates, feed entries, pings): taken in, judged.

`scheduler.signals` is told who is announced by which channel (`listen`), and what came (`receive`).
The model is in `heard`: how far a channel is believed is learned from what visits find, and silence
of a channel that would have told is evidence as well. Signals spend no budget; they only move
whose visit is worth most.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from observant.errors import InputError
from observant.planning.objectives.own import PenaltyTable
from observant.planning.schedule.groups import lengthen
from observant.planning.schedule.quality import SignalledVisits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike

    from observant.arrays import Flags, Floats, Integers
    from observant.planning.objectives.own import Penalty
    from observant.planning.schedule.price import Price
    from observant.planning.schedule.quality import SignalQuality
    from observant.planning.schedule.state import State

LISTING = frozenset({"sitemap", "feed"})
"""Kinds of signals that stand in a list, which says nothing until it is read."""

_ENOUGH = 10.0
"""Visits after a signal before a channel is called honest, or a liar."""
_LEARNED = (
    *("signals", "exposure", "logs", "visits", "announced", "told", "lied"),
    *("falses", "days", "came", "doubt", "doubts", "before"),
    *("expected", "odds", "read", "lag", "compared", "gaps", "delay", "delays"),
)
"""What of a channel outlives a restart."""
_LATEST = ("read", "lag", "before", "came", "doubt", "doubts")
"""Of these, what is no sum."""
Learned = dict[str, Any]
_LIMITS = (0.025, 0.975)
"""Of an interval."""
_LIAR = 0.2
"""A channel whose precision surely is below that says nothing."""


_MOST = 4
"""Channels that a source listens to."""


class Reliability(NamedTuple):
    """How far the signals of one kind about one group are believed, with 95 % intervals."""

    kind: str
    group: str
    sources: int
    """Whose changes it announces."""
    signals: int
    recall: float
    recall_low: float
    recall_high: float
    """Share of the changes that are announced."""
    precision: float
    precision_low: float
    precision_high: float
    """Share of the announced sources that had changed."""
    false_per_day: float
    false_low: float
    false_high: float
    """False signals of one source."""
    delay: float | None
    """Mean days from a change to its signal, where signals say when the change was."""
    changes: float
    """Changes that visits found, as far as they still count, and how many were announced."""
    announced: float
    verdict: str
    """``unproven``, ``believed``, or ``lies``."""


class Signals:
    """The channels of a scheduler that learns rates.

    >>> from observant.planning.schedule import Scheduler
    >>> scheduler = Scheduler(1.0, prior="learn", jitter=0)
    >>> scheduler.add(["a", "b"], last=0.0)
    >>> scheduler.signals.listen(["a", "b"], "sitemap", "news.example")
    >>> scheduler.signals.receive(["b"], [0.5], "sitemap", "news.example")
    1
    >>> scheduler.due_at("b") < scheduler.due_at("a")
    True
    """

    def __init__(self, state: State, dispatch: Any, objective: str | Penalty, price: Price) -> None:
        self._state, self._dispatch, self._objective, self._price = (
            state,
            dispatch,
            objective,
            price,
        )
        self.compared = SignalledVisits()
        """What visits found where rates are given."""
        self.places: dict[tuple[str, str], int] = {}
        """Each channel by kind and group; a kind itself has the group ""."""
        self.spare: list[int] = []
        """Places in `State.more` that are free."""
        self.lists: dict[str | int, tuple[Integers, int]] = {}
        """The members and the channel of each list that is read."""

    def __len__(self) -> int:
        return len(self.places)

    @property
    def given(self) -> bool:
        """Whether rates are given, and how good signals are with them."""
        return not self._state.learning

    def listen(
        self,
        sources: Sequence[str | int],
        kind: str = "signal",
        group: str = "",
        *,
        blind: bool = False,
        quality: SignalQuality | None = None,
    ) -> None:
        """From now on the changes of these sources are announced by this channel, too.

        A source has four channels at most: a fifth takes the place of one that is not believed.
        With `blind`, whoever is announced is visited at once, whatever visits find: a rival. Where
        rates are given, say the `quality` of all signals about a source; else it is learned.
        """
        slots = self._state.places_of(sources)
        if (quality is not None) != self.given:
            raise InputError(
                "say how good signals are (quality=SignalQuality(…)) where rates are given; where "
                "they are learned, that is learned as well"
            )
        if quality is None:
            self._join(slots, self._channel(kind, group, blind))
            return
        self._believe(slots, quality)
        self._price.changed(slots)

    def learn(self, least: int = 50) -> dict[str | None, SignalQuality]:
        """Where rates are given: learn recall and precision per host from the visits so far.

        They are used from now on. Hosts with fewer than `least` visits take those of all hosts
        together; below that, none. Where rates are learned, all that is learned with every visit.
        """
        if not self.given:
            raise InputError("how good signals are is learned with every visit here: `reliability`")
        slots = np.flatnonzero(self._state.given["signal"] > 0)
        host = self._state.sources["host"][slots]
        learned = self.compared.learn(self._state.host_slot, host, least)
        for name, quality in learned.items():
            own = -1 if name is None else self._state.host_slot[name]
            self._believe(slots[host == own], quality)
        if learned:
            self._price.settle()
        return learned

    def _believe(self, slots: Integers, quality: SignalQuality) -> None:
        if self._objective != "freshness":
            raise InputError("with given rates, signals are used for the objective freshness")
        given = self._state.given
        streams = quality.streams(given["rate"][slots])
        for name, values in zip(("silent", "signal", "false"), streams, strict=True):
            given[name][slots] = values

    def receive(
        self,
        sources: Sequence[str | int],
        times: ArrayLike,
        kind: str = "signal",
        group: str = "",
        about: ArrayLike | None = None,
    ) -> int:
        """Take in signals, in the order of time; answer how many say something new.

        `about` is when each says that the change was, not-a-number where it does not; of one that
        is not later than the last visit nothing is taken. Sources that did not listen do from now.
        """
        slots = self._state.places_of(sources)
        when = np.array(np.broadcast_to(np.asarray(times, float), slots.shape))
        said = np.full(len(slots), np.nan) if about is None else np.array(about, float)
        if not np.isfinite(when).all() or said.shape != slots.shape:
            raise InputError("a signal needs a source and a time in days")
        place = -1
        if not self.given:
            place = self._channel(kind, group)
            self._join(slots, place)
        return int(self._dispatch.hear(*self._state.all, slots, when, said, place))

    def read(self, kind: str, group: str, time: float) -> None:
        """A list was read that names what changed: silence counts until then, and no further.

        What was not read yet cannot be held against the channel. Without reads signals are taken
        to come by themselves.
        """
        from observant.planning.schedule import heard

        place = self._channel(kind, group)
        heard.read_list(self._state.channels, place, time)

    def retrace(self, visits: Any, signals: Any, announced: Floats) -> None:
        """Take in visits and signals that were recorded (`driving.retrace`)."""
        from observant.planning.schedule import driving

        kernel: Any = driving.retrace
        kernel(*self._state.all, visits, signals, announced)

    def has(self, source: str | int, kind: str, group: str = "") -> bool:
        """Whether a source listens to this channel."""
        place = self.places.get((kind, group))
        slot = np.array([self._state.find(source)])
        return place is not None and bool(self._hears(slot, place)[0])

    def weigh(
        self, listing: str | int, members: Sequence[str | int], kind: str, group: str
    ) -> None:
        """Let a listing be read as often as that is worth for its members, from its next visit on.

        A read lets all changes be mended that were announced since the last one: it is worth as
        much as a visit to a source that counts as all of them and changes as often as one of them
        has a change that is announced. A listing that is not believed counts nothing. With an
        objective of somebody's own it is read by its own changes.
        """
        from observant.planning.schedule import beliefs

        if callable(self._objective):
            return

        self.lists[listing] = self._state.places_of(members), self._channel(kind, group)
        sources, _, _, clock, known = self._state.all
        beliefs.weigh_list(sources, clock, known, self._state.find(listing), *self.lists[listing])

    def reweigh(self) -> None:
        """More is known of the rates: find anew what reading each list is worth."""
        from observant.planning.schedule import beliefs

        sources, _, _, clock, known = self._state.all
        for listing, (slots, place) in self.lists.items():
            beliefs.weigh_list(sources, clock, known, self._state.find(listing), slots, place)

    def learned(self) -> Learned:
        """What visits have taught of the channels, as JSON can hold it; for `restore`."""
        kept = self._state.channels[: len(self.places)]
        return {
            "channels": [list(key) for key in self.places],
            "fields": {name: kept[name].tolist() for name in _LEARNED},
        }

    def restore(self, learned: Learned, *, add: bool = False) -> None:
        """Go on with what was learned before; who listens is to be said again.

        With `add` it is what others have learned meanwhile (`pooled`).
        """
        from observant.planning.schedule import heard

        for (kind, group), fields in _rows(learned).items():
            of_kind = group == _OF_ALL
            place = self._channel_of_kind(kind) if of_kind else self._channel(kind, group)
            own = self._state.channels[place]
            for name, value in fields.items():
                if value.shape == own[name].shape:
                    own[name] = own[name] + value if add and name not in _LATEST else value
        for (_, group), place in self.places.items():
            if group != _OF_ALL:
                heard.review(self._state.channels, place)

    def leave(self, source: str | int) -> int:
        """A source goes: answers its place."""
        slot = self._state.find(source)
        self.lists.pop(source, None)
        if len(self.places):
            own = self._state.heard[slot]
            at = int(own["next"])
            if at == 0 and own["channel"] > 0:
                self._count(int(own["channel"]) - 1, -1)
            while at > 0:
                one = self._state.more[at - 1]
                self._count(int(one["channel"]) - 1, -1)
                self.spare.append(at - 1)
                at = int(one["next"])
            self._state.heard[slot] = 0
        return slot

    def reliability(self) -> list[Reliability]:
        """How far each channel is believed."""
        rows = []
        for (kind, group), place in self.places.items():
            own = self._state.channels[place]
            if own["members"] > 0:
                rows.append(self._one(kind, group, place, own))
        return rows

    def gather(self) -> None:
        """After a restart: make the tables that the channels need."""
        if len(self.places):
            self._state.signal_tables = _tables(self._objective)
        self._state.gather()

    def _one(self, kind: str, group: str, place: int, own: Any) -> Reliability:
        from scipy.special import betaincinv, gammaincinv

        from observant.planning.schedule import heard

        weights = heard.posterior(self._state.channels, place)
        sums = np.cumsum(weights)
        low, high = (heard.LEVELS[np.searchsorted(sums, q)] for q in _LIMITS)
        true, false = (
            max(own["told"] - own["lied"], 0.0) + 0.5,
            min(own["lied"], own["told"]) + 0.5,
        )
        worst, best = (float(betaincinv(true, false, q)) for q in _LIMITS)
        # The kind stands for as many false signals as in `heard.review`, if it has taught any.
        above = self._state.channels[own["kind"]]
        falses = own["falses"] + (
            heard.stands_for(own["lag"]) if above["days"] > own["days"] else 0.5
        )
        rarest, often = (own["false"] * float(gammaincinv(falses, q)) / falses for q in _LIMITS)
        enough = own["told"] >= _ENOUGH
        verdict = "unproven" if not enough else "lies" if best < _LIAR else "believed"
        return Reliability(
            *(kind, group, int(own["members"]), int(own["signals"])),
            *(float(weights @ heard.LEVELS), float(low), float(high)),
            *(float(true / (true + false)), worst, best),
            *(float(own["false"]), float(rarest), float(often)),
            float(own["delay"] / own["delays"]) if own["delays"] > 0 else None,
            *(float(own["visits"]), float(own["announced"]), verdict),
        )

    def _channel(self, kind: str, group: str, blind: bool = False) -> int:
        """The place of a channel, made where it is new."""
        if (kind, group) in self.places:
            return self.places[kind, group]
        state = self._state
        above = self._channel_of_kind(kind)
        place = self.places[kind, group] = len(self.places)
        if place >= len(state.channels):
            lengthen(state.channels, max(2 * place, 8))
        own = state.channels[place]
        own["kind"], own["blind"], own["begun"] = above, blind, float(state.clock["time"][0])
        state.clock["channels"] = len(self.places)
        from observant.planning.schedule import heard

        heard.review(state.channels, place)
        state.gather()
        return place

    def _channel_of_kind(self, kind: str) -> int:
        name = (kind, _OF_ALL)
        if name not in self.places:
            if not self.places:
                self._state.signal_tables = _tables(self._objective)
                self._state.heard = np.zeros(len(self._state.sources), self._state.heard.dtype)
            place = self.places[name] = len(self.places)
            if place >= len(self._state.channels):
                lengthen(self._state.channels, max(2 * place, 8))
            self._state.channels["kind"][place] = place
        return self.places[name]

    def _hears(self, slots: Integers, place: int) -> Flags:
        """Who of these listens to a channel."""
        state = self._state
        found = state.heard["channel"][slots] == place + 1
        at = state.heard["next"][slots]
        while (inside := at > 0).any():
            one = state.more[np.where(inside, at - 1, 0)]
            found |= inside & (one["channel"] == place + 1)
            at = np.where(inside, one["next"], 0)
        return np.asarray(found)

    def _join(self, slots: Integers, place: int) -> None:
        """Let a channel announce these sources, besides those that do already."""
        state = self._state
        deaf = np.unique(slots[~self._hears(slots, place)])
        alone = state.heard["channel"][deaf] == 0
        if len(first := deaf[alone]):
            state.heard["channel"][first] = place + 1
            self._count(place, len(first))
        for slot in deaf[~alone].tolist():
            self._add(slot, place)

    def _add(self, slot: int, place: int) -> None:
        """Give a source another channel."""
        state = self._state
        if state.heard["next"][slot] == 0:  # what was said so far
            state.heard["next"][slot] = self._room() + 1
            kept = state.more[state.heard["next"][slot] - 1]
            state.more[state.heard["next"][slot] - 1] = state.heard[slot]
            kept["next"], kept["lists"] = 0, 0.0
        at, links = int(state.heard["next"][slot]), []
        while at > 0:
            links.append(at - 1)
            at = int(state.more["next"][at - 1])
        if len(links) >= _MOST:
            channels = state.more["channel"][links] - 1
            silent = [
                k for k, c in zip(links, channels, strict=True) if not state.channels["level"][c]
            ]
            if not silent:
                return
            one = state.more[silent[0]]
            self._count(int(one["channel"]) - 1, -1)
            after = int(one["next"])
            state.more[silent[0]] = 0
            one["channel"], one["next"] = place + 1, after
        else:
            new = self._room()
            state.more["channel"][new] = place + 1
            state.more["next"][new] = state.heard["next"][slot]
            state.heard["next"][slot] = new + 1
        state.heard["channel"][slot] = state.more["channel"][state.heard["next"][slot] - 1]
        self._count(place, 1)

    def _room(self) -> int:
        """A free place for what one of several channels says."""
        state = self._state
        if not self.spare:
            used = len(state.more)
            lengthen(state.more, max(2 * used, 64))
            self.spare = [*range(len(state.more) - 1, used - 1, -1)]
            state.gather()
        place = self.spare.pop()
        state.more[place] = 0
        return place

    def _count(self, place: int, change: int) -> None:
        """So many sources more, or fewer, are announced by a channel."""
        own, now = self._state.channels[place], float(self._state.clock["time"][0])
        own["exposure"] += own["members"] * max(now - own["begun"], 0.0)
        own["begun"] = max(own["begun"], now)
        own["members"] += change


def pooled(kept: Learned, mine: Learned, before: Learned) -> tuple[Learned, Learned]:
    """What several schedulers have learned together, and what of that the others have added.

    `kept` is what they have in common, `mine` what one of them knows by now, and `before` what it
    had in common with the others last time.
    """
    common, own, last = _rows(kept), _rows(mine), _rows(before)
    others: dict[tuple[str, str], dict[str, Any]] = {}
    for key in {**common, **own}:
        there, here, old = common.get(key, {}), own.get(key, {}), last.get(key, {})
        others[key], summed = {}, {}
        for name in _LEARNED:
            some = [rows[name] for rows in (there, here, old) if name in rows]
            if not some or len({one.shape for one in some}) > 1:
                continue
            zero = np.zeros(some[0].shape)
            theirs = there.get(name, zero) - old.get(name, zero)
            others[key][name] = theirs
            summed[name] = here.get(name, zero) + theirs
            if name in _LATEST:
                summed[name] = others[key][name] = here.get(name, there.get(name, zero))
        common[key] = summed
    return _packed(common), _packed(others)


def _rows(learned: Learned) -> dict[tuple[str, str], dict[str, Any]]:
    """The fields of each channel, as far as they can be used."""
    fields = learned.get("fields", {})
    fields = {
        "lied": fields.get("falses", []),
        **fields,
    }  # of a version that did not tell them apart
    return {
        (str(kind), str(group)): {
            name: np.asarray(fields[name][row], float)
            for name in _LEARNED
            if name in fields and row < len(fields[name])
        }
        for row, (kind, group) in enumerate(learned.get("channels", ()))
    }


def _packed(rows: dict[tuple[str, str], dict[str, Any]]) -> Learned:
    whole = {key: row for key, row in rows.items() if len(row) == len(_LEARNED)}
    return {
        "channels": [list(key) for key in whole],
        "fields": {name: [row[name].tolist() for row in whole.values()] for name in _LEARNED},
    }


_OF_ALL = "*"
"""The group of the channel that stands for a whole kind."""


@cache
def _tables(objective: str | Penalty) -> tuple[Floats, Floats]:
    from observant.planning.schedule import heard
    from observant.planning.schedule.crossing import CODES

    made: Any = heard.signal_tables
    if callable(objective):
        places: Any = heard.slope_places
        own = PenaltyTable.of(objective, places())
        table, worths = made(CODES["harmonic"], own.slope)
    else:
        table, worths = made(CODES[objective], np.zeros(0))
    return table, worths
