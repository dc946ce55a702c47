"""Next January from past Januaries and the latest year (Singh, section 5); Duane's plot."""

import json

import numpy as np
import pytest

from observant.errors import InputError
from observant.estimation.windows import forecast_month, update_points
from observant.estimation.windows.points import from_updates
from observant.figures.trend import duane_figure
from observant.processes.updates import Updates

from .command_line import run_here

BEGIN = 365 * 40 + 10  # 2010-01-01, in days since 1970


def january(day):
    """Which days since 1970 are in a January (2010 to 2019; leap days are known)."""
    dates = np.datetime64("1970-01-01") + day.astype(np.int64)
    return dates.astype("datetime64[M]").astype(int) % 12 == 0


def made(sources, years, busy, growth, rng, rate=0.3):
    """Updates of sources that grow by a factor each year, `busy` times faster in January."""
    days = np.arange(BEGIN, BEGIN + round(365.25 * years) - (years == 5))
    level = rate * growth ** ((days - BEGIN) / 365.25) * np.where(january(days), busy, 1.0)
    counts = rng.poisson(level, (sources, len(days)))
    owner, day = (np.repeat(axis.ravel(), counts.ravel()) for axis in np.indices(counts.shape))
    times = days[day] + rng.random(len(day))
    order = np.lexsort((times, owner))
    after = BEGIN + 365.25 * years + 15
    truth = rate * growth ** ((after - BEGIN) / 365.25) * busy
    return Updates(times[order], np.append(0, np.cumsum(counts.sum(axis=1)))), truth


@pytest.mark.slow
@pytest.mark.parametrize(("busy", "growth"), [(3.0, 1.0), (1.0, 1.4), (3.0, 1.4), (0.3, 0.8)])
def test_a_busy_month_and_growth_are_both_foretold(busy, growth):
    updates, truth = made(200, 5, busy, growth, np.random.default_rng(1))
    end = BEGIN + 5 * 365 + 1  # 2015-01-01
    points = from_updates(updates, start=BEGIN, until=end, calendar=True)
    found = forecast_month(points, 1)
    assert set(found.window.tolist()) == {"2015-01"}
    assert found.years.tolist() == [4] * 200
    # ρ holds the growth from the middle of a year to the January after it. The prior pulls it
    # towards 1, by 4 updates: some forty are seen of busy Januaries, but eight of quiet ones.
    error = np.log(found.rate_per_day / truth)
    assert abs(error.mean()) < (0.15 if busy >= 1 else 0.35)
    plain = np.log(found.level_per_day / truth)
    assert abs(error.mean()) < abs(plain.mean()) or busy == 1.0
    inside = (found.rate_low <= truth) & (truth <= found.rate_high)
    if growth == 1.0:
        assert inside.mean() > 0.9


def test_little_history_says_so():
    found = forecast_month([float(BEGIN + day) for day in range(0, 90, 3)], 1)
    assert found.years.tolist() == [0]
    assert found.ratio[0] == 1.0
    with pytest.raises(InputError, match="from 1 to 12"):
        forecast_month([1.0, 2.0], 13)


@pytest.mark.slow
def test_from_the_command_line(tmp_path):
    updates, _ = made(3, 4, 2.0, 1.0, np.random.default_rng(2))
    names = np.repeat(["a", "b", "c"], updates.counts)
    rows = [f"{name},{time * 86_400:.0f}" for name, time in zip(names, updates.times, strict=True)]
    (tmp_path / "updates.csv").write_text("source,time\n" + "\n".join(dict.fromkeys(rows)))
    code, out, err = run_here("study", "trend", "updates.csv", "--forecast", 1, cwd=tmp_path)
    assert code == 0, err
    assert "2014-01" in out
    words = ("study", "trend", "updates.csv", "--forecast", 1, "--json", "-o", "next.csv")
    _, out, _ = run_here(*words, cwd=tmp_path)
    assert [row["years"] for row in json.loads(out)["forecast"]] == [3, 3, 3]
    assert (tmp_path / "next.csv").read_text().count("\n") == 4
    words = ("study", "trend", "updates.csv", "--duane", "--plot", "duane.svg")
    assert run_here(*words, cwd=tmp_path)[0] == 0
    assert "mean time between updates so far" in (tmp_path / "duane.svg").read_text("utf-8")


def test_duanes_line_is_the_power_law():
    """Updates at n^(1/β) have a mean time of n^(1/β − 1): a slope of 1 − β, exactly."""
    beta = 2.0
    times = np.arange(1, 200.0) ** (1 / beta)
    chart = duane_figure(update_points(Updates(times, np.array([0, len(times)])), start=0.0))
    told = chart.to_dict()
    assert "slope -1.00" in told["title"]["subtitle"]
    with pytest.raises(InputError, match="two updates"):
        duane_figure(update_points(Updates(np.array([1.0]), np.array([0, 1])), start=0.0))
