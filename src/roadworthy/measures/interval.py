"""The interval of a measure, and of the difference of two: the method follows from the measure's shape.

A proportion gets the interval of a proportion, a ratio that of a share (recall), of a count (word errors) or of
real numbers (squared errors), over groups and mapped through its scale, so that the ends of MOTA and RMSE are
those of the ratio under it; a mean over classes combines its classes' bounds; any other free measure gets the BCa
bootstrap over groups. The interval's method says which. Shares and counts have bounds that hold with few events and
with none; their differences and quotients combine these on different cases; on the same cases they use what each
case gained and lost where there are fewer than `FEW` such events, a bootstrap elsewhere.

>>> from roadworthy.measures.regression import rmse
>>> scored = rmse(np.array([1.0, 2.0, 3.0, 5.0]), np.array([1.5, 2.0, 2.0, 3.0]))
>>> found = measure_interval(scored)
>>> found.contains(scored.value()), found.low
(True, 0.0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from roadworthy.measures.classification import OverClasses
from roadworthy.measures.coco import DetectionSummary, Evaluation, summaries
from roadworthy.measures.scored import Scored, complement
from roadworthy.statistics import Interval
from roadworthy.statistics.arguments import group_codes
from roadworthy.statistics.bootstrap import BootstrapDraws, Resampled

if TYPE_CHECKING:
    from roadworthy.statistics.arguments import Sided
    from roadworthy.statistics.mean import RatioKind

RESAMPLES = 2000
FEW = 30
"""Effective events below which a bootstrap of a rate is not believed."""
_DRAWS = BootstrapDraws()
_MIRRORED: dict[str, Sided] = {"two": "two", "lower": "upper", "upper": "lower"}


class Difference(NamedTuple):
    """First minus second, and its interval."""

    value: float
    interval: Interval


def measure_interval(
    scored: Scored,
    groups: Any = None,
    *,
    confidence: float = 0.95,
    sided: Sided = "two",
    rng: np.random.Generator | None = None,
    resamples: int = RESAMPLES,
) -> Interval:
    """The interval of a measure's value; `groups` has one label a case, and `rng` is used by a bootstrap alone."""
    from roadworthy import statistics
    from roadworthy.statistics.bootstrap import resampled
    from roadworthy.statistics.strata import extreme_interval, mean_of_proportions

    if np.isnan(scored.value()):
        return Interval(
            *scored.limits, confidence, "none: the measure is not defined on these cases"
        )
    if scored.shape == "proportion":
        return statistics.clustered_proportion(
            _counted(scored), groups, confidence=confidence, sided=sided
        )
    if scored.shape == "ratio":
        return _of_ratio(scored, groups, confidence, sided)
    if isinstance(scored, OverClasses) and scored.strata is not None:
        options: dict[str, Any] = {"confidence": confidence, "sided": sided}
        return mean_of_proportions(1.0 - scored.error, scored.strata, groups, **options)
    drawn = _DRAWS.of(
        (scored, groups, resamples),
        rng := _needed(rng),
        lambda: resampled(scored.value, len(scored), groups, resamples=resamples, rng=rng),
    )
    found = drawn.interval(confidence=confidence, sided=sided)
    if (
        "does not vary" in found.method
        and scored.limits == (0.0, 1.0)
        and scored.value() in scored.limits
    ):
        # A bootstrap cannot see what it has not seen.
        support = (scored.support if isinstance(scored, OverClasses) else None) or (
            np.arange(len(scored)),
        )
        return extreme_interval(
            scored.value() == 1.0, support, groups, confidence=confidence, sided=sided
        )
    return _within(found, scored.limits)


def summary_intervals(
    found: Evaluation,
    groups: Any = None,
    *,
    rng: np.random.Generator,
    min_score: float = 0.5,
    confidence: float = 0.95,
    resamples: int = 200,
) -> dict[str, Interval]:
    """Percentile intervals of a detector's figures over all classes; whole groups are resampled."""
    codes, count = group_codes(groups, len(found))
    drawn = rng.integers(0, count, (resamples, count))
    weights = [np.bincount(row, minlength=count)[codes] for row in drawn]
    table = summaries(found, np.array([np.ones(len(found)), *weights]), min_score=min_score)

    def interval(column: np.ndarray) -> Interval:
        values = column[1:][np.isfinite(column[1:])]
        one = Resampled(float(column[0]), values, resamples - len(values), count, acceleration=None)
        return one.interval(confidence=confidence)

    return {
        name: interval(np.array([getattr(row, name) for row in table]))
        for name in DetectionSummary._fields[:-1]
    }


def measure_difference(
    first: Scored,
    second: Scored,
    groups: Any = None,
    *,
    paired: bool,
    second_groups: Any = None,
    joined: bool = False,
    confidence: float = 0.95,
    sided: Sided = "two",
    rng: np.random.Generator | None = None,
    resamples: int = RESAMPLES,
) -> Difference:
    """First minus second with its interval: on the same cases in the same order (`paired`), or on different ones.

    With `joined`, groups of one label on both sides are one group (a patient inside and outside of a filter).

    >>> right = np.array([1.0, 1.0, 1.0, 0.0])
    >>> measure_difference(Scored.proportion(right), Scored.proportion(right[::-1]), paired=True).value
    0.0
    """
    from roadworthy import statistics

    _check_alike(first, second, paired)
    value = first.value() - second.value()
    limits = (first.limits[0] - second.limits[1], first.limits[1] - second.limits[0])
    if np.isnan(value):
        return Difference(
            value, Interval(*limits, confidence, "none: a measure is not defined on its cases")
        )
    options: dict[str, Any] = {"confidence": confidence, "sided": sided}
    if first.shape == "proportion":
        parts = _counted(first), _counted(second)
        found = (
            statistics.paired_difference(*parts, groups, **options)
            if paired
            else statistics.difference(*parts, groups, second_groups, joined=joined, **options)
        )
        return Difference(value, found)
    if paired and _few(first, second, groups):
        return Difference(
            value, _within(_of_changes(first, second, groups, confidence, sided), limits)
        )
    samples = _Samples(first, second, groups, second_groups, paired, joined, resamples, rng)
    if not paired and _are_rates(first, second):
        return Difference(value, _within(samples.combined(confidence, sided), limits))
    found = samples.bootstrap("difference", confidence, sided)
    if _is_open(found, sided):
        found = samples.combined(confidence, sided)
    return Difference(value, _within(found, limits))


def measure_quotient(
    first: Scored,
    second: Scored,
    groups: Any = None,
    *,
    paired: bool,
    second_groups: Any = None,
    joined: bool = False,
    confidence: float = 0.95,
    sided: Sided = "two",
    rng: np.random.Generator | None = None,
    resamples: int = RESAMPLES,
) -> Interval:
    """The interval of first over second, as `measure_difference` takes them; the whole line where second is not above 0.

    >>> right = np.array([1.0, 1.0, 1.0, 0.0])
    >>> measure_quotient(Scored.proportion(right), Scored.proportion(right), paired=True).contains(1.0)
    True
    """
    from roadworthy.statistics.arguments import open_sides
    from roadworthy.statistics.rates import kept_share

    _check_alike(first, second, paired)
    if not (second.value() > 0 and np.isfinite(first.value())):
        return Interval(
            -math.inf, math.inf, confidence, "none: a quotient needs a value above 0 to divide by"
        )
    least = 0.0 if first.limits[0] >= 0 else -math.inf
    samples = _Samples(first, second, groups, second_groups, paired, joined, resamples, rng)
    if first.shape == "proportion" and paired:
        found = kept_share(
            _counted(first), _counted(second), groups, confidence=confidence, sided=sided
        )
    elif paired and _few(first, second, groups):
        found = _kept_of_changes(first, second, groups, confidence, sided)
    elif first.shape == "proportion" or (
        not paired and first.shape == "ratio" and not samples.real_and_joined()
    ):
        found = samples.divided(confidence, sided)
    else:
        found = samples.bootstrap("quotient", confidence, sided)
        if _is_open(found, sided):
            found = samples.divided(confidence, sided)
    low, high = open_sides(found.low, found.high, sided, least=least, most=math.inf)
    return _within(Interval(low, high, confidence, found.method), (least, math.inf))


@dataclass(frozen=True)
class _Samples:
    """Two scored samples and how their groups hang together."""

    first: Scored
    second: Scored
    groups: Any
    second_groups: Any
    paired: bool
    joined: bool
    resamples: int
    rng: np.random.Generator | None

    def bootstrap(
        self, compared: Literal["difference", "quotient"], confidence: float, sided: Sided
    ) -> Interval:
        """Groups drawn for both at once: the same weights where paired, one weight a joined group."""
        from roadworthy.statistics.bootstrap import resampled

        split = len(self.first)

        def of(weights: np.ndarray) -> float:
            ours, theirs = (weights, weights) if self.paired else (weights[:split], weights[split:])
            a, b = self.first.value(ours), self.second.value(theirs)
            return a - b if compared == "difference" else a / b if b > 0 else math.nan

        n = split if self.paired else split + len(self.second)
        rng = _needed(self.rng)
        made_of = (
            self.first,
            self.second,
            self.groups,
            self.second_groups,
            self.paired,
            self.joined,
            self.resamples,
        )
        drawn = _DRAWS.of(
            (compared, *made_of),
            rng,
            lambda: resampled(
                of,
                n,
                self.groups if self.paired else self._labels(),
                resamples=self.resamples,
                rng=rng,
            ),
        )
        found = drawn.interval(confidence=confidence, sided=sided)
        kind = "paired" if self.paired else "joined groups," if self.joined else "two samples,"
        return replace(found, method=f"{kind} {found.method}")

    def combined(self, confidence: float, sided: Sided) -> Interval:
        """The difference, from the interval of each."""
        from roadworthy.statistics.arguments import open_sides
        from roadworthy.statistics.paired import mover

        correlation = self._correlation()
        low, high = mover(
            self._values(), *self._intervals(confidence, sided), correlation=correlation
        )
        low, high = open_sides(low, high, sided, least=-math.inf, most=math.inf)
        how = (
            f"joined groups, correlation {correlation:.2f}" if correlation else "as if independent"
        )
        return Interval(low, high, confidence, f"two intervals combined (MOVER), {how}")

    def divided(self, confidence: float, sided: Sided) -> Interval:
        """The quotient, from the interval of each."""
        from roadworthy.statistics.rates import rate_quotient as divide

        correlation = self._correlation()
        low, high = divide(
            self._values(), *self._intervals(confidence, sided), correlation=correlation
        )
        return Interval(
            low,
            high,
            confidence,
            f"quotient of two intervals (MOVER), correlation {correlation:.2f}",
        )

    def real_and_joined(self) -> bool:
        """Ratios of real numbers whose groups stand on both sides: the bootstrap sees what they share."""
        return self.joined and not _are_rates(self.first, self.second)

    def _correlation(self) -> float:
        """That of two proportions or rates whose groups are joined; 0 where the samples are taken as independent."""
        from roadworthy.statistics.paired import joined_correlation

        if not self.joined or self.first.shape == "free" or self.real_and_joined():
            return 0.0
        (above, below), (before, exposure) = _columns(self.first), _columns(self.second)
        return joined_correlation(
            above, before, self.groups, self.second_groups, exposures=(below, exposure)
        )

    def _values(self) -> tuple[float, float]:
        return self.first.value(), self.second.value()

    def _intervals(self, confidence: float, sided: Sided) -> tuple[Interval, Interval]:
        from roadworthy.statistics import clustered_proportion
        from roadworthy.statistics.paired import two_sided_level

        level = two_sided_level(confidence, sided)
        labels = self.groups, self.groups if self.paired else self.second_groups
        found = []
        for scored, group in zip((self.first, self.second), labels, strict=True):
            if scored.shape == "proportion":
                # Exact, since claims on drops are judged by these.
                part = clustered_proportion(
                    _counted(scored),
                    group,
                    confidence=level,
                    method="clopper_pearson",
                    combined=True,
                )
            else:
                part = measure_interval(
                    scored, group, confidence=level, rng=self.rng, resamples=self.resamples
                )
            found.append(part)
        return found[0], found[1]

    def _labels(self) -> np.ndarray:
        """Group labels of both samples, told apart unless they are joined."""
        if self.joined:
            return np.array(
                [str(label) for labels in (self.groups, self.second_groups) for label in labels]
            )
        columns = [
            (mark, np.arange(len(scored)) if labels is None else np.asarray(labels))
            for mark, scored, labels in (
                ("1", self.first, self.groups),
                ("2", self.second, self.second_groups),
            )
        ]
        return np.array([f"{mark}:{label}" for mark, labels in columns for label in labels])


def _counted(scored: Scored) -> np.ndarray:
    """The 0/1 outcomes whose mean a proportion is."""
    assert scored.numerator is not None
    return scored.numerator


def kind_of(scored: Scored) -> RatioKind:
    """What a ratio sums: a share of its denominators (of trials, or any part), counts of events, or real numbers."""
    above, below = scored.numerator, scored.denominator
    assert above is not None and below is not None
    whole = bool(
        (above == np.floor(above)).all() and (below == np.floor(below)).all() and (above >= 0).all()
    )
    if scored.limits == (0.0, 1.0) and bool(((above >= 0) & (above <= below)).all()):
        return "share" if whole else "bounded"
    # A mean of whole numbers (turns, errors in whole degrees) has no trials that its events could fill.
    trials = scored.scale is complement or (scored.scale is None and bool((below != 1).any()))
    return "count" if whole and trials else "real"


def _of_ratio(scored: Scored, groups: Any, confidence: float, sided: Sided) -> Interval:
    from roadworthy import statistics

    above, below = scored.numerator, scored.denominator
    assert above is not None and below is not None
    falling = scored.scale is not None and scored.scale(1.0) < scored.scale(0.25)
    inner = _MIRRORED[sided] if falling else sided
    found = statistics.ratio(
        above, below, groups, confidence=confidence, sided=inner, kind=kind_of(scored)
    )
    return _within(_scaled(found, scored, falling), scored.limits)


def _are_rates(first: Scored, second: Scored) -> bool:
    """Whether both are shares or counts, whose bounds hold with few events too."""
    return first.shape == "ratio" and "real" not in (kind_of(first), kind_of(second))


def _few(first: Scored, second: Scored, groups: Any) -> bool:
    """Whether two rates of the same exposure differ by, or rest on, so few events that a bootstrap errs."""
    from roadworthy.statistics.rates import effective_events

    if (
        first.shape != "ratio"
        or first.scale not in (None, complement)
        or first.scale is not second.scale
    ):
        return False
    (above, below), (before, exposure) = _columns(first), _columns(second)
    if not _are_rates(first, second) or not np.array_equal(below, exposure):
        return False
    rests = effective_events(before, groups) if first.scale is None else math.inf
    return min(effective_events(above - before, groups), rests) < FEW


def _of_changes(
    first: Scored, second: Scored, groups: Any, confidence: float, sided: Sided
) -> Interval:
    """The paired difference of two rates from what the cases gained and lost."""
    from roadworthy.statistics.rates import paired_rate_difference

    (above, below), (before, _) = _columns(first), _columns(second)
    kind: Literal["count", "share"] = (
        "count" if "count" in (kind_of(first), kind_of(second)) else "share"
    )
    falling = first.scale is not None
    inner = _MIRRORED[sided] if falling else sided
    found = paired_rate_difference(
        above, before, below, groups, kind=kind, confidence=confidence, sided=inner
    )
    if not falling:
        return found
    return Interval(-found.high, -found.low, confidence, f"{found.method}, mapped to the measure")


def _kept_of_changes(
    first: Scored, second: Scored, groups: Any, confidence: float, sided: Sided
) -> Interval:
    """First over second = 1 + change / second, each end with the end of second that makes it farther."""
    from roadworthy.statistics.paired import two_sided_level
    from roadworthy.statistics.rates import over

    change = _of_changes(first, second, groups, confidence, sided)
    base = measure_interval(second, groups, confidence=two_sided_level(confidence, sided))
    low, high = over(change.low, base)[0], over(change.high, base)[1]
    return Interval(1.0 + low, 1.0 + high, confidence, f"1 + change / clean: {change.method}")


def _columns(scored: Scored) -> tuple[np.ndarray, np.ndarray]:
    assert scored.numerator is not None and scored.denominator is not None
    return scored.numerator, scored.denominator


def _is_open(found: Interval, sided: Sided) -> bool:
    """Whether an end that was asked for is missing."""
    return (sided != "upper" and math.isinf(found.low)) or (
        sided != "lower" and math.isinf(found.high)
    )


def _scaled(found: Interval, scored: Scored, falling: bool) -> Interval:
    if scored.scale is None:
        return found
    # Numerators and denominators are not below 0, so no ratio is.
    ends = scored.scale(max(found.low, 0.0)), scored.scale(max(found.high, 0.0))
    low, high = reversed(ends) if falling else ends
    return Interval(low, high, found.confidence, f"{found.method}, mapped to the measure")


def _within(found: Interval, limits: tuple[float, float]) -> Interval:
    low, high = (min(max(end, limits[0]), limits[1]) for end in (found.low, found.high))
    return Interval(low, high, found.confidence, found.method)


def _needed(rng: np.random.Generator | None) -> np.random.Generator:
    if rng is None:
        raise ValueError(
            "this interval is a bootstrap and needs rng, a numpy Generator made from the run's seed, "
            "for example np.random.default_rng(seed)"
        )
    return rng


def _check_alike(first: Scored, second: Scored, paired: bool) -> None:
    if (first.shape, first.better) != (second.shape, second.better):
        raise ValueError(
            f"a difference needs one measure on both sides, but the first is a {first.shape} ({first.better} is better) "
            f"and the second a {second.shape} ({second.better} is better)"
        )
    if paired and len(first) != len(second):
        raise ValueError(
            f"a paired difference needs the same cases on both sides, but there are {len(first)} and {len(second)}; "
            "take the common cases, or say paired=False"
        )
