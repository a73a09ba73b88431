"""Streams of events whose truth is known: when shift occurs, and real rows or synthetic verdicts.

A `Schedule` gives every event the probability with which it is shifted: constant, a ramp, bursts or
a Markov chain, one after another; for a chain it is the probability given its hidden state.
`draw_shift` turns it into events; a batch is clean or shifted as a whole (Torpmann-Hagen et al.
2025, section 4.5). A real stream is drawn from a labelled score table. Its rows may follow one
another as they do in use: repeated (a camera that stands still), or near each other in score (an
AR(1) Gaussian copula), with the marginal distribution of the rows kept. A synthetic detector
(section 4.3) alarms with probability `tpr` on a shifted event and 1 - `tnr` on a clean one.

>>> ramp = Segment(ramp=(0.0, 0.6), events=4)
>>> schedule = Schedule((Segment(constant=0.0, events=4), ramp, Segment(constant=1.0)))
>>> schedule.rates(10, np.random.default_rng(0)).round(2).tolist()
[0.0, 0.0, 0.0, 0.0, 0.0, 0.2, 0.4, 0.6, 1.0, 1.0]
>>> shift = draw_shift(schedule, 10, batches=2, rng=np.random.default_rng(0))
>>> shift.shifted.astype(int).tolist()
[0, 0, 0, 0, 0, 0, 1, 1, 1, 1]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from roadworthy.analysis.risk.calibration import CLEAN
from roadworthy.registry import did_you_mean

BATCHES = (1, 8, 16, 32, 64)
"""The batch sizes of the paper's simulations (section 4.5)."""
SHAPES: dict[str, tuple[str, ...]] = {
    "constant": (),
    "ramp": (),
    "bursts": ("every", "length"),
    "markov": ("share", "run"),
}
"""Shape of a segment -> the further keys it needs."""
Rate = Annotated[float, Field(ge=0, le=1)]


class Segment(BaseModel):
    """A part of a schedule.

    constant: one rate. ramp: from a rate to another. bursts: a rate outside and one within bursts
    of `length` events, one every `every` events. markov: the rates of two hidden states, of which
    the second holds `share` of the time, in runs of `run` events on average.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    constant: Rate | None = None
    ramp: tuple[Rate, Rate] | None = None
    bursts: tuple[Rate, Rate] | None = None
    markov: tuple[Rate, Rate] | None = None
    every: Annotated[int, Field(ge=2)] | None = None
    length: Annotated[int, Field(ge=1)] | None = None
    share: Annotated[float, Field(gt=0, lt=1)] | None = None
    run: Annotated[float, Field(ge=1)] | None = None
    events: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _one_shape(self) -> Segment:
        given = {name for name in type(self).model_fields if getattr(self, name) is not None}
        shapes = [name for name in SHAPES if name in given]
        if len(shapes) != 1:
            raise ValueError(f"expected exactly one of {', '.join(SHAPES)}")
        if given - {"events"} != {shapes[0], *SHAPES[shapes[0]]}:
            keys = " and ".join(SHAPES[shapes[0]]) or "no further key"
            raise ValueError(f"{shapes[0]} takes {keys}, and events")
        if self.every is not None and self.length is not None and self.length >= self.every:
            raise ValueError(f"length {self.length} must be below every {self.every}")
        if self.markov is not None and self.enter > 1.0:
            raise ValueError(f"run {self.run:g} is too short to fill {self.share:g} of the time")
        return self

    @property
    def enter(self) -> float:
        """markov: P(first to second state), so that share = enter / (enter + 1 / run)."""
        share = self.share or 0.0
        return share / (1.0 - share) / (self.run or 1.0)

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """The rate of n events."""
        if self.constant is not None:
            return np.full(n, self.constant)
        if self.ramp is not None:
            return np.linspace(*self.ramp, n)
        outside, inside = self.bursts or self.markov or (0.0, 0.0)
        if self.markov is not None:
            return np.where(self._states(n, rng), inside, outside)
        every, length = self.every or 1, self.length or 0
        return np.where(np.arange(n) % every >= every - length, inside, outside)

    def _states(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Whether each event is in the second state: runs of geometric length, in equilibrium."""
        run, enter = self.run or 1.0, self.enter
        leave, state = 1.0 / run, bool(rng.random() < (self.share or 0.0))
        parts = [np.zeros(0, dtype=bool)]
        drawn = 0
        while drawn < n:
            cycles = int((n - drawn) / (run + 1.0 / enter)) + 16
            ends = (leave, enter) if state else (enter, leave)
            lengths = np.stack([rng.geometric(p, cycles) for p in ends], axis=1).ravel()
            parts.append(np.repeat((np.arange(2 * cycles) % 2 == 0) == state, lengths)[: n - drawn])
            drawn += len(parts[-1])
        return np.concatenate(parts)


@dataclass(frozen=True)
class Schedule:
    """Segments one after the other; the last one may go on."""

    parts: tuple[Segment, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("give at least one segment, such as {constant: 0.1}")
        if any(part.events is None for part in self.parts[:-1]):
            raise ValueError("every segment but the last needs events")

    @property
    def events(self) -> int | None:
        """How many events they describe; None if the last goes on."""
        last = self.parts[-1].events
        return None if last is None else sum(part.events or 0 for part in self.parts)

    def rates(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """The probability of shift of n events."""
        given = sum(part.events or 0 for part in self.parts)
        # A segment keeps its own length: a ramp is the same however much of it is asked for.
        lengths = [max(n - given, 0) if p.events is None else p.events for p in self.parts]
        drawn = [part.draw(length, rng) for part, length in zip(self.parts, lengths, strict=True)]
        return np.concatenate(drawn)[:n]


class Shift(NamedTuple):
    """Which events are shifted: the rate of each, and what was drawn."""

    rate: np.ndarray
    shifted: np.ndarray


def draw_shift(
    schedule: Schedule, n: int, *, batches: int | Sequence[int] = 1, rng: np.random.Generator
) -> Shift:
    """Draw which of n events are shifted; a batch takes the rate of its first event."""
    sizes = batch_sizes(n, batches, rng)
    first = np.cumsum(sizes) - sizes
    rate = schedule.rates(n, rng)[first]
    shifted = rng.random(len(rate)) < rate
    return Shift(np.repeat(rate, sizes), np.repeat(shifted, sizes))


def batch_sizes(n: int, batches: int | Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """Sizes of the batches of n events: all alike, or drawn from several; the last is cut to fit."""
    choices = np.atleast_1d(np.asarray(batches, dtype=np.int64))
    count = n // choices.min() + 1
    sizes = rng.choice(choices, count) if len(choices) > 1 else np.full(count, choices[0])
    ends = np.minimum(np.cumsum(sizes), n)
    return np.diff(ends[: np.searchsorted(ends, n) + 1], prepend=0)


@dataclass(frozen=True)
class Pool:
    """Labelled score rows: score columns, the kind of each row ("clean", or what shifted it)."""

    columns: Mapping[str, np.ndarray]
    kind: np.ndarray
    correct: np.ndarray

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

    rate: np.ndarray
    """The probability of shift of each."""
    shifted: np.ndarray
    correct: np.ndarray
    columns: Mapping[str, np.ndarray]
    row: np.ndarray
    """Which row of the table each event is; for a synthetic stream its number."""


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
    score = next(iter(pool.columns)) if by is None else by
    if score not in pool.columns:
        near, there = did_you_mean(score, pool.columns), ", ".join(pool.columns)
        raise ValueError(f"there is no score {score!r}{near}; scores are {there}")
    n = len(shift.shifted)
    starts = rng.random(n) < 1.0 / runs
    starts[:1] = True
    run = np.cumsum(starts) - 1
    count = int(run[-1]) + 1
    place = rng.random(count) if order == 0.0 else _copula(count, order, rng)
    row = np.empty(n, dtype=np.int64)
    wanted = pool.kinds if kinds is None else tuple(kinds)
    for events, of in ((~shift.shifted, (CLEAN,)), (shift.shifted, wanted)):
        candidates = np.flatnonzero(np.isin(pool.kind, of))
        if not len(candidates):
            if not events.any():
                continue
            raise ValueError(
                f"the stream needs rows of {' or '.join(of) or 'a shift'}, and the table has none "
                "left to draw from"
            )
        if order:
            candidates = candidates[np.argsort(pool.columns[score][candidates], kind="stable")]
        row[events] = candidates[(place[run[events]] * len(candidates)).astype(np.int64)]
    columns = {name: column[row] for name, column in pool.columns.items()}
    return Stream(*shift, pool.correct[row], columns, row)


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

    def right(self, shifted: np.ndarray) -> np.ndarray:
        """P(right) of events."""
        return np.where(shifted, self.accuracy_shifted, self.accuracy_clean)


def detector_grid(parts: int = 10) -> tuple[tuple[float, float], ...]:
    """(TPR, TNR) over 0..1 in so many steps, if (TPR + TNR) / 2 > 0.5 (section 4.3)."""
    return tuple(
        (i / parts, j / parts) for i in range(parts + 1) for j in range(parts + 1) if i + j > parts
    )


def draw_verdicts(detector: Detector, shift: Shift, *, rng: np.random.Generator) -> Stream:
    """A stream of verdicts, one an event."""
    n = len(shift.shifted)
    alarm = rng.random(n) < np.where(shift.shifted, detector.tpr, 1.0 - detector.tnr)
    right = rng.random(n) < detector.right(shift.shifted)
    return Stream(*shift, right, {VERDICT: alarm.astype(np.float64)}, np.arange(n))


def verdict_rows(detector: Detector, clean: int, shifted: int, *, rng: np.random.Generator) -> Pool:
    """A labelled table to calibrate a synthetic detector on: so many clean and shifted rows."""
    drawn = np.arange(clean + shifted) >= clean
    stream = draw_verdicts(detector, Shift(drawn.astype(float), drawn), rng=rng)
    return Pool(stream.columns, np.where(drawn, SHIFTED, CLEAN), stream.correct)
