"""Settings that are accepted are survived: random combinations, by every way in, and then a start.

A combination is drawn from what people and programs write: ordinary values, limits of what is
allowed, zeros, negative and extreme numbers. It goes into a configuration file, or through the
page, the API and the command line (which share `keep`), or with a source, or straight into the
store, as a backup or an older version may hold it. What one of them accepts is run: observer,
schedule, transport, upkeep of the store, deliveries, and every answer that the dashboard asks for.
A combination that was accepted and ends in an error is a crash.

    python -m benchmarks.settings --number 400
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from observant.errors import InputError
from observant.notifications import notifying
from observant.observer.clock import AcceleratedClock
from observant.observer.config import Config, load_config
from observant.observer.connections import make_transport
from observant.observer.loop import Observer
from observant.observer.program import describe
from observant.observer.settings import KEPT, SettingsChanges, keep
from observant.service.collection import Collection
from observant.service.collection.entries import NewSource
from observant.store import open_store

__all__ = ["Survival", "as_toml", "combination", "survive"]

# What can be used, its very bounds included, and what cannot.
_DURATIONS = (
    ["0s", "1s", "1min", "6h", "1d", "30d", "365d", "1000y", 0, 0.0, 0.5, "1us", "1e-300d"],
    ["1e9y", "1e300d", -1, 1e308, "-6h", "soon", ""],
)
_BUDGETS = (
    ["1000/day", "2/s", "1/365d", "1/1000y", "1000000/s", 5, "5000000/day", "1e-5/day"],
    ["1e9/s", "1e300/day", "1e-300/day", "1e-9/day", 0, -1, 1e308, "1/source/day", "no"],
)
_COUNTS = ([1, 2, 50, 10**5, 0, 2**31 - 1], [-1, 10**6, 2**31, 2**62, 2**63, 2**64, 10**30, 1.5])
_SHARES = ([0, 0.01, 0.5, 0.999, 1e-300], [1, -0.1, 7])
_OBJECTIVES = (
    ["freshness", "currency", "currency", "age", "delay", "harmonic", "detected"],
    ["coverage", ""],
)
_WILD = 0.04


def combination(rng: random.Random) -> dict[str, Any]:
    """What somebody might set, at random: whole documents of the configuration file's form."""

    def some(share: float, /, **choices: tuple[list[Any], list[Any]]) -> dict[str, Any]:
        chosen = {name: pair for name, pair in choices.items() if rng.random() < share}
        return {name: rng.choice(pair[rng.random() < _WILD]) for name, pair in chosen.items()}

    found = some(
        0.2,
        budget=_BUDGETS, objective=_OBJECTIVES, grace=_DURATIONS, host_delay=_DURATIONS,
        lease=(["1s", "1min", "365d"], ["0s", "1us", "1000y"]), downloaders=_COUNTS,
        contact=(["", "mailto:me@example.org", "é"], ["a\nb"]),
        allow=([[], ["10.0.0.0/8"], ["::1"]], [["nowhere"]]),
    )  # fmt: skip
    source = some(
        0.2,
        importance=([0, 1, 3, 1e-300, 1e9], [1e300, -1, 1e10]),
        min_period=_DURATIONS, max_period=_DURATIONS, confirm_after=_DURATIONS,
        active=([[], ["mon-fri 08:00-18:00"], ["00:00-00:00"], ["24:00-24:00"]], [["25:00-26:00"]]),
        timezone=(["UTC", "Europe/Berlin"], ["Nowhere/Else", "../../etc/passwd"]),
        headers=([{}, {"X-Key": "1"}, {"X-Key": "é"}],
                 [{"a b": "c"}, {"Host": "x"}, {"X": "a\nb"}]),
        limits=([{}, {"total": 5}, {"connect": 1e-9}, {"body": 2**31 - 1}],
                [{"total": 0}, {"body": 2**70}, {"total": 1e300}, {"retries": -1}]),
        compare=([{}, {"css": "main"}, {"confirm": 3}], [{"css": "::"}, {"threshold": 2}]),
    )  # fmt: skip
    tables = {
        "retention": some(0.4, max_age=_DURATIONS, max_versions=_COUNTS, max_bytes=_COUNTS),
        "limits": some(
            0.2, total=([5, 1e-9, 86_400], [0, 1e300]), body=_COUNTS, redirects=_COUNTS,
            retries=_COUNTS, slow_bytes=_COUNTS, header_count=_COUNTS, url=_COUNTS,
        ),
        "notify": some(
            0.2, failing_after=_COUNTS, vanished_after=_DURATIONS, overdue=_SHARES,
            retry=_DURATIONS, longest_retry=_DURATIONS, attempts=_COUNTS, give_up=_DURATIONS,
            keep=_DURATIONS, lateness=_DURATIONS, currency=_SHARES,
        ),
    }  # fmt: skip
    found |= {name: table for name, table in tables.items() if table and rng.random() < 0.5}
    where = rng.choice(["defaults", "tags", "own"])
    return found | {where: {"news": source} if where == "tags" else source}


@dataclass
class Survival:
    """How often combinations were accepted, by which way, and what was not survived."""

    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    crashes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{'way in':<10} {'accepted':>9} {'refused':>9}"]
        lines += [
            f"{way:<10} {self.accepted[way]:>9} {self.refused[way]:>9}"
            for way in sorted(self.accepted | self.refused)
        ]
        return "\n".join([*lines, f"crashes: {len(self.crashes)}", *self.crashes[:10]])


def survive(number: int, seed: int, folder: Path) -> Survival:
    """Draw combinations; what is accepted has to run."""
    told, rng = Survival(), random.Random(seed)  # noqa: S311 (not for secrets)
    for case in range(number):
        drawn = combination(rng)
        place = folder / f"{case}.db"
        for way in ("file", "changes", "stored"):
            with open_store(place.with_suffix(f".{way}.db"), durable=False) as store:
                try:
                    config = _accepted(way, store, drawn, folder)
                except InputError:
                    told.refused[way] += 1
                    continue
                told.accepted[way] += 1
                try:
                    asyncio.run(_start(store, config))
                except Exception as error:  # noqa: BLE001 (whatever it is, it is a crash)
                    told.crashes.append(
                        f"{way} {json.dumps(drawn)}: {type(error).__name__}: {error}"
                    )
    return told


def _accepted(way: str, store: Any, drawn: dict[str, Any], folder: Path) -> Config:
    """The configuration that a way in accepts; an `InputError` if it does not."""
    own = drawn.get("own", {})
    given = {name: value for name, value in drawn.items() if name != "own"}
    page = folder / "page.txt"
    page.write_text("a page")
    given["files"] = [str(folder)]
    entries = [{"url": str(page), "kind": "file", "settings": own, "tags": ["news"]}]
    if way == "file":
        file = folder / "observant.toml"
        file.write_text(as_toml(given | {"sources": entries}))
        config = load_config(str(file), environment={})
    elif way == "stored":  # past all checks, as a backup or an older version may hold it
        config = load_config(None, {"files": [str(folder)]}, environment={})
        names = SettingsChanges.__struct_fields__
        store.settings.set(KEPT, {n: given[n] for n in names if n in given} or None)
        store.sources.add([describe(str(page), kind="file", settings=own, tags=["news"])])
        return config
    else:
        config = load_config(None, {"sources": entries, "files": [str(folder)]}, environment={})
        names = SettingsChanges.__struct_fields__
        try:
            changes = msgspec.convert({n: given[n] for n in names if n in given}, SettingsChanges)
        except msgspec.ValidationError as error:  # the API and the page answer 400
            raise InputError(str(error)) from error
        keep(store, config, changes)
    collection = Collection(store, config)
    try:
        collection.sources.add(
            NewSource(url=str(page), kind="file", settings=own, tags=("news",)), trusted=True
        )
        store.sources.add([describe("http://127.0.0.1:8080/", tags=["news"])])
    finally:
        collection.cache.close()
    return config


async def _start(store: Any, config: Config) -> None:
    clock = AcceleratedClock(speed=10_000.0)
    observer = Observer(store, config, clock=clock)
    async with notifying(store, config, observer=observer, clock=clock) as deliverer:
        await observer.run(visits=2, seconds=300.0)
        observer.status()
    await make_transport(config).close()
    store.outbox.prune(before=clock.time() - deliverer.config.notify.seconds("keep"))
    if limits := config.retention.limits():
        store.snapshots.retain(**limits)
    collection = Collection(store, config)
    try:
        await asyncio.to_thread(collection.settings.get)
        await asyncio.to_thread(collection.overview)
        await asyncio.to_thread(collection.health)
    finally:
        collection.cache.close()


def as_toml(values: dict[str, Any]) -> str:
    """The document as TOML, whose inline tables are nearly JSON."""
    return "".join(f"{name} = {_inline(value)}\n" for name, value in values.items())


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_inline(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_inline(one) for one in value) + "]"
    return json.dumps(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(survive(given.number, given.seed, Path(folder)))


if __name__ == "__main__":
    main()
