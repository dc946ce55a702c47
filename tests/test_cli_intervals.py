"""`observant study intervals` as people type it."""

import json
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from observant import cli
from observant.cli.intervals import intervals
from observant.processes import Pareto


def write_visits(file, logs):
    """A CSV of visits: logs are (source, times, changed)."""
    lines = ["source,time,changed,host"]
    for source, times, changed in logs:
        for at, flag in zip(times, changed, strict=True):
            text = "" if flag is None else str(bool(flag)).lower()
            lines.append(f"{source},{at * 86400:.6f},{text},{source[0]}")
    file.write_text("\n".join(lines) + "\n")


def sampled(visits, *, constant=False, seed=1, mean=0.5):
    rng = np.random.default_rng(seed)
    times = 20_000 + np.cumsum(np.ones(visits) if constant else rng.exponential(1.0, visits))
    updates = 20_000 + Pareto.with_mean(mean).sample(times[-1] - 20_000 + 1, seed=seed).times
    return times, [None, *(np.diff(np.searchsorted(updates, times)) > 0).tolist()]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_visits(
        tmp_path / "visits.csv",
        [("S", *sampled(400)), ("T", *sampled(120, constant=True, seed=2))],
    )
    return tmp_path


@pytest.fixture
def run(monkeypatch, capfd):
    def typed(*words, fails=False):
        monkeypatch.setattr(sys, "argv", ["observant", "study", "intervals", *words])
        if fails:
            with pytest.raises(SystemExit) as leaving:
                cli.main()
            assert leaving.value.code == 2
        else:
            cli.main()
        printed = capfd.readouterr()
        assert "Traceback" not in printed.err
        return printed.err if fails else printed.out

    return typed


def no_nan(text):
    def refuse(constant):
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_m6_as_the_issue_writes_it(run):
    words = ["visits.csv", "--source", "S", "--method", "m6", "--step", "0.05d", "--max", "10d"]
    found = no_nan(run(*words, "--json"))
    for key in ("x_days", "age_cdf", "interval_cdf", "mean_days", "method", "warnings"):
        assert key in found
    assert found["method"] == "m6"
    assert len(found["x_days"]) == len(found["age_cdf"]) == len(found["interval_cdf"])
    assert max(found["x_days"]) <= 10.0
    assert np.diff(found["x_days"]) == pytest.approx(0.05)
    assert isinstance(found["warnings"], list)
    assert all(0.0 <= value <= 1.0 for value in found["age_cdf"] + found["interval_cdf"])
    # 400 visits: M6 in bins of 0.05 is rough, but it is a curve of this source.
    x, G = np.array(found["x_days"]), np.array(found["age_cdf"])
    truth = Pareto.with_mean(0.5).age_cdf(x)
    assert np.abs(G - truth).mean() < 0.1


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_auto_as_the_issue_writes_it(run):
    found = no_nan(run("visits.csv", "--source", "S", "--json"))
    assert found["method"] == "concave"
    assert "M6" in found["why"]
    x, G = np.array(found["x_days"]), np.array(found["age_cdf"])
    assert np.abs(G - Pareto.with_mean(0.5).age_cdf(x)).max() < 0.1
    assert found["mean_days"] == pytest.approx(0.5, rel=0.6)
    assert found["bands"]["confidence"] == 0.95
    assert len(found["bands"]["age_low"]) == len(x)
    assert found["diagnostics"]["visits"] == 400


@pytest.mark.usefixtures("folder")
def test_constant_gaps_are_honest(run):
    found = no_nan(run("visits.csv", "--source", "T", "--json"))
    assert found["method"] == "m4"
    assert found["mean_days"] is None
    assert found["mean_at_most_days"] == pytest.approx(4 / 3, rel=0.3)
    assert set(found["interval_cdf"]) == {None}
    assert None not in found["age_cdf"]
    assert any("not identified" in warning for warning in found["warnings"])
    text = run("visits.csv", "--source", "T")
    assert "mean interval at most" in text


@pytest.mark.slow
def test_text_picture_and_tables(run, folder):
    text = run("visits.csv", "--source", "S", "--plot", "F.svg", "-o", "curves.parquet")
    assert "S: 400 visits" in text
    assert "method concave" in text
    assert "intervals up to" in text
    assert "visits for an error of G below 0.05" in text
    assert (folder / "F.svg").read_text().startswith("<svg")
    table = pq.read_table(folder / "curves.parquet")
    assert table.column_names[:3] == ["x_days", "age_cdf", "interval_cdf"]


@pytest.mark.slow
def test_all_sources_are_pooled(run, folder):
    logs = [(f"{'ab'[k % 2]}{k}", *sampled(60, seed=k + 5, mean=1.0 + k / 5)) for k in range(16)]
    write_visits(folder / "many.csv", logs)
    found = no_nan(run("many.csv", "--group", "host", "--json"))
    assert {row["group"] for row in found["groups"]} == {"a", "b", "all"}
    assert len(found["sources"]) == 16
    assert found["mean_days"] > 0
    text = run("many.csv", "--plot", "pooled.svg", "-o", "means.csv")
    assert "16 sources" in text
    assert "one shape for all sources" in text
    assert (folder / "pooled.svg").exists()
    assert (folder / "means.csv").read_text().splitlines()[0].startswith('"source"')


BAD = {
    "one visit": (([1.0], [None]), "1 visit, none of which"),
    "no change ever": (([1.0, 2.0, 4.0], [None, 0, 0]), "no change was seen in 3 visits"),
    "all changed": (([1.0, 2.0, 4.0], [None, 1, 1]), "every one of 2 comparisons"),
}


@pytest.mark.parametrize("case", sorted(BAD))
@pytest.mark.parametrize("method", ["auto", "m6", "concave", "weibull"])
def test_visits_that_tell_nothing(run, folder, case, method):
    (times, changed), told = BAD[case]
    write_visits(folder / "bad.csv", [("the-page", times, changed)])
    said = run("bad.csv", "--source", "the-page", "--method", method, "--json", fails=True)
    assert told in said
    assert "the-page" in said


def test_identical_times(run, folder):
    write_visits(folder / "bad.csv", [("the-page", [1.0, 1.0, 2.0], [None, 1, 0])])
    said = run("bad.csv", "--source", "the-page", fails=True)
    assert "the-page" in said
    write_visits(folder / "bad.csv", [("the-page", [5.0] * 3, [None, 1, 0])])
    said = run("bad.csv", "--on-duplicate", "last", fails=True)
    assert "1 visit" in said


@pytest.mark.usefixtures("folder")
def test_a_lag_longer_than_the_log(run):
    found = no_nan(
        run("visits.csv", "-s", "S", "-m", "m6", "--step", "10d", "--max", "9y", "--json")
    )
    assert max(found["x_days"]) < 500
    assert any("no two visits are 9y apart" in warning for warning in found["warnings"])
    assert None not in found["age_cdf"]
    said = run("visits.csv", "--source", "S", "--step", "9y", "--max", "90y", fails=True)
    assert "longer than the log" in said
    assert "'S'" in said


@pytest.mark.usefixtures("folder")
def test_unknown_names_are_answered_with_near_ones(run):
    assert "did you mean" in run("visits.csv", "--source", "s", fails=True)
    assert "weibul" in run("visits.csv", "--source", "S", "--method", "weibul", fails=True)
    assert "constant" in run("visits.csv", "--source", "S", "--method", "m4", fails=True)
    said = run("visits.csv", "--source", "S", "--step", "soon", fails=True)
    assert "duration 'soon'" in said
    said = run("visits.csv", "--source", "S", "--bands", "3", fails=True)
    assert "20 bootstrap samples" in said


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
def test_the_same_seed_gives_the_same_answer(run):
    words = ("visits.csv", "--source", "S", "--bands", "20", "--json")
    assert run(*words) == run(*words)
    assert run(*words) != run(*words, "--seed", "2")


def test_every_source_is_tested_for_memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"clock,{k * 86400},{int(k % 4 == 0)}" for k in range(200)]
    rows += ["still,0,", "still,86400,0"]
    (tmp_path / "v.csv").write_text("source,time,changed\n" + "\n".join(rows) + "\n")
    shown = CliRunner().invoke(intervals, ["v.csv", "--test"], catch_exceptions=False)
    assert "1 source tested: 0 bursty, 1 regular" in shown.output
    assert "1 with too few changes" in shown.output
    told = CliRunner().invoke(intervals, ["v.csv", "--test", "--json"], catch_exceptions=False)
    assert {row["verdict"] for row in json.loads(told.output)} == {"regular", "too-few"}
