"""What the world answered, and the visit that is made of it."""

__all__ = ["Fetched", "visit_of"]

from typing import Any

import msgspec

from observant.store.visit import Comparison, Error, Visit


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
    cpu: float | None = None
    """Seconds of processor time that a browser took; None without one."""
    shot: bytes | None = None
    """A picture of the page that a browser took; of an image, the image."""
    redirects: tuple[str, ...] = ()
    hub: tuple[str, str] | None = None
    """The WebSub hub and topic that it names (`observant.observer.websub`), where that was read."""
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


def visit_of(source: str, fetched: Fetched, comparison: Comparison, **more: Any) -> Visit:
    """The visit that fetched this and found that; `more` are further fields of it.

    >>> page = Fetched(url="https://example.org/", status=200, started_at=7.0, wire_bytes=120)
    >>> visit = visit_of("home", page, Comparison(outcome="same", magnitude=0.0))
    >>> visit.started_at, visit.changed, visit.bytes
    (7.0, False, 120)
    """
    return Visit(
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
        cpu=fetched.cpu,
        shot=fetched.shot,
        hub=fetched.hub,
        error=comparison.error or fetched.error,
        comparison=comparison,
        **more,
    )
