"""What is a rate when you only look sometimes?"""

import numpy as np

from drawings import (
    BLUE,
    GOLD,
    GREEN,
    WIDTH,
    across,
    colours,
    finished,
    marks,
    picture,
    points,
    upward,
    words,
)
from drawings.timelines import estimates, side_by_side
from observant import accuracy
from observant.processes import Poisson
from observant.units import format_duration


@picture("idea-rate-hidden")
def hidden_updates():
    rate, horizon = 1.0, 28.0
    updates = Poisson(rate).sample(horizon, seed=277)[0]
    visits = {gap: np.arange(0.0, horizon + gap / 2, gap) for gap in (0.5, 1.0, 2.0, 4.0)}
    rows = [(f"every {format_duration(gap)}", updates, at) for gap, at in visits.items()]
    found = [estimates(updates, at) for at in visits.values()]
    return finished(
        side_by_side(rows, horizon, found, rate, most=3),
        "The same updates, seen by four visitors",
        "Ticks: updates (red: the one a visit shows, grey: lost before the next visit). Dots:"
        " visits (filled: found a change).",
        "Right: changes over time (gold), our estimate with its interval (blue), truth (dashed).",
    )


@picture("idea-rate-bias")
def what_gaps_lose():
    ratio = np.geomspace(0.05, 10, 80)
    methods = {
        "changes over time": ("naive", GOLD),
        "corrected (our default)": ("improved", BLUE),
        "with dates": ("last-modified", GREEN),
    }
    means = {
        name: (ratio, 1 + accuracy(method, visits=10, ratio=ratio).bias)
        for name, (method, _) in methods.items()
    }
    rows = points(means, "r", "mean")
    ends = [row for row in rows if row["r"] == rows[-1]["r"]]
    ticks = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10]
    x = across(
        "r",
        "updates between two visits, on average",
        [0.05, 10],
        log=True,
        values=ticks,
        format="~g",
    )
    y = upward("mean", "mean estimate / true rate", [0, 1.2], values=[0, 0.25, 0.5, 0.75, 1])
    colour = colours("name", {name: paint for name, (_, paint) in methods.items()})
    right = marks([{"mean": 1}], width=WIDTH, height=250).mark_rule(color="#999", strokeDash=[4, 3])
    curves = marks(rows).mark_line(strokeWidth=2.5).encode(x=x, y=y, color=colour)
    return finished(
        right.encode(y=y) + curves + words(ends, x, y, "name", colour, align="left", dx=8),
        "What the gaps lose",
        "Ten visits to a Poisson source, exactly computed. Without dates there is a limit to what"
        " any correction can bring back.",
    )
