"""Send one message by Apprise; run as a program by `channels.apprise`.

The guard is an audit hook of the interpreter: whatever library opens a connection, the hook is
asked first, with the address that is really connected to. It cannot be taken away again, which is
why this is a process of its own.
"""

from __future__ import annotations

import json
import logging
import mimetypes
import os
import sys
import sysconfig
from typing import Any

from observant.observer.transport.guard import Guard

_PROGRAMS = ("subprocess.", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.fork", "pty.")
_HARMLESS_FILES = frozenset(["/dev/null", "/dev/urandom", *mimetypes.knownfiles])
_SENDING = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})


def main() -> None:
    task = json.load(sys.stdin)
    refusals: list[str] = []
    import apprise
    import requests

    logging.disable(logging.CRITICAL)
    redirecting: Any = requests.sessions.SessionRedirectMixin
    redirecting.resolve_redirects = lambda *_, **__: iter(())
    sys.addaudithook(_hook(Guard(allow=task["allow"]), refusals))
    error = ""
    ok = False
    try:
        sender = apprise.Apprise()
        if not sender.add(task["channel"]):
            error = "Apprise does not understand this address"
        else:
            ok = bool(sender.notify(title=task["title"], body=task["body"], body_format="text"))
    except Exception as problem:  # noqa: BLE001 (its message may hold the address)
        error = f"Apprise broke down: {type(problem).__name__}"
    if not ok and refusals:
        error = f"refused: {refusals[0]}"
    json.dump({"ok": ok, "error": error or "the service did not take it"}, sys.stdout)


def _is_ours(name: object, folders: tuple[str, ...]) -> bool:
    """Whether a file belongs to Python or its packages; a number is one that is open already."""
    if isinstance(name, int):
        return True
    path = os.path.realpath(os.fspath(name))  # type: ignore[call-overload]
    text = path.decode("utf-8", "replace") if isinstance(path, bytes) else str(path)
    return text.startswith(folders) or name in _HARMLESS_FILES


def _hook(guard: Guard, refusals: list[str]) -> Any:
    paths = {*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix, *sys.path[1:]}
    folders = tuple(f"{os.path.realpath(path)}/" for path in paths if path)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and not _is_ours(arguments[0], folders):
            refusals.append("it would open a file of this machine")
            raise PermissionError("no file is opened here")
        if event.startswith(_PROGRAMS):
            raise PermissionError("no program is started here")
        if event not in _SENDING:
            return
        place = arguments[1] if len(arguments) > 1 else None
        if place is None:  # a socket that is connected already
            return
        address = str(place[0]) if isinstance(place, tuple) and place else str(place)
        refusal = guard.refusal(address)
        if refusal is not None:
            refusals.append(refusal)
            raise PermissionError(refusal)

    return hook


if __name__ == "__main__":
    main()
