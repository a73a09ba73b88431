"""What is believed of the rate of shift before a window is full: a rate, worth so many events, as a pilot study may tell it.

The paper asks for such a prior for the time in which a window fills (seed 003, 3.3). The fuller it is, the less the prior says; a
full one speaks for itself, and the alarm, which reads full windows alone, never hears of it. A bundle holds it as pseudo-events
(shifted, clean), Jeffreys' where nobody chose one.

>>> prior = Beforehand(0.05, 20.0).pseudo_events
>>> prior, Beforehand.of(prior), Beforehand.of(JEFFREYS)
((1.0, 19.0), Beforehand(rate=0.05, events=20.0), None)
>>> Beforehand.of(prior).in_words
'5% shifted, worth 20 events'
"""

from __future__ import annotations

import math
from typing import NamedTuple

JEFFREYS = (0.5, 0.5)
"""Pseudo-events that favour no rate."""
WORTH = 20.0
"""Events that a rate is worth where nobody says how many."""


class Beforehand(NamedTuple):
    """A rate of shift that somebody expects, and how many events that is worth."""

    rate: float
    events: float

    @classmethod
    def of(cls, prior: tuple[float, float]) -> Beforehand | None:
        """What pseudo-events say; None where nobody chose any."""
        if tuple(prior) == JEFFREYS:
            return None
        events = prior[0] + prior[1]
        return cls(prior[0] / events, events)

    @property
    def pseudo_events(self) -> tuple[float, float]:
        """Shifted and clean ones; of a rate of 0 or 1 no event could ever be anything else, so that these are refused."""
        if not (0.0 < self.rate < 1.0 and 0.0 < self.events < math.inf):
            raise ValueError(
                "a rate of shift that is expected lies above 0 and below 1, and is worth a number of events above 0, found "
                f"{self.rate:g} and {self.events:g}; where shift is rare, write a small rate such as 0.001"
            )
        return self.rate * self.events, (1.0 - self.rate) * self.events

    @property
    def in_words(self) -> str:
        """As a note has it."""
        return f"{100 * self.rate:.3g}% shifted, worth {self.events:,.6g} events"
