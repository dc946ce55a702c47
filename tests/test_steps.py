"""Steps before a page is read, secrets that nobody sees, and people who stay signed in."""

import stat
import urllib.parse
from pathlib import Path

import pytest
from msgspec.structs import replace

from observant.errors import InputError
from observant.observer import Config
from observant.observer.browser.seal import Seal, key_file
from observant.observer.browser.steps import Secret, SteppingBrowser, parse_step
from observant.observer.config import SourceSettings, load_config
from observant.observer.content import Rules
from observant.store import Source, open_store

from .browser_world import chromium
from .rendering_world import visits_of
from .service_world import World

pytestmark = pytest.mark.usefixtures("patient_steps")
browser = pytest.mark.skipif(chromium() is None, reason="there is no Chromium on this machine")

WALL = """<html><body><div id=wall>We value your privacy <button onclick="wall.remove();
list.hidden = false">Accept all</button></div><div id=list hidden><p>first</p></div>
<select id=size onchange="note('size ' + this.value)"><option>S</option><option>L</option></select>
<input id=q onkeydown="if (event.key == 'Enter') note('asked ' + this.value)">
<button id=more onclick="setTimeout(() => note('more'), 200)">More</button>
<div style="height: 3000px"></div><script>
const note = (text) =>
  list.insertAdjacentHTML("beforeend", `<p class=${text.split(" ")[0]}>${text}</p>`);
let grown = 0;
addEventListener("scroll", () => { if (grown++ < 1) note("scrolled") });
</script></body></html>"""
PASSWORD = "open & sesame"  # noqa: S105
SIGN_IN = (
    "fill #name with ada",
    "fill #word with secret shop",
    "click #in",
    "wait for #account",
)


# -- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", ["", "click", "wait 1y", "wait long", "press !", "fill #a", "jump"])
def test_what_is_no_step_is_refused(bad):
    for name in ("steps", "sign_in"):
        with pytest.raises(InputError, match="step"):
            SourceSettings(**{name: (bad,)})


def test_steps_are_few():
    with pytest.raises(InputError, match="at most 50"):
        SourceSettings(steps=("dismiss",) * 51)
    assert parse_step("fill #a with secret b").action == "secret"
    assert parse_step("fill #a with secrets").action == "fill"


def test_secrets_are_in_the_file_with_their_origins(tmp_path, monkeypatch):
    file = tmp_path / "o.toml"
    file.write_text('[secrets.shop]\norigins = ["https://shop.example"]\nenv = "SHOP"\n')
    secret = load_config(file).secrets["shop"]
    monkeypatch.setenv("SHOP", PASSWORD)
    assert secret.text() == PASSWORD
    hidden = Secret(origins=("https://a.example",), value=PASSWORD)
    assert PASSWORD not in repr(hidden)
    assert PASSWORD not in repr(Config(secrets={"shop": hidden}))
    for bad in ("origins = []\nenv = 'A'", "origins = ['https://a.example']"):
        file.write_text(f"[secrets.shop]\n{bad}\n")
        with pytest.raises(InputError, match="secret"):
            load_config(file)


def test_a_state_is_kept_under_a_key_that_only_we_can_read(tmp_path):
    place = key_file(str(tmp_path / "o.db"))
    sealed = Seal(place).close({"cookies": [{"name": "session", "value": "abc"}]})
    assert "abc" not in sealed
    assert stat.S_IMODE(Path(place).stat().st_mode) == 0o600
    assert Seal(place).open(sealed)["cookies"][0]["value"] == "abc"
    assert Seal(str(tmp_path / "other.key")).open(sealed) is None
    other = Seal(str(tmp_path / "other.key"))
    other.close({})
    assert other.open(sealed) is None
    assert Seal("").close({}) is None
    assert Seal(place).close({"cookies": "x" * 300_000}) is None
    for damaged in (None, 7, "", "é", sealed[:-2]):
        assert Seal(place).open(damaged) is None


# -- on pages -------------------------------------------------------------------------------------


@browser
def test_steps_are_taken_before_a_page_is_read(pages, rendering):
    pages.serve("/wall", WALL)
    url, rules = "http://a.example/wall", Rules(css="#list")
    steps = ("dismiss", "choose L in #size", "fill #q with red lamps", "press Enter", "click #more",
             "wait for .more", "wait until quiet", "scroll", "wait 100ms")  # fmt: skip
    (visit,), before = visits_of(rendering, url, 1, rules=rules, steps=steps)
    assert visit.outcome == "first"
    assert before.text.split("\n") == ["first", "size L", "asked red lamps", "more", "scrolled"]
    (other,), after = visits_of(rendering, url, 1, before, rules=rules, steps=("dismiss",))
    assert other.outcome != "failed"
    assert after.selection_version != before.selection_version


@browser
def test_a_step_that_cannot_be_taken_is_a_failed_visit_with_a_picture(
    pages, rendering, tmp_path, monkeypatch
):
    monkeypatch.setattr("observant.observer.browser.steps._SECONDS", 0.5)
    pages.serve("/wall", WALL)
    url = f"http://127.0.0.1:{pages.port}/wall"
    config = Config(allow=("127.0.0.0/8",), host_delay=0)

    (failed,), _ = visits_of(rendering, "http://a.example/wall", 1, steps=("click #nothing",))
    assert (failed.outcome, failed.error) == ("failed", "content")
    assert failed.comparison.reason.startswith("step 1, 'click #nothing'")
    assert failed.shot[:2] == b"\xff\xd8"
    with open_store(str(tmp_path / "o.db")) as store:
        store.sources.add([Source(name=url, url=url, config={"steps": ["click #nothing"]})])
        store.visits.record(replace(failed, source=url))
        world = World(store=store, config=config)
        with world.browser("viewer") as person:
            page = person.get("/sources/1").text
            link = page.split('<img class="shot" src="')[1].split('"')[0]
            assert person.get(link).content == failed.shot
            assert person.get("/sources/1/shots/00").status_code == 404
        world.collection.cache.close()


class Shop:
    """A page for people who have signed in; it tells who it has seen."""

    def __init__(self, pages):
        self.sessions, self.asked = set(), []
        pages.pages["/account"] = self.account
        self._pages = pages

    def account(self, headers):
        self.asked.append(headers.get("cookie", ""))
        if any(f"session={s}" in self.asked[-1] for s in self.sessions):
            return 200, {"Content-Type": "text/html"}, b"<p id=account>Hello ada, 3 orders</p>"
        return (
            200,
            {"Content-Type": "text/html"},
            f"""<form action=javascript:0><input id=name>
<input id=word><button id=in onclick="go()">In</button></form><p id=echo></p><script>
function go() {{ if (word.value == "{PASSWORD}") {{
  document.cookie = "session=" + "{self.new()}"; location = "/account";
}} else echo.textContent = "wrong: " + word.value }}</script>""".encode(),
        )

    def new(self):
        self.sessions.add(f"s{len(self.sessions)}")
        return f"s{len(self.sessions) - 1}"


@browser
def test_somebody_stays_signed_in_and_signs_in_again_when_that_has_expired(
    pages, rendering, tmp_path
):
    shop = Shop(pages)
    url, seal = "http://shop.example/account", Seal(str(tmp_path / "key"))
    secrets = {"shop": Secret(origins=("http://shop.example",), value=PASSWORD)}
    more = {"sign_in": SIGN_IN, "secrets": secrets, "seal": seal}
    (first,), before = visits_of(rendering, url, 1, **more)
    assert before.text == "Hello ada, 3 orders"
    assert PASSWORD not in repr(first)
    assert "session" not in str(before.memory["signed_in"])
    asked = len(shop.asked)
    (second,), before = visits_of(rendering, url, 1, before, **more)
    assert second.outcome == "same"
    assert len(shop.asked) == asked + 1  # nobody signed in
    shop.sessions.clear()
    (third,), before = visits_of(rendering, url, 1, before, **more)
    assert third.outcome == "same"
    assert len(shop.asked) > asked + 2  # the state had expired


@browser
def test_a_secret_is_filled_in_nowhere_else_and_seen_nowhere(pages, rendering):
    Shop(pages)
    other = {"shop": Secret(origins=("http://shop.example",), value=PASSWORD)}
    (stolen,), _ = visits_of(
        rendering, "http://thief.example/account", 1, sign_in=SIGN_IN, secrets=other
    )
    assert "the secret shop is not for http://thief.example" in stolen.comparison.reason
    (unknown,), _ = visits_of(rendering, "http://shop.example/account", 1, sign_in=SIGN_IN)
    assert "there is no secret shop" in unknown.comparison.reason
    wrong = {"shop": Secret(origins=("http://shop.example",), value="close & sesame")}
    steps = ("fill #word with secret shop", "click #in")
    (told,), before = visits_of(
        rendering, "http://shop.example/account", 1, steps=steps, secrets=wrong
    )
    assert before.text.endswith("wrong: •••")
    assert "sesame" not in repr(told)


@browser
def test_no_picture_shows_a_page_that_repeats_a_secret(pages, rendering):
    Shop(pages)
    secrets = {"shop": Secret(origins=("http://shop.example",), value="close & sesame")}
    steps = ("fill #word with secret shop", "click #in")
    stepping = SteppingBrowser(rendering.browser, steps, secrets=secrets, pictures=True)
    fetched = rendering.transport.fetch("http://shop.example/account", through=stepping)
    rendering.run(fetched)
    filled, repeated = stepping.pictures
    assert filled.image
    assert not repeated.image


# -- in the dashboard -----------------------------------------------------------------------------


@pytest.mark.slow
@browser
def test_steps_are_tried_and_saved_in_the_dashboard(pages, tmp_path, monkeypatch):
    monkeypatch.setattr("observant.observer.browser.steps._SECONDS", 8.0)
    pages.serve("/wall", WALL)
    url = f"http://127.0.0.1:{pages.port}/wall"
    with open_store(str(tmp_path / "o.db")) as store:
        store.sources.add([Source(name=url, url=url, config={"robots": False})])
        world = World(store=store, config=Config(allow=("127.0.0.0/8",)))
        with world.browser("editor") as person:
            assert "Steps" in person.get("/sources/1").text
            asked = {"try": "1", "steps": "dismiss\n\n click #nothing \n", "sign_in": ""}
            by_address = person.get("/sources/1/steps?" + urllib.parse.urlencode(asked)).text
            assert "base64" not in by_address  # a link of somebody else's takes no steps
            tried = person.post("/sources/1/steps", data=asked).text
            assert tried.count('src="data:image/jpeg;base64,') == 2
            assert "step 2, &#39;click #nothing&#39;" in tried
            assert (
                "jump" in person.post("/sources/1/steps", data={"try": "1", "steps": "jump"}).text
            )
            saved = person.post("/sources/1/steps", data={"steps": "dismiss\nscroll"})
            assert saved.status_code == 200
            assert "dismiss\nscroll" in person.get("/sources/1/steps").text
        world.collection.cache.close()
        assert store.sources.get(url).config == {"robots": False, "steps": ["dismiss", "scroll"]}
