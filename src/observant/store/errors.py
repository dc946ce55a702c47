"""What a store can complain about; all are `StoreError`.

StoreError
├── FenceError           a commit for a shard that somebody else holds now, or whose lease ran out
├── UnknownSourceError   there is no such source (any more)
├── StoreVersionError    the store was written by a newer observant
├── StoreBusyError       another process holds the store; nothing was written
└── BackupError          a file is no backup of ours, or is damaged
"""

from observant.errors import ObservantError

__all__ = [
    "BackupError",
    "FenceError",
    "StoreBusyError",
    "StoreError",
    "StoreVersionError",
    "UnknownSourceError",
]


class StoreError(ObservantError):
    """The store cannot do what was asked. Nothing of the transaction was written."""


class FenceError(StoreError):
    """The observer no longer holds the shard: its visit is refused, nothing was counted."""


class UnknownSourceError(StoreError):
    """There is no source of this name."""


class StoreVersionError(StoreError):
    """The store was written by a newer version of observant."""


class StoreBusyError(StoreError):
    """Another process holds the store for too long."""


class BackupError(StoreError):
    """A file that is not a sound backup."""
