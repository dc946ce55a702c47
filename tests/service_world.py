"""A small collection behind the service, for tests."""

import sqlite3
from contextlib import closing, contextmanager
from functools import cached_property

from litestar.testing import TestClient

from observant.observer.config import Config
from observant.service.access import Access
from observant.service.access.throttle import Throttle
from observant.service.app import create_app
from observant.service.collection import Collection, NewSource
from observant.store import Event, Posterior, Visit, open_store

PASSWORD = "correct horse battery"  # noqa: S105
ROLES = ("viewer", "editor", "owner")
HOSTILE = "<script>alert(1)</script>'\"&<img src=x onerror=alert(2)>\x1b]]>"
BASE = "http://testserver.local"


class World:
    """The service, and people with every role."""

    def __init__(self, *, prefix="", config=None, store=None):
        self.store = store or open_store(":memory:")
        self.access = Access(self.store, log_n=4, throttle=Throttle(free=50))
        self.collection = Collection(self.store, config or Config())
        for role in ROLES:
            self.access.add_account(role, role, PASSWORD)
        self.tokens = {
            scope: self.access.new_token(scope, scope)[1] for scope in ("read", "write", "admin")
        }
        self.prefix = prefix

    @cached_property
    def app(self):
        return create_app(self.collection, access=self.access, prefix=self.prefix)

    def close(self):
        self.collection.cache.close()
        self.store.close()

    def fill(self):
        """Three sources with visits, versions and events; what strangers say is hostile."""
        now = self.collection.now()
        for name in ("a", "b", "c"):
            self.collection.sources.add(
                NewSource(
                    url=f"https://{name}.example/",
                    title=HOSTILE,
                    tags=("news", "x"),
                    settings={"headers": {"Authorization": "Bearer top-secret"}},
                )
            )
        for k in range(30):
            at = now - 30 * 3600 + k * 3600
            for name in ("a", "b"):
                source = f"https://{name}.example/"
                changed = None if k == 0 else k % 5 == 0
                outcome = "first" if k == 0 else "changed" if changed else "same"
                events = (
                    Event(
                        id=f"{name}{k}",
                        topic="changed",
                        payload={
                            "source": source,
                            "url": "javascript:alert(3)" if name == "b" else source,
                            "title": HOSTILE,
                            "tags": ["news"],
                            "at": at,
                            "magnitude": 0.25,
                            "reason": HOSTILE,
                        },
                    ),
                )
                self.store.visits.record(
                    Visit(
                        source=source,
                        started_at=at,
                        ended_at=at + 1,
                        outcome=outcome,
                        changed=changed,
                        status=200,
                        bytes=1000,
                    ),
                    posterior=Posterior(data=b"", rate=4.0, rate_low=2.0, rate_high=8.0),
                    due_at=at + 7200,
                    snapshot=f"version {k // 5}\n{HOSTILE}" if k % 5 == 0 else None,
                    outbox=events if changed else (),
                )
        self.store.visits.record(
            Visit(
                source="https://c.example/",
                started_at=now - 60,
                ended_at=now - 59,
                outcome="failed",
                error=HOSTILE,
            )
        )
        return self

    @contextmanager
    def client(self, token=None):
        """Nobody, or a program with a token of this scope."""
        client = TestClient(self.app, base_url=BASE)  # without a lifespan: several may be open
        if token:
            client.headers["Authorization"] = f"Bearer {self.tokens[token]}"
        yield client

    @contextmanager
    def browser(self, role, *, csrf=True):
        """Somebody who has signed in; changes carry the token of the session unless told."""
        with self.client() as client:
            reply = client.post(
                f"{self.prefix}/api/v1/session", json={"name": role, "password": PASSWORD}
            )
            assert reply.status_code == 201, reply.text
            if csrf:
                client.headers["X-CSRF-Token"] = reply.json()["csrf"]
            yield client

    def contents(self):
        """Every row of the store, to see whether anything changed."""
        with closing(sqlite3.connect(self.store.engine.path)) as database:
            names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            return {
                name: sorted(map(repr, database.execute(f"SELECT * FROM {name}")))  # noqa: S608
                for (name,) in names.fetchall()
                if name != "sessions"
            }


def operations(app):
    """Every (path with values, method, need, handler) that the application answers."""
    for route in app.routes:
        path = "/"
        for part in getattr(route, "path_components", ()):
            word = part if isinstance(part, str) else _value(part)
            path = path.rstrip("/") + "/" + word
        for handler in getattr(route, "route_handlers", ()):
            for method in sorted(handler.http_methods):
                yield path, str(method), handler.opt.get("needs"), handler


def _value(part):
    if part.type is int:
        return "1"
    return "f" * 64 if part.name == "digest" else "x"
