"""What hostile strangers write, everywhere strangers can write.

Each text sets `window.hurt` if anything of it is ever executed; the alarm of `browser_world` hears
that. Nothing here may be more than text on any page.
"""

import msgspec
import numpy as np

from observant.estimation.belief import OLD_GRID as GRID
from observant.observer.config import Config
from observant.service.access import Access
from observant.service.collection import Collection, NewSource
from observant.store import (
    Comparison,
    Entry,
    Event,
    Filter,
    Member,
    Posterior,
    Source,
    Subscription,
    Visit,
    open_store,
)

TEXTS = (
    "<script>window.hurt = 'script'</script>",
    "\"><img src=x onerror=\"window.hurt = 'image'\">",
    "'><svg onload=window.hurt='svg'><script>window.hurt='svg script'</script></svg>",
    "javascript:window.hurt='address'//",
    "{{constructor.constructor('window.hurt=1')()}}${window.hurt=2}{%print(7*7)%}<%=7*7%>",
    "</title></textarea></option></script><script>window.hurt = 'way out'</script>",
    "\" autofocus onfocus=\"window.hurt='focus'\" onmouseover=\"window.hurt='mouse'\" x=\"",
    "<iframe srcdoc=\"<script>parent.hurt = 'frame'</script>\"></iframe><base href=//x.example/>",
    "<math><mtext><table><mglyph><style><!--</style><img src=x onerror=window.hurt='math'>",
    "<meta http-equiv=refresh content=\"0;url=javascript:window.hurt='meta'\">]]>--><!--",
    "\u202egnissim\u202c \u2066\u200b\u200d\ufeff\u0301 \x1b[31m\x07",
    "<details open ontoggle=window.hurt='toggle'><a href='data:text/html,<script>1</script>'>",
)  # fmt: skip
PASSWORD = "correct horse battery"  # noqa: S105
ALL = " ".join(TEXTS)
_HOUR = 3600.0


def hostile_store(file):
    """A store in which every text that a stranger can set is one of those above."""
    with open_store(file) as store:
        collection = Collection(store, Config())
        try:
            _fill(store, collection, collection.now())
        finally:
            collection.cache.close()
        access = Access(store, log_n=4)
        access.add_account("owner", "owner", PASSWORD)
        access.add_account("<b onclick=window.hurt=1>", "viewer", PASSWORD)
        access.new_token(TEXTS[0], "read")


def _fill(store, collection, now):
    names = []
    for number, text in enumerate((ALL[:990], *TEXTS)):
        tag = "".join(c for c in text if c not in " ,\x07\x1b")[:150]  # a tag is one word
        entry = NewSource(
            url=f"https://site{number % 3}.example/{number}?q=%3Cscript%3E", title=text,
            tags=(tag, "news"), importance=1.0 + number % 4,
        )  # fmt: skip
        names.append(collection.sources.add(entry).source.name)
    plain = "https://evil.example/\"><script>window.hurt='name'</script>"
    store.sources.add([Source(name=plain, url="javascript:window.hurt='link'//", title="")])
    for number, name in enumerate([*names[:6], plain]):
        rate = 0.5 * 2.0**number
        for k in range(24):
            changed = None if k == 0 else k % 4 == 0
            _visit(store, name, now - (24 - k) * _HOUR + number, changed, rate, k)
    for name in names[6:9]:
        for k in range(4):
            store.visits.record(
                Visit(
                    source=name, started_at=now - (5 - k) * 60, ended_at=now - (5 - k) * 60 + 1,
                    outcome="failed", error=TEXTS[k],
                ),
                due_at=now + 60,
            )  # fmt: skip
    _ask(store, now)
    _tell(store, now)
    store.leases.take("<i onclick=window.hurt=1>", 4, now=now)
    store.journal.add("<i onclick=window.hurt=1>", TEXTS[0], {TEXTS[1]: TEXTS[2]}, now=now)


def _visit(store, name, at, changed, rate, k):
    events = [
        Event(
            id=f"{abs(hash(name))}-{k}",
            topic="changed",
            payload={
                "source": name, "url": TEXTS[3], "title": ALL[:500], "tags": [TEXTS[0], TEXTS[6]],
                "at": at, "magnitude": 0.25, "reason": TEXTS[k % len(TEXTS)],
            },
        )
    ]  # fmt: skip
    belief = -0.5 * ((np.log(GRID) - np.log(rate)) / 0.5) ** 2
    store.visits.record(
        Visit(
            source=name, started_at=at, ended_at=at + 1, status=200, bytes=1000,
            outcome="first" if changed is None else "changed" if changed else "same",
            changed=changed, magnitude=0.25 if changed else None,
            comparison=Comparison(
                outcome="changed", reason=TEXTS[k % len(TEXTS)], attributes=(TEXTS[0], TEXTS[1])
            ),
        ),
        posterior=Posterior(
            data=belief.astype(np.float32).tobytes(), rate=rate, rate_low=rate / 2,
            rate_high=rate * 2,
        ),
        due_at=at + 2 * _HOUR,
        snapshot=f"version {k}\n{ALL}\n{TEXTS[k % len(TEXTS)]}" if k % 4 == 0 else None,
        outbox=events if changed else (),
    )  # fmt: skip


def _ask(store, now):
    """A standing query with hostile results."""
    name = "https://search.example/?q=bees"
    query = {"form": "html", "terms": {TEXTS[0]: 1.0}}
    store.sources.add(
        [Source(name=name, url=name, kind="query", title=TEXTS[5], config={"query": query})]
    )
    members = [
        Member(url=text if k % 2 else f"https://found.example/{k}", title=text, rank=k + 1)
        for k, text in enumerate(TEXTS)
    ]
    visit = Visit(source=name, started_at=now - 60, ended_at=now - 59, outcome="first", status=200)
    store.visits.record_many([Entry(visit=msgspec.structs.replace(visit, members=members))])


def _tell(store, now):
    """Subscriptions whose deliveries went wrong in hostile words."""
    for number, text in enumerate(TEXTS[:4]):
        store.subscriptions.add(
            Subscription(
                name=text, channel=f"https://hook.example/{number}", secret="x" * 40,
                filter=Filter(tags=(TEXTS[6],), terms=(TEXTS[1],), hosts=(TEXTS[0],)),
                subject=TEXTS[4], template=ALL, enabled=False,
            ),
            now=now,
        )  # fmt: skip
    subscription = store.subscriptions.list()[0].id
    events = [event.id for event in store.outbox.pending(limit=8)]
    store.deliveries.fan_out({event: {subscription: now} for event in events}, now=now)
    for delivery, text in zip(store.deliveries.list(limit=8), TEXTS, strict=False):
        store.deliveries.failed([delivery.id], error=text, until=None, now=now)
    store.deliveries.release(subscription, failures=3, error=ALL, now=now)
