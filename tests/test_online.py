"""One visit at a time gives the same as all at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from observant import OnlineRate, VisitLog, estimate_rates
from observant.errors import InputError
from observant.estimation.classes import OnlineClasses, classify
from observant.estimation.online import TOLERANCE

METHODS = ["naive", "improved", "bayes-beta", "last-modified", "last-modified-raw"]
visits = st.lists(
    st.tuples(st.floats(0.01, 100), st.booleans(), st.one_of(st.none(), st.floats(0.01, 0.9))),
    min_size=1,
    max_size=60,
)


def both_ways(method, history):
    times = np.concatenate([[1.0], 1.0 + np.cumsum([gap for gap, _, _ in history])])
    times = np.round(times * 86400e6) / 86400e6
    changed = [None, *(c for _, c, _ in history)]
    modified = [None] * len(times)
    online = OnlineRate(method)
    online.visit(times[0], None)
    last = None
    for i, (_, change, share) in enumerate(history, start=1):
        age = None
        if share is not None:
            # The date of an unchanged visit is some time before the visit before.
            gap = times[i] - times[i - 1]
            last = times[i] - share * gap if change else times[i - 1] - 0.5
            modified[i] = last
            age = times[i] - last
        online.visit(times[i], change, age)
    log = VisitLog.from_columns(["p"] * len(times), times, changed, modified, time_unit="d")
    return online.estimate(), next(estimate_rates(log, method).rows())


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@given(history=visits)
def test_exact_where_counts_are_enough(method, history):
    online, batch = both_ways(method, history)
    expected = np.nan if batch["rate_per_day"] is None else batch["rate_per_day"]
    assert online.rate_per_day == pytest.approx(expected, rel=1e-6, nan_ok=True)
    assert (online.visits, online.changes) == (batch["visits"], batch["changes"])
    assert online.evidence == batch["evidence"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mle", "bias-reduced"])
@given(history=visits)
def test_within_tolerance_where_every_gap_counts(method, history):
    online, batch = both_ways(method, history)
    expected = np.inf if batch["rate_per_day"] is None else batch["rate_per_day"]
    assert online.rate_per_day == pytest.approx(expected, rel=TOLERANCE)


def test_regular_visits_lose_nothing():
    online, batch = both_ways("bias-reduced", [(1.0, i % 3 == 0, None) for i in range(1000)])
    assert online.rate_per_day == pytest.approx(batch["rate_per_day"], rel=1e-9)
    assert online.rate_low == pytest.approx(batch["rate_low"], rel=1e-6)


def test_memory_is_constant():
    rng = np.random.default_rng(0)
    page, time = OnlineRate(), 0.0
    for gap in rng.uniform(0.5, 2.0, 5000):
        time += gap
        page.visit(time, bool(rng.random() < 0.5))
    assert len(page._bins) <= 2 * 33


def test_refuses_time_running_backwards():
    page = OnlineRate()
    page.visit(2.0, None)
    with pytest.raises(InputError, match="order of time"):
        page.visit(1.0, True)
    with pytest.raises(InputError, match="no online form"):
        OnlineRate("pooled")


def test_classes_visit_by_visit():
    classes = {"weekly": "1/7d", "monthly": "1/30d"}
    gaps, changed = [7.0, 3.0, 30.0], [False, True, True]
    online = OnlineClasses(classes)
    for gap, change in zip(gaps, changed, strict=True):
        online.visit(gap, change)
    times = np.concatenate([[0], np.cumsum(gaps)])
    log = VisitLog.from_columns(["p"] * 4, times, [None, *changed], time_unit="d")
    batch = classify(log, classes, prior="equal").probability[0]
    np.testing.assert_allclose(list(online.probabilities().values()), batch)
