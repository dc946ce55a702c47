"""Li, Cline and Loguinov, *Temporal Update Dynamics Under Blind Sampling*.

Figures 5 to 10, 13, 15 and 16, and tables I and II, on simulated sources; figures 17 to 21 and
tables III to VI on real traces; and the Poisson test of VII.A.
"""

from observant.papers import poisson_test
from observant.papers.li import articles
from observant.papers.li import convergence as tables
from observant.papers.li import methods as figures
from observant.papers.li import real_traces as traces

__all__ = ["articles", "figures", "poisson_test", "tables", "traces"]
