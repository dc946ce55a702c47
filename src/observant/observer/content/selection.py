"""The part of a body that counts: CSS, XPath 1, JSONPath, JMESPath, regular expressions.

A selection that finds nothing is a failed comparison, not an empty page: otherwise a redesign of
the page, or a mistake in the selection, would look like a change and then like silence.
"""

import functools
import re
import time
from typing import Any

from lxml import etree

from observant.errors import InputError, UnreadableError
from observant.observer.content import normalisation as normalising
from observant.observer.content.css import Css, compile_css
from observant.observer.content.document import Document, clean, decoded, utf8
from observant.observer.content.jsonpath import compile_jsonpath
from observant.observer.content.normalisation import HtmlReader, Kind, XmlReader, walk
from observant.observer.content.rules import Rules, compiled_pattern

TIME_LIMIT = 0.5
"""Seconds for all regular expressions on one body together."""


def select(body: bytes, kind: Kind, charset: str | None, rules: Rules) -> Document:
    """Read a body by the rules of its source. Raises `UnreadableError` when nothing is left.

    >>> page = b"<div id=price>12 EUR <s>15</s></div><p>Seen at 12:07:33</p>"
    >>> select(page, "html", None, Rules(css="#price", drop=("s",))).lines
    ['12 EUR']
    """
    if rules.change == "bytes" and not rules.selects and kind != "bytes":
        text = decoded(body, charset)
        lines = text.split("\n")
        return clean(Document(kind, lines, [f"line[{i}]" for i in range(1, len(lines) + 1)]))
    document = _structured(body, kind, charset, rules)
    if rules.regex or rules.ignore:
        document = _by_pattern(document, rules)
    if rules.sort_lines or rules.unique_lines:
        pairs = list(zip(document.lines, document.addresses, strict=True))
        if rules.unique_lines:
            once: dict[str, str] = {}
            for line, address in pairs:
                once.setdefault(line, address)
            pairs = list(once.items())
        if rules.sort_lines:
            pairs.sort()
        document = document.replace([p[0] for p in pairs], [p[1] for p in pairs])
    if rules.selects and not document.lines:
        raise UnreadableError("the selection leaves no text")
    return document


def _structured(body: bytes, kind: Kind, charset: str | None, rules: Rules) -> Document:
    """Selection by structure, before any by pattern."""
    fold = not rules.whitespace
    if rules.jsonpath or rules.jmespath:
        return clean(_from_json(body, charset, rules))
    if not (rules.css or rules.xpath or (rules.drop and kind in {"html", "xml"})):
        return normalising.read(body, kind, charset, fold=fold)
    if kind not in {"html", "xml"}:
        raise UnreadableError(f"CSS and XPath select from HTML or XML; this is {kind}")
    if kind == "html":
        normalising.check_size(body)
        whole = normalising.read(body, kind, charset, fold=fold)
        root = normalising.html_tree(utf8(body, charset))
    else:
        whole = Document("xml")
        root = normalising.xml_tree(body, charset)
    for expression in rules.drop:
        _remove(found_by(root, compile_css(expression), expression))
    lines: list[str] = []
    addresses: list[str] = []
    if rules.css or rules.xpath:
        expression = rules.css or rules.xpath or ""
        compiled = compile_css(expression) if rules.css else compile_xpath(expression)
        found = _outermost(found_by(root, compiled, expression))
        if not found:
            raise UnreadableError(f"the selection finds nothing: {expression!r}")
    else:
        found = [root]
    reader = HtmlReader(fold=fold) if kind == "html" else XmlReader()
    for i, item in enumerate(found, 1):
        prefix = f"match[{i}]" if rules.css or rules.xpath else ""
        if isinstance(item, str):
            lines.append(normalising.folded(item) if fold else item.replace("\n", " "))
            addresses.append(prefix)
            continue
        reader.reset(prefix, fold=fold)
        walk(item, reader)
        lines += reader.document.lines
        addresses += reader.document.addresses
    return clean(whole.replace(lines, addresses))


def found_by(root: Any, compiled: Any, expression: str) -> list[Any]:
    """Elements and texts that a compiled expression finds; texts that are not blank."""
    if isinstance(compiled, Css):
        return compiled(root)
    _refuse_slow(root, compiled.path)
    try:
        answer = compiled(root)
    except etree.XPathError as error:
        raise UnreadableError(f"{expression!r} fails on this page: {error}") from None
    if isinstance(answer, bool | float):
        answer = [f"{answer:g}" if isinstance(answer, float) else str(answer).lower()]
    elif isinstance(answer, str):
        answer = [answer]
    return [item for item in answer if not isinstance(item, str) or item.strip()]


_STEPS = re.compile(r"'[^']*'|\"[^\"]*\"|//|[\[\]]|[\w-]+(?=::)")


def _refuse_slow(root: Any, path: str) -> None:
    """XPath cannot be stopped, so one that could take more than about a second is not started.

    libxml2 compares every result of a step with all before it: two searches (`//`) in a row take
    elements² × depth comparisons, siblings of siblings take siblings³, and a search inside a
    condition is made again for every element (measured; see docs/comparing.md).
    """
    searches = deepest = sideways = 0
    level = [0]
    for part in _STEPS.findall(path):
        if part == "[":
            level.append(0)
        elif part == "]" and len(level) > 1:
            level.pop()
        elif part.startswith(("//", "descendant", "following", "preceding")):
            searches += 1
            sideways += part[0] in "fp" and len(level) == 1
            level[-1] = 1
            deepest = max(deepest, sum(level))
    if searches < 2:
        return
    elements = depth = siblings = 0
    above = 0
    for event, node in etree.iterwalk(root, events=("start", "end")):
        above += 1 if event == "start" else -1
        if event == "start":
            elements += 1
            siblings = max(siblings, len(node))
            depth = max(depth, above)
    if (
        elements**2 * depth > 2.5e9
        or (sideways and siblings**3 > 5e9)
        or (deepest > 1 and elements**deepest > 1e8)
    ):
        raise UnreadableError(
            f"the XPath {path!r} would take too long on a page of {elements:,} elements: "
            "use CSS, or fewer // in one expression"
        )


def _outermost(found: list[Any]) -> list[Any]:
    """Without elements that lie inside another one found: no text counts twice."""
    chosen = {item for item in found if not isinstance(item, str)}
    if len(chosen) < 2:
        return found
    inside: dict[Any, bool] = {}  # what is known of elements above: each is asked once

    def covered(item: Any) -> bool:
        way = []
        above = item.getparent()
        while above is not None and above not in inside and above not in chosen:
            way.append(above)
            above = above.getparent()
        answer = above is not None and (above in chosen or inside[above])
        inside.update(dict.fromkeys(way, answer))
        return answer

    return [item for item in found if isinstance(item, str) or not covered(item)]


def _remove(elements: list[Any]) -> None:
    """Take elements, in page order, out of their tree; the text after each stays.

    Texts that come to stand together are joined once, not one by one.
    """
    texts: dict[tuple[Any, str], list[str]] = {}
    for element in elements:
        parent = element.getparent()
        if parent is None:
            continue
        if element.tail:
            before = element.getprevious()
            place = (parent, "text") if before is None else (before, "tail")
            texts.setdefault(place, []).append(element.tail)
        parent.remove(element)
    for (node, name), pieces in texts.items():
        text = (getattr(node, name) or "") + "".join(pieces)
        setattr(node, name, _NOT_XML.sub("\ufffd", text))


def _from_json(body: bytes, charset: str | None, rules: Rules) -> Document:
    value = normalising.json_value(body, charset)
    if rules.jsonpath:
        found = compile_jsonpath(rules.jsonpath)(value)
        if not found:
            raise UnreadableError(f"the selection finds nothing: {rules.jsonpath!r}")
        return normalising.from_json(found[0] if len(found) == 1 else found)
    import jmespath.exceptions

    try:
        answer = compile_jmespath(rules.jmespath or "").search(value)
    except (jmespath.exceptions.JMESPathError, RecursionError, TypeError, ValueError) as error:
        raise UnreadableError(f"{rules.jmespath!r} fails on this answer: {error}") from None
    if answer is None:
        raise UnreadableError(f"the selection finds nothing: {rules.jmespath!r}")
    return normalising.from_json(answer)


def _by_pattern(document: Document, rules: Rules) -> Document:
    """The regular expressions, with one time limit over all."""
    until = time.monotonic() + TIME_LIMIT
    lines, addresses = document.lines, document.addresses
    for expression in rules.ignore:
        text = _run("sub", expression, "\n".join(lines), until)
        fresh = text.split("\n")
        if len(fresh) != len(lines):  # it took line ends away: the addresses are lost
            addresses = [f"line[{i}]" for i in range(1, len(fresh) + 1)]
        lines = fresh
    if rules.ignore:
        fold = not rules.whitespace and document.kind != "json"
        folded = [" ".join(line.split()) if fold else line for line in lines]
        kept = [i for i, line in enumerate(folded) if line.strip()]
        lines, addresses = [folded[i] for i in kept], [addresses[i] for i in kept]
    if rules.regex:
        found = _run("findall", rules.regex, "\n".join(lines), until)
        parts = [item if isinstance(item, str) else " ".join(item) for item in found]
        lines = [line for part in parts for line in part.split("\n") if line.strip()]
        if not lines:
            raise UnreadableError(f"the selection finds nothing: {rules.regex!r}")
        addresses = [f"match[{i}]" for i in range(1, len(lines) + 1)]
    return document.replace(lines, addresses)


def _run(method: str, expression: str, text: str, until: float) -> Any:
    left = max(until - time.monotonic(), 1e-6)
    pattern = compile_regex(expression)
    try:
        if method == "sub":
            return pattern.sub("", text, timeout=left)
        return pattern.findall(text, timeout=left)
    except (TimeoutError, MemoryError):
        raise UnreadableError(
            f"the regular expression {expression!r} takes too long here"
        ) from None


# -- expressions ----------------------------------------------------------------------------------

_XPATH_FUNCTIONS = frozenset(
    """
    last position count id local-name namespace-uri name string concat starts-with contains
    substring-before substring-after substring string-length normalize-space translate boolean
    not true false lang number sum floor ceiling round
    """.split()  # noqa: SIM905 (a list of words is easier to read as words)
)
_NODE_TESTS = frozenset(
    {"text", "node", "comment", "processing-instruction", "and", "or", "div", "mod"}
)
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that lxml reads in a page, and refuses to write."""
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_CALL = re.compile(r"([\w:.-]+)\s*\(")


@functools.lru_cache(maxsize=1024)
def compile_xpath(expression: str) -> Any:
    """XPath 1 with its own 27 functions and no others: nothing that could read a file."""
    unquoted = _QUOTED.sub("''", expression)
    for name in _CALL.findall(unquoted):
        if name.rpartition("::")[2] not in _XPATH_FUNCTIONS | _NODE_TESTS:
            raise InputError(f"XPath 1 has no function {name!r}")
    try:
        return etree.XPath(expression, smart_strings=False, regexp=False)
    except (etree.XPathError, ValueError) as error:  # characters that XML does not have
        raise InputError(f"this is not an XPath 1 expression: {expression!r} ({error})") from None


@functools.lru_cache(maxsize=1024)
def compile_jmespath(expression: str) -> Any:
    import jmespath
    import jmespath.exceptions

    try:
        return jmespath.compile(expression)
    except (jmespath.exceptions.JMESPathError, RecursionError, ValueError) as error:
        raise InputError(f"this is not a JMESPath: {expression!r} ({error})") from None


@functools.lru_cache(maxsize=1024)
def compile_regex(expression: str) -> Any:
    return compiled_pattern(expression)


COMPILERS: dict[str, Any] = {
    "css": compile_css,
    "xpath": compile_xpath,
    "jsonpath": compile_jsonpath,
    "jmespath": compile_jmespath,
    "regex": compile_regex,
}
