"""Options that no work could be done with, refused before any is: what was expected, what was found, what to do.

>>> refuse_unlike_a_count("--events-per-day", 20000.0)
>>> refuse_unlike_a_count("--events-per-day", 0.0)
Traceback (most recent call last):
roadworthy.data.samples.DataError: --events-per-day 0: a number above 0 was expected, such as --events-per-day 10000
"""

from __future__ import annotations

import math
from pathlib import Path

from roadworthy.data.samples import DataError

LEAST, MOST = 1e-3, 1e12
"""Events a day: one in three years, and more than any service takes."""


def refuse_unlike_a_count(option: str, value: float) -> None:
    """Refuse a number of events a day that is none."""
    if not value > 0 or math.isinf(value):
        raise DataError(
            f"{option} {value:g}: a number above 0 was expected, such as {option} 10000"
        )
    if not LEAST <= value <= MOST:
        raise DataError(
            f"{option} {value:g}: between {LEAST:g} and {MOST:g} events a day were expected"
        )


def refuse_no_folder(option: str, path: Path) -> None:
    """Refuse a file that is to be written where no folder is, or where a folder of that name stands."""
    if not path.parent.is_dir():
        raise DataError(
            f"{option} {path}: there is no folder {path.parent}; make it first, or choose another"
        )
    if path.is_dir():
        raise DataError(f"{option} {path} is a folder; name a file")


def refuse_own_input(option: str, path: Path, *inputs: Path | None) -> None:
    """Refuse to write where something is read from, by whatever name: a link or another spelling is the same file."""
    for read in inputs:
        if read is not None and path.exists() and read.exists() and path.samefile(read):
            raise DataError(
                f"{option} {path} is {read}, which is read and would be lost; choose another file"
            )
