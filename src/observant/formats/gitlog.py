"""What git says about a repository: which commit touched which files, and when.

Git itself reads the repository. Nobody is asked for a password, and no fetch on demand reaches for
the network.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any

from observant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator


def find_revision(place: str, branch: str) -> str:
    """The commit that a branch stands at; an `InputError` that says what is wrong if there is
    none.
    """
    revision = _git(
        place, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{branch}^{{commit}}"
    )
    if revision is not None:
        return revision
    if not os.path.isdir(place):  # noqa: PTH112 - of any type of path
        raise InputError("there is no such folder", file=place)
    if _git(place, "rev-parse", "--git-dir") is None:
        raise InputError("is no git repository (or git may not read it)", file=place)
    raise InputError(f"there is no branch or commit {branch!r}, or it has no commits", file=place)


def changes(
    place: str, revision: str, under: str | None = None
) -> Iterator[tuple[int, list[bytes]]]:
    """Committer time of each commit of the first-parent line, newest first, and the files that
    it added or changed. Deletions are left out; a rename is a new file.

    Git ends every cell by NUL. A commit is a cell with its time; each of its files is a cell
    ``:modes hashes letter`` and one with the name, which may be bytes of any kind but NUL. So a
    name is known by the cell before it, whatever it looks like.
    """
    command = [
        "git", "-C", place, "log", "--first-parent", "--diff-merges=first-parent", "--no-renames",
        "--diff-filter=AMT", "--raw", "-z", "--format=%ct", "--no-show-signature", "--no-ext-diff",
        "--end-of-options", revision,
    ]  # fmt: skip
    if under is not None:
        command += ["--", f":(top,literal){under}"]
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(  # noqa: S603 - no shell, and nothing of the user's is an option
            command, stdout=subprocess.PIPE, stderr=complaints, env=_environment()
        ) as process,
    ):
        time: int | None = None
        touched: list[bytes] = []
        cells = _cells(process.stdout)
        for cell in cells:
            if cell.lstrip(b"\n")[:1] == b":":
                touched.append(next(cells))
                continue
            if time is not None:
                yield time, touched
            time, touched = int(cell), []
        if time is not None:
            yield time, touched
        if process.wait():
            complaints.seek(0)
            told = complaints.read(2000).decode(errors="replace").strip()
            raise InputError(f"git log failed: {told}", file=place)


def _cells(stream: Any) -> Iterator[bytes]:
    """What stands between the NULs."""
    rest = b""
    while block := stream.read(1 << 16):
        *whole, rest = (rest + block).split(b"\0")
        yield from whole


def _git(place: str, *words: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603 - no shell
            ["git", "-C", place, *words],  # noqa: S607 - the user's own git
            capture_output=True,
            check=False,
            env=_environment(),
        )
    except FileNotFoundError:
        raise InputError("git is not installed, and its history is read with git") from None
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None


def _environment() -> dict[str, str]:
    return os.environ | {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "LC_ALL": "C",
    }
