"""A typed client of the REST API, with nothing but the standard library and msgspec.

    from observant import Client

    client = Client("http://127.0.0.1:8321/", token="obs_…")
    client.add_source("https://example.org/", tags=["news"])
    print(client.overview().alpha)

Every operation of the OpenAPI document is a method of the same name.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from observant.errors import InputError, ServiceError
from observant.service import answers as a

if TYPE_CHECKING:
    import datetime as dt
    import ssl
    from collections.abc import Iterable, Iterator, Mapping

__all__ = [
    "Client",
]

T = TypeVar("T")
_LONGEST = 1 << 30


class Client:
    """One service. Give the token, or put it into the environment as OBSERVANT_TOKEN."""

    def __init__(
        self,
        address: str,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(address)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise InputError(f"an address of a service is http(s)://host/…, not {address!r}")
        if parts.username or parts.query or parts.fragment:
            raise InputError("the address of a service holds no credentials and no query")
        self._base = address.rstrip("/")
        self._token = token if token is not None else os.environ.get("OBSERVANT_TOKEN", "")
        self._timeout = timeout
        # A redirect would carry the token to wherever it leads: none is followed.
        handlers: list[Any] = [_NoRedirects()]
        if context is not None:
            handlers.append(urllib.request.HTTPSHandler(context=context))
        self._opener = urllib.request.build_opener(*handlers)

    def __repr__(self) -> str:
        return f"<client of {self._base}>"

    # -- the collection -----------------------------------------------------------------------

    def overview(self, *, grace: str | None = None) -> a.Overview:
        """How current the collection is, what that costs, and what is going on."""
        return self._get("/overview", a.Overview, grace=grace)

    def hours(self, *, count: int = 48) -> list[a.HourItem]:
        """Visits, changes and failures of the last hours."""
        return self._get("/hours", list[a.HourItem], count=count)

    def hosts(self, *, limit: int = 100) -> list[a.HostItem]:
        """Hosts in trouble."""
        return self._get("/hosts", list[a.HostItem], limit=limit)

    def tags(self) -> list[a.TagItem]:
        """Every tag and how many sources have it."""
        return self._get("/tags", list[a.TagItem])

    def observers(self) -> list[a.ObserverItem]:
        """Observers seen during the last day."""
        return self._get("/observers", list[a.ObserverItem])

    def events(
        self,
        *,
        topic: str | None = None,
        tag: str | None = None,
        source: int | None = None,
        limit: int = 100,
        after: int | None = None,
    ) -> a.EventPage:
        """Changes and other events, newest first."""
        return self._get(
            "/events",
            a.EventPage,
            topic=topic,
            tag=tag,
            source=source,
            limit=limit,
            after=after,
        )

    def visits(
        self,
        *,
        since: dt.datetime | None = None,
        until: dt.datetime | None = None,
        changed: bool | None = None,
        limit: int = 100,
        after: int | None = None,
    ) -> a.VisitPage:
        """Visits of all sources, newest first."""
        return self._get(
            "/visits",
            a.VisitPage,
            since=since,
            until=until,
            changed=changed,
            limit=limit,
            after=after,
        )

    def visit_log(self, *, format: str = "parquet", since: dt.datetime | None = None) -> bytes:  # noqa: A002
        """The whole visit log as a file (parquet, csv, jsonl)."""
        return self._call("GET", "/visit-log", query={"format": format, "since": since})

    # -- sources ------------------------------------------------------------------------------

    def list_sources(
        self,
        *,
        search: str | None = None,
        tag: str | None = None,
        host: str | None = None,
        state: str | None = None,
        kind: str | None = None,
        sort: str = "name",
        descending: bool = False,
        limit: int = 100,
        offset: int = 0,
        after: str | None = None,
    ) -> a.SourcePage:
        """One page of sources."""
        query = {name: value for name, value in locals().items() if name != "self"}
        return self._get("/sources", a.SourcePage, **query)

    def all_sources(self, **filters: Any) -> Iterator[a.SourceRow]:
        """Every source that the filters of `list_sources` let through, page after page."""
        after: str | None = None
        while True:
            page = self.list_sources(**{"limit": 1000, **filters, "after": after})
            yield from page.sources
            after = page.next
            if after is None:
                return

    def add_source(self, url: str, **entry: Any) -> a.Added:
        """Watch a source: kind, name, title, tags, importance, state, settings."""
        return self._send("POST", "/sources", a.Added, {"url": url, **entry})

    def import_sources(
        self,
        sources: Iterable[str | Mapping[str, Any]],
        *,
        idempotency_key: str | None = None,
    ) -> a.Imported:
        """Watch many sources, given by address or as `add_source` takes them."""
        entries = [{"url": one} if isinstance(one, str) else dict(one) for one in sources]
        return self._send("POST", "/sources/import", a.Imported, entries, key=idempotency_key)

    def change_sources(self, action: str, **change: Any) -> a.BulkAnswer:
        """Pause, resume, tag, untag, weigh (importance) or remove many: by ids, filters, or all."""
        return self._send("POST", "/sources/bulk", a.BulkAnswer, {"action": action, **change})

    def source(self, source: int) -> a.SourceDetail:
        """Everything about one source but its visits."""
        return self._get(f"/sources/{int(source)}", a.SourceDetail)

    def update_source(self, source: int, **changes: Any) -> a.SourceRow:
        """Change url, title, tags, importance, state or settings."""
        return self._send("PATCH", f"/sources/{int(source)}", a.SourceRow, changes)

    def remove_source(self, source: int, *, forget: bool = False) -> None:
        """Stop watching a source; `forget` deletes its visits as well."""
        self._call("DELETE", f"/sources/{int(source)}", query={"forget": forget})

    def pause_source(self, source: int) -> a.SourceRow:
        """Stop visiting a source for a while."""
        return self._send("POST", f"/sources/{int(source)}/pause", a.SourceRow)

    def resume_source(self, source: int) -> a.SourceRow:
        """Go on visiting a source."""
        return self._send("POST", f"/sources/{int(source)}/resume", a.SourceRow)

    def check_source(self, source: int) -> a.CheckAnswer:
        """Visit a source now, due or not."""
        return self._send("POST", f"/sources/{int(source)}/check", a.CheckAnswer)

    def source_visits(
        self,
        source: int,
        *,
        since: dt.datetime | None = None,
        until: dt.datetime | None = None,
        changed: bool | None = None,
        limit: int = 100,
        after: int | None = None,
    ) -> a.VisitPage:
        """Visits of a source, newest first."""
        return self._get(
            f"/sources/{int(source)}/visits",
            a.VisitPage,
            since=since,
            until=until,
            changed=changed,
            limit=limit,
            after=after,
        )

    def source_versions(self, source: int, *, limit: int = 100) -> list[a.VersionItem]:
        """Kept versions of a source, newest first."""
        return self._get(f"/sources/{int(source)}/versions", list[a.VersionItem], limit=limit)

    def snapshot(self, source: int, digest: str) -> bytes:
        """The content of a version."""
        return self._call("GET", f"/sources/{int(source)}/versions/{quote(digest, safe='')}")

    def diff(
        self, source: int, *, old: str | None = None, new: str | None = None, by: str = "auto"
    ) -> a.DiffAnswer:
        """What changed between two kept versions; the last two unless told."""
        return self._get(f"/sources/{int(source)}/diff", a.DiffAnswer, old=old, new=new, by=by)

    def members(self, source: int, *, left: bool = False) -> list[a.MemberItem]:
        """The results of a standing query."""
        return self._get(f"/sources/{int(source)}/members", list[a.MemberItem], left=left)

    # -- plan ---------------------------------------------------------------------------------

    def plan(
        self,
        *,
        budget: str | None = None,
        grace: str | None = None,
        objective: str | None = None,
        tag: str | None = None,
        factor: float | None = None,
    ) -> a.PlanView:
        """What another budget, grace or objective would bring."""
        return self._get(
            "/plan",
            a.PlanView,
            budget=budget,
            grace=grace,
            objective=objective,
            tag=tag,
            factor=factor,
        )

    def rivals(self) -> a.RivalsView:
        """Other people's rules on this collection's own history."""
        return self._get("/rivals", a.RivalsView)

    def population(self) -> a.PopulationView:
        """How the sources change, all together."""
        return self._get("/population", a.PopulationView)

    # -- notifications ------------------------------------------------------------------------

    def subscriptions(self) -> list[a.SubscriptionItem]:
        """Who is told of what."""
        return self._get("/subscriptions", list[a.SubscriptionItem])

    def subscribe(self, name: str, channel: str, **entry: Any) -> a.NewSubscription:
        """Tell somebody: filter, subject, template, digest, quiet, timezone, secret."""
        given = {"name": name, "channel": channel, **entry}
        return self._send("POST", "/subscriptions", a.NewSubscription, given)

    def subscription(self, subscription: int) -> a.SubscriptionItem:
        """One subscription."""
        return self._get(f"/subscriptions/{int(subscription)}", a.SubscriptionItem)

    def update_subscription(self, subscription: int, **changes: Any) -> a.SubscriptionItem:
        """Change a subscription."""
        path = f"/subscriptions/{int(subscription)}"
        return self._send("PATCH", path, a.SubscriptionItem, changes)

    def unsubscribe(self, subscription: int) -> None:
        """Tell no more."""
        self._call("DELETE", f"/subscriptions/{int(subscription)}")

    def deliveries(
        self,
        *,
        state: str | None = None,
        subscription: int | None = None,
        limit: int = 100,
        after: int | None = None,
    ) -> a.DeliveryPage:
        """The delivery log, newest first."""
        return self._get(
            "/deliveries",
            a.DeliveryPage,
            state=state,
            subscription=subscription,
            limit=limit,
            after=after,
        )

    def retry_deliveries(self, subscription: int | None = None) -> a.Retried:
        """Have dead letters tried again."""
        reply = self._call("POST", "/deliveries/retry", query={"subscription": subscription})
        return msgspec.json.decode(reply, type=a.Retried)

    # -- settings -----------------------------------------------------------------------------

    def settings(self) -> a.SettingsView:
        """The settings in force."""
        return self._get("/settings", a.SettingsView)

    def change_settings(self, **changes: Any) -> a.SettingsView:
        """Change budget, objective, grace or retention."""
        return self._send("PATCH", "/settings", a.SettingsView, changes)

    def export(self, *, secrets: bool = False) -> dict[str, Any]:
        """Everything that was entered, as one document."""
        return self._get("/export", dict[str, Any], secrets=secrets)

    def import_document(
        self, document: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> a.Imported:
        """Take in what `export` gave."""
        return self._send("POST", "/import", a.Imported, dict(document), key=idempotency_key)

    # -- access -------------------------------------------------------------------------------

    def session(self) -> a.SessionView:
        """Who is asking."""
        return self._get("/session", a.SessionView)

    def sign_in(self, name: str, password: str) -> a.SessionView:
        """Check a name and a password. (Sessions are for browsers: programs use tokens.)"""
        credentials = {"name": name, "password": password}
        return self._send("POST", "/session", a.SessionView, credentials)

    def sign_out(self) -> None:
        """End the session of a browser; nothing happens to a token."""
        self._call("DELETE", "/session")

    def change_password(self, old: str, new: str) -> None:
        """Set a new password; only for sessions of browsers."""
        self._call("PUT", "/session/password", body={"old": old, "new": new})

    def accounts(self) -> list[a.AccountItem]:
        """Who may sign in."""
        return self._get("/accounts", list[a.AccountItem])

    def add_account(self, name: str, role: str, password: str) -> a.AccountItem:
        """Add somebody who may sign in (viewer, editor, owner)."""
        given = {"name": name, "role": role, "password": password}
        return self._send("POST", "/accounts", a.AccountItem, given)

    def update_account(self, account: int, **changes: Any) -> a.AccountItem:
        """Give an account another role or password."""
        return self._send("PATCH", f"/accounts/{int(account)}", a.AccountItem, changes)

    def remove_account(self, account: int) -> None:
        """Remove an account with its sessions and tokens."""
        self._call("DELETE", f"/accounts/{int(account)}")

    def tokens(self) -> list[a.TokenItem]:
        """Tokens, without their secrets."""
        return self._get("/tokens", list[a.TokenItem])

    def create_token(
        self, name: str, *, scope: str = "read", days: float | None = None
    ) -> a.NewToken:
        """Make a token; its secret is in the answer, this once."""
        return self._send(
            "POST", "/tokens", a.NewToken, {"name": name, "scope": scope, "days": days}
        )

    def revoke_token(self, token: int) -> None:
        """Take a token back."""
        self._call("DELETE", f"/tokens/{int(token)}")

    # -- monitoring ---------------------------------------------------------------------------

    def health(self) -> a.Health:
        """Ok, or what is wrong."""
        reply = self._call("GET", "/health", api="", fine=(503,))
        return msgspec.json.decode(reply, type=a.Health)

    def metrics(self) -> str:
        """Numbers for Prometheus."""
        return self._call("GET", "/metrics", api="").decode()

    # -- inside -------------------------------------------------------------------------------

    def _get(self, path: str, kind: type[T], /, **query: Any) -> T:
        return msgspec.json.decode(self._call("GET", path, query=query), type=kind)

    def _send(
        self, method: str, path: str, kind: type[T], body: Any = None, *, key: str | None = None
    ) -> T:
        reply = self._call(method, path, body=body, key=key)
        return msgspec.json.decode(reply, type=kind)

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        key: str | None = None,
        api: str = "/api/v1",
        fine: tuple[int, ...] = (),
    ) -> bytes:
        words = {name: _word(value) for name, value in (query or {}).items() if value is not None}
        address = f"{self._base}{api}{path}" + (f"?{urlencode(words)}" if words else "")
        headers = {"Accept": "application/json", "User-Agent": "observant-client"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if key is not None:
            headers["Idempotency-Key"] = key
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = msgspec.json.encode(body)
        request = urllib.request.Request(address, data, headers, method=method)  # noqa: S310
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                return bytes(answer.read(_LONGEST))
        except urllib.error.HTTPError as error:
            with error:
                reply = error.read(1 << 20)
            if error.code in fine:
                return reply
            raise ServiceError(_told(error.code, reply), status=error.code) from None
        except OSError as error:
            raise ServiceError(f"{self._base} cannot be reached: {error}") from error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)


def _told(status: int, reply: bytes) -> str:
    try:
        problem = json.loads(reply)
        return f"{status}: {problem.get('detail') or problem.get('title')}"
    except (ValueError, AttributeError):
        return f"{status}: {reply[:200].decode('utf-8', 'replace').strip()}"
