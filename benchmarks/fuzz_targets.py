"""What `benchmarks.fuzz` fuzzes: every reader of strangers' text, as a function of bytes.

The contract of a reader: it returns, or raises an `ObservantError` (or a verdict of its own that
its docstring promises). Importers, formats and kinds of sources are found in their registries, so
that new ones join by themselves.

An input with several parts (a rule and a page, a name of a file in an archive and what it holds)
has them in this order, separated by a line ``----``.
"""

import asyncio
import atexit
import contextlib
import functools
import gzip
import importlib
import importlib.util
import io
import shutil
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from observant.errors import ObservantError
from observant.times import http_date

TESTS = Path(__file__).parents[1] / "tests"
CORPUS = TESTS / "corpus"
SEPARATOR = b"\n----\n"
NOW = 1_800_000_000.0
LARGEST_SEED = 1 << 16


@dataclass(frozen=True)
class Target:
    """A reader, and inputs to begin with."""

    name: str
    read: Callable[[bytes], object]
    samples: tuple[bytes, ...]
    verdicts: tuple[type[Exception], ...] = ()

    def check(self, data: bytes) -> None:
        """Read once; whatever the contract does not allow is raised."""
        with warnings.catch_warnings(), contextlib.suppress(ObservantError, *self.verdicts):
            warnings.simplefilter("ignore", PendingDeprecationWarning)  # of old JMESPath
            self.read(data)

    def seeds(self) -> list[bytes]:
        """The samples, and what earlier fuzzing found worth keeping."""
        kept = [file.read_bytes() for file in sorted((CORPUS / self.name).glob("*"))]
        return [seed for seed in dict.fromkeys([*self.samples, *kept]) if len(seed) <= LARGEST_SEED]


@functools.cache
def targets() -> dict[str, Target]:
    """All targets by name."""
    families = (importers, formats, traces, kinds_of_sources, comparing, transport, settings, texts)
    found = {target.name: target for family in families for target in family()}
    return dict(sorted(found.items()))


def parts(data: bytes, count: int) -> list[bytes]:
    """The parts of an input; those that are missing are empty."""
    found = data.split(SEPARATOR, count - 1)
    return found + [b""] * (count - len(found))


def texts_in(data: bytes, count: int) -> list[str]:
    """The parts of an input as text; lone surrogates are possible, as in `sys.argv`."""
    return [part.decode("utf-8", "surrogateescape") for part in parts(data, count)]


# -- formats and importers ------------------------------------------------------------------------


@functools.cache
def samples_of_imports() -> tuple[Path, dict[str, Path]]:
    """A file or folder of every importer, in a place that goes away with this process."""
    spec = importlib.util.spec_from_file_location("import_samples", TESTS / "import_samples.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    keeper = tempfile.TemporaryDirectory(prefix="observant-fuzz-")
    atexit.register(keeper.cleanup)
    folder = Path(keeper.name)
    return folder, module.write_samples(folder)


def importers():
    from observant.formats.imports import find_importer, importers
    from observant.formats.imports.files import ImportFile

    _, samples = samples_of_imports()
    every = []
    for name in importers():
        if name == "git":
            continue  # git itself reads the repository; its answer is a target of its own
        place = samples.get(name)
        if place is None:
            reader, seeds = functools.partial(read_file, name, Path(f"{name}.dat")), ()
        elif place.is_dir():
            reader, seeds = functools.partial(read_folder, name, place), seeds_of_folder(place)
        else:
            reader, seeds = functools.partial(read_file, name, place), seeds_of_file(place)
        every += seeds[:1]
        yield Target(f"import-{name}", reader, seeds)

    def sniff(data):
        for name in ("x", "x/", "x.json", "x.xml"):
            with contextlib.suppress(ObservantError):
                find_importer(ImportFile(name, stream=io.BytesIO(data)))

    yield Target("import-sniff", sniff, tuple(every))


def read_file(name, place, data):
    """The input is the file; or, for an archive, a member of it and what this holds."""
    content = data
    if place.suffix in {".zip", ".wacz"} and not data.startswith(b"PK") and SEPARATOR in data:
        content = with_member(place, data)
    with tempfile.TemporaryDirectory(prefix="observant-fuzz-") as folder:
        copy = Path(folder) / place.name
        for beside in place.parent.glob("cdx-*"):
            (copy.parent / beside.name).write_bytes(beside.read_bytes())
        copy.write_bytes(content)
        read_all(name, copy, data)


def read_folder(name, place, data):
    """The input is the name of a file in the folder, and what this holds."""
    with tempfile.TemporaryDirectory(prefix="observant-fuzz-") as folder:
        copy = Path(folder) / place.name
        shutil.copytree(place, copy)
        inside = sorted(file for file in copy.rglob("*") if file.is_file())
        wanted, content = parts(data, 2)
        names = {str(file.relative_to(copy)).encode(): file for file in inside}
        names.get(wanted, inside[0]).write_bytes(content)
        read_all(name, copy, data)


def read_all(name, place, data):
    """What an import, its dry run and a list of its sources read. A quarter is strict."""
    from observant.formats.imports import ImportOptions, describe_sources, examine, import_visits

    if zlib.crc32(data) % 4 == 0:
        strict = ImportOptions(on_bad="fail", accept={"all"}, key="surt", zone="Europe/Berlin")
        for _ in import_visits(place, format=name, options=strict):
            pass
    else:
        str(examine(place, format=name))
    for _ in describe_sources(place, format=name):
        pass


def with_member(place, data):
    name, content = parts(data, 2)
    out = io.BytesIO()
    with zipfile.ZipFile(place) as old, zipfile.ZipFile(out, "w") as new:
        for member in old.namelist():
            if member.encode() != name:
                new.writestr(member, old.read(member))
        with contextlib.suppress(ValueError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # two members of one name are what we want to try
            new.writestr(name.split(b"\0")[0].decode("utf-8", "replace")[:200] or "x", content)
    return out.getvalue()


def seeds_of_file(place):
    content = place.read_bytes()
    if content.startswith(b"PK"):
        with zipfile.ZipFile(place) as archive:
            members = [n.encode() + SEPARATOR + archive.read(n) for n in archive.namelist()]
        return (content, *members)
    if content.startswith(b"\x1f\x8b"):
        return (content, gzip.decompress(content))
    return (content,)


def seeds_of_folder(place):
    inside = sorted(file for file in place.rglob("*") if file.is_file())
    return tuple(
        str(file.relative_to(place)).encode() + SEPARATOR + file.read_bytes() for file in inside
    )


def formats():
    from observant.formats import ARCHIVES, FORMATS, read_visits
    from observant.visits import VisitLog

    _, samples = samples_of_imports()
    log = VisitLog.from_columns(
        source=["a", "a", "b"],
        time=["2026-01-01T00:00:00Z", "2026-01-02T12:00:00.5Z", "2026-01-01"],
        changed=[None, True, None],
        status=[200, 200, 404],
    )
    for name in (*FORMATS, *ARCHIVES):
        seeds = [written(log, name)] if name in FORMATS else [samples[name].read_bytes()]
        if name == "csv":
            seeds.append(samples["table"].read_bytes())

        def read(data, name=name):
            return len(read_visits(io.BytesIO(data), format=name, on_duplicate="last"))

        yield Target(f"format-{name}", read, tuple(seeds))


def written(table, name):
    from observant.formats import write_table

    out = io.BytesIO()
    write_table(table, out, name)
    return out.getvalue()


def traces():
    from observant.formats import FORMATS
    from observant.simulation.traces.files import read_trace
    from observant.simulation.traces.releases import read_releases
    from observant.simulation.traces.trace import Trace

    trace = Trace.from_columns(["a/x", "a/x", "b"], [20_000.0, 20_001.5, float("nan")])
    for name in FORMATS:

        def read(data, name=name):
            return len(read_trace(io.BytesIO(data), format=name))

        yield Target(f"trace-{name}", read, (written(trace, name),))

    def releases(data):
        with tempfile.TemporaryDirectory(prefix="observant-fuzz-") as folder:
            file = Path(folder) / "package.json"
            file.write_bytes(data)
            return read_releases([file])

    yield Target(
        "trace-releases",
        releases,
        (
            b'{"name": "x", "time": {"created": "2020-01-01", "1.0": "2020-01-01T00:00:00.000Z"}}',
            b'{"info": {"name": "x"}, "releases": {"1": [{"upload_time_iso_8601": "2020-01-01"}]}}',
            b'["2020-01-01", "2021-01-01T00:00:00Z"]',
            b'{"items": [{"date_published": "2020-01-01T00:00:00Z"}, {"t": 1500000000}]}',
            b"<rss><item><pubDate>Sun, 06 Nov 1994 08:49:37 GMT</pubDate></item></rss>",
            b"time\n2020-01-01\nx,2020-01-02\n",
        ),
    )


# -- what the observer fetches --------------------------------------------------------------------

PAGE = (
    b"<!doctype html><meta charset=utf-8><title>News</title><h1>News</h1><ol><li><a href='/b'>Bees"
    b"</a> <time datetime=2026-01-01>1 Jan</time><li><a href='?a=1'>Ants</a></ol>"
    b"<table><tr><td id=price class='a b'>12 EUR<script>x()</script></table><img src=x.png>"
)
VALUES = b'{"items": [{"id": 7, "url": "/a", "title": "A", "updated": 1794528000}, {"id": 8.5}]}'
RSS = (
    b"<rss version='2.0'><channel><title>t</title><item><guid>1</guid><link>https://a.example/1"
    b"</link><title>one</title><pubDate>Sun, 06 Nov 1994 08:49:37 GMT</pubDate></item>"
    b"</channel></rss>"
)
JSON_FEED = (
    b'{"version": "https://jsonfeed.org/version/1.1", "items": [{"id": "7", "url": '
    b'"https://a.example/7", "title": "x", "date_modified": "2026-01-01T00:00:00Z"}]}'
)


def kinds_of_sources():
    """What a source of each kind makes of a body, twice: the second visit compares."""
    from observant.observer.config import SourceSettings
    from observant.observer.content import Comparer
    from observant.observer.fetched import Fetched
    from observant.observer.sources import Surroundings, kinds, make_source
    from observant.observer.sources.http import HttpSource
    from observant.observer.tasks import BodyTask, Read, run

    _, samples = samples_of_imports()
    sitemap, feed = (samples[name].read_bytes() for name in ("sitemap", "feed"))
    seeds = (PAGE, VALUES, RSS, JSON_FEED, feed, sitemap, gzip.compress(sitemap), b"\xff\xfea\0")
    seeds = tuple(SEPARATOR.join((b"", seed)) for seed in seeds)
    types = (b"", b"text/html", b"application/json", b"application/xml", b"text/plain; charset=x")
    seeds += tuple(kind + SEPARATOR + PAGE + SEPARATOR + VALUES for kind in types)
    around = Surroundings(None, time=lambda: NOW)
    queries = {"query": {"items": "li", "link": "a"}}
    for kind in kinds():
        home = kinds()[kind]
        if not isinstance(home, str):  # somebody has registered a class of their own
            continue
        module, _, attribute = home.partition(":")
        if not issubclass(getattr(importlib.import_module(module), attribute), HttpSource):
            continue
        settings = SourceSettings(query=queries.get(kind, {}))
        url = "https://a.example/?q=x"
        source = make_source(kind, "x", url, settings, Comparer(), around)

        def look(data, source=source, url=url):
            from observant.observer.transport.headers import charset_of, media_type

            told, *bodies = parts(data, 3)
            told = told.decode("latin-1")
            before = None
            for body in bodies:
                fetched = Fetched(
                    url=url,
                    status=200,
                    body=body,
                    content_type=media_type(told),
                    charset=charset_of(told),
                )
                task = BodyTask(
                    form=source.form,
                    rules=msgspec.to_builtins(source.comparer.rules),
                    selection_version=source.comparer.selection_version,
                    query=msgspec.to_builtins(getattr(source, "query", {})),
                    now=NOW,
                    previous=before,
                    fetched=fetched,
                )
                reply = run("read", msgspec.msgpack.encode(task))  # what a worker does
                found = msgspec.msgpack.decode(reply, type=Read).comparison
                before = source.comparer.after(before, fetched, found)

        yield Target(f"source-{kind}", look, seeds)


def comparing():
    from observant.observer.content import diff
    from observant.observer.content.rules import SELECTORS, Rules
    from observant.observer.content.selection import select
    from observant.observer.fetched import Fetched
    from observant.observer.sources.results import ResultRules, read_date, results_of
    from observant.papers.thesis.style import Census

    examples = {
        "css": ((b"#price, ol > li:nth-child(2n+1) a[href^='?']", b"td.a:not(.c)"), "html", PAGE),
        "xpath": ((b"//li[2]/a/@href", b"//td[contains(@class, 'a')]/text()"), "html", PAGE),
        "jsonpath": (
            (b"$.items[?(@.id > 7)].id", b"$..url", b"$.items[-1:]['id']"),
            "json",
            VALUES,
        ),
        "jmespath": ((b"items[?id > `7`].id | [0]", b"items[].{a: id, b: url}"), "json", VALUES),
        "regex": ((rb"(\d+) EUR", rb"(?P<a>[A-Z]\w+)|x*"), "text", PAGE),
    }
    for language in SELECTORS:
        expressions, kind, page = examples[language]

        def choose(data, language=language, kind=kind):
            expression, body = parts(data, 2)
            rules = Rules(**{language: expression.decode("utf-8", "surrogateescape")})
            select(body, kind, None, rules)

        yield Target(f"select-{language}", choose, tuple(e + SEPARATOR + page for e in expressions))

    def by_kind(data):
        kind, charset, body = parts(data, 3)
        kind = kind.decode("latin-1")
        if kind in {"html", "json", "xml", "text", "bytes"}:
            select(body, kind, charset.decode("latin-1") or None, Rules(drop=("script",)))

    yield Target(
        "normalise",
        by_kind,
        tuple(
            SEPARATOR.join((kind, charset, body))
            for kind, charset, body in (
                (b"html", b"", PAGE),
                (b"html", b"shift_jis", PAGE),
                (b"json", b"", VALUES),
                (b"xml", b"", RSS),
                (
                    b"xml",
                    b"utf-16",
                    b"<?xml version='1.0' encoding='utf-8'?><a b='c'>d<!--e--></a>",
                ),
                (b"text", b"utf-7", b"one\r\ntwo\x85three"),
                (b"bytes", b"", b"\x00\x01"),
            )
        ),
    )
    yield Target(
        "diff",
        lambda data: [diff(*texts_in(data, 2), kind).readable() for kind in ("auto", "words")],
        (
            b"one\ntwo\nthree" + SEPARATOR + b"one\n2\nthree four",
            VALUES + SEPARATOR + VALUES.replace(b"7", b"[9]"),
        ),
    )
    yield Target("style", lambda data: Census().add_page(data, "https://a.example/"), (PAGE,))

    def results(data):
        form, items, link, body = parts(data, 4)
        forms = ("auto", "html", "feed", "sitemap", "json")
        rules = ResultRules(
            form=forms[len(form) % 5],
            items=items.decode("utf-8", "replace"),
            link=link.decode("utf-8", "replace"),
        )
        results_of(Fetched(url="https://a.example/", status=200, body=body), rules, NOW)

    yield Target(
        "results",
        results,
        tuple(
            SEPARATOR.join(seed)
            for seed in (
                (b"", b"ol > li", b"a", PAGE),
                (b"", b"//li/a", b"@href", PAGE),
                (b"form", b"items", b"url", VALUES),
                (b"fo", b"", b"", RSS),
                (b"for", b"", b"", b"<urlset><url><loc>https://a.b/</loc></url></urlset>"),
            )
        ),
    )
    yield Target(
        "dates",
        lambda data: read_date(data.decode("utf-8", "replace"), NOW),
        (b"2026-11-13", b"Fri, 13 Nov 2026 00:00:00 +0100", b"2026-W01-1T00:00:00,5Z"),
    )


def transport():
    from observant.errors import BadBody, BadURL, TooLarge
    from observant.observer.fetched import Fetched
    from observant.observer.transport import headers as answers
    from observant.observer.transport.bodies import Body
    from observant.observer.transport.robots import Robots
    from observant.observer.transport.urls import parse, resolve

    class Clock:
        def monotonic(self):
            return 0.0

    def robots(data):
        address, body = parts(data, 2)

        async def fetch(url):
            return Fetched(url=url, status=200, body=body)

        try:
            target = parse("https://a.example/" + address.decode("latin-1"))
        except BadURL:
            return
        asyncio.run(Robots("observant", fetch, Clock()).verdict(target))

    yield Target(
        "robots",
        robots,
        (
            b"p?q" + SEPARATOR + b"User-agent: *\nDisallow: /*p$\nAllow: /p\nCrawl-delay: 2.5\n",
            b"" + SEPARATOR + b"User-agent: observant\nRequest-rate: 1/5m 0100-0200\nSitemap: x\n",
        ),
    )

    def address(data):
        first, second = texts_in(data, 2)
        resolve(parse(first), second)

    yield Target(
        "url",
        address,
        (
            "HTTP://user:p%40@EXÄMPLE.com:80/a/../b?q=ä#top".encode() + SEPARATOR + b"../c?d",
            b"http://0x7f.1/" + SEPARATOR + b"//[::1]:8080/x",
        ),
        (BadURL,),
    )

    def head(data):
        pairs = answers.head_of(data.splitlines(keepends=True))
        for _, value in pairs:
            http_date(value)
            answers.last_modified_of(value, value, NOW)
            answers.retry_after(value, NOW)
            answers.media_type(value)
            answers.charset_of(value)

    yield Target(
        "headers",
        head,
        (
            b"HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nRetry-After: 120\r\n",
            (
                b'Content-Type: text/html; charset="utf-8"\r\n folded\r\nLast-Modified: Sunday, '
                b"06-Nov-94 08:49:37 GMT\r\nX: Sun Nov  6 08:49:37 1994\r\n\r\n"
            ),
        ),
    )

    def body(data):
        codings, packed = parts(data, 2)
        made = Body(1 << 20, codings.decode("latin-1").split(","))
        for start in range(0, len(packed), 100):
            made.feed(packed[start : start + 100])
        made.finish()

    text = b"hello " * 20
    yield Target(
        "body",
        body,
        (
            b"gzip" + SEPARATOR + gzip.compress(text),
            b"deflate" + SEPARATOR + zlib.compress(text),
            b"gzip,deflate" + SEPARATOR + zlib.compress(gzip.compress(text)),
            b"br" + SEPARATOR + b"\x0b\x02\x80hello\x03",
            b"zstd" + SEPARATOR + bytes.fromhex("28b52ffd2405290000") + b"hello" + b"\0\0\0\0",
        ),
        (BadBody, TooLarge),
    )


# -- what people write ----------------------------------------------------------------------------


CONFIG = b"""\
budget = "1000/day"
allow = ["192.168.1.0/24"]
[limits]
total = 30
[defaults]
max_period = "30d"
[tags.news]
importance = 3
[[sources]]
url = "https://a.b/"
tags = ["news"]
[sources.settings]
active = ["mon-fri 08:00-18:00"]
timezone = "Europe/Berlin"
compare = {css = "#a", ignore = ["x.*"]}
"""
QUERIES = b"""\
[notify]
mail = "smtp://a:b@c:587"
retry = "10s"
[retention]
max_age = "1y"
[[sources]]
url = "x"
kind = "query"
[sources.settings.query]
items = "li"
"""


def settings():
    from observant.observer.active_hours import ActiveHours
    from observant.observer.config import load_config

    def config(data):
        with tempfile.TemporaryDirectory(prefix="observant-fuzz-") as folder:
            file = Path(folder) / "observant.toml"
            file.write_bytes(data)
            load_config(str(file), environment={})

    yield Target("config", config, (CONFIG, QUERIES))

    def hours(data):
        windows, zone = texts_in(data, 2)
        ActiveHours.parse(windows.split("\n"), zone or "UTC").next(NOW)

    yield Target(
        "hours",
        hours,
        (b"mon-fri 08:00-18:00" + SEPARATOR + b"Europe/Berlin", b"sat,sun" + SEPARATOR + b"UTC"),
    )


def texts():
    from observant.formats.seeds import SEED_FORMATS, seed_lines
    from observant.notifications.messages import check_template, render
    from observant.planning import plan
    from observant.store.lists import read_cursor
    from observant.units import parse_budget, parse_duration, parse_rate

    for parse in (parse_duration, parse_rate, parse_budget):

        def read(data, parse=parse):
            parse(data.decode("utf-8", "surrogateescape"))

        examples = (b"1d12h", b"-8.5e1 weeks", b"2/ 3h", b"1000/day", b"0.1/source/day")
        yield Target(f"unit-{parse.__name__.removeprefix('parse_')}", read, examples)

    def template(data):
        form, value = texts_in(data, 2)
        check_template(form)
        for place in ("text", "line", "html"):
            render(form, {"title": value, "added": value}, place)

    yield Target(
        "template",
        template,
        (b"{{title}} and {{ added }}\n" + SEPARATOR + b"<{{id}}", b"{{x" + SEPARATOR + b"y"),
    )

    def cursor(data):
        sort, text = texts_in(data, 2)
        read_cursor(text, sort, descending=False)

    yield Target(
        "cursor",
        cursor,
        (
            b"name" + SEPARATOR + b"WyJuYW1lIixmYWxzZSwiYSIsN10",
            b"due_at" + SEPARATOR + b"WyJkdWVfYXQiLGZhbHNlLG51bGwsN10",
        ),
    )

    def seeds(data):
        names = [name for name in texts_in(data, 3) if name] or ["x"]
        chosen = plan([1.0] * len(names), budget=2, source=names)
        for form in SEED_FORMATS:
            "\n".join(seed_lines(chosen, form, now=NOW)).encode("utf-8", "surrogateescape")

    yield Target("seeds", seeds, (SEPARATOR.join((b"http://a.example/", b"x:[", b"//b/?q=1")),))
