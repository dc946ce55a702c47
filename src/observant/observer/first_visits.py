"""First visits: new sources are looked at at once, outside the budget.

Nothing is known of a source before its first visit, so no plan can be made for it, and whoever has
added it wants to see that it works. Hosts are asked more quickly for these visits (a quarter of the
usual pause, see `Host.pause`), and never by two at a time.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class FirstVisits:
    """Who was never visited: those that wait for it, and those that are being visited.

    >>> firsts = FirstVisits(most=2)
    >>> for name in ("a", "b", "c"):  # one too many: it waits for the schedule
    ...     firsts.note(name)
    >>> list(firsts.take(1)), len(firsts)
    (['a'], 2)
    >>> firsts.done("a")
    >>> len(firsts), firsts.made
    (1, 1)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: dict[str, None] = {}
        self._under_way: set[str] = set()
        self.made = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way)

    def __contains__(self, name: str) -> bool:
        return name in self._under_way

    def note(self, name: str) -> None:
        """A source that was never visited is watched now."""
        if len(self) < self._most and name not in self._under_way:
            self._waiting[name] = None

    def take(self, most: int) -> Iterator[str]:
        """Begin with some of them."""
        for name in list(islice(self._waiting, max(most, 0))):
            del self._waiting[name]
            self._under_way.add(name)
            yield name

    def done(self, name: str) -> None:
        """It was visited, whatever came of it, or is watched no more."""
        self._waiting.pop(name, None)
        if name in self._under_way:
            self._under_way.remove(name)
            self.made += 1
