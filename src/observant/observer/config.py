"""What a person may set: one TOML file, the environment, flags. A flag wins over the environment,
the environment over the file, the file over what is built in.

Settings of a source come from four places in the same spirit: what is built in, ``[defaults]``, the
tags of the source in their order (``[tags.NAME]``), the source itself.
"""

from __future__ import annotations

import difflib
import functools
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from observant.errors import InputError
from observant.names import OBJECTIVES, RENDER_MODES, SAMPLINGS, usual_config, usual_store
from observant.observer import bounds
from observant.observer.active_hours import ActiveHours
from observant.observer.browser.settings import BrowserSettings
from observant.observer.browser.steps import Secret, check_steps
from observant.store.validation import checked_importance
from observant.times import DAY
from observant.units import counts_cost, parse_budget, parse_duration

__all__ = [
    "Config",
    "Notify",
    "Retention",
    "SourceEntry",
    "SourceSettings",
    "load_config",
    "usual_budget",
]

PREFIX = "OBSERVANT_"
_OFTEN = 50
"""So many sources can each be visited every hour, and nobody minds."""
_LEFT_TO_SOURCES = {"compare": {"query": {"a": 1.0}}, "query": {"items": "a"}}
"""What each source of [defaults] and [tags.NAME] may say for itself: for the check, anything."""
_KEY = re.compile(r"[A-Za-z0-9-]{8,128}")
"""What IndexNow takes for a key."""
_LISTS = frozenset({"allow", "files", "kinds"})
_OWN = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_UNKNOWN = re.compile(r"Object contains unknown field `([^`]*)`(.*)", re.DOTALL)


def _origin(url: str) -> str:
    from observant.observer.sources.base import origin_of

    return origin_of(url)


def _check_objective(objective: str) -> None:
    if objective not in OBJECTIVES and not _OWN.fullmatch(objective):
        raise InputError(
            f"no objective {objective!r}; one of {', '.join(OBJECTIVES)}, or one of your own: "
            "module:name"
        )


def _check_public_url(url: str) -> None:
    from observant.errors import BadURL
    from observant.observer.transport.urls import parse

    try:
        target = parse(url)
    except BadURL as error:
        raise InputError(f"public_url: {error}") from error
    if target.authorization or "?" in url or "#" in url:
        raise InputError("public_url is an address such as https://watch.example.org/observant")


def _check_networks(networks: tuple[str, ...]) -> None:
    if networks:
        from observant.observer.transport.guard import Guard

        Guard(allow=networks)


def usual_budget(sources: int) -> float:
    """Visits a day for so many sources, unless somebody says: one an hour for each of the first
    fifty, and one a day for each of the others.

    >>> usual_budget(1), usual_budget(56), usual_budget(10_000)
    (24.0, 1206.0, 11150.0)
    """
    few = min(max(sources, 1), _OFTEN)
    return 24.0 * few + max(sources - _OFTEN, 0)


_days = functools.lru_cache(1024)(parse_duration)  # asked for at every visit


class SourceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one source is visited and compared. Durations as in ``6h``."""

    importance: float = 1.0
    min_period: str | float = "5min"
    max_period: str | float = "365d"
    grace: str | float | None = None
    """How late its copy may be and still count as current; by default that of the collection. It
    is used with the objective currency."""
    active: tuple[str, ...] = ()
    """Hours when it may be visited, such as ``mon-fri 08:00-18:00``; any time by default."""
    timezone: str = "UTC"
    headers: dict[str, str] = {}
    origins: tuple[str, ...] = ()
    """Where the headers of a table that sources share may be sent, such as https://example.org."""
    robots: bool = True
    """Obey robots.txt."""
    verify: bool = True
    """Check the certificate of an https server; False is for one of your own that has none."""
    render: str = "auto"
    """auto, never or always: whether the page is looked at with a browser. auto tries both ways
    and keeps to the cheaper one while it shows the same text."""
    steps: tuple[str, ...] = ()
    """What is done on the page before it is read, such as "dismiss", "click #more" or "scroll 3";
    it is looked at with a browser then."""
    sign_in: tuple[str, ...] = ()
    """Steps that sign in, taken when the field of the first of them is there."""
    confirm_after: str | float = "1min"
    """How soon the second visit comes that `compare.confirm` asks for."""
    compare: dict[str, Any] = {}
    """Selection, noise and definition of change: see `observant.observer.content`."""
    limits: dict[str, Any] = {}
    """Limits of time and size that differ from those of everybody."""
    query: dict[str, Any] = {}
    """For a standing query: where its results stand and what is done with them."""

    def __post_init__(self) -> None:
        checked_importance(self.importance)
        if self.render not in RENDER_MODES:
            raise InputError(f"render must be {', '.join(RENDER_MODES)}, not {self.render!r}")
        if self.render == "never" and self.compare.get("change") == "visual":
            raise InputError('change = "visual" compares pictures: render cannot be never')
        check_steps("steps", self.steps)
        check_steps("sign_in", self.sign_in)
        bounds.duration("confirm_after", self.confirm_after)
        shortest = bounds.duration("min_period", self.min_period)
        if shortest > bounds.duration("max_period", self.max_period, above=True):
            raise InputError(f"min_period {self.min_period} is above max_period {self.max_period}")
        if self.grace is not None:
            bounds.duration("grace", self.grace)
        ActiveHours.parse(list(self.active), self.timezone)
        if self.headers:
            from observant.observer.transport.headers import checked_headers

            checked_headers(self.headers.items())
        for origin in self.origins:
            if not _origin(origin):
                raise InputError(f"origins: {origin!r} is none; write https://example.org")

    @property
    def needs_browser(self) -> bool:
        """Whether it is looked at with a browser whatever visits show."""
        looks = self.render == "always" or self.compare.get("change") == "visual"
        return looks or bool(self.steps or self.sign_in)

    @property
    def shortest(self) -> float:
        """The minimum period, in days."""
        return _days(self.min_period)

    @property
    def longest(self) -> float:
        """The maximum period, in days."""
        return _days(self.max_period)

    @property
    def hours(self) -> ActiveHours | None:
        return ActiveHours.parse(list(self.active), self.timezone) if self.active else None


class Retention(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which versions of a source are kept. The latest one always is."""

    max_age: str | float | None = None
    max_versions: int | None = None
    """Of each source."""
    max_bytes: int | None = None
    """Of all together."""

    def __post_init__(self) -> None:
        if self.max_age is not None:
            bounds.duration("max_age", self.max_age)
        if self.max_versions is not None:  # the latest one always stays
            bounds.number("max_versions", self.max_versions, 1)
        if self.max_bytes is not None:
            bounds.number("max_bytes", self.max_bytes, 0, 2**62)

    def limits(self) -> dict[str, Any]:
        """What `Store.snapshots.retain` takes; empty if everything is kept."""
        found = {
            "max_age": None if self.max_age is None else parse_duration(self.max_age) * DAY,
            "max_versions": self.max_versions,
            "max_bytes": self.max_bytes,
        }
        return {key: value for key, value in found.items() if value is not None}


class Notify(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How people are notified, and of what: see docs/notifications.md."""

    mail: str = ""
    """The server for e-mail: ``smtp://user:password@mail.example.org:587`` or ``smtps://…``."""
    sender: str = ""
    """The address that e-mail comes from."""
    allow: tuple[str, ...] = ()
    """Private networks that may be sent to, besides those that may be visited."""
    failing_after: int = 3
    """A source is failing after so many failed visits in a row."""
    vanished_after: str | float = "1d"
    """A source that has been gone for so long has vanished."""
    overdue: float = 0.01
    """A silence is reported when its probability is below this; 0: never."""
    lateness: str | float = "1h"
    """Due visits wait for so long, on average: an alarm. 0: never."""
    currency: float = 0.0
    """The budget buys less currency (α) than this: an alarm. 0: never."""
    retry: str | float = "10s"
    """After a failed attempt; doubled with each one that follows."""
    longest_retry: str | float = "1h"
    """The longest such pause."""
    attempts: int = 20
    """A message that was refused so often is a dead letter ..."""
    give_up: str | float = "3d"
    """... and so is one that has waited for so long for a receiver that does not answer."""
    keep: str | float = "365d"
    """How long events and deliveries that are done are kept."""

    def __post_init__(self) -> None:
        for name in ("vanished_after", "lateness", "retry", "longest_retry", "give_up", "keep"):
            bounds.duration(f"notify: {name}", getattr(self, name))
        for name in ("failing_after", "attempts"):
            bounds.number(f"notify: {name}", getattr(self, name), 1)
        _check_networks(self.allow)
        for name in ("overdue", "currency"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(f"notify: {name} lies between 0 and 1")

    def seconds(self, name: str) -> float:
        """One of the durations above, in seconds."""
        return parse_duration(getattr(self, name)) * DAY


class SourceEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A source in the file: where it is, and its own settings."""

    name: str = ""
    """By default its address."""
    url: str = ""
    kind: str = "http"
    """http, file, feed, sitemap, query, product, command, callable, or one that a package adds."""
    tags: tuple[str, ...] = ()
    settings: dict[str, Any] = {}


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that can be set."""

    store: str = "observant.db"
    budget: str | float = "auto"
    """Visits of all sources together, as in ``5000/day``, or what they may cost, as in
    ``5000 cost/day`` (a plain visit costs 1); auto grows with the number of sources."""
    first_visits: int = 1000
    """So many new sources are looked at at once, outside the budget; 0: none."""
    objective: str = "freshness"
    """A name, or ``module:function`` for one of your own, which the file alone can name."""
    grace: str | float = 0.0
    spot_checks: float = 0.02
    """Share of the budget for visits at random times to random sources, which measure how current
    the copies are; 0: none."""
    sampling: str = "even"
    """even, or mixed: gaps between visits vary from a tenth of a period to nearly two, so that the
    log shows how intervals are spread inside a period. That costs freshness."""
    contact: str = ""
    """An address that servers see beside our name, so that their people can write to us."""
    public_url: str = ""
    """Where others reach the service, such as https://watch.example.org: hubs (WebSub) call there.
    Without it nothing is subscribed to."""
    indexnow: dict[str, str] = {}
    """Keys with which publishers of your own may announce pages (IndexNow), by host."""
    allow: tuple[str, ...] = ()
    """Private networks that may be visited, such as 192.168.1.0/24; none by default."""
    files: tuple[str, ...] = ()
    """Folders whose files may be watched, whoever enters them; none by default."""
    kinds: tuple[str, ...] = ()
    """Kinds of sources of other packages that may be visited, whoever enters them."""
    downloaders: int = 256
    """The most visits under way at once."""
    host_delay: str | float = "1s"
    """The least time between two visits to a host."""
    lease: str | float = "1min"
    """How long the part of an observer that is silent stays its own, before others take it over."""
    metrics: str = ""
    """A file that is rewritten every few seconds, or a port of loopback."""
    log: str = "text"
    """text or json."""
    limits: dict[str, Any] = {}
    retention: Retention = Retention()
    """Which versions of sources are kept; the visits always are."""
    notify: Notify = Notify()
    browser: BrowserSettings = BrowserSettings()
    """The browser for pages that need one."""
    secrets: dict[str, Secret] = {}
    """What steps fill in and nobody is to see, by name."""
    defaults: dict[str, Any] = {}
    tags: dict[str, dict[str, Any]] = {}
    sources: tuple[SourceEntry, ...] = ()
    file: str = ""
    """Where it was read from."""

    def __post_init__(self) -> None:
        if self.budget != "auto":
            bounds.budget(self.budget)
        bounds.number("first_visits", self.first_visits, 0)
        _check_objective(self.objective)
        if bounds.duration("grace", self.grace) and self.objective != "currency":
            raise InputError(
                f"a grace belongs to the objective currency, not to {self.objective}: choose "
                "currency, or a grace of 0"
            )
        bounds.duration("host_delay", self.host_delay, most=365.0)
        bounds.duration("lease", self.lease, least=bounds.SECOND, most=365.0)
        bounds.number("spot_checks", self.spot_checks, 0, 0.5)
        bounds.number("downloaders", self.downloaders, 1, 100_000)
        if self.sampling not in SAMPLINGS:
            raise InputError(f"sampling must be {' or '.join(SAMPLINGS)}, not {self.sampling!r}")
        if self.metrics.isdigit():
            bounds.number("metrics: a port", int(self.metrics[:9]), 0, 65_535)
        if self.log not in {"text", "json"}:
            raise InputError(f"log must be text or json, not {self.log!r}")
        if self.contact:
            from observant.observer.transport.headers import checked_value

            checked_value("contact", self.contact)
        if self.public_url:
            _check_public_url(self.public_url)
        for host, key in self.indexnow.items():
            if not _KEY.fullmatch(key):
                raise InputError(
                    f"indexnow: the key of {host} must have 8 to 128 letters, digits and -"
                )
        _check_networks(self.allow)
        if not all(folder.strip() and "\0" not in folder for folder in self.files):
            raise InputError("files: name folders, such as /srv/reports")
        if {"command", "callable"} & {*self.kinds}:
            raise InputError("kinds: commands and callables are allowed one by one, in [[sources]]")
        _check_limits(self.limits, None)

    @property
    def budget_per_day(self) -> float:
        """Visits a day; `settings_of` says what auto is for the sources of a store."""
        return usual_budget(0) if self.budget == "auto" else parse_budget(self.budget)

    @property
    def counts_cost(self) -> bool:
        """Whether the budget is one of cost: a visit with a browser takes more of it."""
        return counts_cost(self.budget)

    @property
    def grace_days(self) -> float:
        return parse_duration(self.grace)

    @property
    def host_delay_days(self) -> float:
        return parse_duration(self.host_delay)

    @property
    def lease_seconds(self) -> float:
        return parse_duration(self.lease) * DAY

    @property
    def spot_checks_per_day(self) -> float:
        """Visits a day that are left to chance."""
        return self.budget_per_day * self.spot_checks

    def settings_of(
        self,
        tags: tuple[str, ...] | list[str],
        own: dict[str, Any] | None,
        source: str = "",
        url: str = "",
        kind: str = "http",
    ) -> SourceSettings:
        """The settings of a source at this address with these tags and settings of its own.

        Everybody who may enter sources may tag one. So headers of [defaults] and [tags] that may
        be secrets are left out unless the configuration names the origin of the address: in
        `origins` of the same table, or by a source of its own that has the tag.

        >>> config = Config(defaults={"max_period": "30d"}, tags={"news": {"importance": 3}})
        >>> config.settings_of(["news"], {"min_period": "5min"}).importance
        3.0
        """
        merged: dict[str, Any] = {}
        if own and "origins" in own:
            raise InputError("origins belong to [defaults] and [tags]", source=source or None)
        shared = (self._sendable(tag, url) for tag in (None, *tags))
        for layer in (*shared, own or {}):
            merged = _merged(merged, layer)
        settings = _settings(merged, source)
        _check_inner(settings, source)
        if settings.compare.get("change") == "visual" and kind not in {"http", "product"}:
            raise InputError(
                f'change = "visual" compares pictures of pages: a {kind} has none', source=source
            )
        return settings

    def limits_of(self, settings: SourceSettings) -> dict[str, float]:
        """Periods and grace that a schedule keeps to for a source, in days."""
        own = None if self.objective != "currency" else settings.grace
        return {
            "min_period": settings.shortest,
            "max_period": settings.longest,
            "grace": parse_duration(self.grace if own is None else own),
        }

    @property
    def shares_headers(self) -> bool:
        """Whether the settings of a source depend on its origin."""
        return any(table.get("headers") for table in (self.defaults, *self.tags.values()))

    def _sendable(self, tag: str | None, url: str) -> dict[str, Any]:
        """[defaults], or [tags.TAG], without secrets that are not for this address."""
        table = self.defaults if tag is None else self.tags.get(tag, {})
        headers = table.get("headers")
        if not isinstance(headers, dict) or not headers:
            return table
        from observant.observer.transport.headers import HARMLESS

        origin = _origin(url)
        named = [*table.get("origins", ())]
        named += [entry.url for entry in self.sources if tag is None or tag in entry.tags]
        if origin and any(_origin(one) == origin for one in named):
            return table
        harmless = {name: text for name, text in headers.items() if name.lower() in HARMLESS}
        return table | {"headers": harmless}


def load_config(
    file: str | None = None,
    flags: dict[str, Any] | None = None,
    environment: dict[str, str] | None = None,
) -> Config:
    """Read the file (``observant.toml`` here or of this user), the environment and the flags.

    A flag that is None was not given.

    >>> load_config(None, {"budget": "2/s"}, {"OBSERVANT_BUDGET": "9/day"}).budget_per_day
    172800.0
    """
    env = dict(os.environ if environment is None else environment)
    named = file or env.get(f"{PREFIX}CONFIG") or usual_config(env)
    values: dict[str, Any] = {"store": usual_store(env)}
    if named:
        values |= read_toml(named) | {"file": str(Path(named).resolve())}
    where = values.get("file") or None
    for layer in (_from_environment(env), flags or {}):
        if ":" in str(layer.get("objective")):
            raise InputError("an objective of your own is named in the configuration file alone")
        values = _merged(values, {k: v for k, v in layer.items() if v is not None})
    config: Config = _converted(values, Config, where)
    tags = {f"[tags.{tag}]": own for tag, own in config.tags.items()}
    for table, own in (tags | {"[defaults]": config.defaults}).items():
        try:
            left = {part: what for part, what in _LEFT_TO_SOURCES.items() if part in own}
            _check_inner(_settings(_merged(left, own), ""), "")
        except InputError as error:
            raise InputError(f"{table}: {error.message}", file=where) from error
    for entry in config.sources:
        if not entry.url:
            raise InputError("every source needs a url", file=where, source=entry.name or None)
        config.settings_of(entry.tags, entry.settings, entry.name or entry.url, kind=entry.kind)
    return config


def read_toml(file: str) -> dict[str, Any]:
    """The tables of a file of settings."""
    try:
        with Path(file).open("rb") as opened:
            return tomllib.load(opened)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=file) from error
    except (ValueError, RecursionError) as error:  # of TOML, UTF-8, or a number too long
        raise InputError(f"this is not TOML: {error}", file=file) from error


def _from_environment(env: dict[str, str]) -> dict[str, Any]:
    """``OBSERVANT_BUDGET`` is budget, ``OBSERVANT_LIMITS__TOTAL`` is total in [limits]."""
    values: dict[str, Any] = {}
    fields = {field.name: field for field in msgspec.structs.fields(Config)}
    for name, text in env.items():
        if not name.startswith(PREFIX):
            continue
        path = name.removeprefix(PREFIX).lower().split("__")
        if path[0] not in fields or path[0] in {"sources", "file"}:
            # Names that belong to others (OBSERVANT_TRACES, for one) are theirs; a slip is not.
            known = {*fields, "config", "token"} - {"sources", "file"}
            near = difflib.get_close_matches(path[0], known, n=1, cutoff=0.8)
            if near and path[0] not in known:
                meant = f"{PREFIX}{near[0].upper()}"
                raise InputError(f"there is no setting {name}; did you mean {meant}?")
            continue
        value: Any = text.split(",") if path[-1] in _LISTS else text
        for part in reversed(path):
            value = {part: value}
        values = _merged(values, value)
    return values


def _settings(values: dict[str, Any], source: str, where: str | None = None) -> SourceSettings:
    settings: SourceSettings = _converted(values, SourceSettings, where, source or None)
    return settings


def _check_inner(settings: SourceSettings, source: str) -> None:
    """Complain now about rules and limits that no visit could use."""
    if settings.compare:
        from observant.observer.content import Rules

        _converted(settings.compare, Rules, None, source or None)
    _check_limits(settings.limits, None, source or None)
    if settings.query:
        from observant.observer.sources.query import StandingQuery

        _converted(settings.query, StandingQuery, None, source or None)


def _check_limits(limits: dict[str, Any], file: str | None, source: str | None = None) -> None:
    if limits:
        from observant.observer.transport.limits import Limits

        try:
            _converted(limits, Limits, file, source)
        except InputError as error:
            raise InputError(f"[limits]: {error.message}", file=file, source=source) from error


def _converted(values: Any, kind: Any, file: str | None, source: str | None = None) -> Any:
    try:
        return msgspec.convert(values, kind, strict=False)
    except InputError as error:
        if (error.file or not file) and (error.source or not source):
            raise
        raise InputError(error.message, file=file, source=source) from error
    except msgspec.ValidationError as error:
        message = str(error)
        unknown = _UNKNOWN.match(message)
        if unknown is not None:
            near = difflib.get_close_matches(unknown[1], _settings_in(kind), n=1)
            message = f"there is no setting `{unknown[1]}`{unknown[2]}"
            message += f"; did you mean `{near[0]}`?" if near else ""
        raise InputError(message, file=file, source=source) from error


def _settings_in(kind: Any) -> list[str]:
    """The names of settings, those in tables of their own too."""
    names: list[str] = []
    for field in msgspec.structs.fields(kind):
        names.append(field.name)
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            names += [inner.name for inner in msgspec.structs.fields(field.type)]
    return names


def _merged(low: dict[str, Any], high: dict[str, Any]) -> dict[str, Any]:
    """The values of both, tables merged, the higher layer winning."""
    merged = dict(low)
    for key, value in high.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged
