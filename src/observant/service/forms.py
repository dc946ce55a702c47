"""Reading what people type: budgets, durations, numbers and tags out of forms and addresses."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from litestar import Request
from litestar.di import NamedDependency

from observant.errors import InputError
from observant.service.access.identity import Access
from observant.service.collection import Collection
from observant.units import counts_cost, parse_budget, parse_duration

T = TypeVar("T", bound=float | None)


class Texts(Protocol):
    """What a form or an address holds, by name."""

    def get(self, key: str, /) -> str | None: ...


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


async def form_of(request: Request[Any, Any, Any]) -> Form:
    """The form that was sent."""
    return Form(list((await request.form()).multi_items()))


def days_in(params: Texts, key: str, default: T) -> float | T:
    """A duration in days; the default where nothing was typed."""
    text = (params.get(key) or "").strip()
    return parse_duration(text) if text else default


def budget_in(params: Texts, key: str, default: T) -> float | T:
    """Visits a day; the default where nothing was typed."""
    text = (params.get(key) or "").strip()
    if not text:
        return default
    found = parse_budget(text)
    if not 0 < found <= 1e9:
        raise InputError("a budget is more than 0 and at most a thousand million visits a day")
    return found


def cost_in(params: Texts) -> bool | None:
    """Whether the budget that was typed is one of cost; None where none was."""
    text = (params.get("budget") or "").strip()
    return counts_cost(text) if text else None


def number_in(params: Texts, key: str, default: T) -> float | T:
    """A number that is not negative."""
    text = (params.get(key) or "").strip()
    if not text:
        return default
    try:
        found = float(text)
    except ValueError:
        raise InputError(f"{key} must be a number, not {text[:40]!r}") from None
    if not 0 <= found <= 1e9:
        raise InputError(f"{key} must be from 0 to a thousand million, not {text[:40]!r}")
    return found


def whole_in(params: Texts, key: str, default: int, *, most: int = 2**53) -> int:
    """A whole number that is not negative."""
    text = (params.get(key) or "").strip()
    if not text:
        return default
    if not (text.isdecimal() and text.isascii() and len(text) <= 18 and int(text) <= most):
        raise InputError(f"{key} must be a whole number up to {most}, not {text[:40]!r}")
    return int(text)


def tags_in(text: str | None) -> list[str]:
    """Tags, separated by commas or spaces.

    >>> tags_in("news, science  news")
    ['news', 'science']
    """
    return list(dict.fromkeys((text or "").replace(",", " ").split()))


def importance_in(params: Texts) -> dict[str, float]:
    """The tag whose importance is to be multiplied, and by how much."""
    tag = (params.get("tag") or "").strip()
    factor = number_in(params, "factor", None)
    return {} if not tag or factor is None else {tag: factor}


# -------------------------------------------------------------------------------------------------
# What a handler is given because it asks for it: the collection, the accounts, the prefix, the
# form that was sent
#
# Marked as Litestar wants it (and version 3 will demand it): by name, not by guessing.


GivenCollection = NamedDependency[Collection]
GivenAccess = NamedDependency[Access]
GivenPrefix = NamedDependency[str]
GivenForm = NamedDependency[Form]
