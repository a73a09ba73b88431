"""What the figures of a replay rest on: rows by kind, intervals on unseen shifts, effective events, and what they are blind to.

>>> from roadworthy.monitor.estimate import Coverage
>>> held(Coverage(0.95, 94 / 96, 96, rate=0.75), 0.95).partition(", ")[2]
'those of accuracy held the truth in 98% of 96 windows, those of the share shifted in 75%.'
>>> held(None, 0.95)
'95% intervals: how often they hold the truth of a kind of shift that is not calibrated, nobody could check.'
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roadworthy.cli.amounts import many, percent

if TYPE_CHECKING:
    from roadworthy.cli.replaying import Replayed
    from roadworthy.monitor.bundle import Bundle
    from roadworthy.monitor.estimate import Coverage

ENDINGS = (".gz", ".csv", ".tsv", ".parquet", ".pq")


def lines(bundle: Bundle, found: Replayed) -> list[str]:
    """A few of them for those who read a table of figures."""
    calibration = bundle.calibration
    first, *others = [(calibration.rows(kind), kind) for kind in calibration.kinds]
    rows = ", ".join(
        [f"{many(first[0], 'row')} of {first[1]}", *(f"{n:,} of {kind}" for n, kind in others)]
    )
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
    rate = (
        "" if coverage.rate is None else f", those of the share shifted in {percent(coverage.rate)}"
    )
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


def cautions(bundle: Bundle, stream: Path | None = None) -> list[str]:
    """What was noted when the bundle was made: on its rows, on what was chosen, on its alarm; what is a warning is said as one.

    How its table was written is no matter of a stream, but that a stream may be that table is.
    """
    from roadworthy.monitor.messages import CLEAN_IS_DEAR

    rule = (
        []
        if bundle.alarm is None
        else [n for n in bundle.alarm.notes if not n.startswith(CLEAN_IS_DEAR)]
    )
    made = [note for note in map(str, bundle.made.get("notes", ())) if not _on_reading(note)]
    return list(
        dict.fromkeys([*_met_before(bundle, stream), *bundle.calibration.notes, *made, *rule])
    )


def _on_reading(note: str) -> bool:
    """
    >>> _on_reading("time has dates without a time zone, which are read as UTC"), _on_reading("few rows of fog")
    (True, False)
    """
    return note.startswith(("column", "names of columns")) or note.endswith(
        ("read so", "read as UTC")
    )


def _met_before(bundle: Bundle, stream: Path | None) -> list[str]:
    """That a stream is called as the table was, whatever kind of file it is."""
    source = str(bundle.made.get("source", ""))
    if stream is None or stem(Path(source)) != stem(stream):
        return []
    return [
        f"the stream is called as the table that was calibrated on, {source}: if these are its rows, figures look better here than "
        "they are elsewhere"
    ]


def stem(path: Path) -> str:
    """The name of a table, whatever kind of file it is.

    >>> stem(Path("a/today.csv.gz")), stem(Path("today.v2.parquet"))
    ('today', 'today.v2')
    """
    name = path.name
    for ending in ENDINGS:
        name = name.removesuffix(ending)
    return name
