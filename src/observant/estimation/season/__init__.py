"""At which hours does a source change? The season of a day or a week, from visits.

`seasonal_rates` finds the shape of the season for a group of sources, and the level of each. A
`Season` then says how fast the source's own time runs, at any moment.
"""

from observant.estimation.season.clock import BINS, Clock
from observant.estimation.season.rates import Season, Seasons, seasonal_rates

__all__ = ["BINS", "Clock", "Season", "Seasons", "seasonal_rates"]
