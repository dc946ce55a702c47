"""A page on the web: asked conditionally where that is safe, and audited so that it stays safe.

A conditional request saves a page, and it can hide changes: validators stored although the body was
never understood, a selection that was edited since, a server that says "not modified" whatever
happens. So validators are kept only from a body that was compared to its end, are void when the
selection is another, belong to the final address, and now and then the whole page is asked for. If
that finds a change, the old validators are tried once more: a server that still says "not modified"
has lied, and is not asked conditionally again.
"""

from __future__ import annotations

import asyncio
import logging
from functools import cached_property, partial
from typing import TYPE_CHECKING

import msgspec

from observant.errors import InputError
from observant.observer.browser.need import RENDERED, BrowserNeed, has_scripts
from observant.observer.browser.steps import SteppingBrowser
from observant.observer.content.document import short_digest
from observant.observer.content.pictures import kept_image
from observant.observer.content.second_look import LOOKS, SecondLook, judge_looks
from observant.observer.fetched import visit_of
from observant.observer.honesty import Dates
from observant.observer.sources.base import Compared, host_of
from observant.observer.tasks import AT_ONCE, Form, Read, read
from observant.observer.transport.conditional import validators_of
from observant.observer.transport.limits import Limits
from observant.observer.websub import hub_of
from observant.store.visit import Previous

if TYPE_CHECKING:
    from observant.observer.fetched import Fetched
    from observant.observer.transport.transfer import RequestEngine
    from observant.store.visit import Comparison, Validators, Visit

log = logging.getLogger("observant.observer")

_SIGNED_IN = "signed_in"
"""Where the comparer's memory holds what a browser keeps of who has signed in, encrypted."""
_RENDERED_FORMS = frozenset({"page", "product"})
"""What a browser can show more of than there is; feeds and sitemaps have no scripts."""


class HttpSource(Compared):
    """http and https."""

    form: Form = "page"

    async def fetch(
        self, previous: Previous | None, browser: RequestEngine | None = None
    ) -> Fetched:
        return await self._get(self._validators(previous), browser)

    @cached_property
    def _version(self) -> str:
        """What is compared, as long as no browser brings it."""
        return self.comparer.selection_version

    async def visit(self, previous: Previous | None) -> Visit:
        """Look without a browser, with one, or both ways to see whether that makes a difference."""
        need = BrowserNeed.of(previous)
        if self.settings.steps or self.settings.sign_in or self._visual:
            return await self._visit_with_steps(previous, need)
        way = need.way(self.settings.render, possible=self._can_render)
        if way == "browser":
            rendered = await self._get(None, self.around.browser)
            return await self._visit_rendered(previous, need.looked(rendered), rendered)
        if way == "both":
            return await self._visit_both_ways(previous, need, await self._get(None))
        return await self._visit_plainly(previous, need)

    async def _visit_with_steps(self, previous: Previous | None, need: BrowserNeed) -> Visit:
        """Take steps before the page is read; go on with the state of who has signed in before."""
        seal, kept = self.around.seal, previous.memory.get(_SIGNED_IN) if previous else None
        before = seal.open(kept) if seal and kept else None
        own = self.settings
        stepping = SteppingBrowser(
            *(self.around.browser, own.steps, own.sign_in),
            secrets=self.around.secrets,
            state=before,
            masks=self.comparer.rules.css_masks if self._visual else None,
        )
        rendered = await self._get(None, stepping)
        visit = await self._visit_rendered(previous, need.looked(rendered), rendered)
        if seal and stepping.state is not before and visit.comparison is not None:
            memory = visit.comparison.memory | {_SIGNED_IN: seal.close(stepping.state)}
            found = msgspec.structs.replace(visit.comparison, memory=memory)
            visit = msgspec.structs.replace(visit, comparison=found)
        return visit

    async def _visit_both_ways(
        self, previous: Previous | None, need: BrowserNeed, plain: Fetched
    ) -> Visit:
        """Compare what there is with a browser and without one, and go on with one of them."""
        if not plain.ok:
            return await self._visit_plainly(previous, need, plain)
        if not has_scripts(plain):
            return await self._visit_plainly(previous, need.without_scripts(), plain)
        try:
            rendered = await self._get(None, self.around.browser)
        except InputError as error:  # it does not start: the log says why
            log.warning("no browser to compare with", extra={"reason": str(error)})
            return await self._visit_plainly(previous, need, plain)
        need = need.looked(rendered)
        if rendered.ok:  # otherwise nothing is known of the other way: once more next time
            need = need.compared(await self._text(plain), await self._text(rendered))
        if need.needed:
            return await self._visit_rendered(previous, need, rendered)
        return await self._visit_plainly(previous, need, plain)

    async def _visit_rendered(
        self, previous: Previous | None, need: BrowserNeed, rendered: Fetched
    ) -> Visit:
        steps = [*self.settings.sign_in, *self.settings.steps]
        taken = short_digest("\n".join(steps)) if steps else ""
        self.comparer.selection_version = self._version + taken + RENDERED
        found = await self.read(previous, rendered)
        comparison = need.kept(found.comparison)
        return visit_of(self.name, _seen(rendered, found), comparison, validators=None)

    @property
    def _visual(self) -> bool:
        """Whether pictures are compared."""
        return self.comparer.rules.change == "visual"

    @property
    def _can_render(self) -> bool:
        """Whether a browser can show more of this than there is."""
        return self.around.has_browser and self.form in _RENDERED_FORMS

    async def _text(self, fetched: Fetched) -> str | None:
        """What would be compared of an answer; None if nothing can be."""
        whole = msgspec.structs.replace(fetched)  # a large body is handed over when it is read
        return (await self.read(None, whole)).comparison.text

    async def _visit_plainly(
        self, previous: Previous | None, need: BrowserNeed, given: Fetched | None = None
    ) -> Visit:
        """The visit without a browser; `given` is an answer to an unconditional request."""
        self.comparer.selection_version = self._version
        validators = self._validators(previous) if given is None else None
        audits, host = self.around.audits, self._host
        audited = bool(validators and audits and audits.wanted(host))
        fetched = given or await self._get(None if audited else validators)
        scripts = has_scripts(fetched) if fetched.body else need.scripts
        again = None
        if scripts and given is None and self._can_render and self.settings.render == "auto":
            again = _copies(previous, fetched)  # what is large is handed over to who reads it
        text, body = previous.text if previous is not None else None, fetched.body
        found = await self.read(previous, fetched)
        if self.form == "page" and self.comparer.wants_second_look(
            previous, text, found.comparison
        ):
            doubted = audited or (audits is not None and audits.caught(host))
            shown = None if doubted else _new_validators(previous, fetched)
            looked = previous, text or "", fetched, body, found
            fetched, found = await self._look_again(*looked, shown)
        comparison, seen = found.comparison, _seen(fetched, found)
        before, whole = need, not self.comparer.rules.selects and self.form == "page"
        need = need.read_plainly(comparison, scripts=scripts, whole=whole)
        if again is not None and need.shell and not before.shell:
            return await self._visit_both_ways(again[0], before, again[1])
        if validators and audits and comparison.outcome == "changed":
            if not audited:
                audits.told_truth(host)
            elif not audits.caught(host) and await self._denied(validators):
                audits.lied(host)
        elif audited and audits and comparison.outcome == "same":
            audits.found_same(host)
        comparison, age = _dated(previous, seen, comparison)
        keep = _validators_to_keep(previous, fetched, comparison)
        if self.form in _RENDERED_FORMS:
            comparison = need.kept(comparison)
        return visit_of(self.name, seen, comparison, validators=keep, age=age)

    async def _look_again(
        self,
        previous: Previous | None,
        before: str,
        fetched: Fetched,
        body: bytes,
        found: Read,
        shown: Validators | None,
    ) -> tuple[Fetched, Read]:
        """Fetch a changed page again, and find out whether it differs by itself.

        A server that has just named the new version (`shown`) is asked whether it is still that.
        """
        known = msgspec.structs.replace(previous or Previous(), text=before)
        looks, texts, bodies = [(fetched, found.comparison)], [found.comparison.text or ""], [body]
        judged = SecondLook(True, 0, False, [])
        for _ in range(LOOKS):
            again = await self._get(shown)
            if shown is not None and again.not_modified:
                if len(looks) > 1:
                    continue
                looks, texts, bodies = looks * 2, texts * 2, bodies * 2
            else:
                bodies.append(again.body)
                last, shown = self.comparer.after(previous, *looks[-1]), None
                seen = await self.read(msgspec.structs.replace(last, text=texts[-1]), again)
                if not seen.comparison.complete:  # no answer, or no page: it says nothing
                    break
                looks.append((again, seen.comparison))
                texts.append(texts[-1] if seen.comparison.text is None else seen.comparison.text)
            now, varying = self.around.time(), known.memory.get("varying", [])
            past, hidden = known.visited_at or now, known.memory.get("hidden", 0)
            judge = partial(judge_looks, before, past, texts, now, varying, hidden)
            quick = not varying and len(texts[0]) <= AT_ONCE and len(set(texts)) == 1
            judged = judge() if quick else await asyncio.to_thread(judge)
            if judged.news is False:
                break
        pick = judged.pick or 0
        at, comparison = looks[pick]
        if judged.strange:  # what was learned on the way may be of the other page
            comparison = msgspec.structs.replace(comparison, memory=known.memory)
        if not judged.news:
            text = None if judged.pick is None else texts[pick]
            calm = self.comparer.by_itself(known, comparison, text, judged.varying)
            return at, Read(comparison=calm)
        if judged.strange:
            at = msgspec.structs.replace(at, body=bodies[pick])
            comparison = (await self.read(known, at)).comparison
        else:
            at, comparison = looks[0][0], found.comparison
            comparison = msgspec.structs.replace(comparison, memory=looks[-1][1].memory)
        memory = comparison.memory | {"confirmed": known.memory.get("confirmed", 0) + 1}
        memory |= {"varying": judged.varying} if judged.varying else {}
        return at, Read(comparison=msgspec.structs.replace(comparison, memory=memory))

    async def read(self, previous: Previous | None, fetched: Fetched) -> Read:
        """Read the body and compare it; kinds that make something else of it say its form."""
        return await read(self.comparer, previous, fetched, form=self.form)

    async def _get(
        self, validators: Validators | None, browser: RequestEngine | None = None
    ) -> Fetched:
        fetched = await self.around.transport.fetch(
            self.url,
            headers=tuple(self.settings.headers.items()),
            validators=validators,
            robots=self.settings.robots,
            verify=self.settings.verify,
            limits=self._limits,
            through=browser,
        )
        image = kept_image(fetched.body) if self.form == "page" and fetched.ok else None
        return msgspec.structs.replace(fetched, hub=hub_of(fetched), shot=fetched.shot or image)

    @cached_property
    def _host(self) -> str:
        return host_of("http", self.url)

    @cached_property
    def _limits(self) -> Limits | None:
        """Those of everybody, with what this source says differently."""
        own = self.settings.limits
        if not own:
            return None
        usual = msgspec.structs.asdict(self.around.transport.limits)
        return msgspec.convert(usual | own, Limits, strict=False)

    async def _denied(self, validators: Validators | None) -> bool:
        """Ask again with the validators of a version that we know is past."""
        return (await self._get(validators)).not_modified

    def _validators(self, previous: Previous | None) -> Validators | None:
        usable = previous is not None and self.comparer.usable_validators(previous)
        return previous.validators if previous is not None and usable else None


def _copies(previous: Previous | None, fetched: Fetched) -> tuple[Previous | None, Fetched]:
    kept = None if previous is None else msgspec.structs.replace(previous)
    return kept, msgspec.structs.replace(fetched)


def _seen(fetched: Fetched, found: Read) -> Fetched:
    """The answer, with why there is nothing to compare in it."""
    if found.error is None:
        return fetched
    return msgspec.structs.replace(fetched, error=found.error, message=found.message)


def _dated(
    previous: Previous | None, fetched: Fetched, found: Comparison
) -> tuple[Comparison, float | None]:
    """How old the change is that was found, and the comparison with what its date has shown."""
    if previous is None:
        return found, None
    dates = msgspec.convert(previous.memory.get("dates", ()), Dates)
    after = dates.after(previous, fetched, found)
    if after != dates:
        memory = found.memory | {"dates": msgspec.to_builtins(after)}
        found = msgspec.structs.replace(found, memory=memory)
    return found, dates.age(previous, fetched, found)


def _new_validators(previous: Previous | None, fetched: Fetched) -> Validators | None:
    """Those of an answer, if they differ from the last ones: the server says itself that it has
    changed, so that its word for "still the same" is worth as much.
    """
    new, old = validators_of(fetched), previous.validators if previous else None
    if new is None or old is None:
        return new
    same = new.etag == old.etag if new.etag else new.last_modified == old.last_modified
    return None if same else new


def _validators_to_keep(
    previous: Previous | None, fetched: Fetched, comparison: Comparison
) -> Validators | None:
    if comparison.complete and fetched.ok and not fetched.not_modified:
        return validators_of(fetched)
    return previous.validators if previous else None  # they belong to the version that we have
