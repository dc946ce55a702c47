"""A readable difference between two kept versions: lines, words, or JSON values.

Every difference can be applied: `diff(old, new).apply(old) == new`. Time grows with the length of
the texts, not with its square: lines that occur once on each side are the anchors (as in patience
diff), and what lies between anchors is compared closely only while it is small.
"""

__all__ = ["Diff", "Edit", "JsonDiff", "JsonEdit", "changed_lines", "diff", "edits", "excerpt"]

import bisect
import itertools
import json
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from observant.errors import InputError
from observant.observer.content.record import gone_and_come
from observant.store.visit import Excerpt

CLOSELY = 40_000
"""A stretch is compared element by element while the product of its lengths is at most this."""
MOST_TOKENS = 400_000
"""Words beyond this number are compared by line."""
DEEPEST = 100
"""JSON nested deeper than this is compared as a whole."""


class Edit(msgspec.Struct, frozen=True, array_like=True):
    """A stretch of both texts: equal, or `old` replaced by `new` (either may be empty)."""

    equal: bool
    old: str
    new: str


class Diff(msgspec.Struct, frozen=True):
    """All stretches in order. Joined, `old` is the old text and `new` the new one."""

    kind: Literal["lines", "words"]
    edits: tuple[Edit, ...]

    @property
    def empty(self) -> bool:
        return all(edit.equal for edit in self.edits)

    def apply(self, old: str) -> str:
        """The new text, given the old one."""
        if "".join(edit.old for edit in self.edits) != old:
            raise InputError("this difference belongs to another text")
        return "".join(edit.new for edit in self.edits)

    def readable(self, context: int = 2) -> str:
        """For a terminal: lines with - and +, or words as [-old-] and {+new+}.

        >>> print(diff("a cat\\nsat", "a dog\\nsat", "words").readable())
        a [-cat-]{+dog+}
        sat
        """
        if self.kind == "lines":
            return "\n".join(self._lines(context))
        text = "".join(
            edit.new
            if edit.equal
            else (f"[-{edit.old}-]" if edit.old else "") + (f"{{+{edit.new}+}}" if edit.new else "")
            for edit in self.edits
        )
        lines = text.split("\n")
        touched = [i for i, line in enumerate(lines) if re.search(r"\[-|-\]|\{\+|\+\}", line)]
        near = {j for i in touched for j in range(i - context, i + context + 1)}
        kept = [i for i in range(len(lines)) if i in near]
        shown: list[str] = []
        for before, i in zip([-1, *kept], kept, strict=False):
            if i > before + 1:
                shown.append("…")
            shown.append(lines[i])
        return "\n".join(shown)

    def __str__(self) -> str:
        return self.readable()

    def _lines(self, context: int) -> list[str]:
        shown: list[str] = []
        last = len(self.edits) - 1
        for i, edit in enumerate(self.edits):
            if not edit.equal:
                shown += [f"- {line}" for line in edit.old.splitlines()]
                shown += [f"+ {line}" for line in edit.new.splitlines()]
                continue
            lines = edit.new.splitlines()
            head = lines[:context] if i else []
            tail = lines[len(head) :][-context:] if i != last and context else []
            cut = len(lines) > len(head) + len(tail)
            shown += [f"  {line}" for line in head]
            shown += ["…"] if cut else []
            shown += [f"  {line}" for line in tail]
        return shown


def diff(old: str, new: str, kind: str = "auto") -> "Diff | JsonDiff":
    """Compare two texts by "lines", "words" or "json"; "auto" takes JSON when both are.

    >>> print(diff("one\\ntwo\\nthree", "one\\n2\\nthree", "lines").readable())
      one
    - two
    + 2
      three
    >>> print(diff('{"a": 1, "b": [1, 2]}', '{"a": 2, "b": [1, 2]}').readable())
    $.a: 1 → 2
    """
    if kind in {"auto", "json"}:
        pair = _both_json(old, new)
        if pair is not None:
            return JsonDiff(tuple(_json_edits(*pair)))
        if kind == "json":
            raise InputError("these are not two JSON texts: compare them by lines or words")
        kind = "words"
    if kind == "words":
        old_parts, new_parts = _words(old), _words(new)
        if len(old_parts) + len(new_parts) <= MOST_TOKENS:
            return Diff("words", _joined(old_parts, new_parts))
        kind = "lines"
    if kind != "lines":
        raise InputError(f"kind: {kind!r} is none of auto, lines, words, json")
    return Diff("lines", _joined(old.splitlines(keepends=True), new.splitlines(keepends=True)))


LONGEST_EXCERPT = 2000
"""Characters of added lines, and of removed ones, that a message shows."""


def changed_lines(old: str, new: str) -> tuple[str, str]:
    """The lines that came, and those that went.

    >>> changed_lines("a\\nb", "b\\nc")
    ('c', 'a')
    """
    before, now = old.split("\n"), new.split("\n")
    gone, come = gone_and_come(before, now)
    return _in_order(come, now), _in_order(gone, before)


def _in_order(some: Counter[str], lines: list[str]) -> str:
    """Each of some lines where it first stands."""
    if len(some) > 1:
        return "\n".join(dict.fromkeys(line for line in lines if line and line in some))
    return "".join(some)


def excerpt(old: str, new: str) -> Excerpt:
    """The beginning of what came and went."""
    added, removed = changed_lines(old, new)
    cut = max(len(added), len(removed)) > LONGEST_EXCERPT
    return Excerpt(added[:LONGEST_EXCERPT], removed[:LONGEST_EXCERPT], cut)


_WORDS = re.compile(r"\s+|[€$£¥]?\d+(?:[.,:]\d+)*(?!\w)|\w+|[^\w\s]")


def _words(text: str) -> list[str]:
    """Words and whole numbers: a price or a time of day is one.

    >>> _words("now €1,249.90, at 12:03")
    ['now', ' ', '€1,249.90', ',', ' ', 'at', ' ', '12:03']
    """
    return _WORDS.findall(text)


def _joined(old: list[str], new: list[str]) -> tuple[Edit, ...]:
    return tuple(
        Edit(equal, "".join(old[a:b]), "".join(new[c:d])) for equal, a, b, c, d in edits(old, new)
    )


# -- sequences ------------------------------------------------------------------------------------


def edits(old: Sequence[str], new: Sequence[str]) -> list[tuple[bool, int, int, int, int]]:
    """Stretches (equal, old start, old end, new start, new end) that cover both sequences.

    >>> edits("a b c".split(), "a x c".split())
    [(True, 0, 1, 0, 1), (False, 1, 2, 1, 2), (True, 2, 3, 2, 3)]
    """
    pairs: list[tuple[int, int, int]] = []  # old place, new place, length of what is equal
    waiting = [(0, len(old), 0, len(new), 0)]
    while waiting:
        a, b, c, d, depth = waiting.pop()
        start = a
        while a < b and c < d and old[a] == new[c]:
            a, c = a + 1, c + 1
        if a > start:
            pairs.append((start, c - (a - start), a - start))
        end = b
        while a < b and c < d and old[b - 1] == new[d - 1]:
            b, d = b - 1, d - 1
        if end > b:
            pairs.append((b, d, end - b))
        if a == b or c == d:
            continue
        if (b - a) * (d - c) <= CLOSELY:
            pairs.extend((a + i, c + j, n) for i, j, n in _closely(old[a:b], new[c:d]))
        elif depth < 12:
            anchors = _anchors(old, new, a, b, c, d)
            for i, j in anchors:
                pairs.append((i, j, 1))
            corners = [(a - 1, c - 1), *anchors, (b, d)]
            if anchors:
                waiting.extend(
                    (i + 1, k, j + 1, m, depth + 1)
                    for (i, j), (k, m) in itertools.pairwise(corners)
                    if i + 1 < k and j + 1 < m
                )
    return _covering(sorted(pairs), len(old), len(new))


def _anchors(
    old: Sequence[str], new: Sequence[str], a: int, b: int, c: int, d: int
) -> list[tuple[int, int]]:
    """Elements that occur once on each side, in the longest order common to both."""
    in_old, in_new = Counter(old[a:b]), Counter(new[c:d])
    place = {new[j]: j for j in range(c, d) if in_new[new[j]] == 1}
    common = [(i, place[old[i]]) for i in range(a, b) if in_old[old[i]] == 1 and old[i] in place]
    tails: list[int] = []
    tops: list[int] = []
    before: list[int] = []
    for k, (_, j) in enumerate(common):
        spot = bisect.bisect_left(tails, j)
        before.append(tops[spot - 1] if spot else -1)
        if spot == len(tails):
            tails.append(j)
            tops.append(k)
        else:
            tails[spot], tops[spot] = j, k
    chain: list[tuple[int, int]] = []
    k = tops[-1] if tops else -1
    while k >= 0:
        chain.append(common[k])
        k = before[k]
    return chain[::-1]


def _closely(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int]]:
    """The longest common subsequence by dynamic programming."""
    n, m = len(old), len(new)
    best = [[0] * (m + 1) for _ in range(n + 1)]
    for i in range(n - 1, -1, -1):
        row, below, element = best[i], best[i + 1], old[i]
        for j in range(m - 1, -1, -1):
            if element == new[j]:
                row[j] = below[j + 1] + 1
            else:
                row[j] = max(below[j], row[j + 1])
    found: list[tuple[int, int, int]] = []
    i = j = 0
    while i < n and j < m:
        if old[i] == new[j]:
            found.append((i, j, 1))
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return found


def _covering(
    pairs: list[tuple[int, int, int]], old_end: int, new_end: int
) -> list[tuple[bool, int, int, int, int]]:
    """Join neighbouring equal stretches and name what lies between."""
    result: list[tuple[bool, int, int, int, int]] = []
    i = j = 0
    for a, c, n in [*pairs, (old_end, new_end, 0)]:
        if a > i or c > j:
            result.append((False, i, a, j, c))
        if n:
            if result and result[-1][0]:
                _, start, _, other, _ = result.pop()
                result.append((True, start, a + n, other, c + n))
            else:
                result.append((True, a, a + n, c, c + n))
        i, j = a + n, c + n
    return result


# -- JSON -----------------------------------------------------------------------------------------


class JsonEdit(msgspec.Struct, frozen=True):
    """One value that was added, removed or changed, and the way to it."""

    what: Literal["added", "removed", "changed"]
    path: tuple[str | int, ...]
    old: Any = None
    new: Any = None

    @property
    def address(self) -> str:
        return "$" + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in self.path)


class JsonDiff(msgspec.Struct, frozen=True):
    """Edits to make one after the other."""

    edits: tuple[JsonEdit, ...]
    kind: Literal["json"] = "json"

    @property
    def empty(self) -> bool:
        return not self.edits

    def apply(self, old: str) -> str:
        """The new value as JSON text, keys in order, given the old text."""
        root = {"": json.loads(old)}
        for edit in self.edits:
            holder: Any = root
            way: tuple[str | int, ...] = ("", *edit.path)
            for step in way[:-1]:
                holder = holder[step]
            last: Any = way[-1]
            if edit.what == "removed":
                del holder[last]
            elif edit.what == "added" and isinstance(holder, list):
                holder.insert(last, edit.new)
            else:
                holder[last] = edit.new
        return canonical(root[""])

    def readable(self, longest: int = 200) -> str:
        """One line for every value."""
        lines = []
        for edit in self.edits:
            old, new = (canonical(value) for value in (edit.old, edit.new))
            old, new = (text[:longest] + "…" * (len(text) > longest) for text in (old, new))
            lines.append(
                {
                    "added": f"+ {edit.address}: {new}",
                    "removed": f"- {edit.address}: {old}",
                    "changed": f"{edit.address}: {old} → {new}",
                }[edit.what]
            )
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.readable()


def canonical(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _both_json(old: str, new: str) -> tuple[Any, Any] | None:
    if not (old.lstrip()[:1] in {"{", "["} and new.lstrip()[:1] in {"{", "["}):
        return None
    try:
        pair = json.loads(old), json.loads(new)
    except (ValueError, RecursionError):
        return None
    return None if _nested_deeply(pair) else pair


def _nested_deeply(value: Any) -> bool:
    """Whether writing it as JSON could overrun the stack."""
    level = [value]
    for _ in range(2 * DEEPEST):
        level = [
            member
            for holder in level
            if isinstance(holder, list | tuple | dict)
            for member in (holder.values() if isinstance(holder, dict) else holder)
        ]
        if not level:
            return False
    return True


def _json_edits(old: Any, new: Any) -> list[JsonEdit]:
    found: list[JsonEdit] = []
    _compare_json((), old, new, found)
    return found


def _compare_json(path: tuple[str | int, ...], old: Any, new: Any, found: list[JsonEdit]) -> None:
    if len(path) < DEEPEST and isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            if key not in new:
                found.append(JsonEdit("removed", (*path, key), old=old[key]))
            elif key not in old:
                found.append(JsonEdit("added", (*path, key), new=new[key]))
            else:
                _compare_json((*path, key), old[key], new[key], found)
    elif len(path) < DEEPEST and isinstance(old, list) and isinstance(new, list):
        _compare_lists(path, old, new, found)
    elif canonical(old) != canonical(new):
        found.append(JsonEdit("changed", path, old, new))


def _compare_lists(
    path: tuple[str | int, ...], old: list[Any], new: list[Any], found: list[JsonEdit]
) -> None:
    """Align by what the members are called.

    From the end to the start, so that the places named are right while the edits are applied one
    after the other.
    """
    stretches = edits([_name(member) for member in old], [_name(member) for member in new])
    for _, a, b, c, d in reversed(stretches):
        both = min(b - a, d - c)
        found.extend(
            JsonEdit("removed", (*path, k), old=old[k]) for k in range(b - 1, a + both - 1, -1)
        )
        found.extend(
            JsonEdit("added", (*path, a + both), new=new[k]) for k in range(d - 1, c + both - 1, -1)
        )
        for k in range(both - 1, -1, -1):
            _compare_json((*path, a + k), old[a + k], new[c + k], found)


def _name(value: Any) -> str:
    if isinstance(value, dict):
        for key in ("id", "guid", "key", "name", "url"):
            if isinstance(value.get(key), str | int):
                return f"{key}={value[key]}"
    return canonical(value)
