"""Brewington, *Observation of changing information sources*: table 4.1 and the figures named."""

from observant.papers.brewington import ages, lifetimes, models, pages
from observant.papers.brewington import index_currency as currency
from observant.papers.brewington import web_partition as partition

__all__ = ["ages", "currency", "lifetimes", "models", "pages", "partition"]
