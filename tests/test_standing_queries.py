"""Standing queries: results are tracked, told, watched within their share, and retired."""

import asyncio
import json
import threading
from contextlib import chdir, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from observant.errors import InputError, UnknownSourceError, UnreadableError
from observant.observer.config import Config
from observant.observer.fetched import Fetched
from observant.observer.honesty import Audits
from observant.observer.loop import Observer
from observant.observer.program import add_sources, describe
from observant.observer.query_members import (
    claims_of_query,
    follow_members,
    query_tag,
    retire_orphans,
)
from observant.observer.sources.query import StandingQuery
from observant.observer.sources.results import ResultRules, results_of
from observant.observer.transport import Guard, Politeness, Transport
from observant.store import Entry, Event, Member, Source, Visit, open_store

NOW = 1_800_000_000.0
DAY = 86_400.0


# -- reading lists --------------------------------------------------------------------------------


def listed(body, content_type="text/html", now=NOW, **rules):
    fetched = Fetched(
        url="https://a.example/search?q=x",
        status=200,
        body=body if isinstance(body, bytes) else body.encode(),
        content_type=content_type,
    )
    return results_of(fetched, ResultRules(**rules), now)


def tuples(members):
    return [(m.rank, m.url, m.title, m.dated_at) for m in members]


PAGE = """<body><nav><a href="/nav">x</a></nav>
<div class="result"><h3><a href="/one?b=1#frag">One <b>bold</b></a></h3>
<time datetime="2026-11-13T00:00:00Z">yesterday</time><span class="d">12 Nov 2026</span></div>
<div class="result"><a href="//b.example/two">Two</a><a href="/cached">cached</a></div>
<div class="result">no link</div></body>"""


@pytest.mark.parametrize("items", [".result", "//div[@class='result']"])
def test_a_page_by_css_or_xpath(items):
    found = listed(PAGE, items=items)
    assert tuples(found) == [
        (1, "https://a.example/one?b=1", "One bold", 1_794_528_000.0),
        (2, "https://b.example/two", "Two", None),
    ]
    other = listed(PAGE, items=items, link="a:last-of-type", title="h3", date=".d")
    assert [(m.title, m.url) for m in other] == [
        ("One bold", "https://a.example/one?b=1"),
        ("", "https://a.example/cached"),
    ]
    assert len(listed(PAGE, items=".result a", top=1)) == 1
    by_attribute = listed(PAGE, items="//div[@class='result']//a/@href")
    assert [m.url for m in by_attribute][1:] == [
        "https://b.example/two",
        "https://a.example/cached",
    ]


def test_feeds():
    atom = """<feed xmlns="http://www.w3.org/2005/Atom"><title>t</title>
    <entry><id>urn:1</id><title>First</title><link href="https://b.example/1"/>
    <updated>2026-11-13T00:00:00Z</updated></entry>
    <entry><id>https://b.example/2</id><title>Second</title></entry></feed>"""
    expected = [
        (1, "https://b.example/1", "First", 1_794_528_000.0),
        (2, "https://b.example/2", "Second", None),
    ]
    assert tuples(listed(atom, "application/atom+xml")) == expected
    feed = {
        "version": "https://jsonfeed.org/version/1.1",
        "items": [
            {"id": "1", "url": "https://b.example/1", "title": "First",
             "date_modified": "2026-11-13T00:00:00Z"},
            {"id": "2", "url": "https://b.example/2", "title": "Second"},
        ],
    }  # fmt: skip
    assert tuples(listed(json.dumps(feed), "application/feed+json")) == expected


def test_a_sitemap_is_read_newest_first():
    sitemap = """<urlset><url><loc>https://b.example/old</loc><lastmod>2020-01-01</lastmod></url>
    <url><loc>https://b.example/undated</loc></url>
    <url><loc>https://b.example/new</loc><lastmod>2026-11-13</lastmod></url></urlset>"""
    found = listed(sitemap, "application/xml", top=2)
    assert [m.url for m in found] == ["https://b.example/new", "https://b.example/old"]
    index = "<sitemapindex><sitemap><loc>https://b.example/s.xml</loc></sitemap></sitemapindex>"
    with pytest.raises(UnreadableError, match="list of sitemaps"):
        listed(index, "application/xml")


def test_json_by_jmespath():
    answer = {"hits": [{"doc": {"href": "/1", "name": "One"}, "when": 1_794_528_000_000}, {}]}
    found = listed(
        json.dumps(answer),
        "application/json",
        items="hits[*]",
        link="doc.href",
        title="doc.name",
        date="when",
    )
    assert tuples(found) == [(1, "https://a.example/1", "One", 1_794_528_000.0)]
    plain = [{"url": "/1", "title": "One", "updated": "2026-11-13"}, "https://b.example/2"]
    assert [m.url for m in listed(json.dumps(plain), "application/json", items="@")] == [
        "https://a.example/1",
        "https://b.example/2",
    ]
    for bad in ("hits", "length(@)"):
        with pytest.raises(UnreadableError):
            listed('{"hits": 1}', "application/json", items=bad)


HOSTILE = [
    "javascript:alert(1)",
    "file:///etc/passwd",
    "data:text/html,x",
    "ftp://b.example/",
    "http://",
    "https://b.example:25/",
    "https://b.example\\@c.example/",
    "https://a@b@c.example/",
    "https://b.example/" + "x" * 5000,
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "",
]


@pytest.mark.slow
def test_a_hostile_list_is_bounded():
    links = "".join(f'<li><a href="{url}">t</a>' for url in HOSTILE)
    many = "".join(f'<li><a href="/{n}">{"t" * 1000}\x1b[31m</a>' for n in range(5_000))
    again = '<li><a href="/0">again</a>' * 50
    found = listed(f"<ul>{links}{again}{many}</ul>", items="li", top=7)
    assert [m.url for m in found] == [f"https://a.example/{n}" for n in range(7)]
    assert all(len(m.title) <= 300 for m in found)
    assert [m.rank for m in found] == list(range(1, 8))
    secret = listed('<li><a href="https://user:pass@b.example/">t</a>', items="li")
    assert [m.url for m in secret] == ["https://b.example/"]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=300),
        st.text(alphabet="<>/lia href=\"'[]{}:,1", max_size=200).map(str.encode),
        st.recursive(
            st.none() | st.text(max_size=10) | st.integers() | st.floats(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=6), inner),
            max_leaves=20,
        ).map(lambda value: json.dumps(value).encode()),
    ),
    st.sampled_from(["text/html", "application/json", "application/xml", "text/plain", ""]),
    st.sampled_from(["", "li", "//a/@href", "a.b", "@", "items[*]"]),
)
def test_no_list_breaks_the_reader(body, content_type, items):
    try:
        found = listed(body, content_type, items=items, top=3)
    except UnreadableError:
        return
    assert len(found) <= 3
    assert all(m.url.startswith(("http://", "https://")) for m in found)


@pytest.mark.parametrize(
    "bad",
    [
        {"top": 0},
        {"top": 5000},
        {"share": 0},
        {"share": 1.5},
        {"form": "html"},
        {"form": "json", "items": "a["},
        {"form": "feed", "items": "li"},
        {"form": "html", "items": "document('/etc/passwd')"},
        {"form": "html", "items": "//a[document('x')]"},
        {"terms": {"a": -1.0}},
        {"colour": "red"},
    ],
)
def test_bad_rules_are_refused_at_the_door(bad):
    with pytest.raises(InputError):
        Config().settings_of((), {"query": bad}, "q")


# -- tracking -------------------------------------------------------------------------------------


class Web:
    """Serves `pages`: path → text, or (text, headers)."""

    def __init__(self):
        self.pages, self.seen = {}, []
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                web.seen.append(self.path)
                page = web.pages.get(self.path)
                body, extra = page if isinstance(page, tuple) else (page, {})
                data = (body or "").encode()
                known = extra.get("ETag") and extra["ETag"] == self.headers.get("If-None-Match")
                data = b"" if known else data
                self.send_response(304 if known else 404 if body is None else 200)
                headers = {"Content-Type": "text/html", "Content-Length": len(data)} | extra
                for key, value in headers.items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def results(self, *names, titles=None):
        items = "".join(
            f'<li><a href="http://{n}.example/">{(titles or {}).get(n, n)}</a>' for n in names
        )
        self.pages["/search"] = f"<title>Search</title><p>{len(self.seen)} asked<ol>{items}</ol>"


@pytest.fixture
def web():
    found = Web()
    yield found
    found.server.shutdown()
    found.server.server_close()


@contextmanager
def looking(web, store, config=None):
    """A function that visits sources by name, on the small web."""
    port = web.server.server_port

    def look(*names):
        async def main():
            async with Transport(
                guard=Guard(allow=["127.0.0.0/8"]),
                politeness=Politeness(floor=0.0, latency_factor=0.0),
                robots=False,
                locate=lambda *_: ("127.0.0.1", port),
            ) as transport:
                visits = []
                for name in names:
                    observer = Observer(store, config or Config(), transport=transport)
                    visits.append(await observer.check(name))
                return visits

        return asyncio.run(main())

    yield look


URL = "http://search.example/search"


def add_query(store, config=None, name="q", **rules):
    given_ = {"items": "li", "top": 3} | rules
    source = describe(URL, kind="query", name=name, tags=["t"], settings={"query": given_})
    add_sources(store, config or Config(), [source])


def told(store):
    """The events since the last call: topic, host of the result, and whether it returned."""
    found = store.outbox.pending(limit=1000)
    store.outbox.delivered([e.id for e in found])
    return [
        (e.topic, e.payload["url"].split("/")[2].removesuffix(".example"))
        for e in found
        if "url" in e.payload
    ]


def ranks(store, name="q"):
    return [
        (m.rank, m.url.split("/")[2].removesuffix(".example")) for m in store.members.list(name)
    ]


def test_new_changed_and_dropped_results_are_told_and_reordering_is_not(web, store):
    add_query(store)
    with looking(web, store) as look:
        web.results("a", "b", "c", "d")
        assert look("q")[0].outcome == "first"
        assert told(store) == []  # what was there when we came is nothing new
        assert ranks(store) == [(1, "a"), (2, "b"), (3, "c")]

        web.results("c", "a", "b", "e")
        assert look("q")[0].outcome == "same"
        assert told(store) == []
        assert ranks(store) == [(1, "c"), (2, "a"), (3, "b")]

        web.results("x", "c", "a", "b")
        assert look("q")[0].outcome == "changed"
        assert sorted(told(store)) == [("dropped-result", "b"), ("new-result", "x")]

        web.results("x", "c", "a", titles={"c": "C, revised"})
        look("q")
        (event,) = store.outbox.pending()
        assert (event.topic, event.source) == ("changed-result", "q")
        assert event.payload | {"tags": ["t"], "query": "q", "rank": 2} == event.payload
        assert (event.payload["title_before"], event.payload["title"]) == ("c", "C, revised")
        told(store)

        web.results("x", "b", "a")
        look("q")
        events = {e.payload["url"]: e for e in store.outbox.pending()}
        assert events["http://b.example/"].payload["returning"] is True
        left = {m.url for m in store.members.list("q", left=True) if m.left_at is not None}
        assert left == {"http://c.example/"}


def test_an_empty_or_broken_list_drops_nobody(web, store):
    add_query(store)
    with looking(web, store) as look:
        web.results("a", "b")
        look("q")
        for broken in ("<p>Sorry, something went wrong.", "<ol></ol>", None):
            web.pages["/search"] = broken
            assert look("q")[0].outcome in {"failed", "gone"}
            assert len(store.members.list("q")) == 2
        assert [topic for topic, _ in told(store)] == ["gone"]
        web.results("a", "b")
        look("q")
        assert len(store.members.list("q")) == 2
    add_query(store, name="empty", may_be_empty=True)
    with looking(web, store) as look:
        look("empty")
        web.pages["/search"] = "<ol></ol>"
        told(store)
        assert look("empty")[0].outcome == "changed"
        assert store.members.list("empty") == []
        assert sorted(told(store)) == [("dropped-result", "a"), ("dropped-result", "b")]


def test_a_new_rule_is_followed_although_the_page_did_not_change(web, store, monkeypatch):
    monkeypatch.setattr(Audits, "wanted", lambda _self, _host: False)
    add_query(store, top=2)
    with looking(web, store) as look:
        web.results("a", "b", "c")
        page = web.pages["/search"]
        web.pages["/search"] = (page, {"ETag": '"1"'})
        look("q")
        assert look("q")[0].status == 304
        assert len(store.members.list("q")) == 2
        query = store.sources.get("q").config["query"]
        store.sources.update("q", config={"query": query | {"top": 3}})
        look("q")
        assert ranks(store) == [(1, "a"), (2, "b"), (3, "c")]


def test_members_and_their_events_are_one_transaction_with_the_visit(store):
    store.sources.add([Source(name="q", kind="query")], now=NOW)

    def visit(at, members=None):
        told = {"outcome": "changed", "changed": True, "members": members}
        return Visit(source="q", started_at=at, ended_at=at, **told)

    first = [Member(url="http://a.example/", rank=1), Member(url="http://b.example/", rank=2)]
    store.visits.record_many([Entry(visit=visit(NOW, first))], now=NOW)
    bad = Entry(visit=visit(NOW + 1, []), outbox=[Event(id="")])
    with pytest.raises(InputError):
        store.visits.record_many([bad], now=NOW + 1)
    assert [m.url for m in store.members.list("q")] == [m.url for m in first]
    store.visits.record_many([Entry(visit=visit(NOW + 2))], now=NOW + 2)  # nothing known of members
    assert len(store.members.list("q")) == 2
    store.visits.record_many([Entry(visit=visit(NOW + 3, first[:1]))], now=NOW + 3)
    assert [(m.url, m.first_at, m.seen_at) for m in store.members.list("q")] == [
        ("http://a.example/", NOW, NOW + 3)
    ]
    assert [m.query for m in store.members.by_url("http://a.example/")] == ["q"]
    assert store.members.by_url("http://b.example/") == []
    both = store.members.by_urls(["http://a.example/", "http://b.example/"])
    assert {url: [m.query for m in found] for url, found in both.items()} == {
        "http://a.example/": ["q"], "http://b.example/": [],
    }  # fmt: skip
    assert store.sources.remove("q")
    assert store.members.by_url("http://a.example/") == []


def test_a_list_that_is_always_another_does_not_fill_the_store(store, monkeypatch):
    monkeypatch.setattr("observant.store.members.MOST_LEFT", 20)
    store.sources.add([Source(name="q", kind="query")], now=NOW)
    for turn in range(12):
        at = NOW + turn
        visit = Visit(source="q", started_at=at, ended_at=at, outcome="changed")
        members = [Member(url=f"http://{turn}.example/{n}", rank=n) for n in range(10)]
        store.visits.record_many([Entry(visit=structs.replace(visit, members=members))], now=at)
    assert len(store.members.list("q")) == 10
    left = {m.url.split("/")[2] for m in store.members.list("q", left=True)}
    assert left == {"11.example", "10.example", "9.example", "8.example"}


def test_a_backup_holds_members(store, tmp_path):
    store.sources.add([Source(name="q", kind="query")], now=NOW)
    visit = Visit(source="q", started_at=NOW, ended_at=NOW, outcome="first")
    members = [Member(url=f"http://{n}.example/", rank=n, dated_at=NOW - n) for n in (1, 2, 3)]
    store.visits.record_many([Entry(visit=structs.replace(visit, members=members))], now=NOW)
    store.backup(tmp_path / "b.db")
    with open_store(tmp_path / "o.db") as other:
        other.restore(tmp_path / "b.db")
        assert other.members.list("q") == store.members.list("q")
    assert store.sources.remove("q", forget=True)
    assert store.members.list("q") == []


# -- watching members -----------------------------------------------------------------------------


def watched(store):
    page = store.sources.list(tag=query_tag("q"), limit=1000)
    return [s.name.split("/")[2].removesuffix(".example") for s in page.sources]


def test_members_are_watched_within_their_share_and_retired(web, store):
    config = Config(budget="240/day")
    add_sources(store, config, [describe("http://b.example/", tags=["mine"])])
    add_query(store, config, watch=True, share=0.25, importance=2.0)
    with looking(web, store, config) as look:
        web.results("a", "b", "c")
        look("q")
        assert watched(store) == ["a", "c"]  # b was there before, and is left alone
        member = store.sources.get("http://a.example/")
        assert (member.title, member.importance, member.host) == ("a", 2.0, "a.example")
        # All of them together, as often as they may be: at most the share.
        period = config.settings_of(member.tags, member.config).shortest
        assert 3 / period <= 0.25 * 240 * (1 + 1e-9)
        before = store.sources.get("http://c.example/").updated_at
        look("q")
        assert store.sources.get("http://c.example/").updated_at == before  # nothing to do

        web.results("c", "x", "y")
        look("q")
        assert watched(store) == ["c", "x", "y"]
        assert store.sources.get("http://b.example/").tags == ("mine",)
        with pytest.raises(UnknownSourceError):
            store.sources.get("http://a.example/")
        store.sources.update("q", config={"query": {"items": "li", "top": 3, "watch": False}})
        look("q")
        assert watched(store) == []


def test_members_of_a_query_that_was_removed_are_retired(web, store):
    add_query(store, watch=True)
    with looking(web, store) as look:
        web.results("a", "b")
        look("q")
        assert watched(store) == ["a", "b"]
        assert retire_orphans(store) == 0
        store.sources.update("q", state="paused")
        assert retire_orphans(store) == 0
        store.sources.remove("q")  # by whatever way: observant remove, the dashboard, a program
        assert retire_orphans(store) == 2
    assert store.sources.count() == 0


def test_a_member_of_two_queries_stays_until_both_have_dropped_it(store):
    config = Config()
    for name in ("q", "p"):
        add_query(store, config, name=name, watch=True)

    def results(name, at, *hosts):
        members = [Member(url=f"http://{h}.example/", rank=1) for h in hosts]
        visit = Visit(source=name, started_at=at, ended_at=at, outcome="changed")
        store.visits.record_many([Entry(visit=structs.replace(visit, members=members))], now=at)
        row = store.sources.get(name)
        follow_members(store, config, row, config.settings_of(row.tags, row.config))

    results("q", NOW, "a", "b")
    results("p", NOW, "b", "c")
    assert store.sources.get("http://b.example/").tags == ("query:p", "query:q")
    results("q", NOW + 1, "a")
    assert store.sources.get("http://b.example/").tags == ("query:p",)
    results("p", NOW + 1, "c")
    with pytest.raises(UnknownSourceError):
        store.sources.get("http://b.example/")
    results("q", NOW + 2, "b")
    assert store.sources.get("http://b.example/").state == "active"  # it came back


def test_a_change_of_a_member_is_a_changed_result_weighted_by_the_terms(web, store):
    add_query(store, watch=True, terms={"bees": 3.0}, other_terms=0.0)
    add_sources(store, Config(), [describe("http://b.example/")])
    text = "<p>many words about ants and other animals"
    with looking(web, store) as look:
        web.results("a", "b")
        web.pages["/"] = text
        look("q", "http://a.example/", "http://b.example/")
        web.pages["/"] = f"{text} and wasps"
        visits = look("http://a.example/", "http://b.example/")
        assert [v.outcome for v in visits] == ["same", "changed"]  # b has rules of its own
        assert sorted(told(store)) == [("changed", "b"), ("changed-result", "b")]
        web.pages["/"] = f"{text} and bees"
        (visit,) = look("http://a.example/")
        assert (visit.outcome, visit.magnitude) == ("changed", 1.0)
        (event,) = store.outbox.pending()
        assert (event.topic, event.payload["query"]) == ("changed-result", "q")
        assert event.payload["added"].endswith("and bees")


def test_a_hostile_list_cannot_make_us_visit_this_machine(store):
    """Members pass the same guard as everybody: a list of loopback addresses is visited in vain."""
    web = Web()
    try:
        port = web.server.server_port
        web.pages["/inner"] = "secret"
        web.pages["/search"] = f'<li><a href="http://127.0.0.1:{port}/inner">x</a>'
        config = Config()
        source = describe(
            f"http://search.example:{port}/search",
            kind="query",
            name="q",
            settings={"query": {"items": "li", "watch": True}},
        )
        add_sources(store, config, [source])

        async def main():
            guard = Guard(allow=["127.0.0.2/32"])
            async with Transport(
                guard=guard,
                robots=False,
                locate=lambda host, _: ("127.0.0.2", port) if "search" in host else None,
            ) as transport:
                await Observer(store, config, transport=transport).check("q")
                (member,) = store.members.list("q")
                return await Observer(store, config, transport=transport).check(member.url)

        # The list itself is on 127.0.0.2 (allowed), its member on 127.0.0.1 (not allowed).
        web2 = ThreadingHTTPServer(("127.0.0.2", port), web.server.RequestHandlerClass)
        threading.Thread(target=web2.serve_forever, args=(0.02,), daemon=True).start()
        try:
            visit = asyncio.run(main())
        finally:
            web2.shutdown()
            web2.server_close()
        assert visit.error == "refused-address"
        assert "/inner" not in web.seen
    finally:
        web.server.shutdown()
        web.server.server_close()


# -- the audit ------------------------------------------------------------------------------------


def test_the_audit_of_a_query_whose_results_carry_dates(tmp_path):
    """An index that looks every 30 days at sources that change every 10: its currency at grace 0
    is (1 − e⁻³)/3 = 0.317; 400 results give a standard error of 0.023.
    """
    rng = np.random.default_rng(3)
    number = 400
    looked = NOW - rng.uniform(0, 30, number) * DAY
    known = looked - rng.exponential(10, number) * DAY
    last = NOW - rng.exponential(10, number) * DAY
    actual = np.where(last > looked, last, known)
    place = tmp_path / "observant.db"
    with open_store(place, durable=False) as store:
        add_query(store, watch=True, top=1000)
        members = [
            Member(url=f"http://{n}.example/", rank=n + 1, dated_at=float(known[n]))
            for n in range(number)
        ]
        members.append(Member(url="http://undated.example/", rank=number + 1))
        visit = Visit(source="q", started_at=NOW - 60, ended_at=NOW - 60, outcome="first")
        store.visits.record_many([Entry(visit=structs.replace(visit, members=members))], now=NOW)
        config = Config()
        row = store.sources.get("q")
        follow_members(store, config, row, config.settings_of(row.tags, row.config))
        store.visits.record_many(
            [
                Entry(
                    visit=Visit(
                        source=f"http://{n}.example/",
                        started_at=NOW,
                        ended_at=NOW,
                        outcome="first",
                        last_modified=float(actual[n]),
                    )
                )
                for n in range(number)
            ],
            now=NOW,
        )
        claims = claims_of_query(store, "q")
        assert len(claims) == number
        assert any("without a date" in note for note in claims.notes)
        store.sources.add([Source(name="none", kind="query")])
        with pytest.raises(InputError, match="no result can be audited"):
            claims_of_query(store, "none")
    from observant.cli.audit import audit

    with chdir(tmp_path):
        words = ["--query", "q", "--json", "--skew", "0d", "--grace", "0d,7d", "--resamples", "20"]
        answer = CliRunner().invoke(audit, words)
        assert answer.exit_code == 0, answer.output
        both = CliRunner().invoke(audit, ["x.csv", "--query", "q"])
        assert both.exit_code == 2
        assert "either files of claims, --query NAME" in both.output
    alpha = json.loads(answer.output)["currency"][0]["alpha"]
    assert abs(alpha - (1 - np.exp(-3)) / 3) < 4 * 0.023


# -- the command line -----------------------------------------------------------------------------


def test_the_command_line_of_standing_queries(web, tmp_path):
    from observant.cli import cli

    def run(*words):
        with chdir(tmp_path):
            return CliRunner().invoke(cli, words)

    added = run("query", "q", URL, "--items", "li", "--top", "3", "--term", "bees=2", "--watch")
    assert added.exit_code == 0, added.output
    assert isinstance(run("query", "q", URL, "--items", "li").exception, InputError)
    assert isinstance(run("query", "p", URL, "--items", "li[").exception, InputError)
    assert isinstance(run("query", "p", "file:///etc/passwd").exception, InputError)
    with open_store(tmp_path / "observant.db") as store:
        assert store.sources.get("q").config["query"]["terms"] == {"bees": 2.0}
        with looking(web, store) as look:
            web.results("a", "b", titles={"a": "\x1b[31mred [bold]"})
            look("q")
    shown = run("show", "q").output
    assert "http://a.example/" in shown
    assert "[bold]" in shown
    assert "\x1b" not in shown
    results = json.loads(run("show", "q", "--json").output)["results"]
    assert [(r["rank"], r["url"]) for r in results] == [
        (1, "http://a.example/"),
        (2, "http://b.example/"),
    ]
    assert json.loads(run("query", "--json").output)[0]["results"] == 2
    assert "q" in run("query").output
    assert json.loads(run("remove", "q", "--json").output) == {"removed": ["q"], "retired": 2}
    with open_store(tmp_path / "observant.db") as store:
        assert store.sources.count() == 0
    assert StandingQuery().top == 10
