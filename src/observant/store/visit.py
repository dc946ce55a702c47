"""A visit: what is known before it, what it found, and what is committed with it.

A visit starts with a `Previous`, makes a `Comparison` of it with what the world answered, and ends
as a `Visit`, which an `Entry` brings into the store with all that follows from it.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from observant.store.members import Member
    from observant.store.types import Event

Outcome = Literal["first", "same", "changed", "failed", "gone", "back", "unconfirmed"]
"""What a visit found.

first        the first good visit: there is nothing to compare with
same         the source is as it was, by its own definition of change
changed      it differs; `back_to` is set when it returned to an earlier version (A→B→A)
failed       nothing was observed: no answer, an error page, or nothing could be compared
gone         the source was there and has disappeared (404, 410, a not-found page)
back         it had disappeared and is there again
unconfirmed  it differs, but the source asks for a second look: visit again soon
"""
OUTCOMES: tuple[str, ...] = get_args(Outcome)
"""Every `Outcome`."""

GOOD: Final = ("first", "same", "changed", "back")
"""Outcomes of visits that saw the source."""

Error = Literal[
    "dns",
    "connect",
    "tls",
    "timeout",
    "too-large",
    "refused-address",
    "robots",
    "bad-url",
    "protocol",
    "too-many-redirects",
    "http",
    "content",
]
"""Why a visit observed nothing. "http" is a status of 400 and more; "content" is ours: the body
came, but the selection found nothing in it or it could not be read."""


class _Keep(enum.Enum):
    KEEP = "keep"

    def __repr__(self) -> str:
        return "KEEP"


KEEP: Final = _Keep.KEEP
"""Leave what the store holds as it is (None clears it)."""
Keep = Literal[_Keep.KEEP]


class Validators(msgspec.Struct, frozen=True, kw_only=True):
    """What makes the next request conditional. They belong to the final URL, not the first."""

    url: str
    etag: str | None = None
    last_modified: str | None = None
    """The server's own Last-Modified header, letter by letter."""


class Posterior(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a source's rate: bytes that only the estimator reads, and a summary."""

    data: bytes
    rate: float | None = None
    rate_low: float | None = None
    rate_high: float | None = None


class Previous(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a source before a visit: the last good version and what was learned."""

    source: str = ""
    digest_raw: bytes | None = None
    digest_text: bytes | None = None
    text: str | None = None
    """The latest kept snapshot of kind "text"."""
    record: dict[str, Any] = {}
    """Brewington's table 3.1 for the last good version."""
    memory: dict[str, Any] = {}
    """The comparer's own: learned noise, digests of recent versions, whether the source is gone."""
    validators: Validators | None = None
    last_modified: float | None = None
    selection_version: str = ""
    """Hash of the selection that made `text`; validators are void when the source's differs."""
    visited_at: float | None = None
    """Start of the last visit that saw the source."""
    posterior: bytes | None = None
    shot: bytes | None = None
    """The picture that the next one is compared with, where pictures are."""

    @property
    def is_empty(self) -> bool:
        """Nothing is known: no visit saw the source, and nothing was learned."""
        return self.visited_at is None and not self.memory


class Excerpt(msgspec.Struct, frozen=True):
    """The lines that came and those that went, as far as a message has room for them."""

    added: str = ""
    removed: str = ""
    cut: bool = False


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What changed between the last good version and this visit.

    What the store must keep: `memory` always; `digest_raw`, `digest_text` and `record` when they
    are not None; `text` as a new snapshot when it is not None. None means: keep what you have.
    Validators may be stored only when `complete` is true (the body was read to its end and
    compared); after a failed comparison the next request must be unconditional.
    """

    outcome: Outcome
    digest_raw: bytes | None = None
    digest_text: bytes | None = None
    magnitude: float | None = None
    """How much changed, 0 to 1: ‖v₂−v₁‖ over the larger of ‖v₁‖ and ‖v₂‖, at most 1."""
    angle: float | None = None
    """1 − cos θ of the term vectors."""
    distance: float | None = None
    """‖v₂−v₁‖, in terms."""
    length: float | None = None
    """‖v₁‖ of the last kept version, in terms."""
    attributes: tuple[str, ...] = ()
    """Which attributes of the record changed."""
    record: dict[str, Any] | None = None
    """Brewington's table 3.1 for this visit."""
    noise: tuple[dict[str, Any], ...] = ()
    """The fields that were ignored because they change on every visit."""
    back_to: bytes | None = None
    """The text digest of the earlier version that has returned."""
    image: bool = False
    """Whether what was compared is an image."""
    text: str | None = None
    met: tuple[str, ...] = ()
    """Conditions of the source that have come true with this visit."""
    excerpt: Excerpt | None = None
    """Lines that came and went, for messages; None when nobody has looked."""
    memory: dict[str, Any] = {}
    selection_version: str = ""
    complete: bool = False
    error: Error | None = None
    reason: str = ""
    """One sentence for people."""

    @property
    def changed(self) -> bool | None:
        """For the visit log: null on a first visit and where nothing was observed."""
        return _CHANGED[self.outcome]


_CHANGED: dict[str, bool | None] = {
    "first": None,
    "same": False,
    "changed": True,
    "failed": None,
    "gone": True,
    "back": True,
    "unconfirmed": None,
}


class Visit(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the visit log, and what comes with it while it is new."""

    source: str
    started_at: float
    ended_at: float
    outcome: Outcome
    changed: bool | None = None
    status: int | None = None
    last_modified: float | None = None
    digest: bytes | None = None
    """Of the normalised text (`Comparison.digest_text`)."""
    shot: bytes | None = None
    """A picture of the page, which is kept with a new version and with a failed visit."""
    magnitude: float | None = None
    bytes: int | None = None
    """What the visit cost on the wire."""
    cpu: float | None = None
    """Seconds of processor time: ours, and that of a browser where one was used."""
    error: str | None = None
    comparison: Comparison | None = None
    """Its digests and record are kept when they are not None, its memory always."""
    validators: Validators | Keep | None = KEEP
    """For the next request, in place of those before; None means: forget them."""
    age: float | None = None
    """Seconds since the change that the visit found, where the source has proved to tell it."""
    members: Sequence[Member] | None = None
    """What a visit of a standing query found; who is not among them is dropped. None: nothing is
    known of the results."""
    hub: tuple[str, str] | None = None
    """The WebSub hub and the topic that the answer names, both empty where it names none; None
    where that is not known."""
    id: int = 0
    """Its place in the log: later commits have higher numbers."""
    detail: dict[str, Any] | None = None
    """The comparison as the store keeps it (attributes, angle, distance, record, reason, …), where
    it had to tell."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One visit and all that is committed with it: one transaction or nothing.

    KEEP leaves what the store holds, None clears it.
    """

    visit: Visit
    posterior: Posterior | bytes | Keep | None = KEEP
    due_at: float | Keep | None = KEEP
    snapshot: bytes | str | Mapping[str, bytes | str] | Keep | None = KEEP
    """The normalised text, or several contents by kind: {"text": …, "body": …}. KEEP takes the
    text of the comparison, None takes nothing."""
    outbox: Sequence[Event] = ()
    anew: bool = False
    """Whether earlier visits say nothing any more: whether they saw a change becomes unknown."""
    fence: int | None = None
    """The fence of the lease of the source's shard. None: no lease is asked for."""
    state: str | None = None
    """A new state of the source ("gone", "active"), if the visit decided one."""
    spot_check: float | None = None
    """The visit was left to chance: how many such visits a day its source could expect."""
    cost: float | None = None
    """What a visit to this source costs, in plain visits; None leaves it as it is."""


class Recorded(enum.Enum):
    """What became of an entry."""

    NEW = "new"
    """It is in the store now."""
    KNOWN = "known"
    """It was there already (same source, same start): nothing was counted twice."""
    FENCED = "fenced"
    """Refused: its lease has expired or belongs to another observer."""
    UNKNOWN = "unknown"
    """Refused: the source was removed."""
