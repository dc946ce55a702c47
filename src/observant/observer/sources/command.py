"""What a command prints. Only from a configuration file that nobody else can write."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
from typing import TYPE_CHECKING

from observant.errors import InputError, TooLarge
from observant.observer.fetched import Fetched
from observant.observer.sources.base import Compared

if TYPE_CHECKING:
    from observant.store.visit import Previous

_SECONDS = 30.0
_LARGEST = 10 * 1024 * 1024


class CommandSource(Compared):
    """Runs the command (without a shell) and takes its standard output; it must end with 0."""

    def prepare(self) -> None:
        if not self.around.trusted:
            raise InputError(
                f"a command is run only from a configuration file that nobody else can write: "
                f"{self.around.reason or 'it is not in one'}",
                source=self.name,
            )

    async def fetch(self, previous: Previous | None) -> Fetched:
        started = self.around.time()

        def answer(body: bytes = b"", error: str | None = None, message: str = "") -> Fetched:
            return Fetched(
                url=self.url,
                status=0 if error else 200,
                body=body,
                content_type="text/plain",
                error=error,  # type: ignore[arg-type]
                message=message,
                started_at=started,
                ended_at=self.around.time(),
                wire_bytes=len(body),
            )

        try:
            program, *arguments = shlex.split(self.url)  # nothing at all is a ValueError too
            process = await asyncio.create_subprocess_exec(
                program,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return answer(error="connect", message=f"cannot be run: {error}")
        try:
            async with asyncio.timeout(_SECONDS):
                body = await _read(process.stdout)
                code = await process.wait()
        except TimeoutError:
            return answer(error="timeout", message=f"took longer than {_SECONDS:g} s")
        except TooLarge:
            return answer(error="too-large", message=f"printed more than {_LARGEST:,} bytes")
        finally:
            # The command and its children: they would outlive us.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if code:
            return answer(error="content", message=f"ended with {code}")
        return answer(body)


async def _read(stream: asyncio.StreamReader | None) -> bytes:
    parts: list[bytes] = []
    size = 0
    while stream is not None and (part := await stream.read(65_536)):
        parts.append(part)
        size += len(part)
        if size > _LARGEST:
            raise TooLarge
    return b"".join(parts)
