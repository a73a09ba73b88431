"""Scores that are kept: what a supervisor said of a chunk's cases, with the seconds that it took, in one small file.

The file is an array of float64 (``.npy``), the seconds first, and then a hash of it, so that a file that was shortened or changed
is known as such and the scores are computed again.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "scores.npy"
>>> write_scores(path, KeptScores(np.array([0.5, np.nan]), 0.25))
>>> read_scores(path, 2)
KeptScores(scores=array([0.5, nan]), seconds=0.25)
>>> _ = path.write_bytes(path.read_bytes()[:-1])
>>> read_scores(path, 2) is None
True
"""

from __future__ import annotations

import hashlib
import io
import os
import uuid
from pathlib import Path
from typing import NamedTuple

import numpy as np

HASH_BYTES = 16


class KeptScores(NamedTuple):
    """One number a case, and how long they took."""

    scores: np.ndarray
    seconds: float


def write_scores(path: Path, kept: KeptScores) -> None:
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


def read_scores(path: Path, n: int) -> KeptScores | None:
    """What `write_scores` kept of n cases; None where there is no such file, or where it is not as it was written."""
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
