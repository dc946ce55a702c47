"""Signals beside a visit log: how far they are true, what they say of rates, and of a plan."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from observant import VisitLog, estimate_rates, estimate_signals, plan, read_signals
from observant.cli.estimate import estimate
from observant.cli.plan import plan as plan_command
from observant.errors import InputError
from observant.planning.signals import SignalledFreshness

DAYS, RATE = 400.0, 1 / 20


def recorded(folder, *, recall, false, period=30.0, sources=60, seed=1):
    """Files of visits, most of them right after a signal, and of signals an hour late."""
    rng = np.random.default_rng(seed)
    visits, signals = ["source,time,changed"], ["source,time,kind,changed_at"]
    for i in range(sources):
        name = f"https://h{i % 2}.example/{i}"
        changes = np.sort(rng.uniform(0, DAYS, rng.poisson(RATE * DAYS)))
        told = changes[rng.random(len(changes)) < recall]
        lies = rng.uniform(0, DAYS, rng.poisson(false * DAYS))
        at = np.concatenate([told + 1 / 24, lies])
        for when, about in sorted(zip(at, np.concatenate([told, lies]), strict=True)):
            signals.append(f"{name},{when * 86_400:.0f},ping,{about * 86_400:.0f}")
        now, last = rng.uniform(0, period), None
        while now < DAYS:
            seen = "" if last is None else int(((changes > last) & (changes <= now)).any())
            visits.append(f"{name},{now * 86_400:.0f},{seen}")
            later = at[at > now].min(initial=np.inf) + 0.05
            last, now = now, min(later if rng.random() < 0.9 else np.inf, now + period)
    (folder / "visits.csv").write_text("\n".join(visits))
    (folder / "signals.csv").write_text("\n".join(signals))
    return folder / "visits.csv", folder / "signals.csv"


def read(files):
    from observant import read_visits

    return read_visits(files[0]), read_signals(files[1])


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return recorded(tmp_path_factory.mktemp("good"), recall=0.9, false=0.005)


def ratio(log, **more):
    """Of the rates found and the true one, by their geometric mean."""
    return np.exp(np.log(estimate_rates(log, "pooled", **more).rate_per_day / RATE).mean())


def test_visits_that_signals_brought_about_do_not_make_changes_look_quick(good):
    log, signals = read(good)
    judged = estimate_signals(log, signals)
    assert ratio(log) > 1.2  # a visit that comes right after a change
    assert 0.88 < ratio(log, signals=judged) < 1.12
    assert len(judged) == 2
    for row in judged.reliability:
        assert row.recall_low - 0.1 <= 0.9 <= row.recall_high + 0.1
        assert row.precision_low < 10 / 11 < row.precision_high + 0.02
        assert row.verdict == "believed"
    assert judged.delay_low.max() < judged.delay.mean() < judged.delay_high.min() < 0.1
    assert "h0.example" in str(judged)


def test_lies_leave_rates_as_they_are(tmp_path):
    log, signals = read(recorded(tmp_path, recall=0.0, false=0.05))
    judged = estimate_signals(log, signals)
    assert [row.verdict for row in judged.reliability] == ["lies", "lies"]
    assert ratio(log, signals=judged) == pytest.approx(ratio(log), rel=0.02)


def test_strangers_and_methods_that_cannot_are_refused(good):
    log, signals = read(good)
    other = VisitLog.from_columns(["b", "b"], [0, 1], [None, True], time_unit="d")
    with pytest.raises(InputError, match="no signal is about a source"):
        estimate_signals(other, signals)
    judged = estimate_signals(log, signals)
    with pytest.raises(InputError, match="pooled methods"):
        estimate_rates(log, "mle", signals=judged)
    with pytest.raises(InputError, match="freshness"):
        plan(estimate_rates(log, "pooled"), budget=1.0, objective="age", signals=judged)


def lived(rate, recall, false, wait, worth, cycles=4000, seed=3):
    """Mean length of cycles that end when s + b·n reaches ι, and the fresh part of them."""
    rng = np.random.default_rng(seed)
    length, fresh = np.zeros(cycles), np.zeros(cycles)
    for k in range(cycles):
        s, left, dirty = 0.0, wait, np.inf
        while True:
            step, sort = rng.exponential(1 / (rate + false)), rng.random() * (rate + false)
            if step >= left:
                s += max(left, 0.0)
                break
            s, left = s + step, left - step
            if sort < rate:
                dirty = min(dirty, s)
            if sort >= rate or rng.random() < recall:
                left -= worth
                if left <= 0:
                    break
        length[k], fresh[k] = s, min(s, dirty)
    return length, fresh


@pytest.mark.parametrize(("recall", "false"), [(0.9, 0.01), (0.6, 0.1)])
def test_what_a_plan_counts_on_is_what_comes(recall, false):
    """Length and freshness of the cycles, against cycles that were drawn, to four errors."""
    model, period = SignalledFreshness([0.1], [recall], [false]), 8.0
    wait, fresh = (float(one[0]) for one in model.waits(period))
    worth = np.log((recall * 0.1 + false) / false) / ((1 - recall) * 0.1)
    length, new = lived(0.1, recall, false, wait, worth)
    assert abs(length.mean() - period) < 4 * length.std() / len(length) ** 0.5
    assert abs(new.mean() - fresh) < 4 * new.std() / len(new) ** 0.5
    assert model.mean_penalty(period)[0] == pytest.approx(1 - fresh / period)
    price = model.index(period)[0]
    assert model.period_at(price)[0] == pytest.approx(period, rel=1e-6)


def test_announced_sources_need_few_visits_of_their_own(good):
    log, signals = read(good)
    judged = estimate_signals(log, signals)
    rates = estimate_rates(log, "pooled", signals=judged)
    alone, told = (plan(rates, budget=3.0, signals=given) for given in (None, judged))
    assert told.spent == pytest.approx(3.0)
    assert told.collection_alpha > alone.collection_alpha + 0.15
    assert told.objective == "freshness"
    assert (told.unprompted_days > 1.5 * alone.period_days).all()
    assert "unprompted_days" in told.to_arrow().column_names
    assert plan(rates, target=alone.collection_alpha, signals=judged).spent < 2.1  # of 3


def test_the_command_line_takes_a_table_of_signals(good, tmp_path):
    visits, signals = map(str, good)
    run = CliRunner().invoke
    told = run(estimate, [visits, "--signals", signals, "--rows", "3"])
    assert told.exit_code == 0, told.output
    assert "believed" in told.output
    found = json.loads(run(estimate, [visits, "--signals", signals, "--json"]).output)
    assert {row["group"] for row in found["signals"]} == {"h0.example", "h1.example"}
    assert len(found["sources"]) == 60
    planned = run(plan_command, [visits, "--budget", "3/day", "--signals", signals])
    assert planned.exit_code == 0, planned.output
    assert "unprompted" in planned.output
    rates = tmp_path / "rates.csv"
    rates.write_text("source,rate_per_day\na,0.1\n")
    refused = run(plan_command, [str(rates), "--budget", "3/day", "--signals", signals])
    assert "needs a visit log" in str(refused.exception)
    assert run(estimate, [visits, "--signals", signals, "--engine", "disk"]).exit_code == 2
