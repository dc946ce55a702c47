"""`observant study trend` as people type it."""

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from click.testing import CliRunner

from observant.cli.trend import trend
from observant.errors import InputError, VisitLogError
from observant.estimation.windows import ESTIMATORS

BEGIN = datetime(2025, 10, 1, tzinfo=UTC)


def run(*arguments, **options):
    result = CliRunner().invoke(trend, list(map(str, arguments)), catch_exceptions=False, **options)
    assert result.exit_code == 0, result.output
    return result.output


def iso(day):
    return (BEGIN + timedelta(days=float(day))).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def updates(tmp_path):
    rng = np.random.default_rng(4)
    rows = ["source,time"]
    for name, before, after in (("news", 3.0, 0.4), ("archive", 2.0, 20.0)):
        gaps = np.concatenate([rng.exponential(before, 25), rng.exponential(after, 25)])
        rows += [f"{name},{iso(day)}" for day in np.cumsum(gaps)]
    path = tmp_path / "updates.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture
def visits(tmp_path):
    """S changes about every tenth day until the 90th, then nearly daily; T never does."""
    rng = np.random.default_rng(2)
    rows = ["source,time,changed"]
    for day in range(150):
        seen = "" if day == 0 else int(rng.random() < (0.1 if day < 90 else 0.7))
        rows += [f"S,{iso(day)},{seen}", f"T,{iso(day)},{'' if day == 0 else 0}"]
    path = tmp_path / "visits.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def test_updates_as_json(updates):
    answer = json.loads(run(updates, "--json"))
    news = [row for row in answer["windows"] if row["source"] == "news"]
    assert [row["window"] for row in news] == list(range(1, len(news) + 1))
    assert sum(row["points"] for row in news) == 49  # the first of 50 is where the count begins
    for row in answer["windows"]:
        assert row["state"] in {"increasing", "decreasing", "constant"}
        assert row["beta_low"] < row["beta"] < row["beta_high"]
        assert row["rate_low"] < row["rate_at_end"] < row["rate_high"]
        assert row["end"] <= row["next_low"] < row["predicted_next"] < row["next_high"]
    verdicts = {row["source"]: row["overall_trend"] for row in answer["sources"]}
    assert verdicts == {"archive": "falling", "news": "rising"}
    assert "drift" not in answer


def test_a_month_as_json(visits):
    answer = json.loads(run(visits, "--source", "S", "--window", "2026-01", "--json"))
    (row,) = answer["rates"]
    assert (row["source"], row["window"]) == ("S", "2026-01")
    assert (row["start"], row["end"]) == ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z")
    assert row["observed_days"] == 31
    assert row["rate_low"] < -np.log(0.3) < row["rate_high"]


def test_a_month_of_updates(updates):
    answer = json.loads(run(updates, "-w", "2025-11", "-w", "2025-12", "-s", "news", "--json"))
    assert [row["window"] for row in answer["rates"]] == ["2025-11", "2025-12"]
    assert [row["observed_days"] for row in answer["rates"]] == [30.0, 31.0]
    assert all(
        row["rate_per_day"] == row["changes"] / row["observed_days"] for row in answer["rates"]
    )
    assert any("first update to the last" in note for note in answer["notes"])


def test_visits_also_tell_the_rate_now(visits):
    answer = json.loads(run(visits, "--json"))
    assert {row["source"] for row in answer["windows"]} == {"S"}
    rows = {row["source"]: row for row in answer["drift"]}
    assert rows["S"]["rate_low"] < -np.log(0.3) < rows["S"]["rate_high"]
    assert any(row["source"] == "S" for row in answer["change_points"])
    assert {row["source"]: row["next_update"] is None for row in answer["sources"]} == {
        "S": False,
        "T": True,
    }
    without = json.loads(run(visits, "--json", "--no-drift", "--season", "weekday"))
    assert "drift" not in without
    assert len(without["season"]["weights"]) == 7
    assert "season by weekday" in run(visits, "--no-drift", "--season", "weekday")


def test_tables_for_people(updates, visits):
    many = run(updates)
    assert "1 rising, 1 falling, 0 without a clear trend" in many
    one = run(updates, "--source", "news", "--rows", 2)
    assert "whole history: the rate rises" in one
    assert "next update: 20" in one
    assert "earlier window" in one
    seen = run(visits, "--source", "S")
    assert "rate now, from the visits:" in seen
    assert "the rate changed about 2025-12" in seen
    month = run(visits, "--window", "*-01")
    assert "2026-01" in month
    assert "never-changed" in month
    quiet = run(visits, "--source", "T", "--no-drift")
    assert "no updates were seen" in quiet


def test_windows_can_be_cut_otherwise(updates):
    def windows(*options):
        return len(json.loads(run(updates, "--json", *options))["windows"])

    usual = windows()
    assert windows("--threshold", 0) > usual
    assert windows("--measure", "cumulative", "--limit", "each") < usual
    assert windows("--limit", "total", "--unit", "1h") != usual
    assert windows("--backward") >= 2
    early = json.loads(run(updates, "--json", "--start", "2025-10-01", "--source", "news"))
    assert sum(row["points"] for row in early["windows"]) == 50


def test_the_end_of_watching_counts(updates):
    """A silence until now moves the next update on, and the rate of a month down."""
    usual = json.loads(run(updates, "--json", "-s", "news"))["sources"][0]
    later = json.loads(run(updates, "--json", "-s", "news", "--end", "2026-03-01"))["sources"][0]
    assert later["now"] == "2026-03-01T00:00:00Z" > usual["now"]
    assert later["next_update"] > usual["next_update"]
    assert later["silence_probability"] < 0.05
    options = ("-s", "news", "-w", "2026-02", "--json", "--start", "2025-10-01")
    (row,) = json.loads(run(updates, *options, "--end", "2026-03-01"))["rates"]
    assert (row["observed_days"], row["evidence"]) == (28.0, "never-changed")


@pytest.mark.parametrize("estimator", list(ESTIMATORS))
def test_every_estimator_can_be_chosen(updates, estimator):
    answer = json.loads(run(updates, "--json", "--estimator", estimator))
    assert answer["estimator"] == estimator
    assert all(row["rate_at_end"] is None or row["rate_at_end"] > 0 for row in answer["windows"])


def test_the_choices_are_those_of_the_library():
    (option,) = (param for param in trend.params if param.name == "estimator")
    assert set(option.type.choices) == set(ESTIMATORS)


@pytest.mark.slow
def test_files_and_pictures(updates, visits, tmp_path):
    out, picture = tmp_path / "windows.csv", tmp_path / "trend.svg"
    told = run(updates, "-o", out, "--plot", picture)
    assert f"written to {out}" in told.replace("\n", "")
    assert out.read_text().startswith('"source","window","state","start","end","points"')
    assert "</svg>" in picture.read_text()
    month, drawn = tmp_path / "month.jsonl", tmp_path / "month.svg"
    run(visits, "-w", "2026-01", "-w", "2026-02", "-o", month, "--plot", drawn)
    assert len(month.read_text().splitlines()) == 4
    assert "</svg>" in drawn.read_text()


def test_standard_input(updates):
    text = updates.read_bytes()
    answer = json.loads(run("-", "--format", "csv", "--json", input=text))
    assert len(answer["sources"]) == 2
    with pytest.raises(InputError, match="say the format of standard input"):
        run("-", input=text)


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        ("source,time,status\na,2026-01-01,200\n", (), "neither a list of updates nor a visit log"),
        ("source,time,bytes\na,2026-01-01,9\n", (), "neither a list of updates nor a visit log"),
        ("source,when\na,2026-01-01\n", (), "there is no column 'time'"),
        ("source,time\na,2026-01-05\n", ("--start", "2026-02-01"), "updated before --start"),
        ("source,time,changed\na,1,\n", ("--start", "2026-02-01"), "for a list of updates"),
        ("source,time\na,2026-01-05\n", ("--end", "2026-01-01"), "updated after --end"),
        ("source,time\na,2026-01-05\n", ("--start", "soon"), "--start"),
        ("source,time\na,2026-01-05\n", ("--season", "weekday"), "needs visits"),
        ("source,time\na,2026-01-05\n", ("--window", "soon"), "not a stretch of the calendar"),
        ("source,time\na,2026-01-05\n", ("--source", "b"), "not in this log"),
        ("source,time\na,2026-01-05\n", ("-o", "windows.doc"), "does not tell the format"),
        ("source,time\na,2026-01-05\n", ("--plot", "x.svg"), "nothing to draw"),
    ],
)
def test_mistakes_are_told(text, options, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "given.csv").write_text(text)
    with pytest.raises((InputError, VisitLogError), match=told):
        run("given.csv", *options)
