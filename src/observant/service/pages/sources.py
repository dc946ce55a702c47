"""Sources: the list of them, changes to many at once, and the one place to add more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from litestar import Response, get, post

from observant.errors import InputError, ObservantError
from observant.service.collection import Collection, SourceQuery
from observant.service.collection.entries import (
    MOST_LOOKS,
    WEB_KINDS,
    BulkChange,
    NewSource,
    checked,
    with_scheme,
)
from observant.service.forms import Form, GivenCollection, GivenForm, number_in, tags_in
from observant.service.pages.render import back_to, page
from observant.service.pages.routes import CANNOT, Asked, changing, reading

if TYPE_CHECKING:
    from observant.service.answers import AddressItem

_FILTERS = ("search", "tag", "host", "state")
_KINDS = tuple(kind for kind in WEB_KINDS if kind != "query")
_NOTHING = {"urls": "", "title": "", "tags": "", "importance": "1"}


@get("/sources", **reading("list_sources"))
def sources(request: Asked, collection: GivenCollection) -> Response[str]:
    """One page of sources."""
    return _page(request, collection)


@get("/add", **reading("recognise_sources"))
def add_page(request: Asked) -> Response[str]:
    """Where addresses are entered; the address of the page may name them."""
    given = {key: request.query_params.get(key) or value for key, value in _NOTHING.items()}
    return _add_page(request, given)


@post("/add", **changing("recognise_sources"))
def recognise(request: Asked, collection: GivenCollection, form: GivenForm) -> Response[str]:
    """Say what is at the addresses; nothing is added yet."""
    entered = _entered(form)
    try:
        urls = _lines(form)
        if len(urls) > MOST_LOOKS:
            raise InputError(f"at most {MOST_LOOKS} addresses are looked at together")
        found = collection.sources.recognise(urls)
    except ObservantError as error:
        return _add_page(request, entered, problem=str(error))
    return _add_page(request, entered, found=list(zip(urls, found, strict=True)))


@post("/sources", **changing("add_source"))
def add(request: Asked, collection: GivenCollection, form: GivenForm) -> Response[Any]:
    """Watch what was entered, one address on each line."""
    entered = _entered(form)
    try:
        entries = _entries(form)
        found = collection.sources.add_many(entries)
        if len(entries) == 1 and found.refused:
            raise InputError(found.refused[0].reason)
    except CANNOT as error:
        return _add_page(request, entered, problem=str(error))
    if found.refused:
        left = dict(entered, urls="\n".join(one.what for one in found.refused))
        reasons = "; ".join(f"{one.what[:120]}: {one.reason}" for one in found.refused[:5])
        told = f"{found.added} added, {len(found.refused)} refused. {reasons}"
        return _add_page(request, left, problem=told)
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
        problem=problem,
    )


def _add_page(
    request: Asked,
    entered: dict[str, str],
    *,
    problem: str = "",
    found: list[tuple[str, AddressItem]] | None = None,
) -> Response[str]:
    return page(
        request,
        "add.html",
        status=422 if problem else 200,
        kinds=_KINDS,
        entered=entered,
        found=found or [],
        problem=problem,
    )


def _entered(form: Form) -> dict[str, str]:
    lines = "\n".join(form.all("url")) or form["urls"]
    return {key: form.get(key, default) for key, default in _NOTHING.items()} | {"urls": lines}


def _lines(form: Form) -> list[str]:
    """The addresses, those of a list that was looked at or one on each line."""
    given = form.all("url") or form["urls"].splitlines()
    lines = [with_scheme(line) for line in given if line.strip()]
    if not lines:
        raise InputError("enter one address or more")
    return lines


def _entries(form: Form) -> list[NewSource]:
    lines, kinds = _lines(form), form.all("kind") or ["http"]
    pairs = zip(lines, kinds if len(kinds) == len(lines) else kinds[:1] * len(lines), strict=True)
    chosen = [(line, kind) for line, kind in pairs if kind]
    if not chosen:
        raise InputError("choose how to watch at least one of them")
    shared = {"tags": tags_in(form["tags"]), "importance": number_in(form, "importance", 1.0)}
    title = form["title"] if len(chosen) == 1 else ""
    return [
        msgspec.convert({"url": line, "kind": kind, "title": title, **shared}, NewSource)
        for line, kind in chosen
    ]


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
