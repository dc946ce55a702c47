"""Politeness and robots.txt, on a simulated clock: the transport is real, only the network behind
it is played. Hours of pauses pass in milliseconds.
"""

import asyncio
import random
from email.utils import formatdate
from itertools import pairwise
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observant.errors import InputError
from observant.observer.transport import Politeness, Transport
from observant.observer.transport.politeness import Host
from observant.observer.transport.transfer import Reply

from .patience import cpu_within, in_simulated_time

EPOCH = 1_700_000_000.0


class Clock:
    def time(self):
        return EPOCH + asyncio.get_running_loop().time()

    def monotonic(self):
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds):
        await asyncio.sleep(seconds)


class Network:
    """Plays the world: `answer(url)` gives (seconds, status, headers, body) or an error's name."""

    def __init__(self, answer):
        self.answer = answer
        self.log = []
        """(start, end, url) of every request, in the order of their ends."""
        self.running = 0

    async def perform(self, request):
        loop = asyncio.get_running_loop()
        start = loop.time()
        try:
            found = self.answer(request.url)
            if isinstance(found, str):
                await asyncio.sleep(0.1)
                return _reply(0, {}, b"", found)
            seconds, status, headers, body = found
            await asyncio.sleep(seconds)
            limit = request.limits
            return _reply(status, headers, body[: limit.body] if limit.truncate else body, None)
        finally:
            self.log.append((start, loop.time(), request.url))

    def close(self):
        pass


def _reply(status, headers, body, error):
    return Reply(
        lines=[f"{name}: {value}\r\n".encode() for name, value in headers.items()],
        status=status,
        body=body,
        error=error,
        message=error or "",
        first_byte_at=None,
        wire_bytes=100,
    )


def page(_url):
    return 0.2, 200, {}, b"page"


def no_rules(url):
    return (0.1, 404, {}, b"") if url.endswith("/robots.txt") else page(url)


def play(work, answer=no_rules, **options):
    """Run `work(client, network)` in simulated time."""

    async def main():
        network = Network(answer)
        async with Transport(clock=Clock(), proxies={}, **options) as client:
            client._engine = network
            return await work(client, network)

    return in_simulated_time(main())


def by_host(log):
    hosts = {}
    for entry in sorted(log):
        hosts.setdefault(urlsplit(entry[2]).hostname, []).append(entry)
    return hosts


def pauses(entries):
    """From the end of a request to the start of the next."""
    return [after[0] - before[1] for before, after in pairwise(entries)]


ENDLESS = float("inf")


@pytest.mark.slow
def test_ten_thousand_sources_on_one_host():
    """Checklist item 6: never two in flight, never below the floor."""
    dice = random.Random(7)  # noqa: S311

    def answer(url):
        if url.endswith("/robots.txt"):
            return 0.1, 404, {}, b""
        return dice.uniform(0.01, 0.6), 200, {}, b"page"

    async def work(client, network):
        urls = [f"http://one.example/{number}" for number in range(10_000)]
        answers = await asyncio.gather(*(client.fetch(url) for url in urls))
        assert all(got.ok for got in answers)
        return network.log

    rules = Politeness(floor=1.0, latency_factor=2.0, patience=ENDLESS)
    log = play(work, answer, politeness=rules)
    entries = sorted(log)
    assert len(entries) == 10_001
    assert [url for *_, url in entries[:3]] == [
        "http://one.example/robots.txt",
        "http://one.example/0",
        "http://one.example/1",
    ]
    rests = pauses(entries)
    assert min(rests) >= 1.0 - 1e-6
    assert max(rests) < 2.0  # and no time is wasted either


def test_disorder_changes_nothing():
    """With everything that can go wrong: refusals, outages, redirects, people who leave."""
    dice = random.Random(11)  # noqa: S311
    rested = {}

    def answer(url):
        host = urlsplit(url).hostname
        if url.endswith("/robots.txt"):
            return 0.1, 404, {}, b""
        now = asyncio.get_running_loop().time()
        fate = dice.random()
        if fate < 0.05:
            rested.setdefault(host, []).append((now + 0.1, 30.0))
            return 0.1, 429, {"Retry-After": "30"}, b""
        if fate < 0.08:
            date = formatdate(EPOCH + now + 60, usegmt=True)
            rested.setdefault(host, []).append((now + 0.1, 58.0))
            return 0.1, 503, {"Retry-After": date}, b""
        if fate < 0.10:
            return dice.choice(["connect", "timeout", "dns", "protocol"])
        if fate < 0.2:
            other = dice.choice(["a.example", "b.example", "c.example"])
            location = f"http://{other}/{dice.random()}"
            return 0.1, 302, {"Location": location}, b""
        return dice.uniform(0, 0.4), 200, {}, b""

    async def work(client, network):
        async def one(number):
            await asyncio.sleep(dice.uniform(0, 500))
            task = asyncio.ensure_future(
                client.fetch(
                    f"http://{'abc'[number % 3]}.example./{number}", robots=number % 2 == 0
                )
            )
            if dice.random() < 0.2:
                await asyncio.sleep(dice.uniform(0, 300))
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        await asyncio.gather(*(one(number) for number in range(1500)))
        assert not any(host.busy or host.waiting for host in client.hosts)
        return network.log

    log = play(work, answer, politeness=Politeness(floor=0.5, patience=ENDLESS))
    same_host = [(start, end, url.replace(".example.", ".example")) for start, end, url in log]
    hosts = by_host(same_host)
    assert set(hosts) == {"a.example", "b.example", "c.example"}
    for name, entries in hosts.items():
        assert len(entries) > 300
        assert min(pauses(entries)) >= 0.5 - 1e-6
        starts = [start for start, *_ in entries]
        for told_at, rest in rested[name] + rested.get(name + ".", []):
            assert not any(told_at + 1e-6 < start < told_at + rest - 1e-6 for start in starts)


def test_hosts_do_not_wait_for_each_other():
    async def work(client, network):
        urls = [f"http://host-{number}.example/" for number in range(300)]
        await asyncio.gather(*(client.fetch(url) for url in urls))
        return network.log

    log = play(work)
    assert max(end for _, end, _ in log) < 3.0
    assert len(by_host(log)) == 300


def test_the_pause_follows_latency_up_to_a_ceiling():
    latency = {"fast": 0.1, "slow": 4.0, "dead slow": 25.0}

    def rests(name):
        async def work(client, network):
            for number in range(6):
                await client.fetch(f"http://h.example/{number}", robots=False)
            return pauses(sorted(network.log))

        return play(work, lambda _: (latency[name], 200, {}, b""))

    assert rests("fast") == pytest.approx([1.0] * 5)
    assert rests("slow") == pytest.approx([8.0] * 5)
    assert rests("dead slow") == pytest.approx([30.0] * 5)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("User-agent: *\nCrawl-delay: 7", 7.0),
        ("User-agent: *\nCrawl-delay: 86400", 300.0),
        ("User-agent: *\nCrawl-delay: nan", 1.0),
        ("User-agent: *\nCrawl-delay: -5", 1.0),
        ("User-agent: *\nRequest-rate: 1/20", 20.0),
        ("User-agent: *\nRequest-rate: 0/20", 1.0),
        (f"User-agent: *\nRequest-rate: {'9' * 400}/{'9' * 400}", 1.0),
        ("User-agent: other\nCrawl-delay: 7", 1.0),
        ("User-agent: observant\nCrawl-delay: 3\n\nUser-agent: *\nCrawl-delay: 9", 3.0),
    ],
)
def test_crawl_delay(lines, expected):
    def answer(url):
        return (0.1, 200, {}, lines.encode()) if url.endswith("robots.txt") else page(url)

    async def work(client, network):
        for number in range(4):
            assert (await client.fetch(f"http://h.example/{number}")).ok
        return pauses(sorted(network.log))

    # The pause after robots.txt itself is known only when it has been read.
    assert play(work, answer)[1:] == pytest.approx([expected] * 3)


def test_refusals_grow_the_pause_and_good_answers_halve_it():
    rules = Politeness(floor=1.0, backoff_first=10.0, backoff_cap=100.0)
    host = Host("h", rules)
    grown = []
    for _ in range(6):
        host.ended(0.0, 0.1, status=429, retry_after=None)
        grown.append(host.free)
    assert grown == [10, 20, 40, 80, 100, 100]
    assert host.failures == 6
    shrunk = []
    for _ in range(8):
        host.ended(0.0, 0.1, status=200, retry_after=None)
        shrunk.append(host.free)
    assert shrunk == [50, 25, 12.5, 6.25, 3.125, 1.5625, 1, 1]
    assert host.failures == 0


def test_an_outage_grows_the_pause_but_not_for_long():
    host = Host("h", Politeness(outage_first=2.0, outage_cap=60.0))
    grown = []
    for _ in range(7):
        host.ended(0.0, 0.1, status=0, retry_after=None)
        grown.append(host.free)
    assert grown == [2, 4, 8, 16, 32, 60, 60]
    # An outage never shortens the pause after a refusal.
    host.penalty = 3000.0
    host.ended(0.0, 0.1, status=0, retry_after=None)
    assert host.free == 3000.0


def test_hosts_are_forgiven_when_it_was_the_network():
    """Who waits for a host that seemed to be dead goes on at once; a refusal is not forgiven."""
    away = []

    def answer(url):
        if away:
            return "connect"
        if url == "https://busy.example/":
            return 0.1, 429, {}, b""
        return no_rules(url)

    async def work(client, _):
        loop = asyncio.get_running_loop()
        for host in ("one", "busy"):
            await client.fetch(f"https://{host}.example/")
        refused = client.hosts["busy.example"].penalty
        assert refused >= 10
        away.append(True)
        for _ in range(6):
            await asyncio.gather(
                *(client.fetch(f"https://{host}.example/") for host in ("one", "busy"))
            )
        await client.fetch("https://one.example/")
        assert client.hosts["one.example"].free > loop.time() + 60
        waiting = asyncio.create_task(client.fetch("https://one.example/"))
        await asyncio.sleep(1)
        away.clear()
        back = loop.time()
        client.hosts.forgive()
        assert (await waiting).status == 200
        assert loop.time() - back < 2
        assert client.hosts["busy.example"].penalty == refused
        assert client.hosts["busy.example"].free <= back + refused
        await client.fetch("https://one.example/")  # and whoever comes later waits for the floor
        assert loop.time() - back < 4

    play(work, answer)


@pytest.mark.parametrize(
    ("told", "expected"),
    [("90", 90.0), ("0", 10.0), ("999999999", 86_400.0), ("soon", 10.0), ("-1", 10.0), ("", 10.0)],
)
def test_retry_after(told, expected):
    async def work(client, _network):
        now = Clock().time()
        await client.fetch("http://h.example/", robots=False)
        return client.free_at("http://h.example/other") - now - 0.2

    found = play(work, lambda _: (0.2, 503, {"Retry-After": told}, b""))
    assert found == pytest.approx(expected)


def test_a_fetch_does_not_wait_for_ever():
    def answer(_url):
        return 0.2, 429, {"Retry-After": "4000"}, b""

    async def work(client, network):
        await client.fetch("http://h.example/1", robots=False)
        before = Clock().time()
        got = await client.fetch("http://h.example/2", robots=False)
        return (
            got,
            Clock().time() - before,
            client.free_at("http://h.example/") - before,
            network.log,
        )

    got, waited, free_in, log = play(work, answer)
    assert (got.error, got.status, waited, len(log)) == ("timeout", 0, 0.0, 1)
    assert "wants rest" in got.message
    assert free_in == pytest.approx(4000)


def test_free_at_counts_those_who_wait():
    async def work(client, _network):
        tasks = [
            asyncio.ensure_future(client.fetch(f"http://h.example/{n}", robots=False))
            for n in range(5)
        ]
        assert client.free_at("http://h.example/") == EPOCH  # nobody has begun
        await asyncio.sleep(0.1)
        ahead = client.free_at("http://h.example/") - Clock().time()
        await asyncio.gather(*tasks)
        assert client.free_at("http://new.example/") == Clock().time()
        assert client.free_at("not an address") == Clock().time()
        return ahead

    assert play(work) == pytest.approx(5.0, abs=0.5)


def test_hosts_that_wait_for_each_other_do_not_wait_for_ever():
    def answer(url):
        parts = urlsplit(url)
        if parts.path == "/start":
            other = {"a.example": "b.example", "b.example": "a.example"}[parts.hostname]
            return 0.1, 302, {"Location": f"http://{other}/end"}, b""
        return page(url)

    async def work(client, _network):
        starts = [f"http://{'ab'[n % 2]}.example/start" for n in range(40)]
        return await asyncio.gather(*(client.fetch(url, robots=False) for url in starts))

    assert all(got.ok for got in play(work, answer))


def test_the_next_hop_goes_first():
    def answer(url):
        if url.endswith("/0"):
            return 0.1, 302, {"Location": "/moved"}, b""
        return page(url)

    async def work(client, network):
        urls = [f"http://h.example/{number}" for number in range(4)]
        await asyncio.gather(*(client.fetch(url, robots=False) for url in urls))
        return [url.rpartition("/")[2] for *_, url in sorted(network.log)]

    assert play(work, answer) == ["0", "moved", "1", "2", "3"]


def test_a_turn_that_comes_too_late_goes_to_the_next():
    """The turn is given and its owner leaves in the same moment."""

    async def work(client, _network):
        host = client.hosts["h.example"]
        await client.hosts.enter(host)
        late = asyncio.ensure_future(client.hosts.enter(host))
        following = asyncio.ensure_future(client.hosts.enter(host))
        await asyncio.sleep(0)
        client.hosts.leave(host, 0.1, status=200)  # with no pause: it is the next one's turn
        late.cancel()
        await asyncio.wait_for(following, 10)
        return late.cancelled(), host.busy

    assert play(work, politeness=Politeness(floor=0, latency_factor=0)) == (True, True)


def test_rested_hosts_are_forgotten(monkeypatch):
    from observant.observer.transport import politeness

    monkeypatch.setattr(politeness, "_ENOUGH", 50)

    async def work(client, _network):
        for number in range(49):
            await client.fetch(f"http://h{number}.example/", robots=False)
        await asyncio.sleep(5000)
        await client.fetch("http://fresh.example/", robots=False)
        await client.fetch("http://last.example/", robots=False)
        return {host.name for host in client.hosts}

    assert play(work) == {"fresh.example", "last.example"}


@given(
    st.lists(st.tuples(st.sampled_from([0, 200, 304, 404, 429, 500, 503]), st.floats(0, 100))),
    st.floats(0, 5),
)
def test_the_pause_is_never_below_the_floor(events, floor):
    rules = Politeness(floor=floor)
    host, now = Host("h", rules), 0.0
    for status, seconds in events:
        host.ended(now, seconds, status=status, retry_after=None)
        assert floor <= host.free - now + 1e-9 <= 4000
        now = host.free


def test_rules_that_make_no_sense():
    with pytest.raises(InputError, match="floor"):
        Politeness(floor=float("nan"))


# ---- robots.txt


def with_robots(robots):
    def answer(url):
        return robots(url) if url.endswith("/robots.txt") else page(url)

    return answer


def ask(client, path="/page"):
    return client.fetch(f"http://h.example{path}")


@pytest.mark.parametrize(
    ("robots", "error"),
    [
        ((0.1, 200, {}, b"User-agent: *\nDisallow: /"), "robots"),
        ((0.1, 200, {}, b"User-agent: *\nDisallow: /other"), None),
        ((0.1, 200, {}, b"User-agent: *\nDisallow: /\nAllow: /page"), None),
        ((0.1, 200, {}, b"User-agent: *\nDisallow: /p*e$"), "robots"),
        (
            (0.1, 200, {}, b"User-agent: Observant\nDisallow: /\n\nUser-agent: *\nAllow: /"),
            "robots",
        ),
        ((0.1, 200, {}, b"User-agent: *\nDisallow: /\n\nUser-agent: observant\nAllow: /"), None),
        ((0.1, 200, {}, b"User-agent: observantbot\nDisallow: /"), None),
        ((0.1, 200, {}, b"\xef\xbb\xbfUser-agent: *\nDisallow: /"), "robots"),
        ((0.1, 200, {}, b"User-agent: *\r\rDisallow: /"), "robots"),
        ((0.1, 200, {}, b""), None),
        ((0.1, 200, {}, b"\xff\xfe\0\0<html>not found</html>"), None),
        ((0.1, 204, {}, b""), None),
        ((0.1, 401, {}, b"User-agent: *\nDisallow: /"), None),
        ((0.1, 403, {}, b""), None),
        ((0.1, 404, {}, b"User-agent: *\nDisallow: /"), None),
        ((0.1, 410, {}, b""), None),
        ((0.1, 429, {}, b""), "robots"),
        ((0.1, 500, {}, b""), "robots"),
        ((0.1, 503, {}, b""), "robots"),
        ("dns", "dns"),
        ("connect", "connect"),
        ("timeout", "timeout"),
        ("tls", "tls"),
    ],
)
def test_what_robots_txt_means(robots, error):
    async def work(client, network):
        got = await ask(client)
        return got, [url for *_, url in network.log if "robots" not in url]

    got, asked = play(work, with_robots(lambda _: robots))
    assert got.error == error
    assert len(asked) == (0 if error else 1)
    if error not in {None, "robots"}:
        assert got.message.startswith("robots.txt: ")


def test_a_source_may_go_without_robots_txt():
    async def work(client, network):
        first = await client.fetch("http://h.example/page", robots=False)
        return first, await ask(client), len(network.log)

    allowed, refused, requests = play(
        work, with_robots(lambda _: (0.1, 200, {}, b"User-agent: *\nDisallow: /"))
    )
    assert (allowed.ok, refused.error, requests) == (True, "robots", 2)


@pytest.mark.slow
def test_only_the_first_500_kib_count():
    filler = b"# filler\n" * 60_000
    assert len(filler) > 500 * 1024
    early = b"User-agent: *\nDisallow: /page\n" + filler
    late = filler + b"User-agent: *\nDisallow: /page\n"

    async def work(client, _network):
        return await ask(client)

    assert play(work, with_robots(lambda _: (0.1, 200, {}, early))).error == "robots"
    assert play(work, with_robots(lambda _: (0.1, 200, {}, late))).error is None


def test_it_is_fetched_once_for_all_who_come_and_again_after_some_hours():
    async def work(client, network):
        def times():
            return sum("robots" in url for *_, url in network.log)

        await asyncio.gather(*(ask(client, f"/{number}") for number in range(50)))
        assert times() == 1
        await asyncio.sleep(5 * 3600)
        await ask(client)
        assert times() == 1
        await asyncio.sleep(2 * 3600)
        await ask(client)
        assert times() == 2
        await client.fetch("https://h.example/")  # another origin
        assert times() == 3

    play(work)


def test_the_old_rules_hold_while_new_ones_cannot_be_read():
    state = {"answer": (0.1, 200, {}, b"User-agent: *\nDisallow: /no")}

    async def work(client, network):
        verdicts = []
        for answer in (None, (0.1, 500, {}, b""), "dns", (0.1, 200, {}, b"")):
            state["answer"] = answer or state["answer"]
            verdicts.append([(await ask(client, path)).error for path in ("/no", "/yes")])
            await asyncio.sleep(24 * 3600)
        return verdicts, sum("robots" in url for *_, url in network.log)

    verdicts, times = play(work, with_robots(lambda _: state["answer"]))
    assert verdicts == [["robots", None]] * 3 + [[None, None]]
    assert 4 <= times <= 6


def test_a_broken_robots_txt_is_asked_for_less_and_less():
    async def work(client, network):
        for _ in range(2 * 24 * 60):
            assert (await ask(client)).error == "robots"
            await asyncio.sleep(60)
        return [start for start, _, url in sorted(network.log) if "robots" in url]

    starts = play(work, with_robots(lambda _: (0.1, 500, {}, b"")))
    gaps = [after - before for before, after in pairwise(starts)]
    assert gaps[:4] == pytest.approx([300, 600, 1200, 2400], abs=120)
    assert max(gaps) < 6.1 * 3600
    assert len(starts) < 20


def test_its_redirects_are_followed_but_not_for_ever():
    def robots(url):
        if url.startswith("http://h."):
            return 0.1, 301, {"Location": "http://rules.example/robots.txt"}, b""
        return 0.1, 200, {}, b"User-agent: *\nDisallow: /page"

    async def work(client, _network):
        return await ask(client)

    assert play(work, with_robots(robots)).error == "robots"

    def circling(url):
        host = urlsplit(url).hostname
        return 0.1, 301, {"Location": f"http://x{host}/robots.txt"}, b""

    assert play(work, with_robots(circling)).error is None  # unavailable, so no rules


@pytest.mark.slow
def test_a_hostile_robots_txt_does_not_take_long():

    rules = [
        b"User-agent: *\n" + b"Disallow: /" + b"*a" * 20_000 + b"$\n",
        b"User-agent: *\n" + b"".join(b"Disallow: /*%d*x$\n" % n for n in range(20_000)),
        b"User-agent: " + b"a" * 400_000 + b"\nDisallow: /",
        b"\n".join([b"User-agent: observant"] * 15_000) + b"\nDisallow: /x",
    ]

    async def work(client, _network):
        return await ask(client, "/" + "a" * 4000)

    for text in rules:
        with cpu_within(5):  # 0.2 s when it was built
            assert play(work, with_robots(lambda _, text=text: (0.1, 200, {}, text))).ok


@pytest.mark.slow
def test_many_hostile_robots_txts_do_not_fill_the_memory():
    """What is kept of robots.txt files is bounded in bytes, not only in number."""

    async def work(client, _network):
        for number in range(25):
            got = await client.fetch(f"http://h{number}.example/page")
            assert got.ok
        robots = client.robots
        kept = [len(entry.packed) for entry in robots._entries.values()]
        assert robots._bytes == sum(kept)
        read = [size for _, size in robots._shelf._read.values()]
        assert robots._shelf._bytes == sum(read)
        return sum(kept), len(kept), sum(read)

    dice = random.Random(5)  # noqa: S311

    def robots(_url):
        lines = [f"Disallow: /{dice.getrandbits(400):x}" for _ in range(3000)]
        return 0.1, 200, {}, "\n".join(["User-agent: *", *lines]).encode()

    from observant.observer.transport import robots as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_ORIGIN_BYTES", 2**20)
        kept, origins, read = play(work, with_robots(robots))
    assert kept <= 2**20
    assert 3 < origins < 25
    assert read <= 4 * 2**20
