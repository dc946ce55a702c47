"""The library alone: what `pip install observant` does, and what it says of the rest.

Each command runs in an interpreter that has the packages of no extra. Whether the metadata say the
same is the matter of tests/test_distribution.py.
"""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from observant.errors import ExtraError, InputError
from observant.plugins import EXTRAS

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
BARE = """
import sys
class Absent:
    names = {names!r}
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
sys.path.insert(0, "")
"""
VISITS = "source,time,changed\n" + "".join(
    f"{source},{86400 * day},{(day % every == 0) * 1}\n"
    for source, every in (("a", 2), ("b", 5), ("c", 11))
    for day in range(40)
)
UPDATES = "source,time\n" + "".join(f"{s},{86400 * d}\n" for s in "abc" for d in range(1, 90, 3))


def bare(code, folder):
    """Run code where no package of an extra is installed."""
    absent = BARE.format(names=set(EXTRAS) | {"pandas", "polars"})
    return subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", absent + code],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )


def observant(words, folder):
    return bare(f"sys.argv[1:] = {words.split()!r}\nfrom observant.cli import main\nmain()", folder)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "visits.csv").write_text(VISITS)
    (tmp_path / "updates.csv").write_text(UPDATES)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        "",
        "--help",
        "serve --help",
        "estimate visits.csv",
        "estimate visits.csv --json",
        "intervals visits.csv",
        "trend visits.csv",
        "plan visits.csv --budget 3/day",
        "currency --rate 1/7d --period 1d",
        "design --rate 1/7d --precision 35%",
        "simulate updates.csv --budget 2/day --seeds 1",
        "import visits.csv -o visits.parquet",
    ],
)
def test_the_library_alone_estimates_and_plans(words, folder):
    done = observant(words, folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert "not installed" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "extra"),
    [
        ("estimate visits.csv --plot rates.svg", "plot"),
        ("add https://example.org/", "watch"),
        ("list", "watch"),
        ("run", "watch"),
        ("serve", "watch"),
        ("demo", "watch"),
        ("import sitemap.xml -o visits.csv", "archive"),
        ("import jobs.yaml -o visits.csv --format urlwatch-jobs", "archive"),
        ("estimate visits.csv --engine spark -o rates.parquet", "spark"),
    ],
)
def test_a_command_that_lacks_its_extra_says_what_installs_it(words, extra, folder):
    (folder / "sitemap.xml").write_text(
        '<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
        "<url><loc>https://example.org/</loc><lastmod>2026-01-01</lastmod></url></urlset>"
    )
    (folder / "jobs.yaml").write_text("url: https://example.org/\n")
    done = observant(words, folder)
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()[-1:]
    assert re.fullmatch(rf"Error: .*pip install 'observant\[{extra}\]'", line), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_python_is_told_the_same(folder):
    code = "from observant.observer import Observer"
    done = bare(f"try:\n {code}\nexcept ImportError as e: print(type(e).__name__, e)", folder)
    assert done.stdout.startswith("ExtraError ")
    assert "pip install 'observant[watch]'" in done.stdout
    assert issubclass(ExtraError, InputError)


@pytest.mark.slow
def test_every_package_of_an_extra_is_known_by_its_module():
    """So that no command can fail on one without a word about the extra."""
    homes = packages_distributions()
    lists = PROJECT["optional-dependencies"]
    declared = {
        name(need): {e for e in lists if need in lists[e]} for e in lists for need in lists[e]
    }
    declared.pop("observant")
    found = {}
    for module, extra in EXTRAS.items():
        package = next(n for n in map(name, homes.get(module, [module])) if n in declared)
        found[package] = extra
        assert extra in declared[package]
    optional = {"pandas"}  # Spark says it itself
    assert set(declared) - set(found) - optional == set()


def test_the_library_alone_needs_little():
    assert len(PROJECT["dependencies"]) <= 12
    assert not {name(need) for need in PROJECT["dependencies"]} & set(EXTRAS)


def name(requirement):
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()
