"""The commands about a store, as a person would run them."""

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import feedparser
import pytest
from rich.console import Console

from observant.store import open_store

from .command_line import run_here
from .observer_world import Site
from .patience import PATIENCE, free_port, until
from .service_world import World


def command(*words):
    return [sys.executable, "-m", "observant", *map(str, words)]


def observant(*words, cwd, code=0, env=None, stdin=""):
    left, out, err = run_here(*words, cwd=cwd, env=env, stdin=stdin.encode())
    assert left == code, out + err
    return out, err


@pytest.fixture
def web():
    """A page that can be changed, on loopback."""
    texts = {"/": "the first text of this page"}
    site = Site(texts.get)
    yield site.url, texts
    site.close()


def test_from_add_to_restore(web, tmp_path):
    """One long walk: add, list, check, diff, show, pause, run, export, backup, doctor, restore."""
    url, texts = web
    local = ("--allow", "127.0.0.0/8")

    out, _ = observant(
        "add",
        url,
        "--later",
        "--tag",
        "news",
        "--importance",
        3,
        "--min-period",
        "100ms",
        cwd=tmp_path,
    )
    assert "1 source added to observant.db" in out
    out, _ = observant("add", url, "--json", cwd=tmp_path)
    same = {"added": 0, "known": 1, "changed": 0, "edited": [], "sources": [url], "found": []}
    assert json.loads(out) == same

    # Nothing goes to a private address unless it is allowed.
    out, _ = observant("check", url, "--json", cwd=tmp_path)
    assert json.loads(out)[0]["error"] == "refused-address"

    out, _ = observant("check", url, *local, "--json", cwd=tmp_path)
    assert json.loads(out)[0]["outcome"] == "first"
    texts["/"] = "the second text of this page"
    out, _ = observant("check", "127.0.0.1", *local, "--exit-code", cwd=tmp_path, code=10)
    assert "changed" in out

    out, _ = observant("diff", url, cwd=tmp_path)
    assert "first" in out
    assert "second" in out
    observant("diff", url, "--from", 5, cwd=tmp_path, code=2)

    out, _ = observant("list", "--tag", "news", "--json", cwd=tmp_path)
    listed = json.loads(out)
    assert listed["total"] == 1
    assert listed["sources"][0]["importance"] == 3.0
    assert listed["sources"][0]["changes"] == 1
    out, _ = observant("list", cwd=tmp_path)
    assert "127.0.0.1" in out

    out, _ = observant("show", url, cwd=tmp_path)
    assert re.search(r"visits +3, 1 change, 1 failed", out)
    out, _ = observant("show", url, "--json", cwd=tmp_path)
    shown = json.loads(out)
    assert [v["outcome"] for v in shown["last_visits"]] == ["changed", "first", "failed"]
    assert shown["settings"]["importance"] == 3.0

    assert "active → paused" in observant("edit", "--tag", "news", "--pause", cwd=tmp_path)[0]
    _, err = observant("run", "--for", "1s", *local, cwd=tmp_path, code=2)
    assert "nothing to watch" in err
    assert "paused → active" in observant("edit", url, "--resume", cwd=tmp_path)[0]

    out, _ = observant(
        "run", "--budget", "5/s", "--for", "3s", *local, "--json", "--log", "json",
        "--metrics", "m.txt", cwd=tmp_path,
    )  # fmt: skip
    status = json.loads(out)
    assert status["sources"] == 1
    assert 0 <= status["alpha_low"] <= status["alpha"] <= status["alpha_high"] <= 1
    metrics = (tmp_path / "m.txt").read_text()
    assert metrics.endswith("# EOF\n")
    for name in ("alpha", "price", "lateness", "spent_total", "visits_total", "changes_total"):
        assert f"observant_{name}" in metrics

    out, _ = observant("store", "export", "v.parquet", "--json", cwd=tmp_path)
    visits = json.loads(out)["visits"]
    assert visits >= 3
    assert "visits" in observant("estimate", "v.parquet", cwd=tmp_path)[0]
    observant("store", "export", "v.csv", cwd=tmp_path)
    observant("store", "export", "changes.atom", cwd=tmp_path)
    assert feedparser.parse(tmp_path / "changes.atom").entries
    observant("store", "export", "sources.opml", cwd=tmp_path)
    assert "<outline" in (tmp_path / "sources.opml").read_text()
    assert (tmp_path / "v.csv").read_text().count("\n") == visits + 1

    observant("store", "backup", "copy.db", cwd=tmp_path)
    assert "is sound" in observant("store", "doctor", cwd=tmp_path)[0]
    assert json.loads(observant("store", "doctor", "--json", cwd=tmp_path)[0]) == []

    assert "1 source removed" in observant("remove", url, "--forget", cwd=tmp_path)[0]
    assert json.loads(observant("list", "--json", cwd=tmp_path)[0])["total"] == 0
    out, _ = observant("store", "restore", "copy.db", "--store", "new.db", "--json", cwd=tmp_path)
    assert json.loads(out)["visits"] == visits
    env = {"OBSERVANT_STORE": "new.db"}
    assert json.loads(observant("list", "--json", cwd=tmp_path, env=env)[0])["total"] == 1


def test_lists_sitemaps_feeds_and_configuration(web, tmp_path):
    url, texts = web
    pages = "".join(f"<url><loc>{url}p{k}</loc></url>" for k in range(4))
    texts["/sitemap.xml"] = f"<urlset>{pages}</urlset>"
    (tmp_path / "observant.toml").write_text(
        'allow = ["127.0.0.0/8"]\nstore = "there.db"\n'
        '[tags.fast]\nmin_period = "1s"\nimportance = 4\n'
    )
    out, _ = observant("add", "--sitemap", f"{url}sitemap.xml", "--json", cwd=tmp_path)
    assert json.loads(out)["added"] == 4
    listed = f"# mine\n{url}a fast, red\n\n{url}b\n"
    out, _ = observant("add", "--file", "-", "--json", cwd=tmp_path, stdin=listed)
    assert json.loads(out)["added"] == 2
    observant("add", "--feed", f"{url}feed", cwd=tmp_path)
    assert (tmp_path / "there.db").exists()
    out, _ = observant("show", f"{url}a", "--json", cwd=tmp_path)
    shown = json.loads(out)
    assert shown["tags"] == ["fast", "red"]
    assert shown["in_force"]["min_period"] == "1s"
    assert shown["in_force"]["importance"] == 4.0  # that of its tag
    observant("add", f"{url}c", "--tag", "fast", "--importance", 1, cwd=tmp_path)
    out, _ = observant("show", f"{url}c", "--json", cwd=tmp_path)
    assert json.loads(out)["in_force"]["importance"] == 1.0  # its own
    out, _ = observant("list", "--json", cwd=tmp_path)
    assert json.loads(out)["total"] == 8


def test_a_sitemap_on_a_private_network(web, tmp_path):
    url, texts = web
    texts["/sitemap.xml"] = f"<urlset><url><loc>{url}p</loc></url></urlset>"
    asked = ("add", "--sitemap", f"{url}sitemap.xml", "--json")
    _, err = observant(*asked, cwd=tmp_path, code=2)
    assert "allow" in err
    out, _ = observant(*asked, "--allow", "127.0.0.0/8", cwd=tmp_path)
    assert json.loads(out)["added"] == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["add"], "nothing to add"),
        (["add", "gopher://x/"], "only http:// and https://"),
        (["add", "http://a.example/", "--css", "p["], "CSS"),
        (["add", "http://a.example/", "--min-period", "soon"], "unknown unit"),
        (["add", "http://a.example/", "--set", "active=never"], "no active hours"),
        (["add", "http://a.example/", "--set", "header=nonsense"], "NAME:VALUE"),
        (["add", "ls", "--kind", "command"], "configuration file"),
        (["add", "x", "--kind", "telepathy"], "no kind of source"),
        (["add", "--file", "none.txt"], "cannot be read"),
        (["add", "addresses.txt"], "--file addresses.txt watches the addresses in it"),
        (["list", "--store", "none.db"], "none.db"),
        (["check", "x", "--store", "none.db"], "none.db"),
        (["run", "--budget", "much"], "not a budget"),
        (["run", "--config", "none.toml"], "cannot be read"),
    ],
)
def test_mistakes_get_one_line(words, complaint, tmp_path):
    (tmp_path / "addresses.txt").write_text("https://example.org/\n")
    _, err = observant(*words, cwd=tmp_path, code=2)
    assert complaint in err
    assert err.count("\n") == 1


def test_ctrl_c_ends_a_run_politely_and_metrics_are_served(web, tmp_path):
    url, _ = web
    observant("add", url, cwd=tmp_path)
    port = free_port()
    words = ("run", "--allow", "127.0.0.0/8", "--budget", "2/s", "--metrics", port, "--json")
    child = subprocess.Popen(  # noqa: S603
        command(*words), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )

    def metrics():
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE
            ) as answer:
                text = answer.read().decode()
        except OSError:
            assert child.poll() is None
            return None
        return text if 'observant_visits_total{outcome="first"} 1.0' in text else None

    text = until(metrics, "a first visit", every=0.2)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0, err
    assert "observant_alpha " in text
    assert json.loads(out)["visits"] >= 1
    assert "Traceback" not in err
    assert "is sound" in observant("store", "doctor", cwd=tmp_path)[0]


def test_a_second_ctrl_c_abandons_visits_under_way_in_a_word(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        observant("add", url, "--later", cwd=tmp_path)
        child = subprocess.Popen(  # noqa: S603
            command("run", "--allow", "127.0.0.0/8"),
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )
        silent.settimeout(PATIENCE)
        connection, _ = silent.accept()
        with connection:  # which is never answered
            child.send_signal(signal.SIGINT)
            for line in child.stderr:
                if "ending after the visit under way; once more to abandon it" in line:
                    break
            child.send_signal(signal.SIGINT)
            err = child.communicate(timeout=PATIENCE)[1]
    assert child.returncode == 130
    assert "Traceback" not in err
    assert err.endswith("Stopped.\n")
    observant("store", "doctor", cwd=tmp_path)


def test_demo(tmp_path):
    out, err = observant("demo", "--pages", 100, "--seconds", 4, "-d", "here", cwd=tmp_path)
    # The replay of the history is exact: the same on every machine. What our policy makes of it may
    # change with the policy, and must stay well ahead.
    for who, stale, visits in (
        ("all equally often", "9.1 %", 60),
        ("as Apache Nutch does", "9.3 %", 59),
        ("as Heritrix does", "9.6 %", 56),
    ):
        assert re.search(rf"{who} +{stale} +{visits}\n", out), who
    stale, visits = re.search(r"as observant does +([\d.]+) % +(\d+)\n", out).groups()
    assert float(stale) < 7.8
    assert int(visits) > 72
    assert re.search(r"With observant \d+ % fewer copies are out of date", out)
    assert re.search(r"that would take \d+ % more visits", out)
    assert out.count("with every rate known") == 2
    assert "of its copies were fresh" in out
    for step in (
        "Visiting them equally often",
        "Visiting them as observant",
        "Watching",
        "Drawing",
    ):
        assert re.search(rf"^{step}.* \([\d.]+ s\)$", err, re.MULTILINE), step
    made = ["demo", "observer"]
    assert {"visits.parquet", "rates.parquet", "history.parquet", "observant.db"} | {
        f"{name}.{ending}" for name in made for ending in ("svg", "png")
    } <= {p.name for p in (tmp_path / "here").iterdir()}
    # What it prints can be typed.
    commands = re.findall(r"^  observant (.+)$", out, re.MULTILINE)
    assert len(commands) == 4
    for command in commands[1:]:  # `serve` runs until it is stopped
        observant(*command.split(), cwd=tmp_path)


def test_many_are_checked_at_once_with_codes_that_mean_something(web, tmp_path):
    url, texts = web
    texts |= {"/a": "the first text", "/b": "another text"}
    local = ("--allow", "127.0.0.0/8")
    out, err = observant(
        "add", f"{url}a", f"{url}b", f"{url}none", "--tag", "t", *local, cwd=tmp_path
    )
    assert "3 sources added" in out
    assert "Looked at 3 pages: 2 seen." in err
    assert "none: not found (404) (correct the address" in err
    out, _ = observant("check", "--tag", "t", *local, cwd=tmp_path)
    assert out.count("  same  ") == 2
    observant("check", "--all", "--exit-code", *local, cwd=tmp_path, code=11)
    texts["/a"] = "the second text"
    observant("check", "--all", "--exit-code", *local, cwd=tmp_path, code=10)
    _, err = observant("check", "--tag", "nobody", *local, cwd=tmp_path, code=2)
    assert "no active source has the tag 'nobody'" in err
    out, _ = observant("list", cwd=tmp_path)
    assert "not found (404); never seen" in out
    _, err = observant("check", f"{url}a", cwd=tmp_path)
    assert 'What helps against "a private network": allow its network: --allow NETWORK' in err
    out, err = observant("list", cwd=tmp_path)
    assert re.search(r"\n\S+ +\? ", out)  # what was never seen has no rate
    assert re.search(r'What helps against ".+": allow its network: --allow NETWORK', err)


def test_who_was_refused_a_private_network_tries_again(web, tmp_path):
    url, _ = web
    out, err = observant("add", url, cwd=tmp_path)
    assert "0 seen" in err
    assert "Next: observant serve\n" in out
    local = ("--allow", "127.0.0.1")
    out, err = observant("add", url, *local, cwd=tmp_path)
    assert "0 sources added to observant.db, 1 watched already." in out
    assert "Looked at 1 page: 1 seen." in err
    out, _ = observant("list", cwd=tmp_path)  # a schedule takes long to compile for the first time
    assert "not planned" in out
    _, err = observant("add", url, *local, cwd=tmp_path)  # what was read is not asked again
    assert "Looked at" not in err
    out, _ = observant("add", f"{url}b", *local, "--store", "b.db", cwd=tmp_path)
    assert "Next: observant serve --store b.db --allow 127.0.0.1\n" in out
    _, err = observant("add", url.partition("://")[2], cwd=tmp_path, code=2)
    assert f"did you mean {url}?" in err


def test_what_is_planned_only_by_an_observer_is_explained(web, tmp_path):
    url, _ = web
    observant("add", url, "--allow", "127.0.0.1", cwd=tmp_path)
    out, err = observant("list", cwd=tmp_path)
    assert "not planned" in out
    assert "not planned: the next visits are planned as soon as an observer runs" in err


def test_a_feed_is_compared_entry_by_entry(web, tmp_path):
    url, texts = web

    def feed(*numbers):
        entries = "".join(f"<item><title>News {n}</title><guid>{n}</guid></item>" for n in numbers)
        return f"<rss version='2.0'><channel><title>N</title>{entries}</channel></rss>"

    local = ("--allow", "127.0.0.0/8")
    texts["/feed"] = feed(2, 1)
    observant("add", "--feed", f"{url}feed", *local, cwd=tmp_path)
    texts["/feed"] = feed(3, 2, 1)
    observant("check", "--all", *local, cwd=tmp_path)
    out, _ = observant("diff", "feed", cwd=tmp_path)
    lines = out.splitlines()[2:]
    assert [line[0] for line in lines] == ["+", " ", " "]
    assert "News 3" in lines[0]


def test_the_first_page_of_a_site_is_found_by_its_host(tmp_path):
    pages = ("https://example.org/", "https://example.org/a", "http://example.org/a")
    observant("add", *pages, "--later", cwd=tmp_path)
    out, _ = observant("show", "example.org", "--json", cwd=tmp_path)
    assert json.loads(out)["name"] == "https://example.org/"
    out, _ = observant("show", "example.org/a", "--json", cwd=tmp_path)
    assert json.loads(out)["name"] == "https://example.org/a"


def test_a_store_that_cannot_be_written_is_said_without_a_traceback(
    web, tmp_path, monkeypatch, caplog
):
    from observant.errors import StoreError
    from observant.store.sqlite import SqliteEngine

    url, _ = web
    local = ("--allow", "127.0.0.0/8")
    observant("add", url, *local, cwd=tmp_path)

    def refuse(self, _work):
        raise StoreError(f"{self.path}: may only be read, not written")

    monkeypatch.setattr(SqliteEngine, "write", refuse)
    _, err = observant("check", "--all", *local, cwd=tmp_path, code=2)
    assert not [record for record in caplog.records if record.exc_info]
    assert err.splitlines()[-1].endswith("may only be read, not written")


def test_who_subscribes_a_mailbox_hears_that_there_is_no_server(tmp_path):
    mailbox = ("notify", "add", "me", "mailto:me@example.org")
    _, err = observant(*mailbox, cwd=tmp_path)
    assert "no mail server is set" in err
    named = {"OBSERVANT_NOTIFY__MAIL": "smtp://mail.example.org"}
    _, err = observant(*mailbox, "--store", "b.db", cwd=tmp_path, env=named)
    assert not err


def test_commands_that_come_next_can_be_typed_where_the_shell_finds_none(tmp_path, monkeypatch):
    from observant.cli.store_options import program

    made = tmp_path / ".venv" / "bin" / "observant"
    made.parent.mkdir(parents=True)
    made.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(made)])
    monkeypatch.setenv("PATH", "/nowhere")
    assert program() == ".venv/bin/observant"
    monkeypatch.setenv("PATH", str(made.parent))
    assert program() == "observant"


def test_a_table_that_is_too_wide_loses_its_least_columns(monkeypatch, capsys):
    from observant.cli.console import print_table

    rows = [("https://example.org/a", "1/d", "much more than fits", "active")]
    columns = ("source", "rate", "interval", "state")
    monkeypatch.setattr("observant.cli.console.terminal", lambda _width: Console(width=40))
    print_table(columns, rows, least=("interval", "rate"))
    out = capsys.readouterr().out
    assert "interval" not in out
    assert "1/d" in out
    assert "…" not in out


def test_commands_answer_as_the_api_does(tmp_path):
    """One shape of a source: `list --json` and `show --json` are what the API sends."""
    world = World(store=open_store(tmp_path / "observant.db")).fill()
    try:
        with world.client("read") as client:
            page = client.get("/api/v1/sources?sort=rate&descending=true").json()
            one = client.get(f"/api/v1/sources/{page['sources'][0]['id']}").json()
            visits = client.get(f"/api/v1/sources/{page['sources'][0]['id']}/visits")
    finally:
        world.close()
    chances = [row.pop("changed_probability") for row in page["sources"]]
    answer = observant("list", "--sort", "rate", "--descending", "--json", cwd=tmp_path)[0]
    listed = json.loads(answer)
    moved = [row.pop("changed_probability") for row in listed["sources"]]
    assert listed == page
    assert [x is None for x in moved] == [x is None for x in chances] == [False, False, True]
    assert 0.0 < chances[0] <= moved[0] < 1.0  # a little later

    name = one["source"]["name"]
    shown = json.loads(observant("show", name, "--visits", 5, "--json", cwd=tmp_path)[0])
    source = one.pop("source")
    assert shown.pop("changed_probability") >= source.pop("changed_probability")
    assert shown.pop("last_visits") == visits.json()["visits"][:5]
    assert shown.pop("why").split(":")[0] == one.pop("why").split(":")[0]
    assert shown.pop("copy").keys() == one.pop("copy").keys()
    assert shown == source | one
    assert "top-secret" not in answer + json.dumps(shown)
