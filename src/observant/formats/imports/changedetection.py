"""changedetection.io: what it watches, and when it saw changes.

A backup (a zip) or the datastore folder itself. Its histories hold changes only; the checks between
them are counted and not dated. So visits are made up: as many as were counted, evenly between the
first snapshot and the last check, moved to where a change was seen. That needs the user's consent
(``regular-visits``), and rates that come of it are approximate.

Nothing of an archive is ever written to disk; entries are read by name, to a limit of bytes.
"""

from __future__ import annotations

import json
import re
import zipfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from observant.errors import InputError
from observant.formats.imports.base import (
    Batches,
    Described,
    Importer,
    SourceDescription,
    VisitRows,
)
from observant.formats.imports.lines import plain_text
from observant.times import DAY, MICROSECONDS, from_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from observant.formats.imports.base import Evidence, ImportOptions
    from observant.formats.imports.files import ImportFile
    from observant.formats.imports.report import Report


# -- A watch of changedetection.io in our words ---------------------------------------------------
#
# What has no counterpart is told as a warning and never silently dropped; notification addresses
# are not taken over, since they may hold secrets.


_UNITS = {"weeks": 604_800, "days": int(DAY), "hours": 3_600, "minutes": 60, "seconds": 1}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WITHOUT_PLACE = {
    "trigger_text": "texts that trigger",
    "text_should_not_be_present": "texts that must be absent",
    "extract_lines_containing": "lines to extract",
    "conditions": "conditions",
    "browser_steps": "browser steps",
    "proxy": "proxies",
    "notification_urls": "notification addresses (they may hold secrets)",
}


def describe_watch(
    watch: Mapping[str, Any], tags: Mapping[str, str], report: Report
) -> SourceDescription | None:
    """The source that a watch describes; None if it has no address that can be visited."""
    address = watch.get("url")
    if not isinstance(address, str):
        return None
    settings: dict[str, Any] = {}
    rules = _selection(watch, report)
    if address.startswith("source:"):
        address = address.removeprefix("source:")
        rules["change"] = "bytes"
    if not address.lower().startswith(("http://", "https://")):
        return None
    paused = bool(watch.get("paused"))
    if "{{" in address or "{%" in address:
        report.warn("{n} addresses are templates, which cannot be visited: they are paused")
        paused = True
    if str(watch.get("method") or "GET").upper() != "GET":
        report.warn("{n} watches ask by another method than GET: they are paused")
        paused = True
    seconds = period_of(watch)
    if seconds and not watch.get("time_between_check_use_default"):
        settings["max_period"] = f"{seconds}s"
    if rules:
        settings["compare"] = rules
    settings |= _hours(watch, report)
    headers = watch.get("headers")
    if isinstance(headers, dict) and headers:
        settings["headers"] = {str(key): str(value) for key, value in headers.items()}
    for key, words in _WITHOUT_PLACE.items():
        if watch.get(key):
            report.warn(f"{words} of {{n}} watches have no counterpart and were left out")
    if str(watch.get("fetch_backend") or "") in {"html_webdriver", "webdriver", "playwright"}:
        report.warn("{n} watches use a browser; their pages will be fetched without one")
    if str(watch.get("processor") or "text_json_diff") != "text_json_diff":
        report.warn("{n} watches look at prices or pictures; here their text is watched")
    return SourceDescription(
        address=plain_text(address),
        title=plain_text(str(watch.get("title") or "")),
        tags=_tags(watch, tags),
        paused=paused,
        settings=settings,
    )


def period_of(watch: Mapping[str, Any]) -> int:
    """Seconds between checks, 0 where the watch does not say.

    >>> period_of({"time_between_check": {"hours": 3, "minutes": None}})
    10800
    """
    parts = watch.get("time_between_check")
    seconds = 0
    for unit, length in _UNITS.items():
        count = parts.get(unit) if isinstance(parts, dict) else None
        if isinstance(count, int) and 0 <= count < 10_000_000:
            seconds += count * length
    return seconds


def _tags(watch: Mapping[str, Any], titles: Mapping[str, str]) -> tuple[str, ...]:
    """Titles of its tags; before there were ids, a watch had one text of them."""
    found = watch.get("tags")
    names = [titles.get(str(tag), str(tag)) for tag in found] if isinstance(found, list) else []
    old = watch.get("tag")
    names += old.split(",") if isinstance(old, str) else []
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))


def _selection(watch: Mapping[str, Any], report: Report) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    chosen: dict[str, list[str]] = {}
    for text in _texts(watch, "include_filters", "css_filter"):
        language, expression = _language(text)
        chosen.setdefault(language, []).append(expression)
    if "" in chosen:
        report.warn("{n} watches select by jq, which has no counterpart", 1)
        del chosen[""]
    if chosen:
        language = next(iter(chosen))
        first = chosen.pop(language)
        joined = {"css": ", ", "xpath": " | "}.get(language)
        settings[language] = joined.join(first) if joined else first[0]
        if chosen or (joined is None and len(first) > 1):
            report.warn("{n} watches select in several languages: the first one was taken")
    drop = [text for text in _texts(watch, "subtractive_selectors") if _language(text)[0] == "css"]
    if drop:
        settings["drop"] = drop
    ignore = [_line_with(text) for text in _texts(watch, "ignore_text")]
    if ignore:
        settings["ignore"] = ignore
    extract = _texts(watch, "extract_text")
    if extract:
        settings["regex"] = _pattern(extract[0]) or re.escape(extract[0])
        if len(extract) > 1:
            report.warn("{n} watches extract by several patterns: the first one was taken")
    return settings


def _texts(watch: Mapping[str, Any], *keys: str) -> list[str]:
    for key in keys:
        found = watch.get(key)
        if isinstance(found, str):
            found = [found]
        if isinstance(found, list):
            texts = [text.strip() for text in found if isinstance(text, str) and text.strip()]
            if texts:
                return texts
    return []


def _language(text: str) -> tuple[str, str]:
    """Language and expression of a filter; an empty language has no counterpart.

    >>> _language("xpath://h1"), _language("//h1"), _language("json:$.price"), _language("#price")
    (('xpath', '//h1'), ('xpath', '//h1'), ('jsonpath', '$.price'), ('css', '#price'))
    """
    prefixes = {
        "xpath1:": "xpath", "xpath:": "xpath", "json:": "jsonpath", "css:": "css", "jqraw:": "",
        "jq:": "",
    }  # fmt: skip
    for prefix, language in prefixes.items():
        if text.startswith(prefix):
            return language, text.removeprefix(prefix).strip()
    return ("xpath" if text.startswith(("/", "(/")) else "css"), text


def _line_with(text: str) -> str:
    """A whole line that holds the text, or matches it as ``/pattern/``, whatever its case."""
    return rf"(?i)^.*(?:{_pattern(text) or re.escape(text)}).*$"


def _pattern(text: str) -> str | None:
    found = re.fullmatch(r"/(.+)/[a-z]*", text)
    return found[1] if found else None


def _hours(watch: Mapping[str, Any], report: Report) -> dict[str, Any]:
    limit = watch.get("time_schedule_limit")
    if not isinstance(limit, dict) or not limit.get("enabled"):
        return {}
    windows = []
    for name in _DAYS:
        day = limit.get(name)
        if not isinstance(day, dict) or not day.get("enabled"):
            continue
        start = re.fullmatch(r"(\d{1,2}):(\d\d)", str(day.get("start_time") or "00:00"))
        length = day.get("duration")
        length = length if isinstance(length, dict) else {}
        hours, minutes = (str(length.get(unit) or 0) for unit in ("hours", "minutes"))
        if start is None or not (hours + minutes).isdecimal() or len(hours + minutes) > 9:
            report.warn("hours of {n} days cannot be read, and were left out")
            continue
        begin = 60 * int(start[1]) + int(start[2])
        end = begin + min(60 * int(hours) + int(minutes), 1440)
        if begin >= 1440 or end == begin:
            continue
        end = end if end <= 1440 else end - 1440
        windows.append(f"{name[:3]} {begin // 60:02}:{begin % 60:02}-{end // 60:02}:{end % 60:02}")
    if not windows:
        return {}
    return {"active": windows, "timezone": str(limit.get("timezone") or "UTC")}


_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_HISTORY = re.compile(rf"(?:.*/)?({_UUID})/history(?:-\w+)?\.txt")
_WATCH = re.compile(rf"(?:.*/)?({_UUID})/watch\.json")
_TAG = re.compile(rf"(?:.*/)?({_UUID})/tag\.json")
_SETTINGS = re.compile(r"(?:.*/)?(?:url-watches|changedetection)\.json")
_LARGEST = 1 << 26
_MOST_VISITS = 100_000
_DEFAULT_PERIOD = 3 * 3600


class ChangeDetectionStore(Importer):
    """A backup of changedetection.io, or its datastore folder."""

    name = "changedetection"
    title = "changedetection.io backup"
    evidence: Evidence = "C"
    endings = (".zip", "/")
    assumption = "regular-visits"
    assumes = (
        "each watch was checked at regular intervals between its first snapshot and its last "
        "check, as often as it counted"
    )

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether the archive or folder has the files of a datastore."""
        if not (head.startswith(b"PK\x03\x04") or name.endswith("/")):
            return False
        names = head.decode(errors="replace").split("\n")
        return any(
            re.fullmatch(r"(?:[^/]*/)?(?:url-watches|changedetection)\.json", entry)
            or _WATCH.fullmatch(entry)
            for entry in names
        )

    def read(self, file: ImportFile, options: ImportOptions, report: Report) -> Batches:
        """Yield made-up regular visits with the changes that were seen."""
        report.warn("visits are made up from counts of checks: rates are approximate")
        rows = VisitRows(options.batch_rows)
        with _datastore(file) as tree:
            histories: dict[str, list[str]] = {}
            for name in tree.names:
                found = _HISTORY.fullmatch(name)
                if found:
                    histories.setdefault(found[1], []).append(name)
            for uuid, watch in _watches(tree, report):
                report.add_rows()
                address = watch.get("url")
                if not isinstance(address, str) or not address:
                    report.malformed(None, "a watch without a url", uuid)
                    continue
                describe_watch(watch, {}, report)  # for what it has to say
                seen = _snapshots(tree, histories.get(uuid, []), report)
                for time, changed in _visits(watch, seen, uuid, report):
                    rows.add(plain_text(address.removeprefix("source:")), time, changed=changed)
                    if rows.full:
                        yield rows.take()
        yield rows.take()

    def sources(self, file: ImportFile, options: ImportOptions, report: Report) -> Described:
        """Yield the watches with their settings in our words."""
        with _datastore(file) as tree:
            tags = _tag_titles(tree, report)
            for uuid, watch in _watches(tree, report):
                described = describe_watch(watch, tags, report)
                if described is None:
                    report.malformed(None, "a watch without an address that can be visited", uuid)
                else:
                    yield described


IMPORTERS = (ChangeDetectionStore(),)


# -- the datastore ------------------------------------------------------------------------------


class _Tree(Protocol):
    """Files by name."""

    names: list[str]

    def read(self, name: str) -> bytes:
        """The content; a `ValueError` if it is too large or cannot be read."""


class _Zipped:
    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]

    def read(self, name: str) -> bytes:
        try:
            with self._archive.open(name) as entry:
                content = entry.read(_LARGEST + 1)
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError, KeyError, EOFError) as error:
            raise ValueError(f"{name} cannot be read: {error}") from error
        if len(content) > _LARGEST:
            raise ValueError(f"{name} is larger than 64 MiB")
        return content


class _Folder:
    """A datastore on disk: its own files and those one level down, links left out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.names = []
        for entry in sorted(path.iterdir()):
            if entry.is_symlink():
                continue
            if entry.is_file():
                self.names.append(entry.name)
            elif re.fullmatch(_UUID, entry.name):
                inner = (p for p in sorted(entry.iterdir()) if p.is_file() and not p.is_symlink())
                self.names += [f"{entry.name}/{p.name}" for p in inner]

    def read(self, name: str) -> bytes:
        with (self._path / name).open("rb") as file:
            content = file.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise ValueError(f"{name} is larger than 64 MiB")
        return content


@contextmanager
def _datastore(file: ImportFile) -> Iterator[_Tree]:
    if file.is_folder and file.path is not None:
        yield _Folder(file.path)
        return
    with file.local() as path:
        try:
            archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
            raise InputError(f"cannot be read as a zip: {error}") from error
        with archive:
            yield _Zipped(archive)


def _watches(tree: _Tree, report: Report) -> Iterator[tuple[str, dict[str, Any]]]:
    """Id and fields of every watch, in the layout of today or the one of before."""
    seen = set()
    for name in tree.names:
        found = _WATCH.fullmatch(name)
        if found:
            watch = _json(tree, name, report)
            if isinstance(watch, dict):
                seen.add(found[1])
                yield found[1], watch
    for name in tree.names:
        if not _SETTINGS.fullmatch(name):
            continue
        settings = _json(tree, name, report)
        watching = settings.get("watching") if isinstance(settings, dict) else None
        for uuid, watch in (watching if isinstance(watching, dict) else {}).items():
            if uuid not in seen and isinstance(watch, dict):
                seen.add(uuid)
                yield uuid, watch


def _tag_titles(tree: _Tree, report: Report) -> dict[str, str]:
    """Titles of tags by their ids."""
    titles: dict[str, str] = {}
    for name in tree.names:
        found = _TAG.fullmatch(name)
        content = _json(tree, name, report) if found or _SETTINGS.fullmatch(name) else None
        if not isinstance(content, dict):
            continue
        if found:
            titles[found[1]] = str(content.get("title") or "")
            continue
        inner: Any = content
        for key in ("settings", "application", "tags"):
            inner = inner.get(key) if isinstance(inner, dict) else None
        for uuid, tag in (inner if isinstance(inner, dict) else {}).items():
            if isinstance(tag, dict):
                titles[uuid] = str(tag.get("title") or "")
    return titles


def _json(tree: _Tree, name: str, report: Report) -> Any:
    try:
        return json.loads(tree.read(name))
    except (ValueError, RecursionError) as error:
        report.add_rows()
        report.malformed(None, f"{name} is no JSON", str(error))
        return None


def _snapshots(tree: _Tree, names: list[str], report: Report) -> list[int]:
    """When snapshots were taken, oldest first: the baseline, then every change."""
    times = set()
    for name in names:
        try:
            text = tree.read(name).decode("utf-8", "replace")
        except ValueError as error:
            report.malformed(None, str(error))
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            epoch, comma, _ = line.partition(",")
            try:
                if not comma:
                    raise ValueError("a snapshot is a time, a comma and a file")  # noqa: TRY301
                times.add(from_seconds(epoch.strip()))
            except ValueError as error:
                report.add_rows()
                report.malformed(number, f"{name}: {error}", line)
    return sorted(times)


# -- visits that were counted, not dated ----------------------------------------------------------


def _visits(
    watch: dict[str, Any], seen: list[int], uuid: str, report: Report
) -> Iterator[tuple[int, bool | None]]:
    """Regular visits from the first snapshot to the last check, with changes where they were seen.

    A change is put on the regular visit that is nearest, which moves to its time.
    """
    if not seen:
        report.leave_out("a watch without a snapshot: nothing was seen of it")
        return
    start, changes = seen[0], np.array(seen[1:], np.int64)
    try:
        last = max(from_seconds(watch.get("last_checked")), seen[-1])
    except ValueError:
        last = seen[-1]
    yield start, None
    if last == start:
        return
    count = _count(watch, start, last, len(seen), report)
    step = (last - start) / (count - 1)
    if step < 1:
        report.malformed(None, "more checks than microseconds", uuid)
        return
    regular = start + np.rint(step * np.arange(1, count)).astype(np.int64)
    moved = np.unique(np.rint((changes - start) / step).astype(np.int64) - 1)
    kept = np.delete(regular, moved[(moved >= 0) & (moved < len(regular) - 1)])
    found = set(changes.tolist())
    for time in np.union1d(kept, changes).tolist():
        yield time, time in found


def _count(watch: dict[str, Any], start: int, last: int, seen: int, report: Report) -> int:
    """How often a watch was checked: as it counted, or else by its interval."""
    count = watch.get("check_count")
    if not isinstance(count, int) or isinstance(count, bool) or count < seen:
        seconds = period_of(watch) or _DEFAULT_PERIOD
        count = 1 + int((last - start) / (seconds * MICROSECONDS))
        report.warn("{n} watches tell no number of checks: their interval was used instead")
    if count > _MOST_VISITS:
        report.warn(f"{{n}} watches tell more than {_MOST_VISITS:,} checks: as many were made up")
    return max(min(count, _MOST_VISITS), seen, 2)
