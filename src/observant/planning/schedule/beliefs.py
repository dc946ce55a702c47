# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202
"""What is believed of a source's rate, and what a visit teaches. Compiled.

Import only where it is used. A source's evidence is the log-likelihood of each rate of the grid;
with the prior of its group it becomes its posterior. Time is that of its siblings (`siblings`), and
evidence fades where rates do not last (`forget`).
"""

import math

import numba

from observant.planning.schedule.grids import stays
from observant.planning.schedule.siblings import BLEND, attribute, elapsed, score, weigh

__all__ = ["believe", "believe_all", "believe_one", "learn", "time_of"]

jit = numba.njit(cache=True, nogil=True, error_model="numpy")


@jit
def believe(source, clock, mind, i):
    """Find the posterior of a source's rate, from its prior and the evidence."""
    grid, prior, posterior = mind.grid, mind.prior[source.group], mind.posterior[i]
    aged = clock.age_weight if source.age >= 0 else 0.0
    best = -math.inf
    for k in range(len(grid)):
        posterior[k] = mind.evidence[i, k]
        if aged > 0:  # the age at the first visit: density λe^(−λ·age)
            posterior[k] += aged * (math.log(grid[k]) - grid[k] * source.age)
        best = max(best, posterior[k])
    total = 0.0
    for k in range(len(grid)):
        posterior[k] = prior[k] * math.exp(posterior[k] - best)
        total += posterior[k]
    for k in range(len(grid)):
        posterior[k] /= total


@jit
def believe_one(sources, clocks, mind, i):
    believe(sources[i], clocks[0], mind, i)


@jit
def believe_all(sources, clocks, mind):
    for i in range(clocks[0].slots):
        believe(sources[i], clocks[0], mind, i)


@jit
def learn(source, clock, mind, i, time, outcome, age):
    """Add a comparison to what is known of the source's rate, and of its siblings."""
    gap = time - source.last
    if clock.learning == 0 or outcome < 0 or not 0 < gap < math.inf:
        return
    grid, evidence, tide = mind.grid, mind.evidence, mind.tides[0]
    dated = outcome == 1 and 0 <= age < gap
    own, lately = time_of(source, mind, time), age
    if source.node >= 0:
        chance = judge(source, clock, mind, i, time, outcome == 1)
        attribute(
            tide,
            source.node,
            mind.parent,
            mind.found,
            mind.expected,
            mind.activity,
            mind.news,
            source.last,
            time,
            outcome,
            chance,
            time - age if dated else math.nan,
        )
        if dated:
            lately = clock_of(source, mind, BLEND, time - age, time)
    best = -math.inf
    for k in range(len(grid)):
        x = grid[k] * own
        if dated:
            seen = math.log(grid[k]) - grid[k] * lately
        else:
            seen = math.log(-math.expm1(-x)) if outcome == 1 else -x
        evidence[i, k] += clock.trust * seen
        best = max(best, evidence[i, k])
    for k in range(len(grid)):
        evidence[i, k] -= best
    if clock.drift < math.inf:
        forget(mind.prior[source.group], evidence[i], mind.posterior[i], gap / clock.drift)
        if source.age < 0:
            return
    believe(source, clock, mind, i)


@jit
def judge(source, clock, mind, i, time, changed):
    """Score every belief about siblings by an outcome, and weigh them by that.

    Returns the probability of a change in an ordinary time.
    """
    tide, usual = mind.tides[0], 0.0
    for belief in range(BLEND + 1):
        own = time - source.last
        if belief < BLEND:
            own = clock_of(source, mind, belief, source.last, time)
        if clock.step > 0:
            usual = 1 - stays(mind, mind.posterior[i], clock.step, clock.zero, own * tide.level)
        else:
            usual = 1.0
            for k in range(len(mind.grid)):
                usual -= mind.posterior[i, k] * math.exp(-mind.grid[k] * own * tide.level)
        score(tide, belief, min(max(usual, 1e-6), 1 - 1e-6), changed)
    weigh(tide)
    if clock.step > 0:
        return 1 - stays(mind, mind.posterior[i], clock.step, clock.zero, time - source.last)
    return usual


@jit
def forget(prior, evidence, posterior, gaps):
    """The rate may have been drawn anew since, once in `drift` days: back towards the prior.

    The posterior comes with it, but for what the age at the first visit says.
    """
    total = 0.0
    for k in range(len(prior)):
        posterior[k] = math.exp(evidence[k])
        total += prior[k] * posterior[k]
    kept = math.exp(-gaps)
    sum_of = 0.0
    for k in range(len(prior)):
        likelihood = kept * posterior[k] / total + (1 - kept)
        evidence[k] = math.log(likelihood)
        posterior[k] = prior[k] * likelihood
        sum_of += posterior[k]
    for k in range(len(prior)):
        posterior[k] /= sum_of


@jit
def time_of(source, mind, now):
    """Time since the last visit as the source lives it: on the clock of its siblings."""
    plain = now - source.last
    if source.node < 0 or not 0 < plain < math.inf:
        return plain
    return clock_of(source, mind, BLEND, source.last, now)


@jit
def clock_of(source, mind, belief, since, now):
    """What the clock of a source's siblings shows between two times, by one of the beliefs."""
    node = source.node
    return elapsed(mind.tides[0], mind.activity[node, belief], mind.shown[node, belief], since, now)
