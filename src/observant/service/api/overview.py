"""The collection on one page, its hours, hosts, tags, events and visits."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Literal

from litestar import get, post
from litestar.background_tasks import BackgroundTask
from litestar.params import FromQuery, JSONBody, QueryParameter
from litestar.response import File

from observant.service.answers import Done, EventPage, TagItem, VisitPage
from observant.service.api.routes import LARGEST_ID, After, Limit, Moment, Text, specs_of
from observant.service.collection.entries import SeenEvents
from observant.service.forms import GivenCollection
from observant.service.summaries import HostItem, HourItem, ObserverItem, Overview
from observant.units import parse_duration

spec = specs_of("collection")

Grace = Annotated[
    str | None,
    QueryParameter(
        max_length=50,
        description="How late a copy may be: 6h, 2d; by default that of the settings.",
    ),
]
_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/jsonl",
    "parquet": "application/vnd.apache.parquet",
}


@get("/overview", **spec("overview"))
def overview(collection: GivenCollection, grace: Grace = None) -> Overview:
    """How current the collection is, what that costs, and what is going on."""
    days = None if grace is None else parse_duration(grace)
    return collection.overview(days, patience=10.0)


@get("/hours", **spec("hours"))
def hours(
    collection: GivenCollection, count: Annotated[int, QueryParameter(ge=1, le=8784)] = 48
) -> list[HourItem]:
    """Visits, changes and failures of the last hours."""
    return collection.activity.hours(count)


@get("/hosts", **spec("hosts"))
def hosts(collection: GivenCollection, limit: Limit = 100) -> list[HostItem]:
    """Hosts in trouble, those with most failing sources first."""
    return collection.activity.hosts(limit)


@get("/tags", **spec("tags"))
def tags(collection: GivenCollection) -> list[TagItem]:
    """Every tag and how many sources have it."""
    return collection.sources.tags()


@get("/observers", **spec("observers"))
def observers(collection: GivenCollection) -> list[ObserverItem]:
    """Observers seen during the last day."""
    return collection.activity.observers()


@get("/events", **spec("events"))
def events(
    collection: GivenCollection,
    topic: Text = None,
    tag: Text = None,
    source: Annotated[int | None, QueryParameter(ge=1, le=LARGEST_ID)] = None,
    limit: Limit = 100,
    after: After = None,
) -> EventPage:
    """Changes and other events, newest first."""
    return collection.activity.events(topic=topic, tag=tag, source=source, limit=limit, after=after)


@post("/events/seen", **spec("mark_seen", status_code=200))
def mark_seen(collection: GivenCollection, data: JSONBody[SeenEvents]) -> Done:
    """Take events off the first page of the dashboard."""
    return collection.activity.mark_seen(data)


@get("/visits", **spec("visits"))
def visits(
    collection: GivenCollection,
    since: Moment = None,
    until: Moment = None,
    changed: FromQuery[bool | None] = None,
    limit: Limit = 100,
    after: After = None,
) -> VisitPage:
    """Visits of all sources in the order of their commits, newest first."""
    return collection.sources.visits(
        since=since, until=until, changed=changed, limit=limit, after=after
    )


@get("/visit-log", **spec("visit_log"))
def visit_log(
    collection: GivenCollection,
    format: FromQuery[Literal["csv", "jsonl", "parquet"]] = "parquet",  # noqa: A002 (the word users say)
    since: Moment = None,
) -> File:
    """The whole visit log as a file, for `observant estimate` and everybody else."""
    with tempfile.NamedTemporaryFile(
        prefix="observant-", suffix=f".{format}", delete=False
    ) as draft:
        place = Path(draft.name)
    collection.store.visits.export(
        place, format=format, since=None if since is None else since.timestamp()
    )
    return File(
        place,
        filename=f"visits.{format}",
        media_type=_TYPES[format],
        background=BackgroundTask(place.unlink, missing_ok=True),
    )
