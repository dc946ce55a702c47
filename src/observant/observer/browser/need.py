"""Whether a source needs a browser: found out by looking both ways, and looked after now and then.

The cheap way is kept while it shows the same text. What is known is a part of the memory of the
comparer, so it is committed with the visit that showed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec

from observant.observer.content.record import term_vector

if TYPE_CHECKING:
    from observant.observer.fetched import Fetched
    from observant.store.visit import Comparison, Previous

_MEMORY = "browser"
"""The name under which the comparer's memory holds it."""
RENDERED = "+browser"
"""Marks what was compared: a page with and without a browser are two things."""
_MISSING = 0.1
"""A page needs a browser when more than this share of its words is not there without one."""
_SPARSER = 4
_SPARSEST = 100
_SHELL_WORDS = 25
"""A page with scripts and fewer words than this is an empty shell, as far as can be seen."""


class BrowserNeed(msgspec.Struct, frozen=True, kw_only=True):
    """What visits have shown so far; what they cost with a browser."""

    needed: bool | None = None
    """None: nobody has compared both ways."""
    shell: bool = False
    """It looks empty without a browser."""
    scripts: bool = True
    """Whether the page has any, as far as was seen; one without them needs no browser."""
    visits: int = 0
    """Since both ways were compared."""
    wait: int = 1
    """After so many visits they are compared again."""
    cpu: float = 0.0
    """Seconds of processor time that a visit with a browser takes, on average."""
    bytes: float = 0.0
    """What it takes on the wire, on average."""
    looks: int = 0
    """Visits with a browser."""

    @classmethod
    def of(cls, previous: Previous | None) -> Self:
        """What is known before a visit."""
        kept = previous.memory.get(_MEMORY) if previous else None
        return msgspec.convert(kept, cls) if kept else cls()

    def way(self, render: str, *, possible: bool) -> Literal["plain", "browser", "both"]:
        """How to look this time.

        >>> BrowserNeed().way("auto", possible=True), BrowserNeed().way("auto", possible=False)
        ('both', 'plain')
        >>> BrowserNeed(needed=True, wait=4).way("auto", possible=True)
        'browser'
        """
        if render == "always":
            return "browser"
        if render == "never" or not possible:
            return "plain"
        if self.needed is None or (self.shell and not self.needed):
            return "both"
        if self.scripts and self.visits >= self.wait:
            return "both"
        return "browser" if self.needed else "plain"

    def compared(self, plain: str | None, rendered: str | None) -> Self:
        """After both ways were compared; None is a text that could not be had."""
        needed = rendered is not None and (
            plain is None or share_missing(plain, rendered) > _MISSING
        )
        first = self.needed is None or needed != self.needed
        wait = 1 if first else min(_SPARSER * self.wait, _SPARSEST)
        # A page that is as empty with a browser is no shell: it has nothing to say.
        return msgspec.structs.replace(
            self, needed=needed, shell=needed, scripts=True, visits=0, wait=wait
        )

    def without_scripts(self) -> Self:
        """A page without scripts shows the same either way."""
        return msgspec.structs.replace(
            self, needed=False, shell=False, scripts=False, visits=0, wait=1
        )

    def looked(self, fetched: Fetched) -> Self:
        """After a visit with a browser."""
        n = self.looks + 1
        weight = max(1 / n, 0.1)
        return msgspec.structs.replace(
            self,
            cpu=self.cpu + weight * ((fetched.cpu or 0.0) - self.cpu),
            bytes=self.bytes + weight * (fetched.wire_bytes - self.bytes),
            looks=n,
            visits=self.visits + 1,
        )

    def read_plainly(self, found: Comparison, *, scripts: bool, whole: bool) -> Self:
        """After a visit without one; `scripts` says whether the page has any, and `whole` whether
        all of its text is compared.
        """
        shell = self.shell
        if self.visits or self.needed is None:  # otherwise both ways have just been compared
            if not scripts:
                shell = False
            elif found.error == "content":
                shell = True  # the selection finds nothing: perhaps a script brings it
            elif found.text is not None:
                shell = whole and len(found.text.split(None, _SHELL_WORDS)) < _SHELL_WORDS
        return msgspec.structs.replace(self, shell=shell, scripts=scripts, visits=self.visits + 1)

    @staticmethod
    def is_rendered(previous: Previous) -> bool:
        """Whether the version that is kept was seen with a browser."""
        return previous.selection_version.endswith(RENDERED)

    def kept(self, found: Comparison) -> Comparison:
        """The comparison with this in its memory."""
        if self == BrowserNeed():
            return found
        memory: dict[str, Any] = found.memory | {_MEMORY: msgspec.to_builtins(self)}
        return msgspec.structs.replace(found, memory=memory)


def has_scripts(fetched: Fetched) -> bool:
    """Whether scripts, or frames, could show more of this than is there already."""
    if "html" not in (fetched.content_type or "html"):
        return False
    body = fetched.body
    if b"<script" in body:  # most pages
        return True
    body = body.lower()
    return b"<script" in body or b"<iframe" in body


def share_missing(plain: str, rendered: str) -> float:
    """Which share of the words that a browser shows is not there without one.

    >>> share_missing("one two", "one two three four"), share_missing("a b c", "a c")
    (0.5, 0.0)
    """
    shown = term_vector(rendered)
    total = shown.total()
    return (shown - term_vector(plain)).total() / total if total else 0.0
