"""Products: what shops say of them, and conditions on numbers."""

import asyncio
import json
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observant.errors import InputError
from observant.observer import Config, Observer
from observant.observer.content import Comparer, Rules
from observant.observer.content.numbers import number_of, parse_condition
from observant.observer.fetched import Fetched
from observant.observer.sources.product import Product, product_of
from observant.store import Source, open_store

from .observer_world import Site, transport_to


def json_ld(price, availability="https://schema.org/InStock", **more):
    offer = {"@type": "Offer", "price": price, "priceCurrency": "EUR", "availability": availability}
    data = {"@graph": [{"@type": "WebPage"}, {"@type": "Product", "name": "Lamp", "offers": offer}]}
    page = (
        f'<script type="application/ld+json">{json.dumps(data | more)}</script><p>Ad {time.time()}'
    )
    return f"<html><body>{page}</body></html>"


MICRODATA = """<div itemscope itemtype="https://schema.org/Product"><h1 itemprop="name">Lamp</h1>
<div itemprop="offers" itemscope itemtype="https://schema.org/Offer">
<span itemprop="price" content="49.90">49,90</span><meta itemprop="priceCurrency" content="eur">
<link itemprop="availability" href="https://schema.org/InStock"></div></div>"""
OPEN_GRAPH = """<meta property="og:title" content="Lamp"><meta property="og:price:amount"
content="49,90"><meta property="og:price:currency" content="EUR">
<meta property="product:availability" content="instock">"""
LAMP = Product(name="Lamp", price=49.9, currency="EUR", availability="in stock")


@pytest.mark.parametrize("page", [json_ld("49.90"), json_ld(49.9), MICRODATA, OPEN_GRAPH])
def test_what_a_shop_says_is_read_from_any_of_its_languages(page):
    assert product_of(page.encode()) == LAMP


def test_a_price_is_found_where_shops_hide_it():
    group = {
        "@type": "ProductGroup", "name": "Lamps",
        "hasVariant": [{"@type": "Product", "offers": [{"price": "7", "priceCurrency": "USD"}]}],
    }  # fmt: skip
    many = {"@type": ["Thing", "http://schema.org/Product"], "offers": {"lowPrice": 3}}
    nested = {"@type": "Product", "offers": {"priceSpecification": {"price": "1 299,00"}}}
    for data, price in ((group, 7.0), (many, 3.0), (nested, 1299.0)):
        page = f'<script type="application/ld+json">{json.dumps(data)}</script>'
        assert product_of(page.encode()).price == price


def test_pages_without_a_product_and_hostile_ones_have_none():
    deep = "[" * 100_000
    for inside in ("{", deep, "null", '{"@type": "Product", "offers": "no"}', '{"@type": 7}'):
        assert product_of(f'<script type="application/ld+json">{inside}</script>'.encode()) is None
    assert product_of(b"<p>49.90 EUR</p>") is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,299.00", 1299.0), ("1.299,00", 1299.0), ("1 299,5", 1299.5), ("1'299", 1299.0),
        ("1.234.567", 1234567.0), ("12.5", 12.5), ("12,50 €", 12.5), ("−3", -3.0), ("0,999", 0.999),
        ("EUR 5.–", 5.0), ("none", None), ("3.14159", 3.14159),
    ],
)  # fmt: skip
def test_numbers_are_read_as_people_write_them(text, value):
    assert number_of(text) == value


@given(st.decimals(min_value=-(10**9), max_value=10**9, places=2))
def test_a_number_with_two_decimals_is_read_in_both_conventions(number):
    english = f"{number:,}"
    german = english.translate(str.maketrans(",.", ".,"))
    assert math.isclose(number_of(f"x {english}"), float(number))
    assert math.isclose(number_of(f"x {german} y"), float(number))


def test_conditions_on_names_words_and_stock():
    text = "name: Lamp 3000\nprice: 49.9\navailability: in stock\nrating: 4"
    holds = ["price below 50", "price <= 49.9", "rating at least 4", "in stock", "has lamp",
             "lacks sold out", "above 100"]  # fmt: skip
    fails = ["price above 50", "weight below 5", "out of stock", "has sold out", "Rating > 4"]
    assert [c for c in holds + fails if parse_condition(c).met_by(text)] == holds
    for bad in ("", "cheap", "below", "price below nothing", "x" * 300):
        with pytest.raises(InputError):
            Rules(conditions=(bad,))


def test_a_condition_is_told_when_it_comes_true_and_not_again():
    def page(price):
        return Fetched(url="x:", status=200, body=f"<p>Price {price} EUR".encode())

    comparer, before, met = Comparer(Rules(conditions=("below 50",))), None, []
    for price in (60, 45, 45, 40, 55, 49):
        found = comparer.compare(before, page(price))
        before = comparer.after(before, page(price), found)
        met.append(found.met)
    assert met == [(), ("below 50",), (), (), (), ("below 50",)]
    later = Comparer(Rules(conditions=("below 50", "above 10")))  # a new one holds at once
    assert later.compare(before, page(49)).met == ("above 10",)


def test_a_product_is_watched_and_its_conditions_are_told(tmp_path):
    site = Site()
    url = "http://shop.example/lamp"
    conditions = ["price below 50", "back in stock"]
    with open_store(str(tmp_path / "w.db")) as store:
        config = {"compare": {"conditions": conditions}, "render": "never", "min_period": 0}
        store.sources.add([Source(name="lamp", url=url, kind="product", config=config)])
        seen = []
        for price, stock in ((60, "OutOfStock"), (60, "OutOfStock"), (45, "InStock")):
            site.serve("/lamp", json_ld(price, f"https://schema.org/{stock}"))

            async def visit():
                async with transport_to(site.port) as transport:
                    observer = Observer(store, Config(), transport=transport)
                    return await observer.check("lamp")

            seen.append(asyncio.run(visit()))
        told = [e for e in store.outbox.list(source="lamp", limit=10) if e.topic == "condition"]
        text = store.sources.previous("lamp").text
    site.close()
    assert [visit.outcome for visit in seen] == ["first", "same", "changed"]
    assert sorted(event.payload["condition"] for event in told) == sorted(conditions)
    assert text == "name: Lamp\nprice: 45\ncurrency: EUR\navailability: in stock"
