"""Brewington's thesis as tools: ages in discrete time, strategies of visits, style of pages.

The partition is in `observant.papers.thesis.partition`.
"""

from observant.papers.thesis.chain import (
    AgeChain,
    chain_changed,
    chain_currency,
    chain_time_out_of_date,
    expected_out_of_date,
    expected_time_out_of_date,
)
from observant.papers.thesis.growth import GrowingPopulation

__all__ = [
    "AgeChain",
    "GrowingPopulation",
    "chain_changed",
    "chain_currency",
    "chain_time_out_of_date",
    "expected_out_of_date",
    "expected_time_out_of_date",
]
