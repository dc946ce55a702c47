"""One request after the other: everything observant asks of the world goes through `fetch`.

Every hop of every request, robots.txt included, passes the same five gates in this order: the
address is read by one parser; the guard judges it; robots.txt is asked; the host's turn is waited
for; and when the socket opens, the guard judges the address that is really connected to.
"""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING, Self

import msgspec

from observant.errors import BadURL, InputError, Unreachable
from observant.observer.clock import SteadyClock
from observant.observer.fetched import Fetched
from observant.observer.transport.bodies import ACCEPT_ENCODING
from observant.observer.transport.conditional import conditions
from observant.observer.transport.curl import CurlEngine
from observant.observer.transport.guard import Guard
from observant.observer.transport.headers import (
    HARMLESS,
    TOKEN,
    charset_of,
    checked_headers,
    checked_value,
    head_of,
    last_modified_of,
    media_type,
    retry_after,
)
from observant.observer.transport.limits import Limits
from observant.observer.transport.politeness import Host, Hosts, Politeness
from observant.observer.transport.robots import SIZE, Robots, Verdict
from observant.observer.transport.transfer import Reply, Request, RequestEngine
from observant.observer.transport.urls import (
    Proxies,
    Target,
    addresses_of,
    connect_behind_proxy,
    host_key,
    parse,
    refusal_behind_proxy,
    resolve,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from observant.observer.clock import Clock
    from observant.store.visit import Error, Validators

_REDIRECTS = frozenset([301, 302, 303, 307, 308])
_FREE = Verdict()
_PRODUCT = re.compile(r"[A-Za-z_-]+")


class Counts(msgspec.Struct):
    """What has gone through this door so far."""

    requests: int = 0
    """On the wire, robots.txt and redirects included."""
    bytes: int = 0
    not_modified: int = 0
    refused: int = 0
    """Kept back by the guard."""


class Transport:
    """Fetches addresses, politely and safely. One per process; close it, or use `async with`.

    Parameters
    ----------
    user_agent
        Name and version, like "observant/1.0". The name is what robots.txt files call us.
    contact
        An address (web or mail) where the owner of a site can reach you; part of the user agent.
    limits
        What a fetch may cost; `fetch` can be given others.
    guard
        Which network addresses may be spoken to. The default: only the public internet.
    politeness
        How much rest hosts get.
    robots
        Whether robots.txt is obeyed; `fetch` can say otherwise for one source.
    proxies
        By scheme, like `{"https": "http://proxy:3128"}`. The default takes them from the
        environment (`http_proxy`, `https_proxy`, `all_proxy`, `no_proxy`); `{}` means none.
    locate
        Says where a host is found instead of asking the name server: `(host, port)` to
        `(address, port)` or None. The guard judges the answer like any other.
    clock
        Time for politeness and for the instants in the answers.
    """

    def __init__(
        self,
        *,
        user_agent: str = "observant/0.1",
        contact: str | None = None,
        limits: Limits | None = None,
        guard: Guard | None = None,
        politeness: Politeness | None = None,
        robots: bool = True,
        proxies: Mapping[str, str] | None = None,
        locate: Callable[[str, int], tuple[str, int] | None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        product = _PRODUCT.match(user_agent)
        if product is None:
            raise InputError(
                f"the user agent must begin with a name of letters, - and _, not {user_agent!r}"
            )
        self.product = product[0]
        self.user_agent = f"{user_agent} (+{contact})" if contact else user_agent
        checked_value("user agent", self.user_agent)
        self.limits = limits or Limits()
        self.guard = guard or Guard()
        self.counts = Counts()
        self._clock: Clock = clock or SteadyClock()
        self._locate = locate
        self.proxies = Proxies(proxies)
        self._obey = robots
        self._engine: CurlEngine | None = None
        self.hosts = Hosts(politeness or Politeness(), self._clock)
        self.robots = Robots(self.product, self._robots_txt, self._clock)

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Iterable[tuple[str, str]] = (),
        body: bytes | None = None,
        validators: Validators | None = None,
        robots: bool | None = None,
        limits: Limits | None = None,
        verify: bool = True,
        follow: bool | None = None,
        through: RequestEngine | None = None,
    ) -> Fetched:
        """Ask for an address and tell what came of it.

        Whatever the world does, the answer is a `Fetched`; its `error` says what went wrong. Only a
        mistake of the caller (a header that cannot be sent) raises InputError. Redirects are
        followed for GET and HEAD, unless `follow` says otherwise. A browser is given as `through`.
        """
        limits = limits or self.limits
        given = checked_headers(headers)
        if not TOKEN.fullmatch(method) or method == "CONNECT":
            raise InputError(f"not a method that can be sent: {method!r}")
        try:
            target = parse(url, longest=limits.url)
        except BadURL as fault:
            now = self._clock.time()
            return Fetched(
                url=url[:10_000], started_at=now, ended_at=now, error="bad-url", message=str(fault)
            )
        if target.authorization and not any(n.lower() == "authorization" for n, _ in given):
            given.append(("Authorization", target.authorization))
        journey = _Journey(
            url=url,
            target=target,
            method=method,
            headers=given,
            body=body,
            validators=validators,
            obey=self._obey if robots is None else robots,
            limits=limits,
            verify=verify,
            follow=method in {"GET", "HEAD"} if follow is None else follow,
            through=through,
        )
        while True:
            fetched = await self._hop(journey)
            if fetched is not None:
                return fetched

    async def connect(self, target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to an address that the guard allows, for a browser that speaks HTTP itself.

        The name is looked up once: what is judged is what is connected to. Otherwise `Unreachable`.
        """
        proxy = self.proxies.address(target)
        if proxy:
            refusal = await refusal_behind_proxy(self.guard, target)
            if refusal is not None:
                self.counts.refused += 1
                raise Unreachable("refused-address", refusal)
            return await connect_behind_proxy(parse(proxy), target)
        host = target.host.strip("[]")
        found = self._locate(host, target.port) if self._locate else None
        try:
            places = [found] if found else await addresses_of(host, target.port)
        except (OSError, UnicodeError) as problem:
            raise Unreachable("dns", f"{host}: {problem}") from None
        failed = Unreachable("dns", f"{host} has no address")
        for address, port in places:
            refusal = self.guard.refusal(address)
            if refusal is not None:
                self.counts.refused += 1
                failed = Unreachable("refused-address", refusal)
                continue
            try:
                async with asyncio.timeout(self.limits.connect):
                    return await asyncio.open_connection(address, port)
            except (OSError, TimeoutError) as problem:
                failed = Unreachable("connect", f"{host}: {str(problem) or 'no answer'}")
        raise failed

    def free_at(self, url: str) -> float:
        """The epoch second when the host of this address could be asked."""
        try:
            return self.hosts.free_at(host_key(parse(url).host))
        except BadURL:
            return self._clock.time()

    async def close(self) -> None:
        """End everything under way and close all connections."""
        self.hosts.close()
        if self._engine is not None:
            self._engine.close()
            self._engine = None
        await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _hop(self, journey: _Journey) -> Fetched | None:
        """One request of a journey; None when it leads on to another."""
        target = journey.target
        if target.literal:
            refusal = self.guard.refusal_of_host(target.host)
            if refusal is not None:
                self.counts.refused += 1
                return self._failed(journey, "refused-address", refusal)
        verdict = _FREE
        if journey.obey:
            verdict = self.robots.known(target) or await self.robots.verdict(target)
            if verdict.error is not None:
                return self._failed(journey, verdict.error, verdict.message)
        proxy = self.proxies.address(target)
        if proxy and not target.literal:
            refusal = await refusal_behind_proxy(self.guard, target)
            if refusal is not None:
                self.counts.refused += 1
                return self._failed(journey, "refused-address", refusal)
        # No awaiting between here and the turn: a host may be forgotten while nobody holds it.
        host = self.hosts[host_key(target.host)]
        if journey.obey:
            host.crawl_delay = verdict.crawl_delay
        if not self.hosts.enter_now(host):
            wait = self.hosts.wait(host)
            if wait > self.hosts.rules.patience:
                message = f"{host.name} wants rest for {wait:.0f} seconds"
                return self._failed(journey, "timeout", message)
            await self.hosts.enter(host, first=journey.under_way)
        if self.hosts.closed:
            return self._failed(journey, "connect", "the transport was closed")
        was_well = host.failures == 0
        reply = await self._ask(journey, host, proxy)
        for place in reply.places:  # a browser follows redirects by itself
            journey.redirects.append(journey.target.href)
            journey.target = parse(place, longest=journey.limits.url)
            if journey.obey:
                verdict = await self.robots.verdict(journey.target)
                if verdict.error is not None:
                    return self._failed(journey, verdict.error, verdict.message)
        return self._next(journey, reply, host, was_well)

    async def _ask(self, journey: _Journey, host: Host, proxy: str) -> Reply:
        """Send the request; the host's turn is ours and ends here, whatever happens."""
        clock = self._clock
        if journey.started_at is None:
            journey.started_at = clock.time()
        began, really_began = clock.monotonic(), time.perf_counter()
        try:
            if self._engine is None:
                self._engine = CurlEngine(self.guard, clock, self.user_agent)
            engine = journey.through or self._engine
            reply = await engine.perform(self._request(journey, proxy))
        except BaseException:
            self.hosts.abandon(host)
            raise
        journey.spent += time.perf_counter() - really_began
        journey.wire_bytes += reply.wire_bytes
        self.counts.requests += 1
        self.counts.bytes += reply.wire_bytes
        if reply.error == "refused-address":
            self.counts.refused += 1
        journey.head = head_of(reply.lines)
        wish = None
        if reply.status in {429, 503}:
            wish = retry_after(_first(journey.head, "retry-after"), clock.time())
        self.hosts.leave(
            host,
            clock.monotonic() - began if reply.latency is None else reply.latency,
            status=reply.status if reply.error != "timeout" else 0,
            retry_after=wish,
        )
        return reply

    def _request(self, journey: _Journey, proxy: str) -> Request:
        target, limits = journey.target, journey.limits
        journey.shown = conditions(journey.validators, target.href)
        lines = [f"{name}: {value}" if value else f"{name};" for name, value in journey.headers]
        lines += [f"{name}: {value}" for name, value in journey.shown]
        lines.append("Accept-Encoding: " + ACCEPT_ENCODING)
        if journey.method not in {"GET", "HEAD"} or journey.body is not None:
            lines.append("Expect:")  # libcurl would wait a second for leave to send a long body
            if not any(name.lower() == "content-type" for name, _ in journey.headers):
                kind = " application/octet-stream" if journey.body else ""
                lines.append("Content-Type:" + kind)
        found = self._locate(target.host, target.port) if self._locate else None
        return Request(
            url=target.href,
            headers=lines,
            limits=limits,
            seconds=limits.total - journey.spent,
            method=journey.method,
            body=journey.body,
            proxy=proxy,
            connect_to=_connect_to(target, *found) if found else None,
            verify=journey.verify,
        )

    def _next(self, journey: _Journey, reply: Reply, host: Host, was_well: bool) -> Fetched | None:
        limits, target = journey.limits, journey.target
        journey.under_way = True
        if reply.error is not None:
            again = (
                reply.error in {"connect", "dns"}
                and was_well
                and journey.method in {"GET", "HEAD"}
                and journey.retries < limits.retries
                and host.delay + journey.spent < limits.total
            )
            if not again:
                return self._failed(journey, reply.error, reply.message, reply)
            journey.retries += 1
            return None
        location = _first(journey.head, "location")
        if reply.status not in _REDIRECTS or not location or not journey.follow:
            return self._answer(journey, reply)
        if len(journey.redirects) >= limits.redirects:
            message = f"more than {limits.redirects} redirects"
            return self._failed(journey, "too-many-redirects", message, reply)
        try:
            onward = resolve(target, _as_text(location), longest=limits.url)
        except BadURL as fault:
            return self._failed(journey, "bad-url", f"redirect: {fault}", reply)
        if onward.href in {target.href, *journey.redirects}:
            return self._failed(
                journey, "too-many-redirects", "the redirects run in a circle", reply
            )
        if journey.spent >= limits.total:
            return self._failed(journey, "timeout", f"more than {limits.total:g} seconds", reply)
        if onward.origin != target.origin:
            journey.headers = [pair for pair in journey.headers if pair[0].lower() in HARMLESS]
        if journey.method not in {"GET", "HEAD"} and reply.status in {301, 302, 303}:
            journey.method, journey.body = "GET", None
        journey.redirects.append(target.href)
        journey.target = onward
        return None

    def _answer(self, journey: _Journey, reply: Reply) -> Fetched:
        head, status = journey.head, reply.status
        now = self._clock.time()
        fields = dict(reversed(head))  # of several, the first counts
        kind = fields.get("content-type", "")
        not_modified = status == 304
        error: Error | None = None
        message = ""
        if not_modified and not journey.shown:
            error, message = (
                "protocol",
                'the server says "not modified" but was shown no validators',
            )
            not_modified = False
        elif status >= 400:
            error, message = "http", f"status {status}"
        elif status == 206:
            error, message = "protocol", "a part of the page, which nobody asked for"
        elif not not_modified and not 200 <= status < 300:
            error, message = "protocol", f"status {status} is no answer to this request"
        self.counts.not_modified += not_modified
        return Fetched(
            url=journey.url,
            final_url=journey.target.href,
            status=status,
            headers=head,
            body=reply.body,
            content_type=media_type(kind),
            charset=charset_of(kind),
            etag=fields.get("etag") or None,
            last_modified=last_modified_of(fields.get("last-modified"), fields.get("date"), now),
            not_modified=not_modified,
            started_at=journey.started_at or now,
            first_byte_at=reply.first_byte_at,
            ended_at=now,
            wire_bytes=journey.wire_bytes,
            cpu=reply.cpu,
            shot=reply.shot,
            redirects=tuple(journey.redirects),
            error=error,
            message=message,
        )

    def _failed(
        self, journey: _Journey, error: Error, message: str, reply: Reply | None = None
    ) -> Fetched:
        now = self._clock.time()
        return Fetched(
            url=journey.url,
            final_url=journey.target.href,
            status=reply.status if reply else 0,
            headers=journey.head if reply else (),
            started_at=journey.started_at or now,
            first_byte_at=reply.first_byte_at if reply else None,
            ended_at=now,
            wire_bytes=journey.wire_bytes,
            shot=reply.shot if reply else None,
            redirects=tuple(journey.redirects),
            error=error,
            message=message,
        )

    async def _robots_txt(self, url: str) -> Fetched:
        limits = msgspec.structs.replace(
            self.limits, body=SIZE, truncate=True, redirects=min(self.limits.redirects, 5)
        )
        return await self.fetch(url, robots=False, limits=limits)


class _Journey(msgspec.Struct, kw_only=True):
    """A fetch on its way: where it stands and what it has cost."""

    url: str
    target: Target
    method: str
    headers: list[tuple[str, str]]
    body: bytes | None
    validators: Validators | None
    obey: bool
    limits: Limits
    verify: bool
    follow: bool
    through: RequestEngine | None = None
    redirects: list[str] = []
    started_at: float | None = None
    spent: float = 0.0
    wire_bytes: int = 0
    retries: int = 0
    under_way: bool = False
    head: tuple[tuple[str, str], ...] = ()
    shown: list[tuple[str, str]] = []


def _connect_to(target: Target, address: str, port: int) -> str:
    bracketed = f"[{address}]" if ":" in address else address
    return f"{target.host}:{target.port}:{bracketed}:{port}"


def _first(head: tuple[tuple[str, str], ...], name: str) -> str | None:
    return next((value for key, value in head if key == name), None)


def _as_text(location: str) -> str:
    """Header bytes that are no ASCII are UTF-8 almost always."""
    try:
        return location.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return location
