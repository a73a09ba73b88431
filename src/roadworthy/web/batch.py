"""Posts of events and labels; events as columns, as bytes of the log, and as calls of a monitor.

What is replayed from the log is what was called: the same batches against the same clock.

>>> batch = Batch(["a", "b"], np.array([1.0, 2.0]), np.array([0, 3], dtype=np.int16))
>>> back, now = unpacked(packed(batch, now=5.0))
>>> back.ids, back.times.tolist(), now
(['a', 'b'], [1.0, 2.0], 5.0)
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from roadworthy.analysis.risk.calibration import Calibration
    from roadworthy.monitor import Monitor, Taken

_HEAD = struct.Struct("<Id")
"""How many events, and the clock they were held against."""


@dataclass(frozen=True)
class Batch:
    """Events in the order in which they were posted."""

    ids: list[str]
    times: NDArray[np.float64]
    cells: NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.ids)


class Single:
    """One event as it was posted: its scores by name, or its cell. It is placed with others of its group, all at once."""

    __slots__ = ("cell", "id", "scores", "time")

    def __init__(
        self, id: str, time: float, scores: Mapping[str, float] | None, cell: int = -1
    ) -> None:
        self.id, self.time, self.scores, self.cell = id, time, scores, cell

    def __len__(self) -> int:
        return 1


def why_unscored(post: Batch | Single, calibration: Calibration) -> str:
    """Why events of a post have no place; empty where all of them have one."""
    if isinstance(post, Batch):
        gone = int((post.cells < 0).sum())
        return calibration.why_nowhere(gone) if gone else ""
    if post.scores is None:
        return calibration.why_nowhere(1) if post.cell < 0 else ""
    lacking = calibration.lacked_by(post.scores)
    return "" if lacking is None else calibration.why_nowhere(1, lacking=lacking)


class Label(NamedTuple):
    """Whether an event's answer was right; without a probability the queue's counts, else 1."""

    id: str
    correct: bool
    probability: float | None = None
    cell: int | None = None
    time: float | None = None


LabelPost = Sequence[Label]


class Labelled(NamedTuple):
    """What became of labels: how many were taken, and the ids of events that are no longer known."""

    taken: int
    unknown: tuple[str, ...]
    without_probability: int = 0
    """Of those taken: neither sent with a probability nor asked for, so that they count as sure to be labelled."""


class Places(Protocol):
    """What is read of a calibration: its scores, and how they become cells."""

    @property
    def names(self) -> tuple[str, ...]:
        """The scores it reads."""

    @property
    def references(self) -> tuple[tuple[float, ...], ...]:
        """Of each score, some that clean rows had."""

    @property
    def reach(self) -> tuple[tuple[float, float], ...]:
        """Of each score, the lowest and the highest of all rows."""

    @property
    def cells(self) -> int:
        """How many cells there are."""

    def place(self, columns: Mapping[str, Any]) -> NDArray[np.int16]:
        """The cell of each event."""


def placed(singles: Sequence[Single], calibration: Places) -> Batch:
    """Single events as a batch."""
    cells = np.array([single.cell for single in singles], dtype=np.int16)
    rows = [i for i, single in enumerate(singles) if single.scores is not None]
    if rows:
        given = [singles[i].scores or {} for i in rows]
        columns = {
            name: [scores.get(name, math.nan) for scores in given] for name in calibration.names
        }
        cells[rows] = calibration.place(columns)
    return Batch(
        [single.id for single in singles], np.array([single.time for single in singles]), cells
    )


def joined(batches: Sequence[Batch]) -> Batch:
    """Several batches as one."""
    if len(batches) == 1:
        return batches[0]
    ids = [name for batch in batches for name in batch.ids]
    return Batch(
        ids, np.concatenate([b.times for b in batches]), np.concatenate([b.cells for b in batches])
    )


def packed(batch: Batch, *, now: float) -> bytes:
    """The events and the clock, little-endian; ids as JSON."""
    names = json.dumps(batch.ids, ensure_ascii=False, separators=(",", ":")).encode()
    times, cells = batch.times.astype("<f8", copy=False), batch.cells.astype("<i2", copy=False)
    return b"".join((_HEAD.pack(len(batch), now), times.tobytes(), cells.tobytes(), names))


def unpacked(content: bytes) -> tuple[Batch, float]:
    """The inverse of `packed`."""
    n, now = _HEAD.unpack_from(content)
    at = _HEAD.size
    times = np.frombuffer(content, "<f8", n, at).astype(np.float64)
    cells = np.frombuffer(content, "<i2", n, at + 8 * n).astype(np.int16)
    return Batch(json.loads(content[at + 10 * n :]), times, cells), now


def clock_of(content: bytes) -> float:
    """What the clock showed when packed events were counted."""
    return float(_HEAD.unpack_from(content)[1])


def count(monitor: Monitor, batch: Batch, *, now: float) -> Taken:
    """Hand a batch to the monitor."""
    from roadworthy.monitor import Events

    if len(batch) == 1:
        return monitor.update_one(
            batch.ids[0], float(batch.times[0]), cell=int(batch.cells[0]), now=now
        )
    return monitor.update(Events(batch.ids, batch.times, cells=batch.cells), now=now)


def all_new(monitor: Monitor, batch: Batch, *, now: float) -> bool:
    """Whether every event of a batch is sure to be counted: none repeated, late or ahead. May say no where they would be."""
    state, recent = monitor.state, monitor.state.recent
    names = set(batch.ids)
    if len(names) < len(batch) or not recent.known.isdisjoint(names):
        return False
    oldest, newest = float(batch.times.min()), float(batch.times.max())
    if oldest < max(newest, state.newest) - state.lateness or newest > now + state.ahead:
        return False
    over = len(recent) + len(batch) - recent.capacity
    return over < 0 or (over < len(recent) and oldest > recent.time[over])
