"""What passes between transport, comparer, observer and store: one visit and what it found.

A visit starts with a `Previous` (what we know of the source), gets a `Fetched` (what the world
answered), makes a `Comparison` of the two, and ends as a `Visit`, which the store keeps.
"""

__all__ = [
    "OUTCOMES",
    "Comparison",
    "Error",
    "Excerpt",
    "Fetched",
    "Outcome",
    "Previous",
    "Validators",
    "Visit",
]

from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

if TYPE_CHECKING:
    from observant.store import Remembered

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


class Validators(msgspec.Struct, frozen=True, kw_only=True):
    """What makes the next request conditional. They belong to the final URL, not the first."""

    url: str
    etag: str | None = None
    last_modified: str | None = None
    """The server's own Last-Modified header, letter by letter."""


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of the world, or the reason why there is none. Instants are epoch seconds.

    >>> page = Fetched(url="https://example.org/", status=200, body=b"Hello")
    >>> page.final_url, page.ok, page.header("etag")
    ('https://example.org/', True, None)
    """

    url: str
    final_url: str = ""
    """After redirects. Empty means: the same as `url`."""
    status: int = 0
    """The HTTP status; 0 when there was no answer. Sources without HTTP say 200 or 404."""
    headers: tuple[tuple[str, str], ...] = ()
    """In order, names in lower case."""
    body: bytes = b""
    content_type: str = ""
    """Only the type, in lower case: "text/html"."""
    charset: str | None = None
    etag: str | None = None
    last_modified: float | None = None
    """What the source claims, sanity-checked; None when absent or absurd."""
    not_modified: bool = False
    started_at: float = 0.0
    first_byte_at: float | None = None
    ended_at: float = 0.0
    wire_bytes: int = 0
    redirects: tuple[str, ...] = ()
    error: Error | None = None
    message: str = ""

    def __post_init__(self) -> None:
        if not self.final_url:
            msgspec.structs.force_setattr(self, "final_url", self.url)

    @property
    def ok(self) -> bool:
        """There is an answer to compare: a good status or "not modified"."""
        return self.error is None and (self.not_modified or 200 <= self.status < 300)

    def header(self, name: str) -> str | None:
        """The first header of this name, if any."""
        name = name.lower()
        return next((value for key, value in self.headers if key == name), None)


class Previous(msgspec.Struct, frozen=True, kw_only=True):
    """What we know of a source before a visit: the last good version and what was learned.

    `record` and `memory` are small JSON values. The store keeps them as they are and never looks
    inside. `text` is the last kept snapshot.
    """

    digest_raw: bytes | None = None
    digest_text: bytes | None = None
    text: str | None = None
    record: dict[str, Any] = {}
    memory: dict[str, Any] = {}
    """The comparer's own: learned noise, digests of recent versions, whether the source is gone."""
    validators: Validators | None = None
    last_modified: float | None = None
    selection_version: str = ""
    """Hash of the selection that made `text`; validators are void when the source's differs."""
    visited_at: float | None = None

    @classmethod
    def of(cls, known: "Remembered") -> "Previous | None":
        """What a store remembers of a source; None if that is nothing."""
        if known.visited_at is None and not known.memory:
            return None
        names = (name for name in cls.__struct_fields__ if name != "validators")
        told = known.validators
        return cls(
            **{name: getattr(known, name) for name in names},
            validators=None
            if told is None
            else Validators(url=told.url, etag=told.etag, last_modified=told.last_modified),
        )


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
    text: str | None = None
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
    """One row of the visit log, and the comparison behind it."""

    source: str
    started_at: float
    ended_at: float
    outcome: Outcome
    changed: bool | None = None
    status: int = 0
    last_modified: float | None = None
    digest: bytes | None = None
    """Of the normalised text (`Comparison.digest_text`)."""
    magnitude: float | None = None
    bytes: int = 0
    """What the visit cost on the wire."""
    error: Error | None = None
    comparison: Comparison | None = None

    @classmethod
    def of(cls, source: str, fetched: Fetched, comparison: Comparison) -> "Visit":
        """The visit that fetched this and found that.

        >>> page = Fetched(url="https://example.org/", status=200, started_at=7.0, wire_bytes=120)
        >>> visit = Visit.of("home", page, Comparison(outcome="same", magnitude=0.0))
        >>> visit.started_at, visit.changed, visit.bytes
        (7.0, False, 120)
        """
        return cls(
            source=source,
            started_at=fetched.started_at,
            ended_at=fetched.ended_at,
            outcome=comparison.outcome,
            changed=comparison.changed,
            status=fetched.status,
            last_modified=fetched.last_modified,
            digest=comparison.digest_text,
            magnitude=comparison.magnitude,
            bytes=fetched.wire_bytes,
            error=comparison.error or fetched.error,
            comparison=comparison,
        )
