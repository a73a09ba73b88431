"""Which circumstances the source data lack (Wozniak et al. 2024, tasks 3 and 4).

The gap of a circumstance is its target probability less its frequency in the source data. That
frequency is a known number, a hand-annotated sample, or an estimate from pixels (`estimators`); the
last two have an interval, and a gap whose interval spans 0 is "cannot tell". Gaps are listed by
significance. Shares are those of figure A1: missing (source 0, target above 0), over- or
under-represented (missing included) and covered (equal), rounded half up.

>>> dark, cut = TargetCircumstance("1", "dark", 0.15, 3, 2, 3), TargetCircumstance("2", "cut", 0.2)
>>> found = gap_list([dark, cut], {"1": known_frequency(0.05), "2": counted_frequency(9, 50)})
>>> [(row.target.id, row.status, round(row.gap, 2)) for row in found.rows]
[('1', 'under-represented', 0.1), ('2', 'cannot tell', 0.02)]
>>> found.missing, found.over_or_under, found.covered, found.percent("cannot tell")
(0, 50, 0, 50)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.analysis.robustness.circumstances import TargetCircumstance, ranked
from roadworthy.statistics import Interval, clopper_pearson, clustered_proportion

EQUAL = 1e-9
"""Known frequencies that differ by no more are equal."""
Origin = Literal["known", "sample", "estimator"]
GapStatus = Literal[
    "missing",
    "under-represented",
    "over-represented",
    "covered",
    "cannot tell",
    "not stated",
]


@dataclass(frozen=True)
class SourceFrequency:
    """How often the source data show a circumstance (M2), and how that is known."""

    value: float
    origin: Origin
    interval: Interval | None = None
    """None for a known number."""
    n: int | None = None
    """Images looked at."""

    def __post_init__(self) -> None:
        if not 0 <= self.value <= 1:
            raise ValueError(f"a relative frequency lies between 0 and 1, found {self.value}")


def known_frequency(value: float) -> SourceFrequency:
    """A frequency that is known for the whole set, for example from metadata."""
    return SourceFrequency(float(value), "known")


def counted_frequency(k: int, n: int, *, confidence: float = 0.95) -> SourceFrequency:
    """k of n independent, hand-annotated images show the circumstance (Clopper-Pearson)."""
    if n < 1:
        raise ValueError("no image was annotated; annotate a random sample, or state the frequency")
    return SourceFrequency(k / n, "sample", clopper_pearson(k, n, confidence=confidence), n)


def sampled_frequency(
    shown: ArrayLike, groups: ArrayLike | None = None, *, confidence: float = 0.95
) -> SourceFrequency:
    """The same from one 0/1 entry an image; the interval respects groups (patients, drives)."""
    found = clustered_proportion(shown, groups, confidence=confidence, method="clopper_pearson")
    entries = np.asarray(shown, dtype=np.float64)
    return SourceFrequency(float(entries.mean()), "sample", found, len(entries))


@dataclass(frozen=True)
class GapRow:
    """A circumstance with its target probability, its source frequency, and their difference."""

    target: TargetCircumstance
    source: SourceFrequency | None
    gap: float
    """Target less source; NaN if one of them is not stated."""
    interval: Interval | None
    """None for a known frequency."""
    status: GapStatus


@dataclass(frozen=True)
class Gaps:
    """All circumstances by falling significance, and the shares of figure A1 in whole percent."""

    rows: tuple[GapRow, ...]

    def of(self, *statuses: GapStatus) -> list[GapRow]:
        """The rows with one of these statuses, by falling significance."""
        return [row for row in self.rows if row.status in statuses]

    @property
    def to_generate(self) -> list[GapRow]:
        """The priority list: circumstances for which follow-up cases must be made."""
        return self.of("missing", "under-represented")

    @property
    def missing(self) -> int:
        """Percent of circumstances that the source data do not show."""
        return self.percent("missing")

    @property
    def over_or_under(self) -> int:
        """Percent whose frequency differs from the target, missing ones included."""
        return self.percent("missing", "under-represented", "over-represented")

    @property
    def covered(self) -> int:
        """Percent whose frequency equals the target."""
        return self.percent("covered")

    def percent(self, *statuses: GapStatus) -> int:
        """Of the circumstances that have both numbers, those with one of these statuses."""
        stated = len(self.rows) - len(self.of("not stated"))
        # As the tool of figure A1: 62.5% is 63%, where Python's round() says 62.
        return math.floor(100 * len(self.of(*statuses)) / max(stated, 1) + 0.5)


def gap_list(targets: Sequence[TargetCircumstance], sources: Mapping[str, SourceFrequency]) -> Gaps:
    """The gap of every target circumstance; sources by the circumstance's id."""
    unknown = sorted(set(sources) - {t.id for t in targets})
    if unknown:
        raise ValueError(
            f"source frequencies name {', '.join(unknown)}, which is no target circumstance; "
            f"known: {', '.join(t.id for t in targets)}"
        )
    return Gaps(tuple(_row(t, sources.get(t.id)) for t in ranked(targets)))


def _row(target: TargetCircumstance, source: SourceFrequency | None) -> GapRow:
    if target.probability is None or source is None:
        return GapRow(target, source, math.nan, None, "not stated")
    gap, interval = target.probability - source.value, None
    if found := source.interval:
        ends = target.probability - found.high, target.probability - found.low
        interval = Interval(*ends, found.confidence, found.method)
    status: GapStatus = "under-represented"
    if interval and interval.contains(0.0):
        status = "cannot tell"
    elif abs(gap) <= EQUAL:
        status = "covered"
    elif gap < 0:
        status = "over-represented"
    elif source.value == 0:
        status = "missing"
    return GapRow(target, source, gap, interval, status)
