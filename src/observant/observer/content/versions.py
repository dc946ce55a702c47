"""Two versions of a source side by side, without what changes by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import to_builtins

from observant.observer.content.document import digest
from observant.observer.content.noise import describe, known_noise, learn, learn_attributes
from observant.observer.content.record import (
    Difference,
    changed_attributes,
    compare_terms,
    record_of,
)
from observant.units import counted

if TYPE_CHECKING:
    from observant.observer.content.document import Document
    from observant.observer.content.rules import Rules
    from observant.observer.fetched import Fetched
    from observant.store.visit import Previous

NO_DIFFERENCE = Difference(0.0, 0.0, 0.0)
_FIELDS = (
    "last_modified",
    "content_length",
    "num_tokens",
    "image_hash",
    "link_hash",
    "structure_hash",
)
"""Attributes of the record that may be noise: an advert's image, a token in every link."""


class VersionPair(NamedTuple):
    """The version before and that of now, with the same fields masked in both."""

    old_lines: list[str]
    new_lines: list[str]
    text: str
    """Of now."""
    digest: bytes
    differs: bool
    record: dict[str, Any]
    """Brewington's table 3.1, of now."""
    attributes: tuple[str, ...]
    """Those of the record that differ."""
    settled: bool
    """Whether a field that was noise has settled."""
    masked: tuple[dict[str, Any], ...]
    """Fields that were left aside."""

    @classmethod
    def of(
        cls,
        previous: Previous,
        fetched: Fetched,
        document: Document,
        memory: dict[str, Any],
        rules: Rules,
        *,
        learning: bool,
    ) -> VersionPair:
        """What is known beside what was fetched; what is learned of noise goes into `memory`."""
        old_lines, new_lines = (previous.text or "").split("\n"), document.lines
        record = record_of(document, fetched, "")
        ignored: list[str] = []
        settled: list[str] = []
        noise = known_noise(memory)
        if learning and rules.learn_noise and rules.change != "bytes":
            learned = learn(document, old_lines, noise, keep=rules.keep)
            new_lines, old_lines = learned.lines, learned.old_lines
            ignored, settled = learned.ignored, learned.settled
            noise, memory["noise"] = learned.state, {}
        text = "\n".join(new_lines)
        digest_text = digest(text)
        record["text_hash"] = digest_text.hex()[:16]
        differs = old_lines != (new_lines or [""])
        if "noise" in memory and not differs and document.tags:
            fields = {
                f"@{name}": str(record[name]) for name in _FIELDS if name not in rules.attributes
            }
            noise, quiet = learn_attributes(noise, fields, rules.keep)
            ignored += quiet
        else:
            ignored += [a for a, field in noise.items() if a[:1] == "@" and field.noise]
        if "noise" in memory:
            memory["noise"] = to_builtins(noise)
        hidden = set(ignored)
        return cls(
            old_lines,
            new_lines,
            text,
            digest_text,
            differs,
            record,
            tuple(a for a in changed_attributes(previous.record, record) if f"@{a}" not in hidden),
            bool(settled),
            tuple(item for item in describe(noise) if item["address"] in hidden),
        )

    def difference(self, rules: Rules) -> Difference:
        """Of the terms of both."""
        if not self.differs:
            return NO_DIFFERENCE
        weighted = rules.query if rules.change == "query" else None
        return compare_terms(
            self.old_lines, self.new_lines, weighted, rules.other_terms, rules.terms
        )

    def why_same(self, why: str) -> str:
        """Why what differs, if anything, is no change."""
        if self.differs:
            return f"too little to count: {why}"
        noise = f", {counted(len(self.masked), 'noisy field')} ignored" if self.masked else ""
        return f"the same text{noise}"
