"""The reference and trust pages: made by the code where they can be, complete, and true."""

import ast
import importlib
import inspect
import re
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS, TESTS = ROOT / "docs", ROOT / "tests"


@pytest.fixture(scope="module")
def reference():
    """docs/reference.py, as `python docs/reference.py` would load it."""
    sys.path.insert(0, str(DOCS))
    try:
        yield importlib.import_module("reference")
    finally:
        sys.path.remove(str(DOCS))


@pytest.fixture(scope="module")
def names(reference):
    return sys.modules[reference.api.__module__]


def page(name):
    return (DOCS / name).read_text("utf-8")


def as_code(name, text):
    """Whether a name stands in a page as code: in backticks, or as a key of an example."""
    word = rf"(?<![\w-]){re.escape(name)}(?![\w-])"
    return re.search(rf"`[^`\n]*{word}[^`\n]*`|^\s*{word} = ", text, re.MULTILINE) is not None


# -- made by the code -----------------------------------------------------------------------------


def test_every_operation_of_the_api_says_what_it_does(reference):
    rows = [row for part in reference.routes() for row in part.splitlines() if "`" in row]
    assert len(rows) > 60
    assert [row for row in rows if not re.search(r"\w`?[.:?] \|$", row)] == []


def test_every_chart_is_named():
    from observant.service.charts import CHARTS

    assert [name for name in CHARTS if not as_code(name, page("dashboard.md"))] == []


@pytest.mark.slow
def test_what_the_code_makes_is_up_to_date(reference):
    stale = [page.name for page in reference.pages() if reference.renewed(page) != page.read_text()]
    assert stale == [], "run `python docs/reference.py`"
    used = {
        part[2] for page in reference.pages() for part in reference.MADE.finditer(page.read_text())
    }
    assert used == set(reference.PARTS)


def public_names(names):
    for module in (name for part in names.LAYERS.values() for name in part):
        loaded = importlib.import_module(module)
        for word in loaded.__all__:
            yield module, word, getattr(loaded, word)


def test_every_public_name_is_there_and_says_what_it_is(names):
    import observant

    text = page("reference-api.md")
    for module, word, _ in public_names(names):
        section = text.partition(f"\n### {module}\n")[2].partition("\n### ")[0]
        assert re.search(rf"^- \*\*`{word}`\*\*(`.*`)?: \S", section, re.MULTILINE), (module, word)
    for word in observant.__all__:
        assert re.search(rf"^- \*\*`{word}`\*\*: \S", text, re.MULTILINE), word


def test_what_pages_import_is_in_the_reference(names):
    """Whatever a page tells people to import is public, and explained.

    The page on the architecture is for those who work inside.
    """
    offered = {(module, word) for module, word, _ in public_names(names)}
    shown = {id(value) for _, _, value in public_names(names) if callable(value)}
    missing = set()
    for file in {*DOCS.glob("*.md"), ROOT / "README.md"} - {DOCS / "architecture.md"}:
        code = re.sub(r"^(>>>|\.\.\.) ?", "", file.read_text("utf-8"), flags=re.MULTILINE)
        for module, several, one in re.findall(
            r"^from (observant[\w.]*) import (?:\(([^)]*)\)|([^\n#]*))", code, re.MULTILINE
        ):
            for word in re.findall(r"(\w+)(?: as \w+)?", several or one):
                value = getattr(importlib.import_module(module), word, None)
                known = inspect.ismodule(value) or id(value) in shown or (module, word) in offered
                if value is not None and not known:
                    missing.add((file.name, module, word))
    assert missing == set()


@pytest.mark.slow
def test_every_column_has_a_meaning(reference):
    text = "".join(reference.tables())
    assert len(reference.answer_tables()) > 25
    assert [line for line in text.splitlines() if line.endswith("|  |")] == []


def test_a_stale_or_incomplete_page_would_be_seen(reference, names, tmp_path):
    """The tests above can fail."""
    stale = tmp_path / "page.md"
    stale.write_text("<!-- made: labels -->\nold\n<!-- end of made -->\n")
    assert "`outcome`" in reference.renewed(stale)
    assert "old" not in reference.renewed(stale)
    assert names.note_on(importlib.import_module("observant.observer.fetched"), "Nothing") == ""


# -- metrics, formats, settings -------------------------------------------------------------------


def test_every_metric_is_in_both_pages(reference):
    families = [*reference.observer_metrics(), *reference.store_metrics()]
    assert len(families) > 30
    for family in families:
        name = family.name + ("_total" if family.type == "counter" else "")
        assert as_code(name, page("reference-metrics.md")), name
        if "_store_" not in name:
            assert as_code(name, page("observer.md")), name


def test_every_format_is_named():
    from observant import formats
    from observant.batch.plan_file import NUMBERS
    from observant.currency.audit import COLUMNS as CLAIMS
    from observant.formats.seeds import SEED_FORMATS
    from observant.visits.log import COLUMNS

    words = [*formats._ENDINGS, *formats._COMPRESSIONS, *SEED_FORMATS, *COLUMNS, *CLAIMS, *NUMBERS]
    assert [word for word in words if not as_code(word, page("reference-formats.md"))] == []


def test_every_setting_is_named():
    from observant.observer.config import Config, Notify, Retention, SourceEntry, SourceSettings
    from observant.observer.content import Rules
    from observant.observer.sources import KINDS
    from observant.observer.sources.query import StandingQuery
    from observant.observer.transport import Limits

    here, elsewhere = page("configuration.md"), page("comparing.md") + page("standing-queries.md")
    structs = (Config, Notify, Retention, SourceEntry, SourceSettings, Limits)
    wanted = [*(name for struct in structs for name in struct.__struct_fields__), *KINDS]
    assert [name for name in wanted if name != "file" and not as_code(name, here)] == []
    inner = {*Rules.__struct_fields__, *StandingQuery.__struct_fields__}
    assert [name for name in sorted(inner) if not as_code(name, elsewhere)] == []


# -- benchmarks, comparison -----------------------------------------------------------------------


def test_every_benchmark_is_told_with_its_command():
    """A file with a `__main__` part is a program; the others are parts of one."""
    text = page("benchmarks.md")
    for file in (ROOT / "benchmarks").glob("*.py"):
        program = '__name__ == "__main__"' in file.read_text("utf-8")
        shown = f"`python -m benchmarks.{file.stem}" if program else f"benchmarks/{file.name}"
        if file.stem == "__main__":
            shown = "`python -m benchmarks`"
        elif file.stem == "lives":  # it is run, but by another program
            shown = "benchmarks/lives.py"
        assert shown in text or not file.read_text("utf-8"), shown
    named = set(re.findall(r"python -m benchmarks\.(\w+)", text))
    assert {name for name in named if not (ROOT / f"benchmarks/{name}.py").is_file()} == set()


def test_every_rival_that_is_compared_with_is_in_the_code():
    from observant.planning.rivals import ALLOCATIONS, RULES
    from observant.simulation import names

    text = page("comparison.md")
    said = re.search(r"All of these rules are in observant.*?See \[rivals\]", text, re.DOTALL)[0]
    named = set(re.findall(r"`([a-z_]+)`", said))
    assert named == {*RULES, *ALLOCATIONS}
    assert set(re.findall(r"-p (\S+)", text)) <= set(names())


# -- security -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_test_that_the_security_page_names_exists():
    text = page("security.md")
    rows = [line for line in text.splitlines() if line.startswith("    - Tested by ")]
    assert len(rows) > 15
    for row in rows:
        file = None
        for word in re.findall(r"`(test_\w+(?:\.py)?)`", row):
            if word.endswith(".py"):
                file = word
            else:
                assert word in functions_of(file), f"{file} has no {word}"


@cache
def functions_of(file):
    tree = ast.parse((TESTS / file).read_text("utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, functions)}


def test_the_policy_at_the_root_says_what_the_page_says():
    short = " ".join((ROOT / "SECURITY.md").read_text("utf-8").split())
    assert "(docs/security.md)" in short
    where = "open a private security advisory at the place where you got observant"
    assert where in short
    assert where in " ".join(page("security.md").lower().split())


# -- words and errors -----------------------------------------------------------------------------

DESIGN = (
    "source update visit change age lifetime interval rate period grace currency freshness "
    "importance budget plan schedule policy"
)


def test_the_glossary_has_the_words_of_the_design_and_none_that_nobody_uses():
    entries = re.findall(r"\*\*([^*]+)\*\*", page("glossary.md"))
    assert set(DESIGN.split()) <= set(entries)
    others = [f.read_text("utf-8") for f in DOCS.glob("*.md") if f.name != "glossary.md"]
    text = "\n".join(others).lower()
    unused = [word for word in entries if not re.search(rf"\b{re.escape(word.lower())}", text)]
    assert unused == []


def test_every_error_is_in_the_errors_page():
    """Found in the code: a class that ends in Error and is not private."""
    found = set()
    for file in (ROOT / "src").rglob("*.py"):
        found |= set(re.findall(r"^class ([A-Z]\w*Error)\(", file.read_text("utf-8"), re.MULTILINE))
    assert len(found) > 12
    text = page("errors.md")
    assert [name for name in sorted(found) if not re.search(rf"\b{name}\b", text)] == []


def test_every_exit_code_is_in_the_errors_page():
    found = {"0"}
    for file in (ROOT / "src/observant/cli").glob("*.py"):
        found |= set(
            re.findall(
                r"(?:sys\.exit\(|FOUND_CHANGES = |\bFAILED = )(\d+)", file.read_text("utf-8")
            )
        )
    assert set(re.findall(r"^\| (\d+) \|", page("errors.md"), re.MULTILINE)) == found
