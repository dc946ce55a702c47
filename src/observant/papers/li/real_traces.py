"""Tables IV, V and VI: the methods on long real traces, sampled as in VII.B.

Li's ten Wikipedia articles of 2011 are not public; the ten longest traces that are given take their
place, so the published columns are ranges over his ten pages. Without any a simulated source stands
in, with the Pareto intervals that Li fits to his first page (figure 17b), and the notes say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import EstimationError, InputError
from observant.estimation.intervals.methods import ks, m1, m2, m3, m3_samples, m4, m5, m6, wmrd
from observant.papers.li.simulated import exponential_times, regular_times, sampled
from observant.papers.result import Check, Experiment, Kind, Options, Reproduction, real_traces
from observant.processes import Pareto
from observant.units import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from observant.arrays import Floats
    from observant.papers.li.simulated import Sampled

    Curves = dict[str, Callable[[Floats], Floats]]

HOUR = 1 / 24
GAP, PER_GAP, GAPS = 0.5 * HOUR, 10, 2000
"""E[S], the bins h in it, and the ages up to which errors are measured, in E[S]. Li, VII.B."""
PER_INTERVAL = 8
"""Li looks four to eight times in a mean interval; slow traces are looked at as often as that."""
LONGEST, FEWEST = 10, 500
"""So many traces are taken, those with the most updates, if they have so many."""
SHORT = "on short traces one method may be better by chance"

# Ranges over Li's ten pages, in percent: method of exponential (E) or constant (C) S.
PRINTED = {
    "w": {
        "M2 E": (0.06, 0.16), "M6 E": (0.16, 0.51), "M2 C": (0.02, 0.07), "M4 C": (0.02, 0.07),
        "M5 C": (0.02, 0.08), "M6 C": (0.02, 0.08), "M1 E": (0.4, 18.5), "M1 C": (0.4, 18.5),
        "M3 C": (3.6, 18.5),
    },
    "κ": {
        "M2 E": (0.21, 0.34), "M6 E": (1.32, 1.62), "M2 C": (0.09, 0.25), "M4 C": (0.44, 1.24),
        "M5 C": (0.44, 1.24), "M6 C": (0.44, 1.24), "M1 E": (25.9, 46.1), "M1 C": (27.8, 47.9),
        "M3 C": (27.8, 47.9),
    },
}  # fmt: skip
UNBIASED = ("M2 E", "M6 E", "EM E", "M2 C", "M4 C", "M5 C", "M6 C")
BIASED = ("M1 E", "M1 C", "M3 C")


@dataclass(frozen=True, eq=False)
class LongTrace:
    """All updates of one source, in days."""

    name: str
    updates: Floats

    @property
    def gap(self) -> float:
        """Mean time between visits: half an hour, or an eighth of the mean interval."""
        mean = (self.updates[-1] - self.updates[0]) / (self.updates.size - 1)
        return max(GAP, float(mean) / PER_INTERVAL)

    def age_cdf(self, x: Floats) -> Floats:
        """G over the life of the trace: the share of its time that is at most x after an update."""
        intervals = np.sort(np.diff(self.updates))
        total = np.append(0.0, np.cumsum(intervals))
        shorter = np.searchsorted(intervals, x, side="right")
        return np.asarray((total[shorter] + x * (intervals.size - shorter)) / total[-1], np.float64)


@Experiment.named(
    "li-table-4", "Li, table IV: w of the unbiased methods on traces", seconds=40, uses_traces=True
)
def table_4(options: Options) -> Reproduction:
    return _table(options, "w", UNBIASED)


@Experiment.named(
    "li-table-5", "Li, table V: κ of the unbiased methods on traces", seconds=40, uses_traces=True
)
def table_5(options: Options) -> Reproduction:
    return _table(options, "κ", UNBIASED)


@Experiment.named(
    "li-table-6", "Li, table VI: the biased methods on traces", seconds=40, uses_traces=True
)
def table_6(options: Options) -> Reproduction:
    return _table(options, "wκ", BIASED)


def long_traces(given: Path, slowest: float = 0.0) -> list[LongTrace]:
    """The traces with most updates, of those with such a mean interval or a longer one."""
    found, longest = [], 0
    for name, trace in real_traces(given):
        order = np.argsort(-trace.updates.counts, kind="stable")
        for place in order[: None if slowest else LONGEST]:
            if trace.updates.counts[place] < min(FEWEST, longest):
                break
            updates = np.unique(trace.updates[place])
            longest = max(longest, updates.size)
            mean = float(updates[-1] - updates[0]) / max(updates.size - 1, 1)
            if updates.size >= FEWEST and mean >= slowest:
                source = str(trace.sources[place])
                full = source if source.startswith(name) else f"{name}: {source}"
                found.append(LongTrace(full, updates))
    if not found:
        raise InputError(
            f"a long trace is needed, with {FEWEST} updates or more"
            + (f" and a mean interval of {format_duration(slowest)} or more" if slowest else "")
            + f"; the longest here has {longest:,}",
            file=str(given),
        )
    return sorted(found, key=lambda trace: -trace.updates.size)[:LONGEST]


def stand_ins(seed: int) -> list[LongTrace]:
    """A simulated source with the intervals of Li's figure 17b: Pareto 1.4, 0.93 hours; a year."""
    source = Pareto(1.4, 0.93 * HOUR)
    return [LongTrace("simulated Pareto(1.4, 0.93 h)", source.sample(365.0, seed=seed).times)]


def errors_on(trace: LongTrace, seed: int) -> dict[str, tuple[float, float]]:
    """W and κ of every method, in percent, E and C for exponential and constant S."""
    rng = np.random.default_rng([seed, trace.updates.size])
    length = float(trace.updates[-1] - trace.updates[0])
    start = trace.updates[0]
    gap, step = trace.gap, trace.gap / PER_GAP
    random = sampled(trace.updates, start + exponential_times(length, gap, rng))
    regular = sampled(trace.updates, start + regular_times(length, gap, rng))
    x = step * np.arange(1, round(min(GAPS * gap, length / 2) / step) + 1, dtype=np.float64)
    truth = trace.age_cdf(x)
    of_random = _random_curves(random, step, float(x[-1]))
    curves = {f"{name} E": curve for name, curve in of_random.items()}
    of_regular = _regular_curves(regular, step, float(x[-1]))
    curves |= {f"{name} C": curve for name, curve in of_regular.items()}
    return {
        name: (100 * wmrd(curve(x), truth), 100 * ks(curve(x), truth))
        for name, curve in curves.items()
    }


def _random_curves(visits: Sampled, step: float, longest: float) -> Curves:
    from observant.estimation.intervals.concave import fit_concave

    curves: Curves = {
        "M1": m1(visits.ages, visits.changed).age_cdf,
        "M2": m2(visits.ages).age_cdf,
        "M6": m6(visits.times, visits.changed, step, longest).age_cdf,
    }
    try:
        # Long logs need no cross-validation: a fixed small blur costs a tenth of the time.
        fit = fit_concave(visits.times, visits.changed, smoothing=0.1)
    except EstimationError:
        return curves
    return curves | {"EM": fit.age_cdf}


def _regular_curves(visits: Sampled, step: float, longest: float) -> Curves:
    times, changed = visits.times, visits.changed
    return {
        "M1": m1(visits.ages, changed).age_cdf,
        "M2": m2(visits.ages).age_cdf,
        "M3": m3(times, changed).age_cdf,
        "M4": m4(times, changed).age_cdf,
        "M5": m5(*m3_samples(times, changed)).age_cdf,
        "M6": m6(times, changed, step, longest).age_cdf,
    }


@lru_cache(maxsize=4)
def _all_errors(folder: Path | None, seed: int) -> tuple[tuple[str, int, Any], ...]:
    """Errors on every trace; the three tables are views of the same."""
    traces = stand_ins(seed) if folder is None else long_traces(folder)
    return tuple((trace.name, trace.updates.size, errors_on(trace, seed)) for trace in traces)


def _table(options: Options, letters: str, methods: tuple[str, ...]) -> Reproduction:
    found = _all_errors(options.traces, options.seed)
    options.done(1.0)
    rows: list[dict[str, Any]] = []
    for trace, updates, errors in found:
        row: dict[str, Any] = {"trace": trace, "updates": updates}
        for method in methods:
            for letter in letters:
                value = errors.get(method)
                column = method if len(letters) == 1 else f"{method} {letter}"
                row[column] = None if value is None else round(value["wκ".index(letter)], 3)
        rows.append(row)
    for end, which in (("lowest of Li's ten", 0), ("highest of Li's ten", 1)):
        row = {"trace": end, "updates": None}
        for method in methods:
            for letter in letters:
                printed = PRINTED[letter].get(method)
                column = method if len(letters) == 1 else f"{method} {letter}"
                row[column] = None if printed is None else printed[which]
        rows.append(row)
    return Reproduction(
        title=f"{' and '.join(letters)} on long traces (E exponential, C constant S), %",
        checks=_claims(found, methods),
        table=rows,
        notes=_notes(options),
    )


def _claims(found: tuple[tuple[str, int, Any], ...], methods: tuple[str, ...]) -> list[Check]:
    """What Li says of his tables, asked of ours: the order of the methods by κ, page by page."""
    pairs = [("M2 E", "M6 E"), ("M2 C", "M4 C"), ("EM E", "M6 E")]
    if methods is BIASED:
        pairs = [("M2 E", "M1 E"), ("M2 C", "M1 C"), ("M4 C", "M3 C")]
    checks = []
    for better, worse in pairs:
        wins = [errors[better][1] < errors[worse][1] for _, _, errors in found if better in errors]
        if wins:
            name = f"share of traces on which {better} has a smaller κ than {worse}"
            kind: Kind = "goal" if better == "EM E" else "words"
            checks.append(Check(name, 1.0, float(np.mean(wins)), kind=kind, why=SHORT))
    return checks


def _notes(options: Options) -> tuple[str, ...]:
    data = (
        f"Li's pages are not public (errata L-13); these are the {LONGEST} longest traces given"
        if options.traces is not None
        else "no folder of traces given: a simulated source stands in (Pareto 1.4, 0.93 h, one "
        "year); give --traces for real ones"
    )
    return (
        data,
        (
            "E[S] is 30 min as in VII.B, or an eighth of the mean interval of a slower trace; the "
            "truth is the age distribution over the life of the trace; errors at multiples of "
            "E[S]/10 up to 2,000 E[S], or half the trace"
        ),
        (
            "M6 with exponential S: bins of E[S]/10 at their middles; constant S: straight lines "
            "between the visits, as in VII.B"
        ),
    )
