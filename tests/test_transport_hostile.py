"""The transport against servers that mean harm: bombs, endless bodies, drips, lies, nonsense.

Whatever comes, the answer is a `Fetched`, in time, with bounded memory, while the event loop stays
alive: nothing may hold up the heartbeat beside a fetch for more than a second of work.
"""

import asyncio
import contextlib
import gzip
import itertools
import zlib
from pathlib import Path

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from observant.observer.transport import Guard, Limits, Politeness, Transport

from .patience import PATIENCE, Heartbeat, run

LOOPBACK = Guard(allow=["127.0.0.0/8"])
QUICK = Politeness(floor=0, latency_factor=0, backoff_first=0, outage_first=0)
MEGABYTE = 2**20
HEAD = b"HTTP/1.1 200 OK\r\n"


@contextlib.asynccontextmanager
async def raw(script):
    """A server that runs `script(reader, writer)` for each connection; gives its port."""
    tasks = set()

    async def connected(reader, writer):
        tasks.add(asyncio.current_task())
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
            await reader.readuntil(b"\r\n\r\n")
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


def fetch(script, *, most=5.0, **limits):
    """One fetch from a hostile server, in at most so many seconds of waiting and of work."""
    limits = {"retries": 0, "connect": 60.0, "first_byte": 60.0, "total": 60.0} | limits

    async def work():
        client = Transport(
            guard=LOOPBACK, politeness=QUICK, proxies={}, robots=False, limits=Limits(**limits)
        )
        async with raw(script) as port, client:
            async with Heartbeat() as heart:
                got = await client.fetch(f"http://127.0.0.1:{port}/")
            assert client._engine.running == 0
        return got, heart

    got, heart = run(work())
    assert heart.blocked < 1.0
    assert heart.waited < most
    assert heart.worked < most
    return got


def peak():
    """The highest memory this process has had, in megabytes, since `forget_peak`."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def forget_peak():
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        pytest.skip("this machine does not let us reset the peak of memory")


def sending(*pieces, hold=False):
    async def script(_reader, writer):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if hold:
            await asyncio.sleep(PATIENCE)

    return script


# ---- bombs


def _zeros(packer, megabytes):
    """Packed zeros, made without ever holding them."""
    pieces = [packer.compress(bytes(MEGABYTE)) for _ in range(megabytes)]
    return b"".join(pieces) + packer.flush()


class _Brotli:
    def __init__(self):
        self._inner = brotli.Compressor(quality=5)

    def compress(self, data):
        return self._inner.process(data)

    def flush(self):
        return self._inner.finish()


def bomb(coding):
    """A body of at most some kilobytes that unpacks to 120 megabytes or more."""
    if coding == "gzip":
        return _zeros(zlib.compressobj(9, wbits=31), 120)
    if coding == "deflate":
        return _zeros(zlib.compressobj(9), 120)
    if coding == "br":
        return _zeros(_Brotli(), 120)
    if coding == "zstd":
        return _zeros(zstandard.ZstdCompressor().compressobj(), 120)
    if coding == "zstd blocks":  # four bytes for 128 KiB: 16 GiB in half a megabyte
        block = (131072 << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
        return b"\x28\xb5\x2f\xfd\x00\x38" + block * 131072
    if coding == "gzip, gzip":
        return gzip.compress(_zeros(zlib.compressobj(9, wbits=31), 120))
    if coding == "gzip, br":
        return brotli.compress(_zeros(zlib.compressobj(9, wbits=31), 120), quality=5)
    if coding == "hidden":  # the inner gzip has an endless name and never any content
        packer = zlib.compressobj(9, wbits=31)
        start = packer.compress(b"\x1f\x8b\x08\x08\0\0\0\0\0\0")
        pieces = [packer.compress(b"A" * MEGABYTE) for _ in range(120)]
        return start + b"".join(pieces) + packer.flush()
    if coding == "members":  # a hundred thousand empty members
        return gzip.compress(b"") * 100_000
    raise ValueError(coding)


BOMBS = {
    **{name: name for name in ("gzip", "deflate", "br", "zstd", "gzip, gzip", "gzip, br")},
    "zstd blocks": "zstd",
    "hidden": "gzip, gzip",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_do_not_go_off(name):
    body = bomb(name)
    assert len(body) < 2 * MEGABYTE
    head = f"Content-Encoding: {BOMBS[name]}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    forget_peak()
    before = peak()
    got = fetch(sending(HEAD + head, body), most=3)
    assert (got.error, got.body) == ("too-large", b"")
    assert peak() - before < 64


def test_many_empty_members_are_only_long():
    body = bomb("members")
    got = fetch(sending(HEAD + b"Content-Encoding: gzip\r\n\r\n", body))
    assert (got.error, got.body) == (None, b"")


@pytest.mark.parametrize("coding", ["gzip, gzip, gzip", "rot13", "gzip, nonsense", "x" * 500])
def test_codings_that_are_not_taken(coding):
    head = f"Content-Encoding: {coding}\r\nContent-Length: 2\r\n\r\nhi".encode()
    got = fetch(sending(HEAD + head))
    assert got.error == "protocol"


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_damaged_and_cut_bodies_are_no_content(coding):
    packed = {
        "gzip": gzip.compress,
        "deflate": zlib.compress,
        "br": brotli.compress,
        "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
    }[coding](bytes(range(256)) * 100)
    head = HEAD + f"Content-Encoding: {coding}\r\n".encode()
    for body in (packed[: len(packed) // 2], packed[:20] + b"\xff" * 20 + packed[40:], b"hello"):
        got = fetch(sending(head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body))
        assert (got.error, got.body) == ("protocol", b"")


# ---- endless things


async def _endless(_reader, writer, start, piece):
    writer.write(start)
    while True:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0)  # the server shares our loop


@pytest.mark.parametrize(
    ("start", "piece", "error"),
    [
        (HEAD + b"\r\n", b"x" * 65_536, "too-large"),
        (
            HEAD + b"Transfer-Encoding: chunked\r\n\r\n",
            b"10000\r\n" + b"x" * 65_536 + b"\r\n",
            "too-large",
        ),
        (HEAD + b"Content-Length: 99999999999\r\n\r\n", b"x" * 65_536, "too-large"),
        (HEAD, b"X-Header: " + b"y" * 1000 + b"\r\n", "too-large"),
        (HEAD, b"X: \r\n" * 1000, "too-large"),
        (HEAD + b"X: ", b"y" * 65_536, "too-large"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\n\r\n", "too-large"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 50, b"HTTP/1.1 100 Continue\r\n\r\n", "too-large"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", b"ext" * 20_000, None),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"T: " + b"y" * 1000 + b"\r\n", None),
        (b"HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n", b"x" * 65_536, "too-many-redirects"),
    ],
    ids=lambda value: value[:30] if isinstance(value, bytes) else str(value),
)
def test_endless_answers_end(start, piece, error):
    forget_peak()
    before = peak()
    total = 60.0 if error else 1.0
    got = fetch(lambda r, w: _endless(r, w, start, piece), most=2.5, total=total, body=4 * MEGABYTE)
    assert got.error in ({error} if error else {"too-large", "protocol", "timeout", "connect"})
    assert peak() - before < 48


def test_a_declared_size_is_believed_before_the_body_comes():
    got = fetch(sending(HEAD + b"Content-Length: 20000000\r\n\r\n", hold=True), most=1)
    assert got.error == "too-large"


@pytest.mark.parametrize(("status", "size"), [(200, 1000), (404, 1000), (200, 0)])
def test_a_body_at_the_limit_is_whole(status, size):
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {size}\r\n\r\n".encode()
    got = fetch(sending(head, b"x" * size), body=max(size, 1))
    assert got.body == b"x" * size
    assert got.error == (None if status == 200 else "http")


# ---- slowness


async def _drip(_reader, writer, start, piece, pause):
    writer.write(start)
    while True:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(pause)


@pytest.mark.parametrize(
    ("start", "piece", "limits", "least", "most"),
    [
        (b"", b"", {"first_byte": 0.5}, 0.4, 2.0),  # says nothing
        (HEAD[:14], b"O", {"first_byte": 0.5}, 0.4, 2.0),  # never finishes its first line
        (HEAD + b"X: ", b"y", {"total": 0.5}, 0.4, 2.0),  # drips a header
        (HEAD + b"\r\n", b"z", {"total": 0.5}, 0.4, 2.0),  # drips a body
        (HEAD + b"\r\n", b"z", {"slow_seconds": 1.0}, 0.9, 4.5),  # is ended as a drip
        (HEAD + b"\r\n", b"z" * 500, {"total": 0.5, "slow_seconds": 1.0}, 0.4, 2.0),
    ],
    ids=["silent", "first line", "header", "body", "too slow", "long"],
)
def test_slow_answers_end_in_time(start, piece, limits, least, most):
    got = fetch(lambda r, w: _drip(r, w, start, piece, 0.05), most=most, **limits)
    assert got.error == "timeout"
    assert least < got.ended_at - got.started_at


def test_a_connection_that_is_never_accepted():
    import socket

    async def work():
        full = socket.socket()
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        held = []
        for _ in range(4):  # the queue of the listener is full after one or two
            waiting = socket.socket()
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
            held.append(waiting)
        limits = Limits(connect=0.5, retries=0)
        client = Transport(guard=LOOPBACK, politeness=QUICK, proxies={}, limits=limits)
        async with client, Heartbeat() as heart:
            got = await client.fetch(f"http://127.0.0.1:{port}/", robots=False)
        for one in (*held, full):
            one.close()
        return got, heart

    got, heart = run(work())
    assert got.error == "timeout"
    assert got.ended_at - got.started_at > 0.4
    assert heart.waited < 2.5


def test_redirects_share_one_time_limit():
    count = itertools.count()

    async def script(_reader, writer):
        step = next(count)
        await asyncio.sleep(0.6 if step < 2 else PATIENCE)
        writer.write(f"HTTP/1.1 302 F\r\nLocation: /{step}\r\n\r\n".encode())

    got = fetch(script, most=3.2, total=2.4)  # a limit for each would be 3.6 s
    assert (got.error, len(got.redirects)) == ("timeout", 2)
    assert got.ended_at - got.started_at > 2.3


def test_many_small_headers():
    for number, error in ((200, None), (300, "too-large")):
        head = HEAD + b"Content-Length: 2\r\n" + b"X: y\r\n" * number + b"\r\nhi"
        assert fetch(sending(head)).error == error


def test_one_hostile_server_does_not_hold_up_the_others():
    async def script(_reader, writer):
        await _endless(None, writer, HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", b"e" * 4096)

    async def work():
        async with raw(script) as bad, raw(sending(HEAD + b"Content-Length: 2\r\n\r\nok")) as good:
            ports = {"bad.test": bad, "good.test": good}
            client = Transport(
                guard=LOOPBACK,
                politeness=QUICK,
                proxies={},
                robots=False,
                limits=Limits(total=1.0),
                locate=lambda host, _port: ("127.0.0.1", ports[host]),
            )
            async with client:
                hostile = asyncio.create_task(client.fetch("http://bad.test/"))
                await asyncio.sleep(0.05)
                async with Heartbeat() as heart:
                    for _ in range(20):
                        assert (await client.fetch("http://good.test/")).ok
                assert (await hostile).error is not None
                return heart

    heart = run(work())
    assert heart.waited + heart.worked < 0.8


# ---- lies and nonsense

CORPUS = [
    b"",
    b"\0",
    b"\r\n\r\n",
    b"hello",
    b"HTTP/0.9 200 OK\r\n\r\n",
    b"HTTP/1.1\r\n\r\n",
    b"HTTP/1.1 \r\n\r\n",
    b"HTTP/1.1 20 OK\r\n\r\n",
    b"HTTP/1.1 2000 OK\r\n\r\n",
    b"HTTP/1.1 abc OK\r\n\r\n",
    b"HTTP/1.1 -20 OK\r\n\r\n",
    b"HTTP/9.9 200 OK\r\n\r\n",
    b"HTTP/2 200 OK\r\n\r\n",
    b"ICY 200 OK\r\n\r\n",
    b"HTTP/1.1 200 OK",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi",
    b"HTTP/1.1 200\r\n\r\nbody",
    b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nhi",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2x\r\n\r\nhi",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi!",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nhi",
    b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nlonger than it says",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999999\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhi",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhiXX0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: nonsense\r\n\r\nhi",
    b"HTTP/1.1 200 OK\r\nNoColon\r\n\r\nhi",
    b"HTTP/1.1 200 OK\r\n: empty name\r\n\r\nhi",
    b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\nhi",
    b"HTTP/1.1 200 OK\r\nX: \xff\xfe\xe4\r\n\r\nhi",
    b"HTTP/1.1 200 OK\r\n folded: first\r\n\r\nhi",
    b"HTTP/1.1 200 OK\r\nX: a\r\n folded\r\n\tagain\r\n\r\nhi",
    b"HTTP/1.1 200 OK\r\nContent-Type: \r\nETag: \r\nLast-Modified: \r\n\r\nhi",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=\xff\xff; charset=\r\n\r\nhi",
    b"HTTP/1.1 200 OK\r\nContent-Type: ;;;===\r\n\r\nhi",
    b"HTTP/1.1 200 OK\r\nLast-Modified: Mon, 99 Foo 99999 99:99:99 XYZ\r\n\r\nhi",
    b"HTTP/1.1 200 OK\r\nLast-Modified: " + b"9" * 60 + b"\r\nDate: 0\r\n\r\nhi",
    b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b; Domain=.com\r\n\r\nhi",
    b'HTTP/1.1 200 OK\r\nAlt-Svc: h2="10.0.0.1:80"\r\nUpgrade: h2c\r\n\r\nhi',
    b"HTTP/1.1 200 OK\r\nStrict-Transport-Security: max-age=1\r\nRefresh: 0;url=/x\r\n\r\nhi",
    b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 205 Reset\r\n\r\n",
    b"HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\n\r\nhi",
    b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n\x81\x05hello",
    b"HTTP/1.1 199 What\r\n\r\n",
    b"HTTP/1.1 300 Choices\r\nLocation: /x\r\n\r\n",
    b"HTTP/1.1 302 Found\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: \r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: \xff\xfe\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: http://\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: /a\r\nLocation: http://10.0.0.1/\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\n\r\n",
    b"HTTP/1.1 401 No\r\nWWW-Authenticate: Negotiate\r\nWWW-Authenticate: NTLM\r\n\r\n",
    b"HTTP/1.1 407 Proxy\r\nProxy-Authenticate: Basic\r\n\r\n",
    b"HTTP/1.1 417 Expectation\r\n\r\n",
    b"HTTP/1.1 421 Misdirected\r\n\r\n",
    b"HTTP/1.1 429 Slow\r\nRetry-After: " + b"9" * 50 + b"\r\n\r\n",
    b"HTTP/1.1 503 No\r\nRetry-After: -5\r\n\r\n",
    b"HTTP/1.1 503 No\r\nRetry-After: \xb2\r\n\r\n",
    b"HTTP/1.1 999 Unusual\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.0\r\n",
    b"220 mail ESMTP\r\n",
    b"<html>no head at all</html>",
]
CUT_SHORT = [b"Content-Length: 100", b"\r\n5\r\nhi", b"\r\n2\r\nhi", b"HTTP/1.1 200 OK\r\n"]


class Echo:
    """A loop, a server that answers what it is told, and a client, for many examples."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.answer = b""
        self.loop.run_until_complete(self._start())

    async def _start(self):
        async def script(_reader, writer):
            for start in range(0, len(self.answer), 7000):
                writer.write(self.answer[start : start + 7000])
                await writer.drain()

        self._raw = raw(script)
        self.port = await self._raw.__aenter__()
        limits = Limits(retries=0, body=100_000, redirects=2)
        self.client = Transport(
            guard=LOOPBACK, politeness=QUICK, proxies={}, robots=False, limits=limits
        )

    def get(self, answer):
        self.answer = answer
        name = "127.0.0.1"
        self.client.hosts[name].free = 0.0  # whatever Retry-After it was told
        work = self.client.fetch(f"http://{name}:{self.port}/")
        return self.loop.run_until_complete(asyncio.wait_for(work, PATIENCE))

    def close(self):
        self.loop.run_until_complete(self.client.close())
        self.loop.run_until_complete(self._raw.__aexit__(None, None, None))
        self.loop.close()


@pytest.fixture(scope="module")
def echo():
    server = Echo()
    yield server
    server.close()


def sane(got):
    assert got.error is not None or got.ok
    assert 0 <= got.status <= 999
    assert len(got.body) <= 100_000
    assert got.started_at <= got.ended_at
    assert all(name == name.lower() and "\n" not in name + value for name, value in got.headers)
    return got


@pytest.mark.parametrize("answer", CORPUS, ids=range(len(CORPUS)))
def test_nonsense_is_answered_with_sense(echo, answer):
    got = sane(echo.get(answer))
    if got.error is None:
        assert 200 <= got.status < 300
        assert not any(mark in answer and answer.endswith(mark) for mark in CUT_SHORT[1:3])


def test_what_is_cut_short_is_no_content(echo):
    for answer in CORPUS:
        if answer.startswith(b"HTTP/1.1 200") and (
            b"Content-Length: 100\r\n" in answer or answer.endswith((b"5\r\nhi", b"\r\n2\r\nhi"))
        ):
            got = echo.get(answer)
            assert (got.error, got.body) == ("protocol", b"")


def test_a_part_that_nobody_asked_for_is_no_page(echo):
    part = b"HTTP/1.1 206 Partial\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\n\r\nhi"
    assert part in CORPUS
    assert echo.get(part).error == "protocol"


LINES = st.sampled_from(
    [
        *(b"Content-Length: 5", b"Content-Length: x", b"Transfer-Encoding: chunked", b"X: y"),
        *(b"Content-Encoding: gzip", b"Content-Encoding: br", b"Content-Encoding: zstd"),
        *(b"Content-Encoding: deflate, gzip", b"Location: /x", b"Location: //", b'ETag: "\xe4"'),
        *(b"Retry-After: 1e9", b"Connection: close", b"Connection: keep-alive", b" folded", b":"),
        *(
            b"Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT",
            b"Date: x",
            b"Content-Type: a/b;charset",
        ),
    ]
)
BODIES = st.one_of(
    st.binary(max_size=200),
    st.sampled_from(
        [
            *(b"5\r\nhello\r\n0\r\n\r\n", b"hello", gzip.compress(b"hi"), brotli.compress(b"hi")),
            *(zstandard.compress(b"hi"), zlib.compress(b"hi"), bytes(200_000), b"5\r\nhel"),
        ]
    ),
)


@st.composite
def answers(draw):
    """An answer that is nearly right, with something replaced, cut or doubled."""
    status = draw(st.sampled_from([200, 200, 204, 206, 301, 302, 304, 404, 429, 500, 100, 103, 0]))
    lines = draw(st.lists(LINES, max_size=6))
    start = f"HTTP/1.{draw(st.integers(0, 2))} {status} X".encode()
    whole = b"\r\n".join([start, *lines, b"", draw(BODIES)])
    at = draw(st.integers(0, len(whole)))
    how = draw(st.integers(0, 3))
    if how == 1:
        return whole[:at]
    if how == 2:
        return whole[:at] + draw(st.binary(max_size=5)) + whole[at + 1 :]
    return whole * 2 if how == 3 and len(whole) < 1000 else whole


@given(answer=answers())
@settings(max_examples=200)
def test_fuzzed_answers(echo, answer):
    sane(echo.get(answer))


@given(answer=st.binary(max_size=300))
@settings(max_examples=100)
def test_random_bytes(echo, answer):
    sane(echo.get(answer))
    sane(echo.get(HEAD + answer))


def test_memory_does_not_grow_with_the_number_of_bad_answers(echo):
    bad = [
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(bytes(10**7)),
        *CORPUS,
    ]
    quick = [answer for answer in bad if answer.startswith(b"HTTP/1.1") and len(answer) > 30]
    for answer in quick:
        echo.get(answer)
    forget_peak()
    before = peak()
    for _ in range(15):
        for answer in quick:
            echo.get(answer)
    assert peak() - before < 16
