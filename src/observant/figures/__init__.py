"""Every figure once, as an Altair chart: for the command line, the documentation and the page.

A figure is a function that takes an answer (a table, a plan, an audit) and returns a chart. `save`
writes any of them as SVG, PNG, HTML or Vega-Lite JSON.
"""

from observant.figures.currency import audit_figure, budget_figure, currency_figure
from observant.figures.drift import rate_path_figure, reliability_figure
from observant.figures.intervals import interval_figure
from observant.figures.population import population_figure
from observant.figures.rates import rate_figure
from observant.figures.season import season_figure, visit_times_figure
from observant.figures.simulation import simulation_figure
from observant.figures.style import save
from observant.figures.trend import calendar_figure, trend_figure

__all__ = [
    "audit_figure",
    "budget_figure",
    "calendar_figure",
    "currency_figure",
    "interval_figure",
    "population_figure",
    "rate_figure",
    "rate_path_figure",
    "reliability_figure",
    "save",
    "season_figure",
    "simulation_figure",
    "trend_figure",
    "visit_times_figure",
]
