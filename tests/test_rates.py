"""The estimators against the paper, against theory, and against each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from observant import VisitLog, estimate_rates
from observant.errors import EstimationError, InputError
from observant.estimation import rates as rates_module
from observant.estimation.evidence import Evidence
from observant.estimation.firth import bias_reduced_rates, confidence_bounds, mle_rates
from observant.estimation.rates import EVIDENCE, METHODS, solve

HOUR = 1 / 24


def log_of(times, changed, last_modified=None, **columns):
    """One source, times in days."""
    return VisitLog.from_columns(
        ["page"] * len(times), times, changed, last_modified, time_unit="d", **columns
    )


def regular(n, x, gap=1.0):
    return log_of(gap * np.arange(n + 1), [None] + [True] * x + [False] * (n - x))


def rate(log, method="bias-reduced", **options):
    return estimate_rates(log, method, **options).rate_per_day[0]


# -- the numbers of Cho ------------------------------------------------------------------------


def test_example_1():
    """Six changes in ten daily visits: the paper rounds 0.847 to 0.8."""
    log = regular(10, 6)
    assert rate(log, "naive") == pytest.approx(0.6)
    assert rate(log, "improved") == pytest.approx(0.847, abs=5e-4)
    assert rate(log, "bayes-beta") == pytest.approx(-np.log(5 / 12))


def test_example_2():
    """Visits on days 1, 2, 7, 10; changes seen on days 2 and 7."""
    log = log_of([1, 2, 7, 10], [None, True, True, False])
    found = rate(log, "mle")
    assert 1 / np.expm1(found) + 5 / np.expm1(5 * found) == pytest.approx(3)


def test_example_5():
    """Changed after 6 h and 3 h, unchanged after 4 h and 7 h: 2.67 changes in 20 hours."""
    log = log_of(np.cumsum([0, 6, 4, 3, 7]) * HOUR, [None, True, False, True, False])
    assert rate(log, "mle") * 20 * HOUR == pytest.approx(2.666, abs=1e-3)


def test_last_modified_by_hand():
    """Figure 10 counts two changes in 1 + 3 + 0.5 quiet days; figure 13 corrects the count."""
    log = log_of([0, 2, 5, 6], [None, True, False, True], [None, 1, 1, 5.5])
    assert rate(log, "last-modified-raw") == pytest.approx(2 / 4.5)
    corrected = 1 - 2 / (3 * np.log(1 - 2 / 3))
    assert rate(log, "last-modified") == pytest.approx(corrected / 4.5)


def test_last_modified_needs_dates():
    with pytest.raises(EstimationError, match="last_modified"):
        estimate_rates(regular(5, 2), "last-modified")


def test_last_modified_all_changed():
    """Footnote 12: X = n gives n − 1."""
    log = log_of([0, 2, 4], [None, True, True], [None, 1, 3])
    assert rate(log, "last-modified") == pytest.approx(1 / 2)


def test_appendix_b_family():
    log = regular(10, 6)
    assert rate(log, "improved", offsets=(1, 2)) == pytest.approx(rate(log, "bayes-beta"))
    assert rate(log, "bayes-beta", beta_prior=(2, 3)) == pytest.approx(-np.log(7 / 15))


# -- the bias-reduced rate -----------------------------------------------------------------------


@pytest.mark.slow
@given(n=st.integers(1, 300), share=st.floats(0, 1), gap=st.integers(60, 10**7))
def test_equals_improved_on_regular_visits(n, share, gap):
    log = regular(n, round(share * n), gap * 1000 * 1e-6 / 86400 * 1000)
    expected = rate(log, "improved")
    assert rate(log) == pytest.approx(expected, rel=1e-10, abs=1e-300)


@given(n=st.integers(2, 60), seed=st.integers(0, 1000))
def test_tends_to_the_dated_limit(n, seed):
    """Gaps long compared with 1/λ, all dated: (n − 1)/T, Cho's own limit."""
    ages = np.random.default_rng(seed).exponential(1.0, n)
    evidence = Evidence.from_gaps(np.full(n, 1e4), np.ones(n, bool), ages)
    assert bias_reduced_rates(evidence)[0] == pytest.approx((n - 1) / ages.sum(), rel=1e-9)


def test_first_age_counts_as_a_long_dated_gap():
    dated = Evidence.from_gaps([np.inf, 3.0], [True, True], [2.0, 1.0])
    long = Evidence.from_gaps([1e9, 3.0], [True, True], [2.0, 1.0])
    assert bias_reduced_rates(dated) == pytest.approx(bias_reduced_rates(long))
    log = log_of([10, 13], [None, True], [8, 12])
    assert rate(log, use_first_age=True) == pytest.approx(bias_reduced_rates(dated)[0])


histories = st.lists(
    st.tuples(st.floats(1e-3, 1e6), st.booleans(), st.one_of(st.none(), st.floats(0.01, 0.999))),
    min_size=1,
    max_size=40,
)


def evidence_of(history):
    gaps = np.array([gap for gap, _, _ in history])
    changed = np.array([c for _, c, _ in history])
    share = np.array([np.nan if a is None else a for _, _, a in history])
    return Evidence.from_gaps(gaps, changed, share * gaps)


@given(histories)
def test_finite_for_every_history_and_inside_its_interval(history):
    evidence = evidence_of(history)
    found, low, high = (values[0] for values in solve(evidence, 0.95, fast=True))
    assert np.isfinite(found)
    assert 0 <= low <= found <= high
    changed = any(c for _, c, _ in history)
    assert (found > 0) == changed
    if changed:
        assert low > 0
    if any(not c or a is not None for _, c, a in history):
        assert np.isfinite(high)


@pytest.mark.slow
@settings(max_examples=25)
@given(st.lists(histories, min_size=1, max_size=8))
def test_compiled_agrees_with_numpy(many):
    parts = [evidence_of(history) for history in many]
    evidence = Evidence(
        offsets=np.concatenate([[0], np.cumsum([len(part.gaps) for part in parts])]),
        gaps=np.concatenate([part.gaps for part in parts]),
        kind=np.concatenate([part.kind for part in parts]),
        ages=np.concatenate([part.ages for part in parts]),
    )
    for method in ("", "mle"):
        slow = solve(evidence, 0.9, method=method)
        fast = solve(evidence, 0.9, method=method, fast=True)
        for one, other in zip(slow, fast, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-5)


@given(histories, st.floats(1e-3, 1e3))
def test_scale_of_time(history, factor):
    """Measured in other units, the rate is the same rate."""
    evidence = evidence_of(history)
    scaled = Evidence(
        evidence.offsets, evidence.gaps * factor, evidence.kind, evidence.ages * factor
    )
    for one, other in zip(
        solve(evidence, 0.95, fast=True), solve(scaled, 0.95, fast=True), strict=True
    ):
        np.testing.assert_allclose(other * factor, one, rtol=1e-6)


@pytest.mark.slow
@given(histories, st.integers(0, 39))
def test_one_more_change_means_a_higher_rate(history, place):
    place %= len(history)
    gap, changed, _ = history[place]
    more = [*history[:place], (gap, True, None), *history[place + 1 :]]
    less = [*history[:place], (gap, False, None), *history[place + 1 :]]
    del changed
    assert mle_rates(evidence_of(more))[0] >= mle_rates(evidence_of(less))[0] * (1 - 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("true_rate", [0.2, 1.0, 2.0])
def test_nearly_unbiased_on_exponential_gaps(true_rate):
    """Ten visits at exponential gaps: mean within 3 % of λ, where the MLE is infinite at times.

    One history has a standard deviation of about λ/2 (n = 10) at λ = 1 and λ at 0.2, so the mean
    of 200,000 has a standard error under 0.3 %.
    """
    rng = np.random.default_rng(int(100 * true_rate))
    gaps = rng.exponential(1.0, (200_000, 10))
    changed = rng.random(gaps.shape) < -np.expm1(-true_rate * gaps)
    found, _, _ = solve(Evidence.from_gaps(gaps, changed), 0.95, fast=True)
    assert found.mean() == pytest.approx(true_rate, rel=0.03)


def test_mle_is_infinite_where_bias_reduced_is_not():
    evidence = Evidence.from_gaps([1.0, 3.0], [True, True])
    assert np.isinf(mle_rates(evidence)[0])
    assert np.isfinite(bias_reduced_rates(evidence)[0])


def test_against_brentq():
    """The equation of DESIGN section 4, written down once more and solved by SciPy."""
    rng = np.random.default_rng(5)
    gaps = rng.exponential(1.0, 12)
    changed = rng.random(12) < 0.6
    dated = rng.random(12) < 0.5
    ages = np.where(dated, rng.random(12) * gaps, np.nan)

    def equation(lam):
        x = lam * gaps
        score = np.where(
            changed, np.where(dated, 1 / lam - np.nan_to_num(ages), gaps / np.expm1(x)), -gaps
        )
        information = np.where(dated, -np.expm1(-x) / lam**2, gaps**2 / np.expm1(x))
        k = np.where(dated, 2 * (1 - (1 + x) * np.exp(-x)) / lam**3, gaps**3 / np.expm1(x))
        return score.sum() - 0.5 * k.sum() / information.sum()

    expected = brentq(equation, 1e-3, 50, xtol=1e-14)
    assert bias_reduced_rates(Evidence.from_gaps(gaps, changed, ages))[0] == pytest.approx(expected)


# -- intervals -----------------------------------------------------------------------------------


def exact_coverage(n, ratios):
    """Coverage of the 95 % interval for n regular visits, by enumeration of the n + 1 outcomes."""
    from scipy.stats import binom

    changed = np.arange(n)[None, :] < np.arange(n + 1)[:, None]
    low, high = confidence_bounds(Evidence.from_gaps(np.ones((n + 1, n)), changed))
    chance = binom.pmf(np.arange(n + 1)[:, None], n, -np.expm1(-ratios)[None, :])
    return (chance * ((low[:, None] <= ratios) & (ratios <= high[:, None]))).sum(axis=0)


@pytest.mark.slow
def test_coverage_on_regular_visits():
    """At least 93 % everywhere on the grid, at most 98 % on average: exact, not simulated."""
    ratios = np.geomspace(0.05, 5, 80)
    cover = np.array([exact_coverage(n, ratios) for n in (2, 3, 5, 8, 10, 15, 20, 30, 40, 60, 80)])
    assert cover.min() >= 0.93
    assert cover.mean() <= 0.98


@pytest.mark.slow
@pytest.mark.parametrize("dated", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("gaps", ["exponential", "lognormal"])
def test_coverage_on_irregular_visits(dated, gaps):
    """Simulated: 20,000 histories put the standard error at 0.0015, so 0.93 is asked at 3 sigma."""
    rng = np.random.default_rng([int(2 * dated), len(gaps)])
    found = []
    for n in (3, 10, 40):
        for ratio in (0.1, 0.5, 1.0, 3.0):
            shape = (20_000, n)
            gap = (
                rng.exponential(1, shape)
                if gaps == "exponential"
                else rng.lognormal(-0.7, 1.2, shape)
            )
            back = rng.exponential(1 / ratio, shape)
            ages = np.where(rng.random(shape) < dated, np.minimum(back, gap), np.nan)
            _, low, high = solve(Evidence.from_gaps(gap, back < gap, ages), 0.95, fast=True)
            found.append(((low <= ratio) & (ratio <= high)).mean())
    assert min(found) >= 0.93 - 3 * 0.0018
    assert np.mean(found) <= 0.98


def test_one_sided_bounds_are_exact():
    low, high = confidence_bounds(Evidence.from_gaps([2.0, 3.0], [False, False]), 0.9)
    assert (low[0], high[0]) == (0, pytest.approx(-np.log(0.05) / 5))
    low, high = confidence_bounds(Evidence.from_gaps([2.0, 3.0], [True, True]), 0.9)
    assert np.isinf(high[0])
    assert -np.expm1(-2 * low[0]) * -np.expm1(-3 * low[0]) == pytest.approx(0.05)


@given(histories)
def test_more_confidence_is_wider(history):
    evidence = evidence_of(history)
    (_, low90, high90), (_, low99, high99) = (solve(evidence, c, fast=True) for c in (0.9, 0.99))
    assert low99[0] <= low90[0] * (1 + 1e-9)
    assert high99[0] >= high90[0] * (1 - 1e-9)


# -- the front door ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small():
    from observant.testing import synthetic_visits

    return synthetic_visits(300, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_contract_of_every_method(method, small):
    """Found by discovery, so that a new method is tested on the day it is added."""
    log, _ = small
    table = estimate_rates(log, method)
    assert table.to_arrow().column_names == list(table.columns)
    assert len(table) == len(log.sources)
    assert (table.changes <= table.visits).all()
    known = table.evidence_code != EVIDENCE.index("too-few")
    rate_given = table.rate_per_day[known]
    if not method.startswith("last-modified"):
        assert not np.isnan(rate_given).any()
    assert (table.rate_low <= table.rate_high).all()
    assert set(table.evidence) <= set(EVIDENCE)
    assert str(table).splitlines()[0].startswith("source")
    row = next(table.rows())
    assert list(row) == list(table.columns)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_rows_in_any_order_give_the_same(method, small):
    log, _ = small
    table = log.to_arrow()
    shuffled = table.take(np.random.default_rng(0).permutation(len(table)))
    one = estimate_rates(VisitLog.from_arrow(table), method)
    other = estimate_rates(VisitLog.from_arrow(shuffled), method)
    one, other = one.to_arrow(), other.to_arrow()
    # Equal to the bit, as text, so that NaN equals NaN.
    assert one.to_pylist().__repr__() == other.to_pylist().__repr__()


@pytest.mark.slow
def test_threads_and_blocks_do_not_matter(small, monkeypatch):
    log, _ = small
    whole = estimate_rates(log, threads=1).to_arrow()
    blocks = rates_module.blocks_of_sources
    monkeypatch.setattr(rates_module, "blocks_of_sources", lambda o, **_: blocks(o, rows=100))
    again = estimate_rates(log, threads=3).to_arrow()
    for name in whole.column_names:
        one, other = whole[name].to_numpy(), again[name].to_numpy()
        if one.dtype.kind == "f":
            np.testing.assert_allclose(other, one, rtol=1e-11)
        else:
            assert (one == other).all()


def test_failed_visits_observe_nothing():
    log = log_of([0, 1, 2, 3], [None, None, True, False], status=[200, 503, 200, 404])
    table = estimate_rates(log)
    assert (table.visits[0], table.changes[0], table.exposure_days[0]) == (2, 1, 2.0)


def test_unknown_outcome_ends_a_gap_that_says_nothing():
    log = log_of([0, 1, 3], [None, None, True])
    table = estimate_rates(log)
    assert (table.visits[0], table.exposure_days[0]) == (3, 2.0)


def test_labels_of_evidence():
    log = VisitLog.from_columns(
        source=list("aabbcdd"),
        time=[0, 1, 0, 1, 0, 0, 2],
        changed=[None, True, None, False, None, None, True],
        last_modified=[None] * 6 + [1],
        time_unit="d",
    )
    table = estimate_rates(log)
    assert table.evidence.tolist() == ["always-changed", "never-changed", "too-few", "ok"]
    assert np.isnan(table.rate_per_day[2])
    assert list(table.rows())[2]["rate_per_day"] is None


def test_conflicting_dates_are_counted():
    log = log_of([0, 10, 20], [None, True, True], [None, 5, 5])
    table = estimate_rates(log)
    assert "the dates of 1 change" in " ".join(table.notes)


def test_summary(small):
    log, truth = small
    summary = estimate_rates(log).summary()
    assert summary["sources"] == 300
    counted = sum(summary[key] for key in ("ok", "never_changed", "always_changed", "too_few"))
    assert counted == 300
    assert summary["median_rate_low"] < np.median(truth) < summary["median_rate_high"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "guess"}, "unknown method"),
        ({"confidence": 1.0}, "between 0 and 1"),
        ({"zero_truncated": True}, "pooled"),
    ],
)
def test_silly_options(options, message):
    with pytest.raises(InputError, match=message):
        estimate_rates(regular(3, 1), **options)


def test_arrow_consumers(small):
    import duckdb
    import pandas as pd
    import polars as pl

    log, _ = small
    table = estimate_rates(log)
    assert pl.DataFrame(table).height == 300
    arrow = table.to_arrow()
    if hasattr(pd.DataFrame, "from_arrow"):  # from pandas 3 on
        assert len(pd.DataFrame.from_arrow(table)) == 300
    assert len(arrow.to_pandas()) == 300
    assert duckdb.sql("select count(*) from arrow").fetchall() == [(300,)]
    assert arrow.num_rows == 300


@pytest.mark.parametrize("method", ["last-modified", "last-modified-raw"])
def test_one_visit_has_no_rate_by_dates_either(method):
    log = VisitLog.from_columns(
        source=["one", "two", "two"], time=[5, 0, 5], last_modified=[3, 0, 4], time_unit="d"
    )
    once, twice = estimate_rates(log, method).rate_per_day
    assert np.isnan(once)
    assert np.isfinite(twice)
