"""Lines of text, and JSON objects, one at a time, with their numbers; bad ones are reported."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observant.formats.imports.report import Report

__all__ = ["json_objects", "lines"]

LONGEST_LINE = 1 << 20
_LARGEST_ARRAY = 1 << 28


def lines(
    stream: BinaryIO, report: Report, longest: int = LONGEST_LINE
) -> Iterator[tuple[int, str]]:
    """Yield number (from 1) and text of each line, without its end.

    A line that is no text in UTF-8, or too long to be held, is malformed.
    """
    number = 0
    while line := stream.readline(longest + 1):
        number += 1
        if number == 1:
            line = line.removeprefix(BOM_UTF8)
        if len(line) > longest:
            report.add_rows()
            report.malformed(number, f"a line of more than {longest:,} bytes", line[:500])
            while line and not line.endswith(b"\n"):
                line = stream.readline(longest)
            continue
        try:
            text = line.decode()
        except UnicodeDecodeError:
            report.add_rows()
            report.malformed(number, "this is not text in UTF-8", line)
            continue
        yield number, text.rstrip("\r\n")


def json_objects(stream: BinaryIO, report: Report) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield number and content of each JSON object: one a line, or the members of one array.

    Every object is counted as a row.
    """
    numbered = lines(stream, report)
    first = next(((number, text) for number, text in numbered if text.strip()), None)
    if first is None:
        return
    if first[1].lstrip().startswith("["):
        yield from _members(first, numbered, report)
        return
    yield from _object(*first, report)
    for number, text in numbered:
        if text.strip():
            yield from _object(number, text, report)


def _object(number: int, text: str, report: Report) -> Iterator[tuple[int, dict[str, Any]]]:
    report.add_rows()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        report.malformed(number, "this is not a JSON object", text)
        return
    if isinstance(found, dict):
        yield number, found
    else:
        report.malformed(number, "this is JSON, and not an object", text)


def _members(
    first: tuple[int, str], rest: Iterator[tuple[int, str]], report: Report
) -> Iterator[tuple[int, dict[str, Any]]]:
    parts, size = [first[1]], len(first[1])
    for _, text in rest:
        parts.append(text)
        size += len(text)
        if size > _LARGEST_ARRAY:
            report.malformed(None, "the array is too large; write one object a line instead")
            return
    try:
        found = json.loads("\n".join(parts))
    except (ValueError, RecursionError) as error:
        report.add_rows()
        report.malformed(first[0], f"this is not JSON: {error}", first[1])
        return
    for number, member in enumerate(found if isinstance(found, list) else [found], 1):
        report.add_rows()
        if isinstance(member, dict):
            yield number, member
        else:
            report.malformed(number, "an object was expected here", str(member)[:200])
