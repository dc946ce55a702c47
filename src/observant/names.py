"""Names that people type, each list once: what code accepts is what `--help` shows.

Nothing is loaded for it, so that the command line need not load what the names stand for.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping

# -- estimation ----------------------------------------------------------------------------------

RATE_METHODS: Final = {
    "bias-reduced": "Firth's equation: any gaps, dated or not, finite for every history",
    "pooled": "the collection as prior, nonparametric; best when visits are few",
    "pooled-gamma": "the collection as prior, a Gamma distribution; faster, coarser",
    "auto": "pooled for a collection, bias-reduced for a few sources",
    "mle": "maximum likelihood for irregular visits, dates not used (Cho, equation 2)",
    "improved": "−log((n−X+½)/(n+½)) per mean gap, for regular visits (Cho 4.2)",
    "naive": "changes over time, X/T; misses what happened twice between visits (Cho 4.1)",
    "bayes-beta": "−log((n−X+1)/(n+2)) per mean gap, from a Beta prior (Cho, appendix B)",
    "last-modified": "from dates of modification, bias removed (Cho, figure 13)",
    "last-modified-raw": "from dates of modification, as first proposed (Cho, figure 10)",
}
"""Estimators of a constant rate, and what each is in a line."""

INTERVAL_METHODS: Final = {
    "auto": "the best the visits allow; says which and why",
    "concave": "any gaps, dated or not: likelihood of a concave G, no differentiation (ours)",
    "m1": "last age before each change; biased, kept as published (Li 11)",
    "m2": "all ages, where visits are dated (Li 33)",
    "m3": "gaps between seen changes, constant visits; biased, kept as published (Li 39)",
    "m4": "rounded-up ages, constant visits (Li 45)",
    "m5": "the samples of m3, corrected (Li 49)",
    "smooth": "m4 smoothed: F too, if the source is bursty or memoryless (Li, V.A)",
    "g-m4": "m4 for random gaps; biased, kept as published (Li 55)",
    "m6": "all pairs of visits, random gaps (Li 59)",
    "exponential": "a formula: exponential intervals, a Poisson source",
    "weibull": "a formula: Weibull intervals",
    "lomax": "a formula: Pareto intervals of the second kind",
    "gamma": "a formula: gamma intervals",
    "lognormal": "a formula: lognormal intervals",
}
"""Estimators of the distribution of intervals, and what each is in a line."""

ESTIMATORS: Final = {
    "weibull-corrected": "the power law with β̃, unbiased at the end of the window (ours)",
    "weibull": "λ̌ of the power law, Singh's choice; biased at the end of the window (S-3)",
    "weibull-ml": "the power law with β̂ and η̂ of maximum likelihood (Singh 3 to 5)",
    "weibull-bar": "λ̄ = (n−3)/n of weibull-ml, Singh's alternative (erratum S-4)",
    "count": "N(t)/t over the whole window, one constant rate (Singh 3.1)",
    "duane": "cumulative rate t^{−γ}/α of the line through the Duane plot (Singh 3.3)",
    "duane-instantaneous": "(1−γ) times that, the rate at t (erratum S-4)",
    "linear": "one over the line through the gaps (Singh 3.4 and 3.5)",
    "cho": "−log((n−X+½)/(n+½))/τ from intervals of τ with an update (Singh 5)",
    "matloff": "−log(1−M/n)/τ; infinite when every interval has an update (Singh 5)",
}
"""Estimators of the rate at the end of a window, and what each is in a line."""

PLACES: Final = ("middle", "end", "random")
"""Where an update is put in the gap in which it happened."""

MEASURES: Final = ("gap", "cumulative")
"""What is looked at to cut windows: each gap, or the mean of all gaps so far."""

BINS: Final = ("hour-of-day", "weekday", "hour-of-week")
"""Bins of the calendar in which a season is estimated."""

PROCESSES: Final = (
    "poisson",
    "weibull",
    "pareto",
    "gamma",
    "lognormal",
    "uniform",
    "constant",
    "seasonal",
    "bursts",
)
"""Stationary processes that a mean interval makes."""

# -- planning and simulation ---------------------------------------------------------------------

OBJECTIVES: Final = ("freshness", "currency", "harmonic", "age", "delay", "detected")
"""What a budget is spent for."""

EVIDENCE_KINDS: Final = ("existence", "dated", "mixed")
"""What a visit of a simulated world shows."""

FIRST_VISITS: Final = ("known", "counted")
"""Whether a simulated policy has seen the sources before it starts."""

QUEUES: Final = ("due", "share")
"""Who waits when more is due than the budget allows: the youngest, or all alike."""

SEED_FORMATS: Final = ("nutch", "heritrix", "urlfrontier", "browsertrix", "scrapy", "plain")
"""Seed lists by the name of the crawler that reads them."""

# -- files ---------------------------------------------------------------------------------------

TABLE_FORMATS: Final = ("parquet", "csv", "jsonl")
"""Files of tables that are read and written."""

TIME_UNITS: Final = ("us", "ms", "s", "d")
"""Units of times that are numbers."""

DUPLICATES: Final = ("error", "first", "last")
"""What to do with two visits to one source at one time."""

KEYS: Final = ("url", "surt")
"""What names a capture of a web archive."""

# -- watching ------------------------------------------------------------------------------------

STATES: Final = ("active", "paused", "gone")
"""What a source can be. A removed one is not listed, but its visits stay in the log."""

Sort = Literal[
    "name",
    "due_at",
    "visited_at",
    "changed_at",
    "importance",
    "rate",
    "visits",
    "changes",
    "period",
    "doubt",
    "failed_in_row",
    "created_at",
]
SORTS: Final[tuple[str, ...]] = get_args(Sort)
"""Orders of a list of sources."""

CHANGES: Final = ("bytes", "text", "structure", "magnitude", "columns", "visual")
"""What may count as a change of a page."""

RENDER_MODES: Final = ("auto", "never", "always")
"""Whether a page is looked at with a browser."""
SAMPLINGS: Final = ("even", "mixed")
"""How the gaps between visits to a source vary."""

DIFFS: Final = ("auto", "lines", "words", "json")
"""How two versions are compared for people."""

RESULT_FORMS: Final = ("auto", "html", "feed", "sitemap", "json")
"""Forms of the list that a standing query reads."""

TOPICS: Final = {
    "changed": "a source changed",
    "gone": "a visit found the source missing",
    "vanished": "the source has been missing for a while, by default a day",
    "back": "a missing source is there again",
    "failing": "visits to a source have failed several times in a row",
    "recovered": "visits to a failing source succeed again",
    "condition": "a condition on a source has come true, such as a price below 50",
    "overdue": "a source has been silent for longer than its rate explains",
    "new-result": "a standing query has a new result",
    "changed-result": "a result of a standing query changed",
    "dropped-result": "a result of a standing query was dropped",
    "alarm": "the observer is late, or its budget is too small",
}
"""Every topic that an event can have."""

DELIVERY_STATES: Final = ("waiting", "sent", "dead")
"""What a notification can be."""

Role = Literal["owner", "editor", "viewer"]
Scope = Literal["read", "write", "admin"]
ROLES: Final[tuple[Role, ...]] = ("viewer", "editor", "owner")
"""What a person may be."""
SCOPES: Final[tuple[Scope, ...]] = ("read", "write", "admin")
"""What a token may do."""


def usual_config(env: Mapping[str, str]) -> str:
    """The configuration file: that of this folder, or else of this user; empty if there is none."""
    usual = (Path("observant.toml"), _home(env, "XDG_CONFIG_HOME", ".config") / "observant.toml")
    return next((str(file) for file in usual if file.is_file()), "")


def usual_store(env: Mapping[str, str]) -> str:
    """The store: in this folder, or that of this user where it is in use or configured."""
    here, users = "observant.db", _home(env, "XDG_DATA_HOME", ".local/share") / "observant.db"
    if Path(here).exists() or Path("observant.toml").is_file():
        return here
    return str(users) if users.exists() or usual_config(env) else here


def _home(env: Mapping[str, str], variable: str, usual: str) -> Path:
    """A folder of this user for observant: as XDG says, or as Windows does."""
    given = env.get(variable) or (env.get("LOCALAPPDATA") if os.name == "nt" else "")
    return Path(given or Path("~", usual).expanduser()) / "observant"
