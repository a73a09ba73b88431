"""The chunk cache: what was computed once, under the hash of everything that it depends on.

It lies beside the runs (``runs/.cache``); a run folder holds hard links to its chunks, so it can be moved away.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from roadworthy.subject.trace import Trace, is_whole, link_chunk


@dataclass(frozen=True)
class ChunkCache:
    """Chunks by key."""

    root: Path

    def folder(self, key: str) -> Path:
        """Where a chunk lies, or will lie."""
        return self.root / key[:2] / key

    def has(self, key: str) -> bool:
        """Whether it is there whole; a damaged one is put away, so that it is computed again."""
        folder = self.folder(key)
        if not folder.exists():
            return False
        if is_whole(folder):
            return True
        self.drop(key)
        return False

    def drop(self, key: str) -> None:
        """Forget a chunk, so that it is computed again."""
        shutil.rmtree(self.folder(key), ignore_errors=True)

    def write(self, key: str, trace: Trace) -> None:
        """Keep a chunk, whole or not at all."""
        folder = self.folder(key)
        folder.parent.mkdir(parents=True, exist_ok=True)
        trace.write(folder)

    def read(self, key: str) -> Trace:
        """A chunk again."""
        return Trace.read(self.folder(key))

    def link_into(self, key: str, folder: Path) -> None:
        """Put a chunk into a run folder."""
        folder.mkdir(parents=True, exist_ok=True)
        link_chunk(self.folder(key), folder / key)

    def sweep(self) -> int:
        """Remove what processes that no longer live left half-written; returns how many."""
        swept = 0
        for partial in self.root.glob("*/*.partial") if self.root.exists() else ():
            pid = partial.name.split(".")[-2].split("-")[0]
            if not (pid.isdigit() and _alive(int(pid))):
                shutil.rmtree(partial, ignore_errors=True)
                swept += 1
        return swept


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
