"""The chunk cache: what was computed once, under the hash of everything that it depends on.

It lies beside the runs (``runs/.cache``); a run folder holds hard links to its chunks, so it can be moved away. A chunk in which
cases failed for a reason that may pass (a server that was down) serves the run that made it, and is computed again by the next.
What supervisors said of a chunk lies beside it under ``scores``, and goes when the chunk goes.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from roadworthy.subject.trace import Trace, link_chunk, read_manifest

PASSING = "passing"
"""Under which name a chunk says how many of its cases failed for a reason that may pass."""
SCORES = "scores"
"""Where supervisors' scores lie, by chunk."""
PAUSE_S = 0.05
"""How long a chunk may be away while another process puts a new one in its place."""


@dataclass(frozen=True)
class ChunkCache:
    """Chunks by key."""

    root: Path
    checked: set[str] = field(default_factory=set, compare=False, repr=False)
    """Chunks whose contents this process has compared with their hashes already."""

    def folder(self, key: str) -> Path:
        """Where a chunk lies, or will lie."""
        return self.root / key[:2] / key

    def scores_of(self, key: str) -> Path:
        """Where the scores of a chunk's cases lie."""
        return self.root / SCORES / key

    def has(self, key: str) -> bool:
        """Whether it is there as it was written, and for good; a damaged one is not, and is replaced when it is written."""
        try:
            about = read_manifest(self.folder(key), check=key not in self.checked)["about"]
        except (OSError, ValueError, KeyError):
            return False
        self.checked.add(key)
        return not about.get(PASSING, 0)

    def drop(self, key: str) -> None:
        """Forget a chunk, so that it is computed again, and what was said of it."""
        self.checked.discard(key)
        shutil.rmtree(self.scores_of(key), ignore_errors=True)
        shutil.rmtree(self.folder(key), ignore_errors=True)

    def write(self, key: str, trace: Trace, *, passing: int = 0) -> None:
        """Keep a chunk, whole or not at all; `passing` of its cases failed for a reason that may pass."""
        folder = self.folder(key)
        folder.parent.mkdir(parents=True, exist_ok=True)
        self.checked.discard(key)
        trace.write(folder, about={PASSING: passing}, replace=not self.has(key))

    def read(self, key: str) -> Trace:
        """A chunk again."""
        try:
            trace = self._read(key)
        except FileNotFoundError:
            time.sleep(PAUSE_S)
            trace = self._read(key)
        return trace

    def _read(self, key: str) -> Trace:
        trace = Trace.read(self.folder(key), check=key not in self.checked)
        self.checked.add(key)
        return trace

    def link_into(self, key: str, folder: Path) -> None:
        """Put a chunk into a run folder, in place of an earlier one of that key."""
        folder.mkdir(parents=True, exist_ok=True)
        try:
            link_chunk(self.folder(key), folder / key)
        except FileNotFoundError:
            time.sleep(PAUSE_S)
            link_chunk(self.folder(key), folder / key)

    def sweep(self, *folders: Path) -> int:
        """Remove what processes that no longer live left half-written, here and in `folders`; returns how many."""
        swept = 0
        places = (*folders, *self.root.glob("*"), *(self.root / SCORES).glob("*"))
        found = [p for place in places for p in place.glob("*.partial")]
        for partial in found:
            pid = partial.name.split(".")[-2].split("-")[0]
            if not (pid.isdigit() and _alive(int(pid))):
                _remove(partial)
                swept += 1
        return swept


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
