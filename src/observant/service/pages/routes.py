"""What the routes of pages have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from litestar import Request

__all__ = ["Form", "changing", "form_of", "reading"]


def reading(needs: str = "read") -> dict[str, Any]:
    """A page that only shows."""
    return {"opt": {"needs": needs}, "include_in_schema": False, "sync_to_thread": True}


def changing(needs: str = "write") -> dict[str, Any]:
    """A form that changes something and then leads to a page."""
    return {"opt": {"needs": needs}, "include_in_schema": False, "status_code": 200}


class Form:
    """What a form sent: texts by name, white space at the ends taken off.

    >>> form = Form([("tag", " a "), ("id", "1"), ("id", "2")])
    >>> form["tag"], form.all("id"), form["missing"]
    ('a', ['1', '2'], '')
    """

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self._pairs = [(key, v.strip()) for key, v in pairs if isinstance(v, str)]
        self.files = {key: v for key, v in pairs if not isinstance(v, str)}

    def __getitem__(self, key: str) -> str:
        return next((value for name, value in self._pairs if name == key), "")

    def get(self, key: str, default: str = "") -> str:
        return self[key] or default

    def all(self, key: str) -> list[str]:
        return [value for name, value in self._pairs if name == key]

    def starting(self, start: str) -> dict[str, str]:
        """Fields whose name begins so, without that beginning."""
        return {n.removeprefix(start): v for n, v in self._pairs if n.startswith(start)}


async def form_of(request: Request[Any, Any, Any]) -> Form:
    """The form that was sent."""
    return Form(list((await request.form()).multi_items()))
