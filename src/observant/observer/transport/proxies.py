"""Proxies, and what they mean for the guard.

Through a proxy, our socket leads to the proxy, and the proxy looks names up and connects. So the
guard at our socket cannot see where the request ends. What it can do: the proxy itself is the
user's choice and is not judged; a target written as numbers is judged before anything is sent; a
target written as a name is looked up here too, where that is possible, and refused when any of its
addresses is. A name server that gives the proxy another answer than us is out of our sight: a proxy
that may be asked for untrusted addresses must refuse private ones itself.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib import request as environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from observant.observer.transport.guard import Guard
    from observant.observer.transport.urls import Target

__all__ = ["Proxies", "refusal_behind_proxy"]


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
        found = await asyncio.get_running_loop().getaddrinfo(target.host, target.port)
    except (OSError, UnicodeError):  # many networks leave names to the proxy
        return None
    refusals = (guard.refusal(str(address[0])) for *_, address in found)
    return next((refusal for refusal in refusals if refusal is not None), None)
