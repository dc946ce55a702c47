"""Tables read well at 80 columns: columns go by importance, and no word is ever cut."""

import io
import json
import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from observant.cli import console
from observant.observer.config import Config
from observant.service.collection import Collection, NewSource
from observant.store import Posterior, Subscription, Visit, open_store

from .command_line import run_here

CUT = re.compile(r"\S…(?=\s|$)")
NAME = "https://really-long-host-name-{}.example.org/some/very/long/path/to/a/page-{}.html"


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.tuples(*[st.lists(st.text("abc", min_size=1, max_size=14), max_size=4)] * 4),
        min_size=1,
        max_size=4,
    ),
    width=st.integers(20, 120),
)
def test_every_word_of_a_table_is_printed_whole(rows, width):
    cells = [tuple(" ".join(words) for words in row) for row in rows]
    columns = ("name", "first", "second column", "third")
    with pytest.MonkeyPatch.context() as patch:
        out = io.StringIO()
        patch.setattr(console, "terminal", lambda *_: Console(file=out, width=width))
        console.print_table(columns, cells, words=("third",))
    lines = out.getvalue().splitlines()
    as_cards = not any(line.startswith("name ") for line in lines)
    assert as_cards or max(map(len, lines)) <= width
    printed = out.getvalue().split()
    for row in rows:
        for words in row[1:]:
            assert set(words) <= set(printed)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("narrow")
    visits = ["source,time,changed"]
    for n in range(6):
        visits += [
            f"{NAME.format(n, n)},2026-01-{day:02},{int(day * (n + 1) % 5 == 0)}"
            for day in range(1, 28)
        ]
    (made / "visits.csv").write_text("\n".join(visits))
    updates = [f"{NAME.format(n, n)},2026-01-{d:02}" for n in range(3) for d in range(1, 25, n + 1)]
    (made / "updates.csv").write_text("\n".join(["source,time", *updates]))
    with open_store(made / "o.db") as store:
        collection = Collection(store, Config())
        now = collection.now()
        for n in range(4):
            name = NAME.format(n, n)
            collection.sources.add(NewSource(url=name, title="A title of many words", tags=("a",)))
            found = "failed" if n == 3 else "first"
            error = "refused-address" if n == 3 else None
            visit = Visit(
                source=name,
                started_at=now - 9e5,
                ended_at=now - 9e5 + 1,
                outcome=found,
                error=error,
            )
            posterior = Posterior(data=b"", rate=0.03, rate_low=0.012, rate_high=0.34)
            store.visits.record(visit, posterior=posterior, due_at=now + 4e5)
        store.subscriptions.add(
            Subscription(name="a rather long name", channel="https://hook.example/" + "x" * 60)
        )
        collection.cache.close()
    return made


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    """A terminal of 80 columns, whatever the standard output is at the time."""

    def terminal(*_):
        return Console(file=sys.stdout, width=80, highlight=False)

    monkeypatch.setattr(console, "terminal", terminal)


COMMANDS = {
    "list": ["list", "--store", "o.db"],
    "show": ["show", "page-3", "--store", "o.db"],
    "notify": ["notify", "--store", "o.db"],
    "notify log": ["notify", "log", "--store", "o.db"],
    "estimate": ["estimate", "visits.csv"],
    "estimate in classes": ["estimate", "visits.csv", "--classes", "1d,7d,30d"],
    "plan": ["plan", "visits.csv", "--budget", "10/day"],
    "intervals": ["intervals", "visits.csv"],
    "trend": ["trend", "updates.csv"],
    "simulate": ["simulate", "updates.csv", "--budget", "0.5/source/day"],
}


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_at_80_columns_no_word_is_cut_and_no_line_is_too_long(folder, command):
    code, out, told = run_here(*COMMANDS[command], cwd=folder)
    assert code == 0, told
    tables = out.partition("\nnote")[0]
    assert not [cut for cut in CUT.findall(tables) if "…and" not in cut], out
    assert out.strip()


@pytest.mark.slow
def test_the_list_of_sources_at_80_columns_says_name_rate_and_state(folder):
    _, out, _ = run_here("list", "--store", "o.db", cwd=folder)
    head, *rows = out.splitlines()
    assert head.split() == ["source", "rate", "next", "visit", "state"] or "state" in head
    assert max(map(len, out.splitlines())) <= 80
    assert "a private network" in " ".join(out.split())
    assert rows
    _, wide, _ = run_here("list", "--store", "o.db", "--json", cwd=folder)
    assert json.loads(wide)["total"] == 4
