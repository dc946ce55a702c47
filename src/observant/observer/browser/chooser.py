"""Choosing a part of a page by pointing: a picture of the page, its boxes, and their selectors.

The person sees a picture. Nothing of the page itself runs in their browser.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import InputError
from observant.observer.content.record import term_vector

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from observant.observer.browser.engine import Browser
    from observant.observer.browser.page import RenderedPage
    from observant.observer.transport import Transport
    from observant.observer.transport.transfer import Reply, Request, RequestEngine

_MOST = 4000
_MOST_BOXES = 800
_HIGHEST = 6000
_SMALLEST = 6.0
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_GENERATED = re.compile(
    r"\d{3,}"  # a counter or a number of the database
    r"|^(?:css|sc|jsx|jss|emotion|ember|svelte|ng|yui|radix|react|mui|makeStyles)[-_:]"
    r"|[A-Za-z]\d+[A-Za-z]+\d"  # letters and digits in turn
    r"|__(?=[a-z_-]*[\dA-Z])[A-Za-z0-9_-]{5,}$"  # of CSS modules; not of people's BEM
    r"|^(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9]{5,}$"
    r"|^(?=[a-z]*[A-Z][A-Za-z]*[A-Z])[A-Za-z]{5,7}$"
)


class PageElement(msgspec.Struct, frozen=True, kw_only=True):
    """An element as the browser has laid it out."""

    parent: int
    """Its place in the list; −1 for the body."""
    tag: str
    place: int = 1
    """Among the siblings of the same tag."""
    own: bool = False
    """Whether it has text of its own."""
    css: str = ""
    """The only selector that finds it, for a frame from elsewhere."""
    id: str = ""
    classes: tuple[str, ...] = ()
    box: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    text: str = ""


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """Something in the picture that can be pointed at."""

    x: float
    y: float
    width: float
    height: float
    css: str
    text: str


class PagePicture(msgspec.Struct, frozen=True, kw_only=True):
    """A page as it was rendered."""

    image: bytes
    """JPEG."""
    width: int
    height: int
    boxes: tuple[Box, ...]
    """Large ones first, so that what is inside lies above them."""
    html: bytes


def looks_generated(name: str) -> bool:
    """Whether a class or an id looks as if a program had made it up: the next build has another.

    >>> names = ("css-1x2y3z", "sc-bdVaJa", "ember1234", "card__title", "card__aX9kQ", "7up")
    >>> [name for name in names if not looks_generated(name)]
    ['card__title']
    """
    return _NAME.fullmatch(name) is None or _GENERATED.search(name) is not None


class Selectors:
    """Short selectors, each of which finds one element of a page and no other.

    >>> body = PageElement(parent=-1, tag="body")
    >>> price = PageElement(parent=0, tag="b", classes=("css-9a8b7c", "price"))
    >>> Selectors([body, price]).of(1)
    'b.price'
    """

    def __init__(self, elements: Sequence[PageElement]) -> None:
        self._elements = elements
        self._ids = Counter(element.id for element in elements)
        self._marks = Counter(mark for e in elements for mark in (e.tag, *_classes(e)))
        self._siblings = Counter(
            (e.parent, mark) for e in elements for mark in (e.tag, *_classes(e))
        )

    def of(self, place: int) -> str:
        """By an id, a class or a tag that only this element has, or by its place in the nearest
        element that has one.
        """
        steps: list[str] = []
        while place >= 0:
            element = self._elements[place]
            if element.css:
                return element.css
            if unique := self._unique(element):
                steps.append(unique)
                break
            steps.append(self._among_siblings(element))
            place = element.parent
        return " > ".join(reversed(steps))

    def _unique(self, element: PageElement) -> str:
        if self._ids[element.id] == 1 and not looks_generated(element.id):
            return f"#{element.id}"
        only = (mark for mark in _classes(element) if self._marks[mark] == 1)
        if mark := next(only, ""):
            return element.tag + mark
        return element.tag if self._marks[element.tag] == 1 else ""

    def _among_siblings(self, element: PageElement) -> str:
        parent = element.parent
        only = (mark for mark in _classes(element) if self._siblings[parent, mark] == 1)
        if mark := next(only, ""):
            return element.tag + mark
        alone = self._siblings[parent, element.tag] == 1
        return element.tag if alone else f"{element.tag}:nth-of-type({element.place})"


def _classes(element: PageElement) -> list[str]:
    """Its classes that people have given, as a selector names them."""
    return [f".{name}" for name in dict.fromkeys(element.classes) if not looks_generated(name)]


def nearest(boxes: tuple[Box, ...], text: str) -> Box | None:
    """The box whose text is nearest to one that was chosen before a redesign.

    >>> boxes = tuple(
    ...     Box(x=0, y=0, width=9, height=9, css=c, text=t)
    ...     for c, t in (("h1", "Lamps"), ("#cost", "Price 55 EUR"))
    ... )
    >>> nearest(boxes, "Price 49 EUR").css
    '#cost'
    """
    wanted = term_vector(text[:10_000])

    def likeness(box: Box) -> float:
        words = term_vector(box.text)
        common, total = (wanted & words).total(), (wanted | words).total()
        return common / total if total else 0.0

    best = max(boxes, key=likeness, default=None)
    return best if best is not None and likeness(best) > 0 else None


class Camera:
    """A browser that makes a picture, to be pointed at, of what it looks at.

    It can be looked through like any browser, also by one that takes steps first.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser, self.settings = browser, browser.settings
        self._taken: PagePicture | None = None

    async def take(
        self, transport: Transport, url: str, *, through: RequestEngine | None = None, **more: Any
    ) -> PagePicture:
        """Render a page and make a picture of it; an `InputError` says why there is none."""
        fetched = await transport.fetch(url, through=through or self, **more)
        if self._taken is None or not fetched.ok:
            raise InputError(f"no picture of this page: {fetched.message or fetched.error}")
        return self._taken

    @property
    def taken(self) -> PagePicture:
        if self._taken is None:
            raise InputError("no picture was taken")
        return self._taken

    async def perform(self, request: Request) -> Reply:
        """Open a page, and give its document."""
        return await self.look(request, lambda page, asked: page.html(asked.limits.body))

    async def look(
        self,
        request: Request,
        look: Callable[[RenderedPage, Request], Awaitable[bytes]],
        state: Any = None,
    ) -> Reply:
        """Look at a page in any way, and make a picture then."""

        async def both(page: RenderedPage, asked: Request) -> bytes:
            html = await look(page, asked)
            await self._shoot(page, html)
            return html

        return await self._browser.look(request, both, state)

    async def _shoot(self, page: RenderedPage, html: bytes) -> None:
        elements = msgspec.convert(await page.elements(_MOST), list[PageElement])
        width = 1280
        lowest = max((e.box[1] + e.box[3] for e in elements), default=0.0)
        height = int(min(max(lowest, 200.0), _HIGHEST))
        image = await page.picture(width, height)
        shown = [
            place
            for place, e in enumerate(elements)
            if (e.own or e.tag in _WHOLE)
            and min(e.box[2:]) >= _SMALLEST
            and 0 <= e.box[1] < height
            and e.text.strip()
        ]
        shown = sorted(shown, key=lambda p: -elements[p].box[2] * elements[p].box[3])
        selectors = Selectors(elements)
        boxes = [
            Box(
                x=round(x, 1), y=round(y, 1), width=round(w, 1), height=round(h, 1),
                css=selectors.of(place), text=elements[place].text,
            )
            for place in shown[:_MOST_BOXES]
            for x, y, w, h in (elements[place].box,)
        ]  # fmt: skip
        self._taken = PagePicture(
            image=image, width=width, height=height, boxes=tuple(boxes), html=html
        )


_WHOLE = frozenset({"main", "article", "section", "table", "ul", "ol", "form", "nav", "aside"})
"""Elements that are worth pointing at as a whole, although their text is that of others."""
