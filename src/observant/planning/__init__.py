"""How often is each source visited, and which is next?

`plan` divides a visiting budget over the sources of a collection: the exact optimum for what you
want (`objectives`), under caps and limits. `access_importance` says what a source is worth, from
how often it is asked for.

>>> best = plan([0.1, 1.0, 10.0], budget=2.0, source=["slow", "middle", "fast"])
>>> print(best)
source     visits   period       α
slow      1/1.85d    1.85d  0.9131
middle     1.46/d    16.5h  0.7237
fast            0    never  0.0000
"""

from observant.planning.allocation import BudgetCurve, Plan, plan
from observant.planning.importance import AccessTable, access_importance, count_accesses
from observant.planning.objectives import (
    OBJECTIVES,
    Currency,
    Custom,
    Delay,
    DetectedChanges,
    Freshness,
    Harmonic,
    Objective,
    OldestMissed,
    PosteriorMean,
    RenewalObjective,
    objective,
)

__all__ = [
    "OBJECTIVES",
    "AccessTable",
    "BudgetCurve",
    "Currency",
    "Custom",
    "Delay",
    "DetectedChanges",
    "Freshness",
    "Harmonic",
    "Objective",
    "OldestMissed",
    "Plan",
    "PosteriorMean",
    "RenewalObjective",
    "access_importance",
    "count_accesses",
    "objective",
    "plan",
]
