# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201 - numba compiles loops, not generators
"""Names and digests of many rows, one behind the other, as Arrow keeps them."""

from observant.formats.imports.kernels.text import jit
from observant.formats.imports.kernels.values import WIDEST, digest

__all__ = ["gather", "pack", "spell"]


@jit
def gather(data, names, rows, out, offsets):
    """Copy the bytes of these rows' names one behind the other."""
    at = 0
    for k in range(len(rows)):
        begin, end = names[rows[k], 0], names[rows[k], 1]
        offsets[k] = at
        for i in range(begin, end):
            out[at] = data[i]
            at += 1
    offsets[len(rows)] = at


@jit
def pack(digests, digest_size, rows, out, offsets):
    """Copy the digests of these rows one behind the other."""
    at = 0
    for k in range(len(rows)):
        offsets[k] = at
        for i in range(digest_size[rows[k]]):
            out[at] = digests[WIDEST * rows[k] + i]
            at += 1
    offsets[len(rows)] = at


@jit
def spell(data, offsets, out, sizes):
    """Write the bytes that each digest spells; a size of -1 marks an unusual one."""
    for row in range(len(offsets) - 1):
        sizes[row] = digest(data, offsets[row], offsets[row + 1], out, WIDEST * row)
