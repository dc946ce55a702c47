"""The house in numbers: how much there is, how many things have one name, what nobody reaches.

    python -m benchmarks.house [--base REV] [--list]

With `--base` the same figures of an older revision stand beside them. `--list` also names what is
counted: classes of one name, gerunds, shapes, chains, unreached code. The pairs of duplicates come
from the tool `duplicates`, where it is on the path.

What is counted:

- A *shape of a visit* is a class with three or more fields of `VISIT`; of a source, of `SOURCE`.
- A *gerund* is a module or package whose last word ends in -ing.
- A module name is *used twice* outside of families: the folders of `FAMILIES` hold a file for each
  noun or kind that others have too (a command, a page, a figure, a format), and the names of
  `ROLES` say what a module is to its package.
- A *chain over two* is a class with two or more ancestors inside the package, one above the other.
- *Options* are those that the help of a command or group lists. What every command takes
  (--store, --config, --json) is explained once, by `observant --help`, and counted once; so is
  what stands behind `--set` (hidden: the figure beside it counts everything that is parsed).
- *Unreached* is what `benchmarks.reach` finds: lines of code that lead from no command, page,
  route or public name.
"""

import argparse
import ast
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.reach import unreached

ROOT = Path(__file__).parents[1]
LONG_FUNCTION = 60
SMALL = 5
"""Modules up to so many lines only hand on names."""
FAMILIES = ("cli", "figures", "formats", "service", "store", "observer/sources", "papers")
ROLES = {"base", "kernels", "table"}
VISIT = {
    *("source", "time", "at", "started_at", "ended_at", "changed", "status", "digest"),
    *("magnitude", "last_modified", "outcome", "bytes", "error", "age", "validators"),
}
SOURCE = {
    *("name", "url", "host", "tags", "importance", "state", "kind", "config", "title", "rate"),
    *("due_at", "period", "groups", "good_at", "changed_at", "paused"),
}
FEW = 3
FRONT = """
import json, click
from observant import __all__ as names
from observant.cli import cli
def inside(command, ctx):
    if not isinstance(command, click.Group):
        return [command]
    inner = (command.get_command(ctx, name) for name in command.list_commands(ctx))
    return [command, *(below for found in inner for below in inside(found, ctx))]
ctx = click.Context(cli)
every = inside(cli, ctx)
found = [command for command in every if not isinstance(command, click.Group)]
given = [p for command in every for p in command.params if isinstance(p, click.Option)]
options = sum(not p.hidden and type(p).__name__ != "Shared" for p in given)
from observant.service.api import api_handlers
from observant.service.pages import page_handlers
def routes(handlers):
    inner = [r.route_handlers for h in handlers for r in getattr(h, "routes", ())]
    return sum(map(len, inner)) + sum(not hasattr(h, "routes") for h in handlers)
print(json.dumps([len(cli.list_commands(ctx)), len(found), options, len(given), len(names),
                  routes(api_handlers()), routes(page_handlers())]))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--base", help="a git revision to compare with")
    parser.add_argument("--list", action="store_true", help="also name what is counted")
    options = parser.parse_args()
    console = Console()
    now = House(ROOT)
    before = None
    if options.base:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(  # noqa: S603
                ["git", "archive", options.base],  # noqa: S607 - whichever git there is
                cwd=ROOT,
                capture_output=True,
                check=True,
            )
            with tarfile.open(fileobj=io.BytesIO(done.stdout)) as files:
                files.extractall(folder, filter="data")
            before = House(Path(folder))
    console.print(comparison(now, before), packages(now, before), sep="\n")
    if options.list:
        for name, listed in now.lists.items():
            console.print(f"[bold]{name}[/bold]")
            for item in listed:
                console.print(f"  {item}", soft_wrap=True, highlight=False, markup=False)
    else:
        console.print(longest(now.modules))
        console.print(repetition(now.package), soft_wrap=True, highlight=False)


class House:
    """All figures of a tree of files."""

    def __init__(self, root):
        self.package = root / "src" / "observant"
        self.modules = {
            file.relative_to(self.package): file.read_text("utf-8")
            for file in sorted(self.package.rglob("*.py"))
        }
        self.trees = {path: ast.parse(text) for path, text in self.modules.items()}
        self.lists = {}
        self.project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
        self.figures = {**self.sizes(root), **self.names(), **self.front(root)}
        found = unreached(self.package)
        self.lists["unreached"] = [f"{d.lines:4} {d}" for d in found]
        self.figures["unreached lines"] = sum(d.lines for d in found)

    def sizes(self, root):
        lines = {name: lines_of(root / name) for name in ("src", "tests", "benchmarks")}
        functions = [node for _, node in self.nodes(ast.FunctionDef, ast.AsyncFunctionDef)]
        plain = [node for node in functions if not is_compiled(node)]
        lengths = np.array([length(node) for node in functions])
        real = lines["src"][lines["src"] > SMALL]
        return {
            "lines of src": int(lines["src"].sum()),
            "lines of tests": int(lines["tests"].sum()),
            "lines of benchmarks": int(lines["benchmarks"].sum()),
            "modules": len(self.modules),
            "lines of a module, median": int(np.median(real)),
            "lines of a module, 90 %": int(np.percentile(real, 90)),
            "lines of a module, longest": int(real.max()),
            "functions": len(functions),
            f"functions over {LONG_FUNCTION} lines": int(np.sum(lengths > LONG_FUNCTION)),
            "typed, of functions not compiled, %": round(
                100 * sum(map(is_typed, plain)) / len(plain), 1
            ),
        }

    def names(self):
        classes = self.nodes(ast.ClassDef)
        homes = defaultdict(list)
        for path, node in classes:
            homes[node.name].append(str(path))
        twice = {name: paths for name, paths in homes.items() if len(paths) > 1}
        stems = [
            path.parent.name if path.name == "__init__.py" else path.stem for path in self.modules
        ]
        gerunds = [str(p) for p, stem in zip(self.modules, stems, strict=True) if is_gerund(stem)]
        lone = [
            stem
            for path, stem in zip(self.modules, stems, strict=True)
            if stem not in ROLES and not path.as_posix().startswith(FAMILIES)
        ]
        shared = {stem: n for stem, n in Counter(lone).items() if n > 1}
        visits = [(p, n.name) for p, n in classes if len(fields(n) & VISIT) >= FEW]
        sources = [(p, n.name) for p, n in classes if len(fields(n) & SOURCE) >= FEW]
        chains = self.chains(classes)
        self.lists = {
            "class names used twice": [f"{n}: {', '.join(p)}" for n, p in sorted(twice.items())],
            "gerund modules": gerunds,
            "module names used twice": [f"{stem} ×{n}" for stem, n in sorted(shared.items())],
            "shapes of a visit": [f"{path}: {name}" for path, name in visits],
            "shapes of a source": [f"{path}: {name}" for path, name in sources],
            "inheritance chains over two": chains,
        }
        return {"classes": len(classes), **{name: len(l) for name, l in self.lists.items()}}

    def chains(self, classes):
        bases = {n.name: [ast.unparse(b).partition("[")[0] for b in n.bases] for _, n in classes}

        def above(name):
            inner = [above(base) for base in bases.get(name, ()) if base in bases and base != name]
            return [name, *max(inner, key=len, default=[])]

        return [" < ".join(above(name)) for name in sorted(bases) if len(above(name)) > 2]

    def front(self, root):
        environment = {**os.environ, "PYTHONPATH": str(root / "src")}
        done = subprocess.run(  # noqa: S603 - our own
            [sys.executable, "-c", FRONT],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        commands, leaves, options, parsed, public, routes, pages = json.loads(done.stdout)
        return {
            "commands": commands,
            "leaves": leaves,
            "options": options,
            "options, each command's own and hidden ones": parsed,
            "public names": public,
            "routes of the API": routes,
            "routes of the pages": pages,
            "mandatory dependencies": len(self.project["project"]["dependencies"]),
        }

    def nodes(self, *kinds):
        return [
            (path, node)
            for path, tree in self.trees.items()
            for node in ast.walk(tree)
            if isinstance(node, kinds)
        ]


def comparison(now, before):
    table = Table("", title="The house")
    if before is not None:
        table.add_column("before", justify="right")
    table.add_column("now", justify="right")
    for name, figure in now.figures.items():
        old = [f"{before.figures.get(name, 0):,}"] if before is not None else []
        table.add_row(name, *old, f"{figure:,}")
    return table


def packages(now, before):
    """Lines and modules of each part."""
    table = Table("package", "lines", "modules", title="Packages")
    if before is not None:
        table.add_column("lines before")
        table.add_column("modules before")
    sizes = [by_package(house) for house in (now, before) if house is not None]
    for name in sorted({name for size in sizes for name in size}):
        found = [figure for size in sizes for figure in size.get(name, (0, 0))]
        table.add_row(name, *(f"{figure:,}" for figure in found))
    return table


def by_package(house):
    found = defaultdict(lambda: (0, 0))
    for path, text in house.modules.items():
        name = path.parts[0].removesuffix(".py")
        lines, modules = found[name]
        found[name] = lines + text.count("\n"), modules + 1
    return found


def longest(modules, most=8):
    table = Table("longest modules", "lines", "longest functions", "lines", title="At the top")
    files = sorted(((text.count("\n"), str(path)) for path, text in modules.items()), reverse=True)
    functions = sorted(
        (
            (length(node), f"{path}: {node.name}")
            for path, text in modules.items()
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ),
        reverse=True,
    )
    for (lines, path), (long, name) in zip(files[:most], functions[:most], strict=True):
        table.add_row(path, str(lines), name, str(long))
    return table


def repetition(package):
    """Pairs of places in the package that share six lines or more."""
    tool = shutil.which("duplicates")
    if tool is None:
        return "duplicates: the tool is not on the path"
    done = subprocess.run(  # noqa: S603 - found on the path
        [tool, "--repo", str(package), "--most", "5", "--seconds", "120"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def lines_of(folder):
    return np.array([file.read_text("utf-8").count("\n") for file in folder.rglob("*.py")])


def fields(node):
    """Fields that a class declares."""
    return {
        item.target.id
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }


def is_gerund(stem):
    return stem.rpartition("_")[2].endswith("ing") and stem != "bing"


def length(node):
    """Lines of the body of a function without its docstring."""
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def is_compiled(node):
    return any("jit" in ast.unparse(d) or ast.unparse(d) == "inlined" for d in node.decorator_list)


def is_typed(node):
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    named = [a for a in arguments if a.arg not in {"self", "cls"}]
    return node.returns is not None and all(a.annotation is not None for a in named)


if __name__ == "__main__":
    main()
