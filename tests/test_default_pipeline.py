"""`observant estimate` and `observant plan`, all defaults: never below visiting all alike."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from observant import estimate_rates, plan, read_visits
from observant.cli import cli

SOURCES = 400
PERIOD = 5.0  # of uniform visits
POPULATIONS = {
    "lognormal": lambda rng, n: rng.lognormal(np.log(0.2), 1.5, n),
    "gamma": lambda rng, n: rng.gamma(0.8, 1.0, n),
    "bimodal": lambda rng, n: np.where(
        rng.random(n) < 0.5, rng.lognormal(np.log(0.05), 0.3, n), rng.lognormal(np.log(2), 0.3, n)
    ),
}


def freshness(rates, periods):
    """What these periods really achieve, by the formula of Cho and Garcia-Molina."""
    with np.errstate(divide="ignore", invalid="ignore"):
        x = rates * periods
        return float(np.where(np.isinf(periods), 0.0, -np.expm1(-x) / x).mean())


def write_log(path, rates, visits, rng):
    gaps = rng.exponential(1.0, (len(rates), visits))
    changed = rng.random(gaps.shape) < -np.expm1(-rates[:, None] * gaps)
    times = np.cumsum(gaps, axis=1) * 86_400
    with path.open("w") as out:
        out.write("source,time,changed\n")
        for i in range(len(rates)):
            for k in range(visits):
                seen = "" if k == 0 else int(changed[i, k])
                out.write(f"s{i:04},{times[i, k]:.3f},{seen}\n")


def run(*arguments):
    result = CliRunner().invoke(cli, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def planned(folder, *more):
    answer = json.loads(
        run("plan", folder / "rates.csv", "--budget", f"{SOURCES / PERIOD}/day", "--json", *more)
    )
    rows = sorted(answer["sources"], key=lambda row: row["source"])
    return answer, np.array([row["period_days"] or np.inf for row in rows], float)


@pytest.mark.slow
@pytest.mark.parametrize("visits", [2, 6, 20])
@pytest.mark.parametrize("population", POPULATIONS)
def test_the_default_pipeline_keeps_its_promise_and_is_not_below_uniform(
    tmp_path, population, visits
):
    gains, misses = [], []
    for seed in range(4):
        rng = np.random.default_rng([visits, len(population), seed])
        rates = POPULATIONS[population](rng, SOURCES)
        write_log(tmp_path / "visits.csv", rates, visits, rng)
        run("estimate", tmp_path / "visits.csv", "-o", tmp_path / "rates.csv")
        answer, periods = planned(tmp_path)
        assert 0.0 < answer["alpha_error"] < 0.03
        achieved = freshness(rates, periods)
        gains.append(achieved - freshness(rates, np.full(SOURCES, PERIOD)))
        # A prior that is smooth is never quite that of two narrow classes: half a point for it.
        off = max(abs(achieved - answer["alpha"]) - 0.005, 0.0)
        misses.append(off / answer["alpha_error"])
    # One visit that can be compared tells next to nothing: then it is level to a few thousandths.
    assert np.mean(gains) > (-0.003 if visits == 2 else 0.0)
    assert min(gains) > -0.006
    assert np.sqrt(np.mean(np.square(misses))) < 2.0
    assert max(misses) < 3.0


@pytest.mark.parametrize("method", ["bias-reduced", "naive", "improved"])
def test_a_rate_of_zero_that_was_never_seen_to_change_is_not_starved(tmp_path, method):
    rng = np.random.default_rng(5)
    rates = POPULATIONS["lognormal"](rng, SOURCES)
    write_log(tmp_path / "visits.csv", rates, 6, rng)
    run("estimate", tmp_path / "visits.csv", "--method", method, "-o", tmp_path / "rates.csv")
    table = (tmp_path / "rates.csv").read_text().splitlines()
    assert sum("never-changed" in line for line in table) > 50
    answer, periods = planned(tmp_path)
    never = {line.split(",")[0].strip('"') for line in table if "never-changed" in line}
    assert not never & {row["source"] for row in answer["sources"] if row["visits_per_day"] == 0}
    assert any("counts" in note for note in answer["notes"])
    assert freshness(rates, periods) > freshness(rates, np.full(SOURCES, PERIOD))


@pytest.mark.slow
def test_the_table_plans_as_well_as_the_whole_posterior(tmp_path):
    rng = np.random.default_rng(6)
    rates = POPULATIONS["lognormal"](rng, SOURCES)
    write_log(tmp_path / "visits.csv", rates, 6, rng)
    run("estimate", tmp_path / "visits.csv", "-o", tmp_path / "rates.csv")
    _, periods = planned(tmp_path)
    log = read_visits(tmp_path / "visits.csv")
    whole = plan(estimate_rates(log, "pooled"), budget=SOURCES / PERIOD)
    assert freshness(rates, periods) == pytest.approx(freshness(rates, whole.period_days), abs=2e-3)


@pytest.mark.slow
def test_on_disk_and_in_memory_the_plan_is_the_same(tmp_path):
    rng = np.random.default_rng(7)
    rates = POPULATIONS["gamma"](rng, SOURCES)
    write_log(tmp_path / "visits.csv", rates, 6, rng)
    run("estimate", tmp_path / "visits.csv", "-o", tmp_path / "rates.csv")
    _, periods = planned(tmp_path)
    stored = tmp_path / "plan.jsonl"
    budget = f"{SOURCES / PERIOD}/day"
    run("plan", tmp_path / "rates.csv", "--budget", budget, "--engine", "disk", "-o", stored)
    found = [json.loads(line) for line in stored.read_text().splitlines()]
    found.sort(key=lambda row: row["source"])
    assert np.allclose([row["period_days"] or np.inf for row in found], periods, rtol=1e-6)


def test_a_plan_on_disk_refuses_a_rate_of_zero_that_was_never_seen(tmp_path):
    rng = np.random.default_rng(8)
    write_log(tmp_path / "visits.csv", POPULATIONS["gamma"](rng, SOURCES), 6, rng)
    rates = tmp_path / "rates.csv"
    run("estimate", tmp_path / "visits.csv", "--method", "mle", "-o", rates)
    lines = [line for line in rates.read_text().splitlines() if "always" not in line]
    rates.write_text("\n".join(lines) + "\n")
    result = CliRunner().invoke(cli, ["plan", str(rates), "--budget", "9/day", "--engine", "disk"])
    assert result.exit_code != 0
    assert "never seen to change" in str(result.exception)


def test_a_rate_that_people_give_as_zero_is_theirs_and_is_said(tmp_path):
    (tmp_path / "rates.csv").write_text("source,rate_per_day\na,0\nb,0.5\nc,1\n")
    text = run("plan", tmp_path / "rates.csv", "--budget", "1/day")
    assert "1 source whose rate was given as 0" in text
    assert "too often" not in text


def test_grace_alone_asks_for_currency(tmp_path):
    (tmp_path / "rates.csv").write_text("source,rate_per_day\na,0.01\nb,0.5\nc,3\n")
    rates = tmp_path / "rates.csv"
    text = run("plan", rates, "--budget", "1/day", "--grace", "1w")
    assert "objective currency" in text
    best = json.loads(run("plan", rates, "--budget", "1/day", "--grace", "1w", "--json"))
    assert best["alpha"] >= best["uniform_alpha"]
    asked = ("plan", rates, "--budget", "1/day", "--grace", "1w", "--objective", "freshness")
    other = json.loads(run(*asked, "--json"))
    assert other["alpha"] < other["uniform_alpha"]
    assert "all visited alike have more" in " ".join(other["notes"])
