"""Secrets that people enter with their sources: passwords in addresses, values of headers.

They are shown to nobody who only reads. A masked value that comes back means: keep what is there.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["MASK", "masked_settings", "masked_url", "unmasked_settings", "unmasked_url"]

MASK = "•••"
_CREDENTIALS = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.-]*://)([^/?#]*)@")


def masked_url(url: str) -> str:
    """An address without its password.

    >>> masked_url("https://ada:secret@example.org/a"), masked_url("https://example.org/@b")
    ('https://•••@example.org/a', 'https://example.org/@b')
    """
    return _CREDENTIALS.sub(rf"\1{MASK}@", url)


def masked_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with the values of headers masked."""
    headers = settings.get("headers")
    if not isinstance(headers, dict) or not headers:
        return dict(settings)
    return settings | {"headers": dict.fromkeys(headers, MASK)}


def unmasked_url(new: str, old: str) -> str:
    """A new address; a masked password stands for the one of the old address."""
    masked, kept = _CREDENTIALS.match(new), _CREDENTIALS.match(old)
    if masked is None or masked[2] != MASK or kept is None:
        return new
    return f"{masked[1]}{kept[2]}@{new[masked.end() :]}"


def unmasked_settings(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """New settings; a masked header stands for its old value."""
    headers, before = new.get("headers"), old.get("headers") or {}
    if not isinstance(headers, dict):
        return new
    known = {
        name: before.get(name, value) if value == MASK else value for name, value in headers.items()
    }
    return new | {"headers": known}
