"""What all answers have in common."""

from __future__ import annotations

import functools
import math
from typing import Any, Self

import msgspec

from observant.times import utc

__all__ = ["Answer", "finite", "plain"]


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

    @classmethod
    def of(cls, stored: Any, **own: Any) -> Self:
        """A stored value as it is shown: fields of the same name, instants as dates, bytes in
        hexadecimal; `own` are those that the store does not have so.
        """
        dated = _dated(cls)
        for name in cls.__struct_fields__:
            if name not in own and hasattr(stored, name):
                value = getattr(stored, name)
                own[name] = utc(value) if name in dated else _shown(value)
        return cls(**own)


def _shown(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return list(value)
    return finite(value) if isinstance(value, float) else value


@functools.cache
def _dated(kind: type[Answer]) -> frozenset[str]:
    """Fields that are instants."""
    fields = msgspec.structs.fields(kind)
    return frozenset(field.name for field in fields if "datetime" in str(field.type))
