"""Everything that Apprise knows: chat rooms, push services, text messages (``apprise`` must be
installed).

Apprise speaks to the network by itself, so it runs in a process of its own in which the guard is
asked about every address before a socket connects, no other program can be started, no file but
those of Python and its packages can be opened, and no redirect is followed. The address with its
secrets goes in by standard input, never by arguments.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import msgspec

from observant.errors import InputError
from observant.notifications.channels import SendResult

if TYPE_CHECKING:
    from observant.notifications.messages import Message
    from observant.observer.clock import Clock
    from observant.observer.config import Config
    from observant.observer.transport import Guard

_SECONDS = 60.0
_ADDRESS = re.compile(r"([a-z][a-z0-9]*)://.+", re.IGNORECASE | re.DOTALL)
_LOCAL = frozenset(
    [
        *("dbus", "kde", "qt", "glib", "gnome", "macosx", "windows", "syslog", "file"),
        *("mailto", "mailtos"),
    ]
)
"""What stays on this machine, or has a way of its own here."""
_FILES = frozenset({"template", "attach", "file", "path", "config", "include"})
"""Options of addresses that name files; what else may open one, the worker refuses."""


def check_apprise(channel: str) -> None:
    """Complain about an address that Apprise could not use here."""
    match = _ADDRESS.fullmatch(channel)
    if match is None:
        raise InputError("a channel is an address: https://…, mailto:…, or one of Apprise")
    if match[1].lower() in _LOCAL:
        raise InputError(f"{match[1]}:// is no channel here; use https:// or mailto:")
    for name in parse_qs(channel.partition("?")[2], keep_blank_values=True):
        if name.lower().lstrip("+-:") in _FILES:
            raise InputError(
                f"{match[1]}://…?{name[:20]}= opens files of this machine; leave it out"
            )
    if find_spec("apprise") is None:
        raise InputError(
            f"{match[1]}:// needs Apprise: install observant[watch], or use https:// or mailto:"
        )


class Apprise:
    """All other schemes."""

    def __init__(self, guard: Guard) -> None:
        self._allow = [str(network) for network in guard.allow]

    check = staticmethod(check_apprise)

    @classmethod
    def made(cls, guard: Guard, clock: Clock, config: Config) -> Apprise:
        """The channel as the deliverer uses it."""
        return cls(guard)

    async def send(self, channel: str, secret: str, message: Message) -> SendResult:
        try:
            check_apprise(channel)
        except InputError as error:
            return SendResult(error=str(error), down=True)
        task = msgspec.json.encode(
            {
                "channel": channel,
                "allow": self._allow,
                "title": message.subject,
                "body": f"{message.text}\n\n[{message.id}]",
            }
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "observant.notifications.channels.apprise_worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(_SECONDS):
                told, _ = await process.communicate(task)
        except TimeoutError:
            return SendResult(error=f"Apprise took longer than {_SECONDS:g} s", down=True)
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        return _answer(told)

    async def close(self) -> None:
        """Each message has a process of its own."""


def _answer(told: bytes) -> SendResult:
    try:
        found: dict[str, object] = msgspec.json.decode(told, type=dict[str, object])
    except msgspec.MsgspecError:
        return SendResult(error="Apprise broke down", down=True)
    if found.get("ok") is True:
        return SendResult(ok=True)
    return SendResult(error=str(found.get("error"))[:300], down=True)
