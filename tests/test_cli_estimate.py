"""`observant estimate` and `observant demo` as a person would run them."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from observant import estimate_rates, read_visits, write_table
from observant.cli import COMMANDS
from observant.cli.estimate import estimate
from observant.estimation.rates import METHODS
from observant.testing import synthetic_visits

from .command_line import run_here

CSV = """source,time,changed,last_modified
a,2026-01-01T00:00:00Z,,
a,2026-01-02T00:00:00Z,true,
a,2026-01-03T00:00:00Z,0,
b,1767225600,,
b,1767312000,false,
c,2026-01-01,,2025-12-30T12:00:00Z
c,2026-01-05,1,2026-01-04T00:00:00Z
"""


def observant(*words, cwd, stdin=b"", ok=True):
    code, out, err = run_here(*words, cwd=cwd, stdin=stdin)
    if ok:
        assert code == 0, err
    return code, out, err


def installed(*words, cwd, stdin=b""):
    """Run the real command, in a process of its own."""
    command = Path(sys.executable).with_name("observant")
    done = subprocess.run(  # noqa: S603 - our own command
        [command, *map(str, words)], cwd=cwd, input=stdin, capture_output=True, check=False
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "visits.csv").write_text(CSV)
    return tmp_path


def test_visits_in_the_future_are_said(folder):
    _, _, err = observant("estimate", "visits.csv", cwd=folder)
    assert "in the future" not in err
    (folder / "late.csv").write_text(CSV + "d,2190-01-01,,\nd,2190-01-02,true,\n")
    _, out, err = observant("estimate", "late.csv", cwd=folder)
    assert err == "note: 2 visits in the future; are the times and --time-unit right?\n"
    assert "in the future" not in out


def test_groups_that_a_method_does_not_use_are_said(folder):
    for more in ([], ["--json"], ["-o", "rates.csv"]):
        asked = ("estimate", "visits.csv", "--group", "source", "--method", "bias-reduced", *more)
        _, out, err = observant(*asked, cwd=folder)
        assert "--group is not used" in err
        assert "--group" not in out


def test_what_is_known_of_sources_that_always_changed(folder):
    """Five gaps with three updates each: the guess is 20 % low, and no estimator could know."""
    rows = [f"a,{day},{1 if day else ''}" for day in range(6)]
    (folder / "always.csv").write_text("source,time,changed\n" + "\n".join(rows))
    _, out, _ = observant("estimate", "always.csv", "--time-unit", "d", cwd=folder)
    assert "1 source changed at every visit: only its lower bound is known" in out
    log = read_visits(folder / "always.csv", time_unit="d")
    found = estimate_rates(log)
    assert found.rate_per_day[0] == pytest.approx(np.log(11))
    assert np.isinf(found.rate_high[0])
    assert found.rate_low[0] < 3


@pytest.mark.slow
@pytest.mark.parametrize("run", [observant, installed])
def test_table_and_summary(folder, run):
    code, out, err = run("estimate", "visits.csv", cwd=folder)
    assert code == 0
    assert "never-changed" in out
    assert "3 sources, 7 visits, 2 changes, method bias-reduced" in out
    assert "median rate" in out
    assert err == ""


@pytest.mark.slow
def test_json_has_the_promised_columns(folder):
    _, out, _ = observant("estimate", "visits.csv", "--method", "mle", "--json", cwd=folder)
    rows = json.loads(out)
    assert [row["source"] for row in rows] == ["a", "b", "c"]
    assert list(rows[0]) == [
        "source",
        "visits",
        "changes",
        "exposure_days",
        "rate_per_day",
        "rate_low",
        "rate_high",
        "rate_ahead",
        "rate_mean",
        "method",
        "evidence",
    ]
    assert rows[0]["rate_per_day"] == pytest.approx(np.log(2))
    assert rows[2]["rate_per_day"] is None  # infinite: it changed at its only comparison


@pytest.mark.slow
def test_stdin_to_parquet(folder):
    lines = [
        json.dumps(row)
        for row in [{"source": "p", "time": t, "changed": bool(t % 2)} for t in range(5)]
    ]
    observant(
        "estimate", "-", "--format", "jsonl", "-o", "rates.parquet",
        cwd=folder, stdin="\n".join(lines).encode(),
    )  # fmt: skip
    table = pq.read_table(folder / "rates.parquet")
    assert table["visits"].to_pylist() == [5]
    assert table["evidence"].to_pylist() == ["ok"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rates.parquet", "rates.csv", "rates.jsonl", "rates.csv.gz"])
def test_output_formats(folder, name):
    _, out, _ = observant("estimate", "visits.csv", "-o", name, cwd=folder)
    assert f"written to {name}" in out
    assert (folder / name).stat().st_size > 0


@pytest.mark.slow
def test_agrees_with_the_library(tmp_path):
    log, _ = synthetic_visits(200, seed=5)
    write_table(log, tmp_path / "v.parquet")
    _, out, _ = observant(
        "estimate", "v.parquet", "-m", "pooled", "--group", "host", "--json", cwd=tmp_path
    )
    table = estimate_rates(read_visits(tmp_path / "v.parquet", group="host"), "pooled")
    rates = [row["rate_per_day"] for row in json.loads(out)]
    np.testing.assert_allclose(rates, table.rate_per_day)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["svg", "png", "html"])
def test_plot(folder, ending):
    observant("estimate", "visits.csv", "--plot", f"p.{ending}", cwd=folder)
    assert (folder / f"p.{ending}").stat().st_size > 1000


def test_every_method_is_offered_and_explained(folder):
    _, out, _ = observant("estimate", "--help", cwd=folder)
    for method in METHODS:
        assert method.removesuffix("-raw") in out


@pytest.mark.slow
def test_help_lists_every_command(folder):
    _, out, _ = observant("--help", cwd=folder)
    for command in COMMANDS:
        assert command in out
        _, text, _ = observant(command, "--help", cwd=folder)
        assert "Usage: observant" in text
        assert len(text) > 300


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["estimate", "nothing.csv"], "nothing.csv: cannot be read"),
        (["estimate", "-"], "--format"),
        (["estimate", "visits.csv", "-o", "rates.xls"], "rates.xls"),
        (["estimate", "visits.csv", "--group", "colour"], "colour"),
        (["estimate", "visits.csv", "--method", "guess"], "guess"),
        (["estimate", "visits.csv", "--confidence", "2"], "confidence"),
        (["estimate", "visits.csv", "--skew", "soon"], "soon"),
        (["estimate", "visits.csv", "--method", "last-modified", "--plot", "x.gif"], "x.gif"),
        (["estmate", "visits.csv"], "did you mean estimate?"),
        (["estimate"], "VISITS"),
    ],
)
def test_a_mistake_is_one_clear_line(folder, arguments, message):
    code, _, err = observant(*arguments, cwd=folder, ok=False)
    assert code == 2
    assert message in err
    assert "Traceback" not in err


@pytest.mark.slow
def test_a_bad_row_is_named(folder):
    (folder / "bad.csv").write_text("source,time,changed\na,2026-01-01,\na,soon,1\n")
    code, _, err = observant("estimate", "bad.csv", cwd=folder, ok=False)
    assert code == 2
    assert "bad.csv, row 2, column time: this is not a time: 'soon'" in err


@pytest.mark.slow
def test_a_closed_pipe_is_no_error(folder):
    command = Path(sys.executable).with_name("observant")
    log, _ = synthetic_visits(3000, visits=2, seed=1)
    write_table(log, folder / "v.parquet")
    done = subprocess.run(  # noqa: S602 - a real pipe is the point
        f"{command} estimate v.parquet --json | head -1",
        cwd=folder,
        shell=True,
        capture_output=True,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    assert done.stdout == b"[\n"


def test_classes_are_told_with_their_probability(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"often,{k * 86400},{int(k % 2 == 0)}" for k in range(20)]
    rows += [f"seldom,{k * 86400},{int(k == 9)}" for k in range(20)]
    (tmp_path / "v.csv").write_text("source,time,changed\n" + "\n".join(rows) + "\n")
    told = CliRunner().invoke(estimate, ["v.csv", "--classes", "1d,30d", "--json"])
    answer = {row["source"]: row for row in json.loads(told.output)}
    assert answer["often"]["class"] == "1d"
    assert answer["seldom"]["class"] == "30d"
    assert answer["seldom"]["p_1d"] + answer["seldom"]["p_30d"] == pytest.approx(1.0)
    shown = CliRunner().invoke(estimate, ["v.csv", "--classes", "1d,30d", "-o", "c.csv"])
    assert "1 every 1d, 1 every 30d" in shown.output
    both = CliRunner().invoke(estimate, ["v.csv", "--classes", "1d,30d", "-m", "naive"])
    assert both.exit_code == 2
