"""The house rules that no other tool checks: what a module may take from another, and its size.

Layers are checked by import-linter, types by mypy, style and commented-out code by ruff.
"""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from benchmarks.reach import unreached

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "observant"
PAGES = "src/observant/service/pages/"
MOST_LINES = 600
MAY_PRINT = "cli/"
REFERENCE = ("reference.py", "reference-api.md")


class Module(NamedTuple):
    tree: ast.Module
    nodes: list
    """All of them, in any order."""

    def of(self, *kinds):
        return (node for node in self.nodes if isinstance(node, kinds))

    @property
    def exports(self):
        """Where `__all__` is set."""
        return [node for node, name in assigned(self.tree) if name == "__all__"]


@pytest.fixture(scope="module", autouse=True)
def forget():
    """Half a million nodes: whoever comes after these tests should not carry them."""
    yield
    modules.cache_clear()
    texts.cache_clear()


@cache
def modules():
    """Every module of the package, by its path in it."""
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        found[file.relative_to(PACKAGE).as_posix()] = Module(tree, nodes_of(tree))
    return found


def nodes_of(tree):
    """`ast.walk` in half its time: there are half a million."""
    found, left = [], [tree]
    while left:
        node = left.pop()
        found.append(node)
        for value in vars(node).values():
            if type(value) is list:
                left += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST):
                left.append(value)
    return found


@cache
def texts():
    """Everything that people wrote, by its path."""
    found = [*PACKAGE.rglob("*"), *(ROOT / "tests").glob("*"), *(ROOT / "benchmarks").glob("*")]
    found += [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "pyproject.toml"]
    kinds = {".py", ".sql", ".html", ".css", ".js", ".md", ".toml"}
    return {
        file.relative_to(ROOT).as_posix(): file.read_text("utf-8")
        for file in found
        if file.suffix in kinds and file.is_file()
    }


def assigned(tree):
    """The names that a module sets itself, with where it does."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in (n for target in targets for n in ast.walk(target)):
                if isinstance(name, ast.Name):
                    yield node, name.id


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def taken(module):
    """What a module imports from the package: the name here, the module there, the name there."""
    for node in module.of(ast.ImportFrom):
        if (node.module or "").startswith("observant"):
            for alias in node.names:
                yield alias.asname or alias.name, node.module, alias.name
    for node in module.of(ast.Import):
        for alias in node.names:
            if alias.name.startswith("observant"):
                yield alias.asname or alias.name, alias.name, ""


def test_what_is_private_to_a_module_stays_there():
    found = []
    for path, module in modules().items():
        here = {name for name, *_ in taken(module)}
        found += [f"{path}: {there}.{name}" for _, there, name in taken(module) if is_private(name)]
        found += [
            f"{path}:{node.lineno}: {node.value.id}.{node.attr}"
            for node in module.of(ast.Attribute)
            if is_private(node.attr) and isinstance(node.value, ast.Name) and node.value.id in here
        ]
    assert not found


def test_a_module_fits_on_a_few_screens():
    long = {
        path.removeprefix("src/observant/")
        for path, text in texts().items()
        if path.startswith("src/") and path.endswith(".py") and text.count("\n") > MOST_LINES
    }
    assert not long


def test_no_two_classes_share_a_name():
    homes = Counter(n.name for module in modules().values() for n in module.of(ast.ClassDef))
    assert not [name for name, times in homes.items() if times > 1]


def test_every_module_says_what_it_is_in_its_first_line():
    first = {path: module.tree.body[:1] for path, module in modules().items()}
    assert not [path for path, module in modules().items() if not ast.get_docstring(module.tree)]
    assert not [path for path, (statement,) in first.items() if statement.lineno != 1]


def test_every_package_says_what_it_offers():
    packages = {p: module for p, module in modules().items() if p.endswith("__init__.py")}
    assert not [path for path, module in packages.items() if not module.exports]


@pytest.mark.slow
def test_every_error_is_in_the_tree_that_errors_draws():
    """One module holds them all, its picture shows each, and the page shows the same picture."""
    classes = {
        path: [node for node in module.of(ast.ClassDef) if is_error(node)]
        for path, module in modules().items()
    }
    assert not {p: [n.name for n in found] for p, found in classes.items() if found}.keys() - {
        "errors.py"
    }
    name = r"^[│├└─ ]*([A-Z]\w+) {2,}|^([A-Z]\w+)$"
    picture = re.findall(name, docstring("errors.py"), re.MULTILINE)
    drawn = [name or root for name, root in picture]
    assert sorted(drawn) == sorted(node.name for node in classes["errors.py"])
    page = (ROOT / "docs" / "errors.md").read_text("utf-8")
    rows = [row for row in docstring("errors.py").splitlines() if re.search("[├└]", row)]
    assert rows
    assert all(f"    {row}\n" in page for row in rows)


def is_error(node):
    bases = [ast.unparse(base) for base in node.bases]
    return any(base.endswith(("Error", "Exception", "Refusal")) for base in bases)


def docstring(path):
    return ast.get_docstring(modules()[path].tree)


def test_nothing_is_left_to_do_in_a_comment():
    mark = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME)\b|#.*\bXX" + r"X\b")
    assert not [path for path, text in texts().items() if mark.search(text)]


def test_only_the_command_line_prints():
    prints = [
        f"{path}:{node.lineno}"
        for path, module in modules().items()
        if not path.startswith(MAY_PRINT)
        for node in module.of(ast.Call)
        if isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not prints


# -- nothing without use --------------------------------------------------------------------------


@pytest.mark.slow
def test_everything_is_reached_by_somebody():
    """From a command, a page, a route or a public name; tests and examples are no users."""
    assert [str(found) for found in unreached(PACKAGE)] == []


def test_what_nobody_names_is_found(tmp_path):
    """Or the test above would pass for no reason."""
    package = tmp_path / "src" / "observant"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from observant.a import f\n__all__ = ['f']\n")
    (package / "a.py").write_text("def f():\n    return g()\ndef g(): ...\ndef h(): ...\n")
    assert [str(found) for found in unreached(package)] == ["observant.a: h"]


@pytest.mark.slow
def test_no_name_of_a_module_is_given_twice():
    """Two constants of one name, after two modules became one: the first of them is lost."""
    twice = []
    for path, module in modules().items():
        seen = set()
        for node in module.tree.body:
            if isinstance(node, ast.Assign):
                uses = {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
                named = [n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
                twice += [f"{path}: {name}" for name in named if name in seen - uses]
                seen.update(named)
    assert twice == []


def test_every_constant_is_used():
    """Constants of modules: by the package, or as public names of the reference."""
    pages = [(ROOT / "docs" / name).read_text("utf-8") for name in REFERENCE]
    used = Counter(word for page in pages for word in re.findall(r"\w+", page))
    for module in modules().values():
        own = {id(node) for assign in module.exports for node in ast.walk(assign)}
        own |= {id(node.value) for node in module.of(ast.Expr)}
        used.update(node.attr for node in module.of(ast.Attribute))
        used.update(alias.name for node in module.of(ast.ImportFrom) for alias in node.names)
        for node in module.of(ast.Constant):
            if id(node) not in own and isinstance(node.value, str):
                used.update(re.findall(r"\w+", node.value))
    unused = []
    for path, module in modules().items():
        own = {node.id for node in module.of(ast.Name) if isinstance(node.ctx, ast.Load)}
        unused += [f"{path}: {n}" for n in defined(module) if not (n in own or used[n])]
    assert not unused


def defined(module):
    """Names that a module assigns."""
    names = [name for _, name in assigned(module.tree)]
    return [name for name in names if not name.startswith("__")]


def test_every_statement_of_the_store_is_run():
    code = "\n".join(text for path, text in texts().items() if path.startswith("src/observant/st"))
    named = {
        name
        for path, text in texts().items()
        if "/store/sql/" in path
        for name in re.findall(r"^-- name: (\w+)", text, re.MULTILINE)
    }
    assert named
    assert not named - set(re.findall(r"[\"'](\w+)[\"']", code))


def test_every_template_and_every_style_is_used():
    inside = {path: text for path, text in texts().items() if path.startswith("src/")}
    styles = re.sub(r"/\*.*?\*/", "", inside.pop(f"{PAGES}static/app.css"), flags=re.DOTALL)
    everything = "\n".join(inside.values())
    templates = {Path(path).name for path in inside if path.startswith(f"{PAGES}templates/")}
    assert templates
    assert not {name for name in templates if f'"{name}"' not in everything}
    selectors = " ".join(re.findall(r"([^{}]+)\{", styles))
    classes = set(re.findall(r"[.#]([A-Za-z][\w-]*)", selectors))
    theirs = {name for name in classes if name.startswith(("vega", "vg-"))}
    assert not classes - theirs - set(re.findall(r"[A-Za-z][\w-]*", everything))
