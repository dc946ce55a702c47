"""Everything observant can complain about.

ObservantError
├── InputError                what was given cannot be used: names the file, row, column or source
│   ├── VisitLogError         a visit log breaks a rule of its own (order, range, duplicates)
│   ├── UnitError             a duration, rate or budget that cannot be read
│   ├── ExtraError            a package that an extra brings is not installed
│   └── MissingError          the service has nothing with this number or name
├── EstimationError           the question has no answer with this evidence
├── StoreError                the store cannot do what was asked; nothing was written
│   ├── FenceError            somebody else holds this part of the sources now
│   ├── UnknownSourceError    there is no such source (any more)
│   ├── StoreVersionError     the store was written by a newer observant
│   ├── StoreAwayError        the database cannot be reached; nothing was written
│   ├── StoreBusyError        another process holds the store
│   └── BackupError           a file is no backup of ours, or is damaged
├── ServiceError              the client: a service refused, or could not be reached
├── DeniedError               the service: whoever asks may not do this
├── SignInError               the service: name or password is wrong
├── TooManyError              the service: too many failed attempts
├── PendingError              the service: the numbers of a figure are being computed
├── UnreadableError           the observer: nothing of a body can be compared
├── WorkerError               a worker process could not read what was sent
│   └── LimitError            it took more time or memory than it may
└── BusyError                 too much of this is asked for at once: come back soon

Refusal                       no fault: a part says what it thinks of something, and another listens
├── BadURL                    an address that is not fetched
├── Unreachable               an address that is not connected to
├── BrowserDied               a browser that ended under a page: another one looks
├── TooLarge                  a body of more than the limit
├── BadBody                   a body that is not what its coding promises
└── LeftOut                   a row of an archive that is no visit

A doubt about an answer that stands is not an error: it is one of the answer's `notes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from observant.store.visit import Error

__all__ = [
    "BackupError",
    "BadBody",
    "BadURL",
    "BrowserDied",
    "BusyError",
    "DeniedError",
    "EstimationError",
    "ExtraError",
    "FenceError",
    "InputError",
    "LeftOut",
    "LimitError",
    "MissingError",
    "ObservantError",
    "PendingError",
    "Refusal",
    "ServiceError",
    "SignInError",
    "StoreAwayError",
    "StoreBusyError",
    "StoreError",
    "StoreVersionError",
    "TooLarge",
    "TooManyError",
    "UnitError",
    "UnknownSourceError",
    "Unreachable",
    "UnreadableError",
    "VisitLogError",
    "WorkerError",
]


class ObservantError(Exception):
    """Something observant cannot do. The message alone must be enough to mend it."""


class InputError(ObservantError):
    """What was given cannot be used.

    The subject (file, row, column, source) is part of the message and also an attribute, so that
    a program can act on it.

    >>> print(InputError("this is not a time: 'soon'", file="visits.csv", row=3, column="time"))
    visits.csv, row 3, column time: this is not a time: 'soon'
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        row: int | None = None,
        column: str | None = None,
        source: str | None = None,
    ) -> None:
        self.message, self.file, self.row, self.column, self.source = (
            message,
            file,
            row,
            column,
            source,
        )
        place = [
            file or "",
            f"row {row}" if row is not None else "",
            f"column {column}" if column else "",
            f"source {source!r}" if source is not None else "",
        ]
        where = ", ".join(part for part in place if part)
        super().__init__(f"{where}: {message}" if where else message)


class VisitLogError(InputError):
    """A visit log breaks one of its rules."""


class UnitError(InputError):
    """A duration, rate or budget that cannot be read."""


class ExtraError(InputError, ImportError):
    """A package that only an extra brings is not installed; the message says how to install it."""


class MissingError(InputError):
    """There is nothing with this number or name."""


class EstimationError(ObservantError):
    """The question has no answer with this evidence."""


class StoreError(ObservantError):
    """The store cannot do what was asked. Nothing of the transaction was written."""


class FenceError(StoreError):
    """The observer no longer holds the shard: its visit is refused, nothing was counted."""


class UnknownSourceError(StoreError):
    """There is no source of this name."""


class StoreVersionError(StoreError):
    """The store was written by a newer version of observant."""


class StoreAwayError(StoreError):
    """The database cannot be reached now; what was asked can be asked again."""


class StoreBusyError(StoreError):
    """Another process holds the store for too long."""


class BackupError(StoreError):
    """A file that is not a sound backup."""


class ServiceError(ObservantError):
    """The service refused, or could not be reached. `status` is None if it gave no answer."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(message)


class DeniedError(ObservantError):
    """Whoever asks may not do this."""


class SignInError(ObservantError):
    """Name or password is wrong; which of them is not told."""


class TooManyError(ObservantError):
    """Too many failed attempts."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"too many attempts: wait {seconds:.0f} seconds")


class PendingError(ObservantError):
    """The numbers are being computed: ask again soon."""


class UnreadableError(ObservantError):
    """Nothing can be compared: the body is not what it claims, or the selection found nothing."""


class WorkerError(ObservantError):
    """What was sent could not be read by a worker process; the message says why."""


class LimitError(WorkerError):
    """Reading took more time or memory than it may."""


class BusyError(ObservantError):
    """Too much of this is asked for at once: come back soon."""


class Refusal(Exception):  # noqa: N818 - what a part thinks of something, and no fault of ours
    """Raised and caught inside; it becomes an outcome of a visit, or a count of a report."""


class BadURL(Refusal):
    """An address that is not fetched, and why."""


class Unreachable(Refusal):
    """An address that is not connected to; `error` is that of the visit."""

    def __init__(self, error: Error, message: str) -> None:
        self.error: Error = error
        super().__init__(message)


class BrowserDied(Refusal):
    """The browser has ended or does not answer: another one is to look at the page."""


class TooLarge(Refusal):
    """A body of more than the limit."""


class BadBody(Refusal):
    """A body that is not what its content coding promises."""


class LeftOut(Refusal):
    """A sound row that is no visit, and why; one that cannot be read is a `ValueError`."""
