"""The prior that all observers of a store share: how often its sources change.

It is learned anew whenever the visits, ours or those of all, have doubled.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from observant.estimation.priors import Prior
from observant.planning.schedule.learning import SAMPLE, learn_prior
from observant.store import SHARDS

if TYPE_CHECKING:
    from observant.observer.fleet import BudgetShare
    from observant.observer.shards import Shards
    from observant.observer.watchlist import Watchlist

log = logging.getLogger("observant.observer")

_SETTING = "observer.prior"


class SharedPrior:
    """Learns the prior from the sources of this observer and of the others, and keeps it."""

    def __init__(self, shards: Shards, watchlist: Watchlist, budget: BudgetShare) -> None:
        self._store, self._patience = watchlist.store, watchlist.patience
        self._shards, self._watchlist, self._budget = shards, watchlist, budget
        self._learned_from = 0.0
        """Visits of all observers that the prior knows."""

    @property
    def is_old(self) -> bool:
        """Whether the visits, ours or those of all, have doubled since the prior was learned."""
        schedule = self._watchlist.schedule
        all_of_them = not self._shards.alone and self._budget.visits > 2 * self._learned_from
        return len(schedule) > 0 and (all_of_them or schedule.wants_to_learn)

    async def learn(self) -> None:
        """Learn how rates are distributed here, and tell the store what follows for each source."""
        watchlist = self._watchlist
        if watchlist.firsts_only:
            return
        schedule, elsewhere = watchlist.schedule, ()  # type: Any, Any
        self._learned_from = self._budget.visits
        if not self._shards.alone:
            elsewhere = await self._patience.call(self._seen_elsewhere)
        lesson = schedule.lesson(*elsewhere)
        try:
            learned = await asyncio.to_thread(learn_prior, lesson)
        except Exception:  # the priors of before will do
            log.exception("the priors could not be learned")
            return
        if schedule is watchlist.schedule:  # somebody may have changed the objective meanwhile
            schedule.take_in(learned)
            await watchlist.settle()
            await self._patience.call(self.save)
            await watchlist.write_rates()

    def _seen_elsewhere(self) -> tuple[list[bytes], int]:
        """What the sources of other observers have shown."""
        one_in = max(-(-self._store.sources.count() // SAMPLE), 1)
        shards = set(range(SHARDS)) - set(self._shards)
        return self._store.sources.sampled_likelihoods(shards, one_in), one_in

    def restore(self, settings: dict[str, Any]) -> None:
        """Take up what was kept."""
        if _SETTING in settings:
            self._watchlist.schedule.restore_prior(Prior.restore(settings[_SETTING]))

    def save(self) -> None:
        """Keep it in the store."""
        own = self._watchlist.schedule.prior.state()
        hosts = self._watchlist.hosts()

        def join(kept: Any) -> Any:
            """The groups of other observers stay as they have left them."""
            if isinstance(kept, dict) and not self._shards.alone:
                theirs = kept.get("groups", {}).items()
                others = {name: row for name, row in theirs if name.split("/")[0] not in hosts}
                return own | {"groups": others | own["groups"]}
            return own

        self._store.settings.change(_SETTING, join)
