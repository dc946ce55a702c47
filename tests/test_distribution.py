"""What is handed out: the wheel and the sdist build, install and run where only they are.

Everything below runs in an environment that has the dependencies of this one, and no observant
but the one of the wheel.
"""

import csv
import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import urllib.request
import zipfile
from importlib.metadata import Distribution, packages_distributions
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from urllib.parse import urljoin

import pytest

import observant

from .patience import PATIENCE

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PACKAGE = ROOT / "src" / "observant"
IMPORT = re.compile(r"^ *(?:from (\w+)[\w.]* import |import (\w+))", re.MULTILINE)


def outside():
    """The variables of this process without those that lead to its Python."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}


def run(*command, **options):
    """Run a program that knows nothing of this process, and return what it printed."""
    options["env"] = outside() | options.get("env", {})
    done = subprocess.run(  # noqa: S603 - our own
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        **options,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the sdist, and the wheel that is made of the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    backend = folder / "backend"
    if find_spec("hatchling") is None:  # it came and went when this environment was made
        pip = sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"
        run(*pip, "install", "--target", backend, "hatchling>=1.26")

    def build(source, target, kind):
        target.mkdir(exist_ok=True)
        hook = f"from hatchling.build import build_{kind}; print(build_{kind}({str(target)!r}))"
        path = {"PYTHONPATH": str(backend)}
        return target / run(sys.executable, "-c", hook, cwd=source, env=path).split()[-1]

    sdist = build(ROOT, folder / "sdist", "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    unpacked = folder / sdist.name.removesuffix(".tar.gz")
    wheel = build(ROOT, folder / "wheel", "wheel")
    again = build(unpacked, folder / "again", "wheel")
    return {"sdist": sdist, "wheel": wheel, "again": again, "unpacked": unpacked}


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """The folder of programs of an environment in which the wheel is installed."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    python = programs / "python"
    pip = sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "--quiet"
    run(*pip, "install", "--no-deps", "--no-index", built["wheel"])
    # Our dependencies, behind what is installed there. The .pth files of that folder are not
    # followed, and one of them is what makes the observant of this source tree importable here.
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    where = Path(
        run(python, "-c", "import observant; print(observant.__file__)", cwd=folder).strip()
    )
    assert where.is_relative_to(site)
    return programs


# -- what is in them ------------------------------------------------------------------------------


def test_the_wheel_holds_the_whole_package_and_nothing_else(built):
    own = {
        f"observant/{file.relative_to(PACKAGE).as_posix()}"
        for file in PACKAGE.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    with zipfile.ZipFile(built["wheel"]) as wheel:
        names = set(wheel.namelist())
    about = f"observant-{observant.__version__}"
    assert names - own == {
        f"{about}.dist-info/{name}"
        for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
    } | {f"{about}.data/data/share/man/man1/observant.1"}
    assert own - names == set()
    kinds = {PurePosixPath(name).suffix for name in own}
    assert kinds >= {".py", ".typed", ".sql", ".html", ".css", ".js"}  # or the walk went wrong


def test_the_sdist_holds_what_it_takes_to_test_and_build(built):
    unpacked = built["unpacked"]
    for needed in (
        *("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "Makefile", "PKG-INFO"),
        *("src/observant/py.typed", "tests/test_distribution.py", "docs/index.md"),
    ):
        assert (unpacked / needed).is_file(), needed
    with tarfile.open(built["sdist"]) as archive:
        inside = [PurePosixPath(name).parts[1:] for name in archive.getnames()]
    made = {"__pycache__", ".venv", ".git", ".hypothesis", ".mypy_cache", "site"}
    assert [parts for parts in inside if made & set(parts)] == []


def test_the_sdist_builds_the_same_wheel(built):
    def contents(file):
        with zipfile.ZipFile(file) as wheel:
            return {entry.filename: entry.CRC for entry in wheel.infolist()}

    assert contents(built["again"]) == contents(built["wheel"])


def test_the_record_names_every_file(built):
    with zipfile.ZipFile(built["wheel"]) as wheel:
        (record,) = [name for name in wheel.namelist() if name.endswith("/RECORD")]
        listed = [row[0] for row in csv.reader(io.StringIO(wheel.read(record).decode()))]
        assert sorted(listed) == sorted(wheel.namelist())


# -- what they say of themselves ------------------------------------------------------------------


def test_the_metadata_is_that_of_the_project(built, tmp_path):
    with zipfile.ZipFile(built["wheel"]) as wheel:
        for name in wheel.namelist():
            if ".dist-info/" in name:
                wheel.extract(name, tmp_path)
    about = Distribution.at(tmp_path / f"observant-{PROJECT['version']}.dist-info")
    said = about.metadata
    assert (said["Name"], said["Version"]) == ("observant", observant.__version__)
    assert said["Version"] == PROJECT["version"]
    assert said["License-Expression"] == "Apache-2.0"
    assert said["Requires-Python"] == PROJECT["requires-python"]
    assert said["Description-Content-Type"] == "text/markdown"
    assert set(said.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    needs = [need for need in about.requires if "extra ==" not in need]
    assert {name_in(need) for need in needs} == {name_in(n) for n in PROJECT["dependencies"]}
    (script,) = about.entry_points
    assert (script.group, script.name, script.value) == (
        "console_scripts",
        "observant",
        "observant.cli:main",
    )


def test_every_extra_that_a_message_names_exists():
    pages = [*PACKAGE.rglob("*.py"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    named = {
        extra
        for file in pages
        for extras in re.findall(r"\bobservant\[([\w,-]+)\]", file.read_text("utf-8"))
        for extra in extras.split(",")
    }
    assert named == set(PROJECT["optional-dependencies"])


def test_what_is_imported_is_declared():
    """A dependency that only happens to be installed here would be missing elsewhere."""
    wanted = [
        *PROJECT["dependencies"],
        *(need for extra in PROJECT["optional-dependencies"].values() for need in extra),
    ]
    declared = {name_in(need) for need in wanted}
    brought = {"requests": "apprise", "py4j": "pyspark"}  # imported where the other is in use
    known = packages_distributions()
    missing = set()
    for file in PACKAGE.rglob("*.py"):
        for pair in IMPORT.findall(file.read_text("utf-8")):
            module = "".join(pair)
            if module in sys.stdlib_module_names or module == "observant":
                continue
            homes = {plain(home) for home in known.get(module, [module])}
            if not (homes & declared or brought.get(module) in declared):
                missing.add(f"{module} in {file.relative_to(ROOT)}")
    assert missing == set()


def name_in(requirement):
    """The name of a requirement: ``click`` of ``click>=8.1``."""
    return plain(re.match(r"[\w.-]+", requirement)[0])


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


# -- what they can do -----------------------------------------------------------------------------


def test_the_command_tells_its_version_and_its_help(installed, tmp_path):
    command = installed / "observant"
    assert run(command, "--version", cwd=tmp_path) == f"observant {observant.__version__}\n"
    assert run(command, "serve", "--help", cwd=tmp_path).startswith("Usage: observant serve")


def test_a_small_log_is_estimated(installed, tmp_path):
    visits = tmp_path / "visits.csv"
    visits.write_text("source,time,changed\na,0,\na,86400,1\na,172800,0\na,259200,0\n")
    told = run(installed / "observant", "estimate", visits, "--json", cwd=tmp_path)
    assert '"source": "a"' in told
    assert '"changes": 1' in told


def test_a_store_is_made_from_the_sql_of_the_wheel(installed, tmp_path):
    command, place = installed / "observant", tmp_path / "observant.db"
    run(command, "add", "--later", "--store", place, "https://example.org/", cwd=tmp_path)
    assert "https://example.org/" in run(command, "list", "--store", place, cwd=tmp_path)


def test_a_page_is_served_from_the_templates_of_the_wheel(installed, tmp_path):
    store = tmp_path / "observant.db"
    words = "serve", "--port", "0", "--no-observer", "--store", store
    with subprocess.Popen(  # noqa: S603 - our own
        [installed / "observant", *words],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=outside(),
    ) as server:
        try:
            lines = iter(server.stderr.readline, "")
            address = next(line.split()[-1] for line in lines if line.startswith("Serving at "))
            page = get(urljoin(address, "login"))
            assert "<title>" in page
            style = re.search(r'href="([^"]*/app\.\w+\.css)"', page)[1]
            assert "{" in get(urljoin(address, style))
        finally:
            server.terminate()


def get(address):
    assert address.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(address, timeout=PATIENCE) as answer:  # noqa: S310 - loopback
        return answer.read().decode()
