"""How much memory there is, how much a log would need, and so where the work is to be done."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any

from observant.errors import InputError, UnitError

_UNITS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000, "t": 1_000_000_000_000}
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)

BYTES_PER_VISIT = 45
"""Measured for `estimate` on logs of 10 to 100 million visits, 35 to 40; digests come on top."""
BYTES_PER_SOURCE = 400
"""Measured for `plan` on a million sources."""
_BYTES_IN_FILE = {"cdx": 120, "cdxj": 250, "warc": 10_000, "wacz": 10_000}
_TEXT_PER_VISIT = 60
"""Bytes of a visit in CSV or JSON Lines, at the least."""
_PACKED = 8
"""Compressed text is about so much smaller."""
_SHARE = 0.7
"""Of the memory that is free, unless the user says how much."""


def parse_size(text: str | int) -> int:
    """Bytes in a size such as ``4GB``, ``512MiB`` or ``2g``.

    >>> parse_size("4GB"), parse_size("1.5 KiB"), parse_size(1000)
    (4000000000, 1536, 1000)
    """
    if isinstance(text, int) and not isinstance(text, bool):
        number = float(text)
    else:
        match = _SIZE.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise UnitError(f"this is not a size: {text!r}; write for example 4GB or 512MiB")
        count, unit, binary = match.groups()
        power = "kmgt".find(unit.lower()) + 1 if unit else 0
        number = float(count) * (1024**power if binary else _UNITS[unit.lower()])
    if not 0 < number < 2**62:
        raise UnitError(f"a size must be more than zero and less than 2^62 bytes: {text!r}")
    return math.ceil(number)


def format_size(size: float) -> str:
    """Write a size with the unit that a person would choose.

    >>> format_size(999), format_size(2_340_000_000)
    ('999 bytes', '2.34 GB')
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def available_memory() -> int:
    """Bytes of memory that can be had now, on this machine and within its container's limit."""
    free = 4 * 10**9  # where nobody can tell, as on Windows
    if hasattr(os, "sysconf"):
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    limit = "".join(_lines("/sys/fs/cgroup/memory.max")).strip()
    used = "".join(_lines("/sys/fs/cgroup/memory.current")).strip()
    if limit.isdigit() and used.isdigit():
        free = min(free, max(int(limit) - int(used), 0))
    return free


def expected_memory(
    files: Any,
    format: str | None = None,  # noqa: A002 - the word users say
    bytes_per_row: int = BYTES_PER_VISIT,
) -> int | None:
    """Bytes that the rows of these files need when all are held; None if nobody can tell.

    Parquet says how many rows it has. Of text only the size is known, so that is a guess.
    """
    total = 0
    for file in files:
        if not isinstance(file, str | os.PathLike):
            return None
        path = Path(file)
        try:
            size = path.stat().st_size
        except OSError:
            return None  # the reader says what is wrong with it
        if not path.is_file():
            return None
        rows, digests = _contents(path, size, format)
        total += rows * bytes_per_row + digests
    return total


def choose_engine(
    engine: str | None, memory: str | int | None, needed: int | None
) -> tuple[str, int]:
    """Say where to work, ``memory`` or ``disk``, and with how many bytes.

    >>> choose_engine(None, "1GB", 2_000_000_000)
    ('disk', 1000000000)
    >>> choose_engine(None, "1GB", 2_000)[0], choose_engine("disk", "1GB", 2_000)[0]
    ('memory', 'disk')
    """
    limit = parse_size(memory) if memory is not None else int(_SHARE * available_memory())
    if engine is not None:
        return engine, limit
    return ("disk" if needed is not None and needed > limit else "memory"), limit


def _contents(path: Path, size: int, format: str | None) -> tuple[int, int]:  # noqa: A002
    """Rows of a file, and bytes of its digests where it tells."""
    from observant.formats import format_of

    try:
        kind = format or format_of(os.fspath(path))
    except InputError:
        return 0, 0  # the reader says what is wrong with the name
    if kind == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            told = pq.read_metadata(path)
        except (pa.ArrowException, OSError):
            return 0, 0
        groups = (told.row_group(number) for number in range(told.num_row_groups))
        columns = (group.column(at) for group in groups for at in range(group.num_columns))
        digests = (c.total_uncompressed_size for c in columns if c.path_in_schema == "digest")
        return told.num_rows, sum(digests)
    packed = path.suffix.lower() in {".gz", ".zst", ".bz2"} and kind not in {"warc", "wacz"}
    rows = size * (_PACKED if packed else 1) // _BYTES_IN_FILE.get(kind, _TEXT_PER_VISIT)
    return rows, 0


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text("utf-8").splitlines()
    except OSError:
        return []
