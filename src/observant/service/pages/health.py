# ruff: noqa: TC001 (Litestar looks at the types of a handler)
"""Is everything all right? Observers, leases, the store, versions. (/health is for machines.)"""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any

from litestar import Response, get

from observant.service.given import GivenCollection
from observant.service.pages.render import page
from observant.service.pages.routes import Asked, reading
from observant.times import utc

_PARTS = ("observant", "numpy", "scipy", "pyarrow", "numba", "litestar", "altair")


@get("/status", **reading("status"))
def health(request: Asked, collection: GivenCollection) -> Response[str]:
    """What runs, and what is wrong."""
    store = collection.store
    findings = collection.cache.get(
        "doctor",
        lambda: store.doctor(now=collection.now()),
        max_age=6 * 3600.0,
        wait=0.15,
        heavy=True,
    )
    now = collection.now()
    leases: dict[str, int] = {}
    for lease in store.leases.list():
        if lease.expires_at > now and lease.observer:
            leases[lease.observer] = leases.get(lease.observer, 0) + 1
    status = collection.observer.status() if collection.observer is not None else None
    return page(
        request,
        "health.html",
        view=collection.health(),
        findings=findings,
        observers=collection.activity.observers(),
        leases=leases,
        running=status,
        totals=collection.totals(),
        notes=[
            (utc(note.at), note.observer, note.action, _in_words(note.detail))
            for note in store.journal.list(limit=20)
        ],
        versions={"Python": platform.python_version()} | {name: version(name) for name in _PARTS},
    )


def _in_words(detail: Any) -> str:
    """What an observer noted; of long lists only how many there are."""
    if not isinstance(detail, dict):
        return "" if detail is None else str(detail)
    shown = {k: len(v) if isinstance(v, list | dict) else v for k, v in detail.items() if v != []}
    return ", ".join(f"{key} {value}" for key, value in shown.items())
