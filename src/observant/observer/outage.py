"""Is it them, or us? When many hosts fail at once, the network is out and no source is to blame.

Then nobody is visited but for a probe now and then, no source counts as failed, and the schedule
stays as it was. The first probe that is answered ends the outage.
"""

from __future__ import annotations

from collections import deque

__all__ = ["NETWORK_ERRORS", "Outage"]

NETWORK_ERRORS = frozenset({"dns", "connect", "timeout"})
"""Errors that an outage of ours looks like."""

_HOSTS = 4
"""So many different hosts must fail in a row, with no answer from anybody in between."""
_MANY_HOSTS = 20
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 120.0
_REMEMBERED = 1000


class Outage:
    """Watches the ends of visits.

    >>> outage = Outage(hosts=10)
    >>> [outage.note(f"host {k}", f"source {k}", "connect") for k in range(4)]
    [False, False, False, True]
    >>> outage.on, outage.suspects()
    (True, ['source 0', 'source 1', 'source 2', 'source 3'])
    >>> outage.note("host 9", "source 9", None), outage.on
    (False, False)
    """

    def __init__(self, hosts: int = 1) -> None:
        self.on = False
        self.hosts = hosts
        """How many hosts there are. With fewer than four, nobody can tell an outage from a dead
        host."""
        self.pause = _FIRST_PAUSE
        """Seconds to the next probe."""
        self._failed: deque[tuple[str, str]] = deque(maxlen=_REMEMBERED)

    def note(self, host: str, source: str, error: str | None) -> bool:
        """Take in the end of a visit; True if with it an outage begins."""
        if error not in NETWORK_ERRORS:
            # Any answer, a refusal too, shows that the network is there.
            self.on = False
            self.pause = _FIRST_PAUSE
            self._failed.clear()
            return False
        self._failed.append((host, source))
        if self.on:
            self.pause = min(2 * self.pause, _LONGEST_PAUSE)
            return False
        if self.hosts < _HOSTS:
            return False
        different = len({failed for failed, _ in self._failed})
        self.on = different >= min(max(_HOSTS, self.hosts // 4), _MANY_HOSTS)
        return self.on

    def suspects(self) -> list[str]:
        """The sources that failed in the run of failures: not theirs, as we now think."""
        return list(dict.fromkeys(source for _, source in self._failed))
