"""The parts of the reference pages that the code itself can tell.

    python docs/reference.py

writes them anew, between the lines `<!-- made: NAME -->` and `<!-- end of made -->` of the pages
here; the rest of these pages is written by hand. tests/test_reference.py sees to it that they are
up to date, and that nothing public is missing.
"""

import dataclasses
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from typing import get_args

import msgspec
from reference_names import LAYERS, api, cell, first_paragraph, notes_of, offering, one_line

import observant
from observant.formats.imports import importers
from observant.formats.imports.base import visit_schema
from observant.names import TOPICS
from observant.observer.config import Config, Notify
from observant.observer.metrics import Metrics, Status, Tally
from observant.observer.transport import Limits
from observant.service.access import Access
from observant.service.access.rights import RULES
from observant.service.api.metrics import _Numbers
from observant.service.app import create_app
from observant.service.collection import Collection
from observant.store import STATES, open_store
from observant.store.visit import OUTCOMES, Error
from observant.tables import Table
from observant.visits.log import COLUMNS

HERE = Path(__file__).resolve().parent
MADE = re.compile(r"(<!-- made: (\w+) -->\n)(.*?)(<!-- end of made -->)", re.DOTALL)

# -- metrics --------------------------------------------------------------------------------------


def metrics():
    """Every metric of an observer and of a service, as they declare them."""
    for title, families in (("observer", observer_metrics()), ("store", store_metrics())):
        yield f"### Of the {title}\n\n| metric | kind | labels | meaning |\n|---|---|---|---|\n"
        for family in families:
            ending = "_total" if family.type == "counter" else ""
            labels = ", ".join(f"`{label}`" for label in family._labelnames)  # noqa: SLF001
            yield f"| `{family.name}{ending}` | {family.type} | {labels} "
            yield f"| {cell(family.documentation)} |\n"
        yield "\n"


def observer_metrics():
    """The families of an observer that has just begun."""

    begun = Status(**{field.name: 0 for field in dataclasses.fields(Status)})
    collector = Metrics.__new__(Metrics)  # its door would open a port or a file
    collector._status, collector._tally = (lambda: begun), Tally()  # noqa: SLF001
    return list(collector.collect())


def store_metrics():
    """The families that a service adds, of an empty store."""

    with open_store(":memory:") as store:
        collection = Collection(store, Config())
        try:
            return list(_Numbers(collection).collect())
        finally:
            collection.cache.close()


def labels():
    """What a label can say."""

    yield "| label | values |\n|---|---|\n"
    for label, values in (("outcome", OUTCOMES), ("error", get_args(Error)), ("state", STATES)):
        yield f"| `{label}` | {', '.join(f'`{value}`' for value in values)} |\n"


# -- tables and files -----------------------------------------------------------------------------

COMMON = {
    "kind": "Kind of the signals.",
    "sources": "How many sources there are.",
    "signals": "How many signals there were.",
    "recall": "Share of the changes that are announced.",
    "precision": "Share of the announced sources that had changed.",
    "false_per_day": "False signals of one source a day.",
    "false_low": "Lower end of the interval of `false_per_day`.",
    "false_high": "Upper end of the interval of `false_per_day`.",
    "delay": "Mean days from a change to its signal.",
    "announced": "How many of the changes were announced.",
    "verdict": "`unproven`, `believed`, or `lies`.",
    "source": "Id of the source.",
    "visits": "Visits that count.",
    "changes": "Visits that found a change.",
    "rate_per_day": "Updates per day.",
    "rate_low": "Lower end of the interval of the rate.",
    "rate_high": "Upper end of the interval of the rate.",
    "low": "Lower end of the interval.",
    "high": "Upper end of the interval.",
    "group": "The group of the source.",
    "method": "The estimator that was used.",
    "evidence": "What the visits can say: `ok`, `never-changed`, `always-changed`, `too-few`.",
    "start": "When it begins.",
    "end": "When it ends.",
    "time": "When.",
    "importance": "Weight of the source.",
}
"""Columns that mean the same in every table."""


def tables():
    """Every kind of answer with columns, by the module that it comes from."""
    for cls in answer_tables():
        notes = notes_of(cls)
        yield f"### {cls.__name__}\n\n`{_module_shown(cls)}`: {first_paragraph(cls)}\n\n"
        if not cls.columns:  # they depend on what was asked
            yield f"{first_paragraph(cls.to_arrow)}\n\n"
            continue
        yield "| column | meaning |\n|---|---|\n"
        for column in cls.columns:
            meaning = notes.get(column) or COMMON.get(column) or _end_of_interval(column)
            yield f"| `{column}` | {cell(one_line(meaning))} |\n"
        yield "\n"


def _end_of_interval(column):
    stem, _, end = column.rpartition("_")
    which = {"low": "Lower", "high": "Upper"}.get(end)
    return f"{which} end of the interval of `{stem}`." if which else ""


def answer_tables():
    """All kinds of `Table`, in the order of the layers."""

    found = set()
    for name in modules():
        module = importlib.import_module(name)
        found |= {v for v in vars(module).values() if inspect.isclass(v) and issubclass(v, Table)}
    order = [module for part in LAYERS.values() for module in part]

    def place(cls):
        shown = _module_shown(cls)
        return (order.index(shown) if shown in order else len(order), cls.__name__)

    return sorted(found - {Table}, key=place)


def modules():
    """The modules of the layers that answer with tables; the others are slow to import."""

    prefixes = tuple(
        f"observant.{part}"
        for part in ("estimation", "audit", "planning", "simulation", "observer.comparing")
    )
    for found in pkgutil.walk_packages(observant.__path__, "observant."):
        if found.name.startswith(prefixes) and not found.name.endswith(".kernels"):
            yield found.name


def _module_shown(cls):
    """The first of the public modules that offers a class, or the one that it lives in."""
    return next(offering(cls.__name__, cls), cls.__module__)


def visits():
    """The columns of the visit log, with the types that they have in files and in Arrow."""

    meanings = {
        "source": "stable id of what was visited; the canonical URL of a web page",
        "time": "start of the visit, UTC",
        "changed": "did the visit find the source different from the last successful one? "
        "null where it cannot be known, as on a first visit",
        "last_modified": "when the source says it was last modified",
        "digest": "of the content; two of them tell whether it changed",
        "magnitude": "how much changed, 0 to 1",
        "status": "outcome, such as an HTTP status; a failed visit observes nothing",
        "bytes": "what the visit cost",
    }
    yield "| column | type in Arrow and Parquet | needed | meaning |\n|---|---|---|---|\n"
    for name in COLUMNS:
        needed = "yes" if name in {"source", "time"} else ""
        yield f"| `{name}` | `{visit_schema().field(name).type}` | {needed} | {meanings[name]} |\n"


def imports():
    """Every format of other tools, what it is worth, and what must be assumed of it."""

    yield "| `--format` | what it is | evidence | endings | must be accepted |\n"
    yield "|---|---|---|---|---|\n"
    for importer in importers().values():
        endings = ", ".join(f"`{ending}`" for ending in importer.endings)
        accepted = f"`{importer.assumption}`" if importer.assumption else ""
        yield f"| `{importer.name}` | {cell(importer.title)} | {importer.evidence} "
        yield f"| {endings} | {accepted} |\n"


def topics():
    """What an event can be about."""
    yield "| topic | sent when |\n|---|---|\n"
    for topic, text in TOPICS.items():
        yield f"| `{topic}` | {text} |\n"


# -- routes ---------------------------------------------------------------------------------------


def routes():
    """Every operation of the API, as the document of the service has it."""
    with open_store(":memory:") as store:
        collection = Collection(store, Config())
        try:
            paths = create_app(collection, access=Access(store)).openapi_schema.to_schema()["paths"]
        finally:
            collection.cache.close()
    topics = {}
    for path, methods in paths.items():
        for method, found in methods.items():
            if "operationId" in found:
                row = f"| `{method.upper()} {path}` | {RULES.get(found['operationId'], 'read')} "
                told = (found.get("description") or "").split("\n\n", maxsplit=1)[0]
                row += f"| {cell(one_line(told))} |\n"
                topics.setdefault((found.get("tags") or ["more"])[0], []).append(row)
    for topic, rows in topics.items():
        yield f"\n### {topic.capitalize()}\n\n| route | scope | what it does |\n|---|---|---|\n"
        yield from rows


# -- settings -------------------------------------------------------------------------------------


def limits():
    """What one visit may cost."""
    yield from _settings(Limits, "limit")


def notify():
    """How people are notified, and of what."""
    yield from _settings(Notify, "setting")


def _settings(struct, word):
    notes = notes_of(struct)
    yield f"| {word} | default | meaning |\n|---|---|---|\n"
    for field in msgspec.structs.fields(struct):
        default = f"`{msgspec.json.encode(field.default).decode()}`"
        yield f"| `{field.name}` | {default} | {cell(notes.get(field.name, ''))} |\n"


# -- writing --------------------------------------------------------------------------------------

PARTS = {
    part.__name__: part
    for part in (api, metrics, labels, tables, visits, imports, topics, routes, limits, notify)
}


def renewed(page):
    """The text of a page with the parts that are made by the code made anew."""
    return MADE.sub(
        lambda part: f"{part[1]}\n{''.join(PARTS[part[2]]()).rstrip()}\n\n{part[4]}",
        page.read_text("utf-8"),
    )


def pages():
    """The pages that have such parts."""
    return [page for page in sorted(HERE.glob("*.md")) if MADE.search(page.read_text("utf-8"))]


if __name__ == "__main__":
    for page in pages():
        text = renewed(page)
        if text != page.read_text("utf-8"):
            page.write_text(text, "utf-8")
            print(f"{page.name} was written anew")  # noqa: T201
