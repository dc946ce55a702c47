"""What the routes of the API have in common."""

from __future__ import annotations

import datetime as dt
import hashlib
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from litestar.exceptions import ClientException
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter, PathParameter, QueryParameter

from observant.service.access.rights import RULES, rule
from observant.service.problems import ProblemDetails

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from litestar.types import ControllerRouterHandler

    from observant.service.access import Identity
    from observant.service.collection import Collection

T = TypeVar("T")
LARGEST_ID = 2**53
LARGEST_IMPORT = 64 << 20
LARGEST_CREDENTIALS = 16 << 10

SourceId = Annotated[int, PathParameter(ge=1, le=LARGEST_ID, description="The number of a source.")]
Limit = Annotated[int, QueryParameter(ge=1, le=1000, description="How many at most.")]
After = Annotated[
    int | None,
    QueryParameter(ge=0, le=LARGEST_ID, description="`next` of the page before."),
]
Moment = Annotated[dt.datetime | None, QueryParameter(description="RFC 3339; UTC unless it says.")]
Text = Annotated[str | None, QueryParameter(max_length=500, pattern=r"^[^\x00-\x1f\x7f]*$")]
IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        max_length=200,
        pattern=r"^[!-~]*$",
        description="Any text of your own: the same request with the same key is done once.",
    ),
]


def handlers_in(*modules: ModuleType) -> list[ControllerRouterHandler]:
    """All routes of these modules, in the order in which they stand there."""
    return [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, HTTPRouteHandler)
    ]


def spec(
    operation: str, *, topic: str = "", also: dict[int, ResponseSpec] | None = None, **more: Any
) -> dict[str, Any]:
    """What a handler says of itself: its name is that of the client's method and of the rule."""
    told = {
        400: "It is not understood.",
        401: "Nobody has signed in.",
        403: "Not allowed.",
        404: "There is no such thing.",
        409: "It is in conflict with what is there.",
        413: "It is too large.",
        422: "It cannot be used; the detail says why.",
        429: "Too many attempts.",
        503: "Not now.",
    }
    need = RULES[operation]
    responses = {
        status: ResponseSpec(
            ProblemDetails,
            description=text,
            media_type="application/problem+json",
            generate_examples=False,
        )
        for status, text in told.items()
        if not (status == 403 and need == "nothing")
        and not (status in {409, 413} and need == "read")
    }
    return {
        "opt": rule(operation),
        "operation_id": operation,
        "sync_to_thread": True,
        "responses": responses | (also or {}),
        "tags": [topic] if topic else None,
        **more,
    }


def specs_of(topic: str) -> Callable[..., dict[str, Any]]:
    """`spec` for the handlers of a module, which are all about one topic."""
    return partial(spec, topic=topic)


def once(
    collection: Collection,
    who: Identity,
    key: str | None,
    asked: Any,
    work: Callable[[], T],
    kind: type[T],
) -> T:
    """Do it, or give the answer that it got the first time (kept for a day)."""
    if not key:
        return work()
    place = f"{who.name}\n{key}"
    digest = hashlib.sha256(msgspec.json.encode(asked)).digest()
    kept = collection.store.replies.get(place)
    if kept is not None:
        if kept.request != digest:
            raise ClientException(
                "this idempotency key was used for another request", status_code=409
            )
        return msgspec.convert(kept.reply, kind)
    reply = work()
    collection.store.replies.keep(place, digest, msgspec.to_builtins(reply), now=collection.now())
    return reply
