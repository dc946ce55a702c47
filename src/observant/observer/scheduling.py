"""The first tier: who is due? All contact of the observer with `planning.schedule.Scheduler`.

Times outside are seconds since 1970, inside days. What the visits of a source have taught is the
log-likelihood of its rate on one grid that never changes; it is kept with the source in the store,
so a restarted observer knows what the killed one knew. The prior is learned from all sources as
they are visited, more rarely as there is more to go by, and sources of one host and folder are
siblings: see `planning.schedule.siblings`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from observant.planning.schedule import Scheduler
from observant.planning.schedule.learning import Learned, Lesson, learn_prior
from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from observant.planning.schedule.knowledge import Glance

__all__ = ["Belief", "Expectation", "Planned", "Schedule", "group_of", "warm_up"]

GRID = 2.0 ** np.arange(-12.0, 11.0, 0.25)
"""Rates from one update in eleven years to one in a minute, a quarter of an octave apart."""

_BROAD = 2.5
"""Standard deviation of log λ in the prior that nothing was learned for yet."""
_DRIFT = 1_000.0
"""Days that a rate lasts, on average, before it is another."""


@dataclass(frozen=True)
class Planned:
    """A source as the schedule sees it."""

    name: str
    host: str
    importance: float = 1.0
    min_period: float = 0.0
    max_period: float = 365.0
    """Both in days."""
    last_at: float | None = None
    """Its last good visit."""
    evidence: bytes | None = None
    """What `Schedule.evidence` told before."""


class Belief(NamedTuple):
    """A rate per day with its 95 % interval."""

    rate: float
    low: float
    high: float


class Expectation(NamedTuple):
    """α as it is expected now, with its 95 % interval; and as the plan promises it for long."""

    alpha: float
    low: float
    high: float
    planned: float


class Schedule:
    """Who is due, for a budget of visits per day.

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
        objective: str = "freshness",
        grace: float = 0.0,
        host_delay: float = 0.0,
        lease: float = 1.0,
        retry: float = 1 / 24,
        seed: int = 0,
        start: float,
    ) -> None:
        from observant.estimation.priors import Prior

        middle = np.log(0.1)
        weights = np.exp(-0.5 * ((np.log(GRID) - middle) / _BROAD) ** 2)
        self._scheduler = Scheduler(
            budget,
            objective=objective,
            grace=grace,
            prior=Prior(GRID, weights / weights.sum()),
            drift=_DRIFT,
            host_delay=host_delay,
            lease=lease,
            retry=retry,
            seed=seed,
            start=start / DAY,
        )
        self._grace = grace
        self._delay = host_delay * DAY
        self._delays: dict[str, float] = {}
        self._comparisons = 0
        self._learn_at = 200

    def __len__(self) -> int:
        return len(self._scheduler)

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
        if isinstance(changed, bool):
            self._comparisons += 1

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

    def adopt(self, name: str, at: float, evidence: bytes | None) -> None:
        """Somebody else has visited this source, and told the store."""
        if name in self._scheduler:
            self._scheduler.adopt(name, at / DAY, _likelihoods(evidence))

    def forget(self, name: str) -> None:
        """Throw away what the visits of a source have taught: it turned out to be noise."""
        if name in self._scheduler:
            self._scheduler.set_evidence(name, None)

    def set_delay(self, host: str, seconds: float) -> None:
        """A host wants this long between two visits."""
        if abs(self._delays.get(host, self._delay) - seconds) > 0.2 * seconds:
            self._delays[host] = seconds
            self._scheduler.set_host(host, delay=seconds / DAY)

    # -- what a person changes ----------------------------------------------------------------

    def add(self, sources: Iterable[Planned]) -> None:
        many = list(sources)
        if not many:
            return
        now = self._scheduler.now
        self._scheduler.add(
            [s.name for s in many],
            importance=[s.importance for s in many],
            host=[s.host for s in many],
            group=[group_of(s.name, s.host) for s in many],
            min_period=[s.min_period for s in many],
            max_period=[s.max_period for s in many],
            # A visit that a wrong clock put into the future counts as one of now.
            last=[np.nan if s.last_at is None else min(s.last_at / DAY, now) for s in many],
            evidence=_evidence(many),
        )

    def remove(self, name: str) -> None:
        if name in self._scheduler:
            self._scheduler.remove(name)

    def set_budget(self, budget: float) -> None:
        self._scheduler.set_budget(budget)

    # -- what it knows ------------------------------------------------------------------------

    def last_at(self, name: str) -> float:
        """The last good visit, seconds since 1970; −∞ if there was none."""
        return float(self._scheduler.last_visit(name) * DAY)

    def due_at(self, name: str) -> float:
        """When the source is due as things stand, seconds since 1970."""
        return float(self._scheduler.due_at(name) * DAY)

    def evidence(self, name: str) -> bytes:
        """What the visits have taught, for `Planned.evidence`."""
        own = self._scheduler.evidence_of(name)
        return bytes(np.clip(own - own.max(), -1e30, 0).astype(np.float32).tobytes())

    def belief(self, name: str) -> Belief:
        """What is believed of the rate of a source: median and 95 % interval of the posterior."""
        rows = self._scheduler.posteriors([name])
        low, middle, high = quantiles(rows, (0.025, 0.5, 0.975))[0]
        return Belief(middle, low, high)

    def beliefs(self) -> dict[str, Belief]:
        """The same for all sources."""
        names = self._scheduler.sources
        found = quantiles(self._scheduler.posteriors(names), (0.025, 0.5, 0.975)).tolist()
        return {str(n): Belief(q[1], q[0], q[2]) for n, q in zip(names, found, strict=True)}

    def expectation(self, now: float) -> Expectation:
        """How current all copies are together, weighted with importance, as far as we can know."""
        some = self._scheduler.glance()
        if not len(some.last):
            return Expectation(np.nan, np.nan, np.nan, np.nan)
        waited = np.maximum(now / DAY - some.last - self._grace, 0.0)
        waited[~np.isfinite(waited)] = np.inf  # never visited: there is no copy
        with np.errstate(invalid="ignore"):
            fresh = np.einsum("ij,ij->i", some.posterior, np.exp(-np.outer(waited, GRID)))
        fresh = np.minimum(fresh, 1.0)  # rounding may carry a sum of probabilities past it
        share = some.importance / max(some.importance.sum(), 1e-300)
        alpha = float(share @ fresh)
        spread = 1.96 * float(np.sqrt(np.sum(share**2 * fresh * (1 - fresh))))
        low, high = max(alpha - spread, 0.0), min(alpha + spread, 1.0)
        return Expectation(alpha, low, high, float(share @ self._planned(some)))

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
    def spent(self) -> float:
        return float(self._scheduler.spent)

    @property
    def budget(self) -> float:
        return float(self._scheduler.budget)

    # -- the prior ----------------------------------------------------------------------------

    @property
    def prior(self) -> list[float]:
        """The prior as it stands, for `restore_prior`."""
        return [float(x) for x in self._scheduler.prior]

    def restore_prior(self, weights: list[float]) -> None:
        if len(weights) == len(GRID) and abs(sum(weights) - 1) < 1e-6:
            self._scheduler.take_in(Learned(np.array([weights]), np.zeros(1, np.int64), 0.0))

    @property
    def wants_to_learn(self) -> bool:
        """Whether there is enough that is new to learn the prior again."""
        return self._comparisons >= self._learn_at

    def learn(self) -> None:
        """Learn the prior anew from what all sources have shown."""
        self.take_in(learn_prior(self.lesson()))

    def lesson(self) -> Lesson:
        """What the prior is learned from, for `learn_prior` (in a thread, say)."""
        self._learn_at = self._comparisons + max(200, self._comparisons // 2)
        return self._scheduler.lesson()

    def take_in(self, learned: Learned) -> None:
        """Use this prior from now on."""
        self._scheduler.take_in(learned)

    # -- inside -------------------------------------------------------------------------------

    def _planned(self, some: Glance) -> NDArray[np.float64]:
        """α of each source if it keeps the period it has now."""
        beyond = np.maximum(some.period - self._grace, 1e-12)
        x = np.outer(beyond, GRID)
        fresh = np.einsum("ij,ij->i", some.posterior, -np.expm1(-x) / x)
        within = np.minimum(self._grace, some.period)
        alpha = (within + beyond * fresh) / np.maximum(some.period, 1e-12)
        return np.asarray(np.minimum(alpha, 1.0))


def _likelihoods(evidence: bytes | None) -> NDArray[np.float32] | None:
    """What `Schedule.evidence` told; nothing was taught where it is missing or of another grid."""
    if evidence is None or len(evidence) != 4 * len(GRID):
        return None
    return np.frombuffer(evidence, np.float32)


def _evidence(sources: list[Planned]) -> NDArray[np.float32] | None:
    """The same for many, a row each; None if nothing is known of any."""
    if not any(source.evidence for source in sources):
        return None
    rows = np.zeros((len(sources), len(GRID)), np.float32)
    for row, source in zip(rows, sources, strict=True):
        taught = _likelihoods(source.evidence)
        if taught is not None:
            row[:] = taught
    return rows


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
    schedule.remove(names[1])
    schedule.next_at()


def group_of(name: str, host: str) -> str:
    """The siblings of a source, as a path: its host and folders, or the folders of a file.

    >>> group_of("https://docs.example/guide/start.html?page=2", "docs.example")
    'docs.example/guide'
    """
    path = name.split("://", 1)[-1].split("?", 1)[0].split("#", 1)[0]
    folders = path.split("/")[1:-1] if "://" in name else path.split("/")[:-1]
    return "/".join([host, *folders])


def quantiles(posterior: NDArray[np.float64], at: tuple[float, ...]) -> NDArray[np.float64]:
    """Quantiles of rates on the grid, one row a source; linear in log λ between grid points."""
    upper = np.cumsum(posterior, axis=1)
    middle = upper - 0.5 * posterior
    position = np.log(GRID)
    return np.array([np.exp(np.interp(at, row, position)) for row in middle])
