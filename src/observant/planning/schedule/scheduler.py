"""The same optimum, one visit at a time: who is to be visited now?

`Scheduler` visits a source when importance·W(s)/cost reaches the price of a visit, like
`observant.planning.allocation`, but without solving for everybody: it keeps a heap of the times at
which sources will cross the price, and moves the price so that the spent rate follows the budget.
Any loop can drive it: ask `due(now)`, visit, report with `visited`. Each decision costs O(log n).
The rules are in `dispatch`; this module checks what it is told and keeps names.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from observant.errors import InputError
from observant.planning.objectives import OBJECTIVES
from observant.planning.schedule.admission import between, check, column, rest, times
from observant.planning.schedule.hints import HintQuality, fit_hints
from observant.planning.schedule.registry import Registry, pack, unpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from observant.estimation.priors import Prior
    from observant.planning.schedule.learning import Learned, Lesson

__all__ = ["Scheduler"]


_TYPE_OF_STATE = "observant scheduler, version 2"
_SAMPLE = 4096
"""Sources that are looked at to find the price after a large change."""
_LARGE_CHANGE = 0.1
_HINT_LOG = 200_000
GRID_POINTS = 48
_LOWEST, _HIGHEST = 0.002, 400.0
"""Rates that are told apart where the prior is learned: updates per mean period."""
_FIRST_LOOK = 0.1
"""Visits per source after which the prior is learned for the first time; then at every doubling."""
_BINS_PER_PERIOD = 10
_SLACK = 0.03
_MEMORY = 3_000.0
"""Of `siblings`: bins of time in a mean period, how far (in mean periods) a clock may be put right
before its sources move, and visits that a judgement lasts."""
_GAIN = 0.02
"""Of the price where rates are learned: groups wake up together, and the price must follow."""
_OUTCOMES = {True: 1, False: 0, None: -1, "failed": -2}


class Scheduler(Registry):
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
    rate lasts, on average, before it is another: evidence fades as it ages.

    Sources added with a `group` have siblings: what is found at one says something about the
    others (see `siblings`). It is learned how much, and that it may be nothing.

    `jitter` moves every visit by up to that share of its period, so that visits do not lock to a
    phase. `max_period` is the ceiling: no source waits longer, however little it is worth.
    `explore` is the probability that a source whose rate is still uncertain is visited when a
    visit teaches most. `burst` is the most that can be spent at once (default: √n visits). `lease`
    is how long a visit may stay unreported before it is offered again, `retry` the pause after a
    failure, doubled each time. A host rests `host_delay` days after every visit, and has at most
    `host_cap` visits a day (and four more that it has saved up).
    """

    def __init__(
        self,
        budget: float,
        *,
        objective: str = "freshness",
        grace: float = 0.0,
        prior: Prior | Literal["learn"] | None = None,
        drift: float = np.inf,
        jitter: float = 0.05,
        explore: float = 0.05,
        burst: float | None = None,
        min_period: float = 0.0,
        max_period: float = 365.0,
        host_delay: float = 0.0,
        host_cap: float = np.inf,
        lease: float = 1.0,
        retry: float = 1 / 24,
        seed: int = 0,
        start: float = 0.0,
    ) -> None:
        from observant.planning.schedule import beliefs, dispatch
        from observant.planning.schedule.crossing import CODES

        if objective not in OBJECTIVES:
            raise InputError(f"no objective {objective!r}; choose from {', '.join(OBJECTIVES)}")
        if grace and objective != "currency":
            raise InputError(f"a grace belongs to the objective currency, not to {objective}")
        between("jitter", jitter, 0, 0.9)
        between("explore", explore, 0, 1)
        between("lease", lease, 0, np.inf)
        between("retry", retry, 0, np.inf)
        if isinstance(prior, str) and prior != "learn":
            raise InputError(f"a prior is a Prior, or 'learn', not {prior!r}")
        self._adapting = isinstance(prior, str)
        if prior is None:
            grid = weights = np.zeros(0)
        elif isinstance(prior, str):  # the rates that matter are known when the sources are
            grid = np.geomspace(1e-3, 1e3, GRID_POINTS)
            weights = np.full(GRID_POINTS, 1 / GRID_POINTS)
        else:
            grid, weights = np.array(prior.rates, float), np.array(prior.weights, float)
        super().__init__(grid, weights)
        self._rows = np.zeros(1, np.int64)
        self._seen = 0
        self._next_look = 0.0
        self._kernels: Any = dispatch
        self._beliefs: Any = beliefs
        self._objective, self._grace = objective, float(check("grace", grace, 0))
        self._bounds = float(min_period), float(max_period)
        self._host_defaults = float(host_delay), float(host_cap)
        self._given_burst = None if burst is None else float(check("burst", burst, 0, above=True))
        self._touched = 0
        self._now = float(start)
        self._hinted = False
        self._hint_log: list[tuple[int, float, int, bool]] = []
        self._out = np.zeros(1000, np.int64)
        clock = self._clock[0]
        clock["time"], clock["price"], clock["code"] = start, 1.0, CODES[objective]
        clock["jitter"], clock["explore"] = jitter, explore
        clock["lease"], clock["retry"], clock["seed"] = lease, retry, seed
        clock["learning"] = prior is not None
        clock["trust"] = getattr(prior, "trust", 1.0)
        clock["drift"], clock["age_weight"] = check_drift(drift), 1.0
        clock["budget"] = check("budget", budget, 0, above=True)
        self._tabulate()

    # -- what a loop asks ---------------------------------------------------------------------

    def due(self, now: float, limit: int = 1000) -> list[str | int]:
        """The sources to visit now, most urgent first; their cost is spent with this call.

        Report each with `visited`. Time never runs back.
        """
        if not self._now <= now < np.inf:
            raise InputError(f"time runs forward in days: {now} cannot come after {self._now}")
        self._now = float(now)
        if limit != len(self._out):
            self._out = np.zeros(limit, np.int64)
        found = self._kernels.due(*self._state, self._now, self._out)
        return [self._names[i] for i in self._out[:found].tolist()]

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
        i = self._find(source)
        try:
            outcome = _OUTCOMES[changed]
        except (KeyError, TypeError):
            raise InputError(
                f"changed must be True, False, None or 'failed', not {changed!r}",
                source=str(source),
            ) from None
        if self._hinted and outcome >= 0:
            self._note(i, time, outcome == 1)
        known = np.nan if age is None else float(age)
        if not self._kernels.visited(*self._state, i, float(time), outcome, known):
            last = self._sources["last"][i]
            raise InputError(
                f"visited at {time}, not after the visit before ({last})", source=str(source)
            )
        self._seen += 1
        if self._adapting and self._seen >= self._next_look * len(self):
            self.learn_prior()

    def hint(self, source: str | int, time: float) -> None:
        """Somebody says that the source changed. Used as far as such hints can be trusted."""
        i = self._find(source)
        if not np.isfinite(time):
            raise InputError(f"a hint needs a time in days, not {time}", source=str(source))
        self._now = max(self._now, float(time))
        self._kernels.hint(*self._state, i, float(time))

    def next_time(self) -> float:
        """When to ask again: the next time at which `due` may have something; infinite if never.

        Hints, reports and additions may bring it forward.
        """
        return float(self._kernels.next_time(self._sources, self._heaps, self._clock))

    def drive(
        self, kernel: Any, slots: int, world: tuple[Any, ...], pace: tuple[float, float, float]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
        """Run over recorded updates with a compiled loop (`driving.drive`), one visit a slot."""
        who, when = np.zeros(slots, np.int64), np.zeros(slots)
        failed = np.zeros(slots, bool)
        begin = paid = 0
        while begin < slots:
            left = slots - begin
            if self._adapting:
                left = min(left, max(int(self._next_look * len(self)) - self._seen, 1))
            stop = begin + left
            many = kernel(
                *(*self._state, *world, begin, stop, *pace, np.zeros(1, np.int64)),
                *(who[paid:], when[paid:], failed[paid:]),
            )
            paid, begin = paid + many, stop
            self._seen += left
            self._now = float(self._clock["time"][0])
            if self._adapting and begin < slots:
                self.learn_prior()
        return who[:paid], when[:paid], failed[:paid]

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
        hints: HintQuality | None = None,
        group: str | Sequence[str] | None = None,
        age: ArrayLike | None = None,
        evidence: ArrayLike | None = None,
    ) -> None:
        """Add one source or many; one without a `last` visit is due at once.

        `group` is a path such as host/folder; sources under one path are siblings. `age` is how
        many days before its `last` visit a source was updated, where it told. `evidence` is what
        `evidence_of` gave for the same source before.
        """
        names = [sources] if isinstance(sources, (str, int)) else list(sources)
        for name in names:
            if name in self._slot:
                raise InputError("this source is already scheduled", source=str(name))
        if len(set(names)) < len(names):
            raise InputError("a source is named twice")
        if (rate is None) == (len(self._grid) == 0):
            raise InputError(
                "give the rate of every source, or a prior to learn rates by, but not both"
            )
        many = len(names)
        low = self._bounds[0] if min_period is None else min_period
        high = self._bounds[1] if max_period is None else max_period
        columns = {
            "rate": column("rate", 0.0 if rate is None else rate, names),
            "importance": column("importance", importance, names),
            "cost": column("cost", cost, names, above=True),
            "minimum": column("min_period", low, names),
            "maximum": column("max_period", high, names, above=True, endless=True),
        }
        for name, short, long in zip(names, columns["minimum"], columns["maximum"], strict=True):
            if short > long:
                raise InputError(f"min_period {short} is above max_period {long}", source=str(name))
        before = np.full(many, -np.inf) if last is None else times(last, names)
        if hints is not None:
            self._can_use_hints()
        where = self._host_index(host, many)
        slots = self._room(many)
        block = np.zeros(many, self._sources.dtype)
        for name, values in columns.items():
            block[name] = values
        block["last"], block["grace"] = before, self._grace
        block["host"] = where
        block["node"] = -1
        if group is not None:
            labels = [group] * many if isinstance(group, str) else list(group)
            if len(labels) != many:
                raise InputError(f"{len(labels)} groups for {many} sources")
            block["node"] = self._nodes_of(labels)
            block["group"] = self._rows_for(block["node"])
        ages = np.full(many, -1.0) if age is None else np.broadcast_to(np.asarray(age, float), many)
        block["age"] = np.where(ages >= 0, ages, -1.0)
        block["position"] = block["follower"] = -1
        block["state"] = self._codes.WAITING
        block["why"] = np.where(np.isfinite(before), self._codes.CROSSING, self._codes.NEW)
        block["key"] = self._clock["time"][0]
        self._sources[slots] = block
        self._evidence[slots] = 0.0 if evidence is None else np.asarray(evidence, float)
        for name, i in zip(names, slots.tolist(), strict=True):
            self._slot[name] = i
            self._names[i] = name
        if hints is not None:
            self._trust(slots, hints)
        self._scale()
        if len(self._grid):
            self._beliefs.believe_all(self._sources, self._clock, self._state[4])
        self._changed(slots)

    def remove(self, source: str | int) -> None:
        """Forget a source."""
        i = self._find(source)
        self._kernels.take_out(*self._state[:4], i)
        del self._slot[source]
        self._names[i] = None
        self._free.append(i)
        self._changed(np.zeros(0, np.int64), touched=1)

    def reweight(self, source: str | int, importance: float) -> None:
        """Change the importance of a source, with effect at once."""
        i = self._find(source)
        self._sources["importance"][i] = check("importance", importance, 0)
        self._changed(np.array([i]))

    def set_rate(self, source: str | int, rate: float) -> None:
        """Replace the rate of a source by a better estimate."""
        if len(self._grid):
            raise InputError("rates are learned here; they cannot be set", source=str(source))
        i = self._find(source)
        self._sources["rate"][i] = check("rate", rate, 0)
        self._changed(np.array([i]))

    def set_budget(self, budget: float) -> None:
        """Change the budget, with effect at once: rate of spending, price and all due times."""
        self._clock["budget"] = check("budget", budget, 0, above=True)
        self._settle()

    def set_host(self, host: str, *, delay: float = 0.0, cap: float = np.inf) -> None:
        """Politeness of one host: days between visits, and visits per day."""
        h = int(self._host_index(host, 1)[0])
        self._hosts["delay"][h], self._hosts["interval"][h] = rest(delay, cap)

    def set_hints(self, sources: Iterable[str | int], quality: HintQuality) -> None:
        """Say how far the hints about these sources can be trusted. Hints need freshness."""
        slots = np.array([self._find(source) for source in sources], np.int64)
        self._trust(slots, quality)
        self._changed(slots)

    def learn_hints(self, least: int = 50) -> dict[str | None, HintQuality]:
        """Learn precision and recall per host from the visits so far, and use them from now on.

        Hosts with fewer than `least` visits take those of all hosts together; below that, none.
        """
        if not self._hint_log:
            return {}
        host, expected, hints, changed = (np.array(c) for c in zip(*self._hint_log, strict=True))
        named = [(None, -1), *self._host_slot.items()]
        learned: dict[str | None, HintQuality] = {}
        if len(host) < least:
            return learned
        together = fit_hints(expected, hints, changed)
        hinted = np.flatnonzero(self._sources["signal"] > 0)
        for name, h in named:
            rows = host == h
            members = hinted[self._sources["host"][hinted] == h]
            if not len(members):
                continue
            enough = rows.sum() >= least
            learned[name] = (
                fit_hints(expected[rows], hints[rows], changed[rows]) if enough else together
            )
            self._trust(members, learned[name])
        self._settle()
        return learned

    # -- what it knows ------------------------------------------------------------------------

    @property
    def price(self) -> float:
        """Λ: the index at which a visit is worth its cost."""
        return float(self._clock["price"][0])

    @property
    def budget(self) -> float:
        """Cost per day."""
        return float(self._clock["budget"][0])

    @property
    def spent(self) -> float:
        """Cost of all visits so far."""
        return float(self._clock["spent"][0])

    def due_at(self, source: str | int) -> float:
        """When a source is due as things stand; of one being visited, when it is offered again."""
        return float(self._sources["key"][self._find(source)])

    @property
    def rates(self) -> NDArray[np.float64]:
        """The rates that a source may have, where rates are learned."""
        return self._grid.copy()

    def posterior(self, source: str | int) -> NDArray[np.float64]:
        """Probability of each rate of `rates`, given the outcomes so far."""
        return np.array(self._posterior[self._find(source)])

    def evidence_of(self, source: str | int) -> NDArray[np.float64]:
        """What the outcomes say about each rate of `rates`, as logarithms; for `add` later."""
        return np.array(self._evidence[self._find(source)])

    def activity(self, group: str = "") -> float:
        """How much faster than usual the sources of a group change now; 1 is as usual."""
        path = [part for part in group.split("/") if part]
        while path and "/".join(path) not in self._node_of:
            path.pop()
        node = self._node_of.get("/".join(path), 0)
        return float(self._activity[node, -1, self._tides["bin"][0] % self._bins])

    def learn_prior(self) -> None:
        """Learn from all sources how their rates are distributed; done by itself with "learn".

        It takes a moment with many sources. A loop that must not wait asks for a `lesson`, learns
        in another thread (`learning.learn_prior`), and lets the scheduler `take_in` the result.
        """
        from observant.planning.schedule.learning import learn_prior

        self.take_in(learn_prior(self.lesson()))

    def lesson(self) -> Lesson:
        """What the prior is learned from."""
        from observant.planning.schedule.learning import Lesson

        here = np.flatnonzero(self._sources["state"] != self._codes.GONE)
        return Lesson(
            self._grid.copy(),
            self._evidence[here],
            self._sources["age"][here],
            self._sources["node"][here],
            self._parent.copy(),
            self._prior[0].copy(),
        )

    def take_in(self, learned: Learned) -> None:
        """Use this prior from now on."""
        self._prior, self._rows = learned.prior, learned.rows
        self._sources["group"] = self._rows_for(self._sources["node"])
        self._clock["age_weight"] = learned.age_weight
        self._gather()
        self._beliefs.believe_all(self._sources, self._clock, self._state[4])
        self._next_look = max(2 * self._seen / max(len(self), 1), _FIRST_LOOK)
        self._settle()

    # -- save and restore ---------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Everything, as plain values that JSON can hold; `restore` continues exactly."""
        arrays = {name: getattr(self, f"_{name}") for name in _ARRAYS}
        arrays |= {name: getattr(self._state[4], name) for name in _UNDER_WAY}
        return {
            "type": _TYPE_OF_STATE,
            "objective": self._objective,
            "grace": self._grace,
            "bounds": [_text(x) for x in self._bounds],
            "host_defaults": [_text(x) for x in self._host_defaults],
            "given_burst": self._given_burst,
            "names": list(self._names),
            "hosts_by_name": dict(self._host_slot),
            "free": list(self._free),
            "nodes": dict(self._node_of),
            "members": dict(self._members),
            "learning": [self._adapting, self._seen, self._next_look],
            "touched": self._touched,
            "hint_log": [list(row) for row in self._hint_log],
            "arrays": {name: pack(array) for name, array in arrays.items()},
        }

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Scheduler:
        """A scheduler that goes on where `state` was taken."""
        if state.get("type") != _TYPE_OF_STATE:
            raise InputError(f"this is not the state of a scheduler: {state.get('type')!r}")
        new = cls(1.0, objective=state["objective"], grace=state["grace"])
        kinds = {
            "sources": new._sources.dtype,
            "hosts": new._hosts.dtype,
            "clock": new._clock.dtype,
            "heaps": new._heaps.dtype,
            "tides": new._tides.dtype,
            "parent": new._parent.dtype,
            "rows": new._rows.dtype,
        }
        arrays = state["arrays"]
        for name in _ARRAYS:
            setattr(new, f"_{name}", unpack(arrays[name], kinds.get(name, np.dtype(float))))
        new._bounds = float(state["bounds"][0]), float(state["bounds"][1])
        new._host_defaults = float(state["host_defaults"][0]), float(state["host_defaults"][1])
        new._given_burst = state["given_burst"]
        new._names = list(state["names"])
        new._slot = {name: i for i, name in enumerate(new._names) if name is not None}
        new._host_slot = dict(state["hosts_by_name"])
        new._free = list(state["free"])
        new._node_of = dict(state["nodes"])
        new._members = Counter(state["members"])
        new._adapting, new._seen, new._next_look = state["learning"]
        new._touched = state["touched"]
        new._now = float(new._clock["time"][0])
        new._hinted = bool((new._sources["signal"] > 0).any() or state["hint_log"])
        new._hint_log = [(i, s, n, z) for i, s, n, z in state["hint_log"]]
        new._tabulate()
        for name in _UNDER_WAY:
            array = getattr(new._state[4], name)
            array[:] = unpack(arrays[name], array.dtype)
        return new

    # -- inside -------------------------------------------------------------------------------

    def _scale(self) -> None:
        """Once the number of sources is known: which rates matter, and how long a bin is."""
        period = len(self) / self.budget
        if self._seen:
            return
        if self._adapting:
            self._grid[:] = np.geomspace(_LOWEST / period, _HIGHEST / period, len(self._grid))
            self._next_look = _FIRST_LOOK
            self._tabulate()
        tide = self._tides[0]
        tide["width"] = min(period / _BINS_PER_PERIOD, 1.0)
        tide["memory"], tide["weight"], tide["level"] = _MEMORY, 1 / len(tide["weight"]), 1.0
        tide["bin"] = tide["oldest"] = np.floor(self._now / tide["width"])
        tide["due"] = tide["round"] = -np.inf
        tide["slack"] = _SLACK * period

    def _rows_for(self, node: NDArray[np.int64]) -> NDArray[np.int64]:
        """The row of the prior for sources of these groups; a new group has that of its parent."""
        place = np.array(node)
        while (fresh := place >= len(self._rows)).any():
            place[fresh] = self._parent[place[fresh]]
        return np.where(place >= 0, self._rows[place], 0)

    def _believe(self, slot: int) -> None:
        """Find the posterior of one source anew."""
        self._beliefs.believe_one(self._sources, self._clock, self._state[4], slot)

    def _tabulate(self) -> None:
        """Prepare what is looked up rather than computed, for the rates as they are."""
        from observant.planning.schedule import grids

        prepare: Any = grids
        if len(self._grid):
            *found, zero = prepare.tables(self._objective, self._grid)
            self._tables = (found[0], found[1], found[2])
            self._clock["step"], self._clock["zero"] = prepare.step_of(self._grid), zero
        self._gather()

    def _note(self, i: int, time: float, changed: bool) -> None:
        """Keep a comparison from which the quality of hints is learned; the oldest fall out."""
        record = self._sources[i]
        if record["signal"] > 0 and -np.inf < record["last"] < time:
            expected = max(float(record["rate"] * (time - record["last"])), 1e-12)
            self._hint_log.append((int(record["host"]), expected, int(record["hints"]), changed))
            if len(self._hint_log) > _HINT_LOG:
                del self._hint_log[: _HINT_LOG // 10]

    def _can_use_hints(self) -> None:
        if self._objective != "freshness" or len(self._grid):
            raise InputError("hints are used with the objective freshness and with given rates")

    def _trust(self, slots: NDArray[np.int64], quality: HintQuality) -> None:
        self._can_use_hints()
        self._hinted = True
        streams = quality.streams(self._sources["rate"][slots])
        for name, values in zip(("silent", "signal", "false"), streams, strict=True):
            self._sources[name][slots] = values

    def _changed(self, slots: NDArray[np.int64], touched: int | None = None) -> None:
        """Key these sources anew; after a large change find the price again."""
        self._touched += len(slots) if touched is None else touched
        self._tides["stale"] = 1
        if self._touched > _LARGE_CHANGE * len(self):
            self._settle()
        else:
            self._kernels.place(*self._state, slots)

    def _settle(self) -> None:
        """Find the price on a sample, and key every source at it."""
        self._touched = 0
        here = np.flatnonzero(self._sources["state"] != self._codes.GONE)
        if not len(here):
            return
        clock = self._clock[0]
        costs = self._sources["cost"][here]
        burst = np.sqrt(len(here)) * costs.mean()
        clock["burst"] = burst if self._given_burst is None else self._given_burst
        clock["purse"] = min(clock["purse"], clock["burst"])
        clock["gain"] = _GAIN if len(self._grid) else min(0.05, 1 / np.sqrt(len(here)))
        sample = here[:: -(-len(here) // _SAMPLE)]
        share = costs.sum() / self._sources["cost"][sample].sum()
        sources, _, _, clocks, *rest = self._state
        clock["price"] = self._kernels.solve_price(
            sources, clocks, sample, *rest, clock["budget"] / share
        )
        self._kernels.rekey_all(*self._state)


_ARRAYS = (
    *("sources", "heaps", "hosts", "clock", "grid", "prior", "evidence", "posterior"),
    *("tides", "parent", "rows", "found", "expected", "activity", "shown"),
)
_UNDER_WAY = ("moved", "news")
"""Of `siblings`: what was found since the clocks were read."""


def check_drift(drift: float) -> float:
    if not drift > 0:
        raise InputError(f"drift is a number of days above 0, infinite for none, not {drift}")
    return drift


def _text(value: float) -> float | str:
    return value if np.isfinite(value) else str(value)
