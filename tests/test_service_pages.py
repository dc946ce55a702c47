"""The dashboard: every page with data and without, every link and form, nothing hostile alive."""

import csv
import io
import re
import threading
from pathlib import Path
from types import SimpleNamespace

import lxml.html
import numpy as np
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from observant.cli import cli
from observant.planning.schedule.pace import joined
from observant.service import pages, plan, studies
from observant.service.cache import Cache
from observant.service.charts import CHARTS, _plain
from observant.service.collection import NewSource
from observant.service.collection.entries import BulkChange
from observant.service.pages import assets
from observant.service.pages.render import PLACES
from observant.service.posteriors import beliefs_of
from observant.store import open_store
from observant.store.visit import Visit

from .patience import PATIENCE, until
from .service_world import PASSWORD, ROLES, World

FOLDER = Path(pages.__file__).parent
PATHS = [place.path for place in PLACES]


@pytest.fixture(scope="module")
def world():
    made = World().fill()
    made.collection.sources.bulk(BulkChange(action="tag", ids=(1, 2), value='"><b>x</b>'))
    made.collection.sources.add(
        NewSource(url="https://d.example/?q=%22onload=", title='" onload="x')
    )
    yield made
    made.close()


@pytest.fixture(scope="module")
def everything(world):
    """Every page by its path, read once."""
    with world.browser("owner") as client:
        return list(every_page(client, world))


@pytest.fixture(scope="module")
def bare():
    made = World()
    yield made
    made.close()


@pytest.fixture
def fresh():
    made = World().fill()
    yield made
    made.close()


def look(client, path, status=200):
    """A page, read; waits for what is computed in the background."""

    def made():
        reply = client.get(path, headers={"Accept": "text/html"})
        assert reply.status_code == status, (path, reply.status_code, reply.text[:500])
        return None if "data-reload" in reply.text else reply

    reply = until(made, path)
    assert reply.headers["content-type"].startswith("text/html")
    return lxml.html.fromstring(reply.text)


def every_page(client, world):
    """All pages, those of a source, of a subscription and of a failure among them."""
    for path in PATHS:
        yield path, look(client, path)
    yield "/login", look(client, "/login")
    row = world.store.sources.list(limit=3).sources
    for source in row:
        yield f"/sources/{source.id}", look(client, f"/sources/{source.id}")
    yield "/plan?budget=2000/day&grace=6h", look(client, "/plan?budget=2000/day&grace=6h")
    yield "failure", look(client, "/sources/999", status=404)
    yield "refused", look(client, "/sources?sort=<script>alert(1)</script>", status=422)


def send(client, path, fields, follow=True):
    return client.post(path, data=fields, headers={"Accept": "text/html"}, follow_redirects=follow)


# -- every page -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_every_page_is_there_for_every_role(world, bare, role):
    for found in (world, bare):
        with found.browser(role) as client:
            for path in PATHS:
                page = look(client, path)
                assert len(page.findall(".//h1")) == 1, path
                assert page.get("lang") == "en"
                assert page.findtext(".//title").strip()
                assert page.find(".//main") is not None


def test_an_empty_collection_says_what_to_do_first(bare):
    with bare.browser("owner") as client:
        for path in ("/", "/sources", "/plan", "/population", "/events", "/subscriptions"):
            assert look(client, path).find(".//*[@class='panel empty']") is not None, path
        assert "/add" in lxml.html.tostring(look(client, "/"), encoding="unicode")


@pytest.mark.slow
def test_nothing_hostile_is_alive_and_nothing_is_inline(world, everything):
    for path, page in everything:
        for element in page.iter():
            if not isinstance(element.tag, str):
                continue
            where = (path, lxml.html.tostring(element)[:300])
            assert element.tag not in {"style", "iframe", "object", "embed", "base"}, where
            assert element.tag != "script" or (
                element.get("src", "").startswith("/static/") and not (element.text or "")
            ), where
            assert element.tag != "img" or element.get("src").startswith("/charts/"), where
            for name, value in element.items():
                assert name != "style", where
                assert not name.startswith("on"), where
                assert not value.lower().strip().startswith(("javascript:", "data:")), where
    with world.browser("viewer") as client:
        text = client.get("/sources/1").text
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text  # it is shown, as what it is


def test_links_that_lead_outside_tell_nobody_where_they_come_from(everything):
    seen = 0
    for path, page in everything:
        for link in page.iter("a"):
            target = link.get("href")
            if re.match(r"[a-z]+:|//", target):
                seen += 1
                assert target.startswith(("http://", "https://")), (path, target)
                assert {"noreferrer", "noopener"} <= set(link.get("rel").split()), path
        for asset in (*page.iter("link"), *page.iter("script"), *page.iter("img")):
            assert re.match(r"/\w", asset.get("href") or asset.get("src")), path
    assert seen


@pytest.mark.slow
def test_every_link_and_form_of_every_page_leads_somewhere(world, everything):
    posts = {
        (route.path_format if hasattr(route, "path_format") else route.path)
        for route in world.app.routes
        if any("POST" in handler.http_methods for handler in getattr(route, "route_handlers", ()))
    }
    patterns = [re.compile(re.sub(r"\{[^}]*\}", r"[^/]+", path) + r"\Z") for path in posts]
    checked = {}
    with world.browser("owner") as client:
        for path, page in everything:
            ids = {element.get("id") for element in page.iter() if isinstance(element.tag, str)}
            for form in page.iter("form"):
                if form.get("method") == "post":
                    assert any(p.match(form.get("action")) for p in patterns), form.get("action")
                    assert form.find(".//input[@name='csrf_token']") is not None, path
            links = [a.get("href") for a in page.iter("a")]
            links += [
                e.get("href") or e.get("src") for e in (*page.iter("link"), *page.iter("script"))
            ]
            for link in links:
                if link.startswith("#"):
                    assert link[1:] in ids, (path, link)
                if not link.startswith("/") or "/static/vega" in link:
                    continue  # the bundle takes seconds to make
                address, _, part = link.partition("#")
                # Where there is nothing to draw there is nothing to keep: the drawing says so.
                address = re.sub(r"^(/charts/[\w-]+)\.(csv|svg|png)", r"\1.json", address)
                if address not in checked:
                    checked[address] = client.get(address, headers={"Accept": "text/html"})
                assert checked[address].status_code < 400, (path, link, checked[address].text[:200])
                if part:
                    assert f'id="{part}"' in checked[address].text, (path, link)
    assert len(checked) > 40


def test_everything_that_can_be_filled_in_has_a_label(everything):
    for path, page in everything:
        named = {label.get("for") for label in page.iter("label")}
        ids = [e.get("id") for e in page.iter() if isinstance(e.tag, str) and e.get("id")]
        assert len(ids) == len(set(ids)), (path, sorted(ids))
        for field in (*page.iter("input"), *page.iter("select"), *page.iter("textarea")):
            if field.get("type") == "hidden":
                continue
            labelled = (
                field.get("id") in named
                or field.get("aria-label")
                or any(parent.tag == "label" for parent in field.iterancestors())
            )
            assert labelled, (path, lxml.html.tostring(field))
        for heading in page.iter("th"):
            assert heading.get("scope") in {"col", "row"}, path
        for picture in page.iter("img"):
            assert picture.get("alt"), path
        for box in page.xpath("//*[@class='scroll']"):  # scrolled with the keyboard, too
            assert box.get("tabindex") == "0", path
            assert box.get("aria-label"), path


def test_times_are_relative_with_the_instant_on_a_closer_look(world):
    with world.browser("viewer") as client:
        times = look(client, "/sources").findall(".//time")
        assert len(times) > 5
        for element in times:
            assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", element.get("title"))
            assert re.fullmatch(r"now|(in )?[\d.]+ (s|min|h|d|y)( ago)?", element.text)


@pytest.mark.slow
def test_a_viewer_sees_no_forms_that_change_and_an_editor_no_accounts(world):
    with world.browser("viewer") as client:
        for path, page in ((p, look(client, p)) for p in (*PATHS, "/sources/1")):
            for form in page.iter("form"):
                mine = {"/logout", "/settings/tokens", "/settings/password"}
                action = form.get("action")
                allowed = action in mine or re.fullmatch(r"/settings/tokens/\d+/revoke", action)
                readable = path == "/settings" and action == "/settings"
                bulk = action == "/sources/bulk"
                if form.get("method") == "post" and not (allowed or readable):
                    assert bulk, (path, action)
                    assert form.find(".//button") is None, path
    with world.browser("editor") as client:
        assert "/settings/accounts" not in client.get("/settings").text


@pytest.mark.slow
def test_below_a_prefix_every_address_begins_with_it():
    world = World(prefix="/observant").fill()
    try:
        with world.browser("owner") as client:
            for place in ("/", "/sources", "/sources/1", "/events", "/settings"):
                page = look(client, f"/observant{place}")
                for element in page.iter():
                    if not isinstance(element.tag, str):
                        continue
                    for name in ("href", "src", "action", "data-chart"):
                        address = element.get(name)
                        if address and address.startswith("/"):
                            assert address.startswith("/observant/"), (place, address)
            reply = client.post(
                "/observant/sources",
                data={"urls": "https://new.example/", "kind": "http", "importance": "1"},
                follow_redirects=False,
            )
            assert reply.headers["location"].startswith("/observant/sources/")
    finally:
        world.close()


# -- signing in -------------------------------------------------------------------------------


def test_signing_in_with_the_form(world):
    with world.client() as client:
        page = look(client, "/sources")  # leads to the form
        form = page.find(".//form")
        fields = {e.get("name"): e.get("value", "") for e in form.iter("input")}
        assert fields["next"] == "/sources"
        wrong = send(client, "/login", fields | {"name": "owner", "password": "wrong"})
        assert wrong.status_code == 401
        assert "name or password is wrong" in wrong.text
        assert "<form" in wrong.text
        right = send(client, "/login", fields | {"name": "owner", "password": PASSWORD})
        assert right.url.path == "/sources"
        token = look(client, "/sources").find(".//input[@name='csrf_token']").get("value")
        assert send(client, "/logout", {"csrf_token": token}).url.path == "/login"
        assert client.get("/api/v1/sources").status_code == 401


def test_the_first_run_says_where_the_password_is():
    with World().client() as client:
        assert "printed once" in client.get("/login").text


# -- the first page and health -------------------------------------------------------------------


def test_pages_of_one_title_are_told_apart_where_they_changed(world):
    with world.browser("viewer") as client:
        changes = look(client, "/").xpath("//ul[@class='feed']/li")
    shown = {change.xpath("./span[@class='more clip']")[0].text for change in changes}
    assert shown == {event.url for event in world.collection.overview().latest}


def test_numbers_of_one_page_have_the_signs_of_its_language(world):
    german = {"Accept-Language": "de"}
    with world.browser("viewer") as client:
        for path in ("/", "/events", "/sources", "/population", "/status"):
            until(lambda path=path: "data-reload" not in client.get(path).text, path)
            page = lxml.html.fromstring(client.get(path, headers=german).text)
            shown = " ".join(page.xpath("//main//*[not(self::script or self::option)]/text()"))
            assert not re.search(r"\d\.\d+ ?(%|kB|MB)|(?<![\d.])0\.\d+(?![\d.])", shown), (
                path,
                shown,
            )
        page = lxml.html.fromstring(client.get("/", headers=german).text)
        assert page.get("data-decimal") == ","
        told = page.xpath("//@data-alpha-range")
        assert told == ["{low} bis {high} %"]


def test_what_observers_noted_is_said_in_words(fresh):
    fresh.store.journal.add("here:1:a", "start", {"budget": 432000.0})
    fresh.store.journal.add("here:1:a", "stop", {"visits": 1})
    with fresh.browser("owner") as client:
        noted = look(client, "/status").xpath("//table[.//th='What']//td[3]/text()")
        assert noted[:2] == ["ended after 1 visit", "began, with a budget of 432,000 visits a day"]
        german = client.get("/status", headers={"Accept-Language": "de"}).text
    assert "begann, mit einem Budget von 432.000 Besuchen am Tag" in german


# -- sources ----------------------------------------------------------------------------------


def names_on(page):
    return [link.get("href") for link in page.xpath("//td[@class='source']/a[@class='title']")]


@pytest.mark.slow
def test_sources_are_found_filtered_sorted_and_paged(fresh):
    fresh.collection.sources.add_many(
        [NewSource(url=f"https://many.example/{i:03}", title=f"Many {i}") for i in range(250)]
    )
    with fresh.browser("viewer") as client:
        assert len(names_on(look(client, "/sources?host=a.example"))) == 1
        assert len(names_on(look(client, "/sources?search=many+12"))) == 13
        assert len(names_on(look(client, "/sources?tag=news"))) == 3
        page, seen = look(client, "/sources?sort=created_at"), []
        while True:
            seen += names_on(page)
            following = page.xpath("//a[@rel='next']")
            if not following:
                break
            page = look(client, following[0].get("href"))
        assert len(seen) == len(set(seen)) == 253
        heads = look(client, "/sources").xpath("//thead//a")
        assert len(heads) == 11
        for head in heads:  # every column sorts, both ways
            up = look(client, head.get("href"))
            down = look(client, up.xpath("//th[@aria-sort]/a")[0].get("href"))
            order = [up.xpath("//th[@aria-sort]")[0].get("aria-sort")]
            order += [down.xpath("//th[@aria-sort]")[0].get("aria-sort")]
            assert sorted(order) == ["ascending", "descending"]
            assert len(names_on(up)) == 100


def test_sorting_by_what_is_computed_pages_without_loss(fresh):
    with fresh.browser("viewer") as client:
        for sort in ("period", "doubt"):
            for order in ("", "&descending=1"):
                page = look(client, f"/sources?sort={sort}{order}")
                assert len(set(names_on(page))) == 3
    for sort in ("period", "doubt"):
        for descending in (False, True):
            found, after = [], None
            while True:
                part = fresh.store.sources.list(
                    sort=sort, descending=descending, limit=1, after=after
                )
                found += [source.name for source in part.sources]
                after = part.next
                if after is None:
                    break
            assert sorted(found) == [f"https://{n}.example/" for n in "abc"]
            assert found[-1] == "https://c.example/"  # never seen: what has no value is last


def test_many_sources_are_changed_at_once(fresh):
    with fresh.browser("editor") as client:
        assert "Done" in send(client, "/sources/bulk", {"id": ["1", "2"], "action": "pause"}).text
        assert [s.state for s in fresh.store.sources.list().sources] == ["paused"] * 2 + ["active"]
        send(client, "/sources/bulk", {"id": "1", "action": "tag", "value": "mine"})
        assert "mine" in fresh.store.sources.get("https://a.example/").tags
        send(client, "/sources/bulk", {"id": "1", "action": "untag", "value": "mine"})
        send(client, "/sources/bulk", {"id": "1", "action": "importance", "value": "7"})
        assert fresh.store.sources.get("https://a.example/").importance == 7
        fields = {"matching": "1", "filter_tag": "news", "action": "resume"}
        send(client, "/sources/bulk", fields)
        assert fresh.store.sources.count(state="active") == 3
        send(client, "/sources/bulk", {"id": "3", "action": "remove"})
        assert fresh.store.sources.count() == 2
        for fields in (
            {"action": "pause"},
            {"id": "1", "action": "importance", "value": "much"},
            {"id": "1", "action": "explode"},
        ):
            reply = send(client, "/sources/bulk", fields)
            assert reply.status_code == 422
            assert 'role="alert"' in reply.text


@pytest.mark.slow
def test_sources_are_added_and_what_is_refused_comes_back(fresh):
    shared = {"kind": "http", "tags": "a, b", "importance": "2"}
    with fresh.browser("editor") as client:
        fields = {"urls": "https://new.example/x", "title": "New", **shared}
        assert send(client, "/sources", fields).url.path == "/sources/4"
        added = fresh.store.sources.get("https://new.example/x")
        assert (added.title, added.tags, added.importance) == ("New", ("a", "b"), 2.0)
        mixed = send(
            client, "/sources", {"urls": "https://new.example/y\nfile:///etc/passwd", **shared}
        )
        assert mixed.status_code == 422
        page = lxml.html.fromstring(mixed.text)
        assert page.find(".//textarea[@name='urls']").text.strip() == "file:///etc/passwd"
        assert fresh.store.sources.count() == 5
        assert send(client, "/sources", {"urls": " ", **shared}).status_code == 422


# -- one source -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_source_tells_why_shows_its_difference_and_takes_settings(fresh):
    with fresh.browser("editor") as client:
        page = look(client, "/sources/1")
        assert page.xpath("//p[@class='why']")[0].text.startswith("It changes about")
        assert page.find(".//ins") is not None
        assert page.find(".//del") is not None
        charts = {f.get("data-chart").split("/")[-1] for f in page.xpath("//figure")}
        assert len(charts) == 7
        form = look(client, "/sources/1/edit").find(".//form[@data-preview]")
        kept = form.find(".//textarea[@name='headers']").text
        assert "top-secret" not in kept
        assert "•••" in kept
        fields = {
            "title": "Mine", "tags": "t", "importance": "3", "min_period": "1h",
            "max_period": "9d", "headers": kept, "language": "xpath", "selector": "//b",
            "ignore": "a\n\nb", "robots": "no", "settings": '{"compare": {"keep": ["x"]}}',
        }  # fmt: skip
        assert "Saved" in send(client, "/sources/1", fields).text
        after = fresh.store.sources.get("https://a.example/")
        assert after.config["headers"]["Authorization"] == "Bearer top-secret"
        assert (after.config["min_period"], after.importance) == ("1h", 3.0)
        rules = {"keep": ["x"], "xpath": "//b", "ignore": ["a", "b"]}
        assert (after.config["compare"], after.config["robots"]) == (rules, False)
        again = look(client, "/sources/1/edit").find(".//form[@data-preview]")
        assert again.find(".//input[@name='selector']").get("value") == "//b"
        assert again.find(".//textarea[@name='ignore']").text == "a\nb"
        for wrong in ({"settings": "{"}, {"settings": "[]"}, {"min_period": "soon"}):
            for place in ("/sources/1", "/sources/1/edit"):
                reply = send(client, place, fields | wrong)
                assert reply.status_code == 422, wrong
                assert "Mine" in reply.text  # what was entered is not lost
        assert "Saved" in send(client, "/sources/1/state", {"state": "paused"}).text
        assert fresh.store.sources.get("https://a.example/").state == "paused"
        assert send(client, "/sources/1/remove", {}).url.path == "/sources"
        assert fresh.store.sources.count() == 2
        assert send(client, "/sources/1", fields).status_code == 404


def test_an_old_difference_can_be_asked_for(world):
    versions = world.collection.sources.versions(1)
    with world.browser("viewer") as client:
        address = f"/sources/1?old={versions[-1].digest}&new={versions[0].digest}&by=lines"
        text = " ".join(look(client, address).xpath("//div[@class='diff']")[0].itertext())
        assert "version 0" in text
        assert "version 5" in text
        assert look(client, "/sources/1?old=00&new=11", status=422) is not None


# -- the plan ---------------------------------------------------------------------------------


def alphas(page):
    found = {}
    for stat in page.xpath("//div[@class='stat']"):
        label, value = (stat.find(f"./div[@class='{c}']") for c in ("label", "value"))
        found[label.text] = "".join(value.itertext()).strip()
    return found


@pytest.mark.slow
def test_a_larger_budget_shows_more_currency_before_it_is_applied(fresh):
    with fresh.browser("editor") as client:
        before = fresh.collection.settings.get()
        shown = alphas(look(client, "/plan?budget=2/day"))
        more = alphas(look(client, "/plan?budget=50/day"))
        percent = [float(a["α then"].split()[0]) for a in (shown, more)]
        assert percent[0] < percent[1]
        assert fresh.collection.settings.get() == before
        fields = {"budget": "50/day", "grace": "1h", "tag": "news", "factor": "3"}
        fields["objective"] = "currency"  # a grace belongs to it
        assert "Applied" in send(client, "/plan", fields).text
        after = fresh.collection.settings.get()
        assert (after.budget_per_day, after.grace_days) == (50.0, pytest.approx(1 / 24))
        assert {s.importance for s in fresh.store.sources.list().sources} == {3.0}
        assert look(client, "/plan?budget=nothing", status=422) is not None
        assert send(client, "/plan", {"budget": "-3/day"}).status_code == 422


def test_what_would_change_is_compared_with_the_plan_for_the_same_beliefs(fresh, monkeypatch):
    used, real = [], plan.what_if
    monkeypatch.setattr(plan, "what_if", lambda b, **more: used.append(b) or real(b, **more))
    in_force = fresh.collection.config.budget_per_day
    study = studies.plan_study(fresh.collection, budget=5 * in_force, wait=PATIENCE).value
    assert len(used) == 2
    assert used[0] is used[1]
    assert (study.now.budget, study.answer.budget) == (in_force, 5 * in_force)
    assert study.now.alpha < study.answer.alpha


# -- figures ----------------------------------------------------------------------------------


def drawn(client, name, query="?source=1"):
    def made():
        reply = client.get(f"/charts/{name}.json{query}")
        return reply if reply.status_code != 202 else None

    reply = until(made, name)
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.slow
@pytest.mark.parametrize("name", CHARTS)
def test_every_figure_is_drawn_or_says_what_is_missing(world, bare, name):
    with world.browser("viewer") as client:
        spec = drawn(client, name)
        if "missing" not in spec:
            assert "vega-lite" in spec["$schema"]
            reply = client.get(f"/charts/{name}.csv?source=1")
            rows = list(csv.DictReader(io.StringIO(reply.text)))
            assert rows
            assert rows[0]["layer"]
    with bare.browser("viewer") as client:
        if CHARTS[name].title != "Visits and changes by the hour":
            reply = client.get(f"/charts/{name}.json?source=1")
            assert reply.status_code in {200, 202, 404}


def test_figures_can_be_kept_as_pictures(world):
    with world.browser("viewer") as client:
        reply = client.get("/charts/timeline.svg?source=1")
        assert reply.text.startswith("<svg")
        assert "<script" not in reply.text
        assert client.get("/charts/activity.png").content[:4] == b"\x89PNG"
        for path in ("/charts/nonsense.json", "/charts/activity.exe", "/charts/activity"):
            assert client.get(path).status_code == 404
        assert client.get("/charts/activity.json?hours=99999").json()["missing"]
        assert client.get("/charts/timeline.json?source=9999").status_code == 404


def test_how_an_estimate_developed_ends_at_the_estimate(world):
    """One belief: the rate of the page, and before it what was believed after each visit."""
    from observant.estimation.online import OnlinePosterior

    source = world.collection.find(1)
    found = studies.history(world.collection, source, wait=60).value
    kept = world.store.sources.previous(source.name, text=False).posterior
    now = beliefs_of(world.store, [source.name], [source.host], [kept]).one(0)
    assert len(found) == 29  # of 30 visits the first compares nothing
    assert found[-1].rate == now
    known = OnlinePosterior()
    for one in found[:-1]:
        known.visit(1 / 24, one.changed)
        assert one.rate == pytest.approx(known.belief(), rel=1e-6)


def test_ages_have_the_unit_that_a_person_would_take():
    from observant.figures.dashboard import timeline_figure

    for oldest, title, marks in (
        (8.0, "age (seconds)", ["0", "2", "4", "6", "8"]),
        (1800.0, "age (minutes)", ["0", "10", "20", "30"]),
        (86_400.0, "age (hours)", ["0", "5", "10", "15", "20"]),
        (30 * 86_400.0, "age (days)", ["0", "10", "20", "30"]),
    ):
        visits = [{"at": 1e9, "found": "changed", "update": 1e9}]
        chart = timeline_figure(visits, 1e9 + oldest).to_dict()
        axis = chart["layer"][0]["encoding"]["y"]["axis"]
        days = float(re.search(r"/ ([-.e\d]+),", axis["labelExpr"])[1])
        assert (axis["title"], [f"{v / days:.3g}" for v in axis["values"]]) == (title, marks)


def test_the_plan_of_the_first_minutes_can_be_read():
    """All rates are alike then, and periods are seconds."""
    from observant.figures.dashboard import plan_figure

    few = SimpleNamespace(
        name=["a", "b"],
        rate=[0.1, 0.1],
        period=[5 / 86400] * 2,
        weight=[1, 1],
        starving=[False] * 2,
    )
    encoding = plan_figure(few).to_dict()["layer"][1]["encoding"]
    low, high = encoding["x"]["scale"]["domain"]
    assert low < 0.1 < high
    assert any(low <= tick <= high for tick in encoding["x"]["axis"]["values"])
    axis = encoding["y"]["axis"]
    assert axis["title"] == "seconds between visits"
    seconds = [round(86400 * tick, 9) for tick in axis["values"]]
    assert 5 in seconds
    assert all(tick in {1, 2, 5, 10, 20} for tick in seconds)


def test_more_visits_are_advised_only_where_they_buy_more_than_is_planned():
    from observant.service.pages.overview import _in_short

    def said(now, planned, more):
        options = [
            SimpleNamespace(factor=1.0, per_day=100.0, alpha=planned),
            SimpleNamespace(factor=1.5, per_day=150.0, alpha=more),
        ]
        budget = SimpleNamespace(per_day=100.0, options=options)
        return _in_short(SimpleNamespace(alpha=SimpleNamespace(value=now), budget=budget))

    assert said(0.5, 0.6, 0.75).endswith(
        "50 more visits a day would make it about 3 of 4, in the long run."
    )
    assert said(0.75, 0.999, 1.0) == "About 3 of 4 copies are current."


def test_numbers_on_pages_have_no_exponent_and_no_sign_without_a_difference():
    from observant.service.pages.render import environment

    filters = environment().filters
    assert [filters["points"](x) for x in (-1e-5, 1e-5, -0.0123)] == ["0.0", "0.0", "−1.2"]
    assert [filters["short"](x) for x in (0.12345, 123.4, 1728.0)] == ["0.123", "123", "1,728"]


def test_a_promise_below_what_is_current_now_is_inside_the_figure():
    from types import SimpleNamespace

    from observant.figures.dashboard import performance_figure

    curve = [
        SimpleNamespace(grace_days=grace, alpha=0.99, low=0.97, high=1.0) for grace in (0.0, 1.0)
    ]
    for promised, least in (((), 0.91), ((0.6, 0.8), 0.54)):
        chart = performance_figure(curve, 0.0, promised).to_dict()
        low, high = chart["layer"][0]["encoding"]["y"]["scale"]["domain"]
        assert (round(low, 6), high) == (least, 1.0)


def test_a_number_of_changes_stands_once_on_its_axis():
    from observant.figures.dashboard import attributes_figure

    for most in range(1, 6):
        axis = attributes_figure({"size": most, "text": 1}).to_dict()["encoding"]["x"]["axis"]
        assert axis["values"] == list(range(most + 1))
    assert "values" not in attributes_figure({"size": 6}).to_dict()["encoding"]["x"]["axis"]


def test_no_cell_of_a_table_is_taken_for_a_formula():
    assert [_plain(v) for v in ("=1+1", "@x", "plain", -1.5)] == ["'=1+1", "'@x", "plain", -1.5]


def test_the_static_files_may_be_kept_for_ever_and_their_names_tell_their_content(world):
    with world.client() as client:
        page = lxml.html.fromstring(client.get("/login").text)
        address = page.xpath("//link[@rel='stylesheet']")[0].get("href")
        reply = client.get(address)
        assert "immutable" in reply.headers["cache-control"]
        assert reply.headers["content-type"].startswith("text/css")
        assert client.get("/static/app.css").status_code == 404
        assert client.get("/static/..%2f..%2fapp.py").status_code == 404


def test_the_bundle_of_vega_is_made_once_for_all_services(monkeypatch, tmp_path):
    made = []
    monkeypatch.setattr("vl_convert.javascript_bundle", lambda code: made.append(code) or "Väga")
    monkeypatch.setattr(assets, "_STATIC", tmp_path)
    assert assets._bundle() == assets._bundle() == "Väga\n".encode()
    assert len(made) == 1
    monkeypatch.setattr(assets, "_STATIC", tmp_path / "nowhere")  # where nothing can be kept
    assert assets._bundle() == "Väga\n".encode()
    assert len(made) == 2


# -- settings, subscriptions, queries -----------------------------------------------------------


@pytest.mark.slow
def test_settings_tokens_accounts_and_transfer(fresh):
    with fresh.browser("owner") as client:
        fields = {"budget": "77/day", "grace": "2h", "objective": "currency", "max_versions": "5"}
        assert "Applied" in send(client, "/settings", fields).text
        found = fresh.collection.settings.get()
        assert (found.budget_per_day, found.objective) == (77.0, "currency")
        assert found.retention == {"max_versions": 5}
        assert send(client, "/settings", fields | {"budget": "lots"}).status_code == 422
        made = send(client, "/settings/tokens", {"name": "t", "scope": "read"})
        secret = re.search(r"obs_[\w-]+", made.text)[0]
        assert secret not in client.get("/settings").text
        with fresh.client() as program:
            program.headers["Authorization"] = f"Bearer {secret}"
            assert program.get("/api/v1/sources").status_code == 200
        number = max(row.id for row in fresh.store.tokens.list())
        assert "no longer valid" in send(client, f"/settings/tokens/{number}/revoke", {}).text
        account = {"name": "ada", "role": "viewer", "password": "a long password"}
        assert "saved" in send(client, "/settings/accounts", account).text
        short = send(client, "/settings/accounts", account | {"name": "b", "password": "x"})
        assert short.status_code == 422
        document = client.get("/settings/export?secrets=1").content
        other = World()
        with other.browser("owner") as second:
            reply = second.post(
                "/settings/import",
                files={"document": ("observant.json", document, "application/json")},
                headers={"Accept": "text/html"},
            )
            assert "Imported" in reply.text, reply.text[-2000:]
            assert (
                second.get("/settings/export?secrets=1").json()["sources"]
                == (client.get("/settings/export?secrets=1").json()["sources"])
            )
        other.close()
    with fresh.browser("editor") as client:
        assert client.get("/settings/export?secrets=1").status_code == 403
        assert "top-secret" not in client.get("/settings/export").text


def test_one_changes_ones_own_password_with_the_old_one(fresh):
    with fresh.browser("viewer") as client:
        wrong = {"old": "not this", "new": "another long one"}
        assert send(client, "/settings/password", wrong).status_code == 422
        right = {"old": PASSWORD, "new": "another long one"}
        assert send(client, "/settings/password", right).url.path == "/login"
        assert client.get("/api/v1/sources").status_code == 401


@pytest.mark.slow
def test_subscriptions_are_made_changed_and_removed(fresh):
    fields = {
        "name": "me", "channel": "https://hooks.example/secret/path", "topics": ["changed", "gone"],
        "tags": "news", "terms": "bees\nhoney pot", "magnitude": "0.1", "digest": "1h",
        "quiet": "22:00-07:00; sat,sun", "timezone": "Europe/Berlin",
    }  # fmt: skip
    with fresh.browser("editor") as client:
        made = send(client, "/subscriptions", fields)
        assert made.status_code == 200
        stored = fresh.store.subscriptions.list()[0]
        assert stored.secret in made.text
        assert stored.filter.terms == ("bees", "honey pot")
        assert stored.quiet == ("22:00-07:00", "sat,sun")
        listed = client.get("/subscriptions").text
        assert stored.secret not in listed
        assert "secret/path" not in listed
        page = look(client, f"/subscriptions/{stored.id}")
        shown = page.find(".//input[@name='channel']").get("value")
        assert shown == "https://hooks.example/•••"
        ticked = page.xpath("//input[@name='topics'][@checked]")
        assert {box.get("value") for box in ticked} == {"changed", "gone"}
        send(client, f"/subscriptions/{stored.id}", fields | {"channel": shown, "digest": "2h"})
        after = fresh.store.subscriptions.list()[0]
        assert (after.channel, after.digest) == ("https://hooks.example/secret/path", "2h")
        assert not after.enabled  # a box that is not ticked sends nothing
        wrong = send(client, "/subscriptions", fields | {"name": "x", "magnitude": "7"})
        assert wrong.status_code == 422
        assert 'value="x"' in wrong.text
        send(client, f"/subscriptions/{stored.id}/remove", {})
        assert fresh.store.subscriptions.list() == []


@pytest.mark.slow
def test_a_standing_query_is_asked(fresh):
    fields = {
        "url": "https://search.example/?q=bees", "query_title": "Bees", "form": "html",
        "items": "ol > li", "top": "20", "terms": "bees = 2\nhoney", "watch": "1", "share": "5",
    }  # fmt: skip
    with fresh.browser("editor") as client:
        assert send(client, "/queries", fields).url.path == "/queries"
        (found,) = fresh.store.sources.list(kind="query").sources
        query = found.config["query"]
        assert query["terms"] == {"bees": 2.0, "honey": 1.0}
        assert (query["share"], query["top"], query["watch"]) == (0.05, 20, True)
        assert "Bees" in client.get("/queries").text
        assert send(client, "/queries", fields | {"items": "li["}).status_code == 422


# -- what the pages stand on --------------------------------------------------------------------


def test_templates_mark_nothing_as_safe():
    for file in (FOLDER / "templates").iterdir():
        text = file.read_text("utf-8")
        assert "|safe" not in text.replace(" ", ""), file.name
        assert "autoescape" not in text, file.name
        assert " style=" not in text, file.name


def luminance(colour):
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_text_has_enough_contrast_in_light_and_dark():
    css = (FOLDER / "static" / "app.css").read_text("utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", css, re.DOTALL)[:2]
    schemes = {}
    for name, text in (("light", light), ("dark", dark)):
        schemes[name] = dict(re.findall(r"--([\w-]+): (#\w{6});", text))
    for name, colours in schemes.items():
        pairs = [
            (ink, ground, 4.5)
            for ink in ("ink", "muted", "accent", "change", "good", "warn")
            for ground in ("surface", "page")
        ]
        pairs += [(w, f"{w}-soft", 4.5) for w in ("accent", "change", "good", "warn")]
        pairs += [("ink", f"{w}-soft", 4.5) for w in ("accent", "change", "good", "warn")]
        pairs += [("muted", "sunken", 4.5), ("on-accent", "accent-fill", 4.5)]
        pairs += [("line-strong", "surface", 3.0), ("accent-fill", "surface", 3.0)]
        for front, back, least in pairs:
            a, b = sorted((luminance(colours[front]), luminance(colours[back])))
            ratio = (b + 0.05) / (a + 0.05)
            assert ratio >= least, (name, front, back, round(ratio, 2))


def test_an_answer_is_made_once_and_given_old_while_a_new_one_is_made():
    cache, made, gate = Cache(workers=2), [], threading.Event()

    def slow():
        made.append(1)
        gate.wait(PATIENCE)
        return len(made)

    try:
        assert cache.get("k", slow, wait=0.01).pending
        assert cache.get("k", slow, wait=0.01).pending
        gate.set()
        assert cache.get("k", slow, wait=PATIENCE).value == 1
        assert cache.get("k", slow, max_age=60).value == 1
        assert cache.get("k", slow, max_age=-1).value == 1  # the old one, at once
        until(lambda: cache.get("k", slow, max_age=PATIENCE).value == 2)
        assert made == [1, 1]
    finally:
        cache.close()


def test_an_answer_begun_before_a_change_is_not_kept_after_it():
    cache, gate, made = Cache(), threading.Event(), []

    def slow():
        made.append(1)
        gate.wait(PATIENCE)
        return len(made)

    try:
        assert cache.get("k", slow, wait=0.05).pending
        cache.forget()
        gate.set()
        assert cache.get("k", slow, wait=PATIENCE).value == 1  # whoever waits for it gets it
        assert cache.get("k", slow, max_age=60, wait=PATIENCE).value == 2
    finally:
        cache.close()


def test_answers_that_need_answers_never_wait_for_each_other():
    cache = Cache(workers=1)
    try:
        inner = lambda: cache.get("inner", lambda: 3, wait=PATIENCE).value  # noqa: E731
        assert cache.get("outer", lambda: inner() + 1, wait=PATIENCE).value == 4
    finally:
        cache.close()


def test_an_answer_that_cannot_be_made_says_why_to_people_only_if_it_is_theirs():
    from observant.errors import InputError

    cache = Cache()
    try:

        def bad():
            raise InputError("too few visits")

        def broken():
            raise RuntimeError("secret detail")

        assert cache.get("bad", bad, wait=PATIENCE).error == "too few visits"
        assert "secret" not in cache.get("broken", broken, wait=PATIENCE).error
    finally:
        cache.close()


def test_beliefs_say_the_same_as_the_formula():
    from observant.estimation.belief import OLD_GRID as GRID
    from observant.observer.config import Config
    from observant.service.plan import what_if
    from observant.service.posteriors import read_beliefs
    from observant.store import Posterior, Source

    with open_store(":memory:") as store:
        now = 1_700_000_000.0
        rates = [GRID[30], GRID[50]]
        for name, rate, waited in zip("ab", rates, (1.0, 4.0), strict=True):
            store.sources.add([Source(name=name, importance=1.0 if name == "a" else 3.0)])
            certain = np.full(len(GRID), -1e9, np.float32)
            certain[np.argmin(abs(GRID - rate))] = 0.0
            visit = Visit(source=name, started_at=now - waited * 86_400, ended_at=now,
                             outcome="first", status=200)  # fmt: skip
            store.visits.record(visit, posterior=Posterior(data=certain.tobytes(), rate=rate),
                         due_at=now + 86_400)  # fmt: skip
        beliefs = read_beliefs(store, Config(), now)
        mean, low, high = beliefs.expected([0.0, 2.0])
        a, b = rates
        expected = [
            0.25 * np.exp(-a) + 0.75 * np.exp(-4 * b),
            0.25 * 1.0 + 0.75 * np.exp(-2 * b),
        ]
        assert mean == pytest.approx(expected, rel=1e-6)
        assert (low <= mean).all()
        assert (mean <= high).all()
        thin, rows = beliefs.thinned(10)
        assert thin.weights.sum(axis=1) == pytest.approx([1.0, 1.0])
        assert thin.summary(())[0] == pytest.approx(rates, abs=1e-9)
        assert rows.tolist() == [0, 1]
        plan = what_if(beliefs, budget=2.0)
        assert plan.weight.tolist() == [1.0, 3.0]
        for grace in (0.0, 1e-3, 0.2):
            beyond = np.maximum(plan.period - grace, 0.0)[:, None] * thin.rates
            current = (min(grace, 1.0) + -np.expm1(-beyond) / thin.rates) / plan.period[:, None]
            current = np.where(plan.period[:, None] <= grace, 1.0, current)  # Brewington (2.40)
            promised = [0.25, 0.75] @ np.sum(thin.weights * current, axis=1)
            assert plan.promised([grace])[0] == pytest.approx(promised, rel=1e-6)
        assert plan.promised([0.0])[0] == pytest.approx(plan.alpha, rel=1e-6)


def test_a_trace_of_the_history_puts_updates_where_they_were():
    from observant import VisitLog
    from observant.service.studies import change_hours
    from observant.simulation.traces import trace_of_visits

    log = VisitLog.from_columns(
        source=["a"] * 4 + ["b"] * 2,
        time=[10.0, 12.0, 14.0, 18.0, 10.0, 18.0],
        changed=[None, True, False, True, None, False],
        last_modified=[9.0, 11.5, 11.5, None, None, None],
        time_unit="d",
    )
    trace = trace_of_visits(log)
    assert trace.updates.times.tolist() == [11.5, 16.0]
    assert trace.updates.offsets.tolist() == [0, 2, 2]
    assert (trace.start, trace.end) == (10.0, 18.0)
    hours, origin = change_hours(log)
    # Day 11.5 of 1970 was a Monday, at noon; the change of the four-day gap says no hour.
    assert origin == "visits that found a change"
    assert hours.sum() == pytest.approx(1.0)


def test_summaries_are_the_same_in_every_store(store):
    from observant.store import Posterior, Source

    now = 1_700_000_000.0
    names = [f"https://h{i % 3}.example/{i}" for i in range(30)]
    store.sources.add(
        [
            Source(name=name, host=f"h{i % 3}.example", importance=1.0 + i % 2, tags=("t",))
            for i, name in enumerate(names)
        ],
        now=now,
    )
    for k in range(3):
        for i, name in enumerate(names[:10]):
            failed = k == 2 and i % 3 == 0
            visit = Visit(
                source=name,
                started_at=now + 60.0 * k + i,
                ended_at=now + 60.0 * k + i + 1,
                outcome="failed" if failed else "first" if k == 0 else "changed",
                changed=None if failed or k == 0 else True,
                status=None if failed else 200,
                error="timeout" if failed else None,
            )
            store.visits.record(visit, posterior=Posterior(data=bytes([i, k]), rate=1.0 + i))
    store.sources.update(names[29], state="paused")
    columns = store.sources.columns(limit=100)
    assert columns.total == len(columns.name) == 29
    assert columns.name == names[:29]
    assert columns.rate[:10].tolist() == [1.0 + i for i in range(10)]
    assert np.isnan(columns.rate[10:]).all()
    assert columns.posterior[4] == bytes([4, 2])
    assert columns.good_at[1] == now + 121
    assert store.sources.columns(limit=10).total == 29
    assert 9 <= len(store.sources.columns(limit=10).name) <= 10
    (worst,) = store.sources.failing_hosts()
    assert (worst.host, worst.sources, worst.failing) == ("h0.example", 10, 4)
    assert (worst.in_row, worst.error, worst.status) == (1, "timeout", None)
    log = store.visits.log_of(columns.id.tolist())
    assert len(log) == 30
    assert log.sources.to_pylist() == sorted(names[:10])
    assert int((log.changed == 1).sum()) == 16
    assert int(log.succeeded.sum()) == 26
    assert store.visits.log_of([10**6]) is None
    first = store.sources.list(sort="period", limit=1)
    assert first.sources[0].name in names[:10]


def test_hosts_in_trouble_are_told_with_what_helps():
    world = World()
    try:
        now = world.collection.now()
        for name, error, status in (("a", "http", 404), ("b", "robots", None), ("c", "dns", None)):
            url = f"https://{name}.example/"
            world.collection.sources.add(NewSource(url=url))
            failed = Visit(source=url, started_at=now, ended_at=now, outcome="failed")
            world.store.visits.record(replace(failed, error=error, status=status))
        with world.browser("viewer") as client:
            page = client.get("/").text.split("Hosts in trouble</h2>")[1]
        rows = {row.split("</a>")[0]: row for row in page.split("host=")[1:]}
        found = {"".join(name.split(">")[1:]): row for name, row in rows.items()}
        assert "not found (404)" in found["a.example"]
        assert "correct the address" in found["a.example"]
        assert "--set robots=no" in found["b.example"]
        with world.client("read") as client:
            told = {row["host"]: row for row in client.get("/api/v1/hosts").json()}
        assert told["a.example"]["status"] == 404
        assert told["c.example"]["remedy"] == "check the spelling of the address"
    finally:
        world.close()


def test_how_a_day_is_spent_is_shown_where_hours_are_followed(tmp_path):
    place, visits = str(tmp_path / "s.db"), [0.5] * 12 + [2.0] + [1.0] * 11
    told = "most at 12:00 UTC, 2.0 times the mean; fewest at 00:00."
    with open_store(place) as store:
        world = World(store=store)
        try:
            world.collection.sources.add(NewSource(url="https://a.example/"))

            def shown():
                with world.browser("viewer") as client:
                    page = client.get("/plan").text
                    drawn = client.get("/charts/hours.json").json()
                with world.client("read") as client:
                    hours = client.get("/api/v1/overview").json()["budget"]["hours"]
                answer = CliRunner().invoke(cli, ["settings", "--store", place])
                return told in page, "missing" not in drawn, hours, told in answer.output

            assert shown() == (False, False, [], False)
            kept = joined(None, np.ones((2, 2, 24)), 1.0, np.array(visits))
            store.settings.set("observer.hours", kept)
            assert shown() == (True, True, visits, True)
            with world.browser("viewer") as client:
                page = client.get("/plan", headers={"Accept-Language": "de"}).text
            assert "Stunden des Tages" in page
        finally:
            world.collection.cache.close()
