"""One request on its way through libcurl: its options, its callbacks, and the limits they keep."""

from __future__ import annotations

import math
import socket
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import pycurl

from observant.errors import BadBody, TooLarge
from observant.observer.transport.bodies import Body

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from observant.observer.clock import Clock
    from observant.observer.transport.guard import Guard
    from observant.observer.transport.limits import Limits
    from observant.store.visit import Error

_REDIRECTS = frozenset([301, 302, 303, 307, 308])
_REDIRECT_BODY = 64 * 2**10
"""Nobody reads the body of a redirect; so much of it is let through to keep the connection."""


class Request(msgspec.Struct, kw_only=True, gc=False):
    """One request to one address."""

    url: str
    headers: list[str]
    limits: Limits
    seconds: float
    """What is left of the time for the whole fetch."""
    method: str = "GET"
    body: bytes | None = None
    proxy: str = ""
    connect_to: str | None = None
    """`host:port:address:port`: where to find this host instead of asking the name server."""
    verify: bool = True


class Reply(msgspec.Struct, kw_only=True):
    """What came back: lines of the head, the body, or an error."""

    lines: list[bytes]
    status: int
    body: bytes
    error: Error | None
    message: str
    first_byte_at: float | None
    wire_bytes: int
    places: tuple[str, ...] = ()
    """Addresses that a browser was sent on to, the last one being where it is."""
    cpu: float | None = None
    """Seconds of processor time, where that was measured."""
    latency: float | None = None
    """Seconds that the server took, where that is not all of the time."""
    shot: bytes | None = None
    """A picture of the page, where a browser took one."""


class RequestEngine(Protocol):
    """What sends requests: libcurl, or a browser."""

    async def perform(self, request: Request) -> Reply:
        """Send a request. The world's faults are errors of the reply, never exceptions."""


class TransferContext(Protocol):
    """What a transfer needs of the engine it runs in."""

    guard: Guard
    clock: Clock
    user_agent: str
    cafile: str | None
    capath: str | None

    def later(self, action: Callable[[], object]) -> None: ...


class Transfer:
    """One easy handle with its callbacks; used again and again for plain requests."""

    __slots__ = (
        "_body",
        "_connect_to",
        "_engine",
        "_error",
        "_first_byte_at",
        "_head_bytes",
        "_head_ended",
        "_headers",
        "_in_body",
        "_limits",
        "_lines",
        "_message",
        "_proxied",
        "_proxy",
        "_raw",
        "_refusal",
        "_seconds",
        "_set_limits",
        "_status",
        "_verify",
        "answer_due",
        "curl",
        "done",
        "end_due",
    )

    def __init__(self, engine: TransferContext) -> None:
        self._engine = engine
        self.curl = curl = pycurl.Curl()
        self.done: asyncio.Future[tuple[int, str]] | None = None
        self.answer_due = self.end_due = math.inf
        self._headers: list[str] | None = None
        self._proxy, self._verify = "", True
        self._connect_to: str | None = None
        self._set_limits: Limits | None = None
        self._seconds = -1.0
        set_ = curl.setopt
        set_(pycurl.NOSIGNAL, 1)
        set_(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        set_(pycurl.FOLLOWLOCATION, 0)
        set_(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS)
        set_(pycurl.HTTP09_ALLOWED, 0)
        set_(pycurl.HTTP_CONTENT_DECODING, 0)
        set_(pycurl.PATH_AS_IS, 1)
        set_(pycurl.PROXY, "")  # an empty string: not even from the environment
        set_(pycurl.USERAGENT, engine.user_agent)
        set_(pycurl.BUFFERSIZE, 2**16)
        if engine.cafile:
            set_(pycurl.CAINFO, engine.cafile)
        if engine.capath:
            set_(pycurl.CAPATH, engine.capath)
        set_(pycurl.HEADERFUNCTION, self._on_header)
        set_(pycurl.WRITEFUNCTION, self._on_body)
        set_(pycurl.OPENSOCKETFUNCTION, self._on_open)
        self.clear()

    def clear(self) -> None:
        """Forget the last answer."""
        self.done = None
        self._lines: list[bytes] = []
        self._head_bytes, self._raw, self._status = 0, 0, 0
        self._head_ended = self._in_body = False
        self._body: Body | None = None
        self._error: Error | None = None
        self._message = ""
        self._refusal: str | None = None
        self._first_byte_at: float | None = None

    def prepare(self, request: Request) -> None:
        """Set only what differs from the last request made with this handle."""
        set_, limits = self.curl.setopt, request.limits
        self._limits, self._proxied = limits, bool(request.proxy)
        set_(pycurl.URL, request.url)
        if request.headers != self._headers:
            self._headers = request.headers
            set_(pycurl.HTTPHEADER, [line.encode() for line in request.headers])
        if limits is not self._set_limits:
            self._set_limits = limits
            set_(pycurl.CONNECTTIMEOUT_MS, max(int(limits.connect * 1000), 1))
            set_(pycurl.LOW_SPEED_LIMIT, limits.slow_bytes)
            set_(pycurl.LOW_SPEED_TIME, max(round(limits.slow_seconds), 1))
        if request.seconds != self._seconds:
            self._seconds = request.seconds
            set_(pycurl.TIMEOUT_MS, max(int(request.seconds * 1000), 1))
        if request.proxy != self._proxy:
            self._proxy = request.proxy
            set_(pycurl.PROXY, request.proxy)
        if request.connect_to != self._connect_to:
            self._connect_to = request.connect_to
            set_(pycurl.CONNECT_TO, [request.connect_to] if request.connect_to else [])
        if request.verify != self._verify:
            self._verify = request.verify
            set_(pycurl.SSL_VERIFYPEER, int(request.verify))
            set_(pycurl.SSL_VERIFYHOST, 2 if request.verify else 0)
        if request.method == "HEAD":
            set_(pycurl.NOBODY, 1)
        elif request.method != "GET" or request.body is not None:
            set_(pycurl.POST, 1)
            set_(pycurl.POSTFIELDSIZE_LARGE, len(request.body or b""))
            set_(pycurl.COPYPOSTFIELDS, request.body or b"")
            set_(pycurl.CUSTOMREQUEST, request.method)

    @property
    def heavy_body(self) -> Body | None:
        """The body, if what is left to do with it takes long."""
        return self._body if self._body is not None and self._body.heavy else None

    def reply(self, code: int, message: str) -> Reply:
        """What the transfer brought, after its end."""
        error = self._error
        body = b""
        stopped_on_purpose = self._head_ended and self._status in _REDIRECTS
        if code == pycurl.E_COULDNT_CONNECT and self._refusal is not None:
            error, message = "refused-address", self._refusal
        elif error is None and code and not stopped_on_purpose:
            error, message = _KINDS.get(code, "protocol"), message or f"libcurl error {code}"
            if message.startswith("Resolving timed out"):
                error = "dns"
        elif error is not None:
            message = self._message
        else:
            message = ""
        if self._body is not None and error is None:
            try:
                body = self._body.finish()
            except TooLarge as fault:
                error, message = "too-large", str(fault)
            except BadBody as fault:
                error, message = "protocol", str(fault)
        if self._body is not None and error == "too-large" and self._limits.truncate:
            body, error, message = self._body.so_far(), None, ""
        return Reply(
            lines=self._lines,
            status=self._status,
            body=body,
            error=error,
            message=message,
            first_byte_at=self._first_byte_at,
            wire_bytes=self._raw + self._head_bytes,
        )

    def finish(self, code: int, message: str) -> None:
        if self.done is not None and not self.done.done():
            self.done.set_result((code, message))

    def no_answer(self) -> None:
        """The time for the first byte is over."""
        if self._first_byte_at is None and self.done is not None and not self.done.done():
            seconds = min(self._limits.first_byte, self._seconds)
            self._stop("timeout", f"no answer within {seconds:g} seconds")
            self.finish(pycurl.E_OPERATION_TIMEDOUT, "")

    def _stop(self, error: Error, message: str) -> int:
        if self._error is None:
            self._error, self._message = error, message
        return -1

    def _on_open(self, _purpose: int, address: Any) -> Any:
        # Through a proxy the socket leads to the proxy, which the user has chosen; the target was
        # judged before.
        host = address.addr[0] if address.family in _FAMILIES else "a local socket"
        refusal = None if self._proxied else self._engine.guard.refusal(host)
        if refusal is not None:
            self._refusal = refusal  # another address of the same host may yet be fine
            return pycurl.SOCKET_BAD
        try:
            opened = socket.socket(address.family, address.socktype, address.protocol)
        except OSError:  # out of descriptors, or a family the machine does not have
            return pycurl.SOCKET_BAD
        self._engine.later(opened.close)  # libcurl works on a duplicate
        return opened

    def _on_header(self, line: bytes) -> int | None:
        limits, lines = self._limits, self._lines
        self._head_bytes += len(line)
        if self._head_bytes > limits.headers:
            return self._stop("too-large", f"more than {limits.headers} bytes of headers")
        if line.startswith(b"HTTP/"):
            if self._first_byte_at is None:
                self._first_byte_at = self._engine.clock.time()
            lines.clear()  # an interim answer, or the proxy's own
            self._head_ended = self._in_body = False
            status = line[9:12] if line[6:7] == b"." else line[7:10]
            self._status = int(status) if status.isdigit() else 0
        elif self._in_body:  # trailers
            return None
        elif line in {b"\r\n", b"\n"}:
            return self._on_head_end()
        elif len(lines) > limits.header_count:
            return self._stop("too-large", f"more than {limits.header_count} headers")
        lines.append(line)
        return None

    def _on_head_end(self) -> int | None:
        self._head_ended = True
        if self._status < 200 or self._status in _REDIRECTS:
            return None
        self._in_body = True
        codings, length = list[str](), None
        for line in self._lines:
            head = line[:17].lower()
            if head.startswith(b"content-encoding:"):
                names = line[17:].decode("latin-1").lower().split(",")
                codings += [name.strip() for name in names if name.strip() not in {"", "identity"}]
            elif head.startswith(b"content-length:"):
                length = line[15:].strip()
        limits = self._limits
        try:
            self._body = Body(limits.body, codings, limits.codings)
        except BadBody as fault:
            return self._stop("protocol", str(fault))
        if length and length.isdigit() and not limits.truncate and int(length[:20]) > limits.body:
            return self._stop("too-large", f"the body has more than {limits.body} bytes")
        return None

    def _on_body(self, data: bytes) -> int | None:
        self._raw += len(data)
        if self._body is None:
            return -1 if self._raw > _REDIRECT_BODY else None
        try:
            self._body.feed(data)
        except TooLarge as fault:
            return self._stop("too-large", str(fault))
        except BadBody as fault:
            return self._stop("protocol", str(fault))
        except Exception as fault:  # noqa: BLE001  (nothing may escape into C)
            return self._stop("protocol", f"{type(fault).__name__}: {fault}")
        return None


_FAMILIES = frozenset([socket.AF_INET, socket.AF_INET6])
_KINDS: dict[int, Error] = {
    pycurl.E_URL_MALFORMAT: "bad-url",
    pycurl.E_COULDNT_RESOLVE_PROXY: "dns",
    pycurl.E_COULDNT_RESOLVE_HOST: "dns",
    pycurl.E_COULDNT_CONNECT: "connect",
    pycurl.E_OPERATION_TIMEDOUT: "timeout",
    pycurl.E_SSL_CONNECT_ERROR: "tls",
    pycurl.E_PEER_FAILED_VERIFICATION: "tls",
    pycurl.E_SSL_CERTPROBLEM: "tls",
    pycurl.E_SSL_CIPHER: "tls",
    pycurl.E_SSL_CACERT_BADFILE: "tls",
    pycurl.E_SSL_ISSUER_ERROR: "tls",
    pycurl.E_SSL_PINNEDPUBKEYNOTMATCH: "tls",
    pycurl.E_SSL_INVALIDCERTSTATUS: "tls",
    pycurl.E_GOT_NOTHING: "connect",
    pycurl.E_RECV_ERROR: "connect",
    pycurl.E_SEND_ERROR: "connect",
    pycurl.E_FILESIZE_EXCEEDED: "too-large",
    100: "too-large",  # a header too long for libcurl itself; pycurl has no name for it
    pycurl.E_INTERFACE_FAILED: "connect",
    pycurl.E_ABORTED_BY_CALLBACK: "connect",
}
