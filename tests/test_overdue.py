"""Has it changed by now, what is overdue, and are such predictions right?"""

import datetime as dt
import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

from observant import VisitLog
from observant.errors import EstimationError, InputError
from observant.estimation.drift import estimate_drift, prequential
from observant.estimation.drift.experts import restart_prior
from observant.estimation.overdue import change_probability, overdue
from observant.estimation.priors import Prior
from observant.figures.drift import rate_path_figure, reliability_figure

GRID = 2.0 ** np.arange(-6, 4, 0.5)
PRIOR = Prior(rates=GRID, weights=np.exp(-0.5 * np.log(GRID / 0.3) ** 2))
PRIOR = Prior(rates=GRID, weights=PRIOR.weights / PRIOR.weights.sum())
DAY = 86_400_000_000


def simulated(sources, visits, *, hazard=0.0, seed=0):
    """Sources whose rates are drawn from `PRIOR`, and anew with probability `hazard` a visit."""
    rng = np.random.default_rng(seed)
    fresh = restart_prior(PRIOR.weights[None], GRID)[0]
    rates = np.empty((sources, visits))
    rates[:, 0] = rng.choice(GRID, sources, p=PRIOR.weights)
    for j in range(1, visits):
        anew = rng.random(sources) < hazard
        rates[:, j] = np.where(anew, rng.choice(GRID, sources, p=fresh), rates[:, j - 1])
    gaps = rng.exponential(2.0, rates.shape) + 1e-3
    changed = rng.random(rates.shape) < -np.expm1(-rates * gaps)
    return log_of(gaps, changed), rates


def log_of(gaps, changed):
    n, visits = gaps.shape
    times = 20_000 + np.hstack([np.zeros((n, 1)), np.cumsum(gaps, axis=1)])
    seen = np.hstack([np.full((n, 1), None), changed])
    names = np.repeat(np.char.mod("s%05d", np.arange(n)), visits + 1)
    return VisitLog.from_columns(names, times.ravel(), seen.ravel(), time_unit="d")


# -- predictions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "hazard"), [("constant", 0.0), ("changepoints", 0.05)])
def test_predictions_are_calibrated_where_the_model_is_true(method, hazard):
    """Sum of squared standard errors over the bins: χ² with as many degrees of freedom.

    Given the past, outcomes are independent with the predicted probabilities, so the excess of
    changes in a bin is a martingale with variance Σ p(1 − p).
    """
    log, _ = simulated(400, 40, hazard=hazard, seed=1)
    settings = {"hazards": hazard} if hazard else {}
    told = prequential(log, method, prior=PRIOR, **settings)
    p = told.probability
    place = np.minimum((10 * p).astype(int), 9)
    excess = np.bincount(place, told.changed - p, 10)
    variance = np.bincount(place, p * (1 - p), 10)
    chi2 = float(np.sum(excess[variance > 20] ** 2 / variance[variance > 20]))
    assert np.count_nonzero(variance > 20) >= 8
    assert chi2 < 29.6  # 0.999 quantile of χ² with ten degrees of freedom


def test_the_wrong_model_is_found_out():
    log, _ = simulated(400, 40, hazard=0.05, seed=1)
    constant, right = (prequential(log, m, prior=PRIOR) for m in ("constant", "changepoints"))
    gain, spread = right.gain_over(constant)
    assert gain > 4 * spread > 0
    assert right.brier < constant.brier
    assert right.calibration().error < constant.calibration().error


def test_losses_add_up_to_the_score():
    log, _ = simulated(50, 20, hazard=0.05, seed=2)
    table = estimate_drift(log, prior=PRIOR)
    told = prequential(table)
    assert told.losses.sum() == pytest.approx(-table.score.sum(), rel=1e-9)
    assert told.log_loss == pytest.approx(told.losses.mean())
    assert len(told) == 50 * 20
    assert told.source[20].as_py() == "s00001"


def test_drift_costs_nothing_where_there_is_none():
    """On constant rates the mixture loses less than 0.001 a visit to the constant rate."""
    log, _ = simulated(400, 40, seed=3)
    constant, auto = (prequential(log, method, prior=PRIOR) for method in ("constant", "auto"))
    assert auto.gain_over(constant)[0] > -0.001


def test_bins_are_told_with_their_interval():
    log, _ = simulated(50, 20, seed=2)
    told = prequential(log, "constant", prior=PRIOR).calibration(4)
    assert told.visits.sum() == 1000
    assert (told.predicted_low <= told.predicted).all()
    assert (told.predicted <= told.predicted_high).all()
    # Wilson's interval for 10 of 100 is 5.52 % to 17.44 % (Agresti and Coull's table).
    ten = prequential(log, "constant", prior=PRIOR)
    object.__setattr__(ten, "probability", np.full(100, 0.1))
    object.__setattr__(ten, "changed", np.arange(100) < 10)
    one = ten.calibration(1)
    assert one.observed_low[0] == pytest.approx(0.0552, abs=5e-5)
    assert one.observed_high[0] == pytest.approx(0.1744, abs=5e-5)


@pytest.mark.parametrize("collection", ["docs-github", "lists-curated"])
def test_real_sources_are_foretold_better_with_drift(collection):
    """By more than two standard errors, learnt from other sources (the table in docs/drift.md)."""
    root = Path(__file__).parents[1]
    folder = Path(os.environ.get("OBSERVANT_TRACES", root.parent / "shared/data/traces"))
    if not (folder / f"{collection}.parquet").exists():
        pytest.skip("the real traces are not here: set OBSERVANT_TRACES to their folder")
    spec = importlib.util.spec_from_file_location("drifting", root / "benchmarks" / "drift.py")
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    log = benchmark.visit_traces(folder, collection, 200, seed=5)
    odd = np.arange(len(log.sources)) % 2 == 1
    teacher, pupil = log.select(~odd), log.select(odd)
    constant = estimate_drift(teacher, "constant")
    auto = estimate_drift(teacher, prior=constant.posterior.prior)
    told = [prequential(pupil, learnt=learnt) for learnt in (auto, constant)]
    gain, spread = told[0].gain_over(told[1])
    assert gain > 2 * spread > 0


# -- by now ---------------------------------------------------------------------------------------


def test_probability_by_now_is_its_formula():
    log = VisitLog.from_columns(
        ["a", "a", "a", "b"],
        [20_000, 20_001, 20_003, 20_002],
        [None, True, False, None],
        time_unit="d",
    )
    table = change_probability(log, 20_007 * 86_400, "constant", prior=PRIOR)
    p = PRIOR.weights * (1 - np.exp(-GRID)) * np.exp(-2 * GRID)
    p /= p.sum()
    a = p @ (1 - np.exp(-4 * GRID))
    b = PRIOR.weights @ (1 - np.exp(-5 * GRID))
    assert table.probability == pytest.approx([a, b], rel=1e-5)
    assert table.waited_days == pytest.approx([4, 5])
    assert table.quiet_days == pytest.approx([2, 0])
    assert table.silence_probability == pytest.approx([PRIOR.weights @ np.exp(-2 * GRID), 1])
    assert table.at == np.datetime64(20_007 * DAY, "us")


def test_the_moment_may_be_given_in_many_ways():
    log, _ = simulated(5, 5)
    table = estimate_drift(log, prior=PRIOR)
    when = dt.datetime(2025, 6, 1, tzinfo=dt.UTC)
    given = [when, "2025-06-01", when.timestamp(), np.datetime64("2025-06-01")]
    tables = [change_probability(table, at) for at in given]
    for other in tables[1:]:
        assert np.array_equal(other.probability, tables[0].probability)
    later = change_probability(table, "2026-06-01")
    assert (later.probability >= tables[0].probability).all()
    assert change_probability(table).at == log.time.max().view("M8[us]")


def test_probability_by_now_is_calibrated():
    """A further visit to each of 2,000 sources sees as many changes as expected, to 4 σ."""
    log, rates = simulated(2000, 15, hazard=0.02, seed=7)
    at = int(log.time.max()) / 1e6
    table = change_probability(log, at, "changepoints", prior=PRIOR)
    # What happens after the last visit: the rate is drawn anew with the same hazard, once.
    rng = np.random.default_rng(8)
    anew = rng.random(2000) < 0.02
    fresh = restart_prior(PRIOR.weights[None], GRID)[0]
    now = np.where(anew, rng.choice(GRID, 2000, p=fresh), rates[:, -1])
    changed = rng.random(2000) < -np.expm1(-now * table.waited_days)
    p = table.probability
    assert abs(np.sum(changed - p)) < 4 * np.sqrt(np.sum(p * (1 - p)))


def test_silence_of_a_constant_source_is_rarely_overdue():
    """At most a share ε of sources with constant rates is called silent, plus three σ."""
    log, _ = simulated(2000, 30, seed=4)
    table = change_probability(log, method="constant", prior=PRIOR)
    for epsilon in (0.01, 0.05, 0.2):
        share = np.mean(table.silence_probability < epsilon)
        assert share < epsilon + 3 * np.sqrt(epsilon / 2000)
        assert share > 0.4 * epsilon  # and it is no empty promise


def test_sources_that_die_are_found():
    rng = np.random.default_rng(5)
    rates = rng.choice(GRID[8:14], (200, 1))  # 0.25 to 1.4 a day
    gaps = rng.exponential(2.0, (200, 60)) + 1e-3
    changed = rng.random(gaps.shape) < -np.expm1(-rates * gaps)
    changed[:50, 30:] = False  # 60 days of silence
    table = overdue(log_of(gaps, changed))
    silent = [
        s for s, why in zip(table.source.to_pylist(), table.reason, strict=True) if why == "silent"
    ]
    dead = {f"s{i:05d}" for i in range(50)}
    assert len(dead & set(silent)) >= 45
    assert len(set(silent) - dead) <= 6  # of 150 at ε = 0.01
    assert (np.diff(table.probability) >= 0).all()
    assert "silent" in str(table)


def test_what_nobody_looked_at_is_overdue_too():
    log, _ = simulated(20, 20, seed=6)
    assert (overdue(log, "2036-01-01").reason == "unvisited").sum() > 10
    none = overdue(log.select(["s00000"]), epsilon=1e-9)
    assert len(none) == 0
    assert str(none) == "nothing is overdue"


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("2020-01-01", "the log holds visits after 2020-01-01"),
        ("soon", "soon"),
        (np.datetime64("NaT"), "the moment asked about is missing"),
    ],
)
def test_bad_moments_are_told(at, message):
    with pytest.raises(InputError, match=message):
        change_probability(simulated(3, 5)[0], at)


def test_bad_settings_are_told():
    log, _ = simulated(3, 5)
    with pytest.raises(InputError, match="epsilon lies between 0 and 1, not 2"):
        overdue(log, epsilon=2)
    with pytest.raises(InputError, match="at least one bin"):
        prequential(log).calibration(0)
    with pytest.raises(InputError, match="same visits"):
        prequential(log).gain_over(prequential(simulated(4, 5)[0]))
    with pytest.raises(InputError, match="unknown method"):
        prequential(log, "magic")
    empty = VisitLog.from_columns(["a", "b"], [0, 1], [None, None])
    with pytest.raises(EstimationError, match="no source has two visits"):
        prequential(empty, prior=PRIOR)


def test_a_source_never_seen_has_no_probability():
    log = VisitLog.from_columns(
        ["a", "a", "b"], [0, 1, 1], [None, True, None], status=[200, 200, 500], time_unit="d"
    )
    table = change_probability(log, prior=PRIOR)
    assert np.isnan(table.probability).tolist() == [False, True]
    assert table.notes[-1] == "1 source without a successful visit"
    assert [row["probability"] is None for row in table.rows()] == [False, True]
    assert len(overdue(log, "2100-01-01", prior=PRIOR)) == 1


@pytest.mark.slow
def test_figures_draw():
    log, _ = simulated(20, 30, hazard=0.05, seed=3)
    table = estimate_drift(log, prior=PRIOR)
    told = prequential(table)
    assert rate_path_figure(table.path("s00003")).to_dict()["vconcat"]
    drawn = reliability_figure({"auto": told, "constant": prequential(log, "constant")}).to_dict()
    assert len(drawn["vconcat"]) == 2
    assert reliability_figure(told).to_dict()["title"]
