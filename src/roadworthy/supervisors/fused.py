"""Several supervisors as one: no single score catches every cause, and together they say more than the best of them.

``ranks`` averages the members' ranks among clean cases; ``logistic`` learns from calibration cases, clean and under the
circumstances, how the ranks tell the two apart (FIELD.md, section 2). The formulas are those of `roadworthy.statistics.fusion`.

>>> from roadworthy.data.values import VECTOR
>>> def rows(**scores):
...     n = np.arange(len(next(iter(scores.values()))))
...     columns = {f"score.{name}": np.asarray(column, float) for name, column in scores.items()}
...     return ModuleTrace(n, n, np.full(len(n), None), n, VECTOR, np.zeros((len(n), 1)), columns)
>>> both = Fused(members=["energy", "knn"])
>>> both.fit(rows(energy=np.arange(9), knn=np.arange(9)), None)
>>> both.score(rows(energy=[0.0, 8.5, np.nan], knn=[0.0, 4.0, 99.0])).round(3).tolist()
[0.1, 0.725, 0.95]
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from roadworthy.data.values import Kind
from roadworthy.registry import register
from roadworthy.statistics.fusion import LogisticFusion, rank_average, thinned
from roadworthy.subject.needs import Request, Score
from roadworthy.subject.trace import ModuleTrace
from roadworthy.supervisors.keeping import LearnedSupervisor

ALL = "*"
"""Stands for every other supervisor that is applicable."""
PREFIX = Score("").column


@register("supervisors", "fused")
class Fused(LearnedSupervisor):
    """The scores of several supervisors as one: the average of their ranks, or a logistic combination.

    Members are the labels of other supervisors in the file; without any, all others that are applicable.
    """

    name = "fused"

    def __init__(
        self, *, members: tuple[str, ...] = (), how: Literal["ranks", "logistic"] = "ranks"
    ) -> None:
        super().__init__()
        if how not in ("ranks", "logistic"):
            raise ValueError(f"how is {how!r}; 'ranks' or 'logistic' was expected")
        if len(set(members)) != len(members):
            raise ValueError(f"a member is named twice: {', '.join(members)}")
        self.members, self.how = tuple(members), how
        self.needs: tuple[Request, ...] = tuple(Score(m) for m in self.members or (ALL,))
        self.contrasts = how == "logistic"
        """Whether it learns from shifted cases too; `truth` then says which these are."""

    def applies_to(self, kind: Kind) -> str | None:
        """Any output: it reads scores alone."""
        return None

    def fit(self, trace: ModuleTrace, truth: Any) -> None:
        """Learn from cases with an answer; for ``logistic``, truth says which of them are shifted."""
        columns = self._columns(trace, self._names(trace))
        given = trace.ok
        for name, column in columns.items():
            if np.isnan(column[given]).all():
                raise ValueError(
                    f"{self.name} cannot be fitted: its member {name} scored none of {len(trace)} cases"
                )
        self.notes = []
        if self.how == "logistic":
            shifted = np.asarray(truth)
            if shifted.dtype != bool or shifted.shape != (len(trace),):
                raise ValueError(
                    "a logistic combination is fitted on clean and shifted cases; truth marks the shifted ones"
                )
            fusion = LogisticFusion.fit({n: c[given] for n, c in columns.items()}, shifted[given])
            self._learned = self._arrays(dict(fusion.references), fusion.coefficients)
        else:
            self._learned = self._arrays(
                {n: thinned(c[given]) for n, c in columns.items()}, np.zeros(0)
            )
        self._forget()

    def score(self, trace: ModuleTrace) -> np.ndarray:
        """NaN where there is no answer, or no member has a score."""
        self._refuse_unfitted()
        names = [str(n) for n in self._learned["names"]]
        references = {n: self._learned[f"reference.{i}"] for i, n in enumerate(names)}
        columns = self._columns(trace, names)
        if self.how == "logistic":
            scores = LogisticFusion(references, self._learned["coefficients"]).score(columns)
        else:
            scores = rank_average(columns, references)
        return np.where(trace.ok, scores, np.nan)

    def _names(self, trace: ModuleTrace) -> tuple[str, ...]:
        """The members, or all that the trace has scores of."""
        return self.members or tuple(
            sorted(c.removeprefix(PREFIX) for c in trace.columns if c.startswith(PREFIX))
        )

    def _columns(self, trace: ModuleTrace, names: Any) -> dict[str, np.ndarray]:
        missing = [n for n in names if PREFIX + n not in trace.columns]
        if missing or not names:
            found = ", ".join(trace.columns) or "no columns"
            raise ValueError(
                f"{self.name} reads the scores of {', '.join(missing) or 'others'}; the trace has {found}"
            )
        return {n: np.asarray(trace.columns[PREFIX + n], dtype=np.float64) for n in names}

    @staticmethod
    def _arrays(
        references: dict[str, np.ndarray], coefficients: np.ndarray
    ) -> dict[str, np.ndarray]:
        names = sorted(references)
        kept = {
            f"reference.{i}": np.asarray(references[n], dtype=np.float64)
            for i, n in enumerate(names)
        }
        return {"names": np.array(names), "coefficients": coefficients, **kept}
