"""Labels that come later: which events to ask for, and what their answers say about the monitor's own estimate.

Events are asked for by priority sampling (Duffield, Lund and Thorup 2007): event i with weight w_i has a number u_i in (0, 1] that
belongs to it for good, the n events of the highest w_i / u_i are asked for, and with the next highest one t each was included with
probability min(1, w_i / t). Weights are the standard deviations that the estimator expects, and no event is without a chance.

Answers correct the estimate by the difference estimator (Saerndal, Swensson and Wretman 1992, chapter 6): the mean of what the
model expects, plus the mean over all events of (answer - expectation) / probability for the labelled ones. It is unbiased whatever
the model, where every event had a chance and no label stands for more events than have none. Where only some could be labelled,
such as those that raised an alarm, it is corrected there, and the rest stays the model's.

Who asks again raises the probability of all that were asked before: a label of the queue has therefore none of its own, but that of
the latest asking (u_i at most the highest of w_i / t over the rounds in which i could have been chosen).

>>> expected = np.full(1000, 0.9)
>>> found = difference(expected, np.arange(100), np.arange(100) % 2 == 0, np.full(100, 0.1), confidence=0.95)
>>> round(found.value, 3), round(found.covered, 3), bool(found.low < 0.5 < found.high)
(0.5, 1.0, True)
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadworthy.monitor.events import EventError, Floats, Marks, mixed

if TYPE_CHECKING:
    from roadworthy.monitor.state import State

KEPT = 20_000
"""Labels that are kept one by one, and so many open questions at least; the counts of all labels are kept for good."""
SLACK = 1000
FLOOR = 0.2
"""The least weight of an event, as a share of the greatest."""
LEAST = 5
"""Labels within a window from which on it is corrected by its own; below, by the last ones."""
BY_CHANCE = 4.0
"""Standard deviations by which labels stand for more events than there are before their probabilities are called wrong."""
SMALLEST = 1e-200
"""Below it a probability is taken as this, so that sums of what labels stand for stay finite."""
_SALT = np.uint64(0x5851F42D4C957F2D)


class Label(NamedTuple):
    """What is known of a labelled event."""

    time: float
    cell: int
    correct: bool
    probability: float | None
    """As it was given; None: the one with which the event was asked for, which later questions raise, else 1."""


class Weighed(NamedTuple):
    """A label with the probability that holds now."""

    time: float
    cell: int
    correct: bool
    probability: float


@dataclass(frozen=True)
class Question:
    """An event to label, and the probability with which it was chosen."""

    id: Any
    time: float
    cell: int
    probability: float


@dataclass(frozen=True)
class Corrected:
    """A share of right answers, corrected by labels."""

    value: float
    low: float
    high: float
    labels: int
    covered: float
    """The share of the events that the labels stand for; the rest is the model's."""
    overstated: float = 1.0
    """How many times the events there are the labels stood for by the probabilities given; 1 where no more than by chance."""


@dataclass(frozen=True)
class Audited:
    """What labels make of a window's estimate."""

    accuracy: float
    accuracy_low: float
    accuracy_high: float
    risk: float
    risk_low: float
    risk_high: float
    labels: int
    covered: float
    carried: bool
    """Whether the labels are of events before the window: then their mean correction is carried over."""
    overstated: float = 1.0
    """Where the probabilities given make one label, or far more than by chance all of them, stand for more events than there are:
    how many times as many. They are then taken as higher."""


@dataclass
class Labels:
    """Answers and open questions by the mark of their event."""

    cells: int
    given: dict[int, Label] = field(default_factory=dict)
    asked: dict[int, float] = field(default_factory=dict)
    counts: NDArray[np.int64] = field(init=False)
    """(right, wrong) x cells: all labels there ever were."""
    _ordered: list[tuple[float, int]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    """When the events of all labels were, and their marks, in this order; as far as it is known."""
    unnamed: int = 0
    """How many of this replica's own were of events that nobody could name: they are known by their number."""

    def __post_init__(self) -> None:
        self.counts = np.zeros((2, self.cells), dtype=np.int64)

    def add(self, mark: int, label: Label) -> None:
        """Count an answer; a second one for the same event takes the place of the first."""
        self.add_all([(mark, label)])

    def add_all(self, labels: Iterable[tuple[int, Label]]) -> None:
        """Count answers, one after the other."""
        for mark, label in labels:
            self._add(mark, label)
        self._cut()

    def _add(self, mark: int, label: Label) -> None:
        if label.probability is not None and not 0.0 < label.probability <= 1.0:
            raise EventError(
                f"the probability of being labelled lies above 0 and is at most 1, found {label.probability}"
            )
        before = self.given.pop(mark, None)
        if before is not None:
            self._count(before, -1)
        if len(self._ordered) == len(self.given) + (before is not None):
            if before is not None:
                del self._ordered[bisect_left(self._ordered, (before.time, mark))]
            insort(self._ordered, (label.time, mark))
        self.given[mark] = label
        self._count(label, 1)

    def ask(self, mark: int, probability: float) -> None:
        """Remember that an event is asked for, or might have been with this probability."""
        self.asked[mark] = max(probability, self.asked.get(mark, 0.0))
        self._cut()

    def merge(
        self,
        other: Labels,
        *,
        before: Mapping[int, Label] | None = None,
        counts: NDArray[np.int64] | None = None,
    ) -> None:
        """Take over another's labels, which were `before` (and those `counts`) when they were taken over last, if they were.

        Where two answers differ, the wrong one stands: an error that was seen is not undone, but by who saw it.
        """
        before = before or {}
        self.counts = self.counts + other.counts - (0 if counts is None else counts)
        for mark, label in other.given.items():
            mine, was = self.given.get(mark), before.get(mark)
            if was == label:
                continue
            if mine is None:
                self.given[mark] = label
                continue
            kept = label if mine == was else min((mine, label), key=_sorted_by)
            # The sums above hold mine, and theirs in place of what it was.
            self._count(mine, -1)
            self._count(label, -1)
            if was is not None:
                self._count(was, 1)
            self.given[mark] = kept
            self._count(kept, 1)
        self._ordered = []  # times may be others
        for mark, probability in other.asked.items():
            self.asked[mark] = max(probability, self.asked.get(mark, 0.0))
        self._cut()

    def weighed(self, mark: int) -> Weighed:
        """The label of an event with the probability that holds now."""
        time, cell, correct, probability = self.given[mark]
        return Weighed(
            time, cell, correct, self.asked.get(mark, 1.0) if probability is None else probability
        )

    def latest(self, number: int) -> list[tuple[float, int]]:
        """When the latest events with labels were, and their marks, in this order."""
        if len(self._ordered) != len(self.given):
            self._ordered = sorted((label.time, mark) for mark, label in self.given.items())
        return self._ordered[-number:]

    def _count(self, label: Label, by: int) -> None:
        if label.cell >= 0:
            self.counts[0 if label.correct else 1, label.cell] += by

    def _cut(self) -> None:
        """Let the oldest go, many at a time: sorting for every one of them would be dear.

        With a label goes the question that it answered; of questions that are open, which have no time, any go.
        """
        if len(self.given) > KEPT + SLACK:
            ordered = sorted(self.given.items(), key=lambda item: (item[1].time, item[0]))
            for mark, _ in ordered[:-KEPT]:
                self.asked.pop(mark, None)
            self.given = dict(ordered[-KEPT:])
            self._ordered = []
        if len(self.asked) > 2 * (KEPT + SLACK):
            for mark in sorted(mark for mark in self.asked if mark not in self.given)[:-KEPT]:
                del self.asked[mark]


def _sorted_by(label: Label) -> tuple[bool, float, float, int]:
    return label.correct, -(label.probability or 0.0), label.time, label.cell


def checked_moment(time: float, id: Any, state: State) -> float:
    """When the event of a label was, refused where this stream can have counted none then: before it began, or after its end.

    Clocks may differ by the lateness horizon. Before the first event there is nothing to hold a label against.
    """
    if not math.isfinite(time):
        raise EventError(
            f"the label of {id!r} has the time {time}; give finite seconds, such as those since 1970"
        )
    if not math.isfinite(state.newest):
        return float(time)
    first, last = state.buckets.start - state.lateness, state.newest + state.lateness
    if not first <= time <= last:
        side, end = (
            ("before the first", state.buckets.start)
            if time < first
            else ("after the last", state.newest)
        )
        raise EventError(
            f"the label of {id!r} is of an event at {time:.0f} s, {abs(time - end):,.0f} s {side} one that was counted here: "
            "look at its clock, or send it to the monitor that counted its event"
        )
    return float(time)


def deviations(right: Floats, cells: NDArray[Any], *, floor: float = FLOOR) -> Floats:
    """Weights by which to ask for events: the standard deviation of being right in their cell, none below the floor."""
    expected = np.where(cells >= 0, right[np.maximum(cells, 0)], 0.5)
    spread = np.sqrt(np.clip(expected * (1.0 - expected), 0.0, None))
    return np.maximum(spread, floor * max(float(spread.max(initial=0.0)), 1e-6))


def choose(
    marks: Marks, weights: Floats, asked: Mapping[int, float], n: int
) -> tuple[NDArray[np.int64], Floats]:
    """Places of the n events to ask for next, and the probabilities with which all events were included so far."""
    if n < 1:
        raise ValueError(f"ask for at least one event, found {n}")
    uniform = (mixed(marks ^ _SALT).astype(np.float64) + 1.0) / 2.0**64
    priority = weights / uniform
    fresh = np.array([mark not in asked for mark in marks.tolist()], dtype=bool)
    order = np.flatnonzero(fresh)[np.argsort(-priority[fresh], kind="stable")]
    threshold = priority[order[n]] if len(order) > n else 0.0
    probability = np.minimum(1.0, weights / threshold) if threshold > 0 else np.ones(len(weights))
    return order[:n], probability


def difference(
    expected: Floats,
    at: NDArray[np.int64],
    correct: NDArray[Any],
    probability: Floats,
    *,
    confidence: float,
    weights: Floats | None = None,
) -> Corrected:
    """The share of right answers of a window: `expected` of all its events, the answers of those at `at`.

    Where events fade out, they have `weights`, and each label counts for that of its event over its probability. The variance is
    that of Poisson sampling, sum (1 - p) / p^2 w^2 r^2. Probabilities are taken as `plausible` ones, and a label stands for its own
    event and for such as have none: one that was drawn with a small probability stands for itself where all the others came too.
    Nothing is said that the labels rule out: events without one are all right at most, and all wrong.
    """
    labels, all_of = len(at), np.ones(len(expected)) if weights is None else weights
    _, overstated = plausible(probability, len(expected))
    probability, _ = plausible(
        np.maximum(probability, 1.0 / (1 + len(expected) - labels)), len(expected)
    )
    total, own = float(all_of.sum()), all_of[at]
    residual, stands = correct - expected[at], own / probability
    value = float(all_of @ expected + stands @ residual) / total
    mean = float(np.average(expected[at], weights=own))
    weight, each = _typical(stands, stands), _typical(stands, own)
    # Labels that were certain to be given say nothing about the spread of the others.
    half = (
        _half(stands * (stands - own), residual, weight * (weight - each), mean, confidence) / total
    )
    covered = min(1.0, float(stands.sum()) / total)
    least = float(own @ correct) / total
    most = least + max(1.0 - float(own.sum()) / total, 0.0)
    if not least <= value <= most:
        return Corrected(min(max(value, least), most), least, most, labels, covered, overstated)
    return Corrected(
        value, max(value - half, least), min(value + half, most), labels, covered, overstated
    )


def carried(
    expected: Floats,
    reached: Floats,
    residual: Floats,
    probability: Floats,
    *,
    confidence: float,
    weights: Floats | None = None,
    told: Floats | None = None,
) -> Corrected:
    """The share of right answers of a window by the mean residual of earlier labels, as far as they speak for its events.

    `told` is what the model expected of the labelled events; where it is not given, what it expects of the window. The added
    answers count in full here: they draw the interval, not the value, towards as many right as wrong ones.
    """
    all_of = np.ones(len(expected)) if weights is None else weights
    model, share = (float(np.average(part, weights=all_of)) for part in (expected, reached))
    # The mean depends on how probabilities compare alone; so weights are 1 at most, however small these are.
    weight = probability.min() / probability
    known = model if told is None else float(np.average(told, weights=weight))
    typical = _typical(weight, weight)
    added = _added(confidence) * typical
    total, found = float(weight.sum()) + added, float(weight @ residual)
    centre = (found + added * (0.5 - known)) / total
    half = _half(weight**2, residual - centre, typical**2, known + centre, confidence) / total
    value = model + share * found / float(weight.sum())
    low, high = model + share * (centre - half), model + share * (centre + half)
    return Corrected(value, min(low, value), max(high, value), len(residual), share)


def plausible(probability: Floats, events: int) -> tuple[Floats, float]:
    """Probabilities by which labels may have been drawn of so many events, and how many times as many they stood for as given.

    No label stands for more events than there are. The events that all of them stand for, sum 1 / p, have the variance
    sum (1 - p) / p^2 around the number there are: where they are far more, probabilities are taken as so many times higher.

    >>> plausible(np.array([1.0, 1e-4]), 100)
    (array([1.  , 0.01]), 100.01)
    """
    found = np.maximum(probability, 1.0 / events)
    ratio = float((1.0 / found).sum()) / events
    by_chance = BY_CHANCE * float(np.sqrt(((1.0 - found) / found**2).sum())) / events
    too_many = ratio > 1.0 + by_chance + 1e-9
    if not too_many and probability.min() * events >= 1.0 - 1e-9:
        return found, 1.0
    stood = float((1.0 / np.maximum(probability, SMALLEST)).sum()) / events
    return np.minimum(1.0, found * ratio) if too_many else found, stood


def _typical(stands: Floats, of: Floats) -> float:
    """Of one of the labels that count, which are those that stand for much."""
    return float(stands**2 @ of / (stands**2).sum())


def _added(confidence: float) -> float:
    """Answers that are added to those there are, half of them right: z^2 (Agresti and Coull 1998)."""
    from scipy.stats import norm

    return float(norm.ppf(0.5 + confidence / 2)) ** 2


def _half(
    factor: Floats, deviation: Floats, of_added: float, right: float, confidence: float
) -> float:
    """Half the width of the interval of a sum over labels, whose variance is sum factor * deviation^2.

    To it comes that of the answers that are added, with their own factor, where a share of `right` ones was found: with few
    labels, those that happen to be alike say nothing about the rest. Degrees of freedom are those of the factors (Satterthwaite
    1946), and of the answers added: a few labels that stand for nearly all events are few, however many others there are.
    """
    from scipy.stats import t

    added, right = _added(confidence), min(1.0, max(0.0, right))
    variance = float(factor @ deviation**2) + added / 2.0 * of_added * (
        right**2 + (1.0 - right) ** 2
    )
    freedom = float(factor.sum() ** 2 / max((factor**2).sum(), 1e-300)) - 1.0 + added
    return float(t.ppf(0.5 + confidence / 2, max(freedom, 1.0))) * math.sqrt(max(variance, 0.0))
