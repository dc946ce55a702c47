"""What counts as a change, and what as an appearance or a disappearance."""

__all__ = ["describe_change", "error_page", "judge"]

import re
from typing import Any, Literal

from observant.observer.content.document import Document
from observant.observer.content.record import STRUCTURE
from observant.observer.content.rules import Rules
from observant.observer.content.terms import Difference

GONE_STATUSES = frozenset({404, 410})
WHOLESALE = 0.7
"""Brewington's figure 3.14: appearances and disappearances lie at a magnitude near 1."""

_NOT_FOUND = re.compile(
    r"\b(404|410|(page|file|document|site|content|resource)?\s*(was |could )?not (be )?found"
    r"|(page|content) (does not|doesn.t|no longer) exists?|no longer available|nicht gefunden"
    r"|introuvable|no encontrad[ao]|non trovat[ao]|niet gevonden|não encontrad[ao])\b",
    re.IGNORECASE,
)
_TROUBLE = re.compile(
    r"\b(50[0234]|(internal )?server error|service unavailable|bad gateway|gateway time-?out"
    r"|temporarily unavailable|down for maintenance|under maintenance|access denied|forbidden"
    r"|too many requests|error establishing a database connection|attention required"
    r"|just a moment|are you (a )?(human|robot)|captcha)\b",
    re.IGNORECASE,
)


def judge(
    rules: Rules,
    bytes_differ: bool,
    text_differs: bool,
    attributes: tuple[str, ...],
    difference: Difference,
) -> bool:
    """Whether what differs is a change, by this source's definition.

    >>> small = Difference(angle=0.01, distance=1.4, magnitude=0.05)
    >>> judge(Rules(change="magnitude", threshold=0.1), True, True, (), small)
    False
    """
    if rules.change == "bytes":
        return bytes_differ
    if rules.change == "structure":
        return bool(set(attributes) & set(rules.attributes or STRUCTURE))
    if rules.change in {"magnitude", "query"}:
        return text_differs and difference.magnitude > 0 and difference.magnitude >= rules.threshold
    return text_differs


def describe_change(
    rules: Rules,
    difference: Difference,
    attributes: tuple[str, ...],
    old: dict[str, Any],
    new: dict[str, Any],
) -> str:
    """One sentence for people: why this counted."""
    if rules.change == "structure":
        names = [name for name in attributes if name in (rules.attributes or STRUCTURE)]
        parts = [
            f"{name} {old.get(name)} → {new.get(name)}" if name.startswith("num_") else name
            for name in names
        ]
        return f"the structure changed: {', '.join(parts)}"
    if rules.change == "bytes":
        return "the bytes changed"
    share = _percent(difference.magnitude)
    if rules.change in {"magnitude", "query"}:
        return f"the text changed by {share}, at least {_percent(rules.threshold)} counts"
    return f"the text changed by {share}"


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


def error_page(
    document: Document, old_record: dict[str, Any], difference: Difference, smaller: bool
) -> Literal["not-found", "trouble"] | None:
    """Whether a page with a good status is really an error page.

    Modest on purpose. All of these must hold: the title or first heading says so, the last good
    version's title did not, nearly everything changed, and the new text is less than half the old.

    >>> page = Document("html", title="404 Not Found")
    >>> error_page(page, {"title": "News"}, Difference(1.0, 30.0, 1.0), smaller=True)
    'not-found'
    >>> error_page(page, {"title": "What 404 means"}, Difference(1.0, 30.0, 1.0), smaller=True)
    """
    if difference.magnitude < WHOLESALE or not smaller:
        return None
    said = f"{document.title}\n{document.heading}"[:300]
    before = str(old_record.get("title", ""))
    if _NOT_FOUND.search(said) and not _NOT_FOUND.search(before):
        return "not-found"
    if _TROUBLE.search(said) and not _TROUBLE.search(before):
        return "trouble"
    return None
