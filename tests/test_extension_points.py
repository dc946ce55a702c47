"""What people add without touching the package: estimators, kinds of sources, and their place in
the comparisons. (Policies of one's own: see test_simulation.py.)
"""

import asyncio
import importlib
import math
from itertools import pairwise

import numpy as np
import pytest

import observant.observer
from observant import VisitLog, estimate_rates, simulate
from observant.errors import InputError
from observant.estimation.firth import Totals, bias_reduced_rates
from observant.estimation.rates import METHODS
from observant.observer import Config, Observer, ReadSource, add_kind, add_sources, describe
from observant.observer.clock import SteadyClock
from observant.observer.sources import KINDS, kinds
from observant.processes import Constant, Poisson
from observant.simulation import Estimating, compare_estimators, observe
from observant.simulation.traces import Trace
from observant.store import Signal, open_store
from observant.testing import synthetic_visits

# -- estimators -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def log():
    return synthetic_visits(sources=60, seed=5)[0]


def by_counting(evidence):
    totals = Totals.of(evidence)
    with np.errstate(invalid="ignore"):
        return totals.changes / totals.time


def test_an_own_estimator_gives_rates_and_the_interval_of_the_evidence(log):
    mine, naive = estimate_rates(log, by_counting), estimate_rates(log, "naive")
    np.testing.assert_array_equal(mine.rate_per_day, naive.rate_per_day)
    np.testing.assert_array_equal(mine.rate_low, naive.rate_low)
    np.testing.assert_array_equal(mine.rate_high, naive.rate_high)
    assert mine.method == "by_counting"
    assert mine.to_arrow()["method"].unique().to_pylist() == ["by_counting"]


def test_an_own_estimator_may_have_an_interval_and_a_name(log):
    class Fixed:
        name = "fixed"

        def __call__(self, evidence):
            one = np.ones(len(evidence.offsets) - 1)
            return one, 0.5 * one, 2 * one

    table = estimate_rates(log, Fixed())
    assert table.method == "fixed"
    assert set(table.rate_low) == {0.5}
    assert set(table.rate_high) == {2.0}


@pytest.mark.parametrize("name", list(METHODS))
def test_an_own_estimator_is_not_mistaken_for_its_namesake(name):
    log = VisitLog.from_columns(["a"] * 3, [0, 1, 2], [None, True, False], time_unit="d")

    def mine(evidence):
        return np.full(len(evidence.offsets) - 1, 7.0)

    mine.__name__ = name
    assert estimate_rates(log, mine).rate_per_day.tolist() == [7.0]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda n: np.ones(n + 1), "a rate for each of 60 sources"),
        (lambda _: 1.0, "a rate for each"),
        (lambda n: (np.ones(n), np.ones(n)), "a tuple of"),
        (lambda n: -np.ones(n), "below 0"),
    ],
)
def test_an_own_estimator_that_answers_nonsense_is_named(log, answer, message):
    def odd(evidence):
        return answer(len(evidence.offsets) - 1)

    with pytest.raises(InputError, match=f"estimator odd .*{message}"):
        estimate_rates(log, odd)


@pytest.mark.slow
def test_an_own_estimator_plans_like_the_same_one_by_name():
    trace = Trace.sample(Poisson(1.0), [0.02] * 20 + [0.3] * 20, horizon=200, seed=2)
    both = [Estimating("bias-reduced", name="theirs"), Estimating(bias_reduced_rates, name="mine")]
    found = simulate(trace, both, budget=4.0)
    assert found["mine"].metrics == found["theirs"].metrics
    assert found["mine"].metrics != found["uniform"].metrics


# -- and how far they are from the truth ----------------------------------------------------------


def test_observing_sees_what_happened_between_the_visits():
    trace = Trace.from_columns(["a", "a", "b"], [2.0, 2.5, 9.0], start=0.0, end=10.0)
    log = observe(trace, Constant(3.0), dated=True, seed=1)
    assert log.sources.to_pylist() == ["a", "b"]
    for i, updates in enumerate([[2.0, 2.5], [9.0]]):
        rows = slice(*log.offsets[i : i + 2])
        days = log.time[rows] / 86_400e6
        assert days[0] == 0.0
        assert np.diff(days[1:]) == pytest.approx(3.0, abs=1e-9)
        expected = [-1] + [
            int(any(a < update <= b for update in updates)) for a, b in pairwise(days)
        ]
        assert log.changed[rows].tolist() == expected
        seen = [max((u for u in updates if u <= day), default=None) for day in days]
        told = [t / 86_400e6 if t > -1e15 else None for t in log.last_modified[rows].tolist()]
        assert told == pytest.approx(seen)


def test_observing_keeps_groups_and_follows_its_seed():
    trace = Trace.sample(Poisson(1.0), [0.1] * 5, horizon=50, seed=1, groups=2)
    one, again, other = (observe(trace, Poisson(1.0), seed=seed) for seed in (1, 1, 2))
    assert one.groups.to_pylist() == [trace.groups[g] for g in trace.group]
    assert one.time.tolist() == again.time.tolist() != other.time.tolist()
    with pytest.raises(InputError, match="no span"):
        observe(Trace.from_columns(["a"], [1.0]), Poisson(1.0))


def test_the_comparison_agrees_with_theory():
    """Cho 4.1: visited every I days, X/T is (1 − e⁻ʳ)/I on average, r = λI."""
    rate, period, sources, days = 0.2, 7.0, 400, 350.0
    trace = Trace.sample(Poisson(1.0), [rate] * sources, horizon=days, seed=3)
    log = observe(trace, Constant(period), seed=3)
    found = compare_estimators(log, np.full(sources, rate), ["naive", "bias-reduced"])
    seen = -math.expm1(-rate * period)
    # The gap before the first visit of the comb is shorter: one in fifty, hence the wider margin.
    spread = math.sqrt(seen * (1 - seen) / (sources * days / period)) / (rate * period)
    assert found.bias[0] == pytest.approx(seen / (rate * period) - 1, abs=4 * spread + 0.01)
    assert abs(found.bias[1]) < 0.02
    # 400 intervals of 95 %: a standard deviation of 1.1 points.
    assert found.covered == pytest.approx([0.95, 0.95], abs=0.035)
    assert found.factor[1] < 1.15 < found.factor[0]
    assert found.no_rate.tolist() == [0.0, 0.0]


def test_the_comparison_says_what_the_columns_promise():
    log = VisitLog.from_columns(
        ["a", "b", "c", "d"] * 2, [0] * 4 + [1] * 4, [None] * 4 + [True] * 4, time_unit="d"
    )

    def mine(_evidence):
        return np.array([2.0, 0.0, np.inf, 5.0]), np.zeros(4), np.array([3.0, 0.5, np.inf, 1.0])

    found = compare_estimators(log, [1.0, 1.0, 1.0, 0.0], [mine])
    assert found.sources == 3  # the one that never changes is left out
    assert found.bias == pytest.approx([0.0])  # 2 + 0 over 1 + 1, the infinite one left out
    assert found.factor.tolist() == [np.inf]  # the middle one of 2, ∞, ∞
    assert found.covered == pytest.approx([2 / 3])
    assert found.no_rate == pytest.approx([2 / 3])
    assert "mine" in str(found)
    assert next(iter(found.rows()))["method"] == "mine"


def test_the_truth_may_be_a_trace():
    trace = Trace.sample(Poisson(1.0), [0.1, 0.5], horizon=400, seed=1)
    log = observe(trace, Poisson(1.0), seed=1)
    given = compare_estimators(log, trace.updates.counts / 400, ["mle"])
    assert compare_estimators(log, trace, ["mle"]).bias == pytest.approx(given.bias)
    with pytest.raises(InputError, match="not of the same sources"):
        compare_estimators(log, trace.select([0]))
    with pytest.raises(InputError, match="one true rate for each of the 2"):
        compare_estimators(log, [1.0])
    with pytest.raises(InputError, match="finite number, 0 or more"):
        compare_estimators(log, [1.0, -1.0])
    with pytest.raises(InputError, match="one estimator or more"):
        compare_estimators(log, trace, [])


# -- kinds of sources -----------------------------------------------------------------------------


@pytest.fixture
def watch(tmp_path, monkeypatch):
    """A source of a kind of its own, whose values are given one by one; the visits to it."""
    monkeypatch.setattr("observant.observer.sources._ADDED", {})
    kinds.cache_clear()

    def visits(values, settings=None, kind=None):
        left = iter(values)

        class Listed(ReadSource):
            def read(self, _previous):
                value = next(left)
                if isinstance(value, Exception):
                    raise value
                return value

        add_kind("listed", kind or Listed)
        with open_store(tmp_path / "o.db") as store:
            add_sources(store, Config(), [describe("x", kind="listed", settings=settings)])
            return [asyncio.run(Observer(store, Config()).check("x")) for _ in values]

    yield visits
    kinds.cache_clear()


def test_a_kind_of_ones_own_is_visited(watch):
    found = watch([{"price": 1}, {"price": 1}, {"price": 2}, OSError("no route"), None])
    assert [visit.outcome for visit in found] == ["first", "same", "changed", "failed", "gone"]
    assert found[2].comparison.reason == "the text changed by 100 %"
    assert "no route" in found[3].comparison.reason


def test_read_may_be_asynchronous(watch):
    class Later(ReadSource):
        async def read(self, previous):
            await asyncio.sleep(0)
            return previous.text if previous else self.url

    assert [visit.outcome for visit in watch([1, 2], kind=Later)] == ["first", "same"]


def test_a_value_is_never_taken_for_noise_but_text_is(watch):
    """A number that differs on each visit is a counter on a page, and content in a row."""
    assert {v.outcome for v in watch([{"price": n} for n in range(12)])} == {"first", "changed"}


@pytest.mark.slow
def test_noise_in_text_and_noise_that_is_asked_for_are_learned(watch, tmp_path):
    lines = "\n".join(f"This is line {word} of a text that stays." for word in "abcdefgh")
    text = [f"{lines}\nServed at 12:0{n}:00" for n in range(6)]
    assert watch(text)[-1].outcome == "same"
    (tmp_path / "o.db").unlink()
    settings = {"compare": {"learn_noise": True}}
    assert watch([{"price": n} for n in range(12)], settings)[-1].outcome == "same"


@pytest.mark.usefixtures("watch")
def test_kinds_that_are_built_in_stay():
    for kind in KINDS:
        with pytest.raises(InputError, match="built in"):
            add_kind(kind, ReadSource)
    assert "listed" not in kinds()
    with pytest.raises(InputError, match="no kind of source 'listed'"):
        describe("x", kind="listed")
    with pytest.raises(NotImplementedError):
        ReadSource("x", "x", None, None, None).read(None)


def test_the_host_of_a_source_can_be_told():
    assert describe("x", kind="callable").host == "callable"
    assert describe("x", kind="callable", host="replica-2").host == "replica-2"


# -- signals --------------------------------------------------------------------------------------


def test_a_signal_of_ones_own_is_heard_and_judged_by_what_visits_find():
    """Its kind is a word that nobody has registered. Row 1 is signalled when it has changed, and
    row 2 when it has not.
    """
    names, text, now = ["row 1", "row 2"], {"row 1": 0, "row 2": 0}, [1.7e9]

    async def main():
        with open_store(":memory:", clock=lambda: now[0]) as store:
            plain = {"compare": {"learn_noise": False}}
            rows = [describe(n, kind="callable", host=n, settings=plain) for n in names]
            add_sources(store, Config(), rows)
            read = {n: lambda _previous, n=n: f"version {text[n]}" for n in names}
            clock = SteadyClock(wall=lambda: now[0], ticks=lambda: now[0])
            observer = Observer(store, Config(), functions=read, clock=clock)
            await observer._begin()
            for _ in range(20):
                await observer._hold_shards()
                for name in names:
                    await observer.visit_now(name)
                now[0] += 43_200
                text["row 1"] += 1
                said = [Signal(source=name, kind="our-own-log") for name in names]
                assert store.signals.add(said) == 2
                await observer.listener.hear()
                now[0] += 43_200
            found = observer.schedule.signals.reliability()
            await observer._finish()
            return found

    true, false = asyncio.run(main())
    assert {true.kind, false.kind} == {"our-own-log"}
    assert (true.group, false.group) == ("row 1", "row 2")
    assert true.precision > 0.5
    assert false.precision < 0.25


# -- the names to import --------------------------------------------------------------------------


def test_the_observers_names_exist_where_they_say():
    package = observant.observer
    assert set(package.__all__) == set(package._HOMES)
    for name, home in package._HOMES.items():
        assert getattr(package, name) is getattr(importlib.import_module(home), name)
        assert name in dir(package)
    with pytest.raises(AttributeError, match="no attribute 'nobody'"):
        package.nobody  # noqa: B018
