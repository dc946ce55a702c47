"""Edits of sources: what is at an address before it is watched, what an edit would change, and what
a page would give under other settings.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import BusyError, InputError, UnknownSourceError, WorkerError
from observant.observer.browser.need import BrowserNeed, has_scripts
from observant.observer.browser.settings import missing
from observant.observer.connections import make_transport
from observant.observer.content import Comparer, Rules
from observant.observer.content.numbers import parse_condition
from observant.observer.content.rules import SELECTORS
from observant.observer.failures import failure, remedy
from observant.observer.fetched import Fetched
from observant.observer.pool import pool
from observant.observer.sources import Surroundings, make_source
from observant.observer.sources.base import host_of
from observant.observer.sources.recognition import Recognised
from observant.observer.tasks import BodyTask, Read
from observant.observer.watched import own_settings
from observant.service.answers import (
    AddressItem,
    EditedSource,
    FieldChange,
    PreviewAnswer,
    PreviewVersion,
)
from observant.service.collection.entries import (
    MASK,
    NewSource,
    SourceChanges,
    checked,
    checked_changes,
    masked_settings,
    masked_url,
    patched,
    with_scheme,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

    from observant.observer.config import Config, SourceSettings
    from observant.service.collection.context import Context
    from observant.service.collection.entries import PreviewRequest
    from observant.store import Source, StoredSource
    from observant.store.visit import Comparison, Previous

_PAGES: dict[Hashable, tuple[float, Fetched, Any]] = {}
"""The last pages that settings were tried on: they are tried again at each key that is pressed."""
_MOST_PAGES = 8
_PAGE_SECONDS = 300.0
_VERSIONS = 10
_LONGEST = 100_000
"""Characters of text that a preview shows."""
_ELSEWHERE = (
    "A kept version holds the text that was watched at that time. Whether other settings would "
    "have reported a change is judged by whether the text that they select now was in it."
)
_AT_ONCE = threading.BoundedSemaphore(4)


@contextmanager
def asked_for() -> Iterator[None]:
    """A visit that somebody waits for; a few at once, and whoever comes then is turned away."""
    if not _AT_ONCE.acquire(blocking=False):
        raise BusyError("many visits are asked for at once: try again soon")
    try:
        yield
    finally:
        _AT_ONCE.release()


# -- what is at an address ------------------------------------------------------------------------


def recognise(
    context: Context,
    addresses: Iterable[str],
    *,
    trusted: bool = False,
    advance: Callable[[int], None] | None = None,
) -> list[AddressItem]:
    """Look at addresses once, together, and say what is there; nothing is kept.

    Somebody waits for it: hosts are asked at the pace of first visits.
    """
    config = context.config
    checks: list[tuple[str, Source | None, str]] = []
    for url in map(with_scheme, addresses):
        try:
            checks.append((url, checked(NewSource(url=url), config, trusted=trusted), ""))
        except InputError as error:
            checks.append((url, None, error.message))
    names = [source.name for _, source, _ in checks if source is not None]
    known = {*context.store.sources.known(names)}

    async def look() -> list[Fetched | None]:
        async with make_transport(config) as transport:
            around = Surroundings(transport, time=time.time)

            async def one(source: Source | None) -> Fetched | None:
                if source is None:
                    return None
                settings = config.settings_of(source.tags, {}, source.name, source.url)
                args = source.name, source.url, settings, Comparer(), around
                made: Any = make_source("http", *args)
                transport.hosts[host_of("http", source.url)].hurried = True
                answer: Fetched = await made.fetch(None, None)
                if advance is not None:
                    advance(1)
                return msgspec.structs.replace(answer, headers=())

            return await asyncio.gather(*(one(source) for _, source, _ in checks))

    with asked_for():
        answers = asyncio.run(look())
    return [
        _found_at(url, answer, problem, known=source is not None and source.name in known)
        for (url, source, problem), answer in zip(checks, answers, strict=True)
    ]


def _found_at(url: str, fetched: Fetched | None, problem: str, *, known: bool) -> AddressItem:
    found, helps = None, ""
    if fetched is not None and fetched.ok:
        try:
            found = pool().call("recognise", fetched, Recognised, lane="asked")
        except WorkerError as error:
            problem = str(error)
    elif fetched is not None:
        problem = failure(fetched.error, fetched.status)
        helps = remedy(fetched.error or "http", fetched.status)
    return AddressItem(
        url=masked_url(url),
        kind=found.kind if found else "http",
        what=found.what if found else "",
        words=str(found) if found else "",
        title=found.title if found else "",
        feeds=found.feeds if found else [],
        known=known,
        problem=problem,
        remedy=helps,
    )


# -- what an edit changes --------------------------------------------------------------------------


def edit(
    context: Context,
    sources: Iterable[StoredSource],
    changes: Mapping[str, SourceChanges] | SourceChanges,
    *,
    dry_run: bool = False,
    trusted: bool = False,
) -> list[EditedSource]:
    """Change sources, all alike or each by its name; returns what is another now, or would be.

    All are checked before any is changed.
    """
    config = context.config
    edited, fields = [], {}
    for source in sources:
        change = changes if isinstance(changes, SourceChanges) else changes[source.name]
        found = checked_changes(source, change, config, trusted=trusted)
        differs = list(_differences(source, found))
        if differs:
            fields[source.name] = found
            edited.append(EditedSource(source=source.name, changes=differs))
    if fields and not dry_run:
        context.store.sources.update_many(fields, now=context.now())
        context.changed()
    return edited


def _differences(before: StoredSource, fields: dict[str, Any]) -> Iterator[FieldChange]:
    for name, value in fields.items():
        was: Any = getattr(before, name)
        after: Any = tuple(sorted(value)) if name == "tags" else value
        if name == "config":
            old, new = _flat(was), _flat(after)
            # That a secret is another one is said, and neither is shown.
            told, tells = _flat(masked_settings(was)), _flat(masked_settings(after))
            for key in old | new:
                if old.get(key) != new.get(key) and not (key == "importance" and key in fields):
                    before_, after_ = told.get(key), tells.get(key)
                    another = f"{MASK} (another)" if before_ == after_ else after_
                    yield FieldChange(field=key, before=before_, after=another)
        elif name == "url" and was != after:
            yield FieldChange(field=name, before=masked_url(was), after=masked_url(after))
        elif name != "host" and was != after:
            yield FieldChange(field=name, before=was, after=after)


def _flat(settings: dict[str, Any], within: str = "") -> dict[str, Any]:
    """Settings by one name each.

    >>> _flat({"render": "never", "compare": {"css": "p"}, "headers": {"Accept": "x"}})
    {'render': 'never', 'css': 'p', 'headers.Accept': 'x'}
    """
    found: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, dict):
            found |= _flat(value, "" if key == "compare" else f"{within}{key}.")
        else:
            found[f"{within}{key}"] = value
    return found


# -- what a page would give ------------------------------------------------------------------------


def preview(context: Context, asked: PreviewRequest, *, trusted: bool = False) -> PreviewAnswer:
    """What a page gives under other settings: now, and at the versions that are kept."""
    config, row, said = context.config, _watched(context, asked, trusted), asked.changes
    if row is None:
        own = patched(said.settings or {}, said.patch or {})
        entry = NewSource(url=asked.url, kind=asked.kind, tags=said.add_tags, settings=own)
        source, fields = checked(entry, config, trusted=trusted), {}
        own = source.config
    else:
        fields = checked_changes(row, said, config, trusted=trusted)
        source = msgspec.structs.replace(row, **fields)
        own = own_settings(source)
    if source.kind not in {"http", "feed", "sitemap", "product"}:
        raise InputError("only pages, feeds and sitemaps can be previewed", source=source.name)
    url = source.url or source.name
    after = config.settings_of(source.tags, own, source.name, url)
    rendered = after.needs_browser
    before = None
    if row is not None:
        before = config.settings_of(row.tags, own_settings(row), row.name, url)
        if after.render == "auto" and not rendered:
            rendered = BrowserNeed.is_rendered(context.store.sources.previous(row.name, text=False))
    fetched, form = _page(context, source, after, rendered and not missing(config.browser))
    found = _taken(fetched, form, after)
    versions, note = list[PreviewVersion](), ""
    if row is not None and before is not None:
        versions, note = _kept(context, row, before, after, found.text or "")
    elif after.render == "auto" and not rendered and _is_shell(fetched, found, after):
        if why := missing(config.browser):
            note = f"This page looks empty without a browser. {why[:1].upper()}{why[1:]}."
        else:
            fetched, form = _page(context, source, after, rendered=True)
            found = _taken(fetched, form, after)
    text = found.text or ""
    conditions = _rules(after).conditions if found.text is not None else ()
    return PreviewAnswer(
        source=source.name,
        title=str((found.record or {}).get("title", "")),
        text=text[:_LONGEST],
        before=None if before is None else (_taken(fetched, form, before).text or "")[:_LONGEST],
        problem=found.reason if found.text is None else "",
        conditions={words: parse_condition(words).met_by(text) for words in conditions},
        changes=[] if row is None else list(_differences(row, fields)),
        versions=versions,
        note=note,
    )


def _is_shell(fetched: Fetched, found: Comparison, settings: SourceSettings) -> bool:
    """Whether a page of which nothing is known yet may show more in a browser."""
    whole = not any(getattr(_rules(settings), name) for name in (*SELECTORS[:4], "regex"))
    return BrowserNeed().read_plainly(found, scripts=has_scripts(fetched), whole=whole).shell


def _watched(context: Context, asked: PreviewRequest, trusted: bool) -> StoredSource | None:
    """The source that is meant, if it is watched."""
    if asked.source is not None:
        return context.store.sources.numbered(asked.source)
    named = checked(NewSource(url=asked.url, kind=asked.kind), context.config, trusted=trusted)
    try:
        return context.store.sources.get(named.name)
    except UnknownSourceError:
        return None


def _rules(settings: SourceSettings) -> Rules:
    return msgspec.convert(settings.compare, Rules)


def _taken(fetched: Fetched, form: Any, settings: SourceSettings) -> Comparison:
    """What the settings take of a page."""
    return _compared(Comparer(_rules(settings)), None, fetched, form)


def _compared(
    comparer: Comparer, previous: Previous | None, fetched: Fetched, form: Any
) -> Comparison:
    body = BodyTask(
        form=form,
        rules=msgspec.to_builtins(comparer.rules),
        selection_version=comparer.selection_version,
        previous=previous,
        fetched=fetched,
    )
    return pool().call("read", body, Read, lane="asked").comparison


def _kept(
    context: Context,
    row: StoredSource,
    before: SourceSettings,
    after: SourceSettings,
    text: str,
) -> tuple[list[PreviewVersion], str]:
    """Which kept versions would have been a change, and why that cannot be said."""
    old, new = _rules(before), _rules(after)
    if new.change == "visual":
        return _kept_pictures(context, row, new)
    same = all(getattr(old, n) == getattr(new, n) for n in (*SELECTORS[:4], "drop", "kind"))
    narrower = old.regex in {None, new.regex} and {*old.ignore} <= {*new.ignore}
    if not (same and narrower) or new.change in {"bytes", "structure"}:
        return judged_by_text(context, row, text), _ELSEWHERE
    plain = dict.fromkeys(SELECTORS[:4])
    rules = msgspec.structs.replace(
        new,
        **plain,
        regex=None if new.regex == old.regex else new.regex,
        drop=(),
        kind="text",
        learn_noise=False,
        confirm=0,
    )
    comparer, snapshots = Comparer(rules), context.store.snapshots
    seen: Previous | None = None
    found = []
    for version in reversed(snapshots.versions(row.name, limit=_VERSIONS)):
        body = snapshots.get(version.digest)
        kept = Fetched(url="x:", status=200, body=body, content_type="text/plain", charset="utf-8")
        judged = _compared(comparer, seen, kept, "page")
        if judged.text is not None or judged.outcome == "same":
            seen = comparer.after(seen, kept, judged)
        changed = judged.outcome == "changed"
        found.append(PreviewVersion.of(version, changed=changed, reason=judged.reason))
    return found[::-1], ""


def judged_by_text(context: Context, row: StoredSource, text: str) -> list[PreviewVersion]:
    """Which kept versions would have been a change of a part that has this text now.

    As long as its words stood in a version one after the other, it was the same. Of versions before
    that, nothing can be said: they are left out.
    """
    wanted, found = f" {' '.join(text.split())} ", list[PreviewVersion]()
    if not wanted.strip():
        return found
    snapshots = context.store.snapshots
    versions = snapshots.versions(row.name, limit=_VERSIONS)
    held = [
        wanted in f" {' '.join(snapshots.get(one.digest).decode('utf-8', 'replace').split())} "
        for one in versions
    ]
    for place, version in enumerate(versions):
        if not held[place] or place + 1 == len(versions):
            break
        changed = not held[place + 1]
        reason = "this part became what it is now" if changed else "only other parts changed"
        found.append(PreviewVersion.of(version, changed=changed, reason=reason))
    return found


def _kept_pictures(
    context: Context, row: StoredSource, rules: Rules
) -> tuple[list[PreviewVersion], str]:
    """The same by how the versions looked."""
    snapshots, comparer = context.store.snapshots, Comparer(rules)
    versions = snapshots.versions(row.name, kind="screenshot", limit=_VERSIONS)
    if len(versions) < 2:
        return [], "Fewer than two pictures are kept: there is nothing to compare."
    found, seen = [], None
    for version in reversed(versions):
        page = Fetched(url="x:", status=200, body=b"x", shot=snapshots.get(version.digest))
        judged = _compared(comparer, seen, page, "page")
        changed = judged.outcome == "changed"
        found.append(PreviewVersion.of(version, changed=changed, reason=judged.reason))
        seen = comparer.after(seen, page, judged)
    return found[::-1], ""


def _page(
    context: Context, source: Source, settings: SourceSettings, rendered: bool
) -> tuple[Fetched, Any]:
    """The page as it is now, or was some minutes ago."""
    masks = settings.compare.get("masks"), settings.compare.get("change") == "visual"
    sent = (*settings.headers.items(), settings.steps, settings.sign_in, str(masks))
    key = (id(context.store), source.url, source.kind, sent, rendered, settings.robots)
    kept = _PAGES.get(key)
    if kept is not None and time.monotonic() - kept[0] < _PAGE_SECONDS:
        return kept[1:]
    with asked_for():
        fetched, form = asyncio.run(_fetch(context.config, source, settings, rendered))
    while len(_PAGES) >= _MOST_PAGES:
        _PAGES.pop(next(iter(_PAGES)), None)
    if fetched.ok:
        _PAGES[key] = time.monotonic(), fetched, form
    return fetched, form


async def _fetch(
    config: Config, source: Source, settings: SourceSettings, rendered: bool
) -> tuple[Fetched, Any]:
    from observant.observer.browser.engine import Browser
    from observant.observer.browser.steps import SteppingBrowser

    async with make_transport(config) as transport:
        around = Surroundings(transport, time=time.time)
        url = source.url or source.name
        made: Any = make_source(source.kind, source.name, url, settings, Comparer(), around)
        browser = Browser(transport, config.browser) if rendered else None
        looks: Any = browser
        rules, own = _rules(settings), (settings.steps, settings.sign_in)
        masks = rules.css_masks if rules.change == "visual" else None
        if browser is not None and (any(own) or masks is not None):
            looks = SteppingBrowser(browser, *own, secrets=config.secrets, masks=masks)
        try:
            found = await made.fetch(None, looks)
        finally:
            if browser is not None:
                await browser.close()
    return msgspec.structs.replace(found, headers=()), made.form
