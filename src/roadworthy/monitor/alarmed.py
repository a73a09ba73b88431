"""The stretches of a stream in which an alarm was on: once it is cleared, what the alarm reads beyond its window goes around them.

A shift that has ended is no sign of a new one, nor of how much events resemble each other: three hundred shifted events among a
thousand look like correlation, and a longer stretch that is therefore read still holds them. Events are known by their number
in the order of arrival, 1 the first.

>>> alarmed = Alarmed()
>>> alarmed.begin(7, reach=3)
>>> alarmed.end(8)
>>> alarmed.spans, alarmed.quiet(10, 6).tolist()
([(5, 8)], [False, False, False, False, True, True])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from roadworthy.monitor.events import Floats

KEPT = 1000
"""Stretches that are remembered at most."""


@dataclass
class Alarmed:
    """The first and the last event of every alarm that is over, and where the one that is on began."""

    spans: list[tuple[int, int]] = field(default_factory=list)
    since: int | None = None

    def begin(self, event: int, *, reach: int) -> None:
        """An alarm is raised at an event, by what so many events up to it said."""
        begun = max(event - reach + 1, 1)
        # One that was carried over from another replica began when it did there.
        self.since = begun if self.since is None else min(self.since, begun)

    def end(self, event: int) -> None:
        """The alarm is cleared."""
        if self.since is not None:
            self.spans = [*self.spans, (self.since, event)][-KEPT:]
        self.since = None

    def quiet(self, last: int, count: int) -> NDArray[np.bool_]:
        """Which of so many events up to the one with the number `last` belong to no alarm that is over."""
        found, before = np.ones(count, dtype=bool), last - count
        for start, stop in self.spans:
            found[max(start - 1 - before, 0) : max(stop - before, 0)] = False
        return found

    def forget(self, before: int) -> None:
        """Events up to this one are no longer held."""
        if self.spans and self.spans[0][1] <= before:
            self.spans = [span for span in self.spans if span[1] > before]

    def times(self, time: Floats, counted: int) -> AlarmedTimes:
        """When that was, by the times of the last events that arrived."""
        reached = np.maximum.accumulate(time) if len(time) else np.zeros(1)

        def at(event: int) -> float:
            return float(reached[min(max(event - 1 - (counted - len(time)), 0), len(reached) - 1)])

        spans = [(at(start), at(stop)) for start, stop in self.spans]
        return AlarmedTimes(spans, None if self.since is None else at(self.since))


@dataclass(frozen=True)
class AlarmedTimes:
    """The same in seconds, by which the alarms of replicas can be put together."""

    spans: list[tuple[float, float]]
    since: float | None

    def together(self, others: Sequence[AlarmedTimes], time: Floats, counted: int) -> Alarmed:
        """What was alarmed in one of them, as numbers of the events that all hold together, whose times these are."""
        before, reached = counted - len(time), np.maximum.accumulate(time)

        def number(when: float, side: str) -> int:
            return before + int(np.searchsorted(reached, when, side))  # type: ignore[call-overload]

        spans = sorted({span for one in (self, *others) for span in one.spans})
        begun = [one.since for one in (self, *others) if one.since is not None]
        return Alarmed(
            [(number(start, "left") + 1, number(stop, "right")) for start, stop in spans][-KEPT:],
            number(min(begun), "left") + 1 if begun else None,
        )
