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
from typing import Any, NamedTuple

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

    def contents(self) -> list[bytes | None]:
        """The hash of each file's bytes, None for one that cannot be read; read once, for the fingerprint as well."""
        return [content.hash for content in self._contents]

    def _item(self, path: Path) -> Any:
        try:
            return self.read(path)
        except FileNotFoundError:
            hint = f" ({self.hint})" if self.hint else ""
            return Unreadable(
                f"{path}: does not exist; restore the file or leave the sample out{hint}"
            )
        except (DataError, OSError) as error:
            return Unreadable(str(error))

    @functools.cached_property
    def _digest(self) -> str:
        digest = hashlib.blake2b(digest_size=16)
        for content in self._contents:
            digest.update(content.line)
        return digest.hexdigest()

    @functools.cached_property
    def _contents(self) -> list[_Content]:
        return [_content(path) for path in self.paths]


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

    def contents(self) -> list[bytes | None]:
        """A hash of each sequence's frames, None where one of them cannot be read."""
        return [_joined(files.contents()) for files in self.items]


def row_numbers(rows: Any) -> list[int]:
    """Row numbers from numbers or a mask.

    >>> row_numbers(np.array([False, True, True]))
    [1, 2]
    """
    rows = np.asarray(rows)
    chosen = np.flatnonzero(rows) if rows.dtype == bool else rows
    return [int(i) for i in chosen]


class _Content(NamedTuple):
    line: bytes
    """Name, size and hash of one file; a file that cannot be read counts by its name."""
    hash: bytes | None


def _content(path: Path) -> _Content:
    try:
        data = path.read_bytes()
    except OSError:
        return _Content(f"{path.name}|unreadable\n".encode(), None)
    digest = hashlib.blake2b(data, digest_size=16)
    return _Content(f"{path.name}|{len(data)}|{digest.hexdigest()}\n".encode(), digest.digest())


def _joined(hashes: Sequence[bytes | None]) -> bytes | None:
    known = [h for h in hashes if h is not None]
    return (
        hashlib.blake2b(b"".join(known), digest_size=16).digest()
        if len(known) == len(hashes)
        else None
    )
