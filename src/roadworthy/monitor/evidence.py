"""What labels prove: evidence that the risk is above the tolerable, gathered label by label and looked at after every one.

Each label bets on the risk being above the tolerable. It stands for 1 / p events, and gains what their mean cost is above the
tolerable, by the difference estimator: what the model expects of events there, corrected by what this label says beyond it. Events
that no label stands for are the model's, but never more than tolerable: what the scores say alone is the other alarm's. A stake of
which a loss takes nine tenths at most has, as long as the risk is tolerable, an expected factor of 1 at most; so the evidence
of the best start so far (a CUSUM of the logarithms) reaches 1 / a less than once in 1 / a labels, however often one looks
(Shin, Ramdas and Rinaldo, "E-detectors", 2023). Several stakes are laid at once, and their mean counts. Once it is proven, bets on
the opposite are gathered alike, and only they take it back: labels that stop coming prove nothing.

Of labels whose errors come together, `time` of them say as much as one, and logarithms count for so much less.

>>> wrong = np.arange(60) % 2 == 0
>>> half = Stretch(np.arange(60), ~wrong, np.ones(60), np.full(60, 0.95))
>>> gains = gains_of(half, Costs(risk=0.05, accuracy=0.95, slope=-1.0, tolerable=0.1))
>>> walk(gains, time=1.0, raised=math.log(1e5), on=False).on
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadworthy.monitor.autocorrelation import FIRST, integrated_time
from roadworthy.monitor.events import Floats

STAKES = np.array([0.9, 0.45, 0.2, 0.08, 0.03])[:, None]
"""Of what is at hand, laid on each label that may lose most."""
CLEARED = math.log(200.0)
"""The evidence of a tolerable risk that clears what was proven."""
BLOCK = 64
"""Labels among which it is counted how many events no label stands for."""
FEW_TIME = 2.0
"""Labels that say as much as one, at least, where there are too few to tell."""


@dataclass(frozen=True, eq=False)
class Stretch:
    """Labels in the order of their events, and all the events among which they lie, up to the last that has one."""

    at: NDArray[np.int64]
    """Places of the labelled ones among the events."""
    correct: NDArray[np.bool_]
    stands: Floats
    """For how many events each label stands."""
    expected: Floats
    """The probability of being right of every event, by the model."""

    @property
    def residual(self) -> Floats:
        """What labels say beyond the model."""
        return self.correct - self.expected[self.at]


class Costs(NamedTuple):
    """What the model says of all these events, and how the risk changes with the accuracy."""

    risk: float
    accuracy: float
    slope: float
    tolerable: float


class Gains(NamedTuple):
    """Of each label, what its events cost above the tolerable; and what they would, had it been right, or wrong."""

    found: Floats
    if_right: Floats
    if_wrong: Floats


class Walked(NamedTuple):
    """Whether the risk is proven to be above the tolerable by the last label, and the label from which on the proof goes."""

    on: bool
    first: int


def gains_of(stretch: Stretch, costs: Costs) -> Gains:
    """What every label gains."""
    n = len(stretch.at)
    block = np.minimum(np.arange(n) // BLOCK, max(n // BLOCK, 1) - 1)
    last = stretch.at[np.flatnonzero(np.diff(block, append=block[-1] + 1))]
    ends = np.concatenate([[0], last + 1])
    events = np.maximum(np.diff(ends), 1)
    upto = np.concatenate([[0.0], np.cumsum(stretch.expected)])
    accuracy = (upto[ends[1:]] - upto[ends[:-1]]) / events
    above = costs.risk + costs.slope * (accuracy - costs.accuracy) - costs.tolerable
    labels = np.bincount(block)
    alone = np.maximum(events - np.bincount(block, stretch.stands), 0.0) / labels
    rest = (alone * np.minimum(above, 0.0))[block]
    expected = stretch.expected[stretch.at]
    right, wrong = (
        stretch.stands * (above[block] + costs.slope * (outcome - expected)) + rest for outcome in (1.0, 0.0)
    )
    return Gains(np.where(stretch.correct, right, wrong), right, wrong)


def walk(gains: Gains, *, time: float, raised: float, on: bool, cleared: float = CLEARED) -> Walked:
    """From label to label: proven where the evidence reaches `raised`, taken back where that of the opposite reaches `cleared`."""
    least, most = np.minimum(gains.if_right, gains.if_wrong), np.maximum(gains.if_right, gains.if_wrong)
    up, down = _bets(gains.found, -float(least.min())) / time, _bets(-gains.found, float(most.max())) / time
    at, first = 0, 0
    while at < up.shape[1]:
        evidence, starts = _gathered((down if on else up)[:, at:])
        reached = evidence >= (cleared if on else raised)
        if not reached.any():
            break
        end = int(reached.argmax())
        on, first, at = not on, at + int(starts[end]), at + end + 1
    return Walked(on, first)


def time_of(stretch: Stretch, gains: Gains, *, held: float) -> float:
    """How many labels say as much as one: by their residuals, without the step that they may show, and by events that are alike.

    Of `held` events in a row the scores say as much as of one; of labels, by as many fewer as events lie between them. A single
    run of errors shows no correlation, once it is taken for a step: then the scores alone tell of it.
    """
    residual, spread = stretch.residual, max(1.0, held * len(stretch.at) / max(len(stretch.expected), 1))
    if len(residual) < FIRST:
        return max(spread, FEW_TIME)
    least = np.minimum(gains.if_right, gains.if_wrong)
    evidence, starts = _gathered(_bets(gains.found, -float(least.min())))
    end = int(evidence.argmax())
    parts = np.split(residual, [int(starts[end]), end + 1])
    found = integrated_time(np.concatenate([part - part.mean() for part in parts if len(part)]), sure=True)
    return max(spread, found if math.isfinite(found) else FEW_TIME)


def _bets(gains: Floats, loss: float) -> Floats:
    """Stakes x labels: the logarithms of what every stake becomes."""
    result: Floats = np.log1p(STAKES / max(loss, 1e-12) * gains)
    return result


def _gathered(logs: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """After each label: the evidence of the best start so far, over all stakes, and that start of the stake that gained most."""
    total = np.cumsum(logs, axis=1)
    before = np.concatenate([np.zeros((len(logs), 1)), total[:, :-1]], axis=1)
    lowest = np.minimum.accumulate(before, axis=1)
    gathered = total - lowest
    top = gathered.max(axis=0)
    evidence = top + np.log(np.exp(gathered - top).mean(axis=0))
    # The start is the last place at which the sum was lowest before.
    places = np.arange(logs.shape[1])
    starts = np.maximum.accumulate(np.where(before <= lowest, places, 0), axis=1)
    return evidence, starts[gathered.argmax(axis=0), places]
