"""Differences can be applied, read, and never take long."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observant.errors import InputError
from observant.observer.content.diffs import Diff, JsonDiff, canonical, diff, edits

from .patience import cpu_within

texts = st.text(alphabet="ab \n.é", max_size=120)
values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-3, 3), st.floats(-2, 2), st.text("ab", max_size=3)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(st.sampled_from(["a", "b", "id", "c d"]), inner, max_size=4),
    ),
    max_leaves=20,
)
documents = st.one_of(
    st.lists(values, max_size=6), st.dictionaries(st.text("ab", max_size=2), values)
)


@given(texts, texts, st.sampled_from(["lines", "words"]))
def test_a_difference_applied_gives_the_new_text(old, new, kind):
    found = diff(old, new, kind)
    assert found.apply(old) == new
    assert found.empty == (old == new)
    assert all(a.equal != b.equal for a, b in zip(found.edits, found.edits[1:], strict=False))
    found.readable()


@pytest.mark.slow
@given(documents, documents)
def test_a_json_difference_applied_gives_the_new_value(old, new):
    found = diff(json.dumps(old), json.dumps(new), "json")
    assert isinstance(found, JsonDiff)
    assert found.apply(json.dumps(old)) == canonical(new)
    assert found.empty == (canonical(old) == canonical(new))
    found.readable()


@given(
    st.lists(st.sampled_from("abcdefg"), max_size=40),
    st.lists(st.sampled_from("abcdefg"), max_size=40),
)
def test_what_is_called_equal_is_equal_and_as_long_as_possible(old, new):
    import difflib

    stretches = edits(old, new)
    assert all(old[a:b] == new[c:d] for equal, a, b, c, d in stretches if equal)
    assert all(b > a or d > c for _, a, b, c, d in stretches)
    ours = sum(b - a for equal, a, b, _, _ in stretches if equal)
    theirs = sum(
        m.size for m in difflib.SequenceMatcher(None, old, new, False).get_matching_blocks()
    )
    assert ours >= theirs  # a longest common subsequence, which difflib does not promise


def test_long_texts_keep_their_anchors():
    r = random.Random(1)  # noqa: S311 (no secret)
    old = [f"line {r.randrange(10**9)}" for _ in range(5000)]
    new = [line for line in old if r.random() > 0.05]
    for place in range(0, len(new), 100):
        new.insert(place, f"new line {place}")
    found = diff("\n".join(old), "\n".join(new), "lines")
    assert found.apply("\n".join(old)) == "\n".join(new)
    kept = sum(e.new.count("\n") for e in found.edits if e.equal)
    assert kept > 0.99 * sum(1 for line in new if not line.startswith("new"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lines", "words", "auto"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a b " * 100_000, "b a " * 100_000),
        ("a\n" * 100_000, "b\na\n" * 50_000),
        ("x " * 200_000, "y " * 200_000),
        ("a" * 1_000_000, "a" * 1_000_001),
        ("\n".join(map(str, range(100_000))), "\n".join(map(str, reversed(range(100_000))))),
        ("[" * 100_000, "[" * 99_999),
    ],
)
def test_hostile_texts_take_little_time(old, new, kind):
    with cpu_within(5):
        found = diff(old, new, kind)
    assert found.apply(old) == new


def test_readable_lines_and_words():
    old, new = "\n".join("abcdefghij"), "\n".join("abcdXfghij")
    assert diff(old, new, "lines").readable(1) == "…\n  d\n- e\n+ X\n  f\n…"
    words = diff(old, new, "words")
    assert words.readable(1) == "…\nd\n[-e-]{+X+}\nf"
    assert str(words) == words.readable()


def test_a_list_is_aligned_by_its_names():
    old = [{"id": i, "price": i} for i in range(5)]
    new = [{"id": 9, "price": 0}, *old[:2], {"id": 2, "price": 7}, *old[3:]]
    found = diff(json.dumps(old), json.dumps(new))
    assert found.readable().splitlines() == ["$[2].price: 2 → 7", '+ $[0]: {"id": 9, "price": 0}']


def test_what_cannot_be_done_is_refused():
    with pytest.raises(InputError, match="lines"):
        diff("a", "b", "json")
    with pytest.raises(InputError, match="kind"):
        diff("a", "b", "letters")
    with pytest.raises(InputError, match="another"):
        diff("a", "b").apply("c")
    assert isinstance(diff("[1", "[2"), Diff)
