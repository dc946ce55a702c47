"""A small JSONPath: names, indices, slices, wildcards, descent and simple filters.

    $.items[0].name    $['a b']    $.items[*].price    $..price    $.items[-2:]
    $.items['a','b']   $.items[?(@.state == 'open')]   $.items[?(@.price < 10)]   $.items[?(@.id)]

Nothing is evaluated as code, and the number of values looked at is limited. That is why it is not
jsonpath-rfc9535, which has no such limit (`$..*..*..*..*` of 60 objects in each other: refused here
after 0.22 s, 1.6 s there) and takes 1.5 to 8 times as long (`python -m benchmarks.by_hand`).
"""

import functools
import json
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any

from observant.errors import InputError, UnreadableError

MOST_VALUES = 500_000

Step = Callable[[Any], Iterator[Any]]
Query = Callable[[Any], list[Any]]

_TOKEN = re.compile(
    r"""
    (?P<descent>\.\.)(?:(?P<deep_name>[\w$-]+)|(?P<deep_any>\*)|(?=\[))
    | \.(?:(?P<name>[\w$-]+)|(?P<any>\*))
    | \[\s*(?:
        (?P<all>\*)
      | (?P<slice>-?\d*\s*:\s*-?\d*(?:\s*:\s*-?\d*)?)
      | (?P<filter>\?\(?\s*@(?P<inner>(?:\.[\w$-]+|\['[^'\]]*'\])*)\s*
            (?:(?P<compare>==|!=|<=|>=|<|>)\s*(?P<value>'[^']*'|"[^"]*"|-?[\d.eE+-]+|true|false|null))?
            \s*\)?)
      | (?P<union>(?:-?\d+|'[^']*'|"[^"]*")(?:\s*,\s*(?:-?\d+|'[^']*'|"[^"]*"))*)
      )\s*\]
    """,
    re.VERBOSE,
)
_ITEM = re.compile(r"-?\d+|'[^']*'|\"[^\"]*\"")
_COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@functools.lru_cache(maxsize=1024)
def compile_jsonpath(expression: str) -> Query:
    """A function from a JSON value to the list of values the path finds.

    >>> shop = {"items": [{"id": 1, "price": 8}, {"id": 2, "price": 12}]}
    >>> compile_jsonpath("$.items[?(@.price < 10)].id")(shop), compile_jsonpath("$..price")(shop)
    ([1], [8, 12])
    """
    path = expression.strip()
    if not path.startswith("$"):
        raise InputError(f"this is not a JSONPath: {expression!r} (it starts with $)")
    steps: list[Step] = []
    place = 1
    while place < len(path):
        match = _TOKEN.match(path, place)
        if match is None:
            raise InputError(f"this is not a JSONPath: {expression!r} (at {path[place:]!r})")
        steps.extend(_steps(match))
        place = match.end()

    def query(value: Any) -> list[Any]:
        found = [value]
        looked_at = 0
        for step in steps:
            following: list[Any] = []
            for item in found:
                for member in step(item):
                    following.append(member)
                    looked_at += 1
                    if looked_at > MOST_VALUES:
                        raise UnreadableError(
                            f"the JSONPath looks at more than {MOST_VALUES:,} values"
                        )
            found = following
        return found

    return query


def _steps(match: re.Match[str]) -> Iterator[Step]:
    part = match.groupdict()
    if part["descent"]:
        yield _descendants
        if part["deep_name"]:
            yield _named(part["deep_name"])
        elif part["deep_any"]:
            yield _members
    elif part["name"]:
        yield _named(part["name"])
    elif part["any"] or part["all"]:
        yield _members
    elif part["slice"] is not None:
        try:
            bounds = [int(text) if text.strip() else None for text in part["slice"].split(":")]
        except ValueError:
            raise InputError("this is not a JSONPath: a minus without a number") from None
        if len(bounds) == 3 and bounds[2] == 0:
            raise InputError("this is not a JSONPath: a slice cannot step by 0")
        yield _sliced(slice(*bounds))
    elif part["filter"]:
        yield _filtered(part["inner"], part["compare"], part["value"])
    else:
        items = _ITEM.findall(part["union"])
        yield _united([item[1:-1] if item[0] in "'\"" else int(item) for item in items])


def _members(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _descendants(value: Any) -> Iterator[Any]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        yield item
        waiting.extend(reversed(list(_members(item))))


def _named(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _sliced(bounds: slice) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[bounds]

    return step


def _united(keys: list[Any]) -> Step:
    def step(value: Any) -> Iterator[Any]:
        for key in keys:
            if isinstance(value, dict) and isinstance(key, str) and key in value:
                yield value[key]
            if isinstance(value, list) and isinstance(key, int) and -len(value) <= key < len(value):
                yield value[key]

    return step


def _filtered(inner: str, compare: str | None, literal: str | None) -> Step:
    path = compile_jsonpath("$" + inner)
    wanted: Any = None
    if literal is not None:
        try:
            wanted = literal[1:-1] if literal[0] in "'\"" else json.loads(literal)
        except ValueError:
            raise InputError(f"this is not a JSONPath: {literal!r} is not a value") from None

    def holds(member: Any) -> bool:
        found = path(member)
        if compare is None:
            return bool(found)
        try:
            return any(bool(_COMPARE[compare](value, wanted)) for value in found)
        except TypeError:  # a number is neither less nor more than a word
            return False

    def step(value: Any) -> Iterator[Any]:
        return (member for member in _members(value) if holds(member))

    return step
