"""Formulas fitted to visits: recovery, agreement with the rate layer, choice of family."""

import numpy as np
import pytest

from observant.errors import EstimationError, InputError
from observant.estimation.intervals.parametric import FAMILIES, _Seen, fit_parametric
from observant.processes import Gamma, Lognormal, Pareto, Poisson, Weibull


def visited(source, visits, seed, dated=0.0):
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.exponential(1.0, visits))
    updates = source.sample(times[-1], seed=rng).times
    count = np.searchsorted(updates, times, side="right")
    ages = times - np.append(np.nan, updates)[count]
    ages[rng.random(visits) >= dated] = np.nan
    return times, np.diff(count, prepend=0) > 0, ages


@pytest.mark.parametrize("source", [Poisson(0.7), Gamma(2.0, 0.8), Lognormal(0.1, 0.6)])
def test_chance_of_a_pair_matches_simulation(source):
    """Share of random moments with their updates in given windows; three standard errors."""
    updates = source.sample(200_000.0, seed=1).times
    at = np.random.default_rng(2).uniform(100.0, 199_000.0, 200_000)
    place = np.searchsorted(updates, at)
    age, residual = at - updates[place - 1], updates[place] - at
    hit = (age >= 0.3) & (age < 0.9) & (residual > 0.2) & (residual <= 1.4)
    # Visits that see exactly this at the second one.
    seen = _Seen.of([0.0, 0.6, 0.9, 1.1, 2.3], [0, 1, 0, 0, 1], None)
    row = int(np.flatnonzero(np.isclose(seen.quiet, 0.5))[0])
    chance = np.exp(seen.log_chances(source)[row])
    assert seen.counts.sum() == 5
    assert hit.mean() == pytest.approx(chance, abs=3 * np.sqrt(4 * chance / 200_000))


@pytest.mark.slow
@pytest.mark.parametrize("dated", [0.0, 1.0])
@pytest.mark.parametrize(
    ("family", "source"),
    [
        ("weibull", Weibull.with_mean(1.5, 3.0)),
        ("pareto", Pareto(3.0, 1.0)),
        ("gamma", Gamma.with_mean(1.0, 4.0)),
        ("lognormal", Lognormal.with_mean(1.0, 0.5)),
        ("exponential", Poisson(1.0)),
    ],
)
def test_each_family_finds_its_own_source(family, source, dated):
    (fit,) = fit_parametric(*visited(source, 2000, 3, dated), families=[family])
    x = np.geomspace(0.01, 20.0, 200)
    assert np.abs(fit.process.age_cdf(x) - source.age_cdf(x)).max() < 0.06
    # The slope at 0 of a Pareto source is learnt from few short gaps.
    assert fit.process.mean == pytest.approx(source.mean, rel=0.25 if family == "pareto" else 0.08)
    assert fit.dispersion >= 1.0
    parameters = fit.plain_aic / 2.0 + fit.log_likelihood
    quasi = 2.0 * (parameters - fit.log_likelihood / fit.dispersion)
    assert fit.aic == pytest.approx(quasi)
    assert 0.0 <= fit.ks < 0.08
    assert fit.p_value is None


@pytest.mark.slow
def test_the_right_kind_of_family_wins_and_the_wrong_is_told():
    fits = fit_parametric(*visited(Weibull.with_mean(1.5, 3.0), 1500, 9, 1.0))
    assert [fit.aic for fit in fits] == sorted(fit.aic for fit in fits)
    assert {fit.family for fit in fits} == set(FAMILIES)
    assert fits[0].family == "weibull"
    assert fits[0].ks < 0.03
    assert fits[-1].ks > 0.08
    pareto = next(fit for fit in fits if fit.family == "pareto")
    assert any("limit" in note for note in pareto.notes)


@pytest.mark.slow
def test_goodness_of_fit_rejects_the_wrong_and_keeps_the_right():
    times, changed, ages = visited(Weibull.with_mean(1.5, 3.0), 250, 9)
    wrong, right = (
        fit_parametric(times, changed, ages, [name], replicates=19, seed=1)[0]
        for name in ("exponential", "weibull")
    )
    assert wrong.p_value == pytest.approx(1 / 20)
    assert right.p_value > 1 / 20


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="unknown families"):
        fit_parametric([0.0, 1.0], [False, True], families=["normal"])
    with pytest.raises(EstimationError, match="found a change"):
        fit_parametric([0.0, 1.0, 2.0], [False] * 3)
    with pytest.raises(EstimationError, match="one visit"):
        fit_parametric([0.0], [False])
    for fit in fit_parametric(np.arange(6.0), [True] * 6):
        assert np.isfinite([fit.aic, fit.process.mean, fit.ks]).all()
