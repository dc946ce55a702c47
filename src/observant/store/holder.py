"""The process that holds a lease, and whether it still lives.

A killed observer cannot give its leases back. Another one of the same machine need not wait until
they run out: it can see that the process is gone. A process is known by the boot of its machine,
the space of process numbers it lives in (a container has its own), its number, and the moment it
began, since numbers are used again. Of a process elsewhere nothing is known but its lease.
"""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["is_dead", "this_process"]

_DEAD = frozenset("ZXx")
"""States of a process that has ended, and that nobody has taken note of yet."""


def this_process() -> dict[str, Any]:
    """What others need to know to see whether we live."""
    number = os.getpid()
    return {"machine": platform.node(), "process": number, **_place(), "began": _began(number)}


def is_dead(process: dict[str, Any], *, local: bool) -> bool:
    """Whether a process has surely ended; False if it lives, or if that cannot be seen from here.

    A `local` store is used by one machine only: whoever used it before the machine was started
    anew is dead.

    >>> is_dead(this_process(), local=True)
    False
    """
    number, here = process.get("process"), _place()
    if not isinstance(number, int) or number <= 0:
        return False
    boot = process.get("boot")
    if boot is None or here["boot"] is None:
        return local and process.get("machine") == platform.node() and not _is_there(number)
    if boot != here["boot"]:
        return local
    if process.get("space") != here["space"]:
        return False
    return _began(number) != process.get("began")


@cache
def _place() -> dict[str, str | None]:
    """The boot of this machine and the space of our process numbers, where the system tells."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return {"boot": boot, "space": str(Path("/proc/self/ns/pid").readlink())}
    except (OSError, ValueError):
        return {"boot": None, "space": None}


def _began(number: int) -> int | None:
    """When a process began, in ticks since the boot; None if there is none, or it has ended."""
    try:
        text = Path(f"/proc/{number}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # before that is the name, which may hold anything
    return None if len(fields) < 20 or fields[0] in _DEAD else int(fields[19])


def _is_there(number: int) -> bool:
    if os.name != "posix":
        return True
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
