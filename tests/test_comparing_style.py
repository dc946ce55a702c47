"""What many records tell: attributes, style against age, magnitudes, power laws."""

import numpy as np
import pytest

from observant.errors import InputError
from observant.papers.thesis.figures import (
    attributes_figure,
    magnitudes_figure,
    rank_figure,
    style_figure,
)
from observant.papers.thesis.style import (
    Census,
    attribute_shares,
    magnitudes,
    rank_frequency,
    style_by_age,
)
from observant.store.visit import Comparison

DAY = 86_400.0


def test_shares_of_attributes():
    """Wilson's interval for 8 of 10 is 0.490 to 0.943 (any textbook)."""
    changes = [("text_hash",)] * 8 + [("num_links",)] * 2 + [()] * 5
    shares = attribute_shares(changes)
    assert shares.total == 10
    assert list(shares.attribute) == ["text_hash", "num_links"]
    assert shares.share == pytest.approx([0.8, 0.2])
    assert (shares.low[0], shares.high[0]) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert attribute_shares([]).total == 0


def test_style_against_age():
    rng = np.random.default_rng(1)
    ages = rng.exponential(300, 3000)
    sizes = rng.lognormal(np.where(ages < 100, 10, 8), 1)
    records = [
        {
            "last_observed": 1e9,
            "last_modified": 1e9 - age * DAY,
            "content_length": int(size),
            "num_images": int(size // 1000),
        }
        for age, size in zip(ages, sizes, strict=True)
    ]
    style = style_by_age([*records, {"last_observed": 1e9, "last_modified": None}], ages=(100,))
    assert style.undated == 1
    assert style.pages == {
        "younger than 100 d": int(np.sum(ages < 100)),
        "100 d and older": int(np.sum(ages >= 100)),
    }
    for group, young in (("younger than 100 d", True), ("100 d and older", False)):
        expected = np.median(sizes[(ages < 100) == young])
        assert style.median("content_length", group) == pytest.approx(expected, rel=0.05)
    with pytest.raises(InputError, match="ages"):
        style_by_age(records, ages=(10, 5))
    with pytest.raises(InputError, match="no pages"):
        style.median("content_length", "never")


@pytest.mark.parametrize("slope", [0.7, 0.85, 1.0, 1.3])
def test_the_slope_of_an_exact_power_law(slope):
    counts = {f"{r}": int(1e7 * r**-slope) for r in range(1, 5001)}
    curve = rank_frequency(counts)
    assert curve.slope == pytest.approx(-slope, abs=0.005)
    assert curve.total == sum(counts.values())


def test_the_slope_of_the_density_is_found_in_samples():
    """Zipf's law with exponent a has density slope −a; the estimate's error is (a−1)/√n."""
    rng = np.random.default_rng(2)
    sample = rng.zipf(2.2, 200_000)
    curve = rank_frequency({f"{i}": int(n) for i, n in enumerate(sample) if n < 1 << 40})
    kept = np.sum(sample >= 5)
    # The formula's own bias at x_min = 5 is below 0.02 (Clauset et al. 2009, figure 3.2 ff.).
    assert curve.density_slope == pytest.approx(-2.2, abs=0.02 + 4 * 1.2 / np.sqrt(kept))


def test_curves_that_cannot_be():
    with pytest.raises(InputError, match="three"):
        rank_frequency({"a": 1})
    with pytest.raises(InputError, match="fit"):
        rank_frequency({"a": 1, "b": 2, "c": 3}, fit=(2, 9))
    assert np.isnan(rank_frequency({"a": 1, "b": 1, "c": 1}, fit=(1, 3)).density_slope)


def test_a_census_counts_and_is_bounded():
    census = Census(largest=100)
    census.add_page(
        b"<p>one two two <a href='https://a.example/x#y'>l</a><a href='z'>m</a><a href='http://['>",
        "https://b.example/",
    )
    assert census.terms["two"] == 2
    assert census.hosts == {"a.example": 1, "b.example": 1}
    for i in range(300):
        census.add(f"common word{i}")
    assert len(census.terms) <= 100
    assert census.terms["common"] == 300
    assert census.pages == 301
    assert census.forgotten > 0


def some_magnitudes(n=400):
    rng = np.random.default_rng(3)
    return magnitudes(
        Comparison(
            outcome="changed",
            length=float(rng.lognormal(4, 1)),
            angle=0.1,
            distance=1.0,
            magnitude=float(min(rng.exponential(0.1), 1.0)) if i % 20 else 1.0,
        )
        for i in range(n)
    )


def test_magnitudes():
    found = some_magnitudes()
    assert len(found) == 400
    assert found.wholesale == pytest.approx(0.05, abs=0.01)
    same = Comparison(outcome="same", length=1.0, angle=0.0, distance=0.0, magnitude=0.0)
    assert len(magnitudes([same, Comparison(outcome="changed")])) == 0


def test_figures_are_drawn():
    shares = attribute_shares([("text_hash", "content_length")] * 3 + [("num_links",)])
    old = {"last_observed": 9e7, "last_modified": 0.0, "content_length": 500, "num_images": 0}
    style = style_by_age([old, {**old, "last_modified": 9e7}])
    curve = rank_frequency({f"{r}": 1000 // r for r in range(1, 200)})
    for chart in (
        attributes_figure(shares),
        style_figure(style),
        magnitudes_figure(some_magnitudes()),
        rank_figure({"terms": curve}),
    ):
        assert chart.to_dict()["config"]
    for empty in (
        lambda: attributes_figure(attribute_shares([])),
        lambda: style_figure(style_by_age([])),
        lambda: magnitudes_figure(magnitudes([])),
        lambda: rank_figure({}),
    ):
        with pytest.raises(InputError, match="nothing to draw"):
            empty()
