"""A typed client of the REST API, with nothing but the standard library and msgspec.

    from observant import Client

    client = Client("http://127.0.0.1:8321/", token="obs_…")
    client.add_source("https://example.org/", tags=["news"])
    print(client.overview().alpha)

Every operation of the OpenAPI document is a method of the same name.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from observant.errors import InputError, ServiceError
from observant.service import answers as a
from observant.service import summaries as s

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Iterator, Mapping

__all__ = [
    "Client",
]

T = TypeVar("T")
_LONGEST = 1 << 30
_NOTHING = type(None)
_SOURCES = "search tag host state kind sort descending limit offset after"
_VISITS = "since until changed limit after"


def _op(
    route: str, answer: type[T], *, doc: str, query: str = "", body: str | None = None
) -> Callable[..., T]:
    """A method of the client for one operation of the API.

    Arguments are what the path names, then the fields of `body` that must be given; further fields
    (where there is a body) and parameters of the `query` by name.
    """
    method, _, path = route.partition(" ")
    places = re.findall(r"{(\w+)}", path)
    fields = (body or "").split()
    kinds = inspect.Parameter
    given = [kinds(n, kinds.POSITIONAL_OR_KEYWORD) for n in ("self", *places, *fields)]
    given += [kinds(n, kinds.KEYWORD_ONLY, default=None) for n in query.split()]
    if body is not None:
        given.append(kinds("further", kinds.VAR_KEYWORD))
    signature = inspect.Signature(given)

    def call(*args: Any, **named: Any) -> T:
        found = signature.bind(*args, **named).arguments
        client: Client = found.pop("self")
        where = path.format(**{n: quote(str(found.pop(n)), safe="") for n in places})
        sent = None
        if body is not None:
            sent = {n: found.pop(n) for n in fields} | found.pop("further", {})
        return client.call(method, where, answer, query=found, body=sent)

    call.__doc__ = doc
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


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

    # fmt: off
    overview = _op("GET /overview", s.Overview, query="grace",
        doc="How current the collection is, what that costs, and what is going on.")
    hours = _op("GET /hours", list[s.HourItem], query="count",
        doc="Visits, changes and failures of the last hours.")
    hosts = _op("GET /hosts", list[s.HostItem], query="limit",
        doc="Hosts in trouble.")
    tags = _op("GET /tags", list[a.TagItem],
        doc="Every tag and how many sources have it.")
    observers = _op("GET /observers", list[s.ObserverItem],
        doc="Observers seen during the last day.")
    events = _op("GET /events", a.EventPage, query="topic tag source limit after",
        doc="Changes and other events, newest first.")
    mark_seen = _op("POST /events/seen", a.Done, body="",
        doc="Take events off the first page: numbers, or all until one.")
    visits = _op("GET /visits", a.VisitPage, query=_VISITS,
        doc="Visits of all sources, newest first.")
    visit_log = _op("GET /visit-log", bytes, query="format since",
        doc="The whole visit log as a file (parquet, csv, jsonl).")

    # -- sources ------------------------------------------------------------------------------

    list_sources = _op("GET /sources", a.SourcePage, query=_SOURCES,
        doc="One page of sources.")

    def all_sources(self, **filters: Any) -> Iterator[a.SourceRow]:
        """Every source that the filters of `list_sources` let through, page after page."""
        after: str | None = None
        while True:
            page = self.list_sources(**{"limit": 1000, **filters, "after": after})
            yield from page.sources
            after = page.next
            if after is None:
                return

    add_source = _op("POST /sources", a.Added, body="url", query="update",
        doc="Watch a source: kind, name, title, tags, importance, state, settings.")

    def import_sources(
        self,
        sources: Iterable[str | Mapping[str, Any]],
        *,
        update: bool = False,
        idempotency_key: str | None = None,
    ) -> a.Imported:
        """Watch many sources, given by address or as `add_source` takes them."""
        entries = [{"url": one} if isinstance(one, str) else dict(one) for one in sources]
        asked = {"update": update or None}
        return self.call(
            "POST", "/sources/import", a.Imported, query=asked, body=entries, key=idempotency_key
        )

    change_sources = _op("POST /sources/bulk", a.BulkAnswer, body="action",
        doc="Pause, resume, tag, untag, weigh, edit or remove many: by ids, filters, all.")
    preview_source = _op("POST /sources/preview", a.PreviewAnswer, body="",
        doc="What a page would give: source or url, and a patch of its settings.")
    recognise_sources = _op("POST /sources/recognise", list[a.AddressItem], body="urls",
        doc="What is at these addresses: page, feed, sitemap, JSON, PDF, image, empty shell?")
    source = _op("GET /sources/{source}", a.SourceDetail,
        doc="Everything about one source but its visits.")
    update_source = _op("PATCH /sources/{source}", a.SourceRow, body="",
        doc="Change url, title, tags, importance, state, settings, or a patch of them.")
    remove_source = _op("DELETE /sources/{source}", _NOTHING, query="forget",
        doc="Stop watching a source; `forget` deletes its visits as well.")
    pause_source = _op("POST /sources/{source}/pause", a.SourceRow,
        doc="Stop visiting a source for a while.")
    resume_source = _op("POST /sources/{source}/resume", a.SourceRow,
        doc="Go on visiting a source.")
    check_source = _op("POST /sources/{source}/check", a.CheckAnswer,
        doc="Visit a source now, due or not.")
    source_signals = _op("GET /sources/{source}/signals", list[a.SignalItem], query="limit",
        doc="What was said of a source between visits, newest first.")
    websub = _op("GET /websub", list[a.HubItem],
        doc="Sources that name a hub (WebSub), and whether it tells of their changes.")
    signals = _op("GET /signals", list[a.ChannelItem],
        doc="How far the signals of each kind about each host are believed.")

    def signal(self, signals: Iterable[str | Mapping[str, Any]]) -> a.Signalled:
        """Say that sources may have changed: addresses, or with their kind and changed_at."""
        entries = [{"url": one} if isinstance(one, str) else dict(one) for one in signals]
        return self.call("POST", "/signals", a.Signalled, body=entries)

    source_visits = _op("GET /sources/{source}/visits", a.VisitPage, query=_VISITS,
        doc="Visits of a source, newest first.")
    source_versions = _op("GET /sources/{source}/versions", list[a.VersionItem], query="limit",
        doc="Kept versions of a source, newest first.")
    snapshot = _op("GET /sources/{source}/versions/{digest}", bytes,
        doc="The content of a version.")
    diff = _op("GET /sources/{source}/diff", a.DiffAnswer, query="old new by",
        doc="What changed between two kept versions; by default the last two.")
    pictures = _op("GET /sources/{source}/pictures", list[a.VersionItem], query="limit",
        doc="Kept pictures of a page, newest first.")
    picture = _op("GET /sources/{source}/pictures/{digest}", bytes,
        doc="A kept picture of a page or an image, by its bytes.")
    picture_diff = _op("GET /sources/{source}/pictures/diff", s.PictureDiff, query="old new",
        doc="Where two kept pictures of a page differ; by default the last two.")
    page_picture = _op("POST /sources/{source}/picture", s.PagePictureAnswer,
        doc="The page as a browser shows it now, with boxes to choose from.")
    try_steps = _op("POST /sources/{source}/steps", s.StepTrial, body="",
        doc="Take steps and sign_in on the page now, with a picture after each.")
    members = _op("GET /sources/{source}/members", list[a.MemberItem], query="left",
        doc="The results of a standing query.")

    # -- plan ---------------------------------------------------------------------------------

    plan = _op("GET /plan", s.PlanView, query="budget grace objective tag factor",
        doc="What another budget, grace or objective would bring.")
    rivals = _op("GET /rivals", s.RivalsView,
        doc="Other people's rules on this collection's own history.")
    population = _op("GET /population", s.PopulationView,
        doc="How the sources change, all together.")

    # -- notifications ------------------------------------------------------------------------

    subscriptions = _op("GET /subscriptions", list[a.SubscriptionItem], query="owner",
        doc="Who is notified of what: all subscriptions, or those of one owner.")
    subscribe = _op("POST /subscriptions", a.NewSubscription, body="name channel",
        doc="Add a subscription: filter, subject, template, digest, quiet, timezone, secret.")
    subscription = _op("GET /subscriptions/{subscription}", a.SubscriptionItem,
        doc="One subscription.")
    update_subscription = _op("PATCH /subscriptions/{subscription}", a.SubscriptionItem, body="",
        doc="Change a subscription.")
    test_subscription = _op("POST /subscriptions/{subscription}/test", s.Tried,
        doc="Send one message that says it is a test, now, and say what became of it.")
    mail = _op("GET /mail", s.MailItem,
        doc="The server for e-mail that was entered while it ran, without its password.")
    set_mail = _op("PUT /mail", s.MailItem, body="",
        doc="Enter the server for e-mail: host, port, security, user, password, sender.")
    test_mail = _op("POST /mail/test", s.Tried, body="to",
        doc="Send a test message to an address.")
    unsubscribe = _op("DELETE /subscriptions/{subscription}", _NOTHING,
        doc="End a subscription.")
    deliveries = _op("GET /deliveries", a.DeliveryPage, query="state subscription limit after",
        doc="The delivery log, newest first.")

    def retry_deliveries(self, subscription: int | None = None) -> a.Retried:
        """Have dead letters tried again."""
        asked = {"subscription": subscription}
        return self.call("POST", "/deliveries/retry", a.Retried, query=asked)

    # -- settings -----------------------------------------------------------------------------

    settings = _op("GET /settings", s.SettingsView,
        doc="The settings in force.")
    change_settings = _op("PATCH /settings", s.SettingsView, body="",
        doc="Change budget, objective, grace or retention.")
    export = _op("GET /export", dict[str, Any], query="secrets",
        doc="Everything that was entered, as one document.")

    def import_document(
        self, document: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> a.Imported:
        """Take in what `export` gave."""
        return self.call("POST", "/import", a.Imported, body=dict(document), key=idempotency_key)

    # -- access -------------------------------------------------------------------------------

    session = _op("GET /session", a.SessionView,
        doc="Who is asking.")
    sign_in = _op("POST /session", a.SessionView, body="name password",
        doc="Check a name and a password. (Sessions are for browsers: programs use tokens.)")
    sign_out = _op("DELETE /session", _NOTHING,
        doc="End the session of a browser; nothing happens to a token.")
    change_password = _op("PUT /session/password", _NOTHING, body="old new",
        doc="Set a new password; only for sessions of browsers.")
    accounts = _op("GET /accounts", list[a.AccountItem],
        doc="Who may sign in.")
    add_account = _op("POST /accounts", a.AccountItem, body="name role password",
        doc="Add somebody who may sign in (viewer, editor, owner).")
    update_account = _op("PATCH /accounts/{account}", a.AccountItem, body="",
        doc="Give an account another role or password.")
    remove_account = _op("DELETE /accounts/{account}", _NOTHING,
        doc="Remove an account with its sessions and tokens.")
    tokens = _op("GET /tokens", list[a.TokenItem],
        doc="Tokens, without their secrets.")
    create_token = _op("POST /tokens", a.NewToken, body="name",
        doc="Make a token (scope, days); its secret is in the answer, this once.")
    revoke_token = _op("DELETE /tokens/{token}", _NOTHING,
        doc="Take a token back.")

    # -- monitoring ---------------------------------------------------------------------------

    def health(self) -> s.Health:
        """Ok, or what is wrong."""
        return self.call("GET", "/health", s.Health, api="", fine=(503,))

    def metrics(self) -> str:
        """Numbers for Prometheus."""
        return self.call("GET", "/metrics", bytes, api="").decode()

    # fmt: on

    def call(
        self,
        method: str,
        path: str,
        answer: type[T],
        *,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        key: str | None = None,
        api: str = "/api/v1",
        fine: tuple[int, ...] = (),
    ) -> T:
        """Call any path of the API, and read its answer as this type; bytes stay as they are."""
        reply = self._reply(method, path, query, body, key, api, fine)
        if answer is bytes:
            return cast("T", reply)
        return msgspec.json.decode(reply or b"null", type=answer)

    def _reply(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None,
        body: Any,
        key: str | None,
        api: str,
        fine: tuple[int, ...],
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
            with self._opener.open(request, timeout=self._timeout) as got:
                return bytes(got.read(_LONGEST))
        except urllib.error.HTTPError as error:
            with error:
                reply = error.read(1 << 20)
            if error.code in fine:
                return reply
            raise ServiceError(_told(error.code, reply), status=error.code) from None
        except OSError as error:
            raise ServiceError(f"{self._base} cannot be reached: {error}") from error


for _name, _made in vars(Client).items():
    if hasattr(_made, "__signature__"):
        _made.__name__, _made.__qualname__ = _name, f"Client.{_name}"


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
