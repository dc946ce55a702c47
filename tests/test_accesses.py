"""Importance from access logs."""

import gzip
import json
import tracemalloc

import numpy as np
import pytest
from click.testing import CliRunner

from observant.cli.settings import settings
from observant.errors import InputError
from observant.formats.accesses import Accesses, LogEnd
from observant.observer.config import Config
from observant.observer.program import describe
from observant.planning import access_importance
from observant.service.collection import Collection
from observant.store import open_store

SITE = ("https://example.org/", "https://example.org/news", "https://example.org/a?x=1")
WHEN = "10/Oct/2025:13:55:36 +0000"


def line(target, *, status=200, method="GET", agent="Mozilla/5.0", host="", when=WHEN):
    front = f"{host} " if host else ""
    request = f'"{method} {target} HTTP/1.1"'
    return f'{front}192.0.2.1 - - [{when}] {request} {status} 17 "-" "{agent}"\n'.encode()


def test_what_counts_as_an_access():
    seen = Accesses([*SITE, "https://other.example/"], "https://Example.ORG")
    seen.add_block(
        line("/news")
        + b'192.0.2.1 - jo [10/Oct/2025:13:55:36 +0000] "GET / HTTP/1.0" 304 -\n'  # common
        + line("/a?x=1")
        + line("/a?x=2")  # a query that no source has, of a path that none has
        + line("/news?from=mail#top")  # counts for the path
        + line("http://EXAMPLE.org:80", agent="x")
        + line("/", host="OTHER.example:443")
        + line("/news", agent="Googlebot/2.1 (+http://www.google.com/bot.html)")
        + line("/news", method="POST")
        + line("/news", status=404)
        + b"\n"
        + b"junk \xff\x00\n"
    )
    assert seen.counts.tolist() == [2, 2, 1, 1]
    assert (seen.lines, seen.robots, seen.refused) == (11, 1, 2)
    assert (seen.elsewhere, seen.malformed) == (1, 1)


def test_json_logs_of_several_servers_are_read():
    caddy = {
        "ts": 1760104536.0,
        "request": {
            "method": "GET",
            "host": "example.org:443",
            "uri": "/news",
            "headers": {"User-Agent": ["Mozilla/5.0"]},
        },
        "status": 200,
    }
    nginx = {
        "time_local": WHEN,
        "host": "example.org",
        "request": "GET / HTTP/1.1",
        "status": "200",
    }
    traefik = {
        "StartUTC": "2025-10-12T13:55:36Z",
        "RequestHost": "example.org",
        "RequestPath": "/a?x=1",
        "RequestMethod": "GET",
        "DownstreamStatus": 200,
        "request_User-Agent": "curl/8",
    }
    rows = [json.dumps(row) for row in (caddy, nginx, traefik)]
    bad = ["{", '{"status": 200}', "[" * 2000, '{"uri": {"a": 1}}', "null"]
    seen = Accesses(SITE)
    seen.add_block("\n".join([*rows, *bad, ""]).encode())
    assert seen.counts.tolist() == [1, 1, 1]
    assert (seen.lines, seen.malformed) == (8, 5)
    assert seen.days == pytest.approx(2.0)


def test_a_log_without_hosts_needs_to_be_told_its_site():
    seen = Accesses([*SITE, "https://other.example/"])
    with pytest.raises(InputError, match="--site"):
        seen.add_block(line("/news"))


def test_sources_of_other_sites_are_left_alone():
    seen = Accesses([*SITE, "https://other.example/"], "example.org")
    seen.add_block(line("/news") * 30 + line("/"))
    ours, table = seen.importance()
    assert ours.tolist() == [True, True, True, False]
    np.testing.assert_allclose(table.importance, access_importance([1, 30, 0], 1.0).importance)
    other = Accesses(["https://other.example/x"], "example.org")
    other.add_block(line("/news"))
    with pytest.raises(InputError, match="none of the 1 lines asks for one of the 1 sources"):
        other.importance()


@pytest.mark.slow
def test_memory_stays_bounded_whatever_is_in_the_log(tmp_path):
    """Millions of addresses that nobody watches, and a line without an end."""
    log = tmp_path / "access.log.gz"
    with gzip.open(log, "wb", compresslevel=1) as file:
        for k in range(40):
            file.write(b"".join(line(f"/{k}/{n}") for n in range(5000)))
        file.write(b"x" * 30_000_000 + b"\n" + line("/news"))
    seen = Accesses(SITE)
    tracemalloc.start()
    seen.read([str(log)])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seen.counts.tolist() == [0, 1, 0]
    assert seen.elsewhere == 200_000
    assert peak < 60e6


def test_a_growing_log_is_followed_through_rotation(tmp_path):
    log = tmp_path / "access.log"
    end, seen = LogEnd(log), Accesses(SITE)

    def look():
        for block in end.news():
            seen.add_block(block)
        return seen.counts.tolist()

    assert look() == [0, 0, 0]  # not there yet
    log.write_bytes(line("/news") + line("/")[:30])
    assert look() == [0, 1, 0]
    with log.open("ab") as file:
        file.write(line("/")[30:])
    assert look() == look() == [1, 1, 0]
    log.rename(tmp_path / "access.log.1")
    log.write_bytes(line("/news"))
    assert look() == [1, 2, 0]
    log.write_bytes(line("/"))  # cut, and shorter than before
    seen.fade(0.5)
    assert look() == [1.5, 1, 0]


@pytest.fixture
def watched(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_store("observant.db") as store:
        store.sources.add([describe(url) for url in (*SITE, "https://other.example/")])
    (tmp_path / "access.log").write_bytes(line("/news") * 50 + line("/") * 5)


@pytest.mark.usefixtures("watched")
def test_the_command_weighs_the_sources_of_a_store():
    run = CliRunner().invoke
    dry = run(settings, ["importance", "access.log", "--site", "example.org", "--dry-run"])
    assert "nothing was set" in dry.output
    told = run(settings, ["importance", "access.log", "--site", "example.org", "--json"])
    answer = json.loads(told.output)
    assert (answer["accesses"], answer["sources"][0]["source"]) == (55, SITE[1])
    with open_store("observant.db") as store:
        weights = {source.name: source.importance for source in store.sources.each()}
    assert weights["https://other.example/"] == 1.0
    assert np.mean([weights[url] for url in SITE]) == pytest.approx(1.0)
    assert weights[SITE[1]] > weights[SITE[0]] > weights[SITE[2]] > 0


@pytest.mark.usefixtures("watched")
def test_what_hardly_moves_is_not_written_again():
    with open_store("observant.db") as store:
        collection = Collection(store, Config())
        seen = collection.sources.accesses("example.org")
        seen.read(["access.log"])
        collection.sources.weigh(seen)
        at = {source.name: source.updated_at for source in store.sources.each()}
        seen.add_block(line("/news"))
        collection.sources.weigh(seen)
        assert at == {source.name: source.updated_at for source in store.sources.each()}
        seen.add_block(line("/") * 300)
        collection.sources.weigh(seen)
        collection.cache.close()
        after = {source.name: source.updated_at for source in store.sources.each()}
    assert after[SITE[0]] > at[SITE[0]]
