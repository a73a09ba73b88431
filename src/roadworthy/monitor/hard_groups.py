"""What an alarm watches where clean differs between groups: the odds that remain if the group at hand is a hard one.

All scores of a hard group lie a little higher. To an estimator that knows one clean that is much of a mild shift, of which it is
surer than of a third of a strong one: no threshold of its log-odds lets the one pass and notices the other. The alarm therefore
reads every window as if it came from a group that is harder than nearly all: cells in which such a group has more events count
for less, by as much (the exponential tilt that makes such a group, taken back). What then still looks too dear is shift, or a
group harder than that; how seldom these reach the threshold is found by simulation. What is said of a window is the plain figure.

>>> from roadworthy.analysis.risk.cells import calibrate
>>> from roadworthy.analysis.risk.prototypes import accuracy_tree
>>> rng = np.random.default_rng(0)
>>> shifted, drive = np.repeat([0, 1], 1000), np.tile(np.repeat(np.arange(40), 25), 2)
>>> scores = rng.normal(2.0 * shifted + 0.3 * np.sin(drive))
>>> right = rng.random(2000) < np.where(shifted, 0.4, 0.9)
>>> calibration = calibrate({"energy": scores}, np.where(shifted, "fog", "clean"), right, groups=drive)
>>> plain, wary = (kind(calibration, accuracy_tree(), tolerable=0.2) for kind in (Estimator, AgainstHardGroups))
>>> window = np.bincount(calibration.place({"energy": rng.normal(0.5, 1.0, 300)}), minlength=calibration.cells)
>>> bool(wary.log_odds(window)[0] < plain.log_odds(window)[0] - 1.0)
True
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.analysis.risk.between import directions
from roadworthy.analysis.risk.transfer import Estimator
from roadworthy.monitor.events import Floats

HARD = 2.5
"""How hard a group is taken for, in standard deviations of the groups: of 1.5, 2 and 2.5 the one that let most steps be noticed in
simulations of groups that follow one another and of cycles (`docs/decisions/0010`)."""
EVENTS = (50, 100, 300, 1000, 3000)
"""Lengths of windows at which it is seen what they lose."""


class AgainstHardGroups(Estimator):
    """An estimator whose log-odds are those of the same window without what a hard group adds to it."""

    def log_odds(self, counts: ArrayLike, *, shrink: ArrayLike = 1.0) -> Floats:
        """The log-odds of exceedance of as many events of which fewer look shifted, so much higher that both are even at one rate.

        Where the plain log-odds are below even, these: nothing is raised by what is more likely tolerable.
        """
        table = np.atleast_2d(np.asarray(counts, dtype=np.float64))
        factor = np.broadcast_to(np.asarray(shrink, dtype=np.float64), (len(table),))
        found = super().log_odds(self._eased(table), shrink=factor) + self._lost
        above = np.flatnonzero(found >= 0.0)
        if len(above):
            plain = super().log_odds(table[above], shrink=factor[above])
            found[above] = np.where(plain < 0.0, plain, found[above])
        return found

    def _eased(self, table: Floats) -> Floats:
        eased = table * self._easing
        n, left = table.sum(axis=1, keepdims=True), eased.sum(axis=1, keepdims=True)
        result: Floats = eased * np.divide(n, left, out=np.ones_like(n), where=left > 0)
        return result

    @cached_property
    def _easing(self) -> Floats:
        hard = HARD * np.sqrt(np.square(self.calibration.between).mean(axis=0))
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
            plain, eased = (super(AgainstHardGroups, self).log_odds(n * part) for part in (mixed, self._eased(mixed)))
            even = np.flatnonzero(plain >= 0.0)
            lost.append(float(plain[even[0]] - eased[even[0]]) if len(even) else 0.0)
        return max(min(lost), 0.0)
