"""Lines of text, and JSON objects, one at a time, with their numbers; bad ones are reported."""

from __future__ import annotations

import csv
import json
from codecs import BOM_UTF8
from typing import TYPE_CHECKING, Any, BinaryIO

from observant.errors import InputError
from observant.plugins import needed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observant.formats.imports.report import Report


LONGEST_LINE = 1 << 20
_LARGEST_ARRAY = 1 << 28


def lines(stream: BinaryIO, report: Report) -> Iterator[tuple[int, str]]:
    """Yield number (from 1) and text of each line, without its end.

    A line that is no text in UTF-8, or too long to be held, is malformed.
    """
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        if number == 1:
            line = line.removeprefix(BOM_UTF8)
        if len(line) > LONGEST_LINE:
            report.add_rows()
            report.malformed(number, f"a line of more than {LONGEST_LINE:,} bytes", line[:500])
            while line and not line.endswith(b"\n"):
                line = stream.readline(LONGEST_LINE)
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


# -------------------------------------------------------------------------------------------------
# Lines and JSON objects of files that are not clean: logs, dumps with pages in them, feeds that
# were appended to
#
# Other than `lines`, this takes bytes that are no UTF-8 as they come (pages in a dump have any
# encoding), and goes on after arrays that were closed, left open or put end to end.


LONGEST = 1 << 20
_LONGEST_OBJECT = 1 << 24
_MOST_LINES = 100_000
_DECODER = json.JSONDecoder()
_BETWEEN = " \t\r\n,[]\ufeff"


def loose_lines(
    file: BinaryIO, report: Report, longest: int = LONGEST
) -> Iterator[tuple[int, str]]:
    """Yield number (from 1) and text of each line, without its end; one too long is malformed.

    Bytes that are no UTF-8 stay in the text as surrogates: see `plain_text`.
    """
    number = 0
    while line := file.readline(longest):
        number += 1
        if len(line) >= longest and not line.endswith(b"\n"):
            report.add_rows()
            report.malformed(number, f"a line of more than {LONGEST_LINE:,} bytes", line[:200])
            while (rest := file.readline(longest)) and not rest.endswith(b"\n"):
                pass
            continue
        if number == 1:
            line = line.removeprefix(BOM_UTF8)
        yield number, line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")


def plain_text(text: str) -> str:
    """A text without surrogates: what was no UTF-8 is marked as that.

    >>> plain_text("caf\\udce9")
    'caf���'
    """
    return (
        text if text.isascii() else text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    )


def loose_cells(file: BinaryIO, report: Report) -> Iterator[tuple[int, list[str]]]:
    """Yield line and cells of each row of CSV, the header first; one that cannot be read is
    malformed. Counts rows, but for the header.
    """
    reader = csv.reader(text for _, text in loose_lines(file, report))
    header = True
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            report.add_rows()
            report.malformed(reader.line_num, f"cannot be read as CSV: {error}")
            continue
        if row is None:
            return
        if row:
            report.add_rows(0 if header else 1)
            header = False
            yield reader.line_num, row


def loose_objects(file: BinaryIO, report: Report) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of JSON Lines, of one array, or of several arrays end to end, each with
    the number of its line. Counts rows; what is no object is malformed.

    An object may go over several lines if it begins with a brace alone and ends with one that is
    indented alike, as every program indents it. Memory is bounded by the largest object.
    """
    opened: list[str] = []
    for number, line in loose_lines(file, report, _LONGEST_OBJECT):
        text = line.strip()
        if not opened:
            if text.lstrip("[],") == "{":
                opened = [_without_brackets(line)]
            else:
                yield from _objects_in(text, number, report)
            continue
        opened.append(line)
        if text.rstrip(",]") == "}" and _alike(opened):
            whole, opened = "\n".join(opened), []
            yield from _objects_in(whole, number, report)
        elif text.lstrip("[],") == "{" and _alike(opened):  # the one before was never closed
            _tell(report, number, opened[0])
            opened = [_without_brackets(line)]
        elif len(opened) > _MOST_LINES:
            _tell(report, number, opened[0])
            opened = []
    if opened:
        _tell(report, None, opened[0])


def _without_brackets(line: str) -> str:
    return line.translate(str.maketrans("[],", "   "))


def _alike(opened: list[str]) -> bool:
    """Whether first and last line are indented alike; a bracket before the first one may count."""
    first, last = opened[0], opened[-1]
    return abs((len(first) - len(first.lstrip())) - (len(last) - len(last.lstrip()))) <= 1


def _objects_in(text: str, number: int, report: Report) -> Iterator[tuple[int, dict[str, Any]]]:
    at = 0
    while True:
        while at < len(text) and text[at] in _BETWEEN:
            at += 1
        if at == len(text):
            return
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            _tell(report, number, text[at:])
            return
        if isinstance(value, dict):
            report.add_rows()
            yield number, value
        else:
            _tell(report, number, str(value))


def _tell(report: Report, number: int | None, text: str) -> None:
    report.add_rows()
    report.malformed(number, "this is no JSON object", text[:200])


# -- elements of XML that may be hostile: no DTD, no entities, no network, memory bounded ---------


_DEEPEST = 200


def xml_reader() -> Any:
    """The package that reads XML, which an extra brings."""
    try:
        from lxml import etree
    except ImportError as error:
        raise needed(error, "archive") from error
    return etree


def elements(
    stream: BinaryIO, wanted: set[str], *, roots: set[str] | None = None
) -> Iterator[tuple[int, Any]]:
    """Yield line and element for every element of these local names, each when it ends; those
    within another one come with it only.

    An element is emptied when the next one is asked for. With `roots` the document must begin
    with one of them. What follows a break of the rules of XML is not read, and an `InputError`.
    """
    etree = xml_reader()
    parser = etree.iterparse(
        stream,
        events=("start", "end"),
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    depth = inside = 0
    try:
        for event, element in parser:
            if event == "start":
                depth += 1
                if depth == 1 and roots is not None and local_name(element) not in roots:
                    raise InputError(
                        f"begins with <{local_name(element)}>, not with "
                        f"{' or '.join(f'<{root}>' for root in sorted(roots))}"
                    )
                if depth > _DEEPEST:
                    raise InputError(f"has more than {_DEEPEST} levels of elements")
                inside += local_name(element) in wanted
                continue
            depth -= 1
            chosen = local_name(element) in wanted
            inside -= chosen
            if inside:
                continue
            if chosen:
                yield element.sourceline or 0, element
            element.clear()
            while element.getprevious() is not None:
                del element.getparent()[0]
    except etree.XMLSyntaxError as error:
        raise InputError(f"this is not well-formed XML: {error}") from error


def local_name(element: Any) -> str:
    """The name of an element without its namespace."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def text_of(element: Any, *names: str) -> str:
    """The text of the first child with one of these local names; empty if there is none."""
    for name in names:
        for child in element:
            if local_name(child) == name and (child.text or "").strip():
                return str(child.text).strip()
    return ""
