"""What labels say about a window: corrected by its own labels, or by those of the events before it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.analysis.risk.sums import TINY
from roadworthy.monitor.labels import LEAST, Audited, Corrected, Weighed, carried, difference, plausible
from roadworthy.statistics.clusters import kish_size

if TYPE_CHECKING:
    from roadworthy.analysis.risk.estimates import Estimates
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.monitor.state import State
    from roadworthy.monitor.windows import Reading

LAST = 2000
"""Labels that are carried over at most."""
RARER = 2.0
"""How many times rarer events of one shift score may be where labels were drawn, for these to speak for all of them."""
LAGS = 5.0
"""So many times as many events without a label as lie between two labels, at the end of a window, mean that labels come late."""


def audit(bundle: Bundle, state: State, reading: Reading, *, shrink: float) -> Audited | None:
    """The window's accuracy and risk as labels correct them; None where there are too few to say anything."""
    if not reading.first:
        return None
    part = slice(len(state.recent) - reading.first, None)
    cells, marks = state.recent.cell[part], state.recent.mark[part]
    model = bundle.estimator.estimate(reading.counts, shrink=shrink, confidence=bundle.confidence)
    right = bundle.estimator.believe(reading.counts, shrink=shrink).right
    expected = np.where(cells >= 0, right[np.maximum(cells, 0)], float(model.accuracy[0]))
    bins = np.where(cells >= 0, bundle.calibration.shift_bin(np.maximum(cells, 0)), -1)
    own = _own(state, marks, bins, expected, reading.weights, bundle.confidence)
    found = own or _carried(bundle, state, bins, expected, reading.weights)
    return None if found is None else _audited(bundle, model, found, is_carried=own is None)


def _audited(bundle: Bundle, model: Estimates, found: Corrected, *, is_carried: bool) -> Audited:
    """What no label reached is the model's, with the model's interval; the risk follows the accuracy.

    Such events may be those of which the model is least sure: from half of a window on, its doubt is all theirs.
    """
    doubt = (float(model.accuracy_high[0]) - float(model.accuracy_low[0])) / 2.0
    rest = min(1.0, 2.0 * (1.0 - found.covered)) * doubt
    below, above = (math.hypot(end - found.value, rest) for end in (found.low, found.high))
    low, at, high = (_within(found.value + by, 0.0, 1.0) for by in (-below, 0.0, above))
    risk, steep = float(model.risk[0]), slope(bundle, float(model.rate[0]))
    least, cost, most = sorted(
        _within(risk + steep * (accuracy - float(model.accuracy[0])), *bundle.tree.costs)
        for accuracy in (low, at, high)
    )
    return Audited(at, low, high, cost, least, most, found.labels, found.covered, is_carried, found.overstated)


def _within(value: float, least: float, most: float) -> float:
    return min(most, max(least, value))


def _own(
    state: State,
    marks: np.ndarray,
    bins: np.ndarray,
    expected: np.ndarray,
    weights: np.ndarray,
    confidence: float,
) -> Corrected | None:
    """By the labels of the window's own events."""
    given = state.labels.given
    at = np.flatnonzero(np.isin(marks, np.fromiter(given, dtype=np.uint64, count=len(given))))
    if len(at) < LEAST:
        return None
    _, correct, probability = _columns([state.labels.weighed(mark) for mark in marks[at].tolist()])
    upto = _labelled_upto(at, len(marks))
    found = difference(expected[:upto], at, correct, probability, confidence=confidence, weights=weights[:upto])
    if upto == len(marks):
        return found
    return _on_to(found, expected, upto, correct, weights, _reached(bins[upto:], bins[at], probability), confidence)


def _labelled_upto(at: np.ndarray, events: int) -> int:
    """Up to which event of a window labels have come: to the last, unless many more are without one than lie between others."""
    gap = (at[-1] + 1) / len(at)
    return events if events - 1 - at[-1] <= LAGS * gap else min(events, math.ceil(at[-1] + gap))


def _on_to(
    found: Corrected,
    expected: np.ndarray,
    upto: int,
    correct: np.ndarray,
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
    labels, right = len(correct), (float(correct.sum()) + 2.0) / (len(correct) + 4.0)
    chance = right * (1.0 - right) * (1.0 / labels + 1.0 / (len(expected) - upto))
    more = rest * reach * float(t.ppf(0.5 + confidence / 2.0, labels - 1)) * math.sqrt(chance)
    below, above = (math.hypot(share * (end - found.value), more) for end in (found.low, found.high))
    covered = (1.0 - rest) * found.covered + rest * reach
    return replace(found, value=value, low=value - below, high=value + above, covered=covered)


def _reached(bins: np.ndarray, labelled: np.ndarray, probability: np.ndarray) -> np.ndarray:
    """How far labels speak for events that they were not drawn from: less where such are much rarer among those that were."""
    size = int(max(bins.max(initial=0), labelled.max(initial=0))) + 1
    drawn = np.bincount(labelled[labelled >= 0], 1.0 / probability[labelled >= 0], minlength=size)
    here = np.bincount(bins[bins >= 0], minlength=size)
    alike = RARER * (drawn / max(drawn.sum(), TINY)) / np.maximum(here / max(here.sum(), 1), TINY)
    result: np.ndarray = np.where(bins >= 0, np.minimum(alike, 1.0)[np.maximum(bins, 0)], 0.0)
    return result


def _carried(
    bundle: Bundle, state: State, bins: np.ndarray, expected: np.ndarray, weights: np.ndarray
) -> Corrected | None:
    """By the last labels: residuals against what the model expects of events like them, weighed by how they were drawn."""
    labels = [label for label in state.labels.last(LAST) if label.cell >= 0]
    if len(labels) < LEAST:
        return None
    where, correct, probability = _columns(labels)
    probability, overstated = plausible(probability, max(state.counted, len(labels)))
    stands = 1.0 / probability
    counts = np.bincount(where, stands * stands.sum() / (stands**2).sum(), minlength=state.cells)
    told = bundle.estimator.believe(counts).right[where]
    reached = _reached(bins, bundle.calibration.shift_bin(where), probability)
    found = carried(
        expected, reached, correct - told, probability, confidence=bundle.confidence, weights=weights, told=told
    )
    return replace(_with_chance(found, kish_size(weights), bundle.confidence), overstated=overstated)


def _with_chance(found: Corrected, events: float, confidence: float) -> Corrected:
    """The same of the window's own answers, which are right by chance more or less often than events like them."""
    from scipy.stats import norm

    right = (_within(found.value, 0.0, 1.0) * events + 2.0) / (events + 4.0)
    chance = float(norm.ppf(0.5 + confidence / 2.0)) * math.sqrt(right * (1.0 - right) / events)
    below, above = (math.hypot(end - found.value, chance) for end in (found.low, found.high))
    return replace(found, low=found.value - below, high=found.value + above)


def _columns(labels: list[Weighed]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cells, answers and probabilities of labels."""
    _, cells, correct, probability = zip(*labels, strict=True)
    return np.array(cells), np.array(correct, dtype=bool), np.array(probability, dtype=np.float64)


def slope(bundle: Bundle, rate: float) -> float:
    """How the risk changes with the accuracy, all conditional accuracies moving together: the tree is linear in them."""
    from roadworthy.analysis.risk.tree import expectation

    separation = bundle.estimator.separation
    known: dict[str, Any] = {"p_shift": np.array([rate]), "tpr": separation.tpr, "tnr": separation.tnr}
    for name, value in bundle.constants.items():
        known[name] = value[0] / value[1] if isinstance(value, tuple) else float(value)
    ends = []
    for accuracy in (0.0, 1.0):
        given = {name: known.get(name, accuracy) for name in bundle.tree.parameters}
        ends.append(float(np.asarray(expectation(bundle.tree, given)).item()))
    return ends[1] - ends[0]
