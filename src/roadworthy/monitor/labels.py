"""Labels that come later: which events to ask for, how labels correct an estimate, and their alarm.

*Questions* are drawn by priority sampling, *the audit* corrects a window by the difference estimator
(`roadworthy.statistics.survey`). Asking again raises the probability of all that were asked before,
so a label of the queue has the probability of the latest asking.

*The alarm by labels* bets on a risk above the tolerable as labels come in
(`roadworthy.statistics.sequential`). A label stands for 1 / p events and costs what its outcome
costs; events that no label stands for are taken to cost the least there is. It is raised by evidence
that healthy streams reach half as often as false alarms are accepted, and cleared by evidence of the
opposite, for which events that no label stands for cost the most there is.

>>> labels = Labels()
>>> [(place, p)] = ask_next(labels, ["a", "b", "c"], np.array([0.5, 0.99, 0.9]), 1)
>>> place, round(p, 3)
(0, 0.739)
>>> labels.add_all([("a", LabelledEvent(1.0, 0, True, None))])
>>> round(labels.weighed("a").probability, 3), labels.counted
(0.739, 1)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.refusal import alarmed_cells, shares_of_kinds
from roadworthy.analysis.risk.tree import expectation
from roadworthy.monitor.alarm import Alarm
from roadworthy.monitor.events import EventError, Floats, Id, id_order, plain_id
from roadworthy.monitor.windows import Reading
from roadworthy.statistics.autocorrelation import FIRST, steady_time
from roadworthy.statistics.sequential import STAKES, cusum, log_factors
from roadworthy.statistics.survey import (
    Corrected,
    added_items,
    difference_estimate,
    priority_sample,
)

if TYPE_CHECKING:
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.monitor.state import State

KEPT, SLACK = 20_000, 1000
"""Labels that are kept one by one; how many more there may be before the oldest are removed."""
FLOOR = 0.2
"""The least weight of an event in the queue, as a share of the greatest."""
LEAST = 5
"""Labels within a window from which on it is corrected."""
UNSEEN = 0.5
"""Rows added to each outcome of the calibration: what was not seen is not impossible."""
HOLDS, CLEARED = math.log(200.0), math.log(2000.0)
"""The least evidence that raises the alarm; the evidence of a tolerable risk that clears it."""
CREDIT = 20.0
"""Labels drawn at random come now more, now less often: they may be so many labels' events ahead."""
LAST = 2000
"""Labels from which their autocorrelation is read."""
FEW_TIME, RUN = 8.0, 64
"""Labels that say as much as one if there are few; labels from which a run of errors is a change."""
TINY = 1e-12

Answer = tuple[Id, bool, float | None]
"""Id, whether it was right, and the probability of being labelled if it is known."""
Figures = tuple[float, float, float]
"""A value and the ends of its interval."""


class LabelledEvent(NamedTuple):
    """What is known of a labelled event."""

    time: float
    cell: int
    correct: bool
    probability: float | None
    """Of being labelled, as it was given; None: that with which the event was asked for, else 1."""


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


@dataclass
class Labels:
    """Labels and open questions by the id of their event."""

    given: dict[Id, LabelledEvent] = field(default_factory=dict)
    asked: dict[Id, float] = field(default_factory=dict)
    counted: int = 0
    """All labels there ever were; of two for the same event one counts."""

    def add_all(self, labels: Iterable[tuple[Id, LabelledEvent]]) -> None:
        """Count labels; a second one for the same event takes the place of the first."""
        for id, label in labels:
            self.counted += self.given.pop(id, None) is None
            self.given[id] = label
        self._cut()

    def ask(self, id: Id, probability: float) -> None:
        """Remember that an event is asked for, or might have been with this probability."""
        self.asked[id] = max(probability, self.asked.get(id, 0.0))

    def merge(self, other: Labels) -> None:
        """Take over another's labels; if two differ, the wrong answer stands."""
        self.counted += other.counted - len(self.given.keys() & other.given.keys())
        for id, label in other.given.items():
            if id not in self.given or self.given[id].correct:
                self.given[id] = label
        for id, probability in other.asked.items():
            self.ask(id, probability)
        self._cut()

    def weighed(self, id: Id) -> LabelledEvent:
        """The label of an event with the probability that holds now."""
        label = self.given[id]
        if label.probability is not None:
            return label
        return label._replace(probability=self.asked.get(id, 1.0))

    def latest(self, number: int) -> list[Id]:
        """The ids of the latest events with labels, by (time, id)."""
        order = sorted(self.given, key=lambda id: (self.given[id].time, id_order(id)))
        return order[-number:]

    def _cut(self) -> None:
        """Remove the oldest, many at a time; with a label goes the question that it answered."""
        if len(self.given) > KEPT + SLACK:
            kept = self.latest(KEPT)
            for id in self.given.keys() - set(kept):
                self.asked.pop(id, None)
            self.given = {id: self.given[id] for id in kept}
        if len(self.asked) > 2 * (KEPT + SLACK):
            # Open questions have no time; the first asked go first.
            for id in [id for id in self.asked if id not in self.given][:-KEPT]:
                del self.asked[id]


def take(answers: Sequence[Answer], state: State, alarm: LabelAlarm) -> None:
    """Count answers as labels of their events: all, or none if one cannot be counted."""
    recent, names = state.recent, [plain_id(answer[0]) for answer in answers]
    places, found = recent.places(names).tolist(), []
    for (_, correct, p), id, at in zip(answers, names, places, strict=True):
        if at < 0:
            raise EventError(f"Event {id!r} is not among the last {len(recent):,} events.")
        if p is not None and not 0.0 < p <= 1.0:
            raise EventError(
                f"The label of {id!r} has the probability {p}. Give one above 0 and at most 1."
            )
        if correct not in (0, 1):
            raise EventError(f"The label of {id!r} is {correct!r}. Give True or False.")
        known = float(recent.time[at]), int(recent.cell[at]), bool(correct)
        found.append((id, LabelledEvent(*known, None if p is None else float(p))))
    before = state.labels.given
    alarm.anew |= any(id in before and before[id].correct != label.correct for id, label in found)
    state.labels.add_all(found)
    alarm.waiting += names


def ask_next(labels: Labels, ids: Sequence[Id], right: Floats, n: int) -> list[tuple[int, float]]:
    """Places and probabilities of the n events to ask for next, by their chances of being right."""
    if n < 1:
        raise ValueError(f"Ask for at least one event, found {n}.")
    spread = np.sqrt(np.clip(right * (1.0 - right), 0.0, None))
    weights = np.maximum(spread, FLOOR * max(float(spread.max(initial=0.0)), 1e-6))
    uniform = np.array([_uniform(id) for id in ids])
    fresh = np.array([id not in labels.asked and id not in labels.given for id in ids], dtype=bool)
    chosen, probability = priority_sample(weights, uniform, n, among=fresh)
    again = [i for i, id in enumerate(ids) if id in labels.asked]
    for i in (*again, *chosen.tolist()):
        labels.ask(ids[i], float(probability[i]))
    return [(i, float(probability[i])) for i in chosen.tolist()]


def _uniform(id: Id) -> float:
    """A number in (0, 1] that belongs to an id for good, on every machine."""
    digest = blake2b(f"{type(id).__name__} {id}".encode("utf-8", "surrogatepass"), digest_size=8)
    return (int.from_bytes(digest.digest(), "little") + 1.0) / 2.0**64


@dataclass(frozen=True, eq=False)
class Prices:
    """What one event costs given its verdict and its outcome, at a rate of shift.

    A label says whether an answer was right, not whether its event was shifted. How likely it was
    follows by Bayes from the rate, and from how often clean and shifted rows of the calibration
    (kinds even) have such a verdict and outcome.
    """

    detected: NDArray[np.bool_]
    """For each cell, whether the deployed supervisor raises its alarm."""
    table: Floats
    """(undetected, detected) x (wrong, right)."""

    @classmethod
    def of(cls, bundle: Bundle, rate: float) -> Prices:
        """The tree's, by the calibration's counts."""
        clean, *shifted = shares_of_kinds(bundle.calibration, added=UNSEEN)
        # (clean, shifted) x (undetected, detected) x (wrong, right)
        likely = np.stack([clean, np.mean(shifted, axis=0)]).transpose(0, 2, 1)[..., ::-1]
        likely = likely * np.array([1.0 - rate, rate])[:, None, None] + TINY
        shift, alarm, right = np.indices((2, 2, 2)).reshape(3, -1).astype(np.float64)
        streamed = {"p_shift": shift, "tpr": alarm, "tnr": 1.0 - alarm}
        known: dict[str, Any] = {**bundle.estimator.constants, **streamed}
        given = {
            name: right if name.startswith("accuracy") else np.broadcast_to(known.get(name, 0.0), 8)
            for name in bundle.tree.parameters
        }
        costs = np.broadcast_to(expectation(bundle.tree, given), 8).reshape(2, 2, 2)
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
        return self.table[detected.astype(np.intp)]

    def share(self, cells: np.ndarray, right: np.ndarray) -> Floats:
        """Where between lowest and highest the cost lies of events right with these probabilities."""
        lowest, span = self.span
        wrong, answered = self.at(cells).T
        return (wrong + right * (answered - wrong) - lowest) / span


def audit(bundle: Bundle, state: State, reading: Reading, *, shrink: float) -> Audited | None:
    """The window's accuracy and risk as labels correct them; None if there are too few labels."""
    part = len(state.recent) - reading.first
    cells, ids = state.recent.cell[part:], state.recent.ids_from(part)
    given = state.labels.given
    at = np.array([i for i, id in enumerate(ids) if id in given] if given else [], dtype=np.int64)
    if len(at) < LEAST:
        return None
    confidence, weights = bundle.confidence, reading.weights
    model = bundle.estimator.estimate(
        reading.counts, shrink=shrink, filled=reading.filled, confidence=confidence
    )
    believed = bundle.estimator.believe(reading.counts, filled=reading.filled)
    right = np.where(cells >= 0, believed[np.maximum(cells, 0)], float(model.accuracy[0]))
    labels = [state.labels.weighed(ids[i]) for i in at.tolist()]
    correct = np.array([label.correct for label in labels])
    probability = np.array([label.probability for label in labels], dtype=np.float64)

    def corrected(quantity: Callable[..., Floats]) -> Corrected:
        """A quantity from 0 to 1 of (cells, right or not)."""
        expected, seen = quantity(cells, right), quantity(cells[at], correct)
        found = difference_estimate(
            expected, at, seen, probability, confidence=confidence, weights=weights
        )
        # Answers that no label stands for have their chance.
        apart = quantity(cells, np.ones(1)) - quantity(cells, np.zeros(1))
        chance = np.clip(right, 0.02, 0.98)
        rest = np.ones(len(cells), dtype=bool)
        rest[at] = False
        total, unlabelled = float(weights.sum()), float(weights[rest].sum())
        share = min((1.0 - found.covered) * total / max(unlabelled, TINY), 1.0)
        spread = float((weights**2 * chance * (1.0 - chance) * apart**2)[rest].sum())
        half = math.sqrt(added_items(confidence) * share * spread) / total
        return found.wider(half, half)

    def within(found: Corrected, width: Floats, ends: tuple[float, float]) -> Figures:
        """What no label stands for has the model's doubt, from half of a window on all of it."""
        doubt = min(1.0, 2.0 * (1.0 - found.covered)) * float(width[0]) / 2.0
        wide = found.wider(doubt, doubt)
        value, low, high = np.clip((wide.value, wide.low, wide.high), *ends).tolist()
        return value, low, high

    accuracy = corrected(lambda cells, right: np.broadcast_to(right, cells.shape))
    # Whether a labelled event was shifted is known by the rate alone: its doubt is in the prices.
    rates = (model.rate, model.rate_low, model.rate_high)
    prices = [Prices.of(bundle, float(rate[0])) for rate in rates]
    cost, *others = (corrected(one.share).scaled(*one.span) for one in prices)
    beyond = [other.value - cost.value for other in others]
    cost = cost.wider(-min(*beyond, 0.0), max(*beyond, 0.0))
    right_share = within(accuracy, model.accuracy_high - model.accuracy_low, (0.0, 1.0))
    risk = within(cost, model.risk_high - model.risk_low, bundle.tree.costs)
    return Audited(*right_share, *risk, len(at), accuracy.covered)


@dataclass
class LabelAlarm:
    """Whether labels prove a risk above the tolerable; all fields are plain JSON values.

    Each label is judged once, in the order in which calls bring them. After a correction, and after
    a merge, all labels of events that are held are judged `anew`.
    """

    on: bool = False
    said: int = 0
    """How often it was raised or cleared."""
    anew: bool = False
    waiting: list[Id] = field(default_factory=list)
    """Events whose labels are not judged yet."""
    evidence: list[float] = field(default_factory=lambda: [0.0] * STAKES)
    """What each stake has gathered: on a risk above the tolerable, or below it if the alarm is on."""
    ahead: float = 0.0
    """For how many more events than there were the labels stand."""
    frontier: int = 0
    """The number of the last event that has a label."""
    bets: list[Sequence[float]] = field(default_factory=list)
    """Of the last labels: whether it was right, and what a bet on it became."""
    run: list[Sequence[float]] = field(default_factory=list)
    """Cost, weight and outcome of the last labels since there was no evidence."""

    def look(self, state: State, bundle: Bundle, *, time: float) -> list[Alarm]:
        """Judge the labels that wait, of a stream of which `time` events say as much as one."""
        if not self.anew:
            return self._judge(state, bundle, time)
        was_on, said = self.on, self.said
        vars(self).update(vars(LabelAlarm(said=said, waiting=state.labels.latest(KEPT))))
        changes = self._judge(state, bundle, time)
        self.said = said + (self.on != was_on)
        if self.on == was_on:
            return []
        return [replace(changes[-1], by_labels=self.said) if self.on else self._cleared(state)]

    def _judge(self, state: State, bundle: Bundle, time: float) -> list[Alarm]:
        ids, self.waiting = list(dict.fromkeys(self.waiting)), []
        places = state.recent.places(ids).tolist()
        held = sorted((at, id) for at, id in zip(places, ids, strict=True) if at >= 0)
        if bundle.alarm is None or not held:
            return []
        outcomes, factors = self._outcomes(held, state, bundle)
        bets = factors[False][STAKES // 2].tolist()
        self.bets += [(right, bet) for (_, _, right), bet in zip(outcomes, bets, strict=True)]
        del self.bets[:-LAST]
        alike = self._time(time, len(state.labels.given) / max(state.counted, 1))
        # Healthy streams reach this half as often as false alarms are accepted.
        often = min(state.labels.counted / max(state.counted, 1), 1.0)
        proven = max(HOLDS, math.log(max(2.0 * often / bundle.alarm.per_event, 1.0)))
        first, found = 0, list[Alarm]()
        while first < len(outcomes):
            walked = cusum(factors[self.on][:, first:] / alike, self.evidence)
            reached = walked.evidence >= (CLEARED if self.on else proven)
            last = int(reached.argmax()) if reached.any() else len(reached) - 1
            start = int(walked.starts[last])
            before = [] if start else self.run
            self.run = [*before, *outcomes[first + start : first + last + 1]][-LAST:]
            self.evidence = np.maximum(walked.gathered[:, last], 0.0).tolist()
            first += last + 1
            if reached.any():
                found.append(self._changed(state, bundle))
        return found

    def _outcomes(
        self, held: Sequence[tuple[int, Id]], state: State, bundle: Bundle
    ) -> tuple[list[tuple[float, float, bool]], dict[bool, Floats]]:
        """Cost, weight and outcome of labelled events, and what becomes of each stake on them.

        Stakes are on a risk above the tolerable, and (True) below it.
        """
        assert bundle.tolerable is not None
        at = np.array([place for place, _ in held])
        labels = [state.labels.weighed(id) for _, id in held]
        correct = np.array([label.correct for label in labels])
        probability = np.array([label.probability for label in labels], dtype=np.float64)
        # The rate of shift around these events says what they cost.
        first = max(0, min(int(at[0]), int(at[-1]) + 1 - min(bundle.windows.lengths)))
        cells = state.recent.cell[first : int(at[-1]) + 1]
        counts = np.bincount(cells[cells >= 0], minlength=state.cells)
        rate = float(bundle.estimator.estimate(counts).rate[0])
        prices = Prices.of(bundle, rate).at(state.recent.cell[at])
        costs = np.where(correct, prices[:, 1], prices[:, 0])
        stands = 1.0 / np.maximum(probability, 1.0 / max(state.counted, 1))
        alone = self._alone(at + 1 + state.gone, stands)
        limit, (lowest, highest) = float(bundle.tolerable), bundle.tree.costs
        factors = {}
        for sign, missed in ((1, limit - lowest), (-1, highest - limit)):
            least, most = np.sort(sign * prices, axis=1).T
            bounds = {"limit": sign * limit, "least": least, "most": most}
            unseen = alone * max(missed, 0.0)
            factors[sign < 0] = log_factors(sign * costs, **bounds, weights=stands, missed=unseen)
        columns = (costs.tolist(), stands.tolist(), correct.tolist())
        return list(zip(*columns, strict=True)), factors

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
        """How many labels say as much as one, by how errors come together, without a step in them.

        If there are few labels, it is feared that errors come together as scores do.
        """
        if len(self.bets) < FIRST:
            return max(time * labelled, FEW_TIME)
        right, bets = np.array(self.bets).T
        found = cusum(bets[None, :])
        end = int(found.evidence.argmax())
        start = int(found.starts[end])
        step = [start, end + 1] if end + 1 - start >= RUN else []
        parts = [part - part.mean() for part in np.split(right, step) if len(part)]
        alike = steady_time(np.concatenate(parts))
        return alike if math.isfinite(alike) else FEW_TIME

    def _cleared(self, state: State) -> Alarm:
        reason = "Labels no longer show a risk above the limit."
        return Alarm(state.newest, state.counted, "cleared", reason=reason, by_labels=self.said)

    def _changed(self, state: State, bundle: Bundle) -> Alarm:
        """What is to be said of a proof."""
        run, self.run, self.evidence = self.run, [], [0.0] * STAKES
        self.on, self.said = not self.on, self.said + 1
        if not self.on:
            return self._cleared(state)
        total = sum(weight for _, weight, _ in run)
        risk = sum(cost * weight for cost, weight, _ in run) / total
        wrong = sum(not right for _, _, right in run)
        reason = (
            f"Labels: {wrong:,} of {len(run):,} answers are wrong, a risk of {risk:.4g} "
            f"{bundle.unit}, above the limit of {bundle.tolerable:.4g}."
        )
        when = state.newest, state.counted, "raised"
        return Alarm(*when, risk=risk, reason=reason, read=round(total), by_labels=self.said)
