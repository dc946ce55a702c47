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

EXTRAS = {
    "altair": "plot",
    "apprise": "watch",
    "brotli": "watch",
    "can_ada": "watch",
    "cssselect": "watch",
    "feedparser": "watch",
    "jinja2": "watch",
    "jmespath": "watch",
    "litestar": "watch",
    "lxml": "watch",
    "markupsafe": "watch",
    "playwright": "browser",
    "PIL": "browser",
    "cryptography": "watch",
    "prometheus_client": "watch",
    "protego": "watch",
    "psycopg": "postgres",
    "pycurl": "watch",
    "pypdf": "pdf",
    "pyspark": "spark",
    "regex": "watch",
    "scrapy": "scrapy",
    "uvicorn": "watch",
    "vl_convert": "plot",
    "yaml": "archive",
    "zstandard": "watch",
}
"""Modules that `pip install observant` does not bring, and the extra that does."""

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

    if group not in GROUPS:
        raise LookupError(f"there is no group {group!r}: {', '.join(GROUPS)}")
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


def load_own(where: str, what: str, folder: str = "") -> Any:
    """The same for a part that somebody names, also from this folder (or the one we are in).

    >>> load_own("observant.units:parse", "policy")
    Traceback (most recent call last):
    observant.errors.InputError: policy 'observant.units:parse': 'observant.units' has no 'parse'
    """
    from pathlib import Path

    from observant.errors import InputError

    here = str(Path(folder).resolve())
    sys.path.insert(0, here)
    try:
        return load(where)
    except Exception as error:  # somebody's own module may raise anything
        module, told = where.partition(":")[0], f"cannot be imported ({error})"
        if isinstance(error, AttributeError) and module in sys.modules:
            told = f"has no {error.name!r}"
        raise InputError(f"{what} {where!r}: {module!r} {told}") from error
    finally:
        sys.path.remove(here)


def needed(error: ImportError, extra: str = "") -> ImportError:
    """The same error; where an extra would help, with the line that installs it (or this one).

    >>> print(needed(ModuleNotFoundError("No module named 'altair'", name="altair")))
    altair is not installed: pip install 'observant[plot]'
    """
    from observant.errors import ExtraError

    module = (error.name or "").partition(".")[0]
    if isinstance(error, ExtraError) or module not in EXTRAS:
        return error
    extra = extra or EXTRAS[module]
    return ExtraError(f"{module} is not installed: pip install 'observant[{extra}]'")


def lazy(
    package: str, homes: dict[str, str], renamed: dict[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package whose names load when they are first used.

    Names that are `renamed` are found too, with a warning.
    """

    def find(name: str) -> Any:
        if renamed and name in renamed:
            import warnings

            message = f"{package}.{name} is {package}.{renamed[name]} now"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            return getattr(sys.modules[package], renamed[name])
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = sys.modules[package]
        try:
            value = getattr(importlib.import_module(homes[name]), name)
        except ImportError as error:
            raise needed(error) from error
        setattr(module, name, value)
        return value

    def names() -> list[str]:
        module = sys.modules[package]
        inner = {name for name in vars(module) if name.startswith("__")}
        return sorted({*inner, *getattr(module, "__all__", ()), *homes})

    return find, names


class MovedModules:
    """Imports of modules that have moved still work, and warn: old name → new name."""

    def __init__(self, moved: dict[str, str]) -> None:
        self._moved = moved

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
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
