"""What labels say about a window: corrected by its own labels, or by those of the events before it.

Accuracy and risk are those of the window's own events: where every one is labelled, what was right and what it cost. Intervals
hold the chance of answers that nobody has labelled; that of a risk by scores alone, which is an expected cost, does not. Where it
matters to the cost whether an event was shifted, which labels do not say, they hold that chance as well, and the doubt about the
rate of shift, however many labels there are. They cannot hold that a stream's shifted or clean events go wrong more or less often
than those that were calibrated (`roadworthy.monitor.prices`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from roadworthy.analysis.risk.estimator import TINY
from roadworthy.monitor.events import Floats
from roadworthy.monitor.labels import (
    LEAST,
    SMALLEST,
    Audited,
    Corrected,
    Weighed,
    carried,
    difference,
    plausible,
)
from roadworthy.monitor.prices import Prices, Tariff
from roadworthy.statistics.clusters import kish_size

if TYPE_CHECKING:
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.monitor.state import State
    from roadworthy.monitor.windows import Reading

LAST = 2000
"""Labels that are carried over at most."""
RARER = 2.0
"""How many times rarer events of one shift score may be where labels were drawn, for these to speak for all of them."""
MOST = 0.5
"""The share of events that must be spoken for, for labels that were sure to come to speak for others."""
NEARLY_ALL = 0.9
"""The share of events for which labels that were drawn must stand, for others to be complaints beside them."""
LAGS = 5.0
"""So many times as many events without a label as lie between two labels, at the end of a window, mean that labels come late."""


Quantity = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Of events of these cells, right with these probabilities or right or not: a number from 0 to 1."""


def audit(bundle: Bundle, state: State, reading: Reading, *, shrink: float) -> Audited | None:
    """The window's accuracy and risk as labels correct them; None where there are too few to say anything."""
    if not reading.first:
        return None
    part = slice(len(state.recent) - reading.first, None)
    cells, marks = state.recent.cell[part], state.recent.mark[part]
    model = bundle.estimator.estimate(
        reading.counts, shrink=shrink, filled=reading.filled, confidence=bundle.confidence
    )
    right = bundle.estimator.believe(reading.counts, shrink=shrink, filled=reading.filled).right
    expected = np.where(cells >= 0, right[np.maximum(cells, 0)], float(model.accuracy[0]))
    window = _Window(bundle, state, cells, marks, expected, reading.weights, shrink)
    accuracy = window.corrected(lambda _, right: right)
    if accuracy is None or (window.own is None and model.cannot_tell[0] is not None):
        return None  # earlier labels say nothing of events that are unlike all that was calibrated
    tariff, risk = Tariff.of(bundle), float(model.risk[0])
    # Settled prices are the same at any rate.
    split = (
        0.0
        if tariff.settled
        else bundle.estimator.points(reading.counts, shrink=shrink, filled=reading.filled)[0]
    )
    prices = tariff.prices(bundle, split)
    cost = window.cost(prices, risk)
    doubt = window.without_chance(_half(model.accuracy_low, model.accuracy_high))
    wrong, answered = prices.at(cells).T
    of_cost = window.rest(cost.covered, _half(model.risk_low, model.risk_high), wrong - answered)
    if not tariff.settled:
        # Of what was shifted labels say nothing: prices have the doubt about its rate, and single events their chance.
        ends = (tariff.prices(bundle, float(rate[0])) for rate in (model.rate_low, model.rate_high))
        beyond = [window.cost(end, risk).value - cost.value for end in ends]
        cost = _with_doubt(cost, -min(*beyond, 0.0), max(*beyond, 0.0))
        of_cost = math.hypot(of_cost, window.within_outcomes(prices))
    return Audited(
        *_with_rest(accuracy, window.rest(accuracy.covered, doubt), (0.0, 1.0)),
        *_with_rest(cost, of_cost, bundle.tree.costs),
        accuracy.labels,
        accuracy.covered,
        window.own is None,
        accuracy.overstated,
    )


def _half(low: Floats, high: Floats) -> float:
    return float(high[0] - low[0]) / 2.0


def _with_rest(
    found: Corrected, rest: float, ends: tuple[float, float]
) -> tuple[float, float, float]:
    """Value, low and high, where what no label reached is as unsure as that."""
    found = _with_doubt(found, rest, rest)
    value, least, most = (_within(end, *ends) for end in (found.value, found.low, found.high))
    return value, least, most


def _with_doubt(found: Corrected, below: float, above: float) -> Corrected:
    """The same with a wider interval: to each side comes the half of another, of something else."""
    low, high = (
        math.hypot(found.value - found.low, below),
        math.hypot(found.high - found.value, above),
    )
    return replace(found, low=found.value - low, high=found.value + high)


def _within(value: float, least: float, most: float) -> float:
    return min(most, max(least, value))


@dataclass(frozen=True, eq=False)
class _Window:
    """Events of a window, and the probability of being right that the model gives each."""

    bundle: Bundle
    state: State
    cells: np.ndarray
    marks: np.ndarray
    expected: np.ndarray
    weights: np.ndarray
    shrink: float

    def corrected(self, quantity: Quantity) -> Corrected | None:
        """By labels of its own events; by the last ones where it has too few."""
        return self._carried(quantity) if self.own is None else self._corrected(quantity, self.own)

    def cost(self, prices: Prices, risk: float) -> Corrected:
        """What its events cost at these prices, where labels say anything."""
        found, (lowest, span) = self.corrected(prices.share), prices.span
        assert found is not None
        # What no label reached costs what the model says; by its cells alone it would be a little more or less.
        by_cells = float(np.average(prices.share(self.cells, self.expected), weights=self.weights))
        beside = (1.0 - found.covered) * (risk - lowest - span * by_cells) + lowest
        value, low, high = (beside + span * end for end in (found.value, found.low, found.high))
        return replace(found, value=value, low=low, high=high)

    def within_outcomes(self, prices: Prices) -> float:
        """Half of the interval that comes of what no label says: whether an event of its outcome was shifted."""
        from scipy.stats import norm

        variances = prices.variances
        found, (lowest, span) = self.corrected(variances.share), variances.span
        assert found is not None
        variance = max(lowest + span * found.value, 0.0) / (kish_size(self.weights) * self.shrink)
        return float(norm.ppf(0.5 + self.bundle.confidence / 2.0)) * math.sqrt(variance)

    @cached_property
    def own(self) -> np.ndarray | None:
        """Which of its events are labelled; None where they are too few."""
        given = self.state.labels.given
        at = np.flatnonzero(
            np.isin(self.marks, np.fromiter(given, dtype=np.uint64, count=len(given)))
        )
        return None if len(at) < LEAST else at

    def rest(self, covered: float, doubt: float, apart: Floats | float = 1.0) -> float:
        """Half of the interval that what no label reached has: the model's doubt of it, and the chance of its answers.

        Such events may be those of which the model is least sure: from half of a window on, its doubt is all theirs. Right and
        wrong answers lie so far `apart`. Earlier labels have the chance of the whole window in theirs.
        """
        doubt *= min(1.0, 2.0 * (1.0 - covered))
        if self.own is None:
            return doubt
        without = np.ones(len(self.cells), dtype=bool)
        without[self.own] = False
        share = (
            (1.0 - covered)
            * float(self.weights.sum())
            / max(float(self.weights[without].sum()), TINY)
        )
        return math.hypot(doubt, self._chance(without, min(share, 1.0), apart))

    def without_chance(self, half: float) -> float:
        """Of half an interval of the window's own accuracy, what is the model's doubt alone, where labels are of its own events."""
        if self.own is None:
            return half
        return math.sqrt(
            max(half**2 - self._chance(np.ones(len(self.cells), dtype=bool), 1.0, 1.0) ** 2, 0.0)
        )

    def _chance(self, some: np.ndarray, share: float, apart: Floats | float) -> float:
        """Half of the interval that the chance of answers makes, where it is that of a share of some events alone."""
        from scipy.stats import norm

        weights = np.where(some, self.weights, 0.0)
        events = share * kish_size(weights) if some.any() else 0.0
        right = (self.expected * events + 2.0) / (events + 4.0)
        variance = (
            share * float(weights**2 @ (right * (1.0 - right) * np.square(apart))) / self.shrink
        )
        return (
            float(norm.ppf(0.5 + self.bundle.confidence / 2.0))
            * math.sqrt(variance)
            / float(self.weights.sum())
        )

    @cached_property
    def _bins(self) -> np.ndarray:
        return np.where(
            self.cells >= 0, self.bundle.calibration.shift_bin(np.maximum(self.cells, 0)), -1
        )

    def _corrected(self, quantity: Quantity, at: np.ndarray) -> Corrected:
        """By the labels of the window's own events."""
        labels, confidence = self.state.labels, self.bundle.confidence
        _, correct, probability = _columns(
            [labels.weighed(mark) for mark in self.marks[at].tolist()]
        )
        expected, found = quantity(self.cells, self.expected), quantity(self.cells[at], correct)
        upto, weights = _labelled_upto(at, len(self.marks)), self.weights
        labelled = difference(
            expected[:upto], at, found, probability, confidence=confidence, weights=weights[:upto]
        )
        if upto == len(self.marks):
            return labelled
        reached = _reached(self._bins[upto:], self._bins[at], probability)
        return _on_to(labelled, expected, upto, found, weights, reached, confidence)

    def _carried(self, quantity: Quantity) -> Corrected | None:
        """By the last labels: residuals against what the model expects of events like them, weighed by how they were drawn."""
        bundle, state = self.bundle, self.state
        labels = _drawn(state)
        if len(labels) < LEAST:
            return None
        where, correct, probability = _columns(labels)
        probability, overstated = plausible(probability, max(state.counted, len(labels)))
        stands = 1.0 / probability
        counts = np.bincount(
            where, stands * stands.sum() / (stands**2).sum(), minlength=state.cells
        )
        told = quantity(where, bundle.estimator.believe(counts).right[where])
        found = carried(
            quantity(self.cells, self.expected),
            _reached(self._bins, bundle.calibration.shift_bin(where), probability),
            quantity(where, correct) - told,
            probability,
            confidence=bundle.confidence,
            weights=self.weights,
            told=told,
        )
        return replace(
            _with_chance(found, kish_size(self.weights), bundle.confidence), overstated=overstated
        )


def _labelled_upto(at: np.ndarray, events: int) -> int:
    """Up to which event of a window labels have come: to the last, unless many more are without one than lie between others."""
    gap = (at[-1] + 1) / len(at)
    return events if events - 1 - at[-1] <= LAGS * gap else min(events, math.ceil(at[-1] + gap))


def _on_to(
    found: Corrected,
    expected: np.ndarray,
    upto: int,
    answers: np.ndarray,
    weights: np.ndarray,
    reached: np.ndarray,
    confidence: float,
) -> Corrected:
    """Events that have no label yet are taken to differ from the model as labelled ones like them do, up to the chance of both."""
    from scipy.stats import t

    before, after = float(weights[:upto].sum()), float(weights[upto:].sum())
    rest, reach = after / (before + after), float(np.average(reached, weights=weights[upto:]))
    share = 1.0 - rest + rest * reach
    beyond = found.value - float(np.average(expected[:upto], weights=weights[:upto]))
    value = float(np.average(expected, weights=weights)) + share * beyond
    labels, right = len(answers), (float(answers.sum()) + 2.0) / (len(answers) + 4.0)
    chance = right * (1.0 - right) * (1.0 / labels + 1.0 / (len(expected) - upto))
    more = rest * reach * float(t.ppf(0.5 + confidence / 2.0, labels - 1)) * math.sqrt(chance)
    below, above = (
        math.hypot(share * (end - found.value), more) for end in (found.low, found.high)
    )
    covered = (1.0 - rest) * found.covered + rest * reach
    return replace(found, value=value, low=value - below, high=value + above, covered=covered)


def _reached(bins: np.ndarray, labelled: np.ndarray, probability: np.ndarray) -> np.ndarray:
    """How far labels speak for events that they were not drawn from: less where such are much rarer among those that were."""
    size = int(max(bins.max(initial=0), labelled.max(initial=0))) + 1
    stands = 1.0 / np.maximum(probability, SMALLEST)
    drawn = np.bincount(labelled[labelled >= 0], stands[labelled >= 0], minlength=size)
    here = np.bincount(bins[bins >= 0], minlength=size)
    alike = RARER * (drawn / max(drawn.sum(), TINY)) / np.maximum(here / max(here.sum(), 1), TINY)
    result: np.ndarray = np.where(bins >= 0, np.minimum(alike, 1.0)[np.maximum(bins, 0)], 0.0)
    return result


def _drawn(state: State) -> list[Weighed]:
    """The last labels that speak for other events than their own.

    Those that were drawn, by the queue or with a probability below 1, do. One that was sure to come speaks for its own event: all
    do together where most events have one, or are spoken for; of complaints, beside a sample too, nothing follows for the rest.
    """
    keys = state.labels.latest(LAST)
    labels = [(mark, state.labels.weighed(mark)) for _, mark in keys]
    scored = [(mark, label) for mark, label in labels if label.cell >= 0]
    if not scored:
        return []
    events = state.counted_between(keys[0][0], keys[-1][0])
    drawn = [
        label for mark, label in scored if mark in state.labels.asked or label.probability < 1.0
    ]
    alone = (
        sum(min(1.0 / label.probability, events / LEAST) for label in drawn) >= NEARLY_ALL * events
    )
    spoken = sum(1.0 / label.probability for _, label in labels)
    return drawn if alone or spoken < MOST * events else [label for _, label in scored]


def _with_chance(found: Corrected, events: float, confidence: float) -> Corrected:
    """The same of the window's own answers, which are right by chance more or less often than events like them."""
    from scipy.stats import norm

    right = (_within(found.value, 0.0, 1.0) * events + 2.0) / (events + 4.0)
    chance = float(norm.ppf(0.5 + confidence / 2.0)) * math.sqrt(right * (1.0 - right) / events)
    return _with_doubt(found, chance, chance)


def _columns(labels: list[Weighed]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cells, answers and probabilities of labels."""
    _, cells, correct, probability = zip(*labels, strict=True)
    return np.array(cells), np.array(correct, dtype=bool), np.array(probability, dtype=np.float64)
