"""The comparer: what a visit fetched beside the last good version.

Levels, cheapest first: "not modified"; equal bytes; equal normalised text; then the record of
Brewington's table 3.1 and the term vectors. A page whose bytes are equal is never parsed.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins
from msgspec.structs import replace

from observant.errors import UnreadableError
from observant.observer.content.document import digest
from observant.observer.content.noise import known_noise, learn, seen_unchanged
from observant.observer.content.normalisation import kind_of
from observant.observer.content.numbers import parse_condition
from observant.observer.content.pictures import difference_of_pictures, parse_box
from observant.observer.content.record import (
    Difference,
    changed_attributes,
    observed_again,
    record_of,
)
from observant.observer.content.rules import (
    GONE_STATUSES,
    Rules,
    changed_columns,
    describe_change,
    error_page,
    judge,
)
from observant.observer.content.second_look import LEARNING
from observant.observer.content.selection import select
from observant.observer.content.versions import NO_DIFFERENCE, VersionPair
from observant.store.visit import GOOD, Comparison, Previous

if TYPE_CHECKING:
    from observant.observer.content.document import Document
    from observant.observer.fetched import Fetched
    from observant.store.visit import Error, Outcome, Validators

VERSIONS = 8
"""So many earlier versions are remembered by digest, to recognise one that returns."""
IMPATIENT = 3
"""A source that differs anew on so many visits beyond `confirm` has changed, confirmed or not."""


def compare(previous: Previous | None, fetched: Fetched, rules: Rules | None = None) -> Comparison:
    """Compare once. See `Comparer`.

    >>> from observant.observer.fetched import Fetched
    >>> first = Fetched(url="x:", status=200, body=b"<p>one two three", content_type="text/html")
    >>> compare(None, first).outcome
    'first'
    """
    return Comparer(rules).compare(previous, fetched)


class Comparer:
    """Compares by the rules of one source. Holds no state: everything learned is in `memory`.

    >>> from observant.observer.fetched import Fetched
    >>> comparer = Comparer(Rules(css="p"))
    >>> page = Fetched(url="x:", status=200, body=b"<p>one two three", content_type="text/html")
    >>> found = comparer.compare(None, page)
    >>> before = comparer.after(None, page, found)
    >>> edit = Fetched(url="x:", status=200, body=b"<p>one two four", content_type="text/html")
    >>> again = comparer.compare(before, edit)
    >>> again.outcome, round(again.magnitude, 3), again.reason
    ('changed', 0.816, 'the text changed by 82 %')
    """

    def __init__(self, rules: Rules | None = None) -> None:
        self.rules = Rules() if rules is None else rules
        self.selection_version = self.rules.version

    def usable_validators(self, previous: Previous | None) -> bool:
        """Whether a conditional request may be made: not when the selection has changed."""
        return (
            previous is not None
            and previous.validators is not None
            and previous.text is not None
            and previous.selection_version == self.selection_version
        )

    def wants_second_look(
        self, previous: Previous | None, before: str | None, found: Comparison
    ) -> bool:
        """Whether a change is to be looked at again before it is told: see `second_look`."""
        rules = self.rules
        return (
            found.outcome == "changed"
            and previous is not None
            and before is not None
            and found.text is not None
            and rules.learn_noise
            and not rules.confirm
            and rules.change not in {"bytes", "structure", "visual"}
            and previous.selection_version == self.selection_version
            and (previous.memory.get("confirmed", 0) < LEARNING or "varying" in previous.memory)
        )

    def by_itself(
        self, previous: Previous, found: Comparison, text: str | None, varying: list[str]
    ) -> Comparison:
        """What several looks have found that differ by themselves; `text` is the one to keep."""
        memory = found.memory if text is not None else dict(previous.memory)
        told = {k: previous.memory[k] for k in ("conditions",) if k in previous.memory}
        memory = {name: value for name, value in memory.items() if name != "conditions"}
        if text is None:
            memory["hidden"] = memory.get("hidden", 0) + 1
        return replace(
            found,
            outcome="same",
            magnitude=0.0,
            angle=0.0,
            distance=0.0,
            length=None,
            attributes=(),
            back_to=None,
            excerpt=None,
            text=text,
            digest_raw=found.digest_raw if text is not None else previous.digest_raw,
            digest_text=previous.digest_text if text is None else digest(text),
            complete=text is not None,
            met=(),
            memory=memory | told | {"confirmed": 0, "varying": varying},
            reason="it differs by itself, as a second look has shown",
        )

    def compare(self, previous: Previous | None, fetched: Fetched) -> Comparison:
        """Never raises for what the world sent."""
        digest_raw = digest(fetched.body)
        found = self.unread(previous, fetched, digest_raw)
        if found is not None:
            return found
        return self._with_conditions(previous, self._compare(previous, fetched, digest_raw))

    def _with_conditions(self, previous: Previous | None, found: Comparison) -> Comparison:
        """Which conditions hold now, and which of them did not before."""
        kept = previous.text if previous else None
        text = kept if found.text is None else found.text
        if not self.rules.conditions or text is None or found.outcome not in GOOD:
            return found
        before = previous.memory.get("conditions", {}) if previous else {}
        now = {words: parse_condition(words).met_by(text) for words in self.rules.conditions}
        met = tuple(words for words, true in now.items() if true and not before.get(words))
        return replace(found, met=met, memory=found.memory | {"conditions": now})

    def _compare(
        self, previous: Previous | None, fetched: Fetched, digest_raw: bytes
    ) -> Comparison:
        known = previous is not None and previous.digest_text is not None
        try:
            document = self._read(fetched)
            if not known or previous is None:
                return self._first(fetched, document, digest_raw, "the first good visit")
            if previous.text is None:  # its snapshot has been thrown away: only digests are left
                return self._without_text(previous, fetched, document, digest_raw)
            return self._compared(previous, fetched, document, digest_raw)
        except UnreadableError as error_:
            return self.failed(previous, "content", str(error_))

    def unread(
        self, previous: Previous | None, fetched: Fetched, digest_raw: bytes | None = None
    ) -> Comparison | None:
        """What can be said without reading the body; None when it must be read."""
        known = previous is not None and previous.digest_text is not None
        if fetched.status in GONE_STATUSES and fetched.error in {None, "http"}:
            return self._missing(previous if known else None, f"status {fetched.status}")
        if fetched.error is not None or not fetched.ok:
            error: Error = fetched.error or "http"
            return self.failed(
                previous, error, fetched.message or f"{error}, status {fetched.status}"
            )
        if fetched.not_modified:
            same = self._not_modified(previous if known else None, fetched)
            return self._with_conditions(previous, same)
        if (
            known
            and previous is not None
            and previous.selection_version == self.selection_version
            and not previous.memory.get("pending")
            and self.rules.change != "visual"
            and (digest_raw or digest(fetched.body)) == previous.digest_raw
        ):
            same = self._same_bytes(previous, fetched, previous.digest_raw)
            return self._with_conditions(previous, same)
        return None

    def after(
        self,
        previous: Previous | None,
        fetched: Fetched,
        found: Comparison,
        validators: Validators | None = None,
    ) -> Previous:
        """What the next visit will be compared with: what the store keeps, in one value.

        The new validators count only when the body was read and compared. After a failure the old
        ones stay: they belong to the text that stays.
        """
        old = previous or Previous()
        moved = found.digest_text is not None
        return Previous(
            digest_raw=found.digest_raw or old.digest_raw,
            digest_text=found.digest_text or old.digest_text,
            text=old.text if found.text is None else found.text,
            record=found.record or old.record,
            memory=found.memory,
            validators=validators if found.complete else old.validators,
            last_modified=fetched.last_modified if found.complete else old.last_modified,
            selection_version=found.selection_version if moved else old.selection_version,
            visited_at=fetched.started_at,
            shot=fetched.shot
            if found.memory.get("picture") != old.memory.get("picture")
            else old.shot,
        )

    def _read(self, fetched: Fetched) -> Document:
        kind = kind_of(fetched) if self.rules.kind == "auto" else self.rules.kind
        if not fetched.body and kind in {"html", "json", "xml"}:
            raise UnreadableError("the body is empty")
        if self.rules.change == "visual" and fetched.shot is None:
            raise UnreadableError("there is no picture of the page")
        return select(fetched.body, kind, fetched.charset, self.rules)

    def _picture(self, fetched: Fetched) -> dict[str, Any]:
        """For the memory: which picture the next one is compared with."""
        if self.rules.change != "visual":
            return {}
        return {"picture": hashlib.sha256(fetched.shot or b"").hexdigest()}

    def _looks(self, previous: Previous, fetched: Fetched) -> Difference:
        """How much of the picture differs; a picture that is not kept any more tells nothing."""
        rules = self.rules
        if previous.shot is None or fetched.shot is None:
            return NO_DIFFERENCE
        boxes = [box for mask in rules.masks if (box := parse_box(mask))]
        found = difference_of_pictures(previous.shot, fetched.shot, boxes, rules.tolerance)
        return Difference(0.0, 0.0, found.share)

    # -- without reading the body -----------------------------------------------------------------

    def failed(self, previous: Previous | None, error: Error, reason: str) -> Comparison:
        """Nothing was observed: what was known stays as it was.

        After a page has broken the selection, the one that mends it finds what has changed.
        """
        broken = {"broken": True} if error == "content" else {}
        return Comparison(
            outcome="failed",
            error=error,
            reason=reason,
            memory=previous.memory | broken if previous else {},
            selection_version=previous.selection_version if previous else "",
        )

    def _missing(self, previous: Previous | None, reason: str) -> Comparison:
        if previous is None:
            return self.failed(None, "http", f"never seen: {reason}")
        memory = dict(previous.memory)
        if memory.get("gone"):
            return Comparison(
                outcome="same",
                digest_text=previous.digest_text,
                magnitude=0.0,
                memory=memory,
                selection_version=previous.selection_version,
                reason=f"still gone: {reason}",
            )
        if not self._confirmed(memory, "gone"):
            return self._unconfirmed(previous, memory, f"seems gone: {reason}")
        memory["gone"] = True
        return Comparison(
            outcome="gone",
            magnitude=1.0,
            angle=1.0,
            memory=memory,
            selection_version=previous.selection_version,
            reason=f"the source is gone: {reason}",
        )

    def _not_modified(self, previous: Previous | None, fetched: Fetched) -> Comparison:
        if previous is None or previous.selection_version != self.selection_version:
            return self.failed(
                previous, "content", '"not modified" answers a question we did not ask'
            )
        return self._same_bytes(previous, fetched, previous.digest_raw)

    def _same_bytes(
        self, previous: Previous, fetched: Fetched, digest_raw: bytes | None
    ) -> Comparison:
        memory = {
            name: value
            for name, value in previous.memory.items()
            if name not in {"pending", "broken", "hidden"}
        }
        if memory.get("noise") and not fetched.not_modified:
            memory["noise"] = to_builtins(seen_unchanged(known_noise(memory)))
        back = memory.pop("gone", False)
        return Comparison(
            outcome="back" if back else "same",
            digest_raw=digest_raw,
            digest_text=previous.digest_text,
            magnitude=1.0 if back else 0.0,
            angle=1.0 if back else 0.0,
            distance=None if back else 0.0,
            record=observed_again(previous.record, fetched),
            memory=memory,
            selection_version=self.selection_version,
            complete=True,
            reason="the source is back, as it was" if back else "the same bytes",
        )

    # -- with the body ----------------------------------------------------------------------------

    def _first(
        self, fetched: Fetched, document: Document, digest_raw: bytes, reason: str
    ) -> Comparison:
        text = document.text
        digest_text = digest(text)
        return Comparison(
            outcome="first",
            digest_raw=digest_raw,
            digest_text=digest_text,
            record=record_of(document, fetched, digest_text.hex()[:16]),
            text=text,
            memory={"versions": [digest_text.hex()]} | self._picture(fetched),
            selection_version=self.selection_version,
            complete=True,
            reason=reason,
        )

    def _without_text(
        self, previous: Previous, fetched: Fetched, document: Document, digest_raw: bytes
    ) -> Comparison:
        """The old snapshot has been thrown away: compare digests, and keep what was learned."""
        same_selection = self.selection_version == previous.selection_version
        memory: dict[str, Any] = {}
        if same_selection and self.rules.learn_noise and previous.memory.get("noise"):
            state = known_noise(previous.memory)
            learned = learn(document, document.lines, state, keep=self.rules.keep)
            document = document.replace(learned.lines, [""] * len(learned.lines))
            memory["noise"] = to_builtins(learned.state)
        first = self._first(fetched, document, digest_raw, "")
        same = same_selection and first.digest_text == previous.digest_text
        gone = bool(previous.memory.get("gone"))
        outcome: Outcome = "back" if gone else "same" if same or not same_selection else "changed"
        return Comparison(
            outcome=outcome,
            digest_raw=digest_raw,
            digest_text=first.digest_text,
            magnitude=1.0 if gone else 0.0 if same else None,
            attributes=changed_attributes(previous.record, first.record or {}),
            record=first.record,
            text=first.text,
            memory=first.memory | memory,
            selection_version=self.selection_version,
            complete=True,
            reason="the first visit under a new selection"
            if not same_selection
            else "the same text"
            if same
            else "the text differs; the old one is not kept",
        )

    def _compared(
        self, previous: Previous, fetched: Fetched, document: Document, digest_raw: bytes
    ) -> Comparison:
        rules, memory = self.rules, dict(previous.memory)
        broken, _ = memory.pop("broken", False), memory.pop("hidden", None)
        same_selection = previous.selection_version == self.selection_version
        if not same_selection:
            memory = {name: memory[name] for name in ("gone",) if name in memory}
        gone = bool(memory.pop("gone", False))
        visual, bytes_differ = rules.change == "visual", digest_raw != previous.digest_raw
        image = document.kind == "bytes" and bool(
            fetched.shot or fetched.content_type.startswith("image/")
        )
        pair = VersionPair.of(previous, fetched, document, memory, rules, learning=same_selection)
        difference = pair.difference(rules)
        seen = self._looks(previous, fetched) if visual and same_selection else difference
        if not same_selection and not broken:  # what somebody has edited here is no change there
            same = "the first visit" if bytes_differ else "the same bytes"
            changed, why = False, f"{same} under a new selection"
        else:
            what = "text" if document.kind != "bytes" else "image" if image else "file"
            changed, why = self._judged(previous, pair, seen, bytes_differ, what)
        if changed and not gone:
            doubt = self._doubt(previous, document, pair, difference, memory, why)
            if doubt is not None:
                return doubt
        if not changed:
            memory.pop("pending", None)
        moved = changed or gone or not same_selection
        if visual and (moved or previous.shot is None):
            moved, memory = True, memory | self._picture(fetched)
        text, digest_text = self._kept(previous, pair, moved)
        back_to = _note_version(memory, digest_text, changed)
        outcome: Outcome = "back" if gone else "changed" if changed else "same"
        if gone:
            why = f"the source is back: {why if changed or pair.differs else 'as it was'}"
        elif changed:
            why += "; an earlier version is back" if back_to else ""
        elif visual and same_selection:
            small = f"too little to count: {why}" if seen.magnitude else "the same picture"
            why = small if previous.shot else "no earlier picture is kept"
        elif same_selection:
            why = pair.why_same(why)
        return Comparison(
            outcome=outcome,
            digest_raw=digest_raw,
            digest_text=digest_text,
            magnitude=1.0 if gone else seen.magnitude,
            angle=difference.angle,
            distance=difference.distance,
            length=difference.length if pair.differs else None,
            attributes=pair.attributes,
            record=pair.record,
            noise=pair.masked,
            back_to=back_to,
            image=image,
            text=text,
            memory=memory,
            selection_version=self.selection_version,
            complete=True,
            reason=why,
        )

    def _judged(
        self, previous: Previous, pair: VersionPair, seen: Difference, bytes_differ: bool, what: str
    ) -> tuple[bool, str]:
        """Whether the source has changed by its own definition, and what did."""
        rules = self.rules
        columns: tuple[str, ...] = ()
        if rules.change == "columns" and pair.differs:
            columns = changed_columns(pair.old_lines, pair.new_lines)
        changed = judge(rules, bytes_differ, pair.differs, pair.attributes, seen, columns)
        why = describe_change(
            rules, seen, pair.attributes, previous.record, pair.record, columns, what
        )
        if pair.settled:
            why += "; a field that changed on every visit has settled"
        return changed, why

    def _doubt(
        self,
        previous: Previous,
        document: Document,
        pair: VersionPair,
        difference: Difference,
        memory: dict[str, Any],
        why: str,
    ) -> Comparison | None:
        """What is told instead of a change: an error page, or one that is to be confirmed."""
        smaller = 2 * len(pair.text) < len(previous.text or "")
        trouble = error_page(document, previous.record, difference, smaller)
        if trouble == "not-found":
            return self._missing(previous, f"the page says {document.title!r}"[:200])
        if trouble == "trouble":
            return self.failed(previous, "content", f"the page says {document.title!r}"[:200])
        if not self._confirmed(memory, pair.digest.hex()):
            return self._unconfirmed(previous, memory, why)
        return None

    def _kept(self, previous: Previous, pair: VersionPair, moved: bool) -> tuple[str | None, bytes]:
        """The text that is kept from now on, None for the one before, and its digest."""
        if moved:
            return pair.text, pair.digest
        masked = "\n".join(pair.old_lines)
        if masked != previous.text and self.rules.change != "visual":
            return masked, digest(masked)
        return None, previous.digest_text or b""

    # -- a second look ----------------------------------------------------------------------------

    def _confirmed(self, memory: dict[str, Any], seen: str) -> bool:
        """One step of the second look; `memory` remembers what waits for confirmation."""
        if not self.rules.confirm:
            return True
        pending = memory.get("pending") or {"seen": seen, "times": 0, "visits": 0}
        times = pending["times"] + 1 if pending["seen"] == seen else 1
        visits = pending["visits"] + 1
        if times > self.rules.confirm or visits > self.rules.confirm + IMPATIENT:
            memory.pop("pending", None)
            return True
        memory["pending"] = {"seen": seen, "times": times, "visits": visits}
        return False

    def _unconfirmed(self, previous: Previous, memory: dict[str, Any], reason: str) -> Comparison:
        return Comparison(
            outcome="unconfirmed",
            memory=memory,
            selection_version=previous.selection_version,
            reason=f"to be confirmed: {reason}",
        )


def _note_version(memory: dict[str, Any], kept: bytes, changed: bool) -> bytes | None:
    """Remember a version by its digest; if a change has brought an earlier one back, that one."""
    versions, name, back_to = list(memory.get("versions", ())), kept.hex(), None
    if name not in versions[-1:]:
        if changed and name in versions:
            back_to = kept
            versions.remove(name)
        memory["versions"] = [*versions, name][-VERSIONS:]
    return back_to
