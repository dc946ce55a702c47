"""How loops are compiled: to machine code that is kept on disk, and that lets other threads go on.

Import this only where it is used: numba takes a second to load. What is divided by zero is
infinite, as in NumPy.
"""

from typing import Any

import numba

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": True}
_BORROWS: dict[str, Any] = {**_OPTIONS, "_nrt": False}
_INSIDE: dict[str, Any] = {**_BORROWS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

jit = numba.njit(**_OPTIONS)
"""For any loop."""
vector = numba.njit(**_OPTIONS, fastmath={"reassoc", "contract", "nsz"})
"""Sums may be taken in any order here, so that the compiler can use vector instructions."""
borrowing = numba.njit(**_BORROWS)
"""For small functions that are called very often: they borrow the arrays that they are given, and
can neither make an array nor return one. To count anew in every call who holds each of them took
two thirds of the time of the scheduler."""
inner = numba.njit(**_INSIDE)
"""The same for those that only compiled ones call: a wrapper for Python takes long to compile."""
inlined = numba.njit(inline="always")
"""Written out wherever it is called."""
