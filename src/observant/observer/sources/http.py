"""A page on the web: asked conditionally where that is safe, and audited so that it stays safe.

A conditional request saves a page, and it can hide changes: validators stored although the body was
never understood, a selection that was edited since, a server that says "not modified" whatever
happens. So validators are kept only from a body that was compared to its end, are void when the
selection is another, belong to the final address, and now and then the whole page is asked for. If
that finds a change, the old validators are tried once more: a server that still says "not modified"
has lied, and is not asked conditionally again.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from observant.observer.fetched import visit_of
from observant.observer.honesty import Dates
from observant.observer.sources.base import Compared, host_of
from observant.observer.tasks import Form, Read, read
from observant.observer.transport.conditional import validators_of
from observant.observer.transport.limits import Limits

if TYPE_CHECKING:
    from observant.observer.fetched import Fetched
    from observant.store.visit import Comparison, Previous, Validators, Visit

__all__ = ["HttpSource"]


class HttpSource(Compared):
    """http and https."""

    form: Form = "page"

    async def fetch(self, previous: Previous | None) -> Fetched:
        return await self._get(self._validators(previous))

    async def visit(self, previous: Previous | None) -> Visit:
        validators = self._validators(previous)
        audits, host = self.around.audits, host_of("http", self.url)
        audited = bool(validators and audits and audits.wanted(host))
        fetched = await self._get(None if audited else validators)
        found = await self.read(previous, fetched)
        comparison = found.comparison
        seen = fetched
        if found.error is not None:
            seen = msgspec.structs.replace(fetched, error=found.error, message=found.message)
        if validators and audits and comparison.outcome == "changed":
            if not audited:
                audits.told_truth(host)
            elif not audits.caught(host) and await self._denied(validators):
                audits.lied(host)
        elif audited and audits and comparison.outcome == "same":
            audits.found_same(host)
        comparison, age = _dated(previous, seen, comparison)
        keep = _validators_to_keep(previous, fetched, comparison)
        return visit_of(self.name, seen, comparison, validators=keep, age=age)

    async def read(self, previous: Previous | None, fetched: Fetched) -> Read:
        """Read the body and compare it; kinds that make something else of it say its form."""
        return await read(self.comparer, previous, fetched, form=self.form)

    async def _get(self, validators: Validators | None) -> Fetched:
        return await self.around.transport.fetch(
            self.url,
            headers=tuple(self.settings.headers.items()),
            validators=validators,
            robots=self.settings.robots,
            verify=self.settings.verify,
            limits=self._limits,
        )

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


def _validators_to_keep(
    previous: Previous | None, fetched: Fetched, comparison: Comparison
) -> Validators | None:
    if comparison.complete and fetched.ok and not fetched.not_modified:
        return validators_of(fetched)
    return previous.validators if previous else None  # they belong to the version that we have
