"""The results in a list of results: a page by CSS or XPath, a feed, a sitemap, JSON by JMESPath.

Lists come from strangers. Whatever they hold, there are at most so many results as were asked for,
each an http or https address without credentials, with a title of bounded length.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from observant.errors import BadURL, InputError, UnreadableError
from observant.observer.content.css import compile_css
from observant.observer.content.document import utf8
from observant.observer.content.normalisation import html_tree, json_value, kind_of
from observant.observer.content.rules import LONGEST_EXPRESSION
from observant.observer.content.selection import (
    COMPILERS,
    compile_jmespath,
    compile_xpath,
    found_by,
)
from observant.observer.sources.feed import entries_of
from observant.observer.sources.sitemap import read_sitemap
from observant.observer.transport.urls import parse, resolve
from observant.store import Member
from observant.times import DAY, from_any, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from observant.observer.fetched import Fetched

__all__ = ["ResultRules", "read_date", "results_of"]

Form = Literal["auto", "html", "feed", "sitemap", "json"]
_MOST_ITEMS = 20_000
_LONGEST_TITLE = 300
_LONGEST_ADDRESS = 1900
_EARLIEST = 631_152_000.0  # 1990: before the web nothing was modified on it
_AHEAD = DAY


class ResultRules(msgspec.Struct, frozen=True, kw_only=True):
    """How to find the results. For a page `items` is a CSS selector, or an XPath when it begins
    with / or (; for JSON it is a JMESPath. The other rules look inside each item.

    >>> ResultRules(form="html", items="li[")
    Traceback (most recent call last):
    observant.errors.InputError: items: this is not a CSS selector: 'li[' ...
    """

    form: Form = "auto"
    items: str = ""
    link: str = ""
    """The address of a result; the first link of the item, unless told."""
    title: str = ""
    """The text of that link, unless told."""
    date: str = ""
    """When the result last changed, unless the list has a usual place for it."""
    top: int = 10
    """How many results are tracked."""

    def __post_init__(self) -> None:
        if not 1 <= self.top <= 1000:
            raise InputError(f"top: between 1 and 1,000 results are tracked, not {self.top}")
        if self.form in {"html", "json"} and not self.items:
            language = "CSS selector or XPath" if self.form == "html" else "JMESPath"
            raise InputError(f"items: say where the results stand, by a {language}")
        for name in ("items", "link", "title", "date"):
            rule = getattr(self, name)
            if rule:
                _check(name, rule, self.form)


def results_of(fetched: Fetched, rules: ResultRules, now: float) -> list[Member]:
    """The top results in their order. Raises `UnreadableError` when there is no list here.

    >>> from observant.observer.fetched import Fetched
    >>> page = b"<ol><li><a href='/b'>Bees</a><li><a href='/a'>Ants</a></ol>"
    >>> fetched = Fetched(url="https://a.example/?q=x", body=page, content_type="text/html")
    >>> for member in results_of(fetched, ResultRules(items="ol > li"), now=0.0):
    ...     print(member.rank, member.url, member.title)
    1 https://a.example/b Bees
    2 https://a.example/a Ants
    """
    form = _form(fetched) if rules.form == "auto" else rules.form
    try:
        found = list(_READERS[form](fetched, rules))
    except InputError as error:  # a rule for JSON, say, and the list is a page
        raise UnreadableError(f"this is {form}: {error}") from None
    base = parse(fetched.final_url)
    members: dict[str, Member] = {}
    for address, title, date in found:
        if len(members) == rules.top:
            break
        try:
            url = resolve(base, address, longest=_LONGEST_ADDRESS).href
        except BadURL:
            continue
        if len(url) <= _LONGEST_ADDRESS and url not in members:
            members[url] = Member(
                url=url,
                title=" ".join(title.split())[:_LONGEST_TITLE],
                rank=len(members) + 1,
                dated_at=read_date(date, now),
            )
    return list(members.values())


def read_date(value: Any, now: float) -> float | None:
    """Seconds since 1970 of a date in any usual form; None if it is none, or absurd.

    >>> read_date("2026-11-13", 2e9), read_date("Fri, 13 Nov 2026 00:00:00 GMT", 2e9)
    (1794528000.0, 1794528000.0)
    >>> read_date(1794528000000, 2e9), read_date("soon", 2e9), read_date("2099-01-01", 2e9)
    (1794528000.0, None, None)
    """
    try:
        at = seconds(from_any(value, noon=False))
    except (ValueError, InputError):
        return None
    return at if _EARLIEST <= at <= now + _AHEAD else None


# -- one reader a form: address, title and date of each item ------------------------------------

Item = tuple[str, str, Any]


def _form(fetched: Fetched) -> str:
    kind = kind_of(fetched)
    if kind == "html":
        return "html"
    if kind == "json":
        return "feed" if entries_of(fetched.body) is not None else "json"
    return "sitemap" if read_sitemap(fetched.body) is not None else "feed"


def _from_html(fetched: Fetched, rules: ResultRules) -> Iterable[Item]:
    if not rules.items:
        raise UnreadableError("this is a page: say where its results stand (items)")
    root = html_tree(utf8(fetched.body, fetched.charset))
    for item in _select(root, rules.items)[:_MOST_ITEMS]:
        if isinstance(item, str):  # an XPath that ends in @href or text()
            yield item, "", None
            continue
        link = _first(item, rules.link) if rules.link else _first_link(item)
        if link is None:
            continue
        address = link if isinstance(link, str) else link.get("href") or ""
        named = _first(item, rules.title) if rules.title else link
        dated = _first(item, rules.date) if rules.date else _first(item, "time")
        yield address, _text(named), _date_text(dated)


def _from_feed(fetched: Fetched, rules: ResultRules) -> Iterable[Item]:
    del rules
    entries = entries_of(fetched.body)
    if entries is None:
        raise UnreadableError("this is no feed that can be read")
    return [(link or name, title, at) for name, at, title, link in entries[:_MOST_ITEMS]]


def _from_sitemap(fetched: Fetched, rules: ResultRules) -> Iterable[Item]:
    """Newest first: the order of a sitemap means nothing."""
    del rules
    sitemap = read_sitemap(fetched.body)
    if sitemap is None:
        raise UnreadableError("this is no sitemap that can be read")
    if sitemap.sitemaps and not sitemap.pages:
        raise UnreadableError("this is a list of sitemaps: take one of them")
    pages = sorted(
        sitemap.pages, key=lambda page: read_date(page[1], math.inf) or 0.0, reverse=True
    )
    return [(page, "", date) for page, date in pages[:_MOST_ITEMS]]


def _from_json(fetched: Fetched, rules: ResultRules) -> Iterable[Item]:
    if not rules.items:
        raise UnreadableError("this is JSON: say where its results stand (items)")
    items = _search(rules.items, json_value(fetched.body, fetched.charset))
    if not isinstance(items, list):
        raise UnreadableError(f"{rules.items!r} finds no list")
    for item in items[:_MOST_ITEMS]:
        if isinstance(item, str):
            yield item, "", None
            continue
        address = _search(rules.link or _LINK, item)
        title = _search(rules.title or _TITLE, item)
        if isinstance(address, str):
            yield (
                address,
                title if isinstance(title, str) else "",
                _search(rules.date or _DATE, item),
            )


_LINK = "url || link || href || html_url"
_TITLE = "title || name"
_DATE = "updated || updated_at || modified || date_modified || lastmod || published || date"
_READERS: dict[str, Callable[[Fetched, ResultRules], Iterable[Item]]] = {
    "html": _from_html,
    "feed": _from_feed,
    "sitemap": _from_sitemap,
    "json": _from_json,
}


def _is_xpath(rule: str) -> bool:
    return rule.startswith(("/", "(", "./", "@"))


def _check(name: str, rule: str, form: Form) -> None:
    """Complain now about a rule that no visit could use."""
    languages = {
        "html": ["xpath" if _is_xpath(rule) else "css"],
        "json": ["jmespath"],
        "auto": ["xpath" if _is_xpath(rule) else "css", "jmespath"],
    }.get(form, [])
    if not languages:
        raise InputError(f"{name}: a {form} is read without rules; leave it out")
    if len(rule) > LONGEST_EXPRESSION:
        raise InputError(f"{name}: longer than {LONGEST_EXPRESSION:,} characters")
    problem: InputError | None = None
    for language in languages:
        try:
            COMPILERS[language](rule)
        except InputError as error:
            problem = problem or error
        else:
            return
    raise InputError(f"{name}: {problem}")


def _select(root: Any, rule: str) -> list[Any]:
    compiled = compile_xpath(rule) if _is_xpath(rule) else compile_css(rule)
    return found_by(root, compiled, rule)


def _first(item: Any, rule: str) -> Any:
    found = _select(item, rule)
    return found[0] if found else None


def _first_link(item: Any) -> Any:
    if item.tag == "a" and item.get("href"):
        return item
    return next((link for link in item.iter("a") if link.get("href")), None)


def _text(found: Any) -> str:
    if found is None or isinstance(found, str):
        return found or ""
    return " ".join("".join(found.itertext()).split())


def _date_text(found: Any) -> str:
    if found is None or isinstance(found, str):
        return found or ""
    return found.get("datetime") or found.get("content") or _text(found)


def _search(rule: str, value: Any) -> Any:
    import jmespath.exceptions

    try:
        return compile_jmespath(rule).search(value)
    except (jmespath.exceptions.JMESPathError, RecursionError, TypeError, ValueError) as error:
        raise UnreadableError(f"{rule!r} fails on this answer: {error}") from None
