"""Pooling and siblings."""

import altair as alt
import numpy as np

from drawings import (
    BLUE,
    GREY,
    NIGHT,
    RED,
    WIDTH,
    across,
    colours,
    downward,
    finished,
    marks,
    picture,
    seen_changes,
    words,
)
from observant import estimate_rates
from observant.planning.schedule import Scheduler
from observant.testing import synthetic_visits

SAID = {
    "never-changed": "no visit found a change",
    "ok": "some visits did",
    "always-changed": "every visit did",
}


@picture("idea-pooling-shrinkage")
def shrinkage():
    log, truth = synthetic_visits(sources=2000, visits=5, seed=3)
    alone, pooled = estimate_rates(log), estimate_rates(log, "pooled")
    chosen = np.random.default_rng(2).choice(2000, 48, replace=False)
    zero = 0.5 * float(truth[chosen].min())  # a logarithmic axis has none
    stages = np.maximum([alone.rate_per_day, pooled.rate_per_day, truth], zero)
    dots = [
        {"rate": float(rate), "y": at, "evidence": SAID[str(alone.evidence[i])], "source": int(i)}
        for at, rates in enumerate(stages)
        for i, rate in zip(chosen, rates[chosen], strict=True)
    ]
    steps = [
        {**row, "to": float(stages[row["y"] + 1, row["source"]]), "y2": row["y"] + 1}
        for row in dots
        if row["y"] < 2
    ]
    x = across(
        "rate",
        "updates a day",
        [0.85 * zero, 4],
        log=True,
        values=[zero, 0.01, 0.1, 1],
        labelExpr=f"datum.value < {1.01 * zero} ? 'zero' : format(datum.value, '~g')",
        grid=False,
    )
    y = downward("y", -0.15, 2.15)
    legend = alt.Legend(title=None, orient="top", symbolOpacity=1, offset=2)
    paint = dict(zip(SAID.values(), [GREY, BLUE, RED], strict=True))
    colour = colours("evidence", paint, legend=legend)
    names = [
        {"y": at, "rate": 0.85 * zero, "name": name}
        for at, name in enumerate(("alone", "pooled", "truth"))
    ]
    to_pooled = marks([row for row in steps if row["y"] == 0]).mark_rule(
        strokeWidth=1.3, opacity=0.55, aria=False
    )
    to_truth = marks([row for row in steps if row["y"] == 1]).mark_rule(
        color="#d5dae1", strokeWidth=1, aria=False
    )
    return finished(
        marks(names, width=WIDTH, height=300).mark_rule(color="#e0e3e8").encode(y=y)
        + to_truth.encode(x=x, x2="to:Q", y=y, y2="y2:Q")
        + to_pooled.encode(x=x, x2="to:Q", y=y, y2="y2:Q", color=colour)
        + marks(dots).mark_circle(size=38, opacity=1, aria=False).encode(x=x, y=y, color=colour)
        + words(names, x, y, "name", align="right", dx=-10),
        "What the others say about you",
        "48 of 2,000 sources with about five visits each: what each says alone, what it says among"
        " the others, and the truth.",
    )


@picture("idea-pooling-siblings")
def siblings():
    pages, shown, start, horizon = 8, 29, 150.0, 240.0
    updates = published_together(folders=30, pages=pages, horizon=horizon)
    lanes, spans, dots, names = [], [], [], []
    for panel, said in enumerate(("each page alone", "with its siblings")):
        visits = watched(updates, horizon, grouped=panel == 1)
        stale = {
            name: [
                (max(a, start), b)
                for a, b in stale_spans(updates[name], visits[name], horizon)
                if b > start
            ]
            for name in updates
        }
        first = panel * (pages + 2)
        for page in range(pages):
            name, row = f"{shown}/{page}", {"y": first + page, "y2": first + page + 0.8}
            lanes.append({"t": start, "to": horizon, **row})
            spans += [{"t": a, "to": b, **row} for a, b in stale[name]]
            dots += [{"t": float(t), "y": row["y"] + 0.4} for t in visits[name] if t >= start]
        lost = sum(b - a for found in stale.values() for a, b in found)
        fresh = 1 - lost / len(updates) / (horizon - start)
        middle = first + pages / 2 - 0.1
        names.append({"t": start, "y": middle, "name": said, "fresh": f"freshness {fresh:.3f}"})
    together = {float(t) for page in range(pages) for t in updates[f"{shown}/{page}"] if t >= start}
    x = across("t", "day", [start, horizon], grid=False, tickCount=8)
    y = downward("y", -0.3, 2 * pages + 2)
    rects = {"x": x, "x2": "to:Q", "y": y, "y2": "y2:Q"}
    ground = marks(lanes, width=WIDTH - 60, height=290).mark_rect(color="#e8eff6", aria=False)
    published = marks([{"t": t, "y": -0.3, "y2": 2 * pages + 2} for t in sorted(together)])
    return finished(
        ground.encode(**rects)
        + marks(spans).mark_rect(color=RED, opacity=0.75, aria=False).encode(**rects)
        + published.mark_rule(color=GREY, strokeDash=[2, 3]).encode(x=x, y=y, y2="y2:Q")
        + marks(dots).mark_circle(size=22, opacity=1, color=NIGHT, aria=False).encode(x=x, y=y)
        + words(names, x, y, "name", align="right", dx=-10)
        + words([{**row, "t": horizon} for row in names], x, y, "fresh", align="left", dx=10),
        "A visit to one is news of the others",
        "Eight pages of a folder that is published now and then (dotted). Dots: visits. Red: the"
        " copy is out of date.",
        "Both spend the same on 240 pages in thirty folders; right, the freshness of all of them.",
    )


def published_together(folders, pages, horizon):
    """Update times by name, folder/page: a page takes part in most publications of its folder."""
    rng = np.random.default_rng(1)
    updates = {}
    for folder in range(folders):
        rate = rng.choice([0.02, 0.2])
        published = np.sort(rng.uniform(0, horizon, rng.poisson(horizon * rate)))
        for page in range(pages):
            updates[f"{folder}/{page}"] = published[rng.random(len(published)) < 0.8]
    return updates


def watched(updates, horizon, *, grouped):
    """The visits to each source by a scheduler that begins by knowing nothing."""
    scheduler = Scheduler(budget=0.1 * len(updates), prior="learn", drift=1000.0)
    scheduler.add(list(updates), group=[n.partition("/")[0] for n in updates] if grouped else None)
    visits = {name: [] for name in updates}
    while (now := scheduler.next_time()) < horizon:
        for name in scheduler.due(now):
            since = visits[name][-1:]
            changed = bool(seen_changes(updates[name], [*since, now])[0]) if since else None
            scheduler.visited(name, now, changed=changed)
            visits[name].append(now)
    return {name: np.array(times) for name, times in visits.items()}


def stale_spans(updates, visits, horizon):
    """When a copy is out of date: from the first update that it misses to the next visit."""
    first = np.searchsorted(updates, visits, side="right")
    return [
        (float(updates[k]), float(end))
        for k, end in zip(first, np.append(visits[1:], horizon), strict=True)
        if k < len(updates) and updates[k] < end
    ]
