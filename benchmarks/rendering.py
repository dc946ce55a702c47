"""What a browser costs, and whether `render = "auto"` uses it only where it must.

    python -m benchmarks.rendering [--plain 40] [--shells 10] [--visits 10] [--pages 2]

A mixed collection on loopback is visited under `auto`: plain pages, half of them with scripts that
add a clock or an advert, and pages that scripts make (at once, after a while, from a second file,
in a shadow root, in a frame). Measured are the plain pages that are rendered after so many visits
and the shells that were missed; then, with every page rendered, pages per minute, seconds of
processor time and bytes for each, and the memory of the browser at rest and while it is busy.
"""

import argparse
import asyncio
import json
import time

from tests.observer_world import Site

from observant.observer.browser import Browser, BrowserSettings
from observant.observer.browser.need import BrowserNeed
from observant.observer.config import SourceSettings
from observant.observer.content import Comparer
from observant.observer.sources import Surroundings, make_source
from observant.observer.transport import Guard, Politeness, Transport
from observant.store.visit import Previous

__all__ = ["main", "measure"]

CLOCK = "<i id=t></i><script>t.textContent = new Date().toLocaleTimeString()</script>"
ADVERT = "<p id=ad></p><script>ad.textContent = 'Buy now, number ' + Math.random()</script>"
SHELLS = (
    "<div id=app></div><script>app.innerHTML = `{0}`</script>",
    "<div id=app>Loading</div><script>setTimeout(() => app.innerHTML = `{0}`, 300)</script>",
    (
        "<div id=app></div><script>fetch('/data?{1}').then(r => r.text())"
        ".then(t => app.innerHTML = t)</script>"
    ),
    (
        "<x-a></x-a><script>document.querySelector('x-a').attachShadow({{mode: 'open'}})"
        ".innerHTML = `{0}`</script>"
    ),
    (
        "<script>const f = document.createElement('iframe'); f.src = '/data?{1}';"
        "document.body.append(f)</script>"
    ),
)


def words(number):
    return "<p>" + " ".join(f"word{number}x{k}" for k in range(120)) + "</p>"


def page(path):
    kind, _, number = path.strip("/").replace("?", "/").partition("/")
    k = int(number or 0)
    if kind == "data":
        return words(k)
    if kind == "plain":
        more = ("", CLOCK, "", ADVERT)[k % 4]
        return f"<html><body><main>{words(k)}</main>{more}</body></html>"
    return f"<html><body>{SHELLS[k % len(SHELLS)].format(words(k), k)}</body></html>"


def after(before, visit):
    """What the store would give the next visit."""
    found, old = visit.comparison, before or Previous()
    moved = found.digest_text is not None
    return Previous(
        digest_raw=found.digest_raw or old.digest_raw,
        digest_text=found.digest_text or old.digest_text,
        text=old.text if found.text is None else found.text,
        record=found.record or old.record,
        memory=found.memory,
        validators=visit.validators,
        selection_version=found.selection_version if moved else old.selection_version,
        visited_at=visit.started_at,
        shot=visit.shot if found.memory.get("picture") != old.memory.get("picture") else old.shot,
    )


async def measure(plain=40, shells=10, visits=10, pages=2):
    site = Site(page)
    calm = Politeness(floor=0.0, latency_factor=0.0)
    transport = Transport(
        guard=Guard(allow=["127.0.0.0/8"]), politeness=calm, robots=False, proxies={},
        locate=lambda *_: ("127.0.0.1", site.port),
    )  # fmt: skip
    browser = Browser(transport, BrowserSettings(pages=pages))
    around = Surroundings(transport, time=time.time, browser=lambda: browser)
    paths = [f"plain/{k}" for k in range(plain)] + [f"shell/{k}" for k in range(shells)]

    async def watch(path, render, number, before=None):
        url = f"http://{path.replace('/', '-')}.example/{path}"
        settings = SourceSettings(render=render)
        made = make_source("http", url, url, settings, Comparer(), around)
        for _ in range(number):
            before = after(before, await made.visit(before))
        return before

    kept = await asyncio.gather(*(watch(path, "auto", visits) for path in paths))
    rendered = [BrowserNeed.is_rendered(one) for one in kept]
    missed = sum(f"word{k}x119" not in (one.text or "") for k, one in enumerate(kept[plain:]))
    looks = sum(BrowserNeed.of(one).looks for one in kept[:plain])
    at_rest = browser.tree.usage().memory
    peak, over = [at_rest], asyncio.Event()

    async def watch_memory():
        while not over.is_set():
            peak.append((await asyncio.to_thread(browser.tree.usage)).memory)
            await asyncio.sleep(0.5)

    watching = asyncio.create_task(watch_memory())
    began = time.perf_counter()
    found = await asyncio.gather(*(watch(path, "always", 1) for path in paths))
    took = time.perf_counter() - began
    over.set()
    await watching
    needs = [BrowserNeed.of(one) for one in found]
    await browser.close()
    await transport.close()
    site.close()
    return {
        "plain pages": plain,
        "plain pages rendered at the end": sum(rendered[:plain]),
        "visits to plain pages with a browser": f"{looks} of {plain * visits}",
        "shells": shells,
        "shells missed": missed,
        "pages per minute": round(60 * len(paths) / took, 1),
        "pages per minute of a processor": round(60 / (sum(n.cpu for n in needs) / len(needs)), 1),
        "seconds of processor time a page": round(sum(n.cpu for n in needs) / len(needs), 2),
        "bytes a page": round(sum(n.bytes for n in needs) / len(needs)),
        "megabytes at rest": at_rest >> 20,
        f"megabytes at most, {pages} pages open": max(peak) >> 20,
    }


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, usual in (("plain", 40), ("shells", 10), ("visits", 10), ("pages", 2)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    print(json.dumps(asyncio.run(measure(**vars(parser.parse_args(argv)))), indent=2))


if __name__ == "__main__":
    main()
