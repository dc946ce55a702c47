# ruff: noqa: TC001 (Litestar looks at the types of a handler)
"""The list of sources: find, sort, add, and change many at once."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from litestar import Request, Response, get, post

from observant.errors import InputError
from observant.service.collection import Collection
from observant.service.collection.entries import WEB_KINDS, BulkChange, NewSource
from observant.service.collection.reading import SourceQuery
from observant.service.forms import number_in, tags_in
from observant.service.given import GivenCollection, GivenPrefix
from observant.service.pages.rendering import back_to, page
from observant.service.pages.routes import Form, changing, form_of, reading

__all__ = ["HANDLERS"]

_FILTERS = ("search", "tag", "host", "state")
_KINDS = tuple(kind for kind in WEB_KINDS if kind != "query")
_NOTHING = {"urls": "", "kind": "http", "title": "", "tags": "", "importance": "1"}


@get("/sources", **reading())
def sources(request: Request[Any, Any, Any], collection: GivenCollection) -> Response[str]:
    """One page of sources."""
    return _page(request, collection)


@post("/sources", **changing())
async def add(
    request: Request[Any, Any, Any], collection: GivenCollection, prefix: GivenPrefix
) -> Response[Any]:
    """Watch what was entered, one address on each line."""
    form = await form_of(request)
    entered = {key: form.get(key, default) for key, default in _NOTHING.items()}

    def work() -> Response[Any]:
        try:
            new, known, refused = _add(collection, form)
        except (InputError, msgspec.ValidationError) as error:
            return _page(request, collection, problem=str(error), entered=entered)
        if refused:
            left = dict(entered, urls="\n".join(what for what, _ in refused))
            reasons = "; ".join(f"{what[:120]}: {why}" for what, why in refused[:5])
            told = f"{new} added, {len(refused)} refused. {reasons}"
            return _page(request, collection, problem=told, entered=left)
        if new + known == 1:
            found = collection.find(known_name(collection, form))
            return back_to(prefix, f"/sources/{found.id}", "added" if new else "known")
        return back_to(prefix, "/sources", "added" if new else "known")

    return await asyncio.to_thread(work)


@post("/sources/bulk", **changing())
async def bulk(
    request: Request[Any, Any, Any], collection: GivenCollection, prefix: GivenPrefix
) -> Response[Any]:
    """Pause, resume, tag, weigh or remove the chosen sources."""
    form = await form_of(request)

    def work() -> Response[Any]:
        try:
            collection.bulk(_bulk_change(form))
        except (InputError, msgspec.ValidationError) as error:
            return _page(request, collection, problem=str(error))
        kept = {key: form[f"filter_{key}"] for key in _FILTERS}
        return back_to(prefix, "/sources", "bulk", **kept)

    return await asyncio.to_thread(work)


def _page(
    request: Request[Any, Any, Any],
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
        answer=collection.sources(query),
        query=query,
        filters={key: getattr(query, key) for key in _FILTERS},
        narrowed=any(getattr(query, key) for key in _FILTERS),
        after=query.after,
        all_tags=collection.tags(),
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


def _add(collection: Collection, form: Form) -> tuple[int, int, list[tuple[str, str]]]:
    """How many were new, how many known, and which were refused for which reason."""
    entries = _entries(form)
    found = collection.add_many(entries)
    if len(entries) == 1 and found.refused:
        raise InputError(found.refused[0].reason)
    return found.added, found.known, [(one.what, one.reason) for one in found.refused]


def known_name(collection: Collection, form: Form) -> str:
    """The name of the one source that was entered."""
    from observant.service.collection.entries import checked

    return checked(_entries(form)[0], collection.config).name


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


HANDLERS = [sources, add, bulk]
