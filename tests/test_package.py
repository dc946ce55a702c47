"""The package as a package: its names, its weight, its layers."""

import importlib
import subprocess
import sys

import pytest

import observant


def test_every_public_name_exists_once():
    assert observant.__all__ == sorted(
        observant.__all__, key=lambda name: (not name[0].isupper(), name)
    )
    assert set(observant.__all__) == set(observant._HOMES)
    for name, home in observant._HOMES.items():
        assert getattr(observant, name) is getattr(importlib.import_module(home), name)
        assert name in dir(observant)


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="no attribute 'estimate_everything'"):
        observant.estimate_everything  # noqa: B018


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import observant", "numpy pyarrow scipy numba altair click rich"),
        ("import observant.cli", "numpy pyarrow scipy numba altair rich"),
        ("from observant import VisitLog, estimate_rates", "scipy numba altair pyarrow click"),
    ],
)
def test_heavy_things_load_late(statement, unwanted):
    """Start-up time is what a person waits for; see benchmarks/startup.py for the seconds."""
    code = f"{statement}; import sys; print(*[m for m in {unwanted.split()} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == ""


def test_a_small_estimate_needs_no_compiler(tmp_path):
    (tmp_path / "v.csv").write_text("source,time,changed\na,0,\na,86400,1\na,172800,0\n")
    code = (
        "import sys; from observant import read_visits, estimate_rates;"
        f"estimate_rates(read_visits({str(tmp_path / 'v.csv')!r})); print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert done.stdout.strip() == "False"
