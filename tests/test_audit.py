"""The audit against indexes that were simulated, whose true currency is known."""

import asyncio
import json
from email.utils import formatdate

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from observant.cli.audit import audit as audit_command
from observant.currency import WeibullPopulation, currency, required_period
from observant.currency.audit import COLUMNS, Claims, audit_claims, forgiven
from observant.currency.audit import hidden as aliasing_module
from observant.errors import EstimationError, InputError
from observant.observer.query_sample import AskedIndex, ask_indexes, read_indexes

from .observer_world import Site, transport_to

NOW = 20_000.0
GRACES = np.array([0.0, 1.0, 3.0, 10.0, 20.0])


class Index:
    """An index that looks at each source every `periods` days, checked at a random moment.

    Update times are drawn backwards from the check: the last one, how many more the index missed,
    the oldest of them, and the one the index knew.
    """

    def __init__(self, rng, rates, periods):
        n = len(rates)
        self.lag = rng.uniform(0.0, periods)
        self.age = rng.exponential(1.0 / rates)
        self.known = self.lag + rng.exponential(1.0 / rates)
        self.stale = self.age < self.lag
        missed = rng.poisson(rates * np.where(self.stale, self.lag - self.age, 0.0))
        back = rng.random(n) ** (1.0 / np.maximum(missed, 1))
        oldest = np.where(missed > 0, self.age + (self.lag - self.age) * back, self.age)
        self.oldest_missed = np.where(self.stale, oldest, 0.0)

    @property
    def claims(self):
        return Claims(
            source=np.arange(len(self.lag)),
            claimed=NOW - self.known,
            actual=NOW - np.where(self.stale, self.age, self.known),
            checked=np.full(len(self.lag), NOW),
        )


def fast_sources(rng, n):
    """Most change every few days, far more often than the index looks."""
    return np.exp(rng.normal(np.log(0.3), 1.0, n))


def true_currency(rates, periods):
    """(2.40) averaged over so many sources that the average is exact for our purpose."""
    return np.array([np.mean(currency(rates, periods, b)) for b in GRACES])


def test_the_simulated_index_is_as_current_as_the_theory_says():
    rng = np.random.default_rng(1)
    rates, periods = fast_sources(rng, 100_000), rng.choice([5.0, 30.0], 100_000)
    index = Index(rng, rates, periods)
    seen = (index.oldest_missed[:, None] <= GRACES).mean(axis=0)
    np.testing.assert_allclose(seen, true_currency(rates, periods), atol=4 * 0.5 / 100_000**0.5)


def test_how_much_to_forgive_against_simulation():
    # Given rate and period, the entries to forgive among those alike: in total, and for entries
    # that the index knew to be old or young. Four standard errors of a share.
    rng = np.random.default_rng(2)
    rate, period = 0.15, 25.0
    index = Index(rng, np.full(400_000, rate), np.full(400_000, period))
    for grace in (1.0, 5.0, 15.0):
        recent = index.stale & (index.age <= grace)
        truly = (index.oldest_missed <= grace)[recent]
        said = forgiven(index.age[recent], index.known[recent], grace, rate, period)[:, 0]
        for old in (True, False):
            alike = (index.known[recent] > 20.0) == old
            error = 4 * 0.5 / np.count_nonzero(alike) ** 0.5
            assert abs(truly[alike].mean() - said[alike].mean()) < error


@given(st.floats(1e-4, 50.0), st.floats(1e-3, 100.0), st.floats(1e-3, 100.0), st.floats(1e-4, 1e3))
def test_forgiveness_is_a_probability_that_grows_with_grace(age, more, wider, rate):
    known, period = age + more, age + wider
    graces = age + np.linspace(0.0, 1.2, 7) * more
    chances = [
        float(forgiven(age, known, b, np.array([rate]), np.array([period]))[0, 0]) for b in graces
    ]
    assert all(0.0 <= c <= 1.0 for c in chances)
    assert np.all(np.diff(chances) > -1e-9)
    assert chances[-1] == 1.0  # the grace reaches back to the update the index knew
    faster = forgiven(age, known, graces[2], np.array([2 * rate]), np.array([period]))[0, 0]
    assert faster <= chances[2] + 1e-9


@pytest.mark.slow
def test_the_audit_recovers_the_currency_of_fast_sources_and_the_count_does_not():
    truth = true_currency(fast_sources(np.random.default_rng(3), 200_000), 30.0)
    inside, periods = [], []
    for seed in range(5):
        rng = np.random.default_rng(100 + seed)
        index = Index(rng, fast_sources(rng, 700), np.full(700, 30.0))
        answer = audit_claims(index.claims, GRACES, skew=0.0, resamples=80)
        inside += list((answer.low <= truth) & (truth <= answer.high))
        np.testing.assert_allclose(answer.alpha, truth, atol=0.07)  # 4 standard errors of a share
        # Counting every recent update as forgiven: far too kind.
        assert np.all(answer.uncorrected_low[1:] > truth[1:])
        assert np.all(answer.uncorrected[1:4] > truth[1:4] + 0.1)
        # (3.20) as printed: far too strict (errata B-15).
        assert np.all(answer.printed[2:] < answer.low[2:])
        assert np.all(answer.printed[3:] < truth[3:] - 0.08)
        periods.append(answer.period_days)
    # 25 bands, those of one index together; at 95 % at most one index should be out.
    assert sum(inside) >= 20
    assert np.median(periods) == pytest.approx(30.0, rel=0.08)


def test_slow_sources_and_the_period_of_the_index():
    rng = np.random.default_rng(4)
    web = 1.0 / (152.2 * rng.weibull(1.4, 3_000))
    truth = true_currency(1.0 / (152.2 * rng.weibull(1.4, 200_000)), 100.0)
    claims = Index(rng, web, np.full(3_000, 100.0)).claims
    answer = audit_claims(claims, GRACES, skew=0.0, population=(1.4, 152.2), resamples=100)
    assert np.all((answer.low <= truth) & (truth <= answer.high))
    low, high = answer.period_interval
    assert low < answer.period_days < high
    assert answer.period_days == pytest.approx(100.0, rel=0.15)
    own = audit_claims(claims, GRACES, skew=0.0, resamples=2)
    assert own.period_days == pytest.approx(answer.period_days, rel=0.15)


@pytest.mark.slow
def test_an_index_with_many_periods():
    rng = np.random.default_rng(5)

    def make(n):
        return fast_sources(rng, n), np.exp(rng.normal(np.log(20.0), 0.8, n))

    truth = true_currency(*make(200_000))
    answer = audit_claims(Index(rng, *make(2_000)).claims, GRACES, skew=0.0, resamples=5)
    np.testing.assert_allclose(answer.alpha, truth, atol=0.04)
    assert np.all(np.abs(answer.alpha - truth) < 0.5 * np.abs(answer.uncorrected - truth) + 0.02)


def test_the_periods_of_section_3_4_3():
    # Errata B-16: 0.95 at a grace of 73 and 104 days means a period of 103 and 140 days.
    periods = required_period(WeibullPopulation(1.4, 152.2), 0.95, [73.0, 104.0])
    assert [round(float(p)) for p in periods] == [103, 140]


def test_without_grace_all_three_answers_are_one_count():
    rng = np.random.default_rng(6)
    index = Index(rng, fast_sources(rng, 300), np.full(300, 10.0))
    answer = audit_claims(index.claims, 0.0, skew=0.0, resamples=20)
    for count in (answer.alpha, answer.uncorrected, answer.printed):
        assert count[0] == pytest.approx(1.0 - index.stale.mean(), rel=1e-12)


def test_the_currency_rises_to_one_as_the_grace_grows():
    rng = np.random.default_rng(7)
    index = Index(rng, fast_sources(rng, 400), np.full(400, 15.0))
    graces = [0.0, 0.1, 1.0, 4.0, 9.0, 20.0, 1e4]
    answer = audit_claims(index.claims, graces, skew=0.0, resamples=30)
    assert np.all(np.diff(answer.alpha) >= -1e-12)
    assert answer.alpha[-1] == pytest.approx(1.0)
    assert np.all((answer.low <= answer.alpha + 1e-12) & (answer.alpha <= answer.high + 1e-12))


@pytest.mark.slow
def test_many_rows_are_put_together_without_harm(monkeypatch):
    rng = np.random.default_rng(8)
    claims = Index(rng, fast_sources(rng, 2_500), np.full(2_500, 30.0)).claims
    together = audit_claims(claims, GRACES, skew=0.0, resamples=2)
    monkeypatch.setattr(aliasing_module, "_MOST_CELLS", 10_000)
    apart = audit_claims(claims, GRACES, skew=0.0, resamples=2)
    np.testing.assert_allclose(together.alpha, apart.alpha, atol=0.005)
    np.testing.assert_allclose(together.uncorrected, apart.uncorrected, atol=1e-12)


@pytest.mark.slow
def test_rows_of_one_source_are_drawn_together():
    rng = np.random.default_rng(9)
    one = Index(rng, fast_sources(rng, 200), np.full(200, 10.0)).claims
    four = {name: np.tile(getattr(one, name), 4) for name in ("claimed", "actual", "checked")}
    known = audit_claims(Claims(np.tile(one.source, 4), **four), 1.0, skew=0.0)
    taken_apart = audit_claims(Claims(np.arange(800), **four), 1.0, skew=0.0)
    ratio = (known.high - known.low) / (taken_apart.high - taken_apart.low)
    assert ratio[0] == pytest.approx(2.0, rel=0.25)  # four copies tell no more than one


def test_the_same_seed_gives_the_same_bands():
    rng = np.random.default_rng(10)
    claims = Index(rng, fast_sources(rng, 200), np.full(200, 10.0)).claims
    first, again, other = (
        audit_claims(claims, 1.0, skew=0.0, resamples=20, seed=seed) for seed in (1, 1, 2)
    )
    assert first.to_dict() == again.to_dict()
    assert first.low[0] != other.low[0]
    assert first.alpha[0] == other.alpha[0]


# Clocks, gaps and mistakes -----------------------------------------------------------------------


def test_clocks_that_differ():
    claims = Claims.from_columns(
        source=["same", "within", "stale", "post-dated", "later", "unknown", "ahead"],
        claimed_modified=[10.0, 9.5, 5.0, 40.0, 15.0, None, 8.0],
        actual_modified=[10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 20.5],
        checked_at=[20.0] * 7,
        time_unit="d",
    )
    answer = audit_claims(claims, [0.0, 30.0], skew=1.0, resamples=10)
    assert (answer.rows_used, answer.stale) == (5, 2)
    assert answer.alpha[0] == pytest.approx(3 / 5)
    assert answer.alpha[1] == pytest.approx(1.0)
    notes = " ".join(answer.notes)
    for words in ("lack one of the two dates", "after the check", "later than the last update"):
        assert words in notes
    strict = audit_claims(claims, 0.0, skew=0.0, resamples=10)
    assert (strict.rows_used, strict.stale) == (4, 2)  # half a day is a difference now


def test_dates_that_cannot_be_true_are_set_aside():
    # The thesis met an engine that wrote "Dec 31 1899" where it knew no date.
    claims = Claims.from_columns(
        ["a", "b"], ["1899-12-31", "2026-01-01"], ["2026-01-01", "2026-01-01"], ["2026-02-01"] * 2
    )
    assert np.isnan(claims.claimed).tolist() == [True, False]
    answer = audit_claims(claims, resamples=2)
    assert answer.rows_used == 1
    assert "before 1970" in answer.notes[0]


def test_polars_and_pandas_are_taken_as_they_are():
    import pandas as pd
    import polars as pl

    columns = {name: ["2026-01-01", "2026-01-02"] for name in COLUMNS}
    plain = Claims.from_columns(*columns.values())
    for table in (
        pl.DataFrame(columns),
        pd.DataFrame(columns),
        pd.DataFrame(columns).astype("category"),
    ):
        taken = Claims.from_arrow(table)
        assert taken.claimed.tolist() == plain.claimed.tolist()
        assert taken.source.tolist() == [0, 1]


def test_an_index_that_is_never_stale():
    claims = Claims.from_columns(["a", "b"], [1, 2], [1, 2], [3, 3], time_unit="d")
    answer = audit_claims(claims, [0.0, 1.0], resamples=5)
    assert answer.alpha.tolist() == [1.0, 1.0]
    assert np.isnan(answer.period_days)
    assert answer.to_dict()["period_days"] is None
    assert "reaches" not in str(answer)


def test_times_are_read_as_people_write_them():
    text = Claims.from_columns(
        ["a"], ["2026-01-01T00:00:00Z"], ["2026-01-02 12:00"], ["2026-01-03T00:00:00+00:00"]
    )
    seconds = Claims.from_columns(["a"], [1767225600], [1767355200.0], [1767398400])
    for name in ("claimed", "actual", "checked"):
        assert getattr(text, name) == getattr(seconds, name)
    assert text.checked[0] - text.claimed[0] == pytest.approx(2.0)


def test_bad_claims_name_the_row():
    import pyarrow as pa

    rows = pa.table({name: ["2026-01-01", "2026-01-02"] for name in COLUMNS})
    place = COLUMNS.index("actual_modified")
    bad = rows.set_column(place, "actual_modified", pa.array(["2026-01-01", "soon"]))
    with pytest.raises(InputError, match=r"x\.csv, row 2, column actual_modified: .*soon"):
        Claims.from_arrow(bad, name="x.csv")
    missing = rows.set_column(3, "checked_at", pa.array([None, "2026-01-02"]))
    with pytest.raises(InputError, match="row 1, column checked_at"):
        Claims.from_arrow(missing)
    nameless = rows.set_column(0, "source", pa.array(["a", None]))
    with pytest.raises(InputError, match="row 2, column source"):
        Claims.from_arrow(nameless)
    with pytest.raises(InputError, match="there is no column 'checked_at'"):
        Claims.from_arrow(rows.drop_columns("checked_at"))
    with pytest.raises(InputError, match="not one row"):
        Claims.from_arrow(rows.slice(0, 0))
    with pytest.raises(InputError, match="differ in length"):
        Claims.from_columns(["a", "b"], [1], [1], [1])


def test_questions_without_an_answer():
    claims = Claims.from_columns(["a"], [None], [1], [2], time_unit="d")
    with pytest.raises(EstimationError, match="both dates"):
        audit_claims(claims)
    good = Claims.from_columns(["a"], [1], [1], [2], time_unit="d")
    for options, said in (
        ({"grace": [-1.0]}, "graces"),
        ({"grace": []}, "graces"),
        ({"skew": -1.0}, "skew"),
        ({"target": 1.5}, "target"),
        ({"confidence": 95}, "confidence"),
        ({"resamples": 0}, "resamples"),
        ({"population": (0.0, 1.0)}, "shape"),
    ):
        with pytest.raises(InputError, match=said):
            audit_claims(good, **options)


def test_the_answer_is_a_table_and_reads_well():
    rng = np.random.default_rng(11)
    claims = Index(rng, fast_sources(rng, 100), np.full(100, 10.0)).claims
    answer = audit_claims(claims, GRACES, skew=0.0, resamples=10)
    assert answer.to_arrow().num_rows == len(GRACES)
    assert "printed (3.20)" in str(answer)
    assert "looks at each source every" in str(answer)
    assert repr(answer).startswith("<Audit: 100 rows")
    assert len(answer.to_dict()["currency"]) == len(GRACES)


# -- several indexes ------------------------------------------------------------------------------


def engines(site, days_behind):
    """Engines that list the same pages, with dates so many days behind."""
    old = 1_700_000_000
    for k in range(6):
        modified = formatdate(old + k * 86_400, usegmt=True)
        answer = (200, {"Content-Type": "text/html", "Last-Modified": modified}, b"<p>page</p>")
        site.pages[f"/page{k}"] = lambda _headers, answer=answer: answer
    indexes = {}
    for name, behind in days_behind.items():
        for q in range(3):
            items = "".join(
                f"<li><a href='http://p.example/page{k}'>page</a> <time datetime='"
                f"{np.datetime64(old + (k - behind) * 86_400, 's')}Z'></time></li>"
                for k in (2 * q, 2 * q + 1)
            )
            site.serve(f"/{name}?q=word+{q}", f"<ul>{items}</ul>")
        indexes[name] = AskedIndex(
            url=f"http://{name}.example/{name}?q={{query}}", items="li", date="time"
        )
    return indexes


def test_indexes_are_asked_the_same_random_queries_and_every_page_once():
    site = Site()
    indexes = engines(site, {"fresh": 0, "stale": 9})

    async def main():
        async with transport_to(site.port) as transport:
            words = [f"word {q}" for q in range(3)]
            few = await ask_indexes(transport, indexes, words, sample=2, seed=3)
            asked = {
                name: {p for p, _ in site.seen if p.startswith(f"/{name}")} for name in indexes
            }
            pages = [path for path, _ in site.seen if path.startswith("/page")]
            return few, asked, pages, await ask_indexes(transport, indexes, words, sample=9)

    few, asked, pages, found = asyncio.run(main())
    site.close()
    assert [len(claims.source) for claims in few.values()] == [4, 4]
    assert {p.partition("?")[2] for p in asked["fresh"]} == {
        p.partition("?")[2] for p in asked["stale"]
    }
    assert len(pages) == len(set(pages)) == 4
    assert (found["fresh"].claimed == found["fresh"].actual).all()
    np.testing.assert_allclose(found["stale"].actual - found["stale"].claimed, 9.0)
    assert any("6 results of 3 queries" in note for note in found["fresh"].notes)


def test_an_index_without_dates_or_answers_is_named():
    site = Site()
    index = AskedIndex(url="http://x.example/none?q={query}", items="li", date="time")

    async def main():
        async with transport_to(site.port) as transport:
            await ask_indexes(transport, {"x": index}, ["a"], sample=1)

    with pytest.raises(InputError, match="index 'x': of 0 results"):
        asyncio.run(main())
    site.close()
    with pytest.raises(InputError, match="query"):
        AskedIndex(url="http://x.example/", items="li")


def test_a_file_of_indexes_is_checked(tmp_path):
    good = tmp_path / "good.toml"
    good.write_text('[a]\nurl = "https://a.example/?q={query}"\nitems = "li"\ndate = "time"\n')
    assert read_indexes(str(good))["a"].rules.may_be_empty
    for text, said in (("", "names no index"), ("[a", "not TOML"), ('[a]\nitems="li"', r"\[a\]")):
        bad = tmp_path / "bad.toml"
        bad.write_text(text)
        with pytest.raises(InputError, match=said):
            read_indexes(str(bad))
    with pytest.raises(InputError, match=r"nowhere\.toml: cannot be read"):
        read_indexes(str(tmp_path / "nowhere.toml"))


@pytest.mark.slow
def test_several_files_of_claims_are_compared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, behind in (("a.csv", 0), ("b.csv", 30)):
        rows = [
            f"s{k},{1e9 - behind * 86_400 * (k % 2)},{1e9},{1e9 + 86_400 * 40}" for k in range(40)
        ]
        (tmp_path / name).write_text(f"{','.join(COLUMNS)}\n" + "\n".join(rows) + "\n")
    told = CliRunner().invoke(audit_command, ["a.csv", "b.csv", "--resamples", "5"])
    assert told.exit_code == 0, told.output
    assert "a.csv" in told.output
    assert "40, 20 stale" in told.output
    both = CliRunner().invoke(audit_command, ["a.csv", "b.csv", "--resamples", "5", "--json"])
    assert set(json.loads(both.output)) == {"a.csv", "b.csv"}
    drawn = ["a.csv", "b.csv", "--resamples", "5", "--plot", "audit.svg"]
    assert CliRunner().invoke(audit_command, drawn).exit_code == 0
