"""A prior of one's own: the posterior mean and the most likely rate (Cho, appendix B)."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import digamma

from observant import VisitLog, estimate_rates
from observant.errors import InputError
from observant.estimation.bayes import BayesEstimator
from observant.estimation.evidence import Evidence

from .command_line import run_here


def regular(n, changes, gap=1.0):
    return Evidence.from_gaps(np.full((1, n), gap), np.arange(n)[None, :] < changes)


@pytest.mark.parametrize(("n", "changes"), [(10, 6), (5, 0), (5, 5), (40, 3)])
def test_the_mean_under_a_uniform_share_is_the_digamma_formula(n, changes):
    """Erratum C-14: E[r] = ψ(n + 2) − ψ(n − X + 1), whatever the gap."""
    wanted = digamma(n + 2) - digamma(n - changes + 1)
    for gap in (1.0, 7.0):
        (rate,), _, _ = BayesEstimator("beta:1,1")(regular(n, changes, gap))
        assert rate * gap == pytest.approx(wanted, rel=2e-4)


def test_dates_under_a_gamma_prior_are_conjugate():
    """X dated changes in a time T of quiet: Gamma(a + X, b + T)."""
    ages = np.array([[0.5, np.nan, 2.0, np.nan]])
    evidence = Evidence.from_gaps(np.array([[3.0, 1.0, 4.0, 2.0]]), ~np.isnan(ages), ages)
    shape, rate = 2.0 + 2, 2.0 * 7 + 0.5 + 1.0 + 2.0 + 2.0  # a mean of 1/7 is b = 14
    (mean,), (low,), (high,) = BayesEstimator("gamma:2,1/7d")(evidence)
    assert mean == pytest.approx(shape / rate, rel=1e-3)
    (top,), _, _ = BayesEstimator("gamma:2,1/7d", "map")(evidence)
    assert top == pytest.approx((shape - 1) / rate, rel=1e-3)
    from scipy.stats import gamma

    assert gamma.cdf([low, high], shape, scale=1 / rate) == pytest.approx([0.025, 0.975], abs=0.01)


def test_any_density_by_quadrature():
    gaps, changed = np.array([[1.0, 5.0, 0.3, 2.0]]), np.array([[True, False, True, True]])

    def posterior(rate):
        hits = np.prod(-np.expm1(-rate * gaps[changed]))
        return hits * np.exp(-rate * 5.0) / (1 + rate**2)

    total, mean = (quad(lambda r, k=k: r**k * posterior(r), 0, 60)[0] for k in (0, 1))
    own = BayesEstimator(lambda rates: 1 / (1 + rates**2))
    (rate,), _, _ = own(Evidence.from_gaps(gaps, changed))
    assert rate == pytest.approx(mean / total, rel=1e-3)


def test_many_sources_are_as_each_alone_and_nothing_seen_is_unknown():
    rng = np.random.default_rng(1)
    n = 3_000
    evidence = Evidence.from_gaps(rng.exponential(1.0, (n, 3)), rng.random((n, 3)) < 0.4)
    estimator = BayesEstimator("lognormal:1/3d,1")
    together = np.array(estimator(evidence))
    one = evidence.select(np.arange(n) == 1234)
    assert np.array(estimator(one))[:, 0] == pytest.approx(together[:, 1234])
    log = VisitLog.from_columns(["a", "a", "b"], [0, 1, 0], [None, True, None], time_unit="d")
    found = estimate_rates(log, estimator)
    assert np.isnan(found.rate_per_day[1])
    assert found.method == "bayes-mean"


@pytest.mark.parametrize("bad", ["gauss:1,2", "gamma:2", "gamma:2,x", "uniform:10,1", "beta:0,1"])
def test_bad_priors_are_told(bad):
    with pytest.raises(InputError, match=r"no prior|no number|holds no rate"):
        BayesEstimator(bad)


def test_from_the_command_line(tmp_path):
    rows = ["source,time,changed"] + [
        f"page,{day},{'' if day == 0 else day % 2}" for day in range(11)
    ]
    (tmp_path / "v.csv").write_text("\n".join(rows))
    base = ("estimate", "v.csv", "--time-unit", "d", "--prior", "gamma:2,1/7d")
    code, out, err = run_here(*base, cwd=tmp_path)
    assert code == 0, err
    assert "method bayes-mean" in out
    assert "method bayes-map" in run_here(*base, "--point", "map", cwd=tmp_path)[1]
    assert run_here(*base, "--method", "mle", cwd=tmp_path)[0] == 2
    code, _, err = run_here("estimate", "v.csv", "--prior", "gamma:2", cwd=tmp_path)
    assert code != 0
    assert "gamma:SHAPE,MEAN" in err
