"""The first tier: what is due? All contact of the observer with its scheduler.

Times outside are seconds since 1970, inside days. What the visits of a source have taught is kept
with the source in the store, so a restarted observer knows what the killed one knew. The scheduler
is that of `observant.planning.policy`, as a replay runs it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from observant.currency.measures import expected_currency, promised_currency
from observant.observer.fleet import Offer
from observant.planning.policy import SAMPLING, group_of, make_scheduler
from observant.planning.schedule.learning import learn_prior
from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from observant.estimation.belief import RateBelief
    from observant.estimation.priors import Prior
    from observant.observer.fleet import Share
    from observant.planning.objectives.own import Penalty
    from observant.planning.schedule.learning import Learned, Lesson
    from observant.planning.schedule.pace import Pace
    from observant.planning.schedule.signals import Signals
    from observant.store.signals import Signal

_AT_ONCE = 1.0
"""Seconds of the machine that a busy loop may be away; visits that fell due then are made up."""


@dataclass(frozen=True)
class Planned:
    """A source as the schedule sees it."""

    name: str
    host: str
    importance: float = 1.0
    min_period: float = 0.0
    max_period: float = 365.0
    """Both in days."""
    grace: float | None = None
    """Days; that of the schedule unless given."""
    last_at: float | None = None
    """Its last good visit."""
    likelihood: bytes | None = None
    """What `Schedule.likelihood` gave before."""
    cost: float = 1.0
    """What a visit takes of the budget."""


class Expectation(NamedTuple):
    """α as it is expected now, with its 95 % interval; and as the plan promises it for long."""

    alpha: float
    low: float
    high: float
    planned: float


class Schedule:
    """What is due, for a budget of visits (or their cost) per day. `speed` is that of the clock.

    >>> schedule = Schedule(budget=24.0, start=0.0)
    >>> schedule.add([Planned("a", "a.example"), Planned("b", "b.example")])
    >>> schedule.due(3600.0), schedule.due(7200.0)
    (['a'], ['b'])
    >>> schedule.visited("a", 3601.0, None)
    >>> schedule.due_at("a") > 7200.0
    True
    """

    def __init__(
        self,
        budget: float,
        *,
        objective: str | Penalty = "freshness",
        grace: float = 0.0,
        host_delay: float = 0.0,
        speed: float = 1.0,
        sampling: str = "even",
        seed: int = 0,
        start: float,
    ) -> None:
        self._grace, self._speed, self._spends = grace, speed, budget
        self._scheduler = make_scheduler(
            budget,
            jitter=SAMPLING[sampling],
            objective=objective,
            grace=grace,
            host_delay=host_delay,
            lease=1.0,
            retry=1 / 24,
            burst=self._burst(budget),
            seed=seed,
            start=start / DAY,
            patient=True,
        )
        self._delay = host_delay * DAY
        self._delays: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._scheduler)

    @property
    def places(self) -> Sequence[str | None]:
        """The names of the sources, to draw from; some places may be empty."""
        return cast("Sequence[str | None]", self._scheduler.places)

    def __contains__(self, name: object) -> bool:
        return name in self._scheduler

    # -- what the loop asks -------------------------------------------------------------------

    def due(self, now: float, limit: int = 1000) -> list[str]:
        """The sources to be visited now, most urgent first. Report each, or let it `rest`."""
        at = max(now / DAY, self._scheduler.now)
        return [str(name) for name in self._scheduler.due(at, limit)]

    def next_at(self) -> float:
        """When to ask again."""
        return float(self._scheduler.next_time() * DAY)

    def visited(
        self, name: str, at: float, changed: bool | str | None, age: float | None = None
    ) -> None:
        """Report a visit: changed or not, None if that cannot be known, "failed".

        `age` is how many seconds before the visit the source was updated, where that is known.
        """
        if name not in self._scheduler:
            return  # removed while it was visited
        last = self._scheduler.last_visit(name)
        # A second visit within the same microsecond, or one across a restart with a wrong clock.
        at_day = max(at / DAY, np.nextafter(last, np.inf))
        self._scheduler.visited(name, float(at_day), changed, None if age is None else age / DAY)

    def rest(self, name: str, until: float, *, refund: bool = True) -> None:
        """Offer a source that was due again at this time, not before.

        With `refund` the visit that was asked for was not made, and does not count as spent.
        """
        if name in self._scheduler:
            self._scheduler.rest(name, until / DAY, refund=refund)

    def put_back(self, name: str) -> None:
        """Forget that a visit to this source was begun, or that the last ones failed."""
        if name in self._scheduler:
            self._scheduler.put_back(name)

    def adopt(self, name: str, at: float, likelihood: bytes | None) -> None:
        """Somebody else has visited this source, and the store knows what it taught."""
        if name in self._scheduler:
            self._scheduler.adopt(name, at / DAY, likelihood)

    def read_listing(
        self,
        name: str,
        at: float,
        *,
        importance: float,
        kind: str,
        members: Iterable[str],
    ) -> None:
        """A sitemap or feed was read that lists these pages.

        From now on they listen to it; and it is read as often as that is worth for them.
        """
        signals = self._scheduler.signals
        if here := [one for one in members if one in self._scheduler]:
            signals.listen(here, kind, name)
            signals.read(kind, name, at / DAY)
        if name in self._scheduler and here:
            signals.weigh(name, here, kind, name)
            self._scheduler.reweight(name, importance)

    def hear(self, signals: Sequence[Signal], hosts: Mapping[str, str]) -> None:
        """Take in signals about these sources, in the order in which they came.

        Those of a listing are its channel, those of others one for each kind and host.
        """
        groups: dict[tuple[str, str], list[Signal]] = {}
        for one in signals:
            if one.source in self._scheduler:
                group = one.listing or hosts[one.source]
                groups.setdefault((one.kind, group), []).append(one)
        for (kind, group), some in groups.items():
            self._scheduler.signals.listen([one.source for one in some], kind, group)
            new = [s for s in some if (s.received_at or 0.0) > self.last_at(s.source)]
            self._scheduler.signals.receive(
                [one.source for one in new],
                [(one.received_at or 0.0) / DAY for one in new],
                *(kind, group),
                [np.nan if one.changed_at is None else one.changed_at / DAY for one in new],
            )

    @property
    def signals(self) -> Signals:
        """Their channels, and how far each is believed."""
        return self._scheduler.signals

    def forget(self, name: str) -> None:
        """Throw away what the visits of a source have taught: it turned out to be noise."""
        if name in self._scheduler:
            self._scheduler.set_likelihood(name, None)

    def set_delay(self, host: str, seconds: float) -> None:
        """A host wants this long between two visits."""
        if abs(self._delays.get(host, self._delay) - seconds) > 0.2 * seconds:
            self._delays[host] = seconds
            self._scheduler.set_host(host, delay=seconds / DAY)

    # -- what a person changes ----------------------------------------------------------------

    def add(self, sources: Iterable[Planned]) -> None:
        """Add sources, and find the price of a visit anew."""
        self.place(sources)
        for _ in self.settling():
            pass

    def place(self, sources: Iterable[Planned]) -> None:
        """Add sources at the price of now; `settling` finds the right one when all are there."""
        many = list(sources)
        if not many:
            return
        now = self._scheduler.now
        self._scheduler.add(
            [s.name for s in many],
            importance=[s.importance for s in many],
            cost=[s.cost for s in many],
            host=[s.host for s in many],
            group=[group_of(s.name, s.host) for s in many],
            min_period=[s.min_period for s in many],
            max_period=[s.max_period for s in many],
            grace=[self._grace if s.grace is None else s.grace for s in many],
            # A visit that a wrong clock put into the future counts as one of now.
            last=[np.nan if s.last_at is None else min(s.last_at / DAY, now) for s in many],
            likelihood=[s.likelihood for s in many],
        )

    def settling(self) -> Iterator[None]:
        """Find the price of a visit, and when everybody is due at it; gives way now and then.

        While others have all of the budget for sources that are new, the price is still that of
        what we spend otherwise: that of nothing at all would be beyond all bounds.
        """
        yield from self._scheduler.settling(self._spends)

    def remove(self, name: str) -> None:
        if name in self._scheduler:
            self._scheduler.remove(name)

    def set_cost(self, name: str, cost: float) -> None:
        """What a visit to a source takes of the budget."""
        if name in self._scheduler:
            self._scheduler.reweight(name, cost=cost)

    def set_budget(self, budget: float) -> None:
        self._spends = budget
        self._scheduler.set_budget(budget, self._burst(budget))

    def offer(self) -> Offer:
        """What other observers need to know to divide the budget with us (`fleet.divide`)."""
        elasticity, new = self._scheduler.demand()
        return Offer(self._spends, self._scheduler.price, elasticity, new, self._scheduler.spent)

    def take(self, share: Share) -> None:
        """Go on with this share of the budget, at the price of all."""
        self._spends = share.spends
        self._scheduler.share_price(share.price, share.budget, self._burst(share.budget))

    def _burst(self, budget: float) -> float:
        return max(1.0, budget * _AT_ONCE * self._speed / DAY)

    # -- what it knows ------------------------------------------------------------------------

    def last_at(self, name: str) -> float:
        """The last good visit, seconds since 1970; −∞ if there was none."""
        return float(self._scheduler.last_visit(name) * DAY)

    def due_at(self, name: str) -> float:
        """When the source is due as things stand, seconds since 1970."""
        return float(self._scheduler.due_at(name) * DAY)

    def likelihood(self, name: str) -> bytes:
        """What the visits have taught, for `Planned.likelihood`."""
        return self._scheduler.likelihood_of(name)

    def belief(self, name: str) -> RateBelief:
        """The rate of a source, with its interval."""
        return self._scheduler.belief(name)

    def beliefs(self, some: Iterable[str] | None = None) -> dict[str, RateBelief]:
        """The same for all sources, or those of some that are here."""
        from observant.estimation.belief import RateBelief

        if some is None:
            some = map(str, self._scheduler.sources)
        names = [name for name in some if name in self._scheduler]
        if not names:
            return {}
        columns = self._scheduler.beliefs(names).summary()
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return {name: RateBelief(*row) for name, row in zip(names, rows, strict=True)}

    def expectation(self, now: float) -> Expectation:
        """How current all copies are together, weighted with importance, as far as we can know."""
        some = self._scheduler.glance()
        beliefs = some.beliefs
        if beliefs is None or not len(beliefs):
            return Expectation(np.nan, np.nan, np.nan, np.nan)
        waited = np.maximum(now / DAY - some.last, 0.0)  # infinite before the first visit
        expected = expected_currency(beliefs, some.importance, waited, some.grace)
        promised = promised_currency(beliefs, some.importance, some.period, some.grace)
        return Expectation(*expected, promised)

    def lateness(self, now: float) -> tuple[float, float]:
        """Mean and largest time, in seconds, by which sources that are due have been waiting."""
        some = self._scheduler.glance()
        late = np.maximum(now / DAY - some.due, 0.0) * DAY
        late = late[np.isfinite(late) & np.isfinite(some.last)]
        return (float(late.mean()), float(late.max())) if len(late) else (0.0, 0.0)

    @property
    def price(self) -> float:
        return float(self._scheduler.price)

    @property
    def spends(self) -> float:
        """Visits a day that are ours when no source is new; see `fleet.Share`."""
        return self._spends

    @property
    def spent(self) -> float:
        return float(self._scheduler.spent)

    @property
    def budget(self) -> float:
        return float(self._scheduler.budget)

    @property
    def pace(self) -> Pace:
        """At which hours changes happen, and the budget of a day is spent."""
        return self._scheduler.pace

    # -- the prior ----------------------------------------------------------------------------

    @property
    def prior(self) -> Prior:
        """The prior as it stands, for `restore_prior`."""
        return self._scheduler.prior

    def restore_prior(self, prior: Prior) -> None:
        """Go on with the prior of before."""
        self._scheduler.restore_prior(prior)

    @property
    def wants_to_learn(self) -> bool:
        """Whether there is enough that is new to learn the prior again."""
        return self._scheduler.wants_to_learn

    def learn(self) -> None:
        """Learn the prior anew from what all sources have shown."""
        self.take_in(learn_prior(self.lesson()))
        for _ in self.settling():
            pass

    def lesson(self, elsewhere: Sequence[bytes] = (), one_in: int = 1) -> Lesson:
        """What the prior is learned from, for `learn_prior` (in a thread, say).

        `elsewhere` are likelihoods of sources that others visit, of one in so many of them.
        """
        return self._scheduler.lesson(elsewhere, one_in)

    def take_in(self, learned: Learned) -> None:
        """Use this prior from now on; `settling` follows."""
        self._scheduler.take_in(learned)


@functools.cache
def warm_up() -> None:
    """Compile what is compiled on first use, so that no time passes with it later."""
    schedule = Schedule(budget=10.0, start=0.0)
    names = [f"https://warm.example/{k}" for k in range(4)]
    schedule.add([Planned(name, "warm.example") for name in names])
    for at in (DAY, 2 * DAY, 3 * DAY):
        for name in schedule.due(at):
            schedule.visited(name, at, None if at == DAY else name == names[0])
    schedule.learn()
    schedule.rest(names[0], 4 * DAY)
    schedule.put_back(names[0])
    schedule.expectation(4 * DAY)
    schedule.belief(names[0])
    schedule.remove(names[1])
    schedule.next_at()
