"""Reading and selecting: what is found, and that nothing a stranger sends hangs or breaks us."""

import json
import random
import threading

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import etree

from observant.errors import InputError, UnreadableError
from observant.observer.content import Comparer, Rules, compare, selection
from observant.observer.content.css import compile_css
from observant.observer.content.document import decoded
from observant.observer.content.jsonpath import compile_jsonpath
from observant.observer.content.normalisation import html_tree, kind_of, read, xml_tree
from observant.observer.content.record import ATTRIBUTES, compare_terms, query_weights, record_of
from observant.observer.content.selection import select
from observant.observer.fetched import Fetched
from observant.store.visit import Previous

from .patience import cpu_within

PAGE = b"""<html><head><title> The  Title </title><style>p {}</style></head><body>
<div id=price class="big box">12 EUR <s>15 EUR</s></div>
<ul><li>one<li>two <a href="/2">link</a><li>three</ul>
<table><tr><td>a</td><td>b</td></tr></table><form><input></form>
<img src="/ad.gif" width=468 height=60><img src="/b.png">
<script>document.write("not text")</script><noscript>nor this</noscript>
<p>Seen at 12:07:33</p></body></html>"""


def chosen(body=PAGE, kind="html", **rules):
    return select(body, kind, None, Rules(**rules)).lines


# -- reading --------------------------------------------------------------------------------------


def test_the_text_of_a_page_and_its_addresses():
    page = read(PAGE, "html")
    assert page.lines == [
        "The Title",
        "12 EUR 15 EUR",
        "one",
        "two link",
        "three",
        "a",
        "b",
        "Seen at 12:07:33",
    ]
    assert page.addresses[1] == "html/body/div#price"
    assert page.addresses[3] == "html/body/ul/li[2]"
    assert page.title == "The Title"


def test_made_up_names_do_not_shape_addresses():
    for made_up in ("css-1x8fj3k", "react-root-93842", "a1b2c3d4"):
        assert read(f"<p id='{made_up}'>x".encode(), "html").addresses == ["html/body/p"]


def test_the_record_is_table_3_1():
    fetched = Fetched(url="x:", body=PAGE, started_at=5.0, last_modified=3.0)
    record = record_of(read(PAGE, "html"), fetched, "0123")
    wanted = {
        "url": "x:",
        "title": "The Title",
        "last_modified": 3.0,
        "last_observed": 5.0,
        "content_length": len(PAGE),
        "num_images": 2,
        "num_links": 1,
        "num_tables": 1,
        "num_forms": 1,
        "num_ads": 1,
        "num_lists": 1,
        "text_hash": "0123",
    }
    assert {name: record[name] for name in wanted} == wanted
    assert set(record) == {"url", "last_observed", *ATTRIBUTES}
    assert record["num_tokens"] == len(read(PAGE, "html").tags) == 23


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        ("café".encode(), None, "café"),
        ("café".encode("latin-1"), None, "café"),
        ("café €".encode("cp1252"), "iso-8859-1", "café €"),
        ("Привет".encode("koi8-r"), "koi8-r", "Привет"),
        (b'<meta charset="koi8-r">' + "Привет".encode("koi8-r"), None, None),
        ("café".encode("utf-16"), None, "café"),
        (b"\xef\xbb\xbfcaf\xc3\xa9", "latin-1", "café"),
        (b"caf\xe9", "no such charset", "café"),
        (b"caf\xe9", "punycode", "café"),
        (b"caf\xe9", "zip", "café"),
        (b"\xff\xfe\xfd", "utf-8", None),
    ],
)
def test_characters(body, charset, text):
    found = decoded(body, charset)
    assert found == text if text else True
    if b"koi8-r" in body:
        assert found.endswith("Привет")


@pytest.mark.parametrize(
    ("content_type", "body", "kind"),
    [
        ("text/html", b"", "html"),
        ("application/xhtml+xml", b"", "html"),
        ("application/ld+json", b"", "json"),
        ("application/rss+xml", b"", "xml"),
        ("text/plain", b"hello", "text"),
        ("text/plain", b'{"a": 1}', "json"),
        ("text/plain", b"{ not json", "text"),
        ("", b"<!DOCTYPE html><p>", "html"),
        ("", b"<?xml version='1.0'?><a/>", "xml"),
        ("application/octet-stream", b"\x00\x01\x02", "bytes"),
        ("image/png", b"\x89PNG", "bytes"),
        ("application/javascript", b"var x", "text"),
    ],
)
def test_how_a_body_is_read(content_type, body, kind):
    assert kind_of(Fetched(url="x:", body=body, content_type=content_type)) == kind


def test_equal_json_is_equal_text():
    assert read(b'{"b":1,"a":[]}', "json").text == read(b'{ "a": [ ], "b": 1 }', "json").text
    assert json.loads(read(b'{"b":[1,{"c":"\\u00e9"}],"a":null}', "json").text) == {
        "b": [1, {"c": "é"}],
        "a": None,
    }


def test_xml_has_lines_for_elements_and_attributes():
    feed = b"<feed xmlns='http://www.w3.org/2005/Atom'><title>Hi</title><link href='x'/></feed>"
    page = read(feed, "xml")
    assert page.lines == ["title: Hi", "link@href: x"]
    assert page.addresses == ["feed/title", "feed/link/@href"]


def test_binary_files_are_compared_by_their_bytes():
    old, new = (
        Fetched(url="x:", status=200, body=b, content_type="image/png") for b in (b"1", b"2")
    )
    comparer = Comparer()
    after = comparer.after(None, old, comparer.compare(None, old))
    assert comparer.compare(after, old).outcome == "same"
    found = comparer.compare(after, new)
    assert (found.outcome, found.reason) == ("changed", "the image changed")
    assert found.text != after.text
    film = Fetched(url="x:", status=200, body=b"3", content_type="video/mp4")
    assert comparer.compare(after, film).reason == "the file changed"


# -- selecting ------------------------------------------------------------------------------------


def test_each_way_to_select():
    assert chosen(css="#price") == ["12 EUR 15 EUR"]
    assert chosen(css="#price", drop=("s",)) == ["12 EUR"]
    assert chosen(css="li") == ["one", "two link", "three"]
    assert chosen(css="ul, li") == ["one", "two link", "three"]  # no text twice
    assert chosen(xpath="//li[2]") == ["two link"]
    assert chosen(xpath="//a/@href") == ["/2"]
    assert chosen(xpath="count(//li)") == ["3"]
    assert chosen(xpath="string(//title)") == ["The Title"]
    assert chosen(xpath="boolean(//form)") == ["true"]
    assert chosen(regex=r"\d+ EUR") == ["12 EUR", "15 EUR"]
    assert chosen(css="#price", regex=r"(\d+) EUR") == ["12", "15"]
    assert chosen(css="p", ignore=(r"\d\d:\d\d:\d\d",)) == ["Seen at"]
    assert "12 EUR" in chosen(drop=("s", "ul"))
    assert "one" not in chosen(drop=("s", "ul"))
    assert chosen(css="li", sort_lines=True) == ["one", "three", "two link"]
    assert chosen(b"<p>b<p>a<p>b", unique_lines=True) == ["b", "a"]
    assert chosen(b"<p>b<p>a<p>b", unique_lines=True, sort_lines=True) == ["a", "b"]
    assert chosen(b"<p>a  b", whitespace=True) == ["a  b"]


def test_text_after_a_dropped_part_stays():
    assert chosen(b"<p>a <s>x</s> b <s>y</s><s>z</s> c</p>", drop=("s",)) == ["a b c"]
    assert chosen(b"<p>a <i>k</i> <s>x</s> b <i>l</i><s>y</s> c", drop=("s",)) == ["a k b l c"]


def test_json_and_xml_selections():
    body = json.dumps({"items": [{"n": "a", "p": 1}, {"n": "b", "p": 2}]}).encode()
    assert chosen(body, "json", jmespath="items[?p > `1`].n | [0]") == ['"b"']
    assert chosen(body, "json", jsonpath="$.items[?(@.p == 1)].n") == ['"a"']
    feed = b"<feed xmlns='http://www.w3.org/2005/Atom'><entry><id>7</id></entry></feed>"
    assert chosen(feed, "xml", xpath="//entry/id") == ["id: 7"]
    assert chosen(feed, "xml", css="entry > id") == ["id: 7"]


@pytest.mark.parametrize(
    "rules",
    [
        {"css": "#nothing"},
        {"xpath": "//nothing"},
        {"xpath": "//p[@nothing]/text()"},
        {"regex": "nothing"},
        {"css": "p", "ignore": (".*",)},
        {"jsonpath": "$.a"},
        {"jmespath": "a"},
    ],
)
def test_a_selection_that_finds_nothing_fails(rules):
    with pytest.raises(UnreadableError):
        chosen(**rules)
    assert (
        compare(
            None, Fetched(url="x:", status=200, body=PAGE, content_type="text/html"), Rules(**rules)
        ).outcome
        == "failed"
    )


SHOP = {
    "items": [{"id": i, "price": 5 * i, "tags": ["x"] * i} for i in range(4)],
    "a b": {"c": 1},
    "owner": {"id": "me"},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$.owner.id", ["me"]),
        ("$['a b'].c", [1]),
        ('$["a b"]["c"]', [1]),
        ("$.items[0].id", [0]),
        ("$.items[-1].id", [3]),
        ("$.items[1:3].id", [1, 2]),
        ("$.items[::2].id", [0, 2]),
        ("$.items[*].price", [0, 5, 10, 15]),
        ("$.items[0,2].id", [0, 2]),
        ("$..id", [0, 1, 2, 3, "me"]),
        ("$.items[?(@.price >= 10)].id", [2, 3]),
        ("$.items[?(@.tags[0] == 'x')].id", None),
        ("$.items[?@.id != 1].id", [0, 2, 3]),
        ("$.items[?(@.price < 'x')].id", []),
        ("$.nothing", []),
        ("$", [SHOP]),
    ],
)
def test_jsonpath(path, found):
    if found is None:
        with pytest.raises(InputError):
            compile_jsonpath(path)
    else:
        assert compile_jsonpath(path)(SHOP) == found


def random_page(r, depth=0):
    tag = r.choice(["div", "p", "a", "b", "span", "ul", "li"])
    more = r.choice(["", ' class="x y"', ' class="x"', ' id="i"', ' data-k="foo-bar"'])
    inner = "".join(random_page(r, depth + 1) for _ in range(r.randint(0, 4 if depth < 5 else 0)))
    return f"<{tag}{more}>{inner}t</{tag}>"


SELECTORS = (
    """
div a; div > a; a + b; a ~ b; div.x; #i; [data-k]; [data-k^=foo]; [data-k|=foo]; [data-k$=r]
li:first-child; li:last-child; p:nth-child(2n+1); p:nth-child(odd); b:nth-last-child(2); *
a:nth-of-type(2); div:not(.x); div:not(.x) > a.y ~ b, #i span; ul li:only-child; div :is(a,b).x
span:empty; li:nth-child(-n+2); a:last-of-type; b:only-of-type; [class~=y]; html > body p
[data-k*=o-b]; p:nth-last-of-type(3n); :root > body; p.x.y[class]
""".strip()
    .replace("\n", "; ")
    .split("; ")
)


@pytest.mark.parametrize("selector", SELECTORS)
def test_css_agrees_with_its_translation_to_xpath(selector):
    import cssselect

    translated = etree.XPath(cssselect.HTMLTranslator().css_to_xpath(selector))
    r = random.Random(3)  # noqa: S311 (no secret)
    for _ in range(15):
        root = html_tree(f"<body>{random_page(r)}{random_page(r)}</body>".encode())
        assert compile_css(selector)(root) == translated(root)


# -- strangers ------------------------------------------------------------------------------------


N = 30_000
HOSTILE = {
    "deep": b"<div>" * N + b"end" + b"</div>" * N,
    "unclosed formatting": b"<p>"
    + b"".join(b"<b id=%d>" % i for i in range(N))
    + b"</p>"
    + b"<p>x" * N,
    "attributes": b"<a " + b" ".join(b"a%d=1" % i for i in range(N)) + b">x</a>",
    "brackets": b"<" * N,
    "ampersands": b"&" * N,
    "comments": b"<!--" * N,
    "tables": b"<table>" * N + b"x",
    "svg": b"<svg><p>" * N,
    "select": b"<select><option>" * N,
    "one line": b"a" * 20 * N,
    "spaces": b" " * 20 * N + b"x",
    "nul": b"\0" * N + b"<p>x",
    "siblings": b"<a></a>" * N,
    "entities": b"&amp;&lt;&#x41;&nosuch;" * N,
    "classes": b"<p class='" + b"x " * N + b"'>x",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages_take_time_in_proportion(name):
    body = HOSTILE[name]
    fetched = Fetched(url="x:", status=200, body=body, content_type="text/html")
    comparer = Comparer()
    with cpu_within(4):
        first = comparer.compare(None, fetched)
        after = comparer.after(None, fetched, first)
        other = Fetched(url="x:", status=200, body=body + b"<p>more", content_type="text/html")
        assert comparer.compare(after, other).outcome in {"changed", "same", "first", "failed"}
    assert max(map(len, read(body, "html").addresses), default=0) < 5000


@pytest.mark.slow
@pytest.mark.parametrize("selector", ["div a", "a ~ a", "a + a", "p > b, * *", ":not(p) a"])
def test_hostile_pages_do_not_slow_css(selector):
    bodies = [b"<a></a>" * 20_000, b"<div>" * 200 + b"<a>x</a>" * 20_000 + b"</div>" * 200]
    with cpu_within(4):
        for body in bodies:
            fetched = Fetched(url="x:", status=200, body=body, content_type="text/html")
            assert compare(None, fetched, Rules(css=selector)).outcome in {"first", "failed"}


@pytest.mark.parametrize(
    "path", ["//a/following-sibling::a", "//div//a", "//a[count(//a) > 1]", "//a[//a[//a]]"]
)
def test_an_xpath_that_would_never_end_is_not_started(path):
    body = b"<div>" * 200 + b"<a>x</a>" * 20_000 + b"</div>" * 200
    fetched = Fetched(url="x:", status=200, body=body, content_type="text/html")
    with cpu_within(3):
        found = compare(None, fetched, Rules(xpath=path))
    assert found.outcome == "failed"
    assert "too long" in found.reason


def test_a_page_too_deep_for_a_tree_fails_only_with_a_selection():
    fetched = Fetched(url="x:", status=200, body=HOSTILE["deep"], content_type="text/html")
    assert compare(None, fetched).text == "end"
    assert "deep" in compare(None, fetched, Rules(css="div")).reason


@pytest.mark.parametrize("expression", ["(a+)+$", "(a|aa)+$", "(.*a){25}b"])
def test_regular_expressions_have_a_time_limit(expression, monkeypatch):
    assert selection.TIME_LIMIT == 0.5
    monkeypatch.setattr(selection, "TIME_LIMIT", 0.1)
    for rules in (Rules(regex=expression), Rules(ignore=(expression,) * 5)):
        fetched = Fetched(url="x:", status=200, body=b"a" * 5000 + b"!", content_type="text/plain")
        with cpu_within(1):
            assert compare(None, fetched, rules).outcome in {"failed", "first"}


BOMB = b"""<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY lol "lol">
<!ENTITY lol2 "&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;&lol;">
<!ENTITY lol3 "&lol2;&lol2;&lol2;&lol2;&lol2;&lol2;&lol2;&lol2;&lol2;">]><lolz>&lol3;</lolz>"""


@pytest.mark.parametrize(
    "body",
    [
        BOMB,
        BOMB.decode().encode("utf-16"),
        b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>',
        b"<a>" * 100_000,
        b"",
        b"no element",
        b"<",
    ],
)
def test_xml_without_entities_or_depth(body):
    with cpu_within(2):
        try:
            text = read(body, "xml").text
        except UnreadableError:
            return
    assert "root:" not in text
    assert "lollol" not in text
    assert len(text) < 1000


def test_entities_of_its_own_make_xml_unreadable():
    for body in (BOMB, BOMB.decode().encode("utf-16")):
        with pytest.raises(UnreadableError, match="entities"):
            read(body, "xml")


def test_a_feed_may_have_a_doctype():
    feed = b'<!DOCTYPE rss PUBLIC "-//X//DTD RSS 0.91//EN" "http://x/y.dtd"><rss><a>1</a></rss>'
    assert read(feed, "xml").lines == ["a: 1"]
    assert xml_tree(feed).tag == "rss"


@pytest.mark.parametrize(
    "body",
    [b"[" * 100_000, b'{"a":' * 100_000, b"[1e999, NaN]", b'"\\ud800"', b"[" + b"9" * 5000 + b"]"],
)
def test_hostile_json(body):
    fetched = Fetched(url="x:", status=200, body=body, content_type="application/json")
    for rules in (Rules(), Rules(jsonpath="$..*..*"), Rules(jmespath="@")):
        with cpu_within(2):
            found = compare(None, fetched, rules)
        assert found.outcome in {"first", "failed"}
        if found.text:
            found.text.encode("utf-8")


def test_a_jsonpath_that_explodes_is_stopped():
    body = b'{"a":' * 150 + b"1" + b"}" * 150
    fetched = Fetched(url="x:", status=200, body=body, content_type="application/json")
    with cpu_within(10):
        found = compare(None, fetched, Rules(jsonpath="$..a..a..a..a..a"))
    assert found.outcome == "failed"
    assert "more than" in found.reason


ANY_RULES = st.sampled_from(
    [
        Rules(),
        Rules(css="p"),
        Rules(xpath="//p"),
        Rules(jsonpath="$..a"),
        Rules(jmespath="a"),
        Rules(regex="a+"),
        Rules(drop=("p",)),
        Rules(ignore=("a",)),
        Rules(change="bytes"),
        Rules(whitespace=True),
        Rules(kind="xml"),
        Rules(kind="html", sort_lines=True),
    ]
)
MARKUP = st.lists(
    st.sampled_from(
        [
            "<p>",
            "</p>",
            "<b",
            "<a",
            "href=x>",
            "</a>",
            "<table>",
            "<script>",
            "</script>",
            "<!--",
            "-->",
            "a",
            "&",
            "&amp;",
            "&#0;",
            "\x00",
            "{",
            "}",
            "[",
            "]",
            '"a"',
            ":",
            ",",
            "<?xml",
            "<!DOCTYPE",
            "]]>",
            "<svg>",
            "<p/>",
            "é",
            "\ud7ff",
            "\r\n",
            "\x0c",
        ]
    ),
    max_size=40,
).map(" ".join)


@pytest.mark.slow
@settings(max_examples=200)
@given(
    st.one_of(st.binary(max_size=200), MARKUP.map(lambda text: text.encode("utf-8"))),
    st.sampled_from(["text/html", "application/json", "text/xml", "", "text/plain"]),
    st.sampled_from([None, "utf-8", "utf-16", "shift_jis", "utf-7", "nonsense"]),
    ANY_RULES,
)
@example(b"<p>a\x00b", "text/html", None, Rules())
def test_nothing_breaks_the_comparer(body, kind, charset, rules):
    comparer = Comparer(rules)
    fetched = Fetched(url="x:", status=200, body=body, content_type=kind, charset=charset)
    found = comparer.compare(None, fetched)
    assert found.outcome in {"first", "failed"}
    assert found.complete == (found.outcome == "first")
    if found.text is not None:
        assert "\0" not in found.text
        found.text.encode("utf-8")


def test_threads_do_not_share_a_parser():
    bodies = [f"<p>{f'word{i} ' * 200}</p>".encode() for i in range(4)]
    wrong = []

    def work(body):
        expected = read(body, "html").text
        wrong.extend(1 for _ in range(100) if read(body, "html").text != expected)

    threads = [threading.Thread(target=work, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_stems_and_phrases_count_in_the_magnitude():
    """A plural is no change of a stem; another order of the same words is a change of phrases."""
    old, new = ["many bees keep one hive"], ["many bee keeps one hive"]
    assert compare_terms(old, new, terms="stems").magnitude < compare_terms(old, new).magnitude
    plural = compare_terms(["a query", "two bees"], ["a queries", "two bee"], terms="stems")
    assert plural.magnitude == 0
    turned = ["one dog bites the man"], ["one man bites the dog"]
    assert compare_terms(*turned).magnitude == 0
    assert compare_terms(*turned, terms="phrases").magnitude > 0.5
    asked = {"belief networks": 1.0}
    apart = compare_terms(["belief networks"], ["networks belief"], asked, terms="phrases")
    assert apart.magnitude > 0
    kept = [f"line {k} of words" for k in range(50)]
    # Lines that stay cancel, whatever counts.
    for terms in ("words", "stems", "phrases"):
        moved = compare_terms([*kept, "one"], ["one", *kept], terms=terms)
        assert moved.magnitude == 0


def test_the_rules_of_a_source_say_what_a_magnitude_counts():
    first = Fetched(url="x:", status=200, body=b"bees and hives", content_type="text/plain")
    second = msgspec.structs.replace(first, body=b"bee and hive")
    for terms, changed in (("words", True), ("stems", False)):
        comparer = Comparer(Rules(change="magnitude", threshold=0.1, terms=terms))
        seen = comparer.compare(None, first)
        before = Previous(
            digest_raw=seen.digest_raw,
            digest_text=seen.digest_text,
            text=seen.text,
            record=seen.record or {},
            memory=seen.memory,
            selection_version=seen.selection_version,
            visited_at=1.0,
        )
        assert comparer.compare(before, second).changed is changed
    with pytest.raises((InputError, msgspec.ValidationError)):
        msgspec.convert({"terms": "letters"}, Rules)


@pytest.mark.slow
def test_weights_of_a_query_log_follow_what_people_ask():
    weights = query_weights([*["price of honey"] * 50, "honey", "bees"])
    assert weights["honey"] == 1.0
    assert 1.0 > weights["price"] > weights["bees"] > 0
    assert list(query_weights(f"w{k}" for k in range(200_000)))[:1] == ["w0"]
    assert len(query_weights((f"w{k}" for k in range(5000)), most=10)) == 10
    assert query_weights([]) == {}
