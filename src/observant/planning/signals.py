"""Signals beside a visit log: how far they can be believed, and what they leave to be planned.

`estimate_signals` takes in visits and signals as they were recorded, with the scheduler's own model
(`observant.planning.schedule.heard`). What it finds makes rates better that a log of visits after
signals would show too high (`estimate_rates`), and a plan that counts on signals to come (`plan`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from observant.errors import InputError
from observant.planning.allocation import Plan
from observant.planning.objectives.composite import CompositeObjective
from observant.planning.objectives.index import Objective, checked_rates
from observant.planning.schedule.signals import Reliability
from observant.tables import Table, first_rows
from observant.times import MICROSECONDS_PER_DAY
from observant.visits.log import require_log

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.arrays import Floats
    from observant.planning.objectives.index import Choice
    from observant.visits import VisitLog

__all__ = ["SignalPlan", "SignalTable", "SignalledFreshness", "estimate_signals", "plan_signals"]

_OF_CHANNEL = tuple(Reliability.__annotations__)
_DELAY = ("delay", "delay_low", "delay_high")
_PASSES = 2
"""Rates are learned with what signals say, and what signals say with the rates."""


@dataclass(frozen=True, eq=False, repr=False)
class SignalTable(Table):
    """How far the signals of each kind about each group are believed, with 95 % intervals."""

    columns: ClassVar[tuple[str, ...]] = (*_OF_CHANNEL[:-3], *_DELAY[1:], *_OF_CHANNEL[-3:])

    reliability: tuple[Reliability, ...]
    delays: Floats
    """Mean days from a change to its signal with its interval, a row a channel; not-a-number where
    signals do not say when the change was."""
    log: VisitLog = field(repr=False)
    """The visits, with what signals say of each (`VisitLog.announced`)."""

    def __getattr__(self, name: str) -> Any:
        if name in _DELAY:
            return self.delays[:, _DELAY.index(name)]
        if name in _OF_CHANNEL:
            return np.array([getattr(row, name) for row in self.reliability])
        raise AttributeError(name)

    def per_source(self) -> tuple[Floats, Floats]:
        """Share of the changes of each source that is announced, and its false signals a day."""
        said = self.log.announced
        if said is None:
            raise InputError("this log has no signals")
        return said[self.log.offsets[:-1], 0], said[self.log.offsets[:-1], 1]

    def __str__(self) -> str:
        def row(i: int) -> str:
            one = self.reliability[i]
            return (
                f"{one.kind:>10}  {one.recall:6.2f} ({one.recall_low:.2f} to {one.recall_high:.2f})"
                f"  {one.precision:9.2f} ({one.precision_low:.2f} to {one.precision_high:.2f})"
                f"  {one.verdict}"
            )

        return first_rows(
            [row.group or "all" for row in self.reliability],
            f"{'kind':>10}  {'recall':>6} {'':14}  {'precision':>9} {'':14}  verdict",
            row,
        )


def estimate_signals(log: VisitLog, signals: Any) -> SignalTable:
    """How far the signals (`observant.formats.signals.SignalLog`) about these sources are true.

    A channel is a kind of signal about a group: that of the log, or else the host. It is judged
    by the visits of the log, as the observer judges it. A source is announced by the kinds of which
    there is any signal about it. Give the answer to `estimate_rates` and to `plan`.
    """
    from observant.estimation.pooling import learn_prior

    require_log(log)
    names = log.sources.to_pylist()
    which, days = signals.numbered(names), log.time / MICROSECONDS_PER_DAY
    there = (which >= 0) & (signals.time >= days.min())
    if not there.any():
        raise InputError("no signal is about a source of the visit log, in its time")
    which, kind = which[there], signals.kind[there]
    heard = (which, signals.time[there], signals.about[there])
    group = _groups(log, names)
    order = np.argsort(log.time, kind="stable")
    who = np.repeat(np.arange(len(names)), log.visits_per_source)[order]
    outcome = np.where(log.succeeded, log.changed, -2).astype(np.int64)[order]
    channels = [(signals.kinds[k], group[i]) for k, i in zip(kind, which, strict=True)]
    found = replace(log, announced=np.zeros((len(log), 3)))
    rows: list[Reliability] = []
    for turn in range(_PASSES):
        prior, _ = learn_prior(found if turn else log)
        rows, said = _retrace(names, prior, (who, days[order], outcome), heard, channels)
        announced = np.empty_like(said)
        announced[order] = said
        found = replace(log, announced=announced)
    return SignalTable(tuple(rows), _delays(rows, channels, heard), found)


def _groups(log: VisitLog, names: list[str]) -> list[str]:
    from observant.planning.policy import group_of

    if log.groups is not None:
        return [str(group or "") for group in log.groups.to_pylist()]
    return [group_of(name).split("/")[0] for name in names]


def _retrace(
    names: list[str], prior: Any, visits: Any, heard: Any, channels: list[tuple[str, str]]
) -> tuple[list[Reliability], Floats]:
    """Let a scheduler live through it; what it believes in the end."""
    from observant.planning.policy import make_scheduler

    begin = float(visits[1][0])
    scheduler = make_scheduler(float(len(names)), jitter=0.0, start=begin)
    scheduler.add(range(len(names)))
    scheduler.restore_prior(prior)
    code = {channel: k for k, channel in enumerate(dict.fromkeys(channels))}
    number = np.array([code[channel] for channel in channels], np.int64)
    for channel, k in code.items():
        scheduler.signals.listen(np.unique(heard[0][number == k]).tolist(), *channel)
    place = np.array([scheduler.signals.places[channel] for channel in code], np.int64)
    announced = np.zeros((len(visits[0]), 3))
    scheduler.signals.retrace(visits, (*heard, place[number]), announced)
    return scheduler.signals.reliability(), announced


def _delays(rows: list[Reliability], channels: list[tuple[str, str]], heard: Any) -> Floats:
    found = np.full((len(rows), 3), np.nan)
    late = heard[1] - heard[2]
    for k, row in enumerate(rows):
        own = np.array([channel == (row.kind, row.group) for channel in channels])
        some = late[own & (late >= 0)]
        if len(some):
            error = 1.96 * some.std() / len(some) ** 0.5
            found[k] = some.mean(), max(some.mean() - error, 0.0), some.mean() + error
    return found


# -- plans ----------------------------------------------------------------------------------------


class SignalledFreshness(Objective):
    """Share of time that copies are out of date, of sources whose changes are announced.

    A cycle between two visits ends when s + b·n reaches ι, s days and n signals after the visit: a
    signal counts as b days (`observant.planning.schedule.crossing`). Periods are the mean lengths
    of such cycles, so visits that signals bring about are counted.

    >>> told = SignalledFreshness([0.1], recall=[0.9], false=[0.01])
    >>> alone = SignalledFreshness([0.1], recall=[0.0], false=[0.0])
    >>> print(told.mean_penalty(10.0).round(3), alone.mean_penalty(10.0).round(3))
    [0.091] [0.368]
    """

    name: ClassVar[str] = "freshness"

    def __init__(self, rate: ArrayLike, recall: ArrayLike, false: ArrayLike) -> None:
        self.rates = np.maximum(checked_rates(rate), 1e-12)
        self.recall, self.false = (
            np.broadcast_to(np.asarray(one, float), self.rates.shape) for one in (recall, false)
        )
        true = np.minimum(self.recall, 1 - 1e-6) * self.rates
        lies = np.maximum(self.false, 1e-6 * self.rates)  # or no cycle would outlast a signal
        self._streams = self.rates - true, true + lies, lies

    def __len__(self) -> int:
        return len(self.rates)

    def waits(self, period: ArrayLike) -> tuple[Floats, Floats]:
        """ι of cycles of this mean length, and the time in them in which the copy is fresh."""
        from observant.planning.schedule import crossing

        lengths = np.broadcast_to(np.asarray(period, float), (*np.shape(period)[:-1], len(self)))
        streams = (np.broadcast_to(one, lengths.shape).ravel() for one in self._streams)
        waits, fresh = np.empty(lengths.size), np.empty(lengths.size)
        kernel: Any = crossing.cycles_of
        kernel(*streams, lengths.ravel(), waits, fresh)
        return waits.reshape(lengths.shape), fresh.reshape(lengths.shape)

    def penalty(self, s: ArrayLike) -> Floats:
        return np.asarray(-np.expm1(-self._streams[0] * self.waits(s)[0]))

    def mean_penalty(self, period: ArrayLike) -> Floats:
        lengths = np.asarray(period, float)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = 1.0 - self.waits(lengths)[1] / lengths
        return np.where(lengths <= 0, 0.0, np.where(np.isinf(lengths), 1.0, share))

    @property
    def limit(self) -> Floats:
        return np.asarray(1.0 / self.rates)

    def period_at(self, price: ArrayLike, start: Floats | None = None) -> Floats:
        from observant.planning.schedule import crossing

        prices = np.broadcast_to(np.asarray(price, float), (len(self),))
        lengths = np.empty(len(self))
        kernel: Any = crossing.cycles_at
        kernel(*self._streams, prices, lengths)
        return lengths

    def select(self, which: Choice) -> Objective:
        return SignalledFreshness(self.rates[which], self.recall[which], self.false[which])


@dataclass(frozen=True, eq=False, repr=False)
class SignalPlan(Plan):
    """A plan that counts on signals: visits include those that signals bring about."""

    columns: ClassVar[tuple[str, ...]] = (*Plan.columns, "unprompted_days", "signal_days")

    unprompted_days: Any = None
    """Days after which a source is visited if no signal comes."""
    signal_days: Any = None
    """By how many days a signal brings a visit forward; 0 where none is believed."""


def plan_signals(rates: Any, usual: Objective, signals: SignalTable, names: Any) -> Objective:
    """The objective of a plan: sources that are announced count on it, the rest as `usual`.

    Of an announced source the rate is taken as known: in the time to come, where a table has that.
    """
    recall, false = _of_these(signals, len(usual), names)
    ahead = getattr(rates, "rate_ahead", None)
    known = getattr(rates, "rate_per_day", rates) if ahead is None else ahead
    if not isinstance(known, (list, tuple, np.ndarray)):
        raise InputError("a plan with signals needs rates, or a table of them")
    told = np.flatnonzero(recall > 0)
    rest = np.flatnonzero(~(recall > 0))
    own = np.broadcast_to(np.asarray(known, float), (len(usual),))[told]
    parts: list[tuple[Any, Objective]] = []
    if len(told):
        parts.append((told, SignalledFreshness(own, recall[told], false[told])))
    if len(rest):
        parts.append((rest, usual.select(rest)))
    return CompositeObjective(parts, "freshness")


def _of_these(signals: SignalTable, count: int, names: Any) -> tuple[Floats, Floats]:
    """What is announced of these sources, found by name where they have one."""
    recall, false = signals.per_source()
    if names is None:
        if len(recall) != count:
            raise InputError(f"signals about {len(recall):,} sources for {count:,} rates")
        return recall, false
    place = {name: i for i, name in enumerate(signals.log.sources.to_pylist())}
    at = np.array([place.get(str(name), -1) for name in names], np.int64)
    return np.where(at >= 0, recall[at], 0.0), np.where(at >= 0, false[at], 0.0)


def with_waits(answer: Plan, objective: Objective) -> SignalPlan:
    """The same plan, which says how long a source may be silent."""
    wait, worth = answer.period_days.copy(), np.zeros(len(answer))
    for rows, part in getattr(objective, "parts", ()):
        if isinstance(part, SignalledFreshness):
            wait[rows] = part.waits(answer.period_days[rows])[0]
            silent, signal, false = part._streams  # noqa: SLF001
            worth[rows] = np.log(signal / np.maximum(false, 1e-12)) / silent
    given = {one.name: getattr(answer, one.name) for one in fields(Plan)}
    return SignalPlan(**given, unprompted_days=wait, signal_days=worth)
