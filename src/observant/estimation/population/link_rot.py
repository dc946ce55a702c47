"""Births, deaths and link rot: how a collection turns over.

A source is gone from the visit on that found it missing (404 or 410) and after which none found it
again. It died at some moment since it was last seen, so the death rate μ is the root of the
likelihood of gaps: e^(−μ·gap) for every gap that it survived, 1 − e^(−μ·gap) for the one it did
not. Births are sources first seen after the first month, which is taken for the beginning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from observant.errors import InputError
from observant.tables import Table
from observant.times import MICROSECONDS_PER_DAY
from observant.units import counted, format_duration, format_share
from observant.visits.columns import numbers_in

if TYPE_CHECKING:
    from observant.arrays import Flags, Floats, Integers
    from observant.visits import VisitLog


MISSING_STATUS = (404, 410)
MONTH = 30.4375


@dataclass(frozen=True, eq=False)
class Turnover(Table):
    """What came and went, a row a month; and at which rates."""

    columns: ClassVar[tuple[str, ...]] = ("begin", "born", "died", "living")

    begin: Floats
    """Beginning of the month, in days since 1970."""
    born: Integers
    """Sources first seen in it; in the first month those that were there."""
    died: Integers
    """Sources that are taken to have died in it."""
    living: Integers
    """At the end of the month."""
    sources: int
    returned: int
    """Sources that were missing and then seen again."""
    death_rate: float
    """Of a living source, per day; with its 95 % interval."""
    death_low: float
    death_high: float
    birth_rate: float
    """New sources a day for each living one."""
    birth_low: float
    birth_high: float
    age: Floats
    """Days since a source was first seen ..."""
    surviving: Floats
    """... and the share that is still there (Kaplan and Meier)."""

    @property
    def growth(self) -> float:
        """ξ, per day: births less deaths."""
        return self.birth_rate - self.death_rate

    @property
    def half_life(self) -> float:
        """Days after which half of the links are dead."""
        return float(np.log(2.0) / self.death_rate) if self.death_rate else np.inf

    def rotten(self, days: float) -> float:
        """Share of the links of now that will be dead after so many days."""
        return float(-np.expm1(-self.death_rate * days))

    def summary(self) -> dict[str, float]:
        """The rates and counts, without the months."""
        names = "sources returned death_rate death_low death_high birth_rate birth_low birth_high"
        told = {name: getattr(self, name) for name in (*names.split(), "half_life", "growth")}
        return told | {"born": int(self.born[1:].sum()), "died": int(self.died.sum())}

    def __str__(self) -> str:
        if not self.died.sum():
            bound = format_share(float(-np.expm1(-self.death_high * 365.25)), 1)
            rot = f"none is gone; 95 %: at most {bound} a year"
        else:
            low, high = (
                format_share(float(-np.expm1(-rate * 365.25)), 1)
                for rate in (self.death_low, self.death_high)
            )
            rot = (
                f"{int(self.died.sum()):,} gone, {format_share(self.rotten(365.25), 1)} of links a "
                f"year ({low} to {high}), half of them in {format_duration(self.half_life)}"
            )
        text = [f"{counted(self.sources, 'source')}: {rot}; {self.returned:,} came back"]
        if len(self.born) > 1:
            a_year = float(np.expm1(self.growth * 365.25))
            text.append(
                f"{int(self.born[1:].sum()):,} new since the first month: the collection "
                f"{'grows' if a_year >= 0 else 'shrinks'} by {format_share(abs(a_year), 1)} a year"
            )
        return "\n".join(text)


def turnover(log: VisitLog) -> Turnover:
    """Count births and deaths in a visit log with the column status, and estimate their rates.

    >>> from observant import VisitLog
    >>> log = VisitLog.from_columns(
    ...     source=["a", "a", "a", "b", "b", "b"],
    ...     time=[0, 10, 20, 0, 10, 20],
    ...     digest=["x", "x", "x", "y", "y", None],
    ...     status=[200, 200, 200, 200, 200, 404],
    ...     time_unit="d",
    ... )
    >>> found = turnover(log)
    >>> int(found.died.sum()), round(found.half_life, 1)
    (1, 24.1)
    """
    status = log.extras.get("status")
    if status is None:
        raise InputError("births and deaths need the column status: 404 or 410 is a source gone")
    code = numbers_in(status, 200)
    gone = np.isin(code, MISSING_STATUS)
    good = log.succeeded & ~gone
    owner = np.searchsorted(log.offsets, np.arange(len(log)), side="right") - 1
    time = log.time / MICROSECONDS_PER_DAY
    many = len(log.sources)
    first, last_good = np.full(many, np.inf), np.full(many, -np.inf)
    np.minimum.at(first, owner[good], time[good])
    np.maximum.at(last_good, owner[good], time[good])
    missing_after = gone & (time > last_good[owner])
    found = np.full(many, np.inf)
    np.minimum.at(found, owner[missing_after], time[missing_after])
    seen = np.isfinite(first)
    dead = seen & np.isfinite(found)
    lost = gone & (time > first[owner]) & (time < last_good[owner])
    returned = len(np.unique(owner[lost]))
    if not seen.any():
        raise InputError("no visit saw a source")
    survived = (last_good - first)[seen].sum()  # days of gaps that somebody is known to have lived
    fatal = (found - last_good)[dead]
    rate, low, high = _death_rate(float(survived), fatal)
    when = np.where(dead, (last_good + np.where(dead, found, last_good)) / 2, np.inf)
    begin = np.arange(first[seen].min(), max(time.max(), first[seen].min() + 1e-9), MONTH)
    edges = np.append(begin, np.inf)
    born = np.histogram(first[seen], edges)[0]
    died = np.histogram(when[dead], edges)[0]
    lived = float(np.where(dead, when, last_good)[seen].sum() - first[seen].sum())
    later = int(born[1:].sum())
    births = np.array([later, *_poisson_interval(later)]) / max(lived, 1e-300)
    age, surviving = _kaplan_meier((np.where(dead, when, last_good) - first)[seen], dead[seen])
    return Turnover(
        begin=begin,
        born=born,
        died=died,
        living=np.cumsum(born - died),
        sources=int(seen.sum()),
        returned=returned,
        death_rate=rate,
        death_low=low,
        death_high=high,
        birth_rate=float(births[0]),
        birth_low=float(births[1]),
        birth_high=float(births[2]),
        age=age,
        surviving=surviving,
    )


def _death_rate(survived: float, fatal: Floats) -> tuple[float, float, float]:
    """The rate that makes the gaps most likely, and where the likelihood ratio ends: 95 %."""
    from scipy.optimize import brentq
    from scipy.stats import chi2

    drop = chi2.ppf(0.95, 1) / 2.0
    if not len(fatal):
        return 0.0, 0.0, drop / survived if survived else np.inf

    def logs(rate: float) -> float:
        return float(-rate * survived + np.log(-np.expm1(-rate * fatal)).sum())

    def score(log_rate: float) -> float:
        x = np.exp(log_rate) * fatal
        return float(np.sum(fatal / np.expm1(np.minimum(x, 700.0)))) - survived

    top = np.log(1e3 / fatal.min())
    bottom = np.log(1e-9 * len(fatal) / (survived + fatal.sum()))
    rate = float(np.exp(brentq(score, bottom, top))) if score(top) < 0 else np.inf
    if rate == np.inf:
        return rate, 0.0, np.inf
    best = logs(rate) - drop

    def end(log_rate: float) -> float:
        return logs(float(np.exp(log_rate))) - best

    low = float(np.exp(brentq(end, bottom, np.log(rate))))
    high = float(np.exp(brentq(end, np.log(rate), top))) if end(top) < 0 else np.inf
    return rate, low, high


def _poisson_interval(count: int) -> tuple[float, float]:
    """Garwood's exact 95 % interval of a count."""
    from scipy.stats import chi2

    low = chi2.ppf(0.025, 2 * count) / 2 if count else 0.0
    return float(low), float(chi2.ppf(0.975, 2 * count + 2) / 2)


def _kaplan_meier(days: Floats, dead: Flags) -> tuple[Floats, Floats]:
    at = np.unique(days[dead])
    ordered = np.sort(days)
    risk = len(days) - np.searchsorted(ordered, at, side="left")
    deaths = np.bincount(np.searchsorted(at, days[dead]), minlength=len(at))
    return np.append(0.0, at), np.append(1.0, np.cumprod(1.0 - deaths / risk))
