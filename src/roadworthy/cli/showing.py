"""What a person sees: lines, tables and JSON, and the progress of long work on standard error.

On a terminal a bar names the stage and the time left; in a log plain lines are written when the
stage changes, and every half a minute between, without control characters.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

LOG_WIDTH = 140
"""Columns where the output is no terminal, so that tables in a log are not squeezed into 80."""
PATIENCE = 30.0
"""Seconds after which a log hears of a stage again."""
FEW = 100
"""Steps below which no time left is given: they are uneven."""
UNITS = {
    "running the subject": " cases",
    "writing cases": " cases",
    "supervising": " conditions",
    "estimating streams": " events",
}
"""What a stage counts."""


class _Trimmed:
    """A stream that is no terminal: what a table pads its lines with does not end up in a file."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(re.sub(r" +(?=\n)", "", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def console(*, stderr: bool = False) -> Console:
    """A console; without a terminal it writes plain text, as wide as COLUMNS says, else wide."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    if stream.isatty():
        return Console(file=stream, highlight=False)
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() else 0
    return Console(file=cast(IO[str], _Trimmed(stream)), width=width or LOG_WIDTH, highlight=False)


def print_json(content: Any) -> None:
    """JSON on standard output."""
    print(json.dumps(content, indent=1, default=str))


def print_lines(lines: Iterable[str]) -> None:
    """Plain lines, which a terminal wraps by itself."""
    from rich.text import Text

    out = console()
    for line in lines:
        out.print(Text(line), soft_wrap=True)


def print_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    left: Collection[str] = (),
    title: str | None = None,
) -> None:
    """A table; columns are aligned to the right, but for those on the left."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for header in headers:
        table.add_column(header, justify="left" if header in left else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console().print(table)


def flush() -> None:
    """Write out what is buffered; a reader who has gone away (``| head``) is no error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would complain once more while it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class SilentProgress(AbstractContextManager["SilentProgress"]):
    """Progress that is shown while the context is open."""

    def stage(self, name: str, total: int) -> None:
        """A new stage of `total` cases (or other units) begins."""

    def advance(self, n: int) -> None:
        """n more are done."""

    def note(self, text: str) -> None:
        """Something a person should know now."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        self._say(name + (f" ({total:,}{UNITS.get(name, '')})" if total else ""))

    def advance(self, n: int) -> None:
        """A line now and then."""
        now = time.monotonic()
        self._done += n
        if now - self._last >= self._patience:
            left = (now - self._began) / self._done * max(self._total - self._done, 0)
            about = f", about {left:.0f} s left" if self._total >= FEW else ""
            unit = UNITS.get(self._name, "")
            self._say(f"{self._name}: {self._done:,} of {self._total:,}{unit}{about}")

    def note(self, text: str) -> None:
        """A line of its own."""
        self._say(text)

    def _say(self, text: str) -> None:
        self._last = time.monotonic()
        print(f"[{self._last - self._start:7.1f} s] {text}", file=self._stream, flush=True)


def shown(*, quiet: bool) -> SilentProgress:
    """The progress that fits where standard error goes."""
    if quiet:
        return SilentProgress()
    return BarProgress() if sys.stderr.isatty() else LineProgress()
