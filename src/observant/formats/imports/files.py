"""Files as importers see them: looked into, decompressed, bounded, and closed again."""

from __future__ import annotations

import glob
import io
import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from observant.errors import InputError
from observant.times import micros

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD_BYTES = 1 << 16
"""How much of a file a format is recognised by."""

COMPRESSIONS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}
"""The first bytes of each compression; names are not trusted."""

_ENTRIES = 1_000


@dataclass(frozen=True)
class ImportFile:
    """A file, a folder or an open binary stream to import from.

    `path` is where it is, if it is on disk. `open` and `local` give what is in it; both see
    through gzip (of many members), zstd and bzip2 by the first bytes, whatever the name says.
    """

    name: str
    path: Path | None = None
    stream: BinaryIO | None = None

    @property
    def is_folder(self) -> bool:
        """Whether this is a folder; it has no bytes of its own."""
        return self.path is not None and self.path.is_dir()

    def saved_at(self) -> int:
        """When it was written, in microseconds, as far as the disk knows; now, of a stream."""
        return micros(time.time() if self.path is None else self.path.stat().st_mtime)

    @property
    def plain_name(self) -> str:
        """The name in lower case without the ending of a compression; a folder's ends in /.

        >>> ImportFile("Crawl.CDXJ.gz").plain_name
        'crawl.cdxj'
        """
        if self.is_folder:
            return self.name.lower().rstrip("/") + "/"
        lower = self.name.lower()
        for ending in (".gz", ".zst", ".bz2"):
            lower = lower.removesuffix(ending)
        return lower

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open for reading, decompressed; with ``read``, ``readline`` and lines."""
        with self.open_raw() as raw:
            head = raw.peek(4)[:4]
            codec = next((c for sign, c in COMPRESSIONS.items() if head.startswith(sign)), None)
            if codec is None:
                yield raw
                return
            import pyarrow as pa

            with io.BufferedReader(pa.CompressedInputStream(raw, codec), 1 << 20) as plain:
                yield plain

    @contextmanager
    def open_raw(self) -> Iterator[Any]:
        """Open for reading as it is, compression and all; it can be peeked into."""
        if self.stream is not None:
            yield _peekable(self.stream)
            return
        assert self.path is not None  # noqa: S101 - a file is a stream or has a path
        if self.is_folder:
            raise InputError("is a folder, and this format is a file", file=self.name)
        try:
            raw = self.path.open("rb", buffering=1 << 20)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"cannot be read: {reason}", file=self.name) from error
        with raw:
            yield raw

    @contextmanager
    def local(self) -> Iterator[Path]:
        """A path on disk with the plain content, for readers that need one (zip, SQLite).

        What is a stream, or compressed, is copied to a temporary file for as long as this lasts.
        """
        if self.path is not None and not self._is_compressed():
            yield self.path
            return
        with tempfile.TemporaryDirectory(prefix="observant-") as folder:
            copy = Path(folder) / "copy"
            with self.open() as source, copy.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            yield copy

    def head(self) -> bytes:
        """The first `HEAD_BYTES`, decompressed; of a folder, the sorted names of its entries.

        Of a zip or of Parquet, where the first bytes tell nothing: what `Importer.sniff` says.
        A stream must be able to seek for this; it is left at its beginning.
        """
        if self.is_folder:
            assert self.path is not None  # noqa: S101 - only a path is a folder
            names = sorted(entry.name for entry in os.scandir(self.path))[:_ENTRIES]
            return "\n".join(names).encode(errors="replace")
        if self.stream is not None:
            return self._head_of_stream(self.stream)
        try:
            with self.open() as stream:
                head = stream.read(HEAD_BYTES)
        except (OSError, EOFError) as error:
            raise InputError(f"cannot be read: {error}", file=self.name) from error
        assert self.path is not None  # noqa: S101 - a file is a stream or has a path
        return _contents(head, self.path)

    def _head_of_stream(self, stream: BinaryIO) -> bytes:
        if not stream.seekable():
            raise InputError(
                "the format of what comes through a pipe cannot be found out; say it (--format)",
                file=self.name,
            )
        place = stream.tell()
        try:
            with self.open() as plain:
                head = plain.read(HEAD_BYTES)
            stream.seek(place)
            return _contents(head, stream)
        except (OSError, EOFError) as error:
            raise InputError(f"cannot be read: {error}", file=self.name) from error
        finally:
            stream.seek(place)

    def _is_compressed(self) -> bool:
        if self.is_folder:
            return False
        with self.open_raw() as raw:
            return any(raw.peek(4).startswith(sign) for sign in COMPRESSIONS)


def find_files(*names: Any) -> list[ImportFile]:
    """The files that names, globs and open streams stand for, each once, in the order given.

    A name that exists is taken as it is, whatever signs it holds; a glob that finds nothing is an
    `InputError`.
    """
    found: dict[Any, ImportFile] = {}
    for name in names:
        if not isinstance(name, str | os.PathLike):
            if not hasattr(name, "read"):
                raise InputError(f"a {type(name).__name__} is neither a path nor an open file")
            if isinstance(name, io.TextIOBase):
                raise InputError("is open as text; open it in binary mode", file=str(name))
            told = getattr(name, "name", "<stream>")
            found[id(name)] = ImportFile(told if isinstance(told, str) else "<stream>", None, name)
            continue
        text = os.fspath(name)
        try:
            exists = Path(text).exists()
        except (OSError, ValueError) as error:
            raise InputError(f"cannot be read: {error}", file=text) from error
        if exists:
            matches = [text]
        elif glob.has_magic(text):
            matches = sorted(glob.glob(text, recursive=True))  # noqa: PTH207 - absolute ones too
            if not matches:
                raise InputError("no file has a name like this", file=text)
        else:
            raise InputError("cannot be read: no such file", file=text)
        for match in matches:
            found.setdefault(str(Path(match)), ImportFile(match, Path(match)))
    if not found:
        raise InputError("no file to import")
    return list(found.values())


def _contents(head: bytes, file: Path | BinaryIO) -> bytes:
    """What a zip or a Parquet file holds, by name; of others, their first bytes as they are."""
    import zipfile

    names: list[str] = []
    try:
        if head.startswith(b"PK\x03\x04"):
            with zipfile.ZipFile(file) as archive:
                names = archive.namelist()
        elif head.startswith(b"PAR1"):
            import pyarrow.parquet as pq

            names = pq.read_schema(file).names
        else:
            return head
    except Exception:  # noqa: BLE001 - a broken file is refused by its importer, with the reason
        return head
    return b"\n".join([head[:4], *(name.encode(errors="replace") for name in names[:_ENTRIES])])


class _Unclosed(io.RawIOBase):
    """A stream that somebody else will close."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _peekable(stream: BinaryIO) -> Any:
    return io.BufferedReader(_Unclosed(stream), 1 << 20)
