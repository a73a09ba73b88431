"""What a command prints: lines, tables and JSON; counts, shares, times and lines of bars in them."""

from __future__ import annotations

import datetime
import json
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from roadworthy.monitor import Bundle

LOG_WIDTH = 140
"""Columns if the output is no terminal, so that tables in a log are not squeezed into 80."""
BARS, MOST_BARS = "▁▂▃▄▅▆▇█", 60
LONG_AGO, LAST = 1e8, 2.5e11
"""Seconds below which a time counts from the start of something, not from 1970; the year 9,892."""


def console(*, stderr: bool = False) -> Console:
    """A console; without a terminal it writes plain text, as wide as COLUMNS says, else wide."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    if stream.isatty():
        return Console(file=stream, highlight=False)
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() else 0
    return Console(file=stream, width=width or LOG_WIDTH, highlight=False)


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


def print_records(records: Sequence[Mapping[str, Any]]) -> None:
    """A table of records with the same keys."""
    left = [name for name, x in records[0].items() if isinstance(x, str | list)]
    print_table([*records[0]], [[_cell(x) for x in row.values()] for row in records], left=left)


def _cell(x: Any) -> str:
    """
    >>> _cell(0.1234), _cell(12000), _cell(None), _cell([0.1, 0.2]), _cell(["a", "b"])
    ('0.123', '12,000', '–', '0.100 to 0.200', 'a; b')
    """
    from roadworthy import numbers

    if isinstance(x, list):
        return ("; " if isinstance((x or [""])[0], str) else " to ").join(map(_cell, x))
    if isinstance(x, str | bool):
        return str(x)
    return numbers.count(x) if isinstance(x, int) else numbers.value(x)


def flush() -> None:
    """Write out what is buffered; a reader who has gone away (``| head``) is no error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would complain once more while it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def many(n: int, noun: str) -> str:
    """A number of things.

    >>> many(1, "event"), many(2000, "window"), many(0, "row")
    ('1 event', '2,000 windows', '0 rows')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def percent(share: float) -> str:
    """A share as people read it."""
    from roadworthy import numbers

    return numbers.value(share, "percent")


def cost_of(unit: str) -> str:
    """The title of a column of costs.

    >>> cost_of("EUR per patient"), cost_of("cost per case")
    ('Expected cost (EUR per patient)', 'Expected cost per case')
    """
    return f"Expected {unit}" if unit.startswith("cost") else f"Expected cost ({unit})"


def date_text(seconds: float) -> str:
    """A time as people read it.

    >>> date_text(1772409600.0), date_text(12.5), date_text(float("nan")), date_text(1e13)
    ('2026-03-02 00:00 UTC', '12.5 s', '', '1e+13 s')
    """
    if seconds != seconds:
        return ""
    if not LONG_AGO <= seconds < LAST:
        return f"{seconds:g} s"
    date = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return date.strftime("%Y-%m-%d %H:%M UTC")


def bars(values: np.ndarray, known: np.ndarray) -> str:
    """Values from 0 to 1 as a line of bars; ? for those that are not `known`.

    >>> import numpy as np
    >>> bars(np.array([1.0, 0.9, 0.5, 0.0]), np.array([True, True, True, False]))
    '██▅?'
    """
    import numpy as np

    parts = np.array_split(np.arange(len(values)), min(MOST_BARS, len(values)))
    return "".join(
        BARS[min(int(values[p].mean() * len(BARS)), len(BARS) - 1)] if known[p].all() else "?"
        for p in parts
    )


def coverage_of(bundle: Bundle) -> str:
    """How often the intervals of a bundle held the truth of kinds that were left out."""
    found = bundle.coverage
    if found is None:
        return f"Coverage of {bundle.confidence:.0%} intervals on unseen kinds of shift: unknown."
    rate = "" if found.rate is None else f", of the share shifted {percent(found.rate)}"
    return (
        f"Coverage of {found.nominal:.0%} intervals on kinds left out in turn "
        f"({many(found.windows, 'window')}): of the accuracy {percent(found.observed)}{rate}."
    )


def bundle_notes(bundle: Bundle) -> list[str]:
    """Notes of a bundle, of its calibration and of its alarm, each once."""
    rule = bundle.alarm
    notes = [*map(str, bundle.made.get("notes", ())), *bundle.calibration.notes]
    return list(dict.fromkeys([*notes, *(rule.notes if rule is not None else ())]))
