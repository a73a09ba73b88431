"""How far estimates lie from a truth that is known: errors, coverage, delays and false alarms.

The truth of a window of a simulated stream is its own share of shifted events (*rate*) and of right
answers (*accuracy*), and the expected cost of its events (*risk*): the tree with which of them are
shifted and detected, and with each one's probability of a right answer. A window without an
estimate is left out of the errors and counted. Alarms are due while the expected cost, at the
schedule's rate of the moment, is above the tolerable.

>>> values, low, high = [0.1, 0.3, np.nan], [0.0, 0.2, np.nan], [0.2, 0.25, np.nan]
>>> found = error_of(Estimated(values, low, high), np.array([0.1, 0.2, 0.9]))
>>> round(found.mean_absolute, 3), found.coverage, round(found.width, 3), round(found.estimated, 2)
(0.05, 1.0, 0.125, 0.67)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.analysis.risk.prototypes import live_parameters
from roadworthy.analysis.risk.tree import Tree, expectation
from roadworthy.analysis.simulation.estimators import Estimated
from roadworthy.analysis.simulation.streams import Stream

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Error:
    """How far estimates lie from the truth, on average."""

    mean_absolute: float
    bias: float
    """Estimate minus truth."""
    coverage: float
    """The share of intervals that hold the truth; NaN if there are none."""
    width: float
    """The mean width of the intervals."""
    estimated: float
    """The share of windows for which there is an estimate."""
    windows: int


def error_of(found: Estimated, truth: ArrayLike) -> Error:
    """The errors over windows."""
    value, true = np.asarray(found.value), np.asarray(truth, dtype=np.float64)
    nothing = np.full(value.shape, np.nan)
    low, high = (nothing if e is None else np.asarray(e) for e in (found.low, found.high))
    some = ~np.isnan(value)
    bound = some & ~np.isnan(low) & ~np.isnan(high)
    off = (value - true)[some]
    # A bound on a grid and a truth that should lie on it may differ by rounding.
    held = (low[bound] <= true[bound] + 1e-9) & (true[bound] <= high[bound] + 1e-9)
    return Error(
        mean_absolute=_mean(np.abs(off)),
        bias=_mean(off),
        coverage=_mean(held),
        width=_mean((high - low)[bound]),
        estimated=_mean(some),
        windows=len(true),
    )


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else float("nan")


def parameters_of_rows(
    shifted: ArrayLike, detected: ArrayLike, chance: ArrayLike
) -> dict[str, float]:
    """A tree's live parameters, but p_shift, from rows (in the last axis) and P(right) of each."""
    alarm, right = np.asarray(detected, dtype=bool), np.asarray(chance, dtype=np.float64)
    sides = []
    for side in (~np.asarray(shifted, dtype=bool), np.asarray(shifted, dtype=bool)):
        cells = [[p * side * a for a in (~alarm, alarm)] for p in (right, 1.0 - right)]
        sides.append(np.moveaxis(np.array(cells).sum(axis=-1), (0, 1), (-2, -1)))
    return live_parameters(*sides)


@dataclass(frozen=True)
class Truth:
    """What was true of each window, and when alarms were due."""

    rate: Floats
    accuracy: Floats
    risk: Floats
    due: Bools
    """By event, whether the cost at its rate is above the tolerable; nowhere without a limit."""


def truth_of(
    stream: Stream,
    window: int,
    tree: Tree,
    parameters: Mapping[str, float],
    *,
    detected: ArrayLike,
    chance: ArrayLike,
    tolerable: float | None = None,
) -> Truth:
    """The truth of each whole window.

    `parameters` hold in the long run (all of the tree's but p_shift); `detected` and `chance` are
    each event's verdict and probability of a right answer.
    """
    shifted, alarm, right = (windowed(v, window) for v in (stream.shifted, detected, chance))
    rate = shifted.mean(axis=1)
    live = {"p_shift": rate, **parameters_of_rows(shifted, alarm, right)}
    risk = np.asarray(expectation(tree, {**parameters, **live}), dtype=np.float64)
    due = np.zeros(stream.n, dtype=bool)
    if tolerable is not None:
        levels, place = np.unique(stream.shift.rate, return_inverse=True)
        costs = np.asarray(expectation(tree, {**parameters, "p_shift": levels}))
        due = np.broadcast_to(costs > tolerable, levels.shape)[place]
    accuracy = windowed(stream.correct, window).mean(axis=1)
    return Truth(rate, accuracy, np.broadcast_to(risk, accuracy.shape), due)


def windowed(values: ArrayLike, window: int) -> np.ndarray:
    """Whole windows one under the other: (windows, events); what is left at the end is cut."""
    array = np.asarray(values)
    whole = len(array) // window
    return array[: whole * window].reshape(whole, window)


def window_counts(cells: ArrayLike, window: int, count: int) -> NDArray[np.int64]:
    """Events of each whole window in each of `count` cells; those without a cell are left out.

    >>> window_counts([0, 2, 2, 1, -1, 0, 0], 3, 3).tolist()
    [[1, 0, 2], [1, 1, 0]]
    """
    table = windowed(np.asarray(cells, dtype=np.int64), window)
    keys = (table + np.arange(len(table))[:, None] * count)[table >= 0]
    return np.bincount(keys, minlength=len(table) * count).reshape(len(table), count)


@dataclass(frozen=True)
class AlarmRecord:
    """How late alarms were when they were due, and how many were raised when they were not."""

    due: int
    """Stretches of the stream in which an alarm was due."""
    delays: tuple[int, ...] = field(default=())
    """Events from the start of a stretch to its alarm; 0 if it was raised already."""
    false: int = 0
    """Alarms raised when no event of the window came under shift."""
    quiet_events: int = 0
    """Events at which an alarm would have been false."""
    missed_shorter_than_window: int = 0
    """Stretches without an alarm that were shorter than its window."""
    under_tolerable_shift: int = 0
    """Alarms raised under shift that was tolerable, throughout the window."""
    tolerable_shift_events: int = 0
    """Events at which an alarm would have been one of these."""

    @property
    def missed(self) -> int:
        """Stretches that ended without an alarm."""
        return self.due - len(self.delays)

    def __add__(self, other: AlarmRecord) -> AlarmRecord:
        return AlarmRecord(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def alarm_record(
    raised: Sequence[int], cleared: Sequence[int], due: Bools, *, window: int, shifted: Bools
) -> AlarmRecord:
    """Match alarms (numbers of the events that raised or cleared them) with when they were due.

    `shifted` says at which events there was shift, if only as much as is tolerable.

    >>> due = np.array([False] * 5 + [True] * 5 + [False] * 10)
    >>> found = alarm_record([7, 18], [12], due, window=3, shifted=due)
    >>> found.due, found.delays, found.false, found.quiet_events
    (1, (2,), 1, 13)
    """
    edges = np.diff(np.concatenate([[0], due.astype(np.int8), [0]]))
    starts, stops = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    change = np.zeros(len(due) + 1, dtype=np.int64)
    np.add.at(change, np.asarray(raised, dtype=np.int64), 1)
    np.add.at(change, np.asarray(cleared, dtype=np.int64), -1)
    alarmed = np.cumsum(change)[:-1] > 0
    delays, short = [], 0
    for start, stop in zip(starts, stops, strict=True):
        if alarmed[start:stop].any():
            delays.append(int(alarmed[start:stop].argmax()))
        else:
            short += int(stop - start < window)
    none_due = _none_within(due, window)
    quiet = none_due & _none_within(shifted, window)
    early, at = none_due & ~quiet, np.asarray(raised, dtype=np.int64)
    return AlarmRecord(
        len(starts),
        tuple(delays),
        false=int(quiet[at].sum()),
        quiet_events=int(quiet.sum()),
        missed_shorter_than_window=short,
        under_tolerable_shift=int(early[at].sum()),
        tolerable_shift_events=int(early.sum()),
    )


def _none_within(events: Bools, window: int) -> Bools:
    """At which events none of the last `window` is one of these."""
    past = np.concatenate([[0], np.cumsum(events)])
    number = np.arange(len(events))
    none: Bools = past[number + 1] - past[np.maximum(number + 1 - window, 0)] == 0
    return none
