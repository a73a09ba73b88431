"""What a monitor is given: events with an id, a time in seconds, and scores or the cell they fall into.

An id is a text or a whole number; 7 and "7" are two ids. An event without an id is named after its
replica and its number there, as in `replica#4`.

>>> Taken(3, 1, 0, 0) + Taken(2, 0, 0, 1)
Taken(accepted=5, repeated=1, late=0, unscored=1, ahead=0)
>>> plain_ids([np.int64(7), np.str_("a"), "b"])
[7, 'a', 'b']
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import add
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Cells = NDArray[np.int16]
Id = str | int
Ids = Sequence[Any] | NDArray[Any] | None

LATEST = 1e11
"""Seconds, in the year 5138: a larger number is milliseconds, which would make all others late."""


class EventError(ValueError):
    """An event that cannot be counted; nothing of the call it came with was counted."""


class Taken(NamedTuple):
    """What became of the events of one call; the five numbers add up to all of them."""

    accepted: int
    """Counted, with a score."""
    repeated: int
    """Ignored: the id was seen before."""
    late: int
    """Refused: older than the lateness horizon, or than every event whose id is still known."""
    unscored: int
    """Counted as events without any score."""
    ahead: int = 0
    """Refused: later than the clock they were compared with."""

    def __add__(self, other: object) -> Taken:
        return Taken(*map(add, self, other)) if isinstance(other, Taken) else NotImplemented

    @property
    def total(self) -> int:
        """Events given."""
        return sum(self)


@dataclass(frozen=True)
class Events:
    """Events in the order in which they arrived: scores by column, or cells if they are known.

    Without ids none is repeated; without times events are one second apart.
    """

    id: Ids = None
    time: ArrayLike | None = None
    columns: Mapping[str, ArrayLike] | None = None
    cells: ArrayLike | None = None

    def __post_init__(self) -> None:
        if (self.columns is None) == (self.cells is None):
            raise EventError("Events need either columns of scores or cells. Give one of the two.")


class ScoredAnswer(Protocol):
    """An answer with the scores of supervisors, such as `roadworthy.Supervised` gives."""

    @property
    def id(self) -> str: ...
    @property
    def time(self) -> float: ...
    @property
    def subject(self) -> str: ...
    @property
    def scores(self) -> Mapping[str, float]: ...


Given = Events | ScoredAnswer | Sequence[ScoredAnswer]


def monitored_scores(answer: ScoredAnswer, names: Sequence[str]) -> dict[str, float]:
    """The scores of an answer that a monitor reads; NaN for one that is infinite or not there."""
    found = {name: answer.scores.get(name, math.nan) for name in names}
    return {name: score if math.isfinite(score) else math.nan for name, score in found.items()}


def plain_ids(ids: Sequence[Any] | NDArray[Any]) -> Sequence[Id]:
    """Ids as texts and whole numbers of Python, which JSON knows."""
    found: Sequence[Any] = ids.tolist() if isinstance(ids, np.ndarray) else ids
    return found if set(map(type, found)) <= {str, int} else [plain_id(one) for one in found]


def plain_id(id: Any) -> Id:
    """One id as a text or whole number of Python."""
    if isinstance(id, int | np.integer):
        return int(id)
    if isinstance(id, str):
        return str(id)
    raise EventError(f"An id is a text or a whole number, found {type(id).__name__} {id!r}.")


def id_order(id: Id) -> tuple[bool, Id]:
    """The key by which events of the same time are sorted: numbers first, then texts."""
    return isinstance(id, str), id


def shown_id(ids: Ids, i: int) -> str:
    """The id of the event at a place, for messages."""
    return f"number {i}" if ids is None or i >= len(ids) else repr(ids[i])


def checked_times(time: ArrayLike, n: int, ids: Ids) -> Floats:
    """Times as numbers; one that is not finite, or that no clock shows, is refused with its event."""
    times = np.asarray(time, dtype=np.float64)
    if times.shape != (n,):
        raise EventError(f"{n} events need {n} times in seconds, found shape {times.shape}.")
    fine = np.abs(times) < LATEST
    if not fine.all():
        i = int(fine.argmin())
        shown = f"Event {shown_id(ids, i)} has the time {times[i]}"
        raise EventError(f"{shown}. Give finite seconds since 1970.")
    return times


def checked_cells(cells: ArrayLike, size: int, ids: Ids) -> Cells:
    """Cells as int16; one that the calibration does not have is refused with its event."""
    array = np.asarray(cells)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        found = f"{array.dtype} of shape {array.shape}"
        raise EventError(f"Cells are whole numbers, one an event, found {found}.")
    wrong = (array < -1) | (array >= size)
    if wrong.any():
        i = int(wrong.argmax())
        shown = f"Event {shown_id(ids, i)} has cell {array[i]}"
        raise EventError(f"{shown}. Cells are 0 to {size - 1}, and -1 for no score.")
    return array.astype(np.int16, copy=False)
