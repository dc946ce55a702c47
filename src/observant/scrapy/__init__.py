"""An add-on for Scrapy: every response becomes a visit, and a run visits only what is due.

A few lines in the settings of any project are enough::

    ADDONS = {"observant.scrapy.Observant": 500}
    OBSERVANT_VISITS = "visits.jsonl"
    OBSERVANT_BUDGET = "1000/day"

See docs/scrapy.md.
"""

from __future__ import annotations

try:
    import scrapy  # noqa: F401
except ImportError as error:
    raise ImportError(
        "observant.scrapy is an add-on for Scrapy, which is not installed: "
        "pip install 'observant[scrapy]'"
    ) from error

from observant.scrapy.addon import Observant
from observant.scrapy.due import DueRequests
from observant.scrapy.ledger import Due, Ledger, open_ledger
from observant.scrapy.recorder import VisitRecorder
from observant.scrapy.settings import AddonSettings

__all__ = [
    "AddonSettings",
    "Due",
    "DueRequests",
    "Ledger",
    "Observant",
    "VisitRecorder",
    "open_ledger",
]
