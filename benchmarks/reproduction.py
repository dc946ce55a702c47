"""Everything the papers printed, beside ours: writes the results into docs/reproduction.md.

    python -m benchmarks.reproduction [NAME...] [--traces folder]

All experiments take some minutes. The rows of a paper are written anew when all its experiments
were run; with names only the pictures and rows of these papers change. Pictures go to
docs/images/reproduction/.
"""

import argparse
import re
import time
from pathlib import Path

from observant.cli.reproduce import MARKS, compared_with, number, score
from observant.figures import save
from observant.papers import Options, choose
from observant.papers.pictures import reproduction_figure

PAGE = Path(__file__).parents[1] / "docs" / "reproduction.md"
IMAGES = PAGE.parent / "images" / "reproduction"

PAPERS = {
    "cho": "Cho and Garcia-Molina",
    "singh": "Singh",
    "brewington": "Brewington",
    "li": "Li, Cline and Loguinov",
}
PICTURES = [
    "cho-figure-5",
    "cho-figure-7",
    "cho-figure-15",
    "cho-figure-18",
    "singh-figure-1",
    "brewington-figure-2.4",
    "brewington-figure-3.8",
    "brewington-figure-3.18",
    "brewington-figure-3.24",
    "brewington-figure-4.9",
    "brewington-section-4.3",
    "li-figure-16",
    "li-figure-18",
]
TABLES = ["cho-figure-18", "cho-table-1", "brewington-section-4.3"]
"""Shown in full; the others are one command away."""


def main(names: list[str], traces: Path | None) -> None:
    chosen = choose(names)
    results = {paper: [] for paper in PAPERS}
    for experiment in chosen:
        start = time.perf_counter()
        found = experiment.run(Options(traces=traces if experiment.uses_traces else None))
        results[experiment.name.split("-")[0]].append((experiment, found))
        print(f"{experiment.name:<26} {time.perf_counter() - start:5.1f} s  {MARKS[found.mark]}")
        if found.name in PICTURES:
            IMAGES.mkdir(parents=True, exist_ok=True)
            chart = reproduction_figure(found, experiment.title)
            save(chart, str(IMAGES / f"{found.name}.svg"))
    page = PAGE.read_text("utf-8")
    for paper, found in results.items():
        if found:
            mark = re.compile(rf"(<!-- results: {paper} -->\n).*?(<!-- end -->)", re.DOTALL)
            text = section(paper, found)
            page = mark.sub(lambda part, text=text: f"{part[1]}{text}{part[2]}", page)
    PAGE.write_text(page, "utf-8")


def section(paper, results):
    """A row for each experiment, then the tables shown in full, and the pictures."""
    counts = score(check for _, found in results for check in found.checks)
    lines = [
        f"{PAPERS[paper]}:",
        "",
        *(f"- {line}" for line in counts),
        "",
        "| experiment | for instance | compared with | ours | agree | where not, and why |",
        "|---|---|---:|---:|---|---|",
    ]
    lines += [row(found) for _, found in results]
    for experiment, found in results:
        if found.name in TABLES:
            lines += ["", f"**{experiment.title}**", "", *table(found.table)]
            lines += ["", *(f"- {sentence(note)}" for note in found.notes)]
    for experiment, found in results:
        if found.name in PICTURES:
            lines += ["", f"![{experiment.title}](images/reproduction/{found.name}.svg)"]
    return "\n".join([*lines, ""])


def row(found):
    known = [check for check in found.checks if check.mark]
    first = (known or found.checks or [None])[0]
    told = ("", "", "") if first is None else _told(first)
    right = sum(bool(check.agrees) for check in known)
    mark = f"{MARKS[found.mark]} {right} of {len(known)}" if known else MARKS[None]
    wrong = [check for check in known if not check.agrees]
    words = "; ".join(
        f"{MARKS[c.mark]} {c.quantity}: {_told(c)[1]}, {_told(c)[2]} ours"
        + (f" ({c.ratio:.2f})" if c.mark == "near" else "")
        for c in wrong
    )
    reasons = list(dict.fromkeys(check.why for check in wrong if check.why))
    words += f". {'. '.join(map(sentence, reasons))}" if reasons else ""
    cells = [f"`{found.name}`", *told, mark, words]
    return "| " + " | ".join(_cell(text) for text in cells) + " |"


def table(rows):
    columns = list(dict.fromkeys(name for each in rows for name in each))
    yield "| " + " | ".join(map(_cell, columns)) + " |"
    yield "|" + "|".join("---" if name == columns[0] else "---:" for name in columns) + "|"
    for each in rows:
        yield "| " + " | ".join(_cell(number(each.get(name))) for name in columns) + " |"


def sentence(text):
    first = text[:1].upper() if text[:1].isascii() and text[1:2].islower() else text[:1]
    return first + text[1:]


def _told(check):
    return check.quantity, compared_with(check), number(check.ours)


def _cell(text):
    return text.replace("|", "\\|")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="as in `observant study reproduce`")
    parser.add_argument("--traces", type=Path, help="a folder of real update times")
    options = parser.parse_args()
    main(options.names, options.traces)
