"""What all answers have in common."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any, overload

import msgspec

__all__ = ["Answer", "finite", "instant", "plain"]


@overload
def instant(at: float) -> dt.datetime: ...
@overload
def instant(at: None) -> None: ...
@overload
def instant(at: float | None) -> dt.datetime | None: ...
def instant(at: float | None) -> dt.datetime | None:
    """An instant for an answer.

    >>> instant(0.0).isoformat()
    '1970-01-01T00:00:00+00:00'
    """
    return None if at is None or not math.isfinite(at) else dt.datetime.fromtimestamp(at, dt.UTC)


def finite(value: float | None) -> float | None:
    """A number, or None where there is none."""
    return None if value is None or not math.isfinite(value) else float(value)


def plain(value: Any) -> Any:
    """Arrays and numbers of NumPy as JSON knows them; what is no number becomes None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return finite(value) if isinstance(value, float) else value


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen value with named fields."""
