"""The chunk cache: what was computed once, under the hash of everything that it depends on.

It lies beside the runs (``runs/.cache``); a run folder holds hard links to its chunks, so it can be moved away. A chunk in which
cases failed for a reason that may pass (a server that was down) serves the run that made it, and is computed again by the next.
What supervisors said of a chunk lies beside it under ``scores``, and goes when the chunk goes: an array of float64 (``.npy``), the
seconds first, and then a hash of it, so that a file that was shortened or changed is known as such and computed again.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "scores.npy"
>>> write_kept_scores(path, KeptScores(np.array([0.5, np.nan]), 0.25))
>>> read_kept_scores(path, 2)
KeptScores(scores=array([0.5, nan]), seconds=0.25)
>>> _ = path.write_bytes(path.read_bytes()[:-1])
>>> read_kept_scores(path, 2) is None
True
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from roadworthy.subject.trace import Trace, link_chunk, read_manifest

PASSING = "passing"
"""Under which name a chunk says how many of its cases failed for a reason that may pass."""
SCORES = "scores"
"""Where supervisors' scores lie, by chunk."""
HASH_BYTES = 16
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


class KeptScores(NamedTuple):
    """One number a case, and how long they took."""

    scores: np.ndarray
    seconds: float


def write_kept_scores(path: Path, kept: KeptScores) -> None:
    """Whole or not at all, in place of an earlier file of that name."""
    buffer = io.BytesIO()
    np.save(
        buffer, np.concatenate([[kept.seconds], kept.scores]).astype(np.float64), allow_pickle=False
    )
    content = buffer.getvalue()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}-{uuid.uuid4().hex[:8]}.partial")
    try:
        partial.write_bytes(content + _hash_of(content))
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def read_kept_scores(path: Path, n: int) -> KeptScores | None:
    """What `write_kept_scores` kept of n cases; None where there is no such file, or where it is not as it was written."""
    try:
        whole = path.read_bytes()
    except OSError:
        return None
    content = whole[:-HASH_BYTES]
    if _hash_of(content) != whole[-HASH_BYTES:]:
        return None
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError):
        return None
    if array.dtype != np.float64 or array.shape != (n + 1,):
        return None
    return KeptScores(array[1:], float(array[0]))


def _hash_of(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=HASH_BYTES).digest()
