"""The age of a source as a Markov chain in discrete time. Brewington 2.1.1.

The state is the number of steps since the last update, 0 to N; N stands for "N or more" (errata
B-1). In every step the age grows by one, or an update resets it to 0 with probability
p_reset(age), and that function is the whole model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.currency.age_models import not_negative, unwrapped
from observant.errors import InputError
from observant.processes.base import floats, positive

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from observant.arrays import Floats, Integers
    from observant.processes.base import Process


@dataclass(frozen=True, eq=False)
class AgeChain:
    """Chains of one or many sources: p_reset[..., age] for the ages 0 to N.

    Leading axes are sources; the ages given to the methods run along them.

    >>> chain = AgeChain([0.1, 0.3, 0.2, 0.4, 0.25])
    >>> round(chain.change_probability(age=1, steps=6), 3)
    0.858
    """

    p_reset: Floats

    def __post_init__(self) -> None:
        p = np.array(self.p_reset, dtype=np.float64)
        if p.ndim == 0 or p.shape[-1] == 0 or not ((p >= 0) & (p <= 1)).all():
            raise InputError("p_reset must hold a probability, 0 to 1, for each age from 0")
        p.flags.writeable = False
        object.__setattr__(self, "p_reset", p)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AgeChain):
            return NotImplemented
        return np.array_equal(self.p_reset, other.p_reset)

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def periodic(cls, period: int) -> AgeChain:
        """An update every `period` steps, (2.4): age period − 1 is reset for certain.

        >>> AgeChain.periodic(3).transition_matrix()
        array([[0., 1., 0.],
               [0., 0., 1.],
               [1., 0., 0.]])
        """
        if period != int(period) or period < 1:
            raise InputError(f"a period is a whole number of steps, 1 or more, not {period!r}")
        return cls(np.append(np.zeros(int(period) - 1), 1.0))

    @classmethod
    def poisson(cls, reset: ArrayLike, states: int = 1) -> AgeChain:
        """The same chance of an update at every age, (2.5). `reset` is one number or one a source.

        A source of rate λ seen in steps of h days has reset = 1 − e^{−λh}.
        """
        if states < 1:
            raise InputError(f"a chain has at least one state, not {states!r}")
        p = np.asarray(reset, dtype=np.float64)
        return cls(np.repeat(p[..., None], states, axis=-1))

    @classmethod
    def from_lifetimes(cls, masses: ArrayLike, *, memoryless_tail: bool = False) -> AgeChain:
        """The chain of a lifetime distribution, (2.2): masses[..., t] is the chance that the
        update comes in the step from age t.

        Masses may sum to less than 1; the rest lies beyond N. If all lies within, age N is reset
        for certain; `memoryless_tail` repeats p_reset(N − 1) there, as the thesis does for a
        distribution that was cut off. An age that is never reached is given p_reset = 1.

        >>> AgeChain.from_lifetimes([0.5, 0.25, 0.25]).p_reset
        array([0.5, 0.5, 1. ])
        """
        f = _masses(masses, "lifetimes")
        beyond = 1.0 - f.sum(axis=-1, keepdims=True)
        if (beyond < -1e-9).any():
            raise InputError("the masses of a lifetime distribution must sum to at most 1")
        # What is left at age t is the mass from t on: a sum of positive terms keeps its digits.
        left = np.cumsum(f[..., ::-1], axis=-1)[..., ::-1]
        left = left + np.where(beyond > 1e-12, beyond, 0.0)
        p = np.divide(f, left, out=np.ones_like(f), where=left > 0)
        return cls._with_tail(np.minimum(p, 1.0), memoryless_tail)

    @classmethod
    def from_ages(cls, masses: ArrayLike, *, lumped: bool = False) -> AgeChain:
        """The chain of an age distribution, (2.3): p_reset(t) = (g(t) − g(t+1))/g(t).

        Ages beyond the last are taken as memoryless: p_reset(N) = p_reset(N − 1). With `lumped`
        the last mass is that of N or more, as in `stationary_ages`, and the last two chances
        come from it.

        >>> AgeChain.from_ages([0.5, 0.25, 0.125]).p_reset
        array([0.5, 0.5, 0.5])
        """
        g = _masses(masses, "ages")
        if g.shape[-1] < 2 or not (g[..., 0] > 0).all():
            raise InputError("an age distribution needs two ages or more, and mass at age 0")
        single = g[..., :-1] if lumped else g
        if (np.diff(single, axis=-1) > 1e-12 * g[..., :1]).any():
            raise InputError(
                "an age distribution never rises with age; pool the violators of an estimate first"
            )
        p = np.ones_like(g)
        now, then = single[..., :-1], single[..., 1:]
        inner = np.divide(now - then, now, out=np.ones_like(now), where=now > 0)
        p[..., : inner.shape[-1]] = np.clip(inner, 0.0, 1.0)
        if not lumped:
            return cls._with_tail(p, memoryless=True)
        # Balance of the last state: g(N)·p = g(N−1)·(1 − p).
        one, rest = g[..., -2], g[..., -1]
        tail = np.divide(one, one + rest, out=np.ones_like(one), where=one + rest > 0)
        p[..., -2:] = tail[..., None]
        return cls(p)

    @classmethod
    def from_process(cls, process: Process, step: float, states: int) -> AgeChain:
        """The chain of a stationary process seen every `step` days: the chance of an update in
        the next step, when the last update was exactly `age` steps ago.
        """
        if states < 1:
            raise InputError(f"a chain has at least one state, not {states!r}")
        ages = positive("step", step) * np.arange(states + 1.0)
        left = process.interval_sf(ages)
        ratio = np.divide(left[1:], left[:-1], out=np.zeros(states), where=left[:-1] > 0)
        return cls(1.0 - ratio)

    @property
    def states(self) -> int:
        """Number of ages, N + 1."""
        return int(self.p_reset.shape[-1])

    def transition_matrix(self) -> Floats:
        """M of (2.1): M[..., i, j] is the chance to go from age i to age j in one step."""
        n = self.states
        matrix = np.zeros((*self.p_reset.shape, n))
        ages = np.arange(n)
        matrix[..., ages, np.minimum(ages + 1, n - 1)] = 1.0 - self.p_reset
        matrix[..., ages, 0] += self.p_reset
        return matrix

    def stationary_ages(self) -> Floats:
        """The age distribution π = πM that (2.7) means.

        The limit of Mᵏ does not exist for periodic chains; the stationary vector always does
        (errata B-3). Where age N is reached and never left (p_reset(N) = 0), it holds everything.

        >>> AgeChain.periodic(4).stationary_ages()
        array([0.25, 0.25, 0.25, 0.25])
        """
        reach = np.ones_like(self.p_reset)
        reach[..., 1:] = np.cumprod(1.0 - self.p_reset[..., :-1], axis=-1)
        # Age N is held for 1/p_reset(N) steps on average. All is multiplied by p_reset(N) instead
        # of one divided by it, and a chance of zero then needs no other rule.
        last, leave = reach[..., -1], self.p_reset[..., -1]
        larger = np.maximum(last, leave)
        larger = np.where(larger > 0, larger, 1.0)
        share = np.where(last > 0, leave / larger, 1.0)
        ages = reach * share[..., None]
        ages[..., -1] = last / larger
        return floats(ages / ages.sum(axis=-1, keepdims=True))

    def change_probability(self, age: ArrayLike, steps: ArrayLike) -> Any:
        """Chance that a source last seen with this age has changed since, `steps` steps ago. (2.19)

        It is 1 − ∏(1 − p_reset(min(m, N))) over the ages m it would have passed through. The
        matrix power of the thesis says the same while age + steps ≤ N, and is wrong beyond, where
        age N also holds chains that did change (errata B-5).

        >>> AgeChain.poisson(0.5).change_probability(age=0, steps=[0, 1, 2])
        array([0.  , 0.5 , 0.75])
        """
        gone = 0.0 - np.expm1(self._log_survival(age, steps))
        return float(gone) if gone.ndim == 0 else gone

    def survival(self, age: ArrayLike, steps: ArrayLike) -> Any:
        """Chance that a source last seen with this age, `steps` steps ago, has not changed."""
        kept = np.exp(self._log_survival(age, steps))
        return float(kept) if kept.ndim == 0 else kept

    def _log_survival(self, age: ArrayLike, steps: ArrayLike) -> Floats:
        begin, passed = np.asarray(age), np.asarray(steps)
        for name, values in (("age", begin), ("steps", passed)):
            if not np.issubdtype(values.dtype, np.integer) or (values < 0).any():
                raise InputError(f"{name} must be whole numbers, zero or more")
        begin = np.minimum(begin, self.states - 1)  # age N stands for all beyond
        end = begin + passed
        logs, certain = (self._sum_over(*sums, begin, end) for sums in self._sums)
        return np.where(certain > 0, -np.inf, logs)

    @cached_property
    def _sums(self) -> tuple[tuple[Floats, Floats], ...]:
        """Running sums of log(1 − p) over the ages, and the term of age N, which repeats.

        Certain resets are counted beside them, since the difference of two infinite sums says
        nothing.
        """
        certain = self.p_reset >= 1.0
        logs = np.log1p(-np.where(certain, 0.0, self.p_reset))
        return tuple(
            (_sums_below(terms), terms[..., -1]) for terms in (logs, certain.astype(np.float64))
        )

    def _sum_over(self, sums: Floats, repeated: Floats, begin: Any, end: Any) -> Floats:
        """Sum the terms of the ages from `begin` up to, but without, `end`."""
        within, beyond = np.minimum(end, self.states - 1), np.maximum(end - self.states + 1, 0)
        passed = self._at_age(sums, within) - self._at_age(sums, begin)
        return np.asarray(passed + beyond * repeated)

    def _at_age(self, sums: Floats, age: Any) -> Any:
        if sums.ndim == 1:
            return sums[age]
        sources = sums.shape[:-1]
        try:
            age = np.broadcast_to(age, np.broadcast_shapes(age.shape, sources))
        except ValueError:
            raise InputError(
                f"give one age for each source: shape {sources}, not {np.shape(age)}"
            ) from None
        sums = np.broadcast_to(sums, (*age.shape, self.states))
        return np.take_along_axis(sums, age[..., None], axis=-1)[..., 0]

    @classmethod
    def _with_tail(cls, p: Floats, memoryless: bool) -> AgeChain:
        if memoryless and p.shape[-1] > 1:
            p[..., -1] = p[..., -2]
        return cls(p)


def _sums_below(terms: Floats) -> Floats:
    """At each age, the sum of the terms of the younger ages."""
    sums = np.zeros_like(terms)
    sums[..., 1:] = np.cumsum(terms[..., :-1], axis=-1)
    return sums


def _masses(masses: ArrayLike, name: str) -> Floats:
    values = np.asarray(masses, dtype=np.float64)
    if values.ndim == 0 or values.shape[-1] == 0 or not np.isfinite(values).all():
        raise InputError(f"{name} must be an array of finite masses, one for each age from 0")
    if (values < 0).any():
        raise InputError(f"{name} must not be negative")
    return values


# -- currency when the age of the copy is a chain -------------------------------------------------
# Each object has an age, a whole number of time units since its last update. In one unit it changes
# with probability `p_reset[age]` and its age goes back to 0; otherwise the age grows by one. The
# last state N stands for N and more (errata B-1). An object was last seen `elapsed` units ago with
# the age `age`. Give one `p_reset` of shape (N+1,) for all objects, or one row for each.


def expected_out_of_date(p_reset: ArrayLike, age: ArrayLike, elapsed: ArrayLike) -> np.float64:
    """Expected number of objects out of date, the cost C₍₁₎ of Brewington (2.20).

    >>> print(expected_out_of_date([0.5, 0.1], age=[0, 1, 1], elapsed=[1, 1, 2]).round(3))
    0.79
    """
    return np.sum(chain_changed(p_reset, age, elapsed))


def chain_currency(
    p_reset: ArrayLike, age: ArrayLike, elapsed: ArrayLike, importance: ArrayLike | None = None
) -> np.float64:
    """Probability that an object picked at random is up to date: Brewington (2.21).

    >>> print(chain_currency([0.5, 0.1], age=[0, 1, 1], elapsed=[1, 1, 2]).round(4))
    0.7367
    """
    current = 1.0 - np.atleast_1d(chain_changed(p_reset, age, elapsed))
    if importance is None:
        return np.float64(np.mean(current))
    weights = np.broadcast_to(not_negative("importance", importance), current.shape)
    if not 0.0 < weights.sum() < np.inf:
        raise InputError("the importance of the objects must be finite and not all zero")
    return np.float64((weights * current).sum() / weights.sum())


def expected_time_out_of_date(p_reset: ArrayLike, age: ArrayLike, elapsed: ArrayLike) -> np.float64:
    """Expected time out of date summed over all objects, the cost C₍₂₎ of Brewington (2.22).

    >>> print(expected_time_out_of_date([0.5, 0.1], age=[0, 1, 1], elapsed=[1, 1, 2]).round(3))
    0.89
    """
    return np.sum(chain_time_out_of_date(p_reset, age, elapsed))


def chain_changed(p_reset: ArrayLike, age: ArrayLike, elapsed: ArrayLike) -> Floats:
    """Probability that each object has changed since it was seen: Brewington (2.19).

    It is one minus the product of 1 − p_reset over the ages passed, with the last state repeated
    (errata B-5: the power of the matrix is wrong beyond the last state).

    >>> print(chain_changed([0.1, 0.3, 0.2, 0.4, 0.25], age=1, elapsed=6).round(3))
    0.858
    """
    chain, first, units = _checked(p_reset, age, elapsed)
    return unwrapped(np.asarray(chain.change_probability(first, units)))


def chain_time_out_of_date(p_reset: ArrayLike, age: ArrayLike, elapsed: ArrayLike) -> Floats:
    """Expected time units out of date Z(i, k) of each object: Brewington (2.23), (2.31).

    An object that changed in the first of k units has been out of date for k of them, one that
    changed in the last for 1. The indices are those of (2.26): P(i, i) = p_reset(i) (errata B-6).

    >>> print(chain_time_out_of_date([0.5, 0.1], age=0, elapsed=[1, 2, 3]).round(3))
    [0.5   1.05  1.645]
    """
    chain, first, units = _checked(p_reset, age, elapsed)
    last = chain.states - 1
    first = np.minimum(first, last)
    before = np.minimum(units, last - first)  # units spent before the last state
    rest = units - before

    # Z(i, k) is the sum of S_1 to S_k (2.31), where S_k is the probability of a change in k units.
    late = np.zeros(np.broadcast_shapes(chain.p_reset.shape[:-1], before.shape))
    for unit in range(1, int(before.max(initial=0)) + 1):
        late += np.where(unit <= before, chain.change_probability(first, unit), 0.0)

    # In the last state p_reset is constant and the rest of the sum is geometric.
    changed, same = chain.change_probability(first, before), chain.survival(first, before)
    chance = chain.p_reset[..., last]
    with np.errstate(divide="ignore", invalid="ignore"):
        # Σ (1 − p)ⁿ for n from 1 to the rest.
        current = (1.0 - chance) * chain.change_probability(last, rest) / chance
    current = np.where(chance > 0.0, current, rest)
    return unwrapped(np.asarray(late + rest * changed + same * (rest - current)))


def _checked(
    p_reset: ArrayLike, age: ArrayLike, elapsed: ArrayLike
) -> tuple[AgeChain, Integers, Integers]:
    chances = np.atleast_1d(not_negative("p_reset", p_reset))
    if not chances.size:
        raise InputError("p_reset must hold probabilities, from 0 to 1, one for each age")
    return AgeChain(chances), _whole("age", age), _whole("elapsed", elapsed)


def _whole(name: str, value: ArrayLike) -> Integers:
    values = not_negative(name, value)
    if not np.all(values == np.floor(values)) or not np.all(values < 2.0**53):
        raise InputError(f"the {name} counts time units of the chain: give whole numbers")
    return values.astype(np.int64)
