"""The two figures that lead a comparison of policies: relative staleness and visits saved."""

import math

import numpy as np
import pytest

from observant import simulate
from observant.processes import Poisson
from observant.simulation.comparison import results_of
from observant.simulation.traces import Trace


@pytest.fixture(scope="module")
def answer():
    rates = [0.02] * 60 + [0.2] * 60
    trace = Trace.sample(Poisson(1.0), rates=rates, horizon=365, seed=1)
    return simulate(trace, ["square_root"], budget=12.0, seeds=(1, 2), visits_saved=True, jobs=1)


@pytest.mark.slow
def test_relative_staleness_is_what_is_stale_over_what_uniform_has(answer):
    for result in answer.results:
        wanted = [
            (1 - own.summary()["freshness"]) / (1 - even.summary()["freshness"])
            for own, even in zip(result.scores, answer["uniform"].scores, strict=True)
        ]
        assert result.relative_staleness == pytest.approx(np.mean(wanted))
        assert result.row()["relative_staleness"] == result.relative_staleness
    assert answer["uniform"].relative_staleness == 1.0
    assert answer["clairvoyant"].relative_staleness < 1.0


def test_visits_saved_is_the_budget_of_uniform_that_is_as_good(answer):
    assert answer["uniform"].visits_saved == pytest.approx(1.0)
    saved = answer["clairvoyant"].visits_saved
    assert saved > 1.0
    trace = Trace.sample(Poisson(1.0), rates=[0.02] * 60 + [0.2] * 60, horizon=365, seed=1)
    more = simulate(trace, budget=12.0 * saved, seeds=(1, 2), jobs=1)["uniform"]
    wanted = answer["clairvoyant"].metrics["freshness"]
    assert more.metrics["freshness"] == pytest.approx(wanted, abs=0.004)
    assert math.isfinite(answer["clairvoyant"].visits_saved_error)


def test_no_gap_where_the_clairvoyant_is_below_uniform(answer):
    swapped = {
        "uniform": list(answer["clairvoyant"].scores),
        "square_root": list(answer["square_root"].scores),
        "clairvoyant": list(answer["uniform"].scores),
    }
    for result in results_of(swapped, "freshness", 0.0):
        assert math.isnan(result.gap_closed)
        assert math.isfinite(result.relative_staleness)
