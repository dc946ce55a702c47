"""Figures of the dashboard: a collection at a glance, one source in time, a plan before it is made.

Each is one panel that fits the width it is given, without a title: the page has one.
"""

from observant.figures.dashboard.basics import spec_of
from observant.figures.dashboard.overview import (
    activity_figure,
    ages_figure,
    change_ratio_figure,
    links_figure,
    mean_times_figure,
    performance_figure,
    week_figure,
)
from observant.figures.dashboard.plan import (
    budgets_figure,
    hours_figure,
    plan_figure,
    rivals_figure,
)
from observant.figures.dashboard.source import (
    attributes_figure,
    correlation_figure,
    magnitude_figure,
    posterior_figure,
    rate_history_figure,
    timeline_figure,
)

__all__ = [
    "activity_figure",
    "ages_figure",
    "attributes_figure",
    "budgets_figure",
    "change_ratio_figure",
    "correlation_figure",
    "hours_figure",
    "links_figure",
    "magnitude_figure",
    "mean_times_figure",
    "performance_figure",
    "plan_figure",
    "posterior_figure",
    "rate_history_figure",
    "rivals_figure",
    "spec_of",
    "timeline_figure",
    "week_figure",
]
