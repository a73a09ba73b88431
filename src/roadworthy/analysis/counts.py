"""Counts of verdicts: how many rows of each kind of shift, right or wrong, got which verdict or score bin.

Counts add up, and rates with their exact intervals are read from them. Rows that chose the threshold, or the bins, are
refused: their rates would flatter it.

>>> table = counts([0, 1], [True, False], "snow", chosen_on=range(100), judged_on=[200, 201])
>>> table.risky_rate("snow").value, table.accuracy("snow", column=1).value, (table + table).n("snow")
(0.5, 0.0, 4)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.statistics import Interval, clopper_pearson
from roadworthy.statistics.fusion import plain_number


class CountedRate(NamedTuple):
    """A share, its exact interval for independent rows, and the rows under it."""

    value: float
    interval: Interval
    n: int


@dataclass(frozen=True, eq=False)
class Counts:
    """How many rows: kind of shift x (right, wrong) x verdict (clear, risky), or score bin where there are edges."""

    kinds: tuple[str, ...]
    table: NDArray[np.int64]
    edges: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        expected = (len(self.kinds), 2, _width(self.edges))
        if self.table.shape != expected or self.table.dtype.kind != "i" or (self.table < 0).any():
            raise ValueError(
                f"counts must be whole numbers of shape {expected}, found {self.table.shape}"
            )
        if list(self.kinds) != sorted(set(self.kinds)):
            raise ValueError(f"kinds must be distinct and in order, found {self.kinds}")
        self.table.setflags(write=False)

    def __add__(self, other: Counts) -> Counts:
        if self.edges != other.edges:
            raise ValueError(
                "counts over different score bins, or of bins and verdicts, do not add up"
            )
        kinds = sorted({*self.kinds, *other.kinds})
        table = np.zeros((len(kinds), *self.table.shape[1:]), dtype=np.int64)
        for one in (self, other):
            table[np.searchsorted(kinds, one.kinds)] += one.table
        return Counts(tuple(kinds), table, self.edges)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counts) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def n(self, kind: str) -> int:
        """Rows of a kind of shift."""
        return int(self._of(kind).sum())

    def risky_rate(
        self, kind: str, *, correct: bool | None = None, column: int = 1, confidence: float = 0.95
    ) -> CountedRate:
        """Share of a kind's rows (only the right ones, the wrong ones) with this verdict or score bin, or a riskier one."""
        cells = self._of(kind)[[0, 1] if correct is None else [0 if correct else 1]]
        return _rate(int(cells[:, column:].sum()), int(cells.sum()), confidence)

    def accuracy(
        self, kind: str, *, column: int | None = None, confidence: float = 0.95
    ) -> CountedRate:
        """Share of right answers among a kind's rows (with this verdict or score bin)."""
        cells = self._of(kind)[:, slice(None) if column is None else [column]]
        return _rate(int(cells[0].sum()), int(cells.sum()), confidence)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        edges = None if self.edges is None else [plain_number(e) for e in self.edges]
        return {"kinds": list(self.kinds), "table": self.table.tolist(), "edges": edges}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Counts:
        """The inverse of `to_dict`."""
        edges = None if record["edges"] is None else tuple(map(float, record["edges"]))
        table = np.array(record["table"], dtype=np.int64).reshape(-1, 2, _width(edges))
        return cls(tuple(map(str, record["kinds"])), table, edges)

    def _of(self, kind: str) -> NDArray[np.int64]:
        if kind not in self.kinds:
            raise ValueError(
                f"no rows of kind {kind!r}; there are {', '.join(self.kinds) or 'none at all'}"
            )
        return self.table[self.kinds.index(kind)]


def counts(
    verdicts: ArrayLike,
    correct: ArrayLike,
    kind: str | ArrayLike,
    *,
    chosen_on: Iterable[Any],
    judged_on: Iterable[Any],
    edges: Iterable[float] | None = None,
) -> Counts:
    """Count rows by kind of shift, right or wrong, and verdict (or, with the edges they lie between, score bin).

    `chosen_on` and `judged_on` are ids of samples, or of groups where rows belong together.
    """
    right, ids = np.asarray(correct, dtype=bool), list(judged_on)
    separate(chosen_on, ids)
    column, bounds = np.asarray(verdicts), None if edges is None else tuple(map(float, edges))
    kinds = np.broadcast_to(np.asarray(kind).astype(str), right.shape)
    if not column.shape == right.shape == (len(ids),):
        raise ValueError(
            f"give a verdict, a mark and an id a row, found {column.shape}, {right.shape}, {len(ids)}"
        )
    width = _width(bounds)
    if column.size and (
        column.dtype.kind not in "biu" or column.min() < 0 or column.max() >= width
    ):
        raise ValueError(
            f"expected {'verdicts' if bounds is None else 'bins'}, whole numbers from 0 to {width - 1}"
        )
    names, codes = np.unique(kinds, return_inverse=True)
    table = np.zeros((len(names), 2, width), dtype=np.int64)
    np.add.at(table, (codes, (~right).astype(np.intp), column.astype(np.intp)), 1)
    return Counts(tuple(map(str, names)), table, bounds)


def separate(chosen_on: Iterable[Any], judged_on: Iterable[Any]) -> None:
    """Refuse to judge rows on which the choice was made: their rates would flatter it."""
    both = sorted(map(str, set(chosen_on) & set(judged_on)))
    if both:
        found = f"{len(both)} of the rows to be judged, such as {both[0]}, also chose the threshold or the bins"
        raise ValueError(f"{found}; judge on other rows")


def _width(edges: tuple[float, ...] | None) -> int:
    return 2 if edges is None else len(edges) + 1


def _rate(successes: int, n: int, confidence: float) -> CountedRate:
    return CountedRate(
        successes / n if n else math.nan, clopper_pearson(successes, n, confidence=confidence), n
    )
