"""How often are people told of changes that are none? `python -m benchmarks.false_alarms`

Pages of the kinds that watchers meet, on a server of this machine: adverts that rotate, tokens,
counters, clocks, shuffled lists, two variants, a cookie wall now and then, and quiet ones. Each is
visited many times an hour apart (the server and the observer share a simulated clock), and edited
now and then by one word or one price. Counted are changes that were told although nobody edited
(false alarms), and edits that were not told by the third visit after them (missed): one that hides
behind a cookie wall is seen when the wall is gone.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import random
from typing import TYPE_CHECKING, NamedTuple

from observant.observer.config import SourceSettings
from observant.observer.content import Comparer, Rules
from observant.observer.fetched import Fetched
from observant.observer.sources import Surroundings, make_source

if TYPE_CHECKING:
    from collections.abc import Callable

HOUR = 3600.0
START = 1_790_000_000.0
PATIENCE = 3
"""Visits after an edit in which it has to be told."""
FIRST = 12
"""Visits in which a page may still be learned."""
ADVERTS = [
    f"{verb} {thing} {how}"
    for verb in ("Buy", "Try", "See")
    for thing in ("shoes", "Rome", "bread", "a sofa")
    for how in ("today", "for less", "at home")
]
NEWS = "The museum shows paintings of the north, and opens its garden to all who come by train."


class Page:
    """One page: what stands there changes with `edit`, and each fetch varies what is noise."""

    def __init__(self, kind: str, short: bool, seed: int) -> None:
        self.kind, self.short = kind, short
        self.chance = random.Random(seed)  # noqa: S311
        self.price, self.word, self.fetches = 100, 0, 0

    def edit(self) -> None:
        """Somebody edits a price, or a word."""
        if self.chance.random() < 0.5:
            self.price += self.chance.randint(1, 9)
        else:
            self.word += 1

    def body(self, now: float) -> str:
        self.fetches += 1
        chance, story = self.chance, "" if self.short else f"<p>{NEWS}</p>" * 3
        words = f"<p>Edition number {['one', 'two', 'three', 'four', 'five'][self.word % 5]}"
        content = f"<h1>Shop</h1>{story}<p>Price {self.price}.00 EUR</p>{words} of the list</p>"
        shown = NOISE[self.kind](self, chance, content, now)
        return f"<html><head><title>Shop</title></head><body>{shown}</body></html>"


def _clock(now: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(now, dt.UTC)


def _shuffled(chance: random.Random, content: str) -> str:
    items = [f"<li>Product {k} is in stock</li>" for k in range(12)]
    chance.shuffle(items)
    return f"{content}<ul>{''.join(items)}</ul>"


def _variant(chance: random.Random, content: str) -> str:
    text = chance.choice(["Join our letter today", "Read our letter every Monday, for nothing"])
    return f"{content}<div><p>{text}</p></div>"


def _wall(chance: random.Random, content: str) -> str:
    if chance.random() < 0.15:
        return "<h1>Before you go on</h1><p>We use cookies. Accept them all, or choose.</p>"
    return content


NOISE: dict[str, Callable[[Page, random.Random, str, float], str]] = {
    "quiet": lambda _p, _r, c, _t: c,
    "advert": lambda _p, r, c, _t: f"{c}<div class=ad><p>{r.choice(ADVERTS)}</p></div>",
    "adverts, 3": lambda _p, r, c, _t: (
        c + "".join(f"<div><p>{text}</p></div>" for text in r.sample(ADVERTS, r.randint(1, 3)))
    ),
    "token": lambda _p, r, c, _t: f"{c}<p>Request {r.getrandbits(64):016x}</p>",
    "token beside price": lambda p, r, c, _t: (
        f"{c}<p>Offer {p.price} code {r.getrandbits(32):x}</p>"
    ),
    "counter": lambda p, _r, c, _t: f"{c}<p>{10_000 + 3 * p.fetches} people were here</p>",
    "clock": lambda _p, _r, c, t: f"{c}<p>It is {_clock(t):%H:%M:%S} now</p>",
    "clock, minutes": lambda _p, _r, c, t: f"{c}<p>Printed {_clock(t):%Y-%m-%d %H:%M}</p>",
    "date": lambda _p, _r, c, t: f"{c}<p>Today is {_clock(t):%A, %d %B %Y}</p>",
    "time ago": lambda _p, r, c, _t: f"{c}<p>Seen {r.randint(2, 50)} minutes ago</p>",
    "shuffled list": lambda _p, r, c, _t: _shuffled(r, c),
    "two variants": lambda _p, r, c, _t: _variant(r, c),
    "cookie wall": lambda _p, r, c, _t: _wall(r, c),
}


class Web:
    """A transport that asks the pages themselves."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.now, self.fetches = START, 0

    async def fetch(self, url: str, **_: object) -> Fetched:
        self.fetches += 1
        self.now += 1.0
        body = self.pages[url].body(self.now).encode()
        return Fetched(
            url=url, status=200, body=body, content_type="text/html", started_at=self.now
        )


class Score(NamedTuple):
    """One page, watched."""

    kind: str
    early: int
    """False alarms in its first visits."""
    late: int
    edits: int
    missed: int
    fetches: float
    """Of each visit."""


async def watch(kind: str, short: bool, seed: int, visits: int) -> Score:
    """Watch one page, and edit it on every seventh visit or so."""
    web, page = Web(), Page(kind, short, seed)
    web.pages["http://a.example/"] = page
    comparer = Comparer(Rules())
    around = Surroundings(web, time=lambda: web.now, trusted=True)  # type: ignore[arg-type]
    source = make_source("http", "a", "http://a.example/", SourceSettings(), comparer, around)
    previous, chance = None, random.Random(seed + 1)  # noqa: S311
    early = late = edits = missed = 0
    waiting: list[int] = []
    for number in range(visits):
        web.now = START + number * HOUR + chance.uniform(0, 1200)
        if 0 < number < visits - PATIENCE and chance.random() < 1 / 7:
            page.edit()
            edits += 1
            waiting.append(number)
        visit = await source.visit(previous)
        found = visit.comparison
        if found is None:
            raise RuntimeError("every visit compares")
        if found.outcome == "changed" and not waiting:
            early, late = early + (number <= FIRST), late + (number > FIRST)
        if found.outcome == "changed":
            missed += sum(number - edit > PATIENCE for edit in waiting)
            waiting = []
        fetched = Fetched(url="", status=200, started_at=visit.started_at)
        previous = comparer.after(previous, fetched, found, visit.validators)
    return Score(kind, early, late, edits, missed + len(waiting), web.fetches / visits)


async def study(pages: int, visits: int) -> list[Score]:
    """Some pages of every kind, half of them short."""
    return [
        await watch(kind, bool(number % 2), 1000 * number + place, visits)
        for place, kind in enumerate(NOISE)
        for number in range(pages)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=10, help="of every kind")
    parser.add_argument("--visits", type=int, default=48, help="of every page")
    given = parser.parse_args()
    scores = asyncio.run(study(given.pages, given.visits))
    print(f"{'pages':20} {'early':>6} {'late':>6} {'missed':>9} {'fetches':>8}")
    for kind in [*NOISE, "all"]:
        some = [s for s in scores if kind in {s.kind, "all"}]
        early, late = (sum(getattr(s, n) for s in some) / len(some) for n in ("early", "late"))
        missed, edits = sum(s.missed for s in some), sum(s.edits for s in some)
        fetches = sum(s.fetches for s in some) / len(some)
        print(f"{kind:20} {early:6.2f} {late:6.2f} {missed:4} /{edits:3} {fetches:8.2f}")
    print("early, late: false alarms of a page in its first 12 visits, and after them")


if __name__ == "__main__":
    main()
