"""What every part of a family promises, checked because the part exists: whatever computes.

Parts are found (see `discovery`), never listed. A part that is found must be registered where users
look for it, and must pass the checks of its family. For each check there is a part that is broken
on purpose, and must not pass. Sources, formats, channels and stores are in test_contracts_live.py.
"""

import inspect
import re
import textwrap
import tomllib
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad

from observant import estimate_rates
from observant.estimation.firth import Totals
from observant.estimation.rates import METHODS
from observant.planning.objectives import (
    OBJECTIVES,
    Custom,
    Objective,
    OwnObjective,
    PosteriorMean,
    RenewalObjective,
)
from observant.planning.objectives.composite import CompositeObjective
from observant.planning.rivals import ALLOCATIONS
from observant.planning.signals import SignalledFreshness
from observant.processes import NON_STATIONARY, STATIONARY, Exponential, Process, examples
from observant.simulation import Estimating, named, names, replay, world_of
from observant.simulation.policies import ESTIMATORS
from observant.simulation.traces import Trace

from .discovery import able_to, classes, concrete, functions

ROOT = Path(__file__).resolve().parents[1]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text("utf-8")


# -- finding --------------------------------------------------------------------------------------


def test_what_is_added_is_found(tmp_path, monkeypatch):
    """A file in a folder is enough: nobody imports it, and nobody lists it."""
    (tmp_path / "newcomers" / "inner").mkdir(parents=True)
    for package in ("newcomers", "newcomers/inner"):
        (tmp_path / package / "__init__.py").touch()
    (tmp_path / "newcomers" / "inner" / "late.py").write_text(
        textwrap.dedent("""
        from observant.processes import Poisson, Process
        class Late(Poisson): pass
        class Sender:
            def send(self): pass
        class _Hidden(Poisson): pass
        def allocation(rates, importance=1.0, budget=1.0): pass
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert [cls.__name__ for cls in concrete(Process, "newcomers")] == ["Late"]
    assert [cls.__name__ for cls in able_to("newcomers", "send")] == ["Sender"]
    assert {cls.__name__ for cls in classes("newcomers")} == {"Late", "Sender"}
    assert [found.__name__ for found in functions("newcomers")] == ["allocation"]


def test_the_page_lists_the_layers_of_the_contract():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (contract,) = project["tool"]["importlinter"]["contracts"]
    layers = [row.split(" | ") for row in contract["layers"]]
    section = ARCHITECTURE.partition("\n## Layers\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
    assert [re.findall(r"`(\w+)`", row) for row in rows] == layers
    picture = (ROOT / "docs" / "images" / "architecture.svg").read_text("utf-8")
    for name in (name for row in layers for name in row):
        assert f">{name}</text>" in picture


# -- estimators -----------------------------------------------------------------------------------


def check_estimator(method, log):
    """One rate a source, in the unit of the log, whatever stands beside the source."""
    table = estimate_rates(log, method)
    assert len(table) == len(log.sources)
    compared = table.evidence_code != 3
    rate, low, high = table.rate_per_day, table.rate_low, table.rate_high
    undated = "last-modified" in table.method  # it says nothing of changes without a date
    assert undated or not np.isnan(rate[compared]).any()
    assert not (rate[compared] < 0).any()
    assert (low[compared] <= high[compared]).all()
    # A clock that goes half as fast sees all rates halved.
    # Pooled: if rates last for ever, since forgetting has its days; and to what 23 points hold.
    pooled = table.method.startswith("pooled")
    fast, slow = (estimate_rates(log, method, drift=np.inf) for log in (log, stretched(log, 2)))
    rel = 3e-3 if pooled else 1e-6
    assert slow.rate_per_day == pytest.approx(fast.rate_per_day / 2, rel=rel, nan_ok=True)
    if not pooled:
        some = np.zeros(len(log.sources), bool)
        some[::7] = True
        alone = estimate_rates(log.select(some), method)
        assert alone.rate_per_day == pytest.approx(rate[some], rel=1e-9, nan_ok=True)


def stretched(log, factor):
    import pyarrow as pa

    from observant import VisitLog

    table = log.to_arrow()
    for name in ("time", "last_modified"):
        if name in table.column_names:
            values = table[name]
            longer = pa.compute.multiply(values.cast(pa.int64()), factor).cast(values.type)
            table = table.set_column(table.column_names.index(name), name, longer)
    return VisitLog.from_arrow(table)


@pytest.fixture(scope="module")
def small():
    from observant.testing import synthetic_visits

    return synthetic_visits(60, visits=12, failing=0, seed=5)[0]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_estimator(method, small):
    check_estimator(method, small)


@pytest.mark.slow
def test_broken_estimators_are_found_out(small):
    def counts(evidence):  # per visit, not per day
        return Totals.of(evidence).changes

    def relative(evidence):  # to its neighbours
        totals = Totals.of(evidence)
        return totals.changes / totals.time / max(totals.changes.mean(), 1)

    check_estimator(
        lambda evidence: Totals.of(evidence).changes / Totals.of(evidence).time,
        small,
    )
    for broken in (counts, relative):
        with pytest.raises(AssertionError):
            check_estimator(broken, small)


def test_the_command_line_offers_every_estimator():
    from observant.cli.estimate import estimate

    (option,) = [one for one in estimate.params if one.name == "method"]
    assert set(option.type.choices) == set(METHODS)
    assert set(METHODS) >= set(ESTIMATORS)  # and policies use no others


# -- processes ------------------------------------------------------------------------------------


def check_process(process):
    """F and G are distributions that belong together, and samples are those of the model."""
    x = np.linspace(0.0, 5 * process.mean, 41)
    for cdf, sf in ((process.interval_cdf, process.interval_sf), (process.age_cdf, process.age_sf)):
        assert ((cdf(x) >= 0) & (cdf(x) <= 1)).all()
        assert (np.diff(cdf(x)) >= -1e-12).all()
        assert cdf(x) + sf(x) == pytest.approx(1.0)
        assert (cdf(-1.0), cdf(np.inf)) == (0.0, 1.0)
    for until in (0.4 * process.mean, 2.3 * process.mean):  # G(x) = (1/m) ∫ (1 − F)
        grid = np.linspace(0.0, until, 2_001)
        area = np.trapezoid(process.interval_sf(grid), grid) / process.mean
        assert process.age_cdf(until) == pytest.approx(area, abs=2e-3)
    assert process.scaled(3.0).interval_cdf(3.0 * x) == pytest.approx(process.interval_cdf(x))
    sample = process.sample(200 * process.mean, sources=20, seed=1)
    again = process.sample(200 * process.mean, sources=20, seed=1)
    assert np.array_equal(sample.times, again.times)
    assert len(sample.times) == pytest.approx(20 * 200, rel=0.35)  # bursts are far from Poisson


def test_every_process_is_registered():
    found = concrete(Process, "observant.processes")
    assert found == {*STATIONARY.values(), *NON_STATIONARY.values()}
    assert {type(process) for process in examples().values()} == set(STATIONARY.values())


@pytest.mark.parametrize("name", examples())
def test_every_process(name):
    check_process(examples()[name])


def test_broken_processes_are_found_out():
    class Waiting(Exponential):  # G is not that of F
        def _age_sf(self, x):
            return np.exp(-2 * self.rate * x)

        def _age_cdf(self, x):
            return 1 - self._age_sf(x)

    class Restless(Exponential):  # another sample every time
        def sample(self, horizon, sources=1, **_options):
            return super().sample(horizon, sources)

    check_process(Exponential(1.0))
    for broken in (Waiting(1.0), Restless(1.0)):
        with pytest.raises(AssertionError):
            check_process(broken)


# -- objectives -----------------------------------------------------------------------------------

RATES = np.array([0.05, 0.4, 3.0])


def specimen(kind):
    """An objective of three sources."""
    if kind is Custom:
        return Custom(lambda s, rate: -np.expm1(-rate * s), RATES)
    if kind is OwnObjective:
        return OwnObjective(lambda x: x**3 / (27 + x**3), RATES)
    if kind is RenewalObjective:
        return RenewalObjective(Exponential(0.4), count=len(RATES))
    if kind is PosteriorMean:
        return PosteriorMean("freshness", RATES, np.eye(3) * 0.7 + 0.1)
    if kind is CompositeObjective:
        clock = RenewalObjective(Exponential(0.4), count=1)
        return CompositeObjective([([0, 2], OBJECTIVES["freshness"](RATES[[0, 2]])), ([1], clock)])
    if kind is SignalledFreshness:
        return SignalledFreshness(RATES, 0.6, 0.05)
    return kind(RATES)


def check_objective(known):
    """W(s) = s·c(s) − ∫ c, c never falls, and a period is where W reaches the price."""
    assert len(known) == len(RATES)
    for s in (0.3, 2.0, 25.0):
        for i in range(len(known)):
            one = known.select(slice(i, i + 1))
            assert len(one) == 1
            area, _ = quad(lambda t, one=one: float(one.penalty(t)[0]), 0, s, limit=200)
            cost = float(one.penalty(s)[0])
            assert one.mean_penalty(s)[0] == pytest.approx(area / s, rel=1e-5, abs=1e-9)
            assert one.index(s)[0] == pytest.approx(s * cost - area, rel=1e-4, abs=1e-8)
            assert known.penalty(s)[i] == pytest.approx(cost)
    times = np.geomspace(1e-3, 1e3, 60)
    penalties = np.array([known.penalty(t) for t in times])
    assert (penalties >= 0).all()
    assert (np.diff(penalties, axis=0) >= -1e-9 * penalties[1:]).all()
    price = known.index(2.0)
    assert known.index(known.period_at(price)) == pytest.approx(price, rel=1e-6)


def test_every_objective_with_a_name_is_registered():
    found = concrete(Objective, "observant.planning")
    by_rates = {
        kind
        for kind in found
        if next(iter(inspect.signature(kind).parameters)) == "rates" and kind is not PosteriorMean
    }
    assert {kind.name: kind for kind in by_rates} == dict(OBJECTIVES)


def test_the_scheduler_knows_every_objective():
    from observant.planning.schedule.crossing import CODES, value
    from observant.planning.schedule.index_tables import _POWERS

    assert set(CODES) == set(_POWERS) == set(OBJECTIVES)
    for name, kind in OBJECTIVES.items():
        for s in (0.3, 2.0, 25.0):
            compiled = [value(CODES[name], rate, 0.0, s)[0] for rate in RATES]
            assert compiled == pytest.approx(kind(RATES).index(s), rel=1e-6)


@pytest.mark.parametrize(
    "kind", sorted(concrete(Objective, "observant.planning"), key=lambda kind: kind.__name__)
)
def test_every_objective(kind):
    check_objective(specimen(kind))


def test_broken_objectives_are_found_out():
    class Forgiving(OBJECTIVES["freshness"]):  # the mean is not that of the penalty
        def mean_penalty(self, period):
            return super().mean_penalty(period) / 2

    class Reversed(OBJECTIVES["delay"]):  # the index does not follow from it
        def index(self, s):
            return 2 * super().index(s)

    for broken in (Forgiving, Reversed):
        with pytest.raises(AssertionError):
            check_objective(specimen(broken))


# -- policies -------------------------------------------------------------------------------------

PLACES = "observant.planning.rivals", "observant.planning.policy", "observant.simulation"


def check_policy(policy, world):
    """The whole budget and not a visit more, one at a time, and the same for the same seed."""
    paid = replay(policy, world)
    assert len(paid) == world.slots
    assert np.sort(paid.time) == pytest.approx(world.slot_time(np.arange(world.slots)))
    for first, last in zip(paid.offsets[:-1], paid.offsets[1:], strict=True):
        assert (np.diff(paid.time[first:last]) > 0).all()
    again = replay(policy, world)
    assert np.array_equal(paid.offsets, again.offsets)
    assert np.array_equal(paid.time, again.time)
    assert isinstance(policy.name, str)


@pytest.fixture(scope="module")
def world():
    trace = Trace.sample(Exponential(1.0), np.geomspace(0.02, 1.0, 15), horizon=20.0, seed=3)
    return world_of(trace, budget=4.0, seed=2, failure=0.05)


def test_every_policy_has_a_name():
    """A class that needs no more to be made can be asked for by name."""
    found = set()
    for package in PLACES:
        for methods in (["replay"], ["periods"], ["start", "next_period"]):
            found |= {kind for kind in able_to(package, *methods) if makeable(kind)}
    assert len(found) >= 10
    assert found <= {type(named(name)) for name in names()}


def makeable(kind):
    needed = [
        parameter
        for parameter in inspect.signature(kind).parameters.values()
        if parameter.default is parameter.empty
    ]
    return not needed


def different_policies():
    """Every name, but of those that join an estimator and an allocation, each of both once."""
    seen = set()
    for name in names():
        policy = named(name)
        parts = {policy.estimator, policy.allocation} if isinstance(policy, Estimating) else {name}
        if parts - seen:
            seen |= parts
            yield name


@pytest.mark.slow
@pytest.mark.parametrize("name", list(different_policies()))
def test_every_policy(name, world):
    check_policy(named(name), world)


def test_broken_policies_are_found_out(world):
    class Lazy:
        name = "lazy"

        def replay(self, world):
            slots = np.arange(world.slots // 2)
            return slots % world.sources, world.slot_time(slots)

    class Fickle:
        name = "fickle"

        def __init__(self):
            self.chance = np.random.default_rng()

        def periods(self, world):
            return self.chance.uniform(1, 9, world.sources)

    class Hurried:
        name = "hurried"

        def replay(self, world):
            time = np.full(world.slots, world.start)
            return np.zeros(world.slots, int), time

    for broken in (Lazy(), Fickle(), Hurried()):
        with pytest.raises(AssertionError):
            check_policy(broken, world)


ALLOCATING = sorted(
    {
        found
        for found in functions("observant.planning.rivals.allocations")
        if list(inspect.signature(found).parameters)[:3] == ["rates", "importance", "budget"]
        and all(
            p.default is not p.empty for p in list(inspect.signature(found).parameters.values())[1:]
        )
    }
    | {known for known in ALLOCATIONS.values() if not isinstance(known, partial)},
    key=lambda found: found.__name__,
)


@pytest.mark.parametrize("allocation", [*ALLOCATING, *ALLOCATIONS.values()])
def test_every_allocation(allocation):
    rates, importance = np.array([0.1, 0.5, 4.0]), np.array([1.0, 3.0, 0.5])
    visits = allocation(rates, importance, 2.5)
    assert visits.shape == rates.shape
    assert (visits >= 0).all()
    assert visits.sum() == pytest.approx(2.5)
