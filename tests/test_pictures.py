"""The pictures of the idea pages: drawn by their functions, and shown by a page."""

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
DRAWN = sorted((DOCS / "images").glob("idea-*.svg"))
SHOWN = [
    image
    for page in sorted(DOCS.glob("idea-*.md"))
    for image in re.findall(r"!\[[^\]]+\]\(images/([^)]+)\.svg\)", page.read_text("utf-8"))
]


@pytest.fixture(scope="module")
def pictures():
    """docs/pictures.py, as the program sees itself: beside its drawings."""
    sys.path.insert(0, str(DOCS))
    try:
        yield import_module("pictures")
    finally:
        sys.path.remove(str(DOCS))


def words_of(svg):
    """What a picture says. Curves may differ in the last digit on another machine, words not."""
    return sorted(re.findall(r"<text[^>]*>([^<]+)</text>", svg))


@pytest.mark.parametrize("file", DRAWN, ids=lambda file: file.stem)
def test_picture_is_made_by_its_function(file, pictures, tmp_path):
    made = pictures.write(file.stem, tmp_path).read_text("utf-8")
    kept = file.read_text("utf-8")
    assert words_of(made) == words_of(kept), f"run: python docs/pictures.py {file.stem}"
    assert made.count("<path") == kept.count("<path")
    assert len(kept) < 60_000


def test_every_drawing_of_an_idea_is_kept_and_shown_once(pictures):
    ideas = sorted(name for name in pictures.PICTURES if name.startswith("idea-"))
    assert [file.stem for file in DRAWN] == ideas
    assert sorted(SHOWN) == ideas


def test_a_picture_of_another_page_is_drawn_from_its_examples(pictures, tmp_path):
    made = pictures.write("visit-times", tmp_path).read_text("utf-8")
    assert words_of(made) == words_of((DOCS / "images/visit-times.svg").read_text("utf-8"))
    pages = "".join(page.read_text("utf-8") for page in DOCS.glob("*.md"))
    assert [name for name in pictures.PICTURES if f"images/{name}.svg" not in pages] == []


def test_pictures_can_be_read_on_a_dark_page():
    for file in DRAWN:
        assert re.search(r'<rect width="\d+" height="\d+" fill="white"/>', file.read_text("utf-8"))


def test_an_unknown_picture_is_refused(pictures, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["pictures.py", "idea-nothing"])
    with pytest.raises(SystemExit):
        pictures.main()
    assert "no picture 'idea-nothing'" in capsys.readouterr().err
