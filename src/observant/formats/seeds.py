"""Seed lists: a plan as files that crawlers read.

| format | what is written | the crawler keeps |
|---|---|---|
| `nutch` | `url⇥nutch.score=…⇥nutch.fetchInterval=seconds` | the period of each source |
| `urlfrontier` | one JSON `known` item a line, with the date of its next visit | the next visit |
| `scrapy` | the arguments of one `scrapy.Request` a line, as JSON | the order, by priority |
| `browsertrix` | a YAML file for `--config`: each page alone, not what it links to | the order |
| `heritrix` | URLs, the most often visited first, after a comment | the order |
| `plain` | the same without the comment (`--seedFile` of Browsertrix) | the order |

Sources that the plan never visits are left out, but for URLFrontier, where a date of 0 says so.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from observant.errors import InputError
from observant.names import SEED_FORMATS
from observant.times import DAY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observant.planning import Plan

__all__ = ["SEED_FORMATS", "seed_lines"]

_GOLDEN = 0.6180339887498949
_BREAKS = re.compile(r"[\x00-\x20\x7f\x85\u2028\u2029]")


def seed_lines(plan: Plan, format: str, *, now: float) -> Iterator[str]:  # noqa: A002
    """Yield the lines of a seed list, those visited most often first.

    `now` is the time from which the first visits are due, in seconds since 1970. They are spread
    over a period of each source, so that they do not come all at once.

    >>> from observant.planning import plan
    >>> best = plan([1.0, 0.5], budget=2, source=["http://a.example/", "http://b.example/"])
    >>> for line in seed_lines(best, "nutch", now=0):
    ...     print(line.replace("\\t", " "))
    http://a.example/ nutch.score=1.1226 nutch.fetchInterval=76966
    http://b.example/ nutch.score=0.8774 nutch.fetchInterval=98470
    >>> print(next(seed_lines(best, "scrapy", now=0)))
    {"url": "http://a.example/", "priority": 5, "meta": {"observant_period": 76966}}
    """
    if format not in SEED_FORMATS:
        raise InputError(f"unknown seed format {format!r}; one of {', '.join(SEED_FORMATS)}")
    if format in {"heritrix", "browsertrix"}:
        yield f"# {len(plan):,} sources planned by observant, {plan.spent:g} visits a day"
    order = np.argsort(-plan.visits_per_day, kind="stable")
    if format == "browsertrix":
        # Without pages the list must still be one.
        yield "seeds:" if (plan.visits_per_day > 0.0).any() else "seeds: []"
    for place, i in enumerate(order.tolist()):
        name, visits = _line(plan.source[i]), float(plan.visits_per_day[i])
        if format == "urlfrontier":
            yield _frontier_item(name, visits, now, (place * _GOLDEN) % 1.0)
        elif not visits > 0.0:
            continue
        elif format == "nutch":
            yield f"{name}\tnutch.score={visits:.4f}\tnutch.fetchInterval={_seconds(visits)}"
        elif format == "scrapy":
            yield _scrapy_request(name, visits)
        elif format == "browsertrix":
            # A text in JSON is a text in YAML.
            yield f"  - url: {json.dumps(name, ensure_ascii=False)}\n    scopeType: page"
        else:
            yield name


def _frontier_item(url: str, visits: float, now: float, phase: float) -> str:
    due = round(now + phase * DAY / visits) if visits > 0.0 else 0
    info = {"url": url, "key": _host(url), "metadata": {}}
    return json.dumps({"known": {"info": info, "refetchable_from_date": due}}, ensure_ascii=False)


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # brackets that hold no IPv6 address
        return ""


def _scrapy_request(url: str, visits: float) -> str:
    """Arguments of a request. Priorities are whole numbers: a hundred for a factor of ten."""
    priority = round(100 * math.log10(visits))
    meta = {"observant_period": _seconds(visits)}
    return json.dumps({"url": url, "priority": priority, "meta": meta}, ensure_ascii=False)


def _seconds(visits: float) -> int:
    return max(1, round(DAY / visits))


def _line(source: Any) -> str:
    name = str(source)
    if _BREAKS.search(name) or not name:
        raise InputError("a name with blanks cannot stand in a seed list", source=name)
    return name
