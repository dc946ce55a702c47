"""What every part of the store has: the engine and the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from observant.store.engine import Engine, Session

__all__ = ["Part", "chunks"]

T = TypeVar("T")

CHUNK = 1000
"""Rows that are asked for at a time."""


class Part:
    """One concern of the store; `SqlStore` puts them together."""

    def __init__(self, engine: Engine, clock: Callable[[], float] | None = None) -> None:
        self._engine = engine
        self._clock = clock

    def _now(self, now: float | None, session: Session | None = None) -> float:
        if now is not None:
            return float(now)
        if self._clock is not None:
            return self._clock()
        return self._engine.read(lambda own: own.now()) if session is None else session.now()


def chunks(values: Iterable[T], size: int = CHUNK) -> Iterator[Sequence[T]]:
    """The values in lists of at most so many, each value once."""
    unique = list(dict.fromkeys(values))
    for start in range(0, len(unique), size):
        yield unique[start : start + size]
