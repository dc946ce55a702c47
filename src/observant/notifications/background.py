"""Telling beside observing: what `observant run` and `observant serve` start with an observer.

async with notifying(store, config, observer=observer):
    await run_observer(observer)
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from observant.notifications.alarms import Alarms, silences
from observant.notifications.delivery import Deliverer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from observant.observer.clock import Clock
    from observant.observer.config import Config
    from observant.observer.loop import Observer
    from observant.store import Store

__all__ = ["notifying"]

log = logging.getLogger("observant.notifications")

_LOOK = 60.0
"""Seconds of the clock between two looks at the observer."""
_ROUND = 3600.0
"""Seconds of the clock between two rounds over silent sources and old events."""
_ENDING = 20.0
_LAST_WORDS = 5.0


@asynccontextmanager
async def notifying(
    store: Store, config: Config, *, observer: Observer | None = None, clock: Clock | None = None
) -> AsyncIterator[Deliverer]:
    """Deliver events as long as the block runs, and what its last visits caused at its end.

    With an observer its lateness and budget are watched too.
    """
    clock = clock or (observer.clock if observer is not None else None)
    deliverer = Deliverer(store, config, clock=clock)
    stop = asyncio.Event()
    tasks = [
        asyncio.create_task(deliverer.run(stop)),
        asyncio.create_task(_keep_watch(deliverer, observer, stop)),
    ]
    try:
        yield deliverer
    finally:
        stop.set()
        _, late = await asyncio.wait(tasks, timeout=_ENDING)
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            async with asyncio.timeout(_LAST_WORDS):
                await deliverer.deliver_due()
        except TimeoutError:
            log.info("events wait for the next start")
        except Exception:
            log.exception("the last events could not be delivered")
        finally:
            await deliverer.close()


async def _keep_watch(deliverer: Deliverer, observer: Observer | None, stop: asyncio.Event) -> None:
    """Look at the observer now and then, and at silent sources and old events more rarely."""
    store, clock = deliverer.store, deliverer.clock
    alarms = Alarms(store, deliverer.config.notify, "" if observer is None else observer.name)
    next_round = clock.time() + _LOOK
    while True:
        try:
            await asyncio.wait_for(stop.wait(), _LOOK / clock.speed)
        except TimeoutError:
            pass
        else:
            return
        try:
            if observer is not None:
                await asyncio.to_thread(alarms.look, observer.status())
            if clock.time() >= next_round:
                next_round = clock.time() + _ROUND
                await asyncio.to_thread(_round, deliverer)
        except Exception:  # a fault here must not end the telling
            log.exception("the alarms could not be looked at")


def _round(deliverer: Deliverer) -> None:
    notify, now = deliverer.config.notify, deliverer.clock.time()
    silences(deliverer.store, notify.overdue, now)
    deliverer.store.outbox.prune(before=now - notify.seconds("keep"))
