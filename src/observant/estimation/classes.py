"""Weekly or monthly? The probability that a source belongs to each of a few frequency classes.

Cho (section 2, categorisation): an application that visits in two or three rhythms does not need
the rate of a source but its class. Each class has a rate; the probability of a class is updated
by every visit with Bayes' rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError
from observant.estimation.evidence import Evidence
from observant.estimation.priors import grid_likelihood
from observant.tables import Table
from observant.units import format_share, parse_rate
from observant.visits.log import require_log
from observant.visits.order import blocks_of_sources

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from observant.arrays import Floats
    from observant.visits import VisitLog

__all__ = ["ClassTable", "OnlineClasses", "classify"]


@dataclass(frozen=True, eq=False, repr=False)
class ClassTable(Table):
    """For every source the probability of each class, and the likeliest class."""

    source: pa.Array
    classes: tuple[str, ...]
    rates: Floats
    """Updates per day of each class."""
    prior: Floats
    """Share of each class in the collection."""
    probability: Floats
    """One row a source, one column a class."""

    @property
    def best(self) -> NDArray[np.str_]:
        """The likeliest class of each source."""
        best: NDArray[np.str_] = np.array(self.classes)[self.probability.argmax(axis=1)]
        return best

    def __len__(self) -> int:
        return len(self.source)

    def to_arrow(self) -> pa.Table:
        """Columns source, class, and p_<class> for every class."""
        import pyarrow as pa

        shares = {f"p_{name}": self.probability[:, k] for k, name in enumerate(self.classes)}
        return pa.table({"source": self.source, "class": pa.array(self.best.tolist()), **shares})

    def __repr__(self) -> str:
        shares = ", ".join(
            f"{name} {format_share(share, 0)}"
            for name, share in zip(self.classes, self.prior, strict=True)
        )
        return f"<ClassTable: {len(self):,} sources; {shares}>"


def classify(
    log: VisitLog,
    classes: Mapping[str, str | float],
    prior: str | Mapping[str, float] = "collection",
) -> ClassTable:
    """Say how likely each source belongs to each class.

    `classes` gives each class its rate (``"1/7d"``, or updates per day). `prior` is the share of
    each class: given, ``"equal"``, or estimated from the ``"collection"`` (by EM).

    >>> from observant import VisitLog
    >>> log = VisitLog.from_columns(
    ...     ["p"] * 5, [0, 7, 14, 21, 28], [None, 0, 0, 0, 1], time_unit="d"
    ... )
    >>> classify(log, {"weekly": "1/7d", "monthly": "1/30d"}, prior="equal").probability.round(3)
    array([[0.233, 0.767]])
    """
    require_log(log)
    names, rates = _checked(classes)
    likelihood = np.concatenate(
        [
            grid_likelihood(Evidence.from_log(log, *block), rates)
            for block in blocks_of_sources(log.offsets)
        ]
    )
    share = _prior(prior, names)
    if prior == "collection":
        for _ in range(500):
            joint = likelihood * share
            new = (joint / joint.sum(axis=1, keepdims=True)).mean(axis=0)
            moved = np.abs(new - share).max()
            share = new
            if moved < 1e-9:
                break
    joint = likelihood * share
    return ClassTable(
        source=log.sources,
        classes=names,
        rates=rates,
        prior=share,
        probability=joint / joint.sum(axis=1, keepdims=True),
    )


@dataclass
class OnlineClasses:
    """The classes of one source, updated visit by visit (Cho: “we increase P{p ∈ C_M}”).

    >>> page = OnlineClasses({"weekly": "1/7d", "monthly": "1/30d"})
    >>> page.visit(gap=28, changed=False)
    >>> {name: round(p, 3) for name, p in page.probabilities().items()}
    {'weekly': 0.045, 'monthly': 0.955}
    """

    classes: Mapping[str, str | float]
    prior: Mapping[str, float] | None = None
    _log_odds: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._names, self._rates = _checked(self.classes)
        self._log_odds = np.log(_prior(self.prior or "equal", self._names))

    def visit(self, gap: float, changed: bool, age: float | None = None) -> None:
        """Take in a visit `gap` days after the last, and the age of the source if it is known."""
        from observant.estimation.online import comparison_log_likelihood

        self._log_odds += comparison_log_likelihood(self._rates, gap, changed, age)
        self._log_odds -= self._log_odds.max()

    def probabilities(self) -> dict[str, float]:
        """How likely each class is now."""
        odds = np.exp(self._log_odds)
        return dict(zip(self._names, (odds / odds.sum()).tolist(), strict=True))


def _checked(classes: Mapping[str, str | float]) -> tuple[tuple[str, ...], Floats]:
    rates = np.array([parse_rate(rate) for rate in classes.values()])
    if len(rates) < 2 or (rates <= 0).any():
        raise InputError("give at least two classes, each with a rate above zero")
    return tuple(classes), rates


def _prior(prior: Any, names: tuple[str, ...]) -> Floats:
    if isinstance(prior, str):
        if prior not in {"equal", "collection"}:
            raise InputError(f"the prior is 'equal', 'collection' or a share per class: {prior!r}")
        return np.full(len(names), 1 / len(names))
    if set(prior) != set(names):
        raise InputError(f"the prior must name the classes {', '.join(names)}")
    share = np.array([float(prior[name]) for name in names])
    if (share <= 0).any():
        raise InputError("the share of each class must be above zero")
    return np.asarray(share / share.sum())
