"""One verdict on a whole batch: the mean of its events' evidence for shift, against the best cut between clean and shifted batches.

An event in score bin b speaks for shift with log(shifted / clean) of that bin; a detector of batches reads the mean (seed 003,
section 4.5). The cut has the best TPR + TNR on batches drawn from the calibrated bins. How often batches alarm is known from as
many batches as the calibration rows would fill, however many are drawn.

>>> calibrated = Calibrated.from_table({"clean": [600, 400], "fog": [400, 600]})
>>> verdict = BatchVerdict.choose(calibrated, 32)
>>> verdict.alarmed([[20, 12], [10, 22]]).tolist()
[False, True]
>>> known = verdict.counted(calibrated)
>>> float(known.clean.sum()), calibrated.tpr - calibrated.fpr < 0.3 < 0.6 < known.tpr - known.fpr
(31.25, True)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.analysis.calibration import Threshold, at_balanced_accuracy

from .answer import Bools, CannotTell, Floats
from .calibrated import Calibrated

DRAWS = 2000
"""Batches that are drawn of each side to choose the cut, and of each kind to count."""


@dataclass(frozen=True, eq=False)
class BatchVerdict:
    """Which batches of one size are called shifted."""

    size: int
    evidence: Floats
    """What an event of each bin adds."""
    threshold: Threshold

    @classmethod
    def choose(cls, calibrated: Calibrated, size: int, *, seed: int = 0) -> BatchVerdict:
        """The cut of best TPR + TNR; kinds of shift weigh the same."""
        if size < 1:
            raise ValueError(f"size is the number of events in a batch, found {size!r}")
        rng, evidence = np.random.default_rng(seed), calibrated.log_ratio
        sides = np.stack([calibrated.clean_shares, calibrated.shifted_shares])
        clean, shifted = (
            rng.multinomial(size, shares, DRAWS) @ evidence / size for shares in sides
        )
        return cls(size, evidence, at_balanced_accuracy(clean, shifted))

    def alarmed(self, counts: ArrayLike) -> Bools:
        """Of batches, their events by bin in the last axis, which are called shifted; one without events is not."""
        table = np.asarray(counts, dtype=np.float64)
        n = table.sum(axis=-1)
        result: Bools = self.threshold.verdict(table @ self.evidence / np.maximum(n, 1.0)) & (
            n > 0.0
        )
        return result

    def counted(self, calibrated: Calibrated, *, seed: int = 0) -> Calibrated:
        """Batches cleared and alarmed, by kind: as many as the rows fill, in the shares of many that are drawn from them."""
        rng, rows = (
            np.random.default_rng([seed, 1]),
            np.vstack([calibrated.clean, calibrated.shifted]),
        )
        batches = rows.sum(axis=1) / self.size
        if batches.min() < 1.0:
            few = ("clean", *calibrated.kinds)[int(batches.argmin())]
            raise CannotTell(
                f"the {rows.sum(axis=1).min():,.0f} calibration rows of {few} fill no batch of {self.size}"
            )
        drawn = [rng.multinomial(self.size, row / row.sum(), DRAWS) for row in rows]
        share = np.array([self.alarmed(batch).mean() for batch in drawn])
        table = np.stack([(1.0 - share) * batches, share * batches], axis=1)
        return Calibrated(table[0], table[1:], calibrated.kinds)
