"""The progress of long work, on standard error.

On a terminal a bar names the stage and the time left; in a log plain lines are written when the
stage changes, and every half a minute between, without control characters.
"""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager
from typing import IO, TYPE_CHECKING, Any

from roadworthy.cli.output import console

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE = 30.0
"""Seconds after which a log hears of a stage again."""
FEW = 100
"""Steps below which no time left is given: they are uneven."""


class SilentProgress(AbstractContextManager["SilentProgress"]):
    """Progress that is shown while the context is open."""

    def stage(self, name: str, total: int) -> None:
        """A new stage of `total` cases (or other units) begins."""

    def advance(self, n: int) -> None:
        """n more are done."""

    def note(self, text: str) -> None:
        """Something a person should know now."""

    def __exit__(self, *ending: Any) -> None:
        return None


class BarProgress(SilentProgress):
    """A bar on a terminal: stage, how far, time spent and time left."""

    def __init__(self) -> None:
        from rich import progress

        self._bar: Progress = progress.Progress(
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TextColumn("{task.percentage:.0f}%"),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            console=console(stderr=True),
            transient=True,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> BarProgress:
        self._bar.start()
        return self

    def __exit__(self, *ending: Any) -> None:
        self._bar.stop()

    def stage(self, name: str, total: int) -> None:
        """The bar starts anew."""
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(name, total=total or None)

    def advance(self, n: int) -> None:
        """The bar grows."""
        if self._task is not None:
            self._bar.advance(self._task, n)

    def note(self, text: str) -> None:
        """A line above the bar."""
        self._bar.console.print(text)


class LineProgress(SilentProgress):
    """Plain lines for a log."""

    def __init__(self, stream: IO[str] | None = None, *, patience: float = PATIENCE) -> None:
        self._stream = stream or sys.stderr
        self._patience = patience
        self._start = self._began = self._last = time.monotonic()
        self._name, self._total, self._done = "", 0, 0

    def stage(self, name: str, total: int) -> None:
        """One line a stage."""
        self._name, self._total, self._done = name, total, 0
        self._began = time.monotonic()
        self._say(name + (f" ({total:,})" if total else ""))

    def advance(self, n: int) -> None:
        """A line now and then."""
        now = time.monotonic()
        self._done += n
        if now - self._last >= self._patience:
            left = (now - self._began) / self._done * max(self._total - self._done, 0)
            about = f", about {left:.0f} s left" if self._total >= FEW else ""
            self._say(f"{self._name}: {self._done:,} of {self._total:,}{about}")

    def note(self, text: str) -> None:
        """A line of its own."""
        self._say(text)

    def _say(self, text: str) -> None:
        self._last = time.monotonic()
        print(f"[{self._last - self._start:7.1f} s] {text}", file=self._stream, flush=True)


def open_progress(*, quiet: bool) -> SilentProgress:
    """The progress that fits where standard error goes."""
    if quiet:
        return SilentProgress()
    return BarProgress() if sys.stderr.isatty() else LineProgress()
