"""Which visits ask for the whole page although the server knows conditional requests.

What is learned of a host's honesty (`transport.Honesty`) is shared by its sources: audits are
frequent on a host that we hardly know, rare on one that has owned up to many changes; a host that
lied about one of its sources is not asked conditionally again.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from observant.observer.transport.conditional import Honesty

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Audits"]


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

    def wanted(self, host: str) -> bool:
        """Whether this visit is to be an audit."""
        return self._hosts.get(host, Honesty()).audit(self._chance)

    def told_truth(self, host: str) -> None:
        self._hosts.setdefault(host, Honesty()).told_truth()

    def lied(self, host: str) -> None:
        self._hosts.setdefault(host, Honesty()).lied()

    @property
    def lies(self) -> int:
        return sum(honesty.lies for honesty in self._hosts.values())

    def state(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        return {host: [honesty.truths, honesty.lies] for host, honesty in self._hosts.items()}

    def restore(self, state: Mapping[str, list[int]]) -> None:
        self._hosts = {
            host: Honesty(truths=truths, lies=lies) for host, (truths, lies) in state.items()
        }
