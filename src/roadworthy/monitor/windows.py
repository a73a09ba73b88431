"""Which part of a stream is read: the last events, older ones fading out, or all since a change.

With a half-life, events count for n_eff = (sum w)^2 / sum w^2 of them. The adaptive window starts at
the last point at which the shift score changed.

>>> cells = np.array([0, 1, 1, -1], dtype=np.int16)
>>> reading = sliding(cells, 3, size=2)
>>> reading.counts.tolist(), reading.n, reading.unscored, reading.wanted
([0.0, 2.0], 2, 1, 3)
>>> fading = sliding(np.zeros(10_000, dtype=np.int16), 2000, size=2, half_life=100.0)
>>> round(fading.effective, 1), fading.window
(288.5, 'decay')
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.calibration import Calibration
from roadworthy.monitor.events import Cells, Floats
from roadworthy.statistics.autocorrelation import integrated_time
from roadworthy.statistics.change_points import since_change

Ints = NDArray[np.int64]

LONGEST_FADING = 100_000
"""The longest half-life: twenty times as many events are held."""
FADED = 20.0
"""Half-lives after which an event is left out: it would weigh a millionth."""
MOST_BUCKETS = 200
"""Places at which the adaptive window looks for a change."""
GROUPS, _GROUP_ENDS = 4, (0.5, 0.8, 0.95)
"""Groups of cells in which it looks, few so that a change shows soon; by shares of clean rows."""


@dataclass(frozen=True, eq=False)
class CellScores:
    """What each cell says: one entry a cell."""

    shift: Floats
    """The log likelihood ratio of shifted (kinds even) against clean rows of its bin."""
    group: Ints
    variance: float
    """Of the shift score among clean rows."""

    @classmethod
    def of(cls, calibration: Calibration) -> CellScores:
        """From the counts of a calibration."""
        bins = calibration.shift_bin(np.arange(calibration.cells))
        rows = calibration.by_bin(calibration.table.sum(axis=1)) + 0.5
        shares = rows / rows.sum(axis=1, keepdims=True)
        clean, ratio = shares[0], np.log(shares[1:].mean(axis=0) / shares[0])
        middle = np.cumsum(clean) - clean / 2
        variance = float(clean @ ratio**2 - (clean @ ratio) ** 2)
        group = np.searchsorted(_GROUP_ENDS, middle)[bins]
        return cls(ratio[bins], group, variance)

    def time(self, cells: Cells, window: int, *, sure: bool) -> float:
        """How many of these events say as much as one."""
        scores = self.shift[cells[cells >= 0]]
        return integrated_time(scores, window=window, variance=self.variance, sure=sure)


@dataclass(frozen=True)
class Windows:
    """Lengths of the sliding windows, the half-life of the fading one, and whether one is adaptive."""

    lengths: tuple[int, ...] = (100, 1000)
    half_life: float | None = None
    adaptive: bool = False

    def __post_init__(self) -> None:
        lengths, half_life, most = self.lengths, self.half_life, LONGEST_FADING
        fine = len(set(lengths)) == len(lengths) and all(int(n) == n >= 2 for n in lengths)
        if not (lengths and fine):
            why = f"distinct numbers of events, at least 2 each, found {lengths}"
            raise ValueError(f"Windows are {why}.")
        if half_life is not None and not 1 <= half_life <= most:
            raise ValueError(f"A half-life is from 1 to {most:,} events, found {half_life:,g}.")

    @property
    def longest(self) -> int:
        """How many events the windows read at most."""
        return max(*self.lengths, math.ceil(FADED * (self.half_life or 0.0)))

    @property
    def names(self) -> tuple[str, ...]:
        """What a reading can be asked for by."""
        others = {"decay": self.half_life is not None, "adaptive": self.adaptive}
        return (*map(str, sorted(self.lengths)), *(name for name, has in others.items() if has))

    def checked(self, window: int | str) -> str:
        """The name of a window, refused if there is none of that name."""
        if str(window) not in self.names:
            raise ValueError(f"Unknown window {window!r}. This bundle has {', '.join(self.names)}.")
        return str(window)


@dataclass(frozen=True, eq=False)
class Reading:
    """Counts by cell of a part of the stream."""

    window: str
    counts: Floats
    """Weights, whose sum is the effective number of events."""
    n: int
    """Events with a score that were read."""
    unscored: int
    wanted: int | None
    """How many events a full window has."""
    first: int
    """How many events before the end of the stream the window starts."""
    half_life: float | None = None
    """Events after which one weighs half as much; None if all weigh the same."""
    filled: float = 1.0
    """How much of a full window it is, by weight: the less, the more the prior counts."""
    start: float | None = None
    """Times of its first and last event, if there is any."""
    end: float | None = None

    @property
    def effective(self) -> float:
        """Events that the weights amount to."""
        return float(self.counts.sum())

    @property
    def weights(self) -> Floats:
        """What each event of the window weighs, the oldest first; the last one 1."""
        return faded(self.first, self.half_life)


def read(
    cells: Cells, windows: Windows, name: str, groups: Ints, *, shrink: float = 1.0
) -> Reading:
    """The window of a name at the end of a stream; `groups` says in which group each cell lies."""
    if name == "decay" and windows.half_life is not None:
        length = math.ceil(FADED * windows.half_life)
        return sliding(cells, length, size=len(groups), half_life=windows.half_life)
    if name != "adaptive":
        return sliding(cells, int(name), size=len(groups))
    held = cells[-windows.longest :]
    found = adapted(held, groups, shrink=shrink)
    # What was believed of the stream beforehand is no longer believed after a change.
    filled = len(held) / windows.longest if found.first == len(held) else 1.0
    return replace(found, filled=filled)


def bucketed(start: float, end: float, counts: Ints) -> Reading:
    """What was counted in a span of time, the last column without a score."""
    n, unscored = int(counts[:-1].sum()), int(counts[-1])
    table = counts[:-1].astype(np.float64)
    return Reading("time", table, n, unscored, None, n + unscored, start=start, end=end)


def sliding(cells: Cells, length: int, *, size: int, half_life: float | None = None) -> Reading:
    """The last so many events, alike or fading; those without a score take their place."""
    part = cells[-length:]
    scored = part >= 0
    weights = faded(len(part), half_life)[scored]
    counts: Floats = np.bincount(part[scored], weights, minlength=size).astype(np.float64)
    squares = (weights**2).sum()
    if squares > 0:
        counts *= weights.sum() / squares
    filled = len(part) / length
    if half_life is not None and filled < 1.0:
        filled = 1.0 - 0.5 ** (len(part) / half_life)
    name = str(length) if half_life is None else "decay"
    numbers = len(weights), len(part) - len(weights), length, len(part)
    return Reading(name, counts, *numbers, half_life, filled)


def faded(n: int, half_life: float | None) -> Floats:
    """Weights of so many events, the oldest first; with a half-life, of older ones less."""
    return 0.5 ** (np.arange(n)[::-1] / (half_life or math.inf))


def adapted(cells: Cells, groups: Ints, *, shrink: float = 1.0) -> Reading:
    """All of these events since the shift score last changed; in buckets, by a few groups of cells."""
    bucket = max(1, math.ceil(len(cells) / MOST_BUCKETS))
    head = len(cells) % bucket
    whole = cells[head:].reshape(-1, bucket)
    first = 0
    if len(whole) > 1:
        number = np.where(whole < 0, 0, groups[whole]) + np.arange(len(whole))[:, None] * GROUPS
        counts = np.bincount(number[whole >= 0], minlength=len(whole) * GROUPS).reshape(-1, GROUPS)
        change = since_change(counts, shrink=shrink)
        first = head + change * bucket if change else 0
    found = sliding(cells[first:], max(len(cells) - first, 1), size=len(groups))
    return replace(found, window="adaptive", wanted=None, filled=1.0)
