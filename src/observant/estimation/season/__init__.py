"""At which hours does a source change? The season of a day or a week, from visits.

`estimate_seasons` finds the shape of the season for a group of sources, and the level of each. A
`Season` then says how fast the source's own time runs, at any moment.
"""

from observant.estimation.season.table import Season, Seasons, estimate_seasons
from observant.estimation.season.wall_clock import BINS, WallClock

__all__ = ["BINS", "Season", "Seasons", "WallClock", "estimate_seasons"]
