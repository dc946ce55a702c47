"""The list of sources: find, sort, add, and change many at once."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Response, get, post

from observant.errors import InputError
from observant.service.collection import Collection, SourceQuery
from observant.service.collection.entries import WEB_KINDS, BulkChange, NewSource, checked
from observant.service.forms import Form, GivenCollection, GivenForm, number_in, tags_in
from observant.service.pages.render import back_to, page
from observant.service.pages.routes import CANNOT, Asked, changing, reading

_FILTERS = ("search", "tag", "host", "state")
_KINDS = tuple(kind for kind in WEB_KINDS if kind != "query")
_NOTHING = {"urls": "", "kind": "http", "title": "", "tags": "", "importance": "1"}


@get("/sources", **reading("list_sources"))
def sources(request: Asked, collection: GivenCollection) -> Response[str]:
    """One page of sources."""
    return _page(request, collection)


@post("/sources", **changing("add_source"))
def add(request: Asked, collection: GivenCollection, form: GivenForm) -> Response[Any]:
    """Watch what was entered, one address on each line."""
    entered = {key: form.get(key, default) for key, default in _NOTHING.items()}
    try:
        entries = _entries(form)
        found = collection.sources.add_many(entries)
        if len(entries) == 1 and found.refused:
            raise InputError(found.refused[0].reason)
    except CANNOT as error:
        return _page(request, collection, problem=str(error), entered=entered)
    if found.refused:
        left = dict(entered, urls="\n".join(one.what for one in found.refused))
        reasons = "; ".join(f"{one.what[:120]}: {one.reason}" for one in found.refused[:5])
        told = f"{found.added} added, {len(found.refused)} refused. {reasons}"
        return _page(request, collection, problem=told, entered=left)
    told = "added" if found.added else "known"
    if len(entries) == 1:
        only = collection.find(checked(entries[0], collection.config).name)
        return back_to(request, f"/sources/{only.id}", told)
    return back_to(request, "/sources", told)


@post("/sources/bulk", **changing("change_sources"))
def bulk(request: Asked, collection: GivenCollection, form: GivenForm) -> Response[Any]:
    """Pause, resume, tag, weigh or remove the chosen sources."""
    try:
        collection.sources.bulk(_bulk_change(form))
    except CANNOT as error:
        return _page(request, collection, problem=str(error))
    kept = {key: form[f"filter_{key}"] for key in _FILTERS}
    return back_to(request, "/sources", "bulk", **kept)


def _page(
    request: Asked,
    collection: Collection,
    *,
    problem: str = "",
    entered: dict[str, str] | None = None,
) -> Response[str]:
    params = request.query_params
    only: dict[str, Any] = {key: params.get(key) or None for key in _FILTERS}
    query = SourceQuery(
        **only,
        sort=params.get("sort") or "name",
        descending=bool(params.get("descending")),
        after=params.get("after") or None,
    )
    return page(
        request,
        "sources.html",
        status=422 if problem else 200,
        answer=collection.sources.list(query),
        query=query,
        filters={key: getattr(query, key) for key in _FILTERS},
        narrowed=any(getattr(query, key) for key in _FILTERS),
        after=query.after,
        all_tags=collection.sources.tags(),
        kinds=_KINDS,
        entered=entered or _NOTHING,
        problem=problem,
    )


def _entries(form: Form) -> list[NewSource]:
    lines = [line.strip() for line in form["urls"].splitlines() if line.strip()]
    if not lines:
        raise InputError("enter one address or more")
    shared = {
        "kind": form.get("kind", "http"),
        "tags": tags_in(form["tags"]),
        "importance": number_in(form, "importance", 1.0),
    }
    title = form["title"] if len(lines) == 1 else ""
    return [msgspec.convert({"url": line, "title": title, **shared}, NewSource) for line in lines]


def _bulk_change(form: Form) -> BulkChange:
    action = form["action"]
    value: Any = None
    if action in {"tag", "untag"}:
        value = form["value"] or None
    elif action == "importance":
        value = number_in(form, "value", None)
    only: dict[str, Any] = {}
    if form["matching"]:
        only = {key: form[f"filter_{key}"] or None for key in _FILTERS}
    elif not form.all("id"):
        raise InputError("select the sources first")
    return msgspec.convert(
        {
            "action": action,
            "ids": [] if only else [int(i) for i in form.all("id") if i.isdecimal()],
            "value": value,
            **only,
        },
        BulkChange,
    )
