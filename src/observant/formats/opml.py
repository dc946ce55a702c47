"""OPML out: sources as a list that feed readers import."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol
from xml.sax.saxutils import quoteattr

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Listed", "opml_lines", "xml_text"]

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Listed(Protocol):
    """What is wanted of a source: `observant.store.Source` has it, and so have others."""

    @property
    def kind(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def tags(self) -> Any: ...


def opml_lines(sources: Iterable[Listed], *, title: str = "observant") -> Iterator[str]:
    """Yield the lines of an OPML file. Sources with tags are in a folder for each of them.

    Feeds get an ``xmlUrl``, pages and the rest an ``htmlUrl``; what feed readers cannot read they
    pass over.

    >>> from observant.formats.imports import SourceDescription
    >>> feed = SourceDescription(address="https://a.example/?x&y", kind="feed", tags=("news",))
    >>> for line in opml_lines([feed]):
    ...     print(line)
    <?xml version="1.0" encoding="UTF-8"?>
    <opml version="2.0">
      <head><title>observant</title></head>
      <body>
        <outline text="news">
          <outline type="rss" text="https://a.example/?x&amp;y" xmlUrl="https://a.example/?x&amp;y"/>
        </outline>
      </body>
    </opml>
    """
    folders: dict[str, list[str]] = {"": []}
    for source in sources:
        for tag in tuple(source.tags) or ("",):
            folders.setdefault(str(tag), []).append(_outline(source))
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield '<opml version="2.0">'
    yield f"  <head><title>{quoteattr(xml_text(title))[1:-1]}</title></head>"
    yield "  <body>"
    yield from (f"    {outline}" for outline in folders.pop(""))
    for tag, outlines in sorted(folders.items()):
        yield f"    <outline text={quoteattr(xml_text(tag))}>"
        yield from (f"      {outline}" for outline in outlines)
        yield "    </outline>"
    yield "  </body>"
    yield "</opml>"


def _outline(source: Any) -> str:
    address = xml_text(getattr(source, "address", "") or getattr(source, "url", "") or source.name)
    text = quoteattr(xml_text(source.title) or address)
    where = quoteattr(address)
    if source.kind == "feed":
        return f'<outline type="rss" text={text} xmlUrl={where}/>'
    return f'<outline type="link" text={text} url={where} htmlUrl={where}/>'


def xml_text(text: str) -> str:
    """Text without the characters that XML cannot hold.

    >>> xml_text("a\\x00b\\ud800c")
    'a�b�c'
    """
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
