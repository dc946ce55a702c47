"""Is it them, or us? When many hosts fail at once, the network is out and no source is to blame.

Then nobody is visited but for a probe now and then, no source counts as failed, and the schedule
stays as it was. The first probe that is answered ends the outage. Probes come every quarter of the
time that it has lasted, so that a short outage is over soon after the network is back.
"""

from __future__ import annotations

from collections import deque

NETWORK_ERRORS = frozenset({"dns", "connect", "timeout"})
"""Errors that an outage of ours looks like."""

_HOSTS = 4
"""So many different hosts must fail in a row, with no answer from anybody in between."""
_MANY_HOSTS = 20
_SHORTEST_PAUSE, _LONGEST_PAUSE = 5.0, 60.0
_REMEMBERED = 1000


class Outage:
    """Watches the ends of visits.

    >>> outage = Outage(hosts=10)
    >>> [outage.note(f"host {k}", f"source {k}", "connect", now=k) for k in range(4)]
    [False, False, False, True]
    >>> outage.on, outage.suspects()
    (True, ['source 0', 'source 1', 'source 2', 'source 3'])
    >>> [outage.pause(now) for now in (3, 43, 1000)]
    [5.0, 10.0, 60.0]
    >>> outage.note("host 9", "source 9", None, now=1001), outage.on
    (False, False)
    """

    def __init__(self, hosts: int = 1) -> None:
        self.on = False
        self.hosts = hosts
        """How many hosts there are. With fewer than four, nobody can tell an outage from a dead
        host."""
        self.probe_at = 0.0
        """When the next probe is made."""
        self._since = 0.0
        self._failed: deque[tuple[str, str]] = deque(maxlen=_REMEMBERED)

    def note(self, host: str, source: str, error: str | None, now: float) -> bool:
        """Take in a visit that has ended; True if with it an outage begins."""
        if error not in NETWORK_ERRORS:
            # Any answer, a refusal too, shows that the network is there.
            self.on = False
            self._failed.clear()
            return False
        self._failed.append((host, source))
        if self.on or self.hosts < _HOSTS:
            return False
        different = len({failed for failed, _ in self._failed})
        self.on = different >= min(max(_HOSTS, self.hosts // 4), _MANY_HOSTS)
        self._since = now
        return self.on

    def pause(self, now: float) -> float:
        """Seconds from one probe to the next, by how long the outage has lasted."""
        return min(max((now - self._since) / 4, _SHORTEST_PAUSE), _LONGEST_PAUSE)

    def suspects(self) -> list[str]:
        """The sources that failed in the run of failures: not theirs, as we now think."""
        return list(dict.fromkeys(source for _, source in self._failed))
