"""What windows say, as arrays: one entry a window.

>>> Belief(np.array([0.9]), np.array([0.1])).right.tolist()
[0.9]
>>> odds = Odds(np.array([2.0, 2.0, -1.0]), np.array([20.0, 5.0, 20.0]))
>>> odds.judged(-np.inf).tolist(), odds.judged(9.0).round(2).tolist()
([2.0, 2.0, -1.0], [2.0, -4.0, -1.0])
>>> odds.judged(9.0, sure=3.0).round(2).tolist()
[2.0, -1.0, -1.0]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimates:
    """One entry a window."""

    n: Floats
    rate: Floats
    rate_low: Floats
    rate_high: Floats
    accuracy: Floats
    accuracy_low: Floats
    accuracy_high: Floats
    risk: Floats
    risk_low: Floats
    risk_high: Floats
    exceedance: Floats
    log_odds: Floats
    strangeness: Floats
    """The probability that a window of what was calibrated looks at least as strange."""
    cannot_tell: tuple[str | None, ...]
    """Why a window's figures should not be relied on; None where they can be."""

    def __len__(self) -> int:
        return len(self.n)


class Odds(NamedTuple):
    """What an alarm asks of windows: is the risk above the tolerable, and is it more than chance?"""

    above: Floats
    """Log-odds that the risk is above the tolerable."""
    evidence: Floats
    """How much likelier a risk above the tolerable is than no shift at all: the logarithm of the ratio."""

    def judged(self, burden: float, sure: float = np.inf) -> Floats:
        """Log-odds that the risk is above the tolerable, where no shift weighs exp(burden) times as much beforehand.

        From log-odds of `sure` on nothing is to be proven: they count from there, where they say more.
        """
        if burden == -np.inf:
            return self.above
        result: Floats = -np.logaddexp(-self.above, burden - self.evidence)
        return result if sure == np.inf else np.maximum(result, self.above - sure)


@dataclass(frozen=True, eq=False)
class Belief:
    """Of each cell, the probability that an event there is right, and that it is shifted."""

    right: Floats
    shifted: Floats
