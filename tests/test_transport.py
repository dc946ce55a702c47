"""The transport against friendly servers: what is fetched, how redirects, conditions, methods, TLS,
HTTP/2 and proxies behave. Hostile servers have a file of their own.
"""

import asyncio
import contextlib
import gzip
import ssl
import zlib
from email.utils import formatdate

import brotli
import pytest
import zstandard
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from observant.errors import BadBody, InputError, TooLarge
from observant.observer.fetched import Fetched
from observant.observer.transport import (
    Guard,
    Honesty,
    Limits,
    Politeness,
    Transport,
    Validators,
    validators_of,
)
from observant.observer.transport.bodies import Body

from .patience import PATIENCE, Heartbeat, eventually, free_port, run

LOOPBACK = Guard(allow=["127.0.0.0/8", "::1/128"])
QUICK = Politeness(floor=0, latency_factor=0, backoff_first=0, outage_first=0)


def transport(**options):
    return Transport(**({"guard": LOOPBACK, "politeness": QUICK, "proxies": {}} | options))


@contextlib.asynccontextmanager
async def serving(handler, tls=None):
    """An aiohttp server that answers every request with `handler`; gives its base address."""

    async def robots_or_handler(request):
        if request.path == "/robots.txt":
            return web.Response(status=404)
        return await handler(request)

    runner = web.ServerRunner(web.Server(robots_or_handler), access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        port = site._server.sockets[0].getsockname()[1]
        yield f"http{'s' if tls else ''}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


def fetch(handler, path="/", *, options=None, **arguments):
    """One fetch from one server."""

    async def work():
        async with serving(handler) as base, transport(**(options or {})) as client:
            return await client.fetch(base + path, **arguments)

    return run(work())


# ---- what comes back


def test_a_page_comes_back_with_all_there_is_to_know():
    modified = formatdate(1_700_000_000, usegmt=True)

    async def page(request):
        assert request.headers["User-Agent"] == "observant/9.9 (+mailto:me@example.org)"
        head = {"ETag": '"one"', "Last-Modified": modified, "X-Twice": "a"}
        return web.Response(text="Grüße", content_type="text/html", headers=head)

    named = {"user_agent": "observant/9.9", "contact": "mailto:me@example.org"}
    got = fetch(page, "/a/../b?q=ä#part", options=named)
    assert (got.status, got.error, got.ok, got.not_modified) == (200, None, True, False)
    assert got.body == "Grüße".encode()
    assert (got.content_type, got.charset) == ("text/html", "utf-8")
    assert (got.etag, got.last_modified) == ('"one"', 1_700_000_000.0)
    assert got.final_url.endswith("/b?q=%C3%A4")
    assert got.header("X-Twice") == "a"
    assert got.started_at <= got.first_byte_at <= got.ended_at < got.started_at + PATIENCE
    assert len(got.body) < got.wire_bytes < 1000


@pytest.mark.parametrize("status", [400, 404, 410, 418, 500, 503])
def test_an_error_status_is_an_error_with_its_page(status):
    async def page(_):
        return web.Response(status=status, text="sorry")

    got = fetch(page)
    assert (got.status, got.error, got.body, got.ok) == (status, "http", b"sorry", False)


PACKERS = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.compress,
}


@pytest.mark.parametrize("coding", [*PACKERS, "identity", "gzip, br", "zstd, gzip", "x-gzip"])
def test_packed_bodies_are_unpacked(coding):
    content = b"the same words again and again, " * 5000
    packed = content
    for name in coding.split(", "):
        packed = PACKERS.get(name.removeprefix("x-"), bytes)(packed)

    async def page(request):
        assert request.headers["Accept-Encoding"] == "gzip, br, zstd"
        return web.Response(body=packed, headers={"Content-Encoding": coding})

    got = fetch(page)
    assert (got.error, got.body) == (None, content)
    assert got.wire_bytes < len(packed) + 500


@given(
    content=st.binary(max_size=3000),
    coding=st.sampled_from([*PACKERS, "raw deflate", "members"]),
    cuts=st.lists(st.integers(1, 200), min_size=1, max_size=50),
    repeat=st.integers(1, 40),
)
def test_unpacking_does_not_depend_on_how_the_pieces_fall(content, coding, cuts, repeat):
    content *= repeat
    if coding == "raw deflate":
        packer = zlib.compressobj(wbits=-15)
        packed, name = packer.compress(content) + packer.flush(), "deflate"
    elif coding == "members":
        packed, name = gzip.compress(content) + gzip.compress(content) + b"\0\0", "gzip"
    else:
        packed, name = PACKERS[coding](content), coding
    body, start = Body(10**7, [name]), 0
    while start < len(packed):
        step = cuts[start % len(cuts)]
        body.feed(packed[start : start + step])
        start += step
    assert body.finish() == (content * 2 if coding == "members" else content)


@given(st.integers(1, 2000), st.sampled_from(list(PACKERS)))
def test_the_limit_is_exact_and_a_cut_is_noticed(size, coding):
    packed = PACKERS[coding](bytes(size))
    exact = Body(size, [coding])
    exact.feed(packed)
    assert len(exact.finish()) == size
    less = Body(size - 1, [coding])
    with pytest.raises(TooLarge):
        less.feed(packed)
    assert len(less.so_far()) == size - 1
    cut = Body(size, [coding])
    cut.feed(packed[:-1])
    with pytest.raises(BadBody):
        cut.finish()


@pytest.mark.slow
@pytest.mark.parametrize("coding", list(PACKERS))
def test_a_bomb_is_not_unpacked_where_everybody_waits(coding):
    """Nine megabytes of nothing are a few kilobytes: the loop, which also serves the dashboard,
    unpacked them while they came; twenty hosts at once held it up for two seconds.
    """
    size = 9 << 20
    body = Body(size, [coding])
    body.feed(PACKERS[coding](bytes(size)))
    assert len(body.so_far()) <= 4 << 20  # a bite of zstd can be that long, the others stop sooner
    assert body.heavy
    body.settle()  # in a thread
    assert body.finish() == bytes(size)
    late = Body(size - 1, [coding])
    late.feed(PACKERS[coding](bytes(size)))
    with pytest.raises(TooLarge):
        late.finish()
    assert len(late.so_far()) == size - 1


def test_what_never_ends_is_broken_off_while_it_comes():
    packer, body = zlib.compressobj(wbits=31), Body(10 << 20, ["gzip"])
    body.feed(packer.compress(b"x") + packer.flush(zlib.Z_FULL_FLUSH))
    again = packer.compress(bytes(1 << 24)) + packer.flush(zlib.Z_FULL_FLUSH)
    with pytest.raises(TooLarge):  # noqa: PT012
        for _ in range(2 * 2**20 // len(again)):  # two gigabytes, in two megabytes
            body.feed(again)
    assert len(body.so_far()) == 10 << 20


def test_interim_answers_and_trailers_are_not_the_head():
    async def work():
        answer = (
            b"HTTP/1.1 103 Early Hints\r\nETag: early\r\n\r\n"
            b"HTTP/1.1 200 OK\r\nETag: real\r\nTransfer-Encoding: chunked\r\nTrailer: ETag\r\n\r\n"
            b"2\r\nhi\r\n0\r\nETag: late\r\n\r\n"
        )

        async def script(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)

        async with raw(script) as port, transport() as client:
            return await client.fetch(f"http://127.0.0.1:{port}/", robots=False)

    got = run(work())
    assert (got.status, got.etag, got.body) == (200, "real", b"hi")


@contextlib.asynccontextmanager
async def raw(script):
    """A server that runs `script(reader, writer)` for each connection; gives its port."""
    tasks = set()

    async def connected(reader, writer):
        tasks.add(asyncio.current_task())
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
            await script(reader, writer)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# ---- methods and headers


def test_a_webhook_is_posted_and_not_sent_on():
    seen = []

    async def page(request):
        seen.append((request.method, request.path, await request.read(), request.headers["X-Sign"]))
        return web.Response(status=307, headers={"Location": "/elsewhere"})

    got = fetch(
        page,
        "/hook",
        method="POST",
        body=b'{"a":1}',
        headers=[("Content-Type", "application/json"), ("X-Sign", "s")],
    )
    assert seen == [("POST", "/hook", b'{"a":1}', "s")]
    assert (got.status, got.error) == (307, "protocol")


@pytest.mark.parametrize(
    ("body", "kind"), [(b"x" * 3_000_000, "application/octet-stream"), (b"", None), (None, None)]
)
def test_what_a_post_says_of_its_body(body, kind):
    async def page(request):
        assert "Expect" not in request.headers
        assert request.headers.get("Content-Type") == kind
        sizes = [len(piece) async for piece in request.content.iter_any()]
        return web.Response(text=str(sum(sizes)))

    async def work():
        async with serving(page) as base, transport() as client:
            async with Heartbeat() as heart:
                got = await client.fetch(base, method="POST", body=body)
            return got, heart

    got, heart = run(work())
    assert got.body == str(len(body or b"")).encode()
    assert heart.waited < 0.9  # whoever waits to be asked for the body waits for a second


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE", "POST"])
def test_other_methods(method):
    async def page(request):
        return web.Response(text=request.method)

    got = fetch(page, method=method)
    assert (got.status, got.body) == (200, b"" if method == "HEAD" else method.encode())


def test_methods_do_not_leak_into_the_next_request():
    async def page(request):
        return web.Response(text=f"{request.method} {await request.text()}")

    async def work():
        async with serving(page) as base, transport() as client:
            answers = []
            for method, body in [("POST", b"x"), ("GET", None), ("HEAD", None), ("GET", None)]:
                got = await client.fetch(base, method=method, body=body)
                answers.append(got.body)
            return answers

    assert run(work()) == [b"POST x", b"GET ", b"", b"GET "]


@pytest.mark.parametrize(
    "header",
    [
        ("X-A", "b\r\nEvil: 1"),
        ("X A", "b"),
        ("X-A:", "b"),
        ("Host", "other"),
        ("content-length", "0"),
        ("Accept-Encoding", "gzip"),
        ("", "b"),
    ],
)
def test_headers_that_cannot_be_sent_are_the_callers_mistake(header):
    with pytest.raises(InputError):
        fetch(None, headers=[header])


@pytest.mark.parametrize("method", ["CONNECT", "GET /x HTTP/1.1\r\nHost: b\r\n\r\n", ""])
def test_methods_that_cannot_be_sent(method):
    with pytest.raises(InputError, match="method"):
        fetch(None, method=method)


def test_a_source_may_have_a_user_agent_of_its_own():
    async def page(request):
        return web.Response(text=",".join(request.headers.getall("User-Agent")))

    assert fetch(page, headers=[("User-Agent", "special/1")]).body == b"special/1"


def test_a_fault_of_our_own_leaves_the_host_free():
    def locate(_host, _port):
        raise RuntimeError("a bug in the caller's function")

    async def work():
        async with transport(locate=locate) as client:
            for _ in range(2):
                with pytest.raises(RuntimeError, match="bug"):
                    await client.fetch("http://a.example/", robots=False)

    run(work())


def test_the_user_agent_must_have_a_name():
    with pytest.raises(InputError, match="name"):
        Transport(user_agent="/1.0")
    with pytest.raises(InputError, match="control character"):
        Transport(user_agent="observant/1", contact="a\nb")


# ---- redirects


def test_redirects_are_followed_and_remembered():
    async def page(request):
        steps = int(request.query["n"])
        if steps:
            return web.Response(status=302, headers={"Location": f"?n={steps - 1}"})
        return web.Response(text="here")

    got = fetch(page, "/x?n=10")
    assert (got.body, len(got.redirects)) == (b"here", 10)
    assert got.redirects[0].endswith("/x?n=10")
    assert got.final_url.endswith("/x?n=0")
    got = fetch(page, "/x?n=11")
    assert (got.error, got.status) == ("too-many-redirects", 302)


@pytest.mark.parametrize("path", ["/self", "/a"])
def test_circles_are_found(path):
    requests = []

    async def page(request):
        requests.append(request.path)
        onward = {"/self": "/self", "/a": "/b", "/b": "/a"}[request.path]
        return web.Response(status=301, headers={"Location": onward})

    got = fetch(page, path)
    assert (got.error, got.message) == ("too-many-redirects", "the redirects run in a circle")
    assert len(requests) <= 2


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "FILE:/etc/passwd",
        "ftp://127.0.0.1/",
        "gopher://127.0.0.1/",
        "dict://127.0.0.1:11211/stat",
        "javascript:alert(1)",
        "data:text/plain,hi",
        "http:example.org",
        "http:/example.org",
        "///example.org",
        "http://",
        "http://a\\@b/",
        "http://a@b@c/",
        "http://[::1",
        "https://exa mple/",
        "http://127.0.0.1:25/",
        "x" * 9000,
    ],
)
def test_redirects_that_lead_nowhere(location):
    async def page(_):
        return web.Response(status=302, headers={"Location": location})

    got = fetch(page)
    assert (got.error, got.status) == ("bad-url", 302)


def test_credentials_and_secret_headers_stay_with_their_origin():
    seen = []

    async def page(request):
        seen.append((request.url.host, dict(request.headers)))
        onward = {
            "/start": "/near",
            "/near": "http://other.test/far",
            "/far": "http://own.test/end",
        }
        if request.path in onward:
            return web.Response(status=302, headers={"Location": onward[request.path]})
        return web.Response(text="end")

    async def work():
        async with serving(page) as base:
            port = int(base.rpartition(":")[2])
            async with transport(locate=lambda _h, _p: ("127.0.0.1", port)) as client:
                return await client.fetch(
                    "http://user:p%40ss@own.test/start",
                    headers=[("X-Api-Key", "k"), ("Cookie", "c=1"), ("Accept", "text/html")],
                )

    got = run(work())
    assert got.body == b"end"
    assert "p%40ss" not in got.final_url + "".join(got.redirects)
    secrets = [
        {name for name in ("Authorization", "X-Api-Key", "Cookie") if name in head}
        for _, head in seen
    ]
    everything = {"Authorization", "X-Api-Key", "Cookie"}
    # Once another origin has had a say in where we go, even our own gets nothing.
    assert secrets == [everything, everything, set(), set()]
    assert seen[0][1]["Authorization"] == "Basic dXNlcjpwQHNz"
    assert all(head["Accept"] == "text/html" for _, head in seen)


def test_a_redirect_cannot_set_our_credentials():
    seen = []

    async def page(request):
        seen.append("Authorization" in request.headers)
        if request.path == "/":
            location = f"http://evil:evil@{request.host}/x"
            return web.Response(status=302, headers={"Location": location})
        return web.Response(text="x")

    got = fetch(page)
    assert got.ok
    assert seen == [False, False]


# ---- conditional requests


def test_validators_go_to_the_final_address_only():
    seen = []

    async def page(request):
        head = request.headers
        seen.append((request.path, head.get("If-None-Match"), head.get("If-Modified-Since")))
        if request.path == "/old":
            return web.Response(status=301, headers={"Location": "/new"})
        if head.get("If-None-Match") == 'W/"1"':
            return web.Response(status=304)
        modified = formatdate(1_700_000_000, usegmt=True)
        return web.Response(text="v1", headers={"ETag": 'W/"1"', "Last-Modified": modified})

    async def work():
        async with serving(page) as base, transport() as client:
            first = await client.fetch(base + "/old")
            known = validators_of(first)
            second = await client.fetch(base + "/old", validators=known)
            moved = await client.fetch(base + "/other", validators=known)
            return first, known, second, moved

    first, known, second, moved = run(work())
    assert known == Validators(
        url=first.final_url, etag='W/"1"', last_modified=first.header("last-modified")
    )
    assert (second.status, second.not_modified, second.ok, second.body) == (304, True, True, b"")
    assert validators_of(second) is None  # the stored ones go on
    assert moved.body == b"v1"
    shown = ('W/"1"', "Tue, 14 Nov 2023 22:13:20 GMT")
    none = (None, None)
    assert seen == [
        ("/old", *none),
        ("/new", *none),
        ("/old", *none),
        ("/new", *shown),
        ("/other", *none),
    ]


def test_not_modified_without_being_asked_is_no_answer():
    async def page(_):
        return web.Response(status=304)

    got = fetch(page)
    assert (got.error, got.not_modified, got.ok) == ("protocol", False, False)
    elsewhere = fetch(page, validators=Validators(url="http://a/", etag='"x"'))
    assert elsewhere.error == "protocol"


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ({}, None),
        ({"etag": '"a"'}, ('"a"', None)),
        ({"last-modified": 1e9}, (None, 1e9)),
        ({"last-modified": 1e9, "date": 1e9}, None),  # may change again in this second
        ({"last-modified": 1e9, "date": 1e9 + 1}, (None, 1e9)),
        ({"etag": '"a"', "last-modified": 1e9, "date": 1e9}, ('"a"', 1e9)),
    ],
)
def test_which_validators_are_kept(head, expected):
    pairs = tuple(
        (name, value if isinstance(value, str) else formatdate(value, usegmt=True))
        for name, value in head.items()
    )
    got = Fetched(
        url="http://a/",
        status=200,
        headers=pairs,
        etag=head.get("etag"),
        last_modified=head.get("last-modified"),
        ended_at=2e9,
    )
    found = validators_of(got)
    if expected is None:
        assert found is None
    else:
        etag, modified = expected
        assert found.etag == etag
        assert found.last_modified == (formatdate(modified, usegmt=True) if modified else None)


@pytest.mark.parametrize(
    "options", [{"status": 404}, {"status": 206}, {"error": "too-large"}, {"not_modified": True}]
)
def test_no_validators_without_a_whole_body(options):
    assert validators_of(Fetched(**({"url": "u", "status": 200, "etag": '"a"'} | options))) is None


def test_stored_validators_cannot_inject_headers():
    async def page(request):
        assert "Evil" not in request.headers
        return web.Response(text="x")

    async def work():
        async with serving(page) as base, transport() as client:
            evil = Validators(url=base + "/", etag='"a"\r\nEvil: 1', last_modified="x\ny")
            return await client.fetch(base + "/", validators=evil)

    assert run(work()).ok


def test_an_audit_finds_the_server_that_says_304_for_ever():
    """Checklist item 4: the audit sees the change, and the old validators still get a 304."""

    async def liar(request):
        if "If-None-Match" in request.headers:
            return web.Response(status=304)
        return web.Response(text=liar.text, headers={"ETag": f'"{liar.text}"'})

    async def work():
        honesty = Honesty()
        async with serving(liar) as base, transport() as client:
            liar.text = "v1"
            known = validators_of(first := await client.fetch(base))
            liar.text = "v2"
            hidden = await client.fetch(base, validators=known)
            audit = await client.fetch(base)
            probe = await client.fetch(base, validators=known)
            if audit.body != first.body and probe.not_modified:
                honesty.lied()
        return hidden, honesty

    hidden, honesty = run(work())
    assert hidden.not_modified
    assert honesty.share == 1.0


@pytest.mark.parametrize(
    ("claimed", "date", "expected"),
    [
        (1e9, None, 1e9),
        (1e9, 1e9, 1e9),
        (1e9 + 5, 1e9, None),  # later than the server's own clock
        (4e9, None, None),  # in the future
        (0, None, None),  # before the web
        ("yesterday", None, None),
        ("", None, None),
    ],
)
def test_absurd_last_modified_is_left_out(claimed, date, expected):
    async def script(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n")
        for name, value in (("Last-Modified", claimed), ("Date", date)):
            if value is not None:
                text = value if isinstance(value, str) else formatdate(value, usegmt=True)
                writer.write(f"{name}: {text}\r\n".encode())
        writer.write(b"\r\n")

    async def work():
        async with raw(script) as port, transport() as client:
            return await client.fetch(f"http://127.0.0.1:{port}/", robots=False)

    assert run(work()).last_modified == expected


# ---- connections


def test_connections_are_kept_and_used_again():
    ports = set()

    async def page(request):
        ports.add(request.transport.get_extra_info("peername"))
        return web.Response(text="x" * 30_000)

    async def work():
        async with serving(page) as base, transport() as client:
            for number in range(5):
                assert (await client.fetch(f"{base}/{number}")).ok

    run(work())
    assert len(ports) == 1


def test_where_there_is_no_epoll(monkeypatch):
    from observant.observer.transport import curl
    from observant.observer.transport import curl as sockets

    monkeypatch.setattr(curl, "watch", sockets.LoopSockets)

    async def page(request):
        return web.Response(text=request.path * 10_000)

    async def work():
        async with serving(page) as base:
            port = int(base.rpartition(":")[2])
            async with transport(locate=lambda _h, _p: ("127.0.0.1", port)) as client:
                urls = [f"http://host-{number % 7}.test/{number}" for number in range(60)]
                return await asyncio.gather(*(client.fetch(url) for url in urls))

    assert [got.body for got in run(work())] == [b"/%d" % n * 10_000 for n in range(60)]


def test_a_second_try_when_a_healthy_host_drops_the_connection():
    visits = []

    async def script(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        visits.append(1)
        if len(visits) > 1:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        else:
            writer.transport.abort()

    async def work(retries, method):
        visits.clear()
        async with raw(script) as port, transport(limits=Limits(retries=retries)) as client:
            url = f"http://127.0.0.1:{port}/"
            return await client.fetch(url, robots=False, method=method)

    assert run(work(1, "GET")).body == b"ok"
    assert run(work(0, "GET")).error == "connect"
    assert run(work(1, "POST")).error == "connect"
    assert len(visits) == 1


def test_nobody_listens_and_no_such_name():
    async def work():
        async with transport() as client:
            refused = await client.fetch(f"http://127.0.0.1:{free_port()}/", robots=False)
            unknown = await client.fetch("http://no-such-host.invalid/", robots=False)
            return refused, unknown

    refused, unknown = run(work())
    assert (refused.error, refused.status) == ("connect", 0)
    assert unknown.error == "dns"


def test_a_fetch_that_is_given_up_frees_the_host():
    asked = []

    async def page(request):
        asked.append(request.path)
        if request.path == "/slow":
            await asyncio.Event().wait()
        return web.Response(text="x")

    async def work():
        async with serving(page) as base, transport() as client:
            slow = asyncio.create_task(client.fetch(base + "/slow"))
            await eventually(lambda: asked == ["/slow"])
            waiting = asyncio.create_task(client.fetch(base + "/never"))
            behind = asyncio.create_task(client.fetch(base + "/behind"))
            await eventually(lambda: len(client.hosts["127.0.0.1"].waiting) == 2)
            assert not behind.done()
            waiting.cancel()
            slow.cancel()
            got = await behind
            assert client._engine.running == 0
            return got

    assert run(work()).ok


@pytest.mark.parametrize("robots", [True, False])
def test_closing_ends_what_is_under_way_and_what_waits(robots):
    asked = asyncio.Event()

    async def script(reader, _writer):
        await reader.read(10_000)
        asked.set()
        await asyncio.sleep(PATIENCE)

    async def work():
        async with raw(script) as port:
            client = transport(politeness=Politeness(floor=100, patience=1000))
            url = f"http://127.0.0.1:{port}/"
            tasks = [asyncio.create_task(client.fetch(url, robots=robots)) for _ in range(5)]
            await asked.wait()
            await client.close()
            answers = await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE / 2)
            answers.append(await client.fetch(url))
            await client.close()
            return {got.error for got in answers}

    assert run(work()) == {"connect"}


# ---- TLS and HTTP/2


@pytest.fixture(scope="module")
def authority():
    trustme = pytest.importorskip("trustme", reason="trustme makes the certificates")
    return trustme.CA()


def _server_side(authority, name, alpn=("http/1.1",)):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    context.set_alpn_protocols(list(alpn))
    return context


def test_certificates_are_verified(authority, tmp_path, monkeypatch):
    async def page(_):
        return web.Response(text="secret")

    async def work(name, **arguments):
        async with serving(page, _server_side(authority, name)) as base, transport() as client:
            return await client.fetch(base, robots=False, **arguments)

    assert run(work("127.0.0.1")).error == "tls"
    assert run(work("127.0.0.1", verify=False)).body == b"secret"
    bundle = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(bundle))
    monkeypatch.delenv("CURL_CA_BUNDLE", raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    assert run(work("127.0.0.1")).body == b"secret"
    assert run(work("other.test")).error == "tls"


def test_http_2(authority):
    h2 = pytest.importorskip("h2.connection", reason="h2 is the other side")
    from h2.config import H2Configuration
    from h2.events import RequestReceived

    body = gzip.compress(b"over two" * 10_000)

    async def script(reader, writer):
        connection = h2.H2Connection(H2Configuration(client_side=False))
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        while data := await reader.read(65_536):
            for event in connection.receive_data(data):
                if isinstance(event, RequestReceived):
                    head = {name.decode(): value.decode() for name, value in event.headers}
                    path = head[":path"]
                    if "if-none-match" in head:
                        connection.send_headers(event.stream_id, [(":status", "304")], True)
                    elif path == "/old":
                        answer = [(":status", "308"), ("location", "/new")]
                        connection.send_headers(event.stream_id, answer, True)
                    elif path == "/reset":
                        connection.reset_stream(event.stream_id)
                    else:
                        answer = [(":status", "200"), ("content-encoding", "gzip"), ("etag", '"2"')]
                        connection.send_headers(event.stream_id, answer)
                        connection.send_data(event.stream_id, body, end_stream=True)
            writer.write(connection.data_to_send())
            await writer.drain()

    async def work():
        accepted = []

        async def counted(reader, writer):
            accepted.append(writer.get_extra_info("ssl_object").selected_alpn_protocol())
            with contextlib.suppress(OSError, ssl.SSLError):
                await script(reader, writer)
            writer.close()

        tls = _server_side(authority, "127.0.0.1", ["h2"])
        server = await asyncio.start_server(counted, "127.0.0.1", 0, ssl=tls)
        base = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with transport() as client:
            plain = {"robots": False, "verify": False}
            first = await client.fetch(base + "/old", **plain)
            second = await client.fetch(base + "/old", validators=validators_of(first), **plain)
            third = await client.fetch(base + "/reset", **plain)
        server.close()
        return first, second, third, accepted

    first, second, third, accepted = run(work())
    assert (first.body, first.etag) == (b"over two" * 10_000, '"2"')
    assert len(first.redirects) == 1
    assert second.not_modified
    assert third.error == "protocol"
    assert accepted == ["h2"]  # all on one connection


# ---- proxies


def proxied(url, *, reply=b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nproxy", **options):
    """Fetch through a proxy on loopback that answers itself; gives the answer and its requests."""
    asked = []

    async def script(reader, writer):
        while True:
            asked.append((await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0].decode())
            writer.write(reply)

    async def work():
        async with raw(script) as port:
            proxy = f"http://127.0.0.1:{port}"
            options.setdefault("proxies", {"http": proxy, "https": proxy})
            # The guard would refuse loopback; the proxy is the user's own choice.
            async with transport(guard=Guard(), **options) as client:
                return await client.fetch(url, robots=False)

    return run(work()), asked


def test_a_proxy_is_asked_for_the_whole_address():
    got, asked = proxied("http://site.invalid/a?b")
    assert (got.body, asked) == (b"proxy", ["GET http://site.invalid/a?b HTTP/1.1"])


def test_a_proxy_is_asked_for_a_tunnel_and_may_refuse():
    got, asked = proxied("https://site.invalid/a", reply=b"HTTP/1.1 403 No\r\n\r\n")
    assert got.error == "connect"
    assert set(asked) == {"CONNECT site.invalid:443 HTTP/1.1"}


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1/", "http://169.254.169.254/", "http://localhost/", "http://[::1]/"]
)
def test_what_we_can_see_is_refused_through_a_proxy_too(url):
    got, asked = proxied(url)
    assert (got.error, asked) == ("refused-address", [])


def test_a_redirect_from_a_proxy_is_judged_again():
    reply = b"HTTP/1.1 302 Found\r\nLocation: http://10.1.2.3/\r\nContent-Length: 0\r\n\r\n"
    got, asked = proxied("http://site.invalid/", reply=reply)
    assert got.error == "refused-address"
    assert len(asked) == 1


def test_proxies_come_from_the_environment(monkeypatch):
    async def script(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nproxy")

    async def page(_):
        return web.Response(text="direct")

    async def work():
        async with raw(script) as port, serving(page) as base:
            monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
            monkeypatch.setenv("no_proxy", "127.0.0.1")
            async with transport(proxies=None) as client, transport(proxies={}) as without:
                assert "127.0.0.1" not in repr(client.proxies)
                return (
                    (await client.fetch("http://site.invalid/", robots=False)).body,
                    (await client.fetch(base, robots=False)).body,
                    (await without.fetch("http://site.invalid/", robots=False)).error,
                )

    assert run(work()) == (b"proxy", b"direct", "dns")
