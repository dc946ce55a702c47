"""One parser for every address: what is checked is what is connected to.

Addresses are read by the WHATWG rules (can-ada), the way browsers do, so that `http://0x7f.1/` and
`http://2130706433/` are seen for what they are. What only some parsers understand is refused:
backslashes, control characters, missing slashes, two @ signs, odd characters in the host. libcurl
gets the address in its plain form: ASCII, without credentials and fragment.
"""

from __future__ import annotations

import asyncio
import base64
import re
import socket
from typing import TYPE_CHECKING
from urllib import request as environment
from urllib.parse import unquote_to_bytes

import can_ada
import msgspec

from observant.errors import BadURL, Unreachable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from observant.observer.transport.guard import Guard


_CONTROL = re.compile(r"[\x00-\x1f\x7f\\\u2028\u2029\ufeff]")
_ABSOLUTE = re.compile(r"https?://[^/?#\s]", re.IGNORECASE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_AUTHORITY = re.compile(r"(?:[a-z][a-z0-9+.-]*:)?//([^/?#]*)", re.IGNORECASE)
_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*\.?")
_LITERAL_6 = re.compile(r"\[[0-9a-f:]+\]")
_PORTS = {"http": 80, "https": 443}

# Ports of services that can be made to misread an HTTP request; browsers refuse them too
# (Fetch standard, "bad port").
_BAD_PORTS = frozenset(
    [
        *(0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95),
        *(101, 102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161),
        *(179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563),
        *(587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060),
        *(5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080),
    ]
)


class Target(msgspec.Struct, frozen=True, gc=False):
    """An address that may be asked for."""

    href: str
    """Plain form: no credentials, no fragment."""
    scheme: str
    host: str
    """In lower case and ASCII; IPv6 in brackets."""
    port: int
    origin: str
    literal: bool
    """The host is an address, not a name."""
    authorization: str | None = None
    """A Basic header made from `user:password@` in the address."""


def parse(url: str, *, longest: int = 8192) -> Target:
    """Read an absolute http or https address.

    >>> parse("HTTP://EXAMPLE.com:80/a/../b?q=ä#top").href
    'http://example.com/b?q=%C3%A4'
    >>> parse("http://0x7f.1/").host
    '127.0.0.1'
    >>> parse("http://good.example\\\\@bad.example/")
    Traceback (most recent call last):
        ...
    observant.errors.BadURL: a backslash or control character in the address
    """
    _check_text(url, longest)
    if not _ABSOLUTE.match(url):
        raise BadURL("only http:// and https:// addresses with a host are fetched")
    return _target(url)


def resolve(base: Target, location: str, *, longest: int = 8192) -> Target:
    """Where a redirect leads. Credentials in the location are dropped: a page may not set ours.

    >>> resolve(parse("https://example.org/a/b"), "../c").href
    'https://example.org/c'
    >>> resolve(parse("https://example.org/"), "file:///etc/passwd")
    Traceback (most recent call last):
        ...
    observant.errors.BadURL: only http:// and https:// addresses with a host ...
    """
    location = location.strip(" \t")
    _check_text(location, longest)
    if _SCHEME.match(location):
        if not _ABSOLUTE.match(location):
            raise BadURL("only http:// and https:// addresses with a host are fetched")
    elif location.startswith("///"):
        raise BadURL("the address has no host")
    target = _target(_joined(base, location))
    return msgspec.structs.replace(target, authorization=None)


def host_key(host: str) -> str:
    """The name under which a host is treated politely: `example.org.` is `example.org`."""
    return host.rstrip(".")


def _check_text(url: str, longest: int) -> None:
    if len(url) > longest:
        raise BadURL(f"the address has {len(url)} characters, more than {longest}")
    if _CONTROL.search(url):
        raise BadURL("a backslash or control character in the address")
    authority = _AUTHORITY.match(url)
    if authority and authority[1].count("@") > 1:
        raise BadURL("more than one @ before the path")


def _joined(base: Target, location: str) -> str:
    """A reference from a page, made absolute; dots are left to the parser."""
    if _SCHEME.match(location):
        return location
    if location.startswith("//"):
        return f"{base.scheme}:{location}"
    if location.startswith("/"):
        return base.origin + location
    path = base.href.partition("?")[0]
    if not location or location.startswith("#"):
        return base.href
    return path + location if location.startswith("?") else path.rpartition("/")[0] + "/" + location


def _target(url: str) -> Target:
    try:
        found = can_ada.parse(url)
        host, path, query = found.hostname, found.pathname, found.search
        scheme, port_text = found.protocol[:-1], found.port
        username, password = found.username, found.password
    except (ValueError, TypeError):  # TypeError: half a surrogate pair
        raise BadURL("this is not an address that can be read") from None
    if scheme not in _PORTS:
        raise BadURL("only http:// and https:// addresses with a host are fetched")
    literal_6 = host.startswith("[")
    if len(host) > 254 or not (_LITERAL_6 if literal_6 else _NAME).fullmatch(host):
        raise BadURL("the host has a form that no host name has")
    port = int(port_text) if port_text else _PORTS[scheme]
    if port in _BAD_PORTS:
        raise BadURL(f"port {port} belongs to another service than the web")
    origin = f"{scheme}://{host}:{port_text}" if port_text else f"{scheme}://{host}"
    authorization = None
    if username or password:
        pair = unquote_to_bytes(username) + b":" + unquote_to_bytes(password)
        if any(byte < 32 or byte == 127 for byte in pair):
            raise BadURL("a control character in the credentials")
        authorization = "Basic " + base64.b64encode(pair).decode()
    literal = literal_6 or (host[-1].isdigit() and host.replace(".", "").isdigit())
    return Target(origin + path + query, scheme, host, port, origin, literal, authorization)


# -- Proxies, and what they mean for the guard ----------------------------------------------------
#
# Through a proxy, our socket leads to the proxy, and the proxy looks names up and connects. So the
# guard at our socket cannot see where the request ends. What it can do: the proxy itself is the
# user's choice and is not judged; a target written as numbers is judged before anything is sent; a
# target written as a name is looked up here too, where that is possible, and refused when any of
# its addresses is. A name server that gives the proxy another answer than us is out of our sight: a
# proxy that may be asked for untrusted addresses must refuse private ones itself.


class Proxies:
    """Which proxy to use for which address; `None` takes them from the environment.

    >>> from observant.observer.transport.urls import parse
    >>> proxies = Proxies({"http": "http://proxy:3128", "no": "intra.example"})
    >>> proxies.address(parse("http://example.org/"))
    'http://proxy:3128'
    >>> proxies.address(parse("http://www.intra.example/")), proxies.address(parse("https://a.b/"))
    ('', '')
    """

    def __init__(self, given: Mapping[str, str] | None = None) -> None:
        self._given = dict(environment.getproxies_environment() if given is None else given)

    def __repr__(self) -> str:  # they may contain passwords
        return f"Proxies(for {', '.join(sorted(self._given)) or 'nothing'})"

    def address(self, target: Target) -> str:
        """The proxy for this address; empty for none."""
        given = self._given
        if not given:
            return ""
        proxy = given.get(target.scheme) or given.get("all") or ""
        if proxy and environment.proxy_bypass_environment(  # type: ignore[attr-defined]
            f"{target.host}:{target.port}", given
        ):
            return ""
        return proxy


async def refusal_behind_proxy(guard: Guard, target: Target) -> str | None:
    """Why the proxy is not asked for this name, as far as we can see."""
    try:
        found = await addresses_of(target.host, target.port)
    except (OSError, UnicodeError):  # many networks leave names to the proxy
        return None
    refusals = (guard.refusal(address) for address, _ in found)
    return next((refusal for refusal in refusals if refusal is not None), None)


async def addresses_of(host: str, port: int) -> list[tuple[str, int]]:
    """Where a host can be found, in the order of preference; OSError when it cannot."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(str(address[0]), int(address[1])) for *_, address in found]


async def connect_behind_proxy(
    proxy: Target, target: Target
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the target through a proxy that allows CONNECT."""
    try:
        async with asyncio.timeout(_PROXY_SECONDS):
            reader, writer = await asyncio.open_connection(proxy.host.strip("[]"), proxy.port)
            where = f"{target.host}:{target.port}"
            lines = [f"CONNECT {where} HTTP/1.1", f"Host: {where}"]
            if proxy.authorization:
                lines.append(f"Proxy-Authorization: {proxy.authorization}")
            writer.write("\r\n".join([*lines, "", ""]).encode())
            status = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1]
    except (OSError, EOFError, TimeoutError, IndexError, asyncio.LimitOverrunError):
        raise Unreachable("connect", "the proxy does not answer") from None
    if status != b"200":
        writer.close()
        raise Unreachable("connect", f"the proxy refuses CONNECT with status {status!r}")
    return reader, writer


_PROXY_SECONDS = 20.0
