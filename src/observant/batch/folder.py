"""The folder of a run that works on disk: its state, its lock, and its end.

All that a run has finished is written down in `manifest.json`, which is replaced in one step, so
that a run that was killed continues where it stood. The manifest begins with fingerprints of the
inputs and options: what was done for other files or another question is not taken for this one.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from observant.errors import InputError, ObservantError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_VERSION = 1
_MANIFEST, _LOCK = "manifest.json", "lock"


class Folder:
    """The state of one run, kept in a folder of its own."""

    def __init__(self, path: Path, state: dict[str, Any], *, resumed: bool) -> None:
        self.path, self.state = path, state
        self.resumed = resumed
        """Whether an earlier run left something to go on with."""

    def save(self) -> None:
        """Write the state down; after this it survives the process."""
        replace_file(self.path / _MANIFEST, json.dumps(self.state))


@contextmanager
def open_folder(
    place: str | os.PathLike[str] | None, inputs: dict[str, Any] | None, question: dict[str, Any]
) -> Iterator[Folder]:
    """Open the folder of a run, with what an earlier run of the same kind left in it.

    `inputs` says what the spilled visits were made from, `question` what is asked of them; when
    only the question differs, the visits stay and the answers go. Without a place, or with inputs
    that cannot be read twice (None), nothing is kept. The folder is removed when the run ends
    well, and after an error that would come again; it stays when the run was interrupted.
    """
    keep = place is not None and inputs is not None
    path = Path(tempfile.mkdtemp(prefix="observant-spill-")) if place is None else Path(place)
    with _trouble_named(path):
        path.mkdir(parents=True, exist_ok=True)
    lock = _locked(path)
    done = False
    try:
        folder = _continued(path, inputs, question)
        yield folder
        done = True
    except (ObservantError, OSError) as error:
        done = True
        if isinstance(error, ObservantError):
            raise
        raise told(error, path) from error
    finally:
        os.close(lock)
        if done or not keep:
            shutil.rmtree(path, ignore_errors=True)


def fingerprint(files: Sequence[Any]) -> list[list[Any]] | None:
    """Path, size and time of each file; None if one of them cannot be read a second time."""
    prints: list[list[Any]] = []
    for file in files:
        if not isinstance(file, str | os.PathLike) or not Path(file).is_file():
            return None
        path = Path(file).resolve()
        found = path.stat()
        prints.append([os.fspath(path), found.st_size, found.st_mtime_ns])
    return prints


def replace_file(path: Path, text: str) -> None:
    """Write a file so that at any moment there is the old one or the new one, whole."""
    beside = path.with_suffix(".new")
    with beside.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    beside.replace(path)


def told(error: OSError, path: Path) -> InputError:
    """Say what the disk refused, in words that help."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT} or "No space left" in str(error):
        return InputError(
            "the disk is full; the spill takes about as much room as the visits do: free some, "
            "or give a folder on another disk (--spill FOLDER)",
            file=os.fspath(path),
        )
    return InputError(f"cannot be used for the spill: {error.strerror or error}", file=str(path))


@contextmanager
def _trouble_named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise told(error, path) from error


def _continued(path: Path, inputs: dict[str, Any] | None, question: dict[str, Any]) -> Folder:
    head = {"observant spill": _VERSION, "inputs": inputs, "question": question}
    head = json.loads(json.dumps(head))
    found: dict[str, Any] = {}
    if (path / _MANIFEST).exists():
        try:
            found = json.loads((path / _MANIFEST).read_text("utf-8"))
        except (OSError, ValueError):
            found = {}
    if inputs is not None and _same(found, head, "inputs"):
        if not _same(found, head, "question"):
            for answer in path.glob("answer-*"):
                answer.unlink()
            found = {**found, **head, "answered": {}}
        folder = Folder(path, found, resumed=True)
    else:
        for old in path.iterdir():
            if old.name != _LOCK:
                old.unlink()
        folder = Folder(path, {**head, "answered": {}}, resumed=False)
    folder.save()
    return folder


def _same(found: dict[str, Any], head: dict[str, Any], what: str) -> bool:
    version = "observant spill"
    return bool(found.get(version) == head[version] and found.get(what) == head[what])


def _locked(path: Path) -> int:
    """Hold the folder for this process; refuse one that is not ours or, where the system has locks,
    is in use.
    """
    strangers = {entry.name for entry in path.iterdir()} - {_LOCK, _MANIFEST}
    if strangers and not (path / _MANIFEST).exists():
        raise InputError(
            f"this folder holds other things ({min(strangers)}); give an empty one for the spill",
            file=os.fspath(path),
        )
    lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:  # Windows
        return lock
    except OSError as error:
        os.close(lock)
        raise InputError(
            "another run works in this folder; wait for it or give another one",
            file=os.fspath(path),
        ) from error
    return lock
