"""What a plan achieves whose sources are not held: totals, in the words of `planning.Plan`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from observant.planning.allocation import key_figures

if TYPE_CHECKING:
    from observant.batch.sketch import Priced

__all__ = ["PlanTotals", "totals_of"]


@dataclass(frozen=True, eq=False, kw_only=True)
class PlanTotals:
    """What a plan costs and achieves over all its sources; see `observant.planning.Plan`."""

    price: float
    collection_alpha: float
    alpha_error: float
    uniform_alpha: float
    penalty: float
    budget: float
    spent: float
    objective: str
    sources: int
    starved: int
    passes: int
    """How often the sources were added up to settle the price."""

    def summary(self) -> dict[str, Any]:
        """The plan in a few numbers."""
        return {
            **key_figures(self, self.sources, self.starved),
            "penalty": self.penalty,
            "passes": self.passes,
        }


def totals_of(found: Priced, objective: str) -> dict[str, Any]:
    """The fields of `PlanTotals` for a plan at the price that was found."""
    sums = found.sums
    return {
        "price": found.price,
        "collection_alpha": sums.alpha / sums.importance,
        "alpha_error": sums.doubt.error,
        "uniform_alpha": sums.uniform_alpha / sums.importance,
        "penalty": sums.penalty / sums.importance,
        "budget": found.budget,
        "spent": sums.spent,
        "objective": objective,
        "sources": sums.sources,
        "starved": sums.starved,
        "passes": found.passes,
    }
