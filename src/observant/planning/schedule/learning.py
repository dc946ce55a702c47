"""How are the rates of a collection distributed? Learned while it is being visited.

The collection is its own prior: the weights of the grid of rates that make all outcomes so far most
likely (`observant.estimation.priors.fit_collection`). A group with many sources has a prior of its
own, drawn towards the prior of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from observant.estimation.belief import GRID, Likelihoods
from observant.estimation.priors import FEWEST, fit_collection

if TYPE_CHECKING:
    from observant.arrays import Floats, Integers

SAMPLE = 5_000
"""Sources, at most, that the prior of a collection is learned from."""
MOST = 20 * SAMPLE
"""Sources, at most, that the priors of its groups are learned from."""
_GROUP_STEPS = 20
_LEAST_OF_A_GROUP, _PARENT_STANDS_FOR = 30, 10.0
_AGE_WEIGHTS = (0.0, 0.5, 1.0)


class Lesson(NamedTuple):
    """What a prior is learned from: copies, so that visits may go on meanwhile."""

    likelihoods: Likelihoods
    age: Floats
    """At the first visit; −1 where it was not told."""
    node: Integers
    parent: Integers
    """The group of each source, and the group above each group."""
    before: Floats
    """The prior so far."""
    elsewhere: Likelihoods = Likelihoods.empty(0)
    """Of sources that others visit, one in so many; they count for the prior of all alone."""
    one_in: int = 1
    everybody: Integers | None = None
    """The group of every source, where only some of them are in the rows above."""


class Learned(NamedTuple):
    prior: Floats
    """A row for each group; the first is the whole collection."""
    rows: Integers
    """The row of each group of siblings; sources without siblings have the first."""
    owners: Integers
    """The group that each row is of."""
    age_weight: float
    """How far the age at the first visit is to be believed."""


def learn_prior(lesson: Lesson) -> Learned:
    """Fit the prior to what all sources have shown.

    The age at the first visit counts fully, half, or not at all: whichever predicts the outcomes
    of the visits best.
    """
    likelihoods, age, node, parent, before, others, one_in, everybody = lesson
    tell = others.place[:, 1] >= 0
    elsewhere = Likelihoods(others.values[tell], others.place[tell])
    known = np.flatnonzero((age >= 0) | (likelihoods.place[:, 1] >= 0))
    if len(known) + len(elsewhere) < FEWEST:
        nobody = np.zeros(len(parent), np.int64)
        return Learned(before[None, :], nobody, np.zeros(1, np.int64), 1.0)
    rows, owners = _rows_of_groups(node if everybody is None else everybody, parent)
    groups = int(rows.max()) + 1
    step = max(-(-len(known) // SAMPLE), one_in)
    chosen = known[:: step if groups == 1 else 1]
    seen = Likelihoods(likelihoods.values[chosen], likelihoods.place[chosen]).on_grid()
    aged = age[chosen] >= 0
    logs = np.log(GRID) - GRID * np.maximum(age[chosen], 0.0)[:, None]
    ages = np.where(aged[:, None], logs, 0.0)
    some = slice(None, None, 1 if groups == 1 else step)
    shown = np.vstack([seen[some], elsewhere.on_grid()])
    ages_shown = np.vstack([ages[some], np.zeros((len(elsewhere), len(GRID)))])
    best, age_weight, prior = -np.inf, 1.0, before
    for weight in _AGE_WEIGHTS if aged.any() else (1.0,):
        first = _scaled(weight * ages_shown)
        both = first * shown
        both /= both.max(axis=1, keepdims=True)
        found = fit_collection(both).weights
        score = float(np.log((first * shown) @ found).sum() - np.log(first @ found).sum())
        if score > best:
            best, age_weight, prior = score, weight, found
    if groups == 1:
        return Learned(prior[None, :], rows, owners, age_weight)
    group = np.where(node >= 0, rows[node], 0)[chosen]
    both = seen * _scaled(age_weight * ages)
    both /= both.max(axis=1, keepdims=True)
    return Learned(priors_of_groups(both, group, groups, prior), rows, owners, age_weight)


def _scaled(log: Floats) -> Floats:
    return np.asarray(np.exp(log - log.max(axis=1, keepdims=True)))


def _rows_of_groups(node: Integers, parent: Integers) -> tuple[Integers, Integers]:
    """Which prior each group has (its own with thirty sources, else that of the group above), and
    whose priors these are.
    """
    counts = np.bincount(node[node >= 0], minlength=len(parent))
    for child in range(len(parent) - 1, 0, -1):  # children come after their parents
        counts[parent[child]] += counts[child]
    place = np.arange(len(parent))
    while (small := (place > 0) & (counts[place] < _LEAST_OF_A_GROUP)).any():
        place[small] = parent[place[small]]
    owners, rows = np.unique(place, return_inverse=True)
    return np.asarray(rows, np.int64), owners


def priors_of_groups(likelihood: Floats, group: Integers, groups: int, prior: Floats) -> Floats:
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
