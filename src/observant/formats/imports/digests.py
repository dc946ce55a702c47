"""A whole column of digests, from text to the bytes that it spells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.formats.imports.values import WIDEST_DIGEST, digest_in

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["digests_in"]

_COMPILED_FROM = 20_000  # rows


def digests_in(texts: pa.Array, compiled_from: int = _COMPILED_FROM) -> pa.Array:
    """Bytes for each text, as `observant.formats.imports.values.digest_in` reads it.

    >>> import pyarrow as pa
    >>> digests_in(pa.array(["-", "A" * 32, None])).to_pylist() == [None, bytes(20), None]
    True
    """
    import pyarrow as pa

    if len(texts) < compiled_from:
        return pa.array([digest_in(text) for text in texts.to_pylist()], pa.binary())
    from observant.formats.imports.kernels import pack, spell

    plain = texts.cast(pa.large_string()).fill_null("")
    offsets = np.frombuffer(plain.buffers()[1], np.int64)[plain.offset :][: len(plain) + 1]
    data = np.frombuffer(plain.buffers()[2] or b"\0", np.uint8)
    spelt = np.zeros(WIDEST_DIGEST * len(plain), np.uint8)
    sizes = np.zeros(len(plain), np.int64)
    spell(data, offsets, spelt, sizes)
    for row in np.flatnonzero(sizes < 0).tolist():
        digest = digest_in(plain[row].as_py()) or b""
        spelt[row * WIDEST_DIGEST :][: len(digest)] = np.frombuffer(digest, np.uint8)
        sizes[row] = len(digest)
    packed = np.empty(int(sizes.sum()), np.uint8)
    ends = np.empty(len(plain) + 1, np.int32)
    pack(spelt, sizes, np.arange(len(plain)), packed, ends)
    known = pa.array(sizes > 0).buffers()[1]
    return pa.Array.from_buffers(
        pa.binary(), len(plain), [known, pa.py_buffer(ends), pa.py_buffer(packed)]
    )
