"""What the figures of a replay rest on: rows by kind, intervals on unseen shifts, effective events, and what they are blind to.

>>> from roadworthy.monitor.risk_state import Coverage
>>> held(Coverage(0.95, 94 / 96, 96, rate=0.75), 0.95).partition(", ")[2]
'those of accuracy held the truth in 98% of 96 windows, those of the share shifted in 75%.'
>>> held(None, 0.95)
'95% intervals: how often they hold the truth of a kind of shift that is not calibrated, nobody could check.'
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from roadworthy.cli.amounts import many, percent
from roadworthy.monitor.rule_notes import CLEAN_IS_DEAR

if TYPE_CHECKING:
    from roadworthy.cli.replaying import Replayed
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.monitor.risk_state import Coverage


def lines(bundle: Bundle, found: Replayed) -> list[str]:
    """A few of them for those who read a table of figures."""
    calibration = bundle.calibration
    first, *others = [(calibration.rows(kind), kind) for kind in calibration.kinds]
    rows = ", ".join([f"{many(first[0], 'row')} of {first[1]}", *(f"{n:,} of {kind}" for n, kind in others)])
    return [
        f"calibrated on {rows}",
        f"{held(bundle.coverage, bundle.confidence)} {_effective(found)}",
        f"Blind to {', and to '.join(bundle.blind_to)}.",
    ]


def held(coverage: Coverage | None, confidence: float) -> str:
    """How often intervals held, and of which quantity."""
    if coverage is None:
        unknown = "how often they hold the truth of a kind of shift that is not calibrated, nobody could check"
        return f"{confidence:.0%} intervals: {unknown}."
    rate = "" if coverage.rate is None else f", those of the share shifted in {percent(coverage.rate)}"
    return (
        f"{confidence:.0%} intervals: of kinds of shift left out in turn, those of accuracy held the truth in "
        f"{percent(coverage.observed)} of {many(coverage.windows, 'window')}{rate}."
    )


def _effective(found: Replayed) -> str:
    """How many independent events a window counts for: fewer than it has, where events resemble each other or lack scores."""
    least, most = (round(float(n)) for n in (found.effective.min(), found.effective.max()))
    return f"A window counts for {least:,}{'' if least == most else f' to {most:,}'} independent events."


def content(bundle: Bundle) -> dict[str, Any]:
    """The same for programs, under the names that the service has for it."""
    calibration = bundle.calibration
    return {
        "kinds": [
            {"kind": kind, "rows": calibration.rows(kind), "accuracy": calibration.accuracy(kind)}
            for kind in calibration.kinds
        ],
        "confidence": bundle.confidence,
        "coverage": None if bundle.coverage is None else asdict(bundle.coverage),
        "blind_to": list(bundle.blind_to),
    }


def cautions(bundle: Bundle) -> list[str]:
    """What was noted when the bundle was made: on its rows, on what was chosen, on its alarm; what is a warning is said as one."""
    rule = [] if bundle.alarm is None else [n for n in bundle.alarm.notes if not n.startswith(CLEAN_IS_DEAR)]
    return list(dict.fromkeys([*bundle.calibration.notes, *map(str, bundle.made.get("notes", ())), *rule]))
