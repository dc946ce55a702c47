"""Signals as they come in: listings that are watched, the command, the API, and the observer."""

import json

import pytest

from observant.errors import UnknownSourceError
from observant.observer import Config, Observer, add_sources, describe
from observant.observer.schedule import Planned, Schedule
from observant.observer.signals import announced
from observant.planning.schedule.signals import Reliability
from observant.store import open_store
from observant.store.signals import Signal
from observant.testing import ScriptedFetcher, SimulatedClock, in_simulated_time, memory_store
from observant.times import DAY

from .command_line import run_here
from .patience import until
from .service_world import World

MAP = "https://a.example/sitemap.xml"
PAGES = ["https://a.example/1", "https://a.example/2"]


def sitemap(*dates):
    rows = "".join(
        f"<url><loc>{page}</loc><lastmod>{date}</lastmod></url>"
        for page, date in zip(PAGES, dates, strict=True)
    )
    return f"<urlset>{rows}</urlset>"


# -- what a listing says --------------------------------------------------------------------------


def test_a_date_that_moved_a_new_page_and_one_that_went_are_announced():
    before = "https://a.example/1 2026-01-01\nhttps://a.example/2 2026-01-01\nhttps://a.example/4"
    after = "https://a.example/1 2026-01-01\nHTTPS://A.example:443/2 2026-01-02T10:00:00Z\nhttps://a.example/3"
    said = announced("sitemap", before, after, 2e9)
    assert [one.source[-1] for one in said] == ["2", "3", "4"]
    assert said[0].changed_at == 1767348000.0
    assert [one.changed_at for one in said[1:]] == [None, None]


def test_dates_of_days_and_of_the_future_say_nothing_of_the_moment():
    for date in ("2026-01-02", "2033-05-18T03:33:21Z", "soon"):
        (one,) = announced("sitemap", "", f"https://a.example/1 {date}", 2e9)
        assert one.changed_at is None


def test_entries_of_a_feed_are_announced_by_their_link():
    line = "id7 | 2026-01-02T10:00:00Z | A title | https://a.example/7"
    (one,) = announced("feed", "id6 | 2026 | x | https://a.example/6", line, 2e9)
    assert (one.source, one.kind) == ("https://a.example/7", "feed")
    assert one.changed_at == 1767348000.0
    assert announced("feed", line, line, 2e9) == []
    assert announced("feed", "", "no link here\n | | ", 2e9) == []


# -- the store ------------------------------------------------------------------------------------


def test_the_store_keeps_what_is_said_of_watched_sources():
    with open_store(":memory:") as store:
        add_sources(store, Config(), [describe(PAGES[0])])
        kept = [Signal(source=PAGES[0], changed_at=5.0), Signal(source="https://x.example/")]
        assert store.signals.add(kept, now=10.0) == 1
        assert store.signals.add([]) == 0
        (one,) = store.signals.after(0)
        assert (one.source, one.kind, one.received_at, one.changed_at) == (PAGES[0], "ping", 10, 5)
        assert store.signals.after(one.id) == []
        assert store.signals.of(PAGES[0]) == [one]
        assert store.signals.drop(before=11.0) == 1
        assert store.signals.of(PAGES[0]) == []


# -- the observer ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_sitemap_that_moves_a_date_brings_its_page_forward_and_is_judged():
    """The observer reads the sitemap, hears of the page, and learns what the sitemap is worth."""
    clock = SimulatedClock()
    config = Config(budget="600/day", spot_checks=0, defaults={"min_period": "1min"})
    web = ScriptedFetcher(
        {
            MAP: [sitemap("2026-01-01", "2026-01-01"), sitemap("2026-01-01", "2026-01-02")],
            PAGES[0]: ["one"],
            PAGES[1]: ["two"],
        },
        clock,
    )

    async def watch(store):
        async with web:
            observer = Observer(store, config, clock=clock, transport=web)
            observer.ticks = clock.time
            await observer.run(visits=12)
            return observer.schedule.signals.reliability()

    with memory_store(clock) as store:
        add_sources(store, config, [describe(MAP, kind="sitemap"), *map(describe, PAGES)])
        lives = {**RELIABLE._asdict(), "at": clock.time() - 3600.0}
        gone = {**lives, "group": "gone.example", "at": clock.time() - 2 * DAY}
        store.settings.set("observer.reliability", [gone, lives])
        (row,) = in_simulated_time(watch(store))
        assert (row.kind, row.group, row.sources) == ("sitemap", MAP, 2)
        (said,) = store.signals.of(PAGES[1])
        assert said.kind == "sitemap"
        assert store.signals.of(PAGES[0]) == []
        kept = store.settings.get("observer.signals")
        assert ["sitemap", MAP] in kept["channels"]
        other, shown = store.settings.get("observer.reliability")
        assert shown == {**row._asdict(), "at": shown["at"]}
        assert other == lives  # the other is of an observer that has not been there for two days
        again = Observer(store, config, clock=clock, transport=web)
        again.schedule.signals.restore(json.loads(json.dumps(kept)))
        assert again.schedule.signals.learned() == kept


def test_sitemaps_of_one_host_are_channels_of_their_own():
    """A page that stands in two of them listens to both."""
    plan = Schedule(budget=6.0, start=0.0)
    names = ["https://a.example/1", "https://a.example/2", "https://a.example/3"]
    plan.add([Planned(name, "a.example") for name in ["one", "two", *names]])
    plan.read_listing("one", 60.0, importance=1.0, kind="sitemap", members=names[:2])
    plan.read_listing("two", 60.0, importance=1.0, kind="sitemap", members=[*names[1:], "gone"])
    said = {"source": names[1], "kind": "sitemap", "received_at": 120.0}
    plan.hear([Signal(**said, listing="two")], dict.fromkeys(names, "a.example"))
    rows = {row.group: (row.sources, row.signals) for row in plan.signals.reliability()}
    assert rows == {"one": (2, 0), "two": (2, 1)}


@pytest.mark.slow
def test_observers_of_one_store_pool_what_they_learn():
    clock = SimulatedClock()
    config = Config(budget="400/day", spot_checks=0, defaults={"min_period": "1min"})
    web = ScriptedFetcher({page: ["text"] for page in PAGES}, clock)

    async def watch(store, page):
        async with web:
            observer = Observer(store, config, clock=clock, transport=web)
            observer.ticks = clock.time
            await observer.run(visits=2)
            store.signals.add([Signal(source=page, kind="hook")], now=clock.time())
            await observer.run(visits=6)
            return observer

    with memory_store(clock) as store:
        add_sources(store, config, [describe(page) for page in PAGES])
        first = in_simulated_time(watch(store, PAGES[0]))
        alone = store.settings.get("observer.signals")
        second = in_simulated_time(watch(store, PAGES[1]))
        both = store.settings.get("observer.signals")
        compared = [dict(zip(map(tuple, one["channels"]), one["fields"]["compared"], strict=True))
                    for one in (alone, both)]  # fmt: skip
        key = ("hook", "a.example")
        assert compared[1][key] > compared[0][key] > 0
        assert len(store.settings.get("observer.reliability")) == 1
        in_simulated_time(first.listener.save())  # what the second has added
        learned = first.schedule.signals.learned()
        assert learned["fields"]["compared"] == pytest.approx(both["fields"]["compared"])
        assert second.schedule.signals.learned() == both


@pytest.mark.slow
def test_a_signal_from_outside_is_heard_by_a_running_observer():
    clock = SimulatedClock()
    config = Config(budget="400/day", spot_checks=0, defaults={"min_period": "1min"})
    web = ScriptedFetcher({page: ["text"] for page in PAGES}, clock)

    async def watch(store):
        async with web:
            observer = Observer(store, config, clock=clock, transport=web)
            observer.ticks = clock.time
            await observer.run(visits=4)
            store.signals.add([Signal(source=PAGES[0], kind="hook")], now=clock.time())
            await observer.run(visits=8)
            return observer.schedule.signals.reliability()

    with memory_store(clock) as store:
        add_sources(store, config, [describe(page) for page in PAGES])
        (row,) = in_simulated_time(watch(store))
        assert (row.kind, row.sources, row.signals) == ("hook", 1, 1)


# -- the command and the API ----------------------------------------------------------------------


def test_the_command_takes_addresses_files_and_standard_input(tmp_path):
    place = tmp_path / "o.db"
    env = {"OBSERVANT_STORE": str(place)}
    with open_store(place) as store:
        add_sources(store, Config(), [describe(page) for page in PAGES])
    code, said, _ = run_here("signal", PAGES[0], "https://x.example/", cwd=tmp_path, env=env)
    assert (code, said) == (0, "1 signal taken in; 1 not watched\n")
    listed = tmp_path / "list.txt"
    listed.write_text("\n".join([*PAGES, ""]))
    _, said, _ = run_here("signal", "-f", listed, "--kind", "cms", "--json", cwd=tmp_path, env=env)
    assert json.loads(said) == {"signals": 2, "watched": 2}
    piped = b"HTTPS://A.example:443/2\n"
    _, said, _ = run_here("signal", "-f", "-", cwd=tmp_path, env=env, stdin=piped)
    assert said == "1 signal taken in\n"
    with open_store(place) as store:
        assert [one.kind for one in store.signals.of(PAGES[1])] == ["ping", "cms"]
    assert run_here("signal", cwd=tmp_path, env=env)[0] == 2


@pytest.fixture(scope="module")
def world():
    made = World()
    made.fill()
    yield made
    made.close()


def test_the_api_takes_signals_of_those_who_may_write(world):
    body = [{"url": "https://a.example/", "changed_at": "2026-01-02T10:00:00Z"}, {"url": "x"}]
    with world.client("write") as client:
        reply = client.post("/api/v1/signals", json=body)
        assert (reply.status_code, reply.json()) == (200, {"signals": 2, "watched": 1})
        number = world.store.sources.get("https://a.example/").id
        (said,) = client.get(f"/api/v1/sources/{number}/signals").json()
        assert (said["kind"], said["changed_at"]) == ("ping", "2026-01-02T10:00:00Z")
        for bad in ([{"url": ""}], [{"url": "https://a.example/", "kind": "a b"}], {"url": "x"}):
            assert client.post("/api/v1/signals", json=bad).status_code in {400, 422}
        many = [{"url": "https://a.example/"}] * 10_001
        assert client.post("/api/v1/signals", json=many).status_code in {400, 422}
    with world.client("read") as client:
        assert client.post("/api/v1/signals", json=body).status_code == 403
    with pytest.raises(UnknownSourceError):
        world.store.sources.get("x")


@pytest.mark.slow
def test_pages_say_what_signals_were_worth(world):
    """Each fifth of thirty hourly visits had found a change, at two of the sources."""
    page, begun = "https://a.example/", world.store.visits.list("https://a.example/", limit=30)[-1]
    hours = {"websub": 4.8, "cms": 5.8, "feed": 40.0}
    for kind, after in hours.items():
        said = Signal(source=page, kind=kind, received_at=begun.started_at + 3600 * after)
        world.store.signals.add([said])
    number = world.store.sources.get(page).id
    with world.client("read") as client:
        found = {one["kind"]: one for one in client.get(f"/api/v1/sources/{number}/signals").json()}
        worth = [found[kind]["found"] for kind in hours]
        assert worth == [True, False, None]
        shown = client.get(f"/sources/{number}").text
        for text in ("the next visit found a change, 12min later", "found none", "not visited"):
            assert text in shown.replace("\xa0", " ")
        drawn = client.get("/charts/timeline.json", params={"source": number}).text
        assert "the next visit found none" in drawn
        assert "triangle-down" in drawn
        world.store.settings.set("observer.reliability", [RELIABLE._asdict()])
        world.collection.cache.forget()
        words = "10 % of the changes that visits found in the last 30 days"
        until(lambda: words in client.get("/population").text.replace("\xa0", " "), "the share")
    assert world.store.signals.share(since=0.0) == 0.1
    assert world.store.signals.share(since=4e9) is None
    world.store.signals.drop(before=1e11)


RELIABLE = Reliability(
    "sitemap", "a.example", 3, 90, 0.6, 0.4, 0.7, 0.05, 0.0, 0.1, 0.9, 0.5, 1.4, None, 8, 6, "lies"
)


def test_the_service_shows_how_far_each_channel_is_believed(world):
    row = RELIABLE
    other = row._replace(kind="ping", group="b.example", changes=2, announced=2, verdict="believed")
    world.store.settings.set("observer.reliability", [other._asdict(), row._asdict()])
    world.store.signals.add([Signal(source="https://a.example/", kind="sitemap")])
    number = world.store.sources.get("https://a.example/").id
    with world.client("read") as client:
        found = client.get("/api/v1/signals").json()
        assert [one["verdict"] for one in found] == ["lies", "believed"]
        assert found[0] == row._asdict()
        shown = client.get("/population").text
        assert "lies, and is ignored" in shown
        assert '0.9 <span class="muted">(0.5 to 1.4)</span>' in shown  # false signals a day
        assert "they are ignored" in client.get(f"/sources/{number}").text
    world.store.signals.drop(before=1e11)
    older = {name: value for name, value in row._asdict().items() if name != "false_low"}
    world.store.settings.set("observer.reliability", [{"kind": 3}, older, other._asdict()])
    with world.client("read") as client:  # what an observer of another version wrote is left out
        assert [one["kind"] for one in client.get("/api/v1/signals").json()] == ["ping"]
