"""A product in a shop: compared as its name, price, currency and availability.

They are read from the structured data that shops have for search engines: JSON-LD, microdata or
OpenGraph, in this order. So a redesign, an advert or a new review is no change, and a price is one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from observant.errors import UnreadableError
from observant.observer.content import Comparer
from observant.observer.content.document import utf8
from observant.observer.content.normalisation import html_tree
from observant.observer.content.numbers import number_of
from observant.observer.sources.http import HttpSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from observant.observer.fetched import Fetched

__all__ = ["Product", "ProductSource", "as_lines", "product_of"]

_MOST = 10_000
"""Values of JSON-LD that are looked at."""
_LONGEST = 500
_IN_STOCK = ("instock", "in stock", "instoreonly", "onlineonly", "limitedavailability", "available")
_OUT = ("outofstock", "out of stock", "soldout", "sold out", "discontinued", "oos")
_META = {
    "product:price:amount": "price",
    "og:price:amount": "price",
    "product:price:currency": "currency",
    "og:price:currency": "currency",
    "product:availability": "availability",
    "og:availability": "availability",
    "og:title": "name",
}


class Product(msgspec.Struct, frozen=True, kw_only=True):
    """What a shop says of something that it sells."""

    name: str = ""
    price: float | None = None
    currency: str = ""
    availability: str = ""

    def __str__(self) -> str:
        told = {
            "name": self.name,
            "price": "" if self.price is None else f"{self.price:.12g}",
            "currency": self.currency,
            "availability": self.availability,
        }
        return "\n".join(f"{key}: {value}" for key, value in told.items() if value)


class ProductSource(HttpSource):
    """One line each for name, price, currency and availability."""

    form = "product"

    def prepare(self) -> None:
        # A price that moves at every visit is what people came for: it is never noise.
        rules = msgspec.structs.replace(self.comparer.rules, kind="text", learn_noise=False)
        self.comparer = Comparer(rules)
        self.comparer.selection_version += "+product"


def as_lines(fetched: Fetched) -> Fetched:
    """The product as the text that is compared."""
    if not fetched.ok or fetched.not_modified:
        return fetched
    try:
        found = product_of(utf8(fetched.body, fetched.charset))
    except UnreadableError as error:
        return msgspec.structs.replace(fetched, error="content", message=str(error))
    if found is None:
        message = "no price and no availability in JSON-LD, microdata or OpenGraph"
        return msgspec.structs.replace(fetched, error="content", message=message)
    return msgspec.structs.replace(
        fetched, body=str(found).encode(), content_type="text/plain", charset="utf-8"
    )


def product_of(page: bytes) -> Product | None:
    """The product of a page in UTF-8; None if it says of none what it costs or whether it is there.

    >>> offer = '{"@type": "Offer", "price": "49.90", "priceCurrency": "EUR"}'
    >>> page = (
    ...     '<script type="application/ld+json">{"@type": "Product", "name": "Lamp", "offers": %s}'
    ... )
    >>> product_of((page % offer + "</script>").encode())
    Product(name='Lamp', price=49.9, currency='EUR', availability='')
    """
    root = html_tree(page)
    for read in (_json_ld, _microdata, _open_graph):
        found = _product(read(root))
        if found.price is not None or found.availability:
            return found
    return None


def _product(values: dict[str, Any]) -> Product:
    texts = {key: " ".join(str(value).split())[:_LONGEST] for key, value in values.items()}
    said = texts.get("availability", "").rpartition("/")[2].casefold()
    known = "in stock" if said in _IN_STOCK else "out of stock" if said in _OUT else said
    return Product(
        name=texts.get("name", ""),
        price=number_of(texts.get("price", "")),
        currency=texts.get("currency", "").upper()[:3],
        availability=known,
    )


def _json_ld(root: Any) -> dict[str, Any]:
    for script in root.iter("script"):
        if (script.get("type") or "").strip().lower() != "application/ld+json":
            continue
        try:
            data = json.loads(script.text or "")
        except (ValueError, RecursionError):
            continue
        for value in _objects(data):
            if _is(value, "product") or _is(value, "productgroup"):
                offer = _first(value.get("offers")) or _first(value.get("hasVariant"))
                if _is(offer, "product"):
                    offer = _first(offer.get("offers"))
                return {"name": value.get("name", "")} | _offer(offer)
    return {}


def _offer(offer: dict[str, Any]) -> dict[str, Any]:
    priced = _first(offer.get("priceSpecification"))
    found = {
        "price": offer.get("price", offer.get("lowPrice", priced.get("price"))),
        "currency": offer.get("priceCurrency", priced.get("priceCurrency")),
        "availability": offer.get("availability"),
    }
    return {key: value for key, value in found.items() if isinstance(value, str | int | float)}


def _objects(data: Any) -> Iterator[dict[str, Any]]:
    """Every object, the outer ones first."""
    waiting, seen = [data], 0
    while waiting and seen < _MOST:
        value = waiting.pop(0)
        seen += 1
        if isinstance(value, list):
            waiting += value[:_MOST]
        elif isinstance(value, dict):
            yield value
            waiting += [inner for inner in value.values() if isinstance(inner, dict | list)]


def _is(value: dict[str, Any], kind: str) -> bool:
    types = value.get("@type")
    names = types if isinstance(types, list) else [types]
    return any(str(name).rpartition("/")[2].casefold() == kind for name in names)


def _first(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        value = next((one for one in value if isinstance(one, dict)), None)
    return value if isinstance(value, dict) else {}


_PROPERTIES = {
    "name": "name",
    "price": "price",
    "lowPrice": "price",
    "priceCurrency": "currency",
    "availability": "availability",
}


def _microdata(root: Any) -> dict[str, Any]:
    for scope in root.iter():
        kind = str(scope.get("itemtype") or "").rstrip("/").rpartition("/")[2].casefold()
        if kind != "product":
            continue
        found: dict[str, Any] = {}
        for element in scope.iter():
            key = _PROPERTIES.get(str(element.get("itemprop") or ""))
            if key and key not in found:
                found[key] = (
                    element.get("content")
                    or element.get("href")
                    or element.get("value")
                    or "".join(element.itertext())
                )
        return found
    return {}


def _open_graph(root: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for meta in root.iter("meta"):
        key = _META.get(str(meta.get("property") or meta.get("name") or "").lower())
        if key:
            found.setdefault(key, meta.get("content") or "")
    return found
