"""The monitor that a run compiled into, as a report sees it: what it reads, what it knows, when it rings, and how it is started.

>>> CompiledMonitor.read({"because": "a monitor learns from calibration cases"}).because
'a monitor learns from calibration cases'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import numbers
from .run_parts import number


@dataclass(frozen=True)
class CalibratedKind:
    """Clean cases, or those under a circumstance at all its levels."""

    name: str
    rows: int
    accuracy: float | None
    noticed: float | None
    """How often a step from none to 30% of it raises an alarm within two windows."""
    due: bool = True
    """Whether an alarm is due for such a step: whether it costs more than is tolerable."""


@dataclass(frozen=True)
class CompiledMonitor:
    """The bundle of a run."""

    because: str = ""
    """Why there is none."""
    bundle: str = ""
    """Its path in the run folder."""
    id: str = ""
    subject: str = ""
    """As people call it; empty in runs of earlier versions."""
    supervisors: tuple[str, ...] = ()
    kinds: tuple[CalibratedKind, ...] = ()
    unit: str = ""
    tolerable: float | None = None
    window: int | None = None
    false_alarms: str = ""
    events_per_day: float | None = None
    coverage: Mapping[str, Any] | None = None
    chosen: tuple[str, ...] = ()
    """What was chosen for those who did not say."""
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> CompiledMonitor:
        """From its record in ``run.json``."""
        if record.get("because"):
            return cls(because=str(record["because"]))
        alarm = record.get("alarm") or {}
        return cls(
            bundle=str(record["bundle"]),
            id=str(record["id"]),
            subject=str(record.get("subject") or ""),
            supervisors=tuple(map(str, record["supervisors"])),
            kinds=tuple(
                CalibratedKind(
                    str(k["name"]),
                    int(k["rows"]),
                    number(k["accuracy"]),
                    number(k.get("noticed")),
                    bool(k.get("due", True)),
                )
                for k in record["kinds"]
            ),
            unit=str(record["unit"]),
            tolerable=number(record.get("tolerable")),
            window=alarm.get("window"),
            false_alarms=str(alarm.get("false_alarms") or ""),
            events_per_day=number(alarm.get("events_per_day")),
            coverage=record.get("coverage"),
            chosen=tuple(map(str, record.get("chosen") or ())),
            notes=tuple(map(str, record.get("notes") or ())),
        )

    def alarm(self) -> str:
        """When it rings."""
        if self.window is None:
            return "It raises no alarm, since nothing is called tolerable."
        return (
            f"It raises an alarm where the last {self.window:,} events probably cost more than {numbers.limit(self.tolerable)} "
            f"{self.unit}; without shift at most {self.false_alarms}, at {self.events_per_day or 0:,.0f} events a day."
        )

    def proof(self) -> str:
        """How its intervals fared where a kind of shift was left out, or that this could not be tried."""
        if not self.coverage:
            why = (
                "it knows one kind of shift only"
                if len(self.kinds) == 2
                else "no window without one of the kinds could be told"
            )
            return f"How often its intervals hold under a kind that it has not seen could not be tried: {why}."
        rate = number(self.coverage.get("rate"))
        rates = (
            ""
            if rate is None
            else f", and {numbers.value(rate, 'percent')} of those of the share that is shifted"
        )
        return (
            f"With each kind of shift left out in turn, {numbers.value(self.coverage['observed'], 'percent')} of "
            f"{self.coverage['windows']:,} intervals of the accuracy held the truth{rates} "
            f"(nominal {numbers.confidence(self.coverage['nominal'])})."
        )

    def commands(self, path: str) -> tuple[str, str]:
        """What to type next, for a bundle that lies there."""
        return f"roadworthy monitor {path}", f"roadworthy replay {path} today.parquet"
