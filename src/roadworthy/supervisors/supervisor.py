"""The contract of a supervisor: a score that predicts misbehaviour; higher is riskier, always.

A supervisor says what it needs of a module's trace, may be fitted on reference rows, and scores rows. Scores of a case's steps
are reduced to the case. It is saved as arrays and JSON, never as pickle.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from roadworthy.data.values import Kind
from roadworthy.subject.needs import Request
from roadworthy.subject.trace import ModuleTrace


@runtime_checkable
class Supervisor(Protocol):
    """What execution asks of a supervisor."""

    needs: tuple[Request, ...]
    fitted: bool
    """Whether it must be fitted on reference data before it scores."""

    def applies_to(self, kind: Kind) -> str | None:
        """None if it can supervise a module with such output, else the end of "not applicable, because …"."""
        ...

    def fit(self, trace: ModuleTrace, truth: Any) -> None:
        """Learn from reference rows."""
        ...

    def score(self, trace: ModuleTrace) -> np.ndarray:
        """Float64, one a row; NaN where the row has no answer."""
        ...

    def save(self, folder: Path) -> None:
        """Write what was learned."""
        ...

    def load(self, folder: Path) -> None:
        """Read it again."""
        ...


def reduce_steps(trace: ModuleTrace, scores: np.ndarray, cases: np.ndarray, how: str = "max") -> np.ndarray:
    """From rows (steps) to cases, in the order of `cases`: the riskiest step, or the mean; NaN where a case has no row."""
    if len(trace) == len(cases) and (trace.case == cases).all():
        return scores
    position = {case: i for i, case in enumerate(cases)}
    rows = np.array([position[c] for c in trace.case])
    sound = np.isfinite(scores)
    if how == "mean":
        total = np.bincount(rows[sound], weights=scores[sound], minlength=len(cases))
        count = np.bincount(rows[sound], minlength=len(cases))
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)
    reduced = np.full(len(cases), -np.inf)
    np.maximum.at(reduced, rows[sound], scores[sound])
    return np.where(np.isfinite(reduced), reduced, np.nan)


def parameters_of(supervisor: Any) -> Mapping[str, Any]:
    """The parameters a supervisor was made with, for the run's record."""
    return {k: v for k, v in vars(supervisor).items() if not k.startswith("_")}
