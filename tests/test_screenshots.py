"""Pictures of pages: kept with versions, dropped with them, shown beside each other."""

import io
from base64 import b64decode

import pytest
from PIL import Image

from observant.observer.browser import BrowserSettings
from observant.observer.browser.chooser import Box, PagePicture
from observant.observer.browser.steps import StepPicture
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


def png(x):
    image = Image.new("RGB", (160, 96), "white")
    image.paste((0, 0, 0), (x, 40, x + 20, 60))
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def drawn():
    """Two versions of a page that differ in what they look like."""
    with open_store(":memory:") as store:
        store.sources.add([Source(name="a", url="https://a.example/")])
        for k, outcome in enumerate(("first", "changed")):
            store.visits.record(seen(1e9 + k, outcome, png(20 + 80 * k)), snapshot=f"text {k}")
        world = World(store=store, config=Config())
        yield world
        world.collection.cache.close()


def test_what_differs_is_framed(drawn):
    with drawn.browser("viewer") as person:
        page = person.get("/sources/1", params={"look": "differences"}).text
    marks = page.split('class="frames"')[1].split("</svg>")[0]
    assert marks.count("<rect") == 2
    assert "Framed is what is more than" in page


def test_the_api_has_the_pictures_and_where_they_differ(drawn):
    with drawn.client("read") as client:
        new, old = client.get("/api/v1/sources/1/pictures").json()
        assert (new["kind"], old["size"]) == ("screenshot", len(png(20)))
        found = client.get(f"/api/v1/sources/1/pictures/{new['digest']}")
        assert (found.content, found.headers["content-type"]) == (png(100), "image/jpeg")
        told = client.get("/api/v1/sources/1/pictures/diff").json()
        assert (told["old"], told["new"]) == (old["digest"], new["digest"])
        assert len(told["boxes"]) == 2
        assert 0 < told["share"] < 0.5
        assert (told["width"], told["height"]) == (160, 96)
        assert client.get(f"/api/v1/sources/1/pictures/{'0' * 64}").status_code == 404
        for path in ("picture", "steps"):  # these look at the page
            assert client.post(f"/api/v1/sources/1/{path}", json={}).status_code == 403
    with drawn.client() as nobody:
        assert nobody.get("/api/v1/sources/1/pictures").status_code == 401


def test_the_api_takes_a_picture_to_point_at_and_tries_steps(drawn, monkeypatch):
    box = Box(x=1, y=2, width=30, height=9, css="#price", text="49 EUR")
    page = PagePicture(image=JPEG, width=1280, height=200, boxes=(box,), html=b"")
    tried = [StepPicture("dismiss", JPEG), StepPicture("click #more", b"", "it is not there")]
    monkeypatch.setattr(drawn.collection.pictures, "page", lambda _: page)
    asked = []
    monkeypatch.setattr(
        drawn.collection.pictures, "try_steps", lambda *given: asked.append(given) or (tried, "no")
    )
    with drawn.client("write") as client:
        seen = client.post("/api/v1/sources/1/picture").json()
        assert b64decode(seen["image"]) == JPEG
        assert seen["boxes"][0]["css"] == "#price"
        steps = {"steps": ["dismiss", "click #more"]}
        told = client.post("/api/v1/sources/1/steps", json=steps).json()
        assert [one["problem"] for one in told["steps"]] == ["", "it is not there"]
        assert (told["problem"], asked) == ("no", [(1, ("dismiss", "click #more"), ())])
