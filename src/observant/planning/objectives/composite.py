"""One objective for sources of several kinds: most Poisson, some not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from observant.arrays import Integers
from observant.planning.objectives.index import Objective

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

    from observant.arrays import Floats
    from observant.planning.objectives.index import Choice
    from observant.visits import VisitLog

MOST = 50
"""Sources that a plan takes for what they are; the rest of those that are not Poisson stay so."""

Rows = Integers


class CompositeObjective(Objective):
    """Sources that each belong to one of several objectives, which must have one unit.

    >>> from observant.planning.objectives import Currency, RenewalObjective
    >>> from observant.processes import Weibull
    >>> clock = RenewalObjective(Weibull(shape=8.0, scale=5.0))
    >>> both = CompositeObjective([([0, 2], Currency([0.2, 1.0])), ([1], clock)])
    >>> print(both.mean_penalty(2.0).round(3), both.select([1]).mean_penalty(2.0).round(3))
    [0.176 0.212 0.568] [0.212]
    """

    name: ClassVar[str] = "currency"

    def __init__(
        self, parts: Sequence[tuple[ArrayLike, Objective]], kind: str = "currency"
    ) -> None:
        self.kind = kind
        self.parts = [(np.asarray(rows, np.int64), part) for rows, part in parts]
        self._count = sum(len(rows) for rows, _ in self.parts)

    def __len__(self) -> int:
        return self._count

    def penalty(self, s: ArrayLike) -> Floats:
        return self._each(s, lambda part, own: part.penalty(own))

    def mean_penalty(self, period: ArrayLike) -> Floats:
        return self._each(period, lambda part, own: part.mean_penalty(own))

    def mean_penalty_variance(self, period: ArrayLike) -> Floats:
        def variance(part: Objective, own: Floats) -> Any:
            found = part.mean_penalty_variance(own)
            return 0.0 if found is None else found

        return self._each(period, variance)

    @property
    def limit(self) -> Floats:
        return self._each(0.0, lambda part, _own: part.limit)

    def index(self, s: ArrayLike) -> Floats:
        return self._each(s, lambda part, own: part.index(own))

    def period_at(self, price: ArrayLike, start: Floats | None = None) -> Floats:
        given = np.broadcast_to(np.asarray(price, float), (self._count,))
        answer = np.empty(self._count)
        for rows, part in self.parts:
            guess = None if start is None else start[rows]
            answer[rows] = part.period_at(given[rows], guess)
        return answer

    def select(self, which: Choice) -> Objective:
        positions = np.arange(self._count)[which]
        parts = []
        for rows, part in self.parts:
            place = np.full(self._count, -1)
            place[rows] = np.arange(len(rows))
            local = place[positions]
            if (mine := local >= 0).any():
                parts.append((np.flatnonzero(mine), part.select(local[mine])))
        return CompositeObjective(parts, self.kind)

    def _each(self, s: ArrayLike, of: Callable[[Objective, Floats], Any]) -> Floats:
        times = np.asarray(s, float)
        times = np.broadcast_to(times, np.broadcast_shapes(times.shape, (self._count,)))
        answer = np.empty(times.shape)
        for rows, part in self.parts:
            answer[..., rows] = of(part, times[..., rows])
        return answer


def objective_of_visits(
    log: VisitLog, known: Any, grace: ArrayLike = 0.0, *, level: float = 1e-3
) -> tuple[Objective, int]:
    """Currency of the sources of a visit log, some of which are clearly not Poisson; and how many.

    `known` is what `objective` takes for all of them. A source whose visits show memory (p below
    `level`, and below 0.05 over the number tested; the clearest `MOST` of them) has the ages that
    were measured in place of its rate.
    """
    from observant.estimation.intervals import chosen_model, poisson_test_of_visits
    from observant.planning.objectives import objective
    from observant.planning.objectives.averaged import RenewalObjective

    usual = objective("currency", known, grace)
    test = poisson_test_of_visits(log, level=level)
    level = min(level, 0.05 / max(int(test.tested.sum()), 1))  # many are asked
    with np.errstate(invalid="ignore"):
        clear = np.flatnonzero(test.memory_p < level)
    clear = np.sort(clear[np.argsort(test.memory_p[clear], kind="stable")][:MOST])
    if not len(clear):
        return usual, 0
    rest = np.setdiff1d(np.arange(len(log.sources)), clear)
    graces = np.broadcast_to(np.asarray(grace, float), (len(log.sources),))
    parts: list[tuple[ArrayLike, Objective]] = [
        (
            [i],
            RenewalObjective(
                chosen_model(log, log.sources[i].as_py(), level=level).model, float(graces[i])
            ),
        )
        for i in clear.tolist()
    ]
    if len(rest):
        parts.append((rest, usual.select(rest)))
    return CompositeObjective(parts), len(clear)
