"""Everything observant can complain about.

ObservantError
├── InputError          what was given cannot be used: names the file, row, column or source
│   ├── VisitLogError   a visit log breaks a rule of its own (order, range, duplicates)
│   └── UnitError       a duration, rate or budget that cannot be read
└── EstimationError     the question has no answer with this evidence

A doubt about an answer that stands is not an error: it is one of the answer's `notes`.
"""

__all__ = [
    "EstimationError",
    "InputError",
    "ObservantError",
    "UnitError",
    "VisitLogError",
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


class EstimationError(ObservantError):
    """The question has no answer with this evidence."""
