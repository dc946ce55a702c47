"""Currency as it was measured, beside what was expected of the same moments.

**With spot checks.** A visit left to chance (`observant.observer.spot_checks`) tells whether the
copy was current at a random moment: it was if nothing had changed, and with a grace β also if the
first update that it missed came less than β ago, whose probability follows from the rate. Each
one counts with the importance of its source over the rate at which that source could expect it
(Hájek's form of the Horvitz-Thompson estimate), and the interval is Wilson's for as many equal
checks as these weights are worth. No source is left out: one that is starved is found stale.

**Without.** Between two good visits a copy is current until the first update that it misses (plus
the grace). Nothing changed: it was current all the time. Something changed: the first update came
at some moment τ of the gap T, and for a source of rate λ its mean time of being current is
E[min(τ + β, T) | τ < T], which needs λ only for the shape of τ within one gap. Nobody looked after
the last visit of a source: the model says how that time went, and the interval allows for anything,
from never current to always. Sources are picked at random, each counts with its importance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from observant.estimation.exact import wilson
from observant.observer.config import Config
from observant.service.posteriors import limits_of
from observant.service.summaries import Measured
from observant.store.visit import GOOD
from observant.times import DAY

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.arrays import Floats
    from observant.service.posteriors import ActiveSources
    from observant.store import Store
    from observant.store.types import SpotCheck


SOURCES = 400
WINDOW_DAYS = 28.0
_LEAST = 20
"""Spot checks, or gaps, below which nothing is said."""
_NORMAL = 1.96


def measured(
    store: Store,
    beliefs: ActiveSources,
    grace: float | None,
    config: Config | None = None,
) -> Measured | None:
    """Measure α by spot checks, else on the visits of some sources; None if there are too few.

    Without a grace every source has its own.
    """
    checks = store.visits.spot_checks(since=beliefs.at - WINDOW_DAYS * DAY)
    good = [check for check in checks if check.outcome in GOOD]
    if len(good) >= _LEAST:
        return _spot_checked(good, len(checks), beliefs.at, grace, config or Config())
    return _between_visits(store, beliefs, grace)


def _spot_checked(
    checks: list[SpotCheck], tried: int, now: float, given: float | None, config: Config
) -> Measured | None:
    source, at, changed, _, per_day, before, rate, importance, tags, own = zip(*checks, strict=True)
    weighs, *_, own_grace = limits_of(config, tags, own, importance)
    weight = weighs / np.array(per_day, float)
    grace = np.full(len(weight), config.grace_days if given is None else given)
    if given is None and config.objective == "currency":
        grace = np.where(np.isnan(own_grace), grace, own_grace)
    if not weight.sum() > 0:
        return None
    # A source that had never been seen has no copy: what is not there is not current.
    gap = (np.array(at) - np.array([np.nan if b is None else b for b in before], float)) / DAY
    lam = np.array([0.1 if r is None else r for r in rate], float)
    late = np.maximum(gap - grace, 0.0)
    same = np.array([found is False for found in changed])
    with np.errstate(invalid="ignore", divide="ignore"):
        # P(the first update is not older than the grace | there was one in the gap)
        recent = np.expm1(-lam * (gap - late)) / np.expm1(-lam * gap) * np.exp(-lam * late)
        recent = np.where(late > 0, np.clip(np.nan_to_num(recent), 0.0, 1.0), 1.0)
    seen = np.isfinite(gap)
    share = weight / weight.sum()
    found = np.where(seen, np.where(same, 1.0, np.where(grace > 0, recent, 0.0)), 0.0)
    alpha = float(share @ found)
    low, high = map(float, wilson(alpha, 1.0 / float(np.sum(share**2))))
    days = (now - min(at)) / DAY
    unknown = f", {tried - len(checks):,} more found nobody" if tried > len(checks) else ""
    return Measured(
        alpha=alpha,
        low=low,
        high=high,
        expected=float(share @ np.where(seen, np.exp(-lam * np.nan_to_num(late)), 0.0)),
        least=float(share @ (seen & (same | (late == 0)))),
        most=float(share @ (seen & (same | (grace > 0)))),
        window_days=days,
        sources=len(set(source)),
        visits=len(checks),
        method=f"{len(checks):,} spot checks at random moments over {days:.3g} days{unknown}; each "
        "weighs as its source, over the chance that it was looked at; 95 % interval of Wilson",
    )


def _between_visits(store: Store, beliefs: ActiveSources, given: float | None) -> Measured | None:
    rng = np.random.default_rng(0)
    good_at = beliefs.columns.good_at
    seen = np.flatnonzero(np.isfinite(good_at) & (beliefs.importance > 0))
    if not len(seen):
        return None
    picked = rng.permutation(seen)[:SOURCES]
    numbers = beliefs.columns.id[picked]
    since = beliefs.at - WINDOW_DAYS * DAY
    table = store.visits.timelines(numbers.tolist(), since=since, limit=200_000)
    if len(table) < 2:
        return None
    same = table[1:, 0] == table[:-1, 0]
    gap = np.diff(table[:, 1])[same] / DAY
    changed = table[1:, 2][same]
    owner = table[1:, 0][same]
    known = np.isfinite(changed) & (gap > 0)
    gap, changed, owner = gap[known], changed[known] == 1, owner[known]
    if len(gap) < _LEAST:
        return None
    order = np.argsort(numbers)
    place = order[np.searchsorted(numbers[order], owner.astype(np.int64))]
    weight, rate = beliefs.importance[picked], beliefs.rate[picked]
    grace = beliefs.graces()[picked] if given is None else np.full(len(picked), given)
    late = grace[place]
    totals = {
        "time": gap,
        "found": np.where(changed, current_time(gap, rate[place], late), gap),
        "expected": expected_time(gap, rate[place], late),
        "least": np.where(changed, np.minimum(late, gap), gap),
        "most": gap,
    }
    by_source = {
        name: np.bincount(place, values, minlength=len(picked)) for name, values in totals.items()
    }
    # Nobody has looked since its last visit; a starved source was not visited at all.
    age = np.maximum(beliefs.at - good_at[picked], 0.0) / DAY
    earlier = np.maximum(age - WINDOW_DAYS, 0.0)
    open_ = {"time": age - earlier, "least": np.zeros(len(age)), "most": age - earlier}
    open_["least"] = np.maximum(np.minimum(grace, age) - earlier, 0.0)
    open_["found"] = expected_time(age, rate, grace) - expected_time(earlier, rate, grace)
    open_["expected"] = open_["found"]
    share = weight / weight.sum()
    time = np.maximum(by_source["time"] + open_["time"], 1e-12)

    def ratio(name: str) -> Floats:
        return np.asarray((by_source[name] + open_[name]) / time)

    value = float(share @ ratio("found"))
    residual, count = ratio("found") - value, len(picked)
    error = float(np.sqrt(np.sum((share * residual) ** 2) * count / max(count - 1, 1)))
    unwatched = {
        n: float(share @ ((by_source["found"] + open_[n]) / time)) for n in ("least", "most")
    }
    closed = int(np.sum(by_source["time"] > 0))
    return Measured(
        alpha=value,
        low=max(unwatched["least"] - _NORMAL * error, 0.0),
        high=min(unwatched["most"] + _NORMAL * error, 1.0),
        expected=float(share @ ratio("expected")),
        least=float(share @ ratio("least")),
        most=float(share @ ratio("most")),
        window_days=WINDOW_DAYS,
        sources=count,
        visits=len(gap),
        method=f"{len(gap):,} gaps between good visits of {closed:,} of {count:,} sources picked "
        f"at random, over {WINDOW_DAYS:g} days; the 95 % interval allows for the spread between "
        "sources, and for anything in the time since their last visits",
    )


def current_time(gap: Floats, rate: Floats, grace: ArrayLike) -> Floats:
    """Mean time in a gap for which a copy was current, given that something changed in it.

    With u = min(T, T − β)⁺ the copy is current for β + E[min(τ, u)], and for τ exponential and
    below T: E[min(τ, u) | τ < T] = (∫₀ᵘ e^(−λt) dt − u e^(−λT)) / (1 − e^(−λT)).

    >>> print(current_time(np.array([2.0]), np.array([1e-9]), 0.0).round(6))
    [1.]
    """
    late = np.maximum(gap - np.asarray(grace), 0.0)
    x = np.maximum(rate * gap, 1e-7)
    lam = x / np.maximum(gap, 1e-300)
    mean = (-np.expm1(-lam * late) / lam - late * np.exp(-x)) / -np.expm1(-x)
    small = late * (1.0 - late / (2.0 * np.maximum(gap, 1e-300)))  # the limit for λT → 0
    mean = np.where(x < 1e-4, small, mean)
    return np.asarray(np.minimum(np.minimum(grace, gap) + mean, gap))


def expected_time(gap: Floats, rate: Floats, grace: ArrayLike) -> Floats:
    """Mean time in a gap for which a copy of a source of this rate is current.

    >>> print(expected_time(np.array([1.0]), np.array([1.0]), 0.0).round(4))
    [0.6321]
    """
    late = np.maximum(gap - np.asarray(grace), 0.0)
    rate = np.maximum(rate, 1e-12)
    return np.asarray(np.minimum(grace, gap) - np.expm1(-rate * late) / rate)
