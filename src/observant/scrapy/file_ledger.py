"""Visits in a JSON Lines file, and what is due by a plan or by the visits themselves.

The file is a visit log like any other (`observant estimate visits.jsonl`). It is only ever appended
to, a batch at a time and under a lock, so that a spider that is killed loses its last batch and
nothing else, and several spiders may write one file.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from observant.errors import EstimationError, InputError, ObservantError
from observant.observer.content import Comparer
from observant.scrapy.ledger import Due, give_up_oldest
from observant.times import DAY, MICROSECONDS, utc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observant.observer.fetched import Fetched
    from observant.scrapy.settings import AddonSettings

log = logging.getLogger("observant.scrapy")

_FEW = 20_000
"""Of more sources than this, the plan takes the rate of each, not all that is known of it: averages
over 200,000 posteriors take most of a minute, and a spider is waiting."""


class FileLedger:
    """A file of visits. What is due is found when it is opened, and told anew by each visit."""

    def __init__(self, settings: AddonSettings) -> None:
        assert settings.visits is not None  # noqa: S101 - open_ledger has looked
        self._settings, self._path = settings, Path(settings.visits)
        self._comparer = Comparer(settings.rules)
        self._waiting: list[str] = []
        self._known: dict[str, tuple[float, str]] = {}
        """Of each source, when it is due and who parses it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        _mend_tail(self._path)
        if settings.decides:
            self._find_due()

    def due(self, now: float) -> Iterator[Due]:
        names = [name for name, (due_at, _) in self._known.items() if due_at <= now]
        names.sort(key=lambda name: self._known[name][0])
        for name in names[: self._settings.most]:
            yield Due(name, name, self._known[name][1])

    def is_due(self, source: str, now: float) -> bool:
        known = self._known.get(source)
        return known is None or known[0] <= now

    def record(self, source: str, fetched: Fetched, callback: str = "") -> None:
        row: dict[str, Any] = {"source": source, "time": _instant(fetched.started_at)}
        if fetched.not_modified:
            row |= {"changed": False, "status": 304}
        else:
            found = self._comparer.compare(None, fetched)
            # What cannot be read was not seen, whatever the server says.
            row["status"] = 0 if found.error == "content" else fetched.status
            if found.digest_text is not None:
                row["digest"] = f"hex:{found.digest_text.hex()}"
                if fetched.last_modified is not None:
                    row["last_modified"] = _instant(fetched.last_modified)
        row["bytes"] = fetched.wire_bytes
        if callback:
            row["callback"] = callback
        self._waiting.append(json.dumps(row, ensure_ascii=True))
        if len(self._waiting) >= self._settings.batch:
            self.flush()

    def flush(self) -> None:
        if not self._waiting:
            return
        data = ("\n".join(self._waiting) + "\n").encode("ascii")
        try:
            with self._path.open("ab", buffering=0) as file, _locked(file):
                file.write(data)
        except OSError as error:
            log.error("visits could not be written to %s: %s", self._path, error)  # noqa: TRY400
            give_up_oldest(self._waiting, self._settings)
            return
        self._waiting.clear()

    def close(self) -> None:
        self.flush()

    # -- what is due -----------------------------------------------------------------------------

    def _find_due(self) -> None:
        last = self._last_visits()
        if self._settings.plan is not None:
            periods = _periods_of_plan(self._settings.plan)
            for name in periods.keys() - last.keys():
                last[name] = (-math.inf, "")  # planned, and never visited
        else:
            periods = self._periods_of_visits(len(last)) if last else {}
        for name, (at, callback) in last.items():
            period = periods.get(name, 0.0)
            limit = max(self._settings.min_period, self._settings.max_period)
            period = min(max(period, self._settings.min_period), limit)
            self._known[name] = (at + period * DAY, callback)

    def _last_visits(self) -> dict[str, tuple[float, str]]:
        """Of each source, when it was visited last and who parsed it."""
        from observant.formats import read_batches
        from observant.visits.columns import plain_column, text_in, times_in

        last: dict[str, tuple[float, str]] = {}
        if not self._path.exists() or not self._path.stat().st_size:
            return last
        for batch in read_batches(self._path, ("source", "time", "callback")):
            names = batch.schema.names
            if "source" not in names or "time" not in names:
                raise InputError("is no visit log of observant", file=str(self._path))
            sources = text_in(plain_column(batch.column("source")), "source").to_pylist()
            times = times_in(plain_column(batch.column("time")), "time") / MICROSECONDS
            callbacks: list[Any] = [None] * len(sources)
            if "callback" in names:
                callbacks = batch.column("callback").to_pylist()
            for source, at, callback in zip(sources, times.tolist(), callbacks, strict=True):
                if at >= last.get(source, (-math.inf, ""))[0]:
                    last[source] = (at, callback or "")
        return last

    def _periods_of_visits(self, count: int) -> dict[str, float]:
        """The optimal periods for the budget, by what the visits so far have shown."""
        from observant.estimation.rates import estimate_rates
        from observant.formats import read_visits
        from observant.planning import plan

        budget = self._settings.budget or 0.0
        options: dict[str, Any] = {
            "budget": budget,
            "objective": self._settings.objective,
            "grace": self._settings.grace,
            "min_period": self._settings.min_period,
            "max_period": self._settings.max_period,
        }
        try:
            visits = read_visits(self._path, on_duplicate="last", evidence_only=True)
            names = visits.sources.to_pylist()
            try:
                rates = estimate_rates(visits, "pooled")
                few = len(rates) <= _FEW
                best = plan(rates if few else rates.rate_per_day, source=names, **options)
            except EstimationError:  # nothing was visited twice: all are alike
                best = plan([1.0] * len(names), source=names, **options)
            return dict(zip(map(str, best.source), best.period_days.tolist(), strict=True))
        except ObservantError as error:
            log.error("no plan could be made; all sources are visited alike: %s", error)  # noqa: TRY400
            return dict.fromkeys(self._last_visits(), count / budget)


def _periods_of_plan(file: str) -> dict[str, float]:
    from observant.formats import read_batches

    periods: dict[str, float] = {}
    for batch in read_batches(file, ("source", "period_days")):
        if not {"source", "period_days"} <= set(batch.schema.names):
            raise InputError("has no columns source and period_days: is it a plan?", file=file)
        names = batch.column("source").to_pylist()
        for name, days in zip(names, batch.column("period_days").to_pylist(), strict=True):
            try:
                period = math.inf if days in (None, "") else float(days)
            except ValueError:
                raise InputError(f"{days!r} is no number of days", file=file) from None
            periods[str(name)] = math.inf if math.isnan(period) else period
    return periods


def _instant(seconds: float) -> str:
    return utc(seconds).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _mend_tail(path: Path) -> None:
    """Cut off half a line that a killed process has left."""
    if not path.exists() or not path.stat().st_size:
        return
    with path.open("r+b") as file, _locked(file):
        end = file.seek(0, os.SEEK_END)
        at, tail = end, b""
        while at and b"\n" not in tail:
            step = min(at, 1 << 16)
            at -= step
            file.seek(at)
            tail = file.read(step) + tail
        whole = at + tail.rfind(b"\n") + 1
        if whole < end:
            log.warning("%s ended in half a visit, which was cut off", path)
            file.truncate(whole)


@contextlib.contextmanager
def _locked(file: BinaryIO | Any) -> Iterator[None]:
    """Nobody else writes meanwhile, where the system has such locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    fcntl.flock(file.fileno(), fcntl.LOCK_EX)
    yield  # closing the file releases it
