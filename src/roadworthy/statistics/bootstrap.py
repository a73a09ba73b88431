"""The bootstrap for any statistic of weighted cases: whole groups are drawn, whole groups are left out.

`statistic(weights)` takes how often each case was drawn, so that AP, MOTA or RMSE is computed once per
resample from arrays that never move. BCa is Efron's (1987): bias from the resamples, acceleration from the
jackknife over groups. Tails are widened from z to sqrt(G / (G - 1)) t (Hesterberg 2015), since a plain
bootstrap treats the groups' spread as known. A resample where the statistic is undefined counts as lying
beyond both ends; where nothing varies there is no interval, and where so few resamples differ that an end would
be the estimate itself, there is no such end; the method says so.

>>> import numpy as np
>>> errors = np.array([1.0, 2.0, 0.5, 3.0, 1.5, 0.2, 0.9, 2.2])
>>> rmse = lambda w: float(np.sqrt(w @ errors**2 / w.sum()))
>>> bootstrap(rmse, 8, rng=np.random.default_rng(0)).contains(rmse(np.ones(8)))
True
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arguments import Codes, Floats, Sided, check_choice, group_codes, open_sides, tail_probability
from .interval import Interval

Weights = NDArray[np.int64]
Statistic = Callable[[Weights], float]

# Beyond this many groups the jackknife leaves out blocks of groups: the acceleration is the same, with noise.
_MOST_JACKKNIFE = 400
# Where an end with a tail of at most this equals the estimate, the resamples have not seen what lies beyond it.
_UNLIKELY = 0.25


def _resample(
    statistic: Statistic, codes: Codes, count: int, resamples: int, rng: np.random.Generator
) -> Floats:
    values = np.empty(resamples)
    for i in range(resamples):
        drawn = np.bincount(rng.integers(0, count, count), minlength=count)
        values[i] = float(statistic(drawn[codes]))
    return values


def _acceleration(
    statistic: Statistic, codes: Codes, count: int, rng: np.random.Generator
) -> float:
    """Skewness of the jackknife influences over six; 0 where it is undefined."""
    block = (
        np.arange(count) if count <= _MOST_JACKKNIFE else rng.permutation(count) % _MOST_JACKKNIFE
    )
    left_out = block[codes]
    blocks = range(int(block.max()) + 1)
    values = np.array([float(statistic((left_out != b).astype(np.int64))) for b in blocks])
    influences = values[np.isfinite(values)]
    influences = influences.mean() - influences if len(influences) > 1 else np.zeros(1)
    scale = float(np.square(influences).sum())
    return float((influences**3).sum() / (6.0 * scale**1.5)) if scale > 0.0 else 0.0


def _widened(tail: float, count: int) -> float:
    from scipy.special import ndtr, stdtrit

    return float(ndtr(math.sqrt(count / (count - 1)) * stdtrit(count - 1, tail)))


def _bca_level(probability: float, bias: float, acceleration: float) -> float:
    from scipy.special import ndtr, ndtri

    shifted = bias + float(ndtri(probability))
    denominator = 1.0 - acceleration * shifted
    if denominator <= 0.0:
        return 1.0 if shifted > 0.0 else 0.0
    return float(ndtr(bias + shifted / denominator))


def _bias(values: Floats, estimate: float) -> float:
    from scipy.special import ndtri

    # Ties count half, so that a statistic with few distinct values is not called biased.
    below = float(np.mean(values < estimate) + np.mean(values == estimate) / 2.0)
    edge = 0.5 / len(values)
    return float(ndtri(min(max(below, edge), 1.0 - edge)))


def _quantile(values: Floats, undefined: int, level: float, upper: bool) -> float:
    """The quantile with undefined resamples placed beyond this end; infinite beyond the last resample.

    The k-th of B ordered resamples stands for k / (B + 1): taking k / B would leave both tails too heavy.
    """
    outside = math.inf if upper else -math.inf
    ordered = np.sort(np.concatenate([values, np.full(undefined, outside)]))
    position = level * (len(ordered) + 1) - 1.0
    if not 0.0 <= position <= len(ordered) - 1:
        return outside if (position > 0.0) == upper else float(ordered[0 if upper else -1])
    below, above = math.floor(position), math.ceil(position)
    a, b = float(ordered[below]), float(ordered[above])
    if a == b or math.isinf(a) or math.isinf(b):
        return b if upper else a
    return a + (b - a) * (position - below)


@dataclass(frozen=True)
class Resampled:
    """A statistic on its cases and on every resample: intervals at any confidence without drawing again."""

    estimate: float
    values: Floats
    """Where the statistic is defined."""
    undefined: int
    groups: int
    acceleration: float | None
    """None for the percentile method."""

    @property
    def name(self) -> str:
        """The method and its size."""
        method = "percentile" if self.acceleration is None else "bca"
        return f"bootstrap {method}, {self.groups} groups, {len(self.values) + self.undefined} resamples"

    def interval(self, *, confidence: float = 0.95, sided: Sided = "two") -> Interval:
        """The interval for the statistic; open at an end that the resamples say nothing of."""
        tail = tail_probability(confidence, sided)
        reason = self._nothing()
        if reason:
            return Interval(-math.inf, math.inf, float(confidence), f"{self.name}: {reason}")
        levels = [_widened(tail, self.groups), 1.0 - _widened(tail, self.groups)]
        if self.acceleration is not None:
            bias = _bias(self.values, self.estimate)
            levels = [_bca_level(level, bias, self.acceleration) for level in levels]
        low = _quantile(self.values, self.undefined, levels[0], upper=False)
        high = _quantile(self.values, self.undefined, levels[1], upper=True)
        stuck = [tail <= _UNLIKELY and self._is_estimate(end) for end in (low, high)]
        low, high = -math.inf if stuck[0] else low, math.inf if stuck[1] else high
        low, high = open_sides(low, high, sided, least=-math.inf, most=math.inf)
        return Interval(
            low, high, float(confidence), self.name + self._remarks(low, high, sided, stuck)
        )

    def _nothing(self) -> str:
        if not math.isfinite(self.estimate):
            return "undefined on the cases themselves"
        if self.groups == 1:
            return "one group, nothing to resample"
        if len(self.values) == 0 or float(np.ptp(self.values)) <= 1e-12 * float(
            np.abs(self.values).max()
        ):
            return "the statistic does not vary"
        return ""

    def _is_estimate(self, end: float) -> bool:
        scale = max(abs(self.estimate), float(np.ptp(self.values)))
        return abs(end - self.estimate) <= 1e-12 * scale

    def _remarks(self, low: float, high: float, sided: Sided, stuck: list[bool]) -> str:
        said = f", {self.undefined} undefined, counted beyond both ends" if self.undefined else ""
        asked = [sided != "upper", sided != "lower"]
        if any(a and s for a, s in zip(asked, stuck, strict=True)):
            said += ", an end is open: too few resamples differ from the estimate on that side"
        missing = [
            a and not s and math.isinf(e) for a, s, e in zip(asked, stuck, (low, high), strict=True)
        ]
        if any(missing):
            said += ", an end lies beyond the resamples: draw more of them"
        return said


def resampled(
    statistic: Statistic,
    n: int,
    groups: ArrayLike | None = None,
    *,
    method: Literal["bca", "percentile"] = "bca",
    resamples: int = 2000,
    rng: np.random.Generator,
) -> Resampled:
    """The statistic on resamples of whole groups, drawn with replacement."""
    check_choice("method", method, ("bca", "percentile"))
    if n < 1 or resamples < 10:
        raise ValueError(f"expected n >= 1 and resamples >= 10, found n={n!r} and {resamples!r}")
    codes, count = group_codes(groups, n)
    estimate = float(statistic(np.ones(n, dtype=np.int64)))
    acceleration = 0.0 if method == "bca" else None
    if not math.isfinite(estimate) or count == 1:
        return Resampled(estimate, np.zeros(0), resamples, count, acceleration)
    drawn = _resample(statistic, codes, count, resamples, rng)
    values = drawn[np.isfinite(drawn)]
    found = Resampled(estimate, values, resamples - len(values), count, acceleration)
    if method == "percentile" or found._nothing():
        return found
    return replace(found, acceleration=_acceleration(statistic, codes, count, rng))


class BootstrapDraws:
    """The latest resamplings, each kept with the very objects it was made of.

    One result is asked at several confidences, each time from a generator of the same seed. A resampling is found
    again where the objects are the same ones and the generator stands where it stood; it is left where drawing
    leaves it, so that keeping changes no number.
    """

    def __init__(self, size: int = 4) -> None:
        self._kept: deque[tuple[tuple[object, ...], str, Resampled, Any]] = deque(maxlen=size)

    def of(
        self, made_of: tuple[object, ...], rng: np.random.Generator, draw: Callable[[], Resampled]
    ) -> Resampled:
        """What `draw` returns with this generator, drawn only if it is not kept."""
        state = json.dumps(rng.bit_generator.state, default=lambda part: np.asarray(part).tolist())
        for parts, before, found, after in tuple(self._kept):
            if before == state and len(parts) == len(made_of) and all(map(_same, parts, made_of)):
                rng.bit_generator.state = after
                return found
        found = draw()
        self._kept.append((made_of, state, found, rng.bit_generator.state))
        return found


def _same(one: object, other: object) -> bool:
    return one is other or (
        isinstance(one, (str, int)) and isinstance(other, (str, int)) and one == other
    )


def bootstrap(
    statistic: Statistic,
    n: int,
    groups: ArrayLike | None = None,
    *,
    confidence: float = 0.95,
    sided: Sided = "two",
    method: Literal["bca", "percentile"] = "bca",
    resamples: int = 2000,
    rng: np.random.Generator,
) -> Interval:
    """The interval for statistic(ones) by drawing whole groups with replacement."""
    tail_probability(confidence, sided)
    found = resampled(statistic, n, groups, method=method, resamples=resamples, rng=rng)
    return found.interval(confidence=confidence, sided=sided)
