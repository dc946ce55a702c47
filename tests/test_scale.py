"""More visits than memory holds: the same answers, bounded, resumable, and clear when it fails."""

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from observant import VisitLog, estimate_rates, plan, read_visits, write_table
from observant import batch as scale
from observant.batch import partitions as spilling
from observant.batch.folder import open_folder
from observant.batch.rows import merge_sorted
from observant.batch.sketch import Cells, PlanOptions, Sums, solve_price
from observant.cli import cli
from observant.errors import InputError, ObservantError, UnitError
from observant.estimation.rates import METHODS
from observant.planning.problem import Solution
from observant.tables import Note
from observant.testing import synthetic_visits

NUMBERS = ("exposure_days", "rate_per_day", "rate_low", "rate_high")


def observant(*arguments, cwd):
    """Run a command in a folder: whether it ended well, what it printed, what was wrong."""
    with contextlib.chdir(cwd):
        done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    return done.exit_code, done.output, str(done.exception)


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    """Three files of visits in no order, one of them text, with everything that can be odd."""
    folder = tmp_path_factory.mktemp("visits")
    log, _ = synthetic_visits(sources=3000, visits=12, seed=4)
    table = log.to_arrow()
    rng = np.random.default_rng(0)
    dates = table["last_modified"].to_numpy(zero_copy_only=False).astype("M8[us]").astype("i8")
    known = table["last_modified"].is_valid().to_numpy(zero_copy_only=False)
    late = rng.random(len(table)) < 0.01
    old = rng.random(len(table)) < 0.005
    dates = np.where(late, table["time"].cast(pa.int64()).to_numpy() + 5 * 86_400_000_000, dates)
    dates = np.where(old, -86_400_000_000, dates)
    stamp = pa.timestamp("us", "UTC")
    table = table.set_column(
        table.column_names.index("last_modified"),
        "last_modified",
        pa.array(dates, mask=~(known | late | old)).cast(stamp),
    )
    table = table.take(pa.array(rng.permutation(len(table))))
    cuts = [0, 9_000, 20_000, len(table)]
    names = ["a.parquet", "b.csv.gz", "c.parquet"]
    files = []
    for name, first, last in zip(names, cuts, cuts[1:], strict=False):
        part = table.slice(first, last - first)
        if name.startswith("c"):
            part = part.drop_columns(["last_modified"])  # files may differ in their columns
        write_table(part, folder / name)
        files.append(str(folder / name))
    return files


def same_rates(found, wanted, tolerance=1e-9):
    """The answer is equal: names and counts exactly, numbers to a tolerance."""
    assert found["source"].to_pylist() == wanted["source"].to_pylist()
    for name in ("visits", "changes", "method", "evidence"):
        assert found[name].to_pylist() == wanted[name].to_pylist(), name
    for name in NUMBERS:
        np.testing.assert_allclose(
            found[name].to_numpy(), wanted[name].to_numpy(), rtol=tolerance, atol=0, err_msg=name
        )


def assert_close(found, wanted):
    for name, value in wanted.items():
        close = isinstance(value, float)
        assert found[name] == (pytest.approx(value, rel=1e-9, nan_ok=True) if close else value)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_rates_as_in_memory(visits, tmp_path, method):
    """Here partitions are small, so NumPy solves them where compiled code solves the whole."""
    wanted = estimate_rates(read_visits(*visits), method)
    output = tmp_path / "rates.parquet"
    found = scale.estimate_rates(*visits, output=output, method=method, partitions=7)
    same_rates(pq.read_table(output), wanted.to_arrow())
    told, known = found.summary(), wanted.summary()
    assert set(told.pop("notes")) == set(known.pop("notes"))
    assert told.keys() == known.keys()
    assert_close(told, known)
    assert [p.name for p in tmp_path.iterdir()] == ["rates.parquet"]
    same_rates(found.table().to_arrow(), wanted.to_arrow())


def test_the_same_bits_where_partitions_are_large(tmp_path):
    """With 20,000 visits or more in each partition the same compiled code solves both."""
    log, _ = synthetic_visits(sources=12_000, visits=12, seed=9)
    write_table(log, tmp_path / "visits.parquet")
    for method in ("bias-reduced", "mle", "naive"):
        wanted = estimate_rates(log, method).to_arrow()
        output = tmp_path / "rates.parquet"
        scale.estimate_rates(
            tmp_path / "visits.parquet", output=output, method=method, partitions=4
        )
        assert pq.read_table(output).equals(wanted)


def test_the_prior_is_learnt_from_the_same_sources(tmp_path):
    """Of more than 20,000 sources a sample decides; it is the same one."""
    log, _ = synthetic_visits(sources=21_000, visits=5, seed=2)
    write_table(log, tmp_path / "visits.parquet")
    wanted = estimate_rates(log, "pooled-gamma").to_arrow()
    output = tmp_path / "rates.parquet"
    scale.estimate_rates(
        tmp_path / "visits.parquet", output=output, method="pooled-gamma", partitions=5
    )
    same_rates(pq.read_table(output), wanted, 1e-12)


def test_groups_are_kept_whole(visits, tmp_path):
    wanted = estimate_rates(read_visits(*visits, group="host"), "pooled")
    output = tmp_path / "rates.parquet"
    found = scale.estimate_rates(
        *visits, output=output, method="pooled", group="host", partitions=5
    )
    same_rates(pq.read_table(output), wanted.to_arrow())
    assert set(found.notes) == set(wanted.notes)
    assert any("groups have priors" in note for note in found.notes)


def test_one_huge_source(tmp_path):
    """A source with half of all visits is in one partition, and comes out right."""
    rng = np.random.default_rng(3)
    n = 60_000
    huge = VisitLog.from_columns(
        ["huge"] * n + [f"s{i % 500:03}" for i in range(n)],
        np.concatenate([np.arange(n), np.arange(n)]) / 24.0,
        rng.random(2 * n) < 0.3,
        time_unit="d",
    )
    write_table(huge, tmp_path / "visits.parquet")
    output = tmp_path / "rates.csv"
    scale.estimate_rates(tmp_path / "visits.parquet", output=output, partitions=8)
    found = scale.read_rates(str(output), "bias-reduced").to_arrow()
    same_rates(found, estimate_rates(huge).to_arrow())


# -- interrupted runs ------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from observant import batch as scale
from observant.batch import partitions as spill
spill.ROWS_PER_GENERATION = 8_000
step, after, output, *files = sys.argv[1:]
seen = 0

def progress(doing, amount):
    global seen
    seen += doing == step
    if seen == int(after):
        os.kill(os.getpid(), signal.SIGKILL)

scale.estimate_rates(*files, output=output, method="pooled", partitions=6, progress=progress)
"""


@pytest.mark.parametrize(
    ("step", "after"), [("reading", 3), ("grouping", 3), ("estimating", 2), ("writing", 1)]
)
def test_a_killed_run_goes_on(visits, tmp_path, step, after):
    output = tmp_path / "rates.parquet"
    killed = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", KILLED, step, str(after), str(output), *visits], check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert not output.exists()
    assert Path(f"{output}.spill").is_dir()
    done: dict[str, int] = {}

    def progress(doing, amount):
        done[doing] = done.get(doing, 0) + amount

    found = scale.estimate_rates(
        *visits, output=output, method="pooled", partitions=6, progress=progress
    )
    assert found.resumed
    wanted = estimate_rates(read_visits(*visits), "pooled").to_arrow()
    same_rates(pq.read_table(output), wanted)
    assert not Path(f"{output}.spill").exists()
    sources = len(wanted)
    # What was written down before the kill was not done again.
    if step != "reading":
        assert "reading" not in done
    if step == "grouping":
        assert done["grouping"] < sources
    if step == "estimating":
        assert "grouping" not in done
        assert done["estimating"] < sources
    if step == "writing":
        assert "estimating" not in done


def test_another_question_keeps_the_visits(visits, tmp_path):
    output, spill = tmp_path / "rates.parquet", tmp_path / "spill"

    def interrupt(doing, _amount):
        if doing == "estimating":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scale.estimate_rates(*visits, output=output, spill=spill, partitions=4, progress=interrupt)
    assert list(spill.glob("visits-*"))
    read = []
    found = scale.estimate_rates(
        *visits,
        output=output,
        spill=spill,
        method="mle",
        partitions=4,
        progress=lambda doing, _: read.append(doing),
    )
    assert found.resumed
    assert "reading" not in read
    same_rates(pq.read_table(output), estimate_rates(read_visits(*visits), "mle").to_arrow())


def test_other_files_begin_anew(tmp_path):
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_text("source,time,changed\na,1,\na,2,1\nb,1,\nb,2,0\n")
    (tmp_path / "two.csv").write_text("source,time,changed\nz,1,\nz,2,1\n")

    def interrupt(doing, _amount):
        if doing == "estimating":
            raise KeyboardInterrupt

    output, spill = tmp_path / "rates.csv", tmp_path / "spill"
    with pytest.raises(KeyboardInterrupt):
        scale.estimate_rates(tmp_path / "one.csv", output=output, spill=spill, progress=interrupt)
    found = scale.estimate_rates(tmp_path / "two.csv", output=output, spill=spill)
    assert not found.resumed
    assert len(found) == 1


def test_a_folder_in_use_or_with_other_things_is_refused(visits, tmp_path):
    spill, output = tmp_path / "spill", tmp_path / "rates.parquet"
    with (
        open_folder(spill, {"files": []}, {}),
        pytest.raises(InputError, match="another run works in this folder"),
    ):
        scale.estimate_rates(*visits, output=output, spill=spill)
    spill.mkdir(exist_ok=True)
    (spill / "thesis.doc").write_text("years of work")
    with pytest.raises(InputError, match=r"holds other things \(thesis.doc\)"):
        scale.estimate_rates(*visits, output=output, spill=spill)
    assert (spill / "thesis.doc").read_text() == "years of work"


# -- what goes wrong -------------------------------------------------------------------------------

BAD = {
    "two visits at one time": "source,time,changed\na,1,\nb,1,\na,2,0\nb,2,0\nb,2,1\n",
    "no time": "source,time,changed\na,1,\na,,0\n",
    "no such time": "source,time,changed\na,1,\nb,1,\na,soon,0\n",
    "no source": "source,time,changed\na,1,\n,2,0\n",
    "mixed digests": "source,time,digest\na,1,00\nb,1,aa\na,2,0011\n",
    "no column": "url,time,changed\na,1,\n",
    "empty": "source,time,changed\n",
    "neither yes nor no": "source,time,changed\na,1,\na,2,perhaps\n",
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_input_is_named_as_in_memory_and_the_spill_removed(tmp_path, bad):
    (tmp_path / "good.csv").write_text("source,time,changed\nq,1,\nq,2,1\n")
    (tmp_path / "bad.csv").write_text(BAD[bad])
    files = [tmp_path / "bad.csv"]
    if bad != "empty":
        files.insert(0, tmp_path / "good.csv")
    with pytest.raises(ObservantError) as wanted:
        read_visits(*files)
    with pytest.raises(ObservantError) as found:
        scale.estimate_rates(*files, output=tmp_path / "rates.parquet", partitions=3)
    assert str(found.value) == str(wanted.value)
    assert type(found.value) is type(wanted.value)
    assert {p.name for p in tmp_path.iterdir()} == {"good.csv", "bad.csv"}


def test_text_that_is_not_utf8(tmp_path):
    broken = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 3], "i4")), pa.py_buffer(b"a\xff\xfe")]
    )
    pq.write_table(pa.table({"source": broken, "time": [1, 2]}), tmp_path / "visits.parquet")
    with pytest.raises(InputError, match=r"visits.parquet, row 2, column source: .*UTF-8"):
        scale.estimate_rates(tmp_path / "visits.parquet", output=tmp_path / "rates.parquet")


def test_a_full_disk(visits, tmp_path, monkeypatch):
    written = []

    def no_room(self, partition, schema):
        written.append(partition)
        if len(written) < 4:
            return real(self, partition, schema)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    real = spilling._Generation._writer
    monkeypatch.setattr(spilling._Generation, "_writer", no_room)
    with pytest.raises(InputError, match=r"rates.parquet.spill: the disk is full"):
        scale.estimate_rates(*visits, output=tmp_path / "rates.parquet", partitions=6)
    assert list(tmp_path.iterdir()) == []


def test_a_source_of_two_groups(tmp_path):
    rows = "\n".join(f"s,{i},{'a' if i < 9 else 'bcdefgh'[i % 7]},0" for i in range(30))
    (tmp_path / "visits.csv").write_text(f"source,time,team,changed\n{rows}\n")
    with pytest.raises(InputError, match="belongs to one group"):
        scale.estimate_rates(
            tmp_path / "visits.csv",
            output=tmp_path / "rates.csv",
            method="pooled",
            group="team",
            partitions=50,
        )


def test_options_are_refused_before_the_work(visits, tmp_path):
    output = tmp_path / "rates.parquet"
    for wrong in ({"method": "guess"}, {"confidence": 1.0}, {"zero_truncated": True}):
        with pytest.raises(InputError):
            scale.estimate_rates(*visits, output=output, **wrong)
    with pytest.raises(InputError, match="the name does not tell the format"):
        scale.estimate_rates(*visits, output=tmp_path / "rates")
    with pytest.raises(InputError, match="no file"):
        scale.estimate_rates(output=output)


# -- the parts ------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.text("abé\U0001f600", max_size=3)), max_size=6), st.integers(1, 4))
def test_merging_is_sorting(streams, size):
    def stream(names):
        column = sorted(names)
        for first in range(0, len(column), size):
            yield pa.record_batch({"source": pa.array(column[first : first + size], pa.string())})

    merged = [
        name
        for table in merge_sorted([stream(names) for names in streams])
        for name in table["source"].to_pylist()
    ]
    assert merged == sorted(name for names in streams for name in names)


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_notes_of_parts_are_the_notes_of_the_whole(parts):
    """Every note that counts something, from real logs."""
    n = 40
    names = [f"s{i:02}" for i in range(n) for _ in range(3)]
    time = np.tile([10.0, 12.0, 14.0], n)
    dates = np.tile([9.0, 11.0, 99.0], n)
    dates[np.arange(3 * n) % 7 == 0] = -5.0
    columns = {
        "changed": np.tile([True, True, False], n),
        "status": np.tile([200, 200, 503], n),
        "last_modified": dates,
        "time_unit": "d",
    }

    def notes(which):
        picked = {k: v[which] if isinstance(v, np.ndarray) else v for k, v in columns.items()}
        log = VisitLog.from_columns(np.array(names)[which], time[which], **picked)
        return estimate_rates(log).notes

    whole = notes(np.ones(len(names), bool))
    owner = np.repeat(np.arange(n), 3)
    assert len(whole) >= 4
    assert Note.added(notes(owner % parts == k) for k in range(parts)) == list(whole)


def test_notes_in_the_singular():
    log = VisitLog.from_columns(["a"], [1.0], last_modified=[-5.0], time_unit="d")
    (one,) = log.notes
    assert one == "set aside: 1 date of modification before 1970"
    assert Note.restored(json.loads(json.dumps(Note.plain([one])))) == (one,)
    assert Note.added([[one]]) == [one]
    assert Note.added([[one], [one]]) == ["set aside: 2 dates of modification before 1970"]


def test_sizes():
    assert scale.parse_size("2 GiB") == 2 << 30
    assert scale.parse_size("1.5k") == 1500
    for wrong in ("many", "0GB", "-1GB", "4 apples", "", True):
        with pytest.raises(UnitError):
            scale.parse_size(wrong)
    assert 0 < scale.available_memory() < 1 << 50


def test_the_memory_expected(visits, tmp_path):
    rows = pq.read_metadata(visits[0]).num_rows
    assert 45 * rows < scale.expected_memory([visits[0]]) < 60 * rows  # with its digests
    assert scale.expected_memory([tmp_path / "absent.csv"]) is None
    assert scale.expected_memory([sys.stdin]) is None


# -- samples ---------------------------------------------------------------------------------------


def test_a_log_that_fits_is_read_whole(visits):
    found, wanted = scale.sample_visits(*visits, memory="1GB"), read_visits(*visits)
    assert found.sources.equals(wanted.sources)
    for name in ("offsets", "time", "changed", "last_modified"):
        assert np.array_equal(getattr(found, name), getattr(wanted, name))
    assert found.notes == wanted.notes


def test_a_sample_has_whole_histories_and_every_source_the_same_chance(visits):
    whole = read_visits(*visits)
    small = scale.sample_visits(*visits, memory=45 * len(whole) // 5)
    again = scale.sample_visits(*visits, memory=45 * len(whole) // 5)
    assert small.sources.equals(again.sources)
    assert len(small) <= len(whole) // 5
    assert "from a random sample of" in small.notes[-1]
    chosen = whole.select(small.sources)
    assert np.array_equal(chosen.time, small.time)
    assert np.array_equal(chosen.changed, small.changed)
    # One source in eight, each alike: 4.5 standard deviations of a binomial share.
    n, share = len(whole.sources), 1 / 8
    assert abs(len(small.sources) - n * share) < 4.5 * np.sqrt(n * share * (1 - share))


def test_one_source_is_read_whole(visits):
    whole = read_visits(*visits)
    name = whole.sources[17].as_py()
    found = scale.sample_visits(*visits, memory=1000, source=name)
    assert found.sources.to_pylist() == [name]
    assert np.array_equal(found.time, whole.select([name]).time)


# -- plans ----------------------------------------------------------------------------------------

PLANS = (
    {"budget": 800.0},
    {"budget": 4000.0, "objective": "currency", "grace": 1.0},
    {"budget": 2000.0, "objective": "harmonic"},
    {"budget": 2000.0, "objective": "age", "max_period": 90.0},
    {"budget": 2000.0, "objective": "delay"},
    {"budget": 2000.0, "objective": "detected"},
    {"target": 0.7},
    {"budget": 1e6, "min_period": 0.5},
)


@pytest.fixture(scope="module")
def rates():
    rng = np.random.default_rng(8)
    n = 20_000
    table = pa.table(
        {
            "source": [f"s{i:05}" for i in range(n)],
            "rate_per_day": np.where(np.arange(n) < 20, 0.0, rng.lognormal(-2.0, 1.5, n)),
            "importance": np.where(np.arange(n) % 500 == 1, 0.0, rng.lognormal(0.0, 1.0, n)),
            "cost": rng.lognormal(0.0, 0.5, n),
        }
    )
    return table, {name: table[name].to_numpy() for name in table.column_names[1:]}


@pytest.mark.parametrize("options", PLANS, ids=lambda o: "-".join(map(str, o.values())))
def test_the_same_plan_as_in_memory(rates, tmp_path, options):
    table, columns = rates
    write_table(table, tmp_path / "rates.parquet")
    wanted = plan(
        columns["rate_per_day"],
        importance=columns["importance"],
        cost=columns["cost"],
        **options,
    )
    found = scale.plan(tmp_path / "rates.parquet", output=tmp_path / "plan.parquet", **options)
    written = pq.read_table(tmp_path / "plan.parquet")
    assert written["source"].to_pylist() == table["source"].to_pylist()
    for name in ("visits_per_day", "alpha"):
        np.testing.assert_allclose(
            written[name].to_numpy(), getattr(wanted, name), rtol=1e-7, atol=1e-9
        )
    assert found.spent == pytest.approx(wanted.spent, rel=1e-9)
    assert found.price == pytest.approx(wanted.price, rel=1e-8)
    assert found.collection_alpha == pytest.approx(wanted.collection_alpha, rel=1e-8)
    assert found.uniform_alpha == pytest.approx(wanted.uniform_alpha, rel=1e-8)
    assert found.starved == wanted.starved.sum()
    assert found.passes <= 8
    most = np.argsort(-wanted.visits_per_day, kind="stable")[:20]
    if options.get("min_period") is None:  # else many are equal
        assert [row["source"] for row in found.first] == [f"s{i:05}" for i in most]
    assert {p.name for p in tmp_path.iterdir()} == {"rates.parquet", "plan.parquet"}


@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(st.floats(1e-4, 1e3), st.floats(1e-3, 1e3), st.floats(1e-2, 1e2)),
        min_size=1,
        max_size=30,
    ),
    st.floats(1e-2, 1e3),
)
def test_the_sketch_leads_to_the_price(sources, budget):
    rate, weight, cost = np.array(sources).T
    options = PlanOptions(budget=budget)
    problem = options.problem(rate, rate, weight, cost)
    wanted = plan(rate, importance=weight, cost=cost, budget=budget)
    cells = Cells.of(rate, rate, weight, cost)
    found = solve_price(cells, options, lambda s, t: Sums.of(problem, s, t))
    assert found.sums.spent == pytest.approx(wanted.spent, rel=1e-9)
    assert found.sums.alpha / found.sums.importance == pytest.approx(
        wanted.collection_alpha, abs=1e-9
    )


def test_sketches_and_sums_can_be_merged_in_any_parts(rates):
    _, columns = rates
    rate, *others = columns.values()
    arrays = (rate, 1.2 * rate, *others)
    whole = Cells.of(*arrays)
    parts = Cells.merged(Cells.of(*(a[k::7] for a in arrays)) for k in range(7))
    for name in Cells.__dataclass_fields__:
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-12)
    options = PlanOptions(budget=10.0)
    sums = Sums.of(options.problem(*arrays), Solution(3.0, 0.0), 5.0)
    added = Sums.merged(
        Sums.of(options.problem(*(a[k::7] for a in arrays)), Solution(3.0, 0.0), 5.0)
        for k in range(7)
    )
    assert added.sources == sums.sources
    assert added.spent == pytest.approx(sums.spent, rel=1e-13)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source,rate_per_day\na,1\nb,x\n", r"row 2, column rate_per_day, source 'b'.*'x'"),
        ("source,rate_per_day\na,1\nb,\n", "row 2.*gives every source a rate"),
        ("source,rate_per_day,cost\na,1,0\n", "column cost.*above 0"),
        ("source,rate_per_day\nb,1\na,1\nb,2\n", "row 3, source 'b': is there twice"),
        ("source,rate\na,1\n", "has no column 'rate_per_day'; its columns are source, rate"),
        ("source,rate_per_day\n", "has no sources"),
        ("source,rate_per_day,importance\na,1,0\n", "the importance is 0 for every source"),
    ],
)
def test_bad_rates_are_named(tmp_path, text, message):
    (tmp_path / "rates.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        scale.plan(tmp_path / "rates.csv", budget=1.0)


def test_impossible_plans(tmp_path):
    (tmp_path / "rates.csv").write_text("source,rate_per_day\na,1\nb,2\n")
    for wrong, message in (
        ({}, "give a budget"),
        ({"budget": 0.0}, "above 0"),
        ({"target": 1.5}, "between 0 and 1"),
        ({"budget": 0.1, "max_period": 2.0}, "longest periods alone need 1"),
        ({"budget": 0.1, "target": 0.9}, "needs a budget of"),
    ):
        with pytest.raises(InputError, match=message):
            scale.plan(tmp_path / "rates.csv", **wrong)


# -- commands --------------------------------------------------------------------------------------


def test_the_command_on_disk_answers_as_in_memory(visits, tmp_path):
    asked = ("estimate", *visits, "--method", "pooled", "--json")
    code, wanted, _ = observant(*asked, cwd=tmp_path)
    assert code == 0
    code, found, trouble = observant(*asked, "--engine", "disk", cwd=tmp_path)
    assert code == 0, trouble
    for a, b in zip(json.loads(found), json.loads(wanted), strict=True):
        assert_close(a, b)
    assert list(tmp_path.iterdir()) == []


def test_the_command_goes_to_disk_when_memory_is_short(visits, tmp_path):
    asked = ("estimate", *visits, "-o", "rates.parquet")
    _, wanted, _ = observant(*asked, cwd=tmp_path)
    code, found, trouble = observant(*asked, "--memory", "1MB", cwd=tmp_path)
    assert (code, found) == (0, wanted), trouble
    code, told, _ = observant(*asked, "--memory", "much", cwd=tmp_path)
    assert code == 2
    assert "'--memory': this is not a size: 'much'" in told


def test_population_intervals_and_plan_on_disk(tmp_path):
    write_table(synthetic_visits(sources=250, visits=12, seed=4)[0], tmp_path / "visits.parquet")
    for asked in (
        ("population", "visits.parquet"),
        ("intervals", "visits.parquet"),
    ):
        _, wanted, _ = observant(*asked, cwd=tmp_path)
        code, found, trouble = observant(*asked, "--engine", "disk", cwd=tmp_path)
        assert (code, found) == (0, wanted), trouble
    _, sampled, _ = observant(
        "study", "population", "visits.parquet", "--memory", "100kB", cwd=tmp_path
    )
    assert "from a random sample of" in sampled
    observant("estimate", "visits.parquet", "-m", "pooled", "-o", "rates.parquet", cwd=tmp_path)
    asked = ("plan", "rates.parquet", "--budget", "100/day")
    _, wanted, _ = observant(*asked, "-o", "a.parquet", cwd=tmp_path)
    code, found, trouble = observant(*asked, "-o", "b.parquet", "--engine", "disk", cwd=tmp_path)
    assert code == 0, trouble
    assert found.splitlines()[:5] == wanted.splitlines()[:5]
    a, b = (pq.read_table(tmp_path / f"{name}.parquet")["visits_per_day"] for name in "ab")
    np.testing.assert_allclose(b.to_numpy(), a.to_numpy(), rtol=1e-7, atol=1e-9)
    code, _, trouble = observant(*asked, "--engine", "disk", "--host-cap", "9/day", cwd=tmp_path)
    assert code != 0
    assert "--engine memory" in trouble
