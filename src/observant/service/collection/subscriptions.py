"""Subscriptions, and what was delivered of them."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from observant.errors import MissingError
from observant.notifications.channels.mail import MailServer, keep_server, kept_server
from observant.notifications.delivery import Deliverer
from observant.notifications.subscriptions import checked, shown, updated
from observant.service.answers import (
    DeliveryItem,
    DeliveryPage,
    NewSubscription,
    Retried,
    SubscriptionItem,
)
from observant.service.collection.context import CollectionPiece, some
from observant.service.collection.edits import asked_for
from observant.service.collection.entries import Entered, NewSource
from observant.service.collection.entries import checked as checked_source
from observant.service.summaries import MailItem, Tried
from observant.store import Filter, StoredSubscription, Subscription
from observant.times import utc


class SubscriptionChanges(Entered, frozen=True, kw_only=True):
    """What is to be changed of a subscription; what is not given stays."""

    name: Annotated[str, Meta(min_length=1, max_length=200)] | UnsetType = UNSET
    channel: str | UnsetType = UNSET
    secret: str | UnsetType = UNSET
    filter: Filter | UnsetType = UNSET
    subject: str | UnsetType = UNSET
    template: str | UnsetType = UNSET
    digest: str | float | UnsetType = UNSET
    quiet: tuple[str, ...] | UnsetType = UNSET
    timezone: str | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    owner: Annotated[str, Meta(max_length=200)] | UnsetType = UNSET
    every: str | float | UnsetType = UNSET


class MailTest(Entered, frozen=True, kw_only=True):
    """Whom to send a test message to."""

    to: Annotated[str, Meta(min_length=3, max_length=320)]


class CollectionSubscriptions(CollectionPiece):
    """Who is notified of what, and what was delivered."""

    def get(self, number: int) -> SubscriptionItem:
        """One subscription, secrets masked."""
        found = self._stored(number)
        return _item(found, self._in.store.deliveries.count().get(found.name, {}))

    def add(self, entry: Subscription) -> NewSubscription:
        """Add a subscription; the secret that signs a webhook is shown this once."""
        entry = self.watching(checked(entry))
        stored = self._in.store.subscriptions.add(entry, now=self._in.now())
        return NewSubscription(subscription=_item(stored, {}), secret=stored.secret)

    def watching(self, entry: Subscription) -> Subscription:
        """The same, with every address on its list watched: from now on, if it was not yet."""
        listed = [
            checked_source(NewSource(url=one), self._in.config) if _is_address(one) else None
            for one in entry.filter.sources
        ]
        if new := [source for source in listed if source is not None]:
            self._in.store.sources.add(new, now=self._in.now())
            self._in.changed()
        names = [s.name if s else n for s, n in zip(listed, entry.filter.sources, strict=True)]
        wanted = msgspec.structs.replace(entry.filter, sources=tuple(names))
        return msgspec.structs.replace(entry, filter=wanted)

    def update(self, number: int, changes: SubscriptionChanges) -> SubscriptionItem:
        """Change a subscription; what comes back masked stays what it was."""
        before = self._stored(number)
        given = {name: getattr(changes, name) for name in changes.__struct_fields__}
        found = updated(before, **{n: value for n, value in given.items() if value is not UNSET})
        if isinstance(wanted := found.get("filter"), Filter):
            plain = Subscription(name="", channel="", filter=wanted)
            found["filter"] = self.watching(plain).filter
        if found:
            self._in.store.subscriptions.update(before.name, now=self._in.now(), **found)
        return self.get(number)

    def remove(self, number: int) -> None:
        """End a subscription."""
        self._in.store.subscriptions.remove(self._stored(number).name)

    def deliveries(
        self,
        *,
        state: str | None = None,
        subscription: int | None = None,
        limit: int = 100,
        after: int | None = None,
    ) -> DeliveryPage:
        """The delivery log, newest first; dead letters have the state dead."""
        name = None if subscription is None else self._stored(subscription).name
        rows = self._in.store.deliveries.list(
            state=state, subscription=name, limit=some(limit, "deliveries") + 1, after=after
        )
        return DeliveryPage(
            deliveries=[
                DeliveryItem.of(
                    row, event=row.event.id, topic=row.event.topic, source=row.event.source
                )
                for row in rows[:limit]
            ],
            next=rows[limit - 1].id if len(rows) > limit else None,
        )

    def retry(self, subscription: int | None = None) -> Retried:
        """Have dead letters tried again, of one subscription or all."""
        name = None if subscription is None else self._stored(subscription).name
        deliveries = self._in.store.deliveries
        return Retried(deliveries=deliveries.retry(subscription=name, now=self._in.now()))

    def test(self, number: int) -> Tried:
        """Send one message that says it is a test, now, and say what became of it."""
        return self._try(self._stored(number))

    # -- the server for e-mail ----------------------------------------------------------------

    def mail(self) -> MailItem:
        """The server that was entered; its password is shown to nobody."""
        server = kept_server(self._in.store)
        return MailItem.of(server, in_file=bool(self._in.given.notify.mail))

    def set_mail(self, given: MailServer) -> MailItem:
        """Enter the server for e-mail; one without a host goes back to the configuration file."""
        keep_server(self._in.store, self._in.given, given)
        return self.mail()

    def test_mail(self, to: str) -> Tried:
        """Send a test message to an address, whoever is subscribed."""
        now, entry = self._in.now(), checked(Subscription(name="test", channel=f"mailto:{to}"))
        plain = {name: getattr(entry, name) for name in entry.__struct_fields__}
        return self._try(StoredSubscription(**plain, id=0, created_at=now, updated_at=now))

    def _try(self, subscriber: StoredSubscription) -> Tried:
        async def send() -> Tried:
            deliverer = Deliverer(self._in.store, self._in.config)
            try:
                answer = await deliverer.test(subscriber)
            finally:
                await deliverer.close()
            return Tried(ok=answer.ok, error=answer.error)

        with asked_for():
            return asyncio.run(send())

    def _stored(self, number: int) -> StoredSubscription:
        for found in self._in.store.subscriptions.list():
            if found.id == number:
                return found
        raise MissingError(f"there is no subscription {number}")

    def list(self, owner: str | None = None) -> list[SubscriptionItem]:
        """Who is notified of what: all subscriptions, or those of one owner; secrets masked."""
        counts = self._in.store.deliveries.count()
        return [
            _item(one, counts.get(one.name, {}))
            for one in self._in.store.subscriptions.list()
            if owner is None or one.owner == owner
        ]


def _is_address(name: str) -> bool:
    return name.lower().startswith(("http://", "https://"))


def _item(found: StoredSubscription, counts: dict[str, int]) -> SubscriptionItem:
    rests = utc(found.rests_until or None)
    return SubscriptionItem.of(
        shown(found), quiet=found.quiet, rests_until=rests, deliveries=counts
    )
