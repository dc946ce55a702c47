"""Subscriptions, what was delivered of them, and the results of standing queries."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from observant.errors import InputError, MissingError
from observant.notifications.subscriptions import checked, shown, updated
from observant.service.answers import (
    DeliveryItem,
    DeliveryPage,
    MemberItem,
    NewSubscription,
    Retried,
    SubscriptionItem,
)
from observant.service.collection.base import Base
from observant.service.collection.entries import Entered
from observant.store import Filter, StoredSubscription, Subscription
from observant.times import utc

__all__ = ["SubscriptionChanges", "Telling"]


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


class Telling(Base):
    """The part of the collection that tells others."""

    def subscriptions(self) -> list[SubscriptionItem]:
        """Who is told of what; secrets masked."""
        counts = self.store.deliveries.count()
        return [
            _item(found, counts.get(found.name, {})) for found in self.store.subscriptions.list()
        ]

    def subscription(self, number: int) -> SubscriptionItem:
        """One subscription, secrets masked."""
        found = self._subscription(number)
        return _item(found, self.store.deliveries.count().get(found.name, {}))

    def subscribe(self, entry: Subscription) -> NewSubscription:
        """Tell somebody; the secret that signs a webhook is shown this once."""
        stored = self.store.subscriptions.add(checked(entry), now=self.now())
        return NewSubscription(subscription=_item(stored, {}), secret=stored.secret)

    def update_subscription(self, number: int, changes: SubscriptionChanges) -> SubscriptionItem:
        """Change a subscription; what comes back masked stays what it was."""
        before = self._subscription(number)
        given = {
            name: value
            for name, value in ((n, getattr(changes, n)) for n in changes.__struct_fields__)
            if value is not UNSET
        }
        found = updated(before, **given)
        if found:
            self.store.subscriptions.update(before.name, now=self.now(), **found)
        return self.subscription(number)

    def unsubscribe(self, number: int) -> None:
        """Tell no more."""
        self.store.subscriptions.remove(self._subscription(number).name)

    def deliveries(
        self,
        *,
        state: str | None = None,
        subscription: int | None = None,
        limit: int = 100,
        after: int | None = None,
    ) -> DeliveryPage:
        """The delivery log, newest first; dead letters have the state dead."""
        if not 1 <= limit <= 1000:
            raise InputError(f"a page has from 1 to 1000 deliveries, not {limit}")
        name = None if subscription is None else self._subscription(subscription).name
        rows = self.store.deliveries.list(
            state=state, subscription=name, limit=limit + 1, after=after
        )
        more = len(rows) > limit
        return DeliveryPage(
            deliveries=[
                DeliveryItem(
                    id=row.id,
                    subscription=row.subscription,
                    event=row.event.id,
                    topic=row.event.topic,
                    source=row.event.source,
                    state=row.state,
                    queued_at=utc(row.queued_at),
                    due_at=utc(row.due_at),
                    done_at=utc(row.done_at),
                    attempts=row.attempts,
                    error=row.error,
                    message=row.message,
                )
                for row in rows[:limit]
            ],
            next=rows[limit - 1].id if more else None,
        )

    def retry_deliveries(self, subscription: int | None = None) -> Retried:
        """Have dead letters tried again, of one subscription or all."""
        name = None if subscription is None else self._subscription(subscription).name
        return Retried(deliveries=self.store.deliveries.retry(subscription=name, now=self.now()))

    def members(self, source: int | str, *, left: bool = False) -> list[MemberItem]:
        """The results of a standing query by rank; with `left` those that were dropped too."""
        found = self.find(source)
        return [
            MemberItem(
                url=member.url,
                title=member.title,
                rank=member.rank,
                dated_at=utc(member.dated_at),
                first_at=utc(member.first_at),
                seen_at=utc(member.seen_at),
                left_at=utc(member.left_at),
            )
            for member in self.store.members.list(found.name, left=left)
        ]

    def _subscription(self, number: int) -> StoredSubscription:
        for found in self.store.subscriptions.list():
            if found.id == number:
                return found
        raise MissingError(f"there is no subscription {number}")


def _item(found: StoredSubscription, counts: dict[str, int]) -> SubscriptionItem:
    seen = shown(found)
    given: dict[str, Any] = {name: getattr(seen, name) for name in Subscription.__struct_fields__}
    return SubscriptionItem(
        **given,
        id=found.id,
        created_at=utc(found.created_at),
        updated_at=utc(found.updated_at),
        failures=found.failures,
        error=found.error,
        rests_until=utc(found.rests_until or None),
        deliveries=counts,
    )
