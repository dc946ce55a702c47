"""`observant study reproduce` as people type it."""

import json
import re

import pytest
from click.testing import CliRunner

from observant.cli.reproduce import reproduce
from observant.errors import InputError
from observant.papers import Curve, Picture, Reproduction
from observant.papers.pictures import _picture, reproduction_figure


def run(*arguments):
    result = CliRunner().invoke(reproduce, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_list():
    lines = run("--list").splitlines()
    assert lines[0].startswith("cho-figure-1 ")
    assert "and on real traces" in next(line for line in lines if line.startswith("cho-table-1 "))
    told = json.loads(run("--list", "--json", "cho-*"))
    assert told[0]["name"] == "cho-figure-1"
    assert len(told) == 15


def test_published_ours_and_whether_they_agree():
    """A disagreement is a result: the command ends well, and counts it."""
    output = run("cho-figure-7")
    assert re.search(r"✓ +σ/r at r = 1.5, n = 10 +0.4 +0.4024", output)
    assert re.search(r"✗ +largest bias for r < 2, n = 20 +< 0.001 +0.001725 +0.17 %", output)
    assert re.search(r"≈ 0.96 +r of least σ/r, n = 40: 'about 1.5' +1.5 +1.442 +1.35 at", output)
    assert "1 experiment\n  printed: 5 agree, 1 near, 2 differ\n" in output
    assert "– " in run("cho-figure-5")
    assert "E[r̂]/r at r = 2" in run("cho-figure-3")  # brackets are not taken for colours


def test_for_machines():
    (told,) = json.loads(run("brewington-table-4.1", "--json"))
    assert told["name"] == "brewington-table-4.1"
    assert told["mark"] == "agrees"
    assert told["checks"][0] == {
        "quantity": "cost of AB",
        "published": "1.05",
        "ours": pytest.approx(1.05),
        "within": 0.0,
        "why": "",
        "kind": "print",
        "mark": "agrees",
        "ratio": pytest.approx(1.0),
    }
    assert told["table"][1] == {"sequence": "BA", "published": 0.9, "ours": 0.9}
    (told,) = json.loads(run("cho-figure-14", "--json"))
    assert len(told["pictures"][0]["curves"][0]["x"]) == 61


def test_values_that_no_paper_prints_are_not_called_published():
    output = run("cho-figure-14")
    assert re.search(r"compared with +ours", output)
    assert "1 (formula)" in output
    assert "of formulas, not printed: 5 agree, 0 near, 0 differ" in output
    assert "printed: 5" not in output.replace("not printed: 5", "")


def test_any_long_trace_of_ones_own(tmp_path):
    """Tables IV to VI of Li; and what cannot be run does not lose the others of the same call."""
    import numpy as np

    from observant.processes import Pareto

    day = Pareto(1.4, 0.93 / 24).sample(90.0, seed=1).times
    slow = Pareto(3.0, 10.0).sample(3000.0, seed=2).times
    rows = [f"news,{time * 86_400:.0f}" for time in day]
    rows += [f"slow,{time * 86_400:.0f}" for time in slow]
    (tmp_path / "mine.csv").write_text("source,t\n" + "\n".join(rows))
    (told,) = json.loads(run("li-table-5", "--json", "--traces", tmp_path / "mine.csv"))
    assert [row["trace"] for row in told["table"][:2]] == ["mine: news", "mine: slow"]
    assert all(np.isfinite(row["M2 C"]) for row in told["table"][:2])
    assert all(row["M2 C"] < 12 for row in told["table"][:2])
    short = tmp_path / "short"
    short.mkdir()
    (short / "few.csv").write_text("source,t\n" + "\n".join(rows[:50]))
    (short / "other.csv").write_text("name,size\na,1\n")
    with pytest.raises(InputError, match="500 updates or more; the longest here has 50"):
        run("li-table-5", "--traces", short)
    both = json.loads(run("cho-figure-3", "li-table-5", "--json", "--traces", short))
    assert both[0]["mark"] == "agrees"
    assert "not run" in both[1]["notes"][0]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="there is no trace here"):
        run("li-table-5", "--traces", tmp_path / "empty")


@pytest.mark.slow
def test_tables_are_printed_with_dashes_for_nothing():
    output = run("cho-figure-18", "--runs", 3_000)
    assert re.search(r"published +– +0.83 +0.15 +0.35", output)


def test_options_reach_the_experiment():
    tables = [json.loads(run("cho-figure-15", "--json", "--runs", 50, "--seed", s)) for s in (1, 2)]
    assert "50 sources" in tables[0][0]["notes"][0]
    assert tables[0][0]["table"] != tables[1][0]["table"]


@pytest.mark.slow
def test_pictures(tmp_path):
    folder = tmp_path / "new" / "figures"
    output = run("cho-figure-3", "brewington-figure-2.4", "brewington-table-4.1", "--plot", folder)
    assert "2 pictures written to" in output
    files = sorted(file.name for file in folder.iterdir())
    assert files == ["brewington-figure-2.4.svg", "cho-figure-3.svg"]
    svg = (folder / "cho-figure-3.svg").read_text("utf-8")
    assert "Cho, figure 3" in svg
    assert "updates per visit" in svg


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be made"):
        run("cho-figure-3", "--plot", tmp_path / "file" / "figures")


def test_an_unknown_name():
    with pytest.raises(InputError, match="did you mean cho-figure-3"):
        run("cho-figur-3")


def test_gaps_end_a_line_and_points_lie_above():
    nan = float("nan")
    picture = Picture(
        "x",
        "y",
        [
            Curve("dots", [1, 10], [1, 2], points=True),
            Curve("line", [1, 2, 3, 4, 1000], [1, 2, nan, 4, 0]),
        ],
        log_x=True,
        log_y=True,
    )
    line, dots = _picture(picture, legend=True).to_dict()["layer"]
    rows = line["data"]["values"]
    # Zero cannot be drawn on a logarithmic axis, and what is missing parts the line.
    assert [row["x"] for row in rows] == [1, 2, 4]
    assert [row["part"] for row in rows] == [0, 0, 1]
    assert line["mark"]["type"] == "line"
    assert dots["mark"]["type"] == "point"
    both = Reproduction("a", "Said otherwise", pictures=[picture, picture])
    chart = reproduction_figure(both, "Paper, figure 1").to_dict()
    assert (chart["title"]["text"], chart["title"]["subtitle"]) == (
        "Paper, figure 1",
        "Said otherwise",
    )
    parts = chart["concat"]
    legends = [part["layer"][0]["encoding"]["color"]["legend"] for part in parts]
    assert legends[0] is None
    assert legends[1] is not None
    with pytest.raises(InputError, match="no picture"):
        reproduction_figure(Reproduction("t", "T"))
