"""Pictures of pages: kept with versions, dropped with them, shown beside each other."""

import pytest

from observant.observer.browser import BrowserSettings
from observant.observer.config import Config
from observant.store import Source, Visit, open_store

from .browser_world import chromium
from .rendering_world import visits_of
from .service_world import World

browser = pytest.mark.skipif(chromium() is None, reason="there is no Chromium on this machine")
JPEG = b"\xff\xd8"


def seen(at, outcome="changed", shot=None):
    return Visit(source="a", started_at=at, ended_at=at, outcome=outcome, shot=shot)


@pytest.fixture
def kept():
    with open_store(":memory:") as store:
        store.sources.add([Source(name="a", url="https://a.example/")])
        for k, outcome in enumerate(("first", "same", "changed", "failed", "changed")):
            store.visits.record(seen(1e9 + k, outcome, JPEG + bytes([k])), snapshot=f"text {k}")
        yield store


def test_a_picture_is_kept_with_what_is_new_and_with_a_failure(kept):
    versions = kept.snapshots.versions("a", kind="screenshot")
    assert [kept.snapshots.get(v.digest)[-1] for v in versions] == [4, 3, 2, 0]
    assert kept.sources.previous("a").text == "text 4"


def test_pictures_are_dropped_with_old_versions_and_the_latest_stays(kept):
    kept.snapshots.retain(max_versions=2, now=1e9 + 10)
    assert len(kept.snapshots.versions("a", kind="screenshot")) == 2
    kept.snapshots.retain(max_age=0.0, now=1e9 + 100)
    (last,) = kept.snapshots.versions("a", kind="screenshot")
    assert kept.snapshots.get(last.digest) == JPEG + b"\x04"


def test_two_pictures_are_shown_in_three_ways(kept):
    world = World(store=kept, config=Config())
    digests = [v.digest.hex() for v in kept.snapshots.versions("a", kind="screenshot")]
    with world.browser("viewer") as person:
        for look, mark in (
            ("side by side", 'class="columns"'),
            ("slider", "data-shots"),
            ("differences", 'class="overlay differences"'),
        ):
            asked = {"look": look, "before_shot": digests[3], "after_shot": digests[0]}
            page = person.get("/sources/1", params=asked).text
            assert mark in page.split('id="pictures"')[1]
            shown = [d for d in digests if f'shots/{d}"' in page]
            assert shown == [digests[0], digests[3]]
        assert person.get(f"/sources/1/shots/{digests[0]}").content == JPEG + b"\x04"
        strange = {"look": "x", "before_shot": "../etc", "after_shot": "<script>"}
        assert "<script>" not in person.get("/sources/1", params=strange).text.split("pictures")[1]
    world.collection.cache.close()


@browser
def test_a_rendered_visit_has_a_picture_unless_nobody_wants_it(pages, rendering, monkeypatch):
    pages.serve("/seen", "<h1>Seen</h1>")
    (visit,), before = visits_of(rendering, "http://a.example/seen", 1, render="always")
    assert visit.shot[:2] == JPEG
    (again,), _ = visits_of(rendering, "http://a.example/seen", 1, before, render="always")
    assert again.outcome == "same"

    monkeypatch.setattr(rendering.browser, "settings", BrowserSettings(screenshots=False))
    (bare,), _ = visits_of(rendering, "http://a.example/seen", 1, render="always")
    assert bare.shot is None
