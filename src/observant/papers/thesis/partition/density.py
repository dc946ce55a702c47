"""A collection as a density of sources over change and access times: Brewington 4.2.2."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from observant.currency import WeibullPopulation
from observant.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

    from observant.arrays import Floats

    Grace: TypeAlias = float | Callable[[Any, Any], Any]


WEB = WeibullPopulation(1.4, 152.2)


@dataclass(frozen=True, eq=False)
class SourceDensity:
    """A collection as masses in small cells of the (t, τ) plane.

    The cells lie between `change_edges` along t and `access_edges` along τ, in days. `sources` is
    the share of sources in each cell, f, and `accesses` the share of accesses, h = C·f/τ.
    """

    change_edges: Floats
    access_edges: Floats
    sources: Floats
    accesses: Floats

    @classmethod
    def independent(
        cls,
        change: WeibullPopulation = WEB,
        access: WeibullPopulation = WEB,
        *,
        cut: float = 0.0,
        cells: tuple[int, int] = (240, 160),
    ) -> SourceDensity:
        """Mean change and access times independent of each other, both Weibull.

        The defaults are the web of the thesis. The scale of the access times does not matter. They
        are cut off below their quantile `cut`: without a cut a few sources with tiny access times
        take most of the accesses, and a shape of at most 1 has no access density at all (B-22).
        """
        if not 0.0 <= cut < 1.0:
            raise InputError(f"the cut is a share of the sources, 0 or more and below 1: {cut!r}")
        if access.shape <= 1.0 and cut == 0.0:
            raise InputError("access times with a Weibull shape of at most 1 need a cut above 0")
        first = (-np.log1p(-cut)) ** (1.0 / access.shape)
        t = _edges(change.shape, 0.0, cells[0])
        v = _access_edges(access.shape, first, cells[1])
        number = np.diff(-np.exp(-(v**access.shape)))
        demand = _inverse_moment(v, access.shape)
        # The density at the centre in log t, where such a sum converges exponentially fast; the
        # share of a cell would be the second order only, since its centre stands for it.
        power = _centres(t) ** change.shape
        slow = power * np.exp(-power)
        return cls._normalised(
            t * change.scale,
            v * access.scale,
            slow[:, None] * number,
            slow[:, None] * demand,
        )

    @classmethod
    def from_function(
        cls, density: Callable[[Any, Any], Any], change_edges: ArrayLike, access_edges: ArrayLike
    ) -> SourceDensity:
        """Any density f(t, τ), known up to a factor, taken at the centre of each cell."""
        t, v = _grid(change_edges, access_edges)
        a, b = _centres(t)[:, None], _centres(v)[None, :]
        mass = np.asarray(density(a, b) * np.diff(t)[:, None] * np.diff(v)[None, :], float)
        return cls._normalised(t, v, mass, mass / b)

    @classmethod
    def from_sources(
        cls,
        change_times: ArrayLike,
        access_times: ArrayLike,
        cells: tuple[int, int] = (120, 120),
    ) -> SourceDensity:
        """The sources of a real collection, sorted into cells by their estimated mean times."""
        t, v = (np.asarray(x, float).ravel() for x in (change_times, access_times))
        if t.size == 0 or t.size != v.size or not all((x > 0).all() for x in (t, v)):
            raise InputError("give each source a mean change time and a mean access time above 0")
        if not (np.isfinite(t).all() and np.isfinite(v).all()):
            raise InputError("mean change and access times must be finite")
        edges = [_around(x, count) for x, count in zip((t, v), cells, strict=True)]
        mass, *_ = np.histogram2d(t, v, edges)
        demand, *_ = np.histogram2d(t, v, edges, weights=1.0 / v)
        return cls._normalised(edges[0], edges[1], mass, demand)

    @classmethod
    def _normalised(cls, t: Floats, v: Floats, sources: Floats, accesses: Floats) -> SourceDensity:
        for mass in (sources, accesses):
            if not ((mass >= 0).all() and 0.0 < mass.sum() < np.inf):
                raise InputError("a density must be finite, not negative, and not zero everywhere")
        return cls(t, v, sources / sources.sum(), accesses / accesses.sum())

    @cached_property
    def change_times(self) -> Floats:
        """The mean change time that stands for each row of cells."""
        return _centres(self.change_edges)

    @cached_property
    def access_times(self) -> Floats:
        """The mean access time that stands for each column of cells."""
        return _centres(self.access_edges)

    def graces(self, grace: Grace) -> Floats:
        """The grace of the cells: one column when it depends on t alone."""
        value = grace(self.change_times[:, None], self.access_times) if callable(grace) else grace
        graces = np.asarray(value, float)
        if not (np.isfinite(graces).all() and (graces >= 0).all()):
            raise InputError("a grace must be finite and not negative")
        width = graces.shape[-1] if graces.ndim else 1
        return np.broadcast_to(graces, (len(self.change_times), width))


def grace_plane(density: SourceDensity, longest: float) -> Callable[[Any, Any], Any]:
    """The plane β = k_t·t + k_τ·τ that gives `longest` to the slowest, least popular source.

    Both times contribute half of it there (Brewington 4.2.2).
    """
    if not longest >= 0:
        raise InputError(f"the longest grace must not be negative: {longest!r}")
    k_t = longest / 2 / density.change_times[-1]
    k_v = longest / 2 / density.access_times[-1]
    return lambda t, v: k_t * t + k_v * v


# -- cells ----------------------------------------------------------------------------------------


def _edges(shape: float, first: float, cells: int) -> Floats:
    """Edges of cells of a Weibull variable of scale 1, even in the logarithm.

    Beyond the ends lies a share of 1e-17 above and, when there is no first, of 1e-9 below.
    """
    return np.geomspace(first or 1e-9 ** (1.0 / shape), 38.0 ** (1.0 / shape), cells + 1)


def _access_edges(shape: float, first: float, cells: int) -> Floats:
    """The same for access times. Without a cut even the 1e-24 most popular sources count, since
    the share of the accesses falls much slower than that of the sources; a few cells do for them.
    """
    if first > 0.0:
        return _edges(shape, first, cells)
    few = cells // 4
    rare = np.geomspace(1e-24 ** (1.0 / shape), 1e-4 ** (1.0 / shape), few, endpoint=False)
    return np.append(rare, _edges(shape, 1e-4 ** (1.0 / shape), cells - few))


def _inverse_moment(edges: Floats, shape: float) -> Floats:
    """∫ f/τ over each cell of a Weibull variable of scale 1."""
    from scipy.special import gamma, gammaincc

    power, x = 1.0 - 1.0 / shape, edges**shape
    if power > 0.0:
        return np.asarray(-np.diff(gamma(power) * gammaincc(power, x)))
    centres = _centres(edges)
    return np.asarray(np.diff(-np.exp(-x)) / centres)


def _centres(edges: Floats) -> Floats:
    """Geometric centres; the arithmetic one where the first edge is 0."""
    low, high = edges[:-1], edges[1:]
    return np.where(low > 0.0, np.sqrt(low * high), high / 2.0)


def _around(values: Floats, cells: int) -> Floats:
    low, high = float(values.min()), float(values.max())
    return np.geomspace(low * (1 - 1e-9), high * (1 + 1e-9), cells + 1)


def _grid(change_edges: ArrayLike, access_edges: ArrayLike) -> tuple[Floats, Floats]:
    edges = [np.asarray(e, float) for e in (change_edges, access_edges)]
    for e in edges:
        if e.ndim != 1 or e.size < 2 or not (e[0] >= 0.0 and (np.diff(e) > 0).all()):
            raise InputError("cell edges must be two or more growing times, zero or more")
    return edges[0], edges[1]
