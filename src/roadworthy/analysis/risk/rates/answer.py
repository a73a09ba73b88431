"""What an estimator of the rate answers: values with an interval, the method, and what to beware of; or that it cannot tell.

>>> rates = conditional_rate([3, 0], [4, 0])
>>> rates[0].value, rates[1].value, rates[1].interval.high, rates[1].flags
(0.75, 0.0, 1.0, ('no calibration rows under this condition: its probability is taken as zero',))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.statistics import Interval, clopper_pearson_bounds

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

OUTSIDE = "outside [FPR, TPR]"
BEYOND_CHANCE = "outside [FPR, TPR] by more than chance explains: calibration mismatch"
WEAK = "the calibration cannot exclude TPR + TNR <= 1"
ALIKE = "the calibration cannot exclude that clean and shifted rows fall alike"
MIXTURE = "speaks of the calibrated kinds of shift in even parts: of one of them alone the rate may lie outside"
NO_EVENTS = "no events in the window"
NO_ROWS = "no calibration rows under this condition: its probability is taken as zero"
REJECTED = "no rate explains how the scores fall: the interval is of those that are rejected least"
UNIFORM = "every batch is taken to be all clean or all shifted"
DOUBTFUL = "batches look mixed: it is doubtful that each is all clean or all shifted"

MEANING = {
    OUTSIDE: "the share of alarms is below the FPR or above the TPR that was calibrated, so that the nearest rate, 0 or 1, is "
    "told; chance alone takes half of the windows without shift there",
    BEYOND_CHANCE: "chance, calibration rows and kinds of shift do not take the share of alarms so far outside: detection rates "
    "are not those that were calibrated",
    WEAK: "so few rows, or verdicts so poor, were calibrated that shifted cases may alarm no more often than clean ones",
    ALIKE: "clean and shifted calibration rows fall into the bins so similarly that chance would do",
    MIXTURE: "the interval is one of all calibrated kinds in even parts",
    NO_EVENTS: "nothing was counted, and no rate is excluded",
    REJECTED: "the scores fall as they do at no rate, so that the calibration does not describe this window",
    UNIFORM: "batches that are in part shifted would be misread",
    DOUBTFUL: "verdicts on single events do not bunch as they do in batches that are all clean or all shifted, and the rate is "
    "off; mixed_batches reads such batches",
}
"""What a flag means for who reads the rate, in one sentence."""


class CannotTell(ValueError):
    """No rate can be told from this calibration, whatever the stream says."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Rate:
    """The rate of shift in one window."""

    value: float
    interval: Interval
    method: str
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Rates:
    """The rate of shift in each window; `rates[i]` is one of them, `rates[()]` where only one window was asked about."""

    value: Floats
    low: Floats
    high: Floats
    confidence: float
    method: str
    flags: Mapping[str, Bools] = field(default_factory=dict)
    """What to beware of, and in which windows; a flag that stands nowhere is left out."""

    def __len__(self) -> int:
        return self.value.size

    def __getitem__(self, window: Any) -> Rate:
        interval = Interval(
            float(self.low[window]), float(self.high[window]), self.confidence, self.method
        )
        flags = tuple(flag for flag, where in self.flags.items() if where[window])
        return Rate(float(self.value[window]), interval, self.method, flags)

    def flagged(self, flag: str) -> Bools:
        """In which windows this flag stands."""
        return self.flags.get(flag, np.zeros(self.value.shape, dtype=bool))


def answered(
    ends: Iterable[ArrayLike], confidence: float, method: str, flags: Mapping[str, Bools]
) -> Rates:
    """Rates from value, low and high: within [0, 1], the value within its interval, with the flags that stand somewhere."""
    point, least, most = (np.clip(np.asarray(x, dtype=np.float64), 0.0, 1.0) for x in ends)
    shape = point.shape
    where = {
        flag: np.broadcast_to(np.asarray(mask, dtype=bool), shape) for flag, mask in flags.items()
    }
    standing = {flag: mask for flag, mask in where.items() if mask.any()}
    return Rates(
        point,
        np.minimum(least, point),
        np.maximum(most, point),
        float(confidence),
        method,
        standing,
    )


def conditional_rate(events: ArrayLike, rows: ArrayLike, *, confidence: float = 0.95) -> Rates:
    """Shares of calibration rows with Clopper-Pearson intervals; a condition without rows has probability zero, and a note."""
    some, all_rows = np.broadcast_arrays(
        np.asarray(events, np.float64), np.asarray(rows, np.float64)
    )
    low, high = clopper_pearson_bounds(some, all_rows, confidence=confidence)
    value = some / np.where(all_rows > 0.0, all_rows, 1.0)
    return answered(
        (value, low, high), confidence, "share of calibration rows", {NO_ROWS: all_rows == 0.0}
    )


def window_counts(alarms: ArrayLike, n: ArrayLike) -> tuple[Floats, Floats]:
    """Alarms and events of the windows, checked, in one shape; decayed (fractional) counts are counts too."""
    k, size = np.broadcast_arrays(
        np.asarray(alarms, dtype=np.float64), np.asarray(n, dtype=np.float64)
    )
    if (
        not (np.isfinite(k).all() and np.isfinite(size).all())
        or (k < 0.0).any()
        or (k > size * (1.0 + 1e-9)).any()
    ):
        raise ValueError(
            "alarms must lie between 0 and the number of events, window by window; check how they were counted"
        )
    return np.minimum(k, size), size


def verdict_counts(counts: ArrayLike) -> tuple[Floats, Floats]:
    """Alarms and events of the windows, from those cleared and alarmed in the last axis."""
    table = bin_counts(counts, 2)
    return table[..., 1], table.sum(axis=-1)


def bin_counts(counts: ArrayLike, bins: int) -> Floats:
    """Events by score bin, in the last axis, checked."""
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim < 1 or table.shape[-1] != bins:
        raise ValueError(
            f"counts must end in an axis of {bins} score bins, as calibrated, found shape {table.shape}"
        )
    if not np.isfinite(table).all() or (table < 0.0).any():
        raise ValueError(
            "counts of events must be finite and not negative; check how they were counted"
        )
    return table
