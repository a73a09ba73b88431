"""What a person sees: consoles, and the progress of long work on standard error.

On a terminal a bar names the stage and the time left; elsewhere (a log) plain lines are written when the stage changes, and every
half a minute between, without control characters.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

LOG_WIDTH = 140
"""Columns where the output is no terminal, so that tables in a log are not squeezed into 80."""
PATIENCE = 30.0
"""Seconds after which a log hears of a stage again."""
AT_ONCE = 0.2
"""Seconds within which a first report of a stage is what the cache held: it says nothing about speed."""


def console(*, stderr: bool = False) -> Console:
    """A console that writes plain, wide text where there is no terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else LOG_WIDTH, highlight=False)


def print_json(content: Any) -> None:
    """JSON on standard output."""
    print(json.dumps(content, indent=1, default=str))


def flush() -> None:
    """Write out what is buffered; a reader who has gone away (``| head``) is no error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would complain once more while it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Shown(AbstractContextManager["Shown"]):
    """Progress that is shown while the context is open."""

    def stage(self, name: str, total: int) -> None:
        """A new stage of `total` cases (or other units) begins."""

    def advance(self, n: int) -> None:
        """n more are done."""

    def note(self, text: str) -> None:
        """Something a person should know now."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class Bar(Shown):
    """A bar on a terminal: stage, how far, time spent and time left."""

    def __init__(self) -> None:
        from rich import progress

        self._bar: Progress = progress.Progress(
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TextColumn("left"),
            progress.TimeRemainingColumn(),
            console=console(stderr=True),
            transient=True,
        )
        self._task: TaskID | None = None
        self._began = 0.0
        self._told = False

    def __enter__(self) -> Bar:
        self._bar.start()
        return self

    def __exit__(self, *ending: Any) -> None:
        self._bar.stop()

    def stage(self, name: str, total: int) -> None:
        """The bar starts anew."""
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(name, total=total or None)
        self._began, self._told = time.monotonic(), False

    def advance(self, n: int) -> None:
        """The bar grows."""
        if self._task is None:
            return
        first, self._told = not self._told, True
        if first and time.monotonic() - self._began < AT_ONCE:
            self._bar.reset(self._task, completed=n)
        else:
            self._bar.advance(self._task, n)

    def note(self, text: str) -> None:
        """A line above the bar."""
        self._bar.console.print(text)


class Lines(Shown):
    """Plain lines for a log."""

    def __init__(self, stream: IO[str] | None = None, *, patience: float = PATIENCE) -> None:
        self._stream = stream or sys.stderr
        self._patience = patience
        self._start = self._began = self._last = time.monotonic()
        self._name, self._total, self._done, self._at_once = "", 0, 0, 0

    def stage(self, name: str, total: int) -> None:
        """One line a stage."""
        self._name, self._total, self._done, self._at_once = name, total, 0, 0
        self._began = time.monotonic()
        self._say(name + (f" ({total:,})" if total else ""))

    def advance(self, n: int) -> None:
        """A line now and then."""
        now = time.monotonic()
        if self._done == 0 and now - self._began < AT_ONCE:
            self._at_once = n
        self._done += n
        made = self._done - self._at_once
        if now - self._last >= self._patience and made > 0:
            left = (now - self._began) / made * max(self._total - self._done, 0)
            self._say(f"{self._name}: {self._done:,} of {self._total:,}, about {left:.0f} s left")

    def note(self, text: str) -> None:
        """A line of its own."""
        self._say(text)

    def _say(self, text: str) -> None:
        self._last = time.monotonic()
        print(f"[{self._last - self._start:7.1f} s] {text}", file=self._stream, flush=True)


def shown(*, quiet: bool) -> Shown:
    """The progress that fits where standard error goes."""
    if quiet:
        return Shown()
    return Bar() if sys.stderr.isatty() else Lines()
