"""How often shift occurs, event by event: constant, step, ramp, bursts, a two-state Markov chain, and lists of these.

A schedule says for every event the probability with which it is shifted (`rates`); where a hidden state decides (bursts at
random, a Markov chain) it is the probability given that state, so that what was drawn is known exactly. `draw_shift` turns it into
events. A batch is clean or shifted as a whole (Torpmann-Hagen et al. 2025, section 4.5).

As data a schedule is one segment, or a list of them, each with its length in `events` (the last may leave it out):

>>> schedule = read_schedule([{"constant": 0.0, "events": 4}, {"ramp": [0.0, 0.6], "events": 4}, {"constant": 1.0}])
>>> schedule.rates(10, np.random.default_rng(0)).round(2).tolist()
[0.0, 0.0, 0.0, 0.0, 0.0, 0.2, 0.4, 0.6, 1.0, 1.0]
>>> shift = draw_shift(schedule, 10, batches=2, rng=np.random.default_rng(0))
>>> shift.batch.tolist(), shift.shifted.astype(int).tolist()
([0, 0, 1, 1, 2, 2, 3, 3, 4, 4], [0, 0, 0, 0, 0, 0, 1, 1, 1, 1])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from roadworthy.registry import did_you_mean

BATCHES = (1, 8, 16, 32, 64)
"""The batch sizes of the paper's simulations (section 4.5)."""


class Schedule(Protocol):
    """What gives every event its probability of being shifted."""

    def rates(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """The probabilities of n events, in order."""


def _probability(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} is a probability from 0 to 1; it is {value:g}")


def _at_least(name: str, value: float, least: float) -> None:
    if not value >= least:
        raise ValueError(f"{name} must be at least {least:g}; it is {value:g}")


@dataclass(frozen=True)
class Constant:
    """The same rate throughout."""

    rate: float

    def __post_init__(self) -> None:
        _probability("the rate", self.rate)

    def rates(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """The rate, n times."""
        return np.full(n, self.rate)


@dataclass(frozen=True)
class Step:
    """One rate before event number `at` (the first is 0), another from it on."""

    before: float
    after: float
    at: int

    def __post_init__(self) -> None:
        _probability("the rate before the step", self.before)
        _probability("the rate after the step", self.after)
        _at_least("at", self.at, 0)

    def rates(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Before, then after."""
        return np.where(np.arange(n) < self.at, self.before, self.after).astype(float)


@dataclass(frozen=True)
class Ramp:
    """From one rate at the first event to another at the last, in equal steps."""

    first: float
    last: float

    def __post_init__(self) -> None:
        _probability("the first rate", self.first)
        _probability("the last rate", self.last)

    def rates(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """A straight line."""
        return np.linspace(self.first, self.last, n)


@dataclass(frozen=True)
class Bursts:
    """Quiet, then a burst of `length` events, a burst every `every` events: exactly, or (at random) on average."""

    quiet: float
    burst: float
    every: int
    length: int
    random: bool = False

    def __post_init__(self) -> None:
        _probability("the rate outside bursts", self.quiet)
        _probability("the rate within bursts", self.burst)
        _at_least("length", self.length, 1)
        _at_least("every", self.every, self.length + 1)

    def rates(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Quiet and burst in turn."""
        rest = self.every - self.length
        if not self.random:
            within = np.arange(n) % self.every >= rest
        else:
            cycles = n // self.length + 1
            lengths = np.full(2 * cycles, self.length)
            lengths[::2] = rng.geometric(1.0 / rest, cycles)
            within = np.repeat(np.arange(2 * cycles) % 2 == 1, lengths)[:n]
        return np.where(within, self.burst, self.quiet)


@dataclass(frozen=True)
class Markov:
    """Two hidden states, each with its rate; runs of the second last `run` events on average, and it holds `share` of the time.

    With enter = P(first to second) and leave = 1/run, share = enter / (enter + leave), and the states k events apart correlate by
    (1 - enter - leave)^k. It starts in its equilibrium.
    """

    low: float
    high: float
    share: float
    run: float

    def __post_init__(self) -> None:
        _probability("the rate of the first state", self.low)
        _probability("the rate of the second state", self.high)
        if not 0.0 < self.share < 1.0:
            raise ValueError(
                f"share is the part of the time in the second state, within 0 and 1; it is {self.share:g}"
            )
        _at_least("run", self.run, 1)
        if self.enter > 1.0:
            raise ValueError(
                f"runs of {self.run:g} events cannot fill {self.share:g} of the time; "
                f"make run at least {self.share / (1 - self.share):.4g}"
            )

    @property
    def leave(self) -> float:
        """P(second to first)."""
        return 1.0 / self.run

    @property
    def enter(self) -> float:
        """P(first to second)."""
        return self.leave * self.share / (1.0 - self.share)

    def states(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Whether each event is in the second state: runs of geometric length in turn, as many as it takes."""
        state = bool(rng.random() < self.share)
        parts: list[np.ndarray] = []
        drawn = 0
        while drawn < n:
            cycles = int((n - drawn) / (self.run + 1.0 / self.enter)) + 16
            ends = (self.leave, self.enter) if state else (self.enter, self.leave)
            lengths = np.stack([rng.geometric(p, cycles) for p in ends], axis=1).ravel()
            parts.append(np.repeat((np.arange(2 * cycles) % 2 == 0) == state, lengths)[: n - drawn])
            drawn += len(parts[-1])
        return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)

    def rates(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """The rate of each event's state."""
        return np.where(self.states(n, rng), self.high, self.low)


@dataclass(frozen=True)
class Segments:
    """Schedules one after the other, each for a number of events; the last one (None) takes what is left."""

    parts: tuple[tuple[Schedule, int | None], ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("there is no segment; give at least one, such as {constant: 0.1}")
        for i, (_, events) in enumerate(self.parts):
            if events is None and i < len(self.parts) - 1:
                raise ValueError(
                    f"segment {i + 1} of {len(self.parts)} needs events; only the last may leave it out"
                )
            if events is not None:
                _at_least("events", events, 1)

    @property
    def events(self) -> int | None:
        """How many events they describe; None where the last goes on."""
        lengths = [events for _, events in self.parts if events is not None]
        return sum(lengths) if len(lengths) == len(self.parts) else None

    def rates(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """One after the other; more events than they describe are refused."""
        if self.events is not None and n > self.events:
            raise ValueError(
                f"the segments describe {self.events:,} events, and {n:,} are asked for; lengthen the last"
            )
        given = sum(events or 0 for _, events in self.parts)
        # A segment keeps its own length, so that a ramp is the same however much of it is asked for.
        drawn = [
            part.rates(max(n - given, 0) if events is None else events, rng)
            for part, events in self.parts
        ]
        return np.concatenate(drawn)[:n]


_SHAPES: dict[str, tuple[Callable[..., Schedule], int, tuple[str, ...]]] = {
    "constant": (Constant, 1, ()),
    "step": (Step, 2, ("at",)),
    "ramp": (Ramp, 2, ()),
    "bursts": (Bursts, 2, ("every", "length", "random")),
    "markov": (Markov, 2, ("share", "run")),
}
"""Key of a segment -> what it makes, how many rates it takes, its further keys."""
SHAPES = tuple(_SHAPES)


def read_segment(data: Mapping[str, Any]) -> tuple[Schedule, int | None]:
    """One segment as data: the key names the shape, and holds its rates.

    >>> read_segment({"bursts": [0.0, 0.8], "every": 500, "length": 50, "events": 2000})
    (Bursts(quiet=0.0, burst=0.8, every=500, length=50, random=False), 2000)
    >>> read_segment({"ramp": 0.3})
    Traceback (most recent call last):
    ValueError: ramp takes two rates, such as [0.0, 0.3]; it is 0.3
    """
    shapes = [k for k in data if k in _SHAPES]
    if len(shapes) != 1:
        found = " and ".join(shapes) or f"none ({', '.join(data) or 'nothing'})"
        raise ValueError(f"has {found} of {', '.join(SHAPES)}; give exactly one")
    make, count, keys = _SHAPES[shapes[0]]
    unknown = [k for k in data if k not in (shapes[0], "events", *keys)]
    if unknown:
        near = did_you_mean(unknown[0], keys)
        raise ValueError(
            f"{unknown[0]} is not known with {shapes[0]}{near}; it takes {', '.join((*keys, 'events'))}"
        )
    lacking = [k for k in keys if k not in data and k != "random"]
    if lacking:
        raise ValueError(f"{shapes[0]} needs {' and '.join(lacking)}")
    given = data[shapes[0]]
    rates = [given] if count == 1 and not isinstance(given, Sequence) else given
    if not isinstance(rates, Sequence) or isinstance(rates, str) or len(rates) != count:
        wanted = "one rate, such as 0.1" if count == 1 else "two rates, such as [0.0, 0.3]"
        raise ValueError(f"{shapes[0]} takes {wanted}; it is {given!r}")
    events = data.get("events")
    return make(*(float(r) for r in rates), **{k: data[k] for k in keys if k in data}), events


def read_schedule(data: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Segments:
    """A schedule as data: one segment, or a list of them."""
    return Segments(
        tuple(read_segment(part) for part in ([data] if isinstance(data, Mapping) else data))
    )


@dataclass(frozen=True)
class Shift:
    """Which events are shifted: the rate of each, what was drawn, and the batch it belongs to."""

    rate: np.ndarray
    shifted: np.ndarray
    batch: np.ndarray

    @property
    def n(self) -> int:
        """Events."""
        return len(self.shifted)

    def realised(self, window: int) -> np.ndarray:
        """The share of shifted events in each whole window of so many events."""
        whole = self.n // window
        return self.shifted[: whole * window].reshape(whole, window).mean(axis=1)


def batch_sizes(n: int, batches: int | Sequence[int], rng: np.random.Generator) -> np.ndarray:
    """Sizes of the batches of n events: all alike, or each drawn from several; the last is cut to fit.

    >>> batch_sizes(20, 8, np.random.default_rng(0)).tolist()
    [8, 8, 4]
    """
    choices = np.atleast_1d(np.asarray(batches, dtype=np.int64))
    if not len(choices) or choices.min() < 1:
        raise ValueError(f"batches are of 1 event or more; they are {batches!r}")
    sizes = (
        rng.choice(choices, n // choices.min() + 1)
        if len(choices) > 1
        else np.full(n // choices[0] + 1, choices[0])
    )
    ends = np.minimum(np.cumsum(sizes), n)
    return (
        np.diff(ends[: np.searchsorted(ends, n) + 1], prepend=0)
        if n
        else np.zeros(0, dtype=np.int64)
    )


def draw_shift(
    schedule: Schedule, n: int, *, batches: int | Sequence[int] = 1, rng: np.random.Generator
) -> Shift:
    """Draw which of n events are shifted; a batch takes the rate of its first event, and is clean or shifted as a whole."""
    sizes = batch_sizes(n, batches, rng)
    first = np.cumsum(sizes) - sizes
    rate = schedule.rates(n, rng)[first]
    shifted = rng.random(len(rate)) < rate
    return Shift(
        np.repeat(rate, sizes), np.repeat(shifted, sizes), np.repeat(np.arange(len(sizes)), sizes)
    )
