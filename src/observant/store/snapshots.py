"""Snapshots: contents named by their SHA-256 and compressed, and which source had them when."""

from __future__ import annotations

import hashlib
import threading
from typing import TYPE_CHECKING, NamedTuple

import zstandard

from observant.errors import InputError, StoreError, UnknownSourceError
from observant.store.engine import Columns, StorePiece
from observant.store.types import Swept, Version
from observant.times import micros

if TYPE_CHECKING:
    from observant.store.engine import Row, Session

__all__ = ["LARGEST", "Packed", "Snapshots", "packed", "unpacked"]

LARGEST = 256 << 20
"""Bytes of the largest content that is kept. What claims to be larger is not unpacked."""
_LEVEL = 3

# A compressor is not to be used by two threads at a time.
_local = threading.local()
_END_OF_TIME = 1 << 62
_AT_A_TIME = 1000


class Snapshots(StorePiece):
    """Kept contents, and the versions of each source."""

    def versions(self, source: str, *, kind: str = "text", limit: int = 100) -> list[Version]:
        """Kept versions of a source, newest first."""

        def work(session: Session) -> list[Version]:
            rows = session.all("versions", source=_number(session, source), kind=kind, most=limit)
            return [_VERSION(row, source=source) for row in rows]

        return self._engine.read(work)

    def get(self, digest: bytes) -> bytes:
        """The content with this SHA-256; KeyError if it is not kept (any more)."""
        row = self._engine.read(lambda session: session.one("snapshot", digest=digest))
        if row is None:
            raise KeyError(digest.hex())
        return unpacked(row[0], row[1], digest)

    def at(self, source: str, at: float | None = None, *, kind: str = "text") -> bytes | None:
        """The content as of an instant (None: the latest), or None if it is not kept."""
        instant = _END_OF_TIME if at is None else micros(at)
        row = self._engine.read(
            lambda session: session.one(
                "version_at", source=_number(session, source), kind=kind, at=instant
            )
        )
        return None if row is None else unpacked(*row)

    def retain(
        self,
        *,
        max_age: float | None = None,
        max_versions: int | None = None,
        max_bytes: int | None = None,
        now: float | None = None,
    ) -> Swept:
        """Drop versions older than `max_age` seconds, beyond `max_versions` per source and kind,
        and the oldest until the rest fits `max_bytes`; then contents that nobody refers to.

        The latest version of each source always stays: the next visit is compared with it. Visits
        are never dropped.
        """
        if max_versions is not None and max_versions < 1:
            raise InputError("the latest version always stays: max_versions is one or more")
        for name, value in (("max_age", max_age), ("max_bytes", max_bytes)):
            if value is not None and not value >= 0:
                raise InputError(f"{name} is zero or more, not {value!r}")
        before = None if max_age is None else micros(self._engine.now(now) - max_age)
        swept = Swept()
        for step in (
            lambda session: _by_age(session, before),
            lambda session: _by_count(session, max_versions),
            lambda session: _by_size(session, max_bytes),
        ):
            # Many short transactions: visits go on in between, and a crash leaves nothing half.
            while (done := self._engine.write(step)).versions:
                swept = Swept(
                    versions=swept.versions + done.versions,
                    snapshots=swept.snapshots + done.snapshots,
                    bytes=swept.bytes + done.bytes,
                )
        return swept


def _number(session: Session, source: str) -> int:
    number = session.value("source_id", name=source)
    if number is None:
        raise UnknownSourceError(f"there is no source {source!r}")
    return int(number)


def _by_age(session: Session, before: int | None) -> Swept:
    if before is None:
        return Swept()
    return _swept(session, session.all("expire_by_age", before=before, most=_AT_A_TIME))


def _by_count(session: Session, most: int | None) -> Swept:
    if most is None:
        return Swept()
    sources = sorted({row[0] for row in session.all("sources_with_many", most=most)})
    return _swept(session, session.all("expire_by_count", most=most, sources=sources))


def _by_size(session: Session, most: int | None) -> Swept:
    """Drop the oldest versions, and hardly more of them than must go."""
    count, total = session.one("count_snapshots") or (0, 0)
    if most is None or total <= most:
        return Swept()
    share = (int(total) - most) / int(total)
    step = min(max(int(share * count / 2), 1), _AT_A_TIME)
    return _swept(session, session.all("expire_by_age", before=_END_OF_TIME, most=step))


def _swept(session: Session, dropped: list[Row]) -> Swept:
    """Drop the contents of these versions that no other version refers to."""
    ids = sorted({row[0] for row in dropped})
    count, size = session.one("orphans_of", ids=ids) or (0, 0)
    session.run("sweep_of", ids=ids)
    return Swept(versions=len(dropped), snapshots=int(count), bytes=int(size))


_VERSION = Columns(Version, "at:at kind digest size stored")


class Packed(NamedTuple):
    """A content, ready to be stored."""

    digest: bytes
    size: int
    content: bytes


def packed(content: bytes | str) -> Packed:
    """Compress a content and find its name.

    >>> one = packed("to be " * 1000)
    >>> len(one.digest), one.size, len(one.content) < 100, unpacked(one.content, one.size)[:6]
    (32, 6000, True, b'to be ')
    """
    plain = content.encode("utf-8", "replace") if isinstance(content, str) else bytes(content)
    if len(plain) > LARGEST:
        raise InputError(f"a snapshot has {len(plain):,} bytes, more than {LARGEST:,}")
    if not hasattr(_local, "compressor"):
        _local.compressor = zstandard.ZstdCompressor(level=_LEVEL)
    digest = hashlib.sha256(plain).digest()
    return Packed(digest, len(plain), _local.compressor.compress(plain))


def unpacked(content: bytes, size: int, digest: bytes | None = None) -> bytes:
    """The plain content; never more than `size` bytes, and checked against its name if given."""
    content = bytes(content)
    try:
        told = zstandard.frame_content_size(content)
        if told != size or size > LARGEST:
            raise StoreError(f"a snapshot says it has {told:,} bytes, but {size:,} are expected")
        if not hasattr(_local, "decompressor"):
            _local.decompressor = zstandard.ZstdDecompressor()
        plain: bytes = _local.decompressor.decompress(content, max_output_size=max(size, 1))
    except zstandard.ZstdError as error:
        raise StoreError(f"a snapshot is damaged: {error}") from error
    if len(plain) != size or (digest is not None and hashlib.sha256(plain).digest() != digest):
        raise StoreError("a snapshot is damaged: it is not what its name says")
    return plain
