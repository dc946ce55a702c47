"""What sources are visited with: the transport to the network, and a browser.

Both are there from when the first source needs them.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import InputError
from observant.observer.browser.engine import Browser
from observant.observer.browser.seal import Seal, key_file
from observant.observer.browser.settings import available
from observant.observer.content import Comparer
from observant.observer.content.rules import read_rules
from observant.observer.sources import Surroundings, make_source
from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.observer.clock import Clock
    from observant.observer.config import Config
    from observant.observer.honesty import Audits
    from observant.observer.permission import Permission
    from observant.observer.sources import SourceKind
    from observant.observer.transport import Transport
    from observant.observer.watched import Watched
    from observant.store import StoredSource

_WITHOUT_NETWORK = frozenset({"file", "command", "callable"})


class Connections:
    """Makes sources that can be visited; a transport that was given is not closed.

    `functions` are callables by the names of their sources.
    """

    def __init__(
        self,
        config: Config,
        clock: Clock,
        *,
        transport: Transport | None,
        functions: dict[str, Callable[..., Any]],
        permission: Permission,
        audits: Audits,
    ) -> None:
        self._config, self._clock = config, clock
        self.transport, self._owns_transport = transport, transport is None
        self.browser: Browser | None = None
        """Open if a page has needed it."""
        self._seal = Seal(key_file(config.store, config.browser.key))
        self._functions, self._permission, self._audits = functions, permission, audits
        self._looked_until, self._found_browser = -math.inf, False

    def source(self, watched: Watched) -> SourceKind:
        """What visits this source. It is made for each visit, in six microseconds, and not kept: of
        a million sources that would be memory and work for the collection of garbage.
        """
        row, settings = watched.row, watched.settings
        if watched.refused is not None:
            raise InputError(watched.refused.message, source=row.name)
        rules = read_rules(msgspec.json.encode(settings.compare))
        made: Any = make_source(
            row.kind, row.name, row.url or row.name, settings, Comparer(rules), self._around(row)
        )
        if row.name in self._functions:
            made.function = self._functions[row.name]
        return made  # type: ignore[no-any-return]

    def _around(self, row: StoredSource) -> Surroundings:
        reason = self._permission.refusal(row)
        if self._owns_transport and row.kind not in _WITHOUT_NETWORK:
            self.get_transport()
        return Surroundings(
            self.transport,
            time=self._clock.time,
            audits=self._audits,
            trusted=not reason,
            reason=reason,
            browser=self._get_browser if self._has_browser() else None,
            secrets=self._config.secrets,
            seal=self._seal,
        )

    def _has_browser(self) -> bool:
        """Whether pages can be rendered; asked for every source, looked up once a minute."""
        if (now := time.monotonic()) > self._looked_until:
            self._looked_until, self._found_browser = now + 60.0, available(self._config.browser)
        return self._found_browser

    def get_transport(self) -> Transport:
        """The way to the network."""
        if self.transport is None:
            self.transport = make_transport(self._config, self._clock)
        return self.transport

    def _get_browser(self) -> Browser:
        if self.browser is None:
            if self.transport is None:
                raise RuntimeError("a browser needs a transport, and there is none")
            self.browser = Browser(self.transport, self._config.browser)
        return self.browser

    async def close(self) -> None:
        """Close what was opened here; it opens again if it is needed."""
        browser, self.browser = self.browser, None
        if browser is not None:
            await browser.close()
        if self._owns_transport and self.transport is not None:
            await self.transport.close()
            self.transport = None


def make_transport(config: Config, clock: Clock | None = None) -> Transport:
    """The way to the network that a configuration asks for."""
    from observant.observer.transport import Guard, Limits, Politeness, Transport

    return Transport(
        contact=config.contact or None,
        limits=msgspec.convert(config.limits, Limits, strict=False),
        guard=Guard(allow=config.allow),
        politeness=Politeness(floor=config.host_delay_days * DAY),
        clock=clock,
    )
