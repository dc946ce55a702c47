"""What a handler is given because it asks for it: the collection, the accounts, the prefix.

Marked as Litestar wants it (and version 3 will demand it): by name, not by guessing.
"""

from __future__ import annotations

from litestar.di import NamedDependency

from observant.service.access.identity import Access
from observant.service.collection import Collection

__all__ = ["GivenAccess", "GivenCollection", "GivenPrefix"]

GivenCollection = NamedDependency[Collection]
GivenAccess = NamedDependency[Access]
GivenPrefix = NamedDependency[str]
