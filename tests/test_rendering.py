"""Pages in a real Chromium: what is read of them, what they may not do, what they cost."""

import asyncio
import contextlib
import os
import re
import signal
import threading

import pytest

from observant.errors import InputError
from observant.observer import Config, Observer
from observant.observer.browser.chooser import Camera, nearest
from observant.observer.browser.need import BrowserNeed
from observant.observer.browser.settings import BrowserSettings, missing, unsandboxed
from observant.observer.config import load_config
from observant.observer.content import Rules
from observant.observer.content.selection import select
from observant.observer.transport import Guard, Limits
from observant.store import Source, Visit, open_store

from .browser_world import chromium
from .observer_world import transport_to
from .patience import until
from .rendering_world import (
    PRIVATE,
    WAYS_OUT,
    PrivateServer,
    RenderingWorld,
    attack_page,
    visits_of,
)
from .service_world import World

pytestmark = pytest.mark.skipif(chromium() is None, reason="there is no Chromium on this machine")


def shell(text, more=""):
    """A page that is empty until its script has run."""
    words = f"document.getElementById('app').innerHTML = `<main>{text}</main>`"
    return f"<html><body><div id=app></div>{more}<script>{words}</script></body></html>"


@pytest.fixture
def site(pages):
    return pages


@pytest.fixture
def world(rendering):
    return rendering


# -- what is read ---------------------------------------------------------------------------------


def test_a_document_is_read_as_it_stands_with_shadow_roots_and_frames(site, world):
    site.serve("/inner", "<p>of another site</p>")
    site.serve("/own", "<p>of the same site</p>")
    parts = """<h1>Heading & more</h1><noscript>enable it</noscript><style>p {}</style>
<iframe src="/own"></iframe><iframe src="http://b.example/inner"></iframe>
<script type="application/ld+json">{"price": 7}</script><x-box>slotted</x-box><script>
const root = document.querySelector("x-box").attachShadow({mode: "open"});
root.innerHTML = "<b>before </b><slot></slot>";
Array.prototype.join = String.prototype.replace = () => "the page says what is read of it";
</script>"""
    site.serve("/whole", parts)
    seen = world.look("http://a.example/whole")
    assert (seen.status, seen.error, seen.charset) == (200, None, "utf-8")
    text = seen.body.decode()
    for piece in ("Heading &amp; more", "<b>before </b><slot>slotted</slot>", '{"price": 7}'):
        assert piece in text
    assert text.count("of another site") == text.count("of the same site") == 1
    for gone in ("enable it", "p {}", "attachShadow", "the page says"):
        assert gone not in text
    assert seen.cpu > 0
    assert seen.wire_bytes > 300


def test_nothing_survives_from_one_page_to_the_next(site, world):
    keep = "document.cookie = 'a=b'; localStorage.setItem('a', 'b')"
    site.serve("/keep", f"<p>kept</p><script>{keep}</script>")
    site.serve("/kept", shell("cookies ${document.cookie} ${localStorage.length}"))
    world.look("http://a.example/keep")
    assert b"cookies  0" in world.look("http://a.example/kept").body


def test_headers_of_a_source_go_to_its_own_origin_and_nowhere_else(site, world):
    site.serve("/mine", "<p>mine</p><img src='http://other.example/their.png'>")
    site.pages["/away"] = lambda _: (302, {"Location": "http://other.example/there"}, b"")
    site.serve("/there", "<p>there</p>")
    given = {"headers": [("X-Key", "secret")]}
    assert world.look("http://a.example/mine", **given).ok
    moved = world.look("http://a.example/away", **given)
    assert (moved.final_url, moved.redirects) == (
        "http://other.example/there",
        ("http://a.example/away",),
    )
    assert [h.get("x-key") for h in site.requests("/mine") + site.requests("/away")] == [
        "secret"
    ] * 2
    assert all("x-key" not in h for h in site.requests("/their.png") + site.requests("/there"))


def test_robots_txt_is_obeyed_where_a_page_leads_too(site, world):
    site.serve("/robots.txt", "User-agent: *\nDisallow: /closed", content_type="text/plain")
    site.pages["/leads"] = lambda _: (302, {"Location": "/closed"}, b"")
    site.serve("/closed", "<p>closed</p>")
    before = len(site.requests("/closed"))
    assert world.look("http://robots.example/closed").error == "robots"
    assert len(site.requests("/closed")) == before  # it was not even asked for
    assert world.look("http://robots.example/leads").error == "robots"


# -- the guard ------------------------------------------------------------------------------------


@pytest.fixture
def private():
    made = PrivateServer()
    yield made
    made.close()


def attack(site, private, world):
    site.serve("/attack", attack_page(private))
    for path in list(site.pages):
        if path.startswith("/to?"):
            del site.pages[path]
    for name in ("redirected-image", "redirected-frame", "redirected-fetch"):
        to = f"http://{private.address}/{name}"
        site.pages[f"/to?{to}"] = lambda _, to=to: (302, {"Location": to}, b"")
    return world.look("http://a.example/attack")


def test_no_way_out_of_a_page_leads_to_a_private_address(site, private):
    """Once where all is refused; and once where it is not, to see that the attacks are real."""
    asked = []

    def rebinding(host):  # the second answer is another
        if host != "rebind.example":
            return None
        asked.append(host)
        return ("127.0.0.1", site.port) if len(asked) == 1 else (PRIVATE, private.port)

    world = RenderingWorld(site, locate=rebinding)
    try:
        seen = attack(site, private, world)
        assert private.seen == []
        assert b"harmless" in seen.body
        assert b"SECRET" not in seen.body
        assert b"root:" not in seen.body
        assert len(asked) > 1
        site.pages["/redirect"] = lambda _: (302, {"Location": f"http://{private.address}/"}, b"")
        refused = world.look("http://a.example/redirect")
        assert (refused.error, refused.body) == ("refused-address", b"")
        assert world.look(f"http://{private.address}/").error == "refused-address"
        for script in ("location = '{0}/moved'", "open('{0}/opened', '_self')"):
            there = script.format(f"http://{private.address}")
            site.serve("/moves", f"<p>here</p><script>{there}</script>")
            assert world.look("http://a.example/moves").body.find(b"SECRET") == -1
        assert private.seen == []

        world.transport.guard = Guard(allow=["127.0.0.0/8"])
        attack(site, private, world)
        until(lambda: {*private.seen} >= WAYS_OUT, lambda: WAYS_OUT - {*private.seen})
        assert "a packet" not in private.seen
    finally:
        world.close()


def test_a_page_has_its_bounds(site):
    world = RenderingWorld(site, requests=20, bytes=200_000, settle=1)
    try:
        site.serve("/hang", "<p>x</p><script>for (;;) {}</script>")
        hurry = Limits(total=1.5)
        assert world.look("http://a.example/hang", limits=hurry).error == "timeout"
        many = "for (let i = 0; i < 40; i++) new Image().src = '/none?' + i"
        site.serve("/many", f"<p>x</p><script>{many}</script>")
        assert world.look("http://a.example/many").error == "too-large"
        site.serve("/big.css", b" " * 400_000, content_type="text/css")
        site.serve("/big", "<link rel=stylesheet href=/big.css><p>x</p>")
        assert world.look("http://a.example/big").error == "too-large"
        grow = "const p = document.createElement('p'); p.textContent = 'x'.repeat(2e6)"
        site.serve("/long", f"<p>x</p><script>{grow}; document.body.append(p)</script>")
        short = Limits(body=1_000_000)
        assert world.look("http://a.example/long", limits=short).error == "too-large"
        site.serve("/well", "<p>well</p>")
        assert b"well" in world.look("http://a.example/well").body
        assert world.browser.started == 1
    finally:
        world.close()


# -- only where it makes a difference -------------------------------------------------------------


def plain(k, more=""):
    words = " ".join(f"word{k}x{i}" for i in range(60))
    clock = "document.getElementById('t').textContent = new Date().toISOString()"
    script = f"<span id=t></span><script>{clock}</script>" if k % 2 else ""
    return f"<html><body><main>{words} {more}</main>{script}</body></html>"


def test_auto_renders_what_needs_it_and_nothing_else(site, world):
    """Of plain pages, those without scripts never see a browser, and the others only to compare."""
    site.serve("/shell", shell("all of this is made by a script"))
    site.serve("/priced", "<p>Price: <b id=p></b></p><script>p.textContent = '49 EUR'</script>")
    looks = {}
    for k in (0, 1):
        site.serve(f"/plain{k}", plain(k), etag='"1"')
        seen, before = visits_of(world, f"http://a.example/plain{k}", 10)
        need = BrowserNeed.of(before)
        looks[k] = need.looks
        assert [v.outcome for v in seen] == ["first"] + ["same"] * 9
        assert need.way("auto", possible=True) == "plain"
        assert not need.is_rendered(before)
    assert looks == {0: 0, 1: 3}  # at visits 1, 2 and 6
    for name, rules in (("shell", None), ("priced", Rules(css="#p"))):
        (visit, *_), before = visits_of(world, f"http://a.example/{name}", 1, rules=rules)
        assert visit.outcome == "first"
        assert BrowserNeed.of(before).needed
        assert BrowserNeed.is_rendered(before)
        assert BrowserNeed.of(before).cpu > 0
    assert "made by a script" in visits_of(world, "http://a.example/shell", 1)[1].text


def test_a_page_that_becomes_a_shell_is_rendered_and_that_is_no_change(site, world):
    site.serve("/moving", plain(2, "the end"))
    _, before = visits_of(world, "http://a.example/moving", 1)
    site.serve("/moving", shell(plain(2, "the end").partition("<main>")[2].partition("</main>")[0]))
    seen, before = visits_of(world, "http://a.example/moving", 2, before)
    assert BrowserNeed.is_rendered(before)
    assert seen[-1].outcome == "same"


def test_a_shell_without_a_browser_is_known_for_one(site, world):
    site.serve("/empty", shell("nobody sees this without a browser"))
    _, before = visits_of(world, "http://a.example/empty", 1, render="never")
    assert BrowserNeed.of(before).shell
    site.serve("/short", "<p>Closed today</p>")
    _, before = visits_of(world, "http://a.example/short", 1, render="never")
    assert not BrowserNeed.of(before).shell


def test_pages_are_read_without_a_browser_that_does_not_start(site, tmp_path):
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    world = RenderingWorld(site, executable=str(broken))
    try:
        site.serve("/scripted", plain(1))
        seen, before = visits_of(world, "http://a.example/scripted", 2)
        assert [visit.outcome for visit in seen] == ["first", "same"]
        assert BrowserNeed.of(before).needed is None
        with pytest.raises(InputError, match="does not start"):
            visits_of(world, "http://a.example/scripted", 1, render="always")
    finally:
        world.close()


def test_a_rendered_page_is_compared_like_any_other(site, world):
    site.serve("/news", shell("<p>one two three</p>"))
    url, always = "http://a.example/news", {"render": "always"}
    seen, before = visits_of(world, url, 2, **always)
    site.serve("/news", shell("<p>one two four</p>"))
    (changed,), before = visits_of(world, url, 1, before, **always)
    assert [v.outcome for v in seen] + [changed.outcome] == ["first", "same", "changed"]
    assert changed.validators is None
    assert before.text == "one two four"


# -- choosing by pointing -------------------------------------------------------------------------

SHOP = """<html><body><header><h1>Lamps</h1></header><main class="css-1ab2c3"><div class="card">
<p class="name">Desk lamp</p><b class="sc-bdVaJa price">49 EUR</b></div><div class="card"><p>Other
lamp</p><b id="x9f8e7d6c">59 EUR</b></div><ul><li>one</li><li>two</li></ul></main></body></html>"""


def test_every_box_has_a_selector_that_finds_it_and_nothing_else(site, world):
    site.serve("/shop", SHOP + "<script>document.title = 'x'</script>")
    taken = world.run(Camera(world.browser).take(world.transport, "http://a.example/shop"))
    assert taken.image[:2] == b"\xff\xd8"
    assert len(taken.boxes) >= 8
    for box in taken.boxes:
        seen = select(taken.html, "html", "utf-8", Rules(css=box.css))
        assert " ".join(seen.lines).split() == box.text.split(), box.css
        assert "css-" not in box.css
        assert "x9f" not in box.css
    found = {box.text: box.css for box in taken.boxes}
    assert found["49 EUR"] == "b.price"
    assert found["59 EUR"] == "main > div:nth-of-type(2) > b"
    assert found["two"] == "ul > li:nth-of-type(2)"
    assert nearest(taken.boxes, "Desk lamp").css == "p.name"


def test_a_part_is_chosen_by_pointing_in_the_dashboard(site, tmp_path):
    site.serve("/shop", SHOP)
    with open_store(str(tmp_path / "w.db")) as store:
        url = f"http://127.0.0.1:{site.port}/shop"
        config = {"compare": {"css": "#gone"}, "robots": False}
        store.sources.add([Source(name=url, url=url, config=config)])
        for k, text in enumerate(("45 EUR on Monday", "49 EUR on Monday", "49 EUR on Tuesday")):
            outcome = "changed" if k else "first"
            seen = Visit(source=url, started_at=1e9 + k, ended_at=1e9 + k, outcome=outcome)
            store.visits.record(seen, snapshot=text)
        world = World(store=store, config=Config(allow=("127.0.0.0/8",)))
        with world.browser("editor") as client:
            first = client.get("/sources/1/choose")
            assert first.status_code == 200
            assert "#gone" in first.text
            assert "The closest match is" in first.text  # by the text of before
            assert "<code>b.price</code></a>" in first.text
            link = re.search(r'href="(/sources/1/choose\?css=b.price)"', first.text)[1]
            picked = client.get(link)
            assert "49 EUR</pre>" in picked.text
            assert 'class="chosen"' in picked.text
            assert "49 EUR on Tuesday</pre>" in picked.text  # what was taken until now
            assert "would have counted as a change of this part: 1 of 2" in picked.text
            image = client.get("/sources/1/picture")
            assert image.headers["content-type"] == "image/jpeg"
            assert image.content[:2] == b"\xff\xd8"
            assert client.post("/sources/1/choose", data={"css": "b.price"}).status_code == 200
            assert "Choose by pointing" in client.get("/sources/1").text
        world.collection.cache.close()
        assert store.sources.get(url).config["compare"] == {"css": "b.price"}


# -- the browser itself ---------------------------------------------------------------------------


def test_a_browser_that_is_killed_or_hangs_is_replaced_and_no_page_is_lost(site, world):
    site.serve("/alive", shell("alive"))
    assert b"alive" in world.look("http://a.example/alive").body
    for pid in world.browser.tree.usage().pids:
        with contextlib.suppress(ProcessLookupError):  # it went with the one before
            os.kill(pid, signal.SIGKILL)
    assert b"alive" in world.look("http://a.example/alive").body


def test_no_visit_is_lost_or_doubled_while_the_browser_is_killed(site, tmp_path):
    number = int(os.environ.get("OBSERVANT_TEST_VISITS", "6"))
    done, killed, over = [], [], threading.Event()
    config = Config(budget="1000/s", host_delay=0, spot_checks=0, browser=BrowserSettings(pages=3))
    with open_store(str(tmp_path / "w.db")) as store:
        for k in range(number):
            site.serve(f"/page{k}", shell(f"page number {k}"))
            url = f"http://host{k}.example/page{k}"
            config_of = {"render": "always", "min_period": "1d"}
            store.sources.add([Source(name=url, url=url, config=config_of)])

        async def watch():
            transport = transport_to(site.port)
            observer = Observer(store, config, transport=transport)
            killer.start()
            browsers.append(observer)
            await observer.run(visits=number, on_visit=done.append)
            await transport.close()

        def kill():
            """End the browser after every third visit, when it is at work on the next ones."""
            while not over.wait(0.1):
                browser = browsers[0].connections.browser if browsers else None
                if browser and browser.tree and len(done) >= 3 * len(killed):
                    killed.extend(browser.tree.usage().pids[:1])
                    browser.tree.kill()

        browsers, killer = [], threading.Thread(target=kill)
        try:
            asyncio.run(watch())
        finally:
            over.set()
            killer.join()
        assert len(store.visits.log().time) == number
    assert len({visit.source for visit in done}) == len(done) == number
    assert {visit.outcome for visit in done} == {"first"}
    assert killed


def test_what_is_missing_is_said_with_the_line_that_installs_it(tmp_path, monkeypatch):
    assert missing(BrowserSettings()) == ""
    assert "there is no browser at" in missing(BrowserSettings(executable=str(tmp_path / "none")))
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    assert "apt-get install chromium" in missing(BrowserSettings())
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert missing(BrowserSettings()).endswith("pip install 'observant[browser]'")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert "root" in unsandboxed(BrowserSettings())


def test_settings_of_the_browser_are_checked(tmp_path):
    file = tmp_path / "observant.toml"
    file.write_text('[browser]\npages = 0\n[defaults]\nrender = "always"\n')
    with pytest.raises(Exception, match="browser: pages"):
        load_config(str(file))
    file.write_text('[defaults]\nrender = "sometimes"\n')
    with pytest.raises(Exception, match="auto, never, always"):
        load_config(str(file))
