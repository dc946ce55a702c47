"""A trace from the history of a git repository on disk: real ground truth in a minute.

Every file is a source, every commit of the branch's first-parent line that added or changed it is
an update, and its folder is its group. A merged branch counts once, when it landed. Deletions are
no updates, and renames begin a new source.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError
from observant.traces.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["trace_of_git"]


def trace_of_git(
    path: str | os.PathLike[str],
    *,
    branch: str = "HEAD",
    under: str | None = None,
    largest_commit: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> Trace:
    """Read the history of a repository with git itself.

    Parameters
    ----------
    path
        Of the repository, or of any folder in it.
    branch
        Whose first-parent line is followed.
    under
        Only files below this path of the repository.
    largest_commit
        Leave out commits that touch more files than this: repository-wide edits.
    progress
        Called with 1 for each commit.
    """
    place = os.fspath(path)
    revision = _git(
        place, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{branch}^{{commit}}"
    )
    if revision is None:
        _explain(place, branch)
    commits = 0
    files: list[bytes] = []
    times: list[int] = []
    for time, touched in _changes(place, str(revision), under):
        commits += 1
        if progress is not None:
            progress(1)
        if largest_commit is None or len(touched) <= largest_commit:
            files.extend(touched)
            times.extend([time] * len(touched))
    if not files:
        raise InputError(
            f"no file was ever changed{f' under {under}' if under else ''} "
            f"in the {commits} commits of {branch}",
            file=place,
        )
    names = [name.decode("utf-8", "backslashreplace") for name in files]
    days = np.array(times, float) / 86_400
    return Trace.from_columns(names, days).grouped("prefix")


def _changes(place: str, revision: str, under: str | None) -> Iterator[tuple[int, list[bytes]]]:
    """Committer time of each commit, and the files it added or changed.

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
    """Nobody is asked for a password, and no fetch on demand reaches for the network."""
    return os.environ | {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "LC_ALL": "C",
    }


def _explain(place: str, branch: str) -> None:
    """Say what is wrong with a repository that git cannot read."""
    if not os.path.isdir(place):  # noqa: PTH112 - of any type of path
        raise InputError("there is no such folder", file=place)
    if _git(place, "rev-parse", "--git-dir") is None:
        raise InputError("is no git repository (or git may not read it)", file=place)
    raise InputError(f"there is no branch or commit {branch!r}, or it has no commits", file=place)
