"""`observant` alone: what to do first, or next.

It answers at once, so it looks into the store by SQLite itself and loads nothing else.
"""

from __future__ import annotations

import os
import sqlite3
import time
import tomllib
from contextlib import closing
from pathlib import Path

from observant.names import usual_config, usual_store
from observant.times import DAY, seconds
from observant.units import counted, format_duration

_FIRST = {
    "observant demo": "see what planning is worth",
    "observant add https://example.org/": "watch a page ...",
    "observant serve": "... and all others, in your browser",
    "observant estimate visits.csv": "how often does each source change?",
    "observant import --list": "visits that other tools have kept",
}


def what_next(store: str | None = None, config: str | None = None) -> str:
    """What stands in this folder, and the commands that come next."""
    store = store or _store(config)
    if "://" in store:
        from observant.cli.store_options import place

        return _told(f"The store is {place(store)}.", _next(1, 0, 1))
    if not Path(store).exists():
        return _told(f"There is no store here yet ({store}). First steps:", _FIRST)
    try:
        sources, failing, visits, visited_at = _look(store)
    except sqlite3.Error as error:
        doctor = {f"observant store doctor --store {store}": "what is wrong with it?"}
        return _told(f"{store} cannot be read as a store ({error}).", doctor)
    trouble = f", {failing:,} failing" if failing else ""
    seen = "no visit yet"
    if visited_at is not None:
        days = (time.time() - seconds(visited_at)) / DAY
        seen = f"{counted(visits, 'visit')}, the last {format_duration(max(days, 0))} ago"
    return _told(
        f"{store}: {counted(sources, 'source')}{trouble}; {seen}.", _next(sources, failing, visits)
    )


def _next(sources: int, failing: int, visits: int) -> dict[str, str]:
    if not sources:
        return {
            "observant add https://example.org/": "watch a page",
            "observant add --file addresses.txt": "watch a list of them",
        }
    steps = {
        "observant serve": "watch them, and see them in your browser",
        "observant list": "how often each changes, when it is due",
    }
    if failing:
        steps["observant list --sort failed_in_row --descending"] = "which ones fail?"
    if visits:
        steps["observant store export visits.parquet"] = "the visit log, for all other commands"
    return steps


def _told(standing: str, steps: dict[str, str]) -> str:
    steps = steps | {"observant --help": "all commands"}
    from observant.cli.store_options import program

    called = program()
    steps = {step.replace("observant", called, 1): why for step, why in steps.items()}
    width = max(map(len, steps))
    return "\n".join([standing, *(f"  {step:<{width}}  {why}" for step, why in steps.items())])


def _store(config: str | None) -> str:
    """Where the store is, by the environment, the configuration here, or what is built in."""
    file = config or os.environ.get("OBSERVANT_CONFIG") or usual_config(os.environ)
    try:
        configured = tomllib.loads(Path(file).read_text("utf-8")).get("store")
    except (OSError, ValueError, RecursionError):  # other commands complain of it
        configured = None
    return os.environ.get("OBSERVANT_STORE") or str(configured or usual_store(os.environ))


def _look(store: str) -> tuple[int, int, int, int | None]:
    """Sources, how many of them fail, visits to them, and when the last one was."""
    with closing(sqlite3.connect(f"{Path(store).resolve().as_uri()}?mode=ro", uri=True)) as file:
        found: tuple[int, int, int, int | None] = file.execute(
            "SELECT count(*), coalesce(sum(failed_in_row > 0), 0), coalesce(sum(visits), 0), "
            "max(visited_at) FROM sources WHERE state <> 'removed'"
        ).fetchone()
    return found
