"""Parts that other packages add to ours: by entry points, or as ``module:name``.

A family of parts lists those that are built in. A package adds one to it in its pyproject.toml:

    [project.entry-points."observant.sources"]
    row = "my_package.rows:RowSource"

Only who installs packages can do that: no page, subscription or imported file names a module.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

__all__ = ["GROUPS", "MovedModules", "added", "lazy", "load"]

GROUPS = {
    "observant.channels": "ways to tell people, by the scheme of the address",
    "observant.importers": "formats of other tools, by name",
    "observant.sources": "kinds of sources, by name",
    "observant.stores": "databases, by the scheme of the address",
}
"""The groups of entry points, and what each adds."""


def added(group: str) -> dict[str, str]:
    """What installed packages add to a family: name → ``module:attribute``."""
    from importlib.metadata import entry_points

    return {entry.name: entry.value for entry in entry_points(group=group)}


def load(where: str) -> Any:
    """Import what stands at ``module:attribute``.

    >>> load("observant.units:parse_duration")("36h")
    1.5
    """
    module, _, attribute = where.partition(":")
    found: Any = importlib.import_module(module)
    for name in attribute.split("."):
        found = getattr(found, name)
    return found


def lazy(
    package: str, homes: dict[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package whose names load when they are first used."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = sys.modules[package]
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(module, name, value)
        return value

    return find, lambda: sorted({*vars(sys.modules[package]), *homes})


class MovedModules:
    """Imports of modules that have moved still work, and warn: old name → new name."""

    def __init__(self, moved: dict[str, str]) -> None:
        self._moved = moved

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        del path, target
        old = next((o for o in self._moved if name == o or name.startswith(f"{o}.")), None)
        if old is None:
            return None
        return ModuleSpec(name, self, origin=self._moved[old] + name.removeprefix(old))  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        import warnings

        message = f"{spec.name} is {spec.origin} now; the old name goes with the next release"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        module = importlib.import_module(str(spec.origin))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It has run under its new name, which it keeps."""
        module.__spec__ = module.__spec__ and module.__spec__.loader_state
