"""The dashboard in a real browser: a day with it, for everybody, and among enemies."""

import hashlib
import hmac
import json
import re
from pathlib import Path

import pytest

from observant.observer.browser.chooser import Box, PagePicture
from observant.observer.config import Config
from observant.observer.synthetic.server import serving
from observant.observer.synthetic.web import DemoWorld
from observant.service.pages.render import PLACES
from observant.store import Source, open_store

from .browser_hostile import PASSWORD, TEXTS, hostile_store
from .browser_scripts import ACCESSIBLE, ALIVE, DOT, FOCUSED, REACHABLE, UNFOLD
from .browser_world import SIZES, Receiver, Visitor, chromium, leap, service, visitor
from .patience import PATIENCE, until
from .service_world import World

pytestmark = pytest.mark.skipif(chromium() is None, reason="there is no Chromium on this machine")

CONFIG = """
budget = "4/s"
allow = ["127.0.0.0/8"]
host_delay = "0s"
[defaults]
min_period = "1s"
"""


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Whatever is asked of another host finds no such host.
        nowhere = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
        found = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", nowhere], timeout=1000 * PATIENCE
        )
        yield found
        found.close()


# -- a day with it ------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_a_day_with_the_dashboard(browser, size, tmp_path):
    world = DemoWorld(pages=16, hosts=4, days=60.0, seed=2)
    with (
        serving(world) as web,
        Receiver() as receiver,
        service(tmp_path, config=CONFIG) as running,
        visitor(browser, running.address, size) as me,
    ):
        ((name, password),) = until(lambda: running.credentials, "the first password")
        _come_in(me, name, password)
        addresses = [f"http://127.0.0.1:{web.port}/page/{page}" for page in range(world.pages)]
        _add_sources(me, addresses)
        secret = _subscribe(me, receiver.url)
        leap(web, 5.0)
        _see_a_change(me)
        _be_told(me, receiver, secret)
        _find_sources(me, world.pages)
        _read_a_difference(me)
        _change_the_budget(me)
        _export_and_import(me, addresses, receiver.url)
        _look_around(me)
        _leave(me)
        assert me.dialogs == ["Apply this plan?"]
        assert len(running.credentials) == 1
        assert running.stop() == 0
    if size == "desktop":
        _start_again(tmp_path)


def _start_again(folder):
    with service(folder, "--no-observer", config=CONFIG) as again:
        assert again.credentials == []  # they were told once


def _come_in(me, name, password):
    page = me.page
    page.goto(me.address)
    assert page.get_by_text("printed once by observant serve").is_visible()
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill("a guess")
    with me.expecting(401):
        page.get_by_label("Password").press("Enter")
        page.get_by_role("alert").filter(has_text="wrong").wait_for()
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Nothing is watched yet").wait_for()


def _add_sources(me, addresses):
    page = me.page
    page.get_by_role("link", name="Add sources").click()
    page.get_by_label("Addresses, one per line").fill(addresses[0])
    page.get_by_label("Title (of a single source)").fill("Harbour news")
    page.get_by_label("Tags", exact=True).fill("news, harbour")
    page.get_by_role("button", name="See what is there").click()
    page.get_by_text("This is a web page").wait_for()
    page.get_by_role("button", name="Watch").click()
    page.get_by_role("heading", name="Harbour news", level=1).wait_for()
    assert page.get_by_role("status").filter(has_text="watched from now on").is_visible()
    me.settled()
    _walk(me, "Sources")
    page.get_by_role("link", name="Add sources").click()
    page.get_by_label("Addresses, one per line").fill("\n".join(addresses))
    page.get_by_label("Importance", exact=True).fill("2")
    page.get_by_role("button", name="Watch without looking").click()
    page.get_by_text(f"{len(addresses)} of {len(addresses)} on this page").wait_for()
    page.get_by_role("link", name="Add sources").click()
    page.get_by_label("Addresses, one per line").fill("file:///etc/passwd")
    with me.expecting(422):
        page.get_by_role("button", name="Watch without looking").click()
        page.get_by_role("alert").wait_for()
    assert page.get_by_label("Addresses, one per line").input_value() == "file:///etc/passwd"

    def all_were_visited():
        page.goto(f"{me.address}/sources?sort=visits")
        return page.locator("tbody tr").first.locator("td").nth(9).inner_text() != "0"

    until(all_were_visited, "a first visit to each source")


def _subscribe(me, hook):
    page = me.page
    _walk(me, "Subscriptions")
    page.get_by_label("Name", exact=True).fill("hook & co")
    page.get_by_label("Channel").fill(hook)
    page.get_by_label("changed", exact=True).check()
    page.get_by_role("button", name="Subscribe").click()
    secret = page.locator("code.secret").inner_text()
    page.goto(f"{me.address}/subscriptions")
    assert page.get_by_role("cell", name="hook & co").is_visible()
    assert secret not in page.content()  # shown once
    return secret


def _see_a_change(me):
    page = me.page

    def is_there():
        page.goto(me.address)
        found = re.search(r"16 sources, \d+ visits, [1-9]\d* changes found", page.content())
        return found and page.locator(".feed .badge.changed").count()

    until(is_there, "a change of the demo world")
    me.settled()
    assert 0 <= float(page.locator("[data-alpha]").inner_text()) <= 100


def _be_told(me, receiver, secret):
    ((event, headers, body), *_) = until(lambda: receiver.events("changed"), "a notification")
    signed = headers["Observant-Timestamp"].encode() + b"." + body
    wanted = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    assert headers["Observant-Signature"] == f"v1={wanted}"
    assert json.loads(body)["subscription"] == "hook & co"
    assert event["url"].startswith("http://127.0.0.1:")

    def is_logged():
        me.page.goto(f"{me.address}/subscriptions?state=sent")
        return me.page.locator("#deliveries .badge.sent").count()

    until(is_logged, "the delivery log")


def _find_sources(me, total):
    page = me.page
    _walk(me, "Sources")
    rows = page.locator("tbody tr")
    assert rows.count() == total
    page.get_by_label("Search name or title").fill("harbour NEWS")
    page.get_by_label("Search name or title").press("Enter")
    page.get_by_text("1 source match").wait_for()
    assert "Harbour news" in rows.inner_text()
    page.get_by_role("link", name="Clear").click()
    page.get_by_label("Tag", exact=True).select_option("harbour")  # sends the form by itself
    page.get_by_text("1 source match").wait_for()
    page.get_by_role("link", name="Clear").click()
    page.get_by_role("columnheader", name="Changes").get_by_role("link").click()
    page.locator("th[aria-sort=descending]", has_text="Changes").wait_for()
    page.get_by_label("Select all on this page").check()
    page.get_by_text(f"{total} selected").wait_for()
    page.get_by_label("With selected sources").select_option("add tag")
    page.get_by_label("Tag or importance").fill("demo")
    page.get_by_role("button", name="Do it").click()
    page.get_by_role("status").filter(has_text="Done.").wait_for()
    page.get_by_label("Tag", exact=True).select_option("demo")
    page.get_by_text(f"{total} sources match").wait_for()


def _read_a_difference(me):
    page = me.page
    page.goto(me.address)
    me.settled()
    change = page.locator(".feed li", has=page.locator(".badge.changed")).first
    change.get_by_role("link").first.click()
    page.get_by_role("heading", name="Versions").wait_for()
    if me.size == "desktop":
        me.settled()  # all figures of a source: their studies take seconds
    diff = page.get_by_role("region", name="Difference between two versions")
    # The first of them may be the day of the week, if the demonstration has passed midnight.
    assert max(len(text) for text in diff.locator("ins").all_inner_texts()) > 3
    assert max(len(text) for text in diff.locator("del").all_inner_texts()) > 3

    def is_planned():  # an observer whose loops are still being compiled has not planned it yet
        page.reload()
        return page.locator(".why").inner_text().startswith("It ")

    until(is_planned, "why it is visited next")
    page.get_by_label("Compare").select_option("lines")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**by=lines**")
    assert diff.locator("ins").count()
    page.get_by_role("button", name="Visit now").click()
    page.get_by_role("status").filter(has_text="visited just now").wait_for()


def _change_the_budget(me):
    page = me.page
    _walk(me, "Plan")
    me.settled()

    def planned(label):
        stat = page.locator(".stat", has=page.get_by_text(label, exact=True))
        return float(stat.locator(".value").inner_text().split()[0])

    planned("α of the plan")
    then = []
    for budget in ("0.1/s", "20/s"):
        page.get_by_label("Budget", exact=True).fill(budget)
        page.get_by_role("button", name="Show").click()
        page.get_by_text("Apply", exact=True).wait_for()
        me.computed()
        now = planned("α as planned now")
        then.append(planned("α then"))
        assert (then[-1] < now) == (budget == "0.1/s"), (then, now)
    page.get_by_role("button", name="Apply").click()
    page.get_by_role("status").filter(has_text="Applied.").wait_for()
    me.computed()
    assert planned("α of the plan") == pytest.approx(then[-1], abs=10)
    _walk(me, "Settings")
    assert page.get_by_label("Budget", exact=True).input_value() == "20/s"


def _export_and_import(me, addresses, hook):
    page = me.page
    documents = []
    for name in ("Export", "Export with secrets"):
        with page.expect_download() as wait:
            page.get_by_role("link", name=name, exact=True).click()
        documents.append(json.loads(Path(wait.value.path()).read_text("utf-8")))
    masked, document = documents
    assert [source["url"] for source in masked["sources"]] == sorted(addresses)
    assert hook not in json.dumps(masked)
    assert document["subscriptions"][0]["channel"] == hook
    document["sources"].append(document["sources"][0] | {"url": addresses[0] + "?more", "name": ""})
    file = {
        "name": "o.json",
        "mimeType": "application/json",
        "buffer": json.dumps(document).encode(),
    }
    page.get_by_label("Import an exported file").set_input_files(file)
    page.get_by_role("button", name="Import", exact=True).click()
    page.get_by_role("status").filter(has_text="Imported.").wait_for()
    page.goto(f"{me.address}/sources")
    assert f"{len(addresses) + 1} sources" in page.locator(".head .lead").inner_text()


def _look_around(me):
    """Every page is drawn in the light and in the dark, and none is wider than the screen."""
    places = ["/", "/sources", "/plan"]
    if me.size == "desktop":
        places = [*(place.path for place in PLACES), "/sources/1"]
    for place in places:
        page = me.go(place)
        for scheme in ("dark", "light"):
            page.emulate_media(color_scheme=scheme)
            me.settled()
        assert page.evaluate("document.scrollingElement.scrollWidth") <= me.width, place


def _leave(me):
    me.page.get_by_role("button", name="Sign out").click()
    me.page.wait_for_url("**/login**")
    me.page.goto(f"{me.address}/sources")
    assert me.page.get_by_role("button", name="Sign in").is_visible()


def _walk(me, place):
    me.page.get_by_role("navigation", name="Pages").get_by_role("link", name=place).click()
    me.page.locator("nav [aria-current=page]", has_text=place).wait_for()


# -- for everybody --------------------------------------------------------------------------------

PAGES = [
    *(place.path for place in PLACES),
    "/sources/1",  # everything at once
    "/sources/1/edit",
    "/sources/14/edit",
    "/sources/1/steps",
    "/sources/8",  # it fails
    "/sources/14",  # its address is hostile
    "/reference",
    "/add?urls=https%3A%2F%2Fa.example%2F",
    "/subscriptions/1",
    "/events?topic=changed",
    "/sources?search=%3Cscript%3E&tag=news",
    "/plan?budget=500/day&grace=6h",
]


@pytest.fixture(scope="module")
def among_enemies(tmp_path_factory):
    """The service over a store in which everything that strangers can set is hostile."""
    folder = tmp_path_factory.mktemp("enemies")
    hostile_store(folder / "watch.db")
    with service(folder, "--no-observer") as running:
        yield running


@pytest.fixture(scope="module")
def signed_in(browser, among_enemies):
    """The cookies of somebody who has signed in: once for all tests."""
    with visitor(browser, among_enemies.address) as me:
        me.sign_in("owner", PASSWORD)
        yield me.context.storage_state()


@pytest.fixture
def come(browser, among_enemies, signed_in):
    """Somebody who has signed in, with a screen of this size."""

    def made(size="desktop"):
        return visitor(browser, among_enemies.address, size, state=signed_in)

    return made


def _chooser():
    """The page on which one points at what is to be watched, with two things to point at."""
    boxes = [
        Box(x=9, y=40 * k, width=300, height=30, css=f"#p{k}", text=f"part {k}") for k in (1, 2)
    ]
    with open_store(":memory:") as store:
        store.sources.add([Source(name="a", url="http://a.example/")])
        world = World(store=store, config=Config())
        taken = PagePicture(image=b"GIF89a", width=1280, height=200, boxes=tuple(boxes), html=b"")
        world.collection.pictures.page = lambda _source: taken
        with world.browser("owner") as person:
            shown = person.get("/sources/1/choose").text
        world.collection.cache.close()
    return {"body": shown, "content_type": "text/html"}


@pytest.mark.parametrize("size", SIZES)
def test_everybody_can_use_every_page(come, browser, among_enemies, size):
    problems, chooser = [], _chooser()

    def look(me, path):
        page = me.go(path)
        assert page.evaluate(ALIVE) == [], path  # what strangers write stays text
        assert page.title().endswith("observant"), path
        page.evaluate(UNFOLD)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found = page.evaluate(ACCESSIBLE, {"width": me.width})
            problems.extend(f"{path} in {scheme}: {problem}" for problem in found)
        me.settled()  # figures are drawn anew for the dark

    with come(size) as me:
        for path in PAGES:
            look(me, path)
        assert me.dialogs == []
        for path, status in (("/no/such/page", 404), ("/sources/1/choose", 422)):
            with me.expecting(status):  # there is no picture to point at, and the page says so
                look(me, path)
        me.page.route("**/sources/1/choose", lambda asked: asked.fulfill(**chooser))
        me.page.route("**/sources/1/picture", lambda asked: asked.fulfill(body=b"GIF89a"))
        look(me, "/sources/1/choose")
        assert me.page.locator("svg a").count() == 2
    with visitor(browser, among_enemies.address, size) as stranger:
        look(stranger, "/login")
        assert stranger.page.get_by_role("button", name="Sign in").is_visible()
    assert not problems, "\n".join(problems)


def test_alpha_follows_the_grace(come):
    with come() as me:
        page = me.go("/")
        alpha, grace = page.locator("[data-alpha]"), page.locator("output[data-grace]")
        found, said = [float(alpha.inner_text())], [grace.inner_text()]
        for _ in range(3):
            page.get_by_label("Grace β").press("PageUp")  # a tenth of the way
            found.append(float(alpha.inner_text()))
            said.append(grace.inner_text())
        assert found == sorted(set(found)), (found, said)
        assert len(set(said)) == 4
        assert page.get_by_label("Grace β").get_attribute("aria-valuetext") == f"grace {said[-1]}"


def test_the_keyboard_is_enough(come):
    with come() as me:
        page = me.go("/")
        stops = []
        while not stops or stops[-1] != PLACES[-1].name:
            page.keyboard.press("Tab")
            stops.append(page.evaluate(FOCUSED)["text"])
            assert page.evaluate(FOCUSED)["ring"] >= 2, stops
            assert len(stops) < 20
        assert stops == ["Skip to the content", "observant", *(place.name for place in PLACES)]
        for _ in range(len(PLACES) - 2):
            page.keyboard.press("Shift+Tab")
        page.keyboard.press("Enter")
        page.wait_for_url("**/sources")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # skips the navigation
        assert page.evaluate("document.activeElement.id") == "main"
        page.keyboard.press("Tab")
        assert page.evaluate(FOCUSED)["text"] == "Add sources"
        me.settled()


def test_the_keyboard_never_gets_stuck(come):
    with come("phone") as me:
        for path in ("/sources", "/settings"):
            page = me.go(path)
            page.evaluate(UNFOLD)
            wanted = page.evaluate(REACHABLE)
            reached = set()
            while len(reached) < 2 * len(wanted):
                page.keyboard.press("Tab")
                focused = page.evaluate(FOCUSED)
                if focused["nothing"]:  # the end of the page
                    break
                reached.add(focused["place"])
                assert focused["ring"] >= 2, (path, focused)
                assert focused["inside"], (path, focused)
            assert set(wanted) <= reached, path


# -- among enemies --------------------------------------------------------------------------------


def test_what_strangers_write_stays_text(come):
    with come() as me:
        page = me.go("/sources?tag=news")  # that nothing is alive is seen above, on every page
        shown = page.locator("td.source .title").all_inner_texts()
        for text in TEXTS[:-2]:
            assert text in shown  # letter for letter
        page = me.go("/sources/1")
        assert TEXTS[0] in page.locator(".diff").inner_text()
        assert TEXTS[0] in page.locator("h1").inner_text()
        assert me.dialogs == []


def test_what_a_figure_tells_of_strangers_stays_text(come):
    """Vega and its tooltips are code of others: they get hostile names, too."""
    with come() as me:
        page = me.go("/plan")
        figure = page.locator("figure[data-chart*='/plan.json']")
        figure.scroll_into_view_if_needed()
        x, y = figure.evaluate(DOT)
        box = (
            figure.bounding_box()
        )  # its picture is inside it: no rule of ours reaches Vega's marks
        assert y < box["y"] + box["height"]
        page.mouse.move(x - 30, y)
        page.mouse.move(x, y, steps=5)
        tooltip = page.locator("#vg-tooltip-element.visible")
        tooltip.wait_for()
        assert "<script>window.hurt='name'</script>" in tooltip.inner_text()
        assert page.evaluate(ALIVE) == []
        for path in ("/charts/plan.svg", "/charts/timeline.svg?source=1", "/feeds/changes.atom"):
            page.goto(f"{me.address}{path}")
            # Pictures bring styles of their own, which the policy refuses in a page: no matter.
            me.wrong = [one for one in me.wrong if "executed" in one]
        assert me.dialogs == []


def test_a_version_is_never_a_page_of_ours(come):
    with come() as me:
        page = me.go("/sources/1")
        digest = page.locator("#new option").first.get_attribute("value")
        with page.expect_download() as wait:
            page.evaluate(
                "(address) => { location = address; }",
                f"{me.address}/api/v1/sources/1/versions/{digest}",
            )
        assert TEXTS[0] in Path(wait.value.path()).read_text("utf-8")
        assert page.url == f"{me.address}/sources/1"


def test_the_policy_holds_and_the_alarm_works(browser, among_enemies, signed_in):
    """What would have to happen for the tests above to fail."""
    me = Visitor(browser, among_enemies.address, state=signed_in)
    try:
        me.page.goto(f"{me.address}/status")
        me.page.evaluate(
            """() => {
              document.body.insertAdjacentHTML("beforeend", "<img src=data:, onerror='hurt = 1'>");
              const script = document.createElement("script");
              script.textContent = "window.hurt = 2";
              document.body.append(script);
              return fetch("http://evil.example/").catch(() => null);
            }"""
        )
        for wanted in ("policy: script-src-attr", "policy: script-src-elem", "policy: connect-src"):
            _hear(me, wanted)
        assert "executed" not in " ".join(me.wrong)
        me.page.evaluate("window.hurt = 3")
        _hear(me, "executed: 3")
    finally:
        me.close()


def _hear(me, words):
    def heard():
        me.page.evaluate("1")  # events come while the browser is asked for something
        return any(words in one for one in me.wrong)

    until(heard, words)
