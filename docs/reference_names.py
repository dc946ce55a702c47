"""The Python reference: every public name, how it is called, what it promises.

Signatures and first paragraphs are taken from the code; `reference.py` writes them into
reference-api.md.
"""

import ast
import dataclasses
import importlib
import inspect
import itertools
import re
import textwrap
from functools import cache
from typing import get_origin

import msgspec

import observant

LAYERS = {
    "Words that everything shares": {
        "observant.units": "glossary.md#units",
        "observant.errors": "errors.md",
        "observant.tables": "reference-formats.md#answers",
    },
    "What did we see, and when?": {
        "observant.visits": "visit-log.md",
        "observant.formats": "reference-formats.md",
        "observant.formats.imports": "importing.md",
        "observant.formats.imports.histories": "importing-tools.md#feeds",
        "observant.formats.seeds": "importing-tools.md#for-others",
        "observant.formats.atom": "importing-tools.md#for-others",
        "observant.formats.opml": "importing-tools.md#for-others",
    },
    "How can a source change?": {
        "observant.processes": "processes.md",
        "observant.testing": "testing.md",
    },
    "How does this source change?": {
        "observant.estimation.rates": "estimating-rates.md",
        "observant.estimation.online": "estimating-rates.md",
        "observant.estimation.bayes": "estimating-rates.md",
        "observant.estimation.evidence": "intervals.md",
        "observant.estimation.accuracy": "design-visits.md",
        "observant.estimation.design": "design-visits.md",
        "observant.estimation.priors": "pooling.md",
        "observant.estimation.pooling": "pooling.md",
        "observant.estimation.classes": "pooling.md#classes",
        "observant.estimation.population": "population.md",
        "observant.estimation.intervals": "update-intervals.md",
        "observant.estimation.windows": "trends.md",
        "observant.estimation.windows.weibull_rate": "trends.md",
        "observant.estimation.season": "seasons.md",
        "observant.estimation.drift": "drift.md",
        "observant.estimation.overdue": "drift.md",
    },
    "How up to date is the copy?": {
        "observant.currency": "currency.md",
        "observant.currency.audit": "audit.md",
    },
    "How often is each source visited, and which is next?": {
        "observant.planning": "planning.md",
        "observant.planning.schedule": "scheduling.md",
        "observant.planning.policy": "policy.md",
        "observant.planning.signals": "signals.md#beside-a-visit-log-estimate-and-plan",
        "observant.formats.signals": "signals.md#replay",
        "observant.planning.phases": "seasons.md",
        "observant.planning.rivals": "rivals.md",
    },
    "What would a policy have achieved?": {
        "observant.simulation.traces": "traces.md",
        "observant.simulation": "simulation.md",
    },
    "What did the papers find?": {
        "observant.papers": "reproduction.md",
        "observant.papers.thesis": "processes.md#discrete-time-the-age-chain",
        "observant.papers.thesis.strategies": "optimisers.md",
        "observant.papers.thesis.partition": "optimisers.md",
        "observant.papers.thesis.style": "comparing.md",
    },
    "Visit the real sources, and survive a crash": {
        "observant.observer": "observer.md#from-python",
        "observant.observer.config": "configuration.md",
        "observant.observer.program": "observer.md#from-python",
        "observant.observer.loop": "observer.md#from-python",
        "observant.observer.fetched": "observer.md#one-visit",
        "observant.observer.sources": "observer.md#from-python",
        "observant.observer.sources.base": "observer.md#from-python",
        "observant.observer.sources.results": "standing-queries.md",
        "observant.observer.sources.product": "products.md",
        "observant.observer.transport": "transport.md",
        "observant.observer.content": "comparing.md",
        "observant.observer.content.diffs": "comparing.md",
        "observant.observer.content.numbers": "products.md",
        "observant.store": "store.md",
        "observant.store.sources": "store.md#lists",
        "observant.store.visits": "store.md#the-visit-log",
        "observant.store.snapshots": "store.md#snapshots",
        "observant.store.members": "standing-queries.md",
        "observant.store.outbox": "store.md#outbox",
        "observant.store.subscriptions": "notifications.md",
        "observant.store.deliveries": "notifications.md",
        "observant.store.settings": "store.md",
        "observant.store.leases": "store.md#several-observers",
        "observant.store.accounts": "store.md",
        "observant.notifications": "notifications.md",
        "observant.notifications.subscriptions": "notifications.md",
    },
    "What outgrows memory, or a machine": {
        "observant.batch": "large-logs.md",
        "observant.batch.spark": "spark.md",
        "observant.scrapy": "scrapy.md",
    },
    "Show and tell": {
        "observant.figures": "currency.md",
        "observant.service.client": "api.md#with-python",
        "observant.service.collection": "api.md#in-the-same-process",
        "observant.service.answers": "api.md",
        "observant.language": "languages.md",
    },
}
"""The modules that people import from, by the question they answer, and the page of each."""


def api():
    """Every public name: how it is called, and what it promises in its first paragraph."""
    yield from _root()
    shown = {}
    for layer, modules in LAYERS.items():
        yield f"## {layer}\n\n"
        for name, page in modules.items():
            module = importlib.import_module(name)
            yield f"### {name}\n\n{first_paragraph(module)} [Read more]({page}).\n\n"
            for word in sorted(module.__all__, key=str.lower):
                value = getattr(module, word)
                home = shown.setdefault(_identity(module, word, value), name)
                if home != name:
                    yield f"- **`{word}`**: see [{home}](#{home.replace('.', '')}).\n"
                else:
                    yield from _entry(module, word, value)
            yield "\n"


def _root():
    yield "## observant\n\n"
    for word in sorted(observant.__all__, key=str.lower):
        value = getattr(observant, word)
        home = next(offering(word, value))
        link = f"[{home}](#{home.replace('.', '')})"
        yield f"- **`{word}`**: {first_paragraph(value)} More: {link}\n"
    yield "\n"


def offering(word, value):
    """The modules above that offer a value under this name."""
    for name in (name for modules in LAYERS.values() for name in modules):
        module = importlib.import_module(name)
        if word in module.__all__ and getattr(module, word) is value:
            yield name


def _identity(module, word, value):
    """What makes two names the same thing; equal numbers are not."""
    return id(value) if callable(value) else (word, note_on(module, word))


def _entry(module, word, value):
    yield f"- **`{word}`**"
    if inspect.isclass(value):
        yield f"{_call(value)}: {first_paragraph(value)}\n"
        if columns := _columns(value):
            names = ", ".join(f"`{column}`" for column in columns)
            yield f"    - columns: {names}\n"
        parents = [base.__name__ for base in value.__bases__ if base in _public_classes()]
        if parents and parents != ["Table"]:
            yield f"    - a kind of {', '.join(f'`{parent}`' for parent in parents)}\n"
        yield from _methods(value)
    elif callable(value) and get_origin(value) is None:
        yield f"{_call(value)}: {first_paragraph(value)}\n"
    else:
        yield f": {one_line(note_on(module, word))}\n"


def _columns(value):
    """The columns of a table; any other class may call a method so."""
    found = getattr(value, "columns", ())
    return found if isinstance(found, tuple) else ()


def _methods(cls):
    """What a class can do beyond being made, and beyond what its public parents promise."""
    inherited, names = set(_fields(cls)) | ({"columns"} if _columns(cls) else set()), set()
    for base in cls.__mro__[1:]:
        if base in _public_classes() or not base.__module__.startswith("observant"):
            inherited |= set(dir(base))
    for base in cls.__mro__:
        if base.__module__.startswith("observant"):
            names |= {name for name in vars(base) if not name.startswith("_")}
    for name in sorted(names - inherited, key=str.lower):
        member = inspect.getattr_static(cls, name)
        if isinstance(member, property):
            call, text = "", first_paragraph(member.fget)
        elif inspect.isroutine(function := getattr(member, "__func__", member)):
            call, text = _call(function).strip("`"), first_paragraph(function)
        else:
            continue
        yield f"    - `.{name}{call}`" + (f": {_sentence(text)}.\n" if text else "\n")


@cache
def _public_classes():
    modules = [importlib.import_module(name) for part in LAYERS.values() for name in part]
    values = [getattr(module, word) for module in modules for word in module.__all__]
    return {value for value in values if inspect.isclass(value)}


def _fields(cls):
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    return list(getattr(cls, "__struct_fields__", ()))


def _call(value):
    """How it is called, as code: names and defaults, without types, and what comes back."""
    made_by_us = _columns(value) or getattr(value, "_is_protocol", False)
    if inspect.isclass(value) and (made_by_us or issubclass(value, BaseException)):
        return ""
    if hasattr(value, "__struct_fields__"):
        return f"`({', '.join(_struct_words(value))})`"
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    words, starred = [], False
    for parameter in signature.parameters.values():
        if parameter.name in {"self", "cls", "_cls"}:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            words.append("*")
            starred = True
        starred |= parameter.kind is parameter.VAR_POSITIONAL
        prefix = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
        default = "" if parameter.default is parameter.empty else f"={_value(parameter.default)}"
        words.append(f"{prefix.get(parameter.kind, '')}{parameter.name}{default}")
    answer = signature.return_annotation
    if inspect.isclass(value) or answer in {signature.empty, None, "None"}:
        return f"`({', '.join(words)})`"
    told = answer if isinstance(answer, str) else inspect.formatannotation(answer)
    return f"`({', '.join(words)}) -> {told}`"


def _struct_words(struct):
    """Fields and defaults of a struct; `inspect` would ask for types that are not imported."""
    fields, defaults = struct.__struct_fields__, struct.__struct_defaults__
    first = len(fields) - len(defaults)
    if not struct.__match_args__:  # only by name
        yield "*"
    for at, name in enumerate(fields):
        default = defaults[at - first] if at >= first else msgspec.NODEFAULT
        if isinstance(default, msgspec._core.Factory):  # noqa: SLF001
            default = default.factory()
        yield name if default is msgspec.NODEFAULT else f"{name}={_value(default)}"


def _value(default):
    """A default as one writes it; long ones and those without a readable form are left open."""
    text = f"{default:.4g}" if isinstance(default, float) else repr(default)
    if inspect.isroutine(default) or inspect.isclass(default):
        text = default.__name__
    return "…" if "<" in text or len(text) > 32 else text


def first_paragraph(value):
    """The first paragraph of a docstring, in one line."""
    return one_line((inspect.getdoc(value) or "").split("\n\n", maxsplit=1)[0])


def one_line(text):
    """One line of Markdown: signs that mean something to it are made harmless outside of code."""
    parts = re.split(r"(`+[^`]*`+)", " ".join(text.split()))
    return "".join(
        part if at % 2 else re.sub(r"([*<])", r"\\\1", part) for at, part in enumerate(parts)
    )


def _sentence(text):
    return re.split(r"(?<=[a-zα-ω)`\]])[.:](?= [A-Z`]|$)", text, maxsplit=1)[0].rstrip(".:")


def cell(text):
    return text.replace("|", "\\|")


# -- what stands beside a name in the code --------------------------------------------------------


def note_on(module, name):
    """The text below a constant, in this module or in the one that it was imported from."""
    for node in _tree(module.__name__).body:
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            return note_on(importlib.import_module(node.module), name)
    return _notes(_tree(module.__name__).body).get(name, "")


def notes_of(cls):
    """The text below each field, and that of each property, of a class and its parents."""
    found = {}
    for base in reversed(cls.__mro__):
        if not base.__module__.startswith("observant"):
            continue
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        found |= _notes(node.body)
        for name, member in vars(base).items():
            if isinstance(member, property) or inspect.isfunction(member):
                found |= {name: first_paragraph(member)} if member.__doc__ else {}
    return {name: " ".join(text.split()) for name, text in found.items()}


@cache
def _tree(module):
    return ast.parse(inspect.getsource(importlib.import_module(module)))


def _notes(body):
    found = {}
    for node, below in itertools.pairwise(body):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        text = below.value if isinstance(below, ast.Expr) else None
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            names = [name for target in targets if target for name in ast.walk(target)]
            found |= {name.id: text.value for name in names if isinstance(name, ast.Name)}
    return found
