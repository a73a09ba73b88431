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
from datetime import timedelta
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, Task, TaskID

LOG_WIDTH = 140
"""Columns where the output is no terminal, so that tables in a log are not squeezed into 80."""
PATIENCE = 30.0
"""Seconds after which a log hears of a stage again."""
AT_ONCE = 0.2
"""Seconds within which a first report of a stage is what the cache held: it says nothing about speed."""
FEW = 100
"""Steps below which no time left is told: they are uneven, such as conditions, and the first may take as long as the rest."""
COUNTED = {
    "running the subject": "cases",
    "writing cases": "cases",
    "supervising": "conditions",
    "estimating streams": "events",
}
"""What the number of a stage counts."""


class _Trimmed:
    """A stream that is no terminal: what a table pads its lines with does not end up in a file."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(re.sub(r" +(?=\n)", "", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def console(*, stderr: bool = False) -> Console:
    """A console that writes plain text where there is no terminal: as wide as COLUMNS says, else wide."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    if stream.isatty():
        return Console(file=stream, highlight=False)
    return Console(
        file=cast(IO[str], _Trimmed(stream)),
        width=log_width(os.environ.get("COLUMNS")),
        highlight=False,
    )


def log_width(columns: str | None) -> int:
    """
    >>> log_width("80"), log_width("0"), log_width("wide"), log_width(None)
    (80, 140, 140, 140)
    """
    return (
        int(columns)
        if columns and columns.isascii() and columns.isdigit() and int(columns) > 0
        else LOG_WIDTH
    )


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


class Shown(AbstractContextManager["Shown"]):
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


def counted(name: str, total: int, done: int | None = None) -> str:
    """How many of what.

    >>> counted("supervising", 13, 3), counted("running the subject", 20000), counted("fetching", 7)
    ('3 of 13 conditions', '20,000 cases', '7')
    """
    unit = COUNTED.get(name, "")
    return (f"{total:,}" if done is None else f"{done:,} of {total:,}") + (
        f" {unit}" if unit else ""
    )


def standing(
    name: str, done: float, total: float | None, spent: float | None, left: float | None
) -> str:
    """How far a stage is, with the time spent, and the time left where the steps are many enough to say.

    >>> standing("supervising", 3, 13, 64, 200)
    '3 of 13 conditions, 0:01:04'
    >>> standing("running the subject", 8500, 20000, 30, 41)
    '8,500 of 20,000 cases, 0:00:30, about 0:00:41 left'
    >>> standing("loading subject and data", 0, None, 3, None)
    '0:00:03'
    """
    parts = [counted(name, int(total), int(done))] if total else []
    parts.append(str(timedelta(seconds=int(spent or 0))))
    if left is not None and total and total >= FEW:
        parts.append(f"about {timedelta(seconds=int(left))} left")
    return ", ".join(parts)


def _standing() -> Any:
    """The column of a bar that says how far it is; rich is loaded only where there is a terminal."""
    from rich.progress import ProgressColumn
    from rich.text import Text

    class Standing(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(
                standing(
                    task.description, task.completed, task.total, task.elapsed, task.time_remaining
                )
            )

    return Standing()


class Bar(Shown):
    """A bar on a terminal: stage, how far, time spent and, where it can be told, time left."""

    def __init__(self) -> None:
        from rich import progress

        self._bar: Progress = progress.Progress(
            progress.SpinnerColumn(),
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            _standing(),
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
        self._say(name + (f" ({counted(name, total)})" if total else ""))

    def advance(self, n: int) -> None:
        """A line now and then."""
        now = time.monotonic()
        if self._done == 0 and now - self._began < AT_ONCE:
            self._at_once = n
        self._done += n
        made = self._done - self._at_once
        if now - self._last >= self._patience and made > 0:
            left = (now - self._began) / made * max(self._total - self._done, 0)
            told = f", about {left:.0f} s left" if self._total >= FEW else ""
            self._say(f"{self._name}: {counted(self._name, self._total, self._done)}{told}")

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
