"""Replay and accounting: against theory, by hand, and against a slow reference."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observant.errors import InputError
from observant.planning import plan
from observant.planning.rivals import CHANGED, FAILED, RULES, SAME, UNKNOWN, FixedPeriods
from observant.planning.rivals.rule import RuleState
from observant.processes import Poisson, Updates
from observant.simulation import (
    Estimating,
    World,
    WorldVisits,
    account,
    named,
    names,
    replay,
    simulate,
    world_of,
)
from observant.simulation.traces import Trace


def world(*lists, start=0.0, end=10.0, **given):
    updates = Updates.from_lists(lists)
    n = len(lists)
    options = {
        "group": np.zeros(n, np.int64),
        "importance": np.ones(n),
        "dated": np.zeros(n, bool),
        "budget": 1.0,
    } | given
    return World(times=updates.times, offsets=updates.offsets, start=start, end=end, **options)


def visits(*lists, failed=None):
    offsets = np.cumsum([0, *(len(times) for times in lists)])
    return WorldVisits(offsets, np.array([t for times in lists for t in times], float), failed)


def poisson(rates, horizon=400.0, seed=3):
    return Trace.sample(Poisson(1.0), rates, horizon=horizon, seed=seed)


# -- the slow reference ---------------------------------------------------------------------------


def reference(updates, seen, ok, start, score_from, end, latency, known, grace):
    """One source, from the definitions: the state at the middle of every stretch of time."""
    marks = {start, end, score_from, *updates, *(u + grace for u in updates)}
    marks |= {v + latency for v in seen}
    marks = sorted(m for m in marks if score_from <= m <= end)
    good = [v for v, fine in zip(seen, ok, strict=True) if fine]
    fresh = current = age = 0.0
    for a, b in pairwise(marks):
        middle = (a + b) / 2
        done = [v for v in good if v + latency <= middle]
        content = done[-1] if done else (start if known else None)
        if content is None:
            age += (b - a) * (middle - start)
            continue
        missed = [u for u in updates if content < u <= middle]
        if not missed:
            fresh += b - a
            current += b - a
        else:
            age += (b - a) * (middle - missed[0])
            current += (b - a) * (middle - missed[0] < grace)
    window = [u for u in updates if score_from < u <= end]
    delay, came = 0.0, 0
    for u in window:
        after = [v + latency for v in good if v >= u and v + latency <= end]
        came += bool(after)
        delay += (after[0] if after else end) - u
    found = compared = detected = 0
    previous = start if known else None
    for v in good:
        if previous is not None and v > score_from:
            compared += 1
            found += any(previous < u <= v for u in updates)
            detected += any(previous < u <= v for u in window)
        previous = v
    return {
        "fresh_days": fresh,
        "current_days": current,
        "age_days": age,
        "delay_days": delay,
        "updates": len(window),
        "updates_seen": came,
        "compared": compared,
        "found": found,
        "detected": detected,
        "visits": sum(v > score_from for v in seen),
    }


tenths = st.integers(-20, 120).map(lambda k: k / 10)
inside = st.integers(0, 100).map(lambda k: k / 10)


@pytest.mark.slow
@settings(max_examples=300)
@given(
    updates=st.lists(st.lists(tenths, unique=True, max_size=8), min_size=1, max_size=3),
    paid=st.lists(st.lists(inside, unique=True, max_size=6), min_size=3, max_size=3),
    score_from=st.integers(0, 9),
    latency=st.sampled_from([0.0, 0.05, 1.0]),
    known=st.booleans(),
    grace=st.sampled_from([0.0, 0.25, 3.0]),
    data=st.data(),
)
def test_accounting_is_that_of_the_definitions(
    updates, paid, score_from, latency, known, grace, data
):
    updates = [sorted(u) for u in updates]
    paid = [sorted(v) for v in paid[: len(updates)]]
    count = sum(map(len, paid))
    ok = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    here = world(*updates, known=known)
    score = account(
        visits(*paid, failed=~np.array(ok, bool)),
        here,
        score_from=float(score_from),
        graces=[grace],
        latency=latency,
    )
    at = 0
    for i, (u, v) in enumerate(zip(updates, paid, strict=True)):
        fine = ok[at : at + len(v)]
        at += len(v)
        expected = reference(u, v, fine, 0.0, float(score_from), 10.0, latency, known, grace)
        for name, value in expected.items():
            got = np.ravel(getattr(score, name)[i])[0]
            assert got == pytest.approx(value, abs=1e-9), (name, i)
    assert (score.curve >= 0).all()
    assert score.updates.sum() == 0 or score.summary()["detected_share"] <= 1


@settings(max_examples=100)
@given(
    updates=st.lists(st.lists(tenths, unique=True, max_size=8), min_size=2, max_size=4),
    seed=st.integers(0, 5),
)
def test_learning_curve_adds_up_to_the_whole(updates, seed):
    here = world(*map(sorted, updates), budget=2.3, seed=seed)
    score = account(replay(named("uniform"), here), here)
    fresh, paid, found, happened, detected = score.curve.sum(axis=1)
    assert fresh == pytest.approx(score.fresh_days.sum())
    assert paid == score.visits.sum() == here.slots
    assert found == detected == score.found.sum()
    assert all(not part["detected_share"] > 1 for part in score.learning_curve())
    assert happened == score.updates.sum()


# -- by hand --------------------------------------------------------------------------------------


def test_one_source_by_hand():
    here = world([-3.0, 2.0, 3.0, 9.0])
    score = account(visits([4.0, 6.0]), here, graces=[0.0, 1.5, 100.0])
    summary = score.summary()
    # Fresh until 2, stale until the visit at 4, fresh until 9, stale to the end.
    assert summary["freshness"] == pytest.approx(0.7)
    assert list(summary["currency"].values()) == pytest.approx([0.7, 0.95, 1.0])
    assert summary["mean_age_days"] == pytest.approx((2.0 + 0.5) / 10)
    assert summary["mean_delay_days"] == pytest.approx((2 + 1 + 1) / 3)
    assert (summary["updates"], summary["detected"], summary["premature"]) == (3, 1, 1)
    assert summary["detected_share"] == pytest.approx(1 / 3)
    assert summary["seen_share"] == pytest.approx(2 / 3)
    assert summary["precision"] == 0.5
    assert summary["longest_wait_days"] == 4.0


def test_beta_current_means_that_no_missed_update_is_older_than_beta():
    """Errata B-7: a later update does not forgive an earlier one."""
    here = world([1.0, 1.5, 2.0, 2.5, 3.0])
    score = account(visits([9.0]), here, graces=[1.0])
    assert score.currency[0, 0] == pytest.approx((2.0 + 1.0) / 10)


def test_importance_weighs_every_mean():
    here = world([1.0], [], importance=np.array([3.0, 1.0]))
    summary = account(visits([], []), here).summary()
    assert summary["freshness"] == pytest.approx((3 * 0.1 + 1 * 1.0) / 4)
    assert summary["starved"] == 2


def test_groups_are_told_apart():
    here = world([5.0], [], [5.0], group=np.array([0, 1, 0]))
    groups = account(visits([], [], []), here).by_group()
    assert [(g["group"], g["sources"], g["freshness"]) for g in groups] == [(0, 2, 0.5), (1, 1, 1)]


def test_before_the_first_visit_there_is_no_copy():
    here = world([20.0], known=False)
    summary = account(visits([4.0]), here, graces=[100.0]).summary()
    assert summary["freshness"] == summary["currency"][100.0] == pytest.approx(0.6)
    assert math.isnan(summary["precision"])


# -- against theory -------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [0.2, 1.0, 4.0])
def test_freshness_of_uniform_visits_is_that_of_poisson(x):
    """(1 − e^−x)/x with x = λT. A renewal reward: the standard error is that of the mean over
    sources·periods independent cycles, each with a variance of at most 1/4."""
    sources, period, cycles = 400, 5.0, 40
    trace = poisson(np.full(sources, x / period), horizon=period * (cycles + 1), seed=int(10 * x))
    here = world_of(trace, budget=sources / period, seed=1)
    score = account(replay(named("uniform"), here), here, score_from=period, graces=[0.3 * period])
    error = 0.5 / math.sqrt(sources * cycles)
    expected = -math.expm1(-x) / x
    assert abs(score.summary()["freshness"] - expected) < 4 * error
    from observant.currency import currency

    alpha = float(currency(x / period, period=period, grace=0.3 * period))
    assert abs(score.summary()["currency"][0.3 * period] - alpha) < 4 * error
    # A visit finds a change with probability 1 − e^−x; an update waits T/2 for its visit.
    assert abs(score.summary()["precision"] + math.expm1(-x)) < 4 * error
    updates = x * sources * cycles
    spread = 4 * period * math.sqrt(1 / 12 / updates) + period / cycles / 4
    assert abs(score.summary()["mean_delay_days"] - period / 2) < spread


def test_fixed_periods_keep_their_periods_and_reach_what_the_plan_promises():
    rates = np.repeat([0.02, 0.1, 0.5, 2.0], 150)
    best = plan(rates, budget=120.0)
    trace = poisson(rates, horizon=300.0)
    here = world_of(trace, budget=120.0)
    paid = replay(best, here)
    per_day = np.diff(paid.offsets) / 300
    assert np.abs(per_day - best.visits_per_day).max() <= 2.5 / 300
    # Gaps differ from the period only by the wait for a slot.
    gaps = np.diff(paid.time[paid.offsets[0] : paid.offsets[1]])
    assert np.abs(gaps - best.period_days[0]).max() < 0.15
    cycles = 0.25 / np.maximum(best.visits_per_day * 300, 1)  # variance of each source's mean
    error = math.sqrt(cycles.sum()) / len(rates)
    freshness = account(paid, here).summary()["freshness"]
    # A source is fresh at the start, which favours it until its first visit.
    assert abs(freshness - best.collection_alpha) < 4 * error + 0.003


@pytest.mark.slow
def test_clairvoyant_is_the_best_of_fixed_policies_on_poisson_sources():
    rates = np.geomspace(0.002, 0.5, 600)
    result = simulate(poisson(rates), ["pooled-gamma-plan"], budget=60.0, score_from="half", jobs=1)
    assert result["uniform"].gap_closed == 0
    assert result["clairvoyant"].gap_closed == 1
    assert 0.5 < result["pooled-gamma-plan"].gap_closed < 1


# -- budget, order, determinism -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["uniform", "clairvoyant", "cho-naive", "naive-azar", "square_root", *RULES]
)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("queue", ["due", "share"])
def test_every_policy_spends_the_same(name, known, queue):
    trace = poisson(np.geomspace(0.01, 1.0, 60), horizon=60.0)
    first = "known" if known else "counted"
    here = world_of(trace, budget=7.3, seed=2, first_visit=first, queue=queue)
    paid = replay(named(name), here)
    assert len(paid) == here.slots == 438
    assert np.allclose(np.sort(paid.time), here.slot_time(np.arange(here.slots)))
    inner = np.diff(paid.time)
    inner[paid.offsets[1:-1][(paid.offsets[1:-1] > 0) & (paid.offsets[1:-1] < 438)] - 1] = 1
    assert (inner > 0).all()
    if not known:  # everybody once, at first
        first = np.argsort(paid.time, kind="stable")[:60]
        assert sorted(paid.source[first]) == list(range(60))


@pytest.mark.parametrize("name", ["uniform", "clairvoyant", "mle-plan", "stormcrawler"])
def test_one_seed_is_one_answer(name):
    trace = poisson(np.geomspace(0.01, 1.0, 80), horizon=60.0)
    runs = [
        simulate(
            trace, [name], budget=8.0, seeds=[5], evidence="mixed", failure=0.1, jobs=jobs
        ).rows()
        for jobs in (1, 3)
    ]
    assert repr(runs[0]) == repr(runs[1])
    other = simulate(trace, [name], budget=8.0, seeds=[6], evidence="mixed", failure=0.1)
    assert other[name].metrics["freshness"] != runs[0][1]["freshness"]


def test_standard_errors_are_over_seeds():
    trace = poisson(np.geomspace(0.01, 1.0, 50), horizon=60.0)
    result = simulate(trace, budget=5.0, seeds=[1, 2, 3])
    values = [score.summary()["freshness"] for score in result["uniform"].scores]
    assert result["uniform"].errors["freshness"] == pytest.approx(np.std(values, ddof=1) / 3**0.5)
    assert result["uniform"].metrics["freshness"] == pytest.approx(np.mean(values))


# -- what a policy sees ---------------------------------------------------------------------------


@dataclass
class Spy:
    """Visits all alike and writes down what it was told."""

    name: str = "spy"

    def start(self, sources):
        self.told = []
        return RuleState.fresh(sources, 1.0)

    def next_period(self, state, seen, rng=None):
        del rng
        self.told += list(zip(seen.time, seen.outcome, seen.age, strict=True))
        wait = np.full(len(seen.time), 1.0)
        return wait, state.after(seen, state.period, wait)


def test_existence_only_tells_no_age():
    spy = Spy()
    replay(spy, world([1.2, 1.4, 7.0], budget=0.5))
    assert [(t, o) for t, o, _ in spy.told] == [
        (0.0, UNKNOWN), (1.0, SAME), (3.0, CHANGED), (5.0, SAME), (7.0, CHANGED), (9.0, SAME),
    ]  # fmt: skip
    assert np.isnan([age for *_, age in spy.told]).all()


def test_dated_visits_tell_the_age_also_at_the_first():
    spy = Spy()
    replay(spy, world([-2.0, 1.25, 7.0], budget=0.5, dated=np.ones(1, bool)))
    assert [age for *_, age in spy.told] == [2.0, 3.0, 1.75, 3.75, 0.0, 2.0]


def test_first_visit_counted_compares_with_nothing():
    spy = Spy()
    replay(spy, world([-2.0, 0.5], budget=0.5, known=False))
    assert [o for _, o, _ in spy.told] == [UNKNOWN, SAME, SAME, SAME, SAME]


def test_failed_visits_see_nothing_and_the_gap_runs_on():
    spy = Spy()
    here = world([4.5], end=200.0, failure=0.4, seed=3)
    paid = replay(spy, here)
    outcomes = [o for _, o, _ in spy.told][1:]
    assert outcomes.count(CHANGED) == 1
    assert outcomes.count(FAILED) == paid.failed.sum()
    # 200 visits: the share of failures has a standard error of 0.035.
    assert abs(paid.failed.mean() - 0.4) < 4 * 0.035
    assert account(paid, here).summary()["detected"] == 1


def test_failures_are_the_same_for_every_engine():
    here = world(*[[4.5]] * 3, end=100.0, failure=0.3, seed=3)
    one, two = replay(named("uniform"), here), replay(named("nutch"), here)
    for a, b in zip(one.offsets, two.offsets, strict=True):
        assert (one.failed[a : a + 20] == two.failed[b : b + 20]).all()


def test_mixed_evidence_dates_its_share_of_sources():
    trace = poisson(np.full(100, 0.1), horizon=50.0)
    here = world_of(trace, budget=5.0, evidence="mixed", dated_share=0.3, seed=1)
    assert here.dated.sum() == 30


def test_rules_as_asked_spend_what_they_ask():
    trace = poisson(np.full(40, 0.1), horizon=90.0)
    here = world_of(trace, budget=100.0)
    paid = replay(RULES["nutch"], here, as_asked=True)  # every 30 days
    assert len(paid) == 40 * 3
    result = simulate(trace, ["nutch"], budget=100.0, as_asked=True)
    assert math.isnan(result["nutch"].gap_closed)
    assert result["uniform"].gap_closed == 0


@pytest.mark.parametrize(("queue", "expected"), [("due", 0.409), ("share", 0.2)])
def test_a_queue_stretches_waits_by_a_time_or_by_a_factor(queue, expected):
    """Twenty sources wait 4 days and twenty 1 day; they ask for 25 visits a day and get 5. By share
    the visits are as 1 to 4. By due time the waits become w + 4 and w + 1 with
    20/(w + 4) + 20/(w + 1) = 5, so w = 5.77."""
    here = world(*[[]] * 40, end=400.0, queue=queue, budget=5.0)
    paid = replay(FixedPeriods(np.repeat([4.0, 1.0], 20), jitter=1e-9), here)
    slow = np.diff(paid.offsets)[:20].sum() / len(paid)
    assert slow == pytest.approx(expected, abs=0.01)


@pytest.mark.slow
def test_estimating_policies_know_only_what_they_saw():
    """Two worlds that differ only in the future are visited alike until then."""
    trace = poisson(np.geomspace(0.02, 0.5, 40), horizon=100.0)
    early = world_of(trace, budget=8.0, end=100.0)
    lists = [times[times < 50.0] for times in trace.updates]
    late = replace(
        early, **dict(zip(("times", "offsets"), _flat(Updates.from_lists(lists)), strict=True))
    )
    for name in ("naive-plan", "mle-square-root", "heritrix", "bias-reduced-azar"):
        a, b = replay(named(name), early), replay(named(name), late)
        before_a, before_b = a.time < 50.0, b.time < 50.0
        assert np.array_equal(a.time[before_a], b.time[before_b]), name
        assert np.array_equal(a.source[before_a], b.source[before_b]), name


def _flat(updates):
    return updates.times, updates.offsets


def test_cho_as_published_abandons_what_never_changed():
    lists = [[] for _ in range(20)] + [list(np.arange(0.3, 100, 2.0)) for _ in range(20)]
    here = world(*lists, end=100.0, budget=8.0)
    paid = replay(named("cho-naive"), here)
    assert (np.diff(paid.offsets)[:20] == 5).all()
    kind = replay(named("cho-square-root"), here)
    last = kind.time[kind.offsets[1:21] - 1]
    assert (last > 50).all()  # the first visits, all alike, are over at 10


# -- policies of one's own ------------------------------------------------------------------------


class Mine:
    name = "mine"

    def replay(self, world):
        slots = np.arange(world.slots)

        class Paid:
            source = slots % world.sources
            time = world.slot_time(slots)

        return Paid


def test_objects_with_replay_run_by_themselves():
    trace = poisson(np.full(10, 0.1), horizon=100.0)
    result = simulate(trace, [Mine(), FixedPeriods(np.linspace(1, 2, 10), name="fixed")], budget=1)
    assert [r.policy for r in result.results] == ["uniform", "mine", "fixed", "clairvoyant"]
    assert result["mine"].metrics["visits"] == result["uniform"].metrics["visits"]


def test_names_of_policies():
    assert {"uniform", "clairvoyant", "pooled-plan", "cho-naive", "azar", "nutch"} <= set(names())
    with pytest.raises(InputError, match="did you mean nutch"):
        named("nuthc")
    with pytest.raises(InputError, match="cannot be imported"):
        named("no_such_module:Policy")
    with pytest.raises(InputError, match="has no 'Nobody'"):
        named("observant.planning.rivals:Nobody")
    assert named("observant.planning.rivals:Heritrix").name == "heritrix"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 0}, "budget"),
        ({"budget": 1e-6}, "not even one visit"),
        ({"objective": "fame"}, "objectives"),
        ({"evidence": "hearsay"}, "evidence"),
        ({"start": 50.0, "end": 40.0}, "must end after"),
        ({"score_from": "later"}, "score from"),
        ({"score_from": 1e9}, "between the start and the end"),
        ({"failure": 1.0}, "fail"),
        ({"seeds": []}, "seed"),
        ({"policies": [object()]}, "no policy"),
        ({"policies": [FixedPeriods(np.array([np.inf]))]}, "every period is infinite"),
        ({"policies": [FixedPeriods(np.array([1.0, 2.0, 3.0]))]}, "one period for each"),
        ({"first_visit": "perhaps"}, "known or counted"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    policies = options.pop("policies", [])
    trace = poisson([0.1, 0.2], horizon=100.0)
    with pytest.raises(InputError, match=message):
        simulate(trace, policies, **{"budget": 1.0, **options})


def test_a_world_without_updates_has_no_gap():
    trace = Trace.from_columns(["a", "b"], [np.nan, np.nan], start=0.0, end=10.0)
    result = simulate(trace, budget=1.0)
    assert result["clairvoyant"].metrics["freshness"] == 1
    assert math.isnan(result["clairvoyant"].gap_closed)
    assert "nothing to tell apart" in result.doubts[0]


def test_what_cannot_be_trusted_is_said_before_the_figures():
    some = np.sort(np.random.default_rng(3).uniform(0.0, 10.0, 29))
    result = simulate(Trace.from_columns(["a"] * 29, some, start=0.0, end=10.0), budget=1.0)
    assert [doubt.split(": ")[1] for doubt in result.doubts] == [
        "who knows every rate (clairvoyant) is no better than uniform visits",  # of one source
        "only 29 updates in the time that counts",
    ]
    assert str(result).startswith("this comparison cannot be trusted: ")
    rng = np.random.default_rng(4)
    times = np.concatenate([np.sort(rng.uniform(0, 50, n)) for n in (400, 4)])
    many = Trace.from_columns(["a"] * 400 + ["b"] * 4, times, start=0.0, end=50.0)
    assert simulate(many, budget=8.0).doubts == ()


def test_visits_of_nobody_are_refused():
    with pytest.raises(InputError, match="numbers from 0"):
        WorldVisits.from_flat([3], [1.0], sources=2)
    with pytest.raises(InputError, match="finite"):
        WorldVisits.from_flat([0], [np.nan], sources=2)


def test_estimating_names_its_parts():
    assert named("mle-lambda-crawl") == Estimating("mle", "lambda_crawl", name="mle-lambda-crawl")
