"""How far estimates lie from a truth that is known: errors, coverage and width of intervals, delays of alarms, false alarms.

The truth of a window of a simulated stream is its own share of shifted events (*rate*) and of right answers (*accuracy*), and the
expected cost of its events (*risk*): the tree with which of them are shifted and detected, and with each one's probability of a
right answer. An estimate that could not be told is left out of the errors and counted. Alarms are due while the expected cost, at
the schedule's rate of the moment, is above the tolerable.

>>> found = error_of(Told([0.1, 0.3, np.nan], [0.0, 0.2, np.nan], [0.2, 0.25, np.nan]), np.array([0.1, 0.2, 0.9]))
>>> round(found.mean_absolute, 3), found.coverage, round(found.width, 3), round(found.told, 2)
(0.05, 1.0, 0.125, 0.67)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.analysis.risk.prototypes import measured
from roadworthy.analysis.risk.tree import Tree, expectation
from roadworthy.analysis.simulation.streams import Detector, Stream

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Told:
    """Estimates of windows with their intervals; NaN where there is none."""

    value: Floats
    low: Floats
    high: Floats
    flags: Mapping[str, NDArray[np.bool_]]
    """What the estimator bids one beware of, and in which windows."""
    reason: str | None
    """Why nothing can be told of any window."""

    def __init__(
        self,
        value: ArrayLike,
        low: ArrayLike | None = None,
        high: ArrayLike | None = None,
        *,
        flags: Mapping[str, NDArray[np.bool_]] | None = None,
        reason: str | None = None,
    ) -> None:
        values = np.asarray(value, dtype=np.float64)
        object.__setattr__(self, "flags", dict(flags or {}))
        object.__setattr__(self, "reason", reason)
        for name, given in (("value", values), ("low", low), ("high", high)):
            column = (
                np.full(values.shape, np.nan)
                if given is None
                else np.asarray(given, dtype=np.float64)
            )
            object.__setattr__(self, name, column)


@dataclass(frozen=True)
class Error:
    """How far estimates lie from the truth, on average."""

    mean_absolute: float
    bias: float
    """Estimate minus truth."""
    coverage: float
    """The share of intervals that hold the truth; NaN where there are none."""
    width: float
    """The mean width of the intervals."""
    told: float
    """The share of windows for which there is an estimate."""
    windows: int


def error_of(told: Told, truth: ArrayLike) -> Error:
    """The errors over windows."""
    true = np.asarray(truth, dtype=np.float64)
    some = ~np.isnan(told.value)
    bound = some & ~np.isnan(told.low) & ~np.isnan(told.high)
    off = (told.value - true)[some]
    # A bound on a grid and a truth that should lie on it may differ by rounding.
    held = (told.low[bound] <= true[bound] + 1e-9) & (true[bound] <= told.high[bound] + 1e-9)
    return Error(
        _mean(np.abs(off)),
        _mean(off),
        _mean(held),
        _mean((told.high - told.low)[bound]),
        _mean(some),
        len(true),
    )


def _mean(values: ArrayLike) -> float:
    array = np.asarray(values, dtype=np.float64)
    return float(array.mean()) if array.size else float("nan")


def parameters_of_detector(detector: Detector) -> dict[str, float]:
    """The live parameters of a tree, but p_shift, that hold for a synthetic detector."""
    return {
        **vars(detector),
        "accuracy_clean": detector.accuracy_clean,
        "accuracy_shifted": detector.accuracy_shifted,
    }


def parameters_of_rows(
    shifted: ArrayLike, detected: ArrayLike, correct: ArrayLike
) -> dict[str, float]:
    """The same for a stream that is drawn from these rows: their shares."""
    s, d, c = (np.asarray(a, dtype=bool) for a in (shifted, detected, correct))
    sides = [
        np.array(
            [
                [np.count_nonzero(side & (c == right) & (d == alarm)) for alarm in (False, True)]
                for right in (True, False)
            ]
        )
        for side in (~s, s)
    ]
    return measured(sides[0], sides[1])


@dataclass(frozen=True)
class Truth:
    """What was true of each window, and when alarms were due."""

    rate: Floats
    accuracy: Floats
    risk: Floats
    due: NDArray[np.bool_]
    """Whether the risk of each event's rate is above the tolerable; nowhere, if nothing was said to be tolerable."""


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

    `parameters` hold in the long run (all of the tree's but p_shift); `detected` and `chance` are each event's verdict and
    probability of a right answer.
    """
    live = _live(
        windowed(stream.shifted, window), windowed(detected, window), windowed(chance, window)
    )
    given = {name: live.get(name, parameters.get(name, np.nan)) for name in tree.parameters}
    risk = np.broadcast_to(
        np.asarray(expectation(tree, given), dtype=np.float64), live["p_shift"].shape
    )
    due = np.zeros(stream.n, dtype=bool)
    if tolerable is not None:
        levels, place = np.unique(stream.shift.rate, return_inverse=True)
        lasting = {
            name: levels if name == "p_shift" else parameters[name] for name in tree.parameters
        }
        due = np.broadcast_to(np.asarray(expectation(tree, lasting)) > tolerable, levels.shape)[
            place
        ]
    return Truth(live["p_shift"], windowed(stream.correct, window).mean(axis=1), risk, due)


def _live(shifted: np.ndarray, detected: np.ndarray, chance: np.ndarray) -> dict[str, Floats]:
    """The live parameters of each window (row); 0 for what does not occur in it."""
    alarm = np.asarray(detected, dtype=bool)

    def share(part: np.ndarray, whole: np.ndarray) -> Floats:
        result: Floats = (part * whole).sum(axis=1) / np.maximum(whole.sum(axis=1), 1)
        return result

    found = {
        "p_shift": shifted.mean(axis=1),
        "tpr": share(alarm, shifted),
        "tnr": share(~alarm, ~shifted),
    }
    for name, side in (("clean", ~shifted), ("shifted", shifted)):
        found[f"accuracy_{name}"] = share(chance, side)
        found[f"accuracy_{name}_detected"] = share(chance, side & alarm)
        found[f"accuracy_{name}_undetected"] = share(chance, side & ~alarm)
    return found


def chances_of(condition: ArrayLike, correct: ArrayLike) -> Floats:
    """P(right) of each row: the share of right answers among the rows of its condition (a whole number).

    >>> chances_of([0, 0, 1, 1, 1], [1, 0, 1, 1, 1]).tolist()
    [0.5, 0.5, 1.0, 1.0, 1.0]
    """
    _, place = np.unique(np.asarray(condition), return_inverse=True)
    result: Floats = (
        np.bincount(place, weights=np.asarray(correct, dtype=np.float64)) / np.bincount(place)
    )[place]
    return result


def windowed(values: ArrayLike, window: int) -> np.ndarray:
    """Whole windows one under the other: (windows, events of a window); what is left at the end is cut."""
    array = np.asarray(values)
    whole = len(array) // window
    return array[: whole * window].reshape(whole, window)


def window_counts(cells: ArrayLike, window: int, count: int) -> NDArray[np.int64]:
    """How many events of each whole window lie in each of `count` cells; those without a place (below 0) are left out.

    >>> window_counts([0, 2, 2, 1, -1, 0, 0], 3, 3).tolist()
    [[1, 0, 2], [1, 1, 0]]
    """
    table = windowed(np.asarray(cells, dtype=np.int64), window)
    keys = (table + np.arange(len(table))[:, None] * count)[table >= 0]
    return np.bincount(keys, minlength=len(table) * count).reshape(len(table), count)


@dataclass(frozen=True)
class AlarmRecord:
    """What alarms were worth: how late they came where they were due, and how many came where they were not."""

    due: int
    """Stretches of the stream in which an alarm was due."""
    delays: tuple[int, ...] = field(default=())
    """Events from the beginning of a stretch to the alarm, of those in which there was one; 0 if it stood already."""
    false: int = 0
    """Alarms raised where no event of the window came under shift: the ones of which a rate is promised."""
    quiet: int = 0
    """Events at which an alarm would have been false."""
    missed_brief: int = 0
    """Stretches without an alarm that were shorter than its window, and so never filled it."""
    early: int = 0
    """Alarms raised under shift at which none was due, nor had been within the window: of these nothing is promised."""
    tolerable: int = 0
    """Events at which an alarm would have been one of these."""

    @property
    def missed(self) -> int:
        """Stretches that ended without an alarm."""
        return self.due - len(self.delays)

    @property
    def missed_long(self) -> int:
        """Those of them that filled the window."""
        return self.missed - self.missed_brief

    def __add__(self, other: AlarmRecord) -> AlarmRecord:
        return AlarmRecord(
            self.due + other.due,
            self.delays + other.delays,
            self.false + other.false,
            self.quiet + other.quiet,
            self.missed_brief + other.missed_brief,
            self.early + other.early,
            self.tolerable + other.tolerable,
        )


def alarm_record(
    raised: Sequence[int],
    cleared: Sequence[int],
    due: NDArray[np.bool_],
    *,
    window: int,
    shifted: NDArray[np.bool_] | None = None,
) -> AlarmRecord:
    """Match alarms (by the number of the event that raised or cleared them) with the stretches in which they were due.

    `shifted` says at which events there was shift, if only as much as is tolerable; by default where an alarm was due.

    >>> due = np.array([False] * 5 + [True] * 5 + [False] * 10)
    >>> alarm_record([7, 18], [12], due, window=3)
    AlarmRecord(due=1, delays=(2,), false=1, quiet=13, missed_brief=0, early=0, tolerable=0)
    >>> alarm_record([7, 18], [12], due, window=3, shifted=due | (np.arange(20) >= 15))
    AlarmRecord(due=1, delays=(2,), false=0, quiet=8, missed_brief=0, early=1, tolerable=5)
    """
    edges = np.diff(np.concatenate([[0], due.astype(np.int8), [0]]))
    starts, stops = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    standing = np.zeros(len(due) + 1, dtype=np.int64)
    np.add.at(standing, np.asarray(raised, dtype=np.int64), 1)
    np.add.at(standing, np.asarray(cleared, dtype=np.int64), -1)
    alarmed = np.cumsum(standing)[:-1] > 0
    delays, brief = [], 0
    for start, stop in zip(starts, stops, strict=True):
        if alarmed[start:stop].any():
            delays.append(int(alarmed[start:stop].argmax()))
        else:
            brief += int(stop - start < window)
    none_due = _none_within(due, window)
    quiet = none_due if shifted is None else none_due & _none_within(shifted, window)
    tolerable, at = none_due & ~quiet, np.asarray(raised, dtype=np.int64)
    return AlarmRecord(
        len(starts),
        tuple(delays),
        int(quiet[at].sum()),
        int(quiet.sum()),
        brief,
        int(tolerable[at].sum()),
        int(tolerable.sum()),
    )


def _none_within(events: NDArray[np.bool_], window: int) -> NDArray[np.bool_]:
    """At which events none of the last `window` is one of these."""
    past = np.concatenate([[0], np.cumsum(events)])
    number = np.arange(len(events))
    none: NDArray[np.bool_] = past[number + 1] - past[np.maximum(number + 1 - window, 0)] == 0
    return none
