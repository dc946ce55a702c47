"""The same optimum, one visit at a time: which source is next?

`Scheduler` visits a source when importance·W(s)/cost reaches the price of a visit, like
`observant.planning.allocation`, but without solving for everybody: it keeps a heap of the times at
which sources will cross the price, and moves the price so that the spent rate follows the budget.
Any loop can drive it: ask `due(now)`, visit, report with `visited`. Each decision costs O(log n).
The rules are in `dispatch`, the arrays in `state`, groups of siblings in `groups`, and what is
believed of a rate in `observant.estimation.belief`.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, floor
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from observant.errors import InputError
from observant.estimation.belief import GRID, Beliefs, Likelihoods, RateBelief, first_prior
from observant.estimation.priors import Prior
from observant.planning.schedule.admission import (
    between,
    check,
    check_objective,
    column,
    columns_of,
    host_rest,
    lasting,
    times,
)
from observant.planning.schedule.learning import MOST, Learned, Lesson, learn_prior
from observant.planning.schedule.pace import Pace
from observant.planning.schedule.price import Price
from observant.planning.schedule.quality import OldNames, SignalQuality
from observant.planning.schedule.saving import load_state, state_of
from observant.planning.schedule.signals import Signals
from observant.planning.schedule.state import Glance, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import ArrayLike

    from observant.arrays import Flags, Floats, Integers
    from observant.planning.objectives.own import Penalty

_FIRST_LOOK = 0.1
"""Visits per source after which the prior is learned for the first time; then at every doubling."""
_SAME_VISIT = 1e-9
"""Days: two times that are as near as that are those of one visit, of which one was rounded."""
_OUTCOMES = {True: 1, False: 0, None: -1, "failed": -2}


class Scheduler(OldNames):
    """Decides which source is to be visited next, under a budget (cost per day).

    >>> scheduler = Scheduler(budget=2.0, jitter=0)
    >>> scheduler.add(["news", "law"], rate=[1.0, 0.1], last=0.0)
    >>> for _ in range(4):
    ...     now = scheduler.next_time()
    ...     for source in scheduler.due(now):
    ...         print(round(now, 2), source)
    ...         scheduler.visited(source, now, changed=False)
    0.69 news
    1.21 news
    1.71 law
    2.0 news

    Rates are given with `add`, or learned from the outcomes when there is a `prior`: a fitted
    `observant.estimation.priors.Prior`, or "learn" to learn that as well, from the outcomes of all
    sources. Then the index is averaged over each source's posterior. `drift` is how many days a
    rate lasts, on average, before it is another: what was learned fades as it ages. With learned
    rates the `objective` may be a penalty of one's own, a function of λs that never falls.

    Sources added with a `group` have siblings: what is found at one says something about the
    others (see `siblings`). It is learned how much, and that it may be nothing.

    `jitter` moves every visit by up to that share of its period, so that visits do not lock to a
    phase. `max_period` is the ceiling: no source waits longer, however little it is worth. One that
    changes so often that visits cannot keep it current would wait until then; with learned rates
    it gets `least_share` of the visits that it would get if all were visited alike.
    `explore` is the probability that a source whose rate is still uncertain is visited when a
    visit teaches most. `burst` is the most that can be spent at once (default: √n visits, or a
    second of the budget); when `ready` is saved (default: all of that), somebody is visited before
    the time has come, so that no budget is lost. `lease` is how long a visit may stay unreported
    before it is offered again, `retry` the pause after a failure, doubled each time. A host rests
    `host_delay` days after every visit, and has at most `host_cap` visits a day (and four more that
    it has saved up).

    A loop that must not wait sets `patient`: priors are then not learned by themselves (see
    `wants_to_learn`), and after large changes the caller goes through `settling`.
    """

    def __init__(
        self,
        budget: float,
        *,
        objective: str | Penalty = "freshness",
        grace: float = 0.0,
        prior: Prior | Literal["learn"] | None = None,
        drift: float = np.inf,
        jitter: float = 0.05,
        explore: float = 0.05,
        burst: float | None = None,
        ready: float | None = None,
        min_period: float = 0.0,
        max_period: float = 365.0,
        least_share: float = 0.0,
        host_delay: float = 0.0,
        host_cap: float = np.inf,
        lease: float = 1.0,
        retry: float = 1 / 24,
        seed: int = 0,
        start: float = 0.0,
        patient: bool = False,
        hours: bool = True,
    ) -> None:
        from observant.planning.schedule import dispatch, keys
        from observant.planning.schedule.crossing import CODES

        alike = check_objective(objective, grace, learned=prior is not None)
        between("jitter", jitter, 0, 0.9)
        between("explore", explore, 0, 1)
        between("least_share", least_share, 0, 1)
        between("lease", lease, 0, np.inf)
        between("retry", retry, 0, np.inf)
        if isinstance(prior, str) and prior != "learn":
            raise InputError(f"a prior is a Prior, or 'learn', not {prior!r}")
        self._prior = prior if isinstance(prior, Prior) else Prior(GRID, first_prior())
        self._dispatch: Any = dispatch
        self._keys: Any = keys
        self._state = State(None if prior is None else self._prior.rows(), objective)
        most = None if burst is None else float(check("burst", burst, 0, above=True))
        self._price = Price(
            self._state, burst=most, ready=ready, least_share=least_share, patient=patient
        )
        self.signals = Signals(self._state, dispatch, objective, self._price)
        self.pace = Pace(self._state, follows=hours and prior is not None)
        self._objective, self._adapting = objective, isinstance(prior, str)
        self._seen, self._next_look = 0, _FIRST_LOOK
        self._brought = 0
        """Sources that came with what earlier visits had taught: of one visit each, at least."""
        self._grace = float(check("grace", grace, 0))
        self._bounds = float(min_period), float(max_period)
        self._state.host_defaults = float(host_delay), float(host_cap)
        self._out = np.zeros(1000, np.int64)
        clock = self._state.clock[0]
        clock["time"], clock["price"], clock["code"] = start, 1.0, CODES[alike]
        clock["jitter"], clock["explore"] = jitter, explore
        clock["lease"], clock["retry"], clock["seed"] = lease, retry, seed
        clock["learning"] = prior is not None
        clock["drift"], clock["age_weight"] = lasting(drift), 1.0
        clock["longest"], clock["importance"] = np.inf, 1.0
        clock["budget"] = check("budget", budget, 0, above=True)

    def __len__(self) -> int:
        return len(self._state.slot)

    def __contains__(self, source: object) -> bool:
        return source in self._state.slot

    # -- what a loop asks ---------------------------------------------------------------------

    def due(self, now: float, limit: int = 1000) -> list[str | int]:
        """The sources to visit now, most urgent first; their cost is spent with this call.

        Report each with `visited`. Time never runs back.
        """
        if not self.now <= now < np.inf:
            raise InputError(f"time runs forward in days: {now} cannot come after {self.now}")
        if limit != len(self._out):
            self._out = np.zeros(limit, np.int64)
        self.pace.follow(now)
        found = self._dispatch.due(*self._state.all, float(now), self._out)
        return [self._state.names[i] for i in self._out[:found].tolist()]

    def visited(
        self,
        source: str | int,
        time: float,
        changed: bool | str | None = None,
        age: float | None = None,
    ) -> None:
        """Report a visit: `changed` or not, None if that cannot be known, "failed" if it failed.

        `age` is how many days ago the source says that it was updated, where it says so. After a
        failed visit the interval runs on. A visit nobody asked for counts as well.
        """
        i = self._state.find(source)
        try:
            outcome = _OUTCOMES[changed]
        except (KeyError, TypeError):
            raise InputError(
                f"changed must be True, False, None or 'failed', not {changed!r}",
                source=str(source),
            ) from None
        if outcome >= 0 and not self._state.learning:
            own = self._state.sources[i], self._state.given[i]
            self.signals.compared.note(*own, time, outcome == 1)
        known = np.nan if age is None else float(age)
        if not self._dispatch.visited(*self._state.all, i, float(time), outcome, known):
            last = self._state.sources["last"][i]
            raise InputError(
                f"visited at {time}, not after the visit before ({last})", source=str(source)
            )
        self._seen += 1
        if self.wants_to_learn and not self._price.patient:
            self.learn_prior()

    def rest(self, source: str | int, until: float, *, refund: bool = True) -> None:
        """Offer a source that was due again at this time, not before.

        With `refund` the visit that was asked for was not made, and does not count as spent. A
        source that waits for its host keeps its place.
        """
        i = self._state.find(source)
        row, clock = self._state.sources[i], self._state.clock[0]
        if self._waits_for_host(row):
            return
        if refund and row["state"] == self._state.codes.AWAY:
            clock["savings"] += row["cost"]
            clock["spent"] -= row["cost"]
        codes = self._state.codes
        row["state"], row["why"], row["key"] = codes.WAITING, codes.RETRY, until
        self._keys.place(*self._state.all, np.array([i]))

    def put_back(self, source: str | int) -> None:
        """Forget that a visit to this source was begun, or that the last ones failed."""
        row = self._state.sources[i := self._state.find(source)]
        if self._waits_for_host(row):
            return
        known = np.isfinite(row["last"])
        row["state"] = self._state.codes.WAITING
        row["why"] = self._state.codes.CROSSING if known else self._state.codes.NEW
        row["failures"] = 0
        if not known:
            row["key"] = self.now
        self._keys.place(*self._state.all, np.array([i]))

    def adopt(self, source: str | int, last: float, likelihood: bytes | None) -> None:
        """Somebody else has visited this source at `last`, and knows this `likelihood` of it.

        Of a visit that is not later than the last one known here, nothing is taken.
        """
        i = self._state.find(source)
        if last > self._state.sources["last"][i] + _SAME_VISIT:
            self._state.sources["last"][i] = min(last, self.now)
            self.set_likelihood(source, likelihood)

    def next_time(self) -> float:
        """When to ask again: the next time at which `due` may have something; infinite if never."""
        return float(self._dispatch.next_time(*self._state.all[:2], self._state.clock))

    def drive(
        self, kernel: Any, slots: int, world: tuple[Any, ...], pace: tuple[float, float, float]
    ) -> tuple[Integers, Floats, Flags]:
        """Run over recorded updates with a compiled loop (`driving.drive`), one visit a slot."""
        who, when = np.zeros(slots, np.int64), np.zeros(slots)
        failed = np.zeros(slots, bool)
        begin, paid, (start, slots_a_day, _) = 0, 0, pace
        while begin < slots:
            left, look = slots - begin, int(self._next_look * len(self))
            if self._adapting:
                left = min(left, max(look - self._taught, 1))
            now = start + (begin + 0.5) / slots_a_day
            self.pace.follow(now)
            if self.pace.follows:  # until the next day, at which it looks again
                left = min(left, max(ceil((floor(now) + 1 - start) * slots_a_day - 0.5) - begin, 1))
            stop = begin + left
            many = kernel(
                *(*self._state.all, *world, begin, stop, *pace, np.zeros(1, np.int64)),
                *(who[paid:], when[paid:], failed[paid:]),
            )
            paid, begin = paid + many, stop
            self._seen += left
            if self._adapting and self._taught >= look and begin < slots:
                self.learn_prior()
        return who[:paid], when[:paid], failed[:paid]

    # -- what it knows ------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """The latest time that the scheduler was told of."""
        return float(self._state.clock["time"][0])

    @property
    def price(self) -> float:
        """Λ: the index at which a visit is worth its cost."""
        return float(self._state.clock["price"][0])

    @property
    def budget(self) -> float:
        """Cost per day."""
        return float(self._state.clock["budget"][0])

    def demand(self) -> tuple[float, float]:
        """By what power of the price spending falls, and the cost of all that is new."""
        return self._price.elasticity(), self._state.new_cost()

    @property
    def spent(self) -> float:
        """Cost of all visits so far."""
        return float(self._state.clock["spent"][0])

    @property
    def sources(self) -> list[str | int]:
        """Their names, in the order in which they were added."""
        return list(self._state.slot)

    @property
    def places(self) -> Sequence[str | int | None]:
        """The same to draw from, without a copy: in no order, and some places may be empty."""
        return self._state.names

    def due_at(self, source: str | int) -> float:
        """When a source is due as things stand; of one being visited, when it is offered again."""
        return float(self._state.sources["key"][self._state.find(source)])

    def last_visit(self, source: str | int) -> float:
        """When a source was last visited with success; −inf if it never was."""
        return float(self._state.sources["last"][self._state.find(source)])

    def belief(self, source: str | int) -> RateBelief:
        """The rate of a source, with its interval."""
        return self.beliefs([source]).one(0)

    def beliefs(self, sources: Iterable[str | int] | None = None) -> Beliefs:
        """The estimate of its rates of these sources, or of all, a row each."""
        state = self._state
        asked = state.slot.values() if sources is None else map(state.find, sources)
        return state.beliefs(np.fromiter(asked, np.int64))

    def likelihood_of(self, source: str | int) -> bytes:
        """What the outcomes say about the rate; for `add` later."""
        return self._state.likelihoods.pack(self._state.find(source))

    @property
    def prior(self) -> Prior:
        """The prior of the collection, and of its groups: what is believed of a new source."""
        return self._prior

    def glance(self, most: int = 5000) -> Glance:
        """So many sources at most, taken evenly from all: enough to say how all of them stand."""
        here = self._state.here()
        some = here[:: max(-(-len(here) // most), 1)]
        rows = self._state.sources[some]
        return Glance(
            rows["last"],
            rows["key"],
            np.clip(rows["period"], rows["minimum"], rows["maximum"]),
            rows["importance"],
            rows["grace"].astype(np.float64),
            self._state.beliefs(some) if self._state.learning else None,
        )

    def activity(self, group: str = "") -> float:
        """How much faster than usual the sources of a group change now; 1 is as usual."""
        return self._state.groups.activity_of(group)

    # -- the prior and the price --------------------------------------------------------------

    @property
    def wants_to_learn(self) -> bool:
        """Whether there is enough that is new to learn the prior again."""
        return self._adapting and self._taught >= self._next_look * len(self)

    @property
    def _taught(self) -> int:
        """Visits that have taught something, as far as they were counted."""
        return self._seen + self._brought

    def learn_prior(self) -> None:
        """Learn from all sources how their rates are distributed; done by itself with "learn".

        It takes a moment with many sources. A loop that must not wait asks for a `lesson`, learns
        in another thread (`learning.learn_prior`), and lets the scheduler `take_in` the result.
        """
        self.take_in(learn_prior(self.lesson()))

    def lesson(self, elsewhere: Sequence[bytes] = (), one_in: int = 1) -> Lesson:
        """What the prior is learned from (also elsewhere, at one source in so many).

        Of very many sources those are copied that are known of, and of these so many at most.
        """
        state, here = self._state, self._state.here()
        taught = (state.sources["age"][here] >= 0) | (state.place[here, 1] >= 0)
        step = max(-(-int(taught.sum()) // MOST), 1)
        some = here[taught][::step]
        self._next_look = max(2 * self._taught / max(len(self), 1), _FIRST_LOOK)
        return Lesson(
            Likelihoods(state.values[some], state.place[some]),
            state.sources["age"][some].astype(np.float64),
            state.sources["node"][some].astype(np.int64),
            state.groups.parent.copy(),
            state.prior[0].copy(),
            *(Likelihoods.unpack(elsewhere), -(-one_in // step)),
            state.sources["node"][here].astype(np.int64),
        )

    def take_in(self, learned: Learned) -> None:
        """Use this prior from now on."""
        state = self._state
        nodes = state.sources["node"]
        rows = np.append(learned.rows, np.zeros(len(state.groups.parent) - len(learned.rows), int))
        for node in range(len(learned.rows), len(rows)):  # new since, with the prior of its parent
            rows[node] = rows[state.groups.parent[node]]
        state.sources["group"] = np.where(nodes >= 0, rows[nodes], 0)
        state.clock["age_weight"] = learned.age_weight
        paths = {node: path for path, node in state.groups.node_of.items()}
        self._use(
            replace(
                self._prior,
                rates=GRID,
                weights=learned.prior[0],
                groups=tuple(paths[owner] for owner in learned.owners[1:].tolist()),
                group_weights=learned.prior[1:],
            )
        )

    def restore_prior(self, prior: Prior) -> None:
        """Go on with a prior that was learned before; sources find their groups' by name."""
        state = self._state
        paths = {node: path for path, node in state.groups.node_of.items()}
        rows = prior.row_of([paths.get(node, "") for node in range(len(state.groups.parent))])
        nodes = state.sources["node"]
        state.sources["group"] = np.where(nodes >= 0, rows[nodes], 0)
        self._use(prior)

    def _use(self, prior: Prior) -> None:
        self._prior, self._state.prior = prior, prior.rows()
        self._state.gather()
        self.signals.reweigh()
        if not self._price.patient:
            self._price.settle()

    def settling(self, budget: float | None = None) -> Iterator[None]:
        """Find the price of a visit, and key every source at it; gives way now and then.

        A `budget` other than the present one is what will be spent before long.
        """
        yield from self._price.settling(budget)

    # -- what a person changes ----------------------------------------------------------------

    def add(
        self,
        sources: str | int | Sequence[str | int],
        rate: ArrayLike | None = None,
        *,
        importance: ArrayLike = 1.0,
        cost: ArrayLike = 1.0,
        host: str | Sequence[str] | None = None,
        last: ArrayLike | None = None,
        min_period: ArrayLike | None = None,
        max_period: ArrayLike | None = None,
        grace: ArrayLike | None = None,
        hints: SignalQuality | None = None,
        group: str | Sequence[str] | None = None,
        age: ArrayLike | None = None,
        likelihood: Sequence[bytes | None] | None = None,
    ) -> None:
        """Add one source or many; one without a `last` visit is due at once.

        `group` is a path such as host/folder; sources under one path are siblings. `age` is how
        many days before its `last` visit a source was updated, where it told. `likelihood` is what
        `likelihood_of` gave for the same sources before. `grace` is that of these sources alone.
        `hints` is deprecated: `signals.listen`.
        """
        names = [sources] if isinstance(sources, (str, int)) else list(sources)
        for name in names:
            if name in self:
                raise InputError("this source is already scheduled", source=str(name))
        if len(set(names)) < len(names):
            raise InputError("a source is named twice")
        if (rate is None) != self._state.learning:
            raise InputError(
                "give the rate of every source, or a prior to learn rates by, but not both"
            )
        many = len(names)
        low = self._bounds[0] if min_period is None else min_period
        high = self._bounds[1] if max_period is None else max_period
        late = self._grace if grace is None else grace
        columns = columns_of(names, importance, cost, low, high, late)
        if self._objective != "currency" and columns["grace"].any():
            raise InputError(f"a grace belongs to the objective currency, not to {self._objective}")
        rates = column("rate", 0.0 if rate is None else rate, names)
        before = np.full(many, -np.inf) if last is None else times(last, names)
        state = self._state
        where = state.host_index(host, many)
        slots = state.room(many)
        block = np.zeros(many, state.sources.dtype)
        for name, values in columns.items():
            block[name] = values
        block["last"], block["host"] = before, where
        block["node"] = -1
        if group is not None:
            labels = [group] * many if isinstance(group, str) else list(group)
            if len(labels) != many:
                raise InputError(f"{len(labels)} groups for {many} sources")
            block["node"] = state.groups.place(labels)
            block["group"] = self._prior.row_of(labels)
        ages = np.full(many, -1.0) if age is None else np.broadcast_to(np.asarray(age, float), many)
        block["age"] = np.where(ages >= 0, ages, -1.0)
        block["position"] = block["follower"] = -1
        block["state"] = state.codes.WAITING
        block["why"] = np.where(np.isfinite(before), state.codes.CROSSING, state.codes.NEW)
        block["key"] = self.now
        state.sources[slots] = block
        if state.learning:
            taught = Likelihoods.unpack([None] * many if likelihood is None else likelihood)
            state.values[slots], state.place[slots] = taught.values, taught.place
            self._brought += int((taught.place[:, 1] >= 0).sum())
        else:
            state.given[slots] = 0
            state.given["rate"][slots] = rates
        state.name(slots, names)
        if not self._seen:
            state.groups.begin(self.now, len(self) / self.budget)
        state.gather()
        self._price.changed(slots)
        if hints is not None:
            self.set_hints(names, hints)

    def remove(self, source: str | int) -> None:
        """Forget a source."""
        i = self.signals.leave(source)
        self._dispatch.take_out(*self._state.all[:4], i)
        self._state.forget(source)
        self._price.changed(np.zeros(0, np.int64), touched=1)

    def reweight(
        self, source: str | int, importance: float | None = None, *, cost: float | None = None
    ) -> None:
        """Change the importance of a source, or the cost of a visit, with effect at once."""
        i, rows = self._state.find(source), self._state.sources
        if importance is not None:
            rows["importance"][i] = check("importance", importance, 0)
        if cost is not None:
            rows["cost"][i] = check("cost", cost, 0, above=True)
        self._price.changed(np.array([i]))

    def set_rate(self, source: str | int, rate: float) -> None:
        """Replace the rate of a source by a better estimate."""
        if self._state.learning:
            raise InputError("rates are learned here; they cannot be set", source=str(source))
        i = self._state.find(source)
        self._state.given["rate"][i] = check("rate", rate, 0)
        self._price.changed(np.array([i]))

    def set_likelihood(self, source: str | int, likelihood: bytes | None) -> None:
        """Replace what the outcomes have taught, by that of `likelihood_of`; None for nothing."""
        state, i = self._state, self._state.find(source)
        taught = Likelihoods.unpack([likelihood])
        state.values[i], state.place[i] = taught.values[0], taught.place[0]

    def set_budget(self, budget: float, burst: float | None = None) -> None:
        """Change the budget, with effect at once: rate of spending, price and all due times."""
        self._state.clock["budget"] = check("budget", budget, 0, above=True)
        if burst is not None:
            self._price.burst = float(check("burst", burst, 0, above=True))
        self._price.settle()

    def share_price(self, price: float, budget: float, burst: float) -> None:
        """Go on at this price, which others have found with us; due times follow by and by."""
        self._price.share(
            *(check("price", price, 0, above=True), check("budget", budget, 0, above=True)),
            check("burst", burst, 0, above=True),
        )

    def set_host(self, host: str, *, delay: float = 0.0, cap: float = np.inf) -> None:
        """Politeness of one host: days between visits, and visits per day."""
        h = int(self._state.host_index(host, 1)[0])
        hosts = self._state.hosts
        hosts["delay"][h], hosts["interval"][h] = host_rest(delay, cap)

    # -- save and restore ---------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Everything, as plain values that JSON can hold; `restore` continues exactly."""
        return state_of(self)

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Scheduler:
        """A scheduler that goes on where `state` was taken."""
        return load_state(cls, state)

    # -- inside -------------------------------------------------------------------------------

    def _waits_for_host(self, row: Any) -> bool:
        """Whether a source stands in the queue of its host, or at its head."""
        codes = self._state.codes
        return bool(row["state"] == codes.QUEUED or row["why"] == codes.POLITE)
