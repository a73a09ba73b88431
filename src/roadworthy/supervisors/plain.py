"""Supervisors that are a formula of a row's columns: nothing is learned, kept or read again.

>>> class Widest(PlainSupervisor):
...     def risk(self, scores):
...         return 1 - np.ptp(scores, axis=1)
>>> n = np.arange(2)
>>> rows = ModuleTrace(n, n, np.array([None, "broke"]), n, CLASS_SCORES, np.array([[0.75, 0.25], [1.0, 0.0]]))
>>> Widest().score(rows).tolist()
[0.5, nan]
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.data.values import CLASS_SCORES, Kind
from roadworthy.subject.needs import Output, Request
from roadworthy.subject.trace import ModuleTrace


class OfClasses:
    """One that needs class scores."""

    why = "it reads class scores"

    def applies_to(self, kind: Kind) -> str | None:
        """Class scores only."""
        return None if kind is CLASS_SCORES else f"{self.why}, and the module gives {kind.name}"


class PlainSupervisor(OfClasses, ABC):
    """The contract's methods; a method adds `risk`, a formula of what it needs. It reads class scores unless it says otherwise."""

    needs: tuple[Request, ...] = (Output(),)
    fitted = False

    def fit(self, trace: ModuleTrace, truth: Any) -> None:
        """There is nothing to learn."""

    def score(self, trace: ModuleTrace) -> np.ndarray:
        """NaN where there is no answer, or where what it reads is not finite."""
        result = np.full(len(trace), np.nan)
        # Where nobody answered, nobody knows how wide an answer would be.
        if not trace.ok.any():
            return result
        columns = [column_of(trace, need) for need in self.needs]
        sound = trace.ok & np.logical_and.reduce([np.isfinite(c).all(axis=1) for c in columns])
        if sound.any():
            result[sound] = self.risk(*(c[sound] for c in columns))
        return result

    def save(self, folder: Path) -> None:
        """There is nothing to keep."""

    def load(self, folder: Path) -> None:
        """There is nothing to read."""

    @abstractmethod
    def risk(self, *columns: Any, **_: Any) -> np.ndarray:
        """One number a row, higher is riskier, of the columns that are needed, in that order: finite float64 (rows, k)."""


def column_of(trace: ModuleTrace, need: Request) -> np.ndarray:
    """What was asked for, as float64 (rows, k)."""
    if isinstance(need, Output):
        return np.asarray(trace.output, dtype=np.float64).reshape(len(trace), -1)
    if need.column not in trace.columns:
        known = ", ".join(trace.columns) or "no columns"
        raise ValueError(
            f"the column {need.column!r} is needed, and the trace has {known}; ask the subject for it"
        )
    return np.asarray(trace.columns[need.column], dtype=np.float64).reshape(len(trace), -1)
