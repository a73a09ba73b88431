"""A chart of letters: confidence, the monitor's estimate with its band, and the truth at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

HEIGHT = 11
"""Lines of a chart."""
OURS, BAND, CONFIDENCE, TRUTH, ALARM = "bold cyan", "cyan", "yellow", "bold magenta", "bold red"


@dataclass(frozen=True)
class Frame:
    """What is known after some events: one column of a chart."""

    event: int
    confidence: float
    accuracy: float
    low: float
    high: float
    no_estimate: str | None
    alarm: bool
    risk: float

    def line(self) -> str:
        """The same in words, for a log."""
        ours = f"roadworthy {self.accuracy:.0%} [{self.low:.0%}, {self.high:.0%}], {self.risk:.2f} expected"
        said = (
            ours
            if self.no_estimate is None
            else f"roadworthy gives no estimate: {self.no_estimate}"
        )
        return f"  {self.event:>6,} events   confidence {self.confidence:.0%}   {said}{'   ALARM' if self.alarm else ''}"


def line_of(accuracy: float) -> int:
    """The line of an accuracy, 0 on top."""
    return min(int((1.0 - min(max(accuracy, 0.0), 1.0)) * HEIGHT), HEIGHT - 1)


def label(line: int) -> str:
    """The accuracy at the middle of a line, every third line."""
    return "     " if line % 3 else f"{1.0 - (line + 0.5) / HEIGHT:4.0%} "


def chart(frames: Sequence[Frame], columns: int, *, truth: Sequence[float] | None = None) -> Text:
    """The columns so far; later marks lie over earlier ones: band, confidence, estimate, truth."""
    cells = [[(" ", "") for _ in range(columns)] for _ in range(HEIGHT)]
    for x, frame in enumerate(frames):
        if frame.no_estimate is None:
            for line in range(line_of(frame.high), line_of(frame.low) + 1):
                cells[line][x] = ("░", BAND)
        else:
            for line in range(HEIGHT):
                cells[line][x] = ("?", "dim") if (line + x) % 4 == 0 else (" ", "")
        cells[line_of(frame.confidence)][x] = ("╌", CONFIDENCE)
        if frame.no_estimate is None:
            cells[line_of(frame.accuracy)][x] = ("━", OURS)
        if truth is not None:
            cells[line_of(truth[x])][x] = ("●", TRUTH)
    text = Text()
    for line, row in enumerate(cells):
        text.append(label(line), "dim").append("│", "dim")
        marked = max((x + 1 for x, (mark, _) in enumerate(row) if mark != " "), default=0)
        for mark, style in row[:marked]:
            text.append(mark, style)
        text.append("\n")
    return text.append(_floor(frames, columns))


def _floor(frames: Sequence[Frame], columns: int) -> Text:
    """The axis of events, red where the alarm stands."""
    text = Text("     └", "dim")
    for x in range(columns):
        alarmed = x < len(frames) and frames[x].alarm
        text.append("▀" if alarmed else "─", ALARM if alarmed else "dim")
    return text


def legend(frame: Frame, *, truth: float | None = None) -> Text:
    """The three lines by name, with where they stand."""
    ours = (
        f"{frame.accuracy:.0%} ({frame.low:.0%} to {frame.high:.0%})"
        if frame.no_estimate is None
        else "no estimate"
    )
    text = (
        Text("      ")
        .append("╌╌ ", CONFIDENCE)
        .append(f"confidence says {frame.confidence:.0%}   ")
    )
    text.append("━━ ", OURS).append(f"roadworthy {ours}   ").append("●● ", TRUTH)
    return text.append("truth: hidden" if truth is None else f"truth {truth:.0%}")
