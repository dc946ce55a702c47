"""When is a source visited next, and why? Its price, index and constraints in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.errors import InputError
from observant.language import gettext as _
from observant.language import ngettext
from observant.observer.failures import failure
from observant.observer.permission import Permission, objective_of
from observant.observer.watched import own_settings
from observant.service.answers import CopyItem
from observant.service.studies import chosen, plan_study
from observant.times import DAY
from observant.units import format_duration

if TYPE_CHECKING:
    from observant.observer.config import SourceSettings
    from observant.service.collection.context import Context
    from observant.store import StoredSource

_RISK = 0.05
"""That a copy is out of date, at the end of its time to live."""
_NOTHING = 1e-12
"""A price below which there is more budget than anybody can spend."""


def why(collection: Context, source: StoredSource) -> str:
    """One sentence for people."""
    now = collection.now()
    if source.state == "paused":
        return _("It is paused, so it is not visited until somebody resumes it.")
    if source.state == "gone":
        return _("It is gone, so it is not visited until somebody resumes it.")
    config = collection.config
    observer = collection.observer
    permission = Permission(config) if observer is None else observer.permission
    if reason := permission.refusal(source):
        return _("It is not visited: %(reason)s.") % {"reason": reason}
    try:
        settings = config.settings_of(source.tags, own_settings(source), source.name)
    except InputError as error:
        return _("It cannot be visited as it is described: %(reason)s.") % {"reason": error}
    if source.failed_in_row:
        failed = {
            "n": source.failed_in_row,
            "error": failure(source.error, source.status) if source.error else source.outcome,
            "when": _when(source.due_at, now),
        }
        return (
            ngettext(
                "The last visit failed: %(error)s. It is tried again at growing intervals, next "
                "%(when)s.",
                "The last %(n)s visits failed: %(error)s. It is tried again at growing intervals, "
                "next %(when)s.",
                source.failed_in_row,
            )
            % failed
        )
    if source.good_at is None or source.due_at is None:
        return _("It was never seen, so it is visited as soon as the budget and its host allow.")
    if source.due_at <= source.good_at:  # by a command that does not plan
        return _(
            "Its next visit is not planned yet: an observer does that in its first moments "
            "(observant serve, or observant run)."
        )
    return _by_price(collection, source, settings, now)


def _by_price(
    collection: Context, source: StoredSource, settings: SourceSettings, now: float
) -> str:
    from observant.currency import RateMixture
    from observant.planning.objectives import objective
    from observant.planning.policy import SAMPLING
    from observant.planning.schedule.price import HOPELESS
    from observant.service.posteriors import beliefs_of

    config = collection.config
    price = price_of(collection)
    evidence = collection.store.sources.previous(source.name, text=False).posterior
    known = beliefs_of(collection.store, [source.name], [source.host], [evidence])
    grace = config.limits_of(settings)["grace"]
    model = objective(objective_of(config), RateMixture(known.rates, known.weights), grace)
    waited = max(now - (source.good_at or now), 0.0) / DAY
    period = max((source.due_at or now) - (source.good_at or now), 0.0) / DAY
    cost = (source.cost or 1.0) if config.counts_cost else 1.0
    kept = 1 - SAMPLING[config.sampling]  # of a period, where its visit was moved forward
    index, at_most = (
        settings.importance * float(model.index(np.array([days]))[0]) / cost
        for days in (waited, period / kept)
    )
    missed = float((known.rates * known.weights).sum()) * (period - grace)
    wish = collection.store.subscriptions.wishes().period(source.name, source.tags, source.host)
    known_of = {
        "often": _often(source.rate),
        "importance": f"{settings.importance:g}",
        "grace": format_duration(grace),
    }
    start = _("It changes %(often)s and has importance %(importance)s") % known_of
    if grace:
        start = (
            _("It changes %(often)s and has importance %(importance)s and a grace of %(grace)s")
            % known_of
        )
    when = _when(source.due_at, now)
    if price is None:
        after = {"start": start, "when": when, "period": format_duration(period)}
        return _("%(start)s; it is due %(when)s, %(period)s after its last visit.") % after
    bought = _("the budget buys visits worth %(price)s") % {"price": f"{price:.3g}"}
    if price < _NOTHING:
        bought = _("there is budget for every visit")
    said = {"value": f"{index:.3g}", "bought": bought}
    worth = _("a visit now is worth %(value)s, and %(bought)s") % said
    if index < price / 10:
        worth = _("a visit now is worth next to nothing, and %(bought)s") % said
    if period <= settings.shortest * 1.02:
        span = settings.shortest
        limit = _("it is due %(when)s, since it may not be visited more often than every %(span)s")
    elif wish < settings.longest and period >= wish * 0.98:
        span, limit = wish, _("it is due %(when)s, since somebody wants it every %(span)s")
    elif period >= settings.longest * 0.98:
        span = settings.longest
        limit = _(
            "that price is never reached, so it is due %(when)s, after its longest period of "
            "%(span)s"
        )
    elif missed > 0.95 * kept * HOPELESS and at_most < price:
        span = period
        limit = _(
            "it changes too often for visits to keep it current, and is due %(when)s all the same, "
            "since every source gets a share of the visits"
        )
    else:
        span = period
        limit = _("that price is reached %(span)s after the last visit, so it is due %(when)s")
    reason = limit % {"when": when, "span": format_duration(span)}
    within = {"hours": ", ".join(settings.active)}
    hours = ", " + _("within its hours (%(hours)s)") % within if settings.active else ""
    return f"{start}: {worth}; {reason}{hours}."


def copy_of(collection: Context, source: StoredSource, settings: SourceSettings) -> CopyItem | None:
    """How good the copy of a source is: the same functions as `observant currency` and `plan`."""
    from observant.currency import RateMixture, currency, time_to_live
    from observant.currency.age_models import as_model
    from observant.service.posteriors import beliefs_of

    if source.good_at is None:
        return None
    evidence = collection.store.sources.previous(source.name, text=False).posterior
    known = beliefs_of(collection.store, [source.name], [source.host], [evidence])
    found = chosen(collection, source)
    measured = found.value is not None and found.value.measured
    model = as_model(
        found.value.model
        if found.value is not None and measured
        else RateMixture(known.rates[0], known.weights[0])
    )
    why = "by its rate: whether it is Poisson is being computed"
    if not found.pending:
        why = found.value.why if found.value is not None else f"by its rate: {found.error}"
    period = max((source.due_at or 0.0) - source.good_at, 0.0) / DAY
    grace = collection.config.limits_of(settings)["grace"]
    waited = max(collection.now() - source.good_at, 0.0) / DAY
    return CopyItem(
        measured=measured,
        why=why,
        changed_probability=float(model.age_cdf(waited)),
        currency=float(currency(model, period, grace)) if period > 0.0 else None,
        time_to_live_days=float(time_to_live(model, _RISK, grace)),
    )


def price_of(collection: Context) -> float | None:
    """Λ, what a visit must be worth: the observer's own, or that of the plan for the budget."""
    if collection.observer is not None:
        return float(collection.observer.schedule.price)
    patience = 1.0 if collection.loop else 120.0  # a page must not wait long, a command may
    plan = plan_study(collection, wait=patience).value
    return None if plan is None else plan.answer.price


def freshness_elsewhere(collection: Context, source: StoredSource) -> float | None:
    """What the others lose, since a visit to this source costs more than a plain one: the
    budget that goes there, at the price Λ that it has everywhere, of all importance together.
    """
    config = collection.config
    period = max((source.due_at or 0.0) - (source.good_at or 0.0), 0.0) / DAY
    if not config.counts_cost or config.objective not in {"freshness", "currency"}:
        return None
    plan = plan_study(collection, wait=0.2).value
    if plan is None or not period or source.cost is None or source.good_at is None:
        return None
    answer = plan.answer
    whole = float(answer.weight.sum()) * answer.sources / answer.sampled
    return answer.price * max(source.cost - 1.0, 0.0) / period / max(whole, 1e-300)


def _often(rate: float | None) -> str:
    """A rate in words.

    >>> _often(2.0), _often(0.1)
    ('about 2 times a day', 'about once in 10d')
    """
    if not rate:
        return _("at an unknown rate")
    if rate >= 1.5:
        return _("about %(n)s times a day") % {"n": f"{rate:.3g}"}
    return _("about once in %(span)s") % {"span": format_duration(1 / rate)}


def _when(at: float | None, now: float) -> str:
    if at is None:
        return _("at no known time")
    if at <= now:
        return _("now")
    return _("in %(span)s") % {"span": format_duration((at - now) / DAY)}
