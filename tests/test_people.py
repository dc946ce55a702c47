"""Lists, frequencies and notifications of several people over one store of visits."""

import asyncio
import math
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner

from observant import cli
from observant.errors import InputError
from observant.notifications import Deliverer
from observant.notifications.channels import SendResult
from observant.observer.clock import AcceleratedClock
from observant.observer.config import Config
from observant.observer.loop import Observer
from observant.observer.program import add_sources, describe
from observant.service.collection import Collection
from observant.service.collection.subscriptions import SubscriptionChanges
from observant.store import Filter, Subscription, open_store
from observant.store.subscriptions import Wishes

from .patience import in_simulated_time
from .service_world import World

DAY = 86_400.0


def person(name, *sources, every=0.0, **more):
    filter_ = Filter(sources=sources, topics=("changed",), **more.pop("only", {}))
    return Subscription(
        name=name,
        owner=name,
        channel=f"mailto:{name}@example.org",
        filter=filter_,
        every=every,
        **more,
    )


def test_the_most_impatient_one_who_watches_a_source_decides():
    wishes = Wishes(
        [
            person("ada", "a", every="1d"),
            person("bo", "a", "b", every="3d"),
            person("cy", every="2d", only={"tags": ("news",), "hosts": (".x.example",)}),
            person("di", "a", every="1h", enabled=False),
            person("eve", "c"),
        ]
    )
    assert wishes.period("a", [], "h") == 1.0
    assert wishes.period("b", ["news"], "h") == 3.0
    assert wishes.period("b", ["news"], "www.x.example") == 2.0
    assert wishes.period("c", [], "www.x.example") == math.inf
    assert not Wishes([person("eve", "c")])


class Mailbox:
    """Takes every letter, and knows when."""

    def __init__(self, clock):
        self.clock, self.letters = clock, []

    async def send(self, channel, _secret, message):
        self.letters.append((channel, self.clock.time(), message))
        return SendResult(ok=True)

    async def close(self):
        pass


@pytest.mark.slow
def test_one_visit_serves_all_and_each_hears_at_a_frequency_of_their_own(tmp_path):
    """A source that no budget would visit is visited for those who list it, as long as they do."""
    begin = 1_800_057_600.0  # a midnight
    names = [f"row {k}" for k in range(5)]
    rules = {"compare": {"learn_noise": False}}
    config = Config(budget="30/day", host_delay=0, spot_checks=0.0, defaults=rules)
    looks = []

    async def main():
        clock = AcceleratedClock(speed=43_200.0, ticks=asyncio.get_running_loop().time, start=begin)

        def look(_previous):
            looks.append(clock.time())
            return f"new on day {int(clock.time() // DAY)} for everybody to see"

        with open_store(tmp_path / "o.db", durable=False, clock=clock.time) as store:
            rows = [describe(name, kind="callable", host=name) for name in names]
            add_sources(store, config, rows)
            add_sources(
                store, config, [describe("page", kind="callable", host="page", importance=0)]
            )
            store.subscriptions.add(person("ada", "page", every="1d"), now=begin)
            store.subscriptions.add(person("bo", "page", every="3d", digest="3d"), now=begin)
            functions = {"page": look} | dict.fromkeys(names, lambda _previous: "the same as ever")
            observer = Observer(store, config, clock=clock, functions=functions)
            mail = Mailbox(clock)
            deliverer = Deliverer(store, config, clock=clock, channels={"mail": mail}, seed=1)
            stop = asyncio.Event()
            delivering = asyncio.create_task(deliverer.run(stop))
            running = asyncio.create_task(observer.run())
            await clock.sleep(9.5 * DAY)
            store.subscriptions.remove("ada")
            await (
                observer._refresh()
            )  # every two seconds of the machine, which a leaping clock skips
            await clock.sleep(12 * DAY)
            observer.stop()
            await running
            stop.set()
            await delivering
            visits = store.visits.list("page", limit=1000)
            return mail.letters, [visit.started_at for visit in visits][::-1]

    letters, visits = in_simulated_time(main())
    assert len(looks) == len(visits)  # one look, whoever asked for it
    gaps = np.array([(b - a) / DAY for a, b in pairwise(visits)])
    ends = (np.array(visits[1:]) - begin) / DAY
    assert gaps[ends < 9.5] == pytest.approx(1.0, abs=0.1)
    assert gaps[ends > 11] == pytest.approx(3.0, abs=0.2)
    to_ada = [at for channel, at, _ in letters if "ada" in channel]
    to_bo = [at for channel, at, _ in letters if "bo" in channel]
    assert len(to_ada) in {sum(ends < 9.5), sum(ends < 9.5) - 1}  # the last one was on its way
    assert len(to_bo) == pytest.approx(21 / 3, abs=2)
    assert all((b - a) / DAY > 2.9 for a, b in pairwise(to_bo))


def test_a_new_address_on_a_list_is_watched_and_an_old_one_is_not_watched_twice():
    with open_store(":memory:") as store:
        collection = Collection(store, Config())
        collection.subscriptions.add(person("ada", "HTTPS://Example.org:443/a", every="3d"))
        both = person("bo", "https://example.org/a", "https://example.org/b", every="1w")
        number = collection.subscriptions.add(both).subscription.id
        names = [source.name for source in store.sources.each()]
        assert names == ["https://example.org/a", "https://example.org/b"]
        assert collection.beliefs().max_period.tolist() == [3.0, 7.0]
        changed = SubscriptionChanges(filter=Filter(sources=("https://example.org/c",)))
        collection.subscriptions.update(number, changed)
        assert store.sources.count() == 3
        assert [item.name for item in collection.subscriptions.list("ada")] == ["ada"]
        with pytest.raises(InputError, match="every"):
            collection.subscriptions.add(person("cy", every="-1d"))
        with pytest.raises(InputError):
            collection.subscriptions.add(person("cy", "http://user name@x/", every="1d"))
        collection.cache.close()


def test_page_and_command_keep_the_list_and_the_frequency(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ada = ["subscribe", "ada", "mailto:ada@example.org", "--source", "https://example.org/a"]
    result = CliRunner().invoke(cli.cli, [*ada, "--every", "3d", "--owner", "ada"])
    assert result.exit_code == 0, result.output
    with open_store("observant.db") as store:
        assert store.sources.count() == 1
    listed = CliRunner().invoke(cli.cli, ["notify", "--owner", "bo", "--json"])
    assert listed.output.strip() == "[]"
    world = World(store=open_store("observant.db"))
    with world.browser("editor") as client:
        assert "every 3d" in client.get("/subscriptions").text
        shown = client.get("/subscriptions/1").text
        assert "https://example.org/a" in shown
        form = {
            "name": "mine",
            "channel": "mailto:e@example.org",
            "sources": "https://example.org/b",
        }
        assert client.post("/subscriptions", data=form | {"every": "2d"}).status_code == 200
    kept = world.store.subscriptions.get("mine")
    assert (kept.owner, kept.every, kept.filter.sources) == (
        "editor",
        "2d",
        ("https://example.org/b",),
    )
    world.close()
