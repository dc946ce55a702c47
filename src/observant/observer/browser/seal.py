"""What a browser keeps of somebody who has signed in, encrypted under a key outside the store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

_LARGEST = 200_000
"""Bytes of a state; one that is larger is not kept, and signed in again."""


def key_file(store: str, given: str = "") -> str:
    """Where the key is; empty where there is none, and no state is kept.

    >>> key_file("observant.db"), key_file("postgresql://db/x"), key_file(":memory:", "/etc/key")
    ('observant.db.key', '', '/etc/key')
    """
    if given:
        return given
    return "" if "://" in store or store in {"", ":memory:"} else f"{store}.key"


class Seal:
    """Encrypts and decrypts with the key of a file, which is made when it is first needed."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._made: Fernet | None = None

    def close(self, state: Any) -> str | None:
        """A state as text that only the key opens; None if it is not to be kept."""
        packed = msgspec.json.encode(state)
        if not self._file or len(packed) > _LARGEST:
            return None
        return self._fernet(make=True).encrypt(packed).decode("ascii")  # type: ignore[union-attr]

    def open(self, sealed: Any) -> Any:
        """The state; None if it cannot be opened with our key."""
        from cryptography.fernet import InvalidToken

        fernet = self._fernet(make=False) if self._file and isinstance(sealed, str) else None
        if fernet is None:
            return None
        try:
            return msgspec.json.decode(fernet.decrypt(sealed.encode("utf-8", "replace")))
        except (InvalidToken, msgspec.DecodeError):
            return None

    def _fernet(self, *, make: bool) -> Fernet | None:
        from cryptography.fernet import Fernet

        if self._made is None:
            place = Path(self._file)
            if make and not place.exists():
                new = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(new, "wb") as file:
                    file.write(Fernet.generate_key())
            if not place.exists():
                return None
            self._made = Fernet(place.read_bytes().strip())
        return self._made
