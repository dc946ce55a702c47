"""`observant study design` as a person at a terminal meets it."""

import json

import pytest
from click.testing import CliRunner

from observant.cli.design import design
from observant.errors import EstimationError, InputError
from observant.estimation.accuracy import accuracy
from observant.estimation.design import design_visits


def run(*arguments):
    return CliRunner().invoke(design, arguments)


def test_the_invocation_of_the_manual_gives_one_json_object():
    result = run("--rate", "1/7d", "--visits", "10", "--json")
    assert result.exit_code == 0
    answer = json.loads(result.stdout)
    assert answer == design_visits("1/7d", visits=10).to_dict()
    assert answer["visits"] == 10
    assert answer["interval_days"] == pytest.approx(11.16, abs=0.01)
    assert answer["relative_sd"] == pytest.approx(0.39, abs=0.005)
    assert set(answer) >= {
        "rate_per_day",
        "visits",
        "interval_days",
        "ratio",
        "duration_days",
        "bias",
        "relative_sd",
        "precision",
        "probability",
        "best_interval_days",
        "unbiased_interval_days",
    }


def test_a_readable_answer():
    result = run("--rate", "1/7d", "--visits", "10", "--period", "10.5d", "--precision", "35%")
    assert result.exit_code == 0
    assert result.stdout == f"{design_visits(1 / 7, visits=10, interval=10.5, precision=0.35)}\n"
    assert "visited 10 times, once every 10.5d" in result.stdout
    assert "within 35 % of the true rate with probability 75.5 %" in result.stdout


@pytest.mark.parametrize("share", ["35%", "0.35", " 35 %", ".35"])
def test_shares_are_read_as_people_write_them(share):
    result = run("--rate", "1/7d", "--precision", share, "--probability", "75%", "--json")
    answer = json.loads(result.stdout)
    assert answer["precision"] == 0.35
    assert answer["wanted_probability"] == 0.75
    assert answer["probability"] >= 0.75
    assert answer["visits"] == answer["visits_needed"] == 18


def test_dated_visits_have_no_bias_to_fear():
    answer = json.loads(run("--rate", "2/week", "--visits", "2", "--dated", "--json").stdout)
    assert answer["method"] == "last-modified"
    assert answer["dated"] is True
    assert answer["relative_sd"] is None  # infinite
    assert answer["unbiased_interval_days"] is None  # no limit
    assert abs(answer["bias"]) < 0.02


@pytest.mark.parametrize("method", ["naive", "improved", "bayes-beta"])
def test_methods(method):
    arguments = ("--rate", "1/7d", "--visits", "10", "--period", "2w", "--method", method)
    answer = json.loads(run(*arguments, "--json").stdout)
    assert answer["method"] == method
    assert answer["bias"] == accuracy(method, 10, 2.0).bias


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing option '--rate'"),
        (("--rate", "1/7d"), "--visits 10 or --precision 35%"),
        (("--rate", "weekly", "--visits", "3"), "this is not a rate: 'weekly'"),
        (("--rate", "0", "--visits", "3"), "must be more than zero"),
        (("--rate", "1/7d", "--visits", "0"), "x>=1"),
        (("--rate", "1/7d", "--visits", "3", "--period", "1fortnight"), "unknown unit"),
        (("--rate", "1/7d", "--visits", "3", "--precision", "35"), "35% or 0.35"),
        (("--rate", "1/7d", "--visits", "3", "--precision", "tight"), "not a share"),
        (("--rate", "1/7d", "--visits", "3", "--precision", "nan"), "not a share"),
        (("--rate", "1/7d", "--visits", "3", "--probability", "100%"), "under 100%"),
    ],
)
def test_mistakes_are_explained(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert not result.stdout


def test_errors_of_the_library_reach_the_main_command():
    # The main command prints them in one line; here they must arrive unchanged.
    impossible = ("--rate", "1/7d", "--period", "2w", "--precision", "35%", "--method", "naive")
    assert isinstance(run(*impossible).exception, EstimationError)
    mixed = ("--rate", "1/7d", "--visits", "3", "--method", "naive", "--dated")
    assert isinstance(run(*mixed).exception, InputError)


def test_help_holds_examples_that_run():
    text = run("--help").stdout
    examples = [
        line.split()[3:] for line in text.splitlines() if "observant study design --" in line
    ]
    assert len(examples) == 4
    for example in examples:
        assert run(*example).exit_code == 0
