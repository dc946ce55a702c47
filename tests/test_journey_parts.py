"""What the journeys of the crawl engineer and of the archivist needed: updates behind visits, plans
from visits, paces, the currency of a collection."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from observant import VisitLog, estimate_rates, read_visits, write_table
from observant.cli import cli
from observant.currency import RateMixture, collection_currency, currency, hidden_share
from observant.errors import InputError, UnitError
from observant.planning import plan
from observant.planning.inputs import known_rates
from observant.simulation.traces import read_trace, trace_of_visits
from observant.units import parse_budget


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Visits to 80 pages on four hosts, and their rates."""
    place = tmp_path_factory.mktemp("parts")
    rng = np.random.default_rng(5)
    sources, visits, gap = 80, 12, 10.0
    rate = np.repeat(np.exp(rng.normal(np.log(0.03), 1.5, sources)), visits)
    changed = rng.random(sources * visits) < -np.expm1(-rate * gap)
    log = VisitLog.from_columns(
        [f"https://h{i % 4}.example/{i:02}" for i in range(sources) for _ in range(visits)],
        np.tile(20_000 + gap * np.arange(visits), sources),
        [None if k % visits == 0 else bool(c) for k, c in enumerate(changed)],
        time_unit="d",
    )
    write_table(log, place / "visits.parquet")
    write_table(estimate_rates(log, "pooled"), place / "rates.parquet")
    return place


def run(*words, ok=True):
    from observant.errors import ObservantError

    result = CliRunner().invoke(cli, list(map(str, words)))
    if ok:
        assert result.exit_code == 0, (result.output, result.exception)
        return result.output
    assert result.exit_code != 0
    return str(result.exception) if isinstance(result.exception, ObservantError) else result.output


# -- updates behind visits ------------------------------------------------------------------------


def test_hidden_updates_agree_with_every_visit_and_with_the_rates():
    rng = np.random.default_rng(1)
    sources, visits, gap, rate = 400, 26, 2.0, 0.8
    changed = rng.random((sources, visits)) < -np.expm1(-rate * gap)
    log = VisitLog.from_columns(
        np.repeat([f"{i:03}" for i in range(sources)], visits).tolist(),
        np.tile(gap * np.arange(visits), sources),
        [None if k % visits == 0 else bool(c) for k, c in enumerate(changed.ravel())],
        time_unit="d",
    )
    trace = trace_of_visits(log, rates=np.full(sources, rate), seed=3)
    cell = (trace.updates.times // gap).astype(int)
    counts = np.zeros((sources, visits - 1), int)
    np.add.at(counts, (trace.updates.sources, cell), 1)
    assert np.array_equal(counts > 0, changed[:, 1:])  # in accord with all visits
    # Drawn back, the whole is Poisson again: λ·gap a gap, with 4 standard errors of room.
    assert counts.mean() == pytest.approx(rate * gap, abs=4 * np.sqrt(rate * gap / counts.size))
    assert counts.var() == pytest.approx(rate * gap, rel=0.1)
    into = trace.updates.times - gap * cell
    assert into.mean() == pytest.approx(gap / 2, abs=4 * gap / np.sqrt(12 * into.size))
    again = trace_of_visits(log, rates=np.full(sources, rate), seed=3)
    assert np.array_equal(again.updates.times, trace.updates.times)


def test_a_date_of_modification_is_the_last_update():
    log = VisitLog.from_columns(
        source=["a"] * 3,
        time=[0.0, 10.0, 20.0],
        last_modified=[None, 7.0, 18.0],
        time_unit="d",
    )
    times = trace_of_visits(log, rates=[1.0], seed=1).updates.times
    assert {7.0, 18.0} <= set(times)
    assert not ((times > 7.0) & (times < 10.0)).any()
    assert len(times) > 4  # ten before each date, on average
    assert trace_of_visits(log).updates.times.tolist() == [7.0, 18.0]


def test_traces_of_visits_refuse_what_they_cannot_use():
    log = VisitLog.from_columns(["a", "b"], [0.0, 1.0], [None, None], time_unit="d")
    with pytest.raises(InputError, match="1 rates for 2 sources"):
        trace_of_visits(log, rates=[1.0])
    failed = VisitLog.from_columns(["a"], [0.0], [None], status=[500], time_unit="d")
    with pytest.raises(InputError, match="no visits that succeeded"):
        trace_of_visits(failed)


def test_a_trace_of_visits_on_the_command_line(folder):
    made = folder / "history.parquet"
    told = run("study", "trace", "visits", folder / "visits.parquet", "-o", made)
    assert "80 sources" in told
    assert "observant simulate --budget 8.727/day" in told  # 960 visits in 110 days
    seen = read_trace(made)
    run("study", "trace", "visits", folder / "visits.parquet", "--hidden", "-o", made)
    assert len(read_trace(made).updates.times) > len(seen.updates.times)
    few = json.loads(
        run(
            "study",
            "trace",
            "visits",
            folder / "visits.parquet",
            "--sources",
            9,
            "-o",
            made,
            "--json",
        )
    )
    assert few["sources"] == len(read_trace(made)) == 9


# -- how much is missed ---------------------------------------------------------------------------


def test_the_share_of_hidden_updates_is_what_a_simulation_counts():
    rng = np.random.default_rng(2)
    rate, period, periods = 0.3, 5.0, 200_000
    updates = rng.poisson(rate * period, periods)
    hidden = 1 - np.count_nonzero(updates) / updates.sum()
    assert hidden_share(rate, period) == pytest.approx(hidden, abs=0.004)
    assert hidden_share([0.0, 0.3], period)[0] == 0.0
    assert hidden_share(1e-12, period) == pytest.approx(0.0, abs=1e-9)


@given(st.lists(st.floats(1e-4, 10), min_size=1, max_size=5), st.floats(0.1, 100))
def test_of_a_collection_updates_are_counted_not_sources(rates, period):
    found = -np.expm1(-np.array(rates) * period).sum()
    expected = 1 - found / (np.array(rates) * period).sum()
    assert hidden_share(RateMixture(rates), period) == pytest.approx(expected, abs=1e-9)


def test_the_currency_of_a_file_of_rates(folder):
    rates = folder / "rates.parquet"
    answer = json.loads(
        run("currency", "--rates", rates, "--period", "10d", "--grace", "2d", "--json")
    )
    table = estimate_rates(read_visits(folder / "visits.parquet"), "pooled")
    each = known_rates(table.rate_ahead, table.rate_mean)  # averaged over what is known of a rate
    assert answer["alpha"] == pytest.approx(float(collection_currency(each, 10.0, grace=2.0)))
    assert (answer["sources"], answer["pages_per_day"]) == (80, 8.0)
    text = run("currency", "--rates", rates, "--target", "0.9", "--page-size", "10kB")
    assert "wanted currency" in text
    assert "bandwidth" in text
    assert "one of --rate, --weibull, --rates" in run(
        "currency", "--rates", rates, "--rate", "1", "--period", "1d", ok=False
    )


# -- plans ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_plan_from_visits_takes_all_that_is_known(folder):
    visits, rates = folder / "visits.parquet", folder / "rates.parquet"
    wanted = ("--target", "0.9", "--objective", "currency", "--grace", "2d")
    known = estimate_rates(read_visits(visits), "pooled")
    best = plan(known, target=0.9, objective="currency", grace=2.0)
    answer = json.loads(run("plan", visits, *wanted, "--json"))
    assert answer["budget_per_day"] == pytest.approx(best.budget)
    assert "all that the visits tell" in answer["notes"][-1]
    plain = json.loads(run("plan", rates, *wanted, "--json"))
    assert plain["budget_per_day"] != pytest.approx(best.budget, rel=1e-3)
    capped = run("plan", visits, "--budget", "20/day", "--host-cap", "1/day")
    assert "host h0.example is at its cap" in capped
    assert "has no importance" in run("plan", visits, *wanted, "--importance", "pages", ok=False)


def test_rounded_periods_are_told_for_what_they_achieve():
    rates = np.array([0.02, 0.1, 0.5, 3.0])
    best = plan(rates, budget=1.0, grace=1.0, objective="currency", importance=[1, 1, 2, 1])
    moved = best.rounded([14, 1, 7])
    for before, after in zip(best.period_days, moved.period_days, strict=True):
        distances = {pace: abs(np.log(pace / before)) for pace in (1.0, 7.0, 14.0)}
        assert after == (np.inf if np.isinf(before) else min(distances, key=distances.get))
    alpha = currency(rates, moved.period_days, 1.0)
    np.testing.assert_allclose(moved.alpha, alpha)
    assert moved.collection_alpha == pytest.approx(np.average(alpha, weights=[1, 1, 2, 1]))
    assert moved.spent == moved.budget == pytest.approx((1 / moved.period_days).sum())
    assert "not 1" in moved.notes[-1]
    starved = plan([1, 2, 3, 4, 5], budget=5).rounded([1.0])
    assert starved.period_days.tolist() == [1.0, 1.0, 1.0, 1.0, np.inf]
    for paces in ([], [0.0], [np.inf]):
        with pytest.raises(InputError, match="paces"):
            best.rounded(paces)


def test_every_pace_has_a_seed_list_of_its_own(folder, tmp_path):
    rates, seeds = folder / "rates.parquet", tmp_path / "seeds.txt"
    words = ("plan", rates, "--budget", "8/day", "--paces", "1w,4w", "--max-period", "60d")
    told = run(*words, "--seeds", "plain", "-o", seeds)
    assert "nearest of 7d, 28d" in told
    lists = {path.name: path.read_text().split() for path in tmp_path.iterdir()}
    assert set(lists) == {"seeds-7d.txt", "seeds-28d.txt"}
    assert all(str(tmp_path / name) in told for name in lists)
    answer = json.loads(run(*words, "--json"))
    for name, urls in lists.items():
        pace = float(name.removeprefix("seeds-").removesuffix("d.txt"))
        assert sorted(urls) == sorted(
            row["source"] for row in answer["sources"] if row["period_days"] == pace
        )
    assert "memory" in run(*words, "--engine", "disk", ok=False)


# -- what annoyed ---------------------------------------------------------------------------------


def test_an_import_blames_what_it_read_not_what_it_writes(tmp_path):
    line = 'org,example)/ {} {{"url": "https://example.org/", "digest": "{}"}}\n'
    index = tmp_path / "index.cdxj"
    index.write_text(line.format(20260101, "A" * 32) + line.format("soon", "A" * 32))
    told = run("import", index, "--on-bad", "fail", "-o", tmp_path / "out.parquet", ok=False)
    assert told.startswith(f"{index}, row 2")
    days = (line.format(20260101 + day, f"{day:032}") for day in range(28))
    index.write_text("".join(days))
    told = run("import", index, "-o", tmp_path / "out.parquet", ok=False)
    assert "--accept complete" in told
    assert "out.parquet" not in told
    assert not (tmp_path / "out.parquet").exists()


def test_visits_are_not_taken_for_updates(folder):
    told = run("simulate", folder / "visits.parquet", "--budget", "10/day", ok=False)
    assert (
        "is a log of visits, not of updates; make a trace: `observant study trace visits`" in told
    )
    told = run("currency", "--rates", folder / "visits.parquet", "--period", "1d", ok=False)
    assert "`observant estimate -o` makes a table of rates" in told


def test_what_is_no_budget_is_called_so():
    with pytest.raises(UnitError, match="not a budget: 'many'; write for example 1000/day"):
        parse_budget("many")


def test_without_dates_nothing_is_said_of_ages():
    from observant.estimation.population import describe

    undated = VisitLog.from_columns(["a"] * 7, range(7), [None, 1, 0, 1, 0, 0, 1], time_unit="d")
    assert "age at the first visit" not in str(describe(undated))
    assert "?" not in str(describe(undated))
