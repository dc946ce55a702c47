"""A body as we read it: lines of text, each with the address of the place it came from.

The address is what makes a line the same line at the next visit although its words have changed:
`html/body/div#main/p[3]` on a page, `$.items[2].price` in JSON.
"""

import codecs
import dataclasses
import functools
import hashlib
import re

# -- Digests: short, fast, and not to be forged by a page that wants to look unchanged ------------


def digest(content: bytes | str) -> bytes:
    """The first 16 bytes of SHA-256.

    >>> digest("hello") == digest(b"hello"), len(digest(b""))
    (True, 16)
    """
    if isinstance(content, str):
        content = content.encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).digest()[:16]


def short_digest(content: bytes | str) -> str:
    """16 hexadecimal digits, for a record or a small table."""
    return digest(content).hex()[:16]


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


# -- From bytes to characters: whatever the header, the page or nobody says about them ------------


_META = re.compile(
    rb"""<(?:meta|\?xml)[^>]{0,300}?(?:charset|encoding)\s*=\s*["']?([\w.:-]{2,40})"""
)
_NOT_FOR_PAGES = frozenset(
    {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined"}
)


def decoded(body: bytes, charset: str | None = None) -> str:
    """The characters of a body. Bytes that mean nothing become U+FFFD; it never fails.

    A byte-order mark wins, then the header, then what the page says of itself, then UTF-8, and
    what is not UTF-8 is windows-1252.

    >>> decoded("café".encode("latin-1"), "iso-8859-1"), decoded("café".encode())
    ('café', 'café')
    """
    if charset is None or charset.lower() in {"utf-8", "utf8"}:
        try:
            return body.decode("utf-8-sig" if body.startswith(codecs.BOM_UTF8) else "utf-8")
        except UnicodeDecodeError:
            pass
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if body.startswith(mark):
            return body.decode(name, "replace")
    said = _META.search(body[:2048].lower())
    for claim in (charset, said and said.group(1).decode("ascii")):
        codec = _codec(claim) if claim else None
        if codec:
            try:
                return body.decode(codec, "replace")
            except (UnicodeError, LookupError, ValueError):
                continue
    return body.decode("cp1252", "replace")


@functools.lru_cache(maxsize=256)
def _codec(claim: str) -> str | None:
    """Which decoder a page means by a name; browsers read Latin-1 as windows-1252."""
    try:
        name = codecs.lookup(claim).name
    except (LookupError, ValueError):
        return None
    if name.replace("-", "_") in _NOT_FOR_PAGES:
        return None
    return "cp1252" if name in {"iso8859-1", "ascii"} else name


def utf8(body: bytes, charset: str | None) -> bytes:
    """The body as UTF-8 without NUL, which is what the parsers get."""
    if charset is None or charset.lower() in {"utf-8", "utf8"}:
        try:
            body.decode("utf-8")
        except UnicodeDecodeError:
            body = decoded(body, charset).encode("utf-8", "replace")
    else:
        body = decoded(body, charset).encode("utf-8", "replace")
    return body.replace(b"\0", b"\xef\xbf\xbd") if b"\0" in body else body


def clean(document: Document) -> Document:
    """Half characters and NUL cannot be stored everywhere: replace them."""
    text = document.text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        document.lines = [_storable(line) for line in document.lines]
        document.title = _storable(document.title)
        document.addresses = [_storable(address) for address in document.addresses]
    else:
        if "\0" in text:
            document.lines = [line.replace("\0", "\ufffd") for line in document.lines]
    return document


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
