"""The house in numbers: sizes of modules and functions, types, layers, places that repeat.

    python -m benchmarks.house

The pairs of duplicates come from the tool `duplicates`, where it is on the path.
"""

import ast
import shutil
import subprocess
import tomllib
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "observant"
LONG_FUNCTION = 60
SMALL = 5
"""Modules up to so many lines only hand on names."""


def main():
    modules = {file.relative_to(PACKAGE): file.read_text("utf-8") for file in files_in(PACKAGE)}
    console = Console()
    console.print(sizes(modules), shapes(modules), longest(modules), sep="\n")
    console.print(repetition(), soft_wrap=True, highlight=False)


def files_in(folder):
    return sorted(folder.rglob("*.py"))


def sizes(modules):
    """Lines of modules, here and in the tests and benchmarks."""
    table = Table("", "files", "lines", "median", "90 %", "longest", title="Modules")
    others = {name: files_in(ROOT / name) for name in ("tests", "benchmarks")}
    for name, texts in {
        "src": list(modules.values()),
        **{name: [file.read_text("utf-8") for file in files] for name, files in others.items()},
    }.items():
        lines = np.array([text.count("\n") for text in texts])
        real = lines[lines > SMALL]
        middle, high = np.percentile(real, [50, 90])
        figures = len(real), lines.sum(), middle, high, lines.max()
        table.add_row(name, *(f"{number:,.0f}" for number in figures))
    return table


def shapes(modules):
    """Functions, their types, and the layers between modules."""
    functions = [
        (path, node)
        for path, text in modules.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    plain = [(path, node) for path, node in functions if not is_compiled(node)]
    typed = sum(is_typed(node) for _, node in plain)
    lengths = np.array([length(node) for _, node in functions])
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    layers = settings["importlinter"]["contracts"][0]["layers"]
    table = Table("", "", title="Code", show_header=False)
    table.add_row("functions", f"{len(functions):,}")
    table.add_row("their median and 90 % of lines", "{:.0f}, {:.0f}".format(*quantiles(lengths)))
    table.add_row(
        f"functions of more than {LONG_FUNCTION} lines", f"{sum(lengths > LONG_FUNCTION):,}"
    )
    table.add_row("typed, of those not compiled by numba", f"{typed / len(plain):.1%}")
    table.add_row("mypy", "strict" if settings["mypy"].get("strict") else "not strict")
    table.add_row("layers", f"{len(layers)}: " + " > ".join(short(layer) for layer in layers))
    return table


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


def repetition():
    """Pairs of places in the package that share six lines or more."""
    tool = shutil.which("duplicates")
    if tool is None:
        return "duplicates: the tool is not on the path"
    done = subprocess.run(  # noqa: S603 - found on the path
        [tool, "--repo", str(PACKAGE), "--most", "5", "--seconds", "120"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


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


def quantiles(numbers):
    return np.percentile(numbers, [50, 90])


def short(layer):
    return layer.replace("observant.", "")


if __name__ == "__main__":
    main()
