"""Comparing a visit with the last good version: outcomes, definitions, confirmation, validators."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from observant.errors import InputError
from observant.observer.content import Comparer, Rules, compare
from observant.observer.content.record import compare_terms, term_vector
from observant.observer.fetched import Fetched, visit_of
from observant.store.visit import OUTCOMES, Comparison, Previous, Validators

STORY = "<p>" + "</p><p>".join(f"paragraph {w} of a long story" for w in "abcdefghij") + "</p>"


def page(body, **more):
    body = body if isinstance(body, bytes) else body.encode()
    given = {"url": "https://example.org/", "status": 200, "content_type": "text/html", **more}
    return Fetched(body=body, **given)


def visits(rules, *bodies):
    """Visit one version after the other; the comparisons and what is known in the end."""
    comparer, previous, found = Comparer(rules), None, []
    for i, body in enumerate(bodies):
        fetched = body if isinstance(body, Fetched) else page(body, started_at=float(i))
        found.append(comparer.compare(previous, fetched))
        previous = comparer.after(previous, fetched, found[-1])
    return found, previous


def outcomes(rules, *bodies):
    return [c.outcome for c in visits(rules, *bodies)[0]]


def row(**columns):
    return Fetched(
        url="https://example.org/row",
        status=200,
        content_type="application/json",
        body=json.dumps(columns).encode(),
    )


def test_a_record_changes_when_more_than_so_many_columns_do():
    """Cho, section 2: updates to more than 3 columns of the row."""
    base = dict.fromkeys("abcdef", 0)
    few = {**base, "a": 1, "b": 1, "c": {"deep": [1, 2]}}
    many = {**few, "d": 1, "e": 1, "f": 1, "g": "new"}
    found, _ = visits(Rules(change="columns", columns=3), row(**base), row(**few), row(**many))
    assert [c.outcome for c in found] == ["first", "same", "changed"]
    assert "7 columns changed (a, b, c, d, e, …), more than 3 count" in found[2].reason
    # Three columns did not count, so they are still part of what changed in the end.
    assert outcomes(Rules(change="columns"), row(**base), row(**few)) == ["first", "changed"]
    lines = [page(text, content_type="text/plain") for text in ("a\nb\nc", "a\nx\nc", "a\nx\ny")]
    assert outcomes(Rules(change="columns", columns=1), *lines) == ["first", "same", "changed"]
    with pytest.raises(InputError, match="columns: -1 is below 0"):
        Rules(change="columns", columns=-1)


GONE = Fetched(url="https://example.org/", status=404, error="http")
DOWN = Fetched(url="https://example.org/", error="dns", message="no such host")


# -- outcomes -------------------------------------------------------------------------------------


def test_first_same_changed():
    found, after = visits(Rules(), STORY, STORY, STORY + "<p>more")
    assert [c.outcome for c in found] == ["first", "same", "changed"]
    assert [c.changed for c in found] == [None, False, True]
    assert found[1].magnitude == 0
    assert 0 < found[2].magnitude < 0.3
    assert after.text.endswith("\nmore")
    assert all(c.complete for c in found)


def test_markup_and_white_space_are_not_text():
    assert outcomes(Rules(), "<p>one two</p>", "<div><p>one\n  <b>two</b></p></div>") == [
        "first",
        "same",
    ]


def test_a_source_disappears_and_comes_back():
    assert outcomes(Rules(), STORY, GONE, GONE, DOWN, STORY, STORY) == [
        "first",
        "gone",
        "same",
        "failed",
        "back",
        "same",
    ]
    found, _ = visits(Rules(), STORY, GONE, STORY + "<p>and more")
    assert found[2].outcome == "back"
    assert found[2].magnitude == found[1].magnitude == 1


def test_a_source_that_was_never_there_fails():
    assert outcomes(Rules(), GONE, STORY) == ["failed", "first"]


@pytest.mark.parametrize(
    "trouble",
    [
        DOWN,
        Fetched(url="x:", status=500, error="http"),
        Fetched(url="x:", status=403),
        Fetched(url="x:", status=200, error="too-large", body=b"<p>half"),
        page(b""),
    ],
)
def test_a_failure_observes_nothing_and_loses_nothing(trouble):
    found, after = visits(Rules(), STORY, trouble, STORY)
    assert [c.outcome for c in found] == ["first", "failed", "same"]
    assert found[1].error
    assert not found[1].complete
    assert found[1].changed is None
    assert after.text


def test_a_not_found_page_with_a_good_status_is_a_disappearance():
    soft = "<title>Page not found</title><h1>Sorry</h1>"
    assert outcomes(Rules(), STORY, soft, STORY) == ["first", "gone", "back"]
    trouble = "<title>503 Service Unavailable</title><p>later"
    assert outcomes(Rules(), STORY, trouble, STORY) == ["first", "failed", "same"]


def test_a_page_about_errors_is_a_page():
    about = "<title>What 404 not found means</title>" + STORY
    assert outcomes(Rules(), about, about + "<p>new") == ["first", "changed"]
    # Much of the story stays, or the text grows: not an error page, whatever its title says.
    retitled = "<title>Not found: our lost pets</title>" + STORY
    assert outcomes(Rules(), STORY, retitled) == ["first", "changed"]


def test_an_earlier_version_is_recognised():
    found, _ = visits(Rules(), "<p>one a", "<p>two b", "<p>one a", "<p>two b", "<p>three c")
    assert [c.outcome for c in found] == ["first", *["changed"] * 4]
    assert [c.back_to for c in found] == [
        None,
        None,
        found[0].digest_text,
        found[1].digest_text,
        None,
    ]


def test_not_modified_is_the_same():
    told = Fetched(url="https://example.org/", status=304, not_modified=True, started_at=9.0)
    found, after = visits(Rules(), STORY, told)
    assert found[1].outcome == "same"
    assert found[1].complete
    assert after.record["last_observed"] == 9
    assert compare(None, told).outcome == "failed"


def test_the_visit_keeps_what_the_log_needs():
    found = Comparison(outcome="changed", digest_text=b"x", magnitude=0.5)
    visit = visit_of("a", page(STORY, wire_bytes=77, last_modified=3.0), found)
    assert (visit.changed, visit.digest, visit.magnitude, visit.bytes) == (True, b"x", 0.5, 77)
    for outcome in OUTCOMES:
        assert Comparison(outcome=outcome).changed in {None, True, False}


@given(st.binary(max_size=300), st.sampled_from(["text/html", "application/json", "text/xml", ""]))
def test_anything_compared_with_itself_is_the_same(body, kind):
    fetched = page(body, content_type=kind)
    first = compare(None, fetched)
    assert first.outcome in {"first", "failed"}
    if first.outcome == "first":
        comparer = Comparer()
        after = comparer.after(None, fetched, first)
        assert comparer.compare(after, fetched).outcome == "same"
        # Also when the bytes differ in what is no text at all, and everything is read again.
        again = comparer.compare(msgspec.structs.replace(after, digest_raw=b"other"), fetched)
        assert again.outcome == "same"
        assert again.magnitude == 0


@pytest.mark.slow
@given(st.text(max_size=200), st.text(max_size=200))
def test_a_change_is_never_empty(old, new):
    found, after = visits(
        Rules(), page(old, content_type="text/plain"), page(new, content_type="text/plain")
    )
    first = found[0].text
    assert (found[1].outcome == "changed") == (after.text != first)


# -- definitions of change ------------------------------------------------------------------------


def test_any_byte():
    rules = Rules(change="bytes")
    found, after = visits(rules, "<p>one</p>", "<p>one </p>")
    assert found[1].outcome == "changed"
    assert found[0].text != found[1].text == after.text  # there is something to show


def test_structure_only():
    rules = Rules(change="structure")
    assert outcomes(rules, "<p>one", "<p>two", "<p>two<a href=x>two</a>") == [
        "first",
        "same",
        "changed",
    ]
    links = Rules(change="structure", attributes=("num_links", "link_hash"))
    found, _ = visits(links, "<p>one", "<p>one<img src=x>", "<p>one<a href=y></a>")
    assert [c.outcome for c in found] == ["first", "same", "changed"]
    assert "num_links 0 → 1" in found[2].reason


def test_small_changes_add_up_against_the_last_version_that_counted():
    words = [f"word{i}" for i in range(100)]
    rules = Rules(change="magnitude", threshold=0.3)
    versions = ["<p>" + " ".join(words)]
    for i in range(8):
        words[i] = f"other{i}"
        versions.append("<p>" + " ".join(words))
    found, _ = visits(rules, *versions)
    # √(2k/100) reaches 0.3 at k = 5, counted from the version last kept; then it starts again.
    expected = ["first", "same", "same", "same", "same", "changed", "same", "same", "same"]
    assert [c.outcome for c in found] == expected
    assert found[4].magnitude == pytest.approx((8 / 100) ** 0.5)
    assert found[4].text is None


def test_only_the_terms_of_the_query_count():
    rules = Rules(change="query", query={"bayesian network": 1.0}, threshold=0.2)
    assert outcomes(
        rules,
        "<p>a bayesian network and other things",
        "<p>a bayesian network and quite different matters",
        "<p>a bayesian tree and quite different matters",
    ) == ["first", "same", "changed"]


def test_attributes_are_named():
    found, _ = visits(
        Rules(), "<title>a</title><p>one", "<title>b</title><p>one<a href=x></a><table></table>"
    )
    assert set(found[1].attributes) == {
        "title",
        "content_length",
        "num_tokens",
        "num_links",
        "num_tables",
        "text_hash",
        "link_hash",
        "structure_hash",
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"css": "p["},
        {"css": "p::before"},
        {"css": "p:hover"},
        {"xpath": "//p["},
        {"xpath": "document('file:///etc/passwd')"},
        {"xpath": "unparsed-text('/etc/passwd')"},
        {"xpath": "re:match(., 'a')"},
        {"jsonpath": "items"},
        {"jsonpath": "$.a["},
        {"jmespath": "a["},
        {"regex": "("},
        {"drop": ("p[",)},
        {"ignore": ("*",)},
        {"css": "p", "xpath": "//p"},
        {"change": "never"},
        {"change": "query"},
        {"threshold": 2.0},
        {"confirm": -1},
        {"attributes": ("colour",)},
        {"css": " "},
        {"regex": "a" * 3000},
    ],
)
def test_bad_rules_are_refused_at_the_door(wrong):
    with pytest.raises(InputError):
        Rules(**wrong)
    with pytest.raises((InputError, msgspec.ValidationError)):
        msgspec.convert(wrong, Rules)


def test_unknown_rules_are_refused():
    with pytest.raises(msgspec.ValidationError, match="colour"):
        msgspec.convert({"colour": 1}, Rules)


# -- a second look --------------------------------------------------------------------------------

OTHER = STORY + "<p>other"


def test_a_change_that_stays_is_reported_once():
    rules = Rules(confirm=1)
    assert outcomes(rules, STORY, OTHER, OTHER, OTHER) == [
        "first",
        "unconfirmed",
        "changed",
        "same",
    ]


def test_a_change_that_does_not_stay_is_not_reported():
    assert outcomes(Rules(confirm=1), STORY, OTHER, STORY, STORY) == [
        "first",
        "unconfirmed",
        "same",
        "same",
    ]
    assert outcomes(Rules(confirm=2), STORY, OTHER, OTHER, STORY, OTHER) == [
        "first",
        "unconfirmed",
        "unconfirmed",
        "same",
        "unconfirmed",
    ]


def test_a_source_that_differs_every_time_has_changed_all_the_same():
    bodies = [STORY + f"<p>version {word}" for word in "klmnopq"]
    found = outcomes(Rules(confirm=1, learn_noise=False), STORY, *bodies)
    assert found[:6] == ["first", *["unconfirmed"] * 4, "changed"]


def test_a_disappearance_is_confirmed_too():
    assert outcomes(Rules(confirm=1), STORY, GONE, STORY, GONE, GONE) == [
        "first",
        "unconfirmed",
        "same",
        "unconfirmed",
        "gone",
    ]


def test_an_unconfirmed_visit_keeps_nothing_but_memory():
    found, after = visits(Rules(confirm=1), STORY, OTHER)
    assert found[1].text is found[1].digest_raw is found[1].digest_text is None
    assert not found[1].complete
    assert after.text == found[0].text


# -- the trap of conditional requests -------------------------------------------------------------


class Server:
    """Answers conditional requests, as the transport would report them."""

    def __init__(self):
        self.body, self.etag = "", ""

    def visit(self, comparer, previous):
        usable = comparer.usable_validators(previous)
        if usable and previous.validators.etag == self.etag:
            fetched = Fetched(url="x:", status=304, not_modified=True)
        else:
            fetched = page(self.body, url="x:", etag=self.etag)
        found = comparer.compare(previous, fetched)
        fresh = Validators(url="x:", etag=self.etag)
        return found, comparer.after(previous, fetched, found, fresh)


def test_a_broken_selection_does_not_hide_a_change():
    server, good, broken = Server(), Comparer(Rules(css="#x")), Comparer(Rules(css="#nothing"))
    server.body, server.etag = "<p id=x>version one</p>", "1"
    _, known = server.visit(good, None)
    server.body, server.etag = "<p id=x>version two</p>", "2"
    failed, known = server.visit(broken, known)
    assert failed.outcome == "failed"
    assert failed.error == "content"
    assert known.validators.etag == "1"  # ETag 2 was not stored
    found, known = server.visit(good, known)
    assert found.outcome == "changed"
    assert known.text == "version two"


def test_a_page_that_breaks_the_selection_does_not_hide_a_change():
    server, comparer = Server(), Comparer(Rules(css="#x"))
    server.body, server.etag = "<p id=x>version one</p>", "1"
    _, known = server.visit(comparer, None)
    server.body, server.etag = "<p id=redesigned>version two</p>", "2"
    found, known = server.visit(comparer, known)
    assert found.outcome == "failed"
    fixed = Comparer(Rules(css="#redesigned"))
    found, known = server.visit(fixed, known)
    assert found.outcome == "changed"
    assert known.text == "version two"
    assert server.visit(fixed, known)[0].outcome == "same"


def test_a_new_selection_of_an_unchanged_page_is_no_change_and_is_read():
    server = Server()
    server.body, server.etag = "<p id=x>one</p><p id=y>two</p>", "1"
    _, known = server.visit(Comparer(Rules(css="#x")), None)
    found, known = server.visit(Comparer(Rules(css="#y")), known)
    assert found.outcome == "same"  # and not a 304: the validators were void
    assert known.text == "two"


def test_a_304_for_another_selection_is_not_believed():
    told = Fetched(url="x:", status=304, not_modified=True)
    known = Previous(digest_text=b"x", text="one", selection_version="of another time")
    assert Comparer().compare(known, told).outcome == "failed"
    assert not Comparer().usable_validators(
        msgspec.structs.replace(known, validators=Validators(url="x:", etag="1"))
    )


def test_the_version_follows_the_selection_and_nothing_else():
    assert Rules(css="p").version == Rules(css="p", threshold=0.5, confirm=2).version
    shapes = [
        Rules(),
        Rules(css="p"),
        Rules(xpath="p"),
        Rules(regex="p"),
        Rules(drop=("p",)),
        Rules(ignore=("p",)),
        Rules(whitespace=True),
        Rules(sort_lines=True),
        Rules(unique_lines=True),
        Rules(change="bytes"),
    ]
    assert len({rules.version for rules in shapes}) == len(shapes)


def test_a_lost_snapshot_is_not_a_change():
    _, after = visits(Rules(), STORY)
    bare = msgspec.structs.replace(after, text=None, digest_raw=None)
    assert compare(bare, page(STORY)).outcome == "same"
    assert compare(bare, page(OTHER)).outcome == "changed"
    gone = msgspec.structs.replace(bare, memory={"gone": True})
    assert compare(gone, page(OTHER)).outcome == "back"


def test_what_is_known_survives_json():
    _, after = visits(Rules(), STORY, OTHER, STORY)
    again = msgspec.json.decode(msgspec.json.encode(after), type=Previous)
    assert again == after


# -- term vectors ---------------------------------------------------------------------------------

words = st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f"]), max_size=30)


@given(st.lists(words, max_size=5), st.lists(words, max_size=5))
def test_term_vectors_against_their_definition(old, new):
    old, new = [[" ".join(line) for line in text] for text in (old, new)]
    found = compare_terms(old, new)
    v1, v2 = term_vector("\n".join(old)), term_vector("\n".join(new))
    terms = set(v1) | set(v2)
    n1, n2 = (sum(n * n for n in v.values()) ** 0.5 for v in (v1, v2))
    distance = sum((v2[t] - v1[t]) ** 2 for t in terms) ** 0.5
    assert found.distance == pytest.approx(distance, abs=1e-9)
    if not terms or not distance:
        assert found.magnitude == 0
        return
    assert found.magnitude == pytest.approx(min(distance / max(n1, n2), 1))
    assert 0 <= found.magnitude <= 1
    cosine = sum(v1[t] * v2[t] for t in terms) / (n1 * n2) if n1 * n2 else 0
    assert found.angle == pytest.approx(1 - cosine, abs=1e-9)


def test_an_appearance_has_magnitude_one():
    assert compare_terms([], ["all new words"])[:3] == (1.0, 3**0.5, 1.0)


@given(st.text())
def test_fast_words_are_the_same_words(text):
    import re
    from collections import Counter

    assert term_vector(text) == Counter(re.findall(r"[^\W_]+", text.lower()))


def test_an_edit_of_the_selection_is_no_change_though_the_page_has_changed_too():
    server = Server()
    server.body, server.etag = "<p id=x>one</p><p id=y>two</p>", "1"
    _, known = server.visit(Comparer(Rules(css="#x")), None)
    server.body, server.etag = "<p id=x>one</p><p id=y>three</p>", "2"
    found, known = server.visit(Comparer(Rules(css="#y")), known)
    assert (found.outcome, known.text) == ("same", "three")
    assert found.reason == "the first visit under a new selection"
    bare = msgspec.structs.replace(known, text=None, selection_version="of another time")
    assert server.visit(Comparer(Rules(css="#y")), bare)[0].outcome == "same"
    server.body, server.etag = "<p id=x>one</p><p id=y>four</p>", "3"
    assert server.visit(Comparer(Rules(css="#y")), known)[0].outcome == "changed"
