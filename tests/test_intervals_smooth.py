"""F from constant gaps by smoothing (Li, V.A)."""

import numpy as np
import pytest

from observant import VisitLog
from observant.errors import EstimationError
from observant.estimation.intervals import estimate_intervals
from observant.papers.li.simulated import sample_visits
from observant.processes import Exponential, Gamma, Pareto


def constant(source, gap, visits, seed):
    seen = sample_visits(visits * gap, np.random.default_rng(seed), gap, source)
    outcomes = [None, *seen.changed[1:].tolist()]
    return VisitLog.from_columns(["a"] * len(outcomes), seen.times, outcomes, time_unit="d")


@pytest.mark.parametrize("gap", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("source", [Pareto(3.0, 1.0), Exponential(2.0)], ids=["pareto", "poisson"])
def test_the_distribution_between_the_visits(source, gap):
    """Mean intervals of half a day, visits up to a day apart: the mean to 15 %, F to 0.07."""
    found = estimate_intervals(constant(source, gap, 20_000, 1), method="smooth", bands=0)
    x = gap * np.linspace(0.1, 10, 200)
    assert found.identified
    assert abs(found.mean / 0.5 - 1) < 0.15
    assert np.abs(found.interval_cdf(x) - source.interval_cdf(x)).max() < 0.07
    assert np.abs(found.age_cdf(x) - source.age_cdf(x)).max() < 0.03
    assert any("a guess" in note for note in found.notes)
    plain = estimate_intervals(constant(source, gap, 20_000, 1), method="m4", bands=0)
    assert not plain.identified


def test_a_regular_source_is_not_described():
    """Its G has a corner that no mixture has; the ages between are still near."""
    source = Gamma.with_mean(2.0, 16.0)
    found = estimate_intervals(constant(source, 0.5, 10_000, 2), method="smooth", bands=0)
    x = np.linspace(0.5, 4, 8)
    assert np.abs(found.interval_cdf(x) - source.interval_cdf(x)).max() > 0.2


def test_too_few_points_are_told():
    log = VisitLog.from_columns(["a"] * 8, range(8), [None, 1, 0, 1, 1, 0, 1, 1], time_unit="d")
    with pytest.raises(EstimationError, match="too few to smooth"):
        estimate_intervals(log, method="smooth", bands=0)
