"""OPML: lists of feeds, as feed readers exchange them. They describe sources and tell no visits."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from observant.errors import InputError
from observant.formats.imports.base import Described, Describer, SourceDescription
from observant.formats.imports.lines import xml_reader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observant.formats.imports.base import Evidence, ImportOptions
    from observant.formats.imports.files import ImportFile
    from observant.formats.imports.report import Report

_LARGEST = 1 << 26
_DEEPEST = 200


class OpmlFile(Describer):
    """A list of feeds."""

    name = "opml"
    title = "OPML list of feeds"
    evidence: Evidence = "S"
    endings = (".opml",)

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether the root element is opml."""
        return re.search(rb"<opml[\s>]", head[:4096], re.IGNORECASE) is not None

    def sources(self, file: ImportFile, options: ImportOptions, report: Report) -> Described:
        """Yield every feed once, with the folders around it as tags."""
        seen: set[str] = set()
        for line, element, folders in _outlines(file):
            address = _get(element, "xmlUrl")
            if not address:
                continue
            report.add_rows()
            if not address.startswith(("http://", "https://")):
                report.malformed(line, "this is no address of a feed", address[:200])
                continue
            if address in seen:
                report.leave_out("a feed that is there twice")
                continue
            seen.add(address)
            categories = [part.strip("/ ") for part in _get(element, "category").split(",")]
            tags = dict.fromkeys(tag for tag in (*folders, *categories) if tag)
            yield SourceDescription(
                address=address,
                kind="feed",
                title=_get(element, "title") or _get(element, "text"),
                tags=tuple(tags),
            )


IMPORTERS = (OpmlFile(),)


def _outlines(file: ImportFile) -> Iterator[tuple[int, Any, tuple[str, ...]]]:
    """Line and outline, with the titles of the outlines around it."""
    etree = xml_reader()
    with file.open() as stream:
        text = stream.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise InputError("is larger than 64 MiB, which no list of feeds is")
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, recover=True
    )
    try:
        root = etree.fromstring(text, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise InputError(f"this is not XML: {error}") from error
    if root is None or not isinstance(root.tag, str) or root.tag.lower() != "opml":
        raise InputError("this is no OPML")
    todo: list[tuple[Any, tuple[str, ...]]] = [(root, ())]
    while todo:
        here, folders = todo.pop()
        if here.tag.lower() == "outline":
            yield here.sourceline or 0, here, folders
            title = (_get(here, "title") or _get(here, "text"))[:100]
            if title and not _get(here, "xmlUrl"):
                folders = (*folders, title)
        if len(folders) < _DEEPEST:
            inside = [child for child in here if isinstance(child.tag, str)]
            todo.extend((child, folders) for child in reversed(inside))


def _get(element: Any, name: str) -> str:
    """An attribute; programs differ in how they write its name."""
    for key, value in element.attrib.items():
        if key.lower() == name.lower():
            return str(value).strip()
    return ""
