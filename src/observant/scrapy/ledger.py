"""What a crawl leaves behind for the next one: visits, and what is due."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observant.observer.fetched import Fetched
    from observant.scrapy.settings import AddonSettings

log = logging.getLogger("observant.scrapy")

_PATIENCE = 10
"""Batches that may wait."""


class Due(NamedTuple):
    """A source to be visited."""

    source: str
    url: str
    callback: str = ""
    """Who parsed it last time: the name of a method of the spider, empty for ``parse``."""


class Ledger(Protocol):
    """Keeps visits, and says what is due. Used from one thread."""

    def due(self, now: float) -> Iterator[Due]:
        """The sources whose time has come, longest due first."""
        ...

    def is_due(self, source: str, now: float) -> bool:
        """Whether a source may be visited now; one that is not known always may."""
        ...

    def record(self, source: str, fetched: Fetched, callback: str = "") -> None:
        """Keep a visit; it is written with the next batch."""
        ...

    def flush(self) -> None:
        """Write all that waits."""
        ...

    def close(self) -> None:
        """Write all that waits, and end."""
        ...


def give_up_oldest(waiting: list[Any], settings: AddonSettings) -> None:
    """Visits that cannot be written wait, but not for ever: of too many the oldest are lost."""
    too_many = len(waiting) - _PATIENCE * settings.batch
    if too_many > 0:
        del waiting[:too_many]
        log.error("%d visits were given up", too_many)


def open_ledger(settings: AddonSettings, now: float) -> Ledger:
    """The ledger that the settings ask for: a store, or a file of visits.

    >>> import tempfile
    >>> from observant.observer.fetched import Fetched
    >>> from observant.scrapy.settings import AddonSettings
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     chosen = {"OBSERVANT_VISITS": f"{folder}/v.jsonl", "OBSERVANT_BUDGET": "1/day"}
    ...     ledger = open_ledger(AddonSettings.read(chosen), now=1e9)
    ...     ledger.record("x:", Fetched(url="x:", status=200, body=b"one", started_at=1e9))
    ...     ledger.close()
    ...     again = open_ledger(AddonSettings.read(chosen), now=1e9 + 3600)
    ...     [list(again.due(1e9 + 3600)), [due.source for due in again.due(1e9 + 90_000)]]
    [[], ['x:']]
    """
    if settings.store is not None:
        from observant.scrapy.store_ledger import StoreLedger

        return StoreLedger(settings, now)
    from observant.scrapy.file_ledger import FileLedger

    return FileLedger(settings)
