"""Singh's tables and figure 1: which estimator fits a window best, and foretells best?

The paper's own data are gone, so the same experiments are run on made-up sources of three kinds
and, given a folder, on real traces.
"""

from observant.papers.singh.best_fit import figure_1, table_2, table_3, wins
from observant.papers.singh.data import READINGS, datasets, histories, table_1
from observant.papers.singh.predictions import next_update, table_4

__all__ = [
    "READINGS",
    "datasets",
    "figure_1",
    "histories",
    "next_update",
    "table_1",
    "table_2",
    "table_3",
    "table_4",
    "wins",
]
