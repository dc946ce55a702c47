"""Elements of XML that may be hostile: no DTD, no entities, no network, memory bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from observant.errors import InputError
from observant.plugins import needed

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["elements", "local_name", "text_of", "xml_reader"]

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
