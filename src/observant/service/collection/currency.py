"""How current the copies are: as it is believed now, as it was measured, and as it is planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.errors import ObservantError
from observant.language import gettext as _
from observant.language import localized
from observant.observer.settings import HOURS_LEARNED
from observant.planning.schedule.pace import visits_by_hour
from observant.service.collection.context import CollectionPiece
from observant.service.measured import measured
from observant.service.studies import plan_study
from observant.service.summaries import (
    BudgetOption,
    BudgetView,
    CurvePoint,
    Estimate,
    Lateness,
    Measured,
)
from observant.times import DAY

if TYPE_CHECKING:
    from observant.service.posteriors import ActiveSources

GRACES = (0.0, *(float(x) for x in np.round(np.geomspace(1 / 96, 60.0, 28), 6)))
"""Days of grace of the performance curve: none, then from a quarter of an hour to two months."""
_FACTORS = (0.5, 1.0, 1.5)


class CollectionCurrency(CollectionPiece):
    """α of a collection, and what it costs."""

    def alpha(self, grace: float | None) -> Estimate:
        """Share of copies that are current now, weighted with importance.

        Here and below, a grace of None is that of each source.
        """
        mean, low, high = self._in.beliefs().expected([grace])
        return Estimate(value=float(mean[0]), low=float(low[0]), high=float(high[0]))

    def curve(self) -> list[CurvePoint]:
        """α now over the grace."""
        beliefs = self._in.beliefs()

        def compute() -> list[CurvePoint]:
            columns = zip(GRACES, *(c.tolist() for c in beliefs.expected(GRACES)), strict=True)
            return [CurvePoint(grace_days=g, alpha=a, low=l, high=h) for g, a, l, h in columns]

        return self._in.cache.get("curve", compute, max_age=15.0, wait=10.0).value or []

    def measured(self, grace: float | None, *, patience: float = 0.2) -> Measured | None:
        """Currency as visits found it; computed beside the pages and kept for five minutes."""
        near, config = _near(grace), self._in.config
        try:
            beliefs = self._in.beliefs()  # here: a job of the cache must not wait for another
        except ObservantError:
            return None

        def compute() -> Measured | None:
            return measured(self._in.store, beliefs, near, config)

        return self._in.cache.get(("measured", near), compute, max_age=300.0, wait=patience).value

    def planned(self, grace: float | None, *, patience: float = 0.2) -> float | None:
        """α that the plan in force promises in the long run; None until it is computed."""
        plan = plan_study(self._in, wait=patience).value
        return None if plan is None else plan.answer.promised([grace])[0]

    def lateness(self, beliefs: ActiveSources | None) -> Lateness:
        """By how much sources that are due have been waiting."""
        late = np.zeros(0)
        if beliefs is not None:
            late = self._in.now() - beliefs.columns.due_at
            late = late[np.isfinite(late) & (late > 0)]
        return Lateness(
            due=round(len(late) * (beliefs.total / len(beliefs))) if beliefs and len(late) else 0,
            mean_seconds=float(late.mean()) if len(late) else 0.0,
            max_seconds=float(late.max()) if len(late) else 0.0,
        )

    def budget(
        self, grace: float | None, *, options: bool = True, patience: float = 0.2
    ) -> BudgetView:
        """The budget, what was spent of it, and what others would buy."""
        config, since = self._in.config, self._in.now() - DAY + 3600.0
        per_day = config.budget_per_day
        spent = sum(hour.visits for hour in self._in.store.visits.hours(since=since))
        return BudgetView(
            per_day=per_day,
            spent_today=spent,
            spent_share=None if config.counts_cost else spent / per_day,
            counts_cost=config.counts_cost,
            spot_checks_per_day=config.spot_checks_per_day,
            options=self._options(grace, patience) if options else [],
            hours=self.hours(),
        )

    def hours(self) -> list[float]:
        """How observers spend the budget of a day; empty where they spend all hours alike."""
        return visits_by_hour(self._in.store.settings.get(HOURS_LEARNED))

    def _options(self, grace: float | None, patience: float) -> list[BudgetOption]:
        """What half of the budget, the budget, and half as much again would buy."""
        plan = plan_study(self._in, grace=_near(grace), wait=patience).value
        return [
            BudgetOption(factor=factor, per_day=point["budget"], alpha=point["alpha"])
            for point in (plan.curve if plan else ())
            if (factor := round(point["budget"] / self._in.config.budget_per_day, 6)) in _FACTORS
        ]


def hours_in_words(visits: list[float]) -> str:
    """At which hours most visits are made; empty where all are alike.

    >>> hours_in_words([0.5] * 12 + [2.0] + [1.0] * 11)
    'Visits follow the hours of change: most at 12:00 UTC, 2.0 times the mean; fewest at 00:00.'
    """
    if not visits:
        return ""
    most, least = (visits.index(edge(visits)) for edge in (max, min))
    return _(
        "Visits follow the hours of change: most at %(most)s UTC, %(times)s times the mean; fewest "
        "at %(least)s."
    ) % {
        "most": f"{most:02}:00",
        "times": localized(f"{visits[most]:.1f}"),
        "least": f"{least:02}:00",
    }


def _near(grace: float | None) -> float | None:
    """One of few graces, whatever is asked, so that few answers are kept."""
    return None if grace is None else min(GRACES, key=lambda g: abs(g - grace))
