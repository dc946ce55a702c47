"""`scan_loops`, compiled. Import this only where it is used: numba takes a second to load."""

from observant.compiled import jit
from observant.estimation.windows import scan_loops as scanning

split = jit(scanning.split)
roll = jit(scanning.roll)
