"""A body as we read it: lines of text, each with the address of the place it came from.

The address is what makes a line the same line at the next visit although its words have changed:
`html/body/div#main/p[3]` on a page, `$.items[2].price` in JSON.
"""

__all__ = [
    "Document",
]

import dataclasses


@dataclasses.dataclass(slots=True)
class Document:
    """What was read from one body. `lines` and `addresses` have the same length."""

    kind: str
    """html, json, xml, text or bytes"""
    lines: list[str] = dataclasses.field(default_factory=list)
    addresses: list[str] = dataclasses.field(default_factory=list)
    title: str = ""
    heading: str = ""
    """The first h1, for telling error pages."""
    tags: list[str] = dataclasses.field(default_factory=list)
    """Every structural token in order."""
    links: list[str] = dataclasses.field(default_factory=list)
    images: list[str] = dataclasses.field(default_factory=list)
    adverts: int = 0

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def replace(self, lines: list[str], addresses: list[str]) -> "Document":
        """The same document with other lines."""
        return dataclasses.replace(self, lines=lines, addresses=addresses)
