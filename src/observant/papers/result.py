"""What a reproduction gives: the published value beside ours, whether they agree, and why not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numpy.typing import ArrayLike

__all__ = ["EXPERIMENTS", "Check", "Curve", "Experiment", "Options", "Picture", "Reproduction"]


@dataclass(frozen=True)
class Check:
    """One published value and ours.

    They agree when ``|ours − published| ≤ within``. A value that was never printed (a curve in a
    figure, a formula) is compared with what the formula or the text says.

    >>> Check("freshness at a week", 0.63, 0.6321, within=0.005).agrees
    True
    >>> Check("E[D₄]", 1.63, 1.645, within=0.005, why="a simulated mean without variance").agrees
    False
    """

    quantity: str
    published: float | None
    ours: float
    within: float
    """How far apart they may be: rounding of the print plus the sampling error of ours."""
    why: str = ""
    """Where they disagree, or where the comparison is not of the same thing: the reason."""

    @property
    def agrees(self) -> bool | None:
        if self.published is None:
            return None
        return bool(abs(self.ours - self.published) <= self.within)


@dataclass(frozen=True, eq=False)
class Curve:
    """One line (or the points) of a picture."""

    label: str
    x: ArrayLike
    y: ArrayLike
    points: bool = False


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure of a paper, redrawn: `observant.figures` makes a chart of it."""

    x_title: str
    y_title: str
    curves: Sequence[Curve]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True, eq=False)
class Reproduction:
    """A table or figure of a paper, rebuilt."""

    name: str
    title: str
    checks: Sequence[Check] = ()
    table: Sequence[dict[str, Any]] = ()
    """Rows in the form of the published table, published columns beside ours."""
    pictures: Sequence[Picture] = ()
    notes: Sequence[str] = ()
    """What was read between the lines, which data, how many runs, why it differs."""

    @property
    def agrees(self) -> bool | None:
        """True when every check agrees; none when there was nothing to compare with."""
        answers = [check.agrees for check in self.checks if check.agrees is not None]
        return all(answers) if answers else None


@dataclass(frozen=True)
class Options:
    """How an experiment is run. Each has good values of its own where nothing is said."""

    seed: int = 1
    runs: int | None = None
    """Repetitions of a simulation; more of them make smaller errors."""
    traces: Path | None = None
    """A folder of real traces, for those who want the same table on real data."""
    tick: Callable[[float], None] | None = field(default=None, compare=False)
    """Told the share that is done, from 0 to 1, for a progress bar."""

    def rng(self, *path: int) -> np.random.Generator:
        """A generator of its own for each part of an experiment, the same for the same seed."""
        return np.random.default_rng([self.seed, *path])

    def done(self, share: float) -> None:
        if self.tick is not None:
            self.tick(share)


@dataclass(frozen=True)
class Experiment:
    """An entry of the list: what can be reproduced, and the function that does it.

    A function ``run(options) -> Reproduction`` becomes an entry with::

        @Experiment.named("li-table-1", "Li, table I: M2 and M4 against T", seconds=20)
        def table_1(options: Options) -> Reproduction: ...
    """

    name: str
    title: str
    run: Callable[[Options], Reproduction]
    seconds: float
    """About how long it takes on one core."""
    uses_traces: bool = False

    @classmethod
    def named(
        cls, name: str, title: str, *, seconds: float = 1.0, uses_traces: bool = False
    ) -> Callable[[Callable[[Options], Reproduction]], Callable[[Options], Reproduction]]:
        def keep(
            run: Callable[[Options], Reproduction],
        ) -> Callable[[Options], Reproduction]:
            EXPERIMENTS[name] = cls(name, title, run, seconds, uses_traces)
            return run

        return keep


EXPERIMENTS: dict[str, Experiment] = {}
"""Everything that can be reproduced, by name; filled by the modules `cho`, `singh`, …"""
