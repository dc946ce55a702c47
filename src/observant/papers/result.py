"""What a reproduction gives: the published value beside ours, a mark, and why they differ."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from observant.errors import InputError
from observant.simulation.traces import Trace, read_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import ArrayLike


MARKS = ("agrees", "near", "differs")
NEAR = 1.25
"""Up to this ratio, either way, a value that does not agree is near."""
Kind = Literal["print", "words", "formula", "goal"]


@dataclass(frozen=True)
class Check:
    """One value of a paper and ours.

    They agree when ours lies within the rounding of the print and our sampling error; a value that
    does not, and is within a factor of `NEAR`, is near; else they differ, and `why` says the reason
    or the erratum.

    >>> Check("freshness at a week", "0.63", 0.6321).mark
    'agrees'
    >>> Check("E[D₄]", "1.63", 1.645, why="a simulated mean without variance").mark
    'near'
    >>> Check("bias at r = 5", "< 0.05", 0.0287).mark
    'agrees'
    """

    quantity: str
    published: str | float | None
    """As printed, ``"0.63"`` (rounded to its last digit) or ``"< 0.05"``; a number is exact."""
    ours: float
    within: float = 0.0
    """Sampling error of ours, three standard errors; with a number, all that is allowed."""
    why: str = ""
    """Where they do not agree, or where the comparison is not of the same thing: the reason."""
    kind: Kind = "print"
    """Printed; said in words, with a reading of ours; from a formula of the paper, which prints no
    value; or a goal of our own."""

    @classmethod
    def claim(cls, words: str, holds: bool, why: str = "", *, kind: Kind = "words") -> Check:
        """A statement without a number: 1 if it holds."""
        return cls(words, 1.0, float(holds), 0.0, why, kind)

    @property
    def value(self) -> float | None:
        """What is compared with, as a number."""
        if isinstance(self.published, str):
            return float(self.published.lstrip("<> ").replace(",", ""))
        return self.published

    @property
    def mark(self) -> str | None:
        """One of `MARKS`; none where nothing was printed to compare with."""
        value, allowed = self.value, self.within
        if value is None:
            return None
        off = self.ours - value
        if isinstance(self.published, str):
            if self.published[0] in "<>":
                off = max(off if self.published[0] == "<" else -off, 0.0)
            else:
                _, _, digits = self.published.partition(".")
                allowed += 0.5 * 10.0 ** -len(digits)
        if abs(off) <= allowed * (1 + 1e-9):
            return "agrees"
        ratio = self.ratio
        return "near" if ratio and 1 / NEAR <= ratio <= NEAR else "differs"

    @property
    def agrees(self) -> bool | None:
        return None if self.mark is None else self.mark == "agrees"

    @property
    def ratio(self) -> float | None:
        """Ours over the published value."""
        return self.ours / self.value if self.value else None


def count_marks(checks: Iterable[Check]) -> dict[str, dict[str, int]]:
    """How many checks of each kind have each mark; those with nothing to compare are ``none``."""
    counts: dict[str, dict[str, int]] = {}
    for check in checks:
        kind = "none" if check.mark is None else check.kind
        row = counts.setdefault(kind, {})
        row[check.mark or "none"] = row.get(check.mark or "none", 0) + 1
    return counts


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

    name: str = ""
    title: str = ""
    """Those of the experiment, unless the function gives its own."""
    checks: Sequence[Check] = ()
    table: Sequence[dict[str, Any]] = ()
    """Rows in the form of the published table, published columns beside ours."""
    pictures: Sequence[Picture] = ()
    notes: Sequence[str] = ()
    """What was read between the lines, which data, how many runs, why it differs."""

    @property
    def mark(self) -> str | None:
        """The worst mark of the checks; none when there was nothing to compare with."""
        marks = [MARKS.index(check.mark) for check in self.checks if check.mark]
        return MARKS[max(marks)] if marks else None


@dataclass(frozen=True)
class Options:
    """How an experiment is run. Each has good values of its own where nothing is said."""

    seed: int = 1
    runs: int | None = None
    """Repetitions of a simulation; more of them make smaller errors."""
    traces: Path | None = None
    """A folder of real traces, for those who want the same table on real data."""
    store: str | None = None
    """A store with pages of one's own, for figures that are made of pages."""
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
            @wraps(run)
            def named(options: Options) -> Reproduction:
                found = run(options)
                return replace(found, name=name, title=found.title or title)

            EXPERIMENTS[name] = cls(name, title, named, seconds, uses_traces)
            return named

        return keep


EXPERIMENTS: dict[str, Experiment] = {}
"""Everything that can be reproduced, by name; filled by the modules `cho`, `singh`, …"""


# -- histories ------------------------------------------------------------------------------------


ENDINGS = (".parquet", ".csv", ".tsv", ".jsonl", ".ndjson", ".gz", ".zst")


def real_traces(given: Path) -> Iterator[tuple[str, Trace]]:
    """The traces of a file or folder, by name; other tables of a folder are passed over."""
    if given.is_file():
        yield given.name.split(".")[0], read_trace(given, group=None)
        return
    found = False
    for file in sorted(file for file in given.iterdir() if file.name.endswith(ENDINGS)):
        try:
            trace = read_trace(file, group=None)
        except InputError as error:
            if error.row is not None:  # a trace, with a mistake in it
                raise
            continue
        found = True
        yield file.name.split(".")[0], trace
    if not found:
        raise InputError(
            "there is no trace here: a table (Parquet, CSV, JSON Lines) with the columns source "
            "and t, one row for each update",
            file=str(given),
        )
