"""The door of `plan`: what was given is checked once and becomes a `Problem`."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from observant.errors import InputError
from observant.planning.known import posterior_of
from observant.planning.objectives import Objective, objective
from observant.planning.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["read_problem"]

Array: TypeAlias = NDArray[np.float64]


def read_problem(
    rates: Any,
    wanted: str | Objective,
    grace: ArrayLike,
    importance: ArrayLike | None,
    cost: ArrayLike | None,
    hosts: Sequence[str] | None,
    host_caps: float | Mapping[str, float] | None,
    min_period: ArrayLike,
    max_period: ArrayLike,
    posterior: Any | None,
    source: Any,
) -> tuple[Problem, Any, tuple[str, ...]]:
    """Check everything once and make the problem of it; with the names, and what is to be said."""
    notes: tuple[str, ...] = ()
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
) -> Array:
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


def _encoded(hosts: Any) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    import pyarrow as pa

    column = hosts if isinstance(hosts, (pa.Array, pa.ChunkedArray)) else pa.array(list(hosts))
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    encoded = column.cast(pa.string()).fill_null("").dictionary_encode()
    return np.asarray(encoded.indices).astype(np.int64), tuple(encoded.dictionary.to_pylist())


def _caps(host_caps: float | Mapping[str, float], names: tuple[str, ...]) -> Array:
    if not isinstance(host_caps, (int, float)):
        unknown = set(host_caps) - set(names)
        if unknown:
            raise InputError(f"no source belongs to the capped host {min(unknown)!r}")
        caps = np.array([host_caps.get(name, math.inf) for name in names], np.float64)
    else:
        caps = np.full(len(names), host_caps, np.float64)
    if not np.all(caps > 0.0):
        h = int(np.argmin(caps > 0.0))
        raise InputError(f"the cap of host {names[h]!r} must be above 0, not {caps[h]:g}")
    return caps
