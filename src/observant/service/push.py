"""What others call to say that sources have changed: hubs (WebSub) and publishers (IndexNow).

Who calls shows a path that nobody can guess, a signature, or a key; whatever comes is a signal,
never content, and nothing is fetched because of it.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Annotated, Any

import msgspec
from litestar import MediaType, Request, Response, get, post
from litestar.concurrency import sync_to_thread
from litestar.exceptions import ClientException, NotFoundException
from litestar.params import PathParameter

from observant.errors import BadURL
from observant.observer.transport.urls import parse
from observant.service.access.rights import rule
from observant.service.access.secrets import same
from observant.service.answers import Signalled
from observant.service.collection import Collection
from observant.service.collection.entries import MOST_SIGNALS, NewSignal
from observant.service.forms import GivenCollection

Asked = Request[Any, Any, Any]
Path = Annotated[str, PathParameter(max_length=64)]
LARGEST_DELIVERY = 16 << 20
"""Bytes of a delivery, of which nothing is kept but a digest."""
_METHODS = ("sha1", "sha256", "sha384", "sha512")
_LONGEST = 4096
_FOR_MACHINES: dict[str, Any] = {"include_in_schema": False}


def _caller(request: Asked) -> str:
    return f"address:{request.client.host if request.client else ''}"


# -- WebSub ---------------------------------------------------------------------------------------


@get("/websub/{path:str}", opt=rule("websub_callback"), sync_to_thread=True, **_FOR_MACHINES)
def verify(request: Asked, collection: GivenCollection, path: Path) -> Response[str]:
    """A hub asks whether we meant it: its challenge comes back only if we did."""
    signals, caller = collection.signals, _caller(request)
    signals.failures.check(caller)
    given = {name: request.query_params.get(f"hub.{name}", "") for name in _OF_HUBS}
    mode, topic, challenge = given["mode"], given["topic"], given["challenge"]
    websub, now = collection.store.websub, collection.now()
    if mode == "denied":
        if websub.deny(path, topic, given["reason"], now=now):
            return Response("", media_type=MediaType.TEXT)
    elif 0 < len(challenge) <= _LONGEST:
        lease = given["lease_seconds"]
        seconds = float(lease) if lease.isascii() and lease.isdigit() and len(lease) < 16 else 0.0
        if websub.verify(path, mode, topic, seconds, now=now):
            return Response(challenge, media_type=MediaType.TEXT)
    signals.failures.take(caller)
    raise NotFoundException("nobody has asked for this")


_OF_HUBS = ("mode", "topic", "challenge", "lease_seconds", "reason")


@post(
    "/websub/{path:str}",
    opt=rule("websub_callback"),
    status_code=202,
    request_max_body_size=LARGEST_DELIVERY,
    **_FOR_MACHINES,
)
async def deliver(request: Asked, collection: GivenCollection, path: Path) -> Response[None]:
    """Something is new at a hub. What comes with a bad signature is taken and ignored."""
    signals, caller = collection.signals, _caller(request)
    signals.failures.check(caller)
    one = await sync_to_thread(collection.store.websub.find, path)
    if one is None or not one.wanted:
        signals.failures.take(caller)
        return Response(None, status_code=410)  # so that the hub stops
    signals.deliveries.take(one.path)
    method, _, signature = request.headers.get("x-hub-signature", "").partition("=")
    known = method.strip().lower() in _METHODS
    mac = hmac.new(one.secret.encode(), digestmod=method.strip().lower() if known else "sha256")
    digest = hashlib.sha256()
    async for part in request.stream():
        mac.update(part)
        digest.update(part)
    if not one.signed or (known and same(mac.hexdigest(), signature.strip().lower())):
        kept = collection.store.websub.deliver
        await sync_to_thread(kept, one, digest.hexdigest()[:24], now=collection.now())
    else:
        signals.failures.take(caller)
    return Response(None, status_code=202)


# -- IndexNow -------------------------------------------------------------------------------------


class _Pages(msgspec.Struct):
    host: str
    key: str
    urls: list[str] = msgspec.field(name="urlList")
    location: str = msgspec.field(name="keyLocation", default="")


@get("/indexnow", opt=rule("indexnow"), sync_to_thread=True, **_FOR_MACHINES)
def indexnow(request: Asked, collection: GivenCollection) -> Signalled:
    """One page of a publisher has changed."""
    url, key = (request.query_params.get(name, "") for name in ("url", "key"))
    if not url or not key:
        raise ClientException("give url and key", status_code=400)
    location = request.query_params.get("keyLocation", "")
    pages = _Pages(host=_host(url), key=key, urls=[url], location=location)
    return _announce(collection, pages, _caller(request))


@post(
    "/indexnow", opt=rule("indexnow"), status_code=200, request_max_body_size=4 << 20,
    **_FOR_MACHINES,
)  # fmt: skip
async def indexnow_list(request: Asked, collection: GivenCollection) -> Signalled:
    """Pages of a publisher have changed: host, key, keyLocation and urlList as JSON."""
    collection.signals.failures.check(_caller(request))
    try:
        pages = msgspec.json.decode(await request.body(), type=_Pages)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ClientException(f"this is no list of pages: {error}", status_code=400) from None
    return await sync_to_thread(_announce, collection, pages, _caller(request))


def _announce(collection: Collection, pages: _Pages, caller: str) -> Signalled:
    """Signals about the pages of a host whose key is right. The key's file is not asked for."""
    signals, host = collection.signals, pages.host.lower()
    signals.failures.check(caller)
    keys = {name.lower(): key for name, key in collection.given.indexnow.items()}
    if not same(keys.get(host, ""), pages.key) or host not in keys:
        signals.failures.take(caller)
        raise ClientException("this key is not valid for the host", status_code=403)
    named = [*pages.urls, *filter(None, [pages.location])]
    if not pages.urls or len(pages.urls) > MOST_SIGNALS or {_host(url) for url in named} != {host}:
        raise ClientException(f"from 1 to {MOST_SIGNALS:,} pages, all of the host", status_code=422)
    new = [NewSignal(url=url, kind="indexnow") for url in pages.urls]
    return signals.add(new, sender=f"indexnow:{host}")


def _host(url: str) -> str:
    try:
        return parse(url).host
    except BadURL as error:
        raise ClientException(str(error), status_code=422) from None
