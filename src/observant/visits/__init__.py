"""What did we see, and when? The visit log, checked once at the door."""

from observant.visits.log import VisitLog
from observant.visits.reading import LogReader

__all__ = ["LogReader", "VisitLog"]
