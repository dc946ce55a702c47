"""The reference of the API is a page of our own, made from the document of this very service."""

import lxml.html
import pytest

from .service_world import World


@pytest.fixture(scope="module")
def world():
    made = World(prefix="/observant")
    yield made
    made.close()


@pytest.mark.slow
def test_every_operation_and_every_schema_is_there_with_links_that_lead_somewhere(world):
    document = world.app.openapi_schema.to_schema()
    with world.browser("viewer") as client:
        text = client.get("/observant/reference").text
        foot = lxml.html.fromstring(client.get("/observant/").text).find(".//footer")
        assert "/observant/reference" in [link.get("href") for link in foot.iter("a")]
    page = lxml.html.fromstring(text)
    there = set(page.xpath("//@id"))
    names = {
        found["operationId"] for methods in document["paths"].values() for found in methods.values()
    }
    assert len(names) > 50
    assert names <= there
    assert {f"schema-{name}" for name in document["components"]["schemas"]} <= there
    inside = [href[1:] for href in page.xpath("//main//a/@href") if href.startswith("#")]
    assert set(inside) <= there
    said = " ".join(page.xpath("//article[@id='add_source']")[0].text_content().split())
    assert "POST /observant/api/v1/sources" in said.replace("POST  ", "POST ")
    assert "may change things · takes NewSource · gives Added" in said
    assert """-d '{"url": "…"}' 'http://testserver.local/observant/api/v1/sources'""" in said


def test_nothing_of_it_comes_from_another_host(world):
    with world.browser("viewer") as client:
        page = lxml.html.fromstring(client.get("/observant/reference").text)
    fetched = page.xpath("//script/@src | //link/@href | //img/@src")
    assert all(address.startswith("/observant/") for address in fetched)


def test_who_has_not_signed_in_signs_in_first(world):
    with world.client() as client:
        reply = client.get(
            "/observant/reference", headers={"Accept": "text/html"}, follow_redirects=False
        )
        assert (reply.status_code, reply.headers["location"][:16]) == (303, "/observant/login")
