"""`observant study population` and `observant study audit` as people type them."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from observant.cli.audit import audit
from observant.cli.population import population
from observant.errors import EstimationError, InputError
from observant.formats import write_table
from observant.visits import VisitLog

CLAIMS = """source,claimed_modified,actual_modified,checked_at
a,2026-01-01,2026-01-01,2026-02-01
b,2026-01-01,2026-01-31,2026-02-01
c,2026-01-01,2026-01-10,2026-02-01
d,2026-01-05T10:00:00Z,,2026-02-01
"""


def run(command, *arguments, **options):
    result = CliRunner().invoke(
        command, list(map(str, arguments)), catch_exceptions=False, **options
    )
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    rng = np.random.default_rng(1)
    rates = 1.0 / (20.0 * rng.weibull(1.4, (300, 1)))
    changed = rng.random((300, 20)) < -np.expm1(-rates * 4.0)
    log = VisitLog.from_columns(
        source=np.repeat(np.arange(300), 21),
        time=np.tile(np.arange(21) * 4.0, 300),
        changed=[None if c < 0 else bool(c) for c in np.insert(changed.astype(int), 0, -1, 1).flat],
        time_unit="d",
    )
    path = tmp_path_factory.mktemp("visits") / "visits.parquet"
    write_table(log, path)
    return path


@pytest.fixture
def claims(tmp_path):
    path = tmp_path / "claims.csv"
    path.write_text(CLAIMS)
    return path


def test_a_population_for_machines(visits):
    answer = json.loads(run(population, visits, "--json"))
    best = answer["best"]
    assert best["evidence"] == "histories"
    assert best["scale_days_low"] < 20.0 < best["scale_days_high"]
    assert answer["description"]["sources"] == 300
    assert set(answer["curves"]) == {"change_ratio", "age", "lifetime", "span", "hour_of_week"}
    assert len(answer["prior"]["curve"]) > 10


def test_a_population_for_people(visits):
    text = run(population, visits, "--confidence", "0.9")
    for words in (
        "300",
        "histories",
        "shape",
        "scale",
        "assumes no form",
        "note: no visit has a date of modification",
    ):
        assert words in text


def test_a_log_that_says_nothing(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text("source,time\na,2026-01-01\n")
    with pytest.raises(EstimationError, match="no population"):
        run(population, path)


def test_an_audit_for_machines(claims):
    answer = json.loads(run(audit, claims, "--grace", "0d,1d,7d,30d", "--json"))
    assert [row["grace_days"] for row in answer["currency"]] == [0.0, 1.0, 7.0, 30.0]
    assert answer["currency"][0]["alpha"] == pytest.approx(1 / 3)
    assert answer["currency"][1]["uncorrected"] == pytest.approx(2 / 3)
    assert (answer["rows"], answer["stale"]) == (3, 2)
    assert "1 rows lack one of the two dates" in answer["notes"][0]
    assert answer["period_days"] > 0


def test_an_audit_for_people(claims):
    text = run(audit, claims, "--grace", "1d", "--weibull", "1.4", "152.2d", "--resamples", "10")
    for words in ("3 entries, 2 of them stale", "grace", "printed (3.20)", "note: 1 rows"):
        assert words in text


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv.gz"])
def test_claims_in_every_format(claims, tmp_path, ending):
    import pyarrow.csv

    other = tmp_path / f"claims.{ending}"
    write_table(pyarrow.csv.read_csv(claims), other)
    options = ["--json", "--resamples", "5"]
    assert json.loads(run(audit, other, *options)) == json.loads(run(audit, claims, *options))


def test_claims_from_standard_input(claims):
    options = ["--json", "--resamples", "5"]
    piped = run(audit, "-", "--format", "csv", *options, input=CLAIMS)
    assert json.loads(piped) == json.loads(run(audit, claims, *options))
    with pytest.raises(InputError, match="--format"):
        run(audit, "-", input=CLAIMS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (CLAIMS + "e,soon,2026-01-01,2026-02-01\n", r"claims\.csv, row 5.*claimed_modified.*soon"),
        (CLAIMS + "e,2026-01-01,2026-01-01,\n", r"claims\.csv, row 5.*checked_at"),
        (CLAIMS.replace("checked_at", "when"), r"claims\.csv.*no column 'checked_at'"),
        ("source,claimed_modified,actual_modified,checked_at\n", r"claims\.csv.*not one row"),
        ("", r"claims\.csv.*empty"),
    ],
)
def test_claims_that_cannot_be_read(claims, text, said):
    claims.write_text(text)
    with pytest.raises(InputError, match=said):
        run(audit, claims)


def test_options_that_cannot_be_read(claims, tmp_path):
    for arguments, said in (
        ([claims, "--grace", "soon"], "'soon'"),
        ([claims, "--grace", ","], "there is no duration"),
        ([claims, "--weibull", "wide", "10d"], "'wide'"),
        ([claims, "--seed", "-1"], "x>=0"),
    ):
        result = CliRunner().invoke(audit, list(map(str, arguments)))
        assert result.exit_code == 2
        assert said in result.output
        assert arguments[1] in result.output
    for file, said in (("nowhere.csv", "nowhere"), ("claims.doc", "format")):
        with pytest.raises(InputError, match=said):
            run(audit, tmp_path / file)


@pytest.mark.parametrize("command", [audit, population])
def test_help_shows_examples_and_keeps_their_lines(command):
    text = run(command, "--help")
    assert "\\b" not in text
    assert any(
        line.strip().startswith(f"observant study {command.name} ") for line in text.splitlines()
    )
