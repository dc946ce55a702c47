"""What the routes of pages have in common."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from litestar import Request

from observant.errors import InputError
from observant.service.access.rights import rule

Asked: TypeAlias = Request[Any, Any, Any]
CANNOT = (InputError, msgspec.MsgspecError)
"""What is wrong with what was entered: the page is shown again, with the reason."""


def reading(operation: str) -> dict[str, Any]:
    """A page that only shows."""
    return {"opt": rule(operation), "include_in_schema": False, "sync_to_thread": True}


def changing(operation: str) -> dict[str, Any]:
    """A form that changes something and then leads to a page."""
    return reading(operation) | {"status_code": 200}
