"""What strangers wrote stays text: on a terminal, in a spreadsheet, in a file that is imported."""

import io
import json
import unicodedata

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from observant.cli.console import inert
from observant.errors import InputError
from observant.formats import read_visits, write_table
from observant.observer.content import Rules
from observant.observer.transport.limits import Limits

from .patience import cpu_within
from .test_cli_observer import observant

CLIPBOARD = "\x1b]52;c;QUJD\x07"
COLOUR, OVERRIDE = "\x9b31m", "\u202e"
HOSTILE = f"stolen {CLIPBOARD} and {COLOUR} and {OVERRIDE}txt.exe"


def obeyed(text):
    """Characters that a terminal would obey."""
    return [c for c in text if unicodedata.category(c) in {"Cc", "Cf"} and c not in "\n\t"]


# -- terminals ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_command_writes_what_a_terminal_obeys(tmp_path):
    page = tmp_path / "page.txt"
    (tmp_path / "observant.toml").write_text(f'files = ["{tmp_path}"]\n')
    page.write_text("the first text of this page", "utf-8")
    observant("add", page, "--kind", "file", "--title", f"News {CLIPBOARD}", cwd=tmp_path)
    told = list(observant("check", page, cwd=tmp_path))
    for number in range(2):
        page.write_text(f"{HOSTILE} {number}", "utf-8")
        told += observant("check", page, cwd=tmp_path)
    for words in (
        ("diff", page),
        ("diff", page, "--by", "lines"),
        ("diff", page, "--json"),
        ("list",),
        ("list", "--json"),
        ("show", page),
        ("show", page, "--json"),
        ("notify", "log"),
    ):
        told += observant(*words, cwd=tmp_path)
    told += observant("show", f"no such {HOSTILE}", cwd=tmp_path, code=2)
    assert any("stolen" in text for text in told)
    for text in told:
        assert not obeyed(text)
    found = json.loads(observant("diff", page, "--json", cwd=tmp_path)[0])
    assert HOSTILE in found["text"]  # for programs nothing is lost


def test_log_lines_are_inert(capsys, monkeypatch):
    import logging
    import sys

    from observant.cli.console import Inert
    from observant.observer.program import set_up_logging

    monkeypatch.setattr(sys, "stderr", Inert.of(sys.stderr))
    logger = logging.getLogger("observant")
    before = logger.handlers[:], logger.propagate, logger.level
    try:
        set_up_logging()
        logger.warning("it failed", extra={"reason": HOSTILE})
    finally:
        logger.handlers[:], logger.propagate = before[:2]
        logger.setLevel(before[2])
    told = capsys.readouterr().err
    assert "stolen" in told
    assert not obeyed(told)


@pytest.mark.slow
@given(st.text())
def test_inert_text_keeps_its_lines_and_letters(text):
    shown = inert(text)
    assert len(shown) == len(text)
    assert not [
        c for c in shown.replace("\r\n", "") if unicodedata.category(c) == "Cc" and c not in "\n\t"
    ]
    kept = [(a, b) for a, b in zip(text, shown, strict=True) if b != "\ufffd"]
    assert all(a == b for a, b in kept)


# -- spreadsheets ---------------------------------------------------------------------------------


def written(names, ending="csv"):
    table = pa.table(
        {
            "source": names,
            "time": pa.array([1_700_000_000 + n for n in range(len(names))], pa.timestamp("s")),
            "changed": [False] * len(names),
            "note": [-1.5] * len(names),
        }
    )
    file = io.BytesIO()
    write_table(table, file, ending)
    return file.getvalue()


def test_no_cell_of_a_csv_is_a_formula():
    names = ["=HYPERLINK(1)", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\tx", "\r=1", "'=1", "-5"]
    names += ["+5.5e3", "plain", "https://example.org/?a=1"]
    rows = written(names).decode().split("\n")[1:]
    cells = [row.partition(",")[0].strip('"') for row in rows if "," in row]
    assert [cell for cell in cells if cell[:1] in set("=+-@\t\r")] == ["-5", "+5.5e3"]
    assert all(",-1.5" in row for row in rows if "," in row)  # numbers are numbers


@pytest.mark.slow
@given(st.lists(st.text("'=+-@ab1\t", min_size=1, max_size=5), min_size=1, max_size=5, unique=True))
def test_what_we_quote_we_read_again(names):
    names = [name for name in names if name.strip() == name] or ["a"]
    log = read_visits(io.BytesIO(written(names)), format="csv")
    assert sorted(log.sources.to_pylist()) == sorted(names)


# -- expressions and limits -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    ["((a{1000}){1000}){1000}", "(a?){9999}" * 60, "(?:(x{999}){999}){9}", "(a{99999}){9}"],
)
def test_a_regular_expression_is_not_written_out_without_end(expression):
    with cpu_within(1), pytest.raises(InputError, match="repeats too much"):
        Rules(regex=expression)


@pytest.mark.parametrize(
    "expression",
    [r"\d{4}-\d{2}-\d{2}", "(a{3}){3}", r"[{99999}]{2}", r"\{99999}", "x{1,60000}", "(?:ab?){200}"],
)
def test_usual_repeats_are_taken(expression):
    assert Rules(regex=expression).regex == expression


def test_limits_that_are_lifted():
    usual = Limits()
    assert Limits(body=2**30, slow_bytes=1, total=5.0).lifted(usual) == ["slow_bytes", "body"]
    assert not Limits(body=100, truncate=True, slow_bytes=100).lifted(usual)


# -- YAML -----------------------------------------------------------------------------------------


def imported(tmp_path, text):
    (tmp_path / "urls.yaml").write_text(text, "utf-8")
    return observant("import", "urls.yaml", "--store", "o.db", cwd=tmp_path, code=2)[1]


def test_an_alias_bomb_does_not_go_off(tmp_path):
    pytest.importorskip("yaml")
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    bomb = "url: https://example.org/\nname: *a9\n"
    with cpu_within(10):
        assert "aliases stand for more than" in imported(tmp_path, "\n".join([*lines, bomb]))
    merges = ["m0: &m0 {a: 1}"]
    merges += [f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 10)}]}}" for n in range(1, 9)]
    with cpu_within(10):
        told = imported(tmp_path, "\n".join([*merges, "url: https://example.org/", "name: *m8"]))
    assert "aliases stand for more than" in told
    with cpu_within(10):
        assert "aliases" in imported(tmp_path, "url: https://example.org/\nname: &a [*a, *a]\n")


@pytest.mark.parametrize("number", ["1:" * 20_000 + "1", "0x" + "f" * 9_000, "9" * 9_000])
def test_a_number_that_nobody_could_print_is_refused(tmp_path, number):
    pytest.importorskip("yaml")
    told = imported(tmp_path, f"url: https://example.org/\nname: {number}\n")
    assert "a number of" in told


def test_a_number_that_is_too_large_is_refused(tmp_path):
    pytest.importorskip("yaml")
    told = imported(tmp_path, f"url: https://example.org/\nname: {'1:' * 200}1.0\n")
    assert "this is no YAML" in told


def test_usual_aliases_are_read(tmp_path):
    pytest.importorskip("yaml")
    text = "url: https://example.org/\nheaders: &h {Accept: a}\n---\nurl: https://example.org/b\n"
    (tmp_path / "urls.yaml").write_text(text + "tags: &t [a]\nname: x\nkind: url\n", "utf-8")
    out, _ = observant("import", "urls.yaml", "--store", "o.db", cwd=tmp_path)
    assert "2" in out
