"""The first page: what has changed, how current is the collection, and what is going on?"""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version
from typing import Any

from litestar import Response, get, post

from observant import __version__
from observant.language import gettext as _
from observant.language import localized, ngettext
from observant.names import TOPICS
from observant.service.collection import Collection
from observant.service.collection.entries import SeenEvents
from observant.service.forms import GivenCollection, GivenForm, days_in, number_in, whole_in
from observant.service.pages.render import back_to, page
from observant.service.pages.routes import Asked, changing, reading
from observant.service.summaries import CurvePoint, Overview
from observant.times import DAY, utc
from observant.units import format_duration

_NOTHING = 0.005
"""A currency below this says that nothing was seen yet."""


@get("/", **reading("overview"))
def overview(request: Asked, collection: GivenCollection) -> Response[str]:
    """The collection on one page."""
    params = request.query_params
    grace = days_in(params, "grace", None)
    place = number_in(params, "place", None)
    if place is not None and (curve := collection.currency.curve()):
        grace = _grace_at(curve, place)
    view = collection.overview(grace)
    today = view.hours[-24:]
    base = next((o.alpha for o in view.budget.options if o.factor == 1), None)
    return page(
        request,
        "overview.html",
        view=view,
        problems=[p for p in collection.health().problems if "observer" not in p],
        freshness=_in_short(view),
        images=_images(collection, view),
        learning=2 * view.unseen > view.by_state.get("active", 0)
        or (view.alpha is not None and view.alpha.high < _NOTHING),
        base_alpha=base,
        changes_today=sum(hour.changes for hour in today),
        failures_today=sum(hour.failures for hour in today),
        grace_text=format_duration(view.grace_days) if view.grace_days else "0",
        slider=_slider(view.curve),
        slider_steps=max(len(view.curve) - 1, 0),
        slider_place=round(_place_of(view.curve, view.grace_days), 1),
    )


@post("/events/seen", **changing("mark_seen"))
def seen(request: Asked, collection: GivenCollection, form: GivenForm) -> Response[Any]:
    """Take events off the first page."""
    numbers = tuple(int(n) for n in form.all("number") if n.isdecimal() and len(n) < 17)
    collection.activity.mark_seen(SeenEvents(numbers=numbers, until=whole_in(form, "until", 0)))
    return back_to(request, "/", "seen")


def _images(collection: Collection, view: Overview) -> dict[int, list[str]]:
    """The image before and after, by the number of the newest event of an image that changed."""
    newest = {
        event.source_id: event.number
        for event in reversed(view.latest)
        if event.source_id and event.payload.get("image")
    }
    return {
        number: [one.digest.hex() for one in reversed(collection.pictures.list(source, 2))]
        for source, number in newest.items()
    }


def _in_short(view: Overview) -> str:
    """How fresh the copies are, and what more visits would buy, in one sentence."""
    if view.alpha is None:
        return ""
    text = _in_words_of(view.alpha.value, copies=True)
    text = f"{text[:1].upper()}{text[1:]}"
    bought = {option.factor: option for option in view.budget.options}
    more = bought.get(max(bought, default=1.0))
    if more is None or more.alpha <= view.alpha.value or more.factor <= 1:
        return f"{text}."
    extra, share = more.per_day - view.budget.per_day, _in_words_of(more.alpha)
    planned = bought.get(1.0)
    promised = _in_words_of(planned.alpha) if planned else ""
    if share in {_in_words_of(view.alpha.value), promised}:
        return f"{text}."  # more visits would buy nothing, or what is planned already
    return _("%(now)s; %(extra)s more visits a day would make it %(then)s, in the long run.") % {
        "now": text,
        "extra": localized(f"{extra:,.0f}"),
        "then": share,
    }


def _in_words_of(share: float, *, copies: bool = False) -> str:
    """A share as people count: the plainest fraction that is near.

    >>> [_in_words_of(share) for share in (0.74, 0.81, 0.93, 0.965)]
    ['about 3 of 4', 'about 4 of 5', 'about 9 of 10', 'about 19 of 20']
    >>> [_in_words_of(share) for share in (0.999, 0.01)]
    ['nearly all', 'hardly any']
    >>> _in_words_of(0.5, copies=True)
    'about 1 of 2 copies are current'
    """
    if share >= 0.975:
        return _("nearly all copies are current") if copies else _("nearly all")
    if share <= 0.025:
        return _("hardly any copies are current") if copies else _("hardly any")
    plain = [(k, n) for n in (2, 3, 4, 5, 10) for k in range(1, n)] + [(1, 20), (19, 20)]
    near = [(k, n) for k, n in plain if abs(k / n - share) < 0.031]
    k, n = near[0] if near else (round(10 * share), 10)
    words = _("about %(k)s of %(n)s copies are current") if copies else _("about %(k)s of %(n)s")
    return words % {"k": k, "n": n}


def _slider(curve: list[CurvePoint]) -> str:
    """The curve as numbers, for the slider."""
    rows = (f"[{p.grace_days:.5g},{p.alpha:.4f},{p.low:.4f},{p.high:.4f}]" for p in curve)
    return f"[{','.join(rows)}]" if curve else ""


def _grace_at(curve: list[CurvePoint], place: float) -> float:
    """The grace at a place of the slider, between the points of the curve."""
    import numpy as np

    return float(np.interp(place, range(len(curve)), [p.grace_days for p in curve]))


def _place_of(curve: list[CurvePoint], grace: float) -> float:
    import numpy as np

    if not curve:
        return 0.0
    return float(np.interp(grace, [p.grace_days for p in curve], range(len(curve))))


# -- Events: what was found, and who was told of it -----------------------------------------------


@get("/events", **reading("events"))
def events(request: Asked, collection: GivenCollection) -> Response[str]:
    """Events, newest first."""
    params = request.query_params
    topic, tag = params.get("topic") or None, params.get("tag") or None
    after = whole_in(params, "after", 0)
    return page(
        request,
        "events.html",
        answer=collection.activity.events(
            topic=topic if topic in TOPICS else None, tag=tag, after=after or None
        ),
        topics=TOPICS,
        topic=topic or "",
        tag=tag or "",
        all_tags=collection.sources.tags(),
        after=after,
    )


# -- Is everything all right? Observers, leases, the store, versions. (/health is for machines.) --


_PARTS = ("numpy", "scipy", "pyarrow", "numba", "litestar", "altair")


@get("/status", **reading("status"))
def health(request: Asked, collection: GivenCollection) -> Response[str]:
    """What runs, and what is wrong."""
    store = collection.store
    findings = collection.cache.get(
        "doctor",
        lambda: store.doctor(now=collection.now()),
        max_age=6 * 3600.0,
        wait=0.15,
        heavy=True,
    )
    now = collection.now()
    leases: dict[str, int] = {}
    for lease in store.leases.list():
        if lease.expires_at > now and lease.observer:
            leases[lease.observer] = leases.get(lease.observer, 0) + 1
    return page(
        request,
        "health.html",
        view=collection.health(),
        findings=findings,
        observers=collection.activity.observers(),
        leases=leases,
        running=collection.status(),
        totals=collection.totals(),
        notes=[
            (utc(note.at), note.observer, _in_words(note.action, note.detail))
            for note in store.journal.list(limit=20)
        ],
        versions=_versions(),
    )


@cache
def _versions() -> dict[str, str]:
    own = {"Python": platform.python_version(), "observant": __version__}
    return own | {name: version(name) for name in _PARTS}


def _in_words(action: str, detail: Any) -> str:
    """What an observer noted, as a sentence; what has none is shown as it is.

    >>> _in_words("start", {"budget": 1728000.0})
    'began, with a budget of 1,728,000 visits a day'
    >>> _in_words("took", {"shards": [0, 1]}), _in_words("released", {"shards": 1})
    ('took over 2 shards', 'gave back 1 shard')
    >>> _in_words("fenced", {"shard": 7})
    'fenced shard 7'
    """
    match action, detail:
        case "start", {"budget": float(budget) | int(budget)}:
            a_day = localized(f"{budget:,.0f}" if budget >= 100 else f"{budget:.3g}")
            return _("began, with a budget of %(n)s visits a day") % {"n": a_day}
        case "stop", {"visits": int(n)}:
            ended = ngettext("ended after %(n)s visit", "ended after %(n)s visits", n)
            return ended % {"n": localized(f"{n:,}")}
        case "took" | "released" | "lost", {"shards": list() | int() as shards}:
            n = shards if isinstance(shards, int) else len(shards)
            words = {
                "took": ngettext("took over %(n)s shard", "took over %(n)s shards", n),
                "released": ngettext("gave back %(n)s shard", "gave back %(n)s shards", n),
                "lost": ngettext("lost %(n)s shard", "lost %(n)s shards", n),
            }
            return words[action] % {"n": n}
        case "store-away", {"seconds": seconds}:
            span = format_duration(seconds / DAY)
            return _("had no store for %(span)s") % {"span": span}
        case "clock-leap", {"seconds": seconds}:
            span = format_duration(abs(seconds) / DAY)
            return _("saw the clock leap by %(span)s") % {"span": span}
    if not isinstance(detail, dict):
        return action if detail is None else f"{action} {detail}"
    shown = {k: len(v) if isinstance(v, list | dict) else v for k, v in detail.items() if v != []}
    return f"{action} {', '.join(f'{key} {value}' for key, value in shown.items())}".rstrip()
