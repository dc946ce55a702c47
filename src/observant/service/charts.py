"""Every figure of the dashboard by its name, as a drawing in the browser or a file to keep.

A chart is a function of the collection and of what the address says after the question mark. It
answers with an Altair chart made in `observant.figures`, or raises `PendingError` where its
numbers are still being computed, or `InputError` where there is nothing to draw.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections import Counter
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError, PendingError
from observant.service import studies
from observant.service.collection.signals import WORTHS
from observant.service.forms import budget_in, cost_in, days_in, importance_in, whole_in
from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from observant.service.cache import Cached
    from observant.service.collection import Collection
    from observant.store import StoredSource

FORMATS = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
}
_VISITS = 400
"""Visits that a timeline shows."""
_CORRELATED = 20
"""Intervals from which on it is shown how alike they are."""
_FRESH = 15.0
"""Seconds that a drawing is kept."""
_TABLES = ("pandas", "pyarrow", "polars", "duckdb", "ibis", "dask", "pyspark")
PATIENT = 25.0
"""Seconds that a download waits for its numbers."""


@dataclass(frozen=True)
class Chart:
    """A figure that pages show."""

    title: str
    make: Callable[[Asked], Any]


@dataclass(frozen=True)
class Asked:
    """What a figure is made from."""

    collection: Collection
    params: Mapping[str, str]
    """What the address says after the question mark."""
    wait: float
    """Seconds to wait for numbers that are not there yet."""


def draw(
    collection: Collection, name: str, params: Mapping[str, str], *, wait: float = 0.15
) -> Any:
    """The chart of this name, without a title."""
    if name not in CHARTS:
        raise InputError(f"there is no figure {name!r}")
    _finish_importing()
    return CHARTS[name].make(Asked(collection, params, wait))


def _finish_importing() -> None:
    """Altair looks into tables of every kind that is loaded: not while a thread is loading it."""
    for name in _TABLES:
        if name in sys.modules or (name == "pandas" and find_spec(name) is not None):
            import_module(name)


def drawn(collection: Collection, name: str, params: Mapping[str, str]) -> bytes:
    """The chart as Vega-Lite, for the script of the page; kept for a moment."""
    from observant.figures.dashboard import spec_of

    stamp = collection.find(whole_in(params, "source", 0)).visits if "source" in params else 0
    key = ("drawn", name, tuple(sorted(params.items())), stamp)
    kept: bytes | None = collection.cache.peek(key, max_age=_FRESH)
    if kept is None:
        kept = json.dumps(spec_of(draw(collection, name, params))).encode()
        collection.cache.put(key, kept)
    return kept


def rendered(collection: Collection, name: str, params: Mapping[str, str], ending: str) -> bytes:
    """The chart as a file: csv (its numbers), svg or png."""
    import vl_convert

    from observant.figures.dashboard import spec_of

    spec = spec_of(draw(collection, name, params, wait=PATIENT))
    if ending == "csv":
        return _csv(spec)
    text = json.dumps({"title": CHARTS[name].title, **spec})
    if ending == "svg":
        return vl_convert.vegalite_to_svg(text).encode()
    return bytes(vl_convert.vegalite_to_png(text, scale=2))


def _csv(spec: dict[str, Any]) -> bytes:
    """All numbers of a chart; the column `layer` says which mark they belong to."""
    tables = _tables(spec)
    names = list(dict.fromkeys(key for _, rows in tables for row in rows for key in row))
    names = [name for name in names if name not in {"none", "least"}]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["layer", *names])
    for layer, rows in tables:
        writer.writerows([layer, *(_plain(row.get(name)) for name in names)] for row in rows)
    return out.getvalue().encode()


def _plain(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula."""
    if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"}:
        return f"'{value}"
    return value


def _tables(spec: dict[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    found: list[tuple[str, list[dict[str, Any]]]] = []
    seen: list[Any] = []

    def look(part: dict[str, Any], inherited: list[dict[str, Any]]) -> None:
        rows = part.get("data", {}).get("values", inherited)
        mark = part.get("mark")
        kind = mark.get("type", "") if isinstance(mark, dict) else str(mark or "")
        if mark and rows and rows not in seen:
            seen.append(rows)
            found.append((kind, rows))
        for inner in part.get("layer", []):
            look(inner, rows)

    look(spec, [])
    return found


def _untitled(chart: Any, height: int) -> Any:
    """A figure of the command line for a page, which has a title of its own."""
    import altair as alt

    plain = chart.properties(width=420, height=height)
    plain.title = alt.Undefined
    return plain


def _value(cached: Cached[Any]) -> Any:
    if cached.pending:
        raise PendingError("this is being computed")
    if cached.value is None:
        raise InputError(cached.error or "there is nothing to draw yet")
    return cached.value


# -- the overview -----------------------------------------------------------------------------


def _performance(asked: Asked) -> Any:
    from observant.figures.dashboard import performance_figure

    curve = asked.collection.currency.curve()
    if not curve:
        raise InputError("there are no sources yet, so there is no currency to show")
    grace = days_in(asked.params, "grace", asked.collection.config.grace_days)
    plan = studies.plan_study(asked.collection, wait=asked.wait).value
    promised = plan.answer.promised([point.grace_days for point in curve]) if plan else ()
    return performance_figure(curve, grace, promised)


def _activity(asked: Asked) -> Any:
    from observant.figures.dashboard import activity_figure

    return activity_figure(
        asked.collection.activity.hours(whole_in(asked.params, "hours", 48, most=24 * 31))
    )


# -- one source -------------------------------------------------------------------------------


def _source(asked: Asked) -> StoredSource:
    return asked.collection.find(whole_in(asked.params, "source", 0))


def _timeline(asked: Asked) -> Any:
    from observant.figures.dashboard import timeline_figure

    source = _source(asked)
    visits = asked.collection.store.visits.list(source.name, limit=_VISITS)
    if not visits:
        raise InputError("this source was not visited yet")
    rows, before = [], None
    for visit in reversed(visits):
        good = visit.outcome not in {"failed", "unconfirmed"}
        update = None
        if visit.changed and before is not None:
            update = 0.5 * (before + visit.started_at)
        if (dated := visit.last_modified) is not None and good:
            # The first dated visit tells of the update before it as well.
            if before is None and dated <= visit.started_at:
                update = dated if visit.started_at - dated < 400 * DAY else None
            elif visit.changed and before is not None and before < dated <= visit.started_at:
                update = dated
        found = "changed" if visit.changed else "same" if good else "failed"
        rows.append({"at": visit.started_at, "found": found, "update": update})
        before = visit.started_at if good else before
    begin = visits[-1].started_at
    signals = [
        {"at": one.at.timestamp(), "kind": one.kind, "worth": WORTHS[one.found]}
        for one in asked.collection.signals.of(source.name, _VISITS)
        if one.at.timestamp() >= begin
    ]
    return timeline_figure(rows, asked.collection.now(), signals)


def _posterior(asked: Asked) -> Any:
    from observant.estimation.belief import GRID, Likelihoods
    from observant.figures.dashboard import posterior_figure
    from observant.planning.policy import group_of
    from observant.service.posteriors import beliefs_of, kept_prior

    source, store = _source(asked), asked.collection.store
    kept = store.sources.previous(source.name, text=False).posterior
    prior = kept_prior(store)
    before = prior.rows()[prior.row_of([group_of(source.name, source.host)])[0]]
    own = before * Likelihoods.unpack([kept]).on_grid()[0]
    rate, low, high = beliefs_of(store, [source.name], [source.host], [kept]).one(0)
    shown = (GRID >= 2.0**-12) & (max(2.0**11, 4 * high) >= GRID)
    return posterior_figure(
        GRID[shown].tolist(),
        (own / own.sum())[shown].tolist(),
        before[shown].tolist(),
        (low, rate, high),
    )


def _intervals(asked: Asked) -> Any:
    from observant.figures.intervals import interval_figure

    found = _value(studies.intervals(asked.collection, _source(asked), wait=asked.wait))
    chart = _untitled(interval_figure(found), 230)
    chart.usermeta = {"caption": studies.verdict(found)}
    return chart


def _correlation(asked: Asked) -> Any:
    from observant.estimation.intervals import autocorrelation
    from observant.figures.dashboard import correlation_figure

    visits = asked.collection.store.visits.list(_source(asked).name, changed=True, limit=_VISITS)
    found = np.unique([one.last_modified or one.started_at for one in visits])
    if len(found) <= _CORRELATED:
        raise InputError(
            f"how alike intervals are needs {_CORRELATED + 1} changes, and there are {len(found)}"
        )
    return correlation_figure(*autocorrelation(np.diff(found), min(len(found) // 4, 40)))


def _history(asked: Asked) -> Any:
    from observant.figures.dashboard import rate_history_figure

    known = _value(studies.history(asked.collection, _source(asked), wait=asked.wait))
    return rate_history_figure(
        [
            {
                "at": str(one.at),
                "saw": "a change" if one.changed else "no change",
                **one.rate._asdict(),
            }
            for one in known
        ]
    )


def _season(asked: Asked) -> Any:
    from observant.figures.season import season_figure

    found = _value(studies.season(asked.collection, _source(asked), wait=asked.wait))
    return _untitled(season_figure(found), 190)


def _magnitude(asked: Asked) -> Any:
    from observant.figures.dashboard import magnitude_figure

    rows = [
        {
            "at": change.started_at.timestamp(),
            "magnitude": change.magnitude,
            "reason": change.reason,
            "attributes": change.attributes,
        }
        for change in _changes(asked)
        if change.magnitude is not None
    ]
    if not rows:
        raise InputError("no change with a magnitude was seen yet")
    return magnitude_figure(rows)


def _attributes(asked: Asked) -> Any:
    from observant.figures.dashboard import attributes_figure

    counts = Counter(name for change in _changes(asked) for name in change.attributes)
    if not counts:
        raise InputError("no change told which attributes changed")
    return attributes_figure(dict(counts.most_common(14)))


def _changes(asked: Asked) -> list[Any]:
    source = _source(asked)
    return asked.collection.sources.visits(source.id, changed=True, limit=_VISITS).visits


# -- the plan ---------------------------------------------------------------------------------


def _wanted(params: Mapping[str, str]) -> dict[str, Any]:
    return {
        "budget": budget_in(params, "budget", None),
        "cost": cost_in(params),
        "grace": days_in(params, "grace", None),
        "objective": params.get("objective") or None,
        "importance": importance_in(params),
    }


def _plan(asked: Asked) -> Any:
    from observant.figures.dashboard import plan_figure

    return plan_figure(
        _value(
            studies.plan_study(asked.collection, **_wanted(asked.params), wait=asked.wait)
        ).answer
    )


def _budgets(asked: Asked) -> Any:
    from observant.figures.dashboard import budgets_figure

    now = _value(studies.plan_study(asked.collection, wait=asked.wait))
    then = _value(studies.plan_study(asked.collection, **_wanted(asked.params), wait=asked.wait))
    uniform = [{"budget": p["budget"], "alpha": p["uniform"]} for p in then.curve]
    if then is now:
        return budgets_figure(
            {"planned": now.curve, "all visited alike": uniform},
            {"now": (now.answer.budget, now.answer.alpha)},
        )
    return budgets_figure(
        {"planned now": now.curve, "planned then": then.curve, "all visited alike": uniform},
        {
            "now": (now.answer.budget, now.answer.alpha),
            "then": (then.answer.budget, then.answer.alpha),
        },
    )


def _hours(asked: Asked) -> Any:
    from observant.figures.dashboard import hours_figure

    visits = asked.collection.currency.hours()
    if not visits:
        raise InputError("all hours of the day are alike")
    return hours_figure(visits)


def _rivals(asked: Asked) -> Any:
    from observant.figures.dashboard import rivals_figure

    return rivals_figure(_value(studies.rivals_study(asked.collection, wait=asked.wait)).comparison)


# -- the population ---------------------------------------------------------------------------


_LEAST_AGE = 1 / 720
"""Two minutes, in days: the figure begins with a thousandth of a day."""


def _ages(asked: Asked) -> Any:
    from observant.figures.dashboard import ages_figure

    found = _value(studies.population_study(asked.collection, wait=asked.wait))
    if found.fits is None or not len(found.fits.description.ages):
        raise InputError("no visit came with a date of modification, so ages are not known")
    if found.fits.description.ages.max() < _LEAST_AGE:
        raise InputError("all ages that were seen are below two minutes: too short to draw")
    return ages_figure(found.fits.description)


def _mean_times(asked: Asked) -> Any:
    from observant.figures.dashboard import mean_times_figure

    found = _value(studies.population_study(asked.collection, wait=asked.wait))
    if found.fits is None or found.fits.prior is None:
        raise InputError("too few changes were seen for a distribution of rates")
    return mean_times_figure(found.fits.prior)


def _week(asked: Asked) -> Any:
    from observant.figures.dashboard import week_figure

    return week_figure(_value(studies.population_study(asked.collection, wait=asked.wait)).hours)


def _ratios(asked: Asked) -> Any:
    from observant.figures.dashboard import change_ratio_figure

    found = _value(studies.population_study(asked.collection, wait=asked.wait))
    if found.fits is None or not len(found.fits.description.change_ratios):
        raise InputError("no source has six visits yet")
    return change_ratio_figure(found.fits.description)


def _links(asked: Asked) -> Any:
    from observant.figures.dashboard import links_figure

    found = _value(studies.population_study(asked.collection, wait=asked.wait))
    if found.rot is None or not found.rot.died.sum():
        raise InputError("no source is gone yet")
    return links_figure(found.rot)


CHARTS = {
    "performance": Chart("Currency by grace", _performance),
    "activity": Chart("Visits and changes by the hour", _activity),
    "timeline": Chart("Age, visits and changes", _timeline),
    "posterior": Chart("The estimate of its rate", _posterior),
    "intervals": Chart("Time between updates", _intervals),
    "correlation": Chart("How long it remembers", _correlation),
    "history": Chart("How the estimate developed", _history),
    "season": Chart("Hours at which it changes", _season),
    "magnitude": Chart("How much changed", _magnitude),
    "attributes": Chart("What changed", _attributes),
    "plan": Chart("Rate against period", _plan),
    "budgets": Chart("What a budget buys", _budgets),
    "hours": Chart("Visits by the hour of the day", _hours),
    "rivals": Chart("Other rules on this history", _rivals),
    "ages": Chart("Ages and lifetimes", _ages),
    "mean-times": Chart("Mean times between updates", _mean_times),
    "week": Chart("Hours of the week", _week),
    "change-ratio": Chart("Change ratios", _ratios),
    "links": Chart("Links that still work", _links),
}
