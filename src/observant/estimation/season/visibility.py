"""What the visits can show of a season, and what they hide.

A window of a whole day holds every hour once, whenever it began: it says nothing about hours. So
visits at the same hour every day see no hours, and visits a week apart see no weekdays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from observant.estimation.season.shape import Likelihood, ObservedWindows

__all__ = ["doubts", "visible_share"]

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
