"""Bodies that are small to send and were made to be slow or large to read.

Each is a function of its size in bytes, so that tests can ask whether twice the bytes take twice
the work. `BOMBS` names them all with the type that a server would send them with.
"""

from collections.abc import Callable
from dataclasses import dataclass

HTML, JSON, XML, TEXT = "text/html", "application/json", "application/xml", "text/plain"
ROBOTS_SIZE = 500 * 2**10
LARGE = 9 << 20


@dataclass(frozen=True)
class Bomb:
    """A body for one kind of reader."""

    kind: str
    make: Callable[[int], bytes]
    size: int
    """Bytes of the usual one."""

    def body(self, size: int | None = None) -> bytes:
        return self.make(self.size if size is None else size)


def _fill(unit: bytes, size: int) -> bytes:
    return unit * max(size // len(unit), 1)


def one_key_and_zeros(size: int) -> bytes:
    """A long key above many values: its address was written out for each of them."""
    return b'{"' + b"k" * (size // 2) + b'":[' + _fill(b"0,", size // 2) + b"0]}"


def deep_keys_and_zeros(size: int) -> bytes:
    """The same with a hundred keys below each other."""
    keys = [b'{"' + b"k" * max(size // 300, 1) + b'":' for _ in range(100)]
    return b"".join(keys) + b"[" + _fill(b"0,", size // 2) + b"0]" + b"}" * 100


def tag_names(size: int) -> bytes:
    """Elements with long names, in each other, with a text each."""
    name = b"n" * 49_000
    depth = max(size // (2 * len(name)), 1)
    inner = _fill(b"<b>x</b>", min(size // 4, 100_000))
    return b"<%s>x" % name * depth + inner + b"</%s>" % name * depth


def attributes(size: int) -> bytes:
    """One element with very many attributes."""
    made = b" ".join(b'a%d="1"' % i for i in range(size // 13))
    return b"<r " + made + b"/>"


def attributes_of_a_long_name(size: int) -> bytes:
    """A long name before every attribute."""
    made = b" ".join(b'a%d="1"' % i for i in range(size // 26))
    return b"<" + b"n" * min(size // 2, 49_000) + b" " + made + b"/>"


def namespaces(size: int) -> bytes:
    made = b" ".join(b'xmlns:a%d="u:%d"' % (i, i) for i in range(size // 22))
    return b"<r " + made + b"/>"


def nested_namespaces(size: int) -> bytes:
    depth = min(size // 50, 250)
    opened = b"".join(b'<a%d:r xmlns:a%d="u:%d">' % (i, i, i) for i in range(depth))
    return (
        opened
        + _fill(b"<x/>", size // 2)
        + b"".join(b"</a%d:r>" % i for i in reversed(range(depth)))
    )


def _inside(kind: str, unit: bytes) -> Callable[[int], bytes]:
    head, tail = {
        HTML: (b"<!doctype html><html><body>", b"</body></html>"),
        XML: (b"<?xml version='1.0'?><r>", b"</r>"),
        JSON: (b"[", b"0]"),
        TEXT: (b"", b""),
        "feed": (b"<rss version='2.0'><channel>", b"</channel></rss>"),
    }[kind]
    return lambda size: head + _fill(unit, size) + tail


def deep(unit: bytes) -> Callable[[int], bytes]:
    return lambda size: _fill(unit, size)


def long_classes(size: int) -> bytes:
    """Forty elements in each other with long ids: a long address for each of many lines."""
    opened = b"".join(b'<div id="%s">' % (b"i" * 40) for _ in range(45))
    return b"<html><body>" + opened + _fill(b"<p>x", size)


def feed_blank_lines(size: int) -> bytes:
    return b"<?xml version='1.0'?>" + b"\n" * size + b"<rss version='2.0'><channel/></rss>"


def feed_declarations(size: int) -> bytes:
    return b"<?xml version='1.0'" + b" " * size + b"?><rss version='2.0'><channel/></rss>"


def feed_doctype(size: int) -> bytes:
    return b"<!DOCTYPE rss [" + _fill(b"<!ENTITY a 'b'>\n", size) + b"]><rss version='2.0'/>"


def feed_open_doctype(size: int) -> bytes:
    return _fill(b"<!DOCTYPE ", size) + b"<rss version='2.0'/>"


def feed_items(size: int) -> bytes:
    unit = b"<item><title>a</title><link>http://a.example/1</link></item>"
    return b"<rss version='2.0'><channel>" + _fill(unit, size) + b"</channel></rss>"


def robots_agents(size: int) -> bytes:
    """Many agents, then many rules: every rule was kept once for every agent."""
    agents = b"".join(b"User-agent: a%d\n" % i for i in range(size // 36))
    rules = b"".join(b"Allow: /%d\n" % i for i in range(size // 24))
    return (agents + b"User-agent: *\n" + rules)[:ROBOTS_SIZE]


def robots_wildcards(size: int) -> bytes:
    return b"User-agent: *\n" + b"".join(b"Allow: *a%d*b\n" % (i % 97) for i in range(size // 15))


def robots_lines(size: int) -> bytes:
    return b"User-agent: *\n" + b"a\n" * (size // 2)


def one_long_line(size: int) -> bytes:
    return _fill(b"word ", size)


def repeated_lines(size: int) -> bytes:
    """Few different lines, very often: a difference has no anchors."""
    return b"".join((b"a\n", b"b\n", b"c\n")[(i * i + i // 7) % 3] for i in range(size // 2))


def sitemap_pages(size: int) -> bytes:
    unit = b"<url><loc>http://a.example/1</loc></url>"
    return b"<urlset>" + _fill(unit, size) + b"</urlset>"


BOMBS: dict[str, Bomb] = {
    "one key of 100 kB, 50,000 zeros": Bomb(JSON, one_key_and_zeros, 200_000),
    "hundred long keys, zeros": Bomb(JSON, deep_keys_and_zeros, 400_000),
    "numbers": Bomb(JSON, _inside(JSON, b"0,"), LARGE),
    "empty objects": Bomb(JSON, _inside(JSON, b"{},"), LARGE),
    "long numbers": Bomb(JSON, _inside(JSON, b"9" * 4000 + b","), LARGE),
    "open brackets": Bomb(JSON, deep(b"["), LARGE),
    "120,000 attributes": Bomb(XML, attributes, 1_560_000),
    "attributes of a long name": Bomb(XML, attributes_of_a_long_name, 1_560_000),
    "tag names of 49 kB": Bomb(XML, tag_names, 2_000_000),
    "namespaces": Bomb(XML, namespaces, 2_000_000),
    "namespaces in each other": Bomb(XML, nested_namespaces, 2_000_000),
    "XML elements": Bomb(XML, _inside(XML, b"<a/>"), LARGE),
    "XML elements with text": Bomb(XML, _inside(XML, b"<a>x</a>"), LARGE),
    "XML entities": Bomb(XML, _inside(XML, b"&#65;"), LARGE),
    "unknown entities": Bomb(XML, _inside(XML, b"&a;"), LARGE),
    "HTML elements": Bomb(HTML, _inside(HTML, b"<i></i>x"), LARGE),
    "HTML paragraphs": Bomb(HTML, _inside(HTML, b"<p>x"), LARGE),
    "HTML attributes": Bomb(HTML, attributes, 1_560_000),
    "HTML tag names": Bomb(HTML, tag_names, 2_000_000),
    "unclosed bold": Bomb(HTML, deep(b"<b>"), LARGE),
    "unclosed divisions": Bomb(HTML, deep(b"<div>"), LARGE),
    "tables in tables": Bomb(HTML, deep(b"<table><tr><td>"), LARGE),
    "long ids above paragraphs": Bomb(HTML, long_classes, LARGE),
    "entities": Bomb(HTML, _inside(HTML, b"&#65;"), LARGE),
    "less-than signs": Bomb(HTML, deep(b"<"), LARGE),
    "comments": Bomb(HTML, deep(b"<!--"), LARGE),
    "open declarations": Bomb(HTML, deep(b"<!"), LARGE),
    "closing tags": Bomb(HTML, deep(b"</p>"), LARGE),
    "one line": Bomb(TEXT, one_long_line, LARGE),
    "repeated lines": Bomb(TEXT, repeated_lines, 2_000_000),
    "blank lines": Bomb(TEXT, deep(b"\n"), LARGE),
    "a letter": Bomb(TEXT, deep(b"a"), LARGE),
    "feed: 60,000 blank lines": Bomb(XML, feed_blank_lines, 60_000),
    "feed: blank lines": Bomb(XML, feed_blank_lines, LARGE),
    "feed: a long declaration": Bomb(XML, feed_declarations, 1_000_000),
    "feed: declared entities": Bomb(XML, feed_doctype, 1_000_000),
    "feed: open declarations": Bomb(XML, feed_open_doctype, 1_000_000),
    "feed: items": Bomb(XML, feed_items, LARGE),
    "sitemap: pages": Bomb(XML, sitemap_pages, LARGE),
}
"""Bodies of a page, feed or sitemap."""

ROBOTS: dict[str, Bomb] = {
    "14,000 agents, 21,749 rules": Bomb(TEXT, robots_agents, ROBOTS_SIZE),
    "wildcards": Bomb(TEXT, robots_wildcards, ROBOTS_SIZE),
    "short lines": Bomb(TEXT, robots_lines, ROBOTS_SIZE),
}
"""Bodies of a robots.txt."""
