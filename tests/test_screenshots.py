"""Pictures of pages: kept with versions, dropped with them, shown beside each other."""

import asyncio
import io
import re
import time
from base64 import b64decode

import pytest
from PIL import Image

from observant.observer.browser import BrowserSettings
from observant.observer.browser.chooser import Box, PagePicture
from observant.observer.browser.steps import StepPicture
from observant.observer.config import Config, Notify, SourceSettings
from observant.observer.content import Comparer, Rules, pictures
from observant.observer.events import Standing, events_of
from observant.observer.sources import Surroundings, make_source
from observant.service.api.sources import image
from observant.store import Source, Visit, open_store

from .browser_world import chromium
from .observer_world import Site, transport_to
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
    assert [kept.snapshots.get(v.digest)[-1] for v in versions] == [4, 2, 0]
    (failure,) = kept.snapshots.versions("a", kind="failure")
    assert kept.snapshots.get(failure.digest)[-1] == 3
    assert kept.sources.previous("a").text == "text 4"


def test_pictures_are_dropped_with_old_versions_and_the_latest_stays(kept):
    kept.snapshots.retain(max_versions=2, now=1e9 + 10)
    assert len(kept.snapshots.versions("a", kind="screenshot")) == 2
    kept.snapshots.retain(max_age=0.0, now=1e9 + 100)
    (last,) = kept.snapshots.versions("a", kind="screenshot")
    assert kept.snapshots.get(last.digest) == JPEG + b"\x04"


@pytest.mark.parametrize("outcome", ["failed", "gone"])
def test_the_picture_of_a_failure_never_drops_the_one_that_is_compared_with(kept, outcome):
    for k in range(5, 9):
        kept.visits.record(seen(1e9 + k, outcome, JPEG + bytes([k])))
    kept.snapshots.retain(max_versions=1, now=1e9 + 100)
    (last,) = kept.snapshots.versions("a", kind="screenshot")
    (failure,) = kept.snapshots.versions("a", kind="failure")
    assert [kept.snapshots.get(v.digest)[-1] for v in (last, failure)] == [4, 8]
    world = World(store=kept, config=Config())
    with world.browser("viewer") as person:
        page = person.get("/sources/1").text
        shown = [d for d in (last, failure) if f"shots/{d.digest.hex()}" in page]
        assert shown == ([last, failure] if outcome == "failed" else [last])
        assert person.get(f"/sources/1/shots/{failure.digest.hex()}").content == JPEG + b"\x08"
    world.collection.cache.close()


@pytest.mark.slow
def test_two_pictures_are_shown_in_three_ways(kept):
    world = World(store=kept, config=Config())
    digests = [v.digest.hex() for v in kept.snapshots.versions("a", kind="screenshot")]
    with world.browser("viewer") as person:
        for look, mark in (
            ("side by side", 'class="columns"'),
            ("slider", "data-shots"),
            ("differences", 'class="overlay differences"'),
        ):
            asked = {"look": look, "before_shot": digests[2], "after_shot": digests[0]}
            page = person.get("/sources/1", params=asked).text
            assert mark in page.split('id="pictures"')[1]
            shown = [d for d in digests if f'shots/{d}"' in page]
            assert shown == [digests[0], digests[2]]
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


@pytest.mark.slow
def test_what_differs_is_framed(drawn):
    with drawn.browser("viewer") as person:
        page = person.get("/sources/1", params={"look": "differences"}).text
    marks = page.split('class="frames"')[1].split("</svg>")[0]
    assert marks.count("<rect") == 2
    assert "Framed: what differs by more than" in page


def test_the_api_has_the_pictures_and_where_they_differ(drawn):
    with drawn.client("read") as client:
        new, old = client.get("/api/v1/sources/1/pictures").json()
        assert (new["kind"], old["size"]) == ("screenshot", len(png(20)))
        found = client.get(f"/api/v1/sources/1/pictures/{new['digest']}")
        assert (found.content, found.headers["content-type"]) == (png(100), "image/png")
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


def drawing(kind, colour):
    out = io.BytesIO()
    Image.new("RGB", (48, 32), colour).save(out, kind)
    return out.getvalue()


def visit_image(site, before, body, content_type):
    """One visit without a browser to an address that answers this."""
    site.serve("/image", body, content_type=content_type)

    async def look():
        async with transport_to(site.port) as transport:
            around, comparer = Surroundings(transport, time=time.time), Comparer(Rules())
            url = "http://a.example/image"
            source = make_source("http", "a", url, SourceSettings(), comparer, around)
            return await source.visit(before)

    return asyncio.run(look())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_an_image_is_kept_with_its_versions_and_both_stand_side_by_side(kind):
    bodies = [drawing(kind, colour) for colour in ("white", "red", "red")]
    site = Site()
    with open_store(":memory:") as store:
        store.sources.add([Source(name="a", url="http://a.example/image")])
        for body in bodies:
            known = store.sources.previous("a")
            visit = visit_image(site, known, body, f"image/{kind.lower()}")
            events = events_of(
                store.sources.get("a"),
                visit,
                Standing(),
                Standing(),
                Notify(),
                text_before=known and known.text,
            )
            assert [event.payload["image"] for event in events] == [True] * len(events)
            store.visits.record(visit, outbox=events)
        site.close()
        world = World(store=store, config=Config())
        with world.browser("viewer") as person:
            page = person.get("/sources/1").text.split('id="pictures"')[1]
            assert 'class="columns"' in page
            links = re.findall(r'<img class="shot" src="([^"]+)"', page)
            shown = [person.get(link) for link in links]
            assert [one.content for one in shown] == bodies[:2]
            home = person.get("/").text.split('id="changed"')[1].split("</ul>")[0]
            assert "the image changed" in home
            assert re.findall(r'<img src="([^"]+)"', home) == links
            assert " bytes, " not in home  # nor is a digest offered to be ignored
            for one in shown:
                assert one.headers["content-type"] == f"image/{kind.lower()}"
                assert one.headers["x-content-type-options"] == "nosniff"
                assert one.headers["content-security-policy"] == "default-src 'none'; sandbox"
        with world.client("read") as client:
            told = client.get("/api/v1/sources/1/pictures/diff").json()
            assert (told["share"], told["boxes"]) == (1.0, [[0, 0, 48, 32]])
        world.collection.cache.close()


def test_what_could_act_in_a_browser_is_no_image(monkeypatch):
    site = Site()
    svg = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    assert visit_image(site, None, svg, "image/svg+xml").shot is None
    assert visit_image(site, None, svg, "image/png").shot is None
    assert visit_image(site, None, b"<script>alert(1)</script>", "image/gif").shot is None
    both = b"GIF89a=1;/*<script>*/alert(1)"
    assert visit_image(site, None, both, "text/html").shot == both  # and is served as a GIF
    monkeypatch.setattr(pictures, "_LARGEST_KEPT", len(both) - 1)
    large = visit_image(site, None, both, "image/gif")
    assert (large.shot, large.outcome) == (None, "first")
    site.close()
    assert image(both).media_type == "image/gif"
    assert image(svg).media_type == "application/octet-stream"


def test_images_of_another_size_differ_where_one_has_nothing():
    small, wide = (io.BytesIO(), io.BytesIO())
    Image.new("RGB", (48, 32), "white").save(small, "PNG")
    Image.new("RGB", (96, 32), "white").save(wide, "PNG")
    found = pictures.difference_of_pictures(small.getvalue(), wide.getvalue())
    assert (found.share, found.boxes) == (0.5, ((48, 0, 48, 32),))
