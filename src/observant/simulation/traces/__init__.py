"""When every source was really updated: the ground truth that policies are tried on."""

from observant.simulation.traces.files import example_trace, read_trace, write_trace
from observant.simulation.traces.git import trace_of_git
from observant.simulation.traces.history import trace_of_visits
from observant.simulation.traces.releases import read_releases
from observant.simulation.traces.trace import Trace, group_of

__all__ = [
    "Trace",
    "example_trace",
    "group_of",
    "read_releases",
    "read_trace",
    "trace_of_git",
    "trace_of_visits",
    "write_trace",
]
