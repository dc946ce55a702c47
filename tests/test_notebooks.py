"""The notebooks of the documentation, run by Jupyter: they show what they showed."""

import importlib.util
from pathlib import Path

import nbformat
import pytest

DOCS = Path(__file__).parents[1] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))

_spec = importlib.util.spec_from_file_location("notebooks", DOCS / "notebooks.py")
notebooks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(notebooks)


def printed(notebook):
    """What each cell shows as text; streams may come in pieces."""
    shown = []
    for cell in notebook.cells:
        texts = [
            output.get("text") or output["data"]["text/plain"] for output in cell.get("outputs", ())
        ]
        shown.append("".join(texts))
    return shown


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_shows_what_it_showed(file):
    kept = nbformat.read(file, as_version=4)
    assert printed(notebooks.executed(file)) == printed(kept)


def test_there_is_a_notebook_for_each_of_the_four_questions():
    page = (DOCS / "notebooks.md").read_text()
    assert [file.stem for file in NOTEBOOKS] == ["intervals", "planning", "rates", "replay"]
    assert all(f"(notebooks/{file.name})" in page for file in NOTEBOOKS)
