"""CSS selectors in one pass over the page.

The usual way, CSS rewritten as XPath, takes seconds on a hostile page of a few thousand elements:
`.content a` compares every result with all results before it. Here every element is asked once
for every part of the selector: it knows the answers of its parent and of the siblings before it.
"""

import functools
import re
from collections.abc import Callable
from typing import Any

from observant.errors import InputError

Test = Callable[[Any, "Position"], bool]
"""Does one element, at its place among its siblings, satisfy one compound selector?"""


@functools.lru_cache(maxsize=1024)
def compile_css(expression: str) -> "Css":
    """Read a list of selectors; an `InputError` tells what is not understood."""
    import cssselect

    try:
        groups = cssselect.parse(expression)
    except (cssselect.SelectorError, RecursionError) as error:
        raise InputError(f"this is not a CSS selector: {expression!r} ({error})") from None
    if any(group.pseudo_element for group in groups):
        raise InputError(
            f"this is not a CSS selector: {expression!r} (a pseudo-element has no text)"
        )
    return Css([_chain(group.parsed_tree, expression) for group in groups])


class Position:
    """Where an element stands among its siblings."""

    __slots__ = ("counts", "totals")

    def __init__(self, totals: dict[str, int]) -> None:
        self.counts: dict[str, int] = {"": 0}
        self.totals = totals


class Css:
    """A compiled list of selectors. Call it with the root of a tree: elements in page order.

    >>> from lxml import etree
    >>> page = etree.fromstring("<body><ul class='a'><li>1</li><li>2</li></ul><li>3</li></body>")
    >>> [item.text for item in compile_css("ul.a > li + li, body > li")(page)]
    ['2', '3']
    """

    def __init__(self, chains: list[list[tuple[str, Test]]]) -> None:
        # What is true of an element is a set of bits, one for every step of every chain.
        self.steps: list[tuple[int, int, int, Test]] = []
        self.complete = 0
        for chain in chains:
            for k, (combinator, test) in enumerate(chain):
                bit = 1 << len(self.steps)
                self.steps.append((bit, bit >> 1 if k else 0, " >+~".index(combinator), test))
            self.complete |= bit

    def __call__(self, root: Any) -> list[Any]:
        found: list[Any] = []
        waiting: list[tuple[Any, int, int]] = [([root], 0, 0)]
        while waiting:
            family, parent, ancestors = waiting.pop()
            family = [(element, element.tag) for element in family]
            totals: dict[str, int] = {}
            for _, tag in family:
                if isinstance(tag, str):
                    totals[tag] = totals.get(tag, 0) + 1
            totals[""] = sum(totals.values())
            place = Position(totals)
            counts = place.counts
            near = [ancestors, parent, 0, 0]  # for: descendant, child, next, later sibling
            children = []
            for element, tag in family:
                if not isinstance(tag, str):
                    continue
                counts[tag] = counts.get(tag, 0) + 1
                counts[""] += 1
                here = 0
                for bit, before, combinator, test in self.steps:
                    if (not before or near[combinator] & before) and test(element, place):
                        here |= bit
                if here & self.complete:
                    found.append(element)
                near[2] = here
                near[3] |= here
                if len(element):
                    children.append((element, here, ancestors | here))
            waiting.extend(reversed(children))
        return _in_page_order(found, root)


def _in_page_order(found: list[Any], root: Any) -> list[Any]:
    if len(found) < 2:
        return found
    chosen = set(found)
    return [element for element in root.iter() if element in chosen]


# -- one compound selector ------------------------------------------------------------------------


def _chain(tree: Any, expression: str) -> list[tuple[str, Test]]:
    """From `a > b c` to [(" ", a), (">", b), (" ", c)]."""
    steps: list[tuple[str, Test]] = []
    while type(tree).__name__ == "CombinedSelector":
        steps.append((tree.combinator, _test(tree.subselector, expression)))
        tree = tree.selector
    steps.append((" ", _test(tree, expression)))
    return steps[::-1]


def _test(tree: Any, expression: str) -> Test:
    kind = type(tree).__name__
    if kind == "Element":
        name = (tree.element or "").lower()
        return (lambda e, _: e.tag.lower() == name) if name else (lambda _e, _p: True)
    if kind in {"Negation", "Matching", "SpecificityAdjustment"}:
        own = _test(tree.selector, expression)
        inner = [tree.subselector] if kind == "Negation" else tree.selector_list
        tests = [_test(part, expression) for part in inner]
        wanted = kind != "Negation"
        return lambda e, p: own(e, p) and any(test(e, p) for test in tests) == wanted
    if kind in {"Class", "Hash", "Attrib", "Pseudo", "Function"}:
        own = _test(tree.selector, expression)
        extra = _EXTRA[kind](tree, expression)
        return lambda e, p: own(e, p) and extra(e, p)
    raise InputError(f"this CSS is not supported: {expression!r} ({kind})")


def _class(tree: Any, _: str) -> Test:
    name = tree.class_name
    return lambda e, _: name in e.get("class", "").split()


def _hash(tree: Any, _: str) -> Test:
    name = tree.id
    return lambda e, _: e.get("id") == name


def _attribute(tree: Any, expression: str) -> Test:
    name, how = tree.attrib.lower(), tree.operator
    value = getattr(tree.value, "value", tree.value) or ""
    tests: dict[str, Callable[[str], bool]] = {
        "exists": lambda _: True,
        "=": lambda text: text == value,
        "!=": lambda text: text != value,
        "~=": lambda text: value in text.split(),
        "|=": lambda text: text == value or text.startswith(value + "-"),
        "^=": lambda text: bool(value) and text.startswith(value),
        "$=": lambda text: bool(value) and text.endswith(value),
        "*=": lambda text: bool(value) and value in text,
    }
    if how not in tests:
        raise InputError(f"this CSS is not supported: {expression!r} ([{name}{how}…])")
    test = tests[how]

    def holds(element: Any, _: Position) -> bool:
        text = element.get(name)
        return text is not None and test(text)

    return holds


def _pseudo(tree: Any, expression: str) -> Test:
    tests: dict[str, Test] = {
        "first-child": lambda _, p: p.counts[""] == 1,
        "last-child": lambda _, p: p.counts[""] == p.totals[""],
        "only-child": lambda _, p: p.totals[""] == 1,
        "first-of-type": lambda e, p: p.counts[e.tag] == 1,
        "last-of-type": lambda e, p: p.counts[e.tag] == p.totals[e.tag],
        "only-of-type": lambda e, p: p.totals[e.tag] == 1,
        "empty": lambda e, _: not len(e) and not e.text,
        "root": lambda e, _: e.getparent() is None,
    }
    if tree.ident not in tests:
        raise InputError(f"this CSS is not supported: {expression!r} (:{tree.ident})")
    return tests[tree.ident]


_NTH = re.compile(r"(?:(?P<a>[+-]?\d*)n)?\s*(?P<b>[+-]?\s*\d+)?")


def _function(tree: Any, expression: str) -> Test:
    argument = "".join(token.value for token in tree.arguments if token.value).strip().lower()
    argument = {"odd": "2n+1", "even": "2n"}.get(argument, argument)
    match = _NTH.fullmatch(argument)
    kinds = {"nth-child", "nth-last-child", "nth-of-type", "nth-last-of-type"}
    if tree.name not in kinds or not match or not argument:
        raise InputError(f"this CSS is not supported: {expression!r} (:{tree.name}())")
    a = {None: 0, "": 1, "+": 1, "-": -1}.get(match["a"])
    a = int(match["a"]) if a is None else a
    b = int((match["b"] or "0").replace(" ", ""))
    typed, last = "type" in tree.name, "last" in tree.name

    def holds(element: Any, place: Position) -> bool:
        key = element.tag if typed else ""
        n = place.totals[key] - place.counts[key] + 1 if last else place.counts[key]
        return n == b if a == 0 else (n - b) % a == 0 and (n - b) // a >= 0

    return holds


_EXTRA: dict[str, Callable[[Any, str], Test]] = {
    "Class": _class,
    "Hash": _hash,
    "Attrib": _attribute,
    "Pseudo": _pseudo,
    "Function": _function,
}
