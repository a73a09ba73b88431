"""What windows say, as arrays: one entry a window.

>>> Belief(np.array([0.9]), np.array([0.1])).right.tolist()
[0.9]
"""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True, eq=False)
class Belief:
    """Of each cell, the probability that an event there is right, and that it is shifted."""

    right: Floats
    shifted: Floats
