"""The contract of a supervisor: a score that predicts misbehaviour; higher is riskier, always.

A supervisor says what it needs of a module's trace, may be fitted on reference rows, and scores rows. Scores of a case's steps
are reduced to the case. It is saved as arrays and JSON, never as pickle.

One that needs the scores of others (`Score`) is fitted after them, on cases that they have scored: clean calibration cases
where there are some, else the reference ones. If it says `contrasts = True` it also gets calibration cases under the
circumstances, and its `truth` is then, case by case, whether it is one of these; with `learns_failures = True`, whether it failed.

One that names several roles in `learns_from` is fitted on the clean rows of those that the file has; the column `ROLE` says
which of them a row is of, and there is no truth.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from roadworthy.data.values import Kind
from roadworthy.subject.needs import Request
from roadworthy.subject.trace import ModuleTrace

ROLE = "role"
"""The column of a row's place among the roles that a supervisor learns from."""


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


def reduce_steps(
    trace: ModuleTrace, scores: np.ndarray, cases: np.ndarray, how: str = "max"
) -> np.ndarray:
    """From rows (steps) to cases, in the order of `cases`: the riskiest step, or the mean.

    Only NaN is "no score": such rows are left out, and a case has none if all its rows have none. An infinite step is an
    infinitely risky (or safe) step.
    """
    if len(trace) == len(cases) and (trace.case == cases).all():
        return scores
    position = {case: i for i, case in enumerate(cases)}
    rows = np.array([position[c] for c in trace.case], dtype=np.intp)
    given = ~np.isnan(scores)
    count = np.bincount(rows[given], minlength=len(cases))
    if how == "mean":
        total = np.zeros(len(cases))
        with np.errstate(invalid="ignore"):  # +inf and -inf in one case: nobody can say
            np.add.at(total, rows[given], scores[given])
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)
    reduced = np.full(len(cases), -np.inf)
    np.maximum.at(reduced, rows[given], scores[given])
    return np.where(count > 0, reduced, np.nan)
