"""What an observer is doing, in numbers: for a terminal, for OpenMetrics, for a dashboard."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from observant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass
class Tally:
    """Counts that only grow, from the start of the observer."""

    outcomes: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    not_modified: int = 0
    seconds: float = 0.0
    """Time that visits took, added up."""
    refused: int = 0
    """Visits that the store did not take, since the lease was lost or the source removed."""
    outages: int = 0
    leaps: int = 0

    @property
    def visits(self) -> int:
        return self.outcomes.total()

    @property
    def changes(self) -> int:
        return sum(self.outcomes[name] for name in ("changed", "gone", "back"))


@dataclass(frozen=True)
class Status:
    """One look at an observer."""

    at: float
    sources: int
    visits: int
    changes: int
    failures: int
    visits_per_second: float
    """Over the last seconds of the real clock."""
    alpha: float
    """Expected share of copies (weighted with importance) that are current now."""
    alpha_low: float
    alpha_high: float
    alpha_planned: float
    """What the plan promises in the long run."""
    price: float
    """Λ: what a visit must be worth."""
    budget_per_day: float
    spent: float
    """Visits that the schedule has asked for."""
    lateness: float
    """Seconds by which due sources have been waiting, on average."""
    lateness_max: float
    next_due_at: float
    downloaders: int
    under_way: int
    backlog: int
    outage: bool
    lies: int
    unseen: int = 0
    """New sources that wait for their first visit, or are being visited."""
    store_away: bool = False
    """Whether the database is away, or held by somebody else, and the observer waits for it."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


_GAUGES = {
    "sources": "Sources that this observer watches.",
    "visits_per_second": "Visits per second, lately.",
    "alpha": "Expected share of copies that are current now, weighted with importance.",
    "alpha_low": "Lower end of the 95 % interval of alpha.",
    "alpha_high": "Upper end of the 95 % interval of alpha.",
    "alpha_planned": "Alpha that the plan promises in the long run.",
    "price": "What a visit must be worth to be made.",
    "budget_per_day": "Visits per day that may be made.",
    "lateness": "Seconds that due sources have waited, on average.",
    "lateness_max": "Seconds that the latest source has waited.",
    "next_due_at": "When the next source is due, seconds since 1970.",
    "downloaders": "Downloaders that are up.",
    "under_way": "Visits under way.",
    "backlog": "Due visits that wait for a downloader or for their host.",
    "unseen": "New sources that wait for their first visit.",
    "outage": "1 while our own network seems to be out.",
    "store_away": "1 while the store cannot be used, and the observer waits for it.",
}


class Metrics:
    """OpenMetrics of an observer, written to a file or served on loopback.

    `target` is a port (``9187``) or the name of a file.
    """

    def __init__(self, target: str, status: Callable[[], Status], tally: Tally) -> None:
        from prometheus_client import CollectorRegistry

        self._status, self._tally = status, tally
        self._file = None if target.isdecimal() else Path(target)
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._server: Any = None
        if self._file is None:
            self._serve(int(target))
        else:
            self.write()

    def collect(self) -> Iterator[Any]:
        """Yield the families of metrics, as the Prometheus client asks for them."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        status, tally = self._status(), self._tally
        for name, text in _GAUGES.items():
            value = float(getattr(status, name))
            yield GaugeMetricFamily(f"observant_{name}", text, value=value)
        for name, text, label, counts in (
            ("visits", "Visits by what they found.", "outcome", tally.outcomes),
            ("errors", "Visits that saw nothing, by why.", "error", tally.errors),
        ):
            family = CounterMetricFamily(f"observant_{name}", text, labels=[label])
            for which, count in sorted(counts.items()):
                family.add_metric([which], count)
            yield family
        for name, text, value in (
            ("changes", "Changes found.", tally.changes),
            ("spent", "Visits that the schedule has asked for.", status.spent),
            ("bytes", "Bytes on the wire.", tally.bytes),
            ("not_modified", "Visits that a server answered with 304.", tally.not_modified),
            ("visit_seconds", "Time that visits took.", tally.seconds),
            ("refused", "Visits that the store did not take.", tally.refused),
            ("lies", "Times a server was caught saying 304 falsely.", status.lies),
            ("outages", "Outages of our own network.", tally.outages),
            ("clock_leaps", "Leaps of the machine's clock.", tally.leaps),
        ):
            yield CounterMetricFamily(f"observant_{name}", text, value=float(value))

    def write(self) -> None:
        """Rewrite the file, whole or not at all."""
        if self._file is None:
            return
        from prometheus_client.openmetrics.exposition import generate_latest

        text: bytes = generate_latest(self._registry)  # type: ignore[no-untyped-call]
        draft = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        try:
            draft.write_bytes(text)
            draft.replace(self._file)
        except OSError as error:
            raise InputError(
                f"the metrics cannot be written: {error.strerror}", file=str(self._file)
            ) from error

    def close(self) -> None:
        self.write()
        if self._server is not None:
            server, thread = self._server
            server.shutdown()
            server.server_close()
            thread.join()

    def _serve(self, port: int) -> None:
        from prometheus_client import start_http_server

        try:
            self._server = start_http_server(port, addr="127.0.0.1", registry=self._registry)
        except (OSError, OverflowError) as error:
            raise InputError(f"the metrics cannot be served on port {port}: {error}") from error
