"""Every figure once, as an Altair chart: for the command line, the documentation and the page.

A figure is a function that takes an answer (a table, a plan, an audit) and returns a chart. `save`
writes any of them as SVG, PNG, HTML or Vega-Lite JSON.
"""

from observant.figures.currency import audit_figure, budget_figure, currency_figure
from observant.figures.population import population_figure
from observant.figures.rates import rate_figure
from observant.figures.style import save

__all__ = [
    "audit_figure",
    "budget_figure",
    "currency_figure",
    "population_figure",
    "rate_figure",
    "save",
]
