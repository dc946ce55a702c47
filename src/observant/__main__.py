"""The program `observant`, also as `python -m observant`: the command line, in its own process."""

from __future__ import annotations

import sys
from typing import Any

from observant.cli import main


class _Unasked:
    """Leaves pandas out as long as nobody's code asks for it.

    PyArrow loads it at its first call wherever it is installed, which takes a third of the time of
    a small `estimate`, and no command needs it. Who imports it in a policy or a source of their
    own gets it.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "pandas":
            frame = sys._getframe(1)  # noqa: SLF001
            while frame.f_back and frame.f_globals.get("__name__", "").startswith("importlib"):
                frame = frame.f_back
            if frame.f_globals.get("__name__", "").partition(".")[0] in {"observant", "pyarrow"}:
                raise ModuleNotFoundError("pandas is not needed here", name=name)


def program() -> None:
    """Run the command line, and nothing else in this process."""
    sys.meta_path.insert(0, _Unasked())
    main()


if __name__ == "__main__":
    program()
