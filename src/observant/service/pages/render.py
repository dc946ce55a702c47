"""From an answer to a page: templates that escape everything, and the words that pages share.

Nothing that came from outside is ever marked as safe. Times are told relative to now, with the
exact instant in the title.
"""

from __future__ import annotations

import datetime as dt
import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import jinja2
from litestar import MediaType, Response
from markupsafe import Markup, escape

from observant.language import N_, code, languages, localized, ngettext
from observant.language import gettext as _
from observant.observer.failures import failure, remedy, state_in_words
from observant.service.access.check import CSRF_FIELD, LANGUAGE, identity_of
from observant.service.pages.assets import asset
from observant.times import DAY, SECOND
from observant.units import format_duration, format_rate, rate_in_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from litestar import Request

    from observant.service.answers import SourceRow


class Place(NamedTuple):
    """An entry of the navigation."""

    path: str
    name: str
    needs: str = "read"


PLACES = (
    Place("/", N_("Overview")),
    Place("/sources", N_("Sources")),
    Place("/plan", N_("Plan")),
    Place("/population", N_("Population")),
    Place("/events", N_("Events")),
    Place("/subscriptions", N_("Subscriptions")),
    Place("/queries", N_("Queries")),
    Place("/settings", N_("Settings")),
    Place("/status", N_("Health")),
)

TOLD = {
    "added": N_("The source is watched from now on."),
    "known": N_("This source was already there; nothing was changed."),
    "saved": N_("Saved."),
    "seen": N_("Marked as seen."),
    "ignored": N_("This text is ignored from now on, by the last expression under “Ignore text”."),
    "removed": N_("Removed. Its visits stay in the log."),
    "visited": N_("The source was visited just now."),
    "bulk": N_("Done."),
    "applied": N_("Applied. A running observer follows within seconds."),
    "account": N_("The account was saved."),
    "account-removed": N_("The account was removed."),
    "token-removed": N_("The token is no longer valid."),
    "imported": N_("Imported."),
    "unsubscribed": N_("Nobody is notified by this subscription any more."),
    "tried": N_("The test message was delivered."),
    "sent-again": N_("It will be sent again."),
    "signed-out": N_("You are signed out."),
}
"""What a page may be told to say by its address: words of ours, never words of the address."""


ENGLISH = frozenset({"reference.html"})
"""Pages that are in English for everybody, since they show what programs read."""
WORDS = (
    *(N_("active"), N_("paused"), N_("gone")),
    *(N_("changed"), N_("vanished"), N_("back"), N_("failing"), N_("recovered"), N_("condition")),
    *(N_("overdue"), N_("new-result"), N_("changed-result"), N_("dropped-result"), N_("alarm")),
    *(N_("first"), N_("same"), N_("failed"), N_("unconfirmed"), N_("met"), N_("not met")),
    *(N_("freshness"), N_("currency"), N_("harmonic"), N_("age"), N_("delay"), N_("detected")),
    *(N_("viewer"), N_("editor"), N_("owner"), N_("read"), N_("write"), N_("admin")),
    *(N_("waiting"), N_("sent"), N_("dead")),
    *(N_("side by side"), N_("slider"), N_("differences")),
    *(N_("auto"), N_("always"), N_("words"), N_("lines"), N_("none")),
    *(N_("bytes"), N_("text"), N_("structure"), N_("magnitude"), N_("columns")),
)
"""Names of ours that pages show in the language of who looks (the filter `t`)."""
_YEAR = 365 * 86_400


def page(
    request: Request[Any, Any, Any],
    template: str,
    /,
    *,
    status: int = 200,
    cookies: Any = None,
    **context: Any,
) -> Response[str]:
    """Render a template for whoever is asking."""
    prefix: str = request.app.state.prefix
    who = identity_of(request)
    path = request.scope["path"].removeprefix(prefix) or "/"
    now = dt.datetime.fromtimestamp(request.app.state.collection.now(), dt.UTC)
    told = request.query_params.get("told", "")
    text = (
        environment()
        .get_template(template)
        .render(
            prefix=prefix,
            who=who,
            may_write=who.may("write"),
            may_admin=who.may("admin"),
            csrf=who.csrf or "",
            csrf_field=CSRF_FIELD,
            places=[place for place in PLACES if who.may(place.needs)],
            path=path,
            now=now,
            told=_(TOLD[told]) if told in TOLD else "",
            language=code(),
            decimal=localized("."),
            spoken=languages(),
            here=path if request.method == "GET" and status < 400 else "/",
            translated=template not in ENGLISH,
            asset=lambda name: f"{prefix}/static/{asset(name)}",
            ago=functools.partial(_ago, now),
            due=functools.partial(_due, now),
            state_of=functools.partial(_state, now),
            **context,
        )
    )
    answer = Response(text, status_code=status, media_type=MediaType.HTML, cookies=cookies)
    if request.query_params.get("language") in languages():  # chosen just now: it stays
        answer.set_cookie(
            LANGUAGE, code(), path=prefix or "/", max_age=_YEAR, httponly=True, samesite="lax"
        )
    return answer


def back_to(
    request: Request[Any, Any, Any], path: str, told: str = "", **query: Any
) -> Response[Any]:
    """Go on to a page after a change, which then tells what was done."""
    from litestar.response import Redirect

    asked = query_of(({"told": told} if told else {}) | query)
    return Redirect(f"{request.app.state.prefix}{path}{asked}", status_code=303)


def query_of(params: Mapping[str, Any]) -> str:
    """What follows the path in an address; empty values are left out.

    >>> query_of({"tag": "a b", "state": ""})
    '?tag=a+b'
    """
    kept = {key: value for key, value in params.items() if value not in (None, "", False)}
    return f"?{urlencode(kept)}" if kept else ""


def _points(share: float) -> str:
    """A difference of two shares in points.

    >>> _points(0.0123), _points(-0.0123), _points(-1e-5)
    ('+1.2', '−1.2', '0.0')
    """
    text = f"{100 * share:+.1f}"
    return localized("0.0" if float(text) == 0 else text).replace("-", "−")


def _short(value: float | None) -> str:
    """A number in three digits, or in whole ones where it has more.

    >>> _short(0.12345), _short(123.4), _short(1728)
    ('0.123', '123', '1,728')
    """
    if value is None:
        return "?"
    return localized(f"{value:,.3g}" if abs(value) < 999.5 else f"{value:,.0f}")


@functools.cache
def environment() -> jinja2.Environment:
    """The templates. Escaping is always on, and a name that is not there is an error."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("observant.service.pages"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n"],
    )
    made.install_gettext_callables(_, ngettext, newstyle=True)  # type: ignore[attr-defined]
    made.filters.update(
        t=lambda word: _(str(word)) if word else "",
        duration=_duration,
        grace=lambda days: "0" if not days else _duration(days),
        points=_points,
        seconds=lambda value: _duration(None if value is None else value / DAY),
        rate=lambda value: "?" if value is None else localized(format_rate(value)),
        percent=_percent,
        share=lambda value: "?" if value is None else f"{100 * value:.0f} %",
        local=localized,
        number=lambda value: "?" if value is None else localized(f"{value:,.0f}"),
        short=_short,
        size=_size,
        query=query_of,
        failure=failure,
        remedy=_remedy,
        often=lambda row: rate_in_words(row.rate, row.rate_low, row.rate_high),
    )
    made.tests["web"] = _is_web
    return made


def _ago(now: dt.datetime, at: dt.datetime | None, missing: str = N_("never")) -> Markup | str:
    """An instant as a person says it: 3 h ago, in 20 min; exactly on a closer look."""
    if at is None:
        return _(missing)
    days = (now - at).total_seconds() / DAY
    if abs(days) < SECOND:
        words = _("now")
    else:
        span = {"span": _rounded(abs(days))}
        words = (_("%(span)s ago") if days > 0 else _("in %(span)s")) % span
    exact = at.astimezone(dt.UTC).isoformat(" ", "seconds")[:19]  # a page has hundreds of these
    attributes = f'datetime="{exact.replace(" ", "T")}+00:00" title="{exact} UTC"'
    return Markup(f"<time {attributes}>{escape(words)}</time>")  # noqa: S704


def _state(now: dt.datetime, row: SourceRow) -> str:
    """What is the matter with a source, in words."""
    seen = None if row.good_at is None else row.good_at.timestamp()
    given = row.state, row.error, row.status, row.failed_in_row, seen
    return state_in_words(*given, now.timestamp())


def _due(now: dt.datetime, at: dt.datetime | None, missing: str = "–") -> Markup | str:
    """When something is to happen; what should have happened by now is due now."""
    return _ago(min(now, at), at, missing) if at is not None else missing


def _rounded(days: float) -> str:
    """A duration with two digits, in the unit a person would choose."""
    for unit, size in ((N_("y"), 365.25), (N_("d"), 1.0), (N_("h"), 1 / 24), (N_("min"), 1 / 1440)):
        if days >= (2 * size if unit == "y" else size):
            value = days / size
            digits = 1 if value < 9.95 and unit in "yd" else 0
            return f"{localized(f'{value:.{digits}f}')} {_(unit)}"
    return f"{days * DAY:.0f} {_('s')}"


def _duration(days: float | None) -> str:
    return "?" if days is None else localized(format_duration(days))


def _percent(value: float | None) -> str:
    return "?" if value is None or math.isnan(value) else localized(f"{100 * value:.1f} %")


def _size(number: float | None) -> str:
    if number is None:
        return "?"
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{localized(f'{number:.3g}')} {unit}"
        number /= 1000
    return f"{localized(f'{number:.3g}')} TB"


def _is_web(url: object) -> bool:
    """Whether a link may lead there."""
    try:
        return urlsplit(str(url)).scheme.lower() in {"http", "https"}
    except ValueError:
        return False


def _remedy(failed: Any) -> str:
    """What helps a source that fails, or one of which the payload of an event tells."""
    if isinstance(failed, dict):
        return remedy(failed.get("error"), failed.get("status"))
    return remedy(failed.error, failed.status)
