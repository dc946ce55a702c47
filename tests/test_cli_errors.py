"""One voice: what every command promises, how its options are called, how a mistake is told.

The commands are found by walking the tree of click, so a new one is checked because it exists.
"""

import contextlib
import functools
import io
import json
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import click
import pytest

from observant.cli import COMMANDS, OLD, SECTIONS, cli
from observant.cli.options import ORDER, Setting
from observant.cli.values import Choice

from .command_line import run_here
from .patience import PATIENCE

VISITS = "source,time,changed\n" + "".join(
    f"{source},2026-01-{day:02},{'' if day == 1 else day % 2}\n"
    for source in ("https://0.example/x[/y]", *(f"https://{n}.example/" for n in range(30)))
    for day in range(1, 9)
)
FILES = {
    "visits.csv": VISITS,
    "updates.csv": "source,time\n" + "".join(f"a,2026-01-{day:02}\n" for day in range(1, 20)),
    "rates.csv": "source,rate_per_day\nhttps://a.example/,1\nhttps://b.example/,0.1\n",
    "claims.csv": "source,claimed_modified,actual_modified,checked_at\n"
    + "".join(f"s{n},2026-01-0{n},2026-01-0{n + n % 2},2026-01-20\n" for n in range(1, 9)),
    "addresses.txt": "https://c.example/ news\n",
    "empty.csv": "",
    "text.db": "this is a text, and no store\n" * 99,
    "odd.xyz": "x\n",
    "observant.toml": "",
}


@functools.cache
def commands():
    """Every command by its words, groups included."""
    found = {}

    def walk(words, command):
        found[words] = command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                walk((*words, name), command.get_command(context, name))

    for name in COMMANDS:
        walk((name,), cli.get_command(click.Context(cli), name))
    return found


def options_of(command):
    return [param for param in command.params if isinstance(param, click.Option)]


def long_name(option):
    return next(name for name in option.opts if name.startswith("--"))


def spelled(option, value):
    """How an option is given, and how a complaint calls it."""
    if isinstance(option, Setting) and option.hidden:
        return ["--set", f"{option.shown}={value}"], f"--set {option.shown}"
    return [long_name(option), value], long_name(option)


def observant(*words, code=None, stdin=""):
    """Run a command in this process; its exit code, output and complaint."""
    from observant.cli import main

    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", ["observant", *map(str, words)])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        try:
            main()
            left = 0
        except SystemExit as leaving:
            left = leaving.code or 0
    if code is not None:
        assert left == code, out.getvalue() + err.getvalue()
    return left, out.getvalue(), err.getvalue()


def complaint(*words, stdin=""):
    """The one line that a mistake gives, after `Error:`."""
    code, out, err = observant(*words, stdin=stdin)
    assert code == 2, (words, out, err)
    assert out == "", words
    assert err.startswith("Error: "), (words, err)
    assert err.count("\n") == 1, (words, err)
    return err.removeprefix("Error: ").rstrip("\n")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A folder with good and bad files, and a store."""
    folder = tmp_path_factory.mktemp("world")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "latin.csv").write_bytes(
        "source,time,changed\ncaf\xe9,2026-01-01,\n".encode("latin-1")
    )
    (folder / "broken.parquet").write_text("PAR1 is not all there is to it")
    (folder / "folder.csv").mkdir()
    with contextlib.chdir(folder):
        observant("add", "https://a.example/", "--tag", "news", "--later", code=0)
        shutil.copy("observant.db", "future.db")
        with contextlib.closing(sqlite3.connect("future.db")) as store:
            store.execute("INSERT INTO migrations VALUES (999, 'from the future', 1)")
            store.commit()
    return folder


@pytest.fixture(autouse=True)
def _here(world, monkeypatch):
    monkeypatch.chdir(world)


# -- help -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_help_holds_a_promise_and_an_example(words):
    """A promise is one sentence; an example is a line that begins with the command."""
    command = commands()[words]
    promise, *rest = (command.help or "").split("\n\n")
    promise = " ".join(promise.split())
    assert re.fullmatch(r"[A-Z].*[.?]", promise), promise
    assert len(promise) <= 100, promise
    examples = [
        line.strip()
        for part in rest
        for line in part.splitlines()
        if line.strip().startswith(f"observant {' '.join(words)}")
    ]
    assert 1 <= len(examples) <= 4, examples
    for example in examples:
        assert shlex.split(example)[1 : len(words) + 1] == list(words)
    assert max(map(len, examples)) <= 94, "longer than a terminal"


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_examples_use_options_that_are_there(words):
    """Options in an example are those of the command, or of the command it names."""
    for line in (commands()[words].help or "").splitlines():
        if line.strip().startswith("observant "):
            given = shlex.split(line.strip().split(" < ")[0].split(" || ")[0])[1:]
            depth = max(d for d in (1, 2, 3) if tuple(given[:d]) in commands() or d == 1)
            command = commands()[tuple(given[:depth])]
            known = {name for option in options_of(command) for name in option.opts}
            known |= {name for option in options_of(command) for name in option.secondary_opts}
            used = {word for word in given if re.match(r"--?[a-z]", word)}
            assert used <= known, line


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_option_is_explained(words):
    for option in options_of(commands()[words]):
        assert option.help, long_name(option)
        plain = re.sub(r"\s+\[default: .*\]$", "", option.help)
        assert re.fullmatch(r"[A-Z].*[.…]", plain), f"{long_name(option)}: {option.help}"


# Options of one name that mean different things to different commands, and why that is right.
MEANINGS = {
    "--step": "between points of a curve; on a page before it is read",
    "--source": "one source for a distribution; several for a trend or a subscription",
    "--format": "of a table; of another tool's file",
    "--group": "of visits; of updates, where folders are groups too",
    "--skew": "between a page and its server; between an index and a page",
    "--grace": "one; or several at once for an audit",
    "--store": "the one to work on; the one to import into",
    "--tag": "to choose by; to choose by several; to take all of; to give",
    "--host": "to choose by; to choose by several; to listen on",
    "--file": "of addresses with tags, to watch; of addresses, that may have changed",
    "--kind": "of a source; of a signal",
    "--list": "the names to choose from; the tokens",
    "--signals": "recorded beside visits; recorded beside updates, or drawn",
    "--all": "of the dead letters; of the sources",
    "--mask": "secrets of an export; parts of a picture",
    "--pause": "visits to a source; messages of a subscription",
    "--title": "of a source; where titles stand in a list",
    "--term": "what matters in results; what must stand in a change",
    "--threshold": "of a change; of a window",
    "--importance": "a weight; the column of weights",
    "--target": "instead of a period; instead of a budget; of an audit",
    "--visits": "to stop after; to show; to design for",
    "--limit": "of a list; what Singh's threshold limits",
    "--seeds": "a list for a crawler; how many of chance",
    "--forget": "the visits of a source; what was set while it ran",
    "--sources": "to draw; to keep",
    "--rates": "of made-up sources; of a file",
    "--pages": "of the demo's web; of the collection whose cost is asked",
}
FORMS = {
    "--output": r"Write .+ to FILE: Parquet, CSV( or JSON Lines|, JSON Lines or CDXJ) by .+",
    "--plot": r"Draw .+: SVG, PNG or HTML by the ending of FILE.|Draw every figure into FOLDER.+",
}


def test_options_of_one_name_have_one_text_one_type_and_one_letter():
    texts, kinds, letters = defaultdict(set), defaultdict(set), defaultdict(set)
    for words, command in commands().items():
        for option in options_of(command):
            name = long_name(option)
            texts[name].add(re.sub(r"\s+\[default: .*\]$", "", option.help))
            context = click.Context(command, info_name=" ".join(words))
            kinds[name].add(option.make_metavar(context).strip("[]").partition("|")[0].lower())
            letters[name].add(tuple(o for o in option.opts if not o.startswith("--")))
    several = {name for name, found in texts.items() if len(found) > 1}
    assert several <= set(MEANINGS) | set(FORMS), several - set(MEANINGS) - set(FORMS)
    assert set(MEANINGS) <= several, f"no longer needed: {set(MEANINGS) - several}"
    assert {name: n for name, found in texts.items() if (n := len(found)) > 4} == {
        "--output": len(texts["--output"]),
        "--plot": len(texts["--plot"]),
    }
    for name, form in FORMS.items():
        assert [text for text in texts[name] if not re.fullmatch(form, text)] == []
    of_two_kinds = {name for name, found in kinds.items() if len(found) > 1} - set(MEANINGS)
    assert of_two_kinds == {"--plot", "--method", "--state", "--sort"}  # a folder; other choices
    assert {name for name, found in letters.items() if len(found) > 1} <= set(MEANINGS) | {
        "--method"
    }


def test_shared_options_stand_in_one_order():
    for words, command in commands().items():
        names = [long_name(option) for option in options_of(command)]
        # What trend limits by --limit is part of its question, not of how it answers.
        shared = [
            name
            for name in names
            if name in ORDER and not (words == ("study", "trend") and name == "--limit")
        ]
        assert shared == sorted(shared, key=ORDER.index), " ".join(words)
        tail = [
            name
            for name in names
            if name in {"--output", "--plot", "--store", "--config", "--json"}
        ]
        assert names[len(names) - len(tail) :] == tail, " ".join(words)


def test_choices_are_ours_so_that_the_nearest_is_told():
    for words, command in commands().items():
        for option in options_of(command):
            if isinstance(option.type, click.Choice):
                assert isinstance(option.type, Choice), (words, long_name(option))
            assert type(option.type).__name__ not in {"FloatRange", "IntRange", "FloatParamType"}, (
                words,
                long_name(option),
            )


def test_lists_of_commands_are_not_cut_short():
    for words, command in {(): cli, **commands()}.items():
        if isinstance(command, click.Group):
            _, out, _ = observant(*words, "--help", code=0)
            assert "..." not in out.partition("Options:")[2], words
    assert sum(len(section) for section in SECTIONS.values()) == len(COMMANDS)


def test_names_stand_for_what_there_is():
    """The command line knows these names without loading what they stand for."""
    from typing import get_args

    from observant import names
    from observant.estimation.rates import METHODS
    from observant.estimation.season.wall_clock import BINS
    from observant.formats import FORMATS
    from observant.observer.content.rules import Change
    from observant.observer.sources.results import Form
    from observant.planning import OBJECTIVES
    from observant.processes.registry import STATIONARY
    from observant.visits.columns import TIME_UNITS

    methods, intervals = choices("estimate", "--method"), choices("study intervals", "--method")
    assert sorted(methods) == sorted({*METHODS, "auto"})
    made = [name for name, kind in STATIONARY.items() if hasattr(kind, "with_mean")]
    assert list(names.PROCESSES) == list(choices("study trace sample", "--process")) == made
    assert set(intervals) >= {"auto", "concave", "m6"}
    assert tuple(OBJECTIVES) == names.OBJECTIVES
    assert set(names.BINS) == set(BINS)
    assert set(names.TABLE_FORMATS) == set(FORMATS)
    assert set(names.TIME_UNITS) == set(TIME_UNITS)
    assert {*names.CHANGES, "query"} == set(get_args(Change))
    assert get_args(Form) == names.RESULT_FORMS


def choices(words, option):
    (found,) = (o for o in options_of(commands()[tuple(words.split())]) if long_name(o) == option)
    return found.type.choices


# -- `observant` alone ----------------------------------------------------------------------------


def test_alone_it_says_what_to_do_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, out, _ = observant(code=0)
    assert out.startswith(
        "There is no store here yet (observant.db). First steps:\n  observant demo"
    )
    assert "observant --help" in out
    assert list(tmp_path.iterdir()) == []  # looking makes nothing
    observant("add", "https://a.example/", "https://b.example/", "--later", code=0)
    _, out, _ = observant(code=0)
    assert out.startswith("observant.db: 2 sources; no visit yet.\n  observant serve")
    with contextlib.closing(sqlite3.connect("observant.db")) as store:
        store.execute(
            "UPDATE sources SET failed_in_row = 2, visits = 4, visited_at = 1 WHERE id = 1"
        )
        store.commit()
    _, out, _ = observant(code=0)
    assert re.match(r"observant.db: 2 sources, 1 failing; 4 visits, the last .*y ago\.", out)
    assert "--sort failed_in_row" in out
    observant("remove", "a.example", "b.example", code=0)
    assert "observant add" in observant(code=0)[1]


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:secret@127.0.0.1:1/x",
        "postgresql://me:very secret@127.0.0.1:1/x",
        "postgresql://me:very@secret@127.0.0.1:1/x",
        "postgresql://me:secret@127.0.0.1:port/x",
        "postgresql://127.0.0.1:1/x?user=me&password=secret",
        "postgresql://me:secret@127.0.0.1:1/x?nonsense=1",
        "mysql://me:secret@127.0.0.1/x",
        "postgresql:me:secret@127.0.0.1/x",
    ],
)
def test_a_password_in_the_address_of_a_database_is_never_echoed(address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in (["list"], ["add", "https://example.org/", "--later"], ["store", "doctor"]):
        _, out, err = observant(*words, "--store", address, code=None)
        assert "Error: " in err
        assert "secret" not in out + err


def test_alone_it_finds_the_store_that_is_configured(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "observant.toml").write_text('store = "mine.db"')
    assert "(mine.db)" in observant(code=0)[1]
    monkeypatch.setenv("OBSERVANT_STORE", "postgresql://me:secret@db.example/watch")
    _, out, _ = observant(code=0)
    assert "postgresql://me@db.example/watch" in out
    assert "secret" not in out
    monkeypatch.setenv("OBSERVANT_STORE", "text.db")
    (tmp_path / "text.db").write_text("no database at all" * 99)
    assert "observant store doctor --store text.db" in observant(code=0)[1]


def test_alone_it_loads_nothing_heavy(tmp_path):
    script = (
        "import sys\nfrom observant.cli import main\nsys.argv = ['observant']\n"
        "try:\n    main()\nfinally:\n"
        "    heavy = {'numpy', 'pyarrow', 'numba', 'scipy', 'rich', 'msgspec'} & set(sys.modules)\n"
        "    sys.exit(1 if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=False)  # noqa: S603
    assert done.returncode == 0


# -- mistakes -------------------------------------------------------------------------------------

READING = {
    "estimate": ("estimate",),
    "study intervals": ("study", "intervals"),
    "study trend": ("study", "trend"),
    "study population": ("study", "population"),
    "plan": ("plan", "--budget", "9/day"),
    "simulate": ("simulate", "--budget", "9/day"),
    "study audit": ("study", "audit"),
    "currency": ("currency", "--period", "1d", "--rates"),
    "study trace show": ("study", "trace", "show"),
    "study trace visits": ("study", "trace", "visits", "-o", "made.csv"),
    "study trace releases": ("study", "trace", "releases", "-o", "made.csv"),
    "study trace git": ("study", "trace", "git", "-o", "made.csv"),
    "import": ("import", "-o", "made.csv"),
    "add": ("add", "--file"),
    "store restore": ("store", "restore", "--store", "made.db"),
    "settings import": ("settings", "import"),
    "settings importance": ("settings", "importance"),
}
"""Commands that read a file, which comes last."""


def test_all_commands_that_read_a_file_are_tried():
    """Which ones do follows from their arguments."""
    reading = {"VISITS", "RATES", "CLAIMS", "TRACE", "FILE", "FILES", "PATH", "VISITS...", "LOG"}
    writing = {"store export", "store backup", "settings export"}
    found = set()
    for words, command in commands().items():
        for param in command.params:
            if isinstance(param, click.Argument):
                shown = (param.metavar or param.name or "").strip("[].").upper()
                if shown in reading or isinstance(param.type, click.Path):
                    found.add(" ".join(words))
    assert found - writing - {"currency", "add"} == set(READING) - {"currency", "add"}


@pytest.mark.parametrize("file", ["nowhere.csv", "empty.csv", "folder.csv", "latin.csv", "odd.xyz"])
@pytest.mark.parametrize("words", READING.values(), ids=READING)
def test_a_bad_file_is_named(words, file):
    if words[0] == "import" and file == "latin.csv":
        assert "1 row" in complaint(*words, file)  # rows that cannot be read are counted
    else:
        assert file in complaint(*words, file)


STORED = [
    words for words, command in commands().items() if "store" in {p.name for p in command.params}
]
ARGUMENTS = {
    "SOURCE": "a.example", "SOURCES": "a.example", "NAME": "x", "NAMES": "x", "URL": "https://x.example/",
    "CHANNEL": "https://x.example/", "FILE": "made.xyz", "NUMBER": "1", "IDS": "1",
    "ADDRESSES": "https://x.example/", "FILES": "visits.csv", "CLAIMS": "claims.csv",
}  # fmt: skip


def called(words):
    """A command with an argument for each that it must have."""
    needed = [
        param
        for param in commands()[words].params
        if isinstance(param, click.Argument) and (param.required or param.nargs == -1)
    ]
    return [*words, *(ARGUMENTS[param.name.upper().rstrip("_")] for param in needed)]


@pytest.mark.parametrize("words", STORED, ids=" ".join)
def test_a_store_that_cannot_be_used_is_named(words):
    given = called(words)
    if words == ("study", "audit"):
        given = ["study", "audit", "--query", "x"]
    if words == ("study", "reproduce"):
        given = ["study", "reproduce", "brewington-figure-3.4"]
    if words == ("settings", "change"):
        given += ["--budget", "9/day"]
    if words == ("access", "token"):
        given += ["--list"]
    if words == ("notify", "log"):
        given += ["--retry"]
    if words == ("settings", "import"):
        given[-1] = "export.json"
        observant("settings", "export", "export.json")
    if words == ("store", "restore"):
        given[-1] = "observant.db"
    password = "a long password\n"  # noqa: S105 - of no account
    assert "text.db: is not a SQLite database" in complaint(
        *given, "--store", "text.db", stdin=password
    )
    assert re.search(
        "future.db.* newer observant", complaint(*given, "--store", "future.db", stdin=password)
    )
    assert "folder.csv" in complaint(*given, "--store", "folder.csv", stdin=password)
    if "config" in {param.name for param in commands()[words].params}:
        Path("wrong.toml").write_text("[limits]\ntotl = 3\n")
        told = complaint(*given, "--config", "wrong.toml", stdin=password)
        assert re.search("wrong.toml.*`totl`; did you mean `total`", told)
        assert "nowhere.toml" in complaint(*given, "--config", "nowhere.toml", stdin=password)


def good(words):
    """How a command is called rightly, before a mistake is added."""
    read = READING.get(" ".join(words))
    name = {"plan": "rates.csv", "audit": "claims.csv", "simulate": "updates.csv"}
    if words == ("add",):
        return [*words, "https://x.example/"]
    if words == ("study", "design"):
        return [*words, "--rate", "1", "--visits", "9"]
    if words == ("currency",):
        return [*words, "--rate", "1", "--period", "1d"]
    return called(words) if read is None else [*read, name.get(words[0], "visits.csv")]


BAD = {
    "duration": ("soon", "-1d", "nan"),
    "durations": ("soon", ","),
    "rate": ("often", "-1"),
    "rates": ("often", ","),
    "budget": ("0", "-1/day", "1e300/day"),
    "size": ("big", "0"),
    "share": ("35", "nan"),
    "number": ("nan", "inf", "x"),
    "integer": ("1.5", "-1e9"),
    "zone": ("Mars",),
    "network": ("lan",),
}
"""Values that no option of this type takes."""


def mistakes():
    """Every option of every command with values that it cannot take."""
    for words, command in commands().items():
        if isinstance(command, click.Group):
            continue
        for option in options_of(command):
            if isinstance(option.type, click.Choice):
                yield words, *spelled(option, option.type.choices[0] + "x")
            for value in BAD.get(getattr(option.type, "name", ""), ()):
                yield words, *spelled(option, value)


def test_a_value_that_cannot_be_is_told_with_its_option():
    seen = set()
    for words, given, option in mistakes():
        told = complaint(*good(words), *given)
        assert told.startswith(f"{option}: "), (words, given, told)
        assert f"(see observant {' '.join(words)} --help)" in told
        seen.add(words)
    assert len(seen) > 20


def test_what_is_misspelt_is_mended():
    for words, command in commands().items():
        wrong = [*words[:-1], f"{words[-1]}x"]
        assert f"did you mean {words[-1]}?" in complaint(*wrong)
        if not isinstance(command, click.Group) and options_of(command):
            told = complaint(*good(words), "--jsn")
            assert "there is no option --jsn; did you mean --" in told, words
    assert "there is no option --level (see observant estimate" in complaint(
        "estimate", "visits.csv", "--level", "0.9"
    )
    assert "there is no command 'zzz' (see observant --help)" in complaint("zzz")
    assert complaint("run", "--objective", "fresh").startswith(
        "--objective: there is no 'fresh'; did you mean freshness?"
    )
    assert complaint("list", "--stat", "x").startswith(
        "there is no option --stat; did you mean --state"
    )


def test_what_is_missing_is_named():
    for words, command in commands().items():
        if any(isinstance(param, click.Argument) and param.required for param in command.params):
            assert re.match(r"[A-Z.]+ is missing", complaint(*words)), words


def test_sources_that_are_not_there_are_named():
    for words in (("show",), ("check",), ("diff",), ("edit", "--pause"), ("remove",)):
        assert "'nowhere'" in complaint(*words, "nowhere")
    for words in (("notify", "remove"), ("notify", "test"), ("access", "remove")):
        assert "'nowhere'" in complaint(*words, "nowhere")
    assert "'nowhere'" in complaint("edit", "--pause", "--tag", "nowhere")
    assert "'nowhere'" in complaint("study", "intervals", "visits.csv", "--source", "nowhere")
    assert "'nowhere'" in complaint("notify", "log", "--subscription", "nowhere")
    assert "token 99" in complaint("access", "token", "99", "--revoke")


@pytest.mark.slow
def test_a_file_that_cannot_be_written_is_named():
    for words in (
        ("estimate", "visits.csv", "-o"),
        ("plan", "rates.csv", "--budget", "1/day", "-o"),
        ("study", "trend", "visits.csv", "-o"),
        ("import", "visits.csv", "-o"),
        ("store", "export"),
        ("study", "trace", "sample", "--sources", "3", "-o"),
    ):
        assert "nowhere/x.csv: cannot be written" in complaint(*words, "nowhere/x.csv")
        assert "made.xyz" in complaint(*words, "made.xyz")
        assert "folder.csv" in complaint(*words, "folder.csv")
    assert "nowhere/x.svg" in complaint("estimate", "visits.csv", "--plot", "nowhere/x.svg")
    assert "x.gif" in complaint("estimate", "visits.csv", "--plot", "x.gif")
    assert "nowhere" in complaint("store", "backup", "nowhere/x.db")


@pytest.mark.parametrize(
    "words",
    [
        ("estimate", "visits.csv"),
        ("plan", "rates.csv", "--budget", "1/day"),
        ("currency", "--period", "1d", "--rates", "rates.csv"),
        ("study", "trend", "visits.csv"),
        ("study", "trace", "visits", "visits.csv"),
        ("import", "visits.csv"),
    ],
    ids=" ".join,
)
def test_an_answer_is_never_written_over_what_is_read(words, world):
    file = next(word for word in words if word.endswith(".csv"))
    before = (world / file).read_bytes()
    for name in (file, f"./{file}", world / file):
        assert f"{file}: is what is read here" in complaint(*words, "-o", name)
    assert (world / file).read_bytes() == before


def test_what_a_wildcard_finds_is_read_too(world):
    before = (world / "visits.csv").read_bytes()
    assert "visits.csv: is what is read here" in complaint("import", "visits*", "-o", "visits.csv")
    assert (world / "visits.csv").read_bytes() == before


def test_a_demo_replaces_no_store_but_that_of_a_demo(world):
    before = (world / "observant.db").read_bytes()
    assert "observant.db: this store is not of a demo" in complaint("demo", "-d", ".")
    assert (world / "observant.db").read_bytes() == before


def test_a_long_address_is_no_file():
    told = complaint("add", f"example.org?q={'a' * 300}")
    assert told.startswith("source 'example.org?q=")


def test_a_folder_is_no_store():
    assert complaint("list", "--store", "folder.csv").startswith("folder.csv: is a folder")


def test_a_store_is_no_log():
    assert "observant store export" in complaint("estimate", "observant.db")


def test_too_much_to_ask_is_told():
    assert "more memory" in complaint(
        "study", "trace", "sample", "--rates", "1e12", "-o", "made.csv"
    )


# -- JSON -----------------------------------------------------------------------------------------

ANSWERS = [
    "estimate visits.csv",
    "study intervals visits.csv --bands 0",
    "study trend visits.csv",
    "study trend updates.csv",
    "study population visits.csv",
    "study design --rate 1/7d --visits 9",
    "currency --rate 1 --period 1d",
    "plan rates.csv --budget 9/day",
    "study audit claims.csv",
    "study trace sample --sources 3 -o made.csv",
    "study trace show updates.csv",
    "study reproduce --list",
    "import --list",
    "import visits.csv --dry-run",
    "list",
    "show a.example",
    "query",
    "notify",
    "notify log",
    "notify log --state dead",
    "settings",
    "access",
    "access token --list",
    "store doctor",
    "store export made.csv",
    "edit --pause --tag news",
    "edit --resume --tag news",
    "settings change --budget 9/day",
    "access token x",
]


@pytest.mark.slow
@pytest.mark.parametrize("line", ANSWERS)
def test_json_is_json_and_nothing_else(line):
    _, out, err = observant(*line.split(), "--json", code=0)
    json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert err == ""
    _, text, _ = observant(*line.split(), code=0)
    assert "Traceback" not in text


def test_old_spellings_work_and_tell_the_new_one():
    """Each of 0.1 leads to a command that is there."""
    for old, new in OLD.items():
        words = [word for word in new.split() if word[0] != "-" and word != "dead"]
        assert tuple(words) in commands(), old
        _, out, err = observant(*old.split(), "--help", code=0)
        assert out.startswith(f"Usage: observant {' '.join(words)}"), old
        assert err == f"`observant {old}` is `observant {new}` now.\n"
    assert observant("notifications", "dead", "--json", code=0)[1] == "[]\n"


def test_rare_settings_are_given_by_set():
    """It takes what the option of that name takes, says which there are, and mends a name."""
    url = "https://set.example/"
    rules = ("xpath=//h1", "drop=.a", "drop=.b", "robots=no", "header=Accept: -x", "ignore=a=b")
    given = [word for rule in rules for word in ("--set", rule)]
    observant("add", url, "--later", *given, code=0)
    config = json.loads(observant("show", url, "--json", code=0)[1])["settings"]
    assert config["compare"] == {"xpath": "//h1", "ignore": ["a=b"], "drop": [".a", ".b"]}
    assert (config["robots"], config["headers"]) == (False, {"Accept": "•••"})
    observant("edit", url, "--set", "xpath=", "--set=robots=yes", "--set", "max_period=2d", code=0)
    config = json.loads(observant("show", url, "--json", code=0)[1])["settings"]
    assert "xpath" not in config["compare"]
    assert "robots" not in config
    assert config["max_period"] == "2d"
    _, _, err = observant("edit", url, "--regex", "x+", "--dry-run", code=0)
    assert err == "`--regex` is `--set regex=…` now.\n"
    listed = observant("add", "--set", "help", code=0)[1]
    hidden = [o for o in options_of(commands()["add",]) if o.hidden]
    assert len(hidden) > 15
    assert all(option.help.split("  ")[0].split()[0] in listed for option in hidden)
    assert "no setting 'xpth'; did you mean xpath?" in complaint("edit", url, "--set", "xpth=1")
    assert "no setting 'pause'; --set help" in complaint("edit", url, "--set", "pause=no")
    assert "xpath needs a value" in complaint("add", url, "--set", "xpath=")
    assert "xpath needs a value" in complaint("edit", url, "--set", "xpath")
    assert "robots is yes or no, not 'maybe'" in complaint("edit", url, "--set", "robots=maybe")
    observant("remove", url, "--forget", code=0)
    asked = {"COMP_WORDS": "observant add --set xp", "COMP_CWORD": "3"}
    env = {"_OBSERVANT_COMPLETE": "bash_complete", **asked}
    assert run_here(cwd=".", env=env)[1].split() == ["plain,xpath="]


def test_what_every_command_takes_may_stand_before_it():
    """--store, --config and --json: before the command, within a group, or after it."""
    after = observant("list", "--store", "observant.db", "--json", code=0)[1]
    assert json.loads(after)["sources"]
    assert observant("--store", "observant.db", "--json", "list", code=0)[1] == after
    assert json.loads(observant("--json", "access", "token", "--list", code=0)[1]) == json.loads(
        observant("access", "--json", "token", "--list", code=0)[1]
    )
    assert "text.db: is not" in complaint("--store", "text.db", "settings", "change", "--forget")
    assert "nowhere.toml" in complaint("--config", "nowhere.toml", "list")
    assert "text.db" in observant("--store", "text.db", code=0)[1]
    assert json.loads(observant("--json", code=0)[1])["next"]


def test_an_option_before_a_command_that_does_not_have_it_is_a_mistake():
    for words, path in (
        (("--store", "s.db", "estimate", "v.csv"), "observant estimate"),
        (("--config", "o.toml", "study", "trend", "v.csv"), "observant study trend"),
        (("--json", "completion", "bash"), "observant completion"),
    ):
        told = complaint(*words)
        assert told.startswith(f"`{path}` takes no {words[0]}: leave it out")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_are_given_their_completion(shell):
    _, out, _ = observant("completion", shell, code=0)
    assert "_OBSERVANT_COMPLETE" in out
    assert "nearest" not in complaint("completion", "tcsh")
    if shell == "bash":  # what the shell would ask
        asked = {"COMP_WORDS": "observant study tr", "COMP_CWORD": "2"}
        env = {"_OBSERVANT_COMPLETE": "bash_complete", **asked}
        assert run_here(cwd=".", env=env)[1].split() == ["plain,trend", "plain,trace"]


def test_markup_of_strangers_is_shown_as_it_is():
    _, out, _ = observant("estimate", "visits.csv", code=0)
    assert "https://0.example/x[/y]" in out


# -- leaving --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_reader_that_has_had_enough_is_no_error():
    for words in (("--help",), ("estimate", "visits.csv"), ("list",)):
        command = shlex.join([sys.executable, "-m", "observant", *words])
        line = f"set -o pipefail; {command} | true"
        done = subprocess.run(["bash", "-c", line], capture_output=True, check=False)  # noqa: S603, S607
        assert (done.returncode, done.stderr) == (0, b""), words


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device here is always full")
def test_a_disk_that_is_full_is_told_in_one_line():
    for words in (("--help",), ("estimate", "visits.csv", "--json"), ("estimate", "visits.csv")):
        command = shlex.join([sys.executable, "-m", "observant", *words])
        for line, code, told in (
            (f"{command} > /dev/full", 2, "Error: the answer cannot be printed: No space"),
            (f"{command} >&-", 0, ""),
        ):
            done = subprocess.run(["bash", "-c", line], capture_output=True, check=False)  # noqa: S603, S607
            err = done.stderr.decode()
            assert (done.returncode, err.count("\n")) == (code, bool(told)), (line, err)
            assert err.startswith(told), line


@pytest.mark.slow
def test_ctrl_c_does_not_reach_the_processes_of_a_demo():
    import multiprocessing
    import signal

    from observant.observer.synthetic.server import start_deaf

    before = signal.getsignal(signal.SIGINT)
    process = multiprocessing.get_context("spawn").Process(
        target=signal.raise_signal, args=(signal.SIGINT,)
    )
    start_deaf(process)
    process.join(PATIENCE)
    assert process.exitcode == 0
    assert signal.getsignal(signal.SIGINT) is before


def test_first_visits_that_are_cut_short_say_what_stays(monkeypatch, tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("observant.cli.add.look_at_new", stop)
    code, _, err = observant("add", "--file", "addresses.txt", "--store", tmp_path / "new.db")
    assert (code, err.splitlines()[-1]) == (130, "Stopped.")
    assert "1 source added to" in err
    _, out, _ = observant("list", "--store", tmp_path / "new.db", code=0)
    assert "https://c.example/" in out


def test_ctrl_c_is_one_word(monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("observant.formats.read_visits", stop)
    code, out, err = observant("estimate", "visits.csv")
    assert (code, out, err.strip()) == (130, "", "Stopped.")
