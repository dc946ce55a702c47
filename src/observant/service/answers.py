"""What the service answers: plain frozen values that pages show and the API sends.

One code path: a page renders the same value that the API encodes. Instants are aware datetimes in
UTC, durations days unless a name says otherwise, what is not known is None.
"""

from __future__ import annotations

import datetime as dt
import functools
import math
from typing import Any, Literal, Self

import msgspec

from observant.store import Filter
from observant.times import utc

__all__ = [
    "AccountItem", "Added", "Answer", "BulkAnswer", "CheckAnswer", "DeliveryItem", "DeliveryPage",
    "DiffAnswer", "DiffPart", "Done", "EditedSource", "EventItem", "EventPage", "FieldChange",
    "Imported", "MemberItem", "NewSubscription", "NewToken",
    "PreviewAnswer", "PreviewVersion", "Refused", "RenderingItem", "Retried", "SessionView",
    "SourceDetail", "SourcePage", "SourceRow", "SubscriptionItem", "TagItem",
    "TokenItem", "VersionItem", "VisitItem", "VisitPage", "finite", "plain",
]  # fmt: skip


def finite(value: float | None) -> float | None:
    """A number, or None where there is none."""
    return None if value is None or not math.isfinite(value) else float(value)


def plain(value: Any) -> Any:
    """Arrays and numbers of NumPy as JSON knows them; what is no number becomes None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return finite(value) if isinstance(value, float) else value


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen value with named fields."""

    @classmethod
    def of(cls, stored: Any, **own: Any) -> Self:
        """A stored value as it is shown: fields of the same name, instants as dates, bytes in
        hexadecimal; `own` are those that the store does not have so.
        """
        dated = _dated(cls)
        for name in cls.__struct_fields__:
            if name not in own and hasattr(stored, name):
                value = getattr(stored, name)
                own[name] = utc(value) if name in dated else _shown(value)
        return cls(**own)


def _shown(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return list(value)
    return finite(value) if isinstance(value, float) else value


@functools.cache
def _dated(kind: type[Answer]) -> frozenset[str]:
    """Fields that are instants."""
    fields = msgspec.structs.fields(kind)
    return frozenset(field.name for field in fields if "datetime" in str(field.type))


def _value(value: Any) -> str:
    """A setting in a sentence.

    >>> _value(None), _value(["a", "b"]), _value("#price"), _value(True)
    ('none', 'a, b', '#price', 'yes')
    """
    if value is None or value in ("", [], ()):
        return "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


# -- sources, their visits and versions -----------------------------------------------------------


class SourceRow(Answer, frozen=True, kw_only=True):
    """A source in a list. Secrets in the address are masked."""

    id: int
    name: str
    kind: str
    url: str
    host: str
    title: str
    tags: list[str]
    importance: float
    state: str
    created_at: dt.datetime
    updated_at: dt.datetime
    visited_at: dt.datetime | None
    good_at: dt.datetime | None
    changed_at: dt.datetime | None
    due_at: dt.datetime | None
    visits: int
    changes: int
    failures: int
    failed_in_row: int
    outcome: str | None
    status: int | None
    error: str | None
    rate: float | None
    """Updates a day."""
    rate_low: float | None
    rate_high: float | None
    period_days: float | None
    """From the last good visit to the next one that is due."""
    changed_probability: float | None
    """P(changed by now): that the copy has missed an update."""


class SourcePage(Answer, frozen=True, kw_only=True):
    """One page of a list; give `next` as `after` to get the following one."""

    sources: list[SourceRow]
    next: str | None
    total: int


class RenderingItem(Answer, frozen=True, kw_only=True):
    """Whether a source is looked at with a browser, and what that costs."""

    rendered: bool
    """Whether its latest version was."""
    shell: bool
    """Whether it looks empty without one."""
    cpu_seconds: float | None
    """Processor time of a visit with a browser, on average; None if there was none."""
    bytes: float | None
    """What such a visit takes on the wire, on average."""
    plain_visits: float | None
    """What a visit to the source costs, in plain visits."""
    freshness_elsewhere: float | None
    """How much freshness the others lose, since it costs more than a plain one; None for a budget
    of visits, and while the plan is not known."""
    missing: str
    """What has to be installed before it can be rendered; empty if nothing has."""


class CopyItem(Answer, frozen=True, kw_only=True):
    """How good a copy is: P(changed by now), expected currency at its period and grace (if it has a
    period), and how long it may be kept until it is out of date with probability 5 %. By the rate,
    or by the ages that visits show (`measured`) where the source is clearly not Poisson.
    """

    measured: bool
    why: str
    changed_probability: float
    currency: float | None
    time_to_live_days: float


class SourceDetail(Answer, frozen=True, kw_only=True):
    """Everything about one source but its visits."""

    source: SourceRow
    settings: dict[str, Any]
    """Its own settings, values of headers masked."""
    in_force: dict[str, Any]
    """Those that hold: built in, defaults, tags and own, in this order."""
    why: str
    """When it is visited next, and why."""
    versions: int
    noise: Any
    noisy: str
    """What differs at every visit, in one sentence; empty if nothing does."""
    proposal: str
    """A regular expression that would leave it out."""
    last_modified: dt.datetime | None
    rendering: RenderingItem
    copy: CopyItem | None


class VisitItem(Answer, frozen=True, kw_only=True):
    """A visit."""

    id: int
    source: str
    started_at: dt.datetime
    seconds: float
    outcome: str
    changed: bool | None
    status: int | None
    last_modified: dt.datetime | None
    magnitude: float | None
    bytes: int | None
    error: str | None
    digest: str | None
    reason: str
    attributes: list[str]


class VisitPage(Answer, frozen=True, kw_only=True):
    """Visits, newest first; give `next` as `after` for those before."""

    visits: list[VisitItem]
    next: int | None


class VersionItem(Answer, frozen=True, kw_only=True):
    """A kept version of a source's content."""

    at: dt.datetime
    kind: str
    digest: str
    size: int
    stored: int


class DiffPart(Answer, frozen=True, kw_only=True):
    """A stretch of both texts: equal, or `old` replaced by `new`."""

    kind: Literal["equal", "changed"]
    old: str
    new: str
    path: str = ""
    """Where in a JSON document."""


class DiffAnswer(Answer, frozen=True, kw_only=True):
    """What changed between two kept versions."""

    source: str
    old: VersionItem
    new: VersionItem
    kind: str
    parts: list[DiffPart]
    text: str
    """The same for a terminal."""


class TagItem(Answer, frozen=True, kw_only=True):
    """A tag and how many sources have it."""

    tag: str
    sources: int


class Refused(Answer, frozen=True, kw_only=True):
    """Something in a list that was not taken, and why."""

    row: int
    what: str
    reason: str


class FieldChange(Answer, frozen=True, kw_only=True):
    """A setting of a source before and after; None where there is none."""

    field: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.field}: {_value(self.before)} → {_value(self.after)}"


class EditedSource(Answer, frozen=True, kw_only=True):
    """What an edit changes of a source."""

    source: str
    changes: list[FieldChange]


class Added(Answer, frozen=True, kw_only=True):
    """What became of a source to be added."""

    source: SourceRow
    new: bool
    """False if it was there already."""
    changes: list[FieldChange] = []
    """How a source that was there differs from what was entered; changed only on request."""


class Imported(Answer, frozen=True, kw_only=True):
    """What became of an import."""

    added: int
    changed: int
    known: int
    refused: list[Refused]
    edited: list[EditedSource] = []
    """Sources that were there and differ from what was entered; changed only on request."""


class BulkAnswer(Answer, frozen=True, kw_only=True):
    """How many sources an action was done to."""

    sources: int
    edited: list[EditedSource] = []
    """What was edited, or would be: the first thousand."""


class Done(Answer, frozen=True, kw_only=True):
    """How many things something was done to."""

    done: int


class PreviewVersion(Answer, frozen=True, kw_only=True):
    """A kept version under the settings that are tried."""

    at: dt.datetime
    changed: bool
    """Whether it would have been a change from the version before."""
    reason: str


class PreviewAnswer(Answer, frozen=True, kw_only=True):
    """What a page would give under other settings."""

    source: str
    title: str
    """As the page says it."""
    text: str
    """What would be taken of the page as it is now."""
    before: str | None
    """What is taken of it as the source is set up; None if it is not watched."""
    problem: str
    """Why nothing would be taken."""
    conditions: dict[str, bool]
    """Which conditions the page meets now."""
    changes: list[FieldChange]
    versions: list[PreviewVersion]
    """Newest first."""
    note: str
    """Why kept versions cannot tell more."""


class AddressItem(Answer, frozen=True, kw_only=True):
    """What was found at an address, before it is watched."""

    url: str
    """As it would be watched: https:// is put before an address that says nothing."""
    kind: str
    """The kind of source that fits."""
    what: str
    """page, shell, product, feed, sitemap, json, xml, pdf, pdf-bytes, image, text or file; empty
    if nothing could be seen."""
    words: str
    """The same in words, with how it would be watched."""
    title: str
    """As the page says it."""
    feeds: list[str]
    """Feeds that the page names."""
    known: bool
    """Whether it is watched already."""
    problem: str
    """Why nothing could be seen."""
    remedy: str
    """What helps."""


class Signalled(Answer, frozen=True, kw_only=True):
    """What became of signals."""

    signals: int
    watched: int
    """How many are about sources that are watched; of the others nothing is kept."""


class ChannelItem(Answer, frozen=True, kw_only=True):
    """How far the signals of one kind about one host are believed, with 95 % intervals."""

    kind: str
    group: str
    """The host that they are about, or the list that they stand in, with so many sources."""
    sources: int
    signals: int
    recall: float
    recall_low: float
    recall_high: float
    """Share of the changes that are announced."""
    precision: float
    precision_low: float
    precision_high: float
    """Share of the announced sources that had changed."""
    false_per_day: float
    false_low: float
    false_high: float
    """False signals of one source."""
    delay: float | None
    """Mean days from a change to its signal, where signals say when the change was."""
    changes: float
    """Changes that visits found, as far as they still count, and how many were announced."""
    announced: float
    verdict: str
    """`unproven`, `believed`, or `lies`."""


class HubItem(Answer, frozen=True, kw_only=True):
    """What a source has from its hub (WebSub), until when, and why it has nothing."""

    source: str
    hub: str
    topic: str
    state: str
    """`offered`, `active`, `expired` or `denied`."""
    expires_at: dt.datetime | None
    reason: str


class SignalItem(Answer, frozen=True, kw_only=True):
    """Somebody said that a source may have changed."""

    kind: str
    at: dt.datetime
    changed_at: dt.datetime | None
    """When the change was, as the signal says."""
    listing: str | None
    """The sitemap or feed that says so, if it is one."""
    found: bool | None
    """Whether the next visit found a change (and when it was); null before there was one."""
    found_at: dt.datetime | None


class CheckAnswer(Answer, frozen=True, kw_only=True):
    """A visit that was asked for."""

    visit: VisitItem


class EventItem(Answer, frozen=True, kw_only=True):
    """Something that others are told of."""

    number: int
    id: str
    topic: str
    source: str | None
    source_id: int | None
    title: str
    url: str
    at: dt.datetime
    magnitude: float | None
    reason: str
    tags: list[str]
    delivered_at: dt.datetime | None
    attempts: int
    error: str | None
    payload: dict[str, Any]
    seen: bool = False
    """Whether somebody has marked it as seen."""


class EventPage(Answer, frozen=True, kw_only=True):
    """Events, newest first; give `next` as `after` for those before."""

    events: list[EventItem]
    next: int | None


class SubscriptionItem(Answer, frozen=True, kw_only=True):
    """Who is told of what; channel and secret masked."""

    id: int
    name: str
    channel: str
    secret: str
    filter: Filter
    subject: str
    template: str
    digest: str | float
    quiet: tuple[str, ...]
    timezone: str
    enabled: bool
    owner: str
    every: str | float
    """Its sources are visited at least this often; 0: as the budget has it."""
    created_at: dt.datetime
    updated_at: dt.datetime
    failures: int
    """Failed deliveries in a row."""
    error: str | None
    rests_until: dt.datetime | None
    deliveries: dict[str, int]
    """How many wait, were sent, are dead."""


class NewSubscription(Answer, frozen=True, kw_only=True):
    """A subscription, with the secret that signs its webhook, which is shown this once."""

    subscription: SubscriptionItem
    secret: str


class DeliveryItem(Answer, frozen=True, kw_only=True):
    """One event for one subscriber."""

    id: int
    subscription: str
    event: str
    topic: str
    source: str | None
    state: str
    queued_at: dt.datetime
    due_at: dt.datetime | None
    done_at: dt.datetime | None
    attempts: int
    error: str | None
    message: str | None


class DeliveryPage(Answer, frozen=True, kw_only=True):
    """Deliveries, newest first; give `next` as `after` for those before."""

    deliveries: list[DeliveryItem]
    next: int | None


class Retried(Answer, frozen=True, kw_only=True):
    """How many dead letters are tried again."""

    deliveries: int


class MemberItem(Answer, frozen=True, kw_only=True):
    """A result of a standing query."""

    url: str
    title: str
    rank: int
    dated_at: dt.datetime | None
    first_at: dt.datetime
    seen_at: dt.datetime
    left_at: dt.datetime | None


class SessionView(Answer, frozen=True, kw_only=True):
    """Who is asking."""

    name: str
    role: str
    scope: str
    csrf: str | None
    """To be sent as X-CSRF-Token with every change made with a session; None with a token."""


class AccountItem(Answer, frozen=True, kw_only=True):
    """Somebody who may sign in."""

    id: int
    name: str
    role: str
    created_at: dt.datetime
    signed_in_at: dt.datetime | None


class TokenItem(Answer, frozen=True, kw_only=True):
    """A token for programs, without its secret."""

    id: int
    name: str
    scope: str
    account: str | None
    created_at: dt.datetime
    expires_at: dt.datetime | None
    used_at: dt.datetime | None


class NewToken(Answer, frozen=True, kw_only=True):
    """A token with its secret, which is shown this once."""

    token: TokenItem
    secret: str
