"""What labels prove: evidence that the risk is above the tolerable, gathered label by label and looked at after every one.

Each label bets on the risk being above the tolerable. It stands for 1 / p events, and gains what they cost above the tolerable if
they are as it says. Events that no label stands for are taken to cost the least there is: what the scores say of them is the other
alarm's. A stake of which a loss takes nine tenths at most has, as long as the risk is tolerable, an expected factor of 1 at most;
so the evidence of the best start so far (a CUSUM of the logarithms) reaches 1 / a less than once in 1 / a labels, however often one
looks (Shin, Ramdas and Rinaldo, "E-detectors", 2023). Several stakes are laid at once, and their mean counts. A label that stands
for many times as many events as most do leaves little to stake; a second set of stakes takes it to stand for fewer, and the rest
for events that have none. Once it is proven, bets on the opposite are gathered alike, where events that no label stands for cost
the most there is, and only they take it back: labels that stop coming, or of what is easy alone, prove nothing.

A price is what such an event costs on average given its label, and that is all a factor's expectation asks for. Where it depends on
shift, which no label tells, it is as good as the rate of shift and the calibration by which it was found
(`roadworthy.monitor.prices`): a proof by a little more than the doubt about it is none.

Of labels whose errors come together, `time` of them say as much as one, and logarithms count for so much less. What is gathered
goes on from a `Start`, so that labels that are no longer held have said what they had to say.

>>> wrong = np.arange(60) % 2 == 0
>>> stands, prices, expected = np.ones(60), np.tile([1.0, 0.0], (60, 1)), np.full(60, 0.95)
>>> half = Stretch.of(np.arange(60), right=~wrong, stands=stands, prices=prices, expected=expected)
>>> bets = bets_on(half, tolerable=0.1, costs=(0.0, 1.0))
>>> walk(bets, Start(), time=1.0, raised=math.log(1e5)).on
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

STAKES, GREATEST, SMALLEST = 8, 0.9, 0.03
"""Of what is at hand, laid on each label that may lose most: from the greatest to the smallest, or to one that is smaller still."""
SMALL = 0.3
"""Where a gain is many times as large as a loss, the smallest stake is so much of what would make up for one: it suits a risk of a
third more than is tolerable (Kelly 1956)."""
ROWS = 2 * STAKES
"""Stakes on labels as they are, and on labels none of which stands for far more events than most."""
CLEARED = math.log(2000.0)
"""The evidence of a tolerable risk that clears what was proven."""
FAR_MORE = 4.0
"""Times as many events as the median label stands for."""
AHEAD = 20.0
"""Labels drawn at random come sometimes more often, sometimes less: for so many labels' events they may lie ahead of the stream."""
FEW_TIME = 8.0
"""Labels that say as much as one, at least, where there are too few to tell: a first drive may be a hard one."""
RUN = 64
"""Labels from which on a run of errors is a change, and not errors that come together."""
LONGEST_RUN = 256
"""The same where scores come together over as many."""
_NEARLY_ALL = 1.0 - 1e-9
_DEAREST = 1e3
"""Where no answer could lose, a stake gains so much at most."""


@dataclass(frozen=True, eq=False)
class Stretch:
    """Labels in the order of their events."""

    gaps: Floats
    """Events from the label before each up to its own."""
    right: NDArray[np.bool_]
    stands: Floats
    """For how many events each stands."""
    prices: Floats
    """Labels x (wrong, right): what its event costs on average, were it so."""
    residual: Floats
    """What it says beyond the model: 1 or 0, less the probability of being right."""

    @classmethod
    def of(
        cls,
        at: NDArray[np.int64],
        *,
        right: NDArray[np.bool_],
        stands: Floats,
        prices: Floats,
        expected: Floats,
    ) -> Stretch:
        """Labels of the events at these places."""
        gaps = np.diff(at, prepend=at[0] - 1).astype(np.float64)
        return cls(gaps, right, stands, prices, right - expected)

    def __len__(self) -> int:
        return len(self.right)

    @property
    def events(self) -> float:
        """Among how many the labels lie."""
        return float(self.gaps.sum())

    def part(self, where: slice) -> Stretch:
        """Some of the labels."""
        return Stretch(
            self.gaps[where],
            self.right[where],
            self.stands[where],
            self.prices[where],
            self.residual[where],
        )


class Start(NamedTuple):
    """What earlier labels have said: whether it is proven, the evidence gathered since, and for how many events they lie ahead."""

    on: bool = False
    evidence: tuple[float, ...] = (0.0,) * ROWS
    ahead: float = 0.0


class Bets(NamedTuple):
    """Stakes x labels: the logarithms of what becomes of every stake on a risk above the tolerable, and on one below."""

    above: Floats
    below: Floats
    gains: Floats
    """Of each label, what its events cost above the tolerable, and those before it that none stands for."""
    ahead: Floats
    """After each label."""

    def part(self, where: slice) -> Bets:
        """Those of some of the labels."""
        return Bets(
            self.above[:, where], self.below[:, where], self.gains[where], self.ahead[where]
        )


class Change(NamedTuple):
    """It was proven (on), or the opposite was, by the labels from and up to these."""

    on: bool
    first: int
    last: int


class Walked(NamedTuple):
    """What became proven along the labels, one after the other, whether it is by the last, and what is gathered since."""

    changes: tuple[Change, ...]
    on: bool
    evidence: tuple[float, ...]


def bets_on(
    stretch: Stretch, *, tolerable: float, costs: tuple[float, float], ahead: float = 0.0
) -> Bets:
    """What every label makes of the stakes, where the `costs` of an event lie between these."""
    wrong, right = (stretch.prices[:, i] - tolerable for i in (0, 1))
    beyond = np.where(stretch.right, right, wrong)
    few = FAR_MORE * float(np.median(stretch.stands))
    ways = (
        [stretch.stands]
        if (stretch.stands <= few).all()
        else [stretch.stands, np.minimum(stretch.stands, few)]
    )
    laid = [_alone(stretch.gaps, stands, ahead) for stands in ways]
    ends = np.minimum(right, wrong), np.maximum(right, wrong)
    above, below = (
        np.concatenate(
            [
                _logs(
                    sign * stands * beyond,
                    sign * stands * worse,
                    sign * stands * better,
                    alone * max(missing, 0.0),
                )
                for stands, (alone, _) in zip(ways, laid, strict=True)
            ]
            * (ROWS // STAKES // len(ways))
        )
        for sign, worse, better, missing in (
            (1.0, *ends, tolerable - costs[0]),
            (-1.0, *ends[::-1], costs[1] - tolerable),
        )
    )
    alone, after = laid[0]
    return Bets(
        above, below, stretch.stands * beyond - alone * max(tolerable - costs[0], 0.0), after
    )


def _logs(gains: Floats, worst: Floats, best: Floats, missed: Floats) -> Floats:
    """Of stakes on gains that lie between the worst and the best, the logarithm of what becomes of each, where so much was lost
    before by events that no label stands for."""
    rates = _rates(worst, best)
    result: Floats = np.log1p(rates * gains) + np.log1p(np.maximum(-rates * missed, -_NEARLY_ALL))
    return result


def _alone(gaps: Floats, stands: Floats, ahead: float) -> tuple[Floats, Floats]:
    """Events before each label that no label stands for, and for how many more than there are they all stand after it."""
    alone, after = np.zeros(len(gaps)), np.zeros(len(gaps))
    if ahead == 0.0 and (stands == gaps).all():
        return alone, after
    most = AHEAD * np.maximum.accumulate(stands)
    for i, (gap, events, limit) in enumerate(
        zip(gaps.tolist(), stands.tolist(), most.tolist(), strict=True)
    ):
        ahead += events - gap
        if ahead < 0.0:
            alone[i], ahead = -ahead, 0.0
        after[i] = ahead = min(ahead, limit)
    return alone, after


def _rates(least: Floats, most: Floats) -> Floats:
    """How much of every stake is laid on a gain of 1, so that the greatest loss takes no more than the stake: a column."""
    gain = float(most.max())
    loss = max(-float(least.min()), gain / _DEAREST, 1e-300)
    smallest = min(SMALLEST, SMALL * loss / gain) if gain > 0.0 else SMALLEST
    result: Floats = np.geomspace(GREATEST, smallest, STAKES)[:, None] / loss
    return result


def walk(
    bets: Bets,
    start: Start,
    *,
    time: float,
    raised: float,
    held: float = math.inf,
    cleared: float = CLEARED,
) -> Walked:
    """From label to label: proven where the evidence reaches `raised`, taken back where that of the opposite reaches `cleared`.

    What was proven before and may have been corrected since is still proven where it reaches `held`.
    """
    on, evidence, at, bar, changes = (
        start.on,
        np.array(start.evidence),
        0,
        min(held, raised),
        list[Change](),
    )
    while at < bets.above.shape[1]:
        found, starts, gathered = _gathered(
            (bets.below if on else bets.above)[:, at:] / time, evidence
        )
        reached = found >= (cleared if on else bar)
        if not reached.any():
            evidence = np.maximum(gathered[:, -1], 0.0)
            break
        end = int(reached.argmax())
        on, bar, evidence = not on, raised, np.zeros(ROWS)
        changes.append(Change(on, at + int(starts[end]), at + end))
        at += end + 1
    return Walked(tuple(changes), on, tuple(evidence.tolist()))


def time_of(stretch: Stretch, bets: Bets, *, held: float, together: float = 0.0) -> float:
    """How many labels say as much as one: by their residuals, without the step that they may show.

    Of one group `together` events come in a row; of labels, by as many fewer as events lie between them. Of `held` events in a row
    the scores say as much as of one: that errors come together as scores do is to be feared of a few labels, and of a run of
    them as long as that.
    """
    apart = len(stretch) / max(stretch.events, 1.0)
    alike, grouped = max(1.0, held * apart), max(1.0, together * apart)
    if len(stretch) < FIRST:
        return max(alike, grouped, FEW_TIME)
    evidence, starts, _ = _gathered(bets.above, np.zeros(ROWS))
    end = int(evidence.argmax())
    start = int(starts[end])
    step = [start, end + 1] if end + 1 - start >= max(RUN, min(alike, LONGEST_RUN)) else []
    found = time_of_all(
        np.concatenate(
            [part - part.mean() for part in np.split(stretch.residual, step) if len(part)]
        )
    )
    return max(grouped, found if math.isfinite(found) else FEW_TIME)


def _gathered(logs: Floats, before: Floats) -> tuple[Floats, NDArray[np.intp], Floats]:
    """After each label: the evidence of the best start so far over all stakes, that start of the stake that gained most, and what
    each has gathered, where so much was gathered before."""
    total = np.cumsum(logs, axis=1)
    earlier = np.concatenate([np.zeros((len(logs), 1)), total[:, :-1]], axis=1)
    lowest = np.minimum(np.minimum.accumulate(earlier, axis=1), -before[:, None])
    gathered = total - lowest
    top = gathered.max(axis=0)
    evidence = top + np.log(np.exp(gathered - top).mean(axis=0))
    # The start is the last place at which the sum was lowest before.
    places = np.arange(logs.shape[1])
    starts = np.maximum.accumulate(np.where(earlier <= lowest, places, 0), axis=1)
    return evidence, starts[gathered.argmax(axis=0), places], gathered
