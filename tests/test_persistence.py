"""How long rates last, and plans that look ahead."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from observant import estimate_rates, plan, read_visits
from observant.cli import cli
from observant.estimation.belief import Likelihoods
from observant.estimation.evidence import Evidence
from observant.estimation.persistence import DAYS, kept, persistence_scores
from observant.estimation.priors import fit_collection

SOURCES, GAP = 600, 30.0


def outcomes(rng, rates):
    """Whether each visit saw a change, at rates that stand beside each other for each gap."""
    return rng.random(rates.shape) < -np.expm1(-rates * GAP)


def drawn(rng, many=SOURCES):
    return rng.lognormal(np.log(0.02), 1.2, many)


def learned(changed):
    evidence = Evidence.from_gaps(np.full(changed.shape, GAP), changed)
    prior = fit_collection(Likelihoods.of(evidence, np.inf).on_grid())
    return persistence_scores(evidence, prior.weights), evidence


def test_rates_that_stay_are_kept_and_rates_that_change_are_not():
    rng = np.random.default_rng(1)
    constant = np.repeat(drawn(rng)[:, None], 20, axis=1)
    anew = np.where(np.arange(20) < 10, drawn(rng)[:, None], drawn(rng)[:, None])
    some = np.where(rng.random(SOURCES)[:, None] < 0.5, constant, anew)
    shares = []
    for rates in (constant, some, anew):
        scores, evidence = learned(outcomes(rng, rates))
        shares.append(kept(scores, evidence, 1_000.0).mean())
    assert shares[0] > 0.8
    assert 0.15 < shares[1] < 0.5
    assert shares[2] < 0.12


def drifting(rng, many, steps, days):
    """Rates of each gap; one lasts so many days on average, and is then drawn anew."""
    rates = np.empty((many, steps))
    rates[:, 0] = drawn(rng, many)
    for k in range(1, steps):
        new = rng.random(many) < -np.expm1(-GAP / days)
        rates[:, k] = np.where(new, drawn(rng, many), rates[:, k - 1])
    return rates


@pytest.mark.parametrize("days", [200.0, 800.0])
def test_the_time_that_rates_last_is_found(days):
    rng = np.random.default_rng(2)
    scores, _ = learned(outcomes(rng, drifting(rng, 2_000, 20, days)))
    assert days / 1.5 < DAYS[np.argmax(scores)] < days * 2.0


def test_what_all_do_together_is_no_drift():
    rng = np.random.default_rng(3)
    level = np.where(np.arange(20) < 10, 1.0, 3.0)
    scores, evidence = learned(outcomes(rng, drawn(rng)[:, None] * level))
    assert kept(scores, evidence, 1_000.0).mean() > 0.75


def test_without_two_comparisons_or_without_forgetting_nothing_changes():
    rng = np.random.default_rng(4)
    changed = outcomes(rng, drawn(rng)[:, None])
    scores, evidence = learned(changed)
    assert scores is None
    assert kept(scores, evidence, 1_000.0).tolist() == [1.0] * SOURCES
    scores, evidence = learned(outcomes(rng, np.repeat(drawn(rng)[:, None], 6, axis=1)))
    assert kept(scores, evidence, np.inf).tolist() == [1.0] * SOURCES


def freshness(rates, periods):
    """Mean over the sources and over the gaps to come."""
    x = np.maximum(rates * periods[:, None], 1e-12)
    return float((-np.expm1(-x) / x).mean())


@pytest.mark.slow
@pytest.mark.parametrize("way", ["visits", "rates", "table"])
def test_where_rates_do_not_last_a_plan_keeps_its_promise_and_is_not_below_uniform(tmp_path, way):
    rng = np.random.default_rng(5)
    rates = drifting(rng, SOURCES, 60, 400.0)
    changed, after = outcomes(rng, rates[:, :20]), rates[:, 20:]
    times = 86_400.0 * GAP * np.arange(21)
    file = tmp_path / "visits.csv"
    with file.open("w") as out:
        out.write("source,time,changed\n")
        for i, row in enumerate(changed):
            seen = ["", *(int(x) for x in row)]
            out.writelines(f"s{i:04},{t:.0f},{x}\n" for t, x in zip(times, seen, strict=True))
    budget = SOURCES / GAP
    if way == "table":
        found = plan(estimate_rates(read_visits(file), "pooled"), budget=budget)
        periods, promised, error = found.period_days, found.collection_alpha, found.alpha_error
    else:
        given = file
        if way == "rates":
            given = tmp_path / "rates.csv"
            run("estimate", file, "-o", given)
            assert '"rate_ahead","rate_mean"' in given.read_text().splitlines()[0]
        answer = json.loads(run("plan", given, "--budget", f"{budget}/day", "--json"))
        rows = sorted(answer["sources"], key=lambda row: row["source"])
        periods = np.array([row["period_days"] or 1e9 for row in rows], float)
        promised, error = answer["alpha"], answer["alpha_error"]
    achieved = freshness(after, periods)
    assert achieved > freshness(after, np.full(SOURCES, GAP)) - 5e-4
    assert abs(promised - achieved) < 2.5 * error < 0.06


def run(*words):
    result = CliRunner().invoke(cli, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result.output
