"""The input of `plan`: checked once, and made a `Problem`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.currency import RateMixture
from observant.errors import InputError
from observant.planning.objectives import Objective, Penalty, objective
from observant.planning.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike

    from observant.arrays import Floats, Integers


# -------------------------------------------------------------------------------------------------
# What a table of rates tells of each rate, so that a plan need not take one number for the truth
#
# A plan averages over what is not known. From visits it has the whole posterior of every rate; from
# a table it has two numbers of it, the geometric mean (`rate_ahead` of the pooled methods) and the
# mean (`rate_mean`). The log-normal distribution with these two, on Gauss and Hermite's nodes,
# stands for the posterior: plans made with it are as good as those from the whole, to a thousandth
# (a few thousandths where sources have one visit that can be compared).
#
# A table of a method that looks at each source alone has no mean. Its counts tell how much is
# behind each rate, and the collection itself is the prior (`from_counts`): a source that was never
# seen to change has some rate below what its visits would have shown, and not the rate 0.


FROM_COUNTS = (
    "a rate of this method says nothing of how well it is known, so the plan takes the counts of "
    "visits and changes, and the collection as prior (`estimate --method pooled` does it better)"
)

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
_NODES, _WEIGHTS = _NODES[_WEIGHTS > 1e-9], _WEIGHTS[_WEIGHTS > 1e-9]
_VAGUE = 3.0
"""Sources of any rate at all that are added to a collection, so that a few do not seem certain."""
_POINTS_PER_OCTAVE = 4
_SOURCES_TO_FIT = 20_000


def posterior_of(table: Any) -> tuple[Any, tuple[str, ...]]:
    """What is known of the rates of a `RateTable`, and what is to be said of that."""
    if table.posterior is not None:
        return table.posterior, ()
    if table.rate_mean is not None:
        ahead = table.rate_per_day if table.rate_ahead is None else table.rate_ahead
        return known_rates(ahead, table.rate_mean), ()
    rate, mean = from_counts(table)
    return known_rates(rate, mean), (FROM_COUNTS,)


def known_rates(rate: Floats, mean: Floats | None) -> Floats | RateMixture:
    """Posteriors with these geometric means and means; the rates themselves where both agree.

    >>> from observant.currency import RateMixture
    >>> known = known_rates(np.array([0.1, 1.0]), np.array([0.2, 1.0]))
    >>> print(known.mean_rate.round(6), np.exp((known.weights * np.log(known.rates)).sum(axis=1)))
    [0.2 1. ] [0.1 1. ]
    """
    if mean is None or np.all(mean <= rate):
        return rate
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.sqrt(2.0 * np.log(np.maximum(mean / rate, 1.0)))
    spread = np.where(rate > 0.0, spread, 0.0)
    return RateMixture(rate[:, None] * np.exp(np.multiply.outer(spread, _NODES)), _WEIGHTS)


def from_counts(table: Any) -> tuple[Floats, Floats]:
    """Geometric mean and mean of each rate, from the counts of visits and changes of a table.

    n comparisons of which X saw a change are taken as regular: their gap is the one at which the
    bias-reduced estimate of such visits, −log((n − X + ½)/(n + ½)), is the rate of the table, or
    where another method made it the mean gap. Where every visit saw a change and dates tell the
    rate all the same, it is X updates in X/λ̂ days. The prior is the smooth mixture that makes the
    collection likeliest.
    """
    from observant.estimation.priors import fit_mixture

    rate, time = np.asarray(table.rate_per_day, float), np.asarray(table.exposure_days, float)
    n = np.maximum(np.asarray(table.visits, float) - 1.0, 0.0)
    changes = np.minimum(np.asarray(table.changes, float), n)
    told = (n > 0.0) & np.isfinite(time) & (time > 0.0)
    if not told.any():
        return rate, rate
    fitting = told & (changes > 0.0) & (rate > 0.0) & np.isfinite(rate)
    dated = fitting & (changes == n) & (table.evidence == "ok")
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.where(told, time / n, 1.0)
        if table.method == "bias-reduced":
            alike = -np.log((n - changes + 0.5) / (n + 0.5)) / rate
            gap = np.where(fitting, alike, gap)
        quiet = np.where(dated, changes / rate, (n - changes) * gap)
    n = np.where(told, n, 0.0)
    changes, quiet = np.where(told, changes, 0.0), np.where(told, quiet, 0.0)
    rates = _grid(gap[told & (changes > 0.0)], time[told])

    def likelihood(rows: Any) -> Floats:
        x = np.multiply.outer(gap[rows], rates)
        chance = np.where(dated[rows, None], np.log(rates), np.log(-np.expm1(-x)))
        logs = changes[rows, None] * chance - np.multiply.outer(quiet[rows], rates)
        return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)))

    some = np.flatnonzero(told)
    fitted = fit_mixture(likelihood(some[:: 1 + len(some) // _SOURCES_TO_FIT]), rates).weights
    prior = (len(some) * fitted + _VAGUE / len(rates)) / (len(some) + _VAGUE)
    log_mean, mean = np.empty(len(rate)), np.empty(len(rate))
    for start in range(0, len(rate), 8_192):
        rows = slice(start, start + 8_192)
        weights = likelihood(rows) * prior
        weights /= weights.sum(axis=1, keepdims=True)
        log_mean[rows], mean[rows] = np.exp(weights @ np.log(rates)), weights @ rates
    return log_mean, mean


def _grid(gaps: Floats, exposure: Floats) -> Floats:
    """Rates from well below one update in the longest watch to well above one in a changed gap."""
    low = np.floor(np.log2(0.1 / exposure.max()))
    high = np.ceil(np.log2(20.0 / min(exposure.max(), gaps.min(initial=np.inf))))
    steps = (min(high, low + 40) - low) * _POINTS_PER_OCTAVE
    return np.asarray(2.0 ** (low + np.arange(steps + 1) / _POINTS_PER_OCTAVE))


def read_problem(
    rates: Any,
    wanted: str | Objective | Penalty,
    grace: ArrayLike,
    importance: ArrayLike | None,
    cost: ArrayLike | None,
    hosts: Sequence[str] | None,
    host_caps: float | Mapping[str, float] | None,
    min_period: ArrayLike,
    max_period: ArrayLike,
    posterior: Any | None,
    source: Any,
    signals: Any | None = None,
) -> tuple[Problem, Any, tuple[str, ...]]:
    """Check everything once and make the problem of it; with the names, and what is to be said."""
    notes: tuple[str, ...] = ()
    given = rates
    if hasattr(rates, "rate_per_day"):
        source = rates.source if source is None else source
        if posterior is None:
            posterior, notes = posterior_of(rates)
        rates = rates.rate_per_day
    names = None if source is None else _names(source)
    known = posterior if posterior is not None else rates
    if isinstance(known, (list, tuple, np.ndarray)) or np.isscalar(known):
        known = _per_source("rate", known, names, None)
        known = np.atleast_1d(known)
    if isinstance(wanted, Objective):
        chosen, current = wanted, None
        if np.any(np.asarray(chosen.penalty(np.full(len(chosen), np.inf))) > 1.0 + 1e-12):
            current = objective("currency", known, grace)
    else:
        chosen = objective(wanted, known, grace)
        same = wanted == "currency" or (wanted == "freshness" and not np.any(grace))
        current = None if same else objective("currency", known, grace)
    if signals is not None:
        from observant.planning.signals import plan_signals

        if np.any(grace) or wanted not in {"freshness", "currency"}:
            raise InputError("signals go with the objective freshness, without a grace")
        chosen = plan_signals(given, chosen, signals, names)
    count = len(chosen)
    if count == 0:
        raise InputError("there are no sources to plan for")
    if names is not None and len(names) != count:
        raise InputError(f"{len(names):,} names for {count:,} sources")
    weight = _per_source("importance", 1.0 if importance is None else importance, names, count)
    if not np.any(weight > 0.0):
        raise InputError("the importance is 0 for every source, so no visit is worth anything")
    price = _per_source("cost", 1.0 if cost is None else cost, names, count, above=True)
    shortest = _per_source("shortest period", min_period, names, count)
    longest = _per_source("longest period", max_period, names, count, above=True, infinite=True)
    wrong = np.broadcast_to(shortest > longest, (count,))
    if wrong.any():
        i = int(np.argmax(wrong))
        raise InputError(
            "the shortest period is longer than the longest period", source=_name(names, i)
        )
    problem = Problem(
        objective=chosen,
        current=current,
        importance=weight,
        cost=price,
        shortest=shortest,
        longest=longest,
        others=lambda name: _other(name, known, grace, chosen),
    )
    if host_caps is None:
        return problem, names, notes
    if hosts is None:
        raise InputError("caps on hosts need the host of each source")
    host, host_names = _encoded(hosts)
    if len(host) != count:
        raise InputError(f"{len(host):,} hosts for {count:,} sources")
    problem = replace(problem, host=host, host_names=host_names, caps=_caps(host_caps, host_names))
    return problem.with_host_prices(), names, notes


def _other(name: str, known: Any, grace: ArrayLike, chosen: Objective) -> Objective | None:
    try:
        model = objective(name, known, grace)
    except (InputError, TypeError):
        return None
    return model if len(model) == len(chosen) else None


def _per_source(
    what: str,
    values: ArrayLike,
    names: Any,
    count: int | None,
    *,
    above: bool = False,
    infinite: bool = False,
) -> Floats:
    try:
        checked = np.asarray(values, float)
    except (TypeError, ValueError) as error:
        raise InputError(f"the {what} must be a number for each source") from error
    if checked.ndim > 1 or (checked.ndim == 1 and count is not None and len(checked) != count):
        raise InputError(
            f"give one {what} for all or one for each of the {count or 0:,} sources, "
            f"not {checked.shape}"
        )
    good = (checked > 0.0) if above else (checked >= 0.0)
    if not infinite:
        good &= checked < np.inf
    if not np.all(good):
        i = int(np.argmin(good)) if checked.ndim else 0
        raise InputError(
            f"the {what} must be a {'' if infinite else 'finite '}number "
            f"{'above 0' if above else 'and not negative'}, not {checked.flat[i]:g}",
            source=_name(names, i) if checked.ndim else None,
        )
    return checked


def _name(names: Any, i: int) -> str:
    return str(names[i]) if names is not None else f"number {i + 1}"


def _names(source: Any) -> Any:
    return source if hasattr(source, "tolist") else np.asarray(source, dtype=object)


def _encoded(hosts: Any) -> tuple[Integers, tuple[str, ...]]:
    import pyarrow as pa

    column = hosts if isinstance(hosts, (pa.Array, pa.ChunkedArray)) else pa.array(list(hosts))
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    encoded = column.cast(pa.string()).fill_null("").dictionary_encode()
    return np.asarray(encoded.indices).astype(np.int64), tuple(encoded.dictionary.to_pylist())


def _caps(host_caps: float | Mapping[str, float], names: tuple[str, ...]) -> Floats:
    if not isinstance(host_caps, (int, float)):
        given = {str(name): cap for name, cap in host_caps.items()}  # as the hosts are read
        unknown = set(given) - set(names)
        if unknown:
            raise InputError(f"no source belongs to the capped host {min(unknown)!r}")
        caps = np.array([given.get(name, math.inf) for name in names], np.float64)
    else:
        caps = np.full(len(names), host_caps, np.float64)
    if not np.all(caps > 0.0):
        h = int(np.argmin(caps > 0.0))
        raise InputError(f"the cap of host {names[h]!r} must be above 0, not {caps[h]:g}")
    return caps
