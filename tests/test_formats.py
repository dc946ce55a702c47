"""Files in and out: nothing lost on the way, and every broken file refused by name."""

import bz2
import gzip
import io
import json
import os
import stat
import tempfile
import tracemalloc
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from observant.errors import InputError, ObservantError, VisitLogError
from observant.formats import (
    FORMATS,
    delimited,
    format_of,
    jsonlines,
    read_batches,
    read_visits,
    write_table,
)
from observant.tables import Table
from observant.visits import VisitLog

from .strategies import assert_same_log, log_of, visit_columns

LOG = VisitLog.from_columns(
    ["b", "a", "a", "a"],
    ["2026-01-01", "2026-01-02", "2026-01-03T00:00:00.000001Z", "2026-01-05"],
    [None, None, True, False],
    [None, None, "2026-01-02T12:00:00Z", None],
    digest=[b"\x00", None, b"\xff", b"a"],
    magnitude=[None, None, 0.1, 0],
    status=[200, None, 200, 304],
    bytes=[2**62 + 1, None, 1, 0],
    group=["g", "h", "h", "h"],
)
COMPRESSIONS = ["", ".gz", ".zst", ".bz2"]


def written(log, format_name):
    file = io.BytesIO()
    write_table(log, file, format_name)
    return file.getvalue()


def read(data, format_name, **options):
    data = data.encode() if isinstance(data, str) else data
    return read_visits(io.BytesIO(data), format=format_name, **options)


def names_in(folder):
    return [path.name for path in Path(folder).iterdir()]


def csv(data, **options):
    return read(data, "csv", **options)


def jsonl(data, **options):
    return read(data, "jsonl", **options)


# -- round trips --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("format_name", FORMATS)
@settings(max_examples=80, deadline=None)
@given(columns=visit_columns())
def test_a_round_trip_loses_nothing(format_name, columns):
    log = log_of(columns)
    group = "group" if "group" in columns else None
    assert_same_log(read(written(log, format_name), format_name, group=group), log)


@pytest.mark.slow
@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("format_name", FORMATS)
def test_a_round_trip_through_files(format_name, compression):
    @settings(max_examples=8, deadline=None)
    @given(columns=visit_columns())
    def loses_nothing(columns):
        log = log_of(columns)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"visits.{format_name}{compression}"
            write_table(log, path)
            group = "group" if "group" in columns else None
            assert_same_log(read_visits(str(path), group=group), log)
            assert names_in(folder) == [path.name]

    loses_nothing()


@pytest.mark.slow
@pytest.mark.parametrize("format_name", FORMATS)
@settings(max_examples=25, deadline=None)
@given(columns=visit_columns(max_rows=30), block=st.integers(40, 400))
def test_blocks_of_any_size_read_the_same(format_name, columns, block):
    log = log_of(columns)
    data = written(log, format_name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "_BYTES_PER_BLOCK", block + 1000)  # a row must fit a block
        patch.setattr(jsonlines, "_BYTES_PER_BLOCK", block)
        group = "group" if "group" in columns else None
        assert_same_log(read(data, format_name, group=group), log)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_compressed_files_are_what_other_programs_read(tmp_path, compression):
    path = tmp_path / f"visits.csv{compression}"
    write_table(LOG, path)
    if compression == ".gz":
        assert gzip.decompress(path.read_bytes()).startswith(b'"source"')
    if compression == ".bz2":
        assert bz2.decompress(path.read_bytes()).startswith(b'"source"')
    if compression != ".bz2":
        frame = pl.read_csv(path)
        assert frame["source"].to_list() == ["a", "a", "a", "b"]
        assert frame["time"][1] == "2026-01-03T00:00:00.000001Z"


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_files_packed_in_several_pieces(tmp_path, pack):
    ending = ".gz" if pack is gzip.compress else ".bz2"
    path = tmp_path / f"visits.csv{ending}"
    path.write_bytes(pack(b"source,time\na,1\n") + pack(b"a,2\nb,3\n"))
    assert len(read_visits(path)) == 3


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_log_in_several_batches(format_name, monkeypatch):
    monkeypatch.setattr(VisitLog.to_batches, "__defaults__", (1,))
    assert_same_log(read(written(LOG, format_name), format_name, group="group"), LOG)


@pytest.mark.parametrize("compression", ["", ".gz"])
@pytest.mark.parametrize("ending", [".tsv", ".TSV", ".txt", ".ndjson", ".json", ".pq"])
def test_other_endings_of_the_same_formats(tmp_path, ending, compression):
    path = tmp_path / f"visits{ending}{compression}"
    write_table(LOG, path)
    assert_same_log(read_visits(path, group="group"), LOG)
    data = gzip.decompress(path.read_bytes()) if compression else path.read_bytes()
    if ending.lower() == ".tsv":
        assert data.startswith(b'"source"\t"time"')
    if ending == ".txt":
        assert data.startswith(b'"source","time"')
    if ending == ".json":
        assert [row["source"] for row in json.loads(data)] == ["a", "a", "a", "b"]


def test_an_empty_answer_is_still_json(tmp_path):
    path = tmp_path / "empty.json"
    write_table(pa.table({"source": pa.array([], pa.string())}), path)
    assert json.loads(path.read_text()) == []


def test_what_duckdb_reads(tmp_path):
    for format_name in FORMATS:
        path = tmp_path / f"visits.{format_name}"
        write_table(LOG, path)
        with duckdb.connect() as connection:
            assert connection.sql(
                f"select source, epoch_us(time::timestamptz), changed from '{path}'"  # noqa: S608
            ).fetchall() == [
                ("a", 1_767_312_000_000_000, None),
                ("a", 1_767_398_400_000_001, True),
                ("a", 1_767_571_200_000_000, False),
                ("b", 1_767_225_600_000_000, None),
            ]


# -- what people already have -------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_csv_and_its_relatives(delimiter, newline, bom):
    lines = [
        ["time", "source", "changed", "note"],
        ["2026-01-01T00:00:00Z", "a", "", "x"],
        ["1767312000", '"a"', "TRUE", ""],
        [" 2026-01-03 ", "a", "0", '"y"'],
    ]
    text = bom + newline.join(delimiter.join(cells) for cells in lines)
    for ending in ("", newline, newline * 2):
        log = csv(text + ending)
        assert log.sources.to_pylist() == ["a"]
        assert log.changed.tolist() == [-1, 1, 0]
        assert np.diff(log.time).tolist() == [86_400_000_000] * 2


@pytest.mark.parametrize("word", ["true", "TRUE", "1", "yes", "1.0"])
def test_the_invocation_of_the_readme(word):
    log = csv(f"source,time,changed,last_modified\na,0,,\na,60,{word},30\na,120,false,\n")
    assert log.changed.tolist() == [-1, 1, 0]
    assert log.last_modified[1] == 30_000_000


def test_cells_with_commas_quotes_and_newlines():
    log = csv('source,time\n"a,""b""\nc",1\n" a",2\n')
    assert log.sources.to_pylist() == [" a", 'a,"b"\nc']


def test_columns_that_nobody_wants_are_passed_over():
    log = csv("x,x,source,,time\n1,2,a,3,4\n")
    assert log.to_arrow().column_names == ["source", "time", "changed"]
    log = jsonl('{"source":"a","time":1,"headers":{"etag":["x"]},"n":[{}]}\n')
    assert log.to_arrow().column_names == ["source", "time", "changed"]


def test_what_pandas_and_polars_write(tmp_path):
    frame = pd.DataFrame(
        {
            "source": ["a", "a", "a"],
            "time": pd.to_datetime(
                ["2026-01-01", "2026-01-02", "2026-01-03T04:05:06.789"], format="ISO8601"
            ),
            "changed": [None, True, False],
            "status": [200, None, 304],
            "magnitude": [0.5, None, 0.0],
        }
    )
    frame.to_csv(tmp_path / "pandas.csv", index=False)
    frame.to_json(tmp_path / "pandas.jsonl", orient="records", lines=True, date_format="iso")
    frame.to_json(tmp_path / "pandas.json", orient="records", date_format="iso")
    frame.to_parquet(tmp_path / "pandas.parquet")
    other = pl.from_pandas(frame)
    other.write_csv(tmp_path / "polars.csv")
    other.write_ndjson(tmp_path / "polars.jsonl")
    other.write_parquet(tmp_path / "polars.parquet")
    log = VisitLog.from_arrow(frame)
    assert log.changed.tolist() == [-1, 1, 0]
    for path in sorted(tmp_path.iterdir()):
        assert_same_log(read_visits(path), log)


@pytest.mark.parametrize(
    "text",
    [
        '{"source": "a", "time": 1}\n{"source": "a", "time": 2}',
        '{"source": "a", "time": 1}\r\n\r\n{"source": "a", "time": 2}\r\n',
        '\n  {"source": "a", "time": 1}  \n\n\n{"source": "a", "time": 2}\n\n',
        '\ufeff{"source": "a", "time": "1"}\n{"source": "a", "time": 2.0}',
        '[{"source": "a", "time": 1}, {"source": "a", "time": 2}]',
        ' \n[\n {"source": "a",\n  "time": 1},\n {"time": 2, "source": "a"}\n]\n',
        '\ufeff[{"source": "a", "time": 1}, {"source": "a", "time": 2}]',
        '{"source": "a", "time": "1970-01-01T00:00:01Z"}\n{"source": "a", "time": 2}',
        '{"source": "a", "time": 1}\n{"source": "a", "time": 2, "last_modified": NaN}',
        '{"source": "a", "time": 1}\n{"x": {"y": [1]}, "source": "a", "time": "2", "n": null}',
    ],
)
def test_json_in_many_shapes(text):
    log = jsonl(text)
    assert log.time.tolist() == [1_000_000, 2_000_000]
    assert log.sources.to_pylist() == ["a"]


@pytest.mark.parametrize(
    "source", ["2026-01-31", "2026-01-31T12:00:00Z", "2026-01-31 12:00", "1", "true", "null", "1.0"]
)
@pytest.mark.parametrize("others", [[], ["a"], [7]])
def test_json_text_stays_text(source, others):
    # Arrow takes a column of texts that look like times for times.
    rows = [
        {"source": s, "time": i, "digest": source, "team": source}
        for i, s in enumerate([source, *others])
    ]
    log = jsonl("\n".join(map(json.dumps, rows)), group="team")
    assert set(log.sources.to_pylist()) == {source, *map(str, others)}
    assert log.extras["digest"][0].as_py() == source.encode()
    assert log.groups[0].as_py() == source


def test_json_types_may_differ_between_blocks(monkeypatch):
    monkeypatch.setattr(jsonlines, "_BYTES_PER_BLOCK", 1)
    log = jsonl(
        '{"source":"1","time":1,"changed":null}\n{"source":1,"time":"2","changed":true}\n'
        '{"source":1,"time":3.0,"changed":"false","digest":"x"}\n'
    )
    assert log.sources.to_pylist() == ["1"]
    assert log.changed.tolist() == [-1, 1, 0]


@pytest.mark.parametrize("format_name", FORMATS)
def test_evidence_only_leaves_out_what_no_estimator_needs(format_name):
    log = read(written(LOG, format_name), format_name, evidence_only=True)
    assert set(log.extras) == {"digest", "status"}
    assert log.changed.tolist() == LOG.changed.tolist()


@pytest.mark.parametrize("format_name", FORMATS)
def test_progress_counts_every_row(format_name):
    seen = []
    read(written(LOG, format_name), format_name, progress=seen.append)
    assert sum(seen) == len(LOG)


def test_a_group_from_a_column_or_from_the_host():
    text = "source,time,team\nhttps://x.org/1,1,red\nhttps://x.org/2,2,blue\n"
    assert csv(text, group="team").groups.to_pylist() == ["red", "blue"]
    assert csv(text, group="host").groups.to_pylist() == ["x.org", "x.org"]
    with pytest.raises(VisitLogError, match="no column 'tem' to group by"):
        csv(text, group="tem")


# -- several files ------------------------------------------------------------------------------


def test_several_files_of_several_formats(tmp_path):
    parts = [LOG.select(["a"]), LOG.select(["b"])]
    write_table(parts[0], tmp_path / "one.parquet")
    write_table(parts[1], tmp_path / "two.csv.gz")
    log = read_visits(tmp_path / "two.csv.gz", tmp_path / "one.parquet", group="group")
    assert_same_log(log, LOG)


def test_rows_are_counted_anew_in_each_file(tmp_path):
    one, two = tmp_path / "one.csv", tmp_path / "two.jsonl"
    one.write_text("source,time\na,1\na,2\n")
    two.write_text('{"source":"a","time":3}\n{"source":"a","time":1}\n')
    with pytest.raises(VisitLogError) as caught:
        read_visits(one, two)
    assert str(caught.value).startswith(f"{two}, row 2, column time, source 'a': the second visit")
    assert f"(the first is {one}, row 1)" in str(caught.value)
    two.write_text('{"source":"a","time":3}\n{"source":"a","time":"soon"}\n')
    with pytest.raises(VisitLogError, match="row 2, column time") as caught:
        read_visits(one, two)
    assert caught.value.file == str(two)


def test_a_column_in_one_file_only(tmp_path):
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("source,time,status,last_modified\na,1,200,\na,3,500,\n")
    two.write_text("source,time,changed,digest\na,2,true,x\na,4,,y\n")
    for files in ((one, two), (two, one)):
        log = read_visits(*files)
        assert log.extras["status"].to_pylist() == [200, None, 500, None]
        assert log.extras["digest"].to_pylist() == [None, b"x", None, b"y"]
        assert log.changed.tolist() == [-1, 1, -1, 1]


def test_an_empty_file_among_others(tmp_path):
    header, good, void = (tmp_path / name for name in ("header.csv", "good.csv", "void.jsonl"))
    header.write_text("source,time\n")
    void.write_text("\n")
    good.write_text("source,time\na,1\n")
    assert len(read_visits(header, good, void)) == 1
    with pytest.raises(VisitLogError, match=r"no visits.*, and so is 1 more file$") as caught:
        read_visits(header, void)
    assert caught.value.file == str(header)


# -- broken files -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("", "is empty; the first line must name the columns"),
        ("\n\n", "is empty; the first line must name the columns"),
        ("source,time\n", "no visits: the log is empty"),
        ("source,time", "no visits: the log is empty"),
        ("url,time\n", "there is no column 'source'; the columns are url, time; rename 'url' to"),
        ("url,time\na,1\n", "there is no column 'source'; the columns are url, time; rename"),
        ("https://a.org,1\nhttps://b.org,2\n", "there is no column 'source'"),
        ("source,time,time\na,1,2\n", "names the column 'time' twice"),
        ("source,time\na,1\nb\n", "row 2: 1 cell where the header names 2: 'b'"),
        ("source,time\na,1\n\nb,2,3\n", "row 2: 3 cells where the header names 2: 'b,2,3'"),
        ("source,time\na,1\n" + "b," * 99 + "\n", "..."),
        ('source,time\na,1\n"b,2\nc,3\n', "is a quotation mark never closed?"),
        (
            b"source,time\na,1\n\xff,2\n",
            r"row 2, column source: this is not text in UTF-8: b'\xff'",
        ),
        (b"source,time\na,1\n\xff\n", "row 2: 1 cell where the header names 2"),
        (b"source,time\xff\na,1\n", "the first line is not text in UTF-8"),
        ("source,time\n".encode("utf-16"), "the first line is not text in UTF-8"),
        (gzip.compress(b"source,time\n", mtime=0), "it looks compressed, so end its name in .gz"),
        ("source,time\ra,1\rb,2\r", "the first line must name the columns, and cannot be read"),
        ("source,time," + "x" * 200_000, "the first line must name the columns"),
        ("source,time\na,1\na,soon\n", "row 2, column time: this is not a time: 'soon'"),
        ("source,time\na,1\na,-5\n", "row 2, column time: the time -5 is before 1970"),
        ("source,time\na,1767225600000\n", "(milliseconds, not seconds?)"),
        ("source,time\na,1\na,1.0\n", "row 2, column time, source 'a': the second visit"),
        ("source,time\na,\n", "row 1, column time: the visit has no time"),
        ("source,time\n,1\n", "row 1, column source: the visit names no source"),
        ("source,time,changed\na,1,\na,2,perhaps\n", "row 2, column changed: 'perhaps' is neither"),
        ("source,time,digest\na,1,ab\na,2,abc\n", "row 2, column digest, source 'a': mixed"),
        ("source,time,magnitude\na,1,7\n", "row 1, column magnitude: 7.0 is not between 0 and 1"),
    ],
)
def test_a_broken_csv_is_told_by_file_and_row(tmp_path, data, told):
    path = tmp_path / "visits.csv"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    with pytest.raises(InputError) as caught:
        read_visits(path)
    assert str(caught.value).startswith(str(path))
    assert told in str(caught.value)
    assert caught.value.file == str(path)
    assert len(str(caught.value)) < len(str(path)) + 250


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("", "no visits: the log is empty"),
        ("\n\n", "no visits: the log is empty"),
        ("[]", "no visits: the log is empty"),
        ('{"url": "a", "time": 1}', "there is no column 'source'; the columns are url, time"),
        ('{"source": "a", "time": 1}\n{"source"\n', "row 2: not a JSON object: '{\"source\"'"),
        ('{"source": "a", "time": 1}\n\n[1]\n', "row 2: a list where an object was expected"),
        ('{"source": "a", "time": 1}\nnull\n', "row 2: null where an object was expected"),
        ("null\n", "row 1: null where an object was expected"),
        ('null{"source": "a", "time": 1}', "row 1: not a JSON object"),
        ('{"source": "a", "time": 1} null', "row 1: not a JSON object"),
        ("7\n8\n", "row 1: 7 where an object was expected"),
        ('"a"\n', "row 1: a text where an object was expected"),
        ('[{"source": "a", "time": 1}, 2]', "row 2: 2 where an object was expected"),
        ('[{"source": "a"', "cannot be read as JSON"),
        ('[{"source": "a", "time": 1}]\n{}', "cannot be read as JSON: Extra data"),
        ('{"source": "a", "time": 1}\n{}\n', "row 2, column source: the visit names no source"),
        ('{"source": "a", "time": 1}\n{"source": "a"}', "row 2, column time: the visit has no"),
        ('{"source": ["a"], "time": 1}', "row 1, column source: a list where one value"),
        ('{"source": {"a": 1}, "time": 1}', "row 1, column source: an object where one value"),
        ('{"source": "a", "time": [1]}', "column time: times cannot be of type list"),
        ('{"source": "a", "time": true}', "column time: times cannot be of type bool"),
        ('{"source": "a", "time": 1, "digest": [1]}', "row 1, column digest: a list where one"),
        ('{"source": "\\ud800", "time": 1}', "row 1, column source: half of a surrogate pair"),
        (b'{"source": "a", "time": 1}\n{"source": "\xff", "time": 2}', "row 2: this is not text"),
        ('{"source": "a", "time": 1e999}', "row 1, column time: the time inf is after 2200"),
        (f'{{"source": "a", "time": {10**40}}}', "row 1, column time: the time 1e+40 is after"),
        ('{"source": "a", "time": -Infinity}', "row 1, column time: the time -inf is before"),
        ('{"source": "a", "time": "soon"}', "row 1, column time: this is not a time: 'soon'"),
        ("[" * 100_000, "cannot be read as JSON"),
        ('{"source": ' + "[" * 100_000 + "]" * 100_000 + "}", "row 1: not a JSON object"),
        ('{"source": "a", "time": 1, "x": ' + '{"}":[[],' * 50_000, "row 1: not a JSON object"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_broken_json_is_told_by_file_and_row(tmp_path, data, told):
    path = tmp_path / "visits.jsonl"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    with pytest.raises(InputError) as caught:
        read_visits(path)
    assert str(caught.value).startswith(str(path))
    assert told in str(caught.value)
    assert len(str(caught.value)) < len(str(path)) + 250


def test_rows_of_json_are_counted_over_blocks(monkeypatch):
    monkeypatch.setattr(jsonlines, "_BYTES_PER_BLOCK", 10)
    lines = [f'{{"source":"a","time":{i}}}' for i in range(50)]
    with pytest.raises(InputError, match="row 38: not a JSON"):
        jsonl("\n".join([*lines[:37], "{", *lines[37:]]))
    with pytest.raises(VisitLogError, match=r"row 51, column time.*first is row 5\)"):
        jsonl("\n".join([*lines, lines[4]]))


def test_rows_of_csv_are_counted_over_blocks(monkeypatch):
    monkeypatch.setattr(delimited, "_BYTES_PER_BLOCK", 40)
    lines = [f"a,{i}" for i in range(50)]
    for bad, told in ((b"\xff,1", "row 38, column source"), (b"x", "row 38: 1 cell")):
        rows = [*lines[:37], bad, *lines[37:]]
        data = b"\n".join(row if isinstance(row, bytes) else row.encode() for row in rows)
        with pytest.raises(InputError, match=told):
            csv(b"source,time\n" + data)


def test_nested_objects_in_every_row_are_no_trouble():
    row = {"source": "a", "headers": {"etag": '"}{[', "links": [[{}], "\\"]}}
    lines = [json.dumps(row | {"time": i}) for i in range(2000)]
    assert len(jsonl("\n".join(lines))) == 2000


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("compression", [".gz", ".zst", ".bz2"])
def test_a_compressed_file_that_is_cut_off(tmp_path, format_name, compression):
    log = VisitLog.from_columns([f"s{i}" for i in range(500)], [i * 7919 for i in range(500)])
    path = tmp_path / f"visits.{format_name}{compression}"
    write_table(log, path)
    whole = path.read_bytes()
    for size in (1, 5, 20, len(whole) // 2, len(whole) - 6, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError) as caught:
            read_visits(path)
        assert caught.value.file == str(path)


@pytest.mark.parametrize("compression", [".gz", ".zst", ".bz2"])
def test_a_file_that_is_not_compressed_as_its_name_says(tmp_path, compression):
    path = tmp_path / f"visits.csv{compression}"
    path.write_text("source,time\na,1\n" * 100)
    with pytest.raises(InputError, match="cannot be read"):
        read_visits(path)


def test_an_open_file_is_read_as_it_is(tmp_path):
    path = tmp_path / "visits.csv.gz"
    write_table(LOG, path)
    with gzip.open(path) as stream:
        assert_same_log(read_visits(stream, format="csv", group="group"), LOG)
    path.write_bytes(path.read_bytes()[:-20])
    with gzip.open(path) as stream, pytest.raises(InputError, match="cannot be read"):
        read_visits(stream, format="csv")


def test_a_pipe_that_cannot_seek(tmp_path):
    for format_name in FORMATS:
        path = tmp_path / f"visits.{format_name}"
        write_table(LOG, path)
        reading, writing = os.pipe()
        os.write(writing, path.read_bytes())
        os.close(writing)
        with os.fdopen(reading, "rb") as stream:
            assert_same_log(read_visits(stream, format=format_name, group="group"), LOG)


def test_a_parquet_that_is_cut_off_or_none(tmp_path):
    path = tmp_path / "visits.parquet"
    write_table(LOG, path)
    whole = path.read_bytes()
    for data in (
        *(whole[:size] for size in (0, 3, 10, len(whole) // 2, len(whole) - 1)),
        b"x" * 99,
    ):
        path.write_bytes(data)
        with pytest.raises(InputError, match=r"visits\.parquet: cannot be read as Parquet"):
            read_visits(path)


def test_a_parquet_of_something_else(tmp_path):
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"url": ["a"], "visited_at": [1]}), path)
    with pytest.raises(VisitLogError, match=r"other\.parquet: .*rename 'url' to 'source'"):
        read_visits(path)
    pq.write_table(pa.table({"source": pa.array([], pa.string()), "time": []}), path)
    with pytest.raises(VisitLogError, match=r"other\.parquet: no visits"):
        read_visits(path)
    pq.write_table(pa.table({"source": [{"a": 1}], "time": [1]}), path)
    with pytest.raises(VisitLogError, match=r"other\.parquet, column source: a value of type str"):
        read_visits(path)


def test_files_that_cannot_be_opened(tmp_path):
    folder = tmp_path / "visits.csv"
    folder.mkdir()
    for path, told in (
        (folder, "Is a directory"),
        (tmp_path, "Is a directory"),
        (tmp_path / "missing.csv", "No such file"),
        (tmp_path / "missing", "No such file"),
        ("nul\x00.csv", "null"),
    ):
        with pytest.raises(InputError, match=told) as caught:
            read_visits(path)
        assert caught.value.file == str(path)


def test_formats_that_nobody_knows(tmp_path):
    path = tmp_path / "visits.xlsx"
    path.write_bytes(b"")
    with pytest.raises(InputError, match="the name does not tell the format"):
        read_visits(path)
    with pytest.raises(InputError, match="unknown format 'xlsx'; choose one of parquet, csv"):
        read_visits(path, format="xlsx")
    with pytest.raises(InputError, match="does not tell the format"):
        read_visits(io.BytesIO())
    with pytest.raises(InputError, match="no file"):
        read_visits()


@pytest.mark.parametrize(
    ("name", "format_name"),
    [
        ("a.csv", "csv"),
        ("a.CSV", "csv"),
        ("a.tsv", "csv"),
        ("a.b.csv.gz", "csv"),
        ("a.jsonl.zst", "jsonl"),
        ("a.ndjson", "jsonl"),
        ("a.json.bz2", "jsonl"),
        ("/x.csv/a.parquet", "parquet"),
        ("a.pq", "parquet"),
    ],
)
def test_the_name_tells_the_format(name, format_name):
    assert format_of(name) == format_name


@pytest.mark.parametrize("name", ["", "a", "a.gz", "csv", ".csv", "a.csv.gz.gz", "x.csv/a"])
def test_a_name_that_tells_nothing(name):
    with pytest.raises(InputError, match="does not tell"):
        format_of(name)


def test_what_is_no_file():
    for use in (read_visits, lambda file, **options: write_table(LOG, file, **options)):
        with pytest.raises(InputError, match="a list is neither a path nor an open file"):
            use(["visits.csv"], format="csv")


def test_a_file_open_as_text():
    for use in (read_visits, lambda file, **options: write_table(LOG, file, **options)):
        with pytest.raises(InputError, match="open it in binary mode"):
            use(io.StringIO("source,time\na,1\n"), format="csv")


# -- fuzz ---------------------------------------------------------------------------------------

HEADER = b"source,time,changed,last_modified,digest,magnitude,status,bytes\n"
CELLS = [
    *[
        b"a",
        b"b",
        b"",
        b"1",
        b"2.0",
        b"-1",
        b"1e400",
        b"2026-01-01",
        b"2026-01-01T00:00:00.123456789Z",
    ],
    *[b"true", b"hex:00", b"hex:0", b"nan", b"\xff", b"\xc3\xa9", b'"a"', b'"', b'""', b"\x00"],
    *[b",", b"\n", b"\r\n", b"\r", b";", b"\t", b" ", b"9" * 25],
]
VALUES = [
    *[b'"a"', b'"b"', b"1", b"2", b"-1", b"1.5", b"1e999", b"NaN", b"null", b"true", b"[]", b"{}"],
    *[b'"2026-01-01"', b'"2026-01-01T00:00:00+02:00"', b'"hex:0"', b'"\\ud800"', b'"\xff"', b'""'],
    *[b"9" * 25, b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\n", b"null{}", b"\x00"],
]
KEYS = [b"source", b"time", b"changed", b"last_modified", b"digest", b"magnitude", b"status", b"x"]


def only_words(data, format_name):
    """Reading ends in a log that can be written, or in an error of ours."""
    try:
        log = read(data, format_name)
    except ObservantError as error:
        told = str(error)
    else:
        assert len(log) > 0
        assert_same_log(read(written(log, "parquet"), "parquet"), log)
        return
    assert told.startswith("<stream>")


csv_text = st.builds(
    lambda header, rows, ending: header + b"\n".join(b",".join(row) for row in rows) + ending,
    st.sampled_from([HEADER, b"source,time,", b""]),
    st.lists(st.lists(st.sampled_from(CELLS), min_size=8, max_size=8), max_size=4),
    st.one_of(st.just(b""), st.lists(st.sampled_from(CELLS), max_size=20).map(b"".join)),
)
json_text = st.builds(
    lambda rows, ending: (
        b"\n".join(
            b"{" + b",".join(b'"%s":%s' % cell for cell in row.items()) + b"}" for row in rows
        )
        + ending
    ),
    st.lists(
        st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES[:19]), max_size=8), max_size=4
    ),
    st.one_of(st.just(b""), st.lists(st.sampled_from(VALUES), max_size=20).map(b"".join)),
)


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(st.one_of(csv_text, st.binary(max_size=60), st.binary(max_size=60).map(HEADER.__add__)))
@example(b"source,time\n\xff\n")
@example(b'source,time\n"')
def test_any_bytes_are_read_as_csv_or_refused(data):
    only_words(data, "csv")


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(st.one_of(json_text, st.binary(max_size=60)))
@example(b"null")
@example(b'{"source":"a","time":1}null')
@example(b'{"source":"a","time":1}\n \tnull\n')
@example(b'{"source":"a","time":1,"x":\nnull}')
def test_any_bytes_are_read_as_json_or_refused(data):
    only_words(data, "jsonl")


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=100))
def test_any_bytes_are_no_parquet(data):
    with pytest.raises(InputError):
        read(data, "parquet")


# -- writing ------------------------------------------------------------------------------------


class Breaking:
    """A table whose second batch cannot be made."""

    def __arrow_c_stream__(self, requested_schema=None):
        schema = pa.schema({"x": pa.int64()})

        def batches():
            yield pa.record_batch({"x": list(range(10_000))})
            raise OSError("the disk is gone")

        return pa.RecordBatchReader.from_batches(schema, batches()).__arrow_c_stream__(
            requested_schema
        )


@pytest.mark.slow
@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("format_name", FORMATS)
def test_a_failure_in_the_middle_leaves_the_old_file(tmp_path, format_name, compression):
    path = tmp_path / f"old.{format_name}{compression}"
    path.write_bytes(b"precious")
    with pytest.raises(InputError, match="the disk is gone"):
        write_table(Breaking(), path)
    assert path.read_bytes() == b"precious"
    assert names_in(tmp_path) == [path.name]
    path.unlink()
    with pytest.raises(InputError):
        write_table(Breaking(), path)
    assert names_in(tmp_path) == []


def test_any_other_failure_is_left_as_it_is(tmp_path, monkeypatch):
    def stop(_batches, _file, _ending):
        raise KeyboardInterrupt

    monkeypatch.setattr(delimited, "write", stop)
    path = tmp_path / "old.csv"
    path.write_bytes(b"precious")
    with pytest.raises(KeyboardInterrupt):
        write_table(LOG, path)
    assert path.read_bytes() == b"precious"
    assert names_in(tmp_path) == ["old.csv"]


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    for path in (tmp_path / "folder.csv", tmp_path / "none" / "a.csv", "nul\x00.csv"):
        with pytest.raises(InputError, match="cannot be written") as caught:
            write_table(LOG, path)
        assert caught.value.file == str(path)
    assert names_in(tmp_path) == ["folder.csv"]


def test_a_file_has_ordinary_permissions_and_keeps_its_own(tmp_path):
    path = tmp_path / "a.csv"
    before = os.umask(0o027)
    try:
        write_table(LOG, path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o600)
    write_table(LOG, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path):
    target, link, pipe = tmp_path / "target.csv", tmp_path / "link.csv", tmp_path / "pipe.csv"
    target.write_text("old")
    link.symlink_to(target)
    write_table(LOG, link)
    assert link.is_symlink()
    assert_same_log(read_visits(target, group="group"), LOG)
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_table(LOG, pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert os.read(reading, 1 << 16) == target.read_bytes()
    os.close(reading)


def test_a_name_as_long_as_names_may_be(tmp_path):
    path = tmp_path / ("x" * 247 + ".parquet")
    write_table(LOG, path)
    assert len(read_visits(path)) == 4


class Answer(Table):
    columns = ("source", "rate", "evidence")

    def __init__(self, source, rate, evidence):
        self.source, self.rate, self.evidence = source, rate, evidence


def test_answers_are_written_and_read_by_others(tmp_path):
    answer = Answer(
        pa.array(["a", "b"]),
        np.array([0.1, np.inf]),
        np.array(["ok", "always-changed"], object),
    )
    assert len(answer) == 2
    assert list(answer.rows()) == [
        {"source": "a", "rate": 0.1, "evidence": "ok"},
        {"source": "b", "rate": None, "evidence": "always-changed"},
    ]
    assert pl.DataFrame(answer).shape == (2, 3)
    for format_name in FORMATS:
        write_table(answer, tmp_path / f"answer.{format_name}")
    assert pq.read_table(tmp_path / "answer.parquet").equals(answer.to_arrow())
    assert (tmp_path / "answer.csv").read_text() == (
        '"source","rate","evidence"\n"a",0.1,"ok"\n"b",inf,"always-changed"\n'
    )
    assert (tmp_path / "answer.jsonl").read_text().splitlines()[1] == (
        '{"source": "b", "rate": null, "evidence": "always-changed"}'
    )


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize(
    "empty",
    [
        Answer(pa.array([], pa.string()), np.empty(0), np.empty(0, object)),
        pa.table({"source": pa.array([], pa.string()), "rate": pa.array([], pa.float64())}),
        pa.table({"source": pa.chunked_array([], pa.string())}),
        pl.DataFrame({"source": []}, schema={"source": pl.String}),
        pd.DataFrame({"source": []}),
        pa.RecordBatchReader.from_batches(pa.schema({"source": pa.string()}), []),
    ],
    ids=lambda empty: type(empty).__name__,
)
def test_an_answer_without_rows(tmp_path, format_name, empty):
    if isinstance(empty, pa.RecordBatchReader):  # can be read once only
        empty = pa.RecordBatchReader.from_batches(empty.schema, [])
    path = tmp_path / f"empty.{format_name}"
    write_table(empty, path)
    if format_name == "parquet":
        assert pq.read_table(path).num_rows == 0
        assert pq.read_table(path).column_names[0] == "source"
    else:
        assert path.read_text().startswith('"source"' if format_name == "csv" else "")
        assert len(path.read_text().splitlines()) == (1 if format_name == "csv" else 0)


def test_columns_of_every_type_are_written():
    moment = pa.array([1_500], pa.timestamp("ms", "Europe/Berlin"))
    table = pa.table(
        {
            "moment": moment,
            "naive": pa.array([1], pa.timestamp("s")),
            "nanos": pa.array([1], pa.timestamp("ns")),
            "day": pa.array([1], pa.date32()),
            "price": pa.array(["1.50"]).cast(pa.decimal128(5, 2)),
            "view": pa.array(["v"], pa.string_view()),
            "word": pa.DictionaryArray.from_arrays([0], pa.array(["w"], pa.string_view())),
            "bytes": pa.array([b"\xff"], pa.large_binary()),
            "fixed": pa.array([b"ab"], pa.binary(2)),
            "small": pa.array([1], pa.int8()),
            "nothing": pa.nulls(1),
        }
    )
    expected = {
        "moment": "1970-01-01T00:00:01.500Z",
        "naive": "1970-01-01T00:00:01Z",
        "nanos": "1970-01-01T00:00:00.000000001Z",
        "day": "1970-01-02",
        "price": "1.50",
        "view": "v",
        "word": "w",
        "bytes": "hex:ff",
        "fixed": "ab",
        "small": 1,
        "nothing": None,
    }
    assert json.loads(written(table, "jsonl")) == expected
    header, cells = written(table, "csv").decode().splitlines()
    assert header == ",".join(f'"{name}"' for name in expected)
    assert cells.split(",")[0] == '"1970-01-01T00:00:01.500Z"'
    assert cells.split(",")[-2:] == ["1", ""]
    assert pq.read_table(io.BytesIO(written(table, "parquet"))).num_rows == 1


def test_nested_columns_are_written_where_they_can_be(tmp_path):
    table = pa.table({"x": [1], "list": [[1.0, float("inf"), None]], "struct": [{"a": b"\xff"}]})
    assert json.loads(written(table, "jsonl")) == {
        "x": 1,
        "list": [1.0, None, None],
        "struct": {"a": "hex:ff"},
    }
    assert pq.read_table(io.BytesIO(written(table, "parquet"))).equals(table)
    with pytest.raises(InputError, match="CSV cannot hold values of type list") as caught:
        write_table(table, tmp_path / "a.csv")
    assert (caught.value.file, caught.value.column) == (str(tmp_path / "a.csv"), "list")


def test_what_cannot_be_written(tmp_path):
    with pytest.raises(InputError, match="does not speak Arrow"):
        write_table({"a": [1]}, tmp_path / "a.csv")
    with pytest.raises(InputError, match="does not tell the format"):
        write_table(LOG, tmp_path / "a")
    with pytest.raises(InputError, match="unknown format"):
        write_table(LOG, tmp_path / "a", format="xlsx")
    assert names_in(tmp_path) == []


@given(st.binary(max_size=6))
@example(b"")
@example(b"hex:")
@example(b"abc")
@example("é".encode())
def test_every_digest_survives_as_text(digest):
    text = delimited.digest_text(digest)
    assert text
    assert text == text.strip()
    log = VisitLog.from_columns(["a"], [1], digest=[text])
    assert log.extras["digest"].to_pylist() == [digest]


def test_a_large_parquet_file_is_read_as_it_goes(tmp_path):
    """What was read is let go, or a file larger than memory could not be read at all."""
    rows, file = 200_000, tmp_path / "visits.parquet"
    digests = np.random.default_rng(1).bytes(64 * rows)
    table = pa.table(
        {
            "source": pa.array(["a"] * rows),
            "time": pa.array(np.arange(rows)),
            "digest": pa.array([digests[64 * i : 64 * i + 64] for i in range(rows)]),
        }
    )
    pq.write_table(table, file, row_group_size=10_000)
    tracemalloc.start()
    try:
        read = sum(batch.num_rows for batch in read_batches(file, ["source", "time", "digest"]))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert read == rows
    assert most < file.stat().st_size / 4
