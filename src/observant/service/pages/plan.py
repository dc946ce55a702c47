"""The plan with its what-if, and the population behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from litestar import Response, get, post

from observant.errors import InputError, ObservantError
from observant.names import OBJECTIVES
from observant.observer.settings import SettingsChanges
from observant.service import studies
from observant.service.cache import Cached
from observant.service.collection import Collection
from observant.service.collection.currency import hours_in_words
from observant.service.collection.entries import BulkChange
from observant.service.forms import (
    Form,
    GivenCollection,
    GivenForm,
    budget_in,
    cost_in,
    days_in,
    importance_in,
)
from observant.service.pages.render import back_to, page
from observant.service.pages.routes import CANNOT, Asked, changing, reading

if TYPE_CHECKING:
    from collections.abc import Mapping

_CHANNELS = 50
_ASKED = ("budget", "grace", "objective", "tag", "factor")


@get("/plan", **reading("plan"))
def plan(request: Asked, collection: GivenCollection) -> Response[str]:
    """How the budget is shared out, and what other settings would bring."""
    return _page(request, collection, request.query_params)


@post("/plan", **changing("change_settings"))
def apply(request: Asked, collection: GivenCollection, form: GivenForm) -> Response[Any]:
    """Make the settings that were looked at those in force."""
    try:
        _apply(collection, form)
    except CANNOT as error:
        return _page(request, collection, form, problem=str(error))
    return back_to(request, "/plan", "applied")


@get("/population", **reading("population"))
def population(request: Asked, collection: GivenCollection) -> Response[str]:
    """The collection as its visits show it."""
    channels = collection.signals.reliability()
    return page(
        request,
        "population.html",
        study=studies.population_study(collection),
        channels=channels[:_CHANNELS],
        hubs=collection.signals.hubs(),
        public_url=collection.given.public_url,
        announced=collection.signals.share() if channels else None,
    )


def _page(
    request: Asked,
    collection: Collection,
    params: Mapping[str, str] | Form,
    *,
    problem: str = "",
) -> Response[str]:
    settings = collection.settings.get()
    asked = {key: value for key in _ASKED if (value := (params.get(key) or "").strip())}
    if asked.get("objective") == settings.objective:
        del asked["objective"]
    sources = collection.totals().by_state.get("active", 0)
    now: Cached[Any] = Cached()
    then: Cached[Any] = Cached()
    rivals: Cached[Any] = Cached()
    try:
        if sources:
            now = then = studies.plan_study(collection)
            if wanted := _wanted(asked):
                then = studies.plan_study(collection, **wanted)
            # The replay takes both of these; it may wait until they are there.
            if not (now.pending or then.pending):
                rivals = studies.rivals_study(collection, wait=0.0)
    except ObservantError as error:
        problem = problem or str(error)
        then = now
    differs = bool(_wanted_keys(asked))
    return page(
        request,
        "plan.html",
        status=422 if problem else 200,
        problem=problem,
        sources=sources,
        settings=settings,
        objectives=list(dict.fromkeys([*OBJECTIVES, settings.objective])),
        all_tags=collection.sources.tags(),
        asked={key: asked.get(key, "") for key in _ASKED},
        differs=differs,
        changes_text=_in_words(asked),
        now_plan=now,
        then_plan=then,
        rivals=rivals,
        hours=hours_in_words(collection.currency.hours()),
    )


def _wanted_keys(asked: Mapping[str, str]) -> list[str]:
    keys = [key for key in ("budget", "grace", "objective") if key in asked]
    return [*keys, "tag"] if "tag" in asked and "factor" in asked else keys


def _wanted(asked: Mapping[str, str]) -> dict[str, Any]:
    """What the plan is to be solved for, as far as it differs from what is in force."""
    objective = asked.get("objective")
    if objective is not None and objective not in OBJECTIVES:
        raise InputError(f"no objective {objective!r}; one of {', '.join(OBJECTIVES)}")
    found = {
        "budget": budget_in(asked, "budget", None),
        "cost": cost_in(asked),
        "grace": days_in(asked, "grace", None),
        "objective": objective,
        "importance": importance_in(asked) or None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _in_words(asked: Mapping[str, str]) -> str:
    told = [f"{key} to {asked[key]}" for key in ("budget", "grace", "objective") if key in asked]
    if "tag" in asked and "factor" in asked:
        told.append(f"importance of sources tagged {asked['tag']} to {asked['factor']} times")
    return ", ".join(told)


def _apply(collection: Collection, form: Form) -> None:
    asked = {key: form[key] for key in _ASKED if form[key]}
    wanted = _wanted(asked)
    changes = {key: asked[key] for key in ("budget", "grace", "objective") if key in wanted}
    if changes:
        collection.settings.change(msgspec.convert(changes, SettingsChanges))
    for tag, factor in wanted.get("importance", {}).items():
        _multiply(collection, tag, factor)


def _multiply(collection: Collection, tag: str, factor: float) -> None:
    """Multiply the importance of all sources with a tag."""
    groups: dict[float, list[int]] = {}
    for found in collection.store.sources.each(tag=tag):
        groups.setdefault(found.importance * factor, []).append(found.id)
    for importance, ids in groups.items():
        change = BulkChange(action="importance", ids=tuple(ids), value=importance)
        collection.sources.bulk(change)
