"""The stand-ins of `observant.testing`, as people use them. The page docs/testing.md is run too."""

import asyncio
import time
import urllib.request

import pytest

from observant.errors import InputError
from observant.observer.fetched import Fetched
from observant.testing import ScriptedFetcher, SimulatedClock, in_simulated_time, synthetic_web


def test_days_pass_in_no_time_and_in_order():
    clock, seen = SimulatedClock(start=0.0), []

    async def wait(days):
        await clock.sleep(days * 86_400)
        seen.append((days, clock.time() / 86_400))

    async def all_of_them():
        await asyncio.gather(wait(30), wait(1), wait(7))

    began = time.process_time()
    in_simulated_time(all_of_them())
    assert seen == [(1, 1.0), (7, 7.0), (30, 30.0)]
    assert time.process_time() - began < 5
    assert clock.time() == 0.0  # outside of a loop it stands still


def test_threads_are_waited_for():
    async def work():
        await asyncio.to_thread(time.sleep, 0.05)
        return asyncio.get_running_loop().time()

    assert in_simulated_time(work()) == 0.0


def test_nobody_waits_for_ever(monkeypatch):
    monkeypatch.setattr("observant.testing.stand_ins._DEADLOCK", 0.05)
    with pytest.raises(RuntimeError, match="deadlock"):
        in_simulated_time(asyncio.Event().wait())


def test_a_script_says_what_it_says():
    own = Fetched(url="https://b.example/", status=503)
    web = ScriptedFetcher({"https://a.example/": "always", "https://b.example/": [own, b"<p>x"]})

    async def look(url, times):
        async with web:
            return [await web.fetch(url) for _ in range(times)]

    assert [f.body for f in in_simulated_time(look("https://a.example/", 3))] == [b"always"] * 3
    first, *rest = in_simulated_time(look("https://b.example/", 3))
    assert first is own
    assert {(f.status, f.content_type) for f in rest} == {(200, "text/html")}
    (unknown,) = in_simulated_time(look("https://c.example/", 1))
    assert (unknown.status, unknown.ok) == (404, False)
    assert len(web.asked) == 7
    with pytest.raises(InputError, match="no answer for https://d"):
        ScriptedFetcher({"https://d.example/": []})


@pytest.mark.slow
def test_a_small_web_is_served():
    with synthetic_web(pages=5, seed=2) as (world, port):
        host, _, path = world.url(3).removeprefix("http://").partition("/")
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/{path}", headers={"Host": host})
        with urllib.request.urlopen(asked) as answer:  # noqa: S310 - loopback
            assert answer.status == 200
