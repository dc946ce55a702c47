"""The contract of importers, kept by all of them: they find their subjects themselves."""

import bz2
import datetime as dt
import gzip
import io
import json
import random
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from observant.errors import InputError
from observant.formats.imports import (
    EVIDENCE,
    Importer,
    ImportOptions,
    Report,
    describe_sources,
    examine,
    find_importer,
    import_visits,
    importers,
)
from observant.formats.imports.base import DescribesSources, VisitRows, visit_schema
from observant.formats.imports.batches import Shaper
from observant.formats.imports.blocks import LONGEST_LINE, ahead, blocks_of
from observant.formats.imports.census import ASSUMPTION, SourceSample
from observant.formats.imports.files import ImportFile, find_files
from observant.visits import VisitLog

from .import_samples import CDXJ, A, B, write_samples
from .patience import check_cpu

ALL = frozenset({"all"})
NAMES = sorted(importers())
ONE_VISIT_FORMATS = {"opml", "urlwatch-jobs"}  # they describe sources, and tell of no visit


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return write_samples(tmp_path_factory.mktemp("samples"))


def visits_of(*files, format=None, **options):  # noqa: A002
    visits = import_visits(*files, format=format, options=ImportOptions(**options))
    table = pa.Table.from_batches(list(visits), visit_schema())
    return table, visits.report


def cdxj(*lines, **options):
    return visits_of(io.BytesIO("".join(lines).encode()), format="cdxj", **options)


def line(day, digest, page="a", status="200", more=""):
    stamp = (dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=day)).strftime(
        "%Y%m%d%H%M%S"
    )
    return (
        f'org,example)/{page} {stamp} {{"url": "https://example.org/{page}", '
        f'"status": "{status}", "digest": "{digest}"{more}}}\n'
    )


def digest(number):
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
    return "".join(alphabet[number // 32**k % 32] for k in range(32))


# -- all importers ----------------------------------------------------------------------------


def test_every_importer_has_a_sample_and_says_what_it_is(samples):
    assert set(NAMES) == set(samples)
    for name, importer in importers().items():
        assert isinstance(importer, Importer)
        assert importer.name == name
        assert re.fullmatch(r"[a-z0-9-]+", name)
        assert importer.evidence in EVIDENCE
        assert importer.title
        assert all(ending == ending.lower() for ending in importer.endings)
        assert bool(importer.assumption) == bool(importer.assumes)


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_is_recognised_by_its_importer_alone(samples, name):
    (file,) = find_files(samples[name])
    head = file.head()
    knowing = [i.name for i in importers().values() if i.sniff(head, file.plain_name)]
    assert knowing == [name]
    assert find_importer(file).name == name


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_becomes_a_visit_log(samples, name):
    table, report = visits_of(samples[name], accept=ALL)
    assert table.schema.equals(visit_schema())
    assert report.visits == len(table)
    assert report.malformed_rows == 0
    assert report.formats == {name: 1}
    assert report.evidence == importers()[name].evidence
    if name in ONE_VISIT_FORMATS:
        assert report.described > 0
        return
    assert report.rows > 0
    assert report.visits > 0
    assert len(VisitLog.from_arrow(table)) == len(table)
    assert report.span[0] <= report.span[1]
    assert report.sources == len(table["source"].unique())


@pytest.mark.parametrize("name", NAMES)
def test_examining_finds_what_importing_finds(samples, name):
    _, report = visits_of(samples[name], accept=ALL)
    assert examine(samples[name]).as_dict() == report.as_dict()


@pytest.mark.parametrize("name", [n for n in NAMES if importers()[n].assumption])
def test_evidence_without_visits_is_refused_unless_accepted(samples, name):
    importer = importers()[name]
    with pytest.raises(InputError, match=f"--accept {importer.assumption}"):
        visits_of(samples[name])
    _, report = visits_of(samples[name], accept={importer.assumption})
    assert importer.assumption in report.assumed


@pytest.mark.parametrize("name", NAMES)
def test_described_sources_have_addresses(samples, name):
    found = list(describe_sources(samples[name]))
    assert bool(found) <= isinstance(importers()[name], DescribesSources)
    assert all(source.address for source in found)


def hostile(sample, seed):
    """The sample cut, stirred and flooded; and what was never of this format."""
    rng = random.Random(seed)  # noqa: S311
    yield b""
    yield b"\n\n\n"
    yield b"\0" * 5_000
    yield rng.randbytes(5_000)
    yield b"\x1f\x8b\x08\x00" + rng.randbytes(500)
    yield b"PK\x03\x04" + rng.randbytes(500)
    yield b"PAR1" + rng.randbytes(500) + b"PAR1"
    yield b"SQLite format 3\0" + rng.randbytes(500)
    yield b"WARC/1.0\r\nContent-Length: 99999999999\r\n\r\n"
    yield b"{" * 20_000
    yield b"[" * 20_000
    yield b"<a>" * 20_000
    yield b"a" * 100_000
    yield b"\xff\xfe\xfd\n" * 50
    yield sample + rng.randbytes(200)
    for _ in range(25):
        yield sample[: rng.randrange(len(sample) + 1)]
        stirred = bytearray(sample)
        for _ in range(rng.randrange(1, 12)):
            stirred[rng.randrange(len(stirred))] = rng.randrange(256)
        yield bytes(stirred)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_hostile_input_is_refused_or_counted(samples, name, tmp_path):
    if samples[name].is_dir():
        pytest.skip("this format is a folder")
    sample = samples[name].read_bytes()
    file = tmp_path / samples[name].name

    def read():
        try:
            _, report = visits_of(file, format=name, accept=ALL)
            list(describe_sources(file, format=name))
        except InputError as error:
            assert str(error)  # noqa: PT017 - an error is one good answer of two
        else:
            assert report.malformed_rows <= report.rows

    for number, content in enumerate(hostile(sample, 1)):
        file.write_bytes(content)
        check_cpu(read, 5, f"for the input of number {number}")


@pytest.mark.parametrize("name", NAMES)
def test_sniffing_never_raises(samples, name):
    sample = samples[name].read_bytes() if samples[name].is_file() else b"x\ny"
    for content in hostile(sample, 2):
        for file in ("a", "a/", "a.yaml", "a.json"):
            assert importers()[name].sniff(content, file) in {True, False}


# -- files ------------------------------------------------------------------------------------

TEXT = CDXJ.format(a=A, b=B).encode()


@pytest.mark.parametrize(
    "packed",
    [
        TEXT,
        gzip.compress(TEXT),
        b"".join(gzip.compress(part) for part in TEXT.splitlines(keepends=True)),
        zstandard.compress(TEXT),
        b"".join(zstandard.compress(part) for part in TEXT.splitlines(keepends=True)),
        bz2.compress(TEXT),
    ],
    ids=["plain", "gzip", "gzip of many members", "zstd", "zstd of many frames", "bzip2"],
)
def test_compressions_are_seen_through_whatever_the_name(packed, tmp_path):
    file = tmp_path / "anything"
    file.write_bytes(packed)
    assert visits_of(file)[0].num_rows == 3
    assert visits_of(io.BytesIO(packed))[0].num_rows == 3


def test_globs_and_many_files(tmp_path):
    for page in "abc":
        (tmp_path / f"{page}.cdxj").write_text(line(0, A, page) + line(1, A, page))
    (tmp_path / "[odd].cdxj").write_text(line(0, A, "d") + line(1, A, "d"))
    _, report = visits_of(tmp_path / "?.cdxj", tmp_path / "a.cdxj", tmp_path / "[odd].cdxj")
    assert report.sources == 4
    assert report.formats == {"cdxj": 4}
    with pytest.raises(InputError, match="no file has a name like this"):
        visits_of(tmp_path / "*.warc")
    with pytest.raises(InputError, match="no such file"):
        visits_of(tmp_path / "absent.cdxj")
    with pytest.raises(InputError, match="no file to import"):
        visits_of()


def test_files_that_are_none(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(InputError, match="is empty"):
        visits_of(tmp_path / "empty")
    (tmp_path / "what").write_bytes(b"Dear diary,\n")
    with pytest.raises(InputError, match=r"what: no known format.*cdxj"):
        visits_of(tmp_path / "what")
    with pytest.raises(InputError, match="unknown format 'cdxk'"):
        visits_of(tmp_path / "what", format="cdxk")
    with pytest.raises(InputError, match="binary mode"):
        visits_of(io.StringIO("x"))
    with pytest.raises(InputError, match="neither a path nor"):
        visits_of(7)
    (tmp_path / "cut.cdxj.gz").write_bytes(gzip.compress(TEXT)[:-20])
    with pytest.raises(InputError, match=r"cut\.cdxj\.gz: cannot be read"):
        visits_of(tmp_path / "cut.cdxj.gz")


def test_a_pipe_needs_the_name_of_its_format():
    class Pipe(io.BytesIO):
        def seekable(self):
            return False

    with pytest.raises(InputError, match="--format"):
        visits_of(Pipe(TEXT))
    assert visits_of(Pipe(gzip.compress(TEXT)), format="cdxj")[0].num_rows == 3


def test_a_stream_is_left_open_and_a_copy_is_made_where_a_path_is_needed(tmp_path):
    stream = io.BytesIO(gzip.compress(TEXT))
    file = ImportFile("x", None, stream)
    with file.local() as path:
        assert path.read_bytes() == TEXT
    assert not path.exists()
    assert not stream.closed
    plain = tmp_path / "plain"
    plain.write_bytes(TEXT)
    with ImportFile("plain", plain).local() as path:
        assert path == plain


# -- the report -------------------------------------------------------------------------------


def test_malformed_rows_are_counted_sampled_and_clipped():
    bad = ["x" * 500 + "\n", *(f"bad {k}\n" for k in range(30))]
    _, report = cdxj(line(0, A), *bad, line(1, A))
    assert (report.rows, report.visits, report.malformed_rows) == (33, 2, 31)
    assert len(report.samples) == 10
    assert report.samples[0].line == 2
    assert len(report.samples[0].text) <= 121
    assert "31 malformed rows left out" in report.warnings


def test_malformed_rows_can_be_fatal():
    with pytest.raises(InputError, match=r"row 2: this is not: key, time.*'bad'"):
        cdxj(line(0, A), "bad\n", on_bad="fail")


def test_a_sample_shows_no_control_signs():
    report = Report()
    report.malformed(1, "why", b"a\x1b[31m\xffb")
    assert report.samples[0].text == "a�[31m\\xffb"


@pytest.mark.parametrize(
    "options",
    [
        {"key": "name"},
        {"on_bad": "cry"},
        {"batch_rows": 0},
        {"accept": "all"},
        {"earliest": dt.datetime(2026, 1, 1)},  # noqa: DTZ001
    ],
)
def test_options_are_checked(options):
    with pytest.raises(InputError):
        ImportOptions(**options)


def test_visits_outside_the_wanted_times_are_left_out():
    at = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    table, report = cdxj(
        *(line(day, A) for day in range(5)), earliest=at, latest=at + dt.timedelta(days=2)
    )
    assert [t.day for t in table["time"].to_pylist()] == [2, 3]
    assert sum(report.left_out.values()) == 3


def test_digests_of_another_kind_are_left_out_and_their_visits_stay():
    table, report = cdxj(
        line(0, A), line(1, "sha256:" + "0" * 64), line(2, "md5:" + "0" * 32), line(3, A)
    )
    assert table["digest"].to_pylist() == [bytes(20), None, None, bytes(20)]
    assert any("2 digests are of another kind" in warning for warning in report.warnings)
    assert VisitLog.from_arrow(table).changed.tolist() == [-1, -1, -1, -1]


def test_twins_are_left_out_also_across_batches():
    report = Report()
    shaper = Shaper(ImportOptions(), report)
    rows = VisitRows(10)
    for source, when in (("a", 1), ("a", 1), ("b", 1), ("b", 2)):
        rows.add(source, when)
    assert shaper.shape(rows.take())["source"].to_pylist() == ["a", "b", "b"]
    rows.add("b", 2)
    rows.add("c", 2)
    assert shaper.shape(rows.take())["source"].to_pylist() == ["c"]
    assert sum(report.left_out.values()) == 2


# -- collapsed lists --------------------------------------------------------------------------


def test_a_list_collapsed_by_digest_is_refused():
    """The trap of field.md 5.2: with collapse=digest every visit seems to have seen a change."""
    full = [line(day, digest(day // 4)) for day in range(120)]
    collapsed = [line(day, digest(day // 4)) for day in range(0, 120, 4)]
    assert cdxj(*full)[1].assumed == {}
    with pytest.raises(InputError, match=r"collapse=digest.*--accept complete"):
        cdxj(*collapsed)
    assert list(cdxj(*collapsed, accept={ASSUMPTION})[1].assumed) == [ASSUMPTION]
    assert list(examine(io.BytesIO("".join(collapsed).encode())).assumed) == [ASSUMPTION]


def test_a_short_list_without_repeats_is_only_doubted():
    _, report = cdxj(*(line(day, digest(day)) for day in range(8)))
    assert any("no digest repeats in 7 comparisons" in told for told in report.warnings)
    assert not report.assumed


def test_a_revisit_shows_that_a_list_is_not_collapsed():
    lines = [line(day, digest(day)) for day in range(40)]
    lines.append(line(41, "-", status="304"))
    assert cdxj(*lines)[1].assumed == {}


def test_a_list_thinned_by_time_is_told():
    """collapse=timestamp:8 leaves one capture a day, were they ever so close to midnight."""
    rng = np.random.default_rng(1)
    moments = np.sort(rng.uniform(0, 400, 1_200))
    firsts = [moments[0]]
    for moment in moments:
        if int(moment) != int(firsts[-1]):
            firsts.append(moment)
    for times, thinned in ((moments, False), (firsts, True)):
        _, report = cdxj(*(line(t, digest(int(t) // 9)) for t in times))
        assert any("in one day" in told for told in report.warnings) == thinned


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.integers(0, 5 * 86_400),
            st.sampled_from([None, b"x", b"y"]),
            st.sampled_from([None, False, True]),
            st.sampled_from([None, 200, 404]),
        ),
        min_size=1,
        max_size=60,
    )
)
def test_the_sample_counts_alike_compiled_or_not(rows):
    columns = list(zip(*rows, strict=True))
    batch = pa.record_batch(
        [
            pa.array(columns[0]),
            pa.array(columns[2], pa.binary()),
            pa.array(columns[3], pa.bool_()),
            pa.array(columns[4], pa.int16()),
        ],
        ["source", "digest", "changed", "status"],
    )
    times = np.array(columns[1], np.int64) * 1_000_000
    few, many = SourceSample(), SourceSample()
    few.add(batch, times)
    many._waiting, many._slots = None, np.zeros((1 << 10, 3), np.uint64)
    many.add(batch, times)
    for sample in (few, many):
        assert sample.distinct == len(set(columns[0]))
        assert sample.is_exact
    assert (few.compared, few.repeated) == (many.compared, many.repeated)
    for unit in ("hour", "day"):
        assert few.in_one(unit) == pytest.approx(many.in_one(unit))


def test_many_sources_are_estimated_in_bounded_memory():
    sample = SourceSample()
    for start in range(0, 600_000, 100_000):
        ids = pa.array([f"https://example.org/{k}" for k in range(start, start + 100_000)])
        sample.add(pa.record_batch([ids], ["source"]), np.zeros(100_000, np.int64))
    assert not sample.is_exact
    assert sample._slots.nbytes < 4 << 20
    # A sample of at least 32,768 hashes: the standard error is at most 1/181; four of them.
    assert sample.distinct == pytest.approx(600_000, rel=4 / 181)


# -- blocks -----------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.lists(st.binary(max_size=12)), st.integers(1, 9), st.booleans())
def test_blocks_are_whole_lines_and_nothing_is_lost(lines, size, ends):
    text = b"\n".join(lines) + (b"\n" if ends else b"")
    blocks = list(blocks_of(io.BytesIO(text), size))
    assert all(block.endswith(b"\n") for block in blocks)
    joined = b"".join(blocks)
    assert joined == text or joined == text + b"\n"


def test_a_line_without_end_is_passed_over():
    long = b"x" * (3 * LONGEST_LINE)
    text = line(0, A).encode() + long + b"\n" + line(1, A).encode() + long
    table, report = visits_of(io.BytesIO(text), format="cdxj")
    assert table.num_rows == 2
    assert report.malformed_rows == 2
    assert [bad.line for bad in report.samples] == [2, 4]


def test_what_is_read_ahead_comes_in_order_with_its_error():
    def items():
        yield 1
        yield 2
        raise ValueError("third")

    with ahead(items()) as ready:
        assert [next(ready), next(ready)] == [1, 2]
        with pytest.raises(ValueError, match="third"):
            next(ready)
    with ahead(iter(range(1_000_000))) as ready:
        assert next(ready) == 0  # and who leaves early waits for nothing


# -- tables with names of their own -----------------------------------------------------------


def tables():
    columns = {
        "page": ["a", "a", "b"],
        "at": ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"],
        "hash": ["x", "y", "x"],
        "code": [200, 404, 200],
    }
    table = pa.table(columns)
    rows = table.to_pylist()
    parquet = io.BytesIO()
    pq.write_table(table, parquet)
    cells = "".join(";".join(map(str, row.values())) + "\n" for row in rows)
    return {
        "csv": ("page;at;hash;code\n" + cells).encode(),
        "quoted csv": ('"page","at","hash","code"\r\n' + cells.replace(";", ",")).encode(),
        "jsonl": "".join(json.dumps(row) + "\n" for row in rows).encode(),
        "json": json.dumps(rows, indent=1).encode(),
        "parquet": parquet.getvalue(),
    }


MAPPING = {"source": "page", "time": "at", "digest": "hash", "status": "code"}


@pytest.mark.parametrize("form", list(tables()))
def test_a_table_is_read_in_any_form(form):
    table, report = visits_of(io.BytesIO(tables()[form]), format="table", mapping=MAPPING)
    assert report.rows == report.visits == 3
    assert table["source"].to_pylist() == ["a", "a", "b"]
    assert table["time"].cast("int64").to_pylist() == [
        1_767_225_600_000_000,
        1_767_312_000_000_000,
        1_767_225_600_000_000,
    ]
    assert table["digest"].to_pylist() == [b"x", b"y", b"x"]
    assert table["status"].to_pylist() == [200, 404, 200]


def test_bad_cells_are_found_by_their_line_and_the_rest_goes_on():
    rows = [f"p{k},2026-01-{k:02d},{200 + k}" for k in range(1, 29)]
    rows[4], rows[9], rows[20] = "p5,soon,200", "p10,2026-01-10,many", ",2026-01-21,200"
    text = "source,time,status\n" + "\n".join(rows) + "\nshort\n"
    table, report = visits_of(io.BytesIO(text.encode()), batch_rows=10)
    assert table.num_rows == 25
    assert sorted(sample.line for sample in report.samples) == [6, 11, 22, 30]
    with pytest.raises(InputError, match="row 6: column time: this is not a time: 'soon'"):
        visits_of(io.BytesIO(text.encode()), batch_rows=10, on_bad="fail")


@pytest.mark.slow
def test_a_table_of_which_nothing_can_be_read_is_refused_soon():
    rows = "".join(f"s{i},yesterday\n" for i in range(20_000))
    with pytest.raises(InputError, match=r"none of the first 1,000 rows .*column time.*--map"):
        visits_of(io.BytesIO(f"source,time\n{rows}".encode()), format="table")
    few = "source,time\n" + 900 * "s,yesterday\n" + "s,2026-01-01\n"
    table, report = visits_of(io.BytesIO(few.encode()), format="table")
    assert (len(table), report.malformed_rows) == (1, 900)


def test_a_table_without_the_needed_columns_says_how_to_name_them():
    with pytest.raises(InputError, match=r"no column 'source'.*--map source=NAME"):
        visits_of(io.BytesIO(b"url,time\na,2026-01-01\n"), format="table")
    with pytest.raises(InputError, match="more than one column 'source'"):
        visits_of(io.BytesIO(b"source,source,time\na,b,2026-01-01\n"), format="table")
    with pytest.raises(InputError, match="is empty"):
        visits_of(io.BytesIO(b"\n"), format="table")
