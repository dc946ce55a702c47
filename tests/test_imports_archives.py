"""Importers of web archives: every trap of their formats, and files that the real tools write."""

import base64
import datetime as dt
import gzip
import importlib.util
import io
import json
import subprocess
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from observant.cli.imports import import_
from observant.errors import InputError, LeftOut
from observant.formats import read_visits, write_table
from observant.formats.archives import surt_key
from observant.formats.imports import ImportOptions, Report, import_visits
from observant.formats.imports.base import visit_schema
from observant.formats.imports.blocks import read_block
from observant.formats.imports.cdx import CdxLines
from observant.formats.imports.cdxj import CdxjLines
from observant.formats.imports.heritrix import HeritrixLines
from observant.formats.imports.values import digest_in, digests_in, iso_instant, status_in
from observant.times import from_digits
from observant.visits import VisitLog

from .import_samples import CDXJ, A, B, common_crawl, wacz, warc, write_record, zipnum

EMPTY = "3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"  # SHA-1 of nothing
DAY = 86_400_000_000


def visits_of(content, format=None, **options):  # noqa: A002
    if isinstance(content, str | bytes):
        content = io.BytesIO(content.encode() if isinstance(content, str) else content)
    visits = import_visits(content, format=format, options=ImportOptions(**options))
    return pa.Table.from_batches(list(visits), visit_schema()), visits.report


def changes_in(table):
    return VisitLog.from_arrow(table).changed.tolist()


def cdx(*rows, header=" CDX N b a m s k r M S V g\n"):
    return header + "".join(
        f"org,example)/ {stamp} https://example.org/ {mime} {status} {digest} - - 9 0 {file}\n"
        for stamp, mime, status, digest, file in rows
    )


# -- the compiled loops agree with the careful reader -----------------------------------------

URLS = st.one_of(
    st.sampled_from(["https://example.org/", "-", "", "dns:example.org", "http://ä/\u2028", "x y"]),
    st.text(min_size=1, max_size=8),
)
STAMPS = st.one_of(
    st.datetimes(dt.datetime(1960, 1, 1), dt.datetime(2210, 1, 1)).map(  # noqa: DTZ001
        lambda at: at.strftime("%Y%m%d%H%M%S").zfill(14)
    ),
    st.sampled_from(
        ["2026", "20260229000000", "20261301000000", "20260101000060", "20260101000000123"]
    ),
    st.text("0123456789-+ ", max_size=18),
)
DIGESTS = st.one_of(
    st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", min_size=32, max_size=32),
    st.binary(min_size=20, max_size=20).map(bytes.hex),
    st.binary(min_size=32, max_size=32).map(lambda raw: f"sha256:{raw.hex()}"),
    st.binary(min_size=20, max_size=20).map(lambda raw: f"sha1:{base64.b32encode(raw).decode()}"),
    st.sampled_from(["-", "", "sha1:", "sha1:-", "SHA1:" + A, "md5:" + "0" * 32, "0" * 64, "x"]),
    st.text(max_size=40),
)
STATUSES = st.one_of(
    st.sampled_from(["200", "-", "", "304", "0200", "-5", "+1", "20 0", "99999"]), st.integers()
)
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=6), st.floats(allow_nan=False),
    st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=2), st.integers()),
)  # fmt: skip
KEYS = {
    "url": URLS, "original": URLS, "u": URLS, "digest": DIGESTS, "d": DIGESTS,
    "status": STATUSES, "statuscode": STATUSES, "s": STATUSES,
    "mime": st.sampled_from(["text/html", "warc/revisit"]), "m": st.just("warc/revisit"),
    "length": STATUSES, "l": STATUSES, "truncated": st.sampled_from(["", "-", "length"]),
    "timestamp": STAMPS, "t": STAMPS, "urlkey": st.text(max_size=5), "k": st.text(max_size=5),
    "mime-detected": VALUES, "filename": VALUES, "charset": VALUES,
}  # fmt: skip


@st.composite
def json_texts(draw):
    """Objects as indexers write them, and as they might: repeated keys, spaces, any values."""
    keys = draw(st.lists(st.sampled_from(sorted(KEYS)), max_size=7))
    space = draw(st.sampled_from(["", " ", "\t", "  "]))
    ascii_only = draw(st.booleans())
    pairs = []
    for key in keys:
        value = draw(st.one_of(KEYS[key], KEYS[key], KEYS[key], VALUES))
        told = json.dumps(value, ensure_ascii=ascii_only)
        pairs.append(f"{json.dumps(key)}{space}:{space}{told}")
    text = "{" + space + f",{space}".join(pairs) + space + "}" + space
    return draw(st.one_of(st.just(text), st.just(text), st.just(text[:-1]), st.just(text + "x")))


@st.composite
def lines_of_cdxj(draw):
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(["", " CDX N b a", "!meta", "@x", "a b", "a b c", "\r", "a"]))
    key = draw(st.sampled_from(["org,example)/", "a", "", " x"]))
    return f"{key} {draw(STAMPS)} {draw(json_texts())}" + draw(st.sampled_from(["", "\r"]))


def same_both_ways(form, lines):
    # A line break within a field would make two lines of one.
    block = b"".join(
        line.replace("\n", "").encode("utf-8", "surrogatepass") + b"\n" for line in lines
    )
    answers = []
    for compiled in (True, False):
        report = Report()
        batch, count = read_block(block, form, report, compiled=compiled)
        batch.validate(full=True)
        told = {k: v for k, v in report.as_dict().items() if k != "sources"}
        answers.append((batch.to_pylist(), count, told))
    assert answers[0] == answers[1]
    return answers[0][0]


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(st.lists(lines_of_cdxj(), max_size=6), st.booleans())
@example(['a 20260101000000 {"url": "http://a/", "digest": "\\u0041", "url": "http://b/"}'], False)
@example(['a 20260101000000 {"url": "http://a/", "u": "x", "original": 5}'], False)
@example(['a 20260101000000 {"u": "x", "url": null}', 'a 20260101000000 {"truncated": 0}'], True)
def test_cdxj_is_read_alike_compiled_or_not(lines, by_key):
    same_both_ways(CdxjLines(by_key=by_key), lines)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(json_texts(), max_size=5), st.booleans())
def test_lines_of_json_are_read_alike_compiled_or_not(lines, by_key):
    same_both_ways(CdxjLines(by_key=by_key, bare=True), lines)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            STAMPS, URLS, st.sampled_from(["text/html", "warc/revisit", "-"]),
            STATUSES.map(str), DIGESTS, st.sampled_from(["-", "a.warc.gz"]),
            st.sampled_from([0, 0, 0, 3, -1]),
        ),
        max_size=5,
    ),
    st.booleans(),
    st.sampled_from(["", " CDX N b a m s k r M S V g", " CDX N b a m s k r V g"]),
)  # fmt: skip
def test_cdx_is_read_alike_compiled_or_not(rows, by_key, header):
    lines = [
        " ".join(["org,example)/", stamp, url, mime, status, digest, "-", "-", "9", "0", file]
                 + ["-"] * more)[: None if more >= 0 else -3]
        for stamp, url, mime, status, digest, file, more in rows
    ]  # fmt: skip
    same_both_ways(CdxLines(header.encode(), by_key=by_key), [header, *lines])


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["200", "-5003", "-", "1", "0"]), st.sampled_from(["12", "-", "x"]),
            URLS, st.one_of(st.just("-"), STAMPS.map(lambda s: f"{s}+12")), DIGESTS,
            st.sampled_from(["-", "duplicate:digest", "3t,lenTrunc", "{} {} {}", ""]),
            st.sampled_from([" ", "   "]),
        ),
        max_size=5,
    )
)  # fmt: skip
def test_crawl_logs_are_read_alike_compiled_or_not(rows):
    lines = [
        space.join(["2026-01-01T00:00:00.123Z", status, size, url, "L", "-", "text/html", "#1",
                    began, digest, "-", notes])
        for status, size, url, began, digest, notes, space in rows
    ]  # fmt: skip
    same_both_ways(HeritrixLines(), lines)


def test_broken_utf8_is_found_by_the_line():
    good = 'a 20260101000000 {"url": "http://ä/"}\n'.encode()
    bad = b'a 20260101000000 {"url": "http://\xff/"}\n'
    for compiled in (True, False):
        report = Report()
        batch, _ = read_block(good + bad + good, CdxjLines(), report, compiled=compiled)
        assert batch.num_rows == 2
        assert [sample.line for sample in report.samples] == [2]


@settings(max_examples=200, deadline=None)
@given(st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(2199, 12, 31)))  # noqa: DTZ001
def test_times_are_those_of_the_calendar(at):
    at = at.replace(tzinfo=dt.UTC)
    micros = round(at.replace(microsecond=0).timestamp()) * 1_000_000
    assert from_digits(at.strftime("%Y").zfill(4) + at.strftime("%m%d%H%M%S")) == micros
    assert from_digits(at.strftime("%Y%m%d%H%M%S%f")) == micros + at.microsecond
    assert iso_instant(at.isoformat().replace("+00:00", "Z")) == micros + at.microsecond


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("2026", "20260101000000"),
        ("202603", "20260301000000"),
        ("20261", "20261001000000"),
        ("2026031", "20260310000000"),
        ("2026031512", "20260315120000"),
        ("20260315123", "20260315123000"),
        ("20261231235960", "20270101000000"),
    ],
)
def test_short_times_are_padded_low(short, full):
    """field.md 5.1: timestamps may be shorter than 14 digits; and a leap second is a second."""
    assert from_digits(short) == from_digits(full)


@pytest.mark.parametrize(
    "text", ["", "26", "2026-01-01", "20260001000000", "20260230000000", "1969", "9" * 25, "२०२६"]
)
def test_what_is_no_time_is_said(text):
    with pytest.raises(ValueError, match=r"is not a time|the year is not|no such time"):
        from_digits(text)


def test_a_digest_has_one_form_however_it_is_written():
    """field.md 5.1: base32 or hexadecimal, prefixed or not, upper or lower case."""
    raw = bytes(range(20))
    base32 = base64.b32encode(raw).decode()
    for text in (base32, raw.hex(), raw.hex().upper(), f"sha1:{base32}", f"SHA-1:{raw.hex()}"):
        assert digest_in(text) == raw
    long = bytes(range(32))
    for text in (long.hex(), f"sha256:{long.hex()}", f"sha-256:{base64.b32encode(long).decode()}"):
        assert digest_in(text) == long
    assert digest_in(None) is digest_in("-") is digest_in("") is digest_in("sha1:") is None
    assert len(digest_in("?" * 500)) <= 64
    assert digest_in("?" * 500) != digest_in("?" * 501)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.none(), DIGESTS), max_size=8))
def test_a_column_of_digests_is_read_alike_compiled_or_not(texts):
    column = pa.array(texts, pa.string())
    for part in (column, column.slice(1)):
        compiled, plain = digests_in(part, 0), digests_in(part, 1_000)
        compiled.validate(full=True)
        assert compiled.equals(plain)


def test_what_is_no_status_is_said():
    assert status_in("-") is status_in(None) is None
    for bad in (True, 1.5, "abc", "99999", [], {}):
        with pytest.raises(ValueError, match="this is not a status"):
            status_in(bad)


# -- CDX (field.md 5.1) -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "letters",
    ["N b a m s k r M S V g", "N b a m s k r M V g", "N b a m s k r V g", "N b a m s k S"],
)
@pytest.mark.parametrize("with_header", [True, False])
@pytest.mark.parametrize("resolved", ["", " 1 2 x.warc.gz"])
def test_layouts_of_cdx_are_known_with_and_without_a_header(letters, with_header, resolved):
    if letters.endswith("k S") and resolved and not with_header:
        pytest.skip("seven fields and three are ten: they are taken for the layout of ten")
    values = {
        "N": "org,example)/", "a": "https://example.org/", "m": "text/html", "s": "200",
        "r": "-", "M": "-", "S": "77", "V": "0", "g": "a.warc.gz",
    }  # fmt: skip
    text = f" CDX {letters}\n" if with_header else ""
    for stamp, digest in (("20260101000000", A), ("20260102000000", A), ("20260103000000", B)):
        told = values | {"b": stamp, "k": digest}
        text += " ".join(told[letter] for letter in letters.split()) + f"{resolved}\n"
    table, report = visits_of(text, "cdx")
    assert report.malformed_rows == 0
    assert changes_in(table) == [-1, 0, 1]
    assert table["source"].to_pylist() == ["https://example.org/"] * 3
    assert set(table["bytes"].to_pylist()) == {77 if "S" in letters else None}


def test_a_header_decides_the_fields_whatever_their_order():
    text = "\tCDX\tb\tc\ta\tN\n" + "".join(
        f"2026010{day}000000\t{checksum}\thttp://a/ b\ta)/\n"
        for day, checksum in ((1, "x"), (2, "y"))
    )
    table, _ = visits_of(text, "cdx")
    assert table["source"].to_pylist() == ["http://a/ b"] * 2
    assert changes_in(table) == [-1, 1]
    with pytest.raises(InputError, match="names no field b and a"):
        visits_of(" CDX N m s\n", "cdx")


def test_a_revisit_is_an_unchanged_visit_and_never_dropped():
    table, report = visits_of(
        cdx(
            ("20260101000000", "text/html", "200", A, "a.warc.gz"),
            ("20260102000000", "warc/revisit", "-", A, "a.warc.gz"),
            ("20260103000000", "warc/revisit", "-", "-", "a.warc.gz"),
            ("20260104000000", "text/html", "200", A, "-"),
            ("20260105000000", "text/html", "200", B, "a.warc.gz"),
        )
    )
    assert changes_in(table) == [-1, 0, 0, 0, 1]
    assert report.counts["revisits"] == 3


def test_a_revisit_of_old_content_is_a_change():
    """A, B, and a revisit of the A of old: what the visit before saw was B."""
    table, _ = visits_of(
        cdx(
            ("20260101000000", "text/html", "200", A, "a.warc.gz"),
            ("20260102000000", "text/html", "200", B, "a.warc.gz"),
            ("20260103000000", "warc/revisit", "-", A, "a.warc.gz"),
        )
    )
    assert changes_in(table) == [-1, 1, 1]


def test_the_digest_of_the_empty_body_of_a_304_is_no_content():
    table, _ = visits_of(
        cdx(
            ("20260101000000", "text/html", "200", A, "a.warc.gz"),
            ("20260102000000", "warc/revisit", "304", EMPTY, "a.warc.gz"),
            ("20260103000000", "text/html", "200", A, "a.warc.gz"),
            ("20260104000000", "warc/revisit", "200", f"sha1:{EMPTY}", "a.warc.gz"),
            ("20260105000000", "text/html", "200", A, "a.warc.gz"),
            ("20260106000000", "text/html", "304", EMPTY, "a.warc.gz"),
            ("20260107000000", "text/html", "200", A, "a.warc.gz"),
        )
    )
    assert changes_in(table) == [-1, 0, 0, 0, 0, 0, 0]


def test_failed_captures_observe_nothing():
    table, _ = visits_of(
        cdx(
            ("20260101000000", "text/html", "200", A, "a.warc.gz"),
            ("20260102000000", "text/html", "503", B, "a.warc.gz"),
            ("20260103000000", "text/html", "200", A, "a.warc.gz"),
        )
    )
    assert changes_in(table) == [-1, -1, 0]


def test_keys_join_http_and_https_and_drop_the_redirects_between_them():
    text = "".join(
        f"org,example)/ 2026010{day}00000{second} {url} text/html {status} {digest} - - 9 0 x\n"
        for day in (1, 2)
        for second, url, status, digest in (
            (0, "http://example.org/", 301, B),
            (1, "https://example.org/", 200, A),
        )
    )
    by_url, _ = visits_of(text, "cdx")
    assert len(set(by_url["source"].to_pylist())) == 2
    by_key, report = visits_of(text, "cdx", key="surt")
    assert by_key["source"].to_pylist() == ["org,example)/"] * 2
    assert changes_in(by_key) == [-1, 0]
    assert report.left_out == {"redirects, often to the same key": 2}


def test_dns_records_are_left_out():
    text = "dns:example.org 20260101000000 dns:example.org text/dns - - - - 9 0 x\n"
    table, report = visits_of(text + text, "cdx")
    assert table.num_rows == 0
    assert sum(report.left_out.values()) == 2


# -- CDX servers (field.md 5.2) ---------------------------------------------------------------

HEADER = ["urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length"]


def answer(*rows, header=HEADER, **how):
    return json.dumps([header, *rows], **how)


def row(day, digest, *more):
    stamp = f"202601{day:02d}000000"
    return ["org,example)/", stamp, "https://example.org/", "text/html", "200", digest, "9", *more]


@pytest.mark.parametrize("how", [{}, {"indent": 1}, {"indent": 0}, {"separators": (",", ":")}])
def test_the_array_of_a_cdx_server_is_read_however_it_is_laid_out(how):
    table, report = visits_of(answer(row(1, A), row(2, A), row(3, B), **how))
    assert report.formats == {"cdx-server": 1}
    assert changes_in(table) == [-1, 0, 1]


def test_an_array_longer_than_a_chunk_is_streamed(monkeypatch):
    monkeypatch.setattr("observant.formats.imports.cdx_server._CHUNK", 100)
    table, report = visits_of(answer(*(row(day, A) for day in range(1, 29))), batch_rows=5)
    assert table.num_rows == 28
    assert report.malformed_rows == 0


def test_broken_rows_of_an_array_are_counted_and_the_rest_goes_on():
    good, bad = json.dumps(row(1, A)), json.dumps(row(2, A)[:-1])
    text = f"[{json.dumps(HEADER)},\n{good},\n{bad},\n[nonsense,\n{json.dumps(row(3, A))}"
    table, report = visits_of(text)
    assert table.num_rows == 2
    assert [sample.reason for sample in report.samples] == [
        "not a row of 7 values",
        "this is not a row in JSON",
        "the answer is cut off: there is no last bracket",
    ]


def test_nested_brackets_are_not_read_again_and_again():
    """One attempt for each would take a minute for a megabyte (found by fuzzing)."""
    nested = f"[{json.dumps(HEADER)},\n" + "[\n" * 30_000 + json.dumps(row(1, A)) + "]"
    _, report = visits_of(nested)
    assert 1 < report.malformed_rows < 200


def test_a_row_without_its_end_costs_only_itself():
    first, *others = (json.dumps(row(day, A)) for day in (1, 2, 3))
    text = f"[{json.dumps(HEADER)},\n{first[:-1]}\n{others[0]},\n{others[1]}]"
    table, report = visits_of(text)
    assert (table.num_rows, report.malformed_rows) == (2, 1)


def test_a_resume_key_tells_that_there_is_more():
    _, report = visits_of(answer(row(1, A), row(2, A), [], ["org%2Cexample%29%2F+2026"]))
    assert report.visits == 2
    assert any("resume key" in told for told in report.warnings)


def test_runs_that_a_server_collapsed_are_restored_from_their_ends():
    """collapse=digest with showSkipCount and lastSkipTimestamp: as good as the full list.

    Nobody saw a change between the first and the last of a run, so what lies between adds
    nothing: the rates are those of the full list (maximum likelihood, to rounding).
    """
    digests = [A] * 5 + [B] * 7 + [A] * 3 + [B]
    full = answer(*(row(day, digest) for day, digest in enumerate(digests, 1)))
    header = [*HEADER, "endtimestamp", "skipcount"]
    collapsed = answer(
        row(1, A, "20260105000000", "4"),
        row(6, B, "20260112000000", "6"),
        row(13, A, "20260115000000", "2"),
        row(16, B, "-", "0"),
        header=header,
    )
    with pytest.raises(InputError, match="--accept skipped-unchanged"):
        visits_of(collapsed)
    restored, report = visits_of(collapsed, accept={"skipped-unchanged"})
    assert report.visits == 7

    from observant.estimation.rates import estimate_rates

    rates = [
        estimate_rates(VisitLog.from_arrow(table), "mle").rate_per_day[0]
        for table in (visits_of(full)[0], restored)
    ]
    # The full list has changed visits a day apart; the restored one has the very same.
    assert rates[0] == pytest.approx(rates[1], rel=1e-6)


def test_json_lines_of_pywb_are_read():
    text = "".join(
        json.dumps(
            {"urlkey": "org,example)/", "timestamp": f"2026010{day}000000", "digest": digest,
             "url": "https://example.org/", "mime": "text/html", "status": "200", "length": 9}
        ) + "\n"
        for day, digest in ((1, A), (2, A), (3, B))
    )  # fmt: skip
    table, report = visits_of(text)
    assert report.formats == {"cdx-server": 1}
    assert changes_in(table) == [-1, 0, 1]


# -- CDXJ (field.md 5.3) ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [("url", "mime", "status", "digest"), ("original", "mimetype", "statuscode", "digest"),
     ("u", "m", "s", "d")],
)  # fmt: skip
@pytest.mark.parametrize("quoted", [True, False])
def test_keys_go_by_many_names_and_numbers_may_be_texts(names, quoted):
    url, mime, status, digest = names
    text = "".join(
        f"org,example)/ 2026010{day}000000 "
        + json.dumps(
            {url: "https://example.org/", mime: "text/html", digest: of,
             status: "200" if quoted else 200}
        )
        + "\n"
        for day, of in ((1, A), (2, A), (3, B))
    )  # fmt: skip
    table, report = visits_of(text, "cdxj")
    assert report.malformed_rows == 0
    assert changes_in(table) == [-1, 0, 1]
    assert table["status"].to_pylist() == [200] * 3


def test_the_digest_of_a_truncated_capture_is_not_used():
    lines = [
        f'a)/ 2026010{day}000000 {{"url": "http://a/", "digest": "{digest}"{more}}}\n'
        for day, digest, more in ((1, A, ""), (2, B, ', "truncated": "length"'), (3, A, ""))
    ]
    table, report = visits_of("".join(lines), "cdxj")
    assert table["digest"].to_pylist()[1] is None
    assert changes_in(table)[1] == -1
    assert report.counts["truncated captures, whose digest is left out"] == 1


def test_a_line_without_url_needs_the_key():
    text = 'org,example)/ 20260101000000 {"digest": "' + A + '"}\n'
    _, report = visits_of(text * 2, "cdxj")
    assert report.malformed_rows == 2
    assert "--key surt" in report.samples[0].reason
    table, _ = visits_of(text, "cdxj", key="surt")
    assert table["source"].to_pylist() == ["org,example)/"]


def test_a_cluster_is_read_by_its_index(tmp_path):
    index = zipnum(tmp_path)
    table, report = visits_of(index)
    assert report.formats == {"zipnum": 1}
    assert changes_in(table) == [-1, 0, 1]
    shard, _ = visits_of(tmp_path / "cdx-00000.gz")
    assert shard.equals(table)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "..", "a\\b", "a\0b", "x" * 400])
def test_a_cluster_reads_nothing_outside_its_folder(tmp_path, name):
    (tmp_path / "inner").mkdir()
    (tmp_path / "secret").write_bytes(gzip.compress(CDXJ.format(a=A, b=B).encode()))
    index = tmp_path / "inner" / "cluster.idx"
    index.write_text(f"org,example)/ 20260101000000\t{name}\t0\t1000\t1\n")
    try:
        table, report = visits_of(index, "zipnum")
    except InputError:
        return
    assert table.num_rows == 0
    assert report.malformed_rows == 1


def test_broken_and_exploding_members_of_a_cluster_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr("observant.formats.imports.cdxj._LARGEST_CONTENT", 1 << 16)
    index = zipnum(tmp_path)
    bomb = gzip.compress(b"x" * (1 << 20))
    size = (tmp_path / "cdx-00000.gz").stat().st_size
    with (tmp_path / "cdx-00000.gz").open("ab") as shard:
        shard.write(bomb)
    with index.open("a") as more:
        more.write(f"z 2026\tcdx-00000.gz\t{size}\t{len(bomb)}\t3\n")
        more.write("z 2026\tcdx-00000.gz\t5\t100\t4\nz 2026\tcdx-00000.gz\t99999999\t9\t5\n")
    table, report = visits_of(index)
    assert table.num_rows == 3
    assert report.malformed_rows == 3
    index.write_text("z 2026\tabsent.gz\t0\t9\t1\n")
    with pytest.raises(InputError, match=r"absent\.gz cannot be read"):
        visits_of(index)


# -- Common Crawl (field.md 5.4) --------------------------------------------------------------


def test_the_columnar_index_of_common_crawl():
    table, report = visits_of(common_crawl())
    assert changes_in(table) == [-1, 0, -1]  # the last one was truncated
    assert table["time"].cast("int64").to_pylist() == [0, DAY, 2 * DAY]
    assert any("not at random" in told for told in report.warnings)
    by_key, _ = visits_of(common_crawl(), key="surt")
    assert by_key["source"].to_pylist() == ["org,example)/"] * 3


def test_robots_txt_is_no_page(tmp_path):
    table = pq.read_table(io.BytesIO(common_crawl()))
    mixed = table.set_column(
        table.schema.get_field_index("subset"), "subset", [["warc", "robotstxt", "warc"]]
    )
    out = io.BytesIO()
    pq.write_table(mixed, out)
    found, report = visits_of(out.getvalue())
    assert found.num_rows == 2
    assert report.left_out == {"captures of robots.txt": 1}
    folder = tmp_path / "crawl=CC-MAIN-2026-05" / "subset=robotstxt"
    folder.mkdir(parents=True)
    pq.write_table(table.drop_columns(["subset"]), folder / "part-0.parquet")
    assert visits_of(folder / "part-0.parquet")[0].num_rows == 0


def test_offsets_of_other_types_and_missing_columns():
    table = pq.read_table(io.BytesIO(common_crawl()))
    for column, values in (
        ("warc_record_length", pa.array([9] * 3, pa.int64())),
        ("fetch_time", pa.array([0, DAY * 1000, 2 * DAY * 1000], pa.timestamp("ns", "UTC"))),
    ):
        table = table.set_column(table.schema.get_field_index(column), column, values)
    out = io.BytesIO()
    pq.write_table(table.drop_columns(["content_truncated", "crawl"]), out)
    assert changes_in(visits_of(out.getvalue())[0]) == [-1, 0, 1]
    out = io.BytesIO()
    pq.write_table(table.drop_columns(["fetch_status"]), out)
    with pytest.raises(InputError, match="no column 'fetch_status'"):
        visits_of(out.getvalue(), "commoncrawl")


# -- WARC and WACZ (field.md 5.5) -------------------------------------------------------------

NOT_MODIFIED = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"


def dashed(headers):
    return {name.replace("_", "-"): value for name, value in headers.items()}


class Writer:
    """Writes records with warcio."""

    def __init__(self, *, compressed=True, version="1.1"):
        self.out = io.BytesIO()
        self.writer = WARCWriter(self.out, gzip=compressed, warc_version=version)

    def response(
        self, date, body=b"one", status="200 OK", http=(), url="https://example.org/", **more
    ):
        head = StatusAndHeaders(status, [("Content-Type", "text/html"), *http], protocol="HTTP/1.1")
        record = self.writer.create_warc_record(
            url, "response", payload=io.BytesIO(body), http_headers=head,
            warc_headers_dict={"WARC-Date": date} | dashed(more),
        )  # fmt: skip
        write_record(self.writer, record)
        return record

    def revisit(self, date, digest, **more):
        head = StatusAndHeaders("200 OK", [("Content-Type", "text/html")], protocol="HTTP/1.1")
        record = self.writer.create_revisit_record(
            "https://example.org/", digest=digest, refers_to_uri="https://example.org/",
            refers_to_date="2026-01-01T00:00:00Z", http_headers=head,
            warc_headers_dict={"WARC-Date": date} | dashed(more),
        )  # fmt: skip
        write_record(self.writer, record)


def many_records(**how):
    writer = Writer(**how)
    first = writer.response(
        "2026-01-01T00:00:00Z", http=[("Last-Modified", "Wed, 31 Dec 2025 12:00:00 GMT")]
    )
    payload = first.rec_headers["WARC-Payload-Digest"]
    writer.revisit("2026-01-02T00:00:00Z", payload)
    writer.revisit("2026-01-03T00:00:00Z", f"sha1:{EMPTY}", WARC_Profile=NOT_MODIFIED)
    writer.response("2026-01-04T00:00:00Z", b"t", WARC_Truncated="length")
    writer.response("2026-01-05T00:00:00Z", b"two")
    writer.response("2026-01-06T00:00:00Z", b"no", status="503 Busy")
    writer.response("2026-01-07T00:00:00Z", b"two")
    writer.response("2026-01-08T00:00:00Z", b"x", url="dns:example.org")
    return writer.out.getvalue()


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_every_kind_of_record(compressed, version):
    table, report = visits_of(many_records(compressed=compressed, version=version))
    assert report.formats == {"warc": 1}
    # The truncated one is unknown, and so is what follows it; the failed one observes nothing.
    assert changes_in(table) == [-1, 0, 0, -1, -1, -1, 0]
    assert table["status"].to_pylist() == [200, 200, 304, 200, 200, 503, 200]
    modified = table["last_modified"].to_pylist()
    assert modified[0] == dt.datetime(2025, 12, 31, 12, tzinfo=dt.UTC)
    assert modified[1:] == [None] * 6
    assert report.counts["revisits"] == 2
    assert report.left_out == {"dns records, which are not captures": 1}


def test_zstd_by_the_record():
    plain = many_records(compressed=False)
    starts = [at for at in range(len(plain)) if plain.startswith(b"WARC/1.", at)]
    parts = [plain[a:b] for a, b in zip(starts, [*starts[1:], len(plain)], strict=True)]
    packed = b"".join(zstandard.compress(part) for part in parts)
    assert visits_of(packed)[0].equals(visits_of(plain)[0])


def test_the_same_as_warcio_and_fastwarc_find():
    content = many_records()
    found, _ = visits_of(content)
    other = [
        (record.rec_headers["WARC-Target-URI"], record.rec_headers["WARC-Date"])
        for record in ArchiveIterator(io.BytesIO(content))
        if record.rec_type in {"response", "revisit"}
    ]
    times = found["time"].to_pylist()
    ours = [
        (u, f"{t:%Y-%m-%dT%H:%M:%SZ}")
        for u, t in zip(found["source"].to_pylist(), times, strict=True)
    ]
    assert ours == [pair for pair in other if not pair[0].startswith("dns:")]
    fastwarc = pytest.importorskip("fastwarc.warc", reason="fastwarc is not installed")
    records = fastwarc.ArchiveIterator(
        io.BytesIO(content),
        record_types=fastwarc.WarcRecordType.response | fastwarc.WarcRecordType.revisit,
    )
    urls = [record.headers["WARC-Target-URI"] for record in records]
    assert [u for u in urls if not u.startswith("dns:")] == found["source"].to_pylist()


def test_fractions_of_seconds_and_missing_payload_digests():
    writer = Writer(compressed=False)
    for second, body in (("00.000000001", b"one"), ("00.5", b"one"), ("01.25", b"two")):
        writer.response(f"2026-01-01T00:00:{second}Z", body)
    content = writer.out.getvalue().replace(b"WARC-Payload-Digest", b"X-Unused-Digest-XXX")
    table, report = visits_of(content)
    assert [t.microsecond for t in table["time"].to_pylist()] == [0, 500_000, 250_000]
    assert changes_in(table) == [-1, 0, 1]
    assert any("3 responses have no payload digest" in told for told in report.warnings)


def test_after_a_broken_record_the_next_one_is_found():
    plain = many_records(compressed=False)
    second = plain.index(b"WARC/1.1", 10)
    for broken in (
        plain[:second] + b"garbage\r\n\r\n" + plain[second:],
        plain[:second] + b"WARC/1.1\r\nContent-Length: many\r\n\r\n" + plain[second:],
        plain[:second] + b"WARC/1.1\r\nX: " + b"y" * 300_000 + b"\r\n\r\n" + plain[second:],
    ):
        table, report = visits_of(broken)
        assert report.malformed_rows >= 1
        assert table.equals(visits_of(plain)[0])


def test_a_record_that_is_cut_off_is_malformed():
    writer = Writer(compressed=False)
    writer.response("2026-01-01T00:00:00Z", b"one" * 1000)
    table, report = visits_of(writer.out.getvalue()[:-1500])
    assert table.num_rows == 0
    assert "cut off" in report.samples[0].reason


def test_a_wacz_is_read_by_its_index_or_by_its_records():
    table, report = visits_of(wacz())
    assert report.formats == {"wacz": 1}
    assert changes_in(table) == [-1, 0, 1]
    assert table["digest"].to_pylist() == [digest_in(A), digest_in(A), digest_in(B)]
    records, _ = visits_of(wacz(**{"indexes/index.cdx.gz": None, "indexes/x.idx": b""}))
    assert records.equals(visits_of(warc())[0])
    with pytest.raises(InputError, match="neither an index nor a WARC"):
        visits_of(
            wacz(**{"indexes/index.cdx.gz": None, "archive/data.warc.gz": None, "indexes/x": b""})
        )


def test_a_wacz_writes_nothing_and_does_not_explode(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    visits_of(wacz(**{"../../evil": b"x", "/etc/evil": b"x"}))
    assert list(tmp_path.iterdir()) == []
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("datapackage.json", "{}")
        archive.writestr("indexes/index.cdx", b"\0" * (80 << 20))
    with pytest.raises(InputError, match="claims to unpack to 83,886,082 bytes"):
        visits_of(out.getvalue())
    content = bytearray(wacz())
    content[content.index(b"PK\x01\x02") + 6] = 255  # the version that is needed to unpack it
    with pytest.raises(InputError, match=r"cannot be read: zip file version 25\.5"):
        visits_of(bytes(content), "wacz")
    content[content.index(b"PK\x01\x02") + 6] = 20
    content[content.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(InputError, match="the zip is encrypted"):
        visits_of(bytes(content), "wacz")
    monkeypatch.setattr("observant.formats.imports.warc._MOST_MEMBERS", 2)
    with pytest.raises(InputError, match="3 members"):
        visits_of(wacz())


@pytest.mark.skipif(not importlib.util.find_spec("pywb"), reason="pywb is not installed")
@pytest.mark.parametrize(("flag", "name"), [("-j", "cdxj"), ("-9", "cdx"), (None, "cdx")])
def test_indexes_that_pywb_makes(tmp_path, flag, name):
    (tmp_path / "data.warc.gz").write_bytes(many_records())
    words = ["--sort", *([flag] if flag else []), "-o", str(tmp_path / f"index.{name}")]
    program = "from pywb.indexer.cdxindexer import main; main()"
    subprocess.run(  # noqa: S603
        [sys.executable, "-W", "ignore", "-c", program, *words, str(tmp_path / "data.warc.gz")],
        check=True,
        capture_output=True,
    )
    table, report = visits_of(tmp_path / f"index.{name}")
    assert report.formats == {name: 1}
    assert report.malformed_rows == 0
    records, _ = visits_of(tmp_path / "data.warc.gz")
    assert table["time"].to_pylist() == records["time"].to_pylist()
    changes = dict(enumerate(changes_in(table)))
    assert {k: changes[k] for k in (0, 1, 2, 5, 6)} == {0: -1, 1: 0, 2: 0, 5: -1, 6: 0}


# -- Heritrix (field.md 5.6) ------------------------------------------------------------------


def crawl_line(day, status="200", began=None, digest=A, notes="-", url="https://example.org/"):
    began = f"202601{day:02d}000000123+9000" if began is None else began
    return (
        f"2026-01-{day:02d}T00:00:09.500Z   {status}   1234 {url} L https://example.org/x "
        f"text/html #042 {began} sha1:{digest} https://example.org/ {notes}\n"
    )


def test_a_crawl_log_tells_when_fetches_began():
    table, report = visits_of(
        crawl_line(1)
        + crawl_line(2, notes="duplicate:digest,2t")
        + crawl_line(3, status="304", digest=EMPTY, notes="duplicate:server-not-modified,304")
        + crawl_line(4, digest=B, notes="lenTrunc")
        + crawl_line(5, status="-2", digest="-")
        + crawl_line(6, digest=B)
        + crawl_line(7, digest=B)
        + crawl_line(8, status="-9998", began="-", digest="-")
        + crawl_line(9, began="-", digest=B)
        + crawl_line(9, status="1", url="dns:example.org")
    )
    assert report.formats == {"heritrix": 1}
    assert table["time"].to_pylist()[0] == dt.datetime(2026, 1, 1, 0, 0, 0, 123_000, dt.UTC)
    assert table["time"].to_pylist()[-1] == dt.datetime(2026, 1, 9, 0, 0, 9, 500_000, dt.UTC)
    assert changes_in(table) == [-1, 0, 0, -1, -1, -1, 0, 0]
    assert table["status"].to_pylist() == [200, 200, 304, 200, -2, 200, 200, 200]
    assert report.left_out == {
        "addresses that were never fetched": 1,
        "dns records, which are not captures": 1,
    }


def test_a_short_line_of_a_crawl_log_is_malformed():
    with pytest.raises(ValueError, match="3 fields"):
        HeritrixLines().careful(b"a b c")
    with pytest.raises(LeftOut):
        HeritrixLines().careful(crawl_line(1, status="-5003", began="-").encode())


# -- behind the door of all formats, out again, and by command --------------------------------


@pytest.mark.parametrize("ending", [".cdxj", ".cdxj.gz", ".cdxj.zst"])
def test_a_log_survives_as_cdxj(tmp_path, ending):
    log = VisitLog.from_columns(
        ["http://a/é", "http://a/é", "http://b.org/x y", "plain id"],
        ["2026-01-01", "2026-01-02T00:00:00.5", "2026-01-01", "2026-01-01"],
        digest=[bytes(20), b"\x01" * 20, b"ab", None],
        status=[200, 200, 404, None],
        bytes=[1, 2, None, None],
    )
    write_table(log, tmp_path / f"log{ending}")
    back = read_visits(tmp_path / f"log{ending}")
    assert back.sources.to_pylist() == log.sources.to_pylist()
    assert back.time.tolist() == log.time.tolist()
    assert back.changed.tolist() == log.changed.tolist()
    assert back.extras["digest"].to_pylist()[:2] == log.extras["digest"].to_pylist()[:2]
    assert back.extras["bytes"].to_pylist() == log.extras["bytes"].to_pylist()


def test_an_unchanged_visit_without_digest_survives_as_a_revisit(tmp_path):
    log = VisitLog.from_columns(["http://a/"] * 2, ["2026-01-01", "2026-01-02"], [None, False])
    write_table(log, tmp_path / "log.cdxj")
    assert "warc/revisit" in (tmp_path / "log.cdxj").read_text()
    assert read_visits(tmp_path / "log.cdxj").changed.tolist() == [-1, 0]


def test_archives_are_read_like_any_log(tmp_path):
    (tmp_path / "index.cdxj").write_text(CDXJ.format(a=A, b=B))
    (tmp_path / "data.warc.gz").write_bytes(warc())
    (tmp_path / "a.wacz").write_bytes(wacz())
    for name in ("index.cdxj", "data.warc.gz", "a.wacz"):
        assert read_visits(tmp_path / name).changed.tolist() == [-1, 0, 1]
    with pytest.raises(InputError, match="cannot be written"):
        write_table(read_visits(tmp_path / "index.cdxj"), tmp_path / "x.warc")
    (tmp_path / "empty.cdxj").write_text("\n")
    with pytest.raises(InputError, match=r"empty\.cdxj: there are no visits"):
        read_visits(tmp_path / "empty.cdxj")


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://www.example.org", "org,example)/"),
        ("http://www2.example.co.uk:8080/A?b=C#d", "uk,co,example:8080)/a?b=c"),
        ("https://192.168.0.1:443/", "192.168.0.1)/"),
        ("http://[::1]/", "::1)/"),
        ("http://a:b/", "http://a:b/"),
        ("", "-"),
    ],
)
def test_keys_of_urls(url, key):
    assert surt_key(url) == key


def run(*words):
    result = CliRunner().invoke(import_, [str(word) for word in words])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_the_command_reports_first_and_writes_then(tmp_path):
    file, out = tmp_path / "index.cdxj", tmp_path / "visits.parquet"
    file.write_text(CDXJ.format(a=A, b=B) + "bad\n")
    told = run(file, "--dry-run")
    assert "visits     3 to 1 source" in told
    assert "note: 1 malformed row left out" in told
    assert "row 4: this is not: key, time, JSON object: bad" in told
    assert not out.exists()
    report = json.loads(run(file, "-o", out, "--json"))
    assert report["visits"] == 3
    assert read_visits(out).changed.tolist() == [-1, 0, 1]
    with pytest.raises(InputError, match="row 4"):
        run(file, "-o", tmp_path / "not.parquet", "--on-bad", "fail")
    assert not (tmp_path / "not.parquet").exists()


def test_the_command_refuses_and_accepts(tmp_path):
    file, out = tmp_path / "index.cdxj", tmp_path / "visits.csv"
    file.write_text(
        "".join(
            f'a)/ 2026010{1 + day // 24}{day % 24:02d}0000 {{"url": "http://a/", '
            f'"digest": "{day:040x}"}}\n'
            for day in range(48)
        )
    )
    with pytest.raises(InputError, match="--accept complete"):
        run(file, "-o", out)
    assert not out.exists()
    assert "would assume" in run(file, "--dry-run")
    assert "assumed: the list is complete" in run(file, "-o", out, "--accept", "complete")
    assert np.count_nonzero(read_visits(out).changed == 1) == 47


def test_the_command_maps_columns(tmp_path):
    file, out = tmp_path / "log.csv", tmp_path / "visits.jsonl"
    file.write_text("page;at;hash\na;2026-01-01;x\na;2026-01-02;x\na;2026-01-03;y\na;b\n")
    with pytest.raises(InputError, match="--map source=NAME"):
        run(file, "--format", "table", "--dry-run")
    told = run(file, "--format", "table", "--map", "source=page", "--map", "time=at",
               "--map", "digest=hash", "-o", out)  # fmt: skip
    assert "row 5: 2 cells where the header names 3" in told
    assert read_visits(out).changed.tolist() == [-1, 0, 1]
    for bad, message in (("source", "COLUMN=NAME"), ("page=a", "no column 'page'")):
        with pytest.raises(InputError, match=message):
            run(file, "--map", bad, "--dry-run")


def test_the_command_says_what_is_missing(tmp_path):
    for words, said in (
        ([], "--list"),
        (["x.cdxj"], "say where the visits go"),
        (["x.cdxj", "--store", "s.db", "--key", "surt"], "--key surt needs -o FILE"),
        (["x.cdxj", "--dry-run", "--zone", "Mars"], "there is no time zone 'Mars'"),
    ):
        result = CliRunner().invoke(import_, words)
        assert result.exit_code == 2
        assert said in result.output
    with pytest.raises(InputError, match="the name does not tell the format"):
        run("x.cdxj", "-o", "visits")
    with pytest.raises(InputError, match="not a time"):
        run("x.cdxj", "--dry-run", "--since", "soon")
    (tmp_path / "none.cdxj").write_text("a 2026 {}\n")
    with pytest.raises(InputError, match="no visit to write in 1 row;"):
        run(tmp_path / "none.cdxj", "-o", tmp_path / "visits.csv")


def test_one_address_that_is_refused_does_not_end_the_import(tmp_path):
    file, store = tmp_path / "visits.csv", tmp_path / "store.db"
    names = ["https://a.example/", "ftp://b.example/", "not an address", "https://c.example/"]
    file.write_text("source,time,changed\n" + "".join(f"{name},2026-01-01,\n" for name in names))
    told = json.loads(run(file, "--store", store, "--json"))
    assert (told["sources_added"], told["visits_recorded"], told["sources_refused"]) == (2, 2, 2)
    assert [name for name in names if name in " ".join(told["refusals"])] == names[1:3]
    text = run(file, "--store", tmp_path / "other.db")
    assert "2 sources added" in text
    assert "note: 2 sources cannot be watched" in text
    assert "ftp://b.example/" in text


def test_any_format_can_name_sources_by_key(tmp_path):
    """A table has no keys of an index: they follow from the URLs."""
    file, out = tmp_path / "visits.csv", tmp_path / "out.csv"
    file.write_text(
        "source,time,status\nhttp://www.a.example/x,2026-01-01,301\n"
        "https://a.example/x,2026-01-02,200\nhttp://a.example/x,2026-01-03,200\n"
    )
    told = run(file, "--key", "surt", "-o", out)
    assert "redirects, often to the same key: 1" in told
    assert read_visits(out).sources.to_pylist() == ["example,a)/x"]


def test_the_command_lists_formats():
    from observant.formats.imports import importers

    told, listed = run("--list"), json.loads(run("--list", "--json"))
    assert [entry["name"] for entry in listed] == list(importers())
    assert all(name in told for name in importers())


def test_the_command_watches_the_sources_of_a_file(tmp_path):
    file, store = tmp_path / "index.cdxj", tmp_path / "store.db"
    file.write_text(CDXJ.format(a=A, b=B))
    assert "1 source added" in run(file, "--store", store)
    again = json.loads(run(file, "--store", store, "--json"))
    assert (again["sources_added"], again["visits_recorded"]) == (0, 0)
    from observant.estimation.belief import SIZE
    from observant.estimation.online import OnlinePosterior
    from observant.store import open_store

    with open_store(str(store)) as found:
        (known,) = found.sources.scheduled()
        log = found.visits.log()
    assert known.source.name == "https://example.org/"
    assert log.changed.tolist() == [-1, 0, 1]
    # One quiet day and one with a change, kept with the source.
    alone = OnlinePosterior()
    alone.visit(1.0, changed=False)
    alone.visit(1.0, changed=True)
    assert len(known.posterior) == SIZE
    rates = known.source.rate, known.source.rate_low, known.source.rate_high
    assert rates == pytest.approx(alone.belief(), rel=1e-9)
