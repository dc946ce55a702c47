"""Cho and Garcia-Molina, *Estimating Frequency of Change*: figures and table I."""

from observant.papers.cho import crawl as crawlers
from observant.papers.cho import estimates as estimators

__all__ = ["crawlers", "estimators"]
