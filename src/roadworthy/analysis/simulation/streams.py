"""Streams of events whose truth is known: real score rows, clean or shifted by a schedule, and synthetic detectors.

A real stream is drawn from a labelled score table: a clean event takes a clean row, a shifted one a row of the kinds asked for,
with its scores and whether the answer was right. Rows may follow one another as they do in use: repeated (a camera that stands
still), or near each other in score (an AR(1) Gaussian copula), with the marginal distribution of the rows kept.

A synthetic detector (Torpmann-Hagen et al. 2025, section 4.3) alarms with probability `tpr` on a shifted event and 1 - `tnr`
on a clean one; the answer is right with a probability that depends on shift and alarm.

>>> from roadworthy.analysis.simulation.schedules import Constant, draw_shift
>>> rng = np.random.default_rng(0)
>>> pool = Pool({"energy": np.arange(6.0)}, kind=["clean"] * 3 + ["fog"] * 3, correct=[1, 1, 1, 0, 0, 1])
>>> stream = draw_stream(pool, draw_shift(Constant(0.5), 1000, rng=rng), rng=rng)
>>> bool((stream.kind[stream.shifted] == "fog").all()), float(stream.columns["energy"][~stream.shifted].max())
(True, 2.0)
>>> len(detector_grid()), detector_grid()[0]
(55, (0.1, 1.0))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.analysis.risk.calibration import CLEAN
from roadworthy.analysis.simulation.schedules import Shift
from roadworthy.registry import did_you_mean


@dataclass(frozen=True)
class Pool:
    """Labelled score rows to draw from: score columns, the kind of each row ("clean", or what shifted it), right or wrong."""

    columns: Mapping[str, np.ndarray]
    kind: np.ndarray
    correct: np.ndarray

    def __init__(
        self, columns: Mapping[str, ArrayLike], kind: ArrayLike, correct: ArrayLike
    ) -> None:
        kinds = np.asarray(kind).astype(str)
        scores = {name: np.asarray(column, dtype=np.float64) for name, column in columns.items()}
        right = np.asarray(correct).astype(bool)
        for name, column in {**scores, "correct": right}.items():
            if column.shape != kinds.shape:
                raise ValueError(
                    f"{name} has {len(column):,} rows, and kind has {len(kinds):,}; they must go together"
                )
        object.__setattr__(self, "columns", scores)
        object.__setattr__(self, "kind", kinds)
        object.__setattr__(self, "correct", right)

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.kind)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of shift, without clean, by name."""
        return tuple(sorted(set(self.kind.tolist()) - {CLEAN}))

    def taken(self, which: np.ndarray) -> Pool:
        """These rows alone (a mask, or numbers)."""
        return Pool(
            {n: c[which] for n, c in self.columns.items()}, self.kind[which], self.correct[which]
        )

    def of(self, kinds: Sequence[str]) -> np.ndarray:
        """Which rows are of these kinds; a kind that no row has is refused."""
        known = (CLEAN, *self.kinds)
        for name in kinds:
            if name not in known:
                there = ", ".join(known)
                raise ValueError(
                    f"no row is of kind {name!r}{did_you_mean(name, known)}; there are {there}"
                )
        return np.isin(self.kind, list(kinds))


@dataclass(frozen=True)
class Stream:
    """Events in order, with what nobody sees in use: whether each is shifted, and whether the answer was right."""

    shift: Shift
    kind: np.ndarray
    correct: np.ndarray
    columns: Mapping[str, np.ndarray]
    row: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Which row of the table each event is; empty for a synthetic stream."""

    @property
    def n(self) -> int:
        """Events."""
        return self.shift.n

    @property
    def shifted(self) -> np.ndarray:
        """Whether each event is shifted."""
        return self.shift.shifted


def draw_stream(
    pool: Pool,
    shift: Shift,
    *,
    kinds: Sequence[str] | None = None,
    replace: bool = True,
    runs: float = 1.0,
    order: float = 0.0,
    by: str | None = None,
    rng: np.random.Generator,
) -> Stream:
    """Give every event a row: a clean one where it is clean, one of `kinds` (None: any but clean) where it is shifted.

    A row is repeated for `runs` events on average (geometric: indicators of rows k events apart are the same with probability
    (1 - 1/runs)^k or by chance). Rows that follow one another are near in the score `by` (None: the first column) by an AR(1)
    copula with coefficient `order`. Without replacement a row starts one run at most.
    """
    wanted = tuple(kinds) if kinds is not None else pool.kinds
    sides = [(~shift.shifted, (CLEAN,)), (shift.shifted, wanted)]
    run, place = _places(shift.n, runs=runs, order=order, rng=rng)
    key = pool.columns[_column(pool, by)] if order else None
    row = np.empty(shift.n, dtype=np.int64)
    for events, of in sides:
        if not events.any():
            continue
        candidates = np.flatnonzero(pool.of(of))
        if not len(candidates):
            raise ValueError(
                f"the stream needs rows of {' or '.join(of) or 'a kind of shift'}, and the table has none"
            )
        if key is not None:
            candidates = candidates[np.argsort(key[candidates], kind="stable")]
        row[events] = _rows_at(candidates, run[events], place, replace=replace, of=of, rng=rng)
    columns = {name: column[row] for name, column in pool.columns.items()}
    return Stream(shift, pool.kind[row], pool.correct[row], columns, row)


def _column(pool: Pool, by: str | None) -> str:
    if by is None:
        return next(iter(pool.columns))
    if by not in pool.columns:
        raise ValueError(
            f"there is no score {by!r}{did_you_mean(by, pool.columns)}; there are {', '.join(pool.columns)}"
        )
    return by


def _places(
    n: int, *, runs: float, order: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """The run each event belongs to, and for each run a place in [0, 1): uniform, and near the one before it."""
    if not runs >= 1.0:
        raise ValueError(
            f"runs is the mean number of events that a row is repeated for, at least 1; it is {runs:g}"
        )
    if not 0.0 <= order < 1.0:
        raise ValueError(f"order is the AR(1) coefficient, from 0 to below 1; it is {order:g}")
    starts = rng.random(n) < 1.0 / runs
    starts[:1] = True
    run = np.cumsum(starts) - 1
    count = int(run[-1]) + 1 if n else 0
    return run, rng.random(count) if order == 0.0 else _copula(count, order, rng)


def _copula(n: int, order: float, rng: np.random.Generator) -> np.ndarray:
    """Uniform numbers whose normal scores are a stationary AR(1) series."""
    from scipy.signal import lfilter
    from scipy.special import ndtr

    noise = rng.standard_normal(n)
    noise[1:] *= np.sqrt(1.0 - order**2)
    return np.minimum(ndtr(lfilter([1.0], [1.0, -order], noise)), np.nextafter(1.0, 0.0))


def _rows_at(
    candidates: np.ndarray,
    run: np.ndarray,
    place: np.ndarray,
    *,
    replace: bool,
    of: Sequence[str],
    rng: np.random.Generator,
) -> np.ndarray:
    """The row of each event of one side: the one that stands at its run's place among the candidates."""
    if replace:
        return candidates[(place[run] * len(candidates)).astype(np.int64)]
    used, which = np.unique(run, return_inverse=True)
    if len(used) > len(candidates):
        raise ValueError(
            f"the stream needs {len(used):,} rows of {' or '.join(of)}, and the table has {len(candidates):,}; "
            "draw with replacement, repeat rows in runs, or make the stream shorter"
        )
    chosen = np.sort(rng.choice(len(candidates), len(used), replace=False))
    ranks = np.argsort(np.argsort(place[used], kind="stable"), kind="stable")
    return candidates[chosen[ranks]][which]


@dataclass(frozen=True)
class Detector:
    """A synthetic detector, and a classifier that is right with a probability given by shift and verdict."""

    tpr: float
    tnr: float
    accuracy_clean_detected: float = 0.95
    accuracy_clean_undetected: float = 0.95
    accuracy_shifted_detected: float = 0.6
    accuracy_shifted_undetected: float = 0.6

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"{name} is a probability from 0 to 1; it is {value:g}")

    @property
    def accuracy_clean(self) -> float:
        """P(right | clean)."""
        return (
            1 - self.tnr
        ) * self.accuracy_clean_detected + self.tnr * self.accuracy_clean_undetected

    @property
    def accuracy_shifted(self) -> float:
        """P(right | shifted)."""
        return (
            self.tpr * self.accuracy_shifted_detected
            + (1 - self.tpr) * self.accuracy_shifted_undetected
        )


VERDICT = "verdict"
"""The one score column of a synthetic stream: 1 where the detector raised an alarm, else 0."""
SHIFTED = "shifted"
"""The kind of a shifted event of a synthetic stream."""


def detector_grid(parts: int = 10) -> tuple[tuple[float, float], ...]:
    """(TPR, TNR) over 0..1 in so many steps, wherever (TPR + TNR) / 2 > 0.5 (section 4.3)."""
    return tuple(
        (i / parts, j / parts) for i in range(parts + 1) for j in range(parts + 1) if i + j > parts
    )


def draw_verdicts(
    detector: Detector, shift: Shift, *, by_batch: bool = False, rng: np.random.Generator
) -> Stream:
    """A stream of verdicts: one an event, or one for all events of a batch."""
    group = shift.batch if by_batch else np.arange(shift.n)
    chance = rng.random(int(group[-1]) + 1 if shift.n else 0)[group]
    alarm = chance < np.where(shift.shifted, detector.tpr, 1.0 - detector.tnr)
    right = right_chances(detector, shift.shifted, alarm)
    kind = np.where(shift.shifted, SHIFTED, CLEAN)
    return Stream(shift, kind, rng.random(shift.n) < right, {VERDICT: alarm.astype(np.float64)})


def right_chances(detector: Detector, shifted: np.ndarray, alarm: np.ndarray) -> np.ndarray:
    """P(right) of events, given what they are and the detector's verdict."""
    return np.where(
        shifted,
        np.where(alarm, detector.accuracy_shifted_detected, detector.accuracy_shifted_undetected),
        np.where(alarm, detector.accuracy_clean_detected, detector.accuracy_clean_undetected),
    )


def verdict_rows(detector: Detector, clean: int, shifted: int, *, rng: np.random.Generator) -> Pool:
    """A labelled table to calibrate a synthetic detector on: so many clean and shifted rows."""
    drawn = np.arange(clean + shifted) >= clean
    stream = draw_verdicts(
        detector, Shift(drawn.astype(float), drawn, np.arange(len(drawn))), rng=rng
    )
    return Pool(stream.columns, stream.kind, stream.correct)


def by_batch(values: ArrayLike, batch: np.ndarray) -> np.ndarray:
    """The mean of each batch: scores as a detector of batches reads them, or the accuracy of a batch.

    >>> by_batch([1.0, 3.0, 5.0], np.array([0, 0, 1])).tolist()
    [2.0, 5.0]
    """
    return np.bincount(batch, weights=np.asarray(values, dtype=np.float64)) / np.bincount(batch)
