"""A synthetic web: pages on many hosts that change by known processes, as pages do and servers are.

Most pages change by a Poisson process; others regularly, in bursts, or with a rhythm of the week.
Some carry a time or a token that differs on every visit (noise, not a change). Some servers
tell when a page was modified, some do not, some lie; some know conditional requests, and of these a
few answer 304 for ever; some are slow, some fail. Half of the hosts have a sitemap that says the
truth, a quarter one that stamps every page with now. Everything follows from the seed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import formatdate
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError
from observant.processes import Bursts, Gamma, Poisson, Seasonal, Updates
from observant.times import DAY

if TYPE_CHECKING:
    from observant.arrays import Flags, Floats
    from observant.processes import Process


KINDS = {"poisson": 0.56, "regular": 0.1, "bursty": 0.12, "seasonal": 0.14, "noisy": 0.08}
"""How pages change, and what share of them does so. Noisy ones are Poisson under their noise."""

_DATES = {"true": 0.4, "missing": 0.45, "lying": 0.15}
_SLOW, _FAILING, _STUCK = 0.05, 0.04, 0.01
_MIDDLE_RATE = 0.12
_TEXT = (
    "river market council winter budget harbour station garden museum letter engine valley "
    "mountain report election library school bridge forest summer railway theatre village "
    "doctor planet ocean signal paper copper bread window silver morning evening island castle"
)
_WORDS = _TEXT.split()


@dataclass(frozen=True)
class WorldAnswer:
    """What the server says: nothing at all when the status is 0."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    delay: float = 0.0
    """Seconds of the server's thinking, on a real clock."""


@dataclass(frozen=True)
class DemoWorld:
    """`pages` pages on `hosts` hosts, for `days` days.

    >>> world = DemoWorld(pages=100, hosts=10, days=30.0, seed=7)
    >>> world.kinds[:4], world.updates
    (('poisson', 'poisson', 'noisy', 'bursty'), Updates(100 sources, 511 updates))
    >>> world.version(3, 0.0) <= world.version(3, 30.0)
    True
    """

    pages: int = 2000
    hosts: int = 100
    days: float = 30.0
    seed: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.hosts <= self.pages:
            raise InputError(f"{self.pages} pages cannot live on {self.hosts} hosts")

    def host(self, page: int) -> int:
        return page % self.hosts

    def url(self, page: int) -> str:
        return f"http://site{self.host(page)}.example/page/{page}"

    def sitemap_url(self, host: int) -> str | None:
        """Where the sitemap of this host is; every fourth has none."""
        return None if host % 4 == 3 else f"http://site{host}.example/sitemap/{host}"

    def sitemap_lies(self, host: int) -> bool:
        """Whether the sitemap of this host stamps every page with now."""
        return host % 4 == 2

    # -- what is true -------------------------------------------------------------------------

    @cached_property
    def rates(self) -> Floats:
        """Updates a day of every page. Pages of one host resemble each other."""
        rng = np.random.default_rng([self.seed, 1])
        of_host = rng.normal(np.log(_MIDDLE_RATE), 1.4, self.hosts)
        own = rng.normal(0.0, 0.9, self.pages)
        rates = np.exp(of_host[np.arange(self.pages) % self.hosts] + own)
        return np.asarray(np.clip(rates, 1e-3, 24.0))

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        return self._choice(2, KINDS)

    @cached_property
    def dates(self) -> tuple[str, ...]:
        """What Last-Modified is worth: true, missing or lying."""
        return self._choice(3, _DATES)

    @cached_property
    def updates(self) -> Updates:
        """The true update times, in days from the beginning."""
        return Updates.from_lists([self._sample(page) for page in range(self.pages)])

    def version(self, page: int, day: float) -> int:
        """How many updates the page has had by this day."""
        return int(np.searchsorted(self._times[page], day, side="right"))

    # -- what is served -----------------------------------------------------------------------

    def answer(
        self, page: int, day: float, *, now: float, etag: str | None = None, visit: int = 0
    ) -> WorldAnswer:
        """What the server of this page says on that day, its wall clock showing `now`.

        `etag` is what the visitor sent as If-None-Match, `visit` counts the visits to the page.
        """
        trait = self._traits[page]
        rng = random.Random(f"{self.seed}:{page}:{visit}")  # noqa: S311
        delay = rng.expovariate(1 / 0.15) if trait == "slow" else 0.0
        if trait == "failing" and rng.random() < 0.35:
            return WorldAnswer(rng.choice((0, 500, 503)), delay=delay)
        version = self.version(page, day)
        headers: list[tuple[str, str]] = [("content-type", "text/html; charset=utf-8")]
        dates = self.dates[page]
        if dates == "true" and version:
            modified = now - (day - self._times[page][version - 1]) * DAY
            headers.append(("last-modified", formatdate(modified, usegmt=True)))
        elif dates == "lying":
            headers.append(("last-modified", formatdate(now, usegmt=True)))
        noisy = self.kinds[page] == "noisy"
        if page % 2 == 0 and not noisy:
            own = f'"{page}-{version}"'
            if etag and (etag == own or trait == "stuck"):
                return WorldAnswer(304, (("etag", etag),), delay=delay)
            headers.append(("etag", own))
        body = _body(self.seed, page, version)
        if noisy:
            token = f"{rng.getrandbits(64):016x}"
            stamp = formatdate(now, usegmt=True)
            body = body.replace("<!--noise-->", f'<p class="served">Served {stamp} as {token}</p>')
        return WorldAnswer(200, tuple(headers), body.encode(), delay)

    def sitemap(self, host: int, day: float, *, now: float) -> WorldAnswer | None:
        """The sitemap of a host on that day, with the date of every page; None where there is none.

        >>> world = DemoWorld(pages=8, hosts=4)
        >>> world.sitemap(1, 2.0, now=2 * DAY).body.count(b"<lastmod>1970-01-0")
        2
        """
        if not 0 <= host < self.hosts or self.sitemap_url(host) is None:
            return None
        rows = []
        for page in range(host, self.pages, self.hosts):
            version = self.version(page, day)
            changed = self._times[page][version - 1] if version else 0.0
            at = now if self.sitemap_lies(host) else now - (day - changed) * DAY
            stamp = datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
            rows.append(f"<url><loc>{self.url(page)}</loc><lastmod>{stamp}</lastmod></url>")
        body = (
            f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{"".join(rows)}</urlset>'
        )
        return WorldAnswer(200, (("content-type", "application/xml"),), body.encode())

    @property
    def reliable(self) -> Flags:
        """Pages whose server neither fails nor answers 304 for ever."""
        return np.array([trait in ("", "slow") for trait in self._traits])

    def stuck(self, page: int) -> bool:
        """Whether its server answers 304 for ever."""
        return self._traits[page] == "stuck"

    # -- inside -------------------------------------------------------------------------------

    @cached_property
    def _times(self) -> list[Floats]:
        return list(self.updates)

    @cached_property
    def _traits(self) -> tuple[str, ...]:
        usual = 1 - _SLOW - _FAILING - _STUCK
        shares = {"": usual, "slow": _SLOW, "failing": _FAILING, "stuck": _STUCK}
        return self._choice(5, shares)

    def _choice(self, purpose: int, shares: dict[str, float]) -> tuple[str, ...]:
        rng = np.random.default_rng([self.seed, purpose])
        chosen = rng.choice(len(shares), self.pages, p=list(shares.values()))
        names = list(shares)
        return tuple(names[k] for k in chosen)

    def _sample(self, page: int) -> Floats:
        process, seed = self._process(page), np.random.SeedSequence([self.seed, 4, page])
        if isinstance(process, Seasonal):  # the rhythm is that of the calendar, the same for all
            return process.sample(self.days, seed=seed, phase=0.0)[0]
        return process.sample(self.days, seed=seed)[0]

    def _process(self, page: int) -> Process:
        mean = 1 / float(self.rates[page])
        match self.kinds[page]:
            case "regular":
                return Gamma.with_mean(mean, shape=8.0)
            case "bursty":
                return Bursts.with_mean(mean, on_time=1.0, off_time=2.0, quiet=0.1)
            case "seasonal":
                return Seasonal.with_mean(mean, _WEEK)
        return Poisson.with_mean(mean)


_WEEK = tuple(
    (0.3 if day >= 5 else 1.0) * (1.6 if 8 <= hour < 20 else 0.4)
    for day in range(7)
    for hour in range(24)
)
"""Busy on working days, most in working hours."""


def _item(seed: int, page: int, number: int) -> str:
    rng = random.Random(f"{seed}:{page}:item {number}")  # noqa: S311
    return " ".join(rng.choices(_WORDS, k=40))


@lru_cache(maxsize=4096)
def _body(seed: int, page: int, version: int) -> str:
    """A page of about 2 kB, like the front page of a paper: an update puts a new item on top."""
    frame = random.Random(f"{seed}:{page}")  # noqa: S311
    title = " ".join(frame.choices(_WORDS, k=3)).title()
    items = [_item(seed, page, version - age) for age in range(5)]
    paragraphs = "\n".join(f"<p>{text.capitalize()}.</p>" for text in items)
    links = "".join(f'<a href="/page/{frame.randrange(999)}">{w}</a> ' for w in _WORDS[:6])
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>'
        f"<body><nav>{links}</nav><main><h1>{title}</h1>\n{paragraphs}\n<!--noise--></main>"
        "<footer>A page of the synthetic web.</footer></body></html>"
    )
