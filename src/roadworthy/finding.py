"""A finding: a value with an interval, its assumptions, and what it is about. No finding without an interval or the reason why not.

>>> from roadworthy.statistics import wilson
>>> found = Finding("accuracy", 0.9, wilson(90, 100), n=100, about=About(circumstance="snow", level=3))
>>> found.id
'accuracy | snow@3'
>>> Finding.from_dict(found.to_dict()) == found
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from roadworthy.statistics.interval import Interval

Sided = Literal["two", "lower", "upper"]


@dataclass(frozen=True)
class About:
    """What a finding speaks of; the empty one is the clean test data as a whole."""

    circumstance: str = ""
    level: float | None = None
    slice: str = ""
    """``column=value``"""
    supervisor: str = ""
    module: str = ""
    versus: str = ""
    """What it is compared with: "clean", "rest", or a run."""

    def __str__(self) -> str:
        place = self.circumstance or ("clean" if not self.slice else "")
        if self.circumstance and self.level is not None:
            place += f"@{self.level:g}"
        parts = [
            place,
            self.slice,
            self.supervisor,
            self.module,
            f"vs {self.versus}" if self.versus else "",
        ]
        return " | ".join(p for p in parts if p)


@dataclass(frozen=True)
class Evidence:
    """A value of one quantity at one place, and its interval at any confidence."""

    quantity: str
    about: About
    value: float
    n: int
    better: str
    interval: Callable[[float, Sided], Interval]
    effective_n: float | None = None
    groups: int | None = None
    proportion: bool = True
    by_cases: bool = True
    """Whether more cases would narrow it as far as one likes: not where numbers that somebody gave are in doubt, too."""
    reason: str = ""
    """Why nothing can be said here (a slice that is too small), else empty."""
    assuming: str = ""
    """What must hold besides for its interval to hold, as the end of "assuming …"."""
    settled_by: Callable[[float, float], int | None] | None = None
    """How many cases would settle a claim with this limit at this confidence; None: as the interval's width says."""


@dataclass(frozen=True)
class Finding:
    """The result of an analysis."""

    quantity: str
    value: float
    interval: Interval | None
    n: int
    effective_n: float | None = None
    groups: int | None = None
    failed: int = 0
    """How many of the n cases gave no answer; they are counted as wrong."""
    about: About = About()
    better: str = "higher"
    assumptions: tuple[str, ...] = ()
    corrected: str = ""
    """What was corrected for multiplicity, and how."""
    reason: str = ""
    """Why there is no interval."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """The numbers under it that a reader may want: the clean value, relative drop, counts."""

    def __post_init__(self) -> None:
        if self.interval is None and not self.reason:
            raise ValueError(
                f"the finding {self.quantity!r} has no interval and gives no reason why"
            )

    @property
    def id(self) -> str:
        """Quantity and subject matter, as one line."""
        return f"{self.quantity} | {self.about}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON: NaN and infinities become null."""
        content = {f.name: getattr(self, f.name) for f in fields(self)}
        content["interval"] = self.interval.to_dict() if self.interval else None
        content["about"] = {f.name: getattr(self.about, f.name) for f in fields(self.about)}
        content["assumptions"] = list(self.assumptions)
        content["details"] = {k: _plain(v) for k, v in self.details.items()}
        content["value"] = _plain(self.value)
        content["id"] = self.id
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Finding:
        """The finding again."""
        known = {f.name: content[f.name] for f in fields(cls) if f.name in content}
        known["interval"] = (
            Interval.from_dict(content["interval"]) if content.get("interval") else None
        )
        known["about"] = About(**content.get("about", {}))
        known["assumptions"] = tuple(content.get("assumptions", ()))
        if known["value"] is None:
            known["value"] = math.nan
        return cls(**known)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.item() if hasattr(value, "item") else value
