"""What every answer can do, and what the front takes: text units, old names, wrong types."""

import sys

import numpy as np
import pytest

import observant
from observant import estimate_drift, estimate_rates, estimate_windows, plan, simulate
from observant.errors import ExtraError, InputError
from observant.processes import Poisson
from observant.simulation.traces import Trace
from observant.tables import Drawn, Table
from observant.testing import synthetic_visits

LOG, TRUTH = synthetic_visits(sources=60, seed=3)
TRACE = Trace.sample(Poisson(1.0), np.geomspace(0.05, 1.0, 20), horizon=60, seed=1)


def answers():
    log = LOG
    windows = estimate_windows(log)
    return {
        "rates": estimate_rates(log),
        "drift": estimate_drift(log),
        "path": estimate_drift(log).path(str(log.sources[0])),
        "windows": windows,
        "plan": plan([0.1, 1.0, "1/2d"], budget="2/day", grace="6h"),
        "overdue": observant.overdue(log),
        "seasons": observant.estimate_seasons(log),
        "classes": observant.classify(log, {"daily": "1/d", "monthly": "1/30d"}),
        "simulation": simulate(TRACE, budget="0.2/source/day", jobs=1),
    }


@pytest.fixture(scope="module")
def made():
    return answers()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["rates", "drift", "path", "windows", "plan", "overdue", "seasons", "classes", "simulation"],
)
def test_an_answer_travels_and_shows_itself(made, name):
    answer = made[name]
    assert isinstance(answer, Table)
    arrow = answer.to_arrow()
    assert arrow.num_rows == len(answer) > 0
    assert list(answer.to_pandas().columns) == arrow.column_names
    assert answer.to_polars().columns == arrow.column_names
    page = answer._repr_html_()
    assert page.count("<tr>") == min(len(answer), 10) + 1
    assert ("more</p>" in page) == (len(answer) > 10)
    assert isinstance(answer.summary(), dict)
    if answer.figure:
        assert "$schema" in answer.plot().to_dict()
    else:
        with pytest.raises(InputError, match="no figure"):
            answer.plot()


def test_a_log_travels_too():
    arrow = LOG.to_arrow()
    assert list(LOG.to_pandas().columns) == arrow.column_names
    assert LOG.to_polars().height == arrow.num_rows == len(LOG)


def test_the_currency_of_a_table_of_rates_is_that_of_its_rates():
    rates = estimate_rates(LOG)
    found = observant.currency_of(rates, "1d", "6h")
    np.testing.assert_array_equal(found, observant.currency_of(rates.rate_per_day, 1.0, 0.25))


def test_what_strangers_wrote_is_text_in_a_notebook():
    log = observant.VisitLog.from_columns(["<script>"] * 3, [0, 1, 2], [None, 1, 0], time_unit="d")
    page = estimate_rates(log)._repr_html_()
    assert "&lt;script&gt;" in page
    assert "<script>" not in page


def test_every_figure_is_there():
    """A figure is named by a text, since it is in a higher layer."""
    from observant.estimation import population, season  # noqa: F401 (they have some)
    from observant.plugins import load

    def below(kind):
        return [kind, *(found for inner in kind.__subclasses__() for found in below(inner))]

    figures = {kind.figure for kind in (*below(Drawn), *below(Table))} - {""}
    assert len(figures) >= 8
    assert all(callable(load(figure)) for figure in figures)


def test_a_summary_is_of_the_numbers():
    table = observant.classify(LOG, {"daily": "1/d", "monthly": "1/30d"})
    found, arrow = table.summary(), table.to_arrow()
    assert found.pop("rows") == len(table)
    assert found
    for name, numbers in found.items():
        assert numbers["median"] == pytest.approx(np.median(arrow[name]))


def test_units_are_text_or_numbers_everywhere():
    text = plan(["1/7d", "2/d"], budget="1/day", grace="6h", min_period="1h", max_period="30d")
    plain = plan([1 / 7, 2.0], budget=1.0, grace=0.25, min_period=1 / 24, max_period=30.0)
    assert text.visits_per_day.tolist() == plain.visits_per_day.tolist()
    assert observant.currency_of("1/7d", "1d", "6h") == observant.currency_of(1 / 7, 1.0, 0.25)
    assert observant.required_period("1/7d", target=0.9, grace="1h") == pytest.approx(
        observant.required_period(1 / 7, target=0.9, grace=1 / 24)
    )


@pytest.mark.parametrize("old", observant._RENAMED)
def test_old_names_work_for_a_release(old):
    new = observant._RENAMED[old]
    with pytest.warns(DeprecationWarning, match=f"observant.{old} is observant.{new} now"):
        assert getattr(observant, old) is getattr(observant, new)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: simulate(TRACE, budget=1.0, seeds=3), "seeds are a list"),
        (lambda: simulate(TRACE, "uniform", budget=1.0), "a list of policies"),
        (lambda: simulate([1, 2], budget=1.0), "give a trace"),
        (lambda: simulate(TRACE, budget="often"), "not a budget"),
        (lambda: plan([1.0], budget="often"), "not a budget"),
        (lambda: plan([1.0], budget=1.0, grace="soon"), "duration"),
        (lambda: observant.currency_of("1/7d", "never"), "duration"),
        (lambda: estimate_rates([1, 2, 3]), "visit log"),
        (lambda: observant.estimate_intervals([1, 2, 3]), "visit log"),
        (lambda: estimate_drift([1, 2, 3]), "visit log"),
        (lambda: observant.estimate_seasons([1, 2, 3]), "visit log"),
        (lambda: observant.overdue([1, 2, 3]), "visit log"),
        (lambda: observant.classify("visits.csv", {}), "visit log"),
    ],
)
def test_wrong_types_are_told(call, said):
    with pytest.raises(InputError, match=said):
        call()


def test_a_data_frame_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ExtraError, match="pip install polars"):
        estimate_rates(LOG).to_polars()
