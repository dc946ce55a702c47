"""How do the rates of a whole collection spread? Brewington 3.3, mended and with intervals.

A collection is described by the distribution of the mean times between updates of its sources, a
Weibull with shape σ and scale δ. It can be seen through the ages of the sources (`fit_ages`),
through the lifetimes between their dates of modification (`fit_lifetimes`), or through all that
was seen of each source (`fit_histories`), which needs the fewest assumptions. `fit_population`
does all of them for a visit log.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from observant.errors import EstimationError, InputError
from observant.estimation.evidence import Evidence
from observant.estimation.population.descriptive import Description, describe
from observant.estimation.population.inference import PopulationFit, fit_evidence
from observant.estimation.population.likelihoods import Ages, FirstLifetimes, Histories, Lifetimes
from observant.estimation.priors import fit_mixture, grid_likelihood, rate_grid
from observant.tables import Drawn, Table
from observant.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from observant.arrays import Flags, Floats
    from observant.visits import VisitLog


def fit_ages(
    ages: ArrayLike,
    *,
    growth: float | None = None,
    method: str = "likelihood",
    points: ArrayLike | None = None,
    resolution: float = 1.0 / 1440.0,
    confidence: float = 0.95,
) -> PopulationFit:
    """Fit a population to the ages of its sources, one age each: Brewington 3.3.1, (3.2) to (3.10).

    A young age means a recent update or a young source. The collection grows like e^(ξt); ξ is
    estimated, or given as `growth` (0: no growth, which takes new sources for busy ones). Ages
    alone tell the two apart only through the shape of the tail, so that intervals are wide.

    Parameters
    ----------
    method
        ``likelihood``, or ``least-squares`` on the distribution, (3.10).
    points
        Ages at which least squares compares; evenly spaced, as in the thesis, when not given.
    resolution
        Ages below it are taken as young and no more: clocks and servers round (figure 3.7).

    Intervals are robust ones (from the spread of what each source pulls at the estimate), on a
    logarithmic scale for shape and scale.

    >>> rng = np.random.default_rng(1)
    >>> times = 150.0 * rng.weibull(1.4, 20_000)  # mean times between updates
    >>> ages = np.minimum(rng.exponential(times), rng.exponential(500.0, 20_000))
    >>> print(fit_ages(ages, growth=1 / 500))
    from the ages of 20,000 sources, by likelihood
      shape   1.4  (1.35 to 1.45)
      scale   149d  (146d to 153d)
      half change more often than once in 115d; the mean time is 136d
      farthest from what was seen: 0.004 (p = 0...)
    """
    if growth is not None and not 0.0 <= growth < math.inf:
        raise InputError(f"growth must be a finite number per day, not negative: {growth!r}")
    evidence = Ages(ages, growth, resolution)
    notes = []
    if evidence.blurred:
        notes.append(
            f"{evidence.blurred:,} ages below {format_duration(resolution)} count as young, "
            "not by their size"
        )
    return fit_evidence(evidence, "ages", method, points=points, confidence=confidence, notes=notes)


def fit_lifetimes(
    lifetimes: ArrayLike,
    sources: ArrayLike,
    spans: ArrayLike,
    *,
    corrected: bool = True,
    growth: float | None = 0.0,
    method: str = "likelihood",
    points: ArrayLike | None = None,
    bound: float = 0.0,
    confidence: float = 0.95,
) -> PopulationFit:
    """Fit a population to lifetimes between dates of modification: Brewington 3.3.2.

    Sources watched for short spans show few of the long lifetimes; both forms allow for it.

    As printed (``corrected=False``, (3.11) to (3.15)), all lifetimes are taken for draws of Exp(λ)
    and every source has the same weight. But the first lifetime of a source began before the first
    visit and is length-biased (errata B-14): for a true (1.4, 152.2 d) the printed form gives about
    (1.78, 167 d). The corrected form uses the first lifetime of each source with its true density.

    Parameters
    ----------
    lifetimes, sources
        Lifetimes in days, in order of time within a source, and the source of each, as a place in
        `spans`.
    spans
        How long each source was watched, those never seen to change included.
    growth
        ξ of a growing collection, whose sources may be younger than their first lifetime would
        have been; None to estimate it. The printed form does not know it.
    bound
        Lifetimes up to this many days are left out. Twice the gap between visits keeps the fit
        clear of aliasing: shorter lifetimes hide each other (figure 3.20).

    `method`, `points` and the intervals are as in `fit_ages`.

    >>> rng = np.random.default_rng(1)
    >>> times, spans = 152.2 * rng.weibull(1.4, 20_000), rng.exponential(100.0, 20_000)
    >>> first_update = rng.exponential(times)
    >>> seen = np.flatnonzero(first_update <= spans)
    >>> lifetimes = first_update[seen] + rng.exponential(times[seen])
    >>> fit_lifetimes(lifetimes, seen, spans)
    <PopulationFit: shape 1.41, scale 147.7 d, likelihood>
    """
    if not 0.0 <= bound < math.inf:
        raise InputError(f"bound must be a finite number of days, not negative: {bound!r}")
    evidence: Lifetimes | FirstLifetimes
    if corrected:
        evidence, name = FirstLifetimes(lifetimes, sources, spans, bound, growth), "first lifetimes"
        notes = ["allows for the length bias of first lifetimes (errata B-14)"]
    else:
        evidence, name = Lifetimes(lifetimes, sources, spans, bound), "lifetimes as printed"
        notes = ["(3.14) as printed: the first lifetime of a source is length-biased, errata B-14"]
    if bound:
        notes.append(f"lifetimes up to {format_duration(bound)} were left out, against aliasing")
    return fit_evidence(evidence, name, method, points=points, confidence=confidence, notes=notes)


def fit_histories(
    evidence: Evidence,
    *,
    confidence: float = 0.95,
    most_sources: int = 50_000,
    seed: int = 0,
) -> PopulationFit:
    """Fit a population to all that the visits found, by maximum likelihood.

    Each comparison of two visits is taken for what it says, a dated change, an undated change or
    none, so that aliasing, finite spans and sources never seen to change need no correction; see
    `Histories`. If the evidence holds first ages (``use_first_age=True``), the collection must not
    be growing. Of more than `most_sources` sources a random sample is used.

    >>> rng = np.random.default_rng(1)
    >>> rates = 1 / (152.2 * rng.weibull(1.4, (5_000, 1)))
    >>> gaps = np.full((5_000, 20), 7.0)
    >>> changed = rng.random(gaps.shape) < -np.expm1(-rates * gaps)
    >>> fit_histories(Evidence.from_gaps(gaps, changed))
    <PopulationFit: shape 1.4, scale 152.7 d, likelihood>
    """
    notes = []
    if evidence.conflicts:
        notes.append(f"{evidence.conflicts:,} dates that contradict the visits were set aside")
    chosen, usable = _sample(evidence, most_sources, seed)
    if usable > most_sources:
        notes.append(f"from a random sample of {most_sources:,} of {usable:,} sources")
    histories = Histories(evidence.select(chosen))
    return fit_evidence(
        histories, "histories", "likelihood", confidence=confidence, notes=notes, seed=seed
    )


def _sample(evidence: Evidence, most: int, seed: int) -> tuple[Flags, int]:
    """Choose sources with evidence, at random where there are more than enough; tell how many."""
    usable = np.flatnonzero(evidence.counts > 0)
    kept = usable
    if len(usable) > most:
        kept = np.random.default_rng(seed).choice(usable, most, replace=False)
    chosen = np.zeros(len(evidence.counts), bool)
    chosen[kept] = True
    return chosen, len(usable)


@dataclass(frozen=True, eq=False)
class Population(Drawn):
    """A visit log described (`Description`) and every population that could be fitted to it."""

    figure: ClassVar[str] = "observant.figures.population:population_figure"

    description: Description
    fits: tuple[PopulationFit, ...]
    prior: PriorComparison | None = None
    """The best fit beside a prior that assumes no form."""
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> PopulationFit:
        """The fit that leans on the fewest assumptions: histories where there are any."""
        return self.fits[-1]

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values."""
        return {
            "description": self.description.summary(),
            "best": self.best.to_dict(),
            "fits": [fit.to_dict() for fit in self.fits],
            "prior": None if self.prior is None else self.prior.to_dict(),
            "curves": self.description.curves(),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        parts = [str(self.description), *(str(fit) for fit in self.fits)]
        if self.prior is not None:
            parts.append(f"beside a prior that assumes no form\n{self.prior}")
        notes = (*self.description.notes, *self.notes)
        return "\n\n".join([*parts, *(["\n".join(f"note: {n}" for n in notes)] if notes else [])])


def fit_population(log: VisitLog, *, confidence: float = 0.95) -> Population:
    """Describe a visit log and fit a population to it in every way its evidence allows.

    In this order: ages with growth; lifetimes as printed, by least squares; first lifetimes with
    the length bias removed and growth allowed for; histories. A way that fails leaves a note.
    The last one is compared with the nonparametric prior of `observant.estimation.priors`.
    """
    description = describe(log)
    evidence = Evidence.from_log(log)
    seen = (description.lifetimes, description.lifetime_sources, description.dated_spans)
    bound = 2.0 * np.nan_to_num(description.median_gap)
    ways: list[tuple[str, Callable[[], PopulationFit]]] = [
        ("ages", lambda: fit_ages(description.ages, confidence=confidence)),
        (
            "lifetimes as printed",
            lambda: fit_lifetimes(
                *seen, corrected=False, method="least-squares", confidence=confidence
            ),
        ),
        (
            "first lifetimes",
            lambda: fit_lifetimes(*seen, growth=None, bound=bound, confidence=confidence),
        ),
        ("histories", lambda: fit_histories(evidence, confidence=confidence)),
    ]
    if not description.ages.size and not description.lifetimes.size:
        ways = ways[-1:]  # without a date there is nothing to try, and the description says so
    fits, notes = [], []
    for name, fit in ways:
        try:
            fits.append(fit())
        except EstimationError as error:
            notes.append(f"no fit from {name}: {error}")
    if not fits:
        raise EstimationError("no population can be fitted to this log: " + "; ".join(notes))
    best = fits[-1]
    prior = None
    if best.evidence == "histories":
        prior = compare_prior(*_nonparametric(evidence), best.shape, best.scale)
    return Population(description, tuple(fits), prior, tuple(notes))


def _nonparametric(evidence: Evidence) -> tuple[Floats, Floats]:
    """Rates and weights of the prior that empirical Bayes finds without assuming a form."""
    sample = evidence.select(_sample(evidence, 20_000, 0)[0])
    rates = rate_grid(sample)
    return rates, fit_mixture(grid_likelihood(sample, rates), rates).weights


# -- Is a Weibull a fair description of a collection? Beside it, a prior that assumes no form -----


@dataclass(frozen=True, eq=False, repr=False)
class PriorComparison(Table):
    """Two distributions of the mean time between updates: a prior on a grid, and a Weibull."""

    columns: ClassVar[tuple[str, ...]] = ("days", "prior", "weibull")

    days: Floats
    """Mean time between updates."""
    prior: Floats
    """Share of sources up to that mean time, by the prior."""
    weibull: Floats
    """The same by the Weibull distribution."""
    distance: float
    """Largest difference between the two (Kolmogorov-Smirnov)."""
    at: float
    """The mean time, in days, where they differ most."""
    shape: float
    scale: float

    def to_dict(self) -> dict[str, Any]:
        """The comparison in plain values."""
        return {
            "distance": self.distance,
            "at_days": self.at,
            "poor": self.distance > _POOR,
            "curve": list(self.rows()),
        }

    def __str__(self) -> str:
        place = int(np.searchsorted(self.days, self.at))
        verdict = "poor" if self.distance > _POOR else "fair"
        return (
            f"Weibull ({self.shape:.3g}, {format_duration(self.scale)}): a {verdict} description\n"
            f"change more often than once in {format_duration(self.at)}: "
            f"{100 * self.weibull[place]:.0f} % of the Weibull's sources, "
            f"{100 * self.prior[place]:.0f} % of the prior's (distance {self.distance:.3f})"
        )


def compare_prior(
    rates: ArrayLike, weights: ArrayLike, shape: float, scale: float
) -> PriorComparison:
    """Show a population prior on a grid of rates in the terms of a Weibull population.

    `rates` per day and `weights`, one each, are what empirical Bayes found without assuming a
    form. Each weight is spread over the cell of its rate on a logarithmic scale, so that a fine
    enough grid of Weibull weights has distance 0. Where the distance is large, the Weibull is a
    poor description of the collection and its currency should be computed from the prior itself.

    >>> print(compare_prior([0.001, 0.01, 0.1, 1.0, 10.0], [3, 0, 0, 1, 0], 0.6, 300.0))
    Weibull (0.6, 300d): a poor description
    change more often than once in 316d: 64 % of the Weibull's sources, 25 % of the prior's \
(distance 0.394)
    """
    per_day = np.ravel(np.asarray(rates, float))
    mass = np.ravel(np.asarray(weights, float))
    if per_day.shape != mass.shape or len(mass) < 2:
        raise InputError("give one weight for each rate, and two rates or more")
    if not (np.all(np.isfinite(per_day)) and np.all(per_day > 0.0)):
        raise InputError("the rates of a prior must be finite and above 0")
    if not (np.all(mass >= 0.0) and 0.0 < mass.sum() < math.inf):
        raise InputError("the weights of a prior must be finite, not negative, and not all 0")
    order = np.argsort(per_day)[::-1]
    times, mass = 1.0 / per_day[order], mass[order] / mass.sum()
    # The cells of the grid meet half-way between neighbouring rates, on the logarithmic scale.
    edges = np.sqrt(times[1:] * times[:-1])
    prior = np.cumsum(mass)[:-1]
    weibull = -np.expm1(-((edges / scale) ** shape))
    worst = int(np.argmax(np.abs(prior - weibull)))
    return PriorComparison(
        days=edges,
        prior=prior,
        weibull=weibull,
        distance=float(abs(prior - weibull)[worst]),
        at=float(edges[worst]),
        shape=shape,
        scale=scale,
    )


_POOR = 0.1
"""Beyond this distance one source in ten is misplaced, and the currency of a plan with it."""
