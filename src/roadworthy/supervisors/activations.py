"""What supervisors of activations share: reading a layer's rows and classes, and keeping what was learned as arrays and JSON.

A supervisor of this kind learns a dictionary of arrays from reference rows. Rows without an answer are left out of fitting and
have no score; so are and have rows whose activations are not finite, and a note counts them.

>>> rows = np.array([[3.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
>>> found = ByClass.of(rows, np.array([7, 4, 7]))
>>> found.labels.tolist(), found.rows(1).tolist()
([4, 7], [[3.0, 0.0], [2.0, 0.0]])
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from roadworthy.data.values import CLASS_SCORES, Kind
from roadworthy.statistics.neighbours import chunk_rows
from roadworthy.statistics.row_blocks import finite_rows
from roadworthy.subject.needs import Layer, Output, Request
from roadworthy.subject.trace import ModuleTrace
from roadworthy.supervisors.keeping import LearnedSupervisor


@dataclass(frozen=True)
class ByClass:
    """Rows in the order of their classes, so that a class is a slice; they are copied a class at a time, when asked for."""

    unsorted: np.ndarray
    order: np.ndarray
    labels: np.ndarray
    """The classes, ascending."""
    starts: np.ndarray
    """Where each begins, and where the last ends."""

    @classmethod
    def of(cls, points: np.ndarray, classes: np.ndarray) -> ByClass:
        """Sort rows by class; rows of one class stay in order."""
        order = np.argsort(classes, kind="stable")
        labels, first = np.unique(classes[order], return_index=True)
        return cls(points, order, labels, np.append(first, len(order)))

    @property
    def points(self) -> np.ndarray:
        """All rows, sorted: a copy."""
        return self.unsorted[self.order]

    def rows(self, i: int) -> np.ndarray:
        """The rows of the i-th class."""
        return self.unsorted[self.order[self.starts[i] : self.starts[i + 1]]]

    def classes(self) -> np.ndarray:
        """Every row's class, as its position in `labels`."""
        return np.repeat(np.arange(len(self.labels)), np.diff(self.starts))

    def means(self) -> np.ndarray:
        """The mean of each class, in float64."""
        return np.stack(
            [self.rows(i).mean(axis=0, dtype=np.float64) for i in range(len(self.labels))]
        )


class ActivationSupervisor(LearnedSupervisor, ABC):
    """The contract's methods; a method adds what it learns from activations (`_learn`) and the risk it sees in them (`_risk`)."""

    def __init__(
        self,
        *,
        layer: str = "penultimate",
        pool: Literal["mean", "max", "none"] = "mean",
        device: str = "cpu",
        memory_mb: int = 512,
    ) -> None:
        super().__init__()
        chunk_rows(1, memory_mb)
        self.layer, self.pool, self.device, self.memory_mb = layer, pool, device, memory_mb
        self.needs: tuple[Request, ...] = (Output(), Layer(layer, pool))

    def applies_to(self, kind: Kind) -> str | None:
        """Any output: it reads activations alone."""
        return None

    def fit(self, trace: ModuleTrace, truth: Any) -> None:
        """Learn from the rows that have an answer and finite activations; refused if none has."""
        rows = np.flatnonzero(trace.ok & self._readable(trace))
        self._refuse_none(rows, trace)
        column = activations_in(trace, self.needs[1], self.name)
        # What is learned is made from these rows and never they themselves: they may be the caller's, or a file.
        activations = column if len(rows) == len(trace) else column[rows]
        sound, lost = finite_rows(activations), len(rows)
        if not sound.all() and sound.any():
            # A module that gave nonsense for some cases is still supervised on the others.
            activations, rows = activations[sound], rows[sound]
        refuse_broken(activations, self.name, self.layer)
        self.notes = []
        self._learned = self._learn(activations, self._classes(trace, truth)[rows])
        if lost > len(rows):
            self.notes.append(
                f"{lost - len(rows)} of {lost} reference rows have NaN or infinite activations and are left out"
            )
        self._forget()

    def score(self, trace: ModuleTrace) -> np.ndarray:
        """NaN where there is no answer or the activations are not finite."""
        self._refuse_unfitted()
        result = np.full(len(trace), np.nan)
        sound = trace.ok & self._readable(trace)
        # Where nobody answered, nobody knows how wide an answer would be.
        if not sound.any():
            return result
        column = activations_in(trace, self.needs[1], self.name)
        expected = int(self._learned["width"])
        if column.shape[1] != expected:
            raise ValueError(
                f"{self.name} was fitted on {expected} activations a row of the layer {self.layer!r}, "
                f"and {column.shape[1]} were found; score the module it was fitted on, with the same pooling"
            )
        predicted = self._predicted(trace)
        size = chunk_rows(expected, self.memory_mb, bytes_each=8)
        for start in range(0, len(trace), size):
            activations = column[start : start + size]
            usable = sound[start : start + size] & finite_rows(activations)
            rows = start + np.flatnonzero(usable)
            if len(rows):
                activations = activations if usable.all() else activations[usable]
                result[rows] = self._risk(activations, predicted[rows])
        return result

    def _predicted(self, trace: ModuleTrace) -> np.ndarray:
        """The predicted class of every row; one and the same where the output is no class."""
        if trace.kind is not CLASS_SCORES:
            return np.zeros(len(trace), dtype=np.int64)
        predicted: np.ndarray = _scores(trace).argmax(axis=1)
        return predicted

    def _classes(self, trace: ModuleTrace, truth: Any) -> np.ndarray:
        """The class of every reference row: as the module predicts it."""
        return self._predicted(trace)

    def _readable(self, trace: ModuleTrace) -> np.ndarray:
        """Which rows have a class, where the output is one."""
        if trace.kind is not CLASS_SCORES or not len(trace):
            return np.ones(len(trace), dtype=bool)
        readable: np.ndarray = np.isfinite(_scores(trace)).all(axis=1)
        return readable

    @abstractmethod
    def _learn(self, activations: np.ndarray, classes: np.ndarray) -> dict[str, np.ndarray]:
        """Arrays by name; ``width`` is the number of activations a row."""

    @abstractmethod
    def _risk(self, activations: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """One number a row of finite activations; higher is riskier."""


def activations_in(trace: ModuleTrace, need: Request, name: str) -> np.ndarray:
    """One row of float32 (float64 where the layer gives it) for every row of the trace."""
    if need.column not in trace.columns:
        known = ", ".join(trace.columns) or "no columns"
        raise ValueError(f"{name} reads {need.column!r}, and the trace has {known}")
    values = np.asarray(trace.columns[need.column]).reshape(len(trace), -1)
    return values if values.dtype == np.float64 else values.astype(np.float32, copy=False)


def unseen_classes(count: int, seen: np.ndarray) -> str:
    """Which of so many classes no row is of, in words; empty if there is none.

    >>> unseen_classes(13, np.array([2])), unseen_classes(1, np.array([0]))
    ('0, 1, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more', '')
    """
    missing = sorted(set(range(count)) - set(seen.tolist()))
    more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
    return ", ".join(map(str, missing[:10])) + more


def refuse_broken(activations: np.ndarray, name: str, layer: str) -> None:
    """Refuse to fit on activations that are not finite."""
    broken = int((~finite_rows(activations)).sum())
    if broken:
        raise ValueError(
            f"{name} cannot be fitted: the layer {layer!r} has NaN or infinite activations in {broken} of "
            f"{len(activations)} rows; leave those cases out of the reference data, or choose another layer"
        )


def _scores(trace: ModuleTrace) -> np.ndarray:
    return np.asarray(trace.output, dtype=np.float64).reshape(len(trace), -1)
