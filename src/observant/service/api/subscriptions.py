"""Subscriptions, their deliveries, and the results of standing queries."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import delete, get, patch, post, put
from litestar.params import FromQuery, JSONBody, PathParameter, QueryParameter

from observant.notifications.channels.mail import MailServer
from observant.service.answers import (
    DeliveryPage,
    MemberItem,
    NewSubscription,
    Retried,
    SubscriptionItem,
)
from observant.service.api.routes import LARGEST_ID, After, Limit, SourceId, specs_of
from observant.service.collection.subscriptions import MailTest, SubscriptionChanges
from observant.service.forms import GivenCollection
from observant.service.summaries import MailItem, Tried
from observant.store import Subscription

spec = specs_of("notifications")

Number = Annotated[int, PathParameter(ge=1, le=LARGEST_ID)]
OneSubscription = Annotated[int | None, QueryParameter(ge=1, le=LARGEST_ID)]


@get("/subscriptions", **spec("subscriptions"))
def subscriptions(
    collection: GivenCollection, owner: FromQuery[str | None] = None
) -> list[SubscriptionItem]:
    """Who is notified of what: all subscriptions, or those of one owner; secrets masked."""
    return collection.subscriptions.list(owner)


@post("/subscriptions", **spec("subscribe"))
def subscribe(collection: GivenCollection, data: JSONBody[Subscription]) -> NewSubscription:
    """Add a subscription. The secret that signs a webhook is shown this once."""
    return collection.subscriptions.add(data)


@get("/subscriptions/{number:int}", **spec("subscription"))
def subscription(collection: GivenCollection, number: Number) -> SubscriptionItem:
    """One subscription, secrets masked."""
    return collection.subscriptions.get(number)


@patch("/subscriptions/{number:int}", **spec("update_subscription"))
def update_subscription(
    collection: GivenCollection, number: Number, data: JSONBody[SubscriptionChanges]
) -> SubscriptionItem:
    """Change a subscription; what comes back masked stays what it was."""
    return collection.subscriptions.update(number, data)


@delete("/subscriptions/{number:int}", **spec("unsubscribe"))
def unsubscribe(collection: GivenCollection, number: Number) -> None:
    """End a subscription."""
    collection.subscriptions.remove(number)


@post("/subscriptions/{number:int}/test", **spec("test_subscription", status_code=200))
def test_subscription(collection: GivenCollection, number: Number) -> Tried:
    """Send one message that says it is a test, now, and say what became of it."""
    return collection.subscriptions.test(number)


@get("/mail", **spec("mail"))
def mail(collection: GivenCollection) -> MailItem:
    """The server for e-mail that was entered while it ran, without its password."""
    return collection.subscriptions.mail()


@put("/mail", **spec("set_mail", status_code=200))
def set_mail(collection: GivenCollection, data: JSONBody[MailServer]) -> MailItem:
    """Enter the server for e-mail; one without a host goes back to the configuration file."""
    return collection.subscriptions.set_mail(data)


@post("/mail/test", **spec("test_mail", status_code=200))
def test_mail(collection: GivenCollection, data: JSONBody[MailTest]) -> Tried:
    """Send a test message to an address."""
    return collection.subscriptions.test_mail(data.to)


@get("/deliveries", **spec("deliveries"))
def deliveries(
    collection: GivenCollection,
    delivery_state: Annotated[
        Literal["waiting", "sent", "dead"] | None, QueryParameter(name="state")
    ] = None,
    subscription: OneSubscription = None,
    limit: Limit = 100,
    after: After = None,
) -> DeliveryPage:
    """The delivery log, newest first; dead letters have the state dead."""
    return collection.subscriptions.deliveries(
        state=delivery_state, subscription=subscription, limit=limit, after=after
    )


@post("/deliveries/retry", **spec("retry_deliveries", status_code=200))
def retry_deliveries(collection: GivenCollection, subscription: OneSubscription = None) -> Retried:
    """Have dead letters tried again, of one subscription or all."""
    return collection.subscriptions.retry(subscription)


@get("/sources/{source_id:int}/members", **spec("members", topic="sources"))
def members(
    collection: GivenCollection, source_id: SourceId, left: FromQuery[bool] = False
) -> list[MemberItem]:
    """The results of a standing query by rank; with `left` those that were dropped too."""
    return collection.sources.members(source_id, left=left)
