"""Poisson or not? The model of a source that its visits call for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from observant.estimation.intervals.diagnostics import poisson_test_of_visits
from observant.estimation.intervals.estimate import estimate_intervals
from observant.estimation.rates import estimate_rates

if TYPE_CHECKING:
    from observant.estimation.intervals.answer import IntervalEstimate
    from observant.visits import VisitLog


class ChosenModel(NamedTuple):
    """How a source changes, for `observant.currency`, `plan` and simulation."""

    model: Any
    """A rate, or a process with the ages that were measured."""
    rate: float
    """Updates a day, as if it were Poisson."""
    why: str

    @property
    def measured(self) -> bool:
        """Whether the ages were measured, since the rate would mislead."""
        return not isinstance(self.model, float)


def chosen_model(log: VisitLog, source: str, *, level: float = 0.01) -> ChosenModel:
    """The rate of a source, or all of its ages where visits show that it is not Poisson.

    The test asks whether the chance of a change depends on the time since the last one. Where it
    says so clearly (p below `level`), the rate would mislead: a regular source is fresher, a
    bursty one staler than its rate says, or the other way round at other periods.

    >>> from observant.testing import synthetic_visits
    >>> log, rates = synthetic_visits(sources=2, visits=60, seed=3)
    >>> chosen_model(log, log.sources[0].as_py()).why
    'Poisson: nothing clear speaks against it (p = 0.42)'
    """
    own = log.select([source])
    rate = float(estimate_rates(own, "bias-reduced").rate_per_day[0])
    test = poisson_test_of_visits(own, level=level)
    p, kind = float(test.memory_p[0]), str(test.verdict[0])
    if kind == "too-few":
        return ChosenModel(rate, rate, "Poisson: too few changes to say anything else")
    if kind == "possible":
        why = f"Poisson: nothing clear speaks against it (p = {p:.2g})"
        return ChosenModel(rate, rate, why)
    found = cast("IntervalEstimate", estimate_intervals(own, source, bands=0))
    why = (
        f"not Poisson but {kind} (p = {p:.2g}): the ages that were measured, method {found.method}"
    )
    return ChosenModel(found.process(), rate, why)
