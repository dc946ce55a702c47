"""Settings: what is accepted by any way in can be used, and what cannot be used ends nothing."""

import asyncio
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import httpx
import numpy as np
import pytest
from benchmarks.settings import as_toml, survive
from click.testing import CliRunner

from observant.cli.settings import settings as settings_command
from observant.errors import InputError, ObservantError
from observant.observer.active_hours import ActiveHours
from observant.observer.config import Config, Retention, SourceSettings, load_config
from observant.observer.loop import Observer
from observant.observer.permission import objective_of
from observant.observer.program import describe
from observant.observer.settings import KEPT, SettingsChanges, in_force, keep, settings_of
from observant.observer.sources.query import StandingQuery
from observant.service.collection import Collection, NewSource
from observant.service.server import Serving, serve
from observant.service.studies import plan_study
from observant.store import open_store

from .service_world import World

GRACE = "a grace belongs to the objective currency"
UNUSABLE = [
    ({"grace": "6h"}, GRACE),
    ({"objective": "age", "grace": "6h"}, GRACE),
    ({"retention": {"max_versions": 0}}, "max_versions"),
    ({"retention": {"max_bytes": -1}}, "max_bytes"),
    ({"retention": {"max_age": "1e300d"}}, "max_age"),
    ({"budget": "1e300/day"}, "budget"),
    ({"budget": "1e-300/day"}, "budget"),
]
"""Settings of the issue that ended the service at its next start, and the word of the refusal."""


@pytest.mark.slow
def test_random_settings_that_are_accepted_are_survived(tmp_path):
    told = survive(24, seed=24, folder=tmp_path)
    assert told.crashes == []
    assert min(told.accepted["file"], told.refused["file"], told.accepted["changes"]) >= 5


# -- the same refusal by every way in -----------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("values", "word"), UNUSABLE)
def test_unusable_settings_are_refused_by_every_way_in(tmp_path, values, word):
    file = tmp_path / "observant.toml"
    file.write_text(as_toml(values))
    with pytest.raises(InputError, match=word) as refused:
        load_config(str(file), environment={})
    assert str(file) in str(refused.value)
    flags = {name: value for name, value in values.items() if name != "retention"}
    if flags:
        with pytest.raises(InputError, match=word):
            load_config(None, flags, environment={})
        options = [part for name, value in flags.items() for part in (f"--{name}", str(value))]
        answer = CliRunner().invoke(
            settings_command, ["change", *options, "--store", _empty(tmp_path / "cli.db")]
        )
        assert answer.exit_code
        assert word in f"{answer.exception} {answer.output}"
    world = World()
    try:
        with world.client("write") as client:
            answer = client.patch("/api/v1/settings", json=values)
            assert answer.status_code in {400, 422}
            assert word in answer.text
            document = {"settings": values}
            assert client.post("/api/v1/import", json=document).status_code in {400, 422}
        assert world.store.settings.get(KEPT) is None
    finally:
        world.close()


def test_the_plan_page_refuses_a_grace_that_its_objective_has_not():
    world = World()
    try:
        with world.browser("editor") as client:
            page = client.post("/plan", data={"grace": "6h"})
            assert page.status_code == 422
            assert GRACE in page.text
            assert client.post("/plan", data={"grace": "6h", "objective": "currency"}).is_success
        assert world.collection.config.grace_days == 0.25
        # An objective without a grace takes it along: nobody has to know that there was one.
        world.collection.settings.change(SettingsChanges(objective="age"))
        assert world.collection.config.grace_days == 0
        assert world.store.settings.get(KEPT) == {"objective": "age"}
    finally:
        world.close()


OWN = """
import numpy as np
def far_behind(x):
    return x**3 / (27 + x**3)
def falling(x):
    return -x
"""


@pytest.fixture
def own(tmp_path):
    """A configuration file that names an objective beside it."""
    module = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(OWN)
    file = tmp_path / "observant.toml"
    file.write_text(f'objective = "{module}:far_behind"')
    yield file, module
    sys.modules.pop(module, None)


def test_an_objective_of_ones_own_is_run_by_the_observer(own, tmp_path):
    file, module = own
    config = load_config(str(file), environment={})
    penalty = objective_of(config)
    assert penalty(np.array([3.0])) == [0.5]
    with open_store(str(tmp_path / "s.db")) as store:
        schedule = Observer(store, config).schedule
        assert schedule._scheduler._objective is penalty
        # A name that is chosen while it runs holds, and so does the way back.
        for name in ("delay", config.objective):
            assert keep(store, config, SettingsChanges(objective=name)).objective == name
        with pytest.raises(InputError, match="no objective"):
            keep(store, config, SettingsChanges(objective=f"{module}:falling"))
        store.settings.set(KEPT, {"objective": "os:system"})
        found = settings_of(store, config)
        assert (found.config.objective, list(found.refused)) == (config.objective, ["objective"])


def test_an_objective_of_ones_own_is_named_in_the_file_alone(own):
    file, module = own
    name = f"{module}:far_behind"
    alone = "in the configuration file alone"
    with pytest.raises(InputError, match=alone):
        load_config(None, {"objective": name}, environment={})
    with pytest.raises(InputError, match=alone):
        load_config(str(file), environment={"OBSERVANT_OBJECTIVE": name})
    file.chmod(0o666)
    with pytest.raises(InputError, match="nobody else can write"):
        objective_of(load_config(str(file), environment={}))
    file.chmod(0o600)
    for given, told in (
        (f"{module}:falling", "rise"),
        (f"{module}:nothing", "has no 'nothing'"),
        ("no_such_module_here:x", "cannot be imported"),
        ("os:sep", "cannot be used"),
    ):
        file.write_text(f'objective = "{given}"')
        with pytest.raises(InputError, match=told) as refused:
            objective_of(load_config(str(file), environment={}))
        assert str(file) in str(refused.value)
    for given in ("nonsense", "a b:c", ":x", "x:"):
        file.write_text(f'objective = "{given}"')
        with pytest.raises(InputError, match="no objective"):
            load_config(str(file), environment={})


def test_an_objective_of_ones_own_is_planned_for_and_shown(own):
    file, module = own
    world = World(config=load_config(str(file), environment={}))
    try:
        world.fill()
        plan = plan_study(world.collection, wait=60.0).value
        assert plan.answer.objective == "far_behind"
        assert plan.answer.spent == pytest.approx(plan.answer.budget, rel=0.01)
        with world.browser("editor") as client:
            for page in ("/plan", "/settings"):
                assert f'value="{module}:far_behind" selected' in client.get(page).text
            assert client.post("/plan", data={"objective": "os:system"}).status_code == 422
        with world.client("write") as client:
            answer = client.patch("/api/v1/settings", json={"objective": "os:system"})
            assert answer.status_code in {400, 422}
            assert client.get("/api/v1/sources/1").is_success
    finally:
        world.close()


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"max_period": 0}, "max_period"),
        ({"max_period": "1e9y"}, "max_period"),
        ({"importance": 1e300}, "importance"),
        ({"confirm_after": "1e300d"}, "confirm_after"),
        ({"headers": {"a b": "c"}}, "header"),
        ({"headers": {"X-Key": "a\nb"}}, "control character"),
        ({"headers": {"Host": "elsewhere.example"}}, "Host"),
        ({"limits": {"body": 2**70}}, "body"),
        ({"timezone": "Nowhere/Else"}, "time zone"),
        ({"active": ["08:00-18:00"] * 1000}, "active"),
        ({"headers": {f"X-{i}": "1" for i in range(1000)}}, "headers"),
        ({"headers": {"X-Key": "x" * 100_000}}, "headers"),
        ({"compare": {"css": "p["}}, "css"),
        ({"query": {"top": 0}}, "top"),
        ({"compare": {"drop": ["p"] * 1000}}, "drop"),
        ({"compare": {"ignore": ["a"] * 1000}}, "ignore"),
        ({"compare": {"ignore": ["((a{250}){250})"] * 3}}, "ignore"),
        ({"compare": {"conditions": ["below 5"] * 1000}}, "conditions"),
        ({"compare": {"change": "columns", "columns": 2**62}}, "columns"),
        ({"compare": {"change": "query", "query": {"a": 1e308}}}, "query"),
        ({"compare": {"change": "query", "query": {"a": -1}}}, "query"),
        ({"compare": {"change": "query", "query": {"a": 1}, "other_terms": 1e308}}, "other_terms"),
        (
            {"compare": {"change": "query", "query": dict.fromkeys(map(str, range(20_000)), 1)}},
            "query",
        ),
    ],
)
def test_settings_of_a_source_that_no_visit_could_use_are_refused(tmp_path, settings, word):
    with pytest.raises(InputError, match=word):
        Config().settings_of((), settings, "a")
    file = tmp_path / "observant.toml"
    file.write_text(as_toml({"defaults": settings}))
    with pytest.raises(InputError, match=word):
        load_config(str(file), environment={})
    world = World()
    try:
        with world.client("write") as client:
            entry = {"url": "https://a.example/", "settings": settings}
            answer = client.post("/api/v1/sources", json=entry)
            assert answer.status_code in {400, 422}
            assert word in answer.text
    finally:
        world.close()


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ({"importance": 1e300}, "importance"),
        ({"other_terms": 1e308}, "other_terms"),
        ({"terms": {"a": 1e308}}, "terms"),
    ],
)
def test_a_query_that_no_visit_could_use_is_refused(query, word):
    with pytest.raises(InputError, match=word):
        StandingQuery(**query)


@pytest.mark.parametrize(
    "settings",
    [
        {"downloaders": 0},
        {"lease": "1e300d"},
        {"host_delay": "1000y"},
        {"contact": "a\nb"},
        {"allow": ["nowhere"]},
        {"log": "xml"},
        {"metrics": "70000"},
        {"limits": {"total": 0}},
        {"notify": {"attempts": 0}},
        {"notify": {"allow": ["nowhere"]}},
        {"notify": {"keep": "1e9y"}},
    ],
)
def test_what_a_start_could_not_use_is_refused_when_it_is_read(settings):
    with pytest.raises(InputError):
        load_config(None, settings, environment={})


def test_tables_may_leave_to_their_sources_what_the_rest_needs(tmp_path):
    file = tmp_path / "observant.toml"
    file.write_text(
        '[tags.terms]\ncompare = {change = "query"}\n[tags.lists]\nquery = {form = "html"}\n'
        '[[sources]]\nurl = "https://a.example/"\ntags = ["terms"]\n'
        "settings = {compare = {query = {bees = 1}}}\n"
        '[[sources]]\nurl = "https://b.example/"\nkind = "query"\ntags = ["lists"]\n'
        'settings = {query = {items = "li"}}\n'
    )
    assert len(load_config(str(file), environment={}).sources) == 2


def test_a_tag_whose_settings_do_not_go_with_those_of_a_source_is_refused():
    world = World(config=Config(tags={"fast": {"max_period": "1h"}}))
    try:
        own = {"min_period": "1d"}
        for host in ("a", "b"):
            world.collection.sources.add(
                NewSource(url=f"https://{host}.example/", settings=own if host == "b" else {})
            )
        with world.client("write") as client:
            change = {"action": "tag", "value": "fast", "all": True}
            answer = client.post("/api/v1/sources/bulk", json=change)
            assert answer.status_code == 422
            assert "b.example" in answer.text
            assert "above max_period" in answer.text
            one = client.patch("/api/v1/sources/2", json={"tags": ["fast"]})
            assert one.status_code == 422
        assert not world.store.sources.count(tag="fast")  # all or nothing
    finally:
        world.close()


# -- what is in the store already ---------------------------------------------------------------


def test_a_kept_setting_that_cannot_be_used_is_shown_and_the_one_before_holds(tmp_path):
    with open_store(tmp_path / "o.db") as store:
        keep(store, Config(), SettingsChanges(budget="20/day"))
        store.settings.set(KEPT, {"budget": "1e300/day", "grace": "6h", "unknown": 1})
        found = settings_of(store, Config())
        assert found.config.budget_per_day == 20
        assert found.config.grace_days == 0
        assert set(found.refused) == {"budget", "grace"}
        collection = Collection(store, Config())
        try:
            view = collection.settings.get()
            assert view.budget_per_day == 20
            assert GRACE in view.refused["grace"]
            assert any("budget" in problem for problem in collection.health().problems)
            # The next change mends it.
            collection.settings.change(SettingsChanges(objective="age"))
            assert collection.settings.get().refused == {}
            assert store.settings.get(KEPT) == {"objective": "age"}
        finally:
            collection.cache.close()


@pytest.mark.parametrize("kept", [[], "x", 7, {"budget": []}, {"retention": 3}, {"objective": {}}])
def test_whatever_stands_in_the_store_a_configuration_comes_of_it(kept):
    assert in_force(Config(), kept).config == Config()


def test_an_observer_starts_with_a_store_whose_settings_ended_the_last_one(tmp_path):
    place = tmp_path / "o.db"
    page = tmp_path / "page.txt"
    page.write_text("a page")
    with open_store(place) as store:
        store.sources.add([describe(str(page), kind="file")])
    with closing(sqlite3.connect(place)) as database:  # as an older version kept it
        text = '{"grace": "6h", "retention": {"max_versions": 0}}'
        database.execute("INSERT INTO settings VALUES (?, ?)", [KEPT, text])
        database.commit()
    with open_store(place) as store:
        status = asyncio.run(
            Observer(store, Config(budget="10/s", files=(str(tmp_path),))).run(visits=1)
        )
        assert status.visits == 1


def test_a_source_whose_stored_settings_cannot_be_used_fails_with_the_reason(tmp_path):
    page = tmp_path / "page.txt"
    page.write_text("a page")
    with open_store(tmp_path / "o.db") as store:
        good = describe(str(page), kind="file", name="good")
        bad = describe(str(page), kind="file", name="bad", settings={"max_period": 0})
        store.sources.add([good, bad])  # past all checks
        asyncio.run(Observer(store, Config(budget="10/s", files=(str(tmp_path),))).run(visits=2))
        (visit,) = store.visits.list("bad", details=True)
        assert visit.outcome == "failed"
        assert "max_period" in visit.detail["reason"]
        assert store.sources.get("good").outcome == "first"


def test_an_hour_that_summer_time_skips_leaves_no_source_without_a_next_visit():
    hours = ActiveHours.parse(["sun 02:15-02:45"], "Europe/Berlin")
    saturday = datetime(2026, 3, 28, 12, tzinfo=UTC).timestamp()  # the clocks go forward that night
    following = datetime(2026, 4, 5, 2, 15, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()
    assert hours.next(saturday) == following


# -- an error in the observer -------------------------------------------------------------------


class Broken(Observer):
    """Ends with an error until it is mended."""

    mended = False
    runs = 0

    async def _begin(self):
        self.runs += 1
        if not self.mended:
            raise ObservantError("a broken part")
        await super()._begin()


@pytest.mark.slow
def test_an_error_in_the_observer_does_not_end_the_server(tmp_path, monkeypatch):
    monkeypatch.setattr("observant.service.server._FIRST_PAUSE", 0.01)
    monkeypatch.setattr("observant.service.server._LONGEST_PAUSE", 0.05)
    page = tmp_path / "page.txt"
    page.write_text("a page")

    async def go(store):
        observer = Broken(store, Config(budget="10/s", files=(str(tmp_path),)))
        told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        until = asyncio.Event()
        serving = asyncio.create_task(
            serve(
                store,
                Config(),
                Serving(port=0),
                observer=observer,
                told=lambda address, _: told.set_result(address),
                until=until,
            )
        )
        address = await told
        async with httpx.AsyncClient(base_url=address) as client:
            while observer.runs < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            health = (await client.get("health")).json()
            assert not health["ok"]
            assert any("ended with an error" in problem for problem in health["problems"])
            observer.mended = True
            while not observer.tally.visits:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert observer.problem == ""
        until.set()
        await serving

    with open_store(tmp_path / "o.db") as store:
        store.sources.add([describe(str(page), kind="file")])
        asyncio.run(asyncio.wait_for(go(store), 120))


def test_made_values_are_checked_and_not_only_read_ones():
    with pytest.raises(InputError, match=GRACE):
        Config(grace="6h")
    with pytest.raises(InputError, match="max_versions"):
        Retention(max_versions=0)
    with pytest.raises(InputError, match="max_period"):
        SourceSettings(max_period=0)
    NewSource(url="https://a.example/")


def _empty(place):
    open_store(place).close()
    return str(place)
