"""`scan_loops`, compiled. Import this only where it is used: numba takes a second to load."""

import numba

from observant.estimation.windows import scan_loops as scanning

_jit = numba.njit(cache=True, nogil=True, error_model="numpy")
split = _jit(scanning.split)
roll = _jit(scanning.roll)
