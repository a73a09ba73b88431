"""How often shift occurs, event by event: constant, ramp, bursts, a Markov chain, one after another.

A schedule gives every event the probability with which it is shifted; for a Markov chain it is the
probability given its hidden state, so that what was drawn is known exactly. `draw_shift` turns it
into events. A batch is clean or shifted as a whole (Torpmann-Hagen et al. 2025, section 4.5).

>>> parts = [{"constant": 0.0, "events": 4}, {"ramp": [0.0, 0.6], "events": 4}, {"constant": 1.0}]
>>> schedule = Schedule.read(parts)
>>> schedule.rates(10, np.random.default_rng(0)).round(2).tolist()
[0.0, 0.0, 0.0, 0.0, 0.0, 0.2, 0.4, 0.6, 1.0, 1.0]
>>> shift = draw_shift(schedule, 10, batches=2, rng=np.random.default_rng(0))
>>> shift.shifted.astype(int).tolist()
[0, 0, 0, 0, 0, 0, 1, 1, 1, 1]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.registry import did_you_mean

BATCHES = (1, 8, 16, 32, 64)
"""The batch sizes of the paper's simulations (section 4.5)."""
SHAPES: dict[str, tuple[int, tuple[str, ...]]] = {
    "constant": (1, ()),
    "ramp": (2, ()),
    "bursts": (2, ("every", "length")),
    "markov": (2, ("share", "run")),
}
"""Shape of a segment -> how many rates it takes, and its further keys."""


@dataclass(frozen=True)
class Segment:
    """A part of a schedule.

    constant: one rate. ramp: from a rate to another. bursts: a rate outside and one within bursts
    of `length` events, one every `every` events. markov: the rates of two hidden states, of which
    the second holds `share` of the time, in runs of `run` events on average.
    """

    shape: str
    rates: tuple[float, ...]
    events: int | None = None
    every: int = 0
    length: int = 0
    share: float = 0.0
    run: float = 1.0

    def __post_init__(self) -> None:
        for rate in self.rates:
            if not 0.0 <= rate <= 1.0:
                raise ValueError(f"a rate of shift lies between 0 and 1; it is {rate:g}")
        if self.events is not None and self.events < 1:
            raise ValueError(f"events must be at least 1; it is {self.events}")
        if self.shape == "bursts" and not 1 <= self.length < self.every:
            raise ValueError(
                f"bursts need 1 <= length < every; found length {self.length}, every {self.every}"
            )
        if self.shape == "markov":
            if not (0.0 < self.share < 1.0 and self.run >= 1.0):
                raise ValueError("markov needs share between 0 and 1, and run of 1 event or more")
            if self.enter > 1.0:
                raise ValueError(
                    f"runs of {self.run:g} events cannot fill {self.share:g} of the time; "
                    f"make run at least {self.share / (1 - self.share):.4g}"
                )

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Segment:
        """A segment as data: one key names the shape and holds its rates.

        >>> Segment.read({"bursts": [0.0, 0.8], "every": 500, "length": 50, "events": 2000}).rates
        (0.0, 0.8)
        """
        shapes = [k for k in data if k in SHAPES]
        if len(shapes) != 1:
            found = " and ".join(shapes) or ", ".join(map(str, data)) or "nothing"
            raise ValueError(f"expected exactly one of {', '.join(SHAPES)}; found {found}")
        shape = shapes[0]
        count, keys = SHAPES[shape]
        for key in data:
            if key not in (shape, "events", *keys):
                near = did_you_mean(str(key), keys)
                known = ", ".join((*keys, "events"))
                raise ValueError(f"unknown key {key!r} with {shape}{near}; keys are {known}")
        lacking = [k for k in keys if k not in data]
        if lacking:
            raise ValueError(f"{shape} needs {' and '.join(lacking)}")
        given = data[shape] if isinstance(data[shape], list | tuple) else [data[shape]]
        numbers = [*given, *(data[k] for k in data if k != shape)]
        if len(given) != count or not all(isinstance(v, int | float) for v in numbers):
            raise ValueError(f"{shape} takes {count} rate(s) and numbers; it is {dict(data)}")
        others = {key: data[key] for key in (*keys, "events") if key in data}
        return cls(shape, tuple(map(float, given)), **others)

    @property
    def enter(self) -> float:
        """markov: P(first to second state), so that share = enter / (enter + 1 / run)."""
        return self.share / (1.0 - self.share) / self.run

    def draw(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """The rate of n events."""
        if self.shape == "constant":
            return np.full(n, self.rates[0])
        if self.shape == "ramp":
            return np.linspace(self.rates[0], self.rates[1], n)
        if self.shape == "bursts":
            second = np.arange(n) % self.every >= self.every - self.length
        else:
            second = self._states(n, rng)
        return np.where(second, self.rates[1], self.rates[0])

    def _states(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Whether each event is in the second state: runs of geometric length, in equilibrium."""
        leave, state = 1.0 / self.run, bool(rng.random() < self.share)
        parts: list[np.ndarray] = []
        drawn = 0
        while drawn < n:
            cycles = int((n - drawn) / (self.run + 1.0 / self.enter)) + 16
            ends = (leave, self.enter) if state else (self.enter, leave)
            lengths = np.stack([rng.geometric(p, cycles) for p in ends], axis=1).ravel()
            parts.append(np.repeat((np.arange(2 * cycles) % 2 == 0) == state, lengths)[: n - drawn])
            drawn += len(parts[-1])
        return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)


@dataclass(frozen=True)
class Schedule:
    """Segments one after the other; the last one may go on."""

    parts: tuple[Segment, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise ValueError("give at least one segment, such as {constant: 0.1}")
        if any(part.events is None for part in self.parts[:-1]):
            raise ValueError("every segment but the last needs events")

    @classmethod
    def read(cls, data: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Schedule:
        """A schedule as data: one segment, or a list of them."""
        return cls(tuple(map(Segment.read, [data] if isinstance(data, Mapping) else data)))

    @property
    def events(self) -> int | None:
        """How many events they describe; None if the last goes on."""
        last = self.parts[-1].events
        return None if last is None else sum(part.events or 0 for part in self.parts)

    def rates(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """The probability of shift of n events."""
        if self.events is not None and n > self.events:
            raise ValueError(f"the segments describe {self.events:,} events, fewer than {n:,}")
        given = sum(part.events or 0 for part in self.parts)
        # A segment keeps its own length: a ramp is the same however much of it is asked for.
        lengths = [max(n - given, 0) if p.events is None else p.events for p in self.parts]
        drawn = [part.draw(length, rng) for part, length in zip(self.parts, lengths, strict=True)]
        return np.concatenate(drawn)[:n]


@dataclass(frozen=True)
class Shift:
    """Which events are shifted: the rate of each, and what was drawn."""

    rate: np.ndarray
    shifted: np.ndarray

    @property
    def n(self) -> int:
        """Events."""
        return len(self.shifted)


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
    """Sizes of the batches of n events: all alike, or drawn from several; the last is cut to fit.

    >>> batch_sizes(20, 8, np.random.default_rng(0)).tolist()
    [8, 8, 4]
    """
    choices = np.atleast_1d(np.asarray(batches, dtype=np.int64))
    if not len(choices) or choices.min() < 1 or n < 1:
        raise ValueError(f"batches are of 1 event or more; they are {batches!r}")
    count = n // choices.min() + 1
    sizes = rng.choice(choices, count) if len(choices) > 1 else np.full(count, choices[0])
    ends = np.minimum(np.cumsum(sizes), n)
    return np.diff(ends[: np.searchsorted(ends, n) + 1], prepend=0)
