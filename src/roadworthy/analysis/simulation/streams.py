"""Streams of events whose truth is known: real score rows, and synthetic detectors.

A real stream is drawn from a labelled score table: a clean event takes a clean row, a shifted one a
row of the kinds asked for, with its scores and whether the answer was right. Rows may follow one
another as they do in use: repeated (a camera that stands still), or near each other in score (an
AR(1) Gaussian copula), with the marginal distribution of the rows kept. A synthetic detector
(Torpmann-Hagen et al. 2025, section 4.3) alarms with probability `tpr` on a shifted event and
1 - `tnr` on a clean one.

>>> from roadworthy.analysis.simulation.schedules import Schedule, draw_shift
>>> rng = np.random.default_rng(0)
>>> pool = Pool({"energy": np.arange(4.0)}, ["clean", "clean", "fog", "fog"], [1, 1, 0, 1])
>>> shift = draw_shift(Schedule.read({"constant": 0.5}), 1000, rng=rng)
>>> stream = draw_stream(pool, shift, rng=rng)
>>> set(stream.columns["energy"][stream.shifted].tolist())
{2.0, 3.0}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.analysis.risk.calibration import CLEAN
from roadworthy.analysis.simulation.schedules import Shift
from roadworthy.registry import did_you_mean


@dataclass(frozen=True)
class Pool:
    """Labelled score rows: score columns, the kind of each row ("clean", or what shifted it)."""

    columns: Mapping[str, np.ndarray]
    kind: np.ndarray
    correct: np.ndarray

    def __init__(
        self, columns: Mapping[str, ArrayLike], kind: ArrayLike, correct: ArrayLike
    ) -> None:
        scores = {name: np.asarray(column, dtype=np.float64) for name, column in columns.items()}
        kinds, right = np.asarray(kind).astype(str), np.asarray(correct).astype(bool)
        for name, column in {**scores, "correct": right}.items():
            if column.shape != kinds.shape:
                raise ValueError(f"{name} has {len(column):,} rows, and kind has {len(kinds):,}")
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
        columns = {name: column[which] for name, column in self.columns.items()}
        return Pool(columns, self.kind[which], self.correct[which])

    def of(self, kinds: Sequence[str]) -> np.ndarray:
        """Which rows are of these kinds; a kind that no row has is refused."""
        known = (CLEAN, *self.kinds)
        for name in kinds:
            if name not in known:
                near = did_you_mean(name, known)
                raise ValueError(f"no row is of kind {name!r}{near}; kinds are {', '.join(known)}")
        return np.isin(self.kind, list(kinds))


@dataclass(frozen=True)
class Stream:
    """Events in order, with what is unknown in use: whether each is shifted, and answered rightly."""

    shift: Shift
    correct: np.ndarray
    columns: Mapping[str, np.ndarray]
    row: np.ndarray
    """Which row of the table each event is; for a synthetic stream its number."""

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
    runs: float = 1.0,
    order: float = 0.0,
    by: str | None = None,
    rng: np.random.Generator,
) -> Stream:
    """Give every event a row: a clean one if it is clean, else one of `kinds` (None: any shift).

    A row is repeated for `runs` events on average (geometric). Rows that follow one another are
    near in the score `by` (None: the first column) by an AR(1) copula with coefficient `order`.
    """
    if not (runs >= 1.0 and 0.0 <= order < 1.0):
        raise ValueError(f"runs is 1 or more, order from 0 to below 1; found {runs:g}, {order:g}")
    score = next(iter(pool.columns)) if by is None else by
    if score not in pool.columns:
        near, there = did_you_mean(score, pool.columns), ", ".join(pool.columns)
        raise ValueError(f"there is no score {score!r}{near}; scores are {there}")
    starts = rng.random(shift.n) < 1.0 / runs
    starts[:1] = True
    run = np.cumsum(starts) - 1
    count = int(run[-1]) + 1
    place = rng.random(count) if order == 0.0 else _copula(count, order, rng)
    row = np.empty(shift.n, dtype=np.int64)
    wanted = pool.kinds if kinds is None else tuple(kinds)
    for events, of in ((~shift.shifted, (CLEAN,)), (shift.shifted, wanted)):
        candidates = np.flatnonzero(pool.of(of))
        if not len(candidates):
            if not events.any():
                continue
            raise ValueError(f"the stream needs rows of {' or '.join(of) or 'a shift'}, found none")
        if order:
            candidates = candidates[np.argsort(pool.columns[score][candidates], kind="stable")]
        row[events] = candidates[(place[run[events]] * len(candidates)).astype(np.int64)]
    columns = {name: column[row] for name, column in pool.columns.items()}
    return Stream(shift, pool.correct[row], columns, row)


def _copula(n: int, order: float, rng: np.random.Generator) -> np.ndarray:
    """Uniform numbers whose normal scores are a stationary AR(1) series."""
    from scipy.signal import lfilter
    from scipy.special import ndtr

    noise = rng.standard_normal(n)
    noise[1:] *= np.sqrt(1.0 - order**2)
    return np.minimum(ndtr(lfilter([1.0], [1.0, -order], noise)), np.nextafter(1.0, 0.0))


VERDICT = "verdict"
"""The one score column of a synthetic stream: 1 if the detector raised an alarm, else 0."""
SHIFTED = "shifted"
"""The kind of a shifted event of a synthetic stream."""


@dataclass(frozen=True)
class Detector:
    """A synthetic detector, and a classifier that is right with a probability given by shift."""

    tpr: float
    tnr: float
    accuracy_clean: float = 0.95
    accuracy_shifted: float = 0.6

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"{name} lies between 0 and 1; it is {value:g}")

    def right(self, shifted: np.ndarray) -> np.ndarray:
        """P(right) of events."""
        return np.where(shifted, self.accuracy_shifted, self.accuracy_clean)


def detector_grid(parts: int = 10) -> tuple[tuple[float, float], ...]:
    """(TPR, TNR) over 0..1 in so many steps, if (TPR + TNR) / 2 > 0.5 (section 4.3).

    >>> len(detector_grid()), detector_grid()[0]
    (55, (0.1, 1.0))
    """
    return tuple(
        (i / parts, j / parts) for i in range(parts + 1) for j in range(parts + 1) if i + j > parts
    )


def draw_verdicts(detector: Detector, shift: Shift, *, rng: np.random.Generator) -> Stream:
    """A stream of verdicts, one an event."""
    chance = rng.random(shift.n)
    alarm = chance < np.where(shift.shifted, detector.tpr, 1.0 - detector.tnr)
    right = rng.random(shift.n) < detector.right(shift.shifted)
    return Stream(shift, right, {VERDICT: alarm.astype(np.float64)}, np.arange(shift.n))


def verdict_rows(detector: Detector, clean: int, shifted: int, *, rng: np.random.Generator) -> Pool:
    """A labelled table to calibrate a synthetic detector on: so many clean and shifted rows."""
    drawn = np.arange(clean + shifted) >= clean
    stream = draw_verdicts(detector, Shift(drawn.astype(float), drawn), rng=rng)
    return Pool(stream.columns, np.where(drawn, SHIFTED, CLEAN), stream.correct)
