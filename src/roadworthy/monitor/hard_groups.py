"""What an alarm watches where clean differs between groups that last: the odds that remain if the group at hand is a hard one.

All scores of a hard group lie a little higher. To an estimator that knows one clean that is much of a mild shift, of which it is
surer than of a third of a strong one: no threshold of its log-odds lets the one pass and notices the other. The alarm therefore
reads every window as if it came from a group that is harder than nearly all: cells in which such a group has more events count
for less, by as much (the exponential tilt that makes such a group, taken back). What then still looks too dear is shift, or a
group harder than that; how seldom these reach the threshold is found by simulation. What is said of a window is the plain figure.

How hard depends on how many events of a group come in a row, which no table of scores can tell: the differences of several groups
within a window cancel, and it costs steps that are not noticed. So it is done where somebody says how many, and only there.

>>> from roadworthy.analysis.risk.cells import calibrate
>>> from roadworthy.analysis.risk.prototypes import accuracy_tree
>>> rng = np.random.default_rng(0)
>>> shifted, drive = np.repeat([0, 1], 1000), np.tile(np.repeat(np.arange(40), 25), 2)
>>> scores = rng.normal(2.0 * shifted + 0.3 * np.sin(drive))
>>> right = rng.random(2000) < np.where(shifted, 0.4, 0.9)
>>> calibration = calibrate({"energy": scores}, np.where(shifted, "fog", "clean"), right, groups=drive)
>>> plain = Estimator(calibration, accuracy_tree(), tolerable=0.2)
>>> wary = watching(plain, hardness_of(calibration, window=300, group_events=2000))
>>> window = np.bincount(calibration.place({"energy": rng.normal(0.5, 1.0, 300)}), minlength=calibration.cells)
>>> bool(wary.log_odds(window)[0] < plain.log_odds(window)[0] - 1.0), watching(plain, 0.0) is plain
(True, True)
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.analysis.risk.between import directions
from roadworthy.analysis.risk.transfer import Estimator
from roadworthy.monitor.events import Floats
from roadworthy.monitor.worlds import within_windows

if TYPE_CHECKING:
    from roadworthy.analysis.risk.cells import Calibration

HARD = 2.0
"""How hard a group is taken for that fills a window, in standard deviations of the groups (`docs/decisions/0010`)."""
EVENTS = (50, 100, 300, 1000, 3000)
"""Lengths of windows at which it is seen what they lose."""


def hardness_of(calibration: Calibration, *, window: int, group_events: int) -> float:
    """As how hard a group's every window is read, in standard deviations of the groups; 0 where they do not differ."""
    return HARD * within_windows(group_events, window) if calibration.between else 0.0


def watching(plain: Estimator, hardness: float) -> Estimator:
    """What an alarm watches: the estimator itself, or one that reads every window as one of a hard group."""
    return AgainstHardGroups(plain, hardness) if hardness and plain.calibration.between else plain


class AgainstHardGroups(Estimator):
    """An estimator whose log-odds are those of the same window without what a hard group adds to it."""

    def __init__(self, plain: Estimator, hardness: float = HARD) -> None:
        vars(self).update(vars(plain))  # all else is the same, and need not be worked out again
        self.plain, self.hardness = plain, hardness

    def log_odds(self, counts: ArrayLike, *, shrink: ArrayLike = 1.0) -> Floats:
        """The log-odds of exceedance of as many events of which fewer look shifted, so much higher that both are even at one rate.

        Where the plain log-odds are below even, these: nothing is raised by what is more likely tolerable.
        """
        table = np.atleast_2d(np.asarray(counts, dtype=np.float64))
        factor = np.broadcast_to(np.asarray(shrink, dtype=np.float64), (len(table),))
        found = self.plain.log_odds(self._eased(table), shrink=factor) + self._lost
        above = np.flatnonzero(found >= 0.0)
        if len(above):
            plain = self.plain.log_odds(table[above], shrink=factor[above])
            found[above] = np.where(plain < 0.0, plain, found[above])
        return found

    def _eased(self, table: Floats) -> Floats:
        eased = table * self._easing
        n, left = table.sum(axis=1, keepdims=True), eased.sum(axis=1, keepdims=True)
        result: Floats = eased * np.divide(n, left, out=np.ones_like(n), where=left > 0)
        return result

    @cached_property
    def _easing(self) -> Floats:
        hard = self.hardness * np.sqrt(np.square(self.calibration.between).mean(axis=0))
        result: Floats = np.exp(-hard @ directions(self.calibration))
        return result

    @cached_property
    def _lost(self) -> float:
        """What a window loses by it whose log-odds are even, with shift and without a hard group; of several lengths the least."""
        rows = self.calibration.table.sum(axis=1).astype(np.float64)
        shares = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1.0)
        rates = np.linspace(0.0, 1.0, 101)[:, None]
        mixed = (1.0 - rates) * shares[0] + rates * shares[1:].mean(axis=0)
        lost = []
        for n in EVENTS:
            plain, eased = (self.plain.log_odds(n * part) for part in (mixed, self._eased(mixed)))
            even = np.flatnonzero(plain >= 0.0)
            lost.append(float(plain[even[0]] - eased[even[0]]) if len(even) else 0.0)
        return max(min(lost), 0.0)
