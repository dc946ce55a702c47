"""Cho and Garcia-Molina, *Estimating Frequency of Change*: figures 3 to 7, 11 to 18 and table I."""

from observant.reproduction.cho import crawlers, estimators

__all__ = ["crawlers", "estimators"]
