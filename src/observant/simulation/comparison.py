"""Many policies over one trace for one budget: which is better, and by how much?

Uniform visiting and a clairvoyant are the yardsticks of every comparison. Two figures lead:

- *relative staleness*, what is stale (or missed, or waits) over what is with uniform visits for the
  same budget: 0.78 means 22 % less;
- *visits saved*, how many times the visits uniform visiting needs to be as good, found by replays
  of it with other budgets.

    gap closed = (policy − uniform) / (clairvoyant − uniform)

is 0 for a policy that is no better than not planning and 1 for one as good as knowing every rate;
there is none where the clairvoyant, who knows rates and not moments, is no better than uniform.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from observant.errors import InputError
from observant.names import EVIDENCE_KINDS, FIRST_VISITS, QUEUES
from observant.simulation.outcomes import Score, account
from observant.simulation.policies import named
from observant.simulation.replay import replay
from observant.simulation.world import World
from observant.tables import Table
from observant.units import counted, in_days, parse_budget

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from observant.simulation.traces import Trace

METRICS = {
    "freshness": "freshness",
    "currency": "currency",
    "age": "mean_age_days",
    "delay": "mean_delay_days",
    "detected": "detected_share",
}
"""The objectives, and the number by which each is judged."""


_FEW_UPDATES = 30
_BUDGETS = (0.5, 0.8, 1.0, 1.25, 1.6, 2.0, 3.0)
"""Times the budget that uniform visiting is replayed with, to find what visits were saved."""


@dataclass(frozen=True)
class PolicyResult:
    """What one policy achieved: means over the seeds, and their standard errors."""

    policy: str
    metrics: dict[str, Any]
    errors: dict[str, float]
    """Standard errors of the metrics over the seeds; not-a-number for one seed."""
    gap_closed: float
    gap_closed_error: float
    relative_staleness: float
    """What is stale over what is with uniform visits; see the module."""
    relative_staleness_error: float
    visits_saved: float
    """How many times the visits uniform visiting needs; not-a-number unless asked for, or beyond
    half and three times the budget."""
    visits_saved_error: float
    scores: tuple[Score, ...] = field(repr=False)
    """One for each seed."""

    def row(self) -> dict[str, Any]:
        """All of it in one flat dictionary."""
        flat = {name: value for name, value in self.metrics.items() if name != "currency"}
        return {
            "policy": self.policy,
            "relative_staleness": self.relative_staleness,
            "visits_saved": self.visits_saved,
            **flat,
            "gap_closed": self.gap_closed,
            "currency": {f"{grace:g}d": v for grace, v in self.metrics["currency"].items()},
            "standard_errors": self.errors
            | {
                "gap_closed": self.gap_closed_error,
                "relative_staleness": self.relative_staleness_error,
                "visits_saved": self.visits_saved_error,
            },
            "seeds": len(self.scores),
        }


@dataclass(frozen=True, repr=False)
class PolicyComparison(Table):
    """The results of all policies, in the order asked for."""

    figure: ClassVar[str] = "observant.figures.simulation:simulation_figure"

    results: tuple[PolicyResult, ...]
    objective: str
    metric: str
    budget: float
    evidence: str
    start: float
    score_from: float
    end: float
    sources: int
    seeds: tuple[int, ...]
    notes: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    """Why the figures cannot be trusted, to be read before them; `notes` begin with these."""

    def __getitem__(self, policy: str) -> PolicyResult:
        for result in self.results:
            if result.policy == policy:
                return result
        raise KeyError(policy)

    def group_name(self, number: int) -> str:
        """What a group is called; sources without groups are all in one."""
        return self.groups[number] if self.groups else ""

    def rows(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """One dictionary a policy."""
        return [result.row() for result in self.results]

    def __len__(self) -> int:
        return len(self.results)

    def to_arrow(self) -> pa.Table:
        """Return a PyArrow table with a row for each policy."""
        import pyarrow as pa

        return pa.Table.from_pylist(self.rows())

    def __repr__(self) -> str:
        policies = ", ".join(result.policy for result in self.results)
        return f"<PolicyComparison: {policies}, {self.budget:g} visits a day>"

    def __str__(self) -> str:
        width = max([6, *(len(result.policy) for result in self.results)])
        known = any(math.isfinite(result.visits_saved) for result in self.results)
        saved = "  visits saved" if known else ""
        rest = "freshness  detected  delay/d  precision  gap closed"
        lines = [*self.doubts, f"{'policy':{width}}  staleness{saved}  {rest}"]
        for result in self.results:
            m = result.metrics
            saved = f"  {result.visits_saved:12.2f}" if known else ""
            lines.append(
                f"{result.policy:{width}}  {result.relative_staleness:9.3f}{saved}  "
                f"{m['freshness']:9.4f}  {m['detected_share']:8.4f}  {m['mean_delay_days']:7.2f}  "
                f"{m['precision']:9.4f}  {result.gap_closed:10.3f}"
            )
        return "\n".join(lines)


def simulate(
    trace: Trace,
    policies: Sequence[Any] = (),
    *,
    budget: float | str,
    objective: str = "freshness",
    grace: float | str = 0.0,
    evidence: str = "existence",
    dated_share: float = 0.5,
    start: float | None = None,
    end: float | None = None,
    score_from: float | str | None = None,
    graces: Sequence[float | str] = (),
    seeds: Sequence[int] = (1,),
    failure: float = 0.0,
    latency: float | str = 0.0,
    signals: Any = None,
    first_visit: str = "known",
    queue: str = "due",
    as_asked: bool = False,
    visits_saved: bool = False,
    jobs: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> PolicyComparison:
    """Replay a trace under several policies that all spend the same.

    Parameters
    ----------
    trace
        The updates that really happened.
    policies
        Names (see `simulation.policies`), ``module:name``, or objects; see `simulation.replay` for
        what makes an object a policy. Uniform and clairvoyant always run.
    budget
        Visits a day for all sources together, or text such as ``"100/h"`` or ``"0.1/source/day"``.
        Where the trace says what a visit costs, it is spent on that.
    objective
        What optimising policies optimise, and what `gap_closed` is measured by: one of `METRICS`.
    grace
        For the objective currency.
    evidence
        What a visit tells: ``existence`` (changed or not), ``dated`` (also the age), or ``mixed``
        (`dated_share` of the sources tell their age).
    start, end
        Days since 1970; the span of the trace unless told. Updates before the start are not part of
        the replay, but a dated source tells of them.
    score_from
        When scoring begins: days since 1970, ``"half"`` (the middle), or the start.
    graces
        Report the currency α(β) for these β.
    seeds
        One replay each. A seed decides the order of visits, which sources are dated, and failures.
    failure
        Share of visits that fail.
    latency
        Days from a visit until its copy is in place.
    signals
        What policies hear of changes between visits: text such as
        ``"recall=0.8,precision=0.7,delay=1h,share=0.5"``, or a `SignalLog` (`read_signals`). Those
        of the kinds ``sitemap`` and ``feed`` stand in a list for each group of sources, and a read
        of it costs a visit.
    first_visit
        ``known``: all copies are fresh at the start, after a first crawl that is not counted.
        ``counted``: there is nothing at the start, and each source is visited once at first.
    queue
        Which rule's source is visited when they ask for more or fewer visits than the budget has:
        the one ``due`` first, or the one of whose wait the largest ``share`` has passed.
    as_asked
        Rules spend what they ask, not the budget.
    visits_saved
        Replay uniform visiting with other budgets, too, to tell what visits each policy saves.
    jobs
        Policies run at the same time; all cores unless told. The answer is the same.
    progress
        Called with 1 after each replay.

    >>> from observant.processes import Poisson
    >>> from observant.simulation.traces import Trace
    >>> trace = Trace.sample(Poisson(1.0), rates=[0.02] * 50 + [0.2] * 50, horizon=365, seed=1)
    >>> print(simulate(trace, ["square_root"], budget=10.0))  # 0.1 a source and day
    policy       staleness  freshness  detected  delay/d  precision  gap closed
    uniform          1.000     0.6715    0.4703     4.96     0.5162       0.000
    square_root      0.969     0.6818    0.5607     4.11     0.6153       0.497
    clairvoyant      0.937     0.6921    0.5544     3.99     0.6085       1.000
    """
    if not hasattr(trace, "updates"):
        raise InputError(f"give a trace (`read_trace` reads one), not {type(trace).__name__}")
    budget = parse_budget(budget, len(trace)) if isinstance(budget, str) else budget
    allowed, late = float(in_days(grace)), float(in_days(latency))
    if isinstance(policies, str) or not isinstance(policies, Iterable):
        raise InputError(f"give a list of policies, not {policies!r}")
    if not isinstance(seeds, Iterable):
        raise InputError(f"seeds are a list of numbers, like [1, 2, 3], not {seeds!r}")
    seeds = tuple(seeds)
    if objective not in METRICS:
        raise InputError(f"the objectives are {', '.join(METRICS)}, not {objective!r}")
    if not seeds:
        raise InputError("give one seed or more")
    if not 0.0 <= failure < 1.0:
        raise InputError(f"the share of visits that fail lies between 0 and 1, not {failure!r}")
    if not 0.0 <= late < math.inf:
        raise InputError(f"the latency must be a finite number of days, not {latency!r}")
    worlds = [
        world_of(
            trace,
            budget=budget,
            objective=objective,
            grace=allowed,
            evidence=evidence,
            dated_share=dated_share,
            start=start,
            end=end,
            seed=seed,
            failure=failure,
            first_visit=first_visit,
            queue=queue,
            signals=signals,
        )
        for seed in seeds
    ]
    begin = _score_from(score_from, worlds[0])
    wanted = _with_yardsticks(policies)
    # β for which currency is asked, with that of the objective.
    betas = tuple(
        dict.fromkeys(
            [*map(float, in_days(list(graces))), *([allowed] if objective == "currency" else [])]
        )
    )

    def run(policy: Any) -> list[Score]:
        scores = []
        for world in worlds:
            visits = replay(policy, world, as_asked=as_asked)
            scores.append(account(visits, world, score_from=begin, graces=betas, latency=late))
            if progress is not None:
                progress(1)
        return scores

    count = max(1, min(jobs or os.cpu_count() or 1, len(wanted)))
    with ThreadPoolExecutor(count) as pool:
        scores = dict(zip(wanted, pool.map(run, wanted.values()), strict=True))
    metric = METRICS[objective]
    curve = None
    if visits_saved:
        uniform = wanted["uniform"]
        curve = [
            [
                account(replay(uniform, other), other, score_from=begin, graces=betas, latency=late)
                for other in (replace(world, budget=times * world.budget) for times in _BUDGETS)
            ]
            for world in worlds
        ]
    results = results_of(scores, metric, allowed, curve)
    doubts = _doubts(worlds[0], results)
    asked = ("rules spent what they asked for, so their gap closed is not given",) * as_asked
    return PolicyComparison(
        results=results,
        objective=objective,
        metric=metric,
        budget=budget,
        evidence=evidence,
        start=worlds[0].start,
        score_from=begin,
        end=worlds[0].end,
        sources=len(trace),
        seeds=tuple(seeds),
        notes=(*doubts, *asked),
        groups=trace.groups or (),
        doubts=doubts,
    )


def world_of(
    trace: Trace,
    *,
    budget: float,
    objective: str = "freshness",
    grace: float = 0.0,
    evidence: str = "existence",
    dated_share: float = 0.5,
    start: float | None = None,
    end: float | None = None,
    seed: int = 0,
    failure: float = 0.0,
    first_visit: str = "known",
    queue: str = "due",
    signals: Any = None,
) -> World:
    """The world of a replay; options as in `simulate`."""
    if not len(trace):
        raise InputError("the trace has no sources")
    if not 0.0 < budget < math.inf:
        raise InputError(f"the budget must be a finite number of visits a day above 0: {budget!r}")
    if evidence not in EVIDENCE_KINDS:
        raise InputError(f"the evidence is one of {', '.join(EVIDENCE_KINDS)}, not {evidence!r}")
    if first_visit not in FIRST_VISITS:
        raise InputError(f"the first visit is known or counted, not {first_visit!r}")
    if queue not in QUEUES:
        raise InputError(f"the queue goes by due or share, not {queue!r}")
    if not 0.0 <= dated_share <= 1.0:
        raise InputError(f"the share of dated sources lies between 0 and 1, not {dated_share!r}")
    begin = trace.start if start is None else float(start)
    finish = trace.end if end is None else float(end)
    if not begin < finish:
        raise InputError(
            "the replay must end after it starts; give start and end (the trace has "
            f"{trace.updates.times.size} updates)"
        )
    n = len(trace)
    share = {"existence": 0.0, "dated": 1.0, "mixed": dated_share}[evidence]
    dated = np.random.default_rng([seed, 4]).permutation(n) < round(share * n)
    world = World(
        times=trace.updates.times,
        offsets=trace.updates.offsets,
        group=np.zeros(n, np.int64) if trace.group is None else trace.group,
        importance=np.ones(n) if trace.importance is None else trace.importance,
        cost=trace.cost,
        dated=dated,
        budget=float(budget),
        start=begin,
        end=finish,
        objective=objective,
        grace=grace,
        seed=int(seed),
        failure=failure,
        queue=queue,
        groups=trace.groups or (),
        known=first_visit == "known",
    )
    if signals is not None:
        from observant.simulation.world_signals import signals_from

        world = replace(world, signals=signals_from(signals, trace.sources, world))
    if world.slots < 1:
        raise InputError(
            f"{budget:g} visits a day for {finish - begin:g} days is not even one visit"
        )
    return world


def _score_from(given: float | str | None, world: World) -> float:
    if given is None or given == "start":
        return world.start
    if given == "half":
        return 0.5 * (world.start + world.end)
    try:
        begin = float(given)
    except ValueError:
        raise InputError(f"score from start, half, or a time, not {given!r}") from None
    if not world.start <= begin < world.end:
        raise InputError("scoring must begin between the start and the end of the replay")
    return begin


def _with_yardsticks(policies: Sequence[Any]) -> dict[str, Any]:
    """Policies by name, uniform first and clairvoyant last unless asked for elsewhere."""
    chosen: dict[str, Any] = {}
    for given in policies:
        policy = named(given) if isinstance(given, str) else given
        own = given if isinstance(given, str) else getattr(policy, "name", type(policy).__name__)
        if own in chosen:
            if isinstance(given, str):
                continue
            own = next(f"{own} ({k})" for k in range(2, 10_000) if f"{own} ({k})" not in chosen)
        chosen[own] = policy
    before = {} if "uniform" in chosen else {"uniform": named("uniform")}
    after = {} if "clairvoyant" in chosen else {"clairvoyant": named("clairvoyant")}
    return before | chosen | after


def results_of(
    scores: dict[str, list[Score]],
    metric: str,
    grace: float,
    curve: list[list[Score]] | None = None,
) -> tuple[PolicyResult, ...]:
    """Put the scores of all policies, one a seed, beside those of the yardsticks."""
    summaries = {name: [score.summary() for score in runs] for name, runs in scores.items()}

    def value(summary: dict[str, Any]) -> float:
        return float(summary[metric][grace] if metric == "currency" else summary[metric])

    def judged(name: str) -> Any:
        return np.array([value(s) for s in summaries[name]], float)

    def stale(values: Any) -> Any:
        """What there should be less of: stale copies, missed updates, or days that pass."""
        return values if metric in {"mean_age_days", "mean_delay_days"} else 1.0 - values

    low, high = judged("uniform"), judged("clairvoyant")
    better = stale(high) < stale(low)
    levels = [stale(np.array([value(one.summary()) for one in row])) for row in curve or []]
    results = []
    for name, runs in scores.items():
        with np.errstate(divide="ignore", invalid="ignore"):
            closed = (judged(name) - low) / (high - low)
            ratio = stale(judged(name)) / stale(low)
        closed = np.where(np.isfinite(closed) & better, closed, np.nan)
        own = stale(judged(name))
        saved = [_budget_for(own[seed], level) for seed, level in enumerate(levels)]
        spent = np.array([s["visits"] + s["reads"] for s in summaries[name]])
        even = np.array([s["visits"] for s in summaries["uniform"]])
        # Who spends more or less is not on the same scale.
        closed = np.where(np.abs(spent - even) <= 0.01 * even + len(runs[0].source), closed, np.nan)
        metrics, errors = _means(summaries[name])
        gap, ratio_of, budget = map(_mean_and_error, (closed, ratio, saved or [math.nan]))
        results.append(PolicyResult(name, metrics, errors, *gap, *ratio_of, *budget, tuple(runs)))
    return tuple(results)


def _budget_for(wanted: float, levels: Any) -> float:
    """Times the budget at which uniform visiting has as little stale; between replays, in logs.

    >>> round(_budget_for(0.45, np.array([0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])), 3)
    1.118
    """
    falling = np.minimum.accumulate(levels)
    if not falling[-1] <= wanted <= falling[0]:
        return math.nan
    return float(np.exp(np.interp(-wanted, -falling, np.log(_BUDGETS))))


def _means(summaries: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, float]]:
    metrics: dict[str, Any] = {}
    errors: dict[str, float] = {}
    for key, first in summaries[0].items():
        if key == "currency":
            metrics[key] = {
                grace: _mean_and_error([s[key][grace] for s in summaries])[0] for grace in first
            }
            continue
        mean, error = _mean_and_error([s[key] for s in summaries])
        whole = isinstance(first, int) and len({s[key] for s in summaries}) == 1
        metrics[key] = first if whole else mean
        errors[key] = error
    return metrics, errors


def _mean_and_error(values: Any) -> tuple[float, float]:
    numbers = np.asarray(values, float)
    mean = float(numbers.mean())
    if len(numbers) < 2:
        return mean, math.nan
    return mean, float(numbers.std(ddof=1) / math.sqrt(len(numbers)))


def _doubts(world: World, results: tuple[PolicyResult, ...]) -> tuple[str, ...]:
    """Why the results cannot be trusted."""
    found = []
    updates = min(result.metrics["updates"] for result in results)
    if not world.rates.any():
        found.append("no source was updated between start and end, nothing to tell apart")
    elif all(math.isnan(result.gap_closed) for result in results):
        found.append("who knows every rate (clairvoyant) is no better than uniform visits")
    if world.rates.any() and updates < _FEW_UPDATES:
        found.append(f"only {counted(round(updates), 'update')} in the time that counts")
    return tuple(f"this comparison cannot be trusted: {doubt}" for doubt in found)
