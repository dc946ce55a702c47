"""How are the rates of a collection distributed? Learned while it is being visited.

The collection is its own prior (DESIGN 4): the weights of a grid of rates that make all outcomes so
far most likely (`observant.estimation.priors.fit_mixture`; frontier 9). A group with many sources
has a prior of its own, drawn towards the prior of all.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Learned", "Lesson", "learn_prior"]

Floats: TypeAlias = NDArray[np.float64]

_SAMPLE = 5_000
_FEW = 20
"""Fewer sources than this say nothing about a distribution."""
_STEPS, _GROUP_STEPS = 60, 20
_FLOOR = 1e-3
"""Share of the prior that stays spread over all rates: nothing is impossible."""
_LEAST_OF_A_GROUP, _PARENT_STANDS_FOR = 30, 10.0
_AGE_WEIGHTS = (0.0, 0.5, 1.0)


class Lesson(NamedTuple):
    """What a prior is learned from: copies, so that visits may go on meanwhile."""

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
    prior: Floats
    """A row for each group; the first is the whole collection."""
    rows: NDArray[np.int64]
    """The row of each group of siblings; sources without siblings have the first."""
    age_weight: float
    """How far the age at the first visit is to be believed."""


def learn_prior(lesson: Lesson) -> Learned:
    """Fit the prior to the evidence of all sources.

    The age at the first visit counts fully, half, or not at all: whichever predicts the outcomes
    of the visits best.
    """
    grid, evidence, age, node, parent, before = lesson
    told = age >= 0
    known = np.flatnonzero(told | (np.ptp(evidence, axis=1) > 0))
    if len(known) < _FEW:
        return Learned(before[None, :], np.zeros(len(parent), np.int64), 1.0)
    sample = known[:: -(-len(known) // _SAMPLE)]
    ages = np.where(told[:, None], np.log(grid) - grid * np.maximum(age, 0.0)[:, None], 0.0)
    best, age_weight, prior = -np.inf, 1.0, before
    for weight in _AGE_WEIGHTS if told.any() else (1.0,):
        first = _scaled(weight * ages[sample])
        both = first * _scaled(evidence[sample])
        found = _most_likely(both, grid)
        score = float(np.log(both @ found).sum() - np.log(first @ found).sum())
        if score > best:
            best, age_weight, prior = score, weight, found
    rows = _rows_of_groups(node, parent)
    groups = int(rows.max()) + 1
    if groups == 1:
        return Learned(prior[None, :], rows, age_weight)
    group = np.where(node >= 0, rows[node], 0)[known]
    return Learned(
        _drawn_together(_scaled((evidence + age_weight * ages)[known]), group, groups, prior),
        rows,
        age_weight,
    )


def _scaled(log: Floats) -> Floats:
    return np.asarray(np.exp(log - log.max(axis=1, keepdims=True)))


def _most_likely(likelihood: Floats, grid: Floats) -> Floats:
    from observant.estimation.priors import fit_mixture

    found = fit_mixture(likelihood, grid, iterations=_STEPS, tolerance=1e-5).weights
    return np.asarray((1 - _FLOOR) * found / found.sum() + _FLOOR / len(grid))


def _rows_of_groups(node: NDArray[np.int64], parent: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which prior each group has: its own with thirty sources, else that of the group above."""
    counts = np.bincount(node[node >= 0], minlength=len(parent))
    for child in range(len(parent) - 1, 0, -1):  # children come after their parents
        counts[parent[child]] += counts[child]
    place = np.arange(len(parent))
    while (small := (place > 0) & (counts[place] < _LEAST_OF_A_GROUP)).any():
        place[small] = parent[place[small]]
    _, rows = np.unique(place, return_inverse=True)
    return np.asarray(rows, np.int64)


def _drawn_together(
    likelihood: Floats, group: NDArray[np.int64], groups: int, prior: Floats
) -> Floats:
    """A prior for each group, with the weight of ten sources on the prior of all."""
    order = np.argsort(group, kind="stable")
    filled, begins = np.unique(group[order], return_index=True)
    counts = np.bincount(group, minlength=groups)[:, None]
    priors = np.tile(prior, (groups, 1))
    for _ in range(_GROUP_STEPS):
        share = likelihood * priors[group]
        share /= share.sum(axis=1, keepdims=True)
        sums = np.zeros_like(priors)
        sums[filled] = np.add.reduceat(share[order], begins, axis=0)
        priors = (sums + _PARENT_STANDS_FOR * prior) / (counts + _PARENT_STANDS_FOR)
    return np.asarray(priors)
