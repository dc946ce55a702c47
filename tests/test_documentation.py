"""The documentation is complete and true: names, help texts, commands, links.

The Python examples of the pages are run by `conftest.py`. `python -m tests.test_documentation`
writes the help texts of the commands into docs/command-line.md.
"""

import importlib.util
import os
import re
import shlex
import sys
import tomllib
from contextlib import nullcontext
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path

import pytest
from tests.journeys import transcripts

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
COMMAND_LINE = DOCS / "command-line.md"
PAGES = sorted([*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
JOURNEYS = sorted(DOCS.glob("journey-*.md"))  # their commands are run by test_journeys.py
LINKING = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"]

HELP = re.compile(r"(<!-- help: (observant[ a-z]*) -->\n)(.*?)(<!-- end of help -->)", re.DOTALL)
FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)

# Spelt apart, or this file would name what no file may name.
PACKAGE_HOSTS = [
    host.replace(" ", ".")
    for host in (
        "pypi org",
        "pythonhosted org",
        "anaconda org",
        "conda-forge org",
        "npmjs org",
        "npmjs com",
        "jsdelivr net",
        "unpkg com",
        "cloudflare com",
        "googleapis com",
        "gstatic com",
        "deb debian org",
        "pkg dev",
        "ghcr io",
        "docker io",
        "quay io",
    )
]


def explained(name):
    """Whether a name stands in some page as code, alone or as part of an expression."""
    code = re.compile(rf"`[^`\n]*(?<![\w-]){re.escape(name)}(?![\w-])[^`\n]*`")
    return any(code.search(page.read_text("utf-8")) for page in DOCS.glob("*.md"))


# -- completeness ---------------------------------------------------------------------------------


def test_every_public_name_is_explained():
    import observant

    assert [name for name in observant.__all__ if not explained(name)] == []


def test_every_method_is_explained():
    from observant.estimation.rates import EVIDENCE, METHODS

    page = (DOCS / "estimating-rates.md").read_text("utf-8")
    assert [name for name in (*METHODS, *EVIDENCE) if f"`{name}`" not in page] == []


def test_every_command_is_explained():
    from observant.cli import COMMANDS

    page = COMMAND_LINE.read_text("utf-8")
    assert [name for name in COMMANDS if f"`observant {name}`" not in page] == []


def test_whoever_comes_from_the_first_release_finds_every_old_name():
    import observant
    from observant.cli import OLD

    page = (DOCS / "upgrading.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    old = "\n".join(row.split("|")[1] for row in rows)
    now = "\n".join(row.split("|")[2] for row in rows)
    for spelling, new in OLD.items():
        first, *rest = spelling.split()
        assert first in old
        assert all(f"`{word}`" in old or spelling in old for word in rest)
        assert new.split()[0] in now
    for name, new in observant._RENAMED.items():
        assert f"| `observant.{name}` | `observant.{new}` |" in page
    for name, new in observant._MOVED.items():
        assert f"| `{name}` | `{new}` |" in page


def test_every_error_has_a_section_of_its_own():
    from observant import errors

    page = (DOCS / "errors.md").read_text("utf-8")
    assert [name for name in errors.__all__ if f"\n## {name}\n" not in page] == []


def test_every_page_is_in_the_navigation():
    def pages(entry):
        if isinstance(entry, str):
            return [entry]
        inner = entry.values() if isinstance(entry, dict) else entry
        return [page for part in inner for page in pages(part)]

    site = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]
    listed = pages(site["nav"])
    assert sorted(listed) == sorted(page.name for page in DOCS.glob("*.md"))
    assert site["theme"]["font"] is False  # or every page would ask another host for fonts


# -- truth ----------------------------------------------------------------------------------------


def help_of(command):
    """Return what `observant COMMAND --help` prints on a terminal of 80 columns."""
    from click.testing import CliRunner

    from observant.cli import cli

    words = [*command.split()[1:], "--help"]
    _forget_help_option(cli, words[:-1])
    # click leaves two columns free on a real terminal, but not in its test runner.
    result = CliRunner().invoke(cli, words, prog_name="observant", terminal_width=78)
    assert result.exit_code == 0, result.output
    return "\n".join(line.rstrip() for line in result.output.splitlines())


def _forget_help_option(command, words):
    """A command that another test has called by itself remembers how help was asked for there."""
    import click

    command._help_option = None
    for word in words:
        command = command.get_command(click.Context(command), word)
        command._help_option = None


def all_commands():
    """Every command, and behind it those that are part of it."""
    import click

    from observant.cli import COMMANDS, cli

    def parts(command, name):
        yield name
        if isinstance(command, click.Group):
            context = click.Context(command)
            for part in command.list_commands(context):
                yield from parts(command.get_command(context, part), f"{name} {part}")

    for name in (*COMMANDS, "completion"):
        yield from parts(cli.get_command(click.Context(cli), name), name)


def test_help_texts_are_those_of_the_commands():
    """Compared word by word: click may break lines elsewhere in another version."""
    import click

    from observant.cli import cli

    written = {part[2]: part[3] for part in HELP.finditer(COMMAND_LINE.read_text("utf-8"))}
    assert list(written) == ["observant", *(f"observant {name}" for name in all_commands())]
    cli.get_help_option(click.Context(cli))  # as another test may have asked for it
    for command, text in written.items():
        fence = FENCE.search(text)
        assert fence is not None, command
        hint = f"help of {command}: run `python -m tests.test_documentation`"
        assert fence[3].split() == help_of(command).split(), hint


def manual():
    """docs/manual.py, which makes the man page."""
    spec = importlib.util.spec_from_file_location("manual", DOCS / "manual.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_man_page_is_that_of_the_commands():
    made = manual()
    hint = "run `python -m tests.test_documentation`"
    assert made.PAGE.read_text("utf-8").split() == made.made().split(), hint


def write_help_texts():
    manual().PAGE.write_text(manual().made(), "utf-8")
    text = HELP.sub(
        lambda part: f"{part[1]}```text\n{help_of(part[2])}\n```\n{part[4]}",
        COMMAND_LINE.read_text("utf-8"),
    )
    COMMAND_LINE.write_text(text, "utf-8")


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page not in JOURNEYS], ids=lambda page: page.stem
)
def test_commands_print_what_the_page_shows(page, tmp_path, monkeypatch, capfd):
    """Files are the titled blocks of the page; a command that needs another one is passed over."""
    from observant import cli

    monkeypatch.chdir(tmp_path)
    for kind, title, body in FENCE.findall(page.read_text("utf-8")):
        if title:
            Path(title).write_text(body, "utf-8")
        for command, shown in transcripts(body) if kind == "console" else ():
            words = shlex.split(command, comments=True)
            if words[0] != "observant" or "--help" in words or not files_are_there(words, shown):
                continue
            words, source = redirected(words)
            with Path(source).open() as standard_input:
                monkeypatch.setattr(sys, "stdin", standard_input)
                monkeypatch.setattr(sys, "argv", words)
                with pytest.raises(SystemExit) if "Error:" in shown else nullcontext():
                    cli.main()
            printed = capfd.readouterr()
            same = OutputChecker().check_output(
                shown, printed.out + printed.err, ELLIPSIS | NORMALIZE_WHITESPACE
            )
            assert not shown.strip() or same, f"{command}\n{printed.out}{printed.err}"


def files_are_there(words, shown):
    """Whether the files that a command reads exist; a page may show that one does not."""
    made = {words[at + 1] for at, word in enumerate(words[:-1]) if word in {"-o", "--plot"}}
    endings = (".csv", ".parquet", ".jsonl", ".gz", ".zst")
    needed = [word for word in words if word.endswith(endings) and word not in made]
    return "Error:" in shown or all(Path(word).exists() for word in needed)


def redirected(words):
    """Take `< FILE` off a command."""
    if "<" not in words:
        return words, os.devnull
    at = words.index("<")
    return words[:at] + words[at + 2 :], words[at + 1]


# -- links and hosts ------------------------------------------------------------------------------


def anchors(page):
    """Return the ids of a page's headings, as the site generator makes them."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings]
    return {re.sub(r"[\s-]+", "-", heading) for heading in plain}


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    for link in links:
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.is_file(), f"{page.name} links to {link}"
        if anchor:
            assert anchor in anchors(target), f"{page.name} links to {link}"


def committed_files():
    """Every file of the project, except what is made by tools."""
    made = {"site", "dist", "build", "demo", "__pycache__"}
    for folder, inner, files in os.walk(ROOT):
        here = Path(folder)
        inner[:] = [
            name
            for name in inner
            if name not in made and (name == ".ci" or not name.startswith("."))
        ]
        yield from (here / name for name in files)


def test_no_file_names_a_package_host():
    """The project can be built wherever pip finds its packages, and read without a network."""
    found = []
    for file in committed_files():
        try:
            text = file.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{file.relative_to(ROOT)}: {host}" for host in PACKAGE_HOSTS if host in text]
    assert found == []


if __name__ == "__main__":
    write_help_texts()
