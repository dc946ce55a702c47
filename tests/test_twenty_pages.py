"""Twenty pages as the web has them, in one Chromium: what each shows is found, and its change."""

import asyncio

import pytest
from benchmarks.rendering import ADVERT, CLOCK, SHELLS

from observant.observer.content import Rules

from .browser_world import chromium
from .rendering_world import source_of, visits_of

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


def test_what_twenty_pages_show_is_found(pages, rendering):
    assert len(PAGES) == 20
    for number, name in enumerate(PAGES):
        serve(pages, number, name, words(number, 1))

    async def look(number, name):
        own = dict(PAGES[name][1])
        rules = own.pop("rules", None)
        source = source_of(rendering, f"http://n{number}.example/{name}", rules, own)
        return await source.visit(None)

    async def everything():
        return await asyncio.gather(*(look(k, name) for k, name in enumerate(PAGES)))

    found = rendering.run(everything())
    for number, (name, visit) in enumerate(zip(PAGES, found, strict=True)):
        assert visit.outcome == "first", (name, visit.comparison.reason)
        assert f"word{number}of1x29" in visit.comparison.text, name


@pytest.mark.parametrize("name", ["shell2", "foreign", "clock", "scrolling", "sign-in"])
def test_a_change_of_what_scripts_bring_is_found_and_nothing_else(pages, rendering, name):
    number, own = list(PAGES).index(name), PAGES[name][1]
    url = f"http://m{number}.example/{name}"
    serve(pages, number, name, words(number, 1))
    (_, same), before = visits_of(rendering, url, 2, render="always", **own)
    assert same.outcome == "same"
    serve(pages, number, name, words(number, 2))
    (changed,), _ = visits_of(rendering, url, 1, before, render="always", **own)
    assert changed.outcome == "changed"
