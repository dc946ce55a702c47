"""The address guard and the one parser: nothing that is not public is spoken to, whatever way it is
written and whatever way we come to it (directly, by name, by redirect, by robots.txt, by a name
server that changes its mind).
"""

import asyncio
import contextlib
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

import pycurl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from observant.errors import BadURL, InputError
from observant.observer.transport import Guard, Politeness, Transport, transfer
from observant.observer.transport.urls import parse, resolve

from .patience import PATIENCE

QUICK = Politeness(floor=0, latency_factor=0, backoff_first=0, outage_first=0)
FRIEND = "127.0.0.77"  # the one loopback address that is allowed here
REFUSED = [
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
    *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"),
    *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
    *("::/128", "::1/128", "::/96", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"),
    *("100::/64", "64:ff9b:1::/48", "2001::/32", "2001:2::/48", "2001:db8::/32", "2001:10::/28"),
    *("2002::/16", "3fff::/20", "5f00::/16", "168.63.129.16/32"),
    # IPv4 inside IPv6: mapped and NAT64, with something private inside
    *("::ffff:127.0.0.0/104", "::ffff:10.0.0.0/104", "::ffff:169.254.0.0/112"),
    *("64:ff9b::127.0.0.0/104", "64:ff9b::a9fe:0/112", "64:ff9b::c0a8:0/112"),
]
PUBLIC = [
    *("1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"),
    *("128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0"),
    *("192.0.1.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0"),
    *("223.255.255.255", "168.63.129.15", "168.63.129.17", "2606:4700::1111", "2a00:1450::1"),
    *("2001:4860:4860::8888", "::ffff:8.8.8.8", "64:ff9b::808:808"),
]


def ends(network):
    network = ip_network(network)
    return {str(network[0]), str(network[-1])}


ADDRESSES = sorted(set().union(*(ends(network) for network in REFUSED)))


@pytest.mark.parametrize("address", ADDRESSES)
def test_both_ends_of_every_network_in_the_table_are_refused(address):
    assert Guard().refusal(address) is not None


@pytest.mark.parametrize("address", PUBLIC)
def test_their_neighbours_are_public(address):
    assert Guard().refusal(address) is None


@given(
    st.one_of(
        st.integers(0, 2**32 - 1).map(IPv4Address), st.integers(0, 2**128 - 1).map(IPv6Address)
    )
)
def test_nothing_that_the_standard_library_calls_private_passes(address):
    inside = getattr(address, "ipv4_mapped", None) or address
    if not inside.is_global or inside.is_multicast or inside.is_reserved:
        assert Guard().refusal(str(address)) is not None


@pytest.mark.parametrize("text", ["", "localhost", "1.2.3", "fe80::1%eth0", "1.1.1.1 ", "0x7f.1"])
def test_what_is_no_address_is_refused(text):
    assert Guard().refusal(text) is not None


def test_the_allow_list_is_exact():
    guard = Guard(allow=["192.168.7.0/24", "fd00:1::/32", "127.0.0.1"])
    allowed = ["192.168.7.0", "192.168.7.255", "fd00:1::5", "127.0.0.1", "::ffff:192.168.7.1"]
    refused = ["192.168.6.255", "192.168.8.0", "fd00:2::5", "127.0.0.2", "::1", "10.0.0.1"]
    assert [guard.refusal(address) for address in allowed] == [None] * len(allowed)
    assert None not in [guard.refusal(address) for address in refused]
    with pytest.raises(InputError, match="not a network"):
        Guard(allow=["10.0.0.0/33"])


# ---- through the transport


@contextlib.asynccontextmanager
async def listening(answer, address=FRIEND):
    """A server that gives `answer(path)` and counts what comes; gives its port and the count."""
    seen = []

    async def connected(reader, writer):
        seen.append("connected")
        with contextlib.suppress(OSError, EOFError):
            request = await reader.readuntil(b"\r\n\r\n")
            path = request.split()[1].decode()
            seen[-1] = path
            writer.write(answer(path))
        writer.close()

    server = await asyncio.start_server(connected, address, 0)
    try:
        yield server.sockets[0].getsockname()[1], seen
    finally:
        server.close()
        await asyncio.sleep(0)


def ok(_path):
    return b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\nsecret"


def onward(location):
    return f"HTTP/1.1 302 Found\r\nConnection: close\r\nLocation: {location}\r\n\r\n".encode()


@pytest.fixture
def opened(monkeypatch):
    """The addresses of all sockets that were opened."""
    addresses = []
    original = transfer.Transfer._on_open

    def on_open(self, purpose, address):
        result = original(self, purpose, address)
        if result != pycurl.SOCKET_BAD:
            addresses.append(address.addr[0])
        return result

    monkeypatch.setattr(transfer.Transfer, "_on_open", on_open)
    return addresses


def run(work):
    return asyncio.run(asyncio.wait_for(work, PATIENCE))


def client(**options):
    return Transport(
        **({"guard": Guard(allow=[FRIEND]), "politeness": QUICK, "proxies": {}} | options)
    )


def bracketed(address):
    return f"[{address}]" if ":" in address else address


async def try_addresses(addresses):
    """Every way to every address, with and without robots.txt: what came of it, and whom it met."""
    found = []
    target = {}
    # The port that is asked for is one where somebody listens on loopback.
    async with listening(ok, "127.0.0.1") as (port, victims):

        def lead(path):
            return onward(target["url"]) if path != "/robots.txt" else ok(path)

        async with listening(lead) as (friend, friends):
            named = client(
                locate=lambda host, _: (target["address"], port) if host == "a.test" else None
            )
            async with named, client() as plain:
                for address in addresses:
                    url = f"http://{bracketed(address)}:{port}/"
                    target.update(address=address, url=url)
                    start = f"http://{FRIEND}:{friend}/start"
                    for robots in (True, False):
                        found += [
                            (address, "direct", await plain.fetch(url, robots=robots)),
                            (address, "redirect", await plain.fetch(start, robots=robots)),
                        ]
                        for scheme in ("http", "https"):
                            way = await named.fetch(f"{scheme}://a.test/", robots=robots)
                            found.append((address, scheme, way))
                        named.robots.forget("http://a.test")
                        named.robots.forget("https://a.test")
            assert friends.count("/start") == 2 * len(addresses)
        return found, victims


def test_the_whole_table_directly_by_name_and_by_redirect(opened):
    found, victims = run(try_addresses(ADDRESSES))
    assert len(found) == 8 * len(ADDRESSES)
    assert {(address, way, got.error) for address, way, got in found} == {
        (address, way, "refused-address") for address, way, _ in found
    }
    assert victims == []
    assert set(opened) == {FRIEND}


# Ways to write 127.0.0.1 and friends that have fooled others.
DISGUISES = [
    *("2130706433", "0x7f000001", "0x7f.1", "017700000001", "0177.0.0.1", "127.1", "127.0.1"),
    *("127.0.0.1.", "0", "0.0.0.0", "0x0", "127.000.000.001", "0x7F.0x0.0x0.0x1"),  # noqa: S104
    *("[::ffff:127.0.0.1]", "[::127.0.0.1]", "[0:0:0:0:0:ffff:7f00:1]", "[::1]", "[::]"),
    *("[64:ff9b::127.0.0.1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[::ffff:0:127.0.0.1]"),
    *("１２７.0.0.1", "127。0。0。1", "①②⑦.⓪.⓪.①", "%31%32%37.0.0.1", "localhost"),
    *("LOCALHOST", "localhost.", "ⓛocalhost", "user@127.0.0.1", "example.org@127.0.0.1"),
    *("127.0.0.1#@example.org", "127.0.0.1?@example.org", "user:pw@2130706433"),
]


async def try_disguise(host):
    """One of them directly and by a redirect: the errors, and whom it met."""
    async with listening(ok, "127.0.0.1") as (port, victims), client() as plain:
        authority, mark, rest = host.partition("#") if "#" in host else host.partition("?")
        url = f"http://{authority}:{port}{mark}{rest}/"
        answers = [await plain.fetch(url), await plain.fetch(url, robots=False)]

        def lead(path):
            return onward(url.encode().decode("latin-1")) if path == "/" else ok(path)

        async with listening(lead) as (friend, _):
            start = f"http://{FRIEND}:{friend}/"
            answers += [await plain.fetch(start), await plain.fetch(start, robots=False)]
        return [got.error for got in answers], victims


@pytest.mark.parametrize("host", DISGUISES)
def test_disguises_are_seen_through(host, opened):
    errors, victims = run(try_disguise(host))
    assert set(errors) <= {"refused-address", "bad-url"}
    assert victims == []
    assert set(opened) <= {FRIEND}


def test_robots_txt_cannot_be_used_to_look_inside(opened):
    async def work():
        async with listening(ok, "127.0.0.1") as (port, victims):

            def lead(path):
                return onward(f"http://127.0.0.1:{port}/inside") if "robots" in path else ok(path)

            async with listening(lead) as (friend, friends), client() as plain:
                got = await plain.fetch(f"http://{FRIEND}:{friend}/page")
                return got, victims, friends

    got, victims, friends = run(work())
    assert (got.error, victims, friends) == ("refused-address", [], ["/robots.txt"])
    assert opened == [FRIEND]


def answering(monkeypatch, answers):
    """Give libcurl's resolver the next answer at each request, as a name server could."""
    original = transfer.Transfer.prepare

    def prepare(self, request):
        original(self, request)
        host, _, port = request.url.split("/")[2].partition(":")
        self.curl.setopt(pycurl.RESOLVE, [f"-{host}:{port}", f"{host}:{port}:{next(answers)}"])

    monkeypatch.setattr(transfer.Transfer, "prepare", prepare)


def test_a_name_that_changes_its_address_between_check_and_connect(monkeypatch, opened):
    """Rebinding: first the friend (also for robots.txt), then an address inside."""
    answering(monkeypatch, iter([FRIEND, FRIEND, "127.0.0.1", "10.0.0.1", "::1", FRIEND]))

    async def work():
        async with listening(ok, FRIEND) as (port, friends), client() as plain:
            url = f"http://rebind.test:{port}/page"
            async with await asyncio.start_server(
                lambda *_: friends.append("in"), "127.0.0.1", port
            ):
                return [await plain.fetch(url) for _ in range(5)], friends

    answers, friends = run(work())
    bad = "refused-address"
    assert [got.error for got in answers] == [None, bad, bad, bad, None]
    assert friends == ["/robots.txt", "/page", "/page"]
    assert set(opened) == {FRIEND}


def test_of_several_addresses_only_the_allowed_one_is_tried(monkeypatch, opened):
    mixed = f"127.0.0.1,10.0.0.1,{FRIEND}"
    answering(monkeypatch, iter([mixed]))

    async def work():
        async with listening(ok, FRIEND) as (port, _), client() as plain:
            return await plain.fetch(f"http://mixed.test:{port}/", robots=False)

    got = run(work())
    assert (got.body, opened) == (b"secret", [FRIEND])


# ---- the parser


@pytest.mark.parametrize(
    "url",
    [
        *("", " ", "example.org", "//example.org/", "http:", "http://", "http:///x", "http:/a"),
        *("http:a", "https:\\\\a", "http://a\\b", "http://a/\\b", "file:///etc/passwd"),
        *("file:/etc/passwd", "FILE:///x", "source:file:///etc/passwd", "javascript:alert(1)"),
        *(
            "ftp://a/",
            "ws://a/",
            "data:,x",
            "view-source:http://a/",
            "jar:http://a!/",
            "gopher://a",
        ),
        *("http://a\nb/", "http://a/\r\nEvil:1", "http://a/\tb", "http://a/\0", "\x01http://a/"),
        *("http://a@b@c/", "http://a:b@c:d@e/", "http://%00@a/", "http://a%0d%0a:x@b/"),
        *("http://a..b/", "http://.a/", "http://-a/", "http://a b/", "http://a,b/", "http://a;b/"),
        *(
            "http://a*/",
            "http://[::1/",
            "http://::1/",
            "http://[fe80::1%25eth0]/",
            "http://[1.2.3.4]/",
        ),
        *(
            "http://1.2.3.4.5/",
            "http://256.1.1.1/",
            "http://a:99999/",
            "http://a:-1/",
            "http://a:x/",
        ),
        *(
            "http://a:0/",
            "http://a:22/",
            "http://a:25/",
            "http://a:6667/",
            "http://" + "a" * 64 + "/",
        ),
        *(
            "http://a/" + "b" * 9000,
            "http://" + "a." * 200 + "b/",
            "http://a%2fb/",
            "http://a%5cb/",
        ),
        *("http://\ud800/", "http://a/\ufeff", "http://xn--a/", "http://a＠b/", "http://a／b/"),
    ],
)
def test_what_only_some_parsers_understand_is_refused(url):
    with pytest.raises(BadURL):
        parse(url)


@pytest.mark.parametrize(
    ("url", "href"),
    [
        ("HTTP://Example.ORG", "http://example.org/"),
        ("https://example.org:443/a b", "https://example.org/a%20b"),
        ("http://bücher.example/ä", "http://xn--bcher-kva.example/%C3%A4"),
        ("http://a.example/%7e/./x/../y?a=b c&d='#f", "http://a.example/%7e/y?a=b%20c&d=%27"),
        ("http://under_score.example/", "http://under_score.example/"),
        ("http://[2606:4700::1111]:8080/", "http://[2606:4700::1111]:8080/"),
        ("http://u:p@a.example/", "http://a.example/"),
        ("http://a.example//b//c", "http://a.example//b//c"),
    ],
)
def test_what_an_address_becomes(url, href):
    assert parse(url).href == href


@pytest.mark.parametrize(
    ("location", "href"),
    [
        ("/c", "https://a.example/c"),
        ("c", "https://a.example/x/c"),
        ("../../../c", "https://a.example/c"),
        ("?q", "https://a.example/x/y?q"),
        ("#f", "https://a.example/x/y?z=1"),
        ("", "https://a.example/x/y?z=1"),
        ("//b.example/c", "https://b.example/c"),
        ("http://b.example", "http://b.example/"),
        (" /c ", "https://a.example/c"),
        ("/ä?ö", "https://a.example/%C3%A4?%C3%B6"),
    ],
)
def test_where_a_redirect_leads(location, href):
    assert resolve(parse("https://a.example/x/y?z=1"), location).href == href


def test_a_redirect_brings_no_credentials():
    assert parse("http://u:p@a.example/").authorization == "Basic dTpw"
    assert resolve(parse("http://a.example/"), "http://u:p@a.example/").authorization is None


PIECES = st.sampled_from(
    [
        *("http://", "https://", "http:", "//", "/", "\\", "@", ":", "#", "?", "%", ".", "..", "*"),
        *(
            "a",
            "example.org",
            "127.0.0.1",
            "[::1]",
            "[",
            "]",
            "0x7f",
            "%2f",
            "%00",
            "\t",
            "\n",
            " ",
        ),
        *(
            "ä",
            "。",
            "／",
            "＠",
            "\u200b",
            "\u00ad",
            "xn--",
            "80",
            "99999",
            "~",
            "|",
            "^",
            "`",
            "'",
        ),
        *('"', "<", ">", "{", "}", ";", ",", "$", "&", "=", "+", "!", "(", ")", "\x7f", "\ufeff"),
    ]
)


@given(st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=12).map("".join)))
@example("http://a%41/")
@example("http://a\u00adb/")
@example("http://example.org:80:80/")
def test_all_parsers_agree_on_what_is_let_through(text):
    """What passes is plain, stays the same when read again, and has one host for everybody."""
    for url in (text, "http://" + text, "http://h.example/" + text):
        try:
            target = parse(url)
        except BadURL:
            continue
        assert target.href.isascii()
        assert not any(letter in target.href for letter in ' \\\t\r\n\0#<>"')
        assert parse(target.href).href == target.href
        host = target.host.strip("[]")
        other = urlsplit(target.href)
        third = URL(target.href, encoded=True)
        assert other.hostname == host
        assert (other.port or {"http": 80, "https": 443}[other.scheme]) == target.port
        assert (
            ip_address(third.raw_host) == ip_address(host)
            if target.literal
            else third.raw_host == host
        )
        assert (other.username, other.password, third.user) == (None, None, None)
        assert other.scheme in {"http", "https"}
