"""Brewington, *Observation of changing information sources*: table 4.1 and the figures named."""

from observant.reproduction.brewington import ages, currency, lifetimes, models, partition

__all__ = ["ages", "currency", "lifetimes", "models", "partition"]
