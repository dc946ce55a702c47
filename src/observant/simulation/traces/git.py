"""A trace from a git repository.

Every file is a source, every commit of the branch's first-parent line that added or changed it is
an update, and its folder is its group. A merged branch counts once, when it landed. Deletions are
no updates, and renames begin a new source.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError
from observant.formats.gitlog import changes, find_revision
from observant.simulation.traces.trace import Trace
from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Callable


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
    revision = find_revision(place, branch)
    commits = 0
    files: list[bytes] = []
    times: list[int] = []
    for time, touched in changes(place, revision, under):
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
    days = np.array(times, float) / DAY
    return Trace.from_columns(names, days).grouped("prefix")
