"""Twenty pages as the web has them, in one Chromium: found, chosen by pointing, compared, told."""

import asyncio
import re

import pytest
from benchmarks.rendering import ADVERT, CLOCK, SHELLS
from msgspec.structs import replace

from observant.notifications.channels import SendResult
from observant.notifications.delivery import Deliverer
from observant.observer.browser.chooser import Camera
from observant.observer.config import Config
from observant.observer.content import Comparer, Rules
from observant.observer.events import Standing, look_up_events
from observant.observer.fetched import Fetched
from observant.store import Entry, Source, Subscription, open_store

from .browser_world import chromium
from .rendering_world import source_of

pytestmark = [
    pytest.mark.skipif(chromium() is None, reason="there is no Chromium on this machine"),
    pytest.mark.usefixtures("patient_steps"),
]

LATER = "setTimeout(() => {{ document.body.insertAdjacentHTML('beforeend', `{0}`) }}, 100)"
PAGES = {
    **{f"shell{k}": (page, {}) for k, page in enumerate(SHELLS)},
    "module": ("<div id=app></div><script type=module>app.innerHTML = `{0}`</script>", {}),
    "template": (
        (
            "<template id=t>{0}</template><div id=app></div><script>"
            "app.append(t.content.cloneNode(true))</script>"
        ),
        {},
    ),
    "router": (
        (
            "<div id=app></div><script>history.pushState(0, '', '/routed');"
            "app.innerHTML = location.pathname + ` {0}`</script>"
        ),
        {},
    ),
    "slots": (
        (
            "<x-s id=s><p>{0}</p></x-s><script>s.attachShadow({{mode: 'open'}})"
            ".innerHTML = '<b>in a shadow </b><slot></slot>'</script>"
        ),
        {},
    ),
    "nested": ("<iframe srcdoc=\"<iframe srcdoc='<p>{0}</p>'></iframe>\"></iframe>", {}),
    "foreign": ("<iframe src='http://other.example/data?{1}'></iframe>", {}),
    "later": (f"<p>Loading</p><script>{LATER}</script>", {"steps": ("wait for p + script + p",)}),
    "clock": (f"<main>{{0}}</main>{CLOCK}", {"rules": Rules(css="main")}),
    "advert": (f"<main>{{0}}</main>{ADVERT}", {"rules": Rules(drop=("#ad",))}),
    "scrolling": (
        (
            "<div style='height: 3000px'></div><div id=end></div><script>new IntersectionObserver("
            "(seen) => seen[0].isIntersecting && (end.innerHTML = `{0}`)).observe(end)</script>"
        ),
        {"steps": ("scroll 2", "wait for #end p")},
    ),
    "lazy": (
        (
            "<div style='height: 3000px'></div><img id=i><script>new IntersectionObserver((seen) =>"
            "seen[0].isIntersecting && (i.alt = 'shown', document.body.insertAdjacentHTML("
            "'beforeend', `{0}`))).observe(i)</script>"
        ),
        {"steps": ("scroll", "wait for img + script + p")},
    ),
    "consent": (
        '<div id=wall>Cookies <button onclick="wall.outerHTML = `{0}`">Reject all</button></div>',
        {"steps": ("dismiss",)},
    ),
    "sign-in": (
        '<form onsubmit="this.outerHTML = `{0}`; return false"><input id=who></form>',
        {"steps": ("fill #who with ada", "press Enter", "wait for p")},
    ),
    "more": (
        '<button id=more onclick="this.outerHTML = `{0}`">More</button>',
        {"steps": ("click #more",)},
    ),
    "choice": (
        '<select id=size onchange="out.innerHTML = `{0}`"><option>S<option>L</select><i id=out>',
        {"steps": ("choose L in #size", "wait for #out p")},
    ),
}
"""The page with {0} where its text is and {1} its number, and the settings of the source."""


def serve(site, number, name, text):
    site.serve(f"/{name}", f"<html><body>{PAGES[name][0].format(text, number)}</body></html>")
    site.serve(f"/data?{number}", text)


def words(number, version):
    return "<p>" + " ".join(f"word{number}of{version}x{k}" for k in range(30)) + "</p>"


def pointed_at(picture, number):
    """The smallest part of the picture with the text of this page: what a person would click."""
    held = [box for box in picture.boxes if f"word{number}of1x0" in box.text]
    held = held or [box for box in picture.boxes if box.css.startswith("[data-frame")]
    return min(held, key=lambda box: box.width * box.height)


def settings_of(name, css=None):
    own = dict(PAGES[name][1])
    rules = own.pop("rules", Rules())
    return own | {"render": "always"}, Rules(css=css) if css else rules


def together(world, work):
    async def everything():
        return await asyncio.gather(*(work(k, name) for k, name in enumerate(PAGES)))

    return world.run(everything())


def test_twenty_pages_are_found_chosen_by_pointing_compared_and_told(pages, rendering):
    assert len(PAGES) == 20
    for number, name in enumerate(PAGES):
        serve(pages, number, name, words(number, 1))

    async def first(number, name):
        camera, (own, rules) = Camera(rendering.browser), settings_of(name)
        url = f"http://n{number}.example/{name}"
        visit = await source_of(rendering, url, rules, own, browser=camera).visit(None)
        return visit, camera.taken

    chosen = {}
    for number, (name, (visit, picture)) in enumerate(
        zip(PAGES, together(rendering, first), strict=True)
    ):
        assert visit.outcome == "first", (name, visit.comparison.reason)
        assert f"word{number}of1x29" in visit.comparison.text, name
        box = pointed_at(picture, number)
        comparer = Comparer(Rules(css=box.css))
        page = Fetched(url="x:", status=200, body=picture.html, content_type="text/html")
        found = comparer.compare(None, page)
        assert found.text is not None, (name, box.css, found.reason)
        assert found.text.split() == re.findall(r"\w+", words(number, 1))[1:-1], (name, box.css)
        before = comparer.after(None, page, found)
        way = visit.comparison.selection_version.removeprefix(settings_of(name)[1].version)
        chosen[name] = box.css, replace(before, selection_version=comparer.rules.version + way)

    async def again(number, name):
        own, rules = settings_of(name, chosen[name][0])
        url = f"http://n{number}.example/{name}"
        if number % 4 == 0 or name == "clock":  # nothing has changed: nothing is to be seen
            same = await source_of(rendering, url, rules, own).visit(chosen[name][1])
            assert same.outcome == "same", (name, same.comparison.reason)
        serve(pages, number, name, words(number, 2))
        return await source_of(rendering, url, rules, own).visit(chosen[name][1])

    seen = together(rendering, again)
    for number, (name, visit) in enumerate(zip(PAGES, seen, strict=True)):
        assert visit.outcome == "changed", (name, visit.comparison.reason)
        assert f"word{number}of2x29" in visit.comparison.text, name
    told = messages_about(seen)
    for number, name in enumerate(PAGES):
        (message,) = [text for text in told if f"n{number}.example/{name}" in text]
        assert f"word{number}of2x" in message, name


def messages_about(visits):
    """What is sent to somebody who wants to know of changes."""
    sent = []

    class Kept:
        async def send(self, _channel, _secret, message):
            sent.append(f"{message.subject}\n{message.text}")
            return SendResult(ok=True)

        async def close(self):
            pass

    with open_store(":memory:") as store:
        store.sources.add([Source(name=visit.source, url=visit.source) for visit in visits])
        store.subscriptions.add(Subscription(name="me", channel="https://hook.example/x"))
        standing = Standing(), Standing()
        for visit in visits:
            row = store.sources.get(visit.source)
            events = look_up_events(store, row, visit, *standing, Config().notify)
            store.visits.record_many([Entry(visit=visit, outbox=events)])
        asyncio.run(Deliverer(store, Config(), channels={"webhook": Kept()}).deliver_due())
    return sent
