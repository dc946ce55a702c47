"""One set of rules: what the API refuses, the pages refuse, and the other way round.

Every route is found by asking the application, so a new one is tried on the day it is there.
"""

import itertools
from collections import defaultdict

import pytest

from observant.service.access.identity import ANONYMOUS, NEEDS, OPERATOR, Access
from observant.service.access.rights import RULES
from observant.service.access.throttle import Throttle
from observant.service.collection import NewSource
from observant.store import Subscription, open_store

from .service_world import PASSWORD, World, operations

WHO = ("anonymous", "viewer", "editor", "owner", "read", "write", "admin")
MAY = {
    "anonymous": "nothing", "viewer": "read", "editor": "write", "owner": "admin",
    "read": "read", "write": "write", "admin": "admin",
}  # fmt: skip
REFUSED = {401, 403}
NEITHER = {"OPTIONS", "HEAD"}
FOR_OTHERS = {"websub_callback", "indexnow"}
"""What hubs and publishers call; they show a secret of their own."""


@pytest.fixture(scope="module")
def world():
    made = World().fill()
    made.store.subscriptions.add(Subscription(name="ops", channel="https://hook.example/x"))
    yield made
    made.close()


def asks(world, who):
    """A client that asks as one of WHO."""
    if who == "anonymous":
        return world.client()
    return world.browser(who) if MAY[who] != who else world.client(who)


def by_operation(world):
    found = defaultdict(list)
    for path, method, _, handler in operations(world.app):
        if method not in NEITHER and "operation" in handler.opt:
            found[handler.opt["operation"]].append((method, path))
    return found


def test_every_route_names_its_operation_and_every_operation_has_a_rule(world):
    unnamed = {
        path
        for path, method, _, handler in operations(world.app)
        if method not in NEITHER and "operation" not in handler.opt
    }
    assert unnamed == {"/api/v1", "/api/v1/openapi.json", "/api/v1/x"}  # the document of the API
    assert set(by_operation(world)) == set(RULES)
    assert set(RULES.values()) == set(NEEDS)


def test_a_route_needs_what_the_rule_says_and_nothing_else(world):
    for path, _, need, handler in operations(world.app):
        if "operation" in handler.opt:
            assert need == RULES[handler.opt["operation"]], path


def test_most_page_actions_have_their_twin_in_the_api(world):
    """And those that have none only look."""
    alone = {
        operation
        for operation, routes in by_operation(world).items()
        if not any(path.startswith(("/api/", "/health", "/metrics")) for _, path in routes)
    }
    assert alone == {"figure", "feed", "static", "status", "reference"} | FOR_OTHERS
    assert {RULES[operation] for operation in alone} <= {"nothing", "read"}


def try_routes(world, who):
    """Ask for every route as one of WHO: the reply, and whether the rules let it through.

    Without a body nothing is changed: it is refused, or it is incomplete.
    """
    harmless = {"sign_out", "check_source", "page_picture"}  # these need no body
    enough = NEEDS.index(MAY[who])
    with asks(world, who) as client:
        for operation, routes in by_operation(world).items():
            for method, path in routes:
                if method != "GET" and (operation in harmless or operation in DONE):
                    continue
                if operation == "sign_in" and method == "POST":
                    continue  # it has a token of its own, and is tried elsewhere
                reply = client.request(method, path, follow_redirects=False)
                yield method, path, reply, NEEDS.index(RULES[operation]) <= enough


@pytest.mark.slow
@pytest.mark.parametrize("who", WHO)
def test_everybody_gets_as_far_as_the_rule_says_on_every_route(world, who):
    for method, path, reply, allowed in try_routes(world, who):
        place = (method, path, reply.status_code, reply.text[:200])
        assert (reply.status_code not in REFUSED) == allowed, place


# -- what page and API both do --------------------------------------------------------------------


def sources(world):
    name = f"https://{next(COUNT)}.example/"
    return world.collection.sources.add(NewSource(url=name)).source.id


def subscription(world):
    made = world.store.subscriptions.add(
        Subscription(name=f"s{next(COUNT)}", channel="https://hook.example/x")
    )
    return made.id


def token_of(world, owner):
    """A token of somebody, or of the command line."""
    return world.access.new_token(f"t{next(COUNT)}", "read", account=owner)[0].id


def account(world):
    return world.access.add_account(f"a{next(COUNT)}", "viewer", PASSWORD).id


COUNT = itertools.count(100)
SOME = {"name": "x", "channel": "https://hook.example/y"}
WRONG = {"patch": {"compare": {"x": "b"}}}


class Deed:
    """One thing that can be done in the API and on a page, to a target of its own each time."""

    def __init__(self, operation, api, page, *, target=None, done=None):
        self.operation, self.api, self.page = operation, api, page
        self.target, self.done = target or (lambda _: 0), done


def listed(number):
    return lambda store: number in {row.id for row in store.sources.list(limit=1000).sources}


def state_of(wanted):
    return lambda world, n: world.store.sources.numbered(n).state == wanted


def unique(start):
    return f"{start}{next(COUNT)}"


DEEDS = [
    Deed(
        "add_source",
        lambda _: ("POST", "/api/v1/sources", {"url": f"https://{unique('n')}.example/"}),
        lambda _: ("/sources", {"urls": f"https://{unique('n')}.example/"}),
    ),
    Deed(
        "add_source",
        lambda _: ("POST", "/api/v1/sources", {"url": f"https://{unique('q')}.example/"}),
        lambda _: ("/queries", {"url": f"https://{unique('q')}.example/"}),
    ),
    Deed(
        "recognise_sources",  # nothing is fetched: it is no address of the web
        lambda _: ("POST", "/api/v1/sources/recognise", {"urls": ["file:///etc/passwd"]}),
        lambda _: ("/add", {"urls": "file:///etc/passwd"}),
    ),
    Deed(
        "change_sources",
        lambda n: ("POST", "/api/v1/sources/bulk", {"action": "pause", "ids": [n]}),
        lambda n: ("/sources/bulk", {"action": "pause", "id": str(n)}),
        target=sources,
        done=state_of("paused"),
    ),
    Deed(
        "update_source",
        lambda n: ("PATCH", f"/api/v1/sources/{n}", {"title": "seen"}),
        lambda n: (f"/sources/{n}", {"title": "seen"}),
        target=sources,
        done=lambda world, n: world.store.sources.numbered(n).title == "seen",
    ),
    Deed(
        "update_source",
        lambda n: ("PATCH", f"/api/v1/sources/{n}", {"settings": {"render": "never"}}),
        lambda n: (f"/sources/{n}/render", {"render": "never"}),
        target=sources,
        done=lambda world, n: world.collection.sources.get(n).settings == {"render": "never"},
    ),
    Deed(
        "update_source",
        lambda n: ("PATCH", f"/api/v1/sources/{n}", {"settings": {"compare": {"css": "b"}}}),
        lambda n: (f"/sources/{n}/choose", {"css": "b"}),
        target=sources,
        done=lambda world, n: "compare" in world.store.sources.numbered(n).config,
    ),
    Deed(
        "update_source",
        lambda n: ("PATCH", f"/api/v1/sources/{n}", {"settings": {"steps": ["dismiss"]}}),
        lambda n: (f"/sources/{n}/steps", {"steps": "dismiss"}),
        target=sources,
        done=lambda world, n: "steps" in world.store.sources.numbered(n).config,
    ),
    Deed(
        "update_source",
        lambda n: ("PATCH", f"/api/v1/sources/{n}", {"patch": {"compare": {"ignore": ["a"]}}}),
        lambda n: (f"/sources/{n}/ignore", {"text": "a"}),
        target=sources,
        done=lambda world, n: "ignore" in world.store.sources.numbered(n).config.get("compare", {}),
    ),
    Deed(
        "mark_seen",
        lambda _: ("POST", "/api/v1/events/seen", {"numbers": [1]}),
        lambda _: ("/events/seen", {"number": "1"}),
    ),
    Deed(
        "pause_source",
        lambda n: ("POST", f"/api/v1/sources/{n}/pause", None),
        lambda n: (f"/sources/{n}/state", {"state": "paused"}),
        target=sources,
        done=state_of("paused"),
    ),
    Deed(
        "check_source",
        lambda n: ("POST", f"/api/v1/sources/{n}/check", None),
        lambda n: (f"/sources/{n}/visit", {}),
        target=lambda world: (
            world.collection.sources.pause(sources(world)).id
        ),  # nothing is fetched
    ),
    Deed(
        "preview_source",  # nothing is fetched, since there is no such language
        lambda n: ("POST", "/api/v1/sources/preview", {"source": n, "changes": WRONG}),
        lambda n: (f"/sources/{n}/edit", {"language": "x", "selector": "b"}),
        target=sources,
    ),
    Deed(
        "remove_source",
        lambda n: ("DELETE", f"/api/v1/sources/{n}", None),
        lambda n: (f"/sources/{n}/remove", {}),
        target=sources,
        done=lambda world, n: not listed(n)(world.store),
    ),
    Deed(
        "change_settings",
        lambda _: ("PATCH", "/api/v1/settings", {"budget": f"{next(COUNT)}/day"}),
        lambda _: ("/settings", {"budget": f"{next(COUNT)}/day"}),
    ),
    Deed(
        "change_settings",
        lambda _: ("PATCH", "/api/v1/settings", {"budget": f"{next(COUNT)}/day"}),
        lambda _: ("/plan", {"budget": f"{next(COUNT)}/day"}),
    ),
    Deed(
        "import_document",
        lambda _: ("POST", "/api/v1/import", {"settings": {"budget": "7/day"}}),
        lambda _: ("/settings/import", {"document": b'{"settings": {"budget": "8/day"}}'}),
    ),
    Deed(
        "subscribe",
        lambda _: ("POST", "/api/v1/subscriptions", SOME | {"name": unique("w")}),
        lambda _: ("/subscriptions", SOME | {"name": unique("w")}),
    ),
    Deed(
        "update_subscription",
        lambda n: ("PATCH", f"/api/v1/subscriptions/{n}", {"subject": "seen"}),
        lambda n: (f"/subscriptions/{n}", SOME | {"name": unique("u"), "subject": "seen"}),
        target=subscription,
        done=lambda world, n: world.collection.subscriptions.get(n).subject == "seen",
    ),
    Deed(
        "unsubscribe",
        lambda n: ("DELETE", f"/api/v1/subscriptions/{n}", None),
        lambda n: (f"/subscriptions/{n}/remove", {}),
        target=subscription,
        done=lambda world, n: n not in {one.id for one in world.store.subscriptions.list()},
    ),
    Deed(
        "retry_deliveries",
        lambda _: ("POST", "/api/v1/deliveries/retry", None),
        lambda _: ("/subscriptions/retry", {}),
    ),
    Deed(
        "test_subscription",
        lambda n: ("POST", f"/api/v1/subscriptions/{n}/test", None),
        lambda n: (f"/subscriptions/{n}/test", {}),
        target=lambda world: (
            world.store.subscriptions.add(
                Subscription(name=f"s{next(COUNT)}", channel="https://127.0.0.1/x")
            ).id
        ),  # refused by the guard: nothing is sent
    ),
    Deed(
        "set_mail",
        lambda _: ("PUT", "/api/v1/mail", {}),
        lambda _: ("/settings/mail", {"security": "tls"}),
    ),
    Deed(
        "test_mail",  # there is no server to send it by
        lambda _: ("POST", "/api/v1/mail/test", {"to": "me@example.org"}),
        lambda _: ("/settings/mail/test", {"to": "me@example.org"}),
    ),
    *(
        Deed(
            "create_token",
            lambda _, scope=scope: ("POST", "/api/v1/tokens", {"name": "t", "scope": scope}),
            lambda _, scope=scope: ("/settings/tokens", {"name": "t", "scope": scope}),
        )
        for scope in ("read", "write", "admin")
    ),
    *(
        Deed(
            "revoke_token",
            lambda n: ("DELETE", f"/api/v1/tokens/{n}", None),
            lambda n: (f"/settings/tokens/{n}/revoke", {}),
            target=lambda world, owner=owner: token_of(world, owner),
            done=lambda world, n: n not in {row.id for row in world.store.tokens.list()},
        )
        for owner in ("viewer", "editor", "owner", None)
    ),
    Deed(
        "change_password",
        lambda _: ("PUT", "/api/v1/session/password", {"old": "wrong one", "new": PASSWORD}),
        lambda _: ("/settings/password", {"old": "wrong one", "new": PASSWORD}),
    ),
    Deed(
        "add_account",
        lambda _: (
            *("POST", "/api/v1/accounts"),
            {"name": unique("p"), "role": "viewer", "password": PASSWORD},
        ),
        lambda _: (
            "/settings/accounts",
            {"name": unique("p"), "role": "viewer", "password": PASSWORD},
        ),
    ),
    Deed(
        "remove_account",
        lambda n: ("DELETE", f"/api/v1/accounts/{n}", None),
        lambda n: (f"/settings/accounts/{n}/remove", {}),
        target=account,
        done=lambda world, n: n not in {one.id for one in world.store.accounts.list()},
    ),
]
DONE = {deed.operation for deed in DEEDS}
BESIDE = {"/login", "/logout", "/websub/x", "/indexnow"}
"""Forms that are part of signing in (the tests of access try them), and what machines of others
call (the tests of pushed signals do)."""


def test_every_form_of_the_pages_is_tried_beside_its_twin(world):
    forms = {
        path
        for path, method, _, handler in operations(world.app)
        if method == "POST" and not path.startswith("/api/")
    }
    tried = {deed.page(1)[0] for deed in DEEDS}
    assert forms - BESIDE == tried


def verdict(reply):
    if reply.status_code in REFUSED:
        return "refused"
    return "missing" if reply.status_code == 404 else "let through"


@pytest.mark.slow
@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.operation)
@pytest.mark.parametrize("who", WHO)
def test_pages_and_api_agree_on_who_may_do_what(world, who, deed):
    given = []
    with asks(world, who) as client:
        number = deed.target(world)
        method, path, body = deed.api(number)
        reply = client.request(method, path, json=body)
        given.append((verdict(reply), deed.done and deed.done(world, number)))

        number = deed.target(world)
        path, form = deed.page(number)
        files = {k: ("x.json", v) for k, v in form.items() if isinstance(v, bytes)} or None
        texts = {k: v for k, v in form.items() if not isinstance(v, bytes)}
        reply = client.post(path, data=texts, files=files, follow_redirects=False)
        given.append((verdict(reply), deed.done and deed.done(world, number)))
    # A wrong password is no permission that is missing, but the API tells it with the same number.
    if deed.operation == "change_password" and MAY[who] != who and who != "anonymous":
        assert [how for how, _ in given] == ["refused", "let through"]
        return
    assert given[0] == given[1]
    how, done = given[0]
    if NEEDS.index(RULES[deed.operation]) > NEEDS.index(MAY[who]):
        assert how == "refused"
    if deed.done is not None:
        assert done == (how == "let through")


@pytest.mark.parametrize("who", WHO)
def test_secrets_leave_by_no_other_door(world, who):
    with asks(world, who) as client:
        api = client.get("/api/v1/export?secrets=true")
        page = client.get("/settings/export?secrets=1", follow_redirects=False)
        assert (
            verdict(api) == verdict(page) == ("let through" if MAY[who] == "admin" else "refused")
        )
        assert ("top-secret" in api.text) == ("top-secret" in page.text) == (MAY[who] == "admin")
        for path in ("/api/v1/export", "/settings/export"):
            assert "top-secret" not in client.get(path).text


def test_a_token_that_only_reads_revokes_nothing_whatever_the_way(world):
    """It could at /settings/tokens/N/revoke, while the API refused it."""
    secret = world.access.new_token("mine", "read", account="viewer")[1]
    victim = token_of(world, "viewer")
    with world.client() as client:
        client.headers["Authorization"] = f"Bearer {secret}"
        assert client.delete(f"/api/v1/tokens/{victim}").status_code == 403
        assert client.post(f"/settings/tokens/{victim}/revoke").status_code == 403
    assert victim in {row.id for row in world.store.tokens.list()}


def test_the_command_line_may_everything_and_a_stranger_nothing():
    with open_store(":memory:") as store:
        access = Access(store, log_n=4, throttle=Throttle(free=50))
        row, _ = access.create_token(OPERATOR, "made by hand", "admin")
        assert [one.id for one in access.tokens(OPERATOR)] == [row.id]
        assert access.tokens(ANONYMOUS) == []
