"""When to change the interval while estimating (Cho, 7.1, example 7)."""

import numpy as np
import pytest

from observant.errors import InputError
from observant.estimation.design import first_gap, next_gap
from observant.estimation.evidence import Evidence
from observant.estimation.rates import solve

from .command_line import run_here


def errors(true, guess, visits, sources, seed, *, adaptive):
    """Root mean square of log(estimate / truth) after so many visits, with or without changing."""
    rng = np.random.default_rng(seed)
    gaps = np.full((sources, 1), first_gap(guess))
    seen = rng.random(gaps.shape) < -np.expm1(-true * gaps)
    while gaps.shape[1] < visits:
        gap = next_gap(guess, gaps, seen)[:, None] if adaptive else gaps[:, -1:]
        gaps = np.hstack([gaps, gap])
        seen = np.hstack([seen, rng.random(gap.shape) < -np.expm1(-true * gap)])
    rate, _, _ = solve(Evidence.from_gaps(gaps, seen), 0.95)
    return float(np.sqrt(np.mean(np.log(np.maximum(rate, true / 100) / true) ** 2)))


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "worth"), [(1.0, 1.15), (8.0, 0.6), (1 / 8, 0.75)])
def test_a_wrong_guess_is_mended_and_a_right_one_costs_little(factor, worth):
    """Of 400 sources, 15 visits each; a ratio of two such errors is known to 5 % or so."""
    guess = 1 / 7
    kept, changed = (
        errors(guess * factor, guess, 15, 400, 3, adaptive=adaptive) for adaptive in (False, True)
    )
    assert changed < worth * kept


def test_gaps_follow_the_evidence():
    """More changes, shorter gaps; scaled time, scaled gaps; the first gap is that of the guess."""
    outcomes = np.arange(5)[None, :] < np.arange(6)[:, None]
    gaps = next_gap(1 / 7, np.full((6, 5), 10.0), outcomes)
    assert np.all(np.diff(gaps) <= 0)
    assert gaps[0] > 10 > gaps[-1]
    weeks = next_gap(1.0, np.full((6, 5), 10 / 7), outcomes)
    assert weeks * 7 == pytest.approx(gaps, rel=0.13)  # the gaps that are weighed are 12 % apart
    with pytest.raises(InputError, match="as many gaps"):
        next_gap(1.0, [1.0], [True, False])


def test_from_the_command_line(tmp_path):
    words = ("study", "design", "--rate", "1/7d", "--visits", "10", "--period", "10d", "--adaptive")
    code, out, err = run_here(*words, cwd=tmp_path)
    assert code == 0, err
    assert "every 10d" in out
    assert [line.split() for line in out.splitlines() if line.split()[:2] == ["4", "4"]] == [
        ["4", "4", "4.5d"]
    ]
