"""`observant plan` as people type it."""

import io
import json
import re
import sys
from itertools import pairwise

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from observant import cli
from observant.cli.plan import plan
from observant.errors import InputError
from observant.formats.seeds import seed_lines
from observant.planning import plan as optimal

RATES = """source,rate_per_day,host,importance,weight
http://a.example/1,1,a,1,3
http://a.example/2,2,a,1,3
http://b.example/3,3,b,1,0
http://b.example/4,4,b,1,1
http://b.example/5,5,b,1,1
"""


@pytest.fixture
def rates(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rates.csv").write_text(RATES)
    return tmp_path


def run(*arguments):
    result = CliRunner().invoke(plan, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def answer(*arguments):
    return json.loads(run("rates.csv", *arguments, "--json"))


@pytest.mark.usefixtures("rates")
def test_published_example():
    found = answer("--budget", "5/day", "--objective", "freshness")
    assert round(found["alpha"], 5) == 0.37389
    assert found["price"] == pytest.approx(0.216432, abs=1e-6)
    assert [round(row["visits_per_day"], 3) for row in found["sources"]] == [
        1.150, 1.358, 1.354, 1.138, 0.0,
    ]  # fmt: skip
    assert set(found["sources"][0]) == {"source", "visits_per_day", "period_days", "alpha"}
    assert found["sources"][4]["period_days"] is None
    assert list(found)[:2] == ["price", "alpha"]
    assert found["starved"] == 1


@pytest.mark.usefixtures("rates")
def test_currency_under_a_cap():
    found = answer(
        "--budget", "5/day", "--objective", "currency", "--grace", "1d", "--host-cap", "2/day"
    )
    visits = [row["visits_per_day"] for row in found["sources"]]
    assert sum(visits[2:]) == pytest.approx(2.0, rel=1e-10)
    assert visits[:2] == [1.0, 1.0]  # never inside the grace
    assert list(found["saturated_hosts"]) == ["b"]
    assert found["alpha"] > found["uniform_alpha"]


@pytest.mark.usefixtures("rates")
def test_target():
    found = answer("--target", "0.9", "--objective", "freshness")
    assert found["alpha"] == pytest.approx(0.9, abs=1e-10)
    assert found["spent_per_day"] == pytest.approx(
        sum(row["visits_per_day"] for row in found["sources"])
    )
    again = answer("--budget", f"{found['spent_per_day']}/day")
    assert again["alpha"] == pytest.approx(0.9, abs=1e-9)


@pytest.mark.usefixtures("rates")
def test_importance_of_a_named_column():
    found = answer("--budget", "5/day", "--importance", "weight")
    assert found["sources"][2]["visits_per_day"] == 0.0
    assert found["sources"][0]["visits_per_day"] > 1.150


def test_hosts_come_from_urls(rates):
    (rates / "rates.csv").write_text(RATES.replace(",host,", ",other,"))
    found = answer("--budget", "5/day", "--host-cap", "2/day")
    assert list(found["saturated_hosts"]) == ["a.example", "b.example"]


@pytest.mark.usefixtures("rates")
def test_summary_for_people():
    shown = run("rates.csv", "--budget", "5/day")
    for words in ("0.3739", "0.3651", "twice the budget: 0.5500", "never visited: 1 source"):
        assert words in shown


@pytest.mark.usefixtures("rates")
def test_periods_have_limits():
    found = answer("--budget", "9/day", "--max-period", "2d", "--min-period", "12h")
    periods = [row["period_days"] for row in found["sources"]]
    assert max(periods) <= 2.0
    assert min(periods) >= 0.5


@pytest.mark.slow
def test_files_and_pictures(rates):
    shown = run("rates.csv", "--budget", "5/day", "-o", "plan.parquet", "--plot", "curve.svg")
    assert pq.read_table("plan.parquet").column_names == [
        "source", "visits_per_day", "period_days", "alpha",
    ]  # fmt: skip
    assert "What would another budget buy?" in (rates / "curve.svg").read_text()
    assert "written to plan.parquet" in shown
    run("rates.csv", "--budget", "5/day", "-o", "plan.csv")
    assert (rates / "plan.csv").read_text().startswith('"source"')


def test_the_output_of_estimate_is_read(rates):
    (rates / "rates.csv").write_text(
        "source,visits,changes,exposure_days,rate_per_day,rate_low,rate_high,method,evidence\n"
        "a,4,1,3,0.4,0.1,1.5,bias-reduced,ok\nb,4,3,3,2.0,0.5,,bias-reduced,always-changed\n"
    )
    assert len(answer("--budget", "1/day")["sources"]) == 2


@pytest.mark.usefixtures("rates")
def test_standard_input(monkeypatch):
    class Standard:
        buffer = io.BytesIO(RATES.encode())

    monkeypatch.setattr(sys, "stdin", Standard())
    result = CliRunner().invoke(
        plan, ["-", "--format", "csv", "--budget", "5", "--json"], input=RATES.encode()
    )
    assert json.loads(result.output)["alpha"] == pytest.approx(0.37389, abs=5e-6)
    with pytest.raises(InputError, match="format"):
        run("-", "--budget", "5")


# -- seed lists ------------------------------------------------------------------------------------


def test_nutch_seeds(rates):
    run("rates.csv", "--budget", "5/day", "--seeds", "nutch", "-o", "seeds.txt")
    lines = (rates / "seeds.txt").read_text().splitlines()
    assert lines[0] == "http://a.example/2\tnutch.score=1.3584\tnutch.fetchInterval=63604"
    assert len(lines) == 4  # the starved source is left out


@pytest.mark.usefixtures("rates")
def test_lists_of_urls():
    plain = run("rates.csv", "--budget", "5/day", "--seeds", "plain").splitlines()
    assert plain[0] == "http://a.example/2"
    heritrix = run("rates.csv", "--budget", "5/day", "--seeds", "heritrix").splitlines()
    assert heritrix[0].startswith("# ")
    assert heritrix[1:] == plain


def test_frontier_items_are_spread_over_a_period():
    best = optimal([1.0] * 50, budget=25, source=[f"https://h.example/{i}" for i in range(50)])
    items = [json.loads(line)["known"] for line in seed_lines(best, "urlfrontier", now=1e9)]
    due = sorted(item["refetchable_from_date"] - 1e9 for item in items)
    assert items[0]["info"] == {"url": "https://h.example/0", "key": "h.example", "metadata": {}}
    assert due[0] == 0
    assert 1.9 * 86_400 < due[-1] < 2 * 86_400
    assert max(b - a for a, b in pairwise(due)) < 3 * 2 * 86_400 / 50
    never = optimal([1.0, 99.0], budget=1, source=["a", "b"])
    assert json.loads(list(seed_lines(never, "urlfrontier", now=1e9))[1])["known"][
        "refetchable_from_date"
    ] == 0  # fmt: skip


def test_names_that_would_break_a_list():
    best = optimal([1.0], budget=1, source=["http://x.example/\nhttp://evil.example/"])
    with pytest.raises(InputError, match="blanks"):
        list(seed_lines(best, "plain", now=0))
    with pytest.raises(InputError, match="unknown seed format"):
        list(seed_lines(best, "opml", now=0))


# -- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "table", "words"),
    [
        (["--budget", "0/day"], RATES, "more than zero"),
        (["--budget", "-5/day"], RATES, "--budget"),
        (["--budget", "inf"], RATES, "inf"),
        (["--budget", "5", "--host-cap", "-1"], RATES, "--host-cap"),
        (["--target", "1.5"], RATES, "target"),
        (["--target", "0.99", "--host-cap", "1"], RATES, "cannot be reached"),
        (["--budget", "5", "--importance", "worth"], RATES, "'worth'"),
        (["--budget", "5"], RATES.replace(",3,b", ",nan,b"), "row 3.*rate_per_day.*b.example/3"),
        (["--budget", "5"], RATES.replace(",3,b", ",-3,b"), "b.example/3"),
        (["--budget", "5"], RATES.replace(",3,b", ",,b"), "b.example/3"),
        (["--budget", "5"], RATES.replace("a,1,3", "a,-1,3"), "importance.*a.example/1"),
        (["--budget", "5"], RATES.replace("rate_per_day", "rate"), "'rate_per_day'"),
        (["--budget", "5"], "source,rate_per_day\n", "no sources"),
        (["--budget", "5"], "source,rate_per_day\na,1\na,2\n", "twice"),
        (["--budget", "5", "--host-cap", "1"], "source,rate_per_day\na,1\n", "URLs"),
        (["--budget", "1", "--max-period", "1d"], RATES, "longest period"),
        (["--budget", "5", "-o", "plan.xyz"], RATES, "plan.xyz"),
        (["--budget", "5", "--seeds", "plain", "-o", "no/where.txt"], RATES, "no/where.txt"),
        ([], RATES, "--budget"),
    ],
)
def test_mistakes_are_told_in_a_line(rates, monkeypatch, capsys, arguments, table, words):
    (rates / "rates.csv").write_text(table)
    monkeypatch.setattr(sys, "argv", ["observant", "plan", "rates.csv", *arguments])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 2
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert re.search(words, told), told


def test_every_source_may_have_its_own_grace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.csv").write_text("source,rate_per_day,grace\na,1,6h\nb,1,\nc,0.1,2\n")
    told = json.loads(run("r.csv", "--budget", "1/day", "--grace", "1h", "--json"))
    same = optimal([1.0, 1.0, 0.1], budget=1.0, objective="currency", grace=[0.25, 1 / 24, 2.0])
    assert told["objective"] == "currency"
    found = [row["period_days"] for row in told["sources"]]
    assert found == pytest.approx(same.period_days.tolist())
    (tmp_path / "bad.csv").write_text("source,rate_per_day,grace\na,1,1d\nb,1,6x\n")
    with pytest.raises(InputError, match=r"bad.csv, row 2, column grace, source 'b': .*'6x'"):
        run("bad.csv", "--budget", "1/day")
    with pytest.raises(InputError, match="graces of sources need the plan in memory"):
        run("r.csv", "--budget", "1/day", "--engine", "disk")


def test_importance_may_come_from_an_access_log(rates):
    request = '192.0.2.1 - - [10/Oct/2025:13:55:36 +0000] "GET {} HTTP/1.1" 200 9\n'
    urls = ["http://a.example/1"] * 20 + ["http://b.example/5"]
    (rates / "access.log").write_text("".join(request.format(url) for url in urls))
    plain = json.loads(run("rates.csv", "--budget", "5/day", "--json"))["sources"]
    asked = ["--accesses", "access.log"]
    weighed = json.loads(run("rates.csv", "--budget", "5/day", "--json", *asked))["sources"]
    assert weighed[0]["visits_per_day"] > 2 * plain[0]["visits_per_day"]


def test_the_coming_days_are_planned_from_a_visit_log(tmp_path, monkeypatch):
    """As `plan_visits` does; what changes and was not seen for long comes first."""
    monkeypatch.chdir(tmp_path)
    rows = [f"fast,{day * 86400},{int(day % 2)}" for day in range(30)]
    rows += [f"slow,{day * 86400},{int(day == 9)}" for day in range(0, 24, 3)]
    rows += [f"late,{day * 86400},{int(day % 4 == 0)}" for day in range(20)]
    (tmp_path / "v.csv").write_text("source,time,changed\n" + "\n".join(rows) + "\n")
    told = json.loads(run("v.csv", "--budget", "1/day", "--ahead", "3", "--json"))
    assert [len(unit) for unit in told["units"]] == [1, 1, 1]
    assert told["units"][0] == ["late"]  # not seen for ten days
    assert "fast" in told["units"][1] + told["units"][2]
    assert "late" in run("v.csv", "--budget", "1/day", "--ahead", "2")
    with pytest.raises(InputError, match="0 visits in 1h"):
        run("v.csv", "--budget", "1/day", "--ahead", "2", "--slot", "1h")
