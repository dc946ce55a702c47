"""The API does what it says: sources, changes, settings, transfer, feeds, metrics, the document."""

import asyncio
import contextlib
import importlib
import json
import math
import sqlite3
import sys
import threading
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise

import feedparser
import msgspec
import numpy as np
import pytest

from observant.errors import InputError
from observant.names import SORTS
from observant.observer.config import Config
from observant.observer.loop import Observer
from observant.observer.settings import KEPT, SettingsChanges, give_way
from observant.observer.spot_checks import SpotChecks
from observant.service import charts, studies
from observant.service.collection import BulkChange, Collection, NewSource, SourceChanges
from observant.service.collection.entries import MASK, web_address
from observant.service.collection.export import CollectionDocument
from observant.service.collection.reasons import price_of
from observant.service.measured import current_time, expected_time, measured
from observant.service.posteriors import read_beliefs
from observant.store import Entry, Posterior, Source, Subscription, Visit, open_store

from .patience import PATIENCE, eventually, run, until
from .service_world import HOSTILE, World, operations

ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture(scope="module")
def world():
    made = World().fill()
    yield made
    made.close()


@pytest.fixture
def fresh():
    made = World()
    yield made
    made.close()


@pytest.fixture(scope="module")
def program(world):
    with world.client("admin") as client:
        yield client


# -- sources ----------------------------------------------------------------------------------


def test_a_source_is_added_listed_changed_paused_and_removed(fresh):
    with fresh.client("write") as client:
        reply = client.post(
            "/api/v1/sources",
            json={"url": "HTTPS://Example.org:443/a#top", "tags": ["news"], "importance": 2},
        )
        assert reply.status_code == 201
        row = reply.json()["source"]
        assert (row["name"], row["importance"]) == ("https://example.org/a", 2)
        again = client.post("/api/v1/sources", json={"url": "https://example.org/a"})
        assert (again.status_code, again.json()["new"]) == (200, False)
        assert again.json()["source"]["tags"] == ["news"]
        page = client.get("/api/v1/sources", params={"tag": "news"}).json()
        assert (page["total"], page["next"]) == (1, None)
        path = f"/api/v1/sources/{row['id']}"
        changed = client.patch(
            path, json={"title": "T", "settings": {"min_period": "1h"}, "tags": ["a", "b"]}
        ).json()
        assert (changed["title"], changed["tags"], changed["importance"]) == ("T", ["a", "b"], 2)
        detail = client.get(path).json()
        assert detail["settings"] == {"min_period": "1h"}
        assert detail["in_force"]["min_period"] == "1h"
        assert "never seen" in detail["why"]
        assert client.post(f"{path}/pause").json()["state"] == "paused"
        assert "paused" in client.get(path).json()["why"]
        assert client.post(f"{path}/check").status_code == 422
        assert client.post(f"{path}/resume").json()["state"] == "active"
        assert client.delete(path).status_code == 204
        assert client.get(path).status_code == 404
        assert (
            client.get(path).json()["detail"] == f"there is no source with the number {row['id']}"
        )


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "file:/etc/passwd",
        "FILE:///etc/passwd",
        "source:file:///etc/passwd",
        " file:///etc/passwd",
        "\tfile:///etc/passwd",
        "fi\nle:///etc/passwd",
        "javascript:alert(1)",
        "java\tscript:alert(1)",
        "data:text/html,x",
        "ftp://example.org/",
        "gopher://example.org/",
        "http:/example.org/",
        "http:example.org",
        "https:///example.org/",
        "//example.org/",
        "example.org",
        "http://good.example\\@bad.example/",
        "http:\\\\example.org\\",
        "http://exa mple.org/",
        " https://example.org/",
        "https://example.org/ ",
        "https://example.org/\u202e",
        "https://example.org/\u200b",
        "https://example.org/\u00a0x",
        "https://a@b@example.org/",
        "https://example.org:22/",
        "https://",
        "/etc/passwd",
        "C:\\x",
        "view-source:https://example.org/",
    ],
)
def test_only_web_addresses_come_in_whatever_the_disguise(program, world, url):
    before = world.store.sources.count()
    for path, body in (
        ("/api/v1/sources", {"url": url}),
        ("/api/v1/sources/import", [{"url": url}]),
        ("/api/v1/import", {"sources": [{"url": url}]}),
    ):
        reply = program.post(path, json=body)
        if path == "/api/v1/sources":
            assert reply.status_code == 422, reply.text
        else:
            assert reply.json()["added"] == 0
            assert len(reply.json()["refused"]) == 1
    assert program.patch("/api/v1/sources/1", json={"url": url}).status_code == 422
    assert world.store.sources.count() == before


@pytest.mark.parametrize("kind", ["file", "command", "callable", "nonsense", "observant.x:Y", ""])
def test_kinds_that_read_files_or_run_code_do_not_come_in(program, kind):
    body = {"url": "https://example.org/", "kind": kind}
    assert program.post("/api/v1/sources", json=body).status_code == 422


@pytest.mark.parametrize(
    "body",
    [
        {"url": "https://example.org/", "id": 7},
        {"url": "https://example.org/", "host": "127.0.0.1"},
        {"url": "https://example.org/", "due_at": 0},
        {"url": "https://example.org/", "settings": {"allow": ["10.0.0.0/8"]}},
        {"url": "https://example.org/", "settings": {"compare": {"plugin": "os:system"}}},
        {"url": "https://example.org/", "settings": {"limits": {"nonsense": 1}}},
        {"url": "https://example.org/", "settings": {"limits": {"body": 10**10}}},
        {"url": "https://example.org/", "settings": {"limits": {"total": 3600}}},
        {"url": "https://example.org/", "settings": {"compare": {"regex": "((a{999}){999}){999}"}}},
        {"url": "https://example.org/", "importance": -1},
        {"url": "https://example.org/", "importance": "much"},
        {"url": "https://example.org/", "tags": [""]},
        {"url": "https://example.org/", "state": "removed"},
        {"url": "https://example.org/", "name": "=HYPERLINK(1)"},
        {"url": "https://example.org/", "name": "a\nb"},
        {"url": "https://example.org/", "name": "x" * 2001},
        {"url": 7},
        {},
        [],
        None,
    ],
)
def test_what_is_not_in_the_form_is_refused(program, world, body):
    before = world.store.sources.count()
    assert program.post("/api/v1/sources", json=body).status_code in {400, 422}
    assert world.store.sources.count() == before


def test_too_many_visits_asked_for_at_once_are_turned_away_at_once(fresh, monkeypatch):
    """Nobody waits in a thread for a visit that cannot begin: busy is an answer."""
    from observant.service.collection import sources

    begun, go_on = threading.Semaphore(0), threading.Event()

    def visit(_self, _name):
        begun.release()
        assert go_on.wait(PATIENCE)
        raise TimeoutError

    monkeypatch.setattr(sources.CollectionSources, "_look", visit)
    with fresh.client("write") as client, ThreadPoolExecutor(4) as people:
        made = client.post("/api/v1/sources", json={"url": "https://example.org/"}).json()
        path = f"/api/v1/sources/{made['source']['id']}/check"
        waiting = [people.submit(client.post, path) for _ in range(4)]
        try:
            for _ in waiting:
                assert begun.acquire(timeout=PATIENCE)
            for _ in range(12):
                reply = client.post(path)
                assert (reply.status_code, reply.headers["retry-after"]) == (503, "5")
                assert client.get("/health").status_code in {200, 503}
        finally:
            go_on.set()
        assert all(future.result().status_code == 503 for future in waiting)


@pytest.mark.slow
def test_an_address_may_hold_credentials_that_nobody_sees_again(fresh):
    with fresh.client("admin") as client:
        url = "https://ada:secret@example.org/a"
        row = client.post("/api/v1/sources", json={"url": url}).json()["source"]
        assert row["name"] == "https://example.org/a"
        for path in (f"/api/v1/sources/{row['id']}", "/api/v1/sources", "/api/v1/export"):
            assert "secret" not in client.get(path).text
        assert "ada:secret" in client.get("/api/v1/export?secrets=true").text
    with fresh.client("write") as client:
        assert client.get("/api/v1/export?secrets=true").status_code == 403


def test_stored_secrets_are_never_sent_to_a_newly_set_host(fresh):
    headers = {"Authorization": "Bearer top-secret"}
    added = fresh.collection.sources.add(
        NewSource(url="https://good.example/", settings={"headers": headers})
    )
    number = added.source.id
    assert fresh.collection.sources.get(number).settings == {"headers": {"Authorization": MASK}}
    with pytest.raises(InputError, match="another host"):
        fresh.collection.sources.update(number, SourceChanges(url="https://evil.example/"))
    with pytest.raises(InputError, match="another host"):  # nor by giving the mask back
        fresh.collection.sources.update(
            number,
            SourceChanges(
                url="https://evil.example/", settings={"headers": {"Authorization": MASK}}
            ),
        )
    fresh.collection.sources.update(
        number, SourceChanges(settings={"headers": {"Authorization": MASK}})
    )
    assert fresh.store.sources.numbered(number).config == {"headers": headers}
    fresh.collection.sources.update(number, SourceChanges(url="https://evil.example/", settings={}))
    assert fresh.store.sources.numbered(number).config == {}

    with_password = fresh.collection.sources.add(NewSource(url="https://ada:pw@good.example/b"))
    with pytest.raises(InputError, match="another host"):
        fresh.collection.sources.update(
            with_password.source.id, SourceChanges(url=f"https://{MASK}@evil.example/b")
        )
    anew = fresh.collection.sources.add(NewSource(url="https://ada:pw@good.example/moved"))
    fresh.collection.sources.update(
        anew.source.id, SourceChanges(url="https://eve:new@other.example/b")
    )
    assert fresh.store.sources.numbered(anew.source.id).url == "https://eve:new@other.example/b"
    kept = fresh.collection.sources.update(
        with_password.source.id, SourceChanges(url=f"https://{MASK}@good.example/c")
    )
    assert fresh.store.sources.numbered(kept.id).url == "https://ada:pw@good.example/c"


@pytest.mark.slow
def test_pages_follow_one_another_in_every_order(fresh):
    for k in range(25):
        fresh.collection.sources.add(
            NewSource(url=f"https://h{k % 3}.example/{k}", importance=k % 4)
        )
    with fresh.client("read") as client:
        for sort in SORTS:
            for descending in ("true", "false"):
                seen, after = [], None
                while True:
                    params = {"limit": 7, "sort": sort, "descending": descending}
                    page = client.get(
                        "/api/v1/sources", params=params | ({"after": after} if after else {})
                    ).json()
                    assert page["total"] == 25
                    seen += [row["id"] for row in page["sources"]]
                    after = page["next"]
                    if after is None:
                        break
                assert sorted(seen) == list(range(1, 26))
        assert client.get("/api/v1/sources?host=h1.example").json()["total"] == 8
        assert client.get("/api/v1/sources?search=h2 example").json()["total"] == 8
        assert client.get("/api/v1/sources?after=nonsense").status_code == 422


def test_many_are_changed_at_once(fresh):
    for k in range(10):
        fresh.collection.sources.add(
            NewSource(url=f"https://h.example/{k}", tags=("even",) * (k % 2 == 0))
        )
    with fresh.client("write") as client:

        def bulk(**change):
            reply = client.post("/api/v1/sources/bulk", json=change)
            return reply.json()["sources"] if reply.status_code == 200 else reply.status_code

        assert bulk(action="pause", tag="even") == 5
        assert client.get("/api/v1/sources?state=paused").json()["total"] == 5
        assert bulk(action="resume", ids=[1, 3]) == 2
        assert bulk(action="tag", value="x", host="h.example") == 10
        assert bulk(action="untag", value="x", state="paused") == 3
        assert {tag["tag"]: tag["sources"] for tag in client.get("/api/v1/tags").json()} == {
            "even": 5,
            "x": 7,
        }
        assert bulk(action="importance", value=5, all=True) == 10
        assert bulk(action="pause") == 422  # everything must be meant
        assert bulk(action="tag", all=True) == 422
        assert bulk(action="importance", value="much", all=True) == 422
        assert bulk(action="explode", all=True) == 400
        assert {s.importance for s in fresh.store.sources.list().sources} == {5.0}
        assert bulk(action="remove", ids=[1]) == 1
        assert bulk(action="remove", ids=[1]) == 404
        assert client.get("/api/v1/sources").json()["total"] == 9


def test_visits_versions_and_differences_are_told(program):
    visits = program.get("/api/v1/sources/1/visits?limit=10").json()
    assert len(visits["visits"]) == 10
    assert visits["visits"][0]["outcome"] == "same"
    following = program.get(f"/api/v1/sources/1/visits?limit=10&after={visits['next']}").json()
    assert following["visits"][0]["started_at"] < visits["visits"][-1]["started_at"]
    assert len(program.get("/api/v1/sources/1/visits?changed=true").json()["visits"]) == 5
    versions = program.get("/api/v1/sources/1/versions").json()
    assert len(versions) == 6
    found = program.get("/api/v1/sources/1/diff").json()
    assert [part["new"] for part in found["parts"] if part["kind"] == "changed"] == ["5"]
    chosen = program.get(
        "/api/v1/sources/1/diff",
        params={"old": versions[5]["digest"], "new": versions[0]["digest"], "by": "lines"},
    ).json()
    assert "- version 0" in chosen["text"]
    assert program.get("/api/v1/sources/3/diff").status_code == 422
    other = program.get("/api/v1/sources/1/diff", params={"old": "0" * 64})
    assert other.status_code == 404


def test_a_snapshot_is_a_text_to_download_and_only_of_its_source(program, world):
    digest = program.get("/api/v1/sources/1/versions").json()[0]["digest"]
    reply = program.get(f"/api/v1/sources/1/versions/{digest}")
    assert reply.text.startswith("version 5\n<script>")
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    assert reply.headers["content-disposition"].startswith("attachment")
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in reply.headers["content-security-policy"]
    assert program.get(f"/api/v1/sources/3/versions/{digest}").status_code == 404
    for path in ("../../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e", "x" * 64):
        assert program.get(f"/api/v1/sources/1/versions/{path}").status_code in {400, 404}
    assert world.store.sources.count() == 3


def test_checking_visits_now_and_records_it(tmp_path):
    page = tmp_path / "page.txt"
    page.write_text("one")
    with open_store(tmp_path / "store.db") as store:
        collection = Collection(store, Config(files=(str(tmp_path),)))
        collection.sources.add(NewSource(url=str(page), kind="file"), trusted=True)
        assert collection.sources.check(1).visit.outcome == "first"
        page.write_text("two, and more of it")
        assert collection.sources.check(1).visit.outcome == "changed"
        assert store.sources.numbered(1).visits == 2
        collection.cache.close()


# -- the overview -----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_overview_tells_all_of_it(program):
    told = program.get("/api/v1/overview?grace=6h").json()
    assert told["sources"] == 3
    assert (told["visits"], told["failures"]) == (61, 1)
    assert told["grace_days"] == 0.25
    assert 0 < told["alpha"]["low"] <= told["alpha"]["value"] <= told["alpha"]["high"] < 1
    curve = [point["alpha"] for point in told["curve"]]
    assert curve == sorted(curve)
    assert len(told["hours"]) == 48
    assert sum(hour["visits"] for hour in told["hours"]) == 61
    assert told["budget"]["spent_today"] == sum(hour["visits"] for hour in told["hours"][-24:])
    factors = [option["factor"] for option in told["budget"]["options"]]
    alphas = [option["alpha"] for option in told["budget"]["options"]]
    assert factors == [0.5, 1.0, 1.5]
    assert alphas == sorted(alphas)
    assert told["hosts"][0]["host"] == "c.example"
    assert told["hosts"][0]["error"] == HOSTILE
    assert len(told["latest"]) == 10
    assert told["measured"]["sources"] == 2
    assert not told["observing"]
    assert program.get("/api/v1/overview?grace=-1d").status_code == 422


@pytest.mark.slow
def test_expected_currency_is_that_of_the_closed_form():
    """One source of known rate, last seen s days ago: α(β) = e^(−λ (s−β)⁺)."""
    from observant.estimation.belief import OLD_GRID as GRID

    now = 1.8e9
    with open_store(":memory:") as store:
        store.sources.add([Source(name="a", host="h")], now=now)
        sharp = np.full(len(GRID), -1e30, np.float32)
        place = int(np.argmin(np.abs(GRID - 0.5)))
        sharp[place] = 0.0
        store.visits.record(
            Visit(source="a", started_at=now - 86_400, ended_at=now - 86_400, outcome="first"),
            posterior=Posterior(data=sharp.tobytes(), rate=float(GRID[place])),
            now=now,
        )
        collection = Collection(store, Config(), clock=lambda: now)
        for grace in (0.0, 0.25, 1.0, 5.0):
            exact = math.exp(-GRID[place] * max(1 - grace, 0))
            assert collection.overview(grace).alpha.value == pytest.approx(exact, abs=1e-9)
        collection.cache.close()


def test_every_source_is_current_by_its_own_grace():
    """Its own setting, that of its tag, or that of the collection; with currency alone."""
    config = Config(
        objective="currency", grace="1h", budget="9/day", tags={"news": {"grace": "2h"}}
    )
    with open_store(":memory:") as store:
        collection = Collection(store, config)
        for name, own in (("own", {"grace": "3d"}), ("tagged", {}), ("plain", {})):
            tags = ("news",) if name == "tagged" else ()
            collection.sources.add(
                NewSource(url=f"https://{name}.example/", tags=tags, settings=own)
            )
        beliefs = collection.beliefs()
        by_name = dict(zip(beliefs.columns.name, beliefs.graces().tolist(), strict=True))
        plan = studies.plan_study(collection, wait=60.0).value.answer
        notes = collection.overview(patience=60.0).notes
        why = collection.sources.why("https://own.example/")
        collection.cache.close()
        fresh = Collection(store, msgspec.structs.replace(config, objective="freshness", grace=0))
        without = fresh.beliefs().graces()
        fresh.cache.close()
    assert {name.split("/")[2].split(".")[0]: grace for name, grace in by_name.items()} == {
        "own": 3.0,
        "tagged": pytest.approx(2 / 24),
        "plain": pytest.approx(1 / 24),
    }
    # All are believed to be alike, so the most forgiving one is the most current. A grace longer
    # than its period costs nothing.
    alpha = dict(zip(plan.name, plan.plan.alpha.tolist(), strict=True))
    assert alpha["https://own.example/"] == max(alpha.values())
    assert plan.alpha == pytest.approx(plan.promised([None])[0], abs=1e-9)
    assert plan.alpha > plan.promised([1 / 24])[0] + 0.01
    assert any("2 sources have a grace of their own" in note for note in notes)
    assert "It was never seen" in why
    assert not without.any()


@pytest.mark.slow
def test_whatever_is_said_of_the_plan_is_said_of_one_plan():
    """On a new store the page said that the plan promises 99.9 %, beside a curve from 14 %."""
    with open_store(":memory:") as store:
        store.sources.add([Source(name=f"https://{k}.example/") for k in range(40)])
        collection = Collection(store, Config(budget="200/day"))
        plan = studies.plan_study(collection, wait=60.0).value.answer
        view = collection.overview(patience=60.0)
        graces = [point.grace_days for point in view.curve]
        drawn = json.loads(charts.drawn(collection, "performance", {}))
        price = price_of(collection)
        collection.cache.close()
    assert view.alpha_planned == pytest.approx(plan.alpha, abs=1e-6)
    (same,) = (option.alpha for option in view.budget.options if option.factor == 1)
    assert same == pytest.approx(plan.alpha, abs=1e-6)
    assert price == plan.price
    (shown,) = (
        [row["plan"] for row in layer["data"]["values"]]
        for layer in drawn["layer"]
        if "plan" in layer.get("data", {}).get("values", [{}])[0]
    )
    assert shown == pytest.approx(plan.promised(graces), abs=1e-6)
    assert shown[0] == pytest.approx(plan.alpha, abs=1e-6)


def test_time_current_in_a_gap_agrees_with_simulation():
    """200,000 exponential first updates each: the mean is within 5 standard errors."""
    rng = np.random.default_rng(1)
    for rate, gap, grace in ((0.3, 1.0, 0.0), (2.0, 1.5, 0.4), (5.0, 2.0, 3.0), (1e-6, 1.0, 0.25)):
        if rate > 1e-3:
            tau = rng.exponential(1 / rate, 200_000)
            current = np.minimum(tau + grace, gap)
            error = 5 * current.std() / math.sqrt(len(tau)) + 1e-12
            assert expected_time(np.array([gap]), np.array([rate]), grace)[0] == pytest.approx(
                current.mean(), abs=error
            )
            within = current[tau < gap]
        else:  # so slow that the update, given that it came, is uniform in the gap
            tau = rng.uniform(0, gap, 200_000)
            within = np.minimum(tau + grace, gap)
        error = 5 * within.std() / math.sqrt(len(within)) + 1e-12
        assert current_time(np.array([gap]), np.array([rate]), grace)[0] == pytest.approx(
            within.mean(), abs=error
        )


@pytest.mark.slow
def test_measured_currency_covers_the_truth_of_a_simulated_world():
    """60 Poisson sources, visited every so often for four weeks; the true time-average currency
    is known from the updates. With 2.5 standard errors a right answer fails once in 80 seeds.
    """
    rng, now = np.random.default_rng(7), 1.8e9
    with open_store(":memory:") as store:
        names = [f"https://h.example/{k}" for k in range(60)]
        store.sources.add([Source(name=name, host="h") for name in names], now=now)
        truth = []
        for name in names:
            rate, period = float(rng.gamma(2.0, 0.4)), float(rng.uniform(0.3, 2.0))
            updates = np.sort(rng.uniform(0, 28, rng.poisson(rate * 28)))
            visits = np.arange(rng.uniform(0, period), 28, period)
            current = total = 0.0
            for start, end in pairwise(visits):
                inside = updates[(updates > start) & (updates <= end)]
                current += (inside[0] - start) if len(inside) else end - start
                total += end - start
            truth.append(current / total)
            for k, day in enumerate(visits):
                changed = (
                    None if k == 0 else bool(np.any((updates > visits[k - 1]) & (updates <= day)))
                )
                at = now - (28 - day) * 86_400
                store.visits.record(
                    Visit(
                        source=name,
                        started_at=at,
                        ended_at=at,
                        outcome="first" if k == 0 else "changed" if changed else "same",
                        changed=changed,
                    ),
                    posterior=Posterior(data=_poisson_evidence(rate), rate=rate),
                )
        found = measured(store, read_beliefs(store, Config(), now), 0.0)
    assert found.sources == 60
    half = (found.high - found.low) / 2
    assert abs(found.alpha - np.mean(truth)) < 2.5 / 1.96 * half
    assert abs(found.expected - np.mean(truth)) < 0.08
    assert found.least < np.mean(truth) < found.most


def _starved_world(store, *, checks_per_day, seed, days=28.0, count=24, rate=2.0):
    """Half of the sources are visited every hour or so, half were visited once, 25 days and more
    ago. Chance looks at some of them. Returns the true share of the time that copies were current,
    over the whole collection, from the updates themselves.
    """
    rng, now = np.random.default_rng(seed), 1.8e9
    begin = now - days * 86_400
    checks = SpotChecks(seed)
    checks.set_rate(checks_per_day, begin)
    names = [f"https://h.example/{k}" for k in range(count)]
    store.sources.add([Source(name=name, host="h") for name in names], now=begin)
    moments = {name: [] for name in names}
    for k, name in enumerate(names):
        if k % 2:
            moments[name] = [(at, None) for at in np.arange(rng.uniform(0, 1 / 24), days, 1 / 24)]
        else:
            moments[name] = [(rng.uniform(0, 0.5), None)]
    at = begin
    while (at := checks.next_at) < now:
        name = checks.pick(at, names)
        moments[name].append(((at - begin) / 86_400, checks.expected(count)))
    current = 0.0
    for name in names:
        updates = np.sort(rng.uniform(0, days, rng.poisson(rate * days)))
        last, entries = None, []
        for day, check in sorted(moments[name]):
            changed = None
            if last is not None:
                between = updates[(updates > last) & (updates <= day)]
                changed = bool(len(between))
                current += (between[0] if changed else day) - last
            last = day
            instant = begin + day * 86_400
            entries.append(
                Entry(
                    visit=Visit(
                        source=name,
                        started_at=instant,
                        ended_at=instant,
                        outcome="first" if changed is None else "changed" if changed else "same",
                        changed=changed,
                    ),
                    posterior=Posterior(data=_poisson_evidence(rate), rate=rate),
                    spot_check=check,
                )
            )
        after = updates[updates > last]
        current += (after[0] if len(after) else days) - last
        store.visits.record_many(entries, now=now)
    return current / (days * count), now


@pytest.mark.slow
def test_spot_checks_measure_the_sources_that_the_schedule_leaves_alone():
    """Half of the store is starved: without spot checks the copies seemed to be all current."""
    covered, errors = 0, []
    for seed in range(12):
        with open_store(":memory:") as store:
            truth, now = _starved_world(store, checks_per_day=4.0, seed=seed)
            found = measured(store, read_beliefs(store, Config(), now), 0.0)
        assert 0.45 < truth < 0.62
        assert "spot checks" in found.method
        covered += found.low <= truth <= found.high
        errors.append(found.alpha - truth)
        assert 0.1 < found.high - found.low < 0.25  # about 112 draws: ± 0.09
    # Of 12 intervals of 95 % fewer than 9 hold the truth once in 5,000 times.
    assert covered >= 9
    assert abs(np.mean(errors)) < 4 * 0.05 / math.sqrt(12)


@pytest.mark.slow
def test_without_spot_checks_the_interval_allows_for_what_nobody_saw():
    with open_store(":memory:") as store:
        truth, now = _starved_world(store, checks_per_day=0.0, seed=1)
        beliefs = read_beliefs(store, Config(), now)
        found = measured(store, beliefs, 0.0)
        late = measured(store, beliefs, 400.0)
    assert truth == pytest.approx(0.49, abs=0.02)
    assert found.sources == 24
    assert found.alpha == pytest.approx(truth, abs=0.03)  # the model says what became of the rest
    assert found.low < truth < found.high
    assert found.high > 0.9  # nobody looked: they may all be as they were
    assert late.alpha == pytest.approx(1.0)


def test_a_spot_check_counts_by_its_chance_and_its_importance():
    """Two sources, one of them three times as important and looked at nine times as often."""
    now = 1.8e9
    with open_store(":memory:") as store:
        store.sources.add(
            [Source(name="a", importance=3.0), Source(name="b", importance=1.0)], now=now - 1e6
        )
        for name, changed, chance, count in (("a", False, 9.0, 18), ("b", True, 1.0, 4)):
            for k in range(count):
                at = now - 1e5 + 1e3 * k
                visit = Visit(
                    source=name,
                    started_at=at,
                    ended_at=at,
                    outcome="changed" if changed else "same",
                    changed=changed,
                )
                store.visits.record_many([Entry(visit=visit, spot_check=chance)], now=now)
        seen = Visit(source="a", started_at=now - 2e5, ended_at=now - 2e5, outcome="first")
        store.visits.record(seen)
        seen = Visit(source="b", started_at=now - 2e5, ended_at=now - 2e5, outcome="first")
        store.visits.record(seen)
        found = measured(store, read_beliefs(store, Config(), now), 0.0)
    # 18 of 3/9 each, current; 4 of 1/1 each, not.
    assert found.alpha == pytest.approx(6 / (6 + 4))
    assert found.sources == 2
    assert found.visits == 22


def _poisson_evidence(rate):
    from observant.estimation.belief import OLD_GRID as GRID

    return (-0.5 * (np.log(GRID / rate) / 0.1) ** 2).astype(np.float32).tobytes()


def test_hours_are_counted_with_the_visits_on_both_engines(store):
    store.sources.add([Source(name=name, host="h") for name in "ab"], now=1e9)
    for at, outcome in ((7200.0, "first"), (7300.0, "changed"), (10_900.0, "failed")):
        for name in "ab":
            store.visits.record(
                Visit(
                    source=name,
                    started_at=at,
                    ended_at=at + 1,
                    outcome=outcome,
                    changed=True if outcome == "changed" else None,
                    bytes=10,
                ),
                now=1e9,
            )
    again = Visit(source="a", started_at=7200.0, ended_at=7201.0, outcome="first", bytes=10)
    store.visits.record(again)  # known already: not counted twice
    assert [
        (h.at, h.visits, h.changes, h.failures, h.bytes) for h in store.visits.hours(since=0.0)
    ] == [
        (7200.0, 4, 2, 0, 40),
        (10_800.0, 2, 0, 2, 20),
    ]
    assert len(store.visits.hours(since=10_800.0)) == 1
    numbers = [store.sources.get(name).id for name in "ab"]
    table = store.visits.timelines(numbers, since=0.0)
    assert table.shape == (4, 3)
    assert table[1].tolist() == [numbers[0], 7300.0, 1.0]


def test_a_store_of_before_gets_its_hours_counted(tmp_path):
    """The migration counts the visits that are there already."""
    place = tmp_path / "old.db"
    with open_store(place) as store:
        store.sources.add([Source(name="a", host="h")])
        for at, outcome in ((7200.0, "first"), (7300.0, "changed"), (90_000.0, "failed")):
            store.visits.record(
                Visit(
                    source="a",
                    started_at=at,
                    ended_at=at,
                    outcome=outcome,
                    changed=True if outcome == "changed" else None,
                    bytes=5,
                )
            )
        counted = store.visits.hours(since=0.0)
    with closing(sqlite3.connect(place)) as database:
        newer = "sessions tokens accounts replies hours requests signals websub"
        for table in newer.split():
            database.execute(f"DROP TABLE {table}")
        database.execute("ALTER TABLE leases DROP COLUMN holder")
        database.execute("DROP INDEX visits_spot_check")
        database.execute("ALTER TABLE visits DROP COLUMN spot_check")
        database.execute("ALTER TABLE sources DROP COLUMN cost")
        database.execute("DELETE FROM migrations WHERE number >= 4")
        database.commit()
    with open_store(place) as store:
        assert store.visits.hours(since=0.0) == counted
        assert [hour.visits for hour in counted] == [2, 1]
        assert store.accounts.list() == []


# -- settings ---------------------------------------------------------------------------------


def test_settings_are_changed_kept_and_given_back(fresh):
    with fresh.client("write") as client:
        assert client.get("/api/v1/settings").json()["budget_per_day"] == 24
        wanted = {"budget": "2/s", "objective": "currency", "grace": "6h"}
        told = client.patch("/api/v1/settings", json=wanted).json()
        assert (told["budget_per_day"], told["grace_days"]) == (172_800, 0.25)
        assert told["kept"] == ["budget", "grace", "objective"]
        assert fresh.collection.config.budget_per_day == 172_800
        for bad in (
            {"budget": "much"},
            {"budget": "0/day"},
            {"objective": "fame"},
            {"grace": "-1d"},
            {"store": "elsewhere"},
            {"allow": ["0.0.0.0/0"]},
            {"retention": {"max_age": "x"}},
        ):
            assert client.patch("/api/v1/settings", json=bad).status_code in {400, 422}, bad
        left = client.patch("/api/v1/settings", json={"budget": None}).json()["kept"]
        assert left == ["grace", "objective"]
        assert "postgres" not in client.get("/api/v1/settings").text.lower()


def test_a_flag_puts_an_end_to_what_was_kept(fresh):
    kept = {"budget": "5/day", "objective": "currency", "grace": "1h"}
    fresh.collection.settings.change(SettingsChanges(**kept))
    give_way(fresh.store, {"budget": None, "allow": ("10.0.0.0/8",)})
    assert fresh.store.settings.get(KEPT) == kept
    give_way(fresh.store, {"budget": "9/day"})
    assert fresh.store.settings.get(KEPT) == {"objective": "currency", "grace": "1h"}
    assert fresh.collection.config.budget_per_day == 24


def test_a_running_observer_takes_up_new_settings(tmp_path):
    page = tmp_path / "page.txt"
    page.write_text("one")

    async def main():
        with open_store(tmp_path / "store.db") as store:
            config = Config(budget="2/s", host_delay=0.0, files=(str(tmp_path),))
            observer = Observer(store, config)
            collection = Collection(store, config, observer, loop=asyncio.get_running_loop())
            collection.sources.add(
                NewSource(url=str(page), kind="file", settings={"min_period": "1s"}), trusted=True
            )
            task = asyncio.create_task(observer.run())
            await eventually(lambda: observer.tally.visits)
            seen = await asyncio.to_thread(collection.sources.check, 1)
            assert seen.visit.outcome == "same"
            assert (await asyncio.to_thread(collection.status)).visits >= 2
            changes = SettingsChanges(budget="5/s", objective="currency", grace="1h")
            await asyncio.to_thread(collection.settings.change, changes)
            await eventually(lambda: observer.status().budget_per_day == pytest.approx(5 * 86_400))
            assert observer.config.objective == "currency"
            assert observer.schedule.budget == pytest.approx(5 * 86_400 * (1 - config.spot_checks))
            assert observer.config.grace_days == pytest.approx(1 / 24)
            assert str(page) in observer.schedule
            observer.stop()
            await task
            collection.cache.close()
            again = Observer(store, config)  # and after a restart
            await again._restore()
            assert again.config.objective == "currency"

    run(main())


# -- everything that was entered --------------------------------------------------------------


def entered(world):
    """Sources with settings, tags and importance; subscriptions; settings."""
    collection = world.collection
    collection.sources.add_many(
        [
            NewSource(
                url="https://ada:pw@a.example/",
                title=HOSTILE,
                tags=("ü", "news"),
                importance=0.5,
                state="paused",
                settings={
                    "headers": {"X": "s3cret"},
                    "compare": {"ignore": ["\\d+"]},
                    "active": ["mon-fri"],
                },
            ),
            NewSource(url="https://b.example/feed", kind="feed", name="My feed"),
            NewSource(url="https://c.example/"),
        ]
    )
    world.store.subscriptions.add(
        Subscription(name="me", channel="https://hooks.example/secret-path", secret="k" * 20)
    )
    world.store.subscriptions.add(Subscription(name="mail", channel="mailto:me@example.org"))
    changes = SettingsChanges(budget="77/day", objective="currency", grace="2h")
    collection.settings.change(changes)


@pytest.mark.slow
def test_everything_entered_goes_out_and_in_again_without_loss(fresh):
    entered(fresh)
    with fresh.client("admin") as client:
        document = client.get("/api/v1/export?secrets=true").json()
        hidden = client.get("/api/v1/export").text
    for secret in ("pw@", "s3cret", "secret-path", "k" * 20):
        assert secret in json.dumps(document)
        assert secret not in hidden
    other = World()
    with other.client("admin") as client:
        for expected in ({"added": 5, "changed": 0, "known": 0}, {"added": 0, "known": 5}):
            told = client.post("/api/v1/import", json=document).json()
            assert told["refused"] == []
            assert told | expected == told
            assert client.get("/api/v1/export?secrets=true").json() == document
        refused = client.post("/api/v1/import", json=json.loads(hidden)).json()["refused"]
        assert {one["what"] for one in refused} == {"https://a.example/", "me"}
        assert client.get("/api/v1/export?secrets=true").json() == document
        document["sources"][1]["importance"] = 3
        document["subscriptions"][0]["enabled"] = False
        told = client.post("/api/v1/import", json=document).json()
        assert (told["changed"], told["known"]) == (2, 3)
    mine = {s.name: _described(s) for s in fresh.store.sources.list().sources}
    theirs = {s.name: _described(s) for s in other.store.sources.list().sources}
    changed = document["sources"][1]["name"]
    assert theirs[changed]["importance"] == 3
    theirs[changed]["importance"] = mine[changed]["importance"]
    assert mine == theirs
    assert other.store.settings.get(KEPT) == fresh.store.settings.get(KEPT)
    other.close()


def _described(source):
    names = ("kind", "url", "host", "title", "tags", "importance", "state", "config")
    return {name: getattr(source, name) for name in names}


def test_a_document_with_unknown_fields_is_refused():
    for bad in ({"source": []}, {"sources": [{"url": "https://a.example/", "x": 1}]}):
        with pytest.raises(msgspec.ValidationError, match="unknown field"):
            msgspec.convert(bad, CollectionDocument)


@pytest.mark.slow
def test_an_import_with_a_key_is_done_once(fresh):
    sources = [{"url": f"https://h.example/{k}"} for k in range(5)] + [{"url": "file:///x"}]
    with fresh.client("write") as client:
        headers = {"Idempotency-Key": "import-1"}
        first = client.post("/api/v1/sources/import", json=sources, headers=headers).json()
        assert (first["added"], len(first["refused"])) == (5, 1)
        assert first["refused"][0]["row"] == 6
        again = client.post("/api/v1/sources/import", json=sources, headers=headers).json()
        assert again == first
        plain = client.post("/api/v1/sources/import", json=sources).json()
        assert (plain["added"], plain["known"]) == (0, 5)
        other = client.post("/api/v1/sources/import", json=sources[:1], headers=headers)
        assert other.status_code == 409
    with fresh.client("admin") as client:  # a key belongs to whoever used it
        assert (
            client.post("/api/v1/sources/import", json=sources, headers=headers).json()["known"]
            == 5
        )


# -- notifications ----------------------------------------------------------------------------


@pytest.mark.slow
def test_subscriptions_are_made_changed_and_removed(fresh):
    with fresh.client("write") as client:
        made = client.post(
            "/api/v1/subscriptions",
            json={
                "name": "me",
                "channel": "https://hooks.example/path",
                "filter": {"tags": ["news"]},
            },
        )
        assert made.status_code == 201, made.text
        assert len(made.json()["secret"]) > 20
        number = made.json()["subscription"]["id"]
        (listed,) = client.get("/api/v1/subscriptions").json()
        assert "path" not in listed["channel"]
        assert listed["secret"] == MASK
        path = f"/api/v1/subscriptions/{number}"
        assert client.patch(path, json={"digest": "1h"}).json()["digest"] == "1h"
        kept = fresh.store.subscriptions.get("me")
        back = {"channel": listed["channel"], "secret": MASK}
        assert client.patch(path, json=back).status_code == 200
        assert fresh.store.subscriptions.get("me").channel == kept.channel
        assert fresh.store.subscriptions.get("me").secret == kept.secret
        client.patch(path, json={"channel": "https://evil.example/"})
        assert fresh.store.subscriptions.get("me").secret != kept.secret
        assert client.patch(path, json={"colour": "red"}).status_code == 400
        assert client.patch(path, json={"digest": "soon"}).status_code == 422
        assert client.get("/api/v1/deliveries").json() == {"deliveries": [], "next": None}
        assert client.post("/api/v1/deliveries/retry").json() == {"deliveries": 0}
        assert client.delete(path).status_code == 204
        assert client.get(path).status_code == 404
        assert client.get("/api/v1/deliveries?subscription=99").status_code == 404


# -- feeds ------------------------------------------------------------------------------------


def test_atom_is_valid_and_hostile_titles_are_inert(program):
    reply = program.get("/feeds/changes.atom")
    assert reply.headers["content-type"].startswith("application/atom+xml")
    assert "<script" not in reply.text
    root = ET.fromstring(reply.content)  # noqa: S314 (our own)
    entries = root.findall(f"{ATOM}entry")
    assert len(entries) == 10
    for name in ("title", "id", "updated"):
        assert root.find(f"{ATOM}{name}") is not None
        assert all(entry.find(f"{ATOM}{name}") is not None for entry in entries)
    assert {entry.find(f"{ATOM}title").get("type") for entry in entries} == {"text"}
    feed = feedparser.parse(reply.content)
    assert not feed.bozo
    assert "<script>alert(1)</script>" in feed.entries[0].title  # as text
    assert feed.entries[0].title_detail.type == "text/plain"
    links = [link.href for entry in feed.entries for link in entry.get("links", ())]
    assert links
    assert all(link.startswith("https://a.example/") for link in links)
    assert len({entry.id for entry in feed.entries}) == 10


def test_a_reader_that_has_the_feed_is_told_so(program):
    for path in ("/feeds/changes.atom", "/feeds/changes.json"):
        first = program.get(path)
        again = program.get(path, headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert program.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


def test_json_feed_is_valid_and_by_tag_and_source(program):
    feed = program.get("/feeds/changes.json").json()
    assert feed["version"] == "https://jsonfeed.org/version/1.1"
    assert len(feed["items"]) == 10
    for item in feed["items"]:
        assert item["id"]
        assert item["content_text"]
        assert item["date_published"].endswith("Z")
        assert "content_html" not in item
        assert not item.get("url", "").startswith("javascript")
    assert len(program.get("/feeds/changes.json?source=1").json()["items"]) == 5
    assert program.get("/feeds/changes.json?tag=x").json()["feed_url"].endswith("json?tag=x")
    assert len(program.get("/feeds/changes.json?tag=news").json()["items"]) == 10
    assert program.get("/feeds/changes.json?tag=none").json()["items"] == []
    assert program.get("/feeds/changes.atom?tag=none").status_code == 200
    assert program.get("/feeds/changes.json?source=99").status_code == 404


# -- monitoring -------------------------------------------------------------------------------


def test_health_says_what_is_wrong_and_nothing_secret(world):
    with world.client() as client:
        reply = client.get("/health")
        assert reply.status_code == 503
        assert reply.json()["problems"] == ["no observer is running"]
        for secret in ("example", "/tmp", "store.db"):  # noqa: S108
            assert secret not in reply.text


def test_health_waits_for_no_observer_and_its_status_is_read_once_a_second(world):
    """Its status goes through all sources in the loop that serves everybody: with ten readers of
    5,000 sources that was a third of all that the loop did, and /health stood in the same queue.
    """

    class Busy(Observer):
        asked = 0

        def status(self):
            Busy.asked += 1
            return super().status()

    async def main():
        observer = Busy(world.store, world.collection.given)
        loop = asyncio.get_running_loop()
        collection = Collection(world.store, Config(), observer, loop=loop)
        try:
            observer.outage.on = True
            held = await asyncio.to_thread(collection.health)
            assert "the network seems to be out" in held.problems
            assert Busy.asked == 0
            found = [await asyncio.to_thread(collection.status) for _ in range(20)]
            assert all(status.outage for status in found)
            assert Busy.asked < 20
        finally:
            collection.cache.close()

    run(main())


def test_metrics_speak_both_forms(program):
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as modern
    from prometheus_client.parser import text_string_to_metric_families as classic

    reply = program.get("/metrics")
    names = {family.name for family in classic(reply.text)}
    assert {"observant_store_sources", "observant_store_visits"} <= names
    reply = program.get("/metrics", headers={"Accept": "application/openmetrics-text"})
    assert "openmetrics" in reply.headers["content-type"]
    values = {f.name: f.samples for f in modern(reply.text)}
    assert values["observant_store_visits"][0].value == 61


# -- the document -----------------------------------------------------------------------------


def test_the_document_holds_every_operation_of_the_api(world, program):
    document = program.get("/api/v1/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    listed = {
        (path.replace("{", "").replace("}", ""), method.upper())
        for path, item in document["paths"].items()
        for method in item
        if method != "options"
    }
    for path, method, _, handler in operations(world.app):
        if handler.include_in_schema is False or method in {"OPTIONS", "HEAD"}:
            continue
        if path.startswith("/api/v1/") or path in {"/health", "/metrics"}:
            assert any(
                len(p.split("/")) == len(path.split("/")) and m == method for p, m in listed
            ), path
    operations_ = [
        operation
        for item in document["paths"].values()
        for operation in item.values()
        if isinstance(operation, dict)
    ]
    names = [operation["operationId"] for operation in operations_]
    assert len(names) == len(set(names)) > 45
    assert [one["operationId"] for one in operations_ if not one.get("description")] == []
    assert {"token", "session"} <= set(document["components"]["securitySchemes"])


@pytest.mark.slow
def test_every_answer_is_given_on_both_engines(store):
    made = World(store=store).fill()
    number = store.sources.get("https://a.example/").id
    long = {"/api/v1/rivals", "/api/v1/population"}
    with made.client("admin") as client:
        for path, method, _, _ in operations(made.app):
            if method == "GET" and path.startswith(("/api/", "/feeds/", "/metrics")):
                path = path.replace("/sources/1", f"/sources/{number}")  # noqa: PLW2901
                reply = client.get(path) if path not in long else None
                assert reply is None or reply.status_code < 500, (path, reply.text)
        for text in ("\0", "%", "'", "\\", "ü", "x" * 400):
            for path in ("/api/v1/sources", "/api/v1/events"):
                for name in ("search", "tag", "host", "kind", "topic"):
                    reply = client.get(path, params={name: text})
                    assert reply.status_code in {200, 400, 422}, (path, name, text)
        assert client.get("/api/v1/overview").json()["sources"] == 3
        assert client.get("/api/v1/sources?search=example").json()["total"] == 3
        assert (
            client.patch(f"/api/v1/sources/{number}", json={"title": "a\0b"}).json()["title"]
            == "a\N{REPLACEMENT CHARACTER}b"
        )
    made.collection.cache.close()


@pytest.mark.slow
def test_a_standing_query_comes_in_like_any_source(fresh):
    with fresh.client("write") as client:
        settings = {"query": {"form": "feed", "watch": True}}
        body = {"url": "https://search.example/?q=x", "kind": "query", "settings": settings}
        reply = client.post("/api/v1/sources", json=body)
        assert reply.status_code in {200, 201}, reply.text
        number = reply.json()["source"]["id"]
        assert client.get(f"/api/v1/sources/{number}/members").json() == []
        body["settings"] = {"query": {"nonsense": 1}}
        assert client.post("/api/v1/sources", json=body).status_code == 422


def test_problems_are_problem_details(program):
    reply = program.get("/api/v1/sources/9999")
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json()["status"] == 404
    reply = program.post("/api/v1/sources", content=b"{nonsense")
    assert (reply.status_code, reply.json()["title"]) == (400, "this cannot be used")
    reply = program.get("/api/v1/sources?limit=0")
    assert reply.status_code == 400
    assert "limit" in reply.text or ">= 1" in reply.text


def test_the_visit_log_is_downloaded_in_every_format(program):
    import io

    from observant import read_visits

    for name in ("parquet", "csv", "jsonl"):
        reply = program.get(f"/api/v1/visit-log?format={name}")
        assert reply.status_code == 200
        assert reply.headers["content-disposition"].startswith("attachment")
        log = read_visits(io.BytesIO(reply.content), format=name)
        assert len(log) == 61


@pytest.mark.slow
def test_plan_rivals_and_population_are_told_or_said_to_come(program):
    plan = program.get("/api/v1/plan?budget=100/day&grace=1h").json()
    assert plan["error"] == ""
    assert 0 < plan["alpha"] <= 1
    assert plan["budget_per_day"] == 100
    assert program.get("/api/v1/plan?budget=much").status_code == 422
    assert program.get("/api/v1/plan?objective=fame").status_code == 400
    assert {"ready", "rivals"} <= program.get("/api/v1/rivals").json().keys()
    assert {"ready", "hours_of_week"} <= program.get("/api/v1/population").json().keys()


@pytest.mark.parametrize(
    ("settings", "due_hours", "says"),
    [
        ({}, 30, "that price is reached 1.25d after the last visit, so it is due in 6h."),
        ({"min_period": "30h"}, 30, "since it may not be visited more often than every 1.25d"),
        ({"max_period": "30h"}, 30, "after its longest period of 1.25d"),
        ({"active": ["mon-fri 08:00-18:00"]}, 30, "within its hours (mon-fri 08:00-18:00)"),
        ({}, 20, "so it is due now"),
    ],
)
def test_the_why_of_a_source_names_price_index_and_constraints(fresh, settings, due_hours, says):
    now = fresh.collection.now()
    fresh.collection.now = lambda: now
    fresh.collection.given = Config(budget="1.5/day")
    fresh.collection.sources.add(
        NewSource(url="https://a.example/", importance=3, settings=settings)
    )
    fresh.collection.sources.add(NewSource(url="https://b.example/"))
    fresh.store.visits.record(
        Visit(
            source="https://a.example/",
            started_at=now - 24 * 3600,
            ended_at=now - 24 * 3600,
            outcome="first",
        ),
        posterior=Posterior(data=_poisson_evidence(0.5), rate=0.5, rate_low=0.3, rate_high=0.7),
        due_at=now + (due_hours - 24) * 3600,
    )
    until(lambda: price_of(fresh.collection) is not None)  # it is computed beside the pages
    text = fresh.collection.sources.why(1)
    assert text.startswith("It changes about once in 2d and has importance 3: a visit now is worth")
    assert "the budget buys visits worth" in text
    assert says in text


@pytest.mark.parametrize(
    ("days", "rate", "sampling", "says"),
    [
        (5, 300.0, "even", "it changes too often for visits to keep it current, and is due in 4d"),
        (0.01, 300.0, "even", "due now"),
        (0.3, 20.0, "even", "that price is reached"),
        (0.3, 20.0, "mixed", "it changes too often for visits to keep it current"),
    ],
)
def test_the_why_of_a_source_that_changes_too_often_to_be_kept_current(
    fresh, days, rate, sampling, says
):
    now = fresh.collection.now()
    fresh.collection.now = lambda: now
    fresh.collection.given = Config(budget="1/day", sampling=sampling)
    for letter, often in (("a", rate), ("b", 0.5)):
        fresh.collection.sources.add(NewSource(url=f"https://{letter}.example/"))
        fresh.store.visits.record(
            Visit(
                source=f"https://{letter}.example/",
                started_at=now - 24 * 3600,
                ended_at=now - 24 * 3600,
                outcome="first",
            ),
            posterior=Posterior(
                data=_poisson_evidence(often), rate=often, rate_low=often / 2, rate_high=2 * often
            ),
            due_at=now + (days - 1) * 24 * 3600,
        )
    until(lambda: price_of(fresh.collection) is not None)  # it is computed beside the pages
    text = fresh.collection.sources.why(1)
    assert says in text
    assert ("too often" in text) == ("too often" in says)


def test_the_why_of_a_source_that_is_not_visited_by_price(world):
    assert "The last visit failed" in world.collection.sources.why(3)


def test_bulk_refuses_to_mean_everything_by_accident(fresh):
    with pytest.raises(InputError, match="say which"):
        fresh.collection.sources.bulk(BulkChange(action="remove"))
    assert web_address("https://example.org/?q=ü") == "https://example.org/?q=ü"


# -- whatever the document allows -------------------------------------------------------------

_NOT_TRIED = {"sign_in", "sign_out", "change_password", "check_source", "visit_log"}
"""They hash for long, end the session, go to the network, or write large files."""


def try_document(examples, seed=0):
    """By schemathesis, what the document allows and forbids: (operation, status, wrong) of each."""
    import hypothesis
    import schemathesis

    made = World().fill()
    headers = {"Authorization": f"Bearer {made.tokens['admin']}"}
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", made.app, headers=headers)
    checks = [
        schemathesis.checks.CHECKS.get_one(f"{name}_conformance")
        for name in ("status_code", "content_type", "response_schema")
    ]
    found = []

    def check(case):
        reply, wrong = case.call(headers=headers), ""
        try:
            case.validate_response(reply, checks=checks)
        except schemathesis.errors.SchemathesisError as error:
            wrong = str(error)
        except BaseExceptionGroup as errors:
            wrong = "\n".join(map(str, errors.exceptions))
        found.append((case.operation.label, reply.status_code, wrong))

    for k, result in enumerate(schema.get_all_operations()):
        operation = result.ok()
        if operation.definition.raw["operationId"] in _NOT_TRIED:
            continue
        for mode in schemathesis.GenerationMode:
            given = hypothesis.given(case=operation.as_strategy(generation_mode=mode))
            quiet = hypothesis.settings(
                max_examples=examples,
                deadline=None,
                database=None,
                suppress_health_check=list(hypothesis.HealthCheck),
                phases=[hypothesis.Phase.generate],
            )
            # Nothing can be wrong about a request without parameters.
            with contextlib.suppress(hypothesis.errors.Unsatisfiable):
                hypothesis.seed(seed + k)(quiet(given(check)))()
    made.close()
    return found


@pytest.mark.slow
def test_nothing_that_the_document_allows_or_forbids_makes_the_service_fail():
    """No answer of 500 or more but that of /health, and every answer as the document says."""
    found = try_document(2)
    faults = [one for one in found if one[1] >= 500 and one[:2] != ("GET /health", 503)]
    assert [*faults, *(one for one in found if one[2])] == []
    assert len(found) > 200


def test_the_population_tells_of_links_that_died():
    """What a store logs of a gone source is a change; of the link it is the end."""
    now = 1_800_000_000.0
    with open_store(":memory:") as store:
        store.sources.add([Source(name=name) for name in ("a", "b")], now=now)
        for name, outcomes in (("a", "first same same same"), ("b", "first same gone same")):
            for k, outcome in enumerate(outcomes.split()):
                status = 404 if name == "b" and k >= 2 else 200
                at = now - (10 - k) * 86_400
                visit = Visit(
                    source=name,
                    started_at=at,
                    ended_at=at,
                    outcome=outcome,
                    changed=None if k == 0 else outcome == "gone",
                    status=status,
                )
                store.visits.record(visit, now=at)
        collection = Collection(store, Config(), clock=lambda: now)
        found = studies.population_study(collection, wait=60.0).value
        collection.cache.close()
    assert found.rot.died.sum() == 1
    assert found.rot.sources == 2


# -- sources that are not Poisson -------------------------------------------------------------


def watched(collection, store, name, changed, hour):
    """A source that was visited at these hours, and how each visit found it."""
    collection.sources.add(NewSource(url=name))
    now = collection.now()
    for k, (at, seen) in enumerate(zip(hour, changed, strict=True)):
        started = now - 3600.0 * (hour[-1] + 2 - at)
        store.visits.record(
            Visit(
                source=name,
                started_at=started,
                ended_at=started + 1,
                outcome="first" if k == 0 else "changed" if seen else "same",
                changed=None if k == 0 else bool(seen),
                status=200,
            ),
            posterior=Posterior(data=b"", rate=4.0, rate_low=2.0, rate_high=8.0),
            due_at=started + 4 * 3600.0,
        )


@pytest.mark.slow
def test_the_copy_of_a_regular_source_is_judged_by_its_ages_and_not_by_its_rate():
    """Updated every ten hours: two hours after a visit, it has changed with probability 0.2."""
    world = World()
    try:
        rng = np.random.default_rng(1)
        hour = np.cumsum(rng.uniform(0.5, 3.0, 400))
        regular = np.floor(hour / 10.0) > np.floor(np.append(0.0, hour[:-1]) / 10.0)
        gaps = np.diff(hour, prepend=0.0)
        poisson = rng.random(400) < -np.expm1(-gaps / 10.0)
        watched(world.collection, world.store, "https://regular.example/", regular, hour)
        watched(world.collection, world.store, "https://poisson.example/", poisson, hour)

        def judged(number):
            copy = world.collection.sources.get(number).copy
            return None if "computed" in copy.why else copy

        clock = until(lambda: judged(1), "the ages")
        assert clock.measured
        assert "regular" in clock.why
        assert clock.changed_probability == pytest.approx(0.2, abs=0.03)
        assert clock.currency == pytest.approx(1 - 0.5 * 4 / 10, abs=0.03)  # a visit in four hours
        assert 24 * clock.time_to_live_days == pytest.approx(0.5, abs=0.2)  # a twentieth of ten
        other = until(lambda: judged(2), "the rate")
        assert not other.measured
        with world.browser("viewer") as client:
            page = client.get("/sources/1").text
            assert "by its measured ages" in page
            assert "How long it remembers" in page
            assert "by its measured ages" not in client.get("/sources/2").text
            drawn = client.get("/charts/correlation.json?source=1").json()
            assert "missing" not in drawn
    finally:
        world.close()


def test_a_chart_is_not_drawn_while_another_thread_loads_what_altair_looks_into(
    tmp_path, monkeypatch
):
    """A kind of table that is half loaded has no class of tables yet, and drawing would fail."""
    (tmp_path / "ibis.py").write_text(
        "import threading\n"
        "threading.begun.set()\n"
        "threading.go.wait(60)\n"
        "threading.order.append('loaded')\n"
    )
    charts._finish_importing()  # what is loaded anyway takes no time any more
    order, begun, go = [], threading.Event(), threading.Event()
    for name, value in (("order", order), ("begun", begun), ("go", go)):
        monkeypatch.setattr(threading, name, value, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "ibis", raising=False)
    load = threading.Thread(target=lambda: importlib.import_module("ibis"))
    draw = threading.Thread(target=lambda: (charts._finish_importing(), order.append("drawn")))
    load.start()
    assert begun.wait(60)
    draw.start()
    draw.join(0.2)
    go.set()
    for thread in (load, draw):
        thread.join(60)
    del sys.modules["ibis"]  # not by monkeypatch: it would put it back at the end
    assert order == ["loaded", "drawn"]
