"""Brewington's figures 3.1 to 3.5 and 3.9 to 3.15, and the appendix: pages, words and links."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.estimation.population import age_densities, describe
from observant.papers.brewington.content import (
    DRAWN,
    HOST_SLOPE,
    LINK_SLOPE,
    OWN,
    WORD_SLOPE,
    content_of,
)
from observant.papers.brewington.informant import GROWTH
from observant.papers.result import Check, Curve, Experiment, Picture, Reproduction
from observant.papers.thesis.style import (
    attribute_shares,
    magnitudes,
    rank_frequency,
    style_by_age,
    term_drift,
)
from observant.visits import VisitLog

if TYPE_CHECKING:
    from collections import Counter

    from observant.papers.result import Options

_NIGHTS = 360
_OFFICE = 3.0
"""How many times likelier a page is drawn to be modified in the hours of US offices."""


def _watched(options: Options) -> tuple[VisitLog, str]:
    """Dated visits over a year: those of a store, or drawn, at night, of a web that grows."""
    if options.store is not None:
        from observant.store import open_store

        with open_store(options.store, create=False) as store:
            return store.visits.log(), OWN
    rng = options.rng(31)
    pages = max(min(options.runs or 4000, 4000), 500)
    born = -rng.exponential(1 / GROWTH, pages)
    rate = 1.0 / (152.2 * rng.weibull(1.4, pages))
    nights = np.sort(rng.integers(0, _NIGHTS, (pages, 6)), axis=1) + rng.uniform(
        0.08, 0.4, (pages, 6)
    )
    back = rng.exponential(1 / rate[:, None], (pages, 6))
    for k in range(1, 6):  # nothing new since the last night: the same date
        same = back[:, k] > nights[:, k] - nights[:, k - 1]
        back[:, k] = np.where(same, back[:, k - 1] + nights[:, k] - nights[:, k - 1], back[:, k])
    date = np.maximum(nights - back, born[:, None])
    start = 20_003.0  # a Monday
    week = np.floor((start + date - 4) % 7 * 24).astype(int)  # 1970 began on a Thursday
    office = (week // 24 < 5) & (week % 24 >= 13)  # 8 to 20 h Eastern, about
    dates, place = np.unique(date, return_inverse=True)  # a date is seen by all visits, or by none
    chance = rng.random(len(dates))[place].reshape(date.shape)
    kept = chance < np.where(office, 1.0, 1.0 / _OFFICE)
    source = np.repeat(np.arange(pages), 6).reshape(pages, 6)
    order = np.lexsort((nights[kept], source[kept]))
    when, who = (start + nights[kept])[order], source[kept][order]
    new = np.append(True, (np.diff(who) != 0) | (np.diff(when) > 1e-6))
    log = VisitLog.from_columns(
        source=np.char.mod("%06d", who[new]),
        time=when[new],
        last_modified=(start + date[kept])[order][new],
        time_unit="d",
    )
    return log, DRAWN


@Experiment.named("brewington-figure-3.1", "Brewington, figure 3.1: hours of the week", seconds=2)
def figure_3_1(options: Options) -> Reproduction:
    log, note = _watched(options)
    hours = describe(log).hours_of_week.astype(float)
    week = hours.reshape(7, 24)
    office, rest = week[:5, 13:].mean(), np.append(week[:5, :13].ravel(), week[5:].ravel()).mean()
    return Reproduction(
        checks=[
            Check(
                "updates an hour in US working hours over other hours",
                None,
                office / max(rest, 1e-9),
            ),
            Check.claim("peaks in working hours, fewer at weekends", office > rest > 0),
        ],
        pictures=[
            Picture(
                "hour of the week, Monday 0 h UTC first",
                "updates",
                [Curve("dates", np.arange(168), hours)],
            )
        ],
        notes=[
            note,
            f"drawn {_OFFICE:g} times as often in the hours of offices" if note == DRAWN else "",
        ],
    )


@Experiment.named("brewington-figure-3.2", "Brewington, figure 3.2: dates and visits", seconds=2)
def figure_3_2(options: Options) -> Reproduction:
    log, note = _watched(options)
    assert log.last_modified is not None  # noqa: S101 (dates are what is drawn)
    rows = np.flatnonzero(log.succeeded & (log.last_modified > 0))[:4000]
    seen, date = log.time[rows] / 86.4e9, log.last_modified[rows] / 86.4e9
    return Reproduction(
        checks=[Check.claim("no date lies after its visit", bool((date <= seen + 1).all()))],
        pictures=[
            Picture(
                "visited, days since the first",
                "last modified, days before the first visit are negative",
                [Curve("a visit", seen - seen.min(), date - seen.min(), points=True)],
            )
        ],
        notes=[note],
    )


@Experiment.named("brewington-figure-3.3", "Brewington, figure 3.3: ages over time", seconds=2)
def figure_3_3(options: Options) -> Reproduction:
    log, note = _watched(options)
    parts = age_densities(log)
    first = parts[0][0]
    tails = [float(h.count[h.left >= 365].sum() / h.count.sum()) for _, h in parts]
    curves = [
        Curve(
            f"after {middle - first:.0f} days",
            np.sqrt(h.left * h.right),
            np.maximum(h.density, 1e-9),
        )
        for middle, h in parts
    ]
    return Reproduction(
        checks=[
            Check("share older than a year, first quarter", None, tails[0]),
            Check("the same, last quarter", None, tails[-1]),
        ],
        pictures=[Picture("age, days", "density", curves, log_x=True, log_y=True)],
        notes=[note, "parts of the time with equally many visits, instead of a coloured plane"],
    )


@Experiment.named("brewington-figure-3.4", "Brewington, figure 3.4: what changes", seconds=4)
def figure_3_4(options: Options) -> Reproduction:
    found = content_of(options)
    shares = attribute_shares([c.attributes for c in found.comparisons])
    printed = {
        "content_length": "0.83",
        "link_hash": "0.72",
        "num_tokens": "0.56",
        "num_links": "0.39",
    }
    ours = dict(zip(shares.attribute.tolist(), shares.share.tolist(), strict=True))
    return Reproduction(
        checks=[
            Check(
                f"{name}: share of changes (printed {value}, of other pages)",
                None,
                ours.get(name, 0.0),
            )
            for name, value in printed.items()
        ],
        table=list(shares.rows()),
        pictures=[
            Picture(
                "attributes, the one that changes most often first",
                "share of changes",
                [Curve("share", np.arange(1, len(shares.share) + 1), shares.share, points=True)],
            )
        ],
        notes=[found.note, f"{shares.total:,} changes"],
    )


@Experiment.named("brewington-figure-3.5", "Brewington, figure 3.5: style and age", seconds=4)
def figure_3_5(options: Options) -> Reproduction:
    found = content_of(options)
    style = style_by_age(found.records, ages=(365.0,))
    groups = [group for group, pages in style.pages.items() if pages]
    medians = {group: style.median("num_images", group) for group in groups}
    return Reproduction(
        checks=[
            Check(f"images, median of pages {group}", None, value)
            for group, value in medians.items()
        ],
        pictures=[
            Picture(
                attribute.replace("_", " "),
                "share of pages",
                [
                    Curve(group, style.value[chosen], style.share[chosen])
                    for group in groups
                    if (chosen := (style.attribute == attribute) & (style.group == group)).any()
                ],
                log_x=attribute == "content_length",
            )
            for attribute in ("content_length", "num_images")
        ],
        notes=[found.note, "the thesis compares pages of 1994/95 with those of 1998/99"],
    )


def _ages(options: Options, rates: list[float]) -> Reproduction:
    """Ages of single pages as nightly visits see them, and how they are distributed."""
    rng = options.rng(39)
    nights = np.arange(0.0, 330.0)
    raw, spread, checks = [], [], []
    for rate in rates:
        updates = np.cumsum(rng.exponential(1 / rate, 2000)) - 20 / rate
        age = nights - updates[np.searchsorted(updates, nights, side="right") - 1]
        label = f"once in {1 / rate:.0f} days"
        changes = int(((updates > 0) & (updates < nights[-1])).sum())
        raw.append(Curve(label, nights, age))
        ordered = np.sort(age)
        spread.append(Curve(label, ordered, np.arange(1, len(ordered) + 1) / len(ordered)))
        if (
            changes > 20
        ):  # ages are exponential; as many of them are independent as there are changes
            checks.append(
                Check(
                    f"mean age, {label}: that of the law",
                    1 / rate,
                    float(age.mean()),
                    3.0 / rate / np.sqrt(changes / 2),
                    kind="formula",
                )
            )
        else:
            checks.append(Check(f"changes in {nights[-1]:.0f} days, {label}", None, changes))
    return Reproduction(
        checks=checks,
        pictures=[
            Picture("days", "age, days", raw),
            Picture("age, days", "share of visits", spread),
        ],
        notes=["data: synthetic, pages that change at random, visited every night"],
    )


for _number, _what, _rates in (
    ("3.9", "ages of static pages", [1 / 900.0, 1 / 500.0]),
    ("3.10", "ages of changing pages", [1 / 4.0, 1 / 12.0]),
):
    _named = Experiment.named(
        f"brewington-figure-{_number}", f"Brewington, figure {_number}: {_what}"
    )
    _named(partial(_ages, rates=_rates))


@Experiment.named(
    "brewington-figure-3.11", "Brewington, figure 3.11: term vectors drift", seconds=4
)
def figure_3_11(options: Options) -> Reproduction:
    found = content_of(options)
    drift = term_drift([texts for texts in found.versions if len(texts) > 1])
    return Reproduction(
        checks=[
            Check(
                "mean distance of the last version from the first",
                None,
                float(drift.from_first[-1]),
            ),
            Check(
                "over that of one step", None, float(drift.from_first[-1] / drift.from_last.mean())
            ),
        ],
        pictures=[
            Picture(
                "versions later",
                "mean relative distance",
                [
                    Curve("from the first version", drift.step, drift.from_first),
                    Curve("from the one before", drift.step, drift.from_last),
                ],
            )
        ],
        notes=[
            found.note,
            "the thesis draws three words of an imagined page; these are mean distances",
        ],
    )


def _sizes(options: Options, measure: str, what: str, level: float, printed: str) -> Reproduction:
    found = content_of(options)
    sizes = magnitudes(found.comparisons)
    values = getattr(sizes, measure)
    ordered = np.sort(values)
    below = float((values < level).mean()) if len(values) else float("nan")
    return Reproduction(
        checks=[Check(f"share of changes with {what} below {level:g} ({printed})", None, below)],
        pictures=[
            Picture(
                "‖v₁‖, length of the old text",
                what,
                [Curve("a change", np.maximum(sizes.length, 1), values, points=True)],
                log_x=True,
            ),
            Picture(
                what,
                "share of changes",
                [Curve("changes", ordered, np.arange(1, len(ordered) + 1) / len(ordered))],
            ),
        ],
        notes=[found.note, f"{len(values):,} changes of text"],
    )


for _number, _measure, _what, _level, _printed in (
    ("3.12", "angle", "1 − cos θ", 0.05, "printed 0.90, of other pages"),
    ("3.13", "distance", "‖v₂ − v₁‖", 5.0, "none printed"),
    (
        *("3.14", "magnitude", "relative magnitude", 0.95),
        "printed: not more than 5 % are wholesale",
    ),
):
    _named = Experiment.named(
        f"brewington-figure-{_number}", f"Brewington, figure {_number}: {_what}", seconds=4
    )
    _named(partial(_sizes, measure=_measure, what=_what, level=_level, printed=_printed))


@Experiment.named("brewington-figure-3.15", "Brewington, figure 3.15: words asked for", seconds=4)
def figure_3_15(options: Options) -> Reproduction:
    found = content_of(options)
    inside = {word: found.census.terms[word] for word in found.queries if found.census.terms[word]}
    curves = [_density("words of documents", found.census.terms)]
    if len(found.queries) > 3:
        curves += [
            _density("words of queries", found.queries),
            _density("query words in documents", inside),
        ]
    common = float(np.median(list(inside.values()))) if inside else float("nan")
    usual = float(np.median(list(found.census.terms.values())))
    checks = [Check("median count of a word in documents", None, usual)]
    if inside:
        checks += [
            Check("the same of words that are asked for", None, common),
            Check.claim("words of queries are not as words of documents", common > usual),
        ]
    return Reproduction(
        checks=checks,
        pictures=[Picture("occurrences", "density", curves, log_x=True, log_y=True)],
        notes=[found.note, "of a store: the terms of its standing queries"],
    )


def _density(label: str, counts: Any) -> Curve:
    """Share of items with so many occurrences, per occurrence, in bins that grow."""
    values = np.fromiter(counts.values(), float)
    edges = np.unique(np.round(np.geomspace(1, values.max() + 1, 25)))
    count = np.histogram(values, np.append(edges, values.max() + 2))[0]
    width = np.diff(np.append(edges, values.max() + 2))
    some = count > 0
    return Curve(label, edges[some], (count / width / len(values))[some])


def _ranked(options: Options, slope: float | None, lists: str, density: bool) -> Reproduction:
    found = content_of(options)
    tables: dict[str, Counter[str]] = {
        "words": found.census.terms, "query terms": found.queries,
        "hosts": found.census.hosts, "links": found.census.links,
    }  # fmt: skip
    curves, checks = [], []
    for name in lists.split(", "):
        counts = tables[name]
        if len(counts) < 30:
            continue
        rank = rank_frequency(counts)
        if density:
            curves.append(_density(name, counts))
            implied = None if slope is None or found.own else 1 / slope - 1
            quantity, ours = f"{name}: slope of the density of counts", rank.density_slope
            printed = {"hosts": "−1.9", "links": "−2.6"}[name]
        else:
            curves.append(Curve(name, rank.rank, rank.frequency))
            implied = None if slope is None or found.own or name == "query terms" else slope
            quantity, ours = f"{name}: slope of frequency over rank", rank.slope
            printed = {"hosts": "−0.85", "links": "−0.69"}.get(name, "−0.7 to −0.9")
        why = "counts of a sample: the rare ones are cut off below, and bend the line"
        checks.append(Check(f"{quantity} (printed {printed})", implied, ours, 0.12, why, "formula"))
    if not checks:
        checks.append(
            Check(f"different {lists} that were seen", None, max(map(len, tables.values())))
        )
        curves.append(_density("words", found.census.terms or {"-": 1}))
    x, y = ("occurrences", "density") if density else ("rank", "occurrences")
    return Reproduction(
        checks=checks,
        pictures=[Picture(x, y, curves, log_x=True, log_y=True)],
        notes=[found.note, "drawn with the slopes that the thesis prints" if not found.own else ""],
    )


for _figure, _what, _slope, _lists in (
    (1, "words by rank", WORD_SLOPE, "words, query terms"),
    (2, "hosts by rank", HOST_SLOPE, "hosts"),
    (3, "links by rank", LINK_SLOPE, "links"),
    (4, "counts of links", LINK_SLOPE, "links"),
    (5, "counts of hosts", HOST_SLOPE, "hosts"),
):
    _named = Experiment.named(
        f"brewington-appendix-{_figure}",
        f"Brewington, appendix, figure {_figure}: {_what}",
        seconds=4,
    )
    _named(partial(_ranked, slope=_slope, lists=_lists, density=_figure > 3))
