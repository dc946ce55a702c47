"""`observant simulate` and `observant study trace`, as a user meets them."""

import json
import re
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from observant.cli import cli, main
from observant.processes import Poisson
from observant.simulation.traces import Trace, read_trace, write_trace


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rates = np.geomspace(0.01, 0.5, 60)
    trace = Trace.sample(Poisson(1.0), rates, horizon=120.0, seed=2, groups=3)
    write_trace(trace, "trace.parquet")
    return "trace.parquet"


def run(*words, **options):
    result = CliRunner().invoke(cli, list(map(str, words)), catch_exceptions=False, **options)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*words, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["observant", *map(str, words)])
    with pytest.raises(SystemExit) as leaving:
        main()
    assert leaving.value.code == 2
    return capsys.readouterr().err


def test_the_line_of_the_issue(file):
    rows = json.loads(
        run(
            "simulate", file, "--policy", "uniform", "--policy", "cho-improved", "--policy",
            "clairvoyant", "--budget", "0.1/source/day", "--evidence", "existence", "--seed", 1,
            "--json",
        )
    )  # fmt: skip
    assert [row["policy"] for row in rows] == ["uniform", "cho-improved", "clairvoyant"]
    wanted = {"freshness", "detected_share", "mean_delay_days", "visits", "precision", "gap_closed"}
    assert wanted <= set(rows[0])
    assert rows[0]["gap_closed"] == 0
    assert rows[2]["gap_closed"] == 1
    assert len({row["visits"] for row in rows}) == 1
    # 0.1 · 60 sources · the span of the trace's updates
    trace = read_trace(file)
    assert rows[0]["visits"] == pytest.approx(6 * trace.span, abs=1)
    assert len(rows[0]["learning_curve"]) == 24


def test_the_table_leads_with_what_people_understand(file):
    text = run("simulate", file, "-p", "nutch", "--budget", "6/day", "--seeds", 2)
    head, *rows = text.splitlines()
    assert head.split()[:4] == ["policy", "staleness", "visits", "saved"]
    assert re.match(r"uniform +1\.000 ±0\.000 +1\.00 ±0\.00 +0\.", rows[0])
    assert re.match(r"nutch +\d\.\d{3} ±0\.\d{3} +(\d\.\d\d ±\d\.\d\d|–) +0\.", rows[1])


@pytest.mark.slow
def test_two_runs_are_the_same(file):
    words = ["simulate", file, "-p", "nutch", "-p", "naive-azar", "--budget", "6/day", "--json"]
    assert run(*words) == run(*words, "--jobs", 1)


@pytest.mark.slow
def test_the_table_states_standard_errors(file):
    text = run(
        "simulate", file, "-p", "heritrix", "--budget", "6/day", "--grace", "1d", "--by-group"
    )
    assert "±" in text
    assert "standard error over 3 seeds" in text
    assert "α(1d)" in text
    assert "gap closed" in text
    assert "one replay, seed 7" in run("simulate", file, "--budget", "6/day", "--seed", 7)


def test_budgets_of_each_source_and_of_all_are_the_same(file):
    each = run("simulate", file, "--budget", "0.1 / source / day", "--seed", 1, "--json")
    assert each == run("simulate", file, "--budget", "6/day", "--seed", 1, "--json")


def test_times_can_be_said_in_many_ways(file):
    def visits(*words):
        rows = json.loads(run("simulate", file, "--budget", "6/day", "--seed", 1, "--json", *words))
        return rows[0]["visits"]

    assert visits("--start", "1970-01-11", "--end", "1970-02-10") == 180
    assert visits("--start", 10 * 86_400, "--end", 40 * 86_400) == 180
    assert visits("--start=-30d") == 180
    assert visits("--start", "+10d", "--end", "+40d", "--score-from", "half") == 90


def test_a_policy_of_ones_own(file, tmp_path):
    (tmp_path / "own_policy.py").write_text(
        "from observant.planning.rivals import Heritrix\n"
        "class Mine(Heritrix):\n    pass\n"
        "class Broken:\n    pass\n"
    )
    rows = json.loads(
        run("simulate", file, "-p", "own_policy:Mine", "--budget", "6/day", "--seed", 1, "--json")
    )
    assert rows[1]["policy"] == "own_policy:Mine"


@pytest.mark.slow
def test_files_and_pictures(file, tmp_path):
    out = tmp_path / "sources.csv"
    picture = tmp_path / "picture.svg"
    run("simulate", file, "--budget", "6/day", "--seed", 1, "-o", out, "--plot", picture)
    lines = out.read_text().splitlines()
    assert lines[0].startswith('"policy","source","importance"')
    assert len(lines) == 1 + 2 * 60
    assert "<svg" in picture.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--budget", "many"], "--budget"),
        ([], "give --budget"),
        (["--budget", "6/day", "-p", "nuthc"], "did you mean nutch"),
        (["--budget", "6/day", "--start", "soon"], "--start: this is not a time"),
        (["--budget", "6/day", "--grace", "x"], "--grace"),
        (["--budget", "6/day", "--group", "shelf"], "no column 'shelf'"),
        (["--budget", "6/day", "--start", "2030-01-01"], "must end after"),
        (["--budget", "6/day", "-o", "x.doc"], "does not tell the format"),
    ],
)
def test_mistakes_are_one_line(file, words, message, capsys, monkeypatch):
    told = refused("simulate", file, *words, capsys=capsys, monkeypatch=monkeypatch)
    assert message in told
    assert "Traceback" not in told


def test_listing_the_policies():
    listed = run("simulate", "--list").split()
    assert {"uniform", "clairvoyant", "pooled-plan", "nutch"} <= set(listed)


def test_standard_input():
    text = "source,time\na,0\nb,86400\na,864000\n"
    rows = json.loads(
        run("simulate", "-", "--format", "csv", "--budget", "1/day", "--json", input=text)
    )
    assert rows[0]["sources"] == 2


def test_making_and_showing_traces(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = run(
        "study", "trace", "sample", "--sources", 30, "--rates", "1/10d,1", "--horizon", "90d"
    )
    assert "written to trace.parquet" in told
    shown = json.loads(run("study", "trace", "show", "trace.parquet", "--json"))
    assert shown["sources"] == 30
    regular = ["--process", "weibull", "--shape", "3", "-o", "w.csv", "--json"]
    assert json.loads(run("study", "trace", "sample", *regular))["output"] == "w.csv"
    (tmp_path / "p.json").write_text('{"name": "p", "time": {"1": "2020-01-01T00:00:00Z"}}')
    assert "1 update of 1 source" in run("study", "trace", "releases", "p.json", "-o", "r.parquet")


def test_mistakes_in_making_traces(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words, message in (
        (["git", tmp_path / "none"], "no such folder"),
        (["sample", "--process", "magic"], "choose one of"),
        (["sample", "--rates", "x"], "--rates"),
        (["sample", "--process", "poisson", "--shape", 2], "has no shape"),
        (["git", tmp_path, "-o", "x.doc"], "does not tell the format"),
    ):
        told = refused("trace", *words, capsys=capsys, monkeypatch=monkeypatch)
        assert message in told
