"""Anything a Python function can look at: a row of a database, an answer of an API."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
from typing import TYPE_CHECKING, Any

from observant.errors import InputError
from observant.observer.sources.base import Compared
from observant.observer.visit import Fetched

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.observer.visit import Previous

__all__ = ["CallableSource"]


class CallableSource(Compared):
    """Calls ``package.module:function`` with what is known of the last version (or None).

    It returns text, bytes, a `Fetched`, or any value that JSON can hold; None means that there is
    nothing there any more. It may be asynchronous; otherwise it runs in a thread.
    """

    function: Callable[..., Any] | None = None
    """For programs: the function itself, instead of its name."""

    async def fetch(self, previous: Previous | None) -> Fetched:
        started = self.around.time()
        try:
            function = self.function or self._imported()
            if inspect.iscoroutinefunction(function):
                value = await function(previous)
            else:
                value = await asyncio.to_thread(function, previous)
        except Exception as error:  # noqa: BLE001 (a source's fault is an outcome)
            return self._answer(started, error=f"{type(error).__name__}: {error}")
        return value if isinstance(value, Fetched) else self._answer(started, value)

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

    def _answer(self, started: float, value: Any = None, error: str = "") -> Fetched:
        body, kind = b"", "text/plain"
        if isinstance(value, str | bytes):
            body = value if isinstance(value, bytes) else value.encode()
        elif value is not None:
            body = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str).encode()
            kind = "application/json"
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
