"""What is believed before the window is full: a Beta prior worth some pseudo-events, fewer the fuller the window is.

The paper asks for a pilot study and a prior estimate of p(E) for this time (seed 003, 3.3). A full window speaks for itself.

>>> prior = Prior(mean=0.1, worth=20)
>>> [tuple(map(float, prior.beta(seen, window=100))) for seen in (0, 50, 100)]
[(2.5, 18.5), (1.5, 9.5), (0.5, 0.5)]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .answer import Floats, Rates, answered
from .cells_of_rate import JEFFREYS


@dataclass(frozen=True)
class Prior:
    """A rate expected beforehand, worth so many events at the start."""

    mean: float
    worth: float

    def __post_init__(self) -> None:
        if not (0.0 <= self.mean <= 1.0 and 0.0 <= self.worth < np.inf):
            raise ValueError(
                f"a prior has a mean between 0 and 1 and is worth 0 events or more, found {self.mean!r} and {self.worth!r}"
            )

    def left(self, seen: ArrayLike, window: float) -> Floats:
        """How many pseudo-events it is still worth."""
        if not window > 0.0:
            raise ValueError(f"window must be a positive number of events, found {window!r}")
        result: Floats = self.worth * np.clip(
            1.0 - np.asarray(seen, dtype=np.float64) / window, 0.0, 1.0
        )
        return result

    def beta(self, seen: ArrayLike, window: float) -> tuple[Floats, Floats]:
        """The two parameters of the Beta prior; Jeffreys' once the window is full."""
        left = self.left(seen, window)
        a, b = JEFFREYS
        return a + left * self.mean, b + left * (1.0 - self.mean)

    def blended(self, rates: Rates, seen: ArrayLike, window: float) -> Rates:
        """Rates that know no prior, drawn towards it as so many events would; the interval likewise, from the prior's own."""
        from scipy.special import betaincinv

        left = self.left(seen, window)
        share = left / np.maximum(left + np.asarray(seen, dtype=np.float64), 1e-300)
        tail = (1.0 - rates.confidence) / 2.0
        a, b = self.beta(seen, window)
        ends = [self.mean, betaincinv(a, b, tail), betaincinv(a, b, 1.0 - tail)]
        drawn = [
            x + share * (end - x)
            for x, end in zip((rates.value, rates.low, rates.high), ends, strict=True)
        ]
        return answered(
            drawn, rates.confidence, f"{rates.method}; prior {self.mean:g}", rates.flags
        )
