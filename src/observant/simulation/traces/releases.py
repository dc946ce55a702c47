"""Traces from lists of releases and feeds: what package registries and feeds say of themselves."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from observant.errors import InputError, VisitLogError
from observant.simulation.traces.trace import Trace
from observant.times import MICROSECONDS_PER_DAY, http_date
from observant.visits.columns import times_in

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

_NOT_RELEASES = ("created", "modified", "unpublished")
_TIMES = (
    "upload_time_iso_8601",
    "upload_time",
    "time",
    "published_at",
    "date_published",
    "date_modified",
    "date",
    "t",
)
"""Where an entry may say when it was published, in the order of trust."""
_FEED_TIMES = re.compile(
    rb"<(?:[a-z]+:)?(?:pubDate|published|updated|date|lastmod)(?:\s[^<>]*)?>([^<]+)</",
    re.IGNORECASE,
)
_ENTRY = re.compile(rb"<(/?)(item|entry|url)[\s>]", re.IGNORECASE)
"""Where an entry begins or ends."""


def read_releases(files: Sequence[str | os.PathLike[str]]) -> Trace:
    """Read one source from each file; it is called by the file's name without its ending.

    A file is what a registry says of a package, ``{"time": {version: when}}`` (as npm does) or
    ``{"releases": {version: [{"upload_time_iso_8601": when}]}}`` (as PyPI does); a JSON list of
    times or of objects with a time; a JSON feed; an RSS or Atom feed; or a text with a time a line.
    """
    if not files:
        raise InputError("no file to read releases from")
    sources: list[str] = []
    times: list[float] = []
    for file in files:
        path = Path(file)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", file=str(path)) from error
        name, found = _read(content, str(path))
        name = name or path.name.removesuffix(path.suffix)
        if name in sources:
            raise InputError(f"there is another file of the source {name!r}", file=str(path))
        days = _days(found, str(path))
        sources += [name] * max(len(days), 1)
        times += days or [float("nan")]
    return Trace.from_columns(sources, times)


def _read(content: bytes, file: str) -> tuple[str | None, list[Any]]:
    """The name of a source, where the file tells it, and its times as they are written."""
    text = content.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] in {b"{", b"["}:
        try:
            return _of_json(json.loads(text), file)
        except (ValueError, RecursionError) as error:
            raise InputError(f"cannot be read as JSON: {error}", file=file) from error
    if text[:1] == b"<":
        return None, _of_feed(text)
    try:
        lines = [line.split(",")[-1].strip() for line in text.decode().splitlines()]
    except UnicodeDecodeError as error:
        raise InputError("is neither JSON, a feed, nor text in UTF-8", file=file) from error
    lines = [line for line in lines if line]
    if lines and not re.match(r"[+-]?\d", lines[0]):
        lines = lines[1:]  # a header
    return None, list(lines)


def _of_json(value: Any, file: str) -> tuple[str | None, list[Any]]:
    if isinstance(value, list):
        return None, [_time_in(item, file) for item in value]
    name = value.get("name")
    if not isinstance(name, str):
        info = value.get("info")
        name = info.get("name") if isinstance(info, dict) else None
    name = name if isinstance(name, str) else None
    if isinstance(value.get("time"), dict):
        return name, [t for version, t in value["time"].items() if version not in _NOT_RELEASES]
    releases = value.get("releases")
    if isinstance(releases, dict):
        # A release is there from the upload of its first file on.
        uploaded = [files for files in releases.values() if isinstance(files, list)]
        first = [[_time_in(part, file) for part in files] for files in uploaded]
        return name, [min(map(str, when)) for when in first if when]
    for key in ("items", "releases", "times", "entries"):
        if isinstance(value.get(key), list):
            return name, [_time_in(item, file) for item in value[key]]
    raise InputError(
        'holds no times: expected {"time": {version: when}}, {"releases": {version: [files]}}, '
        "or a list of times",
        file=file,
    )


def _time_in(item: Any, file: str) -> Any:
    if isinstance(item, dict):
        for key in _TIMES:
            if item.get(key) is not None:
                return item[key]
        raise InputError(f"an entry without a time: {str(item)[:80]}", file=file)
    return item


def _of_feed(text: bytes) -> list[Any]:
    """The first date of every entry of a feed or sitemap."""
    found = []
    for entry in _entries(text):
        date = _FEED_TIMES.search(entry)
        written = "" if date is None else date.group(1).decode(errors="replace").strip()
        if not written:
            continue
        at = http_date(written)
        found.append(written if at is None else at)
    return found


def _entries(text: bytes) -> Iterator[bytes]:
    """Each entry that begins and ends, in one pass however many never end."""
    begun: dict[bytes, int] = {}
    for mark in _ENTRY.finditer(text):
        name = mark[2].lower()
        if not mark[1]:
            begun.setdefault(name, mark.start())
        elif name in begun:
            yield text[begun[name] : mark.start()]
            begun.clear()


def _days(found: list[Any], file: str) -> list[float]:
    import pyarrow as pa

    if not found:
        return []
    wrong = [item for item in found if not isinstance(item, str | int | float)]
    if wrong:
        raise InputError(f"this is not a time: {str(wrong[0])[:80]!r}", file=file)
    # Half a character, which JSON can hold, is in no time.
    texts = [str(item).encode("utf-8", "replace").decode() for item in found]
    try:
        micros = times_in(pa.array(texts), "time")
    except VisitLogError as error:
        raise InputError(error.message, file=file, column="time") from error
    return [float(m) / MICROSECONDS_PER_DAY for m in micros]
