"""Compiled loops of the line readers: they find the fields of a visit in a block of lines.

A loop only takes a line that it is certain of, and marks every other one for the careful reader
in Python, which alone decides what is malformed. So both give the same visits.

Why by hand: 200,000 lines of CDXJ take 0.21 to 0.24 s of CPU here, 0.39 to 0.41 s in DuckDB (which
does not yet say what a revisit means, nor which lines are malformed), 3.9 s line by line with
msgspec and 4.8 s with json (`python -m benchmarks.by_hand`).

Import this only where it is used: numba takes a second to load.
"""

from observant.formats.imports.kernels.objects import gather, pack, scan_json, spell, take_sample
from observant.formats.imports.kernels.text import scan_fields

__all__ = ["gather", "pack", "scan_fields", "scan_json", "spell", "take_sample"]
