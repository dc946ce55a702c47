"""Signals in a replay: drawn from the updates that happened, or as they were recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError
from observant.planning.schedule.signals import LISTING
from observant.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observant.arrays import Flags, Floats, Integers
    from observant.formats.signals import SignalLog
    from observant.simulation.world import World

_STREAM = 5
"""Of random numbers."""


@dataclass(frozen=True, eq=False)
class WorldSignals:
    """What was said of changes, in the order of time."""

    source: Integers
    time: Floats
    about: Floats
    """When it says that the change was; not-a-number where it does not."""
    covered: Flags
    """The sources whose changes are announced; where nothing is said of these, that says something.
    """
    kind: tuple[str, ...]
    """The kind of signal of each source."""
    group: tuple[str, ...]
    """And whose they are: a channel is a kind of one group."""

    def channels(self) -> Iterator[tuple[str, str, Integers]]:
        """Each kind and group, with the sources that it announces."""
        members: dict[tuple[str, str], list[int]] = {}
        for i in np.flatnonzero(self.covered).tolist():
            members.setdefault((self.kind[i], self.group[i]), []).append(i)
        for (kind, group), sources in members.items():
            yield kind, group, np.array(sources, np.int64)

    def lists(self) -> list[tuple[str, str, Integers]]:
        """Those of them that say nothing until they are read: the sitemap or feed of a group."""
        return [channel for channel in self.channels() if channel[0] in LISTING]


@dataclass(frozen=True)
class DrawnSignals:
    """Signals of a given quality, drawn anew for each seed.

    Every change is announced with probability `recall`, a `delay` later (exponential, with that
    mean, in days). False signals come at random times, so many for each source that a share
    `precision` of its signals is true. Only a `share` of the sources is covered. They come by
    themselves, unless their `kind` is ``sitemap`` or ``feed``: then each group of sources has a
    list, which dates what it says, and says nothing until a policy spends a visit on reading it.

    >>> DrawnSignals.parse("recall=0.8, precision=0.7, delay=1h").delay * 24
    1.0
    """

    recall: float
    precision: float
    delay: float = 0.0
    share: float = 1.0
    kind: str = "signal"

    def __post_init__(self) -> None:
        for name in ("recall", "precision", "share"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"signals: {name} lies between 0 and 1, not {getattr(self, name)}")
        if not self.precision > 0:
            raise InputError("signals: precision must be above 0; with recall=0 none is true")
        if not 0 <= self.delay < np.inf:
            raise InputError(f"signals: the delay must be a finite time, not {self.delay}")

    @classmethod
    def parse(cls, text: str) -> DrawnSignals:
        """Read ``recall=0.8,precision=0.7,delay=1h,share=0.5,kind=sitemap``.

        All but the first two may be left out.
        """
        given: dict[str, Any] = {}
        for part in text.split(","):
            name, equals, value = (piece.strip() for piece in part.partition("="))
            if not equals or name not in {"recall", "precision", "delay", "share", "kind"}:
                raise InputError(
                    "signals are recall=…,precision=…[,delay=…][,share=…][,kind=…], "
                    f"not {part.strip()!r}"
                )
            if name == "kind":
                given[name] = value or "signal"
                continue
            try:
                given[name] = parse_duration(value) if name == "delay" else float(value)
            except ValueError:
                raise InputError(f"signals: {name} must be a number, not {value!r}") from None
        if missing := [name for name in ("recall", "precision") if name not in given]:
            raise InputError(f"signals: give {' and '.join(missing)}, too")
        return cls(**given)

    def draw(self, world: World) -> WorldSignals:
        """The signals of this world."""
        rng = world.rng(_STREAM)
        n = world.sources
        covered = rng.permutation(n) < round(self.share * n)
        owner = np.repeat(np.arange(n), np.diff(world.offsets))
        real = (world.times > world.start) & (world.times <= world.end) & covered[owner]
        owner, time = owner[real], world.times[real]
        said = rng.random(len(time)) < self.recall
        late = rng.exponential(self.delay, len(time)) if self.delay else np.zeros(len(time))
        counts = np.bincount(owner, minlength=n)
        expected = counts * max(self.recall, 0.05) * (1 / self.precision - 1)
        if not self.recall:  # worthless: as many as would be half of the changes
            expected = counts * 0.5
        false = np.repeat(np.arange(n), rng.poisson(expected))
        source = np.concatenate([owner[said], false])
        lies = rng.uniform(world.start, world.end, len(false))
        at = np.concatenate([(time + late)[said], lies])
        about = np.concatenate([time[said], lies])
        if self.kind not in LISTING:
            about[:] = np.nan
        return _sorted(source, at, about, covered, (self.kind,) * n, world)


def signals_of(log: SignalLog, names: tuple[str, ...], world: World) -> WorldSignals:
    """Recorded signals. A source is covered if there is any signal about it."""
    which = log.numbered(names)
    there = (which >= 0) & (log.time > world.start) & (log.time <= world.end)
    if not there.any():
        raise InputError("no signal is about a source of the trace, in the time of the replay")
    kind = ["signal"] * len(names)
    for i, k in zip(which[there].tolist(), log.kind[there].tolist(), strict=True):
        kind[i] = log.kinds[k]
    covered = np.zeros(len(names), bool)
    covered[which[there]] = True
    return _sorted(which[there], log.time[there], log.about[there], covered, tuple(kind), world)


def signals_from(given: Any, names: tuple[str, ...], world: World) -> WorldSignals | None:
    """Signals in any form: none, drawn, recorded, or ready."""
    if given is None or isinstance(given, WorldSignals):
        return given
    if isinstance(given, str):
        given = DrawnSignals.parse(given)
    if isinstance(given, DrawnSignals):
        return given.draw(world)
    return signals_of(given, names, world)


def _sorted(
    source: Integers,
    time: Floats,
    about: Floats,
    covered: Flags,
    kind: tuple[str, ...],
    world: World,
) -> WorldSignals:
    order = np.argsort(time, kind="stable")
    labels = world.groups or ("",)
    tops = [label.split("/")[0] for label in labels]
    group = tuple(tops[g] for g in world.group.tolist())
    return WorldSignals(source[order], time[order], about[order], covered, kind, group)
