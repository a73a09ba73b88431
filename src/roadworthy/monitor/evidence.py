"""What labels prove: evidence that the risk is above the tolerable, gathered label by label and looked at after every one.

Each label bets on the risk being above the tolerable. It stands for 1 / p events, and gains what they cost above the tolerable if
they are as it says. Events that no label stands for are the model's, but never more than tolerable: what the scores say alone is
the other alarm's. A stake of which a loss takes nine tenths at most has, as long as the risk is tolerable, an expected factor of 1
at most; so the evidence of the best start so far (a CUSUM of the logarithms) reaches 1 / a less than once in 1 / a labels, however
often one looks (Shin, Ramdas and Rinaldo, "E-detectors", 2023). Several stakes are laid at once, and their mean counts; also on
those labels alone that were sure to be given, since one that stands for hundreds of events leaves little to stake. Once it
is proven, bets on the opposite are gathered alike, and only they take it back: labels that stop coming prove nothing.

Of labels whose errors come together, `time` of them say as much as one, and logarithms count for so much less.

>>> wrong = np.arange(60) % 2 == 0
>>> half = Stretch(np.arange(60), ~wrong, np.ones(60), np.full(60, 0.95))
>>> bets = bets_on(half, Costs(risk=0.05, accuracy=0.95, slope=-1.0, tolerable=0.1))
>>> walk(bets, time=1.0, raised=math.log(1e5), on=False).on
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadworthy.monitor.autocorrelation import FIRST, time_of_all
from roadworthy.monitor.events import Floats

STAKES = np.array([0.9, 0.45, 0.2, 0.08, 0.03])[:, None]
"""Of what is at hand, laid on each label that may lose most."""
CLEARED = math.log(200.0)
"""The evidence of a tolerable risk that clears what was proven."""
BLOCK = 64
"""Labels among which it is counted how many events no label stands for."""
FEW_TIME = 8.0
"""Labels that say as much as one, at least, where there are too few to tell: a first drive may be a hard one."""
RUN = 64
"""Labels from which on a run of errors is a change, and not errors that come together."""


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


class Bets(NamedTuple):
    """Stakes x labels: the logarithms of what becomes of every stake on a risk above the tolerable, and on one below."""

    above: Floats
    below: Floats
    gains: Floats
    """Of each label, what its events cost above the tolerable."""


class Walked(NamedTuple):
    """Whether the risk is proven to be above the tolerable by the last label; the labels from and up to which the last proof goes,
    of either: -1 where there is none."""

    on: bool
    first: int
    last: int


def bets_on(stretch: Stretch, costs: Costs) -> Bets:
    """What every label makes of the stakes."""
    sure = stretch.stands <= 1.0
    ways = [stretch.stands] if sure.all() or not sure.any() else [stretch.stands, np.where(sure, 1.0, 0.0)]
    gains = [_gains(stretch, stands, costs) for stands in ways]
    above, below = (np.concatenate([_bets(*gain, sign) for gain in gains]) for sign in (1.0, -1.0))
    return Bets(above, below, gains[0][0])


def _gains(stretch: Stretch, stands: Floats, costs: Costs) -> tuple[Floats, Floats, Floats]:
    """What labels gain that stand for so many events: as they are, and had each been right, or wrong."""
    n = len(stretch.at)
    block = np.minimum(np.arange(n) // BLOCK, max(n // BLOCK, 1) - 1)
    last = stretch.at[np.flatnonzero(np.diff(block, append=block[-1] + 1))]
    ends = np.concatenate([[0], last + 1])
    upto = np.concatenate([[0.0], np.cumsum(stretch.expected)])
    events, expected = np.diff(ends), np.diff(upto[ends])
    spoken, of_them = (np.bincount(block, part) for part in (stands, stands * stretch.expected[stretch.at]))
    alone = np.maximum(events - spoken, 0.0)
    accuracy = np.clip((expected - of_them) / np.maximum(alone, 1.0), 0.0, 1.0)
    right, wrong, rest = (
        costs.risk + costs.slope * (share - costs.accuracy) - costs.tolerable for share in (1.0, 0.0, accuracy)
    )
    others = (alone * np.minimum(rest, 0.0) / np.maximum(np.bincount(block, stands > 0), 1))[block] * (stands > 0)
    if_right, if_wrong = stands * right + others, stands * wrong + others
    return np.where(stretch.correct, if_right, if_wrong), if_right, if_wrong


def walk(bets: Bets, *, time: float, raised: float, on: bool, cleared: float = CLEARED) -> Walked:
    """From label to label: proven where the evidence reaches `raised`, taken back where that of the opposite reaches `cleared`."""
    at, first, last = 0, 0, -1
    while at < bets.above.shape[1]:
        evidence, starts = _gathered((bets.below if on else bets.above)[:, at:] / time)
        reached = evidence >= (cleared if on else raised)
        if not reached.any():
            break
        end = int(reached.argmax())
        on, first, last, at = not on, at + int(starts[end]), at + end, at + end + 1
    return Walked(on, first, last)


def time_of(stretch: Stretch, bets: Bets, *, held: float) -> float:
    """How many labels say as much as one: by their residuals, without the step that they may show, and by events that are alike.

    Of `held` events in a row the scores say as much as of one; of labels, by as many fewer as events lie between them.
    """
    residual, spread = stretch.residual, max(1.0, held * len(stretch.at) / max(len(stretch.expected), 1))
    if len(residual) < FIRST:
        return max(spread, FEW_TIME)
    evidence, starts = _gathered(bets.above)
    end = int(evidence.argmax())
    start = int(starts[end])
    step = [start, end + 1] if end + 1 - start >= RUN else []
    found = time_of_all(np.concatenate([part - part.mean() for part in np.split(residual, step) if len(part)]))
    return max(spread, found if math.isfinite(found) else FEW_TIME)


def _bets(found: Floats, if_right: Floats, if_wrong: Floats, sign: float) -> Floats:
    """Stakes x labels; nothing is staked where no answer could lose."""
    loss = -float(np.minimum(sign * if_right, sign * if_wrong).min())
    result: Floats = np.log1p((STAKES / loss if loss > 0.0 else np.zeros_like(STAKES)) * (sign * found))
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
