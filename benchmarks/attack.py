"""Attacks on the whole product, as tables.

    python -m benchmarks.attack [TABLE ...] [--seconds SECONDS] [--settings NUMBER]

inside    forms of addresses that lead inside × ways in: asked, refused, connected
routes    routes × roles: asked, let through, refused, and how often the rules were not kept
document  requests that the OpenAPI document allows and forbids (schemathesis, for --seconds): how
          many, and answers that are a fault or not what the document says
readers   bombs × readers: what each body costs a worker, in processor seconds and megabytes
at-once   the worst that a body can cost which is read without a worker
settings  random settings (--settings, 400) by every way in: accepted, refused, and not survived
kills     observers and writers killed at random moments: visits and events lost or doubled
database  PostgreSQL away under two observers, also for 40 seconds: visits lost or doubled
serve     `observant serve` while twenty hosts serve the whole collection: how long /health takes,
          how much memory all its processes have, and how long it takes to end after SIGTERM

Each table is a function in `TABLES`, and what the tests assert is what it counts. Everything
happens on this machine; all of it takes about ten minutes.
"""

import argparse
import contextlib
import gzip
import http.client
import http.server
import json
import logging
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import ClassVar

import msgspec

from benchmarks.bombs import BOMBS, HTML, JSON, ROBOTS, TEXT, XML
from observant.errors import InputError, ObservantError
from observant.observer.content import Comparer, Rules
from observant.observer.fetched import Fetched
from observant.observer.tasks import AT_ONCE, BodyTask, run

MB = 2**20
HOSTS = 20
STARTING = 5.0
"""Seconds in which the service compiles and reads what it needs; the attack has begun already."""
PAGES = {
    "page": ("page", {}),
    "again": ("again", {}),
    "css": ("page", {"css": "p"}),
    "drop": ("page", {"drop": ["i"]}),
    "xpath": ("page", {"xpath": "//a"}),
    "jsonpath": ("page", {"jsonpath": "$..*"}),
    "jmespath": ("page", {"jmespath": "@"}),
    "regex": ("page", {"regex": "(a+)+b"}),
    "feed": ("feed", {}),
    "sitemap": ("sitemap", {}),
    "query": ("query", {}),
}
"""The readers: how a body is read, and by which rules."""
WHO = {
    HTML: ("page", "again", "css", "drop", "xpath", "regex", "query"),
    JSON: ("page", "again", "jsonpath", "jmespath", "regex"),
    XML: ("page", "again", "css", "xpath", "feed", "sitemap"),
    TEXT: ("page", "again", "regex", "sitemap"),
}


# -- bombs × readers ------------------------------------------------------------------------------


def readers(_seconds):
    """What every bomb costs every reader that would get it, each in a process of its own."""
    run("read", msgspec.msgpack.encode(asked(b"<p>warm", HTML, "page", {})))
    run("read", msgspec.msgpack.encode(asked(b"<rss version='2.0'/>", XML, "feed", {})))
    print(f"{'bomb':34}{'kB':>7}" + "".join(f"{name:>14}" for name in PAGES))
    worst = [0.0, 0.0]
    for name, bomb in (BOMBS | ROBOTS).items():
        cells = dict.fromkeys(PAGES, "")
        for reader in WHO[bomb.kind] if name in BOMBS else ():
            spent, grown, what = in_process(name, reader)
            cells[reader] = f"{spent:.1f}s {grown:4.0f}M{what}"
            worst = [max(worst[0], spent), max(worst[1], grown)]
        if name in ROBOTS:
            spent, grown, what = in_process(name, "robots")
            cells["page"] = f"{spent:.1f}s {grown:4.0f}M{what}"
            worst = [max(worst[0], spent), max(worst[1], grown)]
        row = "".join(f"{cell:>14}" for cell in cells.values())
        print(f"{name:34}{len(bomb.body()) / 1000:7,.0f}{row}", flush=True)
    print(
        f"worst: {worst[0]:.1f} s, {worst[1]:.0f} MB; "
        "t: ended by its time, m: by its memory, -: refused with a reason"
    )
    return worst


def in_process(name, reader):
    """Seconds, megabytes and how it ended: read with the limits of its lane in a new process."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.write(theirs, json.dumps(one(name, reader)).encode())
        os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as answer:  # noqa: PTH123
        found = answer.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
        return float("nan"), float("nan"), "t"
    if status:
        raise RuntimeError(f"{name}, {reader}: ended with {status}")
    return msgspec.json.decode(found, type=tuple[float, float, str])


def one(name, reader):
    """In that process: the limits of a worker, then the task."""
    from observant.observer.pool import LANES, SMALL
    from observant.observer.worker import _Limits

    bomb = (BOMBS | ROBOTS)[name]
    body = bomb.body()
    task, given = ("robots", (body, "observant")) if reader == "robots" else ("read", None)
    lane = LANES["small" if len(body) <= SMALL else "large"]
    limits = int(lane.seconds + lane.seconds_per_mb * len(body) / MB), lane.memory
    if given is None:
        with _Limits(*limits):  # of `again`, the first visit
            try:
                given = asked(body, bomb.kind, *PAGES[reader])
            except MemoryError:
                return 0.0, 0.0, "m"
    packed = msgspec.msgpack.encode(given)
    before, what = peak(), ""
    started = time.process_time()
    with _Limits(*limits):
        try:
            found = msgspec.msgpack.decode(run(task, packed))
            what = "-" if task == "read" and found["comparison"]["outcome"] == "failed" else ""
        except (MemoryError, SystemError):  # as a worker takes them
            what = "m"
        except (InputError, ObservantError):
            what = "-"
    return time.process_time() - started, (peak() - before) / MB, what


def asked(body, kind, form, rules):
    """A request to read; `again` is the second visit of a page that has changed everywhere."""
    comparer = Comparer(Rules(**rules))
    previous = None
    if form == "again":
        form = "page"
        first = answer(body, kind)
        found = comparer.compare(None, first)
        previous = comparer.after(None, first, found)
        body = body.translate(bytes.maketrans(b"x0k1w", b"y1l2v"))
    query = {"items": "p" if kind != JSON else "@"} if form == "query" else {}
    return BodyTask(
        form=form,
        rules=msgspec.to_builtins(comparer.rules),
        selection_version=comparer.selection_version,
        query=query,
        now=2e9,
        previous=previous,
        fetched=answer(body, kind),
    )


def answer(body, kind):
    return Fetched(url="http://a.example/", status=200, body=body, content_type=kind)


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def at_once(_seconds):
    """The worst that a small body costs in the process that serves pages."""
    worst = {}
    for name, bomb in BOMBS.items():
        body = bomb.body(AT_ONCE // 2)[: AT_ONCE // 2]
        other = body.translate(bytes.maketrans(b"x0k1w", b"y1l2v"))
        comparer = Comparer()
        started = time.process_time()
        found = comparer.compare(None, answer(body, bomb.kind))
        middle = time.process_time()
        before = comparer.after(None, answer(body, bomb.kind), found)
        comparer.compare(before, answer(other, bomb.kind))
        worst[name] = max(middle - started, time.process_time() - middle)
    for name, seconds in sorted(worst.items(), key=lambda pair: -pair[1])[:5]:
        print(f"{name:34}{1000 * seconds:8.1f} ms")
    return max(worst.values())


def accepted_settings(_seconds, number=400):
    """What is accepted by a way in has to be survived by a start."""
    from benchmarks.settings import survive

    with tempfile.TemporaryDirectory() as folder:
        told = survive(number, 1, Path(folder))
    print(told)
    return told


# -- what the tests assert, counted ---------------------------------------------------------------


def inside(_seconds):
    """Addresses that lead inside are refused, however they are written and whatever leads there."""
    from tests.test_transport_guard import ADDRESSES, DISGUISES, run, try_addresses, try_disguise

    ways = {"direct": "directly", "redirect": "by a redirect", "http": "by a name, http"}
    ways |= {"https": "by a name, https"}
    found, met = run(try_addresses(ADDRESSES))
    counts = Counter((ways[way], got.error or "connected") for _, way, got in found)
    for host in DISGUISES:
        errors, victims = run(try_disguise(host))
        met += victims
        for way, pair in (("directly", errors[:2]), ("by a redirect", errors[2:])):
            counts.update((f"disguised, {way}", error or "connected") for error in pair)
    kinds = ("refused-address", "bad-url", "connected")
    print(f"{'way in':28}" + "".join(f"{kind:>17}" for kind in kinds))
    for way in dict.fromkeys(way for way, _ in counts):
        print(f"{way:28}" + "".join(f"{counts[way, kind]:17,}" for kind in kinds))
    print(
        f"{len(ADDRESSES)} addresses and {len(DISGUISES)} disguises, each with robots.txt and "
        f"without: {counts.total():,} fetches, {len(met)} connections inside"
    )
    return len(met)


def routes(_seconds):
    """Every route for every role: who is let through, and who is refused."""
    from tests.service_world import World
    from tests.test_service_rules import MAY, REFUSED, WHO, try_routes

    print(f"{'who':12}{'may':>9}{'asked':>8}{'let through':>13}{'refused':>9}{'wrong':>7}")
    wrong = 0
    world = World().fill()
    try:
        for who in WHO:
            found = [
                (reply.status_code in REFUSED, allowed)
                for _, _, reply, allowed in try_routes(world, who)
            ]
            refused, broken = sum(no for no, _ in found), sum(no == yes for no, yes in found)
            through = len(found) - refused
            print(f"{who:12}{MAY[who]:>9}{len(found):8}{through:13}{refused:9}{broken:7}")
            wrong += broken
    finally:
        world.close()
    return wrong


def document(seconds):
    """What the document of the API allows and forbids: asked, faults, not as it says."""
    from tests.test_service_api import try_document

    end, seed, counts, wrong = time.monotonic() + seconds, 0, Counter(), {}
    while time.monotonic() < end:
        for operation, status, said in try_document(8, seed):
            counts[status // 100] += 1
            if said or status == 500:
                wrong[operation] = said or "a fault of ours"
        seed += 1_000
    told = ", ".join(f"{number:,} of {kind}xx" for kind, number in sorted(counts.items()))
    print(f"{counts.total():,} requests: {told}; {len(wrong)} operations that answered wrongly")
    for operation, said in wrong.items():
        print(f"{operation}: {said}")
    return len(wrong)


def kills(_seconds):
    """Killed at random moments: what was told is there, once."""
    from benchmarks.crash import observers, stores

    observers(40)
    stores(40)


def database(_seconds):
    """Two observers whose database crashes, comes back, is stopped and comes back."""
    from tests.postgres_server import servers
    from tests.test_outages import survive_stops

    print(f"{'lease s':>8}{'away s':>8}{'visits':>8}{'lost':>6}{'twice':>7}  back after s")
    for server in servers():
        for lease, away in ((60.0, 1.0), (60.0, 5.0), (2.0, 5.0), (60.0, 40.0)):
            visits, back = survive_stops(server, lease, away)
            again = ", ".join(f"{seconds:.1f}" for seconds in back)
            print(f"{lease:8g}{away:8g}{visits:8,}{0:6}{0:7}  {again}", flush=True)


# -- a service under attack -----------------------------------------------------------------------


class Hostile(http.server.BaseHTTPRequestHandler):
    """Serves the collection: /7/ is the eighth bomb; nearly every visit finds another one."""

    protocol_version = "HTTP/1.1"
    packed: ClassVar[dict[str, bytes]] = {}
    visits = 0
    lock = threading.Lock()

    def do_GET(self):
        host = int(self.headers["Host"].split(":")[0].rsplit(".", 1)[1])
        name = self.path.strip("/").split("/")[0]
        kind, status = TEXT, 200
        if name == "robots.txt":
            names = list(ROBOTS)
            body, status = self.bomb(names[host % len(names)]), 200 if host % 3 == 0 else 404
        else:
            with self.lock:
                Hostile.visits += 1
            chosen = list(BOMBS)[int(name)]
            kind, body = BOMBS[chosen].kind, self.bomb(chosen)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def bomb(self, name):
        """One of two versions, in turn: nearly every visit finds a change."""
        with self.lock:
            key = f"{name} {Hostile.visits % 2}"
            if key not in self.packed:
                body = (BOMBS | ROBOTS)[name].body()
                if key.endswith("1"):
                    body = body.translate(bytes.maketrans(b"x0k1w", b"y1l2v"))
                self.packed[key] = gzip.compress(body, 1)
            return self.packed[key]

    def log_message(self, *_given):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def serve(seconds):
    """The service is asked for its health all the time, while everybody attacks it."""
    server = Server(("0.0.0.0", 0), Hostile)  # noqa: S104 (127.0.0.1 to 127.0.0.20)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with service(settings(server.server_port)) as (process, port, place):
            told = attack(process, port, seconds, place / "log")
    finally:
        server.shutdown()
    told["visits"] = Hostile.visits
    for key, value in told.items():
        print(f"{key:34}{value:12,.3f}" if isinstance(value, float) else f"{key:34}{value:12,}")
    return told


@contextlib.contextmanager
def service(config, prepare=None):
    """`observant serve` with such a configuration file: its process, its port and its folder."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "observant.toml").write_text(config, "utf-8")
        if prepare is not None:
            prepare(str(place / "o.db"))
        port = free_port()
        command = [sys.executable, "-m", "observant", "serve", "--port", str(port)]
        command += ["--store", str(place / "o.db"), "--config", str(place / "observant.toml")]
        with (place / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=place)  # noqa: S603
        try:
            yield process, port, place
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def settings(port):
    """Every bomb as a page of every host, some with rules, some as feeds and sitemaps."""
    lines = [
        'budget = "20/s"',
        'allow = ["127.0.0.0/8"]',
        'host_delay = "50ms"',
        'defaults = {min_period = "1s"}',
    ]
    for host in range(1, HOSTS + 1):
        for number, (name, bomb) in enumerate(BOMBS.items()):
            if (number + host) % 4:
                continue
            kind = "sitemap" if "sitemap" in name else "feed" if "feed" in name else "http"
            if kind == "http" and bomb.kind == XML and host % 2:
                kind = "feed"
            lines += ["[[sources]]", f'url = "http://127.0.0.{host}:{port}/{number}/"']
            lines.append(f'kind = "{kind}"')
            rules = {0: 'css = "p"', 1: 'drop = ["i"]'}.get(host % 4)
            if rules and bomb.kind == HTML:
                lines.append(f"settings = {{compare = {{{rules}}}}}")
    return "\n".join(lines)


def attack(process, port, seconds, log):
    waits, sizes, failed = [], [], 0
    wait_for(process, port, log)
    rest, own = memory_of(process.pid), [memory_of(process.pid, alone=True)]
    first = time.monotonic() + STARTING
    end, looked, at_start = first + seconds, 0.0, 0.0
    while time.monotonic() < end and process.poll() is None:
        started = time.perf_counter()
        failed += not healthy(port)
        waited = time.perf_counter() - started
        if time.monotonic() < first:
            at_start = max(at_start, waited)
        else:
            waits.append(waited)
        if time.monotonic() > looked + 0.2:
            looked = time.monotonic()
            sizes.append(memory_of(process.pid))
            own.append(memory_of(process.pid, alone=True))
        time.sleep(0.02)
    alive = process.poll() is None
    process.send_signal(signal.SIGTERM)
    started = time.monotonic()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(60)
    waits.sort()
    return {
        "asked for its health": len(waits),
        "without an answer": failed,
        "longest ms while it starts": 1000 * at_start,
        "median ms": 1000 * waits[len(waits) // 2],
        "99 of 100 within ms": 1000 * waits[int(0.99 * len(waits))],
        "longest ms": 1000 * waits[-1],
        "over 250 ms": sum(waited > 0.25 for waited in waits),
        "memory at rest MB": rest / MB,
        "peak above rest MB": (max(sizes) - rest) / MB,
        "of these its own MB": (max(own) - own[0]) / MB,
        "alive at the end": int(alive),
        "seconds from SIGTERM to the end": time.monotonic() - started,
        "ended with": process.returncode if process.returncode is not None else -1,
    }


def wait_for(process, port, log):
    """Until the service answers."""
    while not healthy(port):
        if process.poll() is not None:
            raise RuntimeError(f"the service did not start: {log.read_text()}")
        time.sleep(0.1)


def healthy(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def memory_of(pid, *, alone=False):
    """Bytes of a process and all below it: what is shared counts once for all."""
    total = 0
    for one_of in [pid] if alone else family(pid):
        with contextlib.suppress(OSError, ValueError, IndexError):
            text = Path(f"/proc/{one_of}/smaps_rollup").read_text()
            total += int(text.split("\nPss:")[1].split()[0]) * 1024
    return total


def family(pid):
    found = [pid]
    for known in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{known}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
    return found


def free_port():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        return taken.getsockname()[1]


TABLES = {
    "inside": inside,
    "routes": routes,
    "document": document,
    "readers": readers,
    "at-once": at_once,
    "settings": accepted_settings,
    "kills": kills,
    "database": database,
    "serve": serve,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join(TABLES))
    parser.add_argument("--seconds", type=float, default=60.0, help="of serve and document")
    parser.add_argument("--settings", type=int, default=400, help="how many are drawn")
    options = parser.parse_args()
    tables = TABLES | {"settings": partial(accepted_settings, number=options.settings)}
    logging.disable()  # they say a lot, each time
    for name in options.tables or TABLES:
        print(f"\n{name}: {(TABLES[name].__doc__ or '').splitlines()[0]}", flush=True)
        tables[name](options.seconds)


if __name__ == "__main__":
    main()
