"""Labels that come later: which events to ask for, how answers correct the estimate, and the alarm that they raise.

*Questions* are drawn by priority sampling (Duffield, Lund and Thorup 2007): event i with weight w_i has a number u_i in (0, 1]
that belongs to its id, the n events of the highest w_i / u_i are asked for, and with the next highest one t each was included
with probability min(1, w_i / t). Weights are the standard deviations that the estimator expects. Asking again raises the
probability of all that were asked before, so a label of the queue has the probability of the latest asking.

*The audit* corrects a window by the difference estimator (Saerndal, Swensson and Wretman 1992, chapter 6): the mean of what the
model expects, plus the mean over all events of (answer - expectation) / probability for the labelled ones. It is unbiased
whatever the model, if every event had a chance. If a window has too few labels, the mean correction of earlier ones is used.

*The alarm by labels* bets on a risk above the tolerable as labels come in (`roadworthy.statistics.sequential`). A label stands
for 1 / p events and costs what its outcome costs; events that no label stands for are taken to cost the least there is. It is
raised by evidence that healthy streams reach half as often as false alarms are accepted, and cleared by evidence of the
opposite, for which events that no label stands for cost the most there is: labels that stop coming prove nothing.

>>> expected = np.full(1000, 0.9)
>>> found = difference(expected, np.arange(100), np.arange(100) % 2 == 0, np.full(100, 0.1), confidence=0.95)
>>> round(found.value, 3), round(found.covered, 3), bool(found.low < 0.5 < found.high)
(0.5, 1.0, True)
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadworthy.monitor.alarm import Alarm, AlarmRule
from roadworthy.monitor.autocorrelation import FIRST, time_of_steady
from roadworthy.monitor.events import EventError, Floats, Id, checked_cells, id_order, plain_id
from roadworthy.statistics.clusters import kish_size
from roadworthy.statistics.sequential import STAKES, cusum, log_factors

if TYPE_CHECKING:
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.monitor.state import State
    from roadworthy.monitor.windows import Reading

KEPT, SLACK = 20_000, 1000
"""Labels that are kept one by one; how many more there may be before the oldest are removed."""
FLOOR = 0.2
"""The least weight of an event in the queue, as a share of the greatest."""
LEAST = 5
"""Labels within a window from which on it is corrected by its own; below, by the last ones."""
LAST = 2000
"""Labels that correct later windows, and from which their autocorrelation is read."""
MOST = 0.5
"""The share of events that must have a label, for labels that were not drawn to speak for the others."""
UNSEEN = 0.5
"""Rows added to each outcome of the calibration: what was not seen is not impossible."""
HOLDS, CLEARED = math.log(200.0), math.log(2000.0)
"""The least evidence that raises the alarm by labels; the evidence of a tolerable risk that clears it."""
CREDIT = 20.0
"""Labels drawn at random come sometimes more often, sometimes less: for so many labels' events they may be ahead."""
FEW_TIME, RUN = 8.0, 64
"""Labels that say as much as one if there are few; labels from which a run of errors is a change."""
TINY = 1e-12

Key = tuple[float, tuple[bool, Id]]
"""Time and id of an event, by which labels are sorted."""
Answer = tuple[Id | None, bool, float | None, int | None, float | None]
"""Id, whether it was right, the probability of being labelled, cell and time; the last three may be None."""


class Label(NamedTuple):
    """What is known of a labelled event."""

    time: float
    cell: int
    correct: bool
    probability: float | None
    """As it was given; None: the one with which the event was asked for, else 1."""


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
    """The share of the events that the labels stand for; the rest is the model's."""
    carried: bool
    """Whether the labels are of events before the window."""


@dataclass
class Labels:
    """Answers and open questions by the id of their event."""

    cells: int
    given: dict[Id, Label] = field(default_factory=dict)
    asked: dict[Id, float] = field(default_factory=dict)
    unnamed: int = 0
    """Labels of events that had no id."""
    counts: NDArray[np.int64] = field(init=False)
    """(right, wrong) x cells: all labels there ever were."""
    _keys: list[Key] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.counts = np.zeros((2, self.cells), dtype=np.int64)

    @property
    def keys(self) -> list[Key]:
        """Time and id of all labelled events, in this order."""
        if len(self._keys) != len(self.given):
            self._keys = sorted((label.time, id_order(id)) for id, label in self.given.items())
        return self._keys

    def add_all(self, labels: Iterable[tuple[Id, Label]]) -> None:
        """Count answers; a second one for the same event takes the place of the first."""
        keys = self.keys
        for id, label in labels:
            before = self.given.pop(id, None)
            if before is not None:
                self._count(before, -1)
                del keys[bisect_left(keys, (before.time, id_order(id)))]
            self.given[id] = label
            insort(keys, (label.time, id_order(id)))
            self._count(label, 1)
        self._cut()

    def ask(self, id: Id, probability: float) -> None:
        """Remember that an event is asked for, or might have been with this probability."""
        self.asked[id] = max(probability, self.asked.get(id, 0.0))
        self._cut()

    def merge(self, other: Labels) -> None:
        """Take over another's labels; if two answers differ, the wrong one stands."""
        self.counts = self.counts + other.counts
        for id, label in other.given.items():
            mine = self.given.get(id)
            if mine is not None:
                self._count(mine, -1)
                self._count(label, -1)
                label = mine if not mine.correct else label
                self._count(label, 1)
            self.given[id] = label
        self._keys = []  # times may be others
        for id, probability in other.asked.items():
            self.asked[id] = max(probability, self.asked.get(id, 0.0))
        self._cut()

    def weighed(self, id: Id) -> Weighed:
        """The label of an event with the probability that holds now."""
        time, cell, correct, p = self.given[id]
        return Weighed(time, cell, correct, self.asked.get(id, 1.0) if p is None else p)

    def latest(self, number: int) -> list[Id]:
        """The ids of the latest events with labels, by (time, id)."""
        return [id for _, (_, id) in self.keys[-number:]]

    def _count(self, label: Label, by: int) -> None:
        if label.cell >= 0:
            self.counts[0 if label.correct else 1, label.cell] += by

    def _cut(self) -> None:
        """Remove the oldest, many at a time; with a label goes the question that it answered."""
        if len(self.given) > KEPT + SLACK:
            kept = self.latest(KEPT)
            for id in self.given.keys() - set(kept):
                self.asked.pop(id, None)
            self.given = {id: self.given[id] for id in kept}
            self._keys = []
        if len(self.asked) > 2 * (KEPT + SLACK):
            # Open questions have no time; the first asked go first.
            for id in [id for id in self.asked if id not in self.given][:-KEPT]:
                del self.asked[id]


def take(answers: Sequence[Answer], state: State, alarm: LabelAlarm) -> None:
    """Count answers as labels of their events, for the alarm to judge: all, or none if one cannot be counted."""
    found, unnamed = [], count(state.labels.unnamed)
    names = [
        f"{state.name} label#{next(unnamed)}" if answer[0] is None else plain_id(answer[0])
        for answer in answers
    ]
    held_events = state.recent.held(names)
    for answer, name, held in zip(answers, names, held_events, strict=True):
        id, correct, probability, cell, time = answer
        if held is not None:
            time, cell = held
        elif time is None or cell is None:
            raise EventError(
                f"Event {id!r} is not among the last {len(state.recent):,} events. Give its cell and its time."
            )
        else:
            checked_cells([cell], state.cells, lambda _: repr(id))  # noqa: B023
            checked_moment(time, id, state)
        if probability is not None and not 0.0 < probability <= 1.0:
            raise EventError(
                f"The label of {id!r} has the probability {probability}. Give one above 0 and at most 1."
            )
        if correct not in (0, 1):
            raise EventError(f"The label of {id!r} is {correct!r}. Give True or False.")
        given = None if probability is None else float(probability)
        found.append((name, Label(float(time), int(cell), bool(correct), given)))
    before = state.labels.given
    corrected = any(id in before and before[id].correct != label.correct for id, label in found)
    state.labels.add_all(found)
    state.labels.unnamed = next(unnamed)
    alarm.waiting += names
    alarm.anew |= corrected


def checked_moment(time: float, id: Any, state: State) -> float:
    """When the event of a label was, refused if this stream counted none then; clocks may differ by the lateness horizon."""
    if not math.isfinite(time):
        raise EventError(
            f"The label of {id!r} has the time {time}. Give finite seconds since 1970."
        )
    first, last = state.buckets.start, state.newest
    if math.isfinite(last) and not first - state.lateness <= time <= last + state.lateness:
        raise EventError(
            f"The label of {id!r} has the time {time:.0f} s; events here are from {first:.0f} s to {last:.0f} s. "
            "Check its clock."
        )
    return float(time)


# Questions: which events to label next.


def ask_next(labels: Labels, ids: Sequence[Id], right: Floats, n: int) -> list[tuple[int, float]]:
    """Places and probabilities of the n events to ask for next, whose probabilities of being right are given."""
    if n < 1:
        raise ValueError(f"Ask for at least one event, found {n}.")
    spread = np.sqrt(np.clip(right * (1.0 - right), 0.0, None))
    weights = np.maximum(spread, FLOOR * max(float(spread.max(initial=0.0)), 1e-6))
    priority = weights / np.array([_uniform(id) for id in ids])
    fresh = np.array([id not in labels.asked and id not in labels.given for id in ids], dtype=bool)
    order = np.flatnonzero(fresh)[np.argsort(-priority[fresh], kind="stable")]
    threshold = float(priority[order[n]]) if len(order) > n else 0.0
    probability = np.minimum(1.0, weights / threshold) if threshold > 0 else np.ones(len(weights))
    chosen = [(int(i), float(probability[i])) for i in order[:n]]
    for i, id in enumerate(ids):
        if id in labels.asked:
            labels.ask(id, float(probability[i]))
    for i, p in chosen:
        labels.ask(ids[i], p)
    return chosen


def _uniform(id: Id) -> float:
    """A number in (0, 1] that belongs to an id for good, on every machine."""
    digest = blake2b(f"{type(id).__name__} {id}".encode("utf-8", "surrogatepass"), digest_size=8)
    return (int.from_bytes(digest.digest(), "little") + 1.0) / 2.0**64


# The audit: what labels say about a window.


@dataclass(frozen=True)
class Corrected:
    """A mean between 0 and 1, corrected by labels."""

    value: float
    low: float
    high: float
    labels: int
    covered: float

    def wider(self, below: float, above: float) -> Corrected:
        """With the half-widths of another, independent interval added."""
        low = math.hypot(self.value - self.low, below)
        high = math.hypot(self.high - self.value, above)
        return replace(self, low=self.value - low, high=self.value + high)

    def scaled(self, lowest: float, span: float) -> Corrected:
        """On a scale from `lowest`, of this length."""
        value, low, high = (lowest + span * end for end in (self.value, self.low, self.high))
        return replace(self, value=value, low=low, high=high)


@dataclass(frozen=True, eq=False)
class Prices:
    """What one event costs given its verdict and its outcome, at a rate of shift.

    A label says whether an answer was right, not whether its event was shifted. How likely it was follows by Bayes from the
    rate, and from how often clean and shifted rows of the calibration (kinds even) have such a verdict and outcome.
    """

    detected: NDArray[np.bool_]
    """For each cell, whether the deployed supervisor raises its alarm."""
    table: Floats
    """(undetected, detected) x (wrong, right)."""

    @classmethod
    def of(cls, bundle: Bundle, rate: float) -> Prices:
        """The tree's, by the calibration's counts."""
        from roadworthy.analysis.risk.cells import alarmed_cells
        from roadworthy.analysis.risk.tolerable import cost_at, shares_of_kinds

        clean, *shifted = shares_of_kinds(bundle.calibration, added=UNSEEN)
        # (clean, shifted) x (undetected, detected) x (wrong, right)
        likely = np.stack([clean, np.mean(shifted, axis=0)]).transpose(0, 2, 1)[..., ::-1]
        likely = likely * np.array([1.0 - rate, rate])[:, None, None] + TINY
        constants, costs = bundle.estimator.constants, np.zeros((2, 2, 2))
        for shift, alarm, right in np.ndindex(2, 2, 2):
            given = {
                name: float(right) if name.startswith("accuracy") else constants.get(name, 0.0)
                for name in bundle.tree.parameters
            }
            live = {"p_shift": float(shift), "tpr": float(alarm), "tnr": 1.0 - alarm}
            given |= {name: value for name, value in live.items() if name in given}
            costs[shift, alarm, right] = cost_at(bundle.tree, given)
        table = (costs * likely).sum(axis=0) / likely.sum(axis=0)
        return cls(alarmed_cells(bundle.calibration), table)

    @property
    def span(self) -> tuple[float, float]:
        """The lowest, and how far the highest lies above it."""
        lowest = float(self.table.min())
        return lowest, max(float(self.table.max()) - lowest, TINY)

    def at(self, cells: np.ndarray) -> Floats:
        """Events x (wrong, right). One without a score raised no alarm: its answer was given."""
        detected = (cells >= 0) & self.detected[np.maximum(cells, 0)]
        result: Floats = self.table[detected.astype(np.intp)]
        return result

    def share(self, cells: np.ndarray, right: np.ndarray) -> Floats:
        """Where between lowest and highest the cost of events lies that are right with these probabilities."""
        lowest, span = self.span
        wrong, answered = self.at(cells).T
        result: Floats = (wrong + right * (answered - wrong) - lowest) / span
        return result


def audit(bundle: Bundle, state: State, reading: Reading, *, shrink: float) -> Audited | None:
    """The window's accuracy and risk as labels correct them; None if there are too few labels."""
    if not reading.first or not state.labels.given:
        return None
    part = len(state.recent) - reading.first
    cells, ids = state.recent.cell[part:], state.recent.ids_from(part)
    counts, confidence = reading.counts, bundle.confidence
    model = bundle.estimator.estimate(
        counts, shrink=shrink, filled=reading.filled, confidence=confidence
    )
    believed = bundle.estimator.believe(counts, filled=reading.filled).right
    right = np.where(cells >= 0, believed[np.maximum(cells, 0)], float(model.accuracy[0]))
    at = np.array([i for i, id in enumerate(ids) if id in state.labels.given], dtype=np.int64)
    window: _Labelled | _Earlier
    if len(at) >= LEAST:
        labels = [state.labels.weighed(ids[i]) for i in at.tolist()]
        window = _Labelled(cells, right, reading.weights, at, _Columns.of(labels), confidence)
    else:
        # Earlier labels say nothing of events that match no calibrated condition.
        drawn = _drawn(state) if model.cannot_tell[0] is None else []
        if len(drawn) < LEAST:
            return None
        window = _Earlier(bundle, cells, right, reading.weights, _Columns.of(drawn))
    accuracy = window.corrected(lambda cells, right: np.broadcast_to(right, cells.shape))
    prices = Prices.of(bundle, float(model.rate[0]))
    cost = window.corrected(prices.share).scaled(*prices.span)
    # Whether a labelled event was shifted is known by the rate alone: its doubt is that of the prices.
    ends = [Prices.of(bundle, float(rate[0])) for rate in (model.rate_low, model.rate_high)]
    beyond = [window.corrected(end.share).scaled(*end.span).value - cost.value for end in ends]
    cost = cost.wider(-min(*beyond, 0.0), max(*beyond, 0.0))
    return Audited(
        *_with_rest(accuracy, model.accuracy_low, model.accuracy_high, (0.0, 1.0)),
        *_with_rest(cost, model.risk_low, model.risk_high, bundle.tree.costs),
        accuracy.labels,
        accuracy.covered,
        len(at) < LEAST,
    )


def _with_rest(
    found: Corrected, low: Floats, high: Floats, ends: tuple[float, float]
) -> tuple[float, float, float]:
    """Value, low and high within these ends; what no label stands for has the model's doubt, from half of a window on all of it."""
    doubt = min(1.0, 2.0 * (1.0 - found.covered)) * float(high[0] - low[0]) / 2.0
    found = found.wider(doubt, doubt)
    value, least, most = (
        min(ends[1], max(ends[0], end)) for end in (found.value, found.low, found.high)
    )
    return value, least, most


class _Columns(NamedTuple):
    """Labels by column."""

    cells: NDArray[np.int64]
    correct: NDArray[np.bool_]
    probability: Floats

    @classmethod
    def of(cls, labels: Sequence[Weighed]) -> _Columns:
        _, cells, correct, probability = zip(*labels, strict=True)
        return cls(np.array(cells), np.array(correct, dtype=bool), np.array(probability))


class _Labelled(NamedTuple):
    """A window with labels of its own events."""

    cells: np.ndarray
    right: Floats
    weights: Floats
    at: NDArray[np.int64]
    labels: _Columns
    confidence: float

    def corrected(self, quantity: Any) -> Corrected:
        """A quantity from 0 to 1 of (cells, right or not); answers that no label stands for have their chance."""
        found = difference(
            quantity(self.cells, self.right),
            self.at,
            quantity(self.cells[self.at], self.labels.correct),
            self.labels.probability,
            confidence=self.confidence,
            weights=self.weights,
        )
        apart = quantity(self.cells, np.ones(1)) - quantity(self.cells, np.zeros(1))
        right = np.clip(self.right, 0.02, 0.98)
        rest = np.ones(len(self.cells), dtype=bool)
        rest[self.at] = False
        total, unlabelled = float(self.weights.sum()), float(self.weights[rest].sum())
        share = min((1.0 - found.covered) * total / max(unlabelled, TINY), 1.0)
        spread = (self.weights**2 * right * (1.0 - right) * apart**2)[rest].sum()
        chance = math.sqrt(_added(self.confidence) * share * float(spread)) / total
        return found.wider(chance, chance)


class _Earlier(NamedTuple):
    """A window without enough labels, and those of earlier events."""

    bundle: Bundle
    cells: np.ndarray
    right: Floats
    weights: Floats
    labels: _Columns

    def corrected(self, quantity: Any) -> Corrected:
        """By the mean residual of the earlier labels, with the chance of the window's own answers in the interval."""
        cells, correct, probability = self.labels
        confidence = self.bundle.confidence
        stands = probability.min() / probability
        worth = stands * stands.sum() / (stands**2).sum()
        counts = np.bincount(cells, worth, minlength=self.bundle.calibration.cells)
        expected = quantity(cells, self.bundle.estimator.believe(counts).right[cells])
        residual = quantity(cells, correct) - expected
        model = float(np.average(quantity(self.cells, self.right), weights=self.weights))
        value = model + float(np.average(residual, weights=stands))
        spread = residual - float(np.average(residual, weights=stands))
        weight = _typical(stands, stands)
        mean = float(np.average(expected, weights=stands))
        half = _half(stands**2, spread, weight**2, mean, confidence) / float(stands.sum())
        events = kish_size(self.weights)
        share = (min(1.0, max(0.0, value)) * events + 2.0) / (events + 4.0)
        chance = math.sqrt(_added(confidence) * share * (1.0 - share) / events)
        found = Corrected(value, value - half, value + half, len(residual), 1.0)
        return found.wider(chance, chance)


def _drawn(state: State) -> list[Weighed]:
    """The last labels that speak for other events: those that were drawn; all of them if most events have a label.

    Of complaints, which were not drawn, nothing follows for the rest.
    """
    labels = [(id, state.labels.weighed(id)) for id in state.labels.latest(LAST)]
    scored = [(id, label) for id, label in labels if label.cell >= 0]
    drawn = [label for id, label in scored if id in state.labels.asked or label.probability < 1.0]
    if drawn or not scored:
        return drawn
    first, last = scored[0][1].time, scored[-1][1].time
    times = state.recent.time
    events = np.searchsorted(times, last, side="right") - np.searchsorted(times, first)
    return [label for _, label in scored] if len(scored) >= MOST * events else []


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

    The variance is that of Poisson sampling, sum (1 - p) / p^2 w^2 r^2. A label stands for its own event and for such as have
    none. No result is given that the labels rule out: events without one are all right at most, or all wrong.
    """
    n, labels = len(expected), len(at)
    all_of = np.ones(n) if weights is None else weights
    probability = np.maximum(probability, 1.0 / (1 + n - labels))
    total, own = float(all_of.sum()), all_of[at]
    residual, stands = correct - expected[at], own / probability
    value = float(all_of @ expected + stands @ residual) / total
    mean = float(np.average(expected[at], weights=own))
    weight, each = _typical(stands, stands), _typical(stands, own)
    # Labels that were certain to be given say nothing about the spread of the others.
    factor, of_added = stands * (stands - own), weight * (weight - each)
    half = _half(factor, residual, of_added, mean, confidence) / total
    covered = min(1.0, float(stands.sum()) / total)
    least = float(own @ correct) / total
    most = least + max(1.0 - float(own.sum()) / total, 0.0)
    value = min(max(value, least), most)
    low, high = max(value - half, least), min(value + half, most)
    return Corrected(value, low, high, labels, covered)


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

    To it comes that of the answers that are added, if a share of `right` ones was found: few labels that happen to be alike say
    nothing about the rest. Degrees of freedom are those of the factors (Satterthwaite 1946), and of the answers added.
    """
    from scipy.stats import t

    added, right = _added(confidence), min(1.0, max(0.0, right))
    spread = added / 2.0 * of_added * (right**2 + (1.0 - right) ** 2)
    variance = float(factor @ deviation**2) + spread
    freedom = float(factor.sum() ** 2 / max((factor**2).sum(), 1e-300)) - 1.0 + added
    return float(t.ppf(0.5 + confidence / 2, max(freedom, 1.0))) * math.sqrt(max(variance, 0.0))


# The alarm by labels.


@dataclass
class LabelAlarm:
    """Whether labels prove a risk above the tolerable: each label is judged once, in the order in which calls bring them.

    After a correction, and after a merge, all labels of events that are held are judged `anew`.
    """

    on: bool = False
    said: int = 0
    """How often it was raised or cleared."""
    anew: bool = False
    waiting: list[Id] = field(default_factory=list)
    """Events whose labels are not judged yet."""
    evidence: Floats = field(default_factory=lambda: np.zeros(STAKES))
    """What each stake has gathered: on a risk above the tolerable, or below it if the alarm is on."""
    ahead: float = 0.0
    """For how many more events than there were the labels stand."""
    frontier: int = 0
    """The number of the last event that has a label."""
    bets: list[tuple[bool, float]] = field(default_factory=list)
    """Of the last labels: whether it was right, and what a bet on it became."""
    run: list[tuple[float, float, bool]] = field(default_factory=list)
    """Cost, weight and outcome of the last labels since there was no evidence."""

    def look(self, state: State, bundle: Bundle, *, time: float, quiet: bool) -> list[Alarm]:
        """Judge the labels that wait; `quiet`: nothing is called cleared, since the scores' own alarm is on."""
        if self.anew:
            was_on, said = self.on, self.said
            vars(self).update(vars(LabelAlarm(said=said, waiting=state.labels.latest(KEPT))))
            changes = self.look(state, bundle, time=time, quiet=False)
            self.said = said + (self.on != was_on)
            if self.on == was_on:
                return []
            if self.on:
                return [replace(changes[-1], by_labels=self.said)]
            return [] if quiet else [self._cleared(state)]
        ids, self.waiting = list(dict.fromkeys(self.waiting)), []
        places = state.recent.places(ids).tolist()
        held = sorted((at, id) for at, id in zip(places, ids, strict=True) if at >= 0)
        if bundle.alarm is None or bundle.tolerable is None or not held:
            return []
        at = np.array([place for place, _ in held])
        labels = _Columns.of([state.labels.weighed(id) for _, id in held])
        costs, least, most = self._priced(at, labels, state, bundle)
        stands = 1.0 / np.maximum(labels.probability, 1.0 / max(state.counted, 1))
        alone = self._alone(at + 1 + state.counted - len(state.recent), stands)
        limit, ends = float(bundle.tolerable), bundle.tree.costs
        loss, gain = (alone * max(apart, 0.0) for apart in (limit - ends[0], ends[1] - limit))
        above: dict[str, Any] = {"limit": limit, "least": least, "most": most, "missed": loss}
        below: dict[str, Any] = {"limit": -limit, "least": -most, "most": -least, "missed": gain}
        factors = {
            False: log_factors(costs, weights=stands, **above),
            True: log_factors(-costs, weights=stands, **below),
        }
        bets = zip(labels.correct.tolist(), factors[False][STAKES // 2].tolist(), strict=True)
        self.bets = [*self.bets, *bets][-LAST:]
        alike = self._time(time, len(state.labels.given) / max(state.counted, 1))
        outcomes = list(zip(costs.tolist(), stands.tolist(), labels.correct.tolist(), strict=True))
        proven, first, found = self._proven(bundle.alarm, state), 0, list[Alarm]()
        while first < len(outcomes):
            part = factors[self.on][:, first:] / alike
            walked = cusum(part, self.evidence)
            reached = walked.evidence >= (CLEARED if self.on else proven)
            last = first + (int(reached.argmax()) if reached.any() else len(outcomes) - first - 1)
            start = int(walked.starts[last - first])
            before = [] if start else self.run
            self.run = [*before, *outcomes[first + start : last + 1]][-LAST:]
            self.evidence = np.maximum(walked.gathered[:, last - first], 0.0)
            first = last + 1
            if reached.any():
                found += self._changed(state, bundle, quiet=quiet)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**asdict(self), "evidence": self.evidence.tolist()}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> LabelAlarm:
        """The inverse of `to_dict`."""
        run = [(float(cost), float(weight), bool(right)) for cost, weight, right in record["run"]]
        bets = [(bool(right), float(bet)) for right, bet in record["bets"]]
        arrays = {"evidence": np.array(record["evidence"]), "run": run, "bets": bets}
        return cls(**{**record, **arrays})

    def _priced(
        self, at: NDArray[np.int64], labels: _Columns, state: State, bundle: Bundle
    ) -> tuple[Floats, Floats, Floats]:
        """What labelled events cost, and at least and at most whatever their outcome."""
        first = max(0, min(int(at[0]), int(at[-1]) + 1 - min(bundle.windows.lengths)))
        cells = state.recent.cell[first : int(at[-1]) + 1]
        counts = np.bincount(cells[cells >= 0], minlength=state.cells).astype(np.float64)
        rate = float(bundle.estimator.estimate(counts).rate[0])
        prices = Prices.of(bundle, rate).at(state.recent.cell[at])
        costs = np.where(labels.correct, prices[:, 1], prices[:, 0])
        return costs, prices.min(axis=1), prices.max(axis=1)

    def _alone(self, numbers: NDArray[np.int64], stands: Floats) -> Floats:
        """Events up to each label that no label stands for."""
        alone = np.zeros(len(numbers))
        limit = CREDIT * float(stands.max())
        for i, (number, events) in enumerate(zip(numbers.tolist(), stands.tolist(), strict=True)):
            gap, self.frontier = max(number - self.frontier, 0), max(number, self.frontier)
            self.ahead += events - gap
            if self.ahead < 0.0:
                alone[i], self.ahead = -self.ahead, 0.0
            self.ahead = min(self.ahead, limit)
        return alone

    def _time(self, time: float, labelled: float) -> float:
        """How many labels say as much as one, by how errors come together, without the step that they may show.

        Few labels do not tell: it is feared that errors come together as scores do, of which `time` say as much as one.
        """
        if len(self.bets) < FIRST:
            return max(time * labelled, FEW_TIME)
        right, bets = np.array(self.bets).T
        found = cusum(bets[None, :])
        end = int(found.evidence.argmax())
        start = int(found.starts[end])
        step = [start, end + 1] if end + 1 - start >= RUN else []
        parts = [part - part.mean() for part in np.split(right, step) if len(part)]
        alike = time_of_steady(np.concatenate(parts))
        return alike if math.isfinite(alike) else FEW_TIME

    def _proven(self, rule: AlarmRule, state: State) -> float:
        """The evidence that healthy streams reach half as often as false alarms are accepted, as often as labels come."""
        often = min(int(state.labels.counts.sum()) / max(state.counted, 1), 1.0)
        return max(HOLDS, math.log(max(2.0 * often / rule.per_event, 1.0)))

    def _cleared(self, state: State) -> Alarm:
        reason = "Labels no longer show a risk above the limit."
        return Alarm(state.newest, state.counted, "cleared", reason=reason, by_labels=self.said)

    def _changed(self, state: State, bundle: Bundle, *, quiet: bool) -> list[Alarm]:
        """What is to be said of a proof."""
        run, self.run, self.evidence = self.run, [], np.zeros(STAKES)
        self.on, self.said = not self.on, self.said + 1
        when = state.newest, state.counted
        if not self.on:
            return [] if quiet else [self._cleared(state)]
        total = sum(weight for _, weight, _ in run)
        risk = sum(cost * weight for cost, weight, _ in run) / total
        wrong = sum(not right for _, _, right in run)
        reason = (
            f"Labels: {wrong:,} of {len(run):,} answers are wrong, a risk of {risk:.4g} {bundle.unit}, above the limit of "
            f"{bundle.tolerable:.4g}."
        )
        return [
            Alarm(*when, "raised", risk=risk, reason=reason, read=round(total), by_labels=self.said)
        ]
