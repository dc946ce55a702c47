"""What a plan would bring, what other rules would have brought, and the whole population.

These take a while: `ready` is false until the answer is there, and then it is kept.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from litestar import get
from litestar.params import FromQuery, QueryParameter

from observant.errors import InputError
from observant.service import studies
from observant.service.answers import finite, plain
from observant.service.api.routes import Text, specs_of
from observant.service.cache import Cached
from observant.service.forms import GivenCollection
from observant.service.summaries import PlanPoint, PlanView, PopulationView, RivalItem, RivalsView
from observant.units import counts_cost, parse_budget, parse_duration

spec = specs_of("plan")

_PATIENCE = 10.0
Rate = Annotated[str | None, QueryParameter(max_length=50, description="As in 5000/day or 2/s.")]
Span = Annotated[str | None, QueryParameter(max_length=50, description="As in 6h or 2d.")]
Objective = Literal["freshness", "currency", "harmonic", "age", "delay", "detected"]


@get("/plan", **spec("plan"))
def plan(
    collection: GivenCollection,
    budget: Rate = None,
    grace: Span = None,
    objective: FromQuery[Objective | None] = None,
    tag: Text = None,
    factor: Annotated[float | None, QueryParameter(ge=0, le=1e6)] = None,
) -> PlanView:
    """What another budget, grace or objective would bring, before it is applied.

    With `tag` and `factor`, the importance of all sources with that tag is multiplied.
    """
    wanted = None if budget is None else parse_budget(budget)
    if wanted is not None and wanted > 1e9:
        raise InputError("a budget is at most a thousand million visits a day")
    found = studies.plan_study(
        collection,
        budget=wanted,
        cost=None if budget is None else counts_cost(budget),
        grace=None if grace is None else parse_duration(grace),
        objective=objective,
        importance={tag: factor} if tag and factor is not None else None,
        wait=_PATIENCE,
    )
    told = _told(found)
    if found.value is None:
        return PlanView(**told)
    answer = found.value.answer
    return PlanView.of(
        answer,
        **told,
        budget_per_day=answer.budget,
        grace_days=answer.grace,
        spent_per_day=finite(answer.spent),
        curve=tuple(
            PlanPoint(per_day=p["budget"], alpha=p["alpha"], uniform=p["uniform"])
            for p in found.value.curve
        ),
    )


@get("/rivals", **spec("rivals"))
def rivals(collection: GivenCollection) -> RivalsView:
    """Other people's rules, replayed on this collection's own history with as many visits."""
    found = studies.rivals_study(collection, wait=_PATIENCE)
    told = _told(found)
    if found.value is None:
        return RivalsView(**told)
    return RivalsView(
        **told,
        days=found.value.days,
        notes=found.value.notes,
        rivals=tuple(
            RivalItem(
                policy=str(row["policy"]),
                relative_staleness=finite(row.get("relative_staleness")),
                freshness=finite(row["freshness"]),
                gap_closed=finite(row.get("gap_closed")),
            )
            for row in found.value.rows
        ),
    )


@get("/population", **spec("population"))
def population(collection: GivenCollection) -> PopulationView:
    """How the sources change, all together: ages, lifetimes, rates, hours of the week."""
    found = studies.population_study(collection, wait=_PATIENCE)
    told = _told(found)
    if found.value is None:
        return PopulationView(**told)
    answer = found.value
    return PopulationView.of(
        answer,
        **told,
        fits=None if answer.fits is None else plain(answer.fits.to_dict()),
        hours_of_week=tuple(float(x) for x in answer.hours),
        notes=answer.notes,
    )


def _told(found: Cached[Any]) -> dict[str, Any]:
    """What every answer that takes a while says of itself."""
    return {"ready": not found.pending, "age_seconds": found.age, "error": found.error}
