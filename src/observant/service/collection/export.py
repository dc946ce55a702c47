"""Everything that people have entered, as one JSON document: out, and in again without loss.

The document holds sources with their settings, subscriptions, and the settings changed while it
ran. Visits are not in it (that is `observant store export` and `observant store backup`), nor are
accounts.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from observant.errors import InputError
from observant.notifications.subscriptions import checked as checked_subscription
from observant.notifications.subscriptions import shown
from observant.observer.settings import SettingsChanges, keep, kept_settings
from observant.service.access.identity import OPERATOR, Identity
from observant.service.answers import Imported, Refused
from observant.service.collection.context import CollectionPiece
from observant.service.collection.entries import (
    MASK,
    MOST_SOURCES,
    Entered,
    NewSource,
    checked,
    masked_settings,
    masked_url,
)
from observant.store import Subscription

if TYPE_CHECKING:
    from observant.store import Source, StoredSource


class CollectionDocument(Entered, frozen=True, kw_only=True):
    """What was entered into a collection."""

    observant: Literal[1] = 1
    """The version of this form."""
    sources: Annotated[tuple[NewSource, ...], Meta(max_length=MOST_SOURCES)] = ()
    subscriptions: Annotated[tuple[Subscription, ...], Meta(max_length=10_000)] = ()
    settings: SettingsChanges = SettingsChanges()


class CollectionTransfer(CollectionPiece):
    """What is carried from one collection to another."""

    def export(self, *, secrets: bool = False, who: Identity = OPERATOR) -> CollectionDocument:
        """All that was entered; passwords and headers masked unless `secrets`, which are for those
        who administer.
        """
        if secrets:
            who.must("admin", "secrets are for those who may administer")
        return CollectionDocument(
            sources=tuple(_entry(one, secrets=secrets) for one in self._in.store.sources.each()),
            subscriptions=tuple(
                _subscription(found if secrets else shown(found))
                for found in self._in.store.subscriptions.list()
            ),
            settings=kept_settings(self._in.store, self._in.given),
        )

    def import_(self, document: CollectionDocument, *, trusted: bool = False) -> Imported:
        """Take in a document: new sources are added, known ones get its description.

        Doing it twice is the same as doing it once.
        """
        config, refused = keep(self._in.store, self._in.given, document.settings), []
        given: dict[str, Source] = {}
        for row, entry in enumerate(document.sources, 1):
            try:
                _refuse_masked(entry)
                source = checked(entry, config, trusted=trusted)
                given[source.name] = source
            except InputError as error:
                what = entry.name or entry.url
                refused.append(Refused(row=row, what=what[:200], reason=error.message))
        now = self._in.now()
        known: dict[str, StoredSource] = {}
        for name in given:
            found = self._known(name)
            if found is not None:
                known[name] = found
        added = self._in.store.sources.add([s for n, s in given.items() if n not in known], now=now)
        changes = {name: _differences(before, given[name]) for name, before in known.items()}
        changes = {name: fields for name, fields in changes.items() if fields}
        changed = self._in.store.sources.update_many(changes, now=now)
        told = self._subscribe(document, refused)
        self._in.changed()
        return Imported(
            added=added + told["added"],
            changed=changed + told["changed"],
            known=len(known) - changed + told["known"],
            refused=refused,
        )

    def _subscribe(self, document: CollectionDocument, refused: list[Refused]) -> Counter[str]:
        told: Counter[str] = Counter()
        there = {found.name: found for found in self._in.store.subscriptions.list()}
        for row, entry in enumerate(document.subscriptions, 1):
            try:
                _refuse_masked(entry)
                wanted = checked_subscription(entry)
                before = there.get(wanted.name)
                if before is None:
                    self._in.store.subscriptions.add(wanted, now=self._in.now())
                elif _subscription(before) != wanted:
                    fields = {n: getattr(wanted, n) for n in Subscription.__struct_fields__}
                    self._in.store.subscriptions.update(before.name, now=self._in.now(), **fields)
            except InputError as error:
                refused.append(Refused(row=row, what=entry.name[:200], reason=error.message))
                continue
            same = before is not None and _subscription(before) == wanted
            told["known" if same else "added" if before is None else "changed"] += 1
        return told

    def _known(self, name: str) -> StoredSource | None:
        from observant.errors import UnknownSourceError

        try:
            return self._in.store.sources.get(name)
        except UnknownSourceError:
            return None


def _subscription(found: Subscription) -> Subscription:
    """A subscription as it was entered."""
    return Subscription(**{n: getattr(found, n) for n in Subscription.__struct_fields__})


_DESCRIBED = ("kind", "url", "host", "title", "importance", "state", "config")


def _differences(before: StoredSource, after: Source) -> dict[str, Any]:
    found = {
        name: getattr(after, name)
        for name in _DESCRIBED
        if getattr(after, name) != getattr(before, name)
    }
    if sorted(after.tags) != sorted(before.tags):
        found["tags"] = after.tags
    return found


def _entry(source: StoredSource, *, secrets: bool) -> NewSource:
    address = source.url or source.name
    return NewSource(
        url=address if secrets else masked_url(address),
        kind=source.kind,
        name=source.name,
        title=source.title,
        tags=source.tags,
        importance=source.importance,
        state=source.state,  # type: ignore[arg-type]
        settings=source.config if secrets else masked_settings(source.config),
    )


def _refuse_masked(entry: NewSource | Subscription) -> None:
    """What is masked is refused, not invented."""
    if isinstance(entry, Subscription):
        hidden = MASK in entry.channel or entry.secret == MASK
    else:
        headers = entry.settings.get("headers")
        masked = isinstance(headers, dict) and MASK in headers.values()
        hidden = masked or f"//{MASK}@" in entry.url
    if hidden:
        raise InputError("its secrets are masked: export with secrets, or enter them")
