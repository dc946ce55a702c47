"""Penalties, indices and periods: closed forms against their definitions, by other means."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from observant import VisitLog, estimate_rates
from observant.currency import GammaRates, PoissonRates, RateMixture
from observant.currency import currency as exact_currency
from observant.errors import InputError
from observant.planning import plan
from observant.planning.objectives import (
    OBJECTIVES,
    Custom,
    PosteriorMean,
    RenewalObjective,
    objective,
)
from observant.planning.objectives.composite import CompositeObjective, objective_of_visits
from observant.planning.objectives.numerics import COMPILED_FROM, crossing
from observant.processes import Weibull

RATES = np.array([1e-4, 0.03, 0.5, 2.0, 40.0])
NAMES = list(OBJECTIVES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("s", [1e-3, 0.7, 1.5, 9.0, 300.0])
def test_index_and_mean_follow_from_the_penalty(name, s):
    known = objective(name, RATES, 1.0)
    for i, rate in enumerate(RATES):
        one = known.select(slice(i, i + 1))
        bends = [b for b in (1.0, *(at + x / rate for at in (0, 1) for x in (1, 9, 40))) if b < s]
        area = quad(
            lambda t, one=one: one.penalty(t)[0], 0, s,
            epsabs=1e-14, epsrel=1e-11, points=bends or None,
        )  # fmt: skip
        penalty = one.penalty(s)[0]
        assert one.mean_penalty(s)[0] == pytest.approx(area[0] / s, rel=1e-8, abs=1e-13)
        assert one.index(s)[0] == pytest.approx(s * penalty - area[0], rel=1e-6, abs=1e-12)


def test_harmonic_is_the_mean_harmonic_number():
    x = 3.0
    counts = np.arange(1, 80)
    probability = np.exp(-x + counts * np.log(x) - np.cumsum(np.log(counts)))
    assert objective("harmonic", [1.0]).penalty(x)[0] == pytest.approx(
        np.sum(probability * np.cumsum(1.0 / counts)), rel=1e-13
    )


def test_currency_is_the_package_s_own():
    known = objective("currency", RATES, 2.0)
    for period in (0.5, 2.0, 10.0, 1e4):
        assert 1 - known.mean_penalty(period) == pytest.approx(exact_currency(RATES, period, 2.0))


@given(
    st.sampled_from(NAMES),
    st.floats(-9, 6),
    st.floats(-5, 2.5),
    st.sampled_from([0.0, 0.01, 3.0]),
)
def test_period_at_inverts_the_index(name, log_rate, log_x, grace):
    rate = np.exp(log_rate)
    grace = grace if name == "currency" else 0.0
    known = objective(name, [rate], grace)
    s = grace + np.exp(log_x) / rate
    found = known.period_at(known.index(s))[0]
    # Where the index is nearly flat, its own rounding moves the answer.
    flat = 1e-15 * known.index(s)[0] / ((s - grace) * s * rate * np.exp(-np.exp(log_x)))
    assert found == pytest.approx(s, rel=1e-12 + (0 if name in {"harmonic", "age"} else 10 * flat))


@pytest.mark.parametrize("name", NAMES)
def test_edges(name):
    known = objective(name, [0.0, 1.0])
    assert known.period_at(0.3)[0] == np.inf
    assert known.limit[0] == 0
    assert (known.index([7.0, np.inf])[0], known.mean_penalty(np.inf)[0]) == (0, 0)
    assert known.index([1.0, np.inf])[1] == known.limit[1]
    assert known.mean_penalty(np.inf)[1] == known.penalty(np.inf)[1]
    assert np.isinf(known.period_at(np.inf)).all()
    assert known.period_at(0.0)[1] == 0.0
    assert np.all(known.mean_penalty(0.0) == 0.0)


def test_a_price_above_the_limit_is_never_reached():
    known = objective("freshness", [0.5, 2.0])
    assert np.isinf(known.period_at(1.0)).tolist() == [False, True]


@pytest.mark.slow
def test_compiled_and_readable_forms_agree():
    rng = np.random.default_rng(1)
    many = np.exp(rng.uniform(-10, 6, 40_000))
    price = np.exp(rng.uniform(-12, 6, 40_000))
    known = objective("currency", many, 0.4)
    compiled = known.period_at(price)
    plain = np.concatenate(
        [
            known.select(slice(i, i + 8_000)).period_at(price[i : i + 8_000])
            for i in range(0, 40_000, 8_000)
        ]
    )
    assert np.array_equal(np.isinf(compiled), np.isinf(plain))
    assert compiled[np.isfinite(plain)] == pytest.approx(plain[np.isfinite(plain)], rel=1e-12)
    warm = known.period_at(price * 1.001, start=compiled)
    finite = np.isfinite(warm)
    assert known.index(warm)[finite] == pytest.approx(price[finite] * 1.001, rel=1e-11)


# -- rates that are not known, sources that are not Poisson ----------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_posterior_mean_averages(name):
    grid = np.array([0.1, 1.0, 5.0])
    weights = np.array([[0.2, 0.5, 0.3], [0.0, 1.0, 0.0]])
    mean, each = PosteriorMean(name, grid, weights, 0.5), objective(name, grid, 0.5)
    for what in ("penalty", "index", "mean_penalty"):
        assert getattr(mean, what)(2.0) == pytest.approx(weights @ getattr(each, what)(2.0))
    price = 0.3 * np.minimum(mean.limit, 1.0)
    assert mean.index(mean.period_at(price)) == pytest.approx(price, rel=1e-11)
    certain = mean.select(np.array([False, True]))
    assert certain.period_at(price[1:]) == pytest.approx(
        objective(name, [1.0], 0.5).period_at(price[1:]), rel=1e-11
    )


def test_gamma_posterior_in_closed_form_equals_the_grid():
    shape, exposure = 2.5, 8.0
    grid = np.exp(np.linspace(-14, 3, 3000))
    weights = grid**shape * np.exp(-exposure * grid)
    closed = objective("currency", GammaRates([shape], [exposure]), 0.7)
    on_grid = objective("currency", RateMixture(grid, weights[None, :] / weights.sum()), 0.7)
    for s in (0.5, 3.0, 40.0):
        assert closed.index(s) == pytest.approx(on_grid.index(s), rel=1e-9, abs=1e-12)
    assert closed.period_at(2.0) == pytest.approx(on_grid.period_at(2.0), rel=1e-9)
    assert closed.limit == pytest.approx([0.7 + exposure / (shape - 1)], rel=1e-6)


def test_renewal_of_poisson_is_poisson():
    renewal = RenewalObjective(PoissonRates(RATES), 0.5)
    known = objective("currency", RATES, 0.5)
    assert renewal.index(3.0) == pytest.approx(known.index(3.0), rel=1e-9, abs=1e-14)
    assert renewal.period_at(0.02) == pytest.approx(known.period_at(0.02), rel=1e-7)
    part = renewal.select(np.array([1, 3]))
    assert part.mean_penalty(4.0) == pytest.approx(known.mean_penalty(4.0)[[1, 3]])


def test_renewal_of_a_process_stands_for_many():
    many = RenewalObjective(Weibull(shape=2.0, scale=5.0), 1.0, count=3)
    assert many.penalty(4.0).shape == (3,)
    period = many.period_at(np.array([0.5, 1.0, 50.0]))
    assert many.index(period)[:2] == pytest.approx([0.5, 1.0])
    assert period[2] == np.inf
    assert len(many.select(slice(0, 2))) == 2


def test_custom_equals_the_built_in():
    own = Custom(lambda s, rate: -np.expm1(-rate * s), RATES[1:4])
    known = objective("freshness", RATES[1:4])
    assert own.index(3.0) == pytest.approx(known.index(3.0), rel=1e-9)
    assert own.period_at(0.2) == pytest.approx(known.period_at(0.2), rel=1e-8)
    assert own.mean_penalty(np.inf) == pytest.approx([1, 1, 1])
    assert own.select(slice(1, 2)).penalty(2.0) == pytest.approx(known.penalty(2.0)[1:2])


@pytest.mark.parametrize("odd", ["fails", "differs", "is short"])
def test_a_penalty_of_ones_own_need_not_take_many_rows_at_once(odd):
    def penalty(s, rate):
        if s.ndim > 1 and odd == "fails":
            raise ValueError(odd)
        found = -np.expm1(-rate * s)
        return found if s.ndim == 1 else found[:1] if odd == "is short" else 2 * found

    own, plain = (
        Custom(one, RATES[1:4]) for one in (penalty, lambda s, rate: -np.expm1(-rate * s))
    )
    periods = np.array([0.5, 2.0, np.inf])
    assert own.mean_penalty(periods) == pytest.approx(plain.mean_penalty(periods), rel=1e-12)
    assert own.mean_penalty(2.0) == pytest.approx(
        1 + np.expm1(-2.0 * RATES[1:4]) / (2.0 * RATES[1:4]), rel=1e-9
    )


@pytest.mark.parametrize(
    ("name", "rates", "grace", "words"),
    [
        ("speed", [1.0], 0.0, "freshness"),
        ("freshness", [1.0, np.nan], 0.0, "number 2"),
        ("freshness", [-1.0], 0.0, "not negative"),
        ("freshness", [[1.0]], 0.0, "one array"),
        ("freshness", ["x"], 0.0, "numbers"),
        ("currency", [1.0], -1.0, "grace"),
        ("currency", [1.0, 2.0], [1.0, 2.0, 3.0], "grace"),
        ("age", GammaRates([1.0], [1.0]), 0.0, "closed forms"),
    ],
)
def test_bad_input(name, rates, grace, words):
    with pytest.raises(InputError, match=words):
        objective(name, rates, grace)


def test_bad_posteriors():
    with pytest.raises(InputError, match="one row a source"):
        PosteriorMean("freshness", [1.0, 2.0], [[0.2, 0.3, 0.5]])
    with pytest.raises(InputError, match="entry for each source"):
        Custom(lambda s: s)


@pytest.mark.parametrize("grace", [0.0, 0.3])
@pytest.mark.parametrize("one_grid", [True, False])
def test_the_compiled_mean_index_is_that_of_the_formula(grace, one_grid):
    rng = np.random.default_rng(3)
    rates = 10.0 ** rng.uniform(-4, 2, (2000, 16))
    rates[5, 3], weights = 0.0, rng.dirichlet(np.ones(16), 2000)
    weights[:, 2] = 0.0
    mean = PosteriorMean("currency", rates[5] if one_grid else rates, weights, grace)
    assert mean.weights.size >= COMPILED_FROM
    few = [mean.select(slice(first, first + 100)) for first in range(0, 2000, 100)]
    for s in (10.0 ** rng.uniform(-5, 6, 2000), np.full(2000, np.inf), np.zeros(2000)):
        plain = np.concatenate([part.index(s[i * 100 :][:100]) for i, part in enumerate(few)])
        np.testing.assert_allclose(mean.index(s), plain, rtol=1e-13)


# -- sources of several kinds ---------------------------------------------------------------------


def test_a_composite_of_equal_parts_is_the_whole():
    rng = np.random.default_rng(2)
    rates = rng.lognormal(-1, 1, 60)
    whole = objective("currency", rates, 0.5)
    split = CompositeObjective(
        [
            (np.arange(0, 60, 2), whole.select(slice(0, 60, 2))),
            (np.arange(1, 60, 2), whole.select(slice(1, 60, 2))),
        ]
    )
    s = rng.exponential(3, (4, 60))
    for name in ("penalty", "mean_penalty", "index"):
        np.testing.assert_allclose(getattr(split, name)(s), getattr(whole, name)(s))
    np.testing.assert_allclose(split.limit, whole.limit)
    np.testing.assert_allclose(split.period_at(0.4), whole.period_at(0.4), rtol=1e-9)
    which = np.array([7, 3, 50])
    np.testing.assert_allclose(split.select(which).penalty(2.0), whole.select(which).penalty(2.0))
    mask = rates > 0.5
    np.testing.assert_allclose(split.select(mask).index(2.0), whole.select(mask).index(2.0))


@pytest.mark.slow
def test_a_plan_takes_sources_that_are_clearly_not_poisson_for_what_they_are():
    """Clocks among Poisson sources: the currency that is promised is that which they have."""
    rng = np.random.default_rng(6)
    source, time, changed, updates = [], [], [], {}
    for k in range(12):
        name = f"{'clock' if k < 6 else 'poisson'}{k}"
        lengths = rng.gamma(30.0, 4.0 / 30.0, 9000) if k < 6 else rng.exponential(4.0, 9000)
        updates[name] = np.cumsum(lengths)
        visits = np.sort(rng.uniform(10, 1000, 500))
        count = np.searchsorted(updates[name], visits)
        source += [name] * len(visits)
        time += visits.tolist()
        changed += [None, *(np.diff(count) > 0).tolist()]
    log = VisitLog.from_columns(source, time, changed, time_unit="d")
    table = estimate_rates(log, "pooled")
    own, odd = objective_of_visits(log, table.posterior)
    assert odd == 6
    names = log.sources.to_pylist()

    def truth(periods):
        looked = [np.arange(20.0, 30_000.0, period) for period in periods]
        after = [
            updates[name][np.searchsorted(updates[name], at, side="right")] - at
            for name, at in zip(names, looked, strict=True)
        ]
        return np.array([np.minimum(a, p).mean() / p for a, p in zip(after, periods, strict=True)])

    best = plan(table, budget=5.0, objective=own)
    plain = plan(table, budget=5.0)
    # About 200 changes of each were seen: a rate of 7 % is 0.02 of α; of the clocks we know more.
    np.testing.assert_allclose(best.alpha[:6], truth(best.period_days)[:6], atol=0.02)
    np.testing.assert_allclose(best.alpha[6:], truth(best.period_days)[6:], atol=0.06)
    assert np.abs(plain.alpha - truth(plain.period_days))[:6].mean() > 0.03  # a rate alone promises
    assert truth(best.period_days).mean() > truth(plain.period_days).mean() - 0.002


@pytest.mark.parametrize("grace", [0.0, 0.7])
def test_compiled_periods_of_posteriors_are_where_the_index_reaches_the_price(grace):
    rng = np.random.default_rng(3)
    sources, points = 1000, 40
    weights = rng.dirichlet(np.full(points, 0.05), size=sources)
    mean = PosteriorMean("currency", np.geomspace(1e-4, 100.0, points), weights, grace)
    assert mean.weights.size >= COMPILED_FROM
    for price in (0.0, 1e-6, 1e-2, 1.0, 30.0, 1e3, 1e9):
        prices = price * rng.uniform(0.5, 2.0, sources)
        found = mean.period_at(prices)
        wanted = crossing(mean.index, prices, mean.limit)
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-100)
        again = mean.period_at(prices, wanted * rng.uniform(0.5, 2.0, sources))
        np.testing.assert_allclose(again, wanted, rtol=1e-11, atol=1e-100)


@pytest.mark.parametrize(
    ("name", "penalty"), [("freshness", lambda x: -np.expm1(-x)), ("delay", lambda x: x)]
)
def test_a_penalty_of_ones_own_is_the_objective_of_the_same_name(name, penalty):
    """For known rates, and averaged over what is known of them."""
    grid, rng = np.geomspace(0.01, 10, 12), np.random.default_rng(1)
    weights = rng.dirichlet(np.ones(12), 5)
    for known in (np.array([0.0, 0.01, 0.3, 4.0]), RateMixture(np.tile(grid, (5, 1)), weights)):
        ours, named = objective(penalty, known), objective(name, known)
        for s in (0.0, 0.02, 1.0, 30.0, 400.0):
            for what in ("penalty", "mean_penalty", "index"):
                found = getattr(ours, what)(np.full(len(ours), s))
                assert found == pytest.approx(
                    getattr(named, what)(np.full(len(ours), s)), rel=2e-4, abs=1e-9
                )
    rates = rng.exponential(1.0, 50)
    best = [plan(rates, budget=20.0, objective=one) for one in (penalty, name)]
    assert best[0].visits_per_day == pytest.approx(best[1].visits_per_day, rel=1e-3, abs=1e-4)
    with pytest.raises(InputError, match="grace"):
        objective(penalty, rates, 1.0)
