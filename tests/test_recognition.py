"""What is at an address is said before it is watched: by the page, the API and `observant add`."""

import gzip
import json

import lxml.html
import pytest

from observant.observer.config import Config
from observant.observer.fetched import Fetched
from observant.observer.sources.recognition import WORDS, recognised
from observant.store import open_store

from .command_line import run_here
from .observer_world import Site, html
from .service_world import World

RSS = "<rss version='2.0'><channel>{}</channel></rss>".format(
    "".join(f"<item><title>{n}</title><link>http://a.example/{n}</link></item>" for n in range(3))
)
ATOM = (
    "<?xml version='1.0'?><feed xmlns='http://www.w3.org/2005/Atom'><title>t</title>"
    "<entry><id>1</id><title>one</title></entry></feed>"
)
SITEMAP = "<urlset><url><loc>http://a.example/1</loc></url></urlset>"
SHELL = "<html><title>App</title><script src=x></script><div id=app></div></html>"
SHOP = (
    '<script type="application/ld+json">{"@type": "Product", "name": "Lamp", "offers": '
    '{"@type": "Offer", "price": "49.90", "priceCurrency": "EUR"}}</script>' + "a lamp " * 30
)
LINKS = (
    "<html><head><title>News</title><link rel='alternate' type='application/rss+xml' "
    "href='/feed.xml'><link rel='alternate' type='application/rss+xml' href='javascript:x'>"
    "</head><body>" + "much to read " * 20 + "</body></html>"
)
CASES = {
    "page": ("text/html", html("words " * 40), "http"),
    "shell": ("text/html", SHELL, "http"),
    "product": ("text/html", SHOP, "http"),
    "feed": ("text/html", RSS, "feed"),
    "feed of Atom": ("application/atom+xml", ATOM, "feed"),
    "feed of JSON": ("application/json", '{"version": "https://jsonfeed.org/"}', "feed"),
    "sitemap": ("application/xml", SITEMAP, "sitemap"),
    "sitemap packed": ("application/gzip", gzip.compress(SITEMAP.encode()), "sitemap"),
    "json": ("application/json", '{"a": 1}', "http"),
    "xml": ("application/xml", "<a>b</a>", "http"),
    "image": ("image/png", b"\x89PNG\r\n\x1a\n\0\0", "http"),
    "text": ("text/plain", "hello", "http"),
    "file": ("application/octet-stream", b"\0\1\2\3", "http"),
}  # fmt: skip


def answer(content_type, body):
    given = body if isinstance(body, bytes) else body.encode()
    return Fetched(url="https://a.example/", status=200, body=given, content_type=content_type)


@pytest.mark.parametrize("case", CASES)
def test_what_it_is_follows_from_the_bytes_whatever_the_server_calls_it(case):
    content_type, body, kind = CASES[case]
    found = recognised(answer(content_type, body))
    assert (found.what, found.kind) == (case.partition(" ")[0], kind)
    assert "{" not in str(found)


def test_a_pdf_is_one_by_its_first_bytes():
    assert recognised(answer("application/octet-stream", b"%PDF-1.7\n\0")).what.startswith("pdf")


def test_feeds_that_a_page_names_are_offered_and_nothing_else():
    found = recognised(answer("text/html", LINKS))
    assert (found.what, found.title) == ("page", "News")
    assert found.feeds == ["https://a.example/feed.xml"]


def test_a_product_is_said_with_its_price():
    assert str(recognised(answer("text/html", SHOP))) == "a page of a shop: Lamp, 49.9 EUR"


def test_every_thing_has_words():
    assert {case.partition(" ")[0] for case in CASES} | {"pdf", "pdf-bytes"} == set(WORDS)


@pytest.fixture
def site():
    made = Site()
    for path, (content_type, body) in {
        "/page": ("text/html", LINKS),
        "/feed.xml": ("application/rss+xml", RSS),
        "/shell": ("text/html", SHELL),
    }.items():
        made.serve(path, body, content_type=content_type)
    yield made
    made.close()


@pytest.fixture
def world():
    made = World(config=Config(allow=("127.0.0.0/8",), host_delay=0))
    yield made
    made.close()


@pytest.mark.slow
def test_the_page_says_what_it_found_and_then_adds_it(world, site):
    base = f"http://127.0.0.1:{site.port}"
    with world.browser("editor") as client:
        sent = {"urls": f"{base}/feed.xml\n{base}/page\n{base}/none", "tags": "a"}
        reply = client.post("/add", data=sent)
        assert reply.status_code == 200
        assert world.store.sources.count() == 0
        shown = lxml.html.fromstring(reply.text)
        text = " ".join(shown.text_content().split())
        assert "This is a feed; its list of entries is watched, 3 now." in text
        assert "not found (404)" in text
        feeds = [a.text for a in shown.xpath("//main//li//a")]
        assert feeds == [f"{base}/feed.xml"]
        form = shown.xpath("//form[.//select[@name='kind']]")[0]
        assert form.action == "/sources"
        fields = form.form_values()
        assert [value for name, value in fields if name == "kind"] == ["feed", "http", ""]
        client.post(form.action, data={k: [v for n, v in fields if n == k] for k, _ in fields})
    rows = world.store.sources.list().sources
    assert [(row.name, row.kind) for row in rows] == [
        (f"{base}/feed.xml", "feed"),
        (f"{base}/page", "http"),
    ]
    assert {row.tags for row in rows} == {("a",)}


@pytest.mark.slow
def test_the_api_says_the_same_and_guards_the_same(world, site):
    with world.client("write") as client:
        urls = [f"http://127.0.0.1:{site.port}/shell", "http://10.0.0.1/", "file:///etc/passwd"]
        found = client.post("/api/v1/sources/recognise", json={"urls": urls}).json()
        assert [item["what"] for item in found] == ["shell", "", ""]
        assert found[1]["problem"] == "a private network"
        assert "--allow" in found[1]["remedy"]
        assert found[2]["problem"].startswith("only addresses that begin with http://")
        many = {"urls": [urls[0]] * 21}
        assert client.post("/api/v1/sources/recognise", json=many).status_code == 400


@pytest.mark.slow
def test_the_command_says_it_in_the_same_words_and_adds_what_fits(tmp_path, site):
    base, store = f"http://127.0.0.1:{site.port}", str(tmp_path / "o.db")
    (tmp_path / "observant.toml").write_text("host_delay = 0\n")
    given = ["add", f"{base}/feed.xml", f"{base}/page", "--store", store, "--allow", "127.0.0.0/8"]
    code, _, told = run_here(*given, cwd=tmp_path)
    assert code == 0, told
    assert f"{base}/feed.xml: a feed; its list of entries is watched, 3 now" in told
    assert f"{base}/page:" not in told
    with open_store(store) as kept:
        assert kept.sources.get(f"{base}/feed.xml").kind == "feed"
    asked = len(site.requests("/page"))
    code, out, _ = run_here(
        *given, "--json", cwd=tmp_path
    )  # what is watched is not looked at again
    assert json.loads(out)["found"] == []
    assert len(site.requests("/page")) == asked
