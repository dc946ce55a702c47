"""When a source may be visited: ``mon-fri 08:00-18:00``, in the time zone of the source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from observant.errors import InputError
from observant.observer import bounds
from observant.times import zone_of

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WINDOW = re.compile(
    r"(?:(?P<days>[a-z,\s-]+?)\s+)?(?P<from>\d{1,2}:\d{2})\s*-\s*(?P<to>\d{1,2}:\d{2})|(?P<only>[a-z,\s-]+)"
)
_MINUTES = 24 * 60
_EXAMPLES = "write for example 08:00-18:00, mon-fri 09:00-17:30 or sat,sun"


@dataclass(frozen=True)
class ActiveHours:
    """Windows of the week; a window that ends before it begins runs past midnight.

    >>> from observant.times import from_iso, iso, seconds
    >>> office = ActiveHours.parse(["mon-fri 08:00-18:00"], "Europe/Berlin")
    >>> friday = seconds(from_iso("2026-11-13T16:30Z"))
    >>> office.allows(friday), office.allows(friday + 3600)
    (True, False)
    >>> iso(office.next(friday + 3600))
    '2026-11-16T07:00:00Z'
    """

    windows: tuple[tuple[int, int, int], ...]
    """Day of the week (0 is Monday), first minute and last minute; the last may pass midnight."""
    zone: tzinfo

    @classmethod
    def parse(cls, windows: list[str], zone: str = "UTC") -> ActiveHours:
        where = zone_of(zone)
        bounds.several("active", windows, 200)
        found: list[tuple[int, int, int]] = []
        for text in windows:
            match = _WINDOW.fullmatch(text.strip().lower())
            if match is None:
                raise InputError(f"these are no active hours: {text!r}; {_EXAMPLES}")
            begin, end = _minute(match["from"] or "0:00"), _minute(match["to"] or "24:00")
            if end <= begin:
                end += _MINUTES
            found.extend((day, begin, end) for day in _days(match["days"] or match["only"], text))
        return cls(tuple(found), where)

    def allows(self, at: float) -> bool:
        """Whether a visit may begin at this instant."""
        local = datetime.fromtimestamp(at, self.zone)
        minute = 60 * local.hour + local.minute
        today, yesterday = local.weekday(), (local.weekday() - 1) % 7
        return any(
            (day == today and begin <= minute < end)
            or (day == yesterday and minute < end - _MINUTES)
            for day, begin, end in self.windows
        )

    def next(self, at: float) -> float:
        """The first instant from `at` on when a visit may begin."""
        if self.allows(at):
            return at
        local = datetime.fromtimestamp(at, self.zone)
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
        starts = [
            (midnight + timedelta(days=ahead, minutes=begin)).timestamp()
            for ahead in range(15)
            for day, begin, _ in self.windows
            if day == (local.weekday() + ahead) % 7
        ]
        # An hour that summer time skips may begin where nothing is allowed: the next one will do.
        return min(start for start in starts if start > at and self.allows(start))


def _minute(text: str) -> int:
    hour, minute = (int(part) for part in text.split(":"))
    if hour * 60 + minute > _MINUTES or minute > 59:
        raise InputError(f"this is no time of day: {text!r}")
    return hour * 60 + minute


def _days(text: str | None, whole: str) -> list[int]:
    if text is None:
        return list(range(7))
    days: list[int] = []
    for part in text.replace(" ", "").split(","):
        first, _, last = part.partition("-")
        if first[:3] not in _DAYS or (last and last[:3] not in _DAYS):
            raise InputError(f"these are no active hours: {whole!r}; {_EXAMPLES}")
        begin = _DAYS.index(first[:3])
        end = _DAYS.index(last[:3]) if last else begin
        days.extend((begin + k) % 7 for k in range((end - begin) % 7 + 1))
    return days
