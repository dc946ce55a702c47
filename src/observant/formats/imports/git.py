"""Git histories: when the files of a repository changed.

A commit is no visit: nobody looked and found nothing between two of them. It is an update of the
files it touched (in a repository that a scraper fills, a visit that found a change). So a history
is change-only evidence. For users who accept that the commits are all updates there were
(``every-change-seen``) it is a complete history of each file, and is put into the log as that
(`histories`). To try policies on it, `observant study trace git` keeps it as what it is, a trace.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from observant.errors import InputError
from observant.formats.gitlog import changes, find_revision
from observant.formats.imports.base import Batches, Importer, VisitRows
from observant.formats.imports.histories import add_history
from observant.formats.imports.urlwatch import EVERY_CHANGE_SEEN
from observant.times import MICROSECONDS, checked

if TYPE_CHECKING:
    from observant.formats.imports.base import Evidence, ImportOptions
    from observant.formats.imports.files import ImportFile
    from observant.formats.imports.report import Report


class GitHistory(Importer):
    """The folder of a git repository."""

    name = "git"
    title = "Git repository"
    evidence: Evidence = "C"
    endings = ("/",)
    assumption = EVERY_CHANGE_SEEN
    assumes = "the commits of a file are all updates it had, up to the last commit"

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether this is a folder with a repository in it."""
        names = set(head.decode(errors="replace").split("\n"))
        return name.endswith("/") and (".git" in names or {"HEAD", "objects", "refs"} <= names)

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        """Yield the history of each file, as visits that are worth exactly that."""
        if not file.is_folder or file.path is None:
            raise InputError("a git repository is a folder", file=file.name)
        place = os.fspath(file.path)
        report.warn(
            "commits are updates, not visits: visits are made up so that they tell this history "
            "and no more"
        )
        updates: dict[bytes, list[int]] = {}
        until = 0
        for time, touched in changes(place, find_revision(place, "HEAD")):
            report.add_rows()
            try:
                at = checked(time * MICROSECONDS)
            except ValueError as error:
                report.malformed(report.rows, str(error), str(time))
                continue
            until = max(until, at)
            for name in touched:
                updates.setdefault(name, []).append(at)
        rows = VisitRows(options.batch_rows)
        for name, times in sorted(updates.items()):
            add_history(rows, name.decode("utf-8", "backslashreplace"), times, until)
            if rows.full:
                yield rows.take()
        yield rows.take()


IMPORTERS = (GitHistory(),)
