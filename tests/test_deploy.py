"""The files that people deploy with say what the program understands."""

import configparser
import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import click
import pytest
import yaml

from observant.cli import cli
from observant.observer.config import load_config

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]
PASSWORD = re.compile(r"\$\{POSTGRES_PASSWORD:\?[^}]*\}")


def understood(words):
    """Parse a command line as the program would, without running it."""
    command, context = cli, click.Context(cli, info_name="observant")
    while isinstance(command, click.Group):
        name, command, words = command.resolve_command(context, list(words))
        if isinstance(command, click.Group):
            context = click.Context(command, parent=context)
    return command.make_context(name, list(words), parent=context)


def dockerfile():
    text = (ROOT / "Dockerfile").read_text("utf-8")
    text = re.sub(r"\\\n\s*", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line]


def compose():
    return yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]


def unit():
    parser = configparser.ConfigParser(interpolation=None, strict=True)
    parser.optionxform = str
    parser.read(ROOT / "deploy" / "observant.service", "utf-8")
    return parser


def test_the_image_runs_a_command_that_exists():
    steps = dict(dockerfile())
    assert json.loads(steps["ENTRYPOINT"]) == ["observant"]
    started = understood(json.loads(steps["CMD"]))
    assert started.params["host"] == "0.0.0.0"  # noqa: S104 - inside of a container
    assert int(steps["EXPOSE"]) == started.params["port"]
    assert f":{started.params['port']}/health" in steps["HEALTHCHECK"]
    default = next(v for k, v in dockerfile() if k == "ARG" and v.startswith("EXTRAS="))
    assert set(default.removeprefix("EXTRAS=").split(",")) <= set(EXTRAS)


def test_the_image_is_given_what_the_wheel_is_made_of():
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    hatch = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {"pyproject.toml", project["project"]["readme"], *project["project"]["license-files"]}
    needed |= {*hatch["shared-data"], *(name.partition("/")[0] for name in hatch["packages"])}
    assert kept == needed
    assert all((ROOT / name).exists() for name in kept)


def test_compose_says_what_the_program_understands():
    services = compose()
    service = services["observant"]
    port = understood(service["command"]).params["port"]
    assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert set(service["build"]["args"]["EXTRAS"].split(",")) <= set(EXTRAS)
    assert {"postgres", "browser"} <= set(service["build"]["args"]["EXTRAS"].split(","))
    asked = {v.partition("=")[0] for k, v in dockerfile() if k == "ARG"}
    assert set(service["build"]["args"]) <= asked
    variables = {key: PASSWORD.sub("secret", text) for key, text in service["environment"].items()}
    assert all(key.startswith("OBSERVANT_") for key in variables)
    config = load_config(None, {}, variables)
    user, database = (services["db"]["environment"][f"POSTGRES_{key}"] for key in ("USER", "DB"))
    assert config.store == f"postgresql://{user}:secret@db/{database}"
    assert (config.log, config.browser.pages) == ("json", 2)
    assert {name.partition(":")[0] for s in services.values() for name in s["volumes"]} == set(
        yaml.safe_load((ROOT / "compose.yaml").read_text())["volumes"]
    )


def test_the_unit_runs_a_command_that_exists(tmp_path):
    service = unit()["Service"]
    program, *words = service["ExecStart"].split()
    assert Path(program).name == "observant"
    assert understood(words).info_name == "serve"
    variables = dict(pair.split("=") for pair in service["Environment"].split())
    assert {"XDG_CONFIG_HOME", "XDG_DATA_HOME"} <= set(variables)
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here")
    text = (ROOT / "deploy" / "observant.service").read_text("utf-8")
    copy = tmp_path / "observant.service"
    copy.write_text(text.replace(program, shutil.which("true")))
    done = subprocess.run(  # noqa: S603
        [shutil.which("systemd-analyze"), "verify", str(copy)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_page_prints_commands_that_exist():
    text = (ROOT / "docs" / "deploy.md").read_text("utf-8")
    blocks = "\n".join(re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    lines = re.findall(r"^(?:docker.* exec observant )?observant (.*)$", blocks, re.MULTILINE)
    lines += re.findall(r"`observant ([^`]*)`", re.sub(r"(?s)```.*?```", "", text))
    found = [re.sub(r"\s+#.*", "", line) for line in lines]
    assert len(found) >= 8
    for words in found:
        understood(words.split())
    for files in ("deploy/observant.service", "Dockerfile", "compose.yaml"):
        assert files in text
    assert set(re.findall(r"observant\[([\w,]+)\]", text)) <= set(EXTRAS)


def test_a_wrong_option_is_found():
    with pytest.raises(click.ClickException):
        understood(["serve", "--hots", "0.0.0.0"])  # noqa: S104
