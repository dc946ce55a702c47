"""Brewington's partition: his figures, a generic solver, and the optimum without a partition."""

import numpy as np
import pytest
from scipy.optimize import minimize

from observant.currency import WeibullPopulation, currency
from observant.errors import InputError
from observant.papers.thesis.partition import (
    SourceDensity,
    anneal,
    equiprobable,
    exact_optimum,
    grace_plane,
    refine,
    single_queue,
)

WEB = WeibullPopulation(1.4, 152.2)
PERIODS = (10, 30, 100, 200, 300, 600)


@pytest.fixture(scope="module")
def web():
    """The population of the thesis, access times cut at their 10 % quantile (errata B-26)."""
    return SourceDensity.independent(cut=0.1)


@pytest.fixture(scope="module")
def coarse():
    return SourceDensity.independent(cut=0.1, cells=(60, 40))


@pytest.fixture(scope="module")
def few():
    """A density of twelve cells, small enough for a generic solver."""
    rng = np.random.default_rng(5)
    mass = rng.random((4, 3))
    edges = np.geomspace(2, 300, 5), np.geomspace(1, 50, 4)
    return SourceDensity.from_function(lambda t, v: mass + 0 * t * v, *edges)


# -- the figures of the thesis --------------------------------------------------------------------


def test_single_queue_is_the_population_average(web):
    """t and τ are independent, so popularity does not matter to one queue (errata B-26)."""
    for period in PERIODS:
        assert single_queue(web, period, 1) == pytest.approx(currency(WEB, period, 1), abs=1e-8)
    printed = [0.941, 0.838, 0.624, 0.459, 0.362, 0.216]
    assert [single_queue(web, period, 1) for period in PERIODS] == pytest.approx(printed, abs=6e-4)


@pytest.mark.slow
def test_exact_optimum_of_the_web(web):
    """Errata B-26, with the cut and without; the cells along τ cost up to 0.0007 without it."""
    printed = [0.960, 0.869, 0.672, 0.528, 0.445, 0.318]
    found = [exact_optimum(web, period, 1).alpha for period in PERIODS]
    assert found == pytest.approx(printed, abs=6e-4)
    full = SourceDensity.independent()
    printed = [0.975, 0.913, 0.778, 0.676, 0.616, 0.517]
    found = [exact_optimum(full, period, 1).alpha for period in PERIODS]
    assert found == pytest.approx(printed, abs=8e-4)


@pytest.mark.slow
def test_six_by_six(coarse):
    """The 6×6 partition at T₀ = 100 and 600 days: .669 and .316 by errata B-26; the thesis
    reads .04 above .62, and .2 to .3. Coarse cells cost 0.001 at most.
    """
    for period, printed in ((100, 0.669), (600, 0.316)):
        best = refine(equiprobable(coarse, period, (6, 6), 1))
        assert best.alpha == pytest.approx(printed, abs=1.5e-3)
        assert best.alpha < exact_optimum(coarse, period, 1).alpha
        assert best.visits == pytest.approx(1 / period, rel=1e-9)


@pytest.mark.slow
def test_annealing_reaches_the_partition(coarse):
    start = equiprobable(coarse, 100, (4, 4), 1)
    found, best = anneal(start, 8_000, seed=1), refine(start)
    assert start.alpha + 0.03 < found.alpha <= best.alpha + 0.002
    assert found.alpha == pytest.approx(best.alpha, abs=0.005)
    assert found.visits == pytest.approx(1 / 100, rel=1e-9)
    assert (found.rates >= 0).all()
    # It moved lines and rates (errata B-24: the printed chance would never swap a rate).
    assert not np.allclose(found.change_lines, start.change_lines)
    assert found.periods.max() / found.periods.min() > 3
    # Fast-changing sources that nobody asks for are the ones ignored.
    assert np.unravel_index(np.argmax(found.periods), (4, 4)) == (0, 3)
    assert found.history[0] == pytest.approx(start.alpha)
    again = anneal(start, 8_000, seed=1)
    assert (again.alpha, again.rates.tolist()) == (found.alpha, found.rates.tolist())


@pytest.mark.slow
def test_finer_grids_come_nearer_to_the_optimum(coarse):
    values = [refine(equiprobable(coarse, 200, (n, n), 1)).alpha for n in (1, 2, 4)]
    assert values[0] == pytest.approx(single_queue(coarse, 200, 1))
    assert values == sorted(values)
    assert values[-1] < exact_optimum(coarse, 200, 1).alpha


def test_a_single_box_cannot_move(coarse):
    start = equiprobable(coarse, 50, (1, 1), 1)
    assert anneal(start, 50).alpha == pytest.approx(single_queue(coarse, 50, 1))


# -- against a generic solver ---------------------------------------------------------------------


def by_slsqp(alpha_of, sources, budget):
    """Largest α over visit rates per source, Σ sources·rate = budget."""
    result = minimize(
        lambda x: -alpha_of(x),
        np.full(sources.size, budget),
        bounds=[(1e-9, None)] * sources.size,
        constraints={"type": "eq", "fun": lambda x: (sources.ravel() @ x) / budget - 1},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return -result.fun


@pytest.mark.parametrize("period", [5, 40, 300])
def test_exact_optimum_equals_a_generic_solver(few, period):
    def alpha_of(x):
        alpha = currency(1 / few.change_times[:, None], 1 / x.reshape(4, 3), 1)
        return float((few.accesses * alpha).sum())

    best = exact_optimum(few, period, 1)
    assert (few.sources / best.periods).sum() == pytest.approx(1 / period, rel=1e-9)
    assert best.alpha == pytest.approx(by_slsqp(alpha_of, few.sources, 1 / period), abs=1e-7)


def test_rates_of_given_lines_equal_a_generic_solver(few):
    start = equiprobable(few, 40, (2, 2), 1)
    best = refine(start, iterations=0)
    assert best.change_lines == pytest.approx(start.change_lines)

    def alpha_of(x):
        from dataclasses import replace

        return replace(start, rates=start.sources * x.reshape(2, 2)).alpha

    assert best.alpha == pytest.approx(by_slsqp(alpha_of, start.sources, 1 / 40), abs=1e-7)


@pytest.mark.slow
def test_refined_lines_are_a_local_optimum(coarse):
    from dataclasses import replace

    best = refine(equiprobable(coarse, 100, (3, 3), 1), iterations=200)
    for name in ("change_lines", "access_lines"):
        for line in (1, 2):
            for factor in (0.9, 1.1):
                lines = getattr(best, name).copy()
                lines[line] *= factor
                moved = refine(replace(best, **{name: lines}), iterations=0)
                assert moved.alpha < best.alpha + 1e-5


# -- the density ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_accesses_fall_with_the_access_time(web):
    """h = C·f/τ (4.26), so E_f[1/τ] is its constant; and the marginal of t is the same.

    Within a cell of 4 % τ is not quite its centre, most so in the tail: 0.3 %.
    """
    ratio = web.accesses / web.sources
    assert ratio * web.access_times == pytest.approx(
        np.broadcast_to((ratio * web.access_times)[0, 0], ratio.shape), rel=5e-3
    )
    assert web.accesses.sum(axis=1) == pytest.approx(web.sources.sum(axis=1))


def test_accesses_of_any_density_and_of_a_collection(few):
    """h = C·f/τ in every cell, and 1/τ for every source."""
    expected = few.sources / few.access_times
    assert few.accesses == pytest.approx(expected / expected.sum())
    two = SourceDensity.from_sources([10.0, 1000.0], [1.0, 9.0], cells=(4, 4))
    assert two.sources[[0, -1], [0, -1]] == pytest.approx([0.5, 0.5])
    assert two.accesses[[0, -1], [0, -1]] == pytest.approx([0.9, 0.1])


def test_shares_of_boxes_add_up(web):
    start = equiprobable(web, 30, (5, 7), 1)
    assert start.sources.sum() == pytest.approx(1)
    assert start.accesses.sum() == pytest.approx(1)
    # The start splits the accesses evenly along both axes, figure 4.6.
    assert start.accesses.sum(axis=1) == pytest.approx(np.full(5, 1 / 5), abs=1e-3)
    assert start.accesses.sum(axis=0) == pytest.approx(np.full(7, 1 / 7), abs=1e-3)
    assert start.periods == pytest.approx(np.full((5, 7), 30.0))
    assert start.alpha == pytest.approx(single_queue(web, 30, 1))


def test_the_budget_counts_sources_not_accesses(coarse):
    """Errata B-21: a popular box costs no more visits than an unpopular one of as many sources."""
    best = refine(equiprobable(coarse, 100, (3, 3), 1), iterations=0)
    assert (best.sources / best.periods).sum() == pytest.approx(1 / 100)
    assert abs((best.accesses / best.periods).sum() - 1 / 100) > 1e-3


def test_ignored_sources_lie_beyond_a_straight_line(web):
    """Never visited are those with τ ≥ c·(t + β) (errata B-26)."""
    best = exact_optimum(web, 300, 1)
    worth = (web.change_times[:, None] + 1) / web.access_times
    ignored = np.isinf(best.periods)
    assert 0 < ignored.mean() < 1
    assert worth[ignored].max() <= worth[~ignored].min() * 1.01


def test_density_of_a_collection():
    rng = np.random.default_rng(0)
    t, v = WEB.scale * rng.weibull(1.4, 20_000), 5 + rng.weibull(1.4, 20_000)
    density = SourceDensity.from_sources(t, v)
    mean = np.average(currency(1 / t, 100, 1), weights=1 / v)
    # Sorting into 120 cells along t moves no time by more than half a cell.
    assert single_queue(density, 100, 1) == pytest.approx(mean, abs=2e-3)
    assert exact_optimum(density, 100, 1).alpha > single_queue(density, 100, 1)


# -- grace ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_grace_may_be_a_function(coarse):
    constant = equiprobable(coarse, 100, (3, 3), 1.0)
    same = equiprobable(coarse, 100, (3, 3), lambda t, v: 1.0 + 0 * t * v)
    assert same.alpha == pytest.approx(constant.alpha)
    assert refine(same, iterations=3).alpha == pytest.approx(refine(constant, iterations=3).alpha)
    assert anneal(same, 300).alpha == pytest.approx(anneal(constant, 300).alpha)


@pytest.mark.slow
def test_grace_plane(coarse):
    plane = grace_plane(coarse, longest=30)
    assert plane(coarse.change_times[-1], coarse.access_times[-1]) == pytest.approx(30)
    assert plane(0.0, 0.0) == 0.0
    start = equiprobable(coarse, 100, (3, 3), plane)
    assert start.alpha > equiprobable(coarse, 100, (3, 3), 0.0).alpha  # grace only helps
    found, best = anneal(start, 2_000), refine(start, iterations=20)
    assert start.alpha < found.alpha < exact_optimum(coarse, 100, plane).alpha
    assert best.alpha < exact_optimum(coarse, 100, plane).alpha
    assert found.alpha == pytest.approx(best.alpha, abs=0.01)
    assert best.visits == pytest.approx(1 / 100)


# -- bad input ------------------------------------------------------------------------------------


def test_bad_input_is_named(coarse):
    with pytest.raises(InputError, match="more than 0 days"):
        single_queue(coarse, 0)
    with pytest.raises(InputError, match="at least one row"):
        equiprobable(coarse, 10, (0, 3))
    with pytest.raises(InputError, match="share of the sources"):
        SourceDensity.independent(cut=1)
    with pytest.raises(InputError, match="need a cut"):
        SourceDensity.independent(access=WeibullPopulation(0.9, 1))
    with pytest.raises(InputError, match="growing times"):
        SourceDensity.from_function(lambda t, v: t * v, [2, 1], [1, 2])
    with pytest.raises(InputError, match="not zero everywhere"):
        SourceDensity.from_function(lambda t, v: 0 * t * v, [1, 2], [1, 2])
    with pytest.raises(InputError, match="mean change time"):
        SourceDensity.from_sources([1, 2], [1])
    with pytest.raises(InputError, match="not negative"):
        single_queue(coarse, 10, -1.0)
    with pytest.raises(InputError, match="damping"):
        anneal(equiprobable(coarse, 10, (2, 2)), damping=(2, 1))
