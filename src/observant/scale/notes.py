"""What the parts of a log say, said once of the whole: counts in notes are added up."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["merged_notes"]

_COUNT = re.compile(r"(?<![\w.])(\d{1,3}(?:,\d{3})+|\d+)(?= [a-z])")
_PLURALS = (
    (re.compile(r"\bdate of modification\b"), "dates of modification"),
    (re.compile(r"\bsource begins\b"), "sources begin"),
    (re.compile(r"\bfailed visit was marked\b"), "failed visits were marked"),
    (re.compile(r"\bchange,"), "changes,"),
)


def merged_notes(parts: Iterable[Iterable[str]]) -> list[str]:
    """Notes of the whole from those of its parts, in the order in which they first appear.

    A note that begins to count (`set aside: 3 dates …`) is one note with the sum.

    >>> merged_notes(
    ...     [
    ...         ["set aside: 1 date of modification before 1970"],
    ...         ["set aside: 1,200 dates of modification before 1970", "else"],
    ...     ]
    ... )
    ['set aside: 1,201 dates of modification before 1970', 'else']
    """
    counts: dict[tuple[str, str], int | None] = {}
    for notes in parts:
        for note in notes:
            found = _COUNT.search(note)
            if found is None:
                counts.setdefault((note, ""), None)
                continue
            frame = _plural(note[: found.start()]), _plural(note[found.end() :])
            counts[frame] = (counts.get(frame) or 0) + int(found[0].replace(",", ""))
    return [
        before if count is None else _said(before, count, after)
        for (before, after), count in counts.items()
    ]


def _plural(text: str) -> str:
    for one, many in _PLURALS:
        text = one.sub(many, text)
    return text


def _said(before: str, count: int, after: str) -> str:
    if count == 1:
        for one, many in _PLURALS:
            after = after.replace(many, one.pattern.replace(r"\b", ""))
    return f"{before}{count:,}{after}"
