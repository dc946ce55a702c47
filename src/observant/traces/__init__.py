"""When every source was really updated: the ground truth that policies are tried on."""

from observant.traces.git import trace_of_git
from observant.traces.reading import read_trace, write_trace
from observant.traces.releases import read_releases
from observant.traces.trace import Trace, group_of
from observant.traces.visits import trace_of_visits

__all__ = [
    "Trace",
    "group_of",
    "read_releases",
    "read_trace",
    "trace_of_git",
    "trace_of_visits",
    "write_trace",
]
