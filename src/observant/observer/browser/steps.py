"""What is done on a page before it is read: waiting, clicking, filling in, scrolling, choosing.

Steps that sign in are taken only when they are needed: while the field that the first of them
fills in is not there, the cookies of before still hold. A secret is filled in on pages of its own
origins only, and is nowhere in what is read, pictured or told.
"""

from __future__ import annotations

import html
import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from observant.errors import InputError, ObservantError, UnitError, Unreachable
from observant.times import DAY
from observant.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from observant.observer.browser.chooser import Camera
    from observant.observer.browser.engine import Browser
    from observant.observer.browser.page import RenderedPage
    from observant.observer.transport.transfer import Reply, Request

_FORMS = (
    ("dismiss", re.compile(r"dismiss")),
    ("quiet", re.compile(r"wait until quiet")),
    ("pause", re.compile(r"wait (?P<value>[\d.]+ ?[a-z]+)")),
    ("wait", re.compile(r"wait for (?P<css>.+)")),
    ("click", re.compile(r"click (?P<css>.+)")),
    ("secret", re.compile(r"fill (?P<css>.+?) with secret (?P<value>[\w.-]+)")),
    ("fill", re.compile(r"fill (?P<css>.+?) with (?P<value>.*)")),
    ("press", re.compile(r"press (?P<value>[A-Za-z0-9+]+)")),
    ("scroll", re.compile(r"scroll(?: (?P<value>\d{1,2}))?")),
    ("choose", re.compile(r"choose (?P<value>.+?) in (?P<css>.+)")),
)
_MOST = 50
_SECONDS = 10.0
_PICTURE = 1280, 900
_FINE = 90
"""JPEG quality of pictures that are compared."""
_SHORTEST, _HIDDEN = 4, "•••"
_LONGEST_PAUSE = 20.0
_AFTER = 3.0
"""Seconds that a page has to come to rest after a step."""
_CONSENT = re.compile(
    r"^\W*(reject|decline|refuse|deny|only necessary|necessary only|accept|agree|i agree|allow|"
    r"got it|ok|okay|continue|ablehnen|alle ablehnen|nur notwendige|akzeptieren|alle akzeptieren|"
    r"zustimmen|einverstanden|tout refuser|refuser|tout accepter|accepter|j'accepte|rechazar|"
    r"aceptar|rifiuta|accetta)( all| cookies| all cookies| todo| tutti)?\W*$",
    re.IGNORECASE,
)


class Step(NamedTuple):
    """One thing to do."""

    text: str
    """As somebody wrote it."""
    action: str
    css: str = ""
    value: str = ""


def parse_step(text: str) -> Step:
    """Read a step as people write it.

    >>> parse_step("fill #q with red lamps")
    Step(text='fill #q with red lamps', action='fill', css='#q', value='red lamps')
    >>> parse_step("jump")
    Traceback (most recent call last):
        ...
    observant.errors.InputError: 'jump' is no step; write 'wait for #list', ...
    """
    for action, form in _FORMS:
        found = form.fullmatch(" ".join(text.split()))
        if found is None:
            continue
        parts = {key: value for key, value in found.groupdict().items() if value}
        if action == "pause":
            try:
                seconds = parse_duration(parts["value"]) * DAY
            except UnitError as error:
                raise InputError(f"step {text!r}: {error}") from None
            if seconds > _LONGEST_PAUSE:
                raise InputError(f"step {text!r}: at most {_LONGEST_PAUSE:g} seconds")
            parts["value"] = str(seconds)
        return Step(text, action, **parts)
    raise InputError(
        f"{text!r} is no step; write 'wait for #list', 'wait until quiet', 'wait 2s', "
        "'click #more', 'fill #q with words', 'fill #password with secret NAME', 'press Enter', "
        "'scroll 3', 'choose L in #size' or 'dismiss'"
    )


def check_steps(name: str, steps: Sequence[str]) -> None:
    """Complain about a list that could not be taken."""
    if len(steps) > _MOST:
        raise InputError(f"{name}: at most {_MOST} are taken")
    for step in steps:
        parse_step(step)


class Secret(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something to fill in that nobody is to see, and where it may be filled in."""

    origins: tuple[str, ...]
    """Such as https://shop.example: on other pages it is not filled in."""
    value: str = ""
    env: str = ""
    """The variable of the environment that holds it, unless the value is given."""

    def __post_init__(self) -> None:
        if not self.origins or not (self.value or self.env):
            raise InputError("a secret has origins, and a value or env")
        if self.value and len(self.value) < _SHORTEST:
            raise InputError(f"a secret has at least {_SHORTEST} characters")

    def __repr__(self) -> str:
        return f"Secret(origins={self.origins!r})"

    def text(self) -> str:
        """What is filled in."""
        found = self.value or os.environ.get(self.env, "")
        if len(found) < _SHORTEST:
            raise Unreachable("content", f"the environment has no {self.env} of 4 characters")
        return found


class StepPicture(NamedTuple):
    """What a page looked like after a step, or why the step could not be taken."""

    step: str
    image: bytes
    """JPEG; empty where the page shows a secret."""
    problem: str = ""


class SteppingBrowser:
    """A browser that takes these steps before it reads a page, for `Transport.fetch`.

    `state` is what a browser keeps of a person who has signed in; after a visit it is the one for
    the next. With `pictures`, each step is followed by one. With `masks` (CSS), a picture of the
    page is always taken, fine enough to be compared, and these parts are covered in it.
    """

    def __init__(
        self,
        browser: Browser | Camera,
        steps: Sequence[str],
        sign_in: Sequence[str] = (),
        *,
        secrets: Mapping[str, Secret] | None = None,
        state: Any = None,
        pictures: bool = False,
        masks: Sequence[str] | None = None,
    ) -> None:
        self._browser, self._secrets, self._masks = browser, secrets or {}, masks
        self._steps = [parse_step(step) for step in steps]
        self._sign_in = [parse_step(step) for step in sign_in]
        self.state, self._filled = state, list[str]()
        self.pictures: list[StepPicture] | None = [] if pictures else None

    async def perform(self, request: Request) -> Reply:
        """Open the page, take the steps, and give its document."""
        return await self._browser.look(request, self._look, state=self.state)

    async def _look(self, page: RenderedPage, request: Request) -> bytes:
        if self._sign_in and await self._is_signed_out(page):
            for number, step in enumerate(self._sign_in, 1):
                await self._take(page, f"sign in, step {number}", step)
            await page.go(request.url, _SECONDS, _AFTER)
            if await self._is_signed_out(page):
                await self._fail(page, "signing in: the page still asks for it", "sign in")
            self.state = await page.page.context.storage_state()
        for number, step in enumerate(self._steps, 1):
            await self._take(page, f"step {number}", step)
        found = (await page.html(request.limits.body)).decode()
        safe = self._without_secrets(found)
        if safe == found and self._masks is not None:
            page.masked += self._masks
            await page.take_shot(_FINE)
        elif safe == found and self._browser.settings.screenshots:
            await page.take_shot()
        return safe.encode()

    async def _is_signed_out(self, page: RenderedPage) -> bool:
        first = next((step.css for step in self._sign_in if step.css), "")
        return bool(first) and await page.page.locator(first).first.is_visible()

    async def _take(self, page: RenderedPage, name: str, step: Step) -> None:
        from playwright.async_api import Error as BrowserError

        try:
            await self._do(page, step)
        except (BrowserError, ObservantError) as problem:
            if not page.is_open:
                raise
            said = str(problem).partition("\n")[0]
            said = said.partition(": ")[2] if isinstance(problem, BrowserError) else said
            await self._fail(page, f"{name}, {step.text!r}: {said}", step.text)
        await page.rest(_AFTER)
        if self.pictures is not None:
            self.pictures.append(StepPicture(step.text, await self._picture(page)))

    async def _fail(self, page: RenderedPage, message: str, step: str) -> None:
        """A visit that fails here, with a picture of how the page looked."""
        taken = await self._picture(page)
        page.shot = taken or None
        message = self._without_secrets(message)
        if self.pictures is not None:
            self.pictures.append(StepPicture(step, taken, message))
        raise Unreachable("content", message)

    async def _picture(self, page: RenderedPage) -> bytes:
        """A picture of the page as it is; none where it shows what was filled in."""
        found = await page.page.content() if self._filled else ""
        return await page.picture(*_PICTURE) if self._without_secrets(found) == found else b""

    def _without_secrets(self, text: str) -> str:
        for value in self._filled:
            for form in (value, html.escape(value)):
                text = text.replace(form, _HIDDEN)
        return text

    async def _do(self, page: RenderedPage, step: Step) -> None:
        here, soon = page.page, 1000 * _SECONDS
        if step.action == "wait":
            await here.wait_for_selector(step.css, timeout=soon)
        elif step.action == "quiet":
            await page.rest(_SECONDS)
        elif step.action == "pause":
            await here.wait_for_timeout(1000 * float(step.value))
        elif step.action == "click":
            await here.click(step.css, timeout=soon)
        elif step.action == "fill":
            await here.fill(step.css, step.value, timeout=soon)
        elif step.action == "secret":
            await self._fill_secret(page, step)
        elif step.action == "press":
            await here.keyboard.press(step.value)
        elif step.action == "choose":
            await here.select_option(step.css, label=step.value, timeout=soon)
        elif step.action == "scroll":
            for _ in range(int(step.value or 1)):
                await here.keyboard.press("End")
                await page.rest(_AFTER)
        else:
            button = here.get_by_role("button", name=_CONSENT).first
            if await button.is_visible():
                await button.click(timeout=soon)

    async def _fill_secret(self, page: RenderedPage, step: Step) -> None:
        from observant.observer.transport.urls import parse

        secret = self._secrets.get(step.value)
        if secret is None:
            message = f"there is no secret {step.value}: write [secrets.{step.value}] into the file"
            raise Unreachable("content", message)
        origin = parse(page.page.url).origin
        if origin not in {parse(one).origin for one in secret.origins}:
            raise Unreachable("content", f"the secret {step.value} is not for {origin}")
        self._filled.append(secret.text())
        page.masked.append("input, textarea")  # a script may copy it
        await page.page.fill(step.css, secret.text(), timeout=1000 * _SECONDS)
