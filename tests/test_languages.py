"""Pages in other languages: every marked text is translated, and nothing of it stays in English."""

import importlib.util
import re
from pathlib import Path

import lxml.html
import pytest

from observant import language
from observant.language import messages_of, preferred
from observant.service.pages.render import ENGLISH
from observant.store import Subscription

from .service_world import World

OTHERS = [code for code in language.languages() if code != "en"]
PLACES = ("/", "/sources", "/sources/1", "/sources/3", "/sources/1/edit", "/plan", "/settings")
PLACES += (
    "/events",
    "/events?topic=overdue",
    "/population",
    "/subscriptions",
    "/queries",
    "/status",
)
PLACES += ("/sources/1/steps", "/sources/1/choose", "/subscriptions/1")
PLACES += ("/add", "/add?urls=https%3A%2F%2Fa.example%2F", "/nowhere", "/sources?search=none")
NAMES = {"viewer", "editor", "owner", "read", "write", "admin"}
"""Accounts and tokens of the world are called like their roles."""
PLAIN = {"observant", "· observant", "observant · observant", "Atom", "JSON", "Atom , JSON ."}
"""What is the same in every language."""
ATTRIBUTES = ("placeholder", "title", "aria-label", "alt", "data-confirm", "data-label")
VALUES = re.compile(r"%\((\w+)\)s|\{(\w+)\}|<(/?\w+)>|(%%)")


@pytest.fixture(scope="module")
def tool():
    place = Path(__file__).parents[1] / "docs" / "languages.py"
    spec = importlib.util.spec_from_file_location("languages", place)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture(scope="module")
def marked(tool):
    return tool.marked()


@pytest.fixture(scope="module")
def world():
    made = World().fill()
    made.store.subscriptions.add(Subscription(name="ops", channel="https://hook.example/x"))
    yield made
    made.close()


def catalogue(tool, code):
    return messages_of((tool.CATALOGUES / f"{code}.po").read_text("utf-8"))


def values(text):
    return sorted(map(str, VALUES.findall(text)))


@pytest.mark.parametrize("code", OTHERS)
def test_every_marked_text_has_a_translation_with_the_same_values(tool, marked, code):
    told = catalogue(tool, code)
    assert set(told) - {""} == set(marked), "run `python docs/languages.py`"
    for one, many in marked.items():
        forms = told[one]
        assert len(forms) == (1 if many is None else 2), one
        assert all(forms), one
        for text, form in zip((one, many), forms, strict=False):
            missing = values(text or one)
            assert values(form) == missing, (one, form)


def test_marks_are_found_in_templates_and_in_code(marked):
    assert len(marked) > 400
    assert marked["%(n)s source"] == "%(n)s sources"
    assert {"Freshness", "asks for a password", "about every %(span)s", "Saved."} <= set(marked)


def texts(page):
    """Every text that somebody reads, and those that are read out."""
    for element in page.iter():
        if isinstance(element.tag, str) and element.tag not in {"script", "style", "code"}:
            yield from (element.text, *(element.get(name) for name in ATTRIBUTES))
        yield element.tail


@pytest.mark.slow
@pytest.mark.parametrize("code", OTHERS)
def test_no_marked_text_of_a_page_stays_in_english(world, tool, code):
    told = catalogue(tool, code)
    english = {
        one.replace("%%", "%")
        for one, forms in told.items()
        if one and forms[0] != one and forms[0] not in told
    } - NAMES
    with world.browser("owner") as client:
        for path in PLACES:
            headers = {"Accept-Language": f"{code}-XX, en;q=0.3", "Accept": "text/html"}
            reply = client.get(path, headers=headers)
            page = lxml.html.fromstring(reply.text)
            assert page.get("lang") == code
            assert page.find(".//main").get("lang") is None, path
            left = {" ".join((text or "").split()) for text in texts(page)} & english
            assert not left, (path, left)


@pytest.mark.slow
def test_the_language_is_chosen_by_hand_by_the_browser_and_never_for_programs(world):
    with world.browser("viewer") as client:
        assert "What changed" in client.get("/", headers={"Accept-Language": "fr"}).text
        german = client.get("/?language=de")
        assert "Was sich geändert hat" in german.text
        assert "etwa alle" in client.get("/sources").text  # it stays chosen
        assert "Qué cambió" in client.get("/?language=es").text
        assert "What changed" in client.get("/?language=en", headers={"Accept-Language": "de"}).text
        assert 'lang="en"' in client.get("/?language=xx", headers={"Accept-Language": "xx"}).text
        client.get("/?language=de")
        plain = client.get("/api/v1/sources/1", headers={"Accept-Language": "de"}).json()
        assert plain["why"].startswith("It changes")
        rest = lxml.html.fromstring(client.get("/reference").text)  # it shows what programs read
        assert (rest.get("lang"), rest.find(".//main").get("lang")) == ("de", "en")
    with world.client() as client:
        assert "Anmelden" in client.get("/login", headers={"Accept-Language": "de-AT"}).text


def test_what_strangers_write_stays_text_in_every_language(world):
    with world.browser("viewer") as client:
        for code in OTHERS:
            assert "<script>alert(1)" not in client.get(f"/sources/1?language={code}").text


def test_wishes_of_browsers():
    assert [preferred(w) for w in ("de", "ES-mx,de;q=0.9", "en,de", "fr;q=1, *;q=0.1", "")] == [
        *("de", "es", "en", "en", "en")
    ]


def test_numbers_have_the_signs_of_the_language():
    import contextvars

    def spoken():
        language.use("de")
        return language.localized("1,234.5"), language.ngettext("%(n)s visit", "%(n)s visits", 1)

    assert contextvars.copy_context().run(spoken) == ("1.234,5", "%(n)s Besuch")
    assert language.localized("1,234.5") == "1,234.5"


def test_a_catalogue_is_renewed_without_losing_a_translation(tool):
    text = (
        'msgid ""\nmsgstr "Language: xx\\n"\n\nmsgid "a"\nmsgstr "A"\n\nmsgid "old"\nmsgstr "O"\n'
    )
    after = messages_of(tool.renewed(text, {"a": None, "new": None, "one": "many"}))
    assert after == {"": ("Language: xx\n",), "a": ("A",), "new": ("",), "one": ("", "")}


def test_no_template_has_a_text_that_nobody_can_translate(tool):
    folder = tool.PACKAGE / "service" / "pages" / "templates"
    found = {file.name: file.read_text("utf-8") for file in folder.glob("*.html")}
    assert found.keys() >= ENGLISH
    for name in found.keys() - ENGLISH:
        plain = re.sub(r"\{\{.*?\}\}|\{[%#].*?[%#]\}", " ", found[name], flags=re.DOTALL)
        page = lxml.html.fromstring(re.sub(r"<code>.*?</code>| placeholder=\".*?\"", "", plain))
        left = {" ".join((text or "").split()) for text in texts(page)}
        assert {text for text in left if re.search(r"[A-Za-z]{2}", text)} <= PLAIN, name
