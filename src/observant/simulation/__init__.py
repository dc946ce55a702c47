"""What would a policy have achieved? Replays of what really happened, budget-matched.

`simulate` runs policies over a `Trace` of updates, each seeing exactly what it would have seen in
the field, and accounts for the truth. `replay` and `account` are its two halves, `World` is what
they share, and `WorldVisits` is what goes from one to the other.

`observe` visits a trace and gives the visit log; `compare_estimators` says how far the rates that
estimators make of a log are from the truth.
"""

from observant.simulation.comparison import PolicyComparison, PolicyResult, simulate, world_of
from observant.simulation.estimators import EstimatorComparison, compare_estimators, observe
from observant.simulation.outcomes import Score, account
from observant.simulation.policies import Clairvoyant, Estimating, UniformPolicy, named, names
from observant.simulation.replay import replay
from observant.simulation.world import World, WorldVisits

__all__ = [
    "Clairvoyant",
    "Estimating",
    "EstimatorComparison",
    "PolicyComparison",
    "PolicyResult",
    "Score",
    "UniformPolicy",
    "World",
    "WorldVisits",
    "account",
    "compare_estimators",
    "named",
    "names",
    "observe",
    "replay",
    "simulate",
    "world_of",
]
