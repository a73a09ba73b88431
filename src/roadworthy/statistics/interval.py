"""An interval: two ends, the confidence they hold with, and the method that made them.

>>> interval = Interval(0.1, 0.3, 0.95, "wilson")
>>> interval.contains(0.2), round(interval.width, 3)
(True, 0.2)
>>> Interval.from_dict(interval.to_dict()) == interval
True
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Interval:
    """A confidence interval; an end is infinite only where the quantity has no bound on that side."""

    low: float
    high: float
    confidence: float
    method: str

    def __post_init__(self) -> None:
        if math.isnan(self.low) or math.isnan(self.high) or self.low > self.high:
            raise ValueError(
                f"an interval needs low <= high, found low={self.low!r} and high={self.high!r}"
            )

    @property
    def width(self) -> float:
        """high - low."""
        return self.high - self.low

    def contains(self, x: float) -> bool:
        """Whether x lies in the closed interval."""
        return self.low <= x <= self.high

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; JSON has no infinity, so an infinite end is null."""
        return {
            "low": self.low if math.isfinite(self.low) else None,
            "high": self.high if math.isfinite(self.high) else None,
            "confidence": self.confidence,
            "method": self.method,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Interval:
        """The inverse of `to_dict`."""
        missing = {"low", "high", "confidence", "method"} - set(record)
        if missing:
            raise ValueError(
                f"an interval has low, high, confidence and method; missing {sorted(missing)}"
            )
        low, high = record["low"], record["high"]
        return cls(
            low=-math.inf if low is None else float(low),
            high=math.inf if high is None else float(high),
            confidence=float(record["confidence"]),
            method=str(record["method"]),
        )
