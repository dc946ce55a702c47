"""`serve`: the observer, deliveries and the application in one process and one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import uvicorn
from litestar.concurrency import set_asyncio_executor

from observant.errors import InputError, ObservantError
from observant.notifications import notifying
from observant.service.access import Access
from observant.service.app import checked_prefix, create_app
from observant.service.collection import Collection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from observant.observer.config import Config
    from observant.observer.loop import Observer
    from observant.store import Store

log = logging.getLogger("observant.service")
_STOPPING = 5.0
_ANSWERING = 24
"""Threads that answer requests. They are not those of the observer, which keeps leases and visits;
what takes long (visits that people ask for, differences) may have a few of them and no more."""
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds before an observer that has ended with an error is started again."""


@dataclass(frozen=True, kw_only=True)
class Serving:
    """How the service is reached."""

    host: str = "127.0.0.1"
    port: int = 8321
    """0 takes any free one."""
    prefix: str = ""
    proxies: tuple[str, ...] = field(default=())
    """Addresses of reverse proxies whose X-Forwarded headers are believed; by default none."""


async def serve(
    store: Store,
    config: Config,
    serving: Serving,
    *,
    observer: Observer | None = None,
    told: Callable[[str, tuple[str, str] | None], None] | None = None,
    until: asyncio.Event | None = None,
) -> None:
    """Serve until Ctrl-C, SIGTERM, or `until` is set.

    `told` is called when it can be reached: with the address, and with the name and password of
    the owner if this run has just made one.
    """
    stop = until or asyncio.Event()
    listening = _listen(serving)  # first: a password that is made now must also be told
    access = await asyncio.to_thread(Access, store)
    credentials = await asyncio.to_thread(access.first_run)
    collection = Collection(store, config, observer, loop=asyncio.get_running_loop())
    app = create_app(collection, access=access, prefix=serving.prefix)
    answering = ThreadPoolExecutor(_ANSWERING, thread_name_prefix="observant-answering")
    # Set beside the loop: Litestar fears that answers are under way, and there are none yet.
    await asyncio.to_thread(set_asyncio_executor, answering)
    server = _WebServer(
        uvicorn.Config(
            app,
            proxy_headers=bool(serving.proxies),
            forwarded_allow_ips=list(serving.proxies),
            server_header=False,
            access_log=False,
            log_config=None,
            lifespan="on",
            timeout_keep_alive=30,
            timeout_graceful_shutdown=int(_STOPPING),
            h11_max_incomplete_event_size=64 << 10,
        )
    )
    tasks: list[asyncio.Task[Any]] = [
        asyncio.create_task(server.serve(sockets=[listening]), name="the server")
    ]
    waiting = asyncio.create_task(stop.wait())
    with _signals(stop):
        async with notifying(store, config, observer=observer):
            if observer is not None:
                tasks.append(asyncio.create_task(_observe(observer, stop), name="the observer"))
            warming = asyncio.create_task(asyncio.to_thread(_warm, collection))
            try:
                await _started(server, tasks[0])
                if told is not None:
                    told(_address(serving, listening), credentials)
                await asyncio.wait([*tasks, waiting], return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
                stop.set()
                server.should_exit = True
                if observer is not None:
                    observer.stop()
                results = await asyncio.gather(*tasks, return_exceptions=True)
                await warming
                await asyncio.to_thread(set_asyncio_executor, None)
                answering.shutdown(wait=False, cancel_futures=True)
                collection.cache.close()
                listening.close()
    for task, result in zip(tasks, results, strict=True):
        if isinstance(result, Exception):
            log.error("%s ended with an error", task.get_name(), exc_info=result)
            raise result


async def _observe(observer: Observer, stop: asyncio.Event) -> None:
    """Run the observer until `stop`: an error in it never ends the service, only a pause follows.

    The pause is doubled with each error that follows soon.
    """
    pause = _FIRST_PAUSE
    while not stop.is_set():
        began = asyncio.get_running_loop().time()
        try:
            await observer.run()
        except Exception as error:
            observer.problem = f"{type(error).__name__}: {error}"
            log.exception("the observer ended with an error, and is started again")
        else:
            return
        if asyncio.get_running_loop().time() - began > _LONGEST_PAUSE:
            pause = _FIRST_PAUSE
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


class _WebServer(uvicorn.Server):
    """Signals are ours: the observer has to end with the server."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _warm(collection: Collection) -> None:
    """Compute what the first page shows, so that nobody waits for it."""
    with contextlib.suppress(ObservantError):
        collection.overview()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host.

    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(serving: Serving) -> socket.socket:
    checked_prefix(serving.prefix)
    family = socket.AF_INET6 if ":" in serving.host else socket.AF_INET
    # With the protocol named, asyncio turns Nagle's delay of 40 ms off.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((serving.host, serving.port))
    except OSError as error:
        listening.close()
        raise InputError(
            f"{serving.host} port {serving.port} cannot be used: {error.strerror}; choose another "
            "with --host and --port"
        ) from error
    return listening


def _address(serving: Serving, listening: socket.socket) -> str:
    host = f"[{serving.host}]" if ":" in serving.host else serving.host
    return f"http://{host}:{listening.getsockname()[1]}{checked_prefix(serving.prefix)}/"


async def _started(server: uvicorn.Server, task: asyncio.Task[None]) -> None:
    while not server.started and not task.done():  # noqa: ASYNC110 (it has no event to wait for)
        await asyncio.sleep(0.02)


@contextlib.contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    names = (signal.SIGINT, signal.SIGTERM)
    with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
        for name in names:
            loop.add_signal_handler(name, stop.set)
    try:
        yield
    finally:
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            for name in names:
                loop.remove_signal_handler(name)
