"""Settings: values that are kept by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from observant.store.engine import StorePiece
from observant.store.validation import as_json, checked_name, from_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from observant.store.engine import Session

__all__ = ["Settings"]


class Settings(StorePiece):
    """Kept values: any JSON."""

    def get(self, key: str, default: Any = None) -> Any:
        """A kept value."""
        text = self._engine.read(lambda session: session.value("setting", key=key))
        return default if text is None else from_json(text)

    def all(self, prefix: str = "") -> dict[str, Any]:
        """All kept values whose key begins so."""
        rows = self._engine.read(lambda session: session.all("settings"))
        return {key: from_json(text) for key, text in rows if key.startswith(prefix)}

    def change(self, key: str, work: Callable[[Any], Any]) -> None:
        """Keep what `work` makes of a kept value (None if there is none), in one transaction."""
        checked_name(key, "setting", 500)

        def change(session: Session) -> None:
            value = work(from_json(session.value("setting", key=key)))
            if value is None:
                session.run("delete_setting", key=key)
            else:
                session.run("set_setting", key=key, value=as_json(value, f"the setting {key}"))

        self._engine.write(change)

    def set(self, key: str, value: Any) -> None:
        """Keep any JSON value; None deletes it."""
        self.change(key, lambda _: value)
