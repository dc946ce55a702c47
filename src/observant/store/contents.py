"""Contents as they lie in the store: named by their SHA-256, compressed with zstd."""

from __future__ import annotations

import hashlib
import threading
from typing import NamedTuple

import zstandard

from observant.errors import InputError
from observant.store.errors import StoreError

__all__ = ["LARGEST", "Packed", "packed", "unpacked"]

LARGEST = 256 << 20
"""Bytes of the largest content that is kept. What claims to be larger is not unpacked."""
_LEVEL = 3

# A compressor is not to be used by two threads at a time.
_local = threading.local()


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
