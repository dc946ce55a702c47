"""Anything a Python function can look at: a row of a database, an answer of an API."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import InputError
from observant.observer.fetched import Fetched, visit_of
from observant.observer.sources.base import Compared
from observant.observer.tasks import read

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.store.visit import Previous, Visit

_VALUE = "application/json"


class ReadSource(Compared):
    """A source that Python reads: the base of kinds of your own, which say how in `read`.

    Text may have noise in it, and that is learned. A value (a row, a record) has none: whoever
    reads it has chosen what counts. ``compare.learn_noise`` in the settings has the last word.
    """

    def read(self, previous: Previous | None) -> Any:
        """Read the source at `self.url`; `previous` is what is known of the last version.

        Returns text, bytes, a `Fetched`, or any value that JSON can hold; None means that there is
        nothing there any more. It may be asynchronous; otherwise it runs in a thread. What it
        raises is an outcome of the visit: failed, with the message.
        """
        raise NotImplementedError

    async def fetch(self, previous: Previous | None) -> Fetched:
        started = self.around.time()
        try:
            value = await asyncio.to_thread(self.read, previous)
            if inspect.isawaitable(value):
                value = await value
        except Exception as error:  # noqa: BLE001 (a source's fault is an outcome)
            return self._answer(started, error=f"{type(error).__name__}: {error}")
        return value if isinstance(value, Fetched) else self._answer(started, value)

    async def visit(self, previous: Previous | None) -> Visit:
        fetched = await self.fetch(previous)
        comparer = self.comparer
        if fetched.content_type == _VALUE and "learn_noise" not in self.settings.compare:
            from observant.observer.content import Comparer

            comparer = Comparer(msgspec.structs.replace(comparer.rules, learn_noise=False))
        found = await read(comparer, previous, fetched)
        return visit_of(self.name, fetched, found.comparison)

    def _answer(self, started: float, value: Any = None, error: str = "") -> Fetched:
        body, kind = b"", "text/plain"
        if isinstance(value, str | bytes):
            body = value if isinstance(value, bytes) else value.encode()
        elif value is not None:
            body = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str).encode()
            kind = _VALUE
        missing = value is None and not error
        return Fetched(
            url=self.url,
            status=0 if error else 404 if missing else 200,
            body=body,
            content_type=kind,
            charset="utf-8",
            error="content" if error else "http" if missing else None,
            message=error,
            started_at=started,
            ended_at=self.around.time(),
            wire_bytes=len(body),
        )


class CallableSource(ReadSource):
    """Calls ``package.module:function`` with what is known of the last version (or None)."""

    function: Callable[..., Any] | None = None
    """For programs: the function itself, instead of its name."""

    def read(self, previous: Previous | None) -> Any:
        function = self.function or self._imported()
        return function(previous)

    def _imported(self) -> Callable[..., Any]:
        if not self.around.trusted:
            raise InputError(
                "a function is called only from a configuration file that nobody else can write: "
                f"{self.around.reason or 'it is not in one'}",
                source=self.name,
            )
        module, _, name = self.url.partition(":")
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
        return found
