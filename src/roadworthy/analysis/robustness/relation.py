"""The metamorphic relation: loss of performance at most epsilon(d) (Wozniak et al. 2024, task 7).

Epsilon is piecewise linear and may jump; at a jump the left piece holds (d <= 0.25 in box 7). It
says nothing beyond the last piece. Loss is how much worse the target performs than the source
(`one-sided`, an improvement always holds) or the paper's absolute difference (M18).

With resamples, the relation is met if the upper end of the loss is at most the least epsilon over
the interval of d, and breached if the lower end is above the greatest. Both intervals are
two-sided, so that each misses on the harmful side with half of 1 - confidence, and a wrong "met"
has at most 1 - confidence in all. Loss and distance are not resampled into one margin: next to a
jump, epsilon of resampled distances says too little (its 95% interval held 84% of simulated
margins, the ends used here 95%). Epsilon is multiplied by min(1, S0 / S), S0 a significance that
the user states. Robust means that all chosen metrics are met.

>>> epsilon = Epsilon.of([(0.25, 0, 0.01), (1, 1, 0)])  # box 7
>>> epsilon(0.154), epsilon(0.25), epsilon(0.3), epsilon(1.2)
(0.01, 0.01, 0.3, None)
>>> losses = {"AP": 0.094, "Precision": 0.066}
>>> robust_for_all({m: judge_relation(loss, 0.154, epsilon) for m, loss in losses.items()})
Robustness(outcome='breached', holds=0, metrics=2, unweighted='breached', unweighted_holds=0)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from roadworthy.statistics import Interval, holm, p_value_from_bound
from roadworthy.statistics.arguments import Floats, check_choice
from roadworthy.statistics.bootstrap import Resampled

TOLERANCE = 1e-9
"""Of comparisons: 0.51 - 0.50 is above 0.01 in binary numbers."""
Outcome = Literal["met", "breached", "inconclusive", "not covered"]
LossKind = Literal["one-sided", "absolute"]
_N = TypeVar("_N", float, Floats)


class Piece(NamedTuple):
    """Epsilon = slope * d + intercept for d up to and including `up_to`."""

    up_to: float
    slope: float
    intercept: float

    def at(self, d: float) -> float:
        """Its line at d."""
        return self.slope * d + self.intercept


@dataclass(frozen=True)
class Epsilon:
    """The tolerated loss as a function of distance: pieces from 0 on, one after the other."""

    pieces: tuple[Piece, ...]

    def __post_init__(self) -> None:
        if not self.pieces:
            raise ValueError(
                "epsilon has no piece; state up_to, slope and intercept of at least one"
            )
        start = 0.0
        for number, piece in enumerate(self.pieces, start=1):
            if not all(map(math.isfinite, piece)):
                raise ValueError(
                    f"piece {number} of epsilon has a number that is not finite: {piece}"
                )
            if piece.up_to <= start:
                raise ValueError(
                    f"piece {number} of epsilon ends at {piece.up_to:g}, expected above {start:g}; "
                    "order the pieces by up_to"
                )
            least = min(piece.at(start), piece.at(piece.up_to))
            if least < -TOLERANCE:
                raise ValueError(
                    f"piece {number} of epsilon falls to {least:g} from {start:g} to "
                    f"{piece.up_to:g}; a tolerated loss is 0 or more"
                )
            start = piece.up_to

    @classmethod
    def of(cls, rows: Iterable[Sequence[float]]) -> Epsilon:
        """From rows of (up_to, slope, intercept)."""
        return cls(tuple(Piece(*map(float, row)) for row in rows))

    @classmethod
    def parse(cls, text: str) -> Epsilon:
        """From a line of text: pieces ``up_to: intercept + slope d``, with commas between them.

        >>> Epsilon.parse("0.25: 0.01, 1: 0.02 + d") == Epsilon.of([(0.25, 0, 0.01), (1, 1, 0.02)])
        True
        """
        rows = []
        for part in text.split(","):
            up_to, _, line = part.partition(":")
            terms = [term.strip() for term in line.split("+")]
            try:
                slope = sum(float(t[:-1] or 1) for t in terms if t.endswith("d"))
                intercept = sum(float(t) for t in terms if not t.endswith("d"))
                rows.append((float(up_to), slope, intercept))
            except ValueError:
                said = "write up_to: intercept + slope d, as in '0.25: 0.01, 1: 0.01 + 0.5d'"
                raise ValueError(f"cannot read {part.strip()!r}; {said}") from None
        return cls.of(rows)

    def __call__(self, d: float) -> float | None:
        """Epsilon at a distance; None if it is not covered."""
        found = float(self.at(np.array([d]))[0])
        return None if math.isnan(found) else found

    def at(self, d: ArrayLike) -> Floats:
        """Epsilon at each distance; NaN where it is not covered."""
        x = np.asarray(d, dtype=np.float64)
        ends, slopes, intercepts = np.array(self.pieces).T
        where = np.searchsorted(ends + TOLERANCE, x)
        known = (where < len(ends)) & (x >= -TOLERANCE)
        where = np.minimum(where, len(ends) - 1)
        return np.where(known, slopes[where] * x + intercepts[where], np.nan)

    def over(self, low: float, high: float) -> tuple[float, float] | None:
        """Least and greatest over [low, high], both sides of jumps; None if not all is covered."""
        low = max(low, 0.0)
        if high > self.pieces[-1].up_to + TOLERANCE or high < low:
            return None
        values, start = [], -math.inf
        for piece in self.pieces:
            if low <= piece.up_to + TOLERANCE and high > start + TOLERANCE:
                # A line has its extremes at its ends.
                values += [piece.at(max(low, start)), piece.at(max(low, min(high, piece.up_to)))]
            start = piece.up_to
        return min(values), max(values)


def performance_loss(
    source: _N, target: _N, better: Literal["higher", "lower"], kind: LossKind = "one-sided"
) -> _N:
    """How much worse the target performs than the source: positive is worse.

    >>> round(performance_loss(0.34, 0.246, "higher"), 3)
    0.094
    """
    check_choice("better", better, ("higher", "lower"))
    check_choice("kind", kind, ("one-sided", "absolute"))
    change = source - target if better == "higher" else target - source
    return abs(change) if kind == "absolute" else change


def significance_weight(significance: int | None, reference: int) -> float:
    """min(1, S0 / S): what epsilon is multiplied by; 1 for a circumstance without significance.

    >>> significance_weight(20, 10), significance_weight(5, 10), significance_weight(None, 10)
    (0.5, 1.0, 1.0)
    """
    if reference < 1:
        raise ValueError(f"the reference significance is {reference}; expected 1 to 125")
    return 1.0 if significance is None else min(1.0, reference / significance)


class MarginVerdict(NamedTuple):
    """The relation for one metric with one weight."""

    outcome: Outcome
    margin: float
    """Epsilon(d) less the loss; NaN if d is not covered."""
    low: float = math.nan
    """The ends of the margin's interval; NaN if epsilon does not cover the interval of d."""
    high: float = math.nan


@dataclass(frozen=True)
class RelationVerdict:
    """The relation for one metric under one circumstance."""

    loss: float
    loss_interval: Interval | None
    d: float
    d_interval: Interval | None
    weight: float
    weighted: MarginVerdict
    """The verdict that counts."""
    unweighted: MarginVerdict
    at: Callable[[float], RelationVerdict] | None = field(default=None, compare=False)
    """The same at another confidence; None without resamples."""

    @property
    def outcome(self) -> Outcome:
        """That of the weighted relation."""
        return self.weighted.outcome

    @cached_property
    def p(self) -> float | None:
        """The smallest 1 - confidence at which it is met, weighted; None without resamples."""
        if (at := self.at) is None:
            return None
        return p_value_from_bound(lambda level: at(level).weighted.low, -TOLERANCE)


def judge_relation(
    loss: float,
    d: float,
    epsilon: Epsilon,
    *,
    loss_interval: Interval | None = None,
    d_interval: Interval | None = None,
    weight: float = 1.0,
) -> RelationVerdict:
    """The verdict from values and intervals; a value without an interval is taken as exact."""
    least, most = (loss_interval.low, loss_interval.high) if loss_interval else (loss, loss)
    near, far = (d_interval.low, d_interval.high) if d_interval else (d, d)
    allowed, ends = epsilon(d), epsilon.over(near, far)

    def judged(by: float) -> MarginVerdict:
        if allowed is None:
            return MarginVerdict("not covered", math.nan)
        if ends is None:
            return MarginVerdict("inconclusive", by * allowed - loss)
        low, high = by * ends[0] - most, by * ends[1] - least
        outcome: Outcome = "inconclusive"
        if low >= -TOLERANCE:
            outcome = "met"
        elif high < -TOLERANCE:
            outcome = "breached"
        return MarginVerdict(outcome, by * allowed - loss, low, high)

    return RelationVerdict(loss, loss_interval, d, d_interval, weight, judged(weight), judged(1.0))


@dataclass(frozen=True)
class PairedDraws:
    """Performance and distance on the same resamples of whole groups, entry by entry."""

    source: Floats
    target: Floats
    d: Floats | None
    """None if the distance is not resampled: it is then taken as exact."""
    groups: int


def judge_draws(
    source: float,
    target: float,
    d: float,
    draws: PairedDraws,
    epsilon: Epsilon,
    *,
    better: Literal["higher", "lower"],
    kind: LossKind = "one-sided",
    weight: float = 1.0,
    confidence: float = 0.95,
) -> RelationVerdict:
    """The verdict from paired resamples, with percentile intervals of loss and distance."""
    value = performance_loss(source, target, better, kind)
    change = performance_loss(source, target, better)
    changes = performance_loss(draws.source, draws.target, better)

    def at(level: float) -> RelationVerdict:
        signed = _interval(change, changes, draws, level)
        losses = _folded(signed) if kind == "absolute" else signed
        distances = None if draws.d is None else _interval(d, draws.d, draws, level)
        return judge_relation(
            value, d, epsilon, loss_interval=losses, d_interval=distances, weight=weight
        )

    return replace(at(confidence), at=at)


def _interval(value: float, drawn: Floats, draws: PairedDraws, confidence: float) -> Interval:
    known = drawn[np.isfinite(drawn)]
    found = Resampled(value, known, len(drawn) - len(known), draws.groups, acceleration=None)
    interval = found.interval(confidence=confidence)
    bounded = math.isfinite(interval.low) and math.isfinite(interval.high)
    if bounded or not math.isfinite(value):
        return interval
    spread = float(known.std(ddof=1)) if len(known) > 1 else 0.0
    tail, groups = (1 - confidence) / 2, draws.groups
    if spread > 0 and groups > 1:
        # Many circumstances and metrics ask for tails that no number of resamples reaches: there
        # the resamples' standard error and Student's t.
        half = -float(stdtrit(groups - 1, tail)) * spread * math.sqrt(groups / (groups - 1))
        return Interval(value - half, value + half, confidence, f"t of {found.name}")
    # All groups are alike: as many as this share may still differ, up to a loss of 1 or a gain of 1.
    share = 1 - tail ** (1 / groups)
    low, high = value - share * (value + 1), value + share * (1 - value)
    return Interval(low, high, confidence, f"{groups} groups that do not differ")


def _folded(signed: Interval) -> Interval:
    """The interval of |x| from that of x; resamples of |x| would never reach down to 0."""
    ends = abs(signed.low), abs(signed.high)
    low = 0.0 if signed.contains(0.0) else min(ends)
    return Interval(low, max(ends), signed.confidence, signed.method)


class Robustness(NamedTuple):
    """The relation over all chosen metrics, or over all circumstances and metrics."""

    outcome: Outcome
    holds: int
    """How many of the metrics meet it."""
    metrics: int
    unweighted: Outcome
    unweighted_holds: int


def robust_for_all(verdicts: Mapping[str, RelationVerdict]) -> Robustness:
    """Met if all are met, breached if one is; what is not covered makes it inconclusive."""
    weighted = [v.weighted.outcome for v in verdicts.values()]
    plain = [v.unweighted.outcome for v in verdicts.values()]
    return Robustness(
        _worst(weighted), weighted.count("met"), len(verdicts), _worst(plain), plain.count("met")
    )


def _worst(outcomes: Collection[Outcome]) -> Outcome:
    if not outcomes:
        raise ValueError("there is no verdict; choose at least one metric")
    if "breached" in outcomes:
        return "breached"
    return "met" if set(outcomes) == {"met"} else "inconclusive"


class AdjustedOutcome(NamedTuple):
    """A circumstance's verdict before and after Holm's correction over circumstances."""

    outcome: Outcome
    unadjusted: Outcome
    p: float
    """The largest over the metrics, all of which must be met (intersection-union)."""
    p_adjusted: float


def over_circumstances(
    verdicts: Mapping[str, Mapping[str, RelationVerdict]], *, confidence: float = 0.95
) -> dict[str, AdjustedOutcome]:
    """By circumstance, whether "robust" survives that several circumstances were looked at.

    A p-value is at least about 2 / resamples: m circumstances need 2 m / (1 - confidence).
    """
    ps = []
    for name, by_metric in verdicts.items():
        known = [v.p for v in by_metric.values() if v.p is not None]
        if len(known) < len(by_metric):
            raise ValueError(f"circumstance {name!r} has verdicts without resamples: judge_draws")
        ps.append(max(known))
    found = {}
    for name, p, adjusted in zip(verdicts, ps, map(float, holm(ps)), strict=True):
        before = robust_for_all(verdicts[name]).outcome
        lost = before == "met" and adjusted > 1 - confidence + TOLERANCE
        found[name] = AdjustedOutcome("inconclusive" if lost else before, before, p, adjusted)
    return found
