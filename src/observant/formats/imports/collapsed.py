"""Lists that were thinned before we got them: the trap of CDX servers' ``collapse``.

A list collapsed by digest has no unchanged visit left, so every source seems to change at every
visit. It cannot be told apart from sources that do; so it is refused, and the user decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from observant.formats.imports.report import Report

__all__ = ["ASSUMPTION", "look_for_collapse"]

ASSUMPTION = "complete"
_REFUSED_FROM = 20  # comparisons without one repeated digest
_DOUBTED_FROM = 5
_EXPECTED = 20.0  # visits within one hour or day; by chance alone, none has odds of e^-20


def look_for_collapse(report: Report) -> None:
    """Refuse visits whose digests never repeat, unless the user vouches for the list.

    Also says where a list seems to be thinned to one visit an hour or a day (``collapse`` by
    time): sources have many visits close to each other, and never two in one hour of the clock.
    That leaves the evidence sound, and less of it.
    """
    sample = report.sample
    if report.evidence != "V":
        return
    if sample.repeated == 0 and sample.compared >= _REFUSED_FROM:
        report.file = ""
        report.assume(
            ASSUMPTION,
            f"the list is complete: no digest repeats in {sample.compared:,} comparisons, as if "
            "unchanged visits had been left out (collapse=digest on a CDX server does that), and "
            "each of these visits did find a change",
        )
    elif sample.repeated == 0 and sample.compared >= _DOUBTED_FROM:
        report.warn(
            f"no digest repeats in {sample.compared} comparisons: were unchanged visits left out "
            "(collapse=digest)? Then rates come out too high"
        )
    for unit in ("hour", "day"):
        seen, expected = sample.in_one(unit)
        if seen == 0 and expected >= _EXPECTED:
            report.warn(
                f"there are never two visits to a source in one {unit}, and by chance there would "
                f"be about {expected:,.0f}: the list seems thinned (collapse=timestamp). Rates are "
                "right; fast sources are told less well"
            )
