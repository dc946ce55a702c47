"""The same optimum, one visit at a time: who is to be visited now?

`Scheduler` visits a source when importance·W(s)/cost reaches the price of a visit, like
`observant.planning.allocation`, but without solving for everybody: it keeps a heap of the times at
which sources will cross the price, and moves the price so that the spent rate follows the budget.
Any loop can drive it: ask `due(now)`, visit, report with `visited`. Each decision costs O(log n).
The rules are in `dispatch`; this module checks what it is told and keeps names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from observant.errors import InputError
from observant.planning.objectives import OBJECTIVES
from observant.planning.schedule.admission import between, check, column, host_rest, lasting, times
from observant.planning.schedule.hints import HintQuality, fit_hints
from observant.planning.schedule.saving import attributes_of, options_of, restore_news, state_of
from observant.planning.schedule.upkeep import Upkeep

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike, NDArray

    from observant.estimation.priors import Prior

__all__ = ["Scheduler"]

_HINT_LOG = 200_000
GRID_POINTS = 48
_SAME_VISIT = 1e-9
"""Days: two times that are as near as that are those of one visit, of which one was rounded."""
_OUTCOMES = {True: 1, False: 0, None: -1, "failed": -2}


class Scheduler(Upkeep):
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
    visit teaches most. `burst` is the most that can be spent at once (default: √n visits, or a
    second of the budget). `lease` is how long a visit may stay unreported before it is offered
    again, `retry` the pause after a failure, doubled each time. A host rests `host_delay` days
    after every visit, and has at most `host_cap` visits a day (and four more that it has saved up).
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
        from observant.planning.schedule import dispatch
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
        if prior is None:
            grid = weights = np.zeros(0)
        elif isinstance(prior, str):  # the rates that matter are known when the sources are
            grid = np.geomspace(1e-3, 1e3, GRID_POINTS)
            weights = np.full(GRID_POINTS, 1 / GRID_POINTS)
        else:
            grid, weights = np.array(prior.rates, float), np.array(prior.weights, float)
        super().__init__(
            *(grid, weights, objective),
            adapting=isinstance(prior, str),
            burst=None if burst is None else float(check("burst", burst, 0, above=True)),
        )
        self._dispatch: Any = dispatch
        self._grace = float(check("grace", grace, 0))
        self._bounds = float(min_period), float(max_period)
        self._host_defaults = float(host_delay), float(host_cap)
        self._hinted = False
        self._hint_log: list[tuple[int, float, int, bool]] = []
        self._out = np.zeros(1000, np.int64)
        clock = self._clock[0]
        clock["time"], clock["price"], clock["code"] = start, 1.0, CODES[objective]
        clock["jitter"], clock["explore"] = jitter, explore
        clock["lease"], clock["retry"], clock["seed"] = lease, retry, seed
        clock["learning"] = prior is not None
        clock["trust"] = getattr(prior, "trust", 1.0)
        clock["drift"], clock["age_weight"] = lasting(drift), 1.0
        clock["budget"] = check("budget", budget, 0, above=True)
        self._tabulate()

    # -- what a loop asks ---------------------------------------------------------------------

    def due(self, now: float, limit: int = 1000) -> list[str | int]:
        """The sources to visit now, most urgent first; their cost is spent with this call.

        Report each with `visited`. Time never runs back.
        """
        if not self.now <= now < np.inf:
            raise InputError(f"time runs forward in days: {now} cannot come after {self.now}")
        if limit != len(self._out):
            self._out = np.zeros(limit, np.int64)
        found = self._dispatch.due(*self._state, float(now), self._out)
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
        if not self._dispatch.visited(*self._state, i, float(time), outcome, known):
            last = self._sources["last"][i]
            raise InputError(
                f"visited at {time}, not after the visit before ({last})", source=str(source)
            )
        self._seen += 1
        if self._adapting and self._seen >= self._next_look * len(self):
            self.learn_prior()

    def rest(self, source: str | int, until: float, *, refund: bool = True) -> None:
        """Offer a source that was due again at this time, not before.

        With `refund` the visit that was asked for was not made, and does not count as spent. A
        source that waits for its host keeps its place.
        """
        i = self._find(source)
        row, clock = self._sources[i], self._clock[0]
        if self._waits_for_host(row):
            return
        if refund and row["state"] == self._codes.AWAY:
            clock["purse"] += row["cost"]
            clock["spent"] -= row["cost"]
        row["state"], row["why"], row["key"] = self._codes.WAITING, self._codes.RETRY, until
        self._keys.place(*self._state, np.array([i]))

    def put_back(self, source: str | int) -> None:
        """Forget that a visit to this source was begun, or that the last ones failed."""
        i = self._find(source)
        row = self._sources[i]
        if self._waits_for_host(row):
            return
        known = np.isfinite(row["last"])
        row["state"] = self._codes.WAITING
        row["why"] = self._codes.CROSSING if known else self._codes.NEW
        row["failures"] = 0
        if not known:
            row["key"] = self.now
        self._keys.place(*self._state, np.array([i]))

    def adopt(self, source: str | int, last: float, evidence: ArrayLike | None) -> None:
        """Somebody else has visited this source at `last`, and knows this `evidence` of it.

        Of a visit that is not later than the last one known here, nothing is taken.
        """
        i = self._find(source)
        if last > self._sources["last"][i] + _SAME_VISIT:
            self._sources["last"][i] = min(last, self.now)
            self.set_evidence(source, evidence)

    def hint(self, source: str | int, time: float) -> None:
        """Somebody says that the source changed. Used as far as such hints can be trusted."""
        i = self._find(source)
        if not np.isfinite(time):
            raise InputError(f"a hint needs a time in days, not {time}", source=str(source))
        self._dispatch.hint(*self._state, i, float(time))

    def next_time(self) -> float:
        """When to ask again: the next time at which `due` may have something; infinite if never.

        Hints, reports and additions may bring it forward.
        """
        return float(self._dispatch.next_time(self._sources, self._heaps, self._clock))

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
        self._dispatch.take_out(*self._state[:4], i)
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

    def set_evidence(self, source: str | int, evidence: ArrayLike | None) -> None:
        """Replace what the outcomes have taught, by that of `evidence_of`; None for nothing."""
        i, taught = self._find(source), np.zeros(len(self._grid))
        if evidence is not None:
            taught = np.asarray(evidence, float)
        if taught.shape != self._grid.shape:
            raise InputError(
                f"the evidence has {taught.size} numbers for {len(self._grid)} rates",
                source=str(source),
            )
        self._evidence[i] = taught
        self._beliefs.believe_one(self._sources, self._clock, self._state[4], i)

    def set_budget(self, budget: float) -> None:
        """Change the budget, with effect at once: rate of spending, price and all due times."""
        self._clock["budget"] = check("budget", budget, 0, above=True)
        self._settle()

    def set_host(self, host: str, *, delay: float = 0.0, cap: float = np.inf) -> None:
        """Politeness of one host: days between visits, and visits per day."""
        h = int(self._host_index(host, 1)[0])
        self._hosts["delay"][h], self._hosts["interval"][h] = host_rest(delay, cap)

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

    # -- save and restore ---------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Everything, as plain values that JSON can hold; `restore` continues exactly."""
        return state_of(vars(self), self._state[4])

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Scheduler:
        """A scheduler that goes on where `state` was taken."""
        new = cls(**options_of(state))
        vars(new).update(attributes_of(state, vars(new)))
        new._tabulate()
        restore_news(new._state[4], state)
        return new

    # -- inside -------------------------------------------------------------------------------

    def _waits_for_host(self, row: Any) -> bool:
        """Whether a source stands in the queue of its host, or at its head."""
        return bool(row["state"] == self._codes.QUEUED or row["why"] == self._codes.POLITE)

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
