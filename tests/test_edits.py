"""Editing sources, trying settings before they are kept, and adding what is there already."""

import json

import pytest

from observant.errors import InputError
from observant.observer.config import Config
from observant.observer.fetched import Fetched
from observant.service.collection import BulkChange, Collection, NewSource, SourceChanges, edits
from observant.service.collection.entries import PreviewRequest, SeenEvents
from observant.store import Event, Visit, open_store
from observant.store.visit import Comparison

from .command_line import run_here
from .observer_world import Site, html

PAGE = html("<p id=price>49.90 EUR</p><p>A lamp of brass</p><p>Updated 12:03</p>")


@pytest.fixture
def site():
    site = Site()
    site.serve("/lamp", PAGE)
    yield site
    site.close()


@pytest.fixture
def collection():
    with open_store(":memory:") as store:
        made = Collection(store, Config(allow=("127.0.0.0/8",), host_delay=0))
        yield made
        made.cache.close()
        edits._PAGES.clear()


def said(edited):
    return {one.source: [str(change) for change in one.changes] for one in edited}


def add(collection, url="https://a.example/", **more):
    return collection.sources.add(NewSource(url=url, **more))


# -- what an edit changes -------------------------------------------------------------------------


def test_an_edit_says_what_is_another_now_and_keeps_the_rest(collection):
    add(collection, tags=["shop"], settings={"max_period": "9d", "compare": {"css": "p"}})
    row = collection.find(1)
    changes = SourceChanges(
        patch={"compare": {"xpath": "//b", "confirm": 1}, "max_period": None}, add_tags=("new",)
    )
    tried = collection.sources.edit([row], changes, dry_run=True)
    assert collection.find(1) == row
    assert said(tried) == {
        "https://a.example/": [
            *("max_period: 9d → none", "css: p → none", "xpath: none → //b"),
            *("confirm: none → 1", "tags: shop → new, shop"),
        ]
    }
    assert collection.sources.edit([row], changes) == tried
    after = collection.find(1)
    assert after.config == {"compare": {"xpath": "//b", "confirm": 1}}
    assert after.tags == ("new", "shop")
    assert collection.sources.edit([after], changes) == []


def test_secrets_are_said_to_differ_and_never_shown(collection):
    add(collection, settings={"headers": {"X-Key": "top-secret"}})
    changes = SourceChanges(patch={"headers": {"X-Key": "other-secret"}})
    edited = collection.sources.edit([collection.find(1)], changes)
    assert said(edited) == {"https://a.example/": ["headers.X-Key: ••• → ••• (another)"]}
    kept = SourceChanges(patch={"headers": {"X-Key": "•••"}})
    assert collection.sources.edit([collection.find(1)], kept) == []
    assert collection.find(1).config["headers"] == {"X-Key": "other-secret"}


def test_many_are_edited_alike_or_not_at_all(collection):
    for name in "abc":
        add(collection, f"https://{name}.example/", tags=["shop"])
    bad = SourceChanges(patch={"max_period": "1min"})
    with pytest.raises(InputError, match="above max_period"):
        collection.sources.bulk(BulkChange(action="edit", tag="shop", changes=bad))
    changes = SourceChanges(patch={"max_period": "2d"}, remove_tags=("shop",))
    asked = BulkChange(action="edit", tag="shop", changes=changes, dry_run=True)
    assert len(collection.sources.bulk(asked).edited) == 3
    assert not collection.find(1).config
    done = collection.sources.bulk(BulkChange(action="edit", tag="shop", changes=changes))
    assert (done.sources, len(done.edited)) == (3, 3)
    assert [collection.find(n).config for n in (1, 2, 3)] == [{"max_period": "2d"}] * 3
    assert not collection.find(2).tags


def test_an_importance_is_one_number(collection):
    add(collection, settings={"importance": 3}, importance=3)
    collection.sources.update(1, SourceChanges(importance=2))
    row = collection.find(1)
    assert (row.importance, row.config) == (2.0, {"importance": 2.0})


# -- what is there already ------------------------------------------------------------------------


def test_adding_what_is_there_says_what_differs_and_changes_it_on_request(collection):
    add(collection, tags=["old"])
    entry = NewSource(
        url="https://a.example/", tags=["new"], settings={"compare": {"css": "#price"}}
    )
    found = collection.sources.add(entry)
    assert (found.new, [str(c) for c in found.changes]) == (
        False,
        ["css: none → #price", "tags: old → new, old"],
    )
    assert collection.find(1).tags == ("old",)
    assert collection.sources.add(entry, update=True).changes == found.changes
    row = collection.find(1)
    assert (row.tags, row.config) == (("new", "old"), {"compare": {"css": "#price"}})
    assert collection.sources.add(entry).changes == []
    many = collection.sources.add_many([entry, NewSource(url="https://b.example/")])
    assert (many.added, many.known, many.edited) == (1, 1, [])


# -- preview --------------------------------------------------------------------------------------


def test_settings_are_tried_on_an_address_and_nothing_is_kept(collection, site):
    url = f"http://127.0.0.1:{site.port}/lamp"
    changes = SourceChanges(patch={"compare": {"css": "#price", "conditions": ["below 50"]}})
    seen = collection.sources.preview(PreviewRequest(url=url, changes=changes))
    assert (seen.text, seen.before, seen.problem) == ("49.90 EUR", None, "")
    assert seen.conditions == {"below 50": True}
    wrong = SourceChanges(patch={"compare": {"css": "#nowhere"}})
    nothing = collection.sources.preview(PreviewRequest(url=url, changes=wrong))
    assert nothing.text == ""
    assert "#nowhere" in nothing.problem
    assert collection.store.sources.count() == 0
    assert len(site.requests("/lamp")) == 1  # the page is fetched once
    refused = collection.sources.preview(PreviewRequest(url="http://10.0.0.1/")).problem
    assert "10.0.0.1" in refused
    for bad in ({"url": "file:///etc/hosts"}, {"url": "x", "kind": "command"}):
        with pytest.raises(InputError):
            collection.sources.preview(PreviewRequest(**bad))


def test_an_empty_shell_is_previewed_with_a_browser(collection, site, monkeypatch):
    site.serve("/app", html("<div id=root></div><script>draw()</script>"))
    url = f"http://127.0.0.1:{site.port}/app"
    monkeypatch.setattr(edits, "missing", lambda _: "there is no Chromium")
    seen = collection.sources.preview(PreviewRequest(url=url))
    assert seen.note == "This page looks empty without a browser. There is no Chromium."
    monkeypatch.setattr(edits, "missing", lambda _: "")
    plain = edits._fetch

    async def looked(config, source, settings, rendered):
        if not rendered:
            return await plain(config, source, settings, rendered=False)
        body = html("<p>What scripts have drawn</p>").encode()
        return Fetched(url=url, status=200, body=body, content_type="text/html"), "page"

    monkeypatch.setattr(edits, "_fetch", looked)
    seen = collection.sources.preview(PreviewRequest(url=url))
    assert (seen.text.splitlines()[-1], seen.note) == ("What scripts have drawn", "")
    never = SourceChanges(patch={"render": "never"})
    seen = collection.sources.preview(PreviewRequest(url=url, changes=never))
    assert "scripts" not in seen.text
    assert seen.note == ""


def test_kept_versions_say_which_would_have_been_a_change(collection, site):
    url = f"http://127.0.0.1:{site.port}/lamp"
    add(collection, url)
    texts = [f"{price} EUR\nA lamp\nUpdated 12:0{n}" for n, price in enumerate((40, 40, 50))]
    for n, text in enumerate(texts):
        found = Comparison(
            outcome="first" if not n else "changed", text=text, complete=True, memory={}
        )
        visit = Visit(source=url, started_at=1000.0 * n, ended_at=1000.0 * n + 1,
                      outcome=found.outcome, comparison=found)  # fmt: skip
        collection.store.visits.record(visit)
    patch = {"compare": {"ignore": ["Updated .*"]}}
    asked = PreviewRequest(source=1, changes=SourceChanges(patch=patch))
    seen = collection.sources.preview(asked)
    assert [v.changed for v in seen.versions] == [True, False, False]
    assert "Updated" not in seen.text
    assert "Updated" in seen.before
    assert [str(c) for c in seen.changes] == ["ignore: none → Updated .*"]
    asked = PreviewRequest(source=1, changes=SourceChanges(patch={"compare": {"css": "p"}}))
    elsewhere = collection.sources.preview(asked)
    assert (elsewhere.versions, bool(elsewhere.note)) == ([], True)


# -- the command line -----------------------------------------------------------------------------


def test_add_edit_and_preview_from_the_command_line(tmp_path, site):
    url = f"http://127.0.0.1:{site.port}/lamp"
    (tmp_path / "observant.toml").write_text('allow = ["127.0.0.0/8"]\nhost_delay = 0\n')

    def observant(*words, code=0):
        found, out, err = run_here(*words, cwd=tmp_path)
        assert found == code, (words, out, err)
        return out + err

    assert "49.90 EUR" in observant("add", url, "--preview", "--css", "#price")
    assert not (tmp_path / "observant.db").exists()
    observant("add", url, "--later")
    told = observant("add", url, "--css", "#price", "--tag", "shop", "--later")
    assert "--update would change" in told
    assert "css: none → #price" in told
    assert "Changed:" in observant("add", url, "--css", "#price", "--tag", "shop", "--update")
    assert "nothing would be taken" in observant("edit", url, "--preview", "--css", "#no", code=2)
    told = observant("edit", "--tag", "shop", "--max-period", "2d", "--set", "css=", "--dry-run")
    assert "would be changed" in told
    edited = json.loads(observant("edit", "lamp", "--max-period", "2d", "--json"))["edited"]
    assert edited[0]["changes"] == [{"field": "max_period", "before": None, "after": "2d"}]
    assert "is `observant edit --pause` now" in observant("pause", "lamp")
    assert "state: paused → active" in observant("edit", "lamp", "--resume")
    assert "no setting 'colour'" in observant("edit", "lamp", "--unset", "colour", code=2)
    assert "say what to change" in observant("edit", "lamp", code=2)


# -- from the first page -------------------------------------------------------------------------


def changed(collection, number, n, text, before=""):
    """A visit that found another text."""
    row = collection.find(number)
    found = Comparison(
        outcome="changed" if before else "first",
        text=text,
        complete=True,
        record={"title": "A lamp"},
        reason="the text changed",
    )
    at = 1000.0 * n
    visit = Visit(source=row.name, started_at=at, ended_at=at + 1, outcome=found.outcome,
                  changed=bool(before), comparison=found)  # fmt: skip
    event = Event(id=f"e{n}", topic="changed", payload={"title": "A lamp", "added": text})
    collection.store.visits.record(visit, outbox=(event,) if before else ())


def test_a_source_has_the_title_of_its_page_unless_somebody_gave_it_one(collection):
    add(collection)
    add(collection, "https://b.example/", title="Mine")
    for number in (1, 2):
        changed(collection, number, 1, "49.90 EUR")
    assert [row.title for row in collection.sources.list().sources] == ["A lamp", "Mine"]
    assert collection.store.sources.count(search="lamp") == 1


def test_what_was_seen_leaves_the_first_page_and_stays_an_event(collection):
    add(collection)
    for n in range(4):
        changed(collection, 1, n, f"{n} EUR", before="x" * n)
    newest = [event.number for event in collection.overview().latest]
    assert len(newest) == 3
    collection.activity.mark_seen(SeenEvents(numbers=(newest[1],)))
    assert [e.number for e in collection.overview().latest] == [newest[0], newest[2]]
    assert [e.seen for e in collection.activity.events().events] == [False, True, False]
    collection.activity.mark_seen(SeenEvents(until=newest[0]))
    assert collection.overview().latest == []
    assert len(collection.activity.events().events) == 3


def test_a_part_is_ignored_by_what_stays_of_it(collection):
    add(collection)
    changed(collection, 1, 1, "Lamp\nSeen 12 times today")
    collection.sources.ignore(1, "Updated 12:04", "Updated 12:03")
    collection.sources.ignore(1, "12")
    assert collection.find(1).config["compare"]["ignore"] == [
        r"^Updated\s+\d+:\d+$", r"^Seen\s+\d+\s+times\s+today$",
    ]  # fmt: skip
    for nothing in (" ", "12"):
        with pytest.raises(InputError, match="no text to ignore"):
            collection.sources.ignore(1, nothing)


def test_a_page_that_differs_at_every_visit_is_called_noisy_with_a_proposal(collection):
    add(collection)
    for n in range(8):
        changed(collection, 1, n, f"Lamp\nOffer {7 * n} for you", before="x" * n)
    assert collection.sources.get(1).noisy == ""  # the first visit was none
    changed(collection, 1, 8, "Lamp\nOffer 99 for you", before="x")
    found = collection.sources.get(1)
    assert found.noisy.startswith("It differed at each of its last 8 visits, last in: Offer 99")
    assert found.proposal == r"^Offer\s+\d+\s+for\s+you$"
    collection.sources.ignore(1, "", expression=found.proposal)
    assert collection.find(1).config["compare"]["ignore"] == [found.proposal]
