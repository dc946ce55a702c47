"""The collection as prior."""

import numpy as np
import pytest
from scipy.special import digamma

from observant import VisitLog, classify, estimate_rates
from observant.errors import EstimationError, InputError
from observant.estimation import priors
from observant.estimation.belief import Likelihoods
from observant.estimation.evidence import Evidence
from observant.estimation.online import OnlinePosterior

POPULATIONS = {
    "gamma": lambda rng, n: rng.gamma(0.6, 1 / 0.6, n),
    "bimodal": lambda rng, n: np.where(
        rng.random(n) < 0.5, rng.lognormal(np.log(0.05), 0.3, n), rng.lognormal(np.log(2), 0.3, n)
    ),
    "lognormal": lambda rng, n: rng.lognormal(np.log(0.5), 1.2, n),
}


def poisson_log(rng, rates, visits, group=None):
    gaps = rng.exponential(1.0, (len(rates), visits)) + 1e-3
    return log_of_gaps(gaps, rng.random(gaps.shape) < -np.expm1(-rates[:, None] * gaps), group)


def log_of_gaps(gaps, changed, group=None):
    sources, visits = gaps.shape
    times = 1 + np.cumsum(np.column_stack([np.zeros(sources), gaps]), axis=1)
    names = np.char.mod("s%06d", np.arange(sources))
    return VisitLog.from_columns(
        np.repeat(names, visits + 1),
        times.ravel(),
        np.column_stack([np.zeros(sources, bool), changed]).ravel(),
        group=None if group is None else np.repeat(group, visits + 1),
        time_unit="d",
    )


def log_error(rates, truth):
    return np.sqrt(np.mean(np.log(np.clip(rates, 1e-4, 1e3) / truth) ** 2))


@pytest.mark.slow
@pytest.mark.parametrize("visits", [3, 10])
@pytest.mark.parametrize("name", POPULATIONS)
def test_better_than_every_unpooled_method(name, visits):
    """Root mean square of log(estimate/truth); the margin is wide, 2,000 sources are enough."""
    rng = np.random.default_rng([visits, len(name)])
    truth = np.maximum(POPULATIONS[name](rng, 2000), 1e-3)
    log = poisson_log(rng, truth, visits)
    others = [
        log_error(estimate_rates(log, method).rate_per_day, truth)
        for method in ("naive", "improved", "bayes-beta", "mle", "bias-reduced")
    ]
    assert log_error(estimate_rates(log, "pooled").rate_per_day, truth) < 0.95 * min(others)


@pytest.mark.slow
def test_beats_the_gamma_prior_where_the_population_is_not_gamma():
    rng = np.random.default_rng(1)
    truth = POPULATIONS["bimodal"](rng, 2000)
    log = poisson_log(rng, truth, 10)
    pooled, gamma = (estimate_rates(log, m).rate_per_day for m in ("pooled", "pooled-gamma"))
    assert log_error(pooled, truth) < 0.8 * log_error(gamma, truth)


def test_gamma_prior_is_recovered():
    """4,000 sources of 10 visits determine log a and log b to a few per cent."""
    rng = np.random.default_rng(2)
    log = poisson_log(rng, rng.gamma(2.0, 0.5, 4000), 10)
    a, b = estimate_rates(log, "pooled-gamma").posterior.prior.gamma
    assert a == pytest.approx(2.0, rel=0.15)
    assert b == pytest.approx(2.0, rel=0.15)


@pytest.mark.slow
def test_posterior_intervals_are_calibrated():
    """Over the population, 95 % intervals hold the truth in 95 %, within 3 standard errors."""
    rng = np.random.default_rng(3)
    truth = np.maximum(POPULATIONS["lognormal"](rng, 4000), 1e-3)
    table = estimate_rates(poisson_log(rng, truth, 5), "pooled")
    inside = ((table.rate_low <= truth) & (truth <= table.rate_high)).mean()
    assert inside == pytest.approx(0.95, abs=0.015)


def test_sources_without_evidence_get_the_prior():
    rng = np.random.default_rng(4)
    log = poisson_log(rng, np.full(200, 0.5), 10)
    lonely = VisitLog.from_columns(["zz"], [1], time_unit="d").to_arrow()
    import pyarrow as pa

    both = VisitLog.from_arrow(
        pa.concat_tables([log.to_arrow(), lonely], promote_options="default")
    )
    table = estimate_rates(both, "pooled")
    assert table.evidence[-1] == "too-few"
    assert table.rate_per_day[-1] == pytest.approx(0.5, rel=0.3)


@pytest.mark.slow
def test_what_was_learned_fades():
    """Rates that change half-way: the later visits count, and the interval is not too narrow."""
    rng = np.random.default_rng(5)
    early, late = (rng.lognormal(np.log(0.05), 1.0, (600, 1)) for _ in range(2))
    rate = np.where(np.arange(60) < 30, early, late)
    gaps = np.full((600, 60), 20.0)
    log = log_of_gaps(gaps, rng.random(gaps.shape) < -np.expm1(-rate * gaps))
    fading, lasting = (estimate_rates(log, "pooled", drift=days) for days in (600.0, np.inf))
    assert log_error(fading.rate_per_day, late[:, 0]) < 0.8 * log_error(
        lasting.rate_per_day, late[:, 0]
    )
    missed = [
        np.mean((late[:, 0] < table.rate_low) | (late[:, 0] > table.rate_high))
        for table in (fading, lasting)
    ]
    assert missed[0] < 0.5 * missed[1]


@pytest.mark.slow
def test_visits_are_taken_at_their_word_where_all_sources_are_alike():
    """One common rate, and Poisson: everybody is seen to have it, as all visits together say."""
    rng = np.random.default_rng(6)
    truth = np.full(2_000, 0.3)
    log = poisson_log(rng, truth, 12)
    table, alone = estimate_rates(log, "pooled"), estimate_rates(log, "bias-reduced")
    assert log_error(table.rate_per_day, truth) < 0.5 * log_error(alone.rate_per_day, truth)
    assert not any("trust" in str(note) for note in table.notes)
    assert np.mean((table.rate_low < 0.3) & (table.rate_high > 0.3)) > 0.99


@pytest.mark.slow
def test_groups_are_shrunk_to_the_parent():
    """Two hosts of very different pace: members with little evidence follow their host."""
    rng = np.random.default_rng(6)
    fast = np.arange(600) % 2 == 0
    truth = np.where(fast, 2.0, 0.05) * rng.lognormal(0, 0.2, 600)
    group = np.where(fast, "fast", "slow")
    plain = poisson_log(np.random.default_rng(7), truth, 2)
    grouped = poisson_log(np.random.default_rng(7), truth, 2, group)
    without, with_groups = (estimate_rates(log, "pooled") for log in (plain, grouped))
    assert log_error(with_groups.rate_per_day, truth) < 0.7 * log_error(without.rate_per_day, truth)
    assert "2 groups" in " ".join(with_groups.notes)
    # A group of one source stays near the parent.
    alone = group.astype(object)
    alone[0] = "alone"
    table = estimate_rates(poisson_log(np.random.default_rng(7), truth, 2, alone), "pooled")
    prior = table.posterior.prior
    distance = np.abs(prior.group_weights - prior.weights).sum(axis=1)
    assert distance[prior.groups.index("alone")] < 0.3 * distance.max()


def test_zero_truncation():
    """Sources that never changed were removed: the corrected prior knows that they exist."""
    rng = np.random.default_rng(8)
    truth = rng.gamma(1.0, 0.3, 6000)
    log = poisson_log(rng, truth, 5)
    kept = log.select(estimate_rates(log).changes > 0)
    plain, corrected = (
        estimate_rates(kept, "pooled-gamma", zero_truncated=flag).posterior.prior
        for flag in (False, True)
    )
    mean = [prior.weights @ prior.rates for prior in (plain, corrected)]
    assert mean[0] > 0.4
    assert mean[1] == pytest.approx(0.3, rel=0.2)


def test_posterior_on_demand_agrees_with_the_table():
    rng = np.random.default_rng(9)
    table = estimate_rates(poisson_log(rng, POPULATIONS["gamma"](rng, 300), 5), "pooled")
    posterior = table.posterior
    rates, weights = posterior.points(100, 120)  # in the time to come
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    np.testing.assert_allclose((weights * rates).sum(axis=1), table.rate_mean[100:120])
    log_mean = (weights * np.log(rates)).sum(axis=1)
    np.testing.assert_allclose(np.exp(log_mean), table.rate_ahead[100:120])
    now = posterior.beliefs(100, 120)
    rates, weights = now.rates, now.weights
    np.testing.assert_allclose((weights * rates).sum(axis=1), posterior.mean[100:120])
    np.testing.assert_allclose(
        (weights * rates**2).sum(axis=1) - posterior.mean[100:120] ** 2, posterior.variance[100:120]
    )
    a, b = posterior.gamma()
    np.testing.assert_allclose(a / b, posterior.mean)
    np.testing.assert_allclose(np.exp(digamma(a)) / b, posterior.log_mean)


def test_online_posterior_is_the_batch():
    rng = np.random.default_rng(10)
    gaps = rng.exponential(1.0, (50, 6))
    changed = rng.random((50, 6)) < 0.5
    ages = np.where(rng.random((50, 6)) < 0.5, rng.random((50, 6)) * gaps, np.nan)
    evidence = Evidence.from_gaps(gaps, changed, ages)
    prior = priors.fit_collection(Likelihoods.of(evidence).on_grid())
    batch = Likelihoods.of(evidence).under(prior.rows())
    online = OnlinePosterior(prior)
    for gap, change, age in zip(gaps[7], changed[7], ages[7], strict=True):
        online.visit(gap, bool(change), None if np.isnan(age) else age)
    assert online.belief() == pytest.approx(batch.one(7), rel=1e-12)
    np.testing.assert_allclose(online.beliefs.weights[0], batch.weights[7], atol=1e-12)


def test_nothing_to_pool():
    with pytest.raises(EstimationError, match="nothing to pool"):
        estimate_rates(VisitLog.from_columns(["a", "b"], [1, 1]), "pooled")


def test_auto_says_what_it_took():
    rng = np.random.default_rng(11)
    many = estimate_rates(poisson_log(rng, np.full(60, 1.0), 3), "auto")
    few = estimate_rates(poisson_log(rng, np.full(5, 1.0), 3), "auto")
    assert (many.method, few.method) == ("pooled", "bias-reduced")
    assert "was chosen" in " ".join(few.notes)


def test_classes():
    rng = np.random.default_rng(12)
    weekly = np.arange(400) % 4 == 0
    log = poisson_log(rng, np.where(weekly, 1 / 7, 1 / 60), 60)
    table = classify(log, {"weekly": "1/7d", "rarely": "1/60d"})
    assert table.prior[0] == pytest.approx(0.25, abs=0.07)
    assert (table.best == np.where(weekly, "weekly", "rarely")).mean() > 0.85
    assert table.to_arrow().column_names == ["source", "class", "p_weekly", "p_rarely"]
    with pytest.raises(InputError, match="two classes"):
        classify(log, {"weekly": "1/7d"})
    with pytest.raises(InputError, match="must name"):
        classify(log, {"a": 1, "b": 2}, prior={"a": 1})
