"""A change is looked at again before it is told: noise is none, and no edit is lost."""

import asyncio
import contextlib
import random
from types import SimpleNamespace

import pytest
from benchmarks.false_alarms import FIRST, NOISE, Web, study

from observant.observer.config import SourceSettings
from observant.observer.content import Comparer, Rules, second_look
from observant.observer.content.second_look import HIDDEN, judge_looks, without_clocks
from observant.observer.fetched import Fetched
from observant.observer.sources import Surroundings, make_source

NOW = 1_790_000_000.0


def judge(before, *looks, varying=()):
    return judge_looks(before, NOW - 3600, list(looks), NOW, varying)


@pytest.fixture(scope="module")
def scores():
    return asyncio.run(study(pages=4, visits=30))


def test_false_alarms_are_rare_while_a_page_is_learned_and_none_come_later(scores):
    assert {score.kind for score in scores} == set(NOISE)
    assert sum(score.early for score in scores) / len(scores) <= 0.3
    assert sum(score.late for score in scores) == 0
    assert FIRST == 12


def test_no_edit_of_one_word_or_one_price_is_missed(scores):
    assert sum(score.edits for score in scores) > 150
    assert sum(score.missed for score in scores) == 0


def test_quiet_pages_are_never_told_of_and_looks_are_few(scores):
    quiet = [score for score in scores if score.kind == "quiet"]
    assert not any(score.early or score.late for score in quiet)
    assert sum(score.fetches for score in scores) / len(scores) < 2


@pytest.mark.parametrize(
    ("before", "looks", "news"),
    [
        ("a\nx1", ["a\nx2", "a\nx3"], False),  # an advert
        ("a\nb", ["a\nc", "a\nc"], True),  # an edit
        ("a\nb", ["a", "a"], True),  # a deletion
        ("a\nb\nx1", ["a\nx2", "a\nx3"], True),  # a deletion beside an advert
        ("a\nx1", ["a\nb\nx2", "a\nb\nx3"], True),  # an addition beside an advert
        ("a\nb\nc", ["c\na\nb", "b\nc\na"], False),  # a shuffled list
        ("a 1\nb 2", ["b 2\na 3", "a 3\nb 2"], True),  # a shuffled list with a new price
        ("price 10 id a1", ["price 10 id b2", "price 10 id c3"], False),
        ("price 10 id a1", ["price 12 id b2", "price 12 id c3"], True),
    ],
)
def test_what_stays_is_news_and_what_varies_is_not(before, looks, news):
    assert judge(before, *looks).news is news


def test_another_page_altogether_takes_another_look_and_teaches_nothing():
    page, wall = "a\nb\nc\nd", "accept\ncookies"
    undecided = judge(page, wall, page)
    assert (undecided.news, undecided.pick, undecided.strange) == (None, None, True)
    again = judge(page, wall, page, "a\nb\nc\ne", varying=undecided.varying)
    assert again.news is False
    assert judge(page, wall, wall, varying=undecided.varying).news is False
    assert judge(page, wall, "a\nb\nc\ne", "a\nb\nc\ne").news is True


def test_a_variant_that_was_seen_to_come_and_go_is_known():
    first = judge("a\nred", "a\nblue", "a\nred")
    assert first.news is False
    assert judge("a\nred", "a\nblue", "a\nblue", varying=first.varying).news is False
    assert judge("a\nred", "a\ngreen", "a\ngreen", varying=first.varying).news is True


def test_a_known_wall_under_the_title_of_the_page_hides_it_and_a_deletion_does_not():
    page, wall = "Shop\na\nb\nc", "Shop\naccept\ncookies"
    known = judge(page, wall, page, page).varying
    assert judge(page, wall, wall, varying=known).news is False
    assert judge(page, "Shop\naccept", "Shop\naccept", varying=known).news is False
    assert judge(page, "Shop", "Shop", varying=known).news is True
    assert judge(f"{page}\nx", f"{page}\ny".replace("b\n", ""), varying=known).news is not False
    assert judge(page, f"{wall}\nd", f"{wall}\nd", varying=known).news is True
    edited = judge(page, wall, "Shop\na\nd\ne", "Shop\na\nd\ne", varying=known)
    assert (edited.news, edited.pick) == (True, 2)


def test_what_was_learned_of_a_page_while_a_wall_was_kept_is_forgotten_when_it_is_seen():
    page, wall = "Shop\na\nb\nc", "Shop\naccept\ncookies"
    undecided = judge(wall, page, wall, page)
    assert undecided.news is None
    seen = judge(wall, page, page, varying=undecided.varying)
    assert seen.news is True
    edited = page.replace("a", "b")
    assert judge(page, edited, edited, varying=seen.varying).news is True


def test_a_line_that_names_a_weekday_is_the_same_line_on_any_day():
    monday, wednesday = NOW, NOW + 2 * 86_400
    line = "a\nRead it every Monday"
    first = judge_looks(line, monday - 60, ["a\nb", line], monday)
    assert first.news is False
    for before, after in ((line, "a\nb"), ("a\nb", line)):
        later = judge_looks(before, monday, [after, after], wednesday, first.varying)
        assert later.news is False
    unmoved = judge_looks(f"{line}\nx", monday, [f"{line}\ny", f"{line}\nz"], wednesday)
    assert unmoved.news is False
    edited = line.replace("Monday", "Sunday")
    assert judge_looks(line, monday, [edited, edited], wednesday, first.varying).news is True


def test_a_wall_that_stays_is_told_after_some_visits_and_a_page_behind_it_is_not_lost():
    page, wall = "<h1>Shop</h1><p>one<p>two<p>three", "<h1>Shop</h1><p>Accept cookies"
    shown = [page]
    web = Web()
    web.pages["http://a.example/"] = SimpleNamespace(
        body=lambda _now: shown.pop(0) if len(shown) > 1 else shown[0]
    )
    comparer = Comparer(Rules())
    around = Surroundings(web, time=lambda: web.now, trusted=True)
    source = make_source("http", "a", "http://a.example/", SourceSettings(), comparer, around)
    known = None

    def visit(*bodies):
        nonlocal known
        shown[:] = bodies
        found = asyncio.run(source.visit(known))
        at = Fetched(url="", status=200, started_at=found.started_at)
        known = comparer.after(known, at, found.comparison, found.validators)
        return found.comparison.outcome

    edited = page.replace("two", "four")
    assert [visit(page), visit(wall, page), visit(wall), visit(page)] == ["first", *["same"] * 3]
    assert "hidden" not in known.memory  # counted from the start when the page was there
    assert [visit(wall), visit(edited), visit(wall)] == ["same", "changed", "same"]
    rest = [visit(wall) for _ in range(HIDDEN)]
    assert rest == [*["same"] * (HIDDEN - 1), "changed"]


class Naming:
    """A transport to one page, whose server names its version and knows its name again."""

    def __init__(self, body, etag):
        self.body, self.etag, self.statuses = body, etag, []

    async def fetch(self, url, validators=None, **_):
        etag, body = self.etag, self.body.pop(0) if len(self.body) > 1 else self.body[0]
        etag = etag(body) if callable(etag) else etag
        same = validators is not None and validators.etag == etag
        self.statuses.append(304 if same else 200)
        return Fetched(
            url=url,
            status=self.statuses[-1],
            not_modified=same,
            etag=etag,
            body=b"" if same else body.encode(),
            content_type="text/html",
        )


@pytest.mark.parametrize(
    ("etag", "bodies", "outcome", "statuses"),
    [
        (hash, ["<p>two"], "changed", [200, 304, 304]),  # still what it has just named
        (hash, ["<p>two", "<p>x", "<p>y"], "same", [200, 200]),  # it differs by itself
        (hash, ["<p>two", "<p>two", "<p>x"], "same", [200, 304, 200]),  # only at the third look
        ("v1", ["<p>two"], "changed", [200, 200, 200]),  # another body under the same name
    ],
)
def test_a_server_that_names_a_new_version_is_asked_whether_it_is_still_that(
    etag, bodies, outcome, statuses
):
    tag = (lambda body: f'"{hash(body)}"') if etag is hash else etag
    web, comparer = Naming(["<p>one"], tag), Comparer(Rules())
    around = Surroundings(web, time=lambda: NOW, trusted=True)
    source = make_source("http", "a", "http://a.example/", SourceSettings(), comparer, around)
    first = asyncio.run(source.visit(None))
    at = Fetched(url="", status=200, started_at=NOW)
    known = comparer.after(None, at, first.comparison, first.validators)
    if etag == "v1":  # as after a visit that asked for the whole page
        assert known.validators.etag == "v1"
        source._validators = lambda _previous: None
    web.body, web.statuses = bodies, []
    found = asyncio.run(source.visit(known))
    assert (found.outcome, web.statuses) == (outcome, statuses)


def test_lines_that_all_texts_share_change_no_judgement():
    """Clocks are looked for only in lines that differ: the judgement is that of all lines."""
    chance = random.Random(7)  # noqa: S311
    lines = ["a", "b", "It is 14:13", "It is 13:13", "Open 08:00", "It is ▒", "c"]
    for _ in range(300):
        before, *looks = (
            "\n".join(chance.choices(lines, k=chance.randint(1, 6))) for _ in range(3)
        )
        whole = second_look._counted(before, NOW, looks, NOW, all_lines=True)
        quick = judge(before, *looks)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(second_look, "_counted", lambda *_, whole=whole, **__: whole)
            assert judge(before, *looks) == quick


def test_looks_that_are_all_the_same_are_judged_like_others():
    """The short way of judging them says what the long one says."""
    chance = random.Random(8)  # noqa: S311
    lines = ["a", "b", "It is 14:13", "It is 13:13", "Open 08:00", "It is ▒", "c", ""]
    short = 0
    for _ in range(300):
        before, look = ("\n".join(chance.choices(lines, k=chance.randint(1, 6))) for _ in range(2))
        quick = judge(before, look, look)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(second_look, "_differing", lambda *_: (second_look.MASK, ""))
            assert judge(before, look, look) == quick
            patch.undo()
            patch.setattr(second_look, "_counted", lambda *_, **__: 1 / 0)
            with contextlib.suppress(ZeroDivisionError):
                judge(before, look, look)
                short += 1
    assert short > 20


def test_what_tells_the_time_of_the_visit_is_a_clock_and_other_times_are_not():
    # 2026-09-21 14:13:20 UTC
    shown = "14:13:20 and 16:13 and 2026-09-21 and September 21, 2026 and Monday"
    assert without_clocks(shown, NOW) == "▒ and ▒ and ▒ and ▒ and ▒"
    kept = "open 08:30, since 2020-01-01, 3 May 2021, on Friday, 99.99.2026"
    assert without_clocks(kept, NOW) == kept
