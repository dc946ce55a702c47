# ruff: noqa: TC001 (Litestar looks at the types of a handler)
"""Events: what was found, and who was told of it."""

from __future__ import annotations

from litestar import Response, get

from observant.names import TOPICS
from observant.service.forms import whole_in
from observant.service.given import GivenCollection
from observant.service.pages.render import page
from observant.service.pages.routes import Asked, reading


@get("/events", **reading("events"))
def events(request: Asked, collection: GivenCollection) -> Response[str]:
    """Events, newest first."""
    params = request.query_params
    topic, tag = params.get("topic") or None, params.get("tag") or None
    after = whole_in(params, "after", 0)
    return page(
        request,
        "events.html",
        answer=collection.activity.events(
            topic=topic if topic in TOPICS else None, tag=tag, after=after or None
        ),
        topics=TOPICS,
        topic=topic or "",
        tag=tag or "",
        all_tags=collection.sources.tags(),
        after=after,
    )
