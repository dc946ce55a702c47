"""The dashboard in a real browser: a day with it, for everybody, and among enemies."""

import hashlib
import hmac
import json
import re
from pathlib import Path

import pytest

from observant.observer.synthetic.serving import serving
from observant.observer.synthetic.world import DemoWorld
from observant.service.pages.rendering import PLACES

from .browser_hostile import TEXTS, hostile_store
from .browser_world import SIZES, Receiver, chromium, leap, service, until, visitor

pytestmark = pytest.mark.skipif(chromium() is None, reason="there is no Chromium on this machine")

ACCESSIBLE = (Path(__file__).parent / "browser_accessibility.js").read_text("utf-8")
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
            executable_path=chromium(), args=["--no-sandbox", nowhere], timeout=120_000
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
        ((name, password),) = running.credentials
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
        _export_and_import(me, addresses)
        _look_around(me, tmp_path)
        _leave(me)
        assert me.dialogs == ["Apply this plan?"]
        assert len(running.credentials) == 1
        assert running.stop() == 0
    with service(tmp_path, "--no-observer", config=CONFIG) as again:
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
    page.get_by_label("Addresses, one on each line").fill(addresses[0])
    page.get_by_label("Title (of a single source)").fill("Harbour news")
    page.get_by_label("Tags", exact=True).fill("news, harbour")
    page.get_by_role("button", name="Watch").click()
    page.get_by_role("heading", name="Harbour news", level=1).wait_for()
    assert page.get_by_role("status").filter(has_text="watched from now on").is_visible()
    me.settled()
    _walk(me, "Sources")
    page.get_by_label("Addresses, one on each line").fill("\n".join(addresses))
    page.get_by_label("Importance", exact=True).fill("2")
    page.get_by_role("button", name="Watch").click()
    page.get_by_text(f"{len(addresses)} of {len(addresses)} on this page").wait_for()
    page.get_by_label("Addresses, one on each line").fill("file:///etc/passwd")
    with me.expecting(422):
        page.get_by_role("button", name="Watch").click()
        page.get_by_role("alert").wait_for()
    assert page.get_by_label("Addresses, one on each line").input_value() == "file:///etc/passwd"

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
    alpha, grace = page.locator("[data-alpha]"), page.locator("output[data-grace]")

    def is_there():
        page.goto(me.address)
        found = re.search(r"16 sources, \d+ visits, [1-9]\d* changes found", page.content())
        listed = page.locator(".feed .badge.changed").count()
        return found and listed and grace.count() and float(alpha.inner_text()) < 99

    until(is_there, "a change of the demo world")
    me.settled()
    before = float(alpha.inner_text()), grace.inner_text()
    page.get_by_label("Grace β").press("End")
    until(lambda: grace.inner_text() != before[1], "the slider to move")
    assert before[0] < float(alpha.inner_text()) <= 100


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
    page.get_by_role("columnheader", name="Rate").get_by_role("link").click()
    page.locator("th[aria-sort=descending]", has_text="Rate").wait_for()
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
    page.locator(".feed li", has=page.locator(".badge.changed")).first.get_by_role("link").click()
    page.get_by_role("heading", name="Versions").wait_for()
    me.settled()
    diff = page.get_by_role("region", name="Difference between two versions")
    assert len(diff.locator("ins").first.inner_text()) > 3
    assert len(diff.locator("del").first.inner_text()) > 3
    assert page.locator(".why").inner_text().startswith("It ")
    page.get_by_label("Compare").select_option("lines")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**by=lines**")
    assert diff.locator("ins").count()
    me.settled()
    page.get_by_role("button", name="Visit now").click()
    page.get_by_role("status").filter(has_text="visited just now").wait_for()
    me.settled()


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
        page.get_by_label("Budget").fill(budget)
        page.get_by_role("button", name="Show").click()
        page.get_by_text("Apply", exact=True).wait_for()
        me.settled()
        now = planned("α as planned now")
        then.append(planned("α then"))
        assert (then[-1] < now) == (budget == "0.1/s"), (then, now)
    page.get_by_role("button", name="Apply").click()
    page.get_by_role("status").filter(has_text="Applied.").wait_for()
    me.settled()
    assert planned("α of the plan") == pytest.approx(then[-1], abs=10)
    _walk(me, "Settings")
    assert page.get_by_label("Budget").input_value() == "20/s"


def _export_and_import(me, addresses):
    page = me.page
    with page.expect_download() as wait:
        page.get_by_role("link", name="Export", exact=True).click()
    file = Path(wait.value.path())
    document = json.loads(file.read_text("utf-8"))
    assert [source["url"] for source in document["sources"]] == addresses
    assert document["subscriptions"][0]["name"] == "hook & co"
    document["sources"].append(document["sources"][0] | {"url": addresses[0] + "?more", "name": ""})
    page.get_by_label("Import a document that was exported").set_input_files(
        {"name": "o.json", "mimeType": "application/json", "buffer": json.dumps(document).encode()}
    )
    page.get_by_role("button", name="Import").click()
    page.get_by_role("status").filter(has_text="Imported.").wait_for()
    page.goto(f"{me.address}/sources")
    assert f"{len(addresses) + 1} sources" in page.locator(".head .lead").inner_text()


def _look_around(me, folder):
    """Pictures of every page, for people to look at: they are kept with the test's other files."""
    for dark in (False, True):
        me.page.emulate_media(color_scheme="dark" if dark else "light")
        for place in (*(place.path for place in PLACES), "/sources/1", "/plan?budget=1/s"):
            page = me.go(place)
            name = re.sub(r"\W+", "-", place).strip("-") or "overview"
            scheme = "dark" if dark else "light"
            page.screenshot(path=folder / f"{me.size}-{scheme}-{name}.png", full_page=True)
            _no_scrolling_sideways(me)


def _leave(me):
    me.page.get_by_role("button", name="Sign out").click()
    me.page.wait_for_url("**/login**")
    me.page.goto(f"{me.address}/sources")
    assert me.page.get_by_role("button", name="Sign in").is_visible()


def _walk(me, place):
    me.page.get_by_role("navigation", name="Pages").get_by_role("link", name=place).click()
    me.page.locator("nav [aria-current=page]", has_text=place).wait_for()


def _no_scrolling_sideways(me):
    assert me.page.evaluate("document.scrollingElement.scrollWidth") <= me.width, me.page.url
