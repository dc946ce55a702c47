# ruff: noqa: TC001 (Litestar looks at the types of a handler)
"""Subscriptions and the delivery log; standing queries and their results."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, get, post
from litestar.params import PathParameter

from observant.errors import InputError
from observant.observer.telling import TOPICS
from observant.service.collection import Collection
from observant.service.collection.entries import NewSource
from observant.service.collection.reading import SourceQuery
from observant.service.collection.telling import SubscriptionChanges
from observant.service.forms import number_in, tags_in, whole_in
from observant.service.given import GivenCollection, GivenPrefix
from observant.service.pages.rendering import back_to, page
from observant.service.pages.routes import Form, changing, form_of, reading
from observant.store import Subscription

__all__ = ["HANDLERS"]

Number = Annotated[int, PathParameter(ge=1, le=2**53)]
_FORMS = ("auto", "html", "feed", "sitemap", "json")
_SHOWN = 10
"""Results of a query on the page of all queries."""


@get("/subscriptions", **reading())
def subscriptions(request: Request[Any, Any, Any], collection: GivenCollection) -> Response[str]:
    """Who is told of what, and what became of it."""
    return _subscriptions(request, collection)


@post("/subscriptions", **changing())
async def subscribe(request: Request[Any, Any, Any], collection: GivenCollection) -> Response[Any]:
    """Tell somebody."""
    form = await form_of(request)

    def work() -> Response[Any]:
        try:
            made = collection.subscribe(msgspec.convert(_entered(form), Subscription))
        except (InputError, msgspec.ValidationError) as error:
            return _subscriptions(request, collection, problem=str(error), entered=form)
        return _subscriptions(request, collection, secret=made.secret, made=made.subscription.name)

    return await asyncio.to_thread(work)


@get("/subscriptions/{number:int}", **reading("write"))
def subscription(
    request: Request[Any, Any, Any], collection: GivenCollection, number: Number
) -> Response[str]:
    """Change one subscription."""
    return _subscription(request, collection, number)


@post("/subscriptions/{number:int}", **changing())
async def update(
    request: Request[Any, Any, Any],
    collection: GivenCollection,
    prefix: GivenPrefix,
    number: Number,
) -> Response[Any]:
    """Change a subscription; what comes back masked stays what it was."""
    form = await form_of(request)

    def work() -> Response[Any]:
        try:
            values = _entered(form) | {"enabled": bool(form["enabled"])}
            collection.update_subscription(number, msgspec.convert(values, SubscriptionChanges))
        except (InputError, msgspec.ValidationError) as error:
            return _subscription(request, collection, number, problem=str(error), entered=form)
        return back_to(prefix, "/subscriptions", "saved")

    return await asyncio.to_thread(work)


@post("/subscriptions/{number:int}/remove", **changing())
async def unsubscribe(
    collection: GivenCollection, prefix: GivenPrefix, number: Number
) -> Response[Any]:
    """Tell no more."""
    await asyncio.to_thread(collection.unsubscribe, number)
    return back_to(prefix, "/subscriptions", "unsubscribed")


@post("/subscriptions/retry", **changing())
async def retry(collection: GivenCollection, prefix: GivenPrefix) -> Response[Any]:
    """Have dead letters tried again."""
    await asyncio.to_thread(collection.retry_deliveries)
    return back_to(prefix, "/subscriptions", "sent-again")


@get("/queries", **reading())
def queries(request: Request[Any, Any, Any], collection: GivenCollection) -> Response[str]:
    """Standing queries and their first results."""
    return _queries(request, collection)


@post("/queries", **changing())
async def add_query(
    request: Request[Any, Any, Any], collection: GivenCollection, prefix: GivenPrefix
) -> Response[Any]:
    """Ask a question that stays asked."""
    form = await form_of(request)

    def work() -> Response[Any]:
        try:
            entry = msgspec.convert(_query_entered(form), NewSource)
            added = collection.add(entry)
        except (InputError, msgspec.ValidationError) as error:
            return _queries(request, collection, problem=str(error), entered=form)
        told = "added" if added.new else "known"
        return back_to(prefix, "/queries", told)

    return await asyncio.to_thread(work)


def _subscriptions(
    request: Request[Any, Any, Any],
    collection: Collection,
    *,
    problem: str = "",
    secret: str = "",
    made: str = "",
    entered: Form | None = None,
) -> Response[str]:
    params = request.query_params
    state = params.get("state") or None
    after = whole_in(params, "after", 0)
    items = collection.subscriptions()
    return page(
        request,
        "subscriptions.html",
        status=422 if problem else 200,
        items=items,
        dead=sum(item.deliveries.get("dead", 0) for item in items),
        log=collection.deliveries(
            state=state if state in {"waiting", "sent", "dead"} else None, after=after or None
        ),
        state=state or "",
        after=after,
        topics=TOPICS,
        entered=entered or Form([("digest", "0s"), ("timezone", "UTC")]),
        problem=problem,
        secret=secret,
        made=made,
    )


def _subscription(
    request: Request[Any, Any, Any],
    collection: Collection,
    number: int,
    *,
    problem: str = "",
    entered: Form | None = None,
) -> Response[str]:
    item = collection.subscription(number)
    wanted = item.filter
    as_form = Form(
        [
            ("name", item.name),
            ("channel", item.channel),
            *(("topics", topic) for topic in wanted.topics),
            ("tags", ", ".join(wanted.tags)),
            ("hosts", ", ".join(wanted.hosts)),
            ("terms", "\n".join(wanted.terms)),
            ("magnitude", f"{wanted.magnitude:g}" if wanted.magnitude else ""),
            ("digest", str(item.digest)),
            ("quiet", "; ".join(item.quiet)),
            ("timezone", item.timezone),
            ("subject", item.subject),
            ("template", item.template),
            ("enabled", "1" if item.enabled else ""),
        ]
    )
    return page(
        request,
        "subscription.html",
        status=422 if problem else 200,
        item=item,
        topics=TOPICS,
        entered=entered or as_form,
        problem=problem,
    )


def _entered(form: Form) -> dict[str, Any]:
    """A subscription as the form describes it."""
    return {
        "name": form["name"],
        "channel": form["channel"],
        "filter": {
            "topics": form.all("topics"),
            "tags": tags_in(form["tags"]),
            "hosts": tags_in(form["hosts"]),
            "terms": [line.strip() for line in form["terms"].splitlines() if line.strip()],
            "magnitude": number_in(form, "magnitude", 0.0),
        },
        "subject": form["subject"],
        "template": form["template"],
        "digest": form["digest"] or 0.0,
        "quiet": [part.strip() for part in form["quiet"].split(";") if part.strip()],
        "timezone": form["timezone"] or "UTC",
    }


def _queries(
    request: Request[Any, Any, Any],
    collection: Collection,
    *,
    problem: str = "",
    entered: Form | None = None,
) -> Response[str]:
    found = collection.sources(SourceQuery(kind="query", limit=50))
    return page(
        request,
        "queries.html",
        status=422 if problem else 200,
        rows=[(row, collection.members(row.id)[:_SHOWN]) for row in found.sources],
        total=found.total,
        forms=_FORMS,
        entered=entered or Form([]),
        problem=problem,
    )


def _query_entered(form: Form) -> dict[str, Any]:
    """A standing query as the form describes it; what is left empty follows what is built in."""
    terms = {}
    for line in form["terms"].splitlines():
        word, _, weight = line.partition("=")
        if word.strip():
            terms[word.strip()] = number_in({"weight": weight}, "weight", 1.0)
    query: dict[str, Any] = {
        key: form[key] for key in ("form", "items", "link", "title", "date") if form[key]
    }
    if form["top"]:
        query["top"] = whole_in(form, "top", 10)
    if terms:
        query["terms"] = terms
    if form["watch"]:
        query |= {"watch": True, "share": number_in(form, "share", 10.0) / 100}
    return {
        "url": form["url"],
        "kind": "query",
        "title": form["query_title"],
        "tags": tags_in(form["tags"]),
        "settings": {"query": query} if query else {},
    }


HANDLERS = [
    subscriptions, subscribe, subscription, update, unsubscribe, retry, queries, add_query,
]  # fmt: skip
