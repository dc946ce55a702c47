"""From bytes to lines: HTML, JSON, XML and plain text, whatever they contain.

The bodies come from strangers. HTML is read by libxml2 as a stream of events, which takes time and
memory in proportion to the body. (A parser that builds the tree of the HTML standard does not: a
page of 300 kB of unclosed <b> makes it build gigabytes.) XML is read in the same way, without DTD,
entities or network. A tree is built only for selections; its depth and its number of elements are
limited. Names and addresses are cut off: what is kept of one line does not grow with the page.
"""

import codecs
import contextlib
import functools
import io
import json
import re
import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from lxml import etree

from observant.errors import UnreadableError
from observant.observer.content.document import Document, clean, decoded, short_digest, utf8
from observant.observer.content.record import pieces

if TYPE_CHECKING:
    from observant.observer.fetched import Fetched

Kind = Literal["html", "json", "xml", "text", "pdf", "bytes"]

INVISIBLE = frozenset({"script", "style", "noscript", "template"})
INLINE = frozenset(
    """
    a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark q s samp
    small span strike strong sub sup time tt u var wbr
    """.split()  # noqa: SIM905 (a list of words is easier to read as words)
)
"""Their text belongs to the line around them; every other element makes a line of its own."""

DEEPEST_ADDRESS = 48
DEEPEST_JSON = 200
LONGEST_NAME = 80
"""Characters of a tag, an attribute or a key in an address."""
LONGEST_ADDRESS = 400
"""Characters of the address of a line; the beginning of a longer one becomes a digest."""
MOST_ELEMENTS = 400_000
"""A page with more tags than this has no tree: it would take gigabytes."""
MOST_ATTRIBUTES = 1000
"""lxml looks for the value of each attribute of an element among all of them."""
ADVERT = ("468", "60")
"""The size of an advertisement in 1999; Brewington's num_ads counts it."""


def read(body: bytes, kind: Kind, charset: str | None = None, *, fold: bool = True) -> Document:
    """Read a whole body. Raises `UnreadableError`, and nothing else, when that is impossible.

    >>> page = read(b"<h1>Hello</h1><p>big <b>world</b></p><script>x()</script>", "html")
    >>> page.lines, page.addresses
    (['Hello', 'big world'], ['html/body/h1', 'html/body/p'])
    >>> read(b'{"b": [1, "x"], "a": null}', "json").lines
    ['{', ' "a": null,', ' "b": [', '  1,', '  "x"', ' ]', '}']
    """
    if kind == "bytes":
        return Document("bytes", [f"{len(body):,} bytes, {short_digest(body)}"], ["body"])
    if kind == "pdf":
        return clean(read_pdf(body))
    if kind == "html":
        return clean(read_html(utf8(body, charset), fold=fold))
    if kind == "json":
        return clean(from_json(json_value(body, charset)))
    if kind == "xml":
        return clean(read_xml(body, charset))
    text = decoded(body, charset)
    lines = text.splitlines()
    if fold:
        lines = [line for line in map(folded, lines) if line]
    return clean(Document("text", lines, [f"line[{i}]" for i in range(1, len(lines) + 1)]))


def kind_of(fetched: "Fetched") -> Kind:
    """How to read an answer: by its type, and where that says little by its first bytes.

    >>> from observant.observer.fetched import Fetched
    >>> kind_of(Fetched(url="x:", body=b' {"a": 1}', content_type="text/plain"))
    'json'
    """
    kind, start = fetched.content_type, fetched.body[:512].lstrip(b"\xef\xbb\xbf \t\r\n")
    if kind in {"text/html", "application/xhtml+xml"}:
        return "html"
    if kind.endswith(("/json", "+json", "-json")):
        return "json"
    if kind.endswith(("/xml", "+xml")):
        return "xml"
    if kind in {"", "text/plain", "application/octet-stream"}:
        lowered = start[:64].lower()
        if lowered.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
            return "html"
        if lowered.startswith(b"<?xml"):
            return "xml"
        if start[:1] in {b"{", b"["} and _is_json(fetched.body):
            return "json"
        if not kind and start[:1] == b"<":
            return "html"
    if is_pdf(fetched):
        return "pdf" if reads_pdf() else "bytes"
    if kind.startswith(("image/", "audio/", "video/", "font/")):
        return "bytes"
    return "bytes" if _is_binary(fetched.body[:4096]) and not fetched.charset else "text"


def is_pdf(fetched: "Fetched") -> bool:
    """Whether an answer is a PDF."""
    return fetched.content_type == "application/pdf" or fetched.body[:5] == b"%PDF-"


@functools.cache
def reads_pdf() -> bool:
    """Whether the text of a PDF can be read here (``observant[pdf]``)."""
    return find_spec("pypdf") is not None


_MOST_PAGES = 1000
_LONGEST_TEXT = 20_000_000


def read_pdf(body: bytes) -> Document:
    """The text of a PDF, page by page."""
    try:
        return _read_pdf(body)
    except (UnreadableError, MemoryError):
        raise
    except Exception as error:  # it meets bytes that no specification knows
        raise UnreadableError(f"this PDF cannot be read: {type(error).__name__}") from error


def _read_pdf(body: bytes) -> Document:
    import logging

    import pypdf

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it complains of each flaw
    document, length = Document("text"), 0
    reader = pypdf.PdfReader(io.BytesIO(body))
    if reader.is_encrypted and not reader.decrypt(""):
        raise UnreadableError("this PDF asks for a password")
    document.title = str((reader.metadata and reader.metadata.title) or "")[:1000]
    for number, page in enumerate(reader.pages, 1):
        text = page.extract_text()
        length += len(text)
        if number > _MOST_PAGES or length > _LONGEST_TEXT:
            raise UnreadableError("this PDF is too long to be read")
        lines = [line for line in map(folded, text.splitlines()) if line]
        document.lines += lines
        document.addresses += [f"page[{number}]/line[{k}]" for k in range(1, len(lines) + 1)]
    return document


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True


def _is_binary(start: bytes) -> bool:
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return False
    return b"\0" in start


def folded(text: str) -> str:
    """The text with one blank wherever there is white space.

    >>> folded("  a  b ")
    'a b'
    """
    if len(text) < _LONG:
        if text.isprintable() and "  " not in text:  # a blank is all the white space there is
            return text.strip(" ")
        return " ".join(text.split())
    return " ".join(word for piece in pieces(text) if (word := " ".join(piece.split())))


_LONG = 1 << 18


def _short(name: str) -> str:
    """A name of bounded length, different for different names."""
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 18]}…{short_digest(name)}"


def _below(above: str, name: str) -> str:
    """The address of a place below another. Long ones are digested, so that they stay short."""
    address = above + name
    if len(address) <= LONGEST_ADDRESS:
        return address
    return f"…{short_digest(above)}{name}"


# -- HTML -----------------------------------------------------------------------------------------


class _Parsers(threading.local):
    """One parser and reader for each thread: making them takes longer than reading a small page."""

    pair: "tuple[Any, HtmlReader] | None" = None

    def take(self) -> "tuple[Any, HtmlReader]":
        pair, self.pair = self.pair, None
        if pair is None:
            reader = HtmlReader()
            options = {"recover": True, "no_network": True, "encoding": "utf-8"}
            pair = etree.HTMLParser(target=reader, **options), reader
        return pair


_parsers = _Parsers()


def read_html(body: bytes, *, fold: bool = True) -> Document:
    parser, reader = _parsers.take()
    reader.reset(fold=fold)
    try:
        etree.fromstring(body, parser)
    except etree.LxmlError:
        reader.close()  # an empty body, or one that is not HTML at all: keep what was read
        check_memory(parser)
        return reader.document
    check_memory(parser)
    _parsers.pair = parser, reader
    return reader.document


def check_memory(parser: Any) -> None:
    """A parser that has run out of memory keeps what it had read: that is not the page."""
    if any(entry.type == etree.ErrorTypes.ERR_NO_MEMORY for entry in parser.error_log):
        raise MemoryError


def html_tree(body: bytes) -> Any:
    """The tree of a page, for selections. `body` is UTF-8."""
    check_size(body)
    parser = etree.HTMLParser(
        recover=True,
        no_network=True,
        encoding="utf-8",
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(body, parser)
    except etree.LxmlError as error:
        check_memory(parser)
        raise UnreadableError(f"the page cannot be read as HTML: {error}") from None
    check_memory(parser)
    if root is None:
        raise UnreadableError("the page is empty")
    if any("depth" in entry.message.lower() for entry in parser.error_log):
        raise UnreadableError("the page is nested too deeply for a selection")
    return root


def check_size(body: bytes, what: str = "a selection", most: int = MOST_ELEMENTS) -> None:
    """Complain of a page whose tree would be too large, or too slow to build."""
    if body.count(b"<") + body.count(b"&") > most:
        raise UnreadableError(f"{what} is read from at most {most:,} tags; here are more")
    for tag in _LONG_TAG.finditer(body):
        names = _QUOTED.sub(b" ", tag[0]).replace(b"/", b" ").split()
        if len(names) > MOST_ATTRIBUTES:
            raise UnreadableError(f"an element has more than {MOST_ATTRIBUTES:,} attributes")


_LONG_TAG = re.compile(rb"""<[A-Za-z](?>(?:[^<>"']{1,4000}|"[^"]*"|'[^']*'){2,})""")
_QUOTED = re.compile(rb""""[^"]*"|'[^']*'""")


class HtmlReader:
    """Takes the events of a parser (or of `walk`) and makes the document."""

    kind = "html"

    def __init__(self, prefix: str = "", *, fold: bool = True) -> None:
        self.pieces: list[str] = []
        self.data = self.pieces.append  # a page has hundreds of texts: not a call into Python each
        self.reset(prefix, fold=fold)

    def reset(self, prefix: str = "", *, fold: bool = True) -> None:
        self.document = Document(self.kind)
        self.tags = self.document.tags
        self.paths = [prefix]
        self.siblings: list[dict[str, int]] = [{}]
        self.pieces.clear()
        self.hidden = 0
        self.fold = fold

    def start(self, tag: str, attributes: Any) -> None:
        self.tags.append(tag)
        if tag in INLINE:
            if tag == "a":
                target = attributes.get("href")
                if target:
                    self.document.links.append(target)
            elif tag == "img":
                document = self.document
                target = attributes.get("src")
                if target:
                    document.images.append(target)
                if attributes.get("width") == ADVERT[0] and attributes.get("height") == ADVERT[1]:
                    document.adverts += 1
            return
        if self.pieces:
            self.flush()
        if tag in INVISIBLE:
            self.hidden += 1
        name = tag if len(tag) <= LONGEST_NAME else _short(tag)
        if attributes:
            # cut off: what is remembered of strangers' pages stays small
            name = signature(name, attributes.get("id", "")[:80], attributes.get("class", "")[:80])
        counts, paths = self.siblings[-1], self.paths
        place = counts[name] = counts.get(name, 0) + 1
        above = paths[-1]
        if len(paths) <= DEEPEST_ADDRESS:
            if place > 1:
                name = f"{name}[{place}]"
            if above:
                name = f"{above}/{name}"
                if len(name) > LONGEST_ADDRESS:
                    name = _below(above, name[len(above) :])
            above = name
        paths.append(above)
        self.siblings.append({})

    def end(self, tag: str) -> None:
        if tag in INLINE:
            return
        if self.pieces:
            self.flush(tag)
        if tag in INVISIBLE and self.hidden:
            self.hidden -= 1
        if len(self.paths) > 1:
            self.paths.pop()
            self.siblings.pop()

    def flush(self, tag: str = "") -> None:
        pieces = self.pieces
        line = pieces[0] if len(pieces) == 1 else "".join(pieces)
        pieces.clear()
        if self.hidden or line.isspace():
            return
        text = folded(line)
        if not text:
            return
        document = self.document
        if tag == "title" and not document.title:
            document.title = text
        elif tag == "h1" and not document.heading:
            document.heading = text
        document.lines.append(text if self.fold else line.strip("\r\n").replace("\n", " "))
        document.addresses.append(self.paths[-1])

    def close(self) -> None:
        if self.pieces:
            self.flush()


_STEADY = re.compile(r"[A-Za-z_-]{1,40}[0-9]{0,2}")


@functools.lru_cache(maxsize=4096)
def signature(tag: str, identity: str, classes: str) -> str:
    """A tag with its id or first class, unless that looks made up anew on every visit."""
    if _STEADY.fullmatch(identity):
        return f"{tag}#{identity}"
    first = classes.split(None, 1)
    if first and _STEADY.fullmatch(first[0]):
        return f"{tag}.{first[0]}"
    return tag


def walk(element: Any, reader: HtmlReader) -> None:
    """Feed one element of a tree to a reader, without recursion."""
    for event, node in etree.iterwalk(element, events=("start", "end")):
        if not isinstance(node.tag, str):
            continue
        if event == "start":
            if isinstance(reader, XmlReader) and len(node.attrib) > MOST_ATTRIBUTES:
                raise UnreadableError(f"an element has more than {MOST_ATTRIBUTES:,} attributes")
            reader.start(node.tag, node.attrib)
            if node.text:
                reader.data(node.text)
        else:
            reader.end(node.tag)
            if node.tail and node is not element:
                reader.data(node.tail)
    reader.close()


# -- JSON -----------------------------------------------------------------------------------------


def json_value(body: bytes, charset: str | None = None) -> Any:
    try:
        return json.loads(decoded(body, charset))
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"the body is not JSON: {str(error)[:200]}") from None


def from_json(value: Any, root: str = "$") -> Document:
    """One line for every value, keys in order, so that equal values are equal text."""
    document = Document("json")
    _write_json(value, "", root, "", document.lines, document.addresses, 0)
    return document


def _write_json(
    value: Any,
    start: str,
    path: str,
    end: str,
    lines: list[str],
    addresses: list[str],
    depth: int,
) -> None:
    if depth > DEEPEST_JSON:
        raise UnreadableError(f"the JSON is nested more than {DEEPEST_JSON} deep")
    if isinstance(value, dict) and value:
        opening, closing = "{", "}"
        members = [
            (
                f"{json.dumps(key, ensure_ascii=False)}: ",
                _below(path, f".{_short(key)}"),
                value[key],
            )
            for key in sorted(value)
        ]
    elif isinstance(value, list) and value:
        opening, closing = "[", "]"
        members = [("", _below(path, f"[{i}]"), item) for i, item in enumerate(value)]
    else:
        try:
            told = json.dumps(value, ensure_ascii=False)
        except TypeError:  # a part of JMESPath's own language: `&expression`
            raise UnreadableError("the selection gives something that is no value") from None
        lines.append(f"{' ' * depth}{start}{told}{end}")
        addresses.append(path)
        return
    lines.append(f"{' ' * depth}{start}{opening}")
    addresses.append(path)
    last = len(members) - 1
    for i, (name, place, member) in enumerate(members):
        _write_json(member, name, place, "" if i == last else ",", lines, addresses, depth + 1)
    lines.append(f"{' ' * depth}{closing}{end}")
    addresses.append(path)


# -- XML ------------------------------------------------------------------------------------------

_INTERNAL_SUBSET = re.compile(r"<!DOCTYPE[^>\[]{0,1000}\[")
_FIRST_ELEMENT = re.compile(r"<[^\W\d]")
_DECLARATION = re.compile(r"\A\s*<\?xml[^>]{0,200}\?>")


def _safe_xml(body: bytes, charset: str | None) -> bytes:
    text = decoded(body, charset)
    root = _FIRST_ELEMENT.search(text)
    if root is None:
        raise UnreadableError("the body is not XML: it has no element")
    if _INTERNAL_SUBSET.search(text, 0, root.start()):
        raise UnreadableError("the XML declares its own entities, which are never read")
    return _DECLARATION.sub("", text, count=1).replace("\0", "\ufffd").encode("utf-8", "replace")


def _xml_options() -> dict[str, Any]:
    return {
        "recover": True,
        "resolve_entities": False,
        "load_dtd": False,
        "no_network": True,
        "huge_tree": False,
        "remove_comments": True,
        "remove_pis": True,
    }


def xml_tree(body: bytes, charset: str | None = None) -> Any:
    """The root of an XML document, names without their namespace. No DTD, entities or network."""
    text = _safe_xml(body, charset)
    check_size(text)
    parser = etree.XMLParser(**_xml_options())
    root = _parsed(text, parser)
    if root is None:
        raise UnreadableError("the body is not XML")
    for node in root.iter():
        if isinstance(node.tag, str) and "}" in node.tag:
            # What a forgiving parser takes for a name may be none: then it stays as it is.
            with contextlib.suppress(ValueError):
                node.tag = node.tag.rpartition("}")[2]
    return root


def read_xml(body: bytes, charset: str | None) -> Document:
    reader = XmlReader()
    _parsed(_safe_xml(body, charset), etree.XMLParser(target=reader, **_xml_options()))
    if not reader.document.tags:
        raise UnreadableError("the body is not XML")
    return reader.document


def _parsed(text: bytes, parser: Any) -> Any:
    try:
        root = etree.fromstring(text, parser)
    except etree.LxmlError as error:
        check_memory(parser)
        raise UnreadableError(f"the body is not XML: {str(error)[:200]}") from None
    check_memory(parser)
    return root


class XmlReader(HtmlReader):
    """Every element and every attribute makes a line: `name: text` or `name@attribute: value`."""

    kind = "xml"

    def start(self, tag: str, attributes: Any) -> None:
        document = self.document
        tag = tag.rpartition("}")[2]
        document.tags.append(tag)
        if self.pieces:
            self.flush()
        tag = _short(tag)
        counts = self.siblings[-1]
        place = counts[tag] = counts.get(tag, 0) + 1
        above = self.paths[-1]
        if len(self.paths) <= DEEPEST_ADDRESS:
            name = f"{tag}[{place}]" if place > 1 else tag
            above = _below(above, f"/{name}") if above else name
        self.paths.append(above)
        self.siblings.append({})
        for key, value in attributes.items():
            name = _short(key.rpartition("}")[2])
            if name == "href" and value:
                document.links.append(value)
            document.lines.append(f"{tag}@{name}: {folded(value)}")
            document.addresses.append(_below(above, f"/@{name}"))

    def end(self, tag: str) -> None:
        if self.pieces:
            self.flush(_short(tag.rpartition("}")[2]))
        if len(self.paths) > 1:
            self.paths.pop()
            self.siblings.pop()

    def flush(self, tag: str = "") -> None:
        text = folded("".join(self.pieces))
        self.pieces.clear()
        if not text:
            return
        if tag == "title" and not self.document.title:
            self.document.title = text
        path = self.paths[-1]
        name = tag or path.rpartition("/")[2].partition("[")[0]
        self.document.lines.append(f"{name}: {text}")
        self.document.addresses.append(path)
