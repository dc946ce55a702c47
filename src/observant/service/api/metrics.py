"""For machines that watch the watcher: health, which needs nothing, and metrics."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from litestar import Request, Response, get
from litestar.openapi.datastructures import ResponseSpec

from observant.observer.metrics import Metrics, Status, Tally
from observant.service.api.routes import specs_of
from observant.service.collection import Collection
from observant.service.forms import GivenCollection
from observant.service.summaries import Health

if TYPE_CHECKING:
    from collections.abc import Iterator

spec = specs_of("monitoring")


_HEALTH = ThreadPoolExecutor(2, thread_name_prefix="observant-health")
"""Its own threads: whatever else is asked for, whoever watches over the service gets an answer."""


_WRONG = ResponseSpec(Health, description="Something is wrong.", generate_examples=False)


@get("/health", **spec("health", also={503: _WRONG}, sync_to_thread=None))
async def health(collection: GivenCollection) -> Response[Health]:
    """Say ok (200), or what is wrong (503); nothing secret."""
    found = await asyncio.get_running_loop().run_in_executor(_HEALTH, collection.health)
    return Response(found, status_code=200 if found.ok else 503)


@get("/metrics", **spec("metrics", media_type="text/plain"))
def metrics(request: Request[Any, Any, Any], collection: GivenCollection) -> Response[bytes]:
    """Numbers for Prometheus, as OpenMetrics where it is asked for."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import choose_encoder

    registry = CollectorRegistry()
    registry.register(_Numbers(collection))
    encode, kind = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(registry), headers={"content-type": kind})


class _Live(Metrics):
    """The metrics of an observer, without a file or port of their own."""

    def __init__(self, status: Status, tally: Tally) -> None:
        self._status, self._tally = (lambda: status), tally


class _Numbers:
    """What the store counts, and what the observer of this process does."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        collection = self._collection
        totals = collection.totals()
        sources = GaugeMetricFamily(
            "observant_store_sources", "Sources by their state.", labels=["state"]
        )
        for state, count in sorted(totals.by_state.items()):
            sources.add_metric([state], count)
        yield sources
        for name, text, value in (
            ("visits", "Visits in the store.", totals.visits),
            ("changes", "Changes in the store.", totals.changes),
            ("failures", "Failed visits in the store.", totals.failures),
        ):
            yield CounterMetricFamily(f"observant_store_{name}", text, value=float(value))
        for name, text, number in (
            ("pending_events", "Events that wait in the outbox.", totals.pending),
            ("snapshots", "Contents that are kept.", totals.snapshots),
            ("snapshot_bytes", "Bytes of kept contents.", totals.snapshot_bytes),
        ):
            yield GaugeMetricFamily(f"observant_store_{name}", text, value=float(number))
        status = collection.status()
        if status is not None and collection.observer is not None:
            yield from _Live(status, collection.observer.tally).collect()
