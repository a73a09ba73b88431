"""Inputs that are read when asked for: a broken file costs its own case, not the run.

>>> files = Files((Path("no-such.txt"),), read=Path.read_text)
>>> files[0]
Unreadable(reason='no-such.txt: does not exist; restore the file or leave the sample out')
>>> len(files.fingerprint())
32
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.data.samples import DataError
from roadworthy.data.values import Unreadable


@dataclass(frozen=True, eq=False)
class Files:
    """One input a file; `read` is a function of a module, so that the reader travels to other processes."""

    paths: tuple[Path, ...]
    read: Callable[[Path], Any]
    hint: str = ""
    """What to do about a file that is not there, besides restoring it."""

    def __len__(self) -> int:
        return len(self.paths)

    def __iter__(self) -> Iterator[Any]:
        return (self._item(path) for path in self.paths)

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, slice):
            return [self._item(path) for path in self.paths[rows]]
        if np.ndim(rows) == 0:
            return self._item(self.paths[int(rows)])
        return [self._item(self.paths[i]) for i in row_numbers(rows)]

    def pick(self, rows: Sequence[int] | np.ndarray) -> Files:
        """Some of the files, in the order given, still unread."""
        return Files(tuple(self.paths[i] for i in row_numbers(rows)), self.read, self.hint)

    def fingerprint(self) -> str:
        """A hash of names, sizes and contents, computed once."""
        return self._digest

    def _item(self, path: Path) -> Any:
        try:
            return self.read(path)
        except FileNotFoundError:
            hint = f" ({self.hint})" if self.hint else ""
            return Unreadable(f"{path}: does not exist; restore the file or leave the sample out{hint}")
        except (DataError, OSError) as error:
            return Unreadable(str(error))

    @functools.cached_property
    def _digest(self) -> str:
        digest = hashlib.blake2b(digest_size=16)
        for path in self.paths:
            digest.update(_content(path))
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Sequences:
    """One input a sequence of files (frames), each of them read when it is reached."""

    items: tuple[Files, ...]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, rows: Any) -> Any:
        if isinstance(rows, slice):
            return list(self.items[rows])
        if np.ndim(rows) == 0:
            return self.items[int(rows)]
        return [self.items[i] for i in row_numbers(rows)]

    def pick(self, rows: Sequence[int] | np.ndarray) -> Sequences:
        """Some of the sequences, in the order given."""
        return Sequences(tuple(self.items[i] for i in row_numbers(rows)))

    def fingerprint(self) -> str:
        """The fingerprints of the sequences in order."""
        return "|".join(files.fingerprint() for files in self.items)


def row_numbers(rows: Any) -> list[int]:
    """Row numbers from numbers or a mask.

    >>> row_numbers(np.array([False, True, True]))
    [1, 2]
    """
    rows = np.asarray(rows)
    chosen = np.flatnonzero(rows) if rows.dtype == bool else rows
    return [int(i) for i in chosen]


def _content(path: Path) -> bytes:
    """Name, size and hash of one file; a file that cannot be read counts by its name."""
    try:
        data = path.read_bytes()
    except OSError:
        return f"{path.name}|unreadable\n".encode()
    return f"{path.name}|{len(data)}|{hashlib.blake2b(data, digest_size=16).hexdigest()}\n".encode()
