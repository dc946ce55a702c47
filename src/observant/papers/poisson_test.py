"""Li, VII.A: is any real source Poisson? The test on every trace of a folder.

Li's question to 444,000 Wikipedia articles with 100 updates or more: how many have a coefficient of
variation within a tenth of 1? It was 202, and those looked at closely were not independent either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from observant.estimation.intervals.poisson_tests import PoissonTest, poisson_test
from observant.papers.result import Check, Experiment, Options, Reproduction, real_traces
from observant.processes import Bursts, Exponential, Pareto, Weibull

if TYPE_CHECKING:
    from observant.arrays import Flags, Floats, Integers

_LIS_FEWEST = 100
_LIS_TENTH = 0.1


@Experiment.named(
    "li-poisson-test",
    "Li, VII.A: the Poisson test on real traces, and the share that fails",
    seconds=10,
    uses_traces=True,
)
def poisson_of_traces(options: Options) -> Reproduction:
    """Test every trace of the folder; without a folder, sources whose truth is known."""
    if options.traces is None:
        return _known_sources(options)
    rows, tests = [], {}
    for name, trace in real_traces(options.traces):
        updates, names = trace.updates, np.asarray(trace.sources, object)
        tests[name] = _test_of(updates.times, updates.offsets, names)
        rows.append(poisson_row(name, tests[name]))
    wikis = [test for name, test in tests.items() if name.startswith("wiki")]
    rows += [poisson_row("all wikis", _together(wikis))] if wikis else []
    rows.append(poisson_row("all", _together(list(tests.values()))))
    return Reproduction(
        title="The Poisson test on real traces",
        checks=_checks(rows[-2]) if wikis else [],
        table=rows,
        notes=_NOTES,
    )


_NOTES = (
    (
        "a source is tested with 10 intervals or more; level 0.05, half for the shape "
        "(Lilliefors), half for independence (Ljung and Box on normal scores)"
    ),
    (
        "the last, unfinished interval of a trace is left out, and polled traces show the first "
        "poll after a change: both make intervals a little more regular than they are"
    ),
    "compared with Li are collections whose name begins with wiki; Li's are Wikipedia articles",
)


def _checks(wikis: dict[str, Any]) -> list[Check]:
    if not (pages := wikis["100 updates or more"]):
        return []
    inside = wikis["|v − 1| ≤ 0.1 of these"]
    return [
        Check(
            "share of wiki pages with |v − 1| ≤ 0.1, of those with 100 updates or more",
            202 / 444_000,
            inside,
            within=3 * max(np.sqrt(inside * (1 - inside) / pages), 1 / pages),
            why="other wikis, and another year",
        ),
        Check(
            "share of wiki pages that fail, of those with 100 updates or more",
            1.0,
            wikis["fail of these"],
            kind="words",
            why="Li shows one of the 202 and says the same of the others",
        ),
    ]


def poisson_row(name: str, test: PoissonTest) -> dict[str, Any]:
    """One line of the table: how the sources of a collection fare."""
    tested = test.tested
    shape = test.exponential_p[tested] < test.level / 2
    order = test.independence_p[tested] < test.level / 2
    long = tested & (test.intervals >= _LIS_FEWEST - 1)
    inside = (test.cv >= test.cv_low) & (test.cv <= test.cv_high)
    return {
        "collection": name,
        "sources": len(test),
        "tested": int(tested.sum()),
        "fail": _share(shape | order),
        "not exponential": _share(shape),
        "dependent": _share(order),
        "cv as if Poisson": _share(inside[tested]),
        "median cv": _middle(test.cv[tested]),
        "100 updates or more": int(long.sum()),
        "|v − 1| ≤ 0.1 of these": _share(np.abs(test.cv[long] - 1.0) <= _LIS_TENTH),
        "fail of these": _share(test.verdict_code[long] > 1),
        "median hurst of these": _middle(test.hurst[long]),
    }


def _test_of(times: Floats, offsets: Integers, sources: Any) -> PoissonTest:
    within = np.ones(max(len(times) - 1, 0), bool)
    within[offsets[1:-1] - 1] = False  # from one source to the next is no interval
    counts = np.diff(offsets) - 1
    return poisson_test(np.diff(times)[within], np.append(0, np.cumsum(counts)), sources=sources)


def _known_sources(options: Options) -> Reproduction:
    """What the test says of sources that are Poisson, and of some that are not."""
    sources = options.runs or 400
    kinds = {
        "Poisson": Exponential(1.0),
        "Pareto, shape 3": Pareto.with_mean(1.0),
        "Weibull, shape 0.5": Weibull(0.5, 0.5),
        "Weibull, shape 2": Weibull(2.0, 1.1284),
        "bursts": Bursts.with_mean(1.0, on_time=0.5, off_time=5.0),
    }
    rows = []
    for k, (name, process) in enumerate(kinds.items()):
        updates = process.sample(200.0, sources, seed=options.rng(k))
        rows.append(poisson_row(name, _test_of(updates.times, updates.offsets, None)))
        options.done((k + 1) / len(kinds))
    fails = rows[0]["fail"]
    return Reproduction(
        title="The Poisson test on sources whose truth is known",
        checks=[
            Check(
                "share of Poisson sources that fail (the level)",
                0.05,
                fails,
                kind="formula",
                why="the level holds in long histories; these have about 200 intervals",
                within=3 * float(np.sqrt(0.05 * 0.95 / sources)),
            )
        ],
        table=rows,
        notes=["give a folder of traces to test real sources"],
    )


def _together(tests: list[PoissonTest]) -> PoissonTest:
    def joined(name: str) -> Any:
        return np.concatenate([np.asarray(getattr(test, name)) for test in tests])

    fields = [name for name in PoissonTest.columns if name != "verdict"]
    return PoissonTest(
        **{name: joined(name) for name in fields},
        verdict_code=joined("verdict_code"),
        level=tests[0].level,
    )


def _share(values: Flags) -> float:
    return float(values.mean()) if len(values) else np.nan


def _middle(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else np.nan
