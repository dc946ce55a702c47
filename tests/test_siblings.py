"""Our policy: the grid of rates, the clocks of siblings, the learned prior, and all at work."""

import json
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observant.estimation.belief import GRID, POINTS, Likelihoods, first_prior
from observant.estimation.belief_loops import FINE, FLOOR, OFFSETS, RATES
from observant.estimation.evidence import Evidence
from observant.planning.objectives import objective
from observant.planning.policy import ObservantPolicy
from observant.planning.schedule import Scheduler, index_tables, siblings
from observant.planning.schedule.crossing import CODES
from observant.planning.schedule.learning import Lesson, learn_prior
from observant.processes import Poisson
from observant.simulation import WorldVisits, account, named, replay, simulate, world_of
from observant.simulation.traces import Trace

SCALE_FREE = ["freshness", "harmonic", "age", "delay", "detected"]

# -- the index on a grid --------------------------------------------------------------------------


@cache
def known_to(name):
    """What a scheduler of an objective knows."""
    scheduler = Scheduler(10.0, prior="learn", objective=name)
    scheduler.add(range(100))
    return scheduler._state.known


def believed(name, place, weights):
    """The same with these probabilities of the points at this place, and their rates."""
    known, spot = known_to(name), np.array(place, np.int16)
    q = place[0] + OFFSETS[max(place[1], 0)]
    known.weights[:] = weights
    known.worths[:] = weights * known.factors[q - FLOOR * FINE]
    return known, spot, RATES[q - FLOOR * FINE]


places = st.tuples(st.integers(-8, 8), st.integers(0, 8)).map(
    lambda at: (at[0] * FINE + 128 * (at[1] > 0), at[1])
)
spikes = st.lists(st.tuples(st.integers(0, 22), st.floats(0.01, 1.0)), min_size=1, max_size=6).map(
    lambda some: normal(np.bincount(*zip(*some, strict=True), minlength=POINTS))
)
bells = st.tuples(st.floats(0, 22), st.floats(1, 9)).map(
    lambda bell: normal(np.exp(-0.5 * ((np.arange(POINTS) - bell[0]) / bell[1]) ** 2))
)


def normal(weights):
    return weights / weights.sum()


# Between two times, d = ln(2)/4 = 0.17 apart in logarithm, the logarithm of W is taken for
# straight. Its slope is that of a rate by itself, 0 to 2 (age: 2 to 3), averaged over rates: it
# bends down by at most 0.75 (one rate) and up by at most the variance of slopes, 1 (two rates far
# apart). So the error is at most d²/8 = 0.38 %.
GRID_ERROR = 0.0038


@pytest.mark.parametrize("name", SCALE_FREE)
@settings(max_examples=60)
@given(place=places, weights=spikes, log_time=st.floats(-4.0, 4.0))
def test_looked_up_index_is_that_of_the_objective(name, place, weights, log_time):
    known, spot, rates = believed(name, place, weights)
    s = 10.0**log_time
    exact = weights @ objective(name, rates).index(s)
    # Below the table, λs < 2⁻⁴⁴, an index is nothing.
    assert index_tables.index_of(known, spot, s) == pytest.approx(exact, rel=GRID_ERROR, abs=1e-22)


@pytest.mark.parametrize("name", SCALE_FREE)
@settings(max_examples=60)
@given(place=places, weights=bells, log_time=st.floats(-2.0, 2.5), log_guess=st.floats(-5.0, 5.0))
def test_looked_up_crossing_reaches_the_price(name, place, weights, log_time, log_guess):
    known, spot, rates = believed(name, place, weights)
    law = objective(name, rates)
    price = float(weights @ law.index(10.0**log_time))
    found = index_tables.crossing_of(known, spot, CODES[name], price, 10.0**log_guess)
    if math.isinf(found):  # only where all that is left is rounding
        assert price >= (1 - 1e-9) * float(weights @ law.limit)
    else:
        assert float(weights @ law.index(found)) == pytest.approx(price, rel=GRID_ERROR)
        earlier = float(weights @ law.index(0.97 * found))
        assert earlier <= price * (1 + GRID_ERROR)


@pytest.mark.parametrize("name", ["freshness", "detected"])
def test_a_price_above_the_limit_is_never_reached(name):
    weights = np.full(POINTS, 1 / POINTS)
    known, spot, rates = believed(name, (-512, 0), weights)
    most = float(weights @ objective(name, rates).limit)
    args = (known, spot, CODES[name])
    assert index_tables.crossing_of(*args, 1.01 * most, 1.0) == math.inf
    assert index_tables.crossing_of(*args, 0.99 * most, 1.0) < math.inf
    assert index_tables.crossing_of(*args, 0.0, 1.0) == 0.0


@settings(max_examples=100)
@given(place=places, weights=spikes, log_time=st.floats(-6.0, 5.0))
def test_chance_of_no_change(place, weights, log_time):
    """A straight line between two times errs by 0.31·d²/8 = 0.0012: e⁻ˣ bends by at most 0.31."""
    known, spot, rates = believed("freshness", place, weights)
    s = 10.0**log_time
    exact = float(weights @ np.exp(-rates * s))
    assert index_tables.remains(known, spot, s) == pytest.approx(exact, abs=0.0012)
    assert index_tables.remains(known, spot, 0.0) == 1.0


# -- the clocks of siblings -----------------------------------------------------------------------

BINS = siblings.BINS


class Clocks:
    """The arrays of some groups, as the scheduler keeps them."""

    def __init__(self, parent=(-1,), width=1.0, belief=0):
        nodes = len(parent)
        self.tides = np.zeros(1, siblings.SHARED)
        tide = self.tides[0]
        tide["width"], tide["memory"], tide["nodes"], tide["level"] = width, 3000.0, nodes, 1.0
        tide["weight"][belief] = 1.0
        tide["round"] = tide["due"] = -np.inf
        self.parent = np.array(parent)
        self.found, self.placed, self.expected = np.zeros((3, nodes, BINS))
        self.activities = np.ones((nodes, BINS, siblings.BLEND + 1))
        self.all_shown = np.zeros((nodes, BINS // siblings.STEP, siblings.BLEND + 1))
        self.moved, self.news = np.zeros(nodes), np.zeros(nodes, bool)

    @property
    def tide(self):
        return self.tides[0]

    @property
    def activity(self):
        """What is believed."""
        return self.activities[:, :, siblings.BLEND]

    def refresh(self, now):
        siblings.refresh(
            *(self.tide, self.parent, self.found, self.placed, self.expected),
            *(self.activities, self.all_shown, self.moved, self.news, now),
        )

    def visit(self, node, since, now, changed, chance, at=math.nan):
        siblings.attribute(
            *(self.tide, node, self.parent, self.found, self.placed, self.expected),
            *(self.activities, self.news, since, now, changed, chance, at),
        )

    def elapsed(self, node, since, now):
        shown = self.all_shown[node, :, siblings.BLEND]
        return siblings.elapsed(self.tide, self.activity[node], shown, since, now)

    def slow(self, node, since, now):
        """∫ activity, bin after bin."""
        tide = self.tide
        total = 0.0
        for b in range(math.floor(since / tide["width"]), math.floor(now / tide["width"]) + 1):
            inside = min(now, (b + 1) * tide["width"]) - max(since, b * tide["width"])
            speed = 1.0
            if b >= tide["oldest"]:
                speed = self.activity[node, min(b, tide["bin"]) % BINS]
            total += max(inside, 0.0) * speed
        return total


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**31),
    width=st.sampled_from([0.1, 1.0, 3.7]),
    newest=st.integers(0, 400),
    since=st.floats(0.0, 1.0),
    length=st.floats(0.0, 1.0),
)
def test_a_clock_shows_the_integral_of_the_activity(seed, width, newest, since, length):
    clocks = Clocks(width=width)
    rng = np.random.default_rng(seed)
    now = 0.0
    while clocks.tide["bin"] < newest:  # a visit every few bins
        before, now = now, now + width * rng.exponential(3.0)
        clocks.refresh(now)
        clocks.visit(0, before, now, int(rng.random() < 0.5), rng.random())
        clocks.refresh(now)
    a = since * (now + width)
    b = a + length * 40 * width
    slow = clocks.slow(0, a, b)
    if b >= now:
        assert clocks.elapsed(0, a, b) == pytest.approx(slow, rel=1e-9, abs=1e-9)
    whole = clocks.elapsed(0, a, now + width) if a <= now else None
    if whole is not None:
        assert whole == pytest.approx(clocks.slow(0, a, now + width), rel=1e-9, abs=1e-9)


@settings(max_examples=60)
@given(
    since=st.floats(0.0, 18.0),
    length=st.floats(0.01, 12.0),
    chance=st.floats(0.01, 1.0),
    changed=st.integers(0, 1),
    seed=st.integers(0, 1000),
)
def test_a_visit_is_shared_out_and_nothing_is_lost(since, length, chance, changed, seed):
    """One change is one change on every level of the tree, wherever it is thought to have been."""
    clocks = Clocks(parent=(-1, 0, 1, 0))
    clocks.refresh(31.5)
    clocks.activity[:] = np.random.default_rng(seed).gamma(1.0, 1.0, (4, BINS)) + 0.01
    clocks.visit(2, since, since + length, changed, chance)
    for node in (0, 1, 2):
        assert clocks.found[node].sum() == pytest.approx(changed)
        assert clocks.expected[node].sum() == pytest.approx(chance)
        assert clocks.news[node] == bool(changed)
    assert not clocks.found[3].any()
    assert not clocks.expected[3].any()
    covered = np.zeros(BINS, bool)
    covered[math.floor(since) : math.floor(since + length) + 1] = True
    assert not clocks.expected[2][~covered].any()
    if changed:  # in proportion to the activity of the source's own group, times days
        days = np.minimum(np.arange(BINS) + 1, since + length) - np.maximum(np.arange(BINS), since)
        share = np.maximum(days, 0.0) * clocks.activity[2]
        np.testing.assert_allclose(clocks.found[2], share / share.sum(), atol=1e-9)
        np.testing.assert_allclose(clocks.found[0], clocks.found[2])


def test_a_dated_change_goes_where_it_was():
    clocks = Clocks()
    clocks.refresh(12.0)
    clocks.visit(0, 2.5, 9.5, 1, 0.7, at=4.2)
    assert clocks.placed[0].nonzero()[0].tolist() == [4]
    assert clocks.placed[0, 4] == 1.0
    assert clocks.found[0].nonzero()[0].tolist() == list(range(2, 10))  # in case that is better
    assert clocks.found[0].sum() == pytest.approx(1.0)
    assert clocks.expected[0].sum() == pytest.approx(0.7)
    clocks.visit(0, 2.5, 9.5, 1, 0.7)
    assert clocks.placed[0, 4] == pytest.approx(1.0 + clocks.found[0, 4] / 2)


def test_groups_are_drawn_to_the_group_above():
    clocks = Clocks(parent=(-1, 0, 1))
    clocks.refresh(3.5)
    clocks.found[:, 2], clocks.expected[:, 2] = [9.0, 4.0, 0.0], [3.0, 0.5, 0.0]
    clocks.refresh(4.5)
    level = clocks.tide["level"]  # more was found than expected, everywhere
    assert level == pytest.approx((30 + 9.0) / (30 + 3.0))
    whole = (0.3 * 1.0 + 9.0) / (0.3 + 3.0 * level)
    host = (0.3 * whole + 4.0) / (0.3 + 0.5 * level)
    np.testing.assert_allclose(clocks.activity[:, 2], [whole, host, host])  # no visits: as above
    clocks.found[2, 2], clocks.expected[2, 2] = 0.0, 1e6
    clocks.refresh(5.5)
    assert clocks.activity[2, 2] == pytest.approx(0.0, abs=1e-4)  # many visits: for itself
    np.testing.assert_allclose(clocks.activity[:, 1], 1.0)


def test_what_is_too_old_is_forgotten():
    clocks = Clocks()
    clocks.refresh(1.5)
    clocks.visit(0, 0.5, 1.5, 1, 0.1)
    for now in range(2, BINS):
        clocks.refresh(now + 0.5)
    late = BINS - 0.5
    assert clocks.elapsed(0, 0.0, late) > late + 1.0  # it was active, and that is remembered
    for now in range(BINS, BINS + 2):
        clocks.refresh(now + 0.5)
    late = BINS + 1.5
    assert clocks.elapsed(0, 0.0, late) == pytest.approx(late)
    assert clocks.tide["oldest"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("pause", [5, 81, 100, 255, 256, 300, 1000])
def test_a_clock_goes_on_after_a_pause(pause):
    """Nobody asked for a long time (the observer was down): that was an ordinary time."""
    clocks = Clocks()
    rng = np.random.default_rng(5)
    for now in range(1, 300):
        clocks.refresh(now + 0.5)
        clocks.visit(0, now - 0.5, now + 0.5, int(rng.random() < 0.5), 0.2)
    clocks.refresh(300.0)
    before = clocks.elapsed(0, 290.0, 300.0)
    clocks.refresh(300.0 + pause)
    passed = clocks.elapsed(0, 290.0, 300.0 + pause)
    assert passed == pytest.approx(clocks.slow(0, 290.0, 300.0 + pause))
    if pause < 240:  # as oldest bins are forgotten, the level of all moves a little
        assert passed == pytest.approx(before + pause, rel=1e-3)
    else:
        assert passed == pytest.approx(10.0 + pause)


def test_the_better_forecast_is_believed():
    clocks = Clocks()
    tide = clocks.tide
    spread = [0, 1, 2, siblings.BLEND]
    siblings.weigh(tide)
    np.testing.assert_allclose(tide["weight"][spread], 1 / 4)  # no source tells dates
    for _ in range(50):
        for j, chance in zip(spread, [0.2, 0.4, 0.6, 0.3], strict=True):
            siblings.score(tide, j, chance, True)
    siblings.weigh(tide)
    np.testing.assert_allclose(tide["weight"], [0, 0, 1, 0, 0, 0], atol=1e-6)
    clocks.refresh(12.0)
    clocks.visit(0, 2.5, 9.5, 1, 0.7, at=4.2)  # where dates put changes is judged from now on
    for _ in range(400):
        for j, chance in enumerate([0.2, 0.4, 0.6, 0.1, 0.4, 0.3]):
            siblings.score(tide, j, chance, False)
    siblings.weigh(tide)
    np.testing.assert_allclose(tide["weight"], [0, 0, 0, 1, 0, 0], atol=1e-6)


def test_what_is_believed_is_the_mean_of_the_beliefs():
    clocks = Clocks(parent=(-1, 0))
    clocks.tide["weight"] = [0.4, 0.3, 0.2, 0.0, 0.0, 0.1]
    clocks.refresh(3.5)
    clocks.found[:, 2], clocks.expected[:, 2] = [9.0, 4.0], [3.0, 0.5]
    clocks.refresh(4.5)
    beliefs = clocks.activities[1, 2, : siblings.SPREAD]
    assert beliefs[0] > beliefs[1] > beliefs[2] > 1.0  # the larger K, the closer to the whole
    assert clocks.activity[1, 2] == pytest.approx(0.4 * beliefs[0] + 0.3 * beliefs[1]
        + 0.2 * beliefs[2] + 0.1)  # fmt: skip


def test_a_round_of_very_many_is_made_in_parts():
    """Each question moves some; when all had their turn, each is due by the clocks of now."""
    many = 101_000
    scheduler = Scheduler(many / 10.0, prior="learn", jitter=0.0, explore=0.0)
    scheduler.add(range(many), group=[f"h{i % 100}" for i in range(many)], last=0.0)
    state = scheduler._state
    shared, now = state.groups.shared[0], 0.0
    while shared["owed"] == 0:  # until a round begins
        now += 0.05
        for source in scheduler.due(now, 50):
            scheduler.visited(source, now, True)
    rounds = []
    while shared["owed"] > 0:
        rounds.append(int(shared["owed"]))
        scheduler.due(now, 1)
    assert rounds == sorted(rounds, reverse=True)
    assert len(rounds) > 15
    keys = state.sources["key"].copy()
    priced = (state.sources["state"] == 1) & (state.sources["why"] == 0)
    assert priced.sum() > many / 2
    for node in range(1, 5):  # on one clock, those that were visited together are due together
        alike = priced & (state.sources["node"] == node) & (state.sources["visits"] == 0)
        assert np.ptp(keys[alike] - state.sources["wait"][alike]) < 1e-9


# -- the prior ------------------------------------------------------------------------------------


def outcomes(rates, visits, gap, seed):
    """Likelihoods of existence-only visits at regular times, whose rates last."""
    changed = np.random.default_rng(seed).random((len(rates), visits)) < -np.expm1(
        -rates[:, None] * gap
    )
    return Likelihoods.of(Evidence.from_gaps(np.full(changed.shape, gap), changed), np.inf)


def learned(likelihoods, age=None, node=None, parent=(-1,)):
    n = len(likelihoods)
    lesson = Lesson(
        likelihoods,
        np.full(n, -1.0) if age is None else age,
        np.full(n, -1) if node is None else node,
        np.array(parent),
        first_prior(),
    )
    return learn_prior(lesson)


def near(prior, rate):
    """The share of a prior within a factor of 4.5."""
    return prior[np.abs(np.log(GRID / rate)) < 1.5].sum()


def test_a_population_of_two_rates_is_found():
    """± 0.04 is three standard errors of the share itself, √(0.21/2000), and the floor."""
    fast = np.arange(2000) < 600
    prior = learned(outcomes(np.where(fast, 1.0, 0.05), 300, 1.0, 3)).prior
    assert prior.shape == (1, len(GRID))
    assert prior.sum() == pytest.approx(1.0)
    # A prior is a mixture of bumps, ± 0.5 wide in log λ; the two rates are 3 apart.
    assert near(prior[0], 1.0) == pytest.approx(0.3, abs=0.04)
    assert near(prior[0], 0.05) == pytest.approx(0.7, abs=0.04)
    assert (prior > 0).all()  # nothing is impossible


def test_of_very_many_sources_some_are_copied_of_those_that_were_seen(monkeypatch):
    """A million would hold up an observer, and take the memory twice."""
    monkeypatch.setattr("observant.planning.schedule.scheduler.MOST", 50)
    scheduler = Scheduler(10.0, prior="learn")
    names = [f"{'ab'[k % 2]}.example/{k}" for k in range(200)]
    scheduler.add(names, group=[name.split("/")[0] for name in names], last=0.0)
    for k in range(120):
        scheduler.visited(names[k], 1.0 + k / 1e3, k % 3 == 0)
    lesson = scheduler.lesson((), 9)
    assert len(lesson.likelihoods) == len(lesson.age) == len(lesson.node) == 40
    assert (lesson.likelihoods.place[:, 1] >= 0).all()
    assert len(lesson.everybody) == 200
    assert lesson.one_in == 3
    assert len(learn_prior(lesson).prior) == 3  # of all, and of two groups of a hundred


def test_a_large_group_has_a_prior_of_its_own_drawn_to_the_whole():
    rates = np.where(np.arange(460) < 400, 0.02, 2.0)
    node = np.repeat([1, 2], [400, 60])
    found = learned(outcomes(rates, 300, 1.0, 4), node=node, parent=(-1, 0, 0))
    whole = found.prior[0]
    assert near(whole, 0.02) == pytest.approx(400 / 460, abs=0.02)
    assert found.rows[node].tolist() == node.tolist()
    assert found.owners.tolist() == [0, 1, 2]
    for row, many, rate in ((1, 400, 0.02), (2, 60, 2.0)):  # with ten sources of the whole
        share = (many + 10 * near(whole, rate)) / (many + 10)
        assert near(found.prior[row], rate) == pytest.approx(share, abs=0.01)


def test_a_small_group_goes_with_the_group_above():
    node = np.repeat([1, 2, 3, 4, -1], [10, 25, 40, 12, 5])
    quiet = outcomes(np.zeros(92), 2, 1.0, 1)
    found = learned(quiet, node=node, parent=(-1, 0, 1, 0, 3))
    # Host 1 has 35 with its folder 2, host 3 has 52 with its folder 4; five are in no group.
    assert found.rows.tolist() == [0, 1, 1, 2, 2]


@pytest.mark.parametrize(("honest", "weight"), [(True, 1.0), (False, 0.0)])
def test_ages_are_believed_as_far_as_they_foretell(honest, weight):
    rng = np.random.default_rng(8)
    rates = rng.lognormal(-1.5, 1.5, 3000)
    age = rng.exponential(1 / rates)
    if not honest:  # somebody touched all files now and then
        age = rng.permutation(age)
    assert learned(outcomes(rates, 4, 2.0, 9), age).age_weight == weight


# -- the scheduler --------------------------------------------------------------------------------


def run(scheduler, until, updates, dated=False):
    """Visit a list of update times a source as the scheduler says; returns the visits."""
    visits, last = [], {}
    while (now := scheduler.next_time()) < until:
        for source in scheduler.due(now):
            times = updates[source]
            at = np.searchsorted(times, now)
            age = now - times[at - 1] if dated and at else None
            changed = bool(at > np.searchsorted(times, last.get(source, 0.0)))
            scheduler.visited(source, now, changed, age)
            last[source] = now
            visits.append((now, source))
    return visits


def together(folders=12, each=10, horizon=200.0, seed=4):
    """Folders whose sources are all updated at once, every ten days or so."""
    rng = np.random.default_rng(seed)
    updates, groups = [], []
    for folder in range(folders):
        bursts = np.cumsum(rng.exponential(10.0, 100))
        for _ in range(each):
            updates.append((bursts + rng.random(100) * 0.1)[bursts < horizon])
            groups.append(f"site/{folder}")
    return updates, groups


@pytest.mark.parametrize("dated", [False, True])
def test_a_saved_scheduler_goes_on_exactly(dated):
    updates, groups = together()
    scheduler = Scheduler(12.0, prior="learn", drift=500.0, seed=3)
    scheduler.add(range(120), group=groups, last=0.0)
    for pause in (3.0, 17.3, 31.9, 55.0):  # before the first look at the prior, and after some
        run(scheduler, pause, updates, dated)
        other = Scheduler.restore(json.loads(json.dumps(scheduler.state())))
        assert other.activity("site/3") == scheduler.activity("site/3")
        here, there = (run(one, pause + 12.0, updates, dated) for one in (scheduler, other))
        assert len(here) > 100
        assert here == there
        assert scheduler.price == other.price
        assert scheduler.belief(7) == other.belief(7)


def test_siblings_of_a_changed_source_come_forward_unless_they_were_visited_since():
    scheduler = Scheduler(2.0, prior="learn", jitter=0.0, explore=0.0, burst=1.0, start=0.0)
    groups = ["blog/2024"] * 12 + ["shop/shoes"] * 12
    scheduler.add(range(24), group=groups, last=([0.0] * 6 + [4.9] * 6) * 2)
    scheduler.due(5.0, limit=0)
    before = np.array([scheduler.due_at(i) for i in range(24)])
    scheduler.visited(0, 5.0, True, age=3.0)
    scheduler.visited(12, 5.0, False)
    scheduler.due(6.0, limit=0)
    moved = np.array([scheduler.due_at(i) for i in range(24)]) - before
    assert (moved[1:6] < -0.3).all()  # the clock of the blog ran ahead on day 2
    assert (np.abs(moved[6:12]) < 0.05).all()
    assert (moved[13:18] > 0.3).all()  # that of the shop ran slow
    assert (np.abs(moved[18:24]) < 0.05).all()
    assert scheduler.activity("blog/2024/deeper") == scheduler.activity("blog/2024")


@pytest.mark.slow
def test_how_far_siblings_count_is_learned():
    updates, groups = together()
    scheduler = Scheduler(12.0, prior="learn")
    scheduler.add(range(120), group=groups, last=0.0)
    run(scheduler, 80.0, updates)
    assert scheduler._state.groups.shared["weight"][0, 0] > 0.9  # a group speaks for itself
    rng = np.random.default_rng(6)
    alone = [np.sort(rng.random(rng.poisson(20)) * 200.0) for _ in range(120)]
    scheduler = Scheduler(12.0, prior="learn")
    scheduler.add(range(120), group=groups, last=0.0)
    run(scheduler, 80.0, alone)
    assert scheduler._state.groups.shared["weight"][0, 0] < 0.5


@pytest.mark.slow
def test_a_fast_source_is_not_visited_over_and_over_when_nobody_is_due():
    """After a busy time keys are late, as its price made them, and a fast source comes first.

    A visit to it is worth next to nothing a moment after the last one: others are looked at.
    """
    n, horizon = 200, 40.0
    rng = np.random.default_rng(2)
    updates = [np.sort(rng.random(rng.poisson(horizon / 500)) * horizon) for _ in range(n - 1)]
    updates.append(np.arange(0.0, horizon, 2.0))
    scheduler = Scheduler(20.0, prior="learn", burst=1.0, jitter=0.0, explore=0.0, start=0.0)
    scheduler.add(range(n), last=0.0)
    run(scheduler, 30.0, updates)
    scheduler._state.clock["price"] *= 4
    scheduler._keys.rekey_all(*scheduler._state.all)
    lull = run(scheduler, 32.0, updates)
    assert len(lull) == pytest.approx(40, abs=2)
    assert sum(source == n - 1 for _, source in lull) < 10


# -- the policy in a replay -----------------------------------------------------------------------


def grouped(rates, horizon=365.0, folders=20, seed=1, importance=None):
    """Sources that change independently, in folders that mean nothing."""
    made = Trace.sample(Poisson(1.0), rates, horizon=horizon, seed=seed)
    names = tuple(f"f{i % folders}/{i:05}" for i in range(len(rates)))
    made = replace(made, sources=names).grouped("prefix")
    return replace(made, importance=importance)


def freshness_of(policy, world, score_from=0.0):
    return account(replay(policy, world), world, score_from=score_from)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [0.05, 0.3])
def test_groups_that_mean_nothing_hardly_hurt(budget):
    """Three tenths of a point of freshness; two seeds differ by half of that."""
    rates = np.random.default_rng(2).lognormal(-2.5, 1.5, 400)
    policies = [ObservantPolicy(), ObservantPolicy(siblings=False, name="alone")]
    answer = simulate(grouped(rates), policies, budget=400 * budget, seeds=(1, 2), jobs=1)
    with_them, alone = (answer[n].metrics["freshness"] for n in ("observant", "alone"))
    assert with_them > alone - 0.003
    assert answer["observant"].gap_closed > 0.0


@pytest.mark.slow
def test_groups_that_change_together_are_put_to_use():
    updates, groups = together(folders=30, each=10, horizon=300.0)
    source = np.repeat([f"{g}/{i}" for i, g in enumerate(groups)], [len(u) for u in updates])
    trace = Trace.from_columns(list(source), np.concatenate(updates)).grouped("prefix")
    policies = [ObservantPolicy(), ObservantPolicy(siblings=False, name="alone")]
    answer = simulate(trace, policies, budget=30.0, start=0.0, end=300.0, jobs=1)
    # One visit tells of all ten: the others are worth a visit only then.
    fresh = {name: answer[name].metrics["freshness"] for name in ("observant", "alone")}
    assert fresh["observant"] > fresh["alone"] + 0.05


@pytest.mark.slow
@pytest.mark.parametrize("evidence", ["existence", "dated", "mixed"])
@pytest.mark.parametrize("first_visit", ["known", "counted"])
def test_a_replay_spends_every_slot_and_is_the_same_for_a_seed(evidence, first_visit):
    rates = np.random.default_rng(3).lognormal(-2.5, 1.5, 150)
    options = {
        "budget": 15.0,
        "evidence": evidence,
        "first_visit": first_visit,
        "failure": 0.1,
        "start": 30.0,
    }
    trace = grouped(rates, horizon=130.0)
    world = world_of(trace, seed=5, **options)
    one, same = (ObservantPolicy().replay(world) for _ in range(2))
    other = ObservantPolicy().replay(world_of(trace, seed=6, **options))
    assert len(one.source) == world.slots == 1500
    np.testing.assert_allclose(one.time, world.slot_time(np.arange(1500)))
    np.testing.assert_array_equal(one.source, same.source)
    np.testing.assert_array_equal(one.failed, same.failed)
    assert (one.source != other.source).any()
    # 1500 visits, a tenth of which fail: ± 4 standard errors of √(1500·0.09).
    assert one.failed.sum() == pytest.approx(150, abs=47)
    if first_visit == "counted":  # everybody once at first; who failed comes again soon
        assert len(set(one.source[:150].tolist())) > 130
        assert len(set(one.source[:300].tolist())) == 150


@pytest.mark.slow
def test_ages_of_dated_first_visits_help():
    """Rates from one update in three years to ten a day: the ages tell them apart at once."""
    rates = np.random.default_rng(4).lognormal(-3.0, 2.0, 500)
    trace = grouped(rates, horizon=1000.0)
    policies = [ObservantPolicy(), ObservantPolicy(ages=False, name="without ages")]
    answer = simulate(
        trace, policies, budget=25.0, start=900.0, end=1000.0, evidence="dated", jobs=1
    )
    with_them, without = (answer[n].metrics["freshness"] for n in ("observant", "without ages"))
    assert with_them > without + 0.002


@pytest.mark.slow
def test_the_objective_is_what_is_optimised():
    rates = np.random.default_rng(5).lognormal(-2.0, 1.5, 300)
    trace = grouped(rates)
    scores = {}
    for name in ("freshness", "detected"):
        answer = simulate(trace, ["observant"], budget=30.0, objective=name, jobs=1)
        scores[name] = answer["observant"].metrics
        assert answer["observant"].gap_closed > 0.2
    assert scores["detected"]["detected_share"] > scores["freshness"]["detected_share"] + 0.03
    assert scores["freshness"]["freshness"] > scores["detected"]["freshness"] + 0.03


def test_important_sources_are_visited_more_often():
    importance = np.where(np.arange(200) < 100, 10.0, 1.0)
    trace = grouped(np.full(200, 0.1), importance=importance)
    world = world_of(trace, budget=10.0, seed=1)
    visits = np.bincount(ObservantPolicy().replay(world).source, minlength=200)
    assert visits[:100].mean() > 2.5 * visits[100:].mean()


@pytest.mark.slow
@pytest.mark.parametrize("budget", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("spread", [0.1, 2.0])
def test_never_below_uniform(budget, spread):
    """Also where rates hardly differ and there is nothing to win.

    Both are scored on the same updates. Two standard errors of the mean difference of a source are
    allowed where there is nothing to win, and none where there is.
    """
    rates = np.random.default_rng(6).lognormal(-3.0, spread, 500)
    world = world_of(grouped(rates, seed=7), budget=500 * budget, seed=2)
    ours, even = (
        freshness_of(policy, world, 180.0) for policy in (ObservantPolicy(), named("uniform"))
    )
    lead = ours.freshness - even.freshness
    error = lead.std(ddof=1) / math.sqrt(len(lead))
    assert lead.mean() > (0.0 if spread > 1 else -2 * error - 0.001)


def test_the_visits_of_a_replay_are_a_policys():
    world = world_of(grouped(np.full(50, 0.1)), budget=5.0, seed=1)
    assert isinstance(replay(ObservantPolicy(), world), WorldVisits)
    assert named("observant") == ObservantPolicy()


# -- dates ----------------------------------------------------------------------------------------


def folders_that_wake(days, rate, seed=4):
    """Thirty folders of eight pages that change at this rate for some days, then rest for long."""
    rng = np.random.default_rng(seed)
    source, time = [], []
    for folder in range(30):
        rests = 60.0 * np.append(rng.random() - 1, rng.exponential(size=12))
        wakes = np.cumsum(rests) + days * np.arange(len(rests))
        for page in range(8):
            changes = [rng.uniform(at, at + days, rng.poisson(rate * days)) for at in wakes]
            own = [-1.0, *(t for t in np.concatenate(changes) if t < 240)]
            source += [f"{folder}/{page}"] * len(own)
            time += own
    return Trace.from_columns(source, time, start=0.0, end=240.0).grouped("prefix")


def stale(trace, evidence):
    answer = simulate(
        *(trace, ["observant"]),
        budget=0.1 * len(trace),
        start=0.0,
        end=240.0,
        score_from="half",
        evidence=evidence,
        seeds=range(1, 3),
    )
    return 1 - answer["observant"].metrics["freshness"]


@pytest.mark.slow
def test_dates_are_used_where_they_help():
    """Whether a change says something of its date alone, or of a busy time, is found out."""
    at_once = folders_that_wake(days=0.1, rate=20.0)
    assert stale(at_once, "dated") < 0.93 * stale(at_once, "existence")
    lasting = folders_that_wake(days=10.0, rate=1.0)
    assert stale(lasting, "dated") < 1.09 * stale(lasting, "existence")
