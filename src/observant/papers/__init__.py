"""What did the papers find? Their tables and figures, rebuilt.

Each is an `Experiment` with a name such as ``cho-figure-7``. It gives a `Reproduction`: published
values beside ours, a mark, the reason where they differ, and the picture redrawn.

>>> [experiment.name for experiment in choose(["cho-figure-1*"])][:3]
['cho-figure-1', 'cho-figure-11', 'cho-figure-12']
>>> found = reproduce("cho-figure-3")
>>> print(found.mark, [round(check.ours, 3) for check in found.checks])
agrees [0.215, 0.432]
"""

from __future__ import annotations

import difflib
import fnmatch
import importlib
import re
from typing import TYPE_CHECKING

from observant.errors import InputError
from observant.papers.result import (
    EXPERIMENTS,
    Check,
    Curve,
    Experiment,
    Options,
    Picture,
    Reproduction,
    count_marks,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "PAPERS",
    "Check",
    "Curve",
    "Experiment",
    "Options",
    "Picture",
    "Reproduction",
    "choose",
    "count_marks",
    "experiments",
    "reproduce",
]

PAPERS = ("cho", "singh", "brewington", "li", "poisson_test")
"""The modules of this package that hold experiments; they are imported when first asked for."""


def experiments() -> list[Experiment]:
    """Everything that can be reproduced: figures, then tables, paper by paper."""
    for paper in PAPERS:
        importlib.import_module(f"observant.papers.{paper}")
    return sorted(EXPERIMENTS.values(), key=_order)


def choose(names: Sequence[str] = ()) -> list[Experiment]:
    """The experiments with these names, or all; ``*`` and ``?`` stand for other letters."""
    known = experiments()
    if not names:
        return known
    chosen: set[str] = set()
    for name in names:
        found = [e.name for e in known if fnmatch.fnmatchcase(e.name, name.lower())]
        if not found:
            near = difflib.get_close_matches(name.lower(), EXPERIMENTS, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else "--list shows their names"
            raise InputError(f"there is no experiment {name!r}; {hint}")
        chosen.update(found)
    return [experiment for experiment in known if experiment.name in chosen]


def reproduce(name: str, options: Options | None = None) -> Reproduction:
    """Run one experiment."""
    (experiment,) = choose([name])
    return experiment.run(options or Options())


def _order(experiment: Experiment) -> tuple[int, str, list[int]]:
    """Paper by paper, figures before tables, and figure 9 before figure 10."""
    paper, kind, *_ = experiment.name.split("-")
    return PAPERS.index(paper), kind, [int(n) for n in re.findall(r"\d+", experiment.name)]
