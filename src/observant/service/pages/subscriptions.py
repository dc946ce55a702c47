"""Subscriptions and the delivery log; standing queries and their results."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from litestar import Response, get, post
from litestar.params import PathParameter

from observant.names import RESULT_FORMS, TOPICS
from observant.service.access.check import identity_of
from observant.service.collection import Collection, SourceQuery
from observant.service.collection.entries import NewSource
from observant.service.collection.subscriptions import SubscriptionChanges
from observant.service.forms import Form, GivenCollection, GivenForm, number_in, tags_in, whole_in
from observant.service.pages.render import back_to, page
from observant.service.pages.routes import CANNOT, Asked, changing, reading
from observant.store import Subscription

Number = Annotated[int, PathParameter(ge=1, le=2**53)]

_SHOWN = 10
"""Results of a query on the page of all queries."""


@get("/subscriptions", **reading("subscriptions"))
def subscriptions(request: Asked, collection: GivenCollection) -> Response[str]:
    """Who is told of what, and what became of it."""
    return _subscriptions(request, collection)


@post("/subscriptions", **changing("subscribe"))
def subscribe(request: Asked, collection: GivenCollection, form: GivenForm) -> Response[Any]:
    """Tell somebody."""
    try:
        entry = {"owner": identity_of(request).name} | _entered(form)
        made = collection.subscriptions.add(msgspec.convert(entry, Subscription))
    except CANNOT as error:
        return _subscriptions(request, collection, problem=str(error), entered=form)
    return _subscriptions(request, collection, secret=made.secret, made=made.subscription.name)


@get("/subscriptions/{number:int}", **reading("update_subscription"))
def subscription(request: Asked, collection: GivenCollection, number: Number) -> Response[str]:
    """Change one subscription."""
    return _subscription(request, collection, number)


@post("/subscriptions/{number:int}", **changing("update_subscription"))
def update(
    request: Asked, collection: GivenCollection, form: GivenForm, number: Number
) -> Response[Any]:
    """Change a subscription; what comes back masked stays what it was."""
    try:
        values = _entered(form) | {"enabled": bool(form["enabled"])}
        collection.subscriptions.update(number, msgspec.convert(values, SubscriptionChanges))
    except CANNOT as error:
        return _subscription(request, collection, number, problem=str(error), entered=form)
    return back_to(request, "/subscriptions", "saved")


@post("/subscriptions/{number:int}/remove", **changing("unsubscribe"))
def unsubscribe(request: Asked, collection: GivenCollection, number: Number) -> Response[Any]:
    """Tell no more."""
    collection.subscriptions.remove(number)
    return back_to(request, "/subscriptions", "unsubscribed")


@post("/subscriptions/{number:int}/test", **changing("test_subscription"))
def try_subscription(request: Asked, collection: GivenCollection, number: Number) -> Response[Any]:
    """Send a test message, and say what became of it."""
    name = collection.subscriptions.get(number).name
    tried = collection.subscriptions.test(number)
    if not tried.ok:
        problem = f"{name} was not told: {tried.error}"
        return _subscriptions(request, collection, problem=problem)
    return back_to(request, "/subscriptions", "tried")


@post("/subscriptions/retry", **changing("retry_deliveries"))
def retry(request: Asked, collection: GivenCollection) -> Response[Any]:
    """Have dead letters tried again."""
    collection.subscriptions.retry()
    return back_to(request, "/subscriptions", "sent-again")


@get("/queries", **reading("members"))
def queries(request: Asked, collection: GivenCollection) -> Response[str]:
    """Standing queries and their first results."""
    return _queries(request, collection)


@post("/queries", **changing("add_source"))
def add_query(request: Asked, collection: GivenCollection, form: GivenForm) -> Response[Any]:
    """Ask a question that stays asked."""
    try:
        added = collection.sources.add(msgspec.convert(_query_entered(form), NewSource))
    except CANNOT as error:
        return _queries(request, collection, problem=str(error), entered=form)
    return back_to(request, "/queries", "added" if added.new else "known")


def _subscriptions(
    request: Asked,
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
    items = collection.subscriptions.list()
    return page(
        request,
        "subscriptions.html",
        status=422 if problem else 200,
        items=items,
        dead=sum(item.deliveries.get("dead", 0) for item in items),
        log=collection.subscriptions.deliveries(
            state=state if state in {"waiting", "sent", "dead"} else None, after=after or None
        ),
        state=state or "",
        after=after,
        topics=TOPICS,
        entered=entered or Form([("digest", "0s"), ("timezone", "UTC"), *_proposed(params)]),
        problem=problem,
        secret=secret,
        made=made,
    )


def _proposed(params: Any) -> list[tuple[str, str]]:
    """What the address asks for: to be told of such an event."""
    names = ("name", "sources", "topics")
    return [(name, params.get(name) or "") for name in names if params.get(name)]


def _subscription(
    request: Asked,
    collection: Collection,
    number: int,
    *,
    problem: str = "",
    entered: Form | None = None,
) -> Response[str]:
    item = collection.subscriptions.get(number)
    wanted = item.filter
    as_form = Form(
        [
            ("name", item.name),
            ("channel", item.channel),
            *(("topics", topic) for topic in wanted.topics),
            ("tags", ", ".join(wanted.tags)),
            ("hosts", ", ".join(wanted.hosts)),
            ("sources", "\n".join(wanted.sources)),
            ("every", str(item.every) if item.every else ""),
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
            "sources": [line.strip() for line in form["sources"].splitlines() if line.strip()],
            "terms": [line.strip() for line in form["terms"].splitlines() if line.strip()],
            "magnitude": number_in(form, "magnitude", 0.0),
        },
        "subject": form["subject"],
        "template": form["template"],
        "digest": form["digest"] or 0.0,
        "every": form["every"] or 0.0,
        "quiet": [part.strip() for part in form["quiet"].split(";") if part.strip()],
        "timezone": form["timezone"] or "UTC",
    }


def _queries(
    request: Asked,
    collection: Collection,
    *,
    problem: str = "",
    entered: Form | None = None,
) -> Response[str]:
    found = collection.sources.list(SourceQuery(kind="query", limit=50))
    return page(
        request,
        "queries.html",
        status=422 if problem else 200,
        rows=[(row, collection.sources.members(row.id)[:_SHOWN]) for row in found.sources],
        total=found.total,
        forms=RESULT_FORMS,
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
