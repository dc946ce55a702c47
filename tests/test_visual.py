"""Changes of how a page looks: seen in pictures, whatever its text says."""

import asyncio
import io
import struct
import zlib

import numpy as np
import pytest
from benchmarks.rendering import after
from benchmarks.visual import PAGE, SEEN, USUAL
from PIL import Image

from observant.errors import InputError, UnreadableError
from observant.observer.config import Config, SourceSettings
from observant.observer.content import Rules
from observant.observer.content.pictures import difference_of_pictures
from observant.service.collection.entries import NewSource, checked

from .browser_world import chromium
from .rendering_world import source_of

browser = pytest.mark.skipif(chromium() is None, reason="there is no Chromium on this machine")


def picture(draw, size=(200, 120)):
    image = Image.new("RGB", size, "white")
    draw(image)
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def square(x, y, side=20):
    return picture(lambda image: image.paste((0, 0, 0), (x, y, x + side, y + side)))


def looks(site, world, name, cases, before=None):
    """What is found of pages that differ from the usual one, each by its rules."""

    async def look(number, more, rules):
        path = f"/{name}{number}"
        site.serve(path, PAGE.format(**USUAL | more))
        made = source_of(world, f"http://{name}{number}.example{path}", rules, {})
        return await made.visit(before)

    async def everything():
        return await asyncio.gather(*(look(k, *case) for k, case in enumerate(cases)))

    return world.run(everything())


@pytest.mark.slow
@browser
def test_a_shift_and_another_anti_aliasing_are_no_change_and_a_digit_is(pages, rendering):
    rules = Rules(change="visual")
    (first,) = looks(pages, rendering, "usual", [({}, rules)])
    assert (first.outcome, first.shot[:2]) == ("first", b"\xff\xd8")
    expected = [(outcome, more) for outcome, some in SEEN.items() for more in some]
    cases = [(more, rules) for _, more in expected]
    cases.append(({"price": "49.80"}, Rules(change="visual", threshold=0.5)))
    found = looks(pages, rendering, "look", cases, after(None, first))
    for (outcome, more), visit in zip(expected, found[:-1], strict=True):
        assert visit.outcome == outcome, (more, visit.comparison.reason)
        assert (visit.magnitude > 0) == (outcome == "changed")
        if outcome == "changed":
            assert "of the picture changed" in visit.comparison.reason
    assert found[-1].outcome == "same"
    assert "too little to count" in found[-1].comparison.reason


@pytest.mark.slow
@browser
@pytest.mark.parametrize("mask", ["#clock", "0 250 1280 400"])
def test_what_is_masked_does_not_count(pages, rendering, mask):
    rules, name = Rules(change="visual", masks=(mask,)), f"mask{len(mask)}x"
    (first,) = looks(pages, rendering, name, [({}, rules)])
    edits = ({"clock": "13:45"}, {"clock": "13:45", "price": "55.00"})
    found = looks(pages, rendering, name, [(e, rules) for e in edits], after(None, first))
    assert [visit.outcome for visit in found] == ["same", "changed"]


def test_where_pictures_differ_is_told_in_boxes():
    found = difference_of_pictures(square(40, 40), square(120, 40))
    assert 0.02 < found.share < 0.2
    assert [box[2] >= 20 for box in found.boxes] == [True, True]
    assert {box[0] // 16 for box in found.boxes} == {2, 7}
    masked = [(32, 32, 48, 48), (112, 32, 48, 48)]
    assert difference_of_pictures(square(40, 40), square(120, 40), masked).share == 0


@pytest.mark.parametrize(
    ("shift", "tolerance", "changed"), [(2, 2, False), (4, 2, True), (2, 0, True)]
)
def test_a_part_may_have_moved_as_far_as_it_is_tolerated(shift, tolerance, changed):
    found = difference_of_pictures(square(40, 40), square(40 + shift, 40), tolerance=tolerance)
    assert (found.share > 0) == changed


def test_a_page_that_has_grown_has_changed():
    short, tall = (picture(lambda _: None, (200, height)) for height in (120, 200))
    assert difference_of_pictures(short, tall).share > 0.3


def test_noise_of_compression_is_no_change():
    rng = np.random.default_rng(1)
    photo = Image.fromarray(rng.integers(0, 256, (30, 40, 3), np.uint8)).resize((400, 300))
    made = []
    for quality in (90, 85):
        out = io.BytesIO()
        photo.save(out, "JPEG", quality=quality)
        made.append(out.getvalue())
    assert difference_of_pictures(*made).share == 0


def test_a_picture_is_not_unpacked_beyond_its_bounds():
    head = b"IHDR" + struct.pack(">IIBBBBB", 20_000, 20_000, 8, 2, 0, 0, 0)
    parts = (head, b"IDAT" + zlib.compress(bytes(9)))
    bomb = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part))
        for part in parts
    )
    with pytest.raises(UnreadableError, match="pixels"):
        difference_of_pictures(bomb, bomb)
    for broken in (b"", b"\x89PNG\r\n\x1a\n", square(1, 1)[:90], b"GIF89a"):
        with pytest.raises(UnreadableError, match="cannot be read"):
            difference_of_pictures(broken, broken)


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ({"masks": ["#a["]}, "masks"),
        ({"masks": ["0 0 0 9"]}, "empty"),
        ({"tolerance": 9}, "tolerance"),
        ({"threshold": 2}, "threshold"),
    ],
)
def test_settings_of_pictures_are_checked(rules, says):
    with pytest.raises(InputError, match=says):
        Rules(change="visual", **rules)


def test_pictures_need_a_browser():
    with pytest.raises(InputError, match="never"):
        SourceSettings(render="never", compare={"change": "visual"})
    assert SourceSettings(compare={"change": "visual"}).needs_browser


@pytest.mark.parametrize("kind", ["feed", "sitemap", "query"])
def test_only_pages_have_pictures_to_compare(kind):
    looks = {"compare": {"change": "visual"}}
    for one in ("http", "product"):
        assert Config().settings_of((), looks, "a", kind=one).needs_browser
    with pytest.raises(InputError, match=f"a {kind} has none"):
        Config().settings_of((), looks, "a", kind=kind)
    with pytest.raises(InputError, match=f"a {kind} has none"):
        checked(NewSource(url="https://a.example/f", kind=kind, settings=looks), Config())


def test_other_rules_keep_their_version():
    assert Rules(masks=("p",)).version == Rules().version
    assert Rules(change="visual", masks=("p",)).version != Rules(change="visual").version
