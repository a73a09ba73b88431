"""What a run is made of, as a report sees it: circumstances, slices, claims, pairs, each with its findings.

>>> pair = Pair.read({"sample": "17", "circumstance": "fog", "level": 2, "truth": "Shirt", "prediction": "Coat", "failure": True})
>>> pair.circumstance, pair.failure, pair.original
('fog', True, None)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from roadworthy.finding import Finding
from roadworthy.statistics.interval import Interval

STATUSES = ("breached", "inconclusive", "met")
"""What a claim can be, the most urgent first."""


@dataclass(frozen=True)
class Circumstance:
    """A circumstance with what was found under it, level by level (None where it has no levels)."""

    record: Mapping[str, Any]
    performance: Mapping[float | None, Finding]
    failure_rate: Mapping[float | None, Finding]
    difference: Mapping[float | None, Finding]
    drop: Mapping[float | None, Finding]
    better: str = "higher"

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.record["name"])

    @property
    def significance(self) -> float | None:
        """Exposure x likelihood x severity, 1 to 125, where all three were given."""
        return self.record.get("significance")

    @property
    def levels(self) -> list[float]:
        """The levels that have a finding, weakest first."""
        return sorted(level for level in self.performance if level is not None)

    @property
    def worst_level(self) -> float | None:
        """The level of the worst performance: the one that the analysis marked, else the lowest (or highest) value."""
        marked = [level for level, found in self.performance.items() if found.details.get("worst")]
        if len(marked) == 1:
            return marked[0]
        sign = 1 if self.better == "higher" else -1
        known = {
            level: sign * f.value
            for level, f in self.performance.items()
            if not math.isnan(f.value)
        }
        return (
            min(known, key=lambda level: known[level])
            if known
            else next(iter(self.performance), None)
        )

    @property
    def worst(self) -> Finding | None:
        """Performance at the worst level."""
        return self.performance.get(self.worst_level)

    @property
    def loss(self) -> float | None:
        """The relative drop against the clean data at the worst level, as the analysis wrote it."""
        return self.loss_at(self.worst_level)

    def loss_at(self, level: float | None) -> float | None:
        """The relative drop at a level: a finding of its own, or a detail of the difference."""
        if level in self.drop:
            return number(self.drop[level].value)
        found = self.difference.get(level)
        return number(found.details.get("relative_drop")) if found else None


@dataclass(frozen=True)
class Slice:
    """A slice of the clean test data."""

    column: str
    value: str
    n: int
    too_small: bool
    performance: Finding | None
    failure_rate: Finding | None

    @property
    def name(self) -> str:
        """``column=value``"""
        return f"{self.column}={self.value}"


@dataclass(frozen=True)
class Member:
    """One place of an ``every`` claim."""

    about: str
    status: str
    value: float | None
    interval: Interval | None
    n: int | None
    cases_to_settle: int | None
    why: str = ""
    bound: float | None = None
    """The one-sided bound that decided, where the run has it."""


@dataclass(frozen=True)
class Claim:
    """A claim and its verdict."""

    id: str
    text: str
    quantity: str
    status: str
    value: float | None
    interval: Interval | None
    limit: float | None
    direction: str
    confidence: float | None
    cases_to_settle: int | None
    why: str
    corrected: str
    n: int | None = None
    about: str = ""
    members: tuple[Member, ...] = ()
    bound: float | None = None
    """The one-sided bound that decided: at the claim's confidence, and corrected over the places for a breach."""

    def bound_side(self, status: str) -> str:
        """Which end of the value a verdict rests on: the pessimistic one, and the optimistic one for a breach."""
        return "lower" if (self.direction == "min") != (status == "breached") else "upper"

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Claim:
        """From its record in ``run.json``."""
        members = tuple(
            Member(
                str(m.get("about", "")),
                str(m["status"]),
                number(m.get("value")),
                read_interval(m.get("interval")),
                m.get("n"),
                m.get("cases_to_settle"),
                str(m.get("why") or ""),
                number(m.get("bound")),
            )
            for m in record.get("members") or ()
        )
        known = cls(
            id=str(record["id"]),
            text=str(record.get("text", "")),
            quantity=str(record.get("quantity", "")),
            status=str(record["status"]),
            value=number(record.get("value")),
            interval=read_interval(record.get("interval")),
            limit=number(record.get("limit")),
            direction=str(record.get("direction", "min")),
            confidence=record.get("confidence"),
            cases_to_settle=record.get("cases_to_settle"),
            why=str(record.get("why") or ""),
            corrected=str(record.get("corrected") or ""),
            n=record.get("n"),
            about=str(record.get("about") or ""),
            members=members,
            bound=number(record.get("bound")),
        )
        return known if known.bound is not None else replace(known, bound=known._bound_elsewhere())

    def _bound_elsewhere(self) -> float | None:
        """For records without a bound of their own: that of the place that decided, or the interval's end where it is one."""
        if self.members:
            return next((m.bound for m in self.members if m.about == self.about), None)
        if self.interval is None or self.confidence is None:
            return None
        if not math.isclose(self.interval.confidence, 1 - 2 * (1 - self.confidence), abs_tol=1e-9):
            return None
        return number(
            self.interval.low if self.bound_side(self.status) == "lower" else self.interval.high
        )


@dataclass(frozen=True)
class Pair:
    """An original and the case made of it, with truth and prediction."""

    sample: str
    circumstance: str
    level: float | None
    original: str | None
    made: str | None
    original_text: str | None
    made_text: str | None
    truth: str
    prediction: str
    clean_prediction: str
    failure: bool | None
    """None where the file does not say when an answer is wrong."""
    boxes: Mapping[str, list[list[float]]] = field(default_factory=dict)
    width: int = 0
    height: int = 0

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Pair:
        """From its record in ``media/gallery.json``."""

        def text(key: str) -> str:
            return "" if record.get(key) is None else str(record[key])

        return cls(
            sample=text("sample"),
            circumstance=text("circumstance"),
            level=number(record.get("level")),
            original=record.get("original"),
            made=record.get("made"),
            original_text=record.get("original_text"),
            made_text=record.get("made_text"),
            truth=text("truth"),
            prediction=text("prediction"),
            clean_prediction=text("clean_prediction"),
            failure=None if record.get("failure", False) is None else bool(record.get("failure")),
            boxes=record.get("boxes") or {},
            width=int(record.get("width") or 0),
            height=int(record.get("height") or 0),
        )


@dataclass(frozen=True)
class FailedCase:
    """A case that gave no answer."""

    case: str
    circumstance: str
    level: float | None
    message: str


def read_interval(record: Mapping[str, Any] | None) -> Interval | None:
    """An interval, or none."""
    return Interval.from_dict(record) if record else None


def number(x: Any) -> float | None:
    """A finite float, or None for null and NaN."""
    if x is None:
        return None
    return float(x) if math.isfinite(float(x)) else None
