"""A strategy of rejection as a score, so that the monitor can use it with a threshold (Wang et al. 2022, RQ4).

Scores of members become ranks among clean cases. ``common`` takes the lowest of a case's ranks: above a threshold all members
call the case risky (S5). ``either`` takes the highest: one member is enough (S3 and S4). ``learned`` is the logistic combination
of the ranks that tells failures from right answers in the calibration cases.

>>> from roadworthy.data.values import VECTOR
>>> def rows(**scores):
...     n = np.arange(len(next(iter(scores.values()))))
...     columns = {f"score.{name}": np.asarray(column, float) for name, column in scores.items()}
...     return ModuleTrace(n, n, np.full(len(n), None), n, VECTOR, np.zeros((len(n), 1)), columns)
>>> both = Rejection(members=["vro", "kde"])
>>> both.fit(rows(vro=np.arange(9), kde=np.arange(9)), None)
>>> both.score(rows(vro=[0.0, 8.5, np.nan], kde=[0.0, 4.0, 99.0])).round(2).tolist()
[0.1, 0.5, 0.95]
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from roadworthy.registry import register
from roadworthy.statistics.fusion import LogisticFusion, ranks, thinned
from roadworthy.subject.trace import ModuleTrace
from roadworthy.supervisors.fused import Fused


@register("supervisors", "rejection")
class Rejection(Fused):
    """A strategy of rejection over other supervisors' scores: common to all, either, or learned.

    Members are the labels of other supervisors in the file; without any, all others that are applicable.
    """

    name = "rejection"

    def __init__(
        self,
        *,
        members: tuple[str, ...] = (),
        how: Literal["common", "either", "learned"] = "common",
    ) -> None:
        if how not in ("common", "either", "learned"):
            raise ValueError(f"how is {how!r}; 'common', 'either' or 'learned' was expected")
        super().__init__(members=members)
        self.how = how  # type: ignore[assignment]
        self.contrasts = self.learns_failures = how == "learned"
        """Whether it learns from all calibration cases; `truth` then says which of them failed."""

    def fit(self, trace: ModuleTrace, truth: Any) -> None:
        """Learn from cases with an answer; for ``learned``, truth says which of them failed."""
        super().fit(trace, None) if not self.learns_failures else self._fit_failures(trace, truth)

    def _fit_failures(self, trace: ModuleTrace, truth: Any) -> None:
        failed = np.asarray(truth)
        if failed.dtype != bool or failed.shape != (len(trace),):
            raise ValueError("a learned rejection is fitted on failures; truth marks these")
        columns, given = self._columns(trace, self._names(trace)), trace.ok
        marks = failed[given]
        if not marks.any() or marks.all():
            raise ValueError(
                f"{self.name} cannot be fitted: {int(marks.sum())} of {len(marks)} calibration cases fail, and it needs "
                "both; use how: common"
            )
        fusion = LogisticFusion.fit({n: c[given] for n, c in columns.items()}, marks)
        self.notes = []
        self._learned = self._arrays(dict(fusion.references), fusion.coefficients)
        self._forget()

    def score(self, trace: ModuleTrace) -> np.ndarray:
        """NaN where there is no answer, or no member has a score."""
        self._refuse_unfitted()
        names = [str(n) for n in self._learned["names"]]
        references = {n: self._learned[f"reference.{i}"] for i, n in enumerate(names)}
        columns = self._columns(trace, names)
        if self.learns_failures:
            found = LogisticFusion(references, self._learned["coefficients"]).score(columns)
        else:
            table = np.stack([ranks(columns[n], thinned(references[n])) for n in names])
            join = np.fmin if self.how == "common" else np.fmax
            found = join.reduce(table, axis=0)
        return np.where(trace.ok, found, np.nan)
