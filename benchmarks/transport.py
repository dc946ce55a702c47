"""Fetching alone: pages per second of the transport, and of aiohttp in the same run.

    python -m benchmarks.transport

A server in a process of its own gives 20 kB pages from memory on loopback. Both clients ask the
same 64 host names, 64 requests at a time, over kept-alive connections; every body is read and its
length checked. Then the same with conditional requests that are answered 304. The transport does
all it always does (one parser, the guard, the host's turn, limits); pauses are set to zero, and
robots.txt is read once per host. CPU time is that of the client's process alone.
"""

import asyncio
import multiprocessing
import time

import aiohttp
from aiohttp.abc import AbstractResolver

from observant.observer.transport import Guard, Politeness, Transport, Validators

__all__ = ["main", "run"]

BODY = (b"<p>Nothing is as old as the page of yesterday.</p>\n" * 400)[:20_000]
HOSTS = [f"host-{number}.test" for number in range(64)]


def run(pages=8_000, at_once=64, rounds=3):
    """Measure in turns, keep the best of each, and return numbers by name."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=_serve, args=(there,), daemon=True)
    server.start()
    port = here.recv()
    best: dict[str, float] = {}
    try:
        for _ in range(rounds):
            for name, client in (("transport", _ours), ("aiohttp", _aiohttps)):
                for kind in ("200", "304"):
                    cpu, wall = time.process_time(), time.perf_counter()
                    asyncio.run(client(port, pages, at_once, conditional=kind == "304"))
                    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
                    key = f"{name}_{kind}"
                    best[key] = max(best.get(key, 0.0), pages / wall)
                    spent = f"{key}_cpu_us"
                    best[spent] = min(best.get(spent, 1e9), 1e6 * cpu / pages)
    finally:
        here.send(None)
        server.join(5)
    return best


def main():
    found = run()
    print("fetch alone, 20 kB pages, 64 hosts, 64 at a time (best of three)")
    for kind in ("200", "304"):
        ours, theirs = found[f"transport_{kind}"], found[f"aiohttp_{kind}"]
        print(
            f"  {kind}: transport {ours:,.0f} pages/s, {found[f'transport_{kind}_cpu_us']:.0f} us"
            f" CPU a page; aiohttp {theirs:,.0f}, {found[f'aiohttp_{kind}_cpu_us']:.0f} us;"
            f" {ours / theirs:.1f} times"
        )


async def _ours(port, pages, at_once, *, conditional):
    transport = Transport(
        guard=Guard(allow=["127.0.0.1/32"]),
        politeness=Politeness(floor=0, latency_factor=0),
        locate=lambda _host, _port: ("127.0.0.1", port),
        proxies={},
    )

    async def fetch(number):
        url = f"http://{HOSTS[number % 64]}/{number}"
        known = Validators(url=url, etag='"1"') if conditional else None
        fetched = await transport.fetch(url, validators=known)
        return len(fetched.body), fetched.status

    async with transport:
        await _all(fetch, pages, at_once, conditional=conditional)


async def _aiohttps(port, pages, at_once, *, conditional):
    class Loopback(AbstractResolver):
        async def resolve(self, host, _port=0, family=0):
            del family
            return [
                {
                    "hostname": host,
                    "host": "127.0.0.1",
                    "port": port,
                    "family": 2,
                    "proto": 0,
                    "flags": 0,
                }
            ]

        async def close(self):
            pass

    connector = aiohttp.TCPConnector(limit=at_once, limit_per_host=1, resolver=Loopback())
    async with aiohttp.ClientSession(connector=connector) as session:

        async def fetch(number):
            url = f"http://{HOSTS[number % 64]}:{port}/{number}"
            head = {"If-None-Match": '"1"'} if conditional else {}
            async with session.get(url, headers=head) as answer:
                return len(await answer.read()), answer.status

        await _all(fetch, pages, at_once, conditional=conditional)


async def _all(fetch, pages, at_once, *, conditional):
    numbers = iter(range(pages))
    expected = (0, 304) if conditional else (len(BODY), 200)

    async def worker():
        for number in numbers:
            found = await fetch(number)
            if found != expected:
                raise RuntimeError(f"page {number} came as {found}")

    await asyncio.gather(*(worker() for _ in range(at_once)))


def _serve(pipe):
    page = b'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nETag: "1"\r\nContent-Length: %d\r\n\r\n'
    page = page % len(BODY) + BODY
    same = b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n'
    none = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"

    class Server(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport, self.rest = transport, b""

        def data_received(self, data):
            *requests, self.rest = (self.rest + data).split(b"\r\n\r\n")
            for request in requests:
                if request.startswith(b"GET /robots.txt"):
                    self.transport.write(none)
                else:
                    self.transport.write(same if b"If-None-Match" in request else page)

    async def serve():
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Server, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await loop.run_in_executor(None, pipe.recv)
        server.close()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
