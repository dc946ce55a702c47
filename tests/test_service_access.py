"""Nobody gets in who may not: every route, every role, every way to sign in."""

import base64
import hashlib
import math
import time

import pytest
from litestar import get
from litestar.exceptions import LitestarException

from observant.errors import InputError, SignInError, TooManyError
from observant.service.access import Access, secrets
from observant.service.access.check import COOKIE, SAFE
from observant.service.access.secrets import check_password, csrf_token, hash_password
from observant.service.access.sign_in import SIGN_IN_COOKIE, inside
from observant.service.access.throttle import Throttle
from observant.service.app import CONTENT_SECURITY_POLICY, create_app

from .service_world import PASSWORD, World, operations

OPEN = {
    ("GET", "/health"),
    ("POST", "/login"),
    ("POST", "/api/v1/session"),
    ("GET", "/login"),
    *((method, path) for method in ("GET", "POST") for path in ("/websub/x", "/indexnow")),
}
"""What nobody has to sign in for, besides files of the pages under /static/.

Hubs and publishers show secrets of their own (`test_websub.py`, `test_push.py`)."""


@pytest.fixture(scope="module")
def world():
    made = World().fill()
    yield made
    made.close()


def requests(world, *, needs):
    return [
        (path, method, need)
        for path, method, need, _ in operations(world.app)
        if needs(need) and method != "OPTIONS"
    ]


# -- every route ------------------------------------------------------------------------------


def test_there_are_many_routes_and_each_says_what_it_needs(world):
    found = list(operations(world.app))
    assert len(found) > 60
    for path, method, need, _ in found:
        assert need in {"nothing", "read", "write", "admin"} or method == "OPTIONS", path


def test_only_these_routes_need_nothing(world):
    open_ = {
        (method, path)
        for path, method, need in requests(world, needs=lambda need: need == "nothing")
        if not path.startswith("/static/")
    } - {("HEAD", path) for _, path in OPEN}
    assert open_ <= OPEN
    assert {("GET", "/health"), ("POST", "/login"), ("POST", "/api/v1/session")} <= open_


@pytest.mark.slow
def test_a_route_that_does_not_say_what_it_needs_keeps_the_service_from_starting(world):
    @get("/forgotten", sync_to_thread=False)
    def forgotten() -> str:
        return "anybody may read this"

    @get("/misspelt", opt={"needs": "reed"}, sync_to_thread=False)
    def misspelt() -> str:
        return "anybody may read this"

    for handler in (forgotten, misspelt):
        with pytest.raises((InputError, LitestarException), match="does not say what it needs"):
            create_app(world.collection, access=world.access, more=[handler])


@pytest.mark.parametrize("accept", ["application/json", "text/html"])
def test_anonymous_is_refused_everywhere(world, accept):
    before = world.contents()
    with world.client() as client:
        for path, method, _ in requests(world, needs=lambda need: need != "nothing"):
            reply = client.request(method, path, headers={"Accept": accept}, follow_redirects=False)
            if reply.status_code == 303:
                assert accept == "text/html", path
                assert reply.headers["location"].startswith("/login?next=")
            else:
                assert reply.status_code == 401, (method, path, reply.status_code)
            assert "example" not in reply.text
    assert world.contents() == before


def test_options_tells_strangers_nothing(world):
    with world.client() as client:
        for path, method, need, _ in operations(world.app):
            if method == "OPTIONS" and need is None:
                assert client.options(path).status_code == 401, path


@pytest.mark.parametrize(
    ("role", "lacks"), [("viewer", ("write", "admin")), ("editor", ("admin",))]
)
def test_the_wrong_role_is_refused_everywhere(world, role, lacks):
    before = world.contents()
    with world.browser(role) as client:
        for path, method, need in requests(world, needs=lambda need: need in lacks):
            reply = client.request(method, path, json={})
            assert reply.status_code == 403, (method, path, need, reply.status_code)
    after = world.contents()
    before.pop("accounts"), after.pop("accounts")  # when they signed in last
    assert after == before


@pytest.mark.parametrize(("scope", "lacks"), [("read", ("write", "admin")), ("write", ("admin",))])
def test_a_token_of_the_wrong_scope_is_refused_everywhere(world, scope, lacks):
    with world.client(scope) as client:
        for path, method, need in requests(world, needs=lambda need: need in lacks):
            reply = client.request(method, path, json={})
            assert reply.status_code == 403, (method, path, need, reply.status_code)


@pytest.mark.slow
@pytest.mark.parametrize("token", [None, "", "0" * 64, "of another session"])
def test_a_change_with_a_cookie_needs_the_token_of_its_session(world, token):
    with world.browser("owner", csrf=False) as other:
        stolen = csrf_token(other.cookies[COOKIE])
    with world.browser("owner", csrf=False) as client:
        before = world.contents()
        if token is not None:
            client.headers["X-CSRF-Token"] = stolen if token.startswith("of") else token
        for path, method, _ in requests(world, needs=lambda need: need != "nothing"):
            if method not in SAFE:
                reply = client.request(method, path, json={})
                assert reply.status_code == 403, (method, path, reply.status_code)
                form = client.request(
                    method, path, data={"csrf_token": token or ""}, follow_redirects=False
                )
                assert form.status_code == 403, (method, path, form.status_code)
        assert world.contents() == before


def test_a_change_from_another_site_is_refused_even_with_the_token(world):
    with world.browser("owner") as client:
        before = world.contents()
        for site in ("cross-site", "same-site"):
            for path, method, _, _ in operations(world.app):
                if method not in SAFE:
                    reply = client.request(method, path, json={}, headers={"Sec-Fetch-Site": site})
                    assert reply.status_code == 403, (method, path)
        assert world.contents() == before


@pytest.mark.slow
def test_nothing_changes_by_looking(world):
    with world.browser("owner") as client:
        client.get("/api/v1/sources")
        before = world.contents()
        for path, method, _, _ in operations(world.app):
            if method == "GET":
                reply = client.get(path, follow_redirects=False)
                assert reply.status_code < 500 or path == "/health", (path, reply.text)
        assert world.contents() == before


@pytest.mark.slow
def test_every_answer_has_the_headers_that_protect_it(world):
    with world.browser("owner") as client:
        for path, method, _, _ in operations(world.app):
            if method != "GET":
                continue
            reply = client.get(path, follow_redirects=False)
            policy = reply.headers["content-security-policy"]
            assert policy == CONTENT_SECURITY_POLICY or "sandbox" in policy, path
            assert "unsafe" not in policy
            assert reply.headers["x-content-type-options"] == "nosniff"
            assert reply.headers["referrer-policy"] == "no-referrer"
            if path.startswith("/feeds/"):
                assert reply.headers["cache-control"] == "private, no-cache"
            elif not path.startswith("/static/"):
                assert reply.headers["cache-control"] == "no-store", path
        missing = client.get("/there/is/nothing")
        assert missing.headers["content-security-policy"] == CONTENT_SECURITY_POLICY


@pytest.mark.parametrize("accept", ["*/*", "text/html"])
def test_errors_give_nothing_hostile_back(world, accept):
    poison = "<script>alert(1)</script>"
    with world.browser("owner") as client:
        client.headers["Accept"] = accept
        for path in (
            f"/{poison}",
            f"/api/v1/{poison}",
            f"/feeds/{poison}",
            f"/feeds/changes.atom?source={poison}",
            f"/feeds/changes.json?tag=%00{poison}",
            f"/api/v1/sources?sort={poison}",
            f"/api/v1/overview?grace={poison}",
            f"/sources?sort={poison}",
            f"/plan?budget={poison}",
        ):
            reply = client.get(path)
            assert 400 <= reply.status_code < 500, path
            kind = reply.headers["content-type"].partition(";")[0]
            if kind == "text/html":
                assert not path.startswith(("/api", "/feeds")), path  # these are for programs
                assert "<script>alert" not in reply.text, path
            else:
                assert kind in {"text/plain", "application/problem+json"}, (path, kind)


# -- signing in -------------------------------------------------------------------------------


def test_passwords_are_hashed_and_checked():
    kept = hash_password(PASSWORD, log_n=4)
    assert kept.startswith("scrypt$4$8$3$")
    assert PASSWORD not in kept
    assert kept != hash_password(PASSWORD, log_n=4)
    assert check_password(PASSWORD, kept)
    assert not check_password(PASSWORD + "x", kept)
    assert not check_password("", kept)
    with pytest.raises(InputError, match="from 10 to"):
        hash_password("short")


@pytest.mark.slow
def test_the_default_cost_is_what_owasp_asks_for():
    _, log_n, r, p, salt, made = hash_password(PASSWORD).split("$")
    assert (int(log_n), int(r)) >= (15, 8)
    assert int(p) >= 3
    salt, made = base64.b64decode(salt), base64.b64decode(made)
    cost = {"n": 2 ** int(log_n), "r": int(r), "p": int(p), "maxmem": 2**28}
    assert hashlib.scrypt(PASSWORD.encode(), salt=salt, dklen=len(made), **cost) == made


def test_secrets_are_not_in_the_store(world):
    with world.browser("viewer") as client:
        session = client.cookies[COOKIE]
        text = repr(world.contents()) + repr(world.store.accounts.list())
        for secret in (session, PASSWORD, *world.tokens.values()):
            assert secret not in text


def test_signing_in_makes_a_new_session_and_ends_the_one_that_was_planted(world):
    planted = world.access.sign_in("viewer", PASSWORD, "here")
    with world.client() as victim:
        reply = victim.post(
            "/api/v1/session",
            json={"name": "owner", "password": PASSWORD},
            headers={"Cookie": f"{COOKIE}={planted}"},
        )
        fresh = reply.headers["set-cookie"].partition(";")[0].removeprefix(f"{COOKIE}=")
    assert fresh != planted
    assert world.access.of_session(planted).anonymous
    assert world.access.of_session(fresh).name == "owner"


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(world):
    with world.client() as client:
        reply = client.post("/api/v1/session", json={"name": "owner", "password": PASSWORD})
        cookie = reply.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=lax" in cookie
        assert "path=/" in cookie


def test_the_form_signs_in_only_with_the_token_of_its_page(world):
    form = {"name": "viewer", "password": PASSWORD, "next": "/sources"}
    with world.client() as client:
        assert client.post("/login", data=form, follow_redirects=False).status_code == 403
        client.cookies.set(SIGN_IN_COOKIE, "planted")
        bad = client.post("/login", data=form | {"csrf_token": "x"}, follow_redirects=False)
        assert bad.status_code == 403
        good = client.post(
            "/login", data=form | {"csrf_token": csrf_token("planted")}, follow_redirects=False
        )
        assert (good.status_code, good.headers["location"]) == (303, "/sources")
        assert client.get("/api/v1/session").json()["name"] == "viewer"


@pytest.mark.parametrize(
    "path",
    ["//evil.example/", "https://evil.example/", "/\\evil.example", "", "/a\nb", "javascript:1"],
)
def test_after_signing_in_one_stays_here(path):
    assert inside(path, "") == "/"
    assert inside(path, "/observant") == "/observant/"


def test_signing_out_ends_the_session(world):
    with world.browser("viewer") as client:
        secret = client.cookies[COOKIE]
        assert client.delete("/api/v1/session").status_code == 204
        assert world.access.of_session(secret).anonymous


def test_a_new_password_or_role_ends_all_sessions(world):
    world.access.add_account("temp", "viewer", PASSWORD)
    for change in (
        lambda: world.access.change_account("temp", role="editor"),
        lambda: world.access.change_account("temp", password=PASSWORD + "!"),
    ):
        secret = world.access.sign_in("temp", PASSWORD, "here")
        assert not world.access.of_session(secret).anonymous
        change()
        assert world.access.of_session(secret).anonymous
    secret = world.access.sign_in("temp", PASSWORD + "!", "here")
    world.store.accounts.remove("temp")
    assert world.access.of_session(secret).anonymous


def test_sessions_and_tokens_expire():
    world = World()
    now = time.time()
    access = Access(world.store, log_n=4, clock=lambda: now)
    session = access.sign_in("owner", PASSWORD, "here")
    _, token = access.new_token("short", "read", days=1)
    assert access.of_token(token).may("read")
    for days in (1e-103, 0.0, -1.0, math.nan, 36_501.0):  # the first is over when it begins
        with pytest.raises(InputError, match="more than 0 and at most 36500 days"):
            access.new_token("never", "read", days=days)
    now += 86_401
    assert access.of_token(token).anonymous
    now += 14 * 86_400
    assert access.of_session(session).anonymous
    world.close()


def test_a_token_never_may_more_than_its_maker():
    world = World()
    _, token = world.access.new_token("mine", "admin", account="owner")
    world.access.add_account("second", "owner", PASSWORD)
    assert world.access.of_token(token).scope == "admin"
    world.access.change_account("owner", role="viewer")
    assert world.access.of_token(token).scope == "read"
    world.store.accounts.remove("owner")
    assert world.access.of_token(token).anonymous
    world.close()


def test_tokens_are_made_by_people_within_their_own_permission(world):
    with world.browser("editor") as client:
        refused = client.post("/api/v1/tokens", json={"name": "t", "scope": "admin"})
        assert refused.status_code == 403
        made = client.post("/api/v1/tokens", json={"name": "t", "scope": "write"}).json()
        assert made["secret"].startswith("obs_")
        assert [row["name"] for row in client.get("/api/v1/tokens").json()] == ["t"]
    number = made["token"]["id"]
    with world.browser("viewer") as other:
        assert other.get("/api/v1/tokens").json() == []
        assert other.delete(f"/api/v1/tokens/{number}").status_code == 404
    with world.client("write") as program:
        assert program.post("/api/v1/tokens", json={"name": "t"}).status_code == 403
    with world.browser("editor") as client:
        assert client.delete(f"/api/v1/tokens/{number}").status_code == 204


def test_a_token_works_as_bearer_and_as_basic_password_and_wins_over_the_cookie(world):
    secret = world.tokens["read"]
    basic = base64.b64encode(f"anybody:{secret}".encode()).decode()
    with world.browser("owner") as client:
        for value in (f"Bearer {secret}", f"bearer {secret}", f"Basic {basic}"):
            reply = client.get("/api/v1/session", headers={"Authorization": value})
            assert reply.json()["scope"] == "read"
        for value in ("Bearer x", "Basic !!", "Basic", "Digest a", secret):
            assert client.get("/api/v1/tags", headers={"Authorization": value}).status_code == 401


def test_basic_is_for_looking_only(world):
    """Browsers send it on their own, whoever made them ask."""
    basic = base64.b64encode(f"x:{world.tokens['admin']}".encode()).decode()
    before = world.contents()
    with world.client() as client:
        client.headers["Authorization"] = f"Basic {basic}"
        assert client.get("/api/v1/tags").status_code == 200
        for path, method, _ in requests(world, needs=lambda need: need != "nothing"):
            if method not in SAFE:
                assert client.request(method, path, json={}).status_code == 401, (method, path)
    after = world.contents()
    before.pop("tokens"), after.pop("tokens")  # when they were used last
    assert after == before


@pytest.mark.slow
def test_a_broken_store_is_told_without_its_place(tmp_path):
    from observant.store import open_store

    world = World(store=open_store(tmp_path / "hidden.db"))
    with world.browser("owner") as client:
        world.store.close()
        for path in ("/api/v1/sources", "/health", "/metrics"):
            reply = client.get(path)
            assert reply.status_code == 503, path
            assert "hidden" not in reply.text, path
    world.close()


def test_only_feeds_take_a_token_from_the_address_and_only_one_that_reads(world):
    with world.client() as client:
        read, write = world.tokens["read"], world.tokens["write"]
        assert client.get(f"/feeds/changes.atom?token={read}").status_code == 200
        assert client.get(f"/feeds/changes.atom?token={write}").status_code == 401
        assert client.get(f"/api/v1/tags?token={read}").status_code == 401
        assert read not in client.get(f"/feeds/changes.atom?token={read}").text


def test_the_last_owner_stays():
    world = World()
    with pytest.raises(InputError, match="last owner"):
        world.store.accounts.remove("owner")
    with pytest.raises(InputError, match="last owner"):
        world.access.change_account("owner", role="viewer")
    world.close()


# -- guessing ---------------------------------------------------------------------------------


def test_guessing_is_throttled_and_recovers():
    world = World()
    ticks = 0.0
    throttle = Throttle(free=3, clock=lambda: ticks)
    access = Access(world.store, log_n=4, throttle=throttle)
    for _ in range(4):
        with pytest.raises(SignInError):
            access.sign_in("owner", "wrong password", "1.2.3.4")
    with pytest.raises(TooManyError) as error:
        access.sign_in("owner", PASSWORD, "1.2.3.4")  # even with the right one
    assert 0 < error.value.seconds <= 2
    with pytest.raises(TooManyError):  # the address is known, whatever the name
        access.sign_in("viewer", PASSWORD, "1.2.3.4")
    assert access.sign_in("owner", PASSWORD, "5.6.7.8")  # others are not locked out
    ticks += 3
    assert access.sign_in("owner", PASSWORD, "1.2.3.4")
    world.close()


def test_many_addresses_that_guess_one_account_are_slowed_too():
    world = World()
    access = Access(world.store, log_n=4, throttle=Throttle(free=3, clock=lambda: 0.0))
    for k in range(31):
        with pytest.raises(SignInError):
            access.sign_in("owner", "wrong password", f"10.0.0.{k}")
    with pytest.raises(TooManyError):
        access.sign_in("owner", PASSWORD, "10.0.1.1")
    world.close()


def test_the_throttle_doubles_and_forgets_and_stays_small():
    ticks = 0.0
    throttle = Throttle(free=1, first=2.0, longest=60.0, most=10, clock=lambda: ticks)
    waits = []
    for _ in range(8):
        throttle.failed(["k"])
        waits.append(throttle.wait(["k"]))
    assert waits == [0.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    ticks = 200.0
    throttle.failed(["k"])
    assert throttle.wait(["k"]) == 0.0
    for k in range(100):
        throttle.failed([f"other {k}"])
    assert len(throttle.failures) == 10


def test_a_throttled_login_is_429_with_a_time_to_wait():
    world = World()
    world.access._throttle = Throttle(free=0)
    with world.client() as client:
        for status in (401, 429):
            reply = client.post("/api/v1/session", json={"name": "owner", "password": "nonsense!"})
            assert reply.status_code == status
        assert int(reply.headers["retry-after"]) > 0
    world.close()


def test_a_stranger_costs_as_much_time_as_somebody_with_a_wrong_password(monkeypatch):
    """Time is spent in scrypt, and both ways ask for it once, at the same cost."""
    world = World()
    asked = []
    real = secrets._scrypt

    def counted(password, salt, *cost):
        asked.append(cost)
        return real(password, salt, *cost)

    world.access._nobody  # noqa: B018 (made once, before anybody knocks)
    monkeypatch.setattr(secrets, "_scrypt", counted)
    for name in ("owner", "unknown", "owner", "unknown"):
        with pytest.raises(SignInError, match="name or password is wrong"):
            world.access.sign_in(name, "wrong password", "here")
    assert len(asked) == 4
    assert len(set(asked)) == 1
    world.close()


# -- around -----------------------------------------------------------------------------------


def test_the_first_run_makes_an_owner_once():
    world = World()
    assert world.access.first_run() is None
    from observant.store import open_store

    with open_store(":memory:") as store:
        access = Access(store, log_n=4)
        name, password = access.first_run()
        assert access.sign_in(name, password, "here")
        assert access.first_run() is None
        assert store.accounts.get(name).role == "owner"
    world.close()


def test_below_a_prefix_everything_is_below_it():
    world = World(prefix="/observant").fill()
    with world.browser("owner") as client:
        assert client.get("/observant/api/v1/tags").status_code == 200
        assert client.get("/api/v1/tags").status_code == 404
        for path, _, _, _ in operations(world.app):
            assert path.startswith("/observant")
    with world.client() as client:
        reply = client.get(
            "/observant/api/v1/tags", headers={"Accept": "text/html"}, follow_redirects=False
        )
        assert reply.status_code == 401
        reply = client.post(
            "/observant/api/v1/session", json={"name": "owner", "password": PASSWORD}
        )
        assert "path=/observant" in reply.headers["set-cookie"].lower()
        problem = client.get("/observant/api/v1/sources/77777")
        assert problem.headers["content-type"] == "application/problem+json"
    world.close()


def test_accounts_and_tokens_on_both_engines(store):
    access = Access(store, log_n=4)
    access.add_account("ada", "editor", PASSWORD)
    with pytest.raises(InputError, match="already"):
        access.add_account("ada", "viewer", PASSWORD)
    with pytest.raises(InputError, match="no role"):
        access.add_account("bob", "king", PASSWORD)
    session = access.sign_in("ada", PASSWORD, "here")
    assert access.of_session(session).scope == "write"
    row, token = access.new_token("t", "read", account="ada")
    assert access.of_token(token).name == "ada"
    assert [one.used_at is None for one in store.tokens.list()] == [False]
    assert store.tokens.revoke(row.id)
    assert not store.tokens.revoke(row.id)
    assert access.of_token(token).anonymous
    access.sign_out(session)
    assert access.of_session(session).anonymous
    store.replies.keep("k", b"digest", {"a": 1}, now=1000.0)
    assert store.replies.get("k").reply == {"a": 1}
    store.replies.keep("l", b"digest", {}, now=1000.0 + 90_000)
    assert store.replies.get("k") is None


def test_a_backup_carries_accounts_tokens_and_hours_but_no_sessions(store, tmp_path):
    from observant.store import Source, Visit, open_store

    access = Access(store, log_n=4)
    access.add_account("ada", "owner", PASSWORD)
    _, token = access.new_token("t", "write", account="ada")
    session = access.sign_in("ada", PASSWORD, "here")
    store.sources.add([Source(name="a", host="h")])
    store.visits.record(
        Visit(source="a", started_at=1e9, ended_at=1e9 + 1, outcome="first", bytes=7)
    )
    store.backup(tmp_path / "backup.db")
    with open_store(":memory:") as other:
        other.restore(tmp_path / "backup.db")
        again = Access(other, log_n=4)
        assert again.of_token(token).scope == "write"
        assert again.of_session(session).anonymous
        assert again.sign_in("ada", PASSWORD, "here")
        assert other.visits.hours(since=0.0) == store.visits.hours(since=0.0)
        assert other.visits.hours(since=0.0)[0].bytes == 7


def test_strangers_cannot_send_much(world):
    with world.client() as client:
        large = {"name": "owner", "password": "x" * 100_000}
        assert client.post("/api/v1/session", json=large).status_code == 413
        assert client.post("/login", data=large).status_code in {403, 413}
    with world.client("write") as client:
        many = [{"url": f"https://big.example/{k}", "title": "x" * 900} for k in range(6000)]
        assert client.post("/api/v1/sources/bulk", json=many).status_code == 413
        assert client.post("/api/v1/sources/import", json=many[:0]).status_code == 200
