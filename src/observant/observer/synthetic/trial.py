"""Run the real observer over the synthetic web, and judge it: the truth is known here.

What is judged is the second part of the time, after the observer has learned; the same budget is
spent evenly (uniform) and by somebody who knows all rates (clairvoyant) on the same updates.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.observer.clock import AcceleratedClock
from observant.observer.config import Config
from observant.observer.loop import Observer
from observant.observer.program import describe, run_observer
from observant.observer.schedule import warm_up
from observant.observer.synthetic.server import locate, serving
from observant.observer.transport import Guard, Politeness, Transport
from observant.simulation import WorldVisits, simulate
from observant.simulation.traces import Trace
from observant.store import open_store
from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from observant.arrays import Floats, Integers
    from observant.observer.metrics import Status
    from observant.observer.synthetic.web import DemoWorld
    from observant.simulation import PolicyComparison, Score, World
    from observant.store import Store, Visit

RIVALS = ("nutch", "heritrix")
"""Crawlers whose rules are tried beside ours."""
_LEARNING = 0.5
"""Share of the time that is for learning and not judged."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """What the observer believed and achieved, beside the truth."""

    world: DemoWorld
    budget: float
    """Visits a day that were allowed."""
    spent: float
    """Visits a day that were made."""
    visits: int
    changes: int
    failures: int
    not_modified: int
    lies: int
    peak: int
    """The most downloaders at once."""
    seconds: float
    achieved: float
    """Share of time in which copies were fresh, by the truth, after the learning."""
    predicted: float
    """The same as the observer believed it, averaged over that time."""
    planned: float
    """What its plan promised in the end."""
    comparison: PolicyComparison
    """What it did beside equal visits, the rules of two crawlers and who knows all rates, all with
    as many visits."""
    covered: float
    """Share of the pages whose true rate lies in its 95 % interval."""
    covered_poisson: float
    """The same for pages that change by a Poisson process, noisy ones too."""
    rate: Floats
    rate_low: Floats
    rate_high: Floats
    truth: Floats
    """Updates a day that each page really had."""
    seen: Integers
    """Visits to each page."""
    curve: list[dict[str, float]]
    """Day by day: achieved, predicted, uniform."""

    @property
    def uniform(self) -> float:
        return float(self.comparison["uniform"].metrics["freshness"])

    @property
    def clairvoyant(self) -> float:
        return float(self.comparison["clairvoyant"].metrics["freshness"])

    def as_dict(self) -> dict[str, Any]:
        """The numbers, without the columns."""
        names = (
            "budget", "spent", "visits", "changes", "failures", "not_modified", "lies", "peak",
            "seconds", "achieved", "predicted", "planned", "uniform", "clairvoyant", "covered",
            "covered_poisson",
        )  # fmt: skip
        share = self.achieved / self.clairvoyant
        return {
            "pages": self.world.pages,
            "days": self.world.days,
            "seed": self.world.seed,
            **{name: getattr(self, name) for name in names},
            "share_of_clairvoyant": share,
            "policies": self.comparison.rows(),
        }


def transport_to(port: int, clock: AcceleratedClock) -> Transport:
    """What reaches every host of a synthetic web at the port where it is served."""
    return Transport(
        user_agent="observant-demo/1",
        guard=Guard(allow=["127.0.0.0/8"]),
        proxies={},
        politeness=Politeness(patience=30 * DAY),
        locate=locate(port),
        clock=clock,
    )


async def run_demo(
    file: Path | str,
    world: DemoWorld,
    *,
    seconds: float = 60.0,
    visits_per_page: float = 12.0,
    show: Callable[[Status], None] | None = None,
) -> Judgement:
    """Watch the synthetic web for so many seconds, in which all its days pass."""
    budget = world.pages * visits_per_page / world.days
    config = Config(budget=budget, first_visits=0, store=str(file), defaults={"min_period": "1s"})
    warm_up()
    # It ends on the midnight that was last, so that whoever looks at the store finds it recent.
    start = time.time() // DAY * DAY - math.ceil(world.days) * DAY
    clock = AcceleratedClock(speed=world.days * DAY / seconds, start=start)
    with serving(world) as server, open_store(file, durable=False, clock=clock.time) as store:
        store.sources.add([describe(world.url(page)) for page in range(world.pages)])
        clock.restart()
        transport = transport_to(server.port, clock)
        server.begin(clock)
        observer = Observer(store, config, clock=clock, transport=transport, seed=world.seed)
        believed: list[Status] = []

        def look(status: Status) -> None:
            believed.append(status)
            if show is not None:
                show(status)

        async with transport:
            await run_observer(
                observer, until=start + world.days * DAY, each=min(0.5, seconds / 60), show=look
            )
        if clock.time() - start < 0.9 * world.days * DAY:
            raise KeyboardInterrupt  # stopped before its time: there is nothing to judge
        return judge(world, store, observer, believed, start=start, seconds=seconds)


def judge(
    world: DemoWorld,
    store: Store,
    observer: Observer,
    believed: list[Status],
    *,
    start: float,
    seconds: float,
) -> Judgement:
    """Compare what was believed and done with what was true."""
    page_of = {describe(world.url(page)).name: page for page in range(world.pages)}
    made_all = _visits(store)
    rows = [row for row in made_all if row.source in page_of]  # the others are reads of sitemaps
    page = np.array([page_of[row.source] for row in rows], np.int64)
    day = np.array([(row.started_at - start) / DAY for row in rows])
    # Whoever is told "not modified" falsely has seen nothing.
    blind = np.array(
        [row.outcome == "failed" or (row.status == 304 and world.stuck(p))
         for row, p in zip(rows, page.tolist(), strict=True)]
    )  # fmt: skip
    begin = _LEARNING * world.days
    trace = Trace(tuple(page_of), world.updates, 0.0, world.days)
    made = _Made(WorldVisits.from_flat(page, day, blind, sources=world.pages))
    comparison = simulate(
        trace,
        [made, *RIVALS],
        budget=len(made_all) / world.days,
        first_visit="counted",
        score_from=begin,
        visits_saved=True,
    )
    score, even = (comparison[name].scores[0] for name in (made.name, "uniform"))
    beliefs = observer.beliefs()
    rates = np.array([beliefs[describe(world.url(p)).name] for p in range(world.pages)])
    inside = (rates[:, 1] <= world.rates) & (world.rates <= rates[:, 2])
    poisson = np.array([kind in ("poisson", "noisy") for kind in world.kinds]) & world.reliable
    at = np.array([(s.at - start) / DAY for s in believed])
    late = [s for s, day in zip(believed, at, strict=True) if day >= begin] or believed[-1:]
    return Judgement(
        world=world,
        budget=observer.schedule.budget,
        spent=len(made_all) / world.days,
        visits=len(made_all),
        changes=observer.tally.changes,
        failures=observer.tally.outcomes["failed"],
        not_modified=observer.tally.not_modified,
        lies=observer.audits.lies,
        peak=observer.peak,
        seconds=seconds,
        achieved=score.summary()["freshness"],
        predicted=float(np.mean([s.alpha for s in late])),
        planned=float(np.mean([s.alpha_planned for s in late])),
        comparison=comparison,
        covered=float(inside.mean()),
        covered_poisson=float(inside[poisson].mean()),
        rate=rates[:, 0],
        rate_low=rates[:, 1],
        rate_high=rates[:, 2],
        truth=world.rates,
        seen=np.bincount(page, minlength=world.pages),
        curve=_curve(score, even, at, np.array([s.alpha for s in believed])),
    )


@dataclass(frozen=True, eq=False)
class _Made:
    """The visits that were made, as a policy among others."""

    visits: WorldVisits
    name: str = "observant"

    def replay(self, _world: World) -> WorldVisits:
        return self.visits


def _visits(store: Store) -> list[Visit]:
    rows: list[Visit] = []
    while True:
        part = store.visits.list(
            limit=10_000, after=rows[-1].id if rows else None, oldest_first=True
        )
        rows.extend(part)
        if len(part) < 10_000:
            return sorted(rows, key=lambda row: row.started_at)


def _curve(score: Score, even: Score, days: Floats, alphas: Floats) -> list[dict[str, float]]:
    return [
        {
            "day": mine["day"],
            "achieved": mine["freshness"],
            "uniform": other["freshness"],
            "predicted": float(np.interp(mine["day"], days, alphas)) if len(days) else np.nan,
        }
        for mine, other in zip(score.learning_curve(), even.learning_curve(), strict=True)
    ]
