"""What did we see, and when? The visit log, checked once."""

from observant.visits.log import VisitLog
from observant.visits.reader import LogReader

__all__ = ["LogReader", "VisitLog"]
