"""How are the rates of a collection distributed? Learned while it is being visited.

The collection is its own prior (DESIGN 4): the weights of a grid of rates that make all outcomes so
far most likely, found by expectation maximisation (Kiefer and Wolfowitz; frontier 9). A group with
many sources has a prior of its own, drawn towards the prior of all.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Learned", "Lesson", "learn_prior"]

Floats: TypeAlias = NDArray[np.float64]

_SAMPLE = 20_000
_STEPS = 40
_FLOOR = 1e-3
"""Share of the prior that stays spread over all rates: nothing is impossible."""
_LEAST_OF_A_GROUP, _PARENT_STANDS_FOR = 30, 10.0
_AGE_WEIGHTS = (0.0, 0.5, 1.0)


class Lesson(NamedTuple):
    """What a prior is learned from: copies, so that visits may go on meanwhile."""

    slots: NDArray[np.int64]
    """The places of the sources in the scheduler."""
    grid: Floats
    evidence: Floats
    """Log-likelihood of each rate, a row a source."""
    age: Floats
    """At the first visit; −1 where it was not told."""
    node: NDArray[np.int64]
    parent: NDArray[np.int64]
    """The group of each source, and the group above each group."""
    before: Floats
    """The prior so far."""


class Learned(NamedTuple):
    slots: NDArray[np.int64]
    prior: Floats
    """A row for each group; the first is the whole collection."""
    group: NDArray[np.int64]
    """The row of each source."""
    age_weight: float
    """How far the age at the first visit is to be believed."""


def learn_prior(lesson: Lesson) -> Learned:
    """Fit the prior to the evidence of all sources.

    The age at the first visit counts fully, half, or not at all: whichever predicts the outcomes
    of the visits best.
    """
    slots, grid, evidence, age, node, parent, before = lesson
    sample = np.arange(0, len(evidence), -(-len(evidence) // _SAMPLE))
    told = age >= 0
    ages = np.where(told[:, None], np.log(grid) - grid * np.maximum(age, 0.0)[:, None], 0.0)
    best, age_weight, prior = -np.inf, 1.0, before
    for weight in _AGE_WEIGHTS if told.any() else (1.0,):
        first = _scaled(weight * ages[sample])
        both = first * _scaled(evidence[sample])
        found = _most_likely(both, before)
        score = float(np.log(both @ found).sum() - np.log(first @ found).sum())
        if score > best:
            best, age_weight, prior = score, weight, found
    group, groups = _large_groups(node, parent)
    if groups == 1:
        return Learned(slots, prior[None, :], group, age_weight)
    return Learned(
        slots,
        _drawn_together(_scaled(evidence + age_weight * ages), group, groups, prior),
        group,
        age_weight,
    )


def _scaled(log: Floats) -> Floats:
    return np.asarray(np.exp(log - log.max(axis=1, keepdims=True)))


def _most_likely(likelihood: Floats, start: Floats) -> Floats:
    weights = 0.5 * start + 0.5 / len(start)
    for _ in range(_STEPS):
        share = (likelihood / (likelihood @ weights)[:, None]).mean(axis=0) * weights
        weights = (1 - _FLOOR) * share + _FLOOR / len(start)
    return weights


def _large_groups(
    node: NDArray[np.int64], parent: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int]:
    """The smallest group of at least thirty sources that each source is in, numbered from 0."""
    counts = np.bincount(node[node >= 0], minlength=len(parent))
    for child in range(len(parent) - 1, 0, -1):  # children come after their parents
        counts[parent[child]] += counts[child]
    place = np.where(node >= 0, node, 0)
    while (small := (place > 0) & (counts[place] < _LEAST_OF_A_GROUP)).any():
        place[small] = parent[place[small]]
    _, rows = np.unique(np.concatenate([[0], place]), return_inverse=True)
    return rows[1:].astype(np.int64), int(rows.max()) + 1


def _drawn_together(
    likelihood: Floats, group: NDArray[np.int64], groups: int, prior: Floats
) -> Floats:
    """A prior for each group, with the weight of ten sources on the prior of all."""
    order = np.argsort(group, kind="stable")
    filled, begins = np.unique(group[order], return_index=True)
    counts = np.bincount(group, minlength=groups)[:, None]
    priors = np.tile(prior, (groups, 1))
    for _ in range(_STEPS // 2):
        share = likelihood * priors[group]
        share /= share.sum(axis=1, keepdims=True)
        sums = np.zeros_like(priors)
        sums[filled] = np.add.reduceat(share[order], begins, axis=0)
        priors = (sums + _PARENT_STANDS_FOR * prior) / (counts + _PARENT_STANDS_FOR)
    return np.asarray(priors)
