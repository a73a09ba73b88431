"""What a monitor is given: events with an id, a time in seconds, and scores or the cell they fall into.

Ids are remembered as 64-bit marks (BLAKE2b of the text), the same on every machine, so that two replicas know an event that both
have seen. A whole-number id of 64 bits is mixed by a bijection instead: two of them never collide, and 7 and "7" are two ids. An
event without an id is known by its replica and its number there. Within one monitor the names themselves are compared, and marks
are worked out where they are needed: to order events of the same instant, to keep a state, and to put two together.

>>> marks(["a", "b"]).tolist() == [mark("a"), mark("b")], marks([7]).tolist() == [mark(7)]
(True, True)
>>> marks([("replica", 3), ("replica", 4)]).tolist()[1] == mark(("replica", 4)), given_name(("replica", 4))
(True, 'replica#4')
>>> Taken(3, 1, 0, 0) + Taken(2, 0, 0, 1)
Taken(accepted=5, repeated=1, late=0, unscored=1, ahead=0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Cells = NDArray[np.int16]
Marks = NDArray[np.uint64]

Name = str | int | tuple[str, int]
"""An id, or the replica and the number of an event that came without one."""

_NUMBER = "#"
"""Between the name of a replica and the number of an event that came without a name."""
LATEST = 1e11
"""Seconds, in the year 5138: a larger number is milliseconds or less, and one such event would make all others late."""


class EventError(ValueError):
    """An event that cannot be taken, or not told apart; nothing of the call it came with was counted."""


class Taken(NamedTuple):
    """What became of the events of one call; the five numbers add up to all of them."""

    accepted: int
    """Counted, with a score."""
    repeated: int
    """Ignored: their id was seen before."""
    late: int
    """Refused: older than the lateness horizon, or than every event whose id is still known."""
    unscored: int
    """Counted as events without any score."""
    ahead: int = 0
    """Refused: later than the clock they were held against."""

    def __add__(self, other: object) -> Taken:
        if not isinstance(other, Taken):
            return NotImplemented
        a, b, c, d, e = self
        f, g, h, i, j = other
        return Taken(a + f, b + g, c + h, d + i, e + j)

    @property
    def total(self) -> int:
        """Events given."""
        return sum(self)


@dataclass(frozen=True)
class Events:
    """Events in the order in which they arrived: scores by column, or cells where they are known already.

    Without ids no event can be known again, so none is repeated; without times events are one second apart.
    """

    id: Sequence[str] | Sequence[int] | NDArray[Any] | None = None
    time: ArrayLike | None = None
    columns: Mapping[str, ArrayLike] | None = None
    cells: ArrayLike | None = None

    def __post_init__(self) -> None:
        if (self.columns is None) == (self.cells is None):
            raise EventError(
                "events have either columns of scores or cells; give exactly one of the two"
            )


_BLANK = blake2b(digest_size=8, person=b"roadworthy event"[:16])
_MASK = 0xFFFFFFFFFFFFFFFF


def mark(name: Name) -> int:
    """The mark of one event."""
    if isinstance(name, str):
        state = _BLANK.copy()
        state.update(name.encode("utf-8", "surrogatepass"))
        return int.from_bytes(state.digest(), "little")
    if isinstance(name, tuple):
        return int(marks([name])[0])
    number = int(plain_name(name))
    # Only so many numbers have a mark of their own.
    return (
        int(mixed(_wrapped([number]))[0]) if 0 <= number <= _MASK else mark(f"the number {number}")
    )


def marks(names: Sequence[Any] | NDArray[Any]) -> Marks:
    """The marks of many events."""
    if isinstance(names, np.ndarray):
        if names.dtype.kind == "u" or (
            names.dtype.kind == "i" and (not names.size or names.min() >= 0)
        ):
            return mixed(names.astype(np.uint64))
        names = names.tolist()
    kinds = set(map(type, names))
    if kinds == {int}:
        if min(names) < 0 or max(names) > _MASK:
            return np.array([mark(name) for name in names], dtype=np.uint64)
        return mixed(_wrapped(list(names)))
    if kinds == {tuple}:
        salts = {replica: mark(replica) for replica, _ in names}
        return mixed(
            _wrapped([number for _, number in names])
            ^ _wrapped([salts[replica] for replica, _ in names])
        )
    digests = []
    try:
        for name in names:
            state = _BLANK.copy()
            state.update(name.encode())
            digests.append(state.digest())
    except (AttributeError, UnicodeEncodeError):
        return np.array([mark(name) for name in names], dtype=np.uint64)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64, copy=False)


def _wrapped(numbers: Sequence[int]) -> Marks:
    return np.array([number & _MASK for number in numbers], dtype=np.uint64)


def given_name(name: Name) -> str | int:
    """A name as a text or a number, which JSON knows and a question can carry."""
    return f"{name[0]}{_NUMBER}{name[1]}" if isinstance(name, tuple) else name


def numbered_name(name: str | int) -> tuple[str, int] | None:
    """The replica and the number in the text for an event without an id; None where it is no such text.

    >>> numbered_name("replica#4"), numbered_name("replica#x"), numbered_name(4)
    (('replica', 4), None, None)
    """
    if not isinstance(name, str):
        return None
    replica, _, number = name.rpartition(_NUMBER)
    # As many digits as fit into 64 bits.
    return (replica, int(number)) if replica and number.isdecimal() and len(number) < 19 else None


def kept_names(names: Sequence[str | int], kept: Marks) -> list[Name]:
    """The names that were kept as these texts and numbers: the marks tell an event without an id from one that is called so."""
    found: list[Name] = list(names)
    numbered = {i: name for i, name in enumerate(map(numbered_name, names)) if name is not None}
    if numbered:
        same = marks(list(numbered.values())) == kept[list(numbered)]
        for (i, name), own in zip(numbered.items(), same.tolist(), strict=True):
            if own:
                found[i] = name
    return found


def plain_names(names: Sequence[Any] | NDArray[Any]) -> Sequence[Any]:
    """Ids as texts and whole numbers of Python, which JSON knows.

    >>> plain_names([np.int64(7), np.str_("a"), "b"])
    [7, 'a', 'b']
    """
    found: Sequence[Any] = names.tolist() if isinstance(names, np.ndarray) else names
    if isinstance(names, np.ndarray) and names.dtype.kind in "iuU":
        return found
    types = list(map(type, found))
    if types.count(str) == len(types) or set(types) <= {str, int}:
        return found
    return [plain_name(name) for name in found]


def plain_name(name: Any) -> str | int:
    """One id as a text or whole number of Python."""
    if isinstance(name, int | np.integer):
        return int(name)
    if isinstance(name, str):
        return str(name)
    raise EventError(f"an id is a text or a whole number, found {type(name).__name__} {name!r}")


def mixed(numbers: Marks) -> Marks:
    """Whole numbers spread over 64 bits by a bijection (the finaliser of splitmix64, Steele et al. 2014)."""
    with np.errstate(over="ignore"):
        z = numbers + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def checked_time(time: float, id: Any) -> float:
    """The time of one event as a number, refused as `checked_times` does."""
    if not -LATEST < time < LATEST:
        raise EventError(
            f"event {id!r} has the time {time}; give finite seconds, such as those since 1970"
        )
    return float(time)


def checked_times(time: ArrayLike, n: int, name: Any) -> Floats:
    """Times as numbers; one that is not finite, or that no clock shows, is refused with its event."""
    times = np.asarray(time, dtype=np.float64)
    if times.shape != (n,):
        raise EventError(f"{n} events need {n} times in seconds, found shape {times.shape}")
    fine = np.abs(times) < LATEST
    if not fine.all():
        i = int(fine.argmin())
        raise EventError(
            f"event {name(i)} has the time {times[i]}; give finite seconds, such as those since 1970"
        )
    return times


def checked_cells(cells: ArrayLike, size: int, name: Any) -> Cells:
    """Cells as int16; one that the calibration does not have is refused with its event (-1: no score)."""
    array = np.asarray(cells)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise EventError(
            f"cells are whole numbers, one an event, found {array.dtype} of shape {array.shape}"
        )
    wrong = np.flatnonzero((array < -1) | (array >= size))
    if wrong.size:
        i = int(wrong[0])
        raise EventError(
            f"event {name(i)} has cell {array[i]}; this calibration has cells 0 to {size - 1}, and -1 for no score"
        )
    return array.astype(np.int16, copy=False)
