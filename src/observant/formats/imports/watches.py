"""A watch of changedetection.io in our words.

What has no counterpart is told as a warning and never silently dropped; notification addresses are
not taken over, since they may hold secrets.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from observant.formats.imports.base import SourceDescription
from observant.formats.imports.loose import plain_text
from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from observant.formats.imports.report import Report

__all__ = ["describe_watch", "period_of"]

_UNITS = {"weeks": 604_800, "days": int(DAY), "hours": 3_600, "minutes": 60, "seconds": 1}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WITHOUT_PLACE = {
    "trigger_text": "texts that trigger",
    "text_should_not_be_present": "texts that must be absent",
    "extract_lines_containing": "lines to extract",
    "conditions": "conditions",
    "browser_steps": "browser steps",
    "proxy": "proxies",
    "notification_urls": "notification addresses (they may hold secrets)",
}


def describe_watch(
    watch: Mapping[str, Any], tags: Mapping[str, str], report: Report
) -> SourceDescription | None:
    """The source that a watch describes; None if it has no address that can be visited."""
    address = watch.get("url")
    if not isinstance(address, str):
        return None
    settings: dict[str, Any] = {}
    rules = _selection(watch, report)
    if address.startswith("source:"):
        address = address.removeprefix("source:")
        rules["change"] = "bytes"
    if not address.lower().startswith(("http://", "https://")):
        return None
    paused = bool(watch.get("paused"))
    if "{{" in address or "{%" in address:
        report.warn("{n} addresses are templates, which cannot be visited: they are paused")
        paused = True
    if str(watch.get("method") or "GET").upper() != "GET":
        report.warn("{n} watches ask by another method than GET: they are paused")
        paused = True
    seconds = period_of(watch)
    if seconds and not watch.get("time_between_check_use_default"):
        settings["max_period"] = f"{seconds}s"
    if rules:
        settings["compare"] = rules
    settings |= _hours(watch, report)
    headers = watch.get("headers")
    if isinstance(headers, dict) and headers:
        settings["headers"] = {str(key): str(value) for key, value in headers.items()}
    for key, words in _WITHOUT_PLACE.items():
        if watch.get(key):
            report.warn(f"{words} of {{n}} watches have no counterpart and were left out")
    if str(watch.get("fetch_backend") or "") in {"html_webdriver", "webdriver", "playwright"}:
        report.warn("{n} watches use a browser; their pages will be fetched without one")
    if str(watch.get("processor") or "text_json_diff") != "text_json_diff":
        report.warn("{n} watches look at prices or pictures; here their text is watched")
    return SourceDescription(
        address=plain_text(address),
        title=plain_text(str(watch.get("title") or "")),
        tags=_tags(watch, tags),
        paused=paused,
        settings=settings,
    )


def period_of(watch: Mapping[str, Any]) -> int:
    """Seconds between checks, 0 where the watch does not say.

    >>> period_of({"time_between_check": {"hours": 3, "minutes": None}})
    10800
    """
    parts = watch.get("time_between_check")
    seconds = 0
    for unit, length in _UNITS.items():
        count = parts.get(unit) if isinstance(parts, dict) else None
        if isinstance(count, int) and 0 <= count < 10_000_000:
            seconds += count * length
    return seconds


def _tags(watch: Mapping[str, Any], titles: Mapping[str, str]) -> tuple[str, ...]:
    """Titles of its tags; before there were ids, a watch had one text of them."""
    found = watch.get("tags")
    names = [titles.get(str(tag), str(tag)) for tag in found] if isinstance(found, list) else []
    old = watch.get("tag")
    names += old.split(",") if isinstance(old, str) else []
    return tuple(dict.fromkeys(name.strip() for name in names if name.strip()))


def _selection(watch: Mapping[str, Any], report: Report) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    chosen: dict[str, list[str]] = {}
    for text in _texts(watch, "include_filters", "css_filter"):
        language, expression = _language(text)
        chosen.setdefault(language, []).append(expression)
    if "" in chosen:
        report.warn("{n} watches select by jq, which has no counterpart", 1)
        del chosen[""]
    if chosen:
        language = next(iter(chosen))
        first = chosen.pop(language)
        joined = {"css": ", ", "xpath": " | "}.get(language)
        settings[language] = joined.join(first) if joined else first[0]
        if chosen or (joined is None and len(first) > 1):
            report.warn("{n} watches select in several languages: the first one was taken")
    drop = [text for text in _texts(watch, "subtractive_selectors") if _language(text)[0] == "css"]
    if drop:
        settings["drop"] = drop
    ignore = [_line_with(text) for text in _texts(watch, "ignore_text")]
    if ignore:
        settings["ignore"] = ignore
    extract = _texts(watch, "extract_text")
    if extract:
        settings["regex"] = _pattern(extract[0]) or re.escape(extract[0])
        if len(extract) > 1:
            report.warn("{n} watches extract by several patterns: the first one was taken")
    return settings


def _texts(watch: Mapping[str, Any], *keys: str) -> list[str]:
    for key in keys:
        found = watch.get(key)
        if isinstance(found, str):
            found = [found]
        if isinstance(found, list):
            texts = [text.strip() for text in found if isinstance(text, str) and text.strip()]
            if texts:
                return texts
    return []


def _language(text: str) -> tuple[str, str]:
    """Language and expression of a filter; an empty language has no counterpart.

    >>> _language("xpath://h1"), _language("//h1"), _language("json:$.price"), _language("#price")
    (('xpath', '//h1'), ('xpath', '//h1'), ('jsonpath', '$.price'), ('css', '#price'))
    """
    prefixes = {
        "xpath1:": "xpath", "xpath:": "xpath", "json:": "jsonpath", "css:": "css", "jqraw:": "",
        "jq:": "",
    }  # fmt: skip
    for prefix, language in prefixes.items():
        if text.startswith(prefix):
            return language, text.removeprefix(prefix).strip()
    return ("xpath" if text.startswith(("/", "(/")) else "css"), text


def _line_with(text: str) -> str:
    """A whole line that holds the text, or matches it as ``/pattern/``, whatever its case."""
    return rf"(?i)^.*(?:{_pattern(text) or re.escape(text)}).*$"


def _pattern(text: str) -> str | None:
    found = re.fullmatch(r"/(.+)/[a-z]*", text)
    return found[1] if found else None


def _hours(watch: Mapping[str, Any], report: Report) -> dict[str, Any]:
    limit = watch.get("time_schedule_limit")
    if not isinstance(limit, dict) or not limit.get("enabled"):
        return {}
    windows = []
    for name in _DAYS:
        day = limit.get(name)
        if not isinstance(day, dict) or not day.get("enabled"):
            continue
        start = re.fullmatch(r"(\d{1,2}):(\d\d)", str(day.get("start_time") or "00:00"))
        length = day.get("duration")
        length = length if isinstance(length, dict) else {}
        hours, minutes = (str(length.get(unit) or 0) for unit in ("hours", "minutes"))
        if start is None or not (hours + minutes).isdecimal() or len(hours + minutes) > 9:
            report.warn("hours of {n} days cannot be read, and were left out")
            continue
        begin = 60 * int(start[1]) + int(start[2])
        end = begin + min(60 * int(hours) + int(minutes), 1440)
        if begin >= 1440 or end == begin:
            continue
        end = end if end <= 1440 else end - 1440
        windows.append(f"{name[:3]} {begin // 60:02}:{begin % 60:02}-{end // 60:02}:{end % 60:02}")
    if not windows:
        return {}
    return {"active": windows, "timezone": str(limit.get("timezone") or "UTC")}
