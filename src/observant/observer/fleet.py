"""One price for a fleet: how observers of one store divide its budget.

Hosts differ a thousandfold in what is behind them, so an equal share of the shards is no equal
share of the work. Every observer publishes an `Offer`, five numbers, with each sign of life: what
it spends, the price of a visit there, how quickly less is spent where the price rises, how many
sources were never visited, and how many visits were made. From the offers of all, each finds the
one price at which all together spend the budget, and takes what it would spend at that price. So a
visit is worth the same everywhere, which is what one observer of everything would see to.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from observant.planning.schedule.price import EXTREME
from observant.store import SHARDS
from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from observant.observer.shards import Shards
    from observant.observer.spot_checks import SpotChecks
    from observant.observer.watchlist import Watchlist

_STEP = math.log(2.0)
"""What an observer spends at most doubles, or halves, from one exchange to the next."""
_LEAST = 1e-6
"""Share of the budget that every observer has: nothing is known of a visit that is never made."""


class Offer(NamedTuple):
    """What one observer says to the others."""

    spends: float
    """Visits a day that its known sources have at its price."""
    price: float
    elasticity: float
    """By how many per cent its visits fall where the price rises by one."""
    new: float = 0.0
    """Cost of visits to sources that were never visited."""
    visits: float = 0.0
    """Made so far: the prior is learned anew when those of all have doubled."""

    @classmethod
    def of(cls, detail: dict[str, Any]) -> Offer | None:
        """The offer that an observer has published, if it has."""
        given = detail.get("offer")
        try:
            offer = cls(*map(float, given))  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return None
        sound = all(0 < x < math.inf for x in offer[:3])
        sound = sound and all(0 <= x < math.inf for x in offer[3:])
        return offer if sound else None

    def at(self, log_price: float) -> float:
        """What it would spend at another price; at most a step away."""
        change = -self.elasticity * (log_price - math.log(self.price))
        return self.spends * math.exp(min(max(change, -_STEP), _STEP))


class Share(NamedTuple):
    """What one observer has of the budget."""

    budget: float
    """Visits a day."""
    spends: float
    """The same when no source is new, for its next offer."""
    price: float


def divide(own: Offer, others: Iterable[Offer], budget: float, days: float) -> Share:
    """Our share of the budget (visits a day) until the next exchange, in so many days.

    New sources come first, wherever they are; the rest goes by the price.

    >>> busy, idle = Offer(10.0, 0.3, 1.0), Offer(10.0, 0.2, 1.0)
    >>> share = divide(busy, [idle], budget=20.0, days=1.0)
    >>> round(share.spends, 3), round(share.price, 3)  # 3 : 2, as the prices were
    (12.0, 0.25)
    >>> round(divide(idle, [busy], budget=20.0, days=1.0).spends, 3)
    8.0
    """
    offers = [own, *others]
    logs = [math.log(offer.price) for offer in offers]
    low, high = min(logs) - 2 * _STEP, max(logs) + 2 * _STEP
    for _ in range(60):
        middle = 0.5 * (low + high)
        if sum(offer.at(middle) for offer in offers) > budget:
            low = middle
        else:
            high = middle
    wanted = [max(offer.at(0.5 * (low + high)), _LEAST * budget) for offer in offers]
    spends = budget * wanted[0] / sum(wanted)
    new = sum(offer.new for offer in offers)
    first = min(new / (budget * days), 1.0) if new else 0.0
    granted = first * budget * own.new / new + (1 - first) * spends if new else spends
    # Our own sources know best what they are worth at another spending than the one we offered.
    reached = math.log(own.price) - math.log(spends / own.spends) / own.elasticity
    price = math.exp(min(max(reached, -EXTREME), EXTREME))
    return Share(max(granted, _LEAST * budget), spends, price)


class BudgetShare:
    """The part of one observer in the budget that all observers of a store have together."""

    def __init__(self, shards: Shards, watchlist: Watchlist, spot_checks: SpotChecks) -> None:
        self._shards, self._watchlist, self._spot_checks = shards, watchlist, spot_checks
        self._total = 0.0
        """The budget of all, as we have taken it up."""
        self.offer: Offer | None = None
        """What we have said last."""
        self.visits = 0.0
        """Those that all observers have made together."""

    def begin(self, held: int) -> None:
        """Begin with the part of so many shards; `exchange` then finds one price for all.

        A small share of the budget goes into spot checks.
        """
        config, schedule = self._watchlist.config, self._watchlist.schedule
        checks = config.spot_checks_per_day
        total = config.budget_per_day - checks
        begins = self._shards.alone or not self._shards
        part = held / SHARDS if begins else schedule.spends / self._total
        self._total = total
        schedule.set_budget(total * part)
        per_day = checks * held / SHARDS / self._watchlist.mean_cost()
        self._spot_checks.set_rate(per_day, self._watchlist.clock.time())

    async def exchange(self, seconds: float) -> None:
        """Find the price of a visit together with the other observers, and spend what is worth it
        here, until we ask again after so many seconds.
        """
        if (self._shards.alone and self.offer is None) or not self._shards:
            return
        schedule = self._watchlist.schedule
        own = self.offer = schedule.offer() if len(schedule) else None
        others = await self._shards.exchange(own)
        if own is None or schedule is not self._watchlist.schedule:
            return
        theirs = [offer for row in others if (offer := Offer.of(row.detail))]
        self.visits = sum(offer.visits for offer in (own, *theirs))
        days = seconds * self._watchlist.clock.speed / DAY
        schedule.take(divide(own, theirs, self._total, days))
        if self._shards.alone and not theirs:  # all of it is ours: nobody needs to know
            self.offer = None
