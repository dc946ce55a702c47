"""Traces: what is read, what is made, and what is refused."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from observant.errors import InputError
from observant.processes import Poisson
from observant.simulation.traces import (
    Trace,
    group_of,
    read_releases,
    read_trace,
    trace_of_git,
    write_trace,
)

REAL = Path(
    os.environ.get("OBSERVANT_TRACES", Path(__file__).parents[2] / "shared" / "data" / "traces")
)


def csv(tmp_path, text):
    file = tmp_path / "trace.csv"
    file.write_text(text)
    return file


# -- reading --------------------------------------------------------------------------------------


def test_csv_with_iso_times_groups_and_importance(tmp_path):
    trace = read_trace(
        csv(
            tmp_path,
            "source,time,group,importance\n"
            "b,1970-01-03T12:00:00Z,g,2\na,1970-01-02,h,\nb,1970-01-02,,\nquiet,,g,0.5\n",
        )
    )
    assert trace.sources == ("a", "b", "quiet")
    assert [times.tolist() for times in trace.updates] == [[1.0], [1.0, 2.5], []]
    assert (trace.start, trace.end) == (1.0, 2.5)
    assert [trace.groups[g] for g in trace.group] == ["h", "g", "g"]
    assert trace.importance.tolist() == [1.0, 2.0, 0.5]


def test_other_names_of_the_columns_and_seconds(tmp_path):
    trace = read_trace(csv(tmp_path, "source_id,t\nx/1,86400\nx/1,43200.5\ny/2,0\n"))
    assert trace.updates[0].tolist() == pytest.approx([0.5 + 0.5 / 86400, 1.0])
    assert trace.groups == ("x", "y")  # by the prefix, where names have one


def test_duplicates_count_once_and_are_told(tmp_path):
    trace = read_trace(csv(tmp_path, "source,time\na,0\na,0\na,86400\n"))
    assert trace.updates[0].tolist() == [0.0, 1.0]
    assert trace.notes == ("1 row repeated an update and counted once",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source,when\na,1\n", "no column 'time' or 't'"),
        ("page,time\na,1\n", "no column 'source' or 'source_id'"),
        ("source,time\na,soon\n", "row 1"),
        ("source,time\n", "no rows"),
        ("source,time,importance\na,1,much\n", "importance"),
        ("source,time,importance\na,1,-2\n", "not negative"),
        ("source,time,importance\na,1,0\n", "0 for every source"),
    ],
)
def test_bad_files_are_refused(tmp_path, text, message):
    with pytest.raises(InputError, match=message) as refusal:
        read_trace(csv(tmp_path, text))
    assert "trace.csv" in str(refusal.value)


def test_a_missing_file_and_a_missing_column_are_named(tmp_path):
    with pytest.raises(InputError, match="nowhere"):
        read_trace(tmp_path / "nowhere.parquet")
    with pytest.raises(InputError, match="no column 'shelf'"):
        read_trace(csv(tmp_path, "source,time\na,1\n"), group="shelf")


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.text(min_size=1, max_size=3), st.integers(0, 50) | st.none()), min_size=1)
)
def test_what_is_written_is_read_again(rows):
    import io

    rows = [(name, t) for name, t in rows if name.encode("utf-8", "ignore").decode() == name]
    if not rows:
        return
    days = [np.nan if t is None else t / 4 for _, t in rows]
    trace = Trace.from_columns([name for name, _ in rows], days, group=["g"] * len(rows))
    sink = io.BytesIO()
    pq.write_table(trace.to_arrow(), sink)
    sink.seek(0)
    again = read_trace(sink, format="parquet")
    assert (again.sources, again.updates, again.groups) == (
        trace.sources, trace.updates, trace.groups
    )  # fmt: skip
    expected = {}
    for (name, _), t in zip(rows, days, strict=True):
        expected.setdefault(name, set()).update([] if np.isnan(t) else [t])
    assert {s: set(u) for s, u in zip(again.sources, again.updates, strict=True)} == expected


def test_writing_is_whole_or_not_at_all(tmp_path):
    trace = Trace.from_columns(["a"], [1.0], importance=[2.0])
    write_trace(trace, tmp_path / "t.parquet")
    assert read_trace(tmp_path / "t.parquet").importance.tolist() == [2.0]
    with pytest.raises(InputError, match="cannot be written"):
        write_trace(trace, tmp_path / "no" / "t.parquet")
    assert [file.name for file in tmp_path.iterdir()] == ["t.parquet"]


def test_groups_by_name():
    names = ["https://Example.org/a/1", "https://example.org:80/b", "x"]
    trace = Trace.from_columns(names, [1, 2, 3]).grouped("host")
    assert trace.groups == ("", "example.org")
    assert group_of("pkg-3.1", r"^([a-z]+)") == "pkg"
    with pytest.raises(InputError, match="regular expression"):
        trace.grouped("(")


def test_selecting_and_bounding():
    trace = Trace.from_columns(["a", "b", "b"], [1.0, 2.0, 5.0]).window(end=9.0)
    assert trace.end == 9.0
    some = trace.select([1])
    assert (some.sources, some.updates[0].tolist()) == (("b",), [2.0, 5.0])
    with pytest.raises(InputError, match="end after"):
        trace.window(4.0, 3.0)


# -- making ---------------------------------------------------------------------------------------


def test_sampled_rates_are_those_asked_for():
    rates = np.repeat([0.0, 0.1, 2.0], 200)
    trace = Trace.sample(Poisson(7.0), rates, horizon=100.0, seed=5)
    counts = trace.updates.counts.reshape(3, 200).sum(axis=1)
    expected = np.array([0.0, 0.1, 2.0]) * 200 * 100
    assert (np.abs(counts - expected) <= 4 * np.sqrt(expected)).all()  # Poisson counts
    assert (trace.start, trace.end) == (0.0, 100.0)
    again = Trace.sample(Poisson(7.0), rates, horizon=100.0, seed=5)
    assert again.updates == trace.updates


def test_sampled_groups_are_in_the_names():
    trace = Trace.sample(Poisson(1.0), [0.1] * 30, horizon=10.0, seed=0, groups=4)
    assert trace.sources == tuple(sorted(trace.sources))
    assert trace.grouped("prefix").groups == trace.groups
    assert (trace.grouped("prefix").group == trace.group).all()


# -- git ------------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path):
    place = tmp_path / "repo"
    place.mkdir()
    clock = iter(range(1_000_000_000, 2_000_000_000, 86_400))
    base = os.environ | {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        **{
            f"GIT_{who}_{what}": "x@y"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
    }

    def git(*words, tick=False):
        stamp = f"{next(clock)} +0000" if tick else "1000000000 +0000"
        env = base | {"GIT_AUTHOR_DATE": stamp, "GIT_COMMITTER_DATE": stamp}
        command = ["git", "-C", place, *words]
        subprocess.run(command, check=True, capture_output=True, env=env)  # noqa: S603

    def commit(*files, content="x"):
        for name in files:
            path = place / os.fsdecode(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as out:
                out.write(content.encode())
        git("add", "-A")
        git("commit", "--allow-empty", "-m", "m", tick=True)

    git("init", "-q", "-b", "main")
    return place, git, commit


def day(k):
    return 1_000_000_000 / 86_400 + k


def test_every_commit_that_touched_a_file_is_an_update(repository):
    place, git, commit = repository
    commit("a.txt", "docs/b.md")  # day 0
    commit("docs/b.md")  # day 1
    commit()  # day 2, nothing
    git("rm", "-q", "a.txt")
    commit()  # day 3, a deletion
    commit("a.txt")  # day 4, back again
    trace = trace_of_git(place)
    assert trace.sources == ("a.txt", "docs/b.md")
    assert trace.updates[0].tolist() == pytest.approx([day(0), day(4)])
    assert trace.updates[1].tolist() == pytest.approx([day(0), day(1)])
    assert trace.groups == ("", "docs")


def test_a_merged_branch_counts_once_when_it_landed(repository):
    place, git, commit = repository
    commit("a")  # day 0
    git("checkout", "-q", "-b", "side")
    commit("b")  # day 1
    commit("b")  # day 2
    git("checkout", "-q", "main")
    commit("a")  # day 3
    git("merge", "-q", "--no-ff", "-m", "merge", "side", tick=True)  # day 4
    trace = trace_of_git(place)
    assert trace.updates[1].tolist() == pytest.approx([day(4)])
    side = trace_of_git(place, branch="side")
    assert side.updates[1].tolist() == pytest.approx([day(1), day(2)])


def test_hostile_names(repository):
    place, _, commit = repository
    names = [
        b"new\nline", b"\nfirst", b" space ", b'quo"te', b"tab\t", b"\xff\xfe", b"--option",
        b"1000000000", b":100644 M", "ünï/ç".encode(), b"\n",
    ]  # fmt: skip
    try:
        commit(*names)
    except OSError:
        pytest.skip("this file system does not hold such names")
    commit(names[0], names[-1])
    trace = trace_of_git(place)
    shown = {name.decode("utf-8", "backslashreplace") for name in names}
    assert set(trace.sources) == shown
    counts = dict(zip(trace.sources, trace.updates.counts.tolist(), strict=True))
    assert counts.pop("new\nline") == counts.pop("\n") == 2
    assert set(counts.values()) == {1}


def test_part_of_a_repository_and_large_commits(repository):
    place, _, commit = repository
    commit("a/x", "b/y", "a/z")
    commit("a/x")
    assert trace_of_git(place, under="a").sources == ("a/x", "a/z")
    assert trace_of_git(place, largest_commit=2).sources == ("a/x",)
    assert trace_of_git(place / "a").sources == ("a/x", "a/z", "b/y")
    seen = []
    trace_of_git(place, progress=seen.append)
    assert seen == [1, 1]


def test_what_is_no_repository_is_refused(repository, tmp_path, monkeypatch):
    place, _, commit = repository
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    with pytest.raises(InputError, match="no commits"):
        trace_of_git(place)
    commit("a")
    with pytest.raises(InputError, match="no branch or commit 'nowhere'"):
        trace_of_git(place, branch="nowhere")
    with pytest.raises(InputError, match="no branch or commit '--output=x'"):
        trace_of_git(place, branch="--output=x")
    with pytest.raises(InputError, match="no such folder"):
        trace_of_git(tmp_path / "missing")
    (tmp_path / "plain").mkdir()
    with pytest.raises(InputError, match="no git repository"):
        trace_of_git(tmp_path / "plain")
    with pytest.raises(InputError, match="no file was ever changed under z"):
        trace_of_git(place, under="z")


# -- releases and feeds ---------------------------------------------------------------------------


def test_releases_of_registries_and_lists(tmp_path):
    files = {
        "one.json": json.dumps(
            {
                "name": "left",
                "time": {
                    "created": "2020-01-01T00:00:00Z",
                    "modified": "2022-01-01T00:00:00Z",
                    "1.0.0": "2020-01-01T00:00:00.000Z",
                    "1.0.1": "2020-01-03T00:00:00.000Z",
                },
            }
        ),
        "two.json": json.dumps(
            {
                "info": {"name": "right"},
                "releases": {
                    "1": [
                        {"upload_time_iso_8601": "2020-01-02T06:00:00.5Z"},
                        {"upload_time_iso_8601": "2020-01-02T00:00:00Z"},
                    ],
                    "2": [],
                },
            }
        ),
        "three.json": "[1577836800, 1577923200]",
        "four.csv": "time\n2020-01-01\n2020-01-02\n",
        "five.xml": "<rss><channel><pubDate>x</pubDate><item><pubDate>Wed, 01 Jan 2020 12:00:00 "
        "GMT</pubDate></item><item><title>none</title></item></channel></rss>",
        "six.xml": "<feed><entry><updated>2020-01-01T00:00:00Z</updated></entry></feed>",
        "seven.json": '{"items": [{"date_published": "2020-01-05T00:00:00Z"}]}',
        "silent.json": '{"time": {}}',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    trace = read_releases([tmp_path / name for name in files])
    start = 18262.0  # 2020-01-01
    found = {
        s: (times - start).tolist() for s, times in zip(trace.sources, trace.updates, strict=True)
    }
    assert found == {
        "left": [0.0, 2.0],
        "right": [1.0],
        "three": [0.0, 1.0],
        "four": [0.0, 1.0],
        "five": [0.5],
        "six": [0.0],
        "seven": [4.0],
        "silent": [],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "JSON"),
        ('{"a": 1}', "holds no times"),
        ('["soon"]', "soon"),
        ('[{"a": 1}]', "without a time"),
        ("[[1]]", "not a time"),
    ],
)
def test_bad_releases_are_refused(tmp_path, text, message):
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(InputError, match=message):
        read_releases([file])


# -- real ones ------------------------------------------------------------------------------------


@pytest.mark.skipif(not REAL.is_dir(), reason="no folder of real traces (OBSERVANT_TRACES)")
def test_real_traces_are_read_whole():
    trace = read_trace(REAL / "policy-aws-managed.parquet")
    raw = pq.read_table(REAL / "policy-aws-managed.parquet")
    assert len(trace) == 785
    assert trace.updates.times.size == raw.num_rows == 7_511
    assert np.isclose(trace.updates.times.min() * 86_400, pa.compute.min(raw["t"]).as_py())
