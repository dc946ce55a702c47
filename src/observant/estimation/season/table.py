"""`estimate_seasons`: the shape of the season of a group, and the level of every source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from observant.errors import InputError
from observant.estimation.firth import Totals
from observant.estimation.rates import evidence_codes, solve
from observant.estimation.season.shape import (
    Likelihood,
    ObservedWindows,
    best_fit,
    harmonic_priors,
    smooth_priors,
)
from observant.estimation.season.wall_clock import BINS, WallClock
from observant.tables import Drawn, Table
from observant.units import counted
from observant.visits.log import require_log

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import ArrayLike, NDArray

    from observant.arrays import Floats, Integers
    from observant.estimation.season.shape import SeasonPrior
    from observant.processes import Seasonal
    from observant.visits import VisitLog


_COMPILED_FROM = 20_000


@dataclass(frozen=True, eq=False, repr=False)
class Season(Drawn):
    """How much faster or slower sources change at each hour: a relative intensity with mean 1.

    A source of rate λ and this season changes at rate λ·intensity(t). Times are days since 1970
    UTC; bins follow the clock of the time zone, weeks begin on Monday.

    >>> office = Season(np.repeat([0.0, 2.4, 0.0], [8, 10, 6]), bins="hour-of-day")
    >>> office.intensity([0.5, 0.9])  # noon, and late in the evening
    array([2.4, 0. ])
    >>> office.exposure([0.0, 0.375], [1.0, 7.375])  # a day, and a week from nine to nine
    array([1., 7.])
    """

    figure: ClassVar[str] = "observant.figures.season:season_figure"

    weights: Floats
    """Relative intensity of each bin; the mean is 1."""
    low: Floats | None = None
    high: Floats | None = None
    """Interval of each weight."""
    bins: str = "hour-of-week"
    time_zone: str = "UTC"
    name: str = ""
    """The group it was found for."""
    p_value: float = float("nan")
    """Of "there is no season": small where there is one."""
    flat: bool = False
    """No season was given, since `p_value` was not small enough."""
    visible: float = float("nan")
    """How much of a season the visits can show: 1 as much as exact update times, 0 nothing."""
    prior: str = ""
    """The prior that the data chose."""

    def __post_init__(self) -> None:
        weights = np.array(self.weights, np.float64)
        if weights.shape != (BINS.get(self.bins, (weights.size,))[0],):
            count = BINS[self.bins][0]
            raise InputError(f"{self.bins} has {count} bins; {weights.size} weights were given")
        if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
            raise InputError("weights are finite and not negative, and at least one is above zero")
        object.__setattr__(self, "weights", weights / weights.mean())
        _ = self.clock

    @property
    def clock(self) -> WallClock:
        """Where a time falls in the cycle."""
        return WallClock(self.bins, self.time_zone)

    @property
    def period(self) -> float:
        """Days in a cycle."""
        return self.clock.period

    def intensity(self, time: ArrayLike) -> Floats:
        """Relative intensity at times in days since 1970 UTC."""
        return np.asarray(self.weights[self.clock.bin(time)])

    def exposure(self, start: ArrayLike, stop: ArrayLike) -> Floats:
        """∫ of the relative intensity from start to stop: days of the source's own time.

        A source of rate λ changes between the two with probability 1 − e^{−λ·exposure}. Exact for
        any length, and over changes of the clock; both arguments broadcast.
        """
        clock = self.clock
        return np.asarray(clock.integral(self.weights, stop) - clock.integral(self.weights, start))

    def process(self, rate: float) -> Seasonal:
        """Return the process with this season and mean rate; its time 0 is a Monday, 00:00."""
        from observant.processes import Seasonal

        return Seasonal(rate, tuple(self.weights.tolist()), self.period)

    def by_hour(self) -> Floats:
        """Relative intensity by weekday (rows, Monday first) and hour of the day."""
        if self.bins == "weekday":
            return np.repeat(self.weights[:, None], 24, axis=1)
        return np.broadcast_to(self.weights.reshape(-1, 24), (7, 24)).copy()

    def __repr__(self) -> str:
        of = f" of {self.name}" if self.name else ""
        if self.flat:
            return f"<Season{of}: flat, {self.bins}, p = {self.p_value:.2g}>"
        low, high = self.weights.min(), self.weights.max()
        sure = f", p = {self.p_value:.2g}" if np.isfinite(self.p_value) else ""
        return f"<Season{of}: {self.bins} from {low:.2g} to {high:.2g}{sure}>"


@dataclass(frozen=True, eq=False, repr=False)
class Seasons(Table):
    """The season of every group, and the level of every source."""

    figure: ClassVar[str] = "observant.figures.season:seasons_figure"
    columns: ClassVar[tuple[str, ...]] = (
        "source",
        "group",
        "changes",
        "rate_per_day",
        "rate_low",
        "rate_high",
    )

    source: pa.Array
    group_code: Integers
    """Index of each source's season in `seasons`."""
    changes: Integers
    rate_per_day: Floats
    """Level: mean rate over the whole cycle, bias-reduced."""
    rate_low: Floats
    rate_high: Floats
    evidence_code: NDArray[np.int8]
    """Index into `observant.estimation.rates.EVIDENCE`."""
    seasons: tuple[Season, ...]
    method: str
    confidence: float
    notes: tuple[str, ...] = ()

    @property
    def group(self) -> NDArray[np.str_]:
        """Name of each source's group."""
        return np.array([season.name for season in self.seasons])[self.group_code]

    @property
    def season(self) -> Season:
        """The season, when there is one group only."""
        if len(self.seasons) > 1:
            raise InputError(
                f"there are {len(self.seasons)} seasons here; choose one with of(source) or seasons"
            )
        return self.seasons[0]

    @property
    def evidence(self) -> Floats:
        """P-value of "no season" for each group; small where there is a season."""
        return np.array([season.p_value for season in self.seasons])

    def of(self, source: str) -> Season:
        """Return the season of a source."""
        place = self.source.index(source).as_py()
        if place < 0:
            raise InputError("not in this answer", source=source)
        return self.seasons[int(self.group_code[place])]

    def chance(self, source: str, start: ArrayLike, stop: ArrayLike) -> Floats:
        """Probability that a source changes between two times (days since 1970 UTC)."""
        rate = self.rate_per_day[self.source.index(source).as_py()]
        return np.asarray(-np.expm1(-rate * self.of(source).exposure(start, stop)))

    def shapes(self) -> list[dict[str, Any]]:
        """One row a bin and group: weight and its interval."""
        return [
            {
                "group": season.name,
                "bin": b,
                "weight": float(season.weights[b]),
                "low": None if season.low is None else float(season.low[b]),
                "high": None if season.high is None else float(season.high[b]),
            }
            for season in self.seasons
            for b in range(len(season.weights))
        ]

    def __repr__(self) -> str:
        seasons = counted(len(self.seasons), "season")
        return f"<Seasons: {counted(len(self), 'source')}, {seasons}, method {self.method}>"


def estimate_seasons(
    log: VisitLog,
    bins: str = "hour-of-week",
    *,
    group: ArrayLike | str | None = None,
    harmonics: int | tuple[int, int] | None = None,
    time_zone: str | None = None,
    confidence: float = 0.95,
    significance: float = 0.05,
    use_dates: bool = True,
) -> Seasons:
    """Estimate at which hours the sources of a log change, and how often each one does.

    Sources of a group share the shape of the season; each has its own level. A visit that found
    a change tells only that it happened since the visit before, unless it was dated. Windows of
    any length count, also those of many weeks.

    Parameters
    ----------
    log
        The visits.
    bins
        ``hour-of-week`` (168), ``hour-of-day`` (24) or ``weekday`` (7).
    group
        None: one season for the whole log. ``"group"``: one for each group of the log.
        ``"source"``: one for each source. Or a label for each source, in the order of the log.
    harmonics
        A smooth shape of so many daily and weekly sines instead of a free value in each bin:
        (daily, weekly), or the number of daily ones with two weekly.
    time_zone
        Whose clock the sources follow, such as ``Europe/Berlin``. UTC when not given.
    confidence
        Of all intervals.
    significance
        A season is given when its p-value is at most this; else the shape is flat. 1 always
        gives the estimate.
    use_dates
        Use dates of modification where there are any.

    Sources are taken to be Poisson with a rate that follows the clock. Strong bursts make the
    p-value too small.

    >>> from observant.estimation.season import Season
    >>> rng = np.random.default_rng(1)
    >>> office = Season(np.repeat([0.0, 2.4, 0.0], [8, 10, 6]), bins="hour-of-day")
    >>> time = 20_000 + np.cumsum(rng.exponential(0.2, 1000))
    >>> chance = -np.expm1(-3.0 * office.exposure(time[:-1], time[1:]))
    >>> from observant import VisitLog
    >>> log = VisitLog.from_columns(
    ...     ["shop"] * 1000, time, [None, *(rng.random(999) < chance).tolist()], time_unit="d"
    ... )
    >>> found = estimate_seasons(log, "hour-of-day")
    >>> found.season.weights[[3, 12, 22]].round(1)
    array([0. , 1.5, 0. ])
    """
    require_log(log)
    clock = WallClock(bins, time_zone or "UTC")
    for name, value in (("confidence", confidence), ("significance", significance)):
        if not 0 < value < 1 and not (name == "significance" and value == 1):
            raise InputError(f"{name} lies between 0 and 1, not {value}")
    if harmonics is None:
        priors, method = smooth_priors(clock), "smooth bins"
    else:
        daily, weekly = (harmonics, 2) if isinstance(harmonics, int) else harmonics
        priors, method = harmonic_priors(clock, daily, weekly), f"{daily}+{weekly} harmonics"
    labels, names = _groups(log, group)
    windows = ObservedWindows.from_log(log, clock, use_dates=use_dates)
    notes = list(log.notes)
    seasons: list[Season] = []
    columns = np.zeros((5, len(log.sources)))
    for code, name in enumerate(names):
        inside = labels == code
        mine = windows.select(inside) if len(names) > 1 else windows
        season, said = _season(mine, clock, name, priors, confidence, significance)
        seasons.append(season)
        notes += [f"{name}: {note}" if name else note for note in said]
        evidence = mine.warped(season.weights)
        totals = Totals.of(evidence)
        fast = len(evidence.gaps) >= _COMPILED_FROM
        columns[:, inside] = (
            totals.changes,
            evidence_codes(totals),
            *solve(evidence, confidence, fast=fast),
        )
    changes, codes, rate, low, high = columns
    return Seasons(
        source=log.sources,
        group_code=labels,
        changes=changes.astype(np.int64),
        rate_per_day=rate,
        rate_low=low,
        rate_high=high,
        evidence_code=codes.astype(np.int8),
        seasons=tuple(seasons),
        method=method,
        confidence=confidence,
        notes=tuple(notes),
    )


def _season(
    windows: ObservedWindows,
    clock: WallClock,
    name: str,
    priors: list[Any],
    confidence: float,
    significance: float,
) -> tuple[Season, list[str]]:
    from scipy.special import ndtri

    bins, time_zone = clock.bins, clock.time_zone
    changes = int(np.count_nonzero(windows.evidence.kind & 1))
    if not changes:
        nothing = Season(
            np.ones(clock.count),
            bins=bins,
            time_zone=time_zone,
            name=name,
            p_value=1.0,
            flat=True,
            visible=0.0,
        )
        return nothing, ["no change was seen, so there is no season to find"]
    likelihood = Likelihood(windows)
    visible = visible_share(likelihood)
    p_value = flat_p_value(likelihood, priors)
    notes = doubts(windows, visible, changes)
    fit = best_fit(likelihood, priors)
    weights = np.exp(fit.log_shape)
    share = weights / weights.sum()
    # Of log θ after scaling to mean 1: what all bins do together is the level's, not the shape's.
    centred = np.eye(clock.count) - share
    spread = np.sqrt(np.maximum(np.einsum("bi,ij,bj->b", centred, fit.covariance, centred), 0.0))
    reach = np.exp(ndtri((1 + confidence) / 2) * spread)
    weights = weights / weights.mean()
    flat = p_value > significance
    if flat:
        notes.append(
            f"no season was found (p = {p_value:.2g}), so none is given: the shape is flat"
        )
    season = Season(
        weights=np.ones(clock.count) if flat else weights,
        low=(np.minimum(weights / reach, 1.0) if flat else weights / reach),
        high=(np.maximum(weights * reach, 1.0) if flat else weights * reach),
        bins=bins,
        time_zone=time_zone,
        name=name,
        p_value=p_value,
        flat=flat,
        visible=float(np.mean(list(visible.values()))),
        prior=fit.prior.name,
    )
    return season, notes


def _groups(log: VisitLog, group: ArrayLike | str | None) -> tuple[Integers, list[str]]:
    """Code of each source's group, and the names of the groups."""
    size = len(log.sources)
    if group is None:
        return np.zeros(size, np.int64), [""]
    if isinstance(group, str):
        if group == "source":
            return np.arange(size), [str(name) for name in log.sources.to_pylist()]
        if group != "group":
            raise InputError(f"group is 'group', 'source' or labels, not {group!r}")
        if log.groups is None:
            raise InputError("the log has no groups; name their column when it is read")
        given = log.groups.to_pylist()
    else:
        given = np.asarray(group).tolist()
        if len(given) != size:
            raise InputError(f"{len(given)} labels were given for {size} sources")
    names, codes = np.unique(["" if g is None else str(g) for g in given], return_inverse=True)
    return codes.astype(np.int64), names.tolist()


# -- checks of a season ---------------------------------------------------------------------------
# The score of log θ at flat, U, is a sum over windows with mean 0 and the information V as its
# variance, when the source is Poisson without a season. Q = U'KU with the covariance K of the
# candidate seasons is the locally best test against them, and has the distribution of a weighted
# sum of χ²₁, weights the eigenvalues of V^½KV^½. Its tail is taken by Kuonen's saddlepoint.


_VISIBLE = 1e-6


def flat_p_value(likelihood: Likelihood, priors: list[SeasonPrior]) -> float:
    """P-value of "this source has no season"; 1 where the visits cannot show one."""
    basis = priors[0].basis
    # Candidates differ in scale; each counts for the same.
    kernel = sum(p.covariance / np.trace(p.covariance) for p in priors)
    flat = likelihood.at(np.zeros(likelihood.clock.count), profile=True)
    score = basis.T @ flat.gradient
    variance = basis.T @ flat.information @ basis
    if np.trace(variance) < _VISIBLE:
        return 1.0
    root = np.linalg.cholesky(kernel)
    weights = np.linalg.eigvalsh(root.T @ variance @ root)
    return quadratic_tail(float(score @ kernel @ score), weights.astype(np.float64))


def quadratic_tail(q: float, weights: Floats) -> float:
    """P(Σ wᵢ χ²₁ > q), by the saddlepoint of Kuonen (1999).

    >>> round(quadratic_tail(3.8415, np.array([1.0])), 3)  # exactly 0.050
    0.052
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr

    w = weights[weights > 1e-9 * max(weights.max(), 0.0)]
    if not w.size or q <= 0:
        return 1.0
    w, q = w / w.sum(), q / w.sum()  # now the mean is 1

    def slope(z: float) -> float:
        return float((w / (1 - 2 * z * w)).sum() - q)

    if abs(q - 1) < 1e-3:  # the formula has a hole at the mean; its sides meet
        return 0.5 * (quadratic_tail(1.002, w) + quadratic_tail(0.998, w))
    high = (0.5 / w.max()) * (1 - 1e-12)
    low = -1.0
    while slope(low) > 0:
        low *= 4
    z = brentq(slope, low, high, xtol=1e-14)
    generating = -0.5 * np.log1p(-2 * z * w).sum()
    bend = 2 * (w**2 / (1 - 2 * z * w) ** 2).sum()
    r = np.sign(z) * np.sqrt(max(2 * (z * q - generating), 0.0))
    v = z * np.sqrt(bend)
    return float(ndtr(-(r + np.log(v / r) / r)))


# -- What the visits can show of a season, and what they hide -------------------------------------
#
# A window of a whole day holds every hour once, whenever it began: it says nothing about hours. So
# visits at the same hour every day see no hours, and visits a week apart see no weekdays.


_HIDDEN = 0.01
_FEW_CHANGES = 50


def visible_share(likelihood: Likelihood) -> dict[str, float]:
    """Information about the first waves of day and week, relative to knowing every update time."""
    clock = likelihood.clock
    flat = likelihood.at(np.zeros(clock.count), profile=True)
    gaps = likelihood.windows.evidence.gaps
    per_window = np.repeat(flat.level, likelihood.windows.evidence.counts)
    updates = float(np.sum(gaps * np.where(np.isfinite(per_window), per_window, 0.0)))
    middle = (np.arange(clock.count) + 0.5) * clock.width
    waves = {}
    if clock.bins != "weekday":
        waves["hours of the day"] = (1.0, 2.0)
    if clock.period == 7.0:
        waves["days of the week"] = (1 / 7, 2 / 7)
    shares = {}
    for name, turns in waves.items():
        columns = [w(2 * np.pi * f * middle) for f in turns for w in (np.cos, np.sin)]
        basis = np.stack(columns, axis=1)
        full = updates / clock.count * np.square(basis).sum()
        shares[name] = float(np.trace(basis.T @ flat.information @ basis)) / full if full else 0.0
    return shares


def doubts(windows: ObservedWindows, visible: dict[str, float], changes: int) -> list[str]:
    """What a reader should know before believing the shape."""
    notes = []
    hidden = [name for name, share in visible.items() if share < _HIDDEN]
    if hidden:
        what = " and ".join(hidden)
        notes.append(f"the {what} cannot be seen: {_reason(windows, hidden[0])}")
    if changes < _FEW_CHANGES:
        notes.append(f"only {changes} changes were seen; a shape needs hundreds of visits")
    return notes


def _reason(windows: ObservedWindows, what: str) -> str:
    clock = windows.clock
    cycle, unit = (1.0, "day") if what.startswith("hours") else (7.0, "week")
    phase = clock.position(windows.stop) * clock.width / cycle
    together = abs(np.exp(2j * np.pi * phase).mean())
    gaps = windows.evidence.gaps / cycle
    if together > 0.99:
        middle = np.angle(np.exp(2j * np.pi * phase).mean()) / (2 * np.pi) % 1.0
        when = f"{round(middle * 24) % 24:02d}:00" if unit == "day" else "the same day"
        return f"all visits fall at about {when}. Visit at varying times"
    if np.mean(np.abs(gaps - np.rint(gaps)) < 0.02) > 0.9 and np.median(gaps) > 0.5:
        return f"windows are whole {unit}s. Visit at varying times"
    return f"windows are too long against a {unit}, or nearly every visit found a change"
