"""Rates that drift, from visits."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from observant import VisitLog, plan
from observant.currency import RateMixture
from observant.errors import EstimationError, InputError
from observant.estimation.drift import METHODS, estimate_drift, prequential
from observant.estimation.drift.experts import Experts, restart_prior
from observant.estimation.evidence import Evidence
from observant.estimation.pooling import estimate_pooled
from observant.estimation.priors import Prior, fit_mixture, grid_likelihood, rate_grid
from observant.testing import synthetic_visits

GRID = np.array([0.1, 0.4, 1.0, 3.0])
PRIOR = Prior(rates=GRID, weights=np.array([0.4, 0.3, 0.2, 0.1]))
NO, SEEN, DATED = (False, np.nan), (True, np.nan), (True, 0.3)


def evidence_of(gaps, outcomes):
    changed, ages = zip(*outcomes, strict=True)
    return Evidence.from_gaps(gaps, changed, ages)


def likelihood(gap, outcome):
    changed, age = outcome
    if not changed:
        return np.exp(-GRID * gap)
    return 1 - np.exp(-GRID * gap) if np.isnan(age) else GRID * np.exp(-GRID * age)


def by_enumeration(gaps, outcomes, hazard):
    """All ways to cut the history into runs, each with its probability: exact."""
    fresh = restart_prior(PRIOR.weights[None], GRID)[0]
    n = len(gaps)
    total, now, begins = 0.0, np.zeros(len(GRID)), np.zeros(n)
    for cuts in product([0, 1], repeat=n - 1):
        chance = np.prod([hazard if cut else 1 - hazard for cut in cuts])
        run = PRIOR.weights
        for j in range(n):
            if j and cuts[j - 1]:
                chance, run = chance * run.sum(), fresh
            run = run * likelihood(gaps[j], outcomes[j])
        chance *= run.sum()
        total += chance
        now += chance * run / run.sum()
        begins[1:] += chance * np.array(cuts)
    return np.log(total), now / total, begins / total


def jumps(sources, factor=10.0, spread=1.0, seed=0, *, regular=False):
    """Gaps, outcomes and true rates of sources whose rate jumps after 60 of 120 visits."""
    rng = np.random.default_rng(seed)
    before = 0.5 * np.exp(rng.normal(0.0, spread, (sources, 1)))
    after = before * np.where(rng.random((sources, 1)) < 0.5, factor, 1 / factor)
    rates = np.repeat(np.hstack([before, after]), 60, axis=1)
    gaps = np.ones(rates.shape) if regular else rng.exponential(1.0, rates.shape) + 1e-3
    return gaps, rng.random(rates.shape) < -np.expm1(-rates * gaps), rates


HISTORY = ([1.0, 0.5, 2.0, 1.5, 0.7, 3.0, 1.0], [SEEN, NO, SEEN, NO, DATED, NO, SEEN])


def test_change_points_agree_with_enumeration():
    gaps, outcomes = HISTORY
    experts = Experts.of(PRIOR, "changepoints", hazards=0.2)
    found = experts.follow(evidence_of(gaps, outcomes), boundaries=True)
    score, now, begins = by_enumeration(gaps, outcomes, 0.2)
    assert found.score[0, 1] == pytest.approx(score, rel=1e-9)
    assert found.now[0] == pytest.approx(now, abs=1e-6)  # held as 32-bit numbers
    assert found.boundary == pytest.approx(begins, abs=1e-5)


def test_what_is_known_after_the_last_visit_may_change_again():
    gaps, outcomes = HISTORY
    experts = Experts.of(PRIOR, "changepoints", hazards=0.2)
    found = experts.follow(evidence_of(gaps, outcomes))
    fresh = restart_prior(PRIOR.weights[None], GRID)[0]
    assert found.after[0] == pytest.approx(0.8 * found.now[0] + 0.2 * fresh, abs=1e-6)


def test_forgetting_is_its_formula():
    gaps, outcomes = HISTORY
    fresh = restart_prior(PRIOR.weights[None], GRID)[0]
    p, score = PRIOR.weights, 0.0
    for j, (gap, outcome) in enumerate(zip(gaps, outcomes, strict=True)):
        if j:
            p = p**0.9 * fresh**0.1
            p = p / p.sum()
        lik = likelihood(gap, outcome)
        score += np.log(p @ lik)
        p = p * lik / (p @ lik)
    found = Experts.of(PRIOR, "forgetting", discounts=0.9).follow(evidence_of(gaps, outcomes))
    assert found.score[0, -1] == pytest.approx(score, rel=1e-9)
    assert found.now[0] == pytest.approx(p, abs=1e-6)


def test_settled_is_what_was_known_before_the_last_change():
    gaps, outcomes = HISTORY
    experts = Experts.of(PRIOR)
    found = experts.follow(evidence_of(gaps, outcomes), each_visit=True)
    assert found.settled[0] == pytest.approx(found.belief[-2], abs=1e-6)
    longer = experts.follow(evidence_of([*gaps, 1.0], [*outcomes, NO]))
    assert longer.settled[0] == pytest.approx(found.belief[-2], abs=1e-6)


def test_predicted_chance_of_a_change_does_not_peek():
    gaps, outcomes = HISTORY
    experts = Experts.of(PRIOR, "constant")
    found = experts.follow(evidence_of(gaps, outcomes), chances=True)
    p, chances = PRIOR.weights, []
    for gap, outcome in zip(gaps, outcomes, strict=True):
        chances.append(p @ (1 - np.exp(-GRID * gap)))
        p = p * likelihood(gap, outcome)
        p = p / p.sum()
    assert found.chance == pytest.approx(chances, rel=1e-9)


def assert_alike(one, other):
    """Where a posterior is narrower than the quarter octaves of `drift`, to a third of a step."""
    off = np.abs(np.log(one / other))
    assert np.median(off) < 0.005
    assert off.max() < 0.06


def test_the_constant_rate_is_the_pooled_posterior():
    log, _ = synthetic_visits(sources=300, seed=2)
    pooled = estimate_pooled(log, drift=np.inf)
    table = estimate_drift(log, "constant")
    assert_alike(table.rate_per_day, pooled.rate_per_day)
    assert set(table.method) == {"constant"}
    assert len(table.change_points) == 0


def test_groups_have_their_own_priors():
    log, _ = synthetic_visits(sources=300, seed=2)
    hosts = [name.split("/")[2] for name in log.sources.to_pylist()]
    owner = np.repeat(np.arange(len(hosts)), log.visits_per_source)
    grouped = VisitLog.from_columns(
        np.array(log.sources.to_pylist())[owner],
        log.time.view("M8[us]"),
        [None if c < 0 else bool(c) for c in log.changed],
        group=np.array(hosts)[owner],
    )
    pooled = estimate_pooled(grouped, drift=np.inf)
    table = estimate_drift(grouped, "constant")
    assert_alike(table.rate_per_day, pooled.rate_per_day)
    apart = np.log(table.rate_per_day / estimate_drift(log, "constant").rate_per_day)
    assert np.abs(apart).max() > 0.1


def test_dropping_unlikely_runs_changes_little():
    gaps, changed, _ = jumps(sources=20, seed=4)
    evidence = Evidence.from_gaps(gaps, changed)
    prior = Prior(rates=2.0 ** np.arange(-7, 8, 0.5), weights=np.full(30, 1 / 30))
    few, all_of_them = (
        Experts.of(prior, "changepoints", hazards=1 / 80, keep=keep).follow(evidence).score[:, 1]
        for keep in (60, 200)
    )
    assert few == pytest.approx(all_of_them, rel=2e-3)


@pytest.mark.slow
@given(
    gaps=st.lists(st.floats(0.01, 50.0), min_size=1, max_size=12),
    data=st.data(),
    method=st.sampled_from(["auto", *METHODS]),
)
def test_beliefs_are_probabilities_and_together_is_as_alone(gaps, data, method):
    outcome = st.sampled_from([NO, SEEN, (True, 0.005)])
    first = evidence_of(gaps, [data.draw(outcome) for _ in gaps])
    both = Evidence(
        offsets=np.array([0, len(gaps), len(gaps), 2 * len(gaps)]),
        gaps=np.tile(first.gaps, 2),
        kind=np.tile(first.kind, 2),
        ages=np.tile(first.ages, 2),
    )
    experts = Experts.of(PRIOR, method)
    options = {"each_visit": True, "boundaries": True, "chances": True}
    alone, together = experts.follow(first, **options), experts.follow(both, **options)
    for belief in (together.now, together.after, together.settled, together.belief):
        assert belief.sum(axis=1) == pytest.approx(1.0, abs=1e-5)
        assert (belief >= 0).all()
    assert ((together.chance >= 0) & (together.chance <= 1)).all()
    assert ((together.boundary >= 0) & (together.boundary <= 1 + 1e-5)).all()
    assert np.array_equal(together.now[[0, 2]], np.repeat(alone.now, 2, axis=0))
    assert np.array_equal(together.boundary, np.tile(alone.boundary, 2))
    assert together.now[1] == pytest.approx(PRIOR.weights)  # no visits: the prior


def test_even_the_impossible_is_taken_in():
    """A thousand changes a second apart, then a month without one: e^(-λt) is 0 in any float."""
    gaps = [1e-5] * 1000 + [30.0] * 50
    evidence = Evidence.from_gaps(gaps, [True] * 1000 + [False] * 50)
    prior = Prior(rates=2.0 ** np.arange(-5, 25.0), weights=np.full(30, 1 / 30))
    for method in ("auto", *METHODS):
        found = Experts.of(prior, method).follow(evidence)
        assert np.isfinite(found.now).all()
        used = Experts.of(prior, method).share > 0
        assert np.isfinite(found.score[:, used]).all()
        assert found.now[0] @ np.log2(prior.rates) < 5


# -- jumps ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("regular", [True, False])
def test_a_tenfold_jump_is_followed(regular):
    """At most half the error of the constant rate, 20 to 30 visits after the jump.

    The errors of 300 sources are independent; so three standard errors of their mean are added.
    """
    gaps, changed, rates = jumps(sources=300, regular=regular, seed=11)
    evidence = Evidence.from_gaps(gaps, changed)
    grid = rate_grid(evidence)
    prior = fit_mixture(grid_likelihood(evidence, grid), grid)
    late = {}
    for method in ("auto", *METHODS):
        experts = Experts.of(prior, method)
        experts = experts.learn(experts.follow(evidence).score)
        belief = experts.follow(evidence, each_visit=True).belief
        error = np.abs((belief @ np.log(grid)).reshape(rates.shape) - np.log(rates))
        late[method] = error[:, 80:90].mean(axis=1)
    for method in ("changepoints", "forgetting", "auto"):
        difference = late[method] - 0.5 * late["constant"]
        assert difference.mean() + 3 * difference.std() / np.sqrt(300) < 0
    # The numbers to beat of the frontier: 0.75, and 1.75 without forgetting.
    sampling = 3 * late["auto"].std() / np.sqrt(300)
    assert late["auto"].mean() < 0.75 + sampling


@pytest.mark.slow
def test_no_change_of_a_constant_rate_is_sure():
    """Of 120 single sources some look as if they changed; none does for sure. A real jump does."""
    probabilities = []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        rate = rng.lognormal(np.log(0.3), 1.0)
        changed = rng.random((1, 99)) < -np.expm1(-rate)
        found = estimate_drift(log_of(np.ones((1, 99)), changed)).change_points
        probabilities += found.probability.tolist()
    assert len(probabilities) < 12
    assert max(probabilities, default=0.0) < 0.97
    changed = np.arange(99)[None, :] >= 50  # silent, and then never again
    (jump,) = estimate_drift(log_of(np.ones((1, 99)), changed)).change_points.probability
    assert jump > 0.97


def log_of(gaps, changed):
    n, visits = gaps.shape
    times = 20_000 + np.hstack([np.zeros((n, 1)), np.cumsum(gaps, axis=1)])
    seen = np.hstack([np.full((n, 1), None), changed])
    names = np.repeat(np.char.mod("s%04d", np.arange(n)), visits + 1)
    return VisitLog.from_columns(names, times.ravel(), seen.ravel(), time_unit="d")


@pytest.mark.slow
def test_one_that_jumps_is_found_among_many_that_do_not():
    gaps, changed, rates = jumps(sources=150, factor=1.0, spread=0.3, seed=5)
    rng = np.random.default_rng(6)
    rates[7, 60:] = 10 * rates[7, 0]
    changed[7] = rng.random(120) < -np.expm1(-rates[7] * gaps[7])
    table = estimate_drift(log_of(gaps, changed))
    assert table.shares["constant"] > 0.5
    assert table.method[7] != "constant"
    assert 0.3 < table.rate_per_day[7] / rates[7, -1] < 3
    points = table.change_points.to_arrow().to_pylist()
    mine = [point for point in points if point["source"] == "s0007"]
    assert len(mine) == 1 == table.rate_changes[7]
    jumped = np.datetime64(int((20_000 + gaps[7, :60].sum()) * 86_400e6), "us")
    assert abs(table.last_rate_change[7] - jumped) < np.timedelta64(10, "D")
    assert mine[0]["rate_after"] > 4 * mine[0]["rate_before"]
    # 149 others, none of which jumped.
    assert np.count_nonzero(table.method == "constant") > 0.9 * 149
    assert len(points) <= 4


def test_the_moment_of_a_jump_lies_in_its_interval():
    """90 % intervals of about 140 jumps: 90 % less three standard errors (2.5 % each) at least.

    An interval that is right more often is no fault, but it must not be the whole history.
    """
    gaps, changed, _ = jumps(sources=150, seed=3)
    points = estimate_drift(log_of(gaps, changed), "changepoints", hazards=1 / 80).change_points
    jumped = ((20_000 + gaps[:, :60].sum(axis=1)) * 86_400e6).astype(np.int64).view("M8[us]")
    owner = np.array([int(name[1:]) for name in points.source.to_pylist()])
    near = np.abs(points.time - jumped[owner]) < np.timedelta64(15, "D")
    second = np.timedelta64(1, "s")
    inside = (points.time_low - second <= jumped[owner]) & (
        jumped[owner] <= points.time_high + second
    )
    assert len(set(owner[near])) > 130  # most jumps are found
    assert inside[near].mean() > 0.9 - 3 * np.sqrt(0.9 * 0.1 / near.sum())
    assert np.median(points.time_high - points.time_low) < np.timedelta64(12, "D")


@pytest.mark.slow
def test_the_mixture_is_never_much_worse():
    """For each source by at most −log of the method's share; over all, never below the best."""
    for factor in (1.0, 10.0):
        gaps, changed, _ = jumps(sources=150, factor=factor, seed=8)
        table = estimate_drift(log_of(gaps, changed))
        scores = [table.score_constant, table.score_forgetting, table.score_changepoints]
        for name, score in zip(METHODS, scores, strict=True):
            assert (table.score >= score + np.log(table.shares[name]) - 1e-9).all()
        best = max(score.sum() for score in scores)
        assert table.score.sum() > best - np.log(150) - 2  # the price of one pseudo-source


# -- the answer -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def jumping():
    gaps, changed, _ = jumps(sources=60, seed=9)
    log = log_of(gaps, changed)
    return log, estimate_drift(log)


def test_a_path_ends_where_the_table_stands(jumping):
    log, table = jumping
    path = table.path("s0005")
    assert len(path) == 120
    assert path.rate_per_day[-1] == pytest.approx(table.rate_per_day[5], rel=1e-4)
    assert path.rate_low[-1] == pytest.approx(table.rate_low[5], rel=1e-3)
    assert (path.rate_low <= path.rate_per_day).all()
    assert (path.rate_per_day <= path.rate_high).all()
    assert path.time[-1] == log.time[log.offsets[6] - 1].view("M8[us]")
    assert path.changed.sum() == table.changes[5]


@pytest.mark.slow
def test_a_plan_takes_the_posterior_of_now(jumping):
    _, table = jumping
    posterior = RateMixture(table.posterior.rates, table.posterior.weights())
    planned = plan(table, budget=60)
    assert planned.period_days == pytest.approx(plan(posterior, budget=60).period_days, rel=1e-6)
    by_points = plan(table.rate_per_day, budget=60).period_days
    assert not np.allclose(planned.period_days, by_points, rtol=0.05)


def test_the_posterior_is_that_of_the_columns(jumping):
    _, table = jumping
    weights = table.posterior.weights(10, 20)
    assert weights @ table.posterior.rates == pytest.approx(table.posterior.mean[10:20], rel=1e-6)
    a, b = table.posterior.gamma()
    assert a / b == pytest.approx(table.posterior.mean)
    assert a / b**2 == pytest.approx(table.posterior.variance)


def test_columns_travel(jumping):
    _, table = jumping
    arrow = table.to_arrow()
    assert arrow.column_names == list(table.columns)
    assert arrow["method"].to_pylist() == table.method.tolist()
    assert table.change_points.to_arrow().num_rows == len(table.change_points)
    assert "believed" in str(table)
    assert table.summary()["sources"] == 60


def test_threads_do_not_matter(jumping):
    log, table = jumping
    assert np.array_equal(estimate_drift(log, threads=1).rate_per_day, table.rate_per_day)


def test_time_has_no_unit():
    """Four times slower visits: a quarter of the rates (the grid has four points to a doubling)."""
    gaps, changed, _ = jumps(sources=30, regular=True, seed=1)
    fast, slow = (estimate_drift(log_of(scale * gaps, changed)) for scale in (1.0, 4.0))
    assert slow.rate_per_day * 4 == pytest.approx(fast.rate_per_day, rel=3e-3)
    assert slow.score == pytest.approx(fast.score, rel=1e-3)


def test_failed_and_unknown_visits_are_passed_over():
    log = VisitLog.from_columns(
        ["a"] * 6 + ["b"],
        [0, 1, 2, 3, 4, 5, 0],
        [None, True, None, False, None, True, None],
        status=[200, 200, 200, 200, 500, 200, 200],
        time_unit="d",
    )
    table = estimate_drift(log)
    assert table.visits.tolist() == [5, 1]
    path = table.path("a")
    assert path.time.astype("M8[D]").astype(int).tolist() == [1, 3, 5]
    assert path.gaps.tolist() == [1, 1, 2]
    with pytest.raises(InputError, match="no two visits"):
        table.path("b")


class Constant:
    def __init__(self, speed):
        self.speed = speed

    def exposure(self, start, stop):
        return self.speed * (stop - start)


@pytest.mark.slow
def test_a_season_stretches_time(jumping):
    log, table = jumping
    prior = table.posterior.prior
    same, faster = (
        estimate_drift(log, prior=prior, season=Constant(speed)) for speed in (1.0, 4.0)
    )
    assert same.rate_per_day == pytest.approx(table.rate_per_day, rel=1e-6)
    moved = Prior(rates=prior.rates / 4, weights=prior.weights)
    again = estimate_drift(log, prior=moved, season=Constant(4.0))
    assert again.rate_per_day == pytest.approx(table.rate_per_day / 4, rel=1e-6)
    assert np.median(faster.rate_per_day) < np.median(same.rate_per_day)


def test_seasons_of_groups(jumping):
    log, table = jumping

    class Seasons:
        seasons = (Constant(1.0), Constant(2.0))
        group_code = np.arange(60) % 2

    found = estimate_drift(log, "constant", prior=table.posterior.prior, season=Seasons())
    plain = estimate_drift(log, "constant", prior=table.posterior.prior)
    double = estimate_drift(log, "constant", prior=table.posterior.prior, season=Constant(2.0))
    assert np.array_equal(found.rate_per_day[::2], plain.rate_per_day[::2])
    assert np.array_equal(found.rate_per_day[1::2], double.rate_per_day[1::2])
    with pytest.raises(InputError, match="seasons are those of 60 sources"):
        estimate_drift(log.select(["s0001"]), season=Seasons())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "magic"}, "unknown method 'magic'; choose auto, constant"),
        ({"hazards": 0.0}, "a hazard lies between 0 and 1, not 0"),
        ({"hazards": []}, "a hazard lies between 0 and 1, not none"),
        ({"discounts": [0.9, 1.0]}, "a discount lies between 0 and 1, not 0.9, 1"),
        ({"keep": 1}, "at least 2 runs"),
        ({"confidence": 95}, "confidence lies between 0 and 1, not 95"),
        ({"prior": "flat"}, "the prior is 'pooled', 'broad' or a fitted Prior, not 'flat'"),
        ({"season": 3}, "a int is no season"),
    ],
)
def test_bad_settings_are_told(jumping, options, message):
    with pytest.raises(InputError, match=message):
        estimate_drift(jumping[0], **options)


def test_no_evidence_is_told():
    log = VisitLog.from_columns(["a", "b"], [0, 1], [None, None])
    for prior in ("pooled", "broad"):
        with pytest.raises(EstimationError, match="no source has two visits"):
            estimate_drift(log, prior=prior)


def test_an_unknown_source_is_told(jumping):
    with pytest.raises(InputError, match="no source 'x'"):
        jumping[1].path("x")


def test_a_broad_prior_needs_no_collection():
    gaps, changed, rates = jumps(sources=1, seed=2)
    table = estimate_drift(log_of(gaps, changed), prior="broad")
    assert abs(np.log(table.rate_per_day[0] / rates[0, -1])) < 1.5


def test_what_was_learnt_can_be_taken_elsewhere(jumping):
    log, table = jumping
    odd = np.arange(60) % 2 == 1
    here = prequential(log.select(odd), learnt=table)
    whole = prequential(table)
    assert here.probability == pytest.approx(whole.probability[odd[whole.owner]])
    assert here.method == "auto"
