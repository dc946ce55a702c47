"""One hostile host costs its own visits, and nothing else.

Bodies that were made to be slow or large to read (benchmarks/bombs.py) go to worker processes with
limits of processor time and memory; each reader takes time in proportion all the same. Limits here
are counted by the system in processor seconds and bytes, never by a clock on the wall.
"""

import asyncio
import copy
import importlib
import os
import signal
import time
from concurrent.futures import Future
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from protego import Protego

from observant.errors import BusyError, LimitError, WorkerError
from observant.observer import pool as observer_pool
from observant.observer import tasks, worker
from observant.observer.content import Comparer, Rules
from observant.observer.fetched import Fetched
from observant.observer.pool import Lane, Pool, pool
from observant.observer.tasks import BodyTask, Read, Shown, read
from observant.observer.transport.robots import for_us

from .patience import PATIENCE

MB = 1 << 20


@pytest.fixture(scope="module")
def bombs():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[1]))
        yield importlib.import_module("benchmarks.bombs")


@pytest.fixture(scope="module")
def bounded():
    """Workers with little time and memory: enough for what is in proportion, for nothing else."""
    with Pool({"small": Lane(1, 8, 0, 128 * MB), "large": Lane(1, 8, 0, 128 * MB)}) as workers:
        yield workers


def fetched(body, kind="text/html"):
    return Fetched(url="http://h.example/", status=200, body=body, content_type=kind)


def body_of(answer, form="page", rules=None, query=None):
    comparer = Comparer(Rules(**(rules or {})))
    return BodyTask(
        form=form,
        rules=msgspec.to_builtins(comparer.rules),
        selection_version=comparer.selection_version,
        query=query or {},
        now=2e9,
        fetched=answer,
    )


# -- the findings: each took gigabytes, or half a minute ----------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "size", "form", "rules", "outcome", "reason"),
    [
        ("one key of 100 kB, 50,000 zeros", None, "page", {}, "first", ""),
        ("one key of 100 kB, 50,000 zeros", None, "page", {"jmespath": "@"}, "first", ""),
        ("hundred long keys, zeros", None, "page", {}, "first", ""),
        ("120,000 attributes", None, "page", {}, "first", ""),
        ("120,000 attributes", None, "page", {"css": "r"}, "failed", "attributes"),
        ("attributes of a long name", None, "page", {}, "first", ""),
        ("tag names of 49 kB", None, "page", {}, "first", ""),
        ("HTML attributes", None, "page", {"css": "p"}, "failed", "attributes"),
        ("HTML elements", None, "page", {"css": "p"}, "failed", "400,000 tags"),
        ("HTML elements", None, "page", {"drop": ["i"]}, "failed", "400,000 tags"),
        ("HTML elements", 1 << 20, "page", {"drop": ["i"]}, "first", ""),
        ("HTML elements", 1 << 20, "page", {"css": "i", "drop": ["b"]}, "failed", "no text"),
        ("HTML paragraphs", 1 << 19, "page", {"css": "p"}, "first", ""),
        ("unknown entities", None, "page", {"css": "a"}, "failed", "400,000 tags"),
        ("feed: 60,000 blank lines", None, "feed", {}, "first", ""),
        ("feed: blank lines", None, "feed", {}, "first", ""),
        ("feed: declared entities", None, "feed", {}, "failed", "no feed"),
        ("feed: open declarations", None, "feed", {}, "failed", "no feed"),
        ("unknown entities", None, "feed", {}, "failed", "200,000 tags"),
        ("120,000 attributes", None, "feed", {}, "failed", "attributes"),
    ],
)
def test_a_body_is_read_in_proportion(bombs, bounded, name, size, form, rules, outcome, reason):
    bomb = bombs.BOMBS[name]
    found = bounded.call("read", body_of(fetched(bomb.body(size), bomb.kind), form, rules), Read)
    assert found.comparison.outcome == outcome
    assert reason in found.comparison.reason


@pytest.mark.slow
def test_every_bomb_ends_in_every_reader(bombs):
    """Read, or refused with a reason, or ended by a limit: nothing else."""
    lanes = {"small": Lane(1, 2, 0, 64 * MB), "large": Lane(1, 2, 0, 64 * MB)}
    with Pool(lanes) as workers:
        for bomb in bombs.BOMBS.values():
            for form, rules in (("page", {}), ("feed", {}), ("sitemap", {})):
                answer = fetched(bomb.body(1 << 16), bomb.kind)
                try:
                    found = workers.call("read", body_of(answer, form, rules), Read)
                except LimitError:
                    continue
                assert found.comparison.outcome in {"first", "failed"}
        assert workers.died < 12


def test_long_names_stay_different(bombs):
    """What is cut off of a key is told apart by a digest: two long keys are two addresses."""
    from observant.observer.content.normalisation import LONGEST_ADDRESS
    from observant.observer.content.normalisation import read as read_body

    keys = ["k" * 500 + end for end in "ab"]
    found = read_body(msgspec.json.encode(dict.fromkeys(keys, 1)), "json")
    assert len(set(found.addresses)) == 3
    deep = bombs.BOMBS["hundred long keys, zeros"].body(20_000)
    found = read_body(deep, "json")
    assert len(set(found.addresses)) == len(found.addresses) - 101  # brackets share theirs
    assert max(map(len, found.addresses)) <= LONGEST_ADDRESS


def test_what_is_read_at_once_takes_little(bombs):
    """The worst of a small body does not hold up the event loop: processor time, both visits."""
    for name, bomb in bombs.BOMBS.items():
        first = bomb.body(tasks.AT_ONCE // 2)[: tasks.AT_ONCE // 2]
        second = first.translate(bytes.maketrans(b"x0k1", b"y1l2"))
        comparer = Comparer()
        started = time.process_time()
        found = comparer.compare(None, fetched(first, bomb.kind))
        if found.outcome == "first":
            before = comparer.after(None, fetched(first, bomb.kind), found)
            comparer.compare(before, fetched(second, bomb.kind))
        assert time.process_time() - started < 0.25, name


@pytest.mark.slow
def test_the_event_loop_is_not_held_up(bombs):
    """While bombs are read, the thread of the event loop works for a moment each and no longer."""
    chosen = [
        "one key of 100 kB, 50,000 zeros",
        "120,000 attributes",
        "HTML elements",
        "tag names of 49 kB",
    ]
    answers = [fetched(bombs.BOMBS[name].body(), bombs.BOMBS[name].kind) for name in chosen]

    async def main():
        started = time.thread_time()
        found = await asyncio.gather(*(read(Comparer(), None, answer) for answer in answers))
        return found, time.thread_time() - started

    found, spent = asyncio.run(main())
    assert [one.comparison.outcome for one in found] == ["first"] * 4
    assert spent < 0.25


# -- limits -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_over_its_time_a_worker_is_ended_and_replaced(bombs):
    slow = fetched(bombs.BOMBS["numbers"].body(), "application/json")
    with Pool({"small": Lane(1, 1, 0, 2**31), "large": Lane(1, 1, 0, 2**31)}) as workers:
        with pytest.raises(LimitError, match="more than 1 s of processor time"):
            workers.call("read", body_of(slow), Read)
        assert (workers.started, workers.died) == (1, 1)
        small = workers.call("read", body_of(fetched(b"<p>hello")), Read, lane="large")
        assert small.comparison.text == "hello"
        assert (workers.started, workers.died) == (2, 1)


def test_over_its_memory_a_worker_says_so(bombs):
    large = fetched(bombs.BOMBS["numbers"].body(1 << 20), "application/json")
    with Pool({"large": Lane(1, 20, 0, 32 * MB)}) as workers:
        with pytest.raises(LimitError, match="more than 32 MB of memory"):
            workers.call("read", body_of(large), Read)
        assert workers.call("show", ("a", "b", "words"), Shown, lane="large").text


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["text/html", "application/xml", "application/json", "text/plain"])
def test_short_of_memory_nothing_is_made_up(kind):
    """Whatever a worker has, it gives the whole document or none: half a page is a change."""
    item = "<li><a href='/{0}'>item {0}</a> and more text</li>"
    body = "<ul>" + "".join(item.format(n) for n in range(20_000)) + "</ul>"
    if kind == "application/json":
        body = msgspec.json.encode([{"name": f"item {n}"} for n in range(20_000)]).decode()
    answer = fetched(body.encode(), kind)
    rules = {"css": "li"} if kind in {"text/html", "application/xml"} else {}
    whole = tasks._read(body_of(answer, rules=rules)).comparison.text
    seen = set()
    for memory in (*range(2, 32, 3), 48, 96):
        with Pool(
            {"small": Lane(1, 20, 0, memory * MB), "large": Lane(1, 20, 0, memory * MB)}
        ) as w:
            try:
                found = w.call("read", body_of(answer, rules=rules), Read).comparison
            except WorkerError:
                seen.add("refused")
                continue
        assert found.text == whole, f"{memory} MB"
        seen.add("read")
    assert seen == {"refused", "read"}


@pytest.mark.parametrize("kind", [MemoryError, SystemError])
def test_whatever_python_says_when_it_is_short_of_memory_is_told_as_that(kind):
    def work(_task, _given):
        raise kind("error return without exception set")

    assert worker.answer("read", b"", work)[0].what == "memory"


@pytest.mark.slow
def test_short_of_memory_no_page_of_a_sitemap_is_lost(bombs):
    answer = fetched(bombs.BOMBS["sitemap: pages"].body(1 << 20), "application/xml")
    whole = tasks._read(body_of(answer, "sitemap")).comparison.text
    seen = set()
    for memory in (4, 6, 8, 12, 16, 24, 64):
        with Pool({"small": Lane(1, 20, 0, memory * MB)}) as workers:
            try:
                task = body_of(answer, "sitemap")
                found = workers.call("read", task, Read, lane="small").comparison
            except WorkerError:
                seen.add("refused")
                continue
        assert found.text == whole, f"{memory} MB: {found.reason}"
        seen.add("read")
    assert seen == {"refused", "read"}


def test_a_worker_that_is_killed_makes_a_failed_visit(bombs, monkeypatch):
    """By a limit or by anybody: the visit fails with its reason, and the next one works."""
    slow = fetched(bombs.BOMBS["numbers"].body(), "application/json")
    with Pool() as workers:
        monkeypatch.setattr("observant.observer.pool.pool", lambda: workers)

        async def main():
            visit = asyncio.create_task(read(Comparer(), None, slow))
            while not any(worker.process for worker in workers._workers):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            (worker,) = workers._workers
            os.kill(worker.process.pid, signal.SIGKILL)
            return await visit, await read(Comparer(Rules(css="p")), None, fetched(b"<p>well"))

        broken, well = asyncio.run(main())
    assert broken.comparison.outcome == "failed"
    assert broken.comparison.error == "content"
    assert "ended unexpectedly (-9)" in broken.comparison.reason
    assert not broken.comparison.complete
    assert well.comparison.text == "well"


def test_a_worker_that_died_idle_is_replaced():
    with Pool() as workers:
        assert workers.call("show", ("a", "b", "words"), Shown).text
        (worker,) = workers._workers
        worker.process.kill()
        worker.process.wait()
        assert workers.call("show", ("a", "b", "words"), Shown).text
        assert workers.started == 2


def test_a_worker_that_is_given_several_answers_each():
    bodies = [b"<p>page %d " % number + b"word " * 200 for number in range(20)]
    bodies[7], bodies[12] = b"[" * 5000, b""
    kinds = ["application/json" if body[:1] == b"[" else "text/html" for body in bodies]
    with Pool({"small": Lane(1, 20, 0, 256 * MB), "large": Lane(1, 20, 0, 256 * MB)}) as workers:
        futures = [  # it starts up meanwhile
            workers.submit("read", body_of(fetched(*given)), Read)
            for given in zip(bodies, kinds, strict=True)
        ]
        found = [future.result().comparison for future in futures]
        while workers.under_way:
            time.sleep(0.01)
        assert (workers.started, workers.bytes) == (1, 0)
    for number, comparison in enumerate(found):
        if number in {7, 12}:
            assert comparison.outcome == "failed"
        else:
            assert comparison.text.startswith(f"page {number} word")


def test_of_those_that_a_worker_was_given_one_dies_with_it():
    with Pool({"small": Lane(1, 20, 0, 256 * MB), "large": Lane(1, 20, 0, 256 * MB)}) as workers:
        futures = [
            workers.submit("read", body_of(fetched(b"<p>page %d" % number)), Read)
            for number in range(200)
        ]
        futures[9].result()
        (worker,) = workers._workers
        worker.process.kill()
        told = [future.exception() or future.result().comparison.text for future in futures]
        assert workers.started == 2
    errors = [one for one in told if isinstance(one, Exception)]
    assert [str(error) for error in errors] == [
        "the process that read this ended unexpectedly (-9)"
    ]
    assert all(text == f"page {n}" for n, text in enumerate(told) if text not in errors)


def test_those_behind_one_over_its_limit_go_to_the_next_worker():
    """A worker that says what came of some, is ended by one, retires, and does the rest."""
    given = []

    class Scripted:
        process = True

        def ready(self):
            started, self.process = not self.process, True
            return started

        def do(self, jobs):
            given.append([job.task for job in jobs])
            if jobs[0].task == "bomb":
                self.process = None
                raise LimitError("too large")
            if jobs[0].task == "odd" and len(given) < 5:
                self.process = None
                return observer_pool._AGAIN
            return jobs[0].task

    workers = Pool()
    jobs = [
        observer_pool._Job(task, b"", str, workers.lanes["small"], Future())
        for task in ("one", "bomb", "odd", "last")
    ]
    workers._do(Scripted(), list(jobs))
    assert [str(job.future.exception() or job.future.result()) for job in jobs] == [
        "one", "too large", "odd", "last",
    ]  # fmt: skip
    assert [len(some) for some in given] == [4, 3, 2, 2, 2, 1]
    assert (workers.started, workers.died) == (3, 1)


def test_closing_ends_what_is_under_way(bombs):
    slow = fetched(bombs.BOMBS["numbers"].body(), "application/json")
    workers = Pool()
    waiting = [workers.submit("read", body_of(slow), Read) for _ in range(3)]
    while not any(worker.process for worker in workers._workers):
        time.sleep(0.01)
    pids = [worker.process.pid for worker in workers._workers if worker.process]
    workers.close()
    for future in waiting:
        with pytest.raises(WorkerError):
            future.result(timeout=PATIENCE)
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    with pytest.raises(WorkerError, match="closed"):
        workers.submit("show", ("a", "b", "words"), Shown)


def test_what_people_ask_for_is_turned_away_when_it_is_too_much():
    with Pool({"asked": Lane(1, 20, 0, 256 * MB, most=2)}) as workers:
        texts = "a " * 100_000, "b " * 100_000, "words"
        futures = [workers.submit("show", texts, Shown, lane="asked") for _ in range(3)]
        with pytest.raises(BusyError, match="try again soon"):
            workers.submit("show", texts, Shown, lane="asked")
        assert all(future.result().kind for future in futures)
        assert workers.call("show", ("a", "b", "words"), Shown, lane="asked").text


def test_nothing_is_started_before_it_is_needed():
    before = pool().started
    answer = fetched(b"<p>" + b"word " * 500)

    async def main():
        return await read(Comparer(), None, answer)

    assert asyncio.run(main()).comparison.outcome == "first"
    assert pool().started == before
    with Pool() as workers:
        assert workers.started == 0
        assert not workers._workers


@pytest.mark.parametrize("rules", [Rules(), Rules(css="p"), Rules(regex="w.rd")])
def test_a_worker_finds_what_a_call_finds(rules, monkeypatch):
    """The same comparison, with everything that it has, from both."""
    monkeypatch.setattr(tasks, "AT_ONCE", 0)
    comparer = Comparer(rules)
    pages = [fetched(f"<h1>Title</h1><p>word {n} wird at 12:0{n}".encode()) for n in range(6)]

    async def main():
        before = None
        for page in pages:
            expected = comparer.compare(before, page)
            handed = copy.deepcopy((before, page))  # large ones are not there afterwards
            found = (await read(comparer, *handed)).comparison
            assert msgspec.structs.replace(found, excerpt=None) == expected
            if found.outcome == "changed":
                assert found.excerpt.added in found.text
            before = comparer.after(before, page, found)

    asyncio.run(main())


# -- robots.txt ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["14,000 agents, 21,749 rules", "wildcards", "short lines"])
def test_robots_txt_is_read_in_proportion(bombs, bounded, name):
    import zlib

    body = bombs.ROBOTS[name].body()
    text = bounded.call("robots", (body, "observant"), str)
    url = "http://h.example/" + "a" * 8000
    given = zlib.compress(text.encode()), "observant", url
    assert bounded.call("verdict", given, tuple[bool, float]) == (True, 0.0)


AGENTS = [
    "*",
    "o",
    "observant",
    "Obs",
    "obser*",
    "ob",
    "other",
    "observantbot",
    "a",
    "",
    "observant/2",
]
LINES = st.one_of(
    st.tuples(
        st.sampled_from(
            ["User-agent: ", "user-agent:", "User agent ", "Useragent: ", "user-agent "]
        ),
        st.sampled_from(AGENTS),
    ),
    st.tuples(st.sampled_from(["Disallow: ", "Allow: "]), st.sampled_from(["/", "/a", "/*b", ""])),
    st.sampled_from(
        [
            ("Crawl-delay: ", "3"),
            ("Sitemap: ", "http://s/"),
            ("", ""),
            ("# ", "x"),
            ("Foo: ", "bar"),
        ]
    ),
)


@given(st.lists(LINES, max_size=12), st.sampled_from(["/", "/a", "/ab", "/c"]))
def test_only_our_agent_is_kept_and_says_the_same(lines, path):
    """Against Protego on the whole file."""
    text = "\n".join(start + rest for start, rest in lines)
    whole, ours = Protego.parse(text), Protego.parse(for_us(text.encode(), "observant"))
    url = "http://h.example" + path
    assert ours.can_fetch(url, "observant") == whole.can_fetch(url, "observant")
    assert ours.crawl_delay("observant") == whole.crawl_delay("observant")
    assert len(ours._user_agents) <= 2
