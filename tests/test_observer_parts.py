"""The parts of the observer that need neither network nor store."""

import asyncio
import gc
import math
import os
import random
import re
from collections import Counter
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from observant.errors import InputError
from observant.estimation.belief import Likelihoods
from observant.observer import loop
from observant.observer.active_hours import ActiveHours
from observant.observer.clock import AcceleratedClock, SteadyClock
from observant.observer.config import load_config
from observant.observer.multiplexer import Multiplexer
from observant.observer.outage import Outage
from observant.observer.permission import who_else_can_write
from observant.observer.schedule import Planned, Schedule
from observant.observer.spot_checks import SpotChecks
from observant.observer.synthetic.web import KINDS, DemoWorld
from observant.times import DAY

from .patience import in_simulated_time

# -- multiplexer ----------------------------------------------------------------------------------


def test_spent_rate_follows_the_requests_while_latency_varies_tenfold():
    """Brewington 4.3.4: at ten times the latency there are about ten times the downloaders, and the
    visits keep their rate. Requests come every 5 ms, so 20 ms of latency need 4 and 200 ms 40."""

    async def main():
        now = asyncio.get_running_loop().time
        latency = 0.02
        ends = []

        async def work(_item):
            await asyncio.sleep(latency)
            ends.append(now())

        multiplexer = Multiplexer(work, idle=0.15)
        peaks = []
        for latency in (0.02, 0.2, 0.02):  # noqa: B007 (work reads it)
            begin = now()
            counts = []
            for k in range(160):
                multiplexer.submit(k, key=str(k))
                await asyncio.sleep(max(begin + 0.005 * (k + 1) - now(), 0))
                counts.append(multiplexer.downloaders)
            peaks.append(np.median(counts[100:]))
        await multiplexer.join()
        return peaks, ends, multiplexer

    peaks, ends, multiplexer = in_simulated_time(main())
    assert len(ends) == 480
    assert peaks[0] <= 5  # one more may begin in the moment in which another ends
    assert 40 <= peaks[1] <= 41
    assert peaks[2] < peaks[1] / 2  # idle ones were retired
    # 480 requests in 2.4 s, the last of which takes 20 ms: as many ends, as fast as they came.
    assert ends[-1] - ends[0] == pytest.approx(2.4, abs=0.01)
    assert multiplexer.retired > 10


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 4), max_size=40), st.integers(1, 5), st.integers(0, 2**16))
def test_one_at_a_time_per_host_and_nothing_is_lost(keys, most, seed):
    async def main():
        rng = random.Random(seed)  # noqa: S311
        under_way, seen = Counter(), []

        async def work(item):
            number, key = item
            under_way[key] += 1
            assert under_way[key] == 1
            assert sum(under_way.values()) <= most
            await asyncio.sleep(rng.random() * 0.001)
            under_way[key] -= 1
            seen.append(number)
            if number % 7 == 3:
                raise ValueError("a bad source")

        multiplexer = Multiplexer(work, most=most, idle=0.001)
        for number, key in enumerate(keys):
            multiplexer.submit((number, key), str(key))
            if rng.random() < 0.3:
                await asyncio.sleep(0.0005)
        assert await multiplexer.join(5)
        await multiplexer.close()
        assert sorted(seen) == list(range(len(keys)))
        assert multiplexer.busy == multiplexer.backlog == 0

    in_simulated_time(main())


def test_what_has_not_begun_can_be_taken_back():
    async def main():
        async def work(_item):
            await asyncio.sleep(0.05)

        multiplexer = Multiplexer(work, most=2)
        for k in range(10):
            multiplexer.submit(k, key=str(k % 5))
        await asyncio.sleep(0.01)
        back = multiplexer.forget_waiting()
        assert await multiplexer.join(1)
        assert multiplexer.done == 2
        return back

    assert sorted(in_simulated_time(main())) == [2, 3, 4, 5, 6, 7, 8, 9]


# -- clock ----------------------------------------------------------------------------------------


@example([(1.0, -1.0)])  # set back to exactly where it was
@given(st.lists(st.tuples(st.floats(0, 100), st.floats(-1e6, 1e6)), max_size=50))
def test_a_steady_clock_never_runs_back_and_never_stops(steps):
    now = {"wall": 1e9, "ticks": 0.0}
    clock = SteadyClock(wall=lambda: now["wall"], ticks=lambda: now["ticks"])
    last = clock.time()
    for passed, leap in steps:
        now["ticks"] += passed
        now["wall"] += passed + leap
        at = clock.time()
        assert at >= last + 0.49 * passed
        assert at >= now["wall"]
        last = at
    if not any(29.9 < abs(leap) < 30.1 for _, leap in steps):
        assert clock.leaps == pytest.approx([leap for _, leap in steps if abs(leap) > 30], abs=0.01)


def test_a_nights_sleep_causes_no_burst():
    """The purse of the schedule never holds more than √n visits, however long nobody asked."""
    schedule = Schedule(budget=1000.0, start=0.0)
    schedule.add([Planned(str(k), str(k), last_at=0.0) for k in range(400)])
    asleep_until = 10 * DAY
    assert len(schedule.due(asleep_until)) <= np.sqrt(400)
    assert len(schedule.due(asleep_until + 60.0)) <= 1 + 1000 * 60 / DAY


def test_accelerated_clock_sleeps_less():
    async def main():
        now = asyncio.get_running_loop().time
        clock = AcceleratedClock(speed=1000.0, start=0.0, ticks=now)
        begin = now()
        await clock.sleep(50.0)
        return now() - begin, clock.time()

    assert in_simulated_time(main()) == pytest.approx((0.05, 50.0))


# -- hours ----------------------------------------------------------------------------------------


@settings(max_examples=200)
@given(
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)),  # noqa: DTZ001
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]),
    st.sampled_from([["mon-fri 08:00-18:00"], ["22:00-06:00"], ["sat,sun"], ["fri-mon 2:00-2:30"]]),
)
def test_the_next_active_moment_is_active_and_none_comes_before(at, zone, windows):
    hours = ActiveHours.parse(windows, zone)
    now = at.replace(tzinfo=UTC).timestamp()
    following = hours.next(now)
    assert hours.allows(following)
    assert now <= following <= now + 8 * DAY
    step = now
    while step < following - 1:
        assert not hours.allows(step)
        step += 600


def test_hours_past_midnight():
    night = ActiveHours.parse(["fri 22:00-04:00"])
    friday = datetime(2026, 11, 13, tzinfo=UTC)
    told = [night.allows((friday + timedelta(hours=h)).timestamp()) for h in (3, 21, 23, 27, 29)]
    assert told == [False, False, True, True, False]


@pytest.mark.parametrize("text", ["monday", "8-18", "25:00-26:00", "lundi 8:00-9:00", ""])
def test_bad_hours_are_refused(text):
    if text == "monday":
        assert ActiveHours.parse([text]).windows == ((0, 0, 1440),)
        return
    with pytest.raises(InputError, match=r"write for example|no time of day"):
        ActiveHours.parse([text])


# -- configuration --------------------------------------------------------------------------------


def test_precedence_is_flag_environment_file(tmp_path):
    file = tmp_path / "o.toml"
    file.write_text('budget = "1/day"\nstore = "file.db"\ncontact = "file"\n[limits]\ntotal = 5\n')
    env = {
        "OBSERVANT_CONFIG": str(file),
        "OBSERVANT_STORE": "env.db",
        "OBSERVANT_BUDGET": "2/day",
        "OBSERVANT_LIMITS__CONNECT": "3",
        "OBSERVANT_TRACES": "somebody else's",
    }
    config = load_config(None, {"budget": "3/day", "store": None}, env)
    assert (config.budget_per_day, config.store, config.contact) == (3.0, "env.db", "file")
    assert config.limits == {"total": 5, "connect": "3"}


@pytest.mark.parametrize(
    ("name", "meant"),
    [("BUGDET", "BUDGET"), ("STOR", "STORE"), ("CONFG", "CONFIG"), ("LIMIT__TOTAL", "LIMITS")],
)
def test_a_slip_in_the_environment_is_an_error(name, meant):
    with pytest.raises(InputError, match=f"OBSERVANT_{name}; did you mean OBSERVANT_{meant}"):
        load_config(None, {}, {f"OBSERVANT_{name}": "5"})
    # Names of others are theirs: of a cluster that knows a service observant, for one.
    others = {"TRACES": "x", "TOKEN": "x", "SERVICE_HOST": "x", "PORT": "x", "VISITS": "x"}
    load_config(None, {}, {f"OBSERVANT_{key}": value for key, value in others.items()})


def test_the_usual_places(tmp_path, monkeypatch):
    """A file in this folder, or else where programs keep theirs."""
    here, config, data = (tmp_path / name for name in ("here", "config", "data"))
    here.mkdir()
    monkeypatch.chdir(here)
    env = {"XDG_CONFIG_HOME": str(config), "XDG_DATA_HOME": str(data)}
    assert load_config(None, {}, env).store == "observant.db"
    (config / "observant").mkdir(parents=True)
    (config / "observant" / "observant.toml").write_text("contact = 'me'\n")
    found = load_config(None, {}, env)
    assert (found.contact, found.store) == ("me", str(data / "observant" / "observant.db"))
    assert found.file == str(config / "observant" / "observant.toml")
    (here / "observant.db").touch()
    assert load_config(None, {}, env).store == "observant.db"
    (here / "observant.toml").write_text("contact = 'you'\n")
    assert load_config(None, {}, env).contact == "you"
    assert load_config(None, {}, env | {"OBSERVANT_STORE": "other.db"}).store == "other.db"


def test_settings_come_from_defaults_tags_and_source(tmp_path):
    file = tmp_path / "o.toml"
    file.write_text(
        "[defaults]\nmax_period = '30d'\n[defaults.compare]\nchange = 'text'\n"
        "[tags.news]\nimportance = 3\nmin_period = '5min'\n[tags.news.compare]\ncss = 'main'\n"
        "[[sources]]\nurl = 'https://a.example/'\ntags = ['news']\n"
        "settings = {min_period = '1h'}\n"
    )
    config = load_config(str(file), {}, {})
    (entry,) = config.sources
    found = config.settings_of(entry.tags, entry.settings)
    assert (found.importance, found.min_period, found.max_period) == (3.0, "1h", "30d")
    assert found.compare == {"change": "text", "css": "main"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("bugdet = 3", "no setting `bugdet`; did you mean `budget`"),
        ("[limits]\ntotl = 3", r"o\.toml: \[limits\]: there is no setting `totl`; .* `total`"),
        ("[defaults.limits]\nbdy = 3", r"\[defaults\]: \[limits\]: .* did you mean `body`"),
        ("[tags.a.limits]\nbody = 0", r"\[tags.a\]: \[limits\]: the limit body"),
        ("grace = 'soon'", r"o\.toml: grace: unknown unit"),
        ("budget = 'much'", "not a budget"),
        ("[tags.a]\nimportance = -1", "importance"),
        ("[defaults]\nmin_period = '2d'\nmax_period = '1d'", "above max_period"),
        ("[defaults]\nactive = ['sometimes']", "no active hours"),
        ("[[sources]]\nname = 'x'", "needs a url"),
        ("budget = ", "not TOML"),
        ("[retention]\nmax_age = 'long'", "unknown unit"),
        ("[[sources]]\nurl = 'http://a.example/'\nsettings = {compare = {cs = 'p'}}", "`cs`"),
        ("[[sources]]\nurl = 'http://a.example/'\nsettings = {limits = {total = 0}}", "total"),
    ],
)
def test_a_bad_configuration_is_named(tmp_path, text, complaint):
    file = tmp_path / "o.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=complaint):
        load_config(str(file), {}, {})


def test_who_else_can_write(tmp_path):
    tmp_path.chmod(0o755)
    file = tmp_path / "o.toml"
    file.write_text("")
    file.chmod(0o644)
    assert who_else_can_write(file) == ""
    file.chmod(0o664)
    assert "group" in who_else_can_write(file)
    file.chmod(0o646)
    assert "everybody" in who_else_can_write(file)
    file.chmod(0o600)
    tmp_path.chmod(0o777)
    assert "everybody" in who_else_can_write(file)
    if os.getuid() == 0:
        tmp_path.chmod(0o755)
        os.chown(file, 12345, 0)
        assert "another user" in who_else_can_write(file)


# -- outage ---------------------------------------------------------------------------------------


def test_a_dead_host_is_no_outage_and_a_dead_network_is():
    outage = Outage(hosts=40)
    for k in range(50):
        assert not outage.note("dead.example", f"page {k}", "connect", now=k)
    assert not outage.on
    began = [outage.note(f"h{k}", f"s{k}", "dns", now=100) for k in range(12)]
    assert began.count(True) == 1
    assert outage.on
    pauses = [outage.pause(now) for now in range(100, 2000, 7)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == 60.0
    outage.note("h3", "s3", "http", now=2000)  # an error page is an answer
    assert not outage.on
    assert outage.suspects() == []


def test_visits_that_end_amid_an_outage_do_not_put_off_the_next_probe():
    """Forty seconds without a link, two hundred visits under way: they fail one after the other."""
    outage = Outage(hosts=200)
    for k in range(200):
        outage.note(f"h{k}", f"s{k}", "timeout", now=100 + k / 5)
    assert outage.on
    now = 100.0
    while now < 140.0:  # probes fail as long as the link is away
        now += outage.pause(now)
        if now < 140.0:
            outage.note("h0", "s0", "connect", now=now)
    assert now - 140.0 < 15.0  # and the first one after that is answered


# -- schedule -------------------------------------------------------------------------------------


def test_a_restarted_schedule_learns_again_when_its_visits_have_doubled():
    """Those that earlier runs made count: one of each source, as far as anybody knows now."""
    names = [f"s{k}" for k in range(40)]

    def visited(day):
        for name in names:
            schedule.visited(name, day * DAY, None if day == 1 else day % 2 == 0)

    schedule = Schedule(budget=50.0, start=0.0)
    schedule.add([Planned(name, name) for name in names])
    assert not schedule.wants_to_learn
    for day in (1, 2):
        visited(day)
    kept = [Planned(n, n, last_at=2 * DAY, likelihood=schedule.likelihood(n)) for n in names]
    schedule = Schedule(budget=50.0, start=2 * DAY)
    schedule.add(kept)
    assert schedule.wants_to_learn  # from what they have brought
    schedule.learn()
    for name in names[:-1]:
        schedule.visited(name, 3 * DAY, False)
    assert not schedule.wants_to_learn
    schedule.visited(names[-1], 3 * DAY, False)
    assert schedule.wants_to_learn


def simulated(schedule, rates, until, rng, last=None, start=0.0):
    """Drive a schedule over Poisson sources; returns the visits and the time of the last ones."""
    last = dict(last or {})
    visits, now = [], start
    while (now := max(schedule.next_at(), now)) < until:
        for name in schedule.due(now):
            gap = (now - last[name]) / DAY if name in last else None
            changed = None if gap is None else bool(rng.random() < -np.expm1(-rates[name] * gap))
            schedule.visited(name, now, changed)
            last[name] = now
            visits.append((now, name))
        if schedule.wants_to_learn:
            schedule.learn()
    return visits, last


def test_a_restarted_schedule_believes_what_the_first_one_did():
    rng = np.random.default_rng(5)
    rates = {f"s{k}": float(r) for k, r in enumerate(np.exp(rng.normal(-2, 1.5, 100)))}
    first = Schedule(budget=50.0, start=0.0)
    first.add([Planned(name, name) for name in rates])
    _, last = simulated(first, rates, 40 * DAY, rng)

    second = Schedule(budget=50.0, start=40 * DAY)
    second.restore_prior(first.prior)
    second.add([Planned(n, n, last_at=last.get(n), likelihood=first.likelihood(n)) for n in rates])
    for name in rates:
        assert second.belief(name) == pytest.approx(first.belief(name), rel=1e-9)
    now = first.expectation(40 * DAY), second.expectation(40 * DAY)
    assert now[0].alpha == pytest.approx(now[1].alpha, abs=1e-5)
    assert second.price == pytest.approx(first.price, rel=0.2)


@pytest.mark.slow
def test_beliefs_are_calibrated_and_alpha_is_what_it_says():
    """Poisson sources: 95 % intervals hold the rate of 95 % (300 sources: ± 2.5 points at two
    standard errors), and the expected α is the true share of fresh copies (± 2 · 0.5/√300)."""
    rng = np.random.default_rng(6)
    rates = {f"s{k}": float(r) for k, r in enumerate(np.exp(rng.normal(-2, 1.2, 300)))}
    schedule = Schedule(budget=150.0, start=0.0)
    schedule.add([Planned(name, name) for name in rates])
    _, last = simulated(schedule, rates, 60 * DAY, rng)
    beliefs = schedule.beliefs()
    inside = [beliefs[n].low <= rates[n] <= beliefs[n].high for n in rates]
    # Rates may become others, so for those that never do the intervals are a little wide.
    assert 0.915 <= np.mean(inside) <= 0.985
    fresh = np.mean([np.exp(-rates[n] * (60 - last[n] / DAY)) for n in rates])
    expected = schedule.expectation(60 * DAY)
    assert expected.alpha == pytest.approx(fresh, abs=0.04)
    assert expected.low < expected.alpha < expected.high
    assert expected.planned == pytest.approx(expected.alpha, abs=0.05)


def test_hosts_have_priors_of_their_own():
    """Two hosts, one fast and one slow: a page of which nothing is known yet is believed to be
    like its neighbours, and the evidence that is kept says nothing of them."""
    rng = np.random.default_rng(8)
    rates = {f"{h}{k}": 2.0 if h == "fast" else 0.02 for h in ("fast", "slow") for k in range(30)}
    schedule = Schedule(budget=60.0, start=0.0)
    schedule.add([Planned(name, name[:4]) for name in rates])
    simulated(schedule, rates, 20 * DAY, rng)
    schedule.learn()
    schedule.add([Planned("fast new", "fast"), Planned("slow new", "slow")])
    assert schedule.belief("fast new").rate > 0.5
    assert schedule.belief("slow new").rate < 0.1
    assert schedule.likelihood("fast new") == Likelihoods.empty(1).pack(0)
    again = Schedule(budget=60.0, start=20 * DAY)
    again.add([Planned(n, n[:4], last_at=0.0, likelihood=schedule.likelihood(n)) for n in rates])
    again.learn()
    for name in rates:
        assert again.belief(name) == pytest.approx(schedule.belief(name), rel=0.05)


@pytest.mark.slow
def test_ten_thousand_pages_of_one_host_wait_their_turn():
    """However large the budget: never two visits to a host within its delay of a second, and never
    a backlog in front of it."""
    schedule = Schedule(budget=1e8, host_delay=1 / DAY, start=0.0)
    schedule.add([Planned(str(k), "one.example") for k in range(10_000)])
    times = []
    for tick in range(1, 300):
        now = 0.1 * tick
        for name in schedule.due(now):
            times.append(now)
            schedule.visited(name, now + 0.01, None)
    assert 28 <= len(times) <= 30
    assert np.diff(times).min() > 0.999
    schedule.set_delay("one.example", 5.0)  # its robots.txt asks for more
    later = [0.1 * tick for tick in range(300, 600) if schedule.due(0.1 * tick)]
    assert 5 <= len(later) <= 8


@pytest.mark.slow
def test_a_loop_that_is_held_up_now_and_then_loses_little_of_its_budget():
    """5,000 sources, 1000 visits a second asked, and the loop comes round five times a second: with
    a purse of √n visits it spent 35 %.
    """
    schedule = Schedule(budget=1000 * DAY, start=0.0)
    schedule.add([Planned(f"s{k}", f"h{k}", min_period=1 / DAY) for k in range(5000)])
    made = 0
    for step in range(1, 401):
        now = step / 5
        for name in schedule.due(now):
            schedule.visited(name, now, None if now < 6 else False)
            made += 1
    assert 0.92 < made / (1000 * now) <= 1.0 + 1 / now


def test_put_back_undoes_a_failure():
    schedule = Schedule(budget=100.0, start=0.0)
    schedule.add([Planned("a", "a", last_at=0.0), Planned("b", "b", last_at=0.0)])
    before = schedule.due_at("a")
    schedule.visited("a", 3600.0, "failed")
    assert schedule.due_at("a") != before
    schedule.put_back("a")
    assert schedule.due_at("a") == pytest.approx(before, rel=1e-9)


def test_a_resting_source_comes_back_when_it_was_told_to():
    schedule = Schedule(budget=1000.0, start=0.0)
    schedule.add([Planned("a", "a", last_at=0.0)])
    assert schedule.due(DAY) == ["a"]
    spent = schedule.spent
    schedule.rest("a", 10 * DAY)
    assert schedule.spent == spent - 1
    assert schedule.due(9 * DAY) == []
    assert schedule.due_at("a") == pytest.approx(10 * DAY)
    assert schedule.next_at() == pytest.approx(10 * DAY)
    assert schedule.due(10 * DAY + 60) == ["a"]
    schedule.visited("a", 10 * DAY + 60, True)
    assert schedule.belief("a").low > 0


def test_a_visit_by_somebody_else_is_adopted():
    schedule = Schedule(budget=1.0, start=10 * DAY)
    schedule.add([Planned("a", "a", last_at=0.0), Planned("b", "b", last_at=0.0)])
    taught = schedule.likelihood("a")
    schedule.visited("b", 9 * DAY, True)
    schedule.adopt("a", 9 * DAY, schedule.likelihood("b"))
    assert schedule.likelihood("a") == schedule.likelihood("b") != taught
    schedule.adopt("a", 8 * DAY, taught)  # older news
    assert schedule.likelihood("a") != taught


@pytest.mark.parametrize(("rate", "gap"), [(43_200.0, 10.0), (1e-4, 30 * DAY), (30.0, 2880.0)])
def test_a_schedule_sees_what_can_be_seen(rate, gap):
    """A page that changes every two seconds, one in 27 years, one thirty times a day."""
    schedule = Schedule(budget=1.0, start=0.0)
    schedule.add([Planned("a", "a")])
    rng = np.random.default_rng(3)
    schedule.visited("a", gap, None)
    for visit in range(2, 400):
        schedule.visited("a", visit * gap, bool(rng.random() < -np.expm1(-rate * gap / DAY)))
    belief = schedule.belief("a")
    assert belief.low < rate < belief.high
    assert belief.low < belief.rate < belief.high


# -- synthetic web --------------------------------------------------------------------------------


def test_sitemaps_of_the_synthetic_web_are_honest_lie_or_are_not_there():
    world = DemoWorld(pages=80, hosts=8, days=30.0, seed=3)

    def dates(host, day):
        body = world.sitemap(host, day, now=1e9 + day * 86_400).body.decode()
        return re.findall("<lastmod>([^<]*)</lastmod>", body)

    assert [world.sitemap_lies(h) for h in range(4)] == [False, False, True, False]
    assert world.sitemap(3, 1.0, now=1e9) is None
    assert world.sitemap(8, 1.0, now=1e9) is None
    for host, pages in ((0, range(0, 80, 8)), (2, range(2, 80, 8))):
        changed = [world.version(page, 10.0) < world.version(page, 12.0) for page in pages]
        moved = [a != b for a, b in zip(dates(host, 10.0), dates(host, 12.0), strict=True)]
        assert moved == (changed if host == 0 else [True] * 10)
        assert any(moved)
        assert not all(changed)


class _Places(list):
    """Names to draw from; whoever goes through all of them is found out."""

    def __iter__(self):
        raise AssertionError("all sources were listed for one spot check")


def test_a_spot_check_is_drawn_from_all_alike_and_lists_none_of_them():
    checks, names = SpotChecks(seed=3), ["a", None, "b", "c", None]
    checks.set_rate(86_400.0, now=0.0)
    picked = Counter()
    while sum(picked.values()) < 3000:
        picked[checks.pick(checks.next_at, _Places(names))] += 1
    assert set(picked) == {"a", "b", "c"}
    # 1000 each are expected, with a standard deviation of 26.
    assert all(abs(count - 1000) < 4.5 * 26 for count in picked.values())
    assert SpotChecks().pick(math.inf, []) is SpotChecks().pick(math.inf, [None]) is None


def test_a_spot_check_is_found_among_sources_that_were_nearly_all_removed():
    schedule = Schedule(budget=24.0, start=0.0)
    schedule.add([Planned(f"s{k}", "a.example") for k in range(5000)])
    for k in range(4999):
        schedule.remove(f"s{k}")
    assert SpotChecks(seed=1).pick(math.inf, schedule.places) == "s4999"


def test_what_stands_is_set_aside_while_very_many_sources_are_watched():
    before = gc.get_freeze_count()
    with loop._set_aside(sources=10):
        assert gc.get_freeze_count() == before
    with loop._set_aside(sources=1_000_000):
        assert gc.get_freeze_count() > before
    assert gc.get_freeze_count() == 0


def test_the_synthetic_web_keeps_its_promises():
    world = DemoWorld(pages=400, hosts=20, days=60.0, seed=3)
    assert set(world.kinds) == set(KINDS)
    mean = world.updates.counts / world.days
    # Bursts make counts uneven; over all pages they add up.
    assert mean.sum() == pytest.approx(world.rates.sum(), rel=0.15)
    page = world.kinds.index("noisy")
    one, two = (world.answer(page, 5.0, now=1e9, visit=k) for k in (1, 2))
    if one.status == two.status == 200:
        assert one.body != two.body  # noise, though nothing was updated
    same = DemoWorld(pages=400, hosts=20, days=60.0, seed=3)
    assert same.updates == world.updates
    plain = next(
        p
        for p in range(0, 400, 2)
        if world.kinds[p] == "poisson" and world.reliable[p] and world.updates.counts[p] > 1
    )
    first, last = (world.answer(plain, day, now=1e9) for day in (0.0, 60.0))
    assert first.body != last.body
    etag = dict(last.headers)["etag"]
    assert world.answer(plain, 60.0, now=1e9, etag=etag).status == 304
    assert world.answer(plain, 0.0, now=1e9, etag=etag).status == 200
