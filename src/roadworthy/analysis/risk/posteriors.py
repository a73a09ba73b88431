"""What is known of a probability after counting: its Beta posterior.

>>> known = Beta.from_counts(successes=18, trials=20)
>>> round(known.mean, 3)
0.881
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

JEFFREYS = 0.5


@dataclass(frozen=True)
class Beta:
    """The posterior of one probability."""

    a: float
    b: float

    def __post_init__(self) -> None:
        if not (0.0 < self.a < math.inf and 0.0 < self.b < math.inf):
            raise ValueError(
                f"a Beta distribution needs two positive numbers, found {self.a!r} and {self.b!r}"
            )

    @classmethod
    def from_counts(cls, successes: float, trials: float) -> Beta:
        """After so many successes in so many trials, from the prior of Jeffreys."""
        if not 0 <= successes <= trials < math.inf:
            raise ValueError(
                f"expected 0 <= successes <= trials, found {successes!r} of {trials!r}"
            )
        return cls(successes + JEFFREYS, trials - successes + JEFFREYS)

    @property
    def mean(self) -> float:
        """The expected probability."""
        return self.a / (self.a + self.b)

    def draw(self, rng: np.random.Generator, n: int) -> NDArray[np.float64]:
        """n probabilities that the counts allow."""
        return rng.beta(self.a, self.b, n)

    def to_dict(self) -> dict[str, float]:
        """Plain JSON values."""
        return {"a": self.a, "b": self.b}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Beta:
        """From ``{a, b}``, or from counts ``{successes, trials}``."""
        keys = set(record)
        if keys == {"a", "b"}:
            return cls(float(record["a"]), float(record["b"]))
        if keys == {"successes", "trials"}:
            return cls.from_counts(float(record["successes"]), float(record["trials"]))
        raise ValueError(
            f"a probability from counts has successes and trials (or a and b), found {sorted(map(str, keys))}"
        )
