"""What a handler is given because it asks for it: the collection, the accounts, the prefix,
the form that was sent.

Marked as Litestar wants it (and version 3 will demand it): by name, not by guessing.
"""

from __future__ import annotations

from litestar.di import NamedDependency

from observant.service.access.identity import Access
from observant.service.collection import Collection
from observant.service.forms import Form

__all__ = ["GivenAccess", "GivenCollection", "GivenForm", "GivenPrefix"]

GivenCollection = NamedDependency[Collection]
GivenAccess = NamedDependency[Access]
GivenPrefix = NamedDependency[str]
GivenForm = NamedDependency[Form]
