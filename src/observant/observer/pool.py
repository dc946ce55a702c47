"""The pool of worker processes in which everything that strangers sent is read.

A page that is slow or large to read costs its own visit, and nothing else: it is read in a process
that has so many seconds and so much memory (see `worker`), never in the one that serves pages and
keeps leases. Lanes keep it from holding up others: small things never wait for large ones, and what
people ask for waits for neither. Workers start when they are first needed, end when nobody needs
them, and are replaced when they die.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import ctypes
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import msgspec

from observant.errors import BusyError, InputError, LimitError, WorkerError
from observant.observer.worker import WorkerReply, WorkerRequest

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
SMALL = 512 << 10
"""Bytes of a request up to which it is small."""
_MB = 1 << 20
_USUAL = 32 << 20
"""Bytes of a body and the version before, as long as nobody lifts the limits."""
ROOM = 8 * _MB
"""Bytes of requests that may wait in memory; the others wait in files."""
TOGETHER = 8
"""Small requests that a worker is given at once, if so many wait: fewer threads have to wake up."""
_PIPE = 1 << 19
_RETIRED = 3
"""Workers that may have ended before they took a request, one after the other."""
_WAIT = 30.0
"""Real seconds that a worker may need beyond ten times its processor time: machines are busy."""


class Lane(NamedTuple):
    """A queue with workers of its own, and what one request in it may cost."""

    workers: int
    seconds: float
    """Of processor time, and"""
    seconds_per_mb: float
    memory: int
    """Bytes."""
    most: int = sys.maxsize
    """Requests that may wait; more are turned away."""


LANES = {
    "small": Lane(2, 3, 0, 48 * _MB),
    "large": Lane(1, 3, 1.5, 128 * _MB),
    "asked": Lane(1, 5, 1.5, 160 * _MB, most=4),
}


class Pool:
    """Runs tasks by name in worker processes. Safe to use from many threads and event loops.

    >>> from observant.observer.tasks import Shown
    >>> with Pool() as workers:
    ...     workers.call("show", ("a cat", "a dog", "words"), Shown).text
    'a [-cat-]{+dog+}'
    """

    def __init__(self, lanes: dict[str, Lane] | None = None) -> None:
        self.lanes = LANES if lanes is None else lanes
        self._queues = {name: _Queue() for name in self.lanes}
        self._workers: list[_Worker] = []
        self._lock = threading.Lock()
        self._closed = False
        self.started = self.died = 0
        """Workers so far, and those that were ended by a limit or broke down."""

    def submit(self, task: str, given: Any, kind: type[T], *, lane: str = "") -> Future[T]:
        """Have it done: `given` goes to the task, and its answer, a `kind`, comes back."""
        packed = msgspec.msgpack.encode(given)
        lane = lane or ("small" if len(packed) <= SMALL else "large")
        limits, waiting = self.lanes[lane], self._queues[lane]
        if waiting.under_way >= limits.most + limits.workers:
            raise BusyError("too many of these are asked for at once: try again soon")
        future: Future[T] = Future()
        kept: bytes | _Spilled = packed
        if self.bytes + len(packed) > ROOM and waiting.under_way:  # its turn comes later
            kept = _Spilled(packed)
        job = _Job(task, kept, kind, limits, future)
        with self._lock:
            if self._closed:
                if isinstance(kept, _Spilled):
                    kept.close()
                raise WorkerError("the workers have been closed")
            waiting.put(job)
            if waiting.idle < waiting.jobs.qsize() and waiting.threads < limits.workers:
                waiting.threads += 1
                name = f"observant-{lane}-{waiting.threads}"
                threading.Thread(
                    target=self._serve, args=(waiting,), name=name, daemon=True
                ).start()
        return future

    def call(self, task: str, given: Any, kind: type[T], *, lane: str = "") -> T:
        """Have it done, and wait for it."""
        return self.submit(task, given, kind, lane=lane).result()

    async def run(self, task: str, given: Any, kind: type[T], *, lane: str = "") -> T:
        """Have it done while the event loop goes on."""
        return await asyncio.wrap_future(self.submit(task, given, kind, lane=lane))

    @property
    def under_way(self) -> int:
        """Requests that wait, or are being done."""
        return sum(waiting.under_way for waiting in self._queues.values())

    @property
    def bytes(self) -> int:
        """What waits in memory, or is being read."""
        return sum(waiting.bytes for waiting in self._queues.values())

    def close(self) -> None:
        """End all workers; what is under way fails."""
        with self._lock:
            self._closed = True
            for waiting in self._queues.values():
                for _ in range(waiting.threads):
                    waiting.jobs.put(None)
            for worker in self._workers:
                worker.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self, waiting: _Queue) -> None:
        """One thread for each worker: it has some requests in hand, and the worker others."""
        worker = _Worker()
        with self._lock:
            self._workers.append(worker)
        while jobs := waiting.take():
            try:
                self._do(worker, [job for job in jobs if job.future.set_running_or_notify_cancel()])
            finally:
                for job in jobs:
                    waiting.done(job)
                del jobs
        worker.kill()

    def _do(self, worker: _Worker, jobs: list[_Job]) -> None:
        """One after the other; those behind one that ends the worker go to the next worker."""
        retired = 0
        while jobs:
            future = jobs[0].future
            try:
                if self._closed:
                    raise WorkerError("the workers have been closed")  # noqa: TRY301
                self.started += worker.ready()
                value = worker.do(jobs)
                if value is _AGAIN:
                    retired += 1
                    if retired <= _RETIRED:
                        continue
                    raise WorkerError("no worker could be started")  # noqa: TRY301
            except WorkerError as error:
                self.died += worker.process is None
                future.set_exception(error)
            except BaseException as error:  # noqa: BLE001 (somebody waits for it)
                worker.kill()
                future.set_exception(error)
            else:
                retired = 0
                future.set_result(value)
            del jobs[0], future


class _Spilled:
    """A request that waits in a file: the large ones of many hosts do not fit into memory."""

    def __init__(self, packed: bytes) -> None:
        self._size = len(packed)
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (it is closed when it is read)
        self._file.write(packed)

    def __len__(self) -> int:
        return self._size

    def take(self) -> bytes:
        self._file.seek(0)
        return self._file.read()

    def close(self) -> None:
        """Nobody will read it any more."""
        self._file.close()


class _Job(NamedTuple):
    task: str
    packed: bytes | _Spilled
    kind: Any
    limits: Lane
    future: Future[Any]

    @property
    def held(self) -> int:
        """Bytes of memory while it waits."""
        return 0 if isinstance(self.packed, _Spilled) else len(self.packed)

    @property
    def memory(self) -> int:
        """Bytes; who lifts the limit of a body gives more to what reads it."""
        return self.limits.memory + 12 * max(0, len(self.packed) - _USUAL)

    @property
    def seconds(self) -> int:
        return round(self.limits.seconds + self.limits.seconds_per_mb * len(self.packed) / _MB)


class _Queue:
    """Jobs of one lane."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.threads = self.idle = self.under_way = self.bytes = 0
        self._lock = threading.Lock()

    def put(self, job: _Job) -> None:
        with self._lock:
            self.under_way += 1
            self.bytes += job.held
        self.jobs.put(job)

    def take(self) -> list[_Job]:
        """Wait for a job; of many small ones, the share of one worker. None is left at the end."""
        self.idle += 1
        job = self.jobs.get()
        self.idle -= 1
        if job is None:
            return []
        jobs = [job]
        share = min(TOGETHER, self.jobs.qsize() // job.limits.workers)
        while len(jobs) < share and 0 < jobs[-1].held <= _PIPE // TOGETHER:
            try:
                job = self.jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:  # the end, for one of the threads
                self.jobs.put(None)
                break
            jobs.append(job)
        return jobs

    def done(self, job: _Job) -> None:
        if isinstance(job.packed, _Spilled):
            job.packed.close()
        with self._lock:
            self.under_way -= 1
            self.bytes -= job.held


_AGAIN = object()
"""A worker ended by itself before it took the request: another one does it."""


class _Worker:
    """One process at a time, and the pipes to it."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._given = 0
        """Requests that it has and has not answered."""
        self._room = 0
        """Bytes that it can be given before it takes any of them."""
        self._came = bytearray()
        self._decode = msgspec.msgpack.Decoder(WorkerReply).decode

    def ready(self) -> bool:
        """See to it that there is a process; True if it is a new one.

        One that has ended may have answered some of what it was given: that is read first.
        """
        if self.process is not None and (self._given or self.process.poll() is None):
            return False
        self.kill()
        paths = [path for path in sys.path if path]
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "observant.observer.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env=os.environ
            | {
                "PYTHONPATH": os.pathsep.join(paths),
                "MALLOC_ARENA_MAX": "1",
                "OPENBLAS_NUM_THREADS": "1",
                "MALLOC_MMAP_THRESHOLD_": "262144",
            },
        )
        self._room = _widened(self.process.stdin)
        return True

    def do(self, jobs: list[_Job]) -> Any:
        """What came of the first; the next ones are given to the process with it, if they fit."""
        process, job = self.process, jobs[0]
        assert process is not None  # noqa: S101 (`ready` was called)
        deadline = _WAIT + 10 * job.seconds
        try:
            if not self._given:
                self._give(process.stdin, jobs)
            reply, value = self._receive(process.stdout, deadline)
        except (OSError, EOFError):
            error = self._death(process, job, deadline)
            if error is None:
                return _AGAIN
            raise error from None
        self._given -= 1
        job.future.seconds = reply.seconds  # type: ignore[attr-defined]
        if reply.what == "done":
            return msgspec.msgpack.decode(value, type=job.kind)
        if reply.what == "input":
            raise InputError(reply.message)
        if reply.what == "memory":
            self.kill()
            raise LimitError(f"this takes more than {job.memory // _MB} MB of memory to read")
        if reply.what == "broken":
            raise WorkerError(f"this cannot be read: {reply.message}")
        raise WorkerError(reply.message)

    def _give(self, pipe: Any, jobs: list[_Job]) -> None:
        """Write the first request, and others for which nobody has to wait: it may be writing
        answers meanwhile, which we read only when we have written.
        """
        pieces: list[bytes] = []
        size = 0
        for job in jobs:
            head = msgspec.msgpack.encode(
                WorkerRequest(job.task, len(job.packed), job.seconds, job.memory)
            )
            size += 4 + len(head) + len(job.packed)
            if pieces and size > self._room:
                break
            packed = job.packed.take() if isinstance(job.packed, _Spilled) else job.packed
            pieces += (len(head).to_bytes(4, "big") + head, packed)
            self._given += 1
        if size <= self._room:
            _write(pipe, b"".join(pieces))
        else:
            for piece in pieces:
                _write(pipe, piece)

    def kill(self) -> None:
        process, self.process, self._given = self.process, None, 0
        self._came.clear()
        if process is None:
            return
        with contextlib.suppress(OSError):
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _receive(self, pipe: Any, seconds: float) -> tuple[WorkerReply, bytes]:
        if not self._came:
            waiting = select.poll()
            waiting.register(pipe, select.POLLIN)
            if not waiting.poll(1000 * seconds):
                raise EOFError
        reply = self._decode(self._read(pipe, int.from_bytes(self._read(pipe, 4), "big")))
        return reply, self._read(pipe, reply.size)

    def _read(self, pipe: Any, size: int) -> bytes:
        """So many bytes; what has come beyond them is for the next."""
        came, place = self._came, pipe.fileno()
        while len(came) < size:
            piece = os.read(place, _MB)
            if not piece:
                raise EOFError
            came += piece
        taken = bytes(memoryview(came)[:size])
        del came[:size]
        return taken

    def _death(
        self, process: subprocess.Popen[bytes], job: _Job, deadline: float
    ) -> WorkerError | None:
        """What to say of a worker that gives no answer; None if it had ended before it began."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0 if process.poll() is not None else 0.2)
        code = process.returncode
        self.kill()
        if code == 0:
            return None
        if code is not None and -code == getattr(signal, "SIGXCPU", 0):
            return LimitError(f"this takes more than {job.seconds} s of processor time to read")
        if code is None:
            return LimitError(f"this takes more than {deadline:.0f} s to read")
        return WorkerError(f"the process that read this ended unexpectedly ({code})")


def _write(pipe: Any, data: bytes) -> None:
    view, place = memoryview(data), pipe.fileno()
    while view:
        view = view[os.write(place, view) :]


def _widened(pipe: Any) -> int:
    """Make room in a pipe; how much there is."""
    try:
        import fcntl

        with contextlib.suppress(OSError):  # not more than it has, then
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)
        return int(fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ))
    except (ImportError, AttributeError, OSError):  # not Linux: one request at a time
        return 0


def _keep_large_apart() -> None:
    """Have glibc give large blocks back when they are freed.

    It would put bodies of megabytes among small things after the first few, and keep them.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 1 << 18)


_MOVERS = ThreadPoolExecutor(2, thread_name_prefix="observant-bodies")


async def aside(work: Callable[[], T]) -> T:
    """Unpack or pack a large body in a thread: two at a time, since each takes its memory."""
    return await asyncio.get_running_loop().run_in_executor(_MOVERS, work)


_M_MMAP_THRESHOLD = -3
_shared: Pool | None = None
_owner = 0


def pool() -> Pool:
    """The pool of this process."""
    global _shared, _owner
    if _shared is None or _owner != os.getpid():  # a fork has its own
        _keep_large_apart()
        _shared, _owner = Pool(), os.getpid()
        atexit.register(_shared.close)
    return _shared
