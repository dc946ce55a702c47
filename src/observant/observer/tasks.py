"""What worker processes do: read a visit's body, judge by a robots.txt, show a difference.

Each task is a function of one value, with the types of what it takes and gives. `read` and its like
ask for them from an event loop; what is small and takes time in proportion is done at once.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable  # noqa: TC003 (msgspec reads the annotations)
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from observant.errors import WorkerError
from observant.observer.costs import spend
from observant.observer.fetched import Fetched
from observant.store.visit import Comparison, Error, Previous  # noqa: TC001

if TYPE_CHECKING:
    from observant.observer.content import Comparer
    from observant.observer.sources.recognition import Recognised
    from observant.observer.sources.results import ResultRules
    from observant.observer.sources.sitemap import Sitemap

AT_ONCE = 16 << 10
"""A body and a text before it of so many bytes together are read at once: the worst that can be
made of them takes less than 0.1 s (benchmarks/attack.py)."""

Form = Literal["page", "feed", "sitemap", "query", "product"]


class BodyTask(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, how it is to be read, and what it is to be compared with."""

    form: Form = "page"
    rules: dict[str, Any] = {}
    """`Rules` of the source."""
    selection_version: str = ""
    query: dict[str, Any] = {}
    """`ResultRules` of a standing query."""
    now: float = 0.0
    previous: Previous | None = None
    fetched: Fetched


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """What reading found."""

    comparison: Comparison
    error: Error | None = None
    """Why there is nothing to compare, if that is not the fetch's own error."""
    message: str = ""
    members: list[dict[str, Any]] | None = None
    """The results of a standing query."""


class PackedPart(msgspec.Struct, frozen=True, array_like=True):
    """A stretch of a difference: equal, or `old` replaced by `new`."""

    equal: bool
    old: str
    new: str
    path: str = ""
    """The address, in a difference of JSON values."""


class Shown(msgspec.Struct, frozen=True, array_like=True):
    """A difference for people."""

    kind: str
    parts: list[PackedPart]
    text: str


class Task(msgspec.Struct, frozen=True):
    """A function, and the type of what it takes."""

    work: Callable[[Any], Any]
    takes: Any


def run(name: str, given: bytes | bytearray) -> bytes:
    """Do the task of this name (in a worker)."""
    task = _tasks()[name]
    return msgspec.msgpack.encode(task.work(msgspec.msgpack.decode(given, type=task.takes)))


@cache
def _tasks() -> dict[str, Task]:
    return {
        "read": Task(_read, BodyTask),
        "show": Task(lambda given: _show(*given), tuple[str, str, str]),
        "sitemap": Task(_sitemap, bytes),
        "recognise": Task(_recognise, Fetched),
        "pictures": Task(_pictures, tuple[bytes, bytes, list[tuple[int, int, int, int]], int]),
        "robots": Task(lambda given: _for_us(*given), tuple[bytes, str]),
        "verdict": Task(lambda given: _judge(*given), tuple[bytes, str, str]),
    }


# -- a visit --------------------------------------------------------------------------------------


async def read(
    comparer: Comparer,
    previous: Previous | None,
    fetched: Fetched,
    *,
    form: Form = "page",
    query: ResultRules | None = None,
    now: float = 0.0,
) -> Read:
    """Read what a visit fetched and compare it with the last version.

    A worker that is ended by its limits makes a failed visit, which says so. Large texts are handed
    over: afterwards `fetched` has no body any more, and `previous` no text.
    """
    import asyncio  # a worker has no loop, and starts a sixth sooner without it

    from observant.observer.pool import SMALL, aside, pool

    if form == "page" or not fetched.ok or fetched.not_modified:
        found = comparer.unread(previous, fetched)
        if found is not None:
            return Read(comparison=found)
    rules = comparer.rules
    length = len(fetched.body) + len((previous and previous.text) or "")
    visual = rules.change == "visual"
    plain = form == "page" and not rules.expressions and fetched.body[:5] != b"%PDF-"
    if plain and not visual and length <= AT_ONCE:
        return _compared(comparer, previous, fetched)
    body = BodyTask(
        form=form,
        rules=msgspec.to_builtins(rules),
        selection_version=comparer.selection_version,
        query={} if query is None else msgspec.to_builtins(query),
        now=now,
        previous=previous,
        fetched=msgspec.structs.replace(fetched, headers=(), shot=fetched.shot if visual else None),
    )
    # Packing megabytes takes a moment, and many may come at once: not in the event loop.
    lane = "large" if visual else ""
    submit = functools.partial(pool().submit, "read", body, Read, lane=lane)
    waiting = submit() if length <= SMALL else await aside(submit)
    del body, submit
    if length > AT_ONCE:  # nobody needs these again, and many may wait
        msgspec.structs.force_setattr(fetched, "body", b"")
        if previous is not None:
            msgspec.structs.force_setattr(previous, "text", None)
    try:
        return await asyncio.wrap_future(waiting)
    except WorkerError as error:
        return Read(comparison=comparer.failed(previous, "content", str(error)))
    finally:
        spend(getattr(waiting, "seconds", 0.0))


def _read(body: BodyTask) -> Read:
    from observant.observer.content import Comparer
    from observant.observer.content.rules import read_rules

    comparer = Comparer(read_rules(msgspec.json.encode(body.rules)))
    comparer.selection_version = body.selection_version
    fetched, members = body.fetched, None
    if body.form == "feed":
        from observant.observer.sources.feed import as_list
    elif body.form == "sitemap":
        from observant.observer.sources.sitemap import as_list
    elif body.form == "product":
        from observant.observer.sources.product import as_lines as as_list
    if body.form in {"feed", "sitemap", "product"}:
        fetched = as_list(fetched)
    elif body.form == "query":
        from observant.observer.sources.query import as_results

        fetched, members = as_results(fetched, body.query, body.now)
    found = _compared(comparer, body.previous, fetched)
    if fetched.error == body.fetched.error:
        return msgspec.structs.replace(found, members=members)
    return msgspec.structs.replace(found, error=fetched.error, message=fetched.message)


def _compared(comparer: Comparer, previous: Previous | None, fetched: Fetched) -> Read:
    found = comparer.compare(previous, fetched)
    if previous is not None and previous.text is not None and found.text is not None:
        from observant.observer.content.diffs import excerpt

        found = msgspec.structs.replace(found, excerpt=excerpt(previous.text, found.text))
    return Read(comparison=found)


# -- the rest -------------------------------------------------------------------------------------


def show(old: str, new: str, by: str = "auto") -> Shown:
    """The difference of two texts, by a worker; many at once are turned away (`BusyError`)."""
    from observant.observer.pool import pool

    if len(old) + len(new) <= AT_ONCE:
        return _show(old, new, by)
    return pool().call("show", (old, new, by), Shown, lane="asked")


def _show(old: str, new: str, by: str) -> Shown:
    from observant.observer.content.diffs import JsonDiff, diff

    found = diff(old, new, by)
    if isinstance(found, JsonDiff):
        parts = [
            PackedPart(
                False,
                "" if edit.what == "added" else _json(edit.old),
                "" if edit.what == "removed" else _json(edit.new),
                edit.address,
            )
            for edit in found.edits
        ]
    else:
        parts = [PackedPart(edit.equal, edit.old, edit.new) for edit in found.edits]
    return Shown(found.kind, parts, str(found))


def _json(value: Any) -> str:
    """Like msgspec, for numbers of any length too."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _pictures(given: tuple[bytes, bytes, list[tuple[int, int, int, int]], int]) -> Any:
    from observant.observer.content.pictures import difference_of_pictures

    return difference_of_pictures(*given)


def _sitemap(body: bytes) -> Sitemap | None:
    from observant.observer.sources.sitemap import read_sitemap

    return read_sitemap(body)


def _recognise(fetched: Fetched) -> Recognised:
    from observant.observer.sources.recognition import recognised

    return recognised(fetched)


def _for_us(body: bytes, product: str) -> str:
    from observant.observer.transport.robots import for_us

    return for_us(body, product)


def _judge(packed: bytes, product: str, url: str) -> tuple[bool, float]:
    from observant.observer.transport.robots import judge

    return judge(packed, product, url)
