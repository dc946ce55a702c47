"""`observant currency` as people type it."""

import json
import math
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from observant.cli.currency import currency
from observant.currency import WeibullPopulation, required_period
from observant.errors import InputError

WEB = ["--weibull", "1.4", "152.2d"]


def run(*arguments):
    result = CliRunner().invoke(currency, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_one_source():
    answer = json.loads(run("--rate", "0.3", "--period", "10d", "--grace", "2d", "--json"))
    assert round(answer["alpha"], 4) == 0.5031
    assert answer["alpha"] + answer["stale_probability"] == pytest.approx(1.0)
    assert answer["mean_missed_updates"] == pytest.approx(1.5)
    assert (answer["period_days"], answer["grace_days"], answer["rate_per_day"]) == (10, 2, 0.3)
    assert "2.40" in answer["method"]


def test_units_are_those_of_the_package():
    days = run("--rate", "1/7d", "--period", "2d", "--grace", "0.5d", "--json")
    assert json.loads(run("--rate", "1/week", "--period", "48h", "--grace", "12h", "--json")) == (
        json.loads(days)
    )


def test_time_to_live(tmp_path):
    """The last answer served is stale with the risk: 1 − e^(−λt) = 5 %."""
    told = json.loads(run("--rate", "2/day", "--risk", "5%", "--json"))
    assert told["time_to_live_days"] == pytest.approx(-math.log(0.95) / 2)
    assert told["max_age_seconds"] == int(-math.log(0.95) / 2 * 86_400)
    (tmp_path / "r.csv").write_text("source,rate_per_day\na,1\nb,0.01\nnever,0\n")
    out = run("--rates", tmp_path / "r.csv", "--risk", "5%", "-o", tmp_path / "ttl.csv")
    assert "sources            3" in out
    rows = (tmp_path / "ttl.csv").read_text().splitlines()
    assert rows[1].startswith('"a",0.0512')
    assert rows[3].endswith(",2147483648")  # for ever, in the words of RFC 9111
    rows = json.loads(run("--rates", tmp_path / "r.csv", "--risk", "5%", "--grace", "1d", "--json"))
    assert rows[0]["time_to_live_days"] == pytest.approx(1 - math.log(0.95))


def test_a_population():
    answer = json.loads(run(*WEB, "--period", "8.5d", "--grace", "1d", "--json"))
    assert round(answer["alpha"], 4) == 0.9505
    assert round(answer["mean_time_days"], 1) == 138.7
    assert round(answer["median_time_days"], 1) == 117.1
    assert round(answer["most_common_time_days"], 1) == 62.2


def test_a_wanted_currency_and_its_cost():
    wanted = [*WEB, "--grace", "1d", "--target", "0.95", "--pages", "8e8", "--page-size", "12kB"]
    answer = json.loads(run(*wanted, "--json"))
    assert answer["period_days"] == required_period(WeibullPopulation(1.4, 152.2), 0.95, 1.0)
    assert round(answer["period_days"], 2) == 8.58
    assert answer["alpha"] == pytest.approx(0.95)
    assert answer["pages_per_day"] == pytest.approx(8e8 / answer["period_days"])
    assert round(answer["bits_per_second"] / 1e6, 1) == 103.6
    table = run(*wanted)
    for words in ("8.58d", "0.9500", "93.2 million", "103.6 Mbit/s", "139d"):
        assert words in table


def test_the_bandwidth_of_the_thesis():
    # Errata B-13: (3.18) and (3.19) with 1 kB = 1000 bytes.
    for pages, period, millions, megabits in (
        ("8e8", "8.5d", 94.1, 104.6),
        ("1.5e8", "18d", 8.3, 9.3),
    ):
        cost = ["--period", period, "--pages", pages, "--page-size", "12kB"]
        answer = json.loads(run(*WEB, *cost, "--json"))
        assert round(answer["pages_per_day"] / 1e6, 1) == millions
        assert round(answer["bits_per_second"] / 1e6, 1) == megabits


def test_a_source_that_never_changes_needs_no_visits():
    answer = json.loads(run("--rate", "0", "--target", "0.9", "--pages", "100", "--json"))
    assert (answer["period_days"], answer["alpha"], answer["pages_per_day"]) == (None, 1.0, 0.0)
    assert "never" in run("--rate", "0", "--target", "0.9")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--period", "1d"], "--rate, --weibull, --rates"),
        (["--rate", "1", *WEB, "--period", "1d"], "--rate, --weibull, --rates"),
        (["--rate", "1"], "--period or --target"),
        (["--rate", "1", "--period", "1d", "--target", "0.5"], "--period or --target"),
        (["--rate", "1", "--period", "1d", "--page-size", "12kB"], "--pages"),
        (["--rate", "1", "--target", "95"], "95"),
        (["--rate", "1", "--period", "1d", "--pages", "0"], "--pages"),
    ],
)
def test_options_that_do_not_go_together(arguments, said):
    result = CliRunner().invoke(currency, arguments)
    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.parametrize(
    ("arguments", "option", "said"),
    [
        (["--rate", "often", "--period", "1d"], "--rate", "often"),
        (["--rate", "1", "--period", "soon"], "--period", "soon"),
        (["--weibull", "wide", "10d", "--period", "1d"], "--weibull", "wide"),
        (["--weibull", "0", "10d", "--period", "1d"], "--weibull", "x>0"),
        (["--rate", "1", "--target", "nan"], "--target", "finite"),
        (
            ["--rate", "1", "--period", "1d", "--pages", "5", "--page-size", "big"],
            "--page-size",
            "big",
        ),
        (
            ["--rate", "1", "--period", "1d", "--pages", "5", "--page-size", "0B"],
            "--page-size",
            "0B",
        ),
    ],
)
def test_what_cannot_be_read_is_told_with_its_option(arguments, option, said):
    result = CliRunner().invoke(currency, arguments)
    assert result.exit_code == 2
    assert option in result.output
    assert said in result.output


def test_a_collection_cannot_be_visited_all_the_time():
    arguments = ["--rate", "1", "--target", "1", "--pages", "5"]
    with pytest.raises(InputError, match="period of 0"):
        CliRunner().invoke(currency, arguments, catch_exceptions=False)


@pytest.mark.parametrize(
    ("size", "factor"),
    [("800", 800), ("800B", 800), ("12kb", 12e3), ("12 KiB", 12288), ("2MB", 2e6), ("1GiB", 2**30)],
)
def test_sizes(size, factor):
    cost = ["--rate", "1", "--period", "1d", "--pages", "86400", "--page-size", size]
    assert json.loads(run(*cost, "--json"))["bits_per_second"] == pytest.approx(8 * factor)


def test_help_shows_examples_that_work():
    text = run("--help")
    example = text.split("observant currency ")[1].splitlines()[0].split()
    assert "currency" in run(*example)


def test_the_manual_shows_what_is_printed():
    page = (Path(__file__).parents[1] / "docs" / "currency.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n\$ observant currency (.*)\n((?s:.*?))```", page)
    assert blocks
    for arguments, shown in blocks:
        printed = run(*shlex.split(arguments))
        begin, dots, end = shown.partition("...\n")
        assert printed == shown or (dots and printed.startswith(begin) and printed.endswith(end))


def test_a_visit_log_says_whether_its_source_is_poisson(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"clock,{(k + 0.31 * (k % 3)) * 86400},{int(k % 4 == 0)}" for k in range(200)]
    rows += [f"other,{k * 86400},{int(k % 7 in (0, 1))}" for k in range(200)]
    (tmp_path / "v.csv").write_text("source,time,changed\n" + "\n".join(rows) + "\n")
    one = ["--visits", "v.csv", "--source", "clock", "--period", "2d", "--json"]
    answer = json.loads(CliRunner().invoke(currency, one, catch_exceptions=False).output)
    assert "regular" in answer["method"]
    assert answer["alpha"] == pytest.approx(0.75, abs=0.05)  # a clock of four days
    both = ["--visits", "v.csv", "--period", "2d", "--json"]
    answer = json.loads(CliRunner().invoke(currency, both, catch_exceptions=False).output)
    assert answer["sources"] == 2
    assert CliRunner().invoke(currency, ["--rate", "1", "--source", "x"]).exit_code == 2
