"""What we write for others, read back by those others where they are installed."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from observant import VisitLog, plan
from observant.errors import InputError
from observant.formats.atom import atom_lines
from observant.formats.imports import SourceDescription, describe_sources, import_visits
from observant.formats.opml import opml_lines
from observant.formats.seeds import SEED_FORMATS, seed_lines
from observant.store import Source

NAMES = ["http://a.example/", 'http://b.example/?q="x"&é', "http://never.example/"]


@pytest.fixture(scope="module")
def best():
    answer = plan([0.5, 2.0, 500.0], budget=2, source=NAMES)
    assert answer.starved.tolist() == [False, False, True]
    return answer


def test_seeds_for_scrapy_are_arguments_of_requests(best):
    scrapy = pytest.importorskip("scrapy")
    requests = [scrapy.Request(**json.loads(line)) for line in seed_lines(best, "scrapy", now=0)]
    assert [request.url for request in requests] == [
        "http://b.example/?q=%22x%22&%C3%A9",
        "http://a.example/",
    ]
    assert requests[0].priority > requests[1].priority
    assert requests[0].meta["observant_period"] == round(86_400 * best.period_days[1])


def test_seeds_for_browsertrix_are_a_config_of_single_pages(best):
    yaml = pytest.importorskip("yaml")
    config = yaml.safe_load("\n".join(seed_lines(best, "browsertrix", now=0)))
    assert config == {
        "seeds": [
            {"url": NAMES[1], "scopeType": "page"},
            {"url": NAMES[0], "scopeType": "page"},
        ]
    }
    nothing = replace(best, visits_per_day=np.zeros(3))
    assert yaml.safe_load("\n".join(seed_lines(nothing, "browsertrix", now=0))) == {"seeds": []}


@pytest.mark.slow
@given(
    st.lists(
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=20), min_size=1, unique=True
    )
)
def test_no_name_breaks_a_seed_list(names):
    """A name with blanks is refused; any other is one line of its own, or two of YAML."""
    yaml = pytest.importorskip("yaml")
    answer = plan(np.ones(len(names)), budget=1.0, source=names)
    for format_ in SEED_FORMATS:
        try:
            lines = list(seed_lines(answer, format_, now=0))
        except InputError:
            assert any(c.isspace() or c < " " or c == "\x7f" for name in names for c in name)
            continue
        extra = {"heritrix": 1, "browsertrix": 2}.get(format_, 0)
        assert len(lines) == len(names) + extra
        text = "\n".join(lines)
        if format_ == "browsertrix" and all(c.isprintable() for name in names for c in name):
            assert [seed["url"] for seed in yaml.safe_load(text)["seeds"]] == names
        elif format_ in {"scrapy", "urlfrontier"}:
            assert len([json.loads(line) for line in text.split("\n")]) == len(names)


def test_opml_goes_round(tmp_path):
    sources = [
        SourceDescription(address="https://a.example/f?x&y", kind="feed", title='A "&" <B>'),
        SourceDescription(address="https://b.example/f", kind="feed", tags=("news", "é & co")),
        SourceDescription(address="https://c.example/", title="a page"),
    ]
    file = tmp_path / "feeds.opml"
    file.write_text("\n".join(opml_lines(sources, title="all <of> it")))
    found = {source.address: source for source in describe_sources(file)}
    assert set(found) == {"https://a.example/f?x&y", "https://b.example/f"}
    assert found["https://a.example/f?x&y"].title == 'A "&" <B>'
    assert found["https://b.example/f"].tags == ("news",)  # each feed once: its first folder
    stored = Source(name="mine", url="https://d.example/f", kind="feed")
    assert 'xmlUrl="https://d.example/f"' in "\n".join(opml_lines([stored]))


@given(st.text(st.characters(codec="utf-8")), st.text(), st.lists(st.text(), max_size=3))
def test_any_text_makes_good_opml(address, title, tags):
    from lxml import etree

    source = SourceDescription(address=address or "x", kind="feed", title=title, tags=tuple(tags))
    text = "\n".join(opml_lines([source], title=title))
    assert etree.fromstring(text.encode()).tag == "opml"


def changes():
    return VisitLog.from_columns(
        source=["https://a.example/?x&y"] * 4 + ["b <c>"] * 3,
        time=[1e9 + k * 86_400 for k in (0, 1, 2, 3, 0, 1.5, 4)],
        changed=[None, True, False, True, None, True, False],
        magnitude=[None, 0.25, 0, 1, None, None, None],
    )


def test_atom_is_read_by_feedparser_and_by_us(tmp_path):
    feedparser = pytest.importorskip("feedparser")
    text = "\n".join(atom_lines(changes(), title="What's <new>", address="https://me.example/f"))
    parsed = feedparser.parse(text)
    assert not parsed.bozo
    assert parsed.feed.title == "What's <new>"
    titles = ["https://a.example/?x&y", "b <c>", "https://a.example/?x&y"]
    assert [entry.title for entry in parsed.entries] == titles  # newest first
    assert "25 %" in parsed.entries[2].summary
    assert len({entry.id for entry in parsed.entries}) == 3
    again = feedparser.parse("\n".join(atom_lines(changes(), limit=2)))
    assert [entry.id for entry in again.entries] == [entry.id for entry in parsed.entries][:2]
    file = tmp_path / "changes.atom"
    file.write_text(text)
    found = import_visits(file)
    dates = {value for batch in found for value in batch.column("last_modified").to_pylist()}
    assert dates == {datetime.fromtimestamp(1e9 + k * 86_400, UTC) for k in (1, 1.5, 3)}
    with pytest.raises(InputError, match="at least one entry"):
        list(atom_lines(changes(), limit=0))


def test_a_log_without_changes_is_an_empty_feed():
    feedparser = pytest.importorskip("feedparser")
    log = VisitLog.from_columns(["a", "a"], [0, 1], [None, False])
    parsed = feedparser.parse("\n".join(atom_lines(log)))
    assert (parsed.version, parsed.entries) == ("atom10", [])
