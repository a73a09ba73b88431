"""The supervisor at work whose alarms call a person, if an event tree asks what an alarm does.

>>> alarms = Deployed("knn", 0.7)
>>> alarms.raised(np.array([0.7, 0.8, np.nan])).tolist()
[False, True, True]
>>> Deployed.from_dict(alarms.to_dict()) == alarms
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadworthy.statistics.fusion import plain_number


@dataclass(frozen=True)
class Deployed:
    """Its name, the threshold above which it raises an alarm, and the rule that chose it."""

    name: str
    threshold: float
    rule: str = ""

    def raised(self, scores: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which events raise an alarm; one without a score does (docs/decisions/0005)."""
        return ~(scores <= self.threshold)

    def __str__(self) -> str:
        by = f", {self.rule}" if self.rule else ""
        return f"{self.name} above {self.threshold:.4g}{by}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"name": self.name, "threshold": plain_number(self.threshold), "rule": self.rule}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Deployed:
        """The inverse of `to_dict`."""
        return cls(str(record["name"]), float(record["threshold"]), str(record.get("rule", "")))
