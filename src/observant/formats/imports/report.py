"""What an import found: counted while it streams by, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError
from observant.formats.imports.base import EVIDENCE
from observant.formats.imports.census import SourceSample
from observant.tables import Note
from observant.times import iso, seconds, utc
from observant.units import counted

if TYPE_CHECKING:
    import datetime as dt

    import pyarrow as pa

_SAMPLES = 10
_LONGEST = 120
_WEAKER = "VDCS"


@dataclass(frozen=True)
class Malformed:
    """A row that could not be read."""

    file: str
    line: int | None
    reason: str
    text: str


@dataclass(kw_only=True)
class Report:
    """What an import found. It fills while batches are read, and is whole when they end."""

    on_bad: str = "skip"
    accepted: frozenset[str] = field(default=frozenset(), repr=False)
    """Assumptions that the user accepts; ``all`` is every one."""
    formats: dict[str, int] = field(default_factory=dict)
    """Names of the formats, with the number of files of each."""
    evidence: str = "V"
    """The weakest class of evidence among the files."""
    rows: int = 0
    """Rows read, malformed ones included."""
    visits: int = 0
    """Rows that became visits."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Rows that became no visit for a good reason, by reason."""
    malformed_rows: int = 0
    samples: list[Malformed] = field(default_factory=list)
    """The first malformed rows."""
    first: int | None = None
    """Time of the first visit, microseconds since 1970."""
    last: int | None = None
    counts: dict[str, int] = field(default_factory=dict)
    """What else was counted: failed visits, visits without digest, …"""
    assumed: dict[str, str] = field(default_factory=dict)
    """Assumptions that the evidence needs, with a sentence each."""
    described: int = 0
    """Sources that the files describe (watch settings, lists of feeds)."""
    sample: SourceSample = field(default_factory=SourceSample, repr=False)
    file: str = field(default="", repr=False)
    """The file that is being read."""
    _classes: set[str] = field(default_factory=set, repr=False)
    _warnings: dict[str, Note] = field(default_factory=dict, repr=False)

    # -- for importers ----------------------------------------------------------------------

    def add_rows(self, count: int = 1) -> None:
        """Count rows read, whatever became of them."""
        self.rows += count

    def malformed(self, line: int | None, reason: str, text: bytes | str = "") -> None:
        """Count a row that cannot be read, and keep the first ones; or stop at it.

        `line` counts from 1 (a record number where the format has no lines).
        """
        self.malformed_rows += 1
        if isinstance(text, bytes):
            text = text[: 4 * _LONGEST].decode("utf-8", "backslashreplace")
        clipped = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
        clipped = "".join(sign if sign.isprintable() else "�" for sign in clipped)
        if self.on_bad == "fail":
            shown = f": {clipped!r}" if clipped else ""
            raise InputError(f"{reason}{shown}", file=self.file or None, row=line)
        if len(self.samples) < _SAMPLES:
            self.samples.append(Malformed(self.file, line, reason, clipped))

    def leave_out(self, reason: str, count: int = 1) -> None:
        """Count rows that are sound and become no visit."""
        if count:
            self.left_out[reason] = self.left_out.get(reason, 0) + count

    def count(self, what: str, number: int = 1) -> None:
        """Count something worth telling, in words: ``failed visits``."""
        if number:
            self.counts[what] = self.counts.get(what, 0) + number

    def warn(self, message: str, count: int = 1) -> None:
        """Say once what the user must know; ``{n}`` in the message is how often it came up."""
        if count:
            before = self._warnings.get(message)
            self._warnings[message] = Note(message, count + (before.number or 0 if before else 0))

    def assume(self, assumption: str, sentence: str) -> None:
        """Say what must hold for the visits to mean what they seem to mean.

        Refused, unless the user accepts it. The sentence goes on from "that".
        """
        if not self.accepted & {assumption, "all"}:
            raise InputError(
                f"this cannot support rates, unless it is true that {sentence}. If it is, say "
                f"--accept {assumption}; --dry-run shows what the files hold",
                file=self.file or None,
            )
        self.assumed[assumption] = sentence

    # -- for the framework ------------------------------------------------------------------

    def see(self, batch: pa.RecordBatch) -> None:
        """Count the visits of a batch that is on its way to the user."""
        if not batch.num_rows:
            return
        self.visits += batch.num_rows
        time = np.asarray(batch.column("time").cast("int64"))
        first, last = int(time.min()), int(time.max())
        self.first = first if self.first is None else min(first, self.first)
        self.last = last if self.last is None else max(last, self.last)
        self.sample.add(batch, time)

    def weaken(self, evidence: str) -> None:
        """Take in the evidence class of another file."""
        self._classes.add(evidence)
        self.evidence = max(self._classes, key=_WEAKER.index)

    def compare_states(self) -> None:
        """At the end: states of the same sources at several times are visits like any others."""
        if "S" not in self._classes or not self.visits:
            return
        if not self.sample.compared:
            self.warn(
                "there is one state of each source, which supports no rate; import several of "
                "different days together"
            )
        else:
            self._classes.discard("S")
            self.evidence = max(self._classes, key=_WEAKER.index, default="V")
            self.warn(
                "states of the same sources at several times were taken together as visits; what "
                "was fetched between two of them is missing, which costs precision and no more"
            )

    def warn_as(self, other: Report) -> None:
        """Take in the warnings of another report, those that are not here already."""
        self._warnings = {**self._warnings, **other._warnings, **self._warnings}

    # -- for readers ------------------------------------------------------------------------

    @property
    def sources(self) -> int:
        """Distinct sources: exact for few, else estimated within about one per cent."""
        return self.sample.distinct

    @property
    def sources_are_exact(self) -> bool:
        """Whether `sources` is a count, not an estimate."""
        return self.sample.is_exact

    @property
    def span(self) -> tuple[dt.datetime, dt.datetime] | None:
        """Times of the first and the last visit."""
        if self.first is None or self.last is None:
            return None
        return utc(seconds(self.first)), utc(seconds(self.last))

    @property
    def warnings(self) -> list[str]:
        """What the user must know before using the visits, a sentence each."""
        told: list[str] = list(self._warnings.values())
        if self.malformed_rows:
            told.append(f"{counted(self.malformed_rows, 'malformed row')} left out")
        return told

    @property
    def supports(self) -> str:
        """What the evidence can and cannot support, in one sentence."""
        return EVIDENCE[self.evidence]

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON tells it."""
        return {
            "formats": dict(self.formats),
            "evidence": self.evidence,
            "supports": self.supports,
            "rows": self.rows,
            "visits": self.visits,
            "sources": self.sources,
            "sources_are_exact": self.sources_are_exact,
            "described_sources": self.described,
            "first": iso(seconds(self.first)),
            "last": iso(seconds(self.last)),
            "left_out": dict(self.left_out),
            "counts": dict(self.counts),
            "assumes": dict(self.assumed),
            "malformed": self.malformed_rows,
            "malformed_samples": [vars(sample) for sample in self.samples],
            "warnings": self.warnings,
        }
