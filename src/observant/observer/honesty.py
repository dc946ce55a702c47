"""How far servers are believed: when they say "not modified", and when they say since when.

What is learned of a host's honesty (`transport.Honesty`) is shared by its sources: audits (visits
that ask for the whole page although the server knows conditional requests) are frequent on a host
that we hardly know, rare on one that has owned up to many changes; a host that lied about one of
its sources is not asked conditionally again.

The dates of a source (Last-Modified) are held against its content: `Dates` counts.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import msgspec

from observant.observer.transport.conditional import Honesty

if TYPE_CHECKING:
    from collections.abc import Mapping

    from observant.observer.fetched import Fetched
    from observant.store.visit import Comparison, Previous


class Audits:
    """The honesty of every host.

    >>> audits = Audits()
    >>> audits.lied("a.example")
    >>> audits.wanted("a.example"), audits.lies
    (True, 1)
    """

    def __init__(self, seed: int = 0) -> None:
        self._chance = random.Random(seed)  # noqa: S311
        self._hosts: dict[str, Honesty] = {}
        self._kept: dict[str, Any] = {}

    def wanted(self, host: str) -> bool:
        """Whether this visit is to be an audit."""
        return self._hosts.get(host, Honesty()).audit(self._chance)

    def caught(self, host: str) -> bool:
        """Whether a lie of this host is known: there is nothing more to find out."""
        return host in self._hosts and self._hosts[host].lies > 0

    def told_truth(self, host: str) -> None:
        self._hosts.setdefault(host, Honesty()).told_truth()

    def lied(self, host: str) -> None:
        self._hosts.setdefault(host, Honesty()).lied()

    def found_same(self, host: str) -> None:
        """An audit found no change: "not modified" would have been true."""
        self._hosts.setdefault(host, Honesty()).found_same()

    @property
    def lies(self) -> int:
        return sum(honesty.lies for honesty in self._hosts.values())

    def state(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        return {host: [h.truths, h.lies, h.quiet] for host, h in self._hosts.items()}

    def joined(self, kept: Any) -> dict[str, Any]:
        """What is kept of all hosts, with what was found out here since `restore`.

        The hosts of other observers stay as they have left them.
        """
        own = self.state()
        news = {host: row for host, row in own.items() if row != self._kept.get(host)}
        return (kept if isinstance(kept, dict) else {}) | news

    def restore(self, state: Mapping[str, list[float]]) -> None:
        """Take up what `state` told; `quiet` is missing in what older versions kept."""
        self._hosts = {
            host: Honesty(truths=int(truths), lies=int(lies), quiet=sum(quiet))
            for host, (truths, lies, *quiet) in state.items()
        }
        self._kept = self.state()


class Dates(msgspec.Struct, array_like=True):
    """Whether the dates of one source are true, as far as its content could show.

    A date is borne out when it moves with a change, into the time since the visit before, and when
    it stays while the content stays. It is refuted when only one of the two moves: some servers
    say "just now" to everybody, others know the date of a template. One refuted date, and no other
    is believed.

    >>> Dates(moved=2, stayed=1).believed, Dates(moved=2, stayed=1, refuted=1).believed
    (True, False)
    """

    moved: int = 0
    stayed: int = 0
    refuted: int = 0

    @property
    def believed(self) -> bool:
        return self.moved >= 2 and self.stayed >= 1 and not self.refuted

    def after(self, previous: Previous, fetched: Fetched, found: Comparison) -> Dates:
        """The same after this visit."""
        before, now = previous.last_modified, fetched.last_modified
        if previous.visited_at is None or fetched.not_modified or found.outcome not in _COMPARED:
            return self
        if now is None:
            return self if before is None else Dates(self.moved, self.stayed, self.refuted + 1)
        # Dates are whole seconds, cut off.
        fresh = now + 1.0 > previous.visited_at and now <= fetched.started_at
        if found.outcome == "changed":
            step = (1, 0, 0) if fresh else (0, 0, 1)
        elif before is not None and abs(now - before) < 1.0:
            step = (0, 1, 0)
        else:
            step = (0, 0, int(before is not None or fresh))
        return Dates(self.moved + step[0], self.stayed + step[1], self.refuted + step[2])

    def age(self, previous: Previous, fetched: Fetched, found: Comparison) -> float | None:
        """How many seconds before this visit the change was that it found, if that is believed."""
        modified, last = fetched.last_modified, previous.visited_at
        if modified is None or last is None or not self.believed or found.outcome != "changed":
            return None
        return fetched.started_at - modified if last < modified <= fetched.started_at else None


_COMPARED = frozenset({"same", "changed"})
