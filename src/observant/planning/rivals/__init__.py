"""Other people's rules, from their published papers and code: rivals in every comparison.

There are two kinds. An **allocation** knows the rates and shares out a budget:

    allocation(rates, importance, budget) → visits per day of each source

`ALLOCATIONS` holds them by name: uniform, proportional, square_root, azar, azar_floor,
lambda_crawl, lambda_crawl_approx, queues. `polite_azar`, `lambda_crawl` with notified sources and
the policies of Cho's section 6.4 (`cho_policy`) ask for more and are functions of their own.

A **rule** knows nothing beforehand. It looks at the outcome of each visit and sets the next one:

    state = rule.start(number of sources)
    period, state = rule.next_period(state, seen)

`RULES` holds them by name: nutch, nutch_adaptive, nutch_adaptive_code, stormcrawler, news_crawl,
heritrix, changedetection, http_heuristic, miniflux, commafeed. Everything is one array entry a
source, and a rule is a frozen value: all that changes is in the `RuleState`. Only some of the
sources are visited at a time, so `state.take(which)` and `state.put(which, part)` cut a part out
and put it back. A rule cannot be steered to a budget; it spends what it spends.

`FixedPeriods` makes a rule of an allocation (ours or another's), so that a simulator drives both
kinds the same way, the **policy** interface:

>>> import numpy as np
>>> azar_policy = FixedPeriods.spending(azar([1.0, 0.1], importance=[1, 1], budget=1.0))
>>> for policy in (azar_policy, RULES["heritrix"]):
...     state = policy.start(2)
...     period, state = policy.next_period(state, Seen(time=[0.0, 0.0], outcome=[CHANGED, SAME]))
...     print(policy.name, period.round(3))
fixed [1.679 2.472]
heritrix [0.667 1.5  ]
"""

from observant.planning.rivals.allocations import (
    ALLOCATIONS,
    azar,
    cho_policy,
    lambda_crawl,
    lambda_crawl_approx,
    polite_azar,
    power,
    proportional,
    queues,
    square_root,
    uniform,
)
from observant.planning.rivals.crawlers import (
    Heritrix,
    NutchAdaptive,
    NutchDefault,
    StormCrawler,
)
from observant.planning.rivals.readers import (
    ChangeDetection,
    CommaFeed,
    HttpHeuristic,
    Miniflux,
)
from observant.planning.rivals.rule import (
    CHANGED,
    FAILED,
    GONE,
    SAME,
    UNKNOWN,
    FixedPeriods,
    Rule,
    RuleState,
    Seen,
)

__all__ = [
    "ALLOCATIONS",
    "CHANGED",
    "FAILED",
    "GONE",
    "RULES",
    "SAME",
    "UNKNOWN",
    "ChangeDetection",
    "CommaFeed",
    "FixedPeriods",
    "Heritrix",
    "HttpHeuristic",
    "Miniflux",
    "NutchAdaptive",
    "NutchDefault",
    "Rule",
    "RuleState",
    "Seen",
    "StormCrawler",
    "azar",
    "cho_policy",
    "lambda_crawl",
    "lambda_crawl_approx",
    "polite_azar",
    "power",
    "proportional",
    "queues",
    "square_root",
    "uniform",
]

RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        NutchDefault(),
        NutchAdaptive(),
        NutchAdaptive.as_coded(),
        StormCrawler(),
        StormCrawler.news_crawl(),
        Heritrix(),
        ChangeDetection(),
        HttpHeuristic(),
        Miniflux(),
        CommaFeed(),
    )
}
"""The rules by name, with the settings that they are shipped with."""
