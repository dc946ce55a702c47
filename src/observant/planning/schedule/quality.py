"""Signals where rates are given: how good they are, what one is worth, and how to learn that.

A change emits a signal with probability `recall`; false signals come at rate ν. With D the rate of
change, signals come at rate g = recall·D + ν, silent changes at rate a = (1 − recall)·D. A copy of
elapsed time s with n signals since the visit is fresh with probability

    e^(−a·s) (ν/g)ⁿ = e^(−a·(s + b·n)),    b = −ln(ν/g)/a        (Busa-Fekete et al. 2025)

so a signal counts as b more days of waiting. Past visits teach a and k = a·b: "unchanged" has
probability e^(−(a·s + k·n)), a regression with a log link.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from observant.errors import InputError
from observant.plugins import lazy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import ArrayLike

    from observant.arrays import Flags, Floats, Integers

__getattr__, _ = lazy(__name__, {}, {"HintQuality": "SignalQuality", "fit_hints": "fit_signals"})
_STEPS = 60
_KEPT = 200_000
"""SignalledVisits that are kept."""
_CAUTION = 0.5
"""Imaginary unchanged visits with one signal each: a signal must earn its trust."""

_TRACE = 1e-3


@dataclass(frozen=True)
class SignalQuality:
    """How far signals can be trusted: the share of changes that emit one, and of them the true.

    >>> SignalQuality(recall=0.5, precision=0.25).worth(rate=0.2).round(3)
    np.float64(2.877)
    """

    recall: float
    precision: float

    def __post_init__(self) -> None:
        if not 0 <= self.recall <= 1:
            raise InputError(f"recall is a share of changes, from 0 to 1, not {self.recall}")
        if not 0 <= self.precision <= 1 or (self.recall > 0) != (self.precision > 0):
            raise InputError(
                f"precision {self.precision} does not go with recall {self.recall}: both are above"
                " 0 and at most 1, or both are 0 (signals that mean nothing)"
            )

    def streams(self, rate: ArrayLike) -> tuple[Floats, ...]:
        """Rates of silent changes (a), of signals (g) and of false signals (ν)."""
        rate = np.asarray(rate, float)
        recall = min(self.recall, 1 - 1e-6)  # a certain signal would leave no time to wait
        true = recall * rate
        signal = true / self.precision if self.precision > 0 else np.zeros_like(rate)
        return rate - true, np.asarray(signal), np.asarray(signal - true)

    def worth(self, rate: ArrayLike) -> Floats:
        """Days of waiting that one signal counts for (b); infinite if no signal is false."""
        silent, signal, false = self.streams(rate)
        with np.errstate(divide="ignore", invalid="ignore"):
            worth = np.log(signal / false) / silent
        return np.asarray(np.where(signal > 0, worth, 0.0))[()]


class SignalledVisits:
    """SignalledVisits from which the quality of signals is learned; the oldest fall out."""

    def __init__(self, rows: Iterable[Sequence[Any]] = ()) -> None:
        self.rows: list[tuple[int, float, int, bool]] = [
            (row[0], row[1], row[2], row[3]) for row in rows
        ]

    def note(self, source: Any, given: Any, time: float, changed: bool) -> None:
        """Keep what a visit found at a source whose signals are listened to."""
        if given["signal"] > 0 and -np.inf < source["last"] < time:
            expected = max(float(given["rate"] * (time - source["last"])), 1e-12)
            self.rows.append((int(source["host"]), expected, int(given["signals"]), changed))
            if len(self.rows) > _KEPT:
                del self.rows[: _KEPT // 10]

    def learn(
        self, hosts: dict[str, int], listened: Integers, least: int
    ) -> dict[str | None, SignalQuality]:
        """The quality of each host of the sources `listened` to (hosts by number, −1 for none)."""
        if len(self.rows) < max(least, 1):
            return {}
        host, expected, signals, changed = (np.array(c) for c in zip(*self.rows, strict=True))
        together = fit_signals(expected, signals, changed)
        learned: dict[str | None, SignalQuality] = {}
        named: list[tuple[str | None, int]] = [(None, -1), *hosts.items()]
        for name, h in named:
            if (listened == h).any():
                own = host == h
                enough = own.sum() >= least
                learned[name] = (
                    fit_signals(expected[own], signals[own], changed[own]) if enough else together
                )
        return learned


def fit_signals(expected: ArrayLike, signals: ArrayLike, changed: ArrayLike) -> SignalQuality:
    """Learn recall and precision from visits, by maximum likelihood.

    For each visit: the changes `expected` since the one before (rate times elapsed time), the
    number of `signals` in between and whether it had `changed`. The regression is

        P(unchanged) = e^(−(q·expected + k·signals)),  recall = 1 − q,  precision = 1 − e^(−k)

    Pool the visits of a host or a template: some hundreds are needed.

    >>> rng = np.random.default_rng(4)
    >>> true, false = rng.poisson(0.4, 4000), rng.poisson(0.8, 4000)
    >>> silent = rng.poisson(0.6, 4000)
    >>> fit = fit_signals(np.ones(4000), true + false, true + silent > 0)
    >>> round(fit.recall, 2), round(fit.precision, 2)
    (0.42, 0.35)
    """
    e, n = np.asarray(expected, float), np.asarray(signals, float)
    z = np.asarray(changed, bool)
    if not (e.shape == n.shape == z.shape and e.ndim == 1 and len(e)):
        raise InputError("fit_signals needs three columns of one length, one row per visit")
    if not (np.isfinite(e).all() and (e > 0).all() and (n >= 0).all()):
        raise InputError("expected changes must be above 0 and numbers of signals not below 0")
    q, k = _log_link(e, n, z)
    # Signals that seem worthless keep a trace of trust, so that they go on being learned.
    return SignalQuality(max(1 - q, _TRACE), max(-float(np.expm1(-k)), _TRACE))


class OldNames:
    """What `Scheduler.signals` does had names of its own in 0.1; they go with the next release."""

    @property
    def _signals(self) -> Any:
        return vars(self)["signals"]

    def hint(self, source: str | int, time: float) -> None:
        """Deprecated: `signals.receive`."""
        _warn("hint", "receive")
        if self._signals.given:
            self._signals.receive([source], [time])

    def set_hints(self, sources: Sequence[str | int], quality: SignalQuality) -> None:
        """Deprecated: `signals.listen`."""
        _warn("set_hints", "listen")
        self._signals.listen(list(sources), quality=quality)

    def learn_hints(self, least: int = 50) -> dict[str | None, SignalQuality]:
        """Deprecated: `signals.learn`."""
        _warn("learn_hints", "learn")
        return self._signals.learn(least) if self._signals.given else {}


def _warn(old: str, new: str) -> None:
    import warnings

    message = (
        f"Scheduler.{old} is Scheduler.signals.{new} now; the old name goes with the next release"
    )
    warnings.warn(message, DeprecationWarning, stacklevel=3)


def _log_link(e: Floats, n: Floats, z: Flags) -> tuple[float, float]:
    """Maximise Σ log P, concave in (q, k), by Newton steps kept inside 0 < q <= 1, 0 <= k <= 20."""

    def objective(q: float, k: float) -> float:
        eta = q * e + k * n
        with np.errstate(divide="ignore"):
            return float(np.sum(np.where(z, np.log(-np.expm1(-eta)), -eta)) - _CAUTION * k)

    q, k = 0.5, 0.3
    best = objective(q, k)
    for _ in range(_STEPS):
        eta = q * e + k * n
        odds = np.where(z, 1 / np.expm1(np.minimum(eta, 700)), 0.0)
        first = np.where(z, odds, -1.0)
        second = odds * (1 + odds)
        gradient = np.array([first @ e, first @ n - _CAUTION])
        curvature = np.array([[second @ e**2, second @ (e * n)], [second @ (e * n), second @ n**2]])
        curvature += 1e-9 * np.trace(curvature) * np.eye(2) + 1e-12 * np.eye(2)
        free = np.array([not (q >= 1 and gradient[0] > 0), not (k <= 0 and gradient[1] < 0)])
        if not free.any():
            break
        step = np.zeros(2)
        step[free] = np.linalg.solve(curvature[np.ix_(free, free)], gradient[free])
        size = 1.0
        while size > 1e-8:
            at = (
                float(np.clip(q + size * step[0], 1e-6, 1.0)),
                float(np.clip(k + size * step[1], 0.0, 20.0)),
            )
            gain = objective(*at) - best
            if gain >= 0:
                break
            size /= 2
        else:
            break
        moved = max(abs(at[0] - q), abs(at[1] - k))
        (q, k), best = at, best + gain
        if moved < 1e-9:
            break
    return q, k
