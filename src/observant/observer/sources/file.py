"""A file on this machine."""

from __future__ import annotations

import asyncio
import mimetypes
import stat
from typing import TYPE_CHECKING

from observant.observer.fetched import Fetched
from observant.observer.sources.base import Compared, file_path

if TYPE_CHECKING:
    from observant.store.visit import Previous

_LARGEST = 10 * 1024 * 1024


class FileSource(Compared):
    """A path, or file:///path. Its time of modification is its last_modified."""

    async def fetch(self, previous: Previous | None) -> Fetched:
        return await asyncio.to_thread(self._read)

    def _read(self) -> Fetched:
        started = self.around.time()
        path = file_path(self.url)

        def failed(message: str, status: int, error: str | None) -> Fetched:
            return Fetched(
                url=self.url,
                status=status,
                error=error,  # type: ignore[arg-type]
                message=message,
                started_at=started,
                ended_at=self.around.time(),
            )

        try:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode):
                return failed("this is no ordinary file", 0, "bad-url")
            if found.st_size > _LARGEST:
                return failed(f"larger than {_LARGEST:,} bytes", 0, "too-large")
            with path.open("rb") as opened:
                body = opened.read(_LARGEST + 1)
        except FileNotFoundError:
            return failed("there is no such file", 404, "http")
        except (OSError, ValueError) as error:
            return failed(f"cannot be read: {error}", 0, "connect")
        if len(body) > _LARGEST:  # it grew while we read
            return failed(f"larger than {_LARGEST:,} bytes", 0, "too-large")
        kind, _ = mimetypes.guess_type(path.name)
        return Fetched(
            url=self.url,
            status=200,
            body=body,
            content_type=kind or "text/plain",
            last_modified=found.st_mtime,
            started_at=started,
            ended_at=self.around.time(),
            wire_bytes=len(body),
        )
