"""What a measure says of a set of cases: an error and a failure each, and one number for any weighting of them.

A measure is a registered function ``measure(outputs, targets, *, …) -> Scored``. ``None`` as an output means that the subject
gave no answer; the measure counts it as the worst answer there is. Three shapes cover the field:

- *mean* of per-case scores in [0, 1] that are all 0 or 1 (accuracy, success rate): a proportion;
- *ratio* of sums (word error rate, MOTA, RMSE before the root): ``scale(sum of numerators / sum of denominators)``;
- *free*: anything that can be computed from case weights (average precision).

The weighted form is what makes a bootstrap over groups cheap: matching is done once.

>>> import numpy as np
>>> right = np.array([1.0, 0.0, 1.0, 1.0])
>>> scored = Scored.proportion(right)
>>> scored.value(), scored.value(np.array([0, 1, 0, 1]))
(0.75, 0.5)
>>> scored.failure.tolist()
[False, True, False, False]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

Weighted = Callable[[np.ndarray], float]


@dataclass(frozen=True)
class Scored:
    """Per-case results of a measure and how they add up."""

    error: np.ndarray
    """0 is a perfect answer, larger is worse; one a case."""
    failure: np.ndarray
    """Which answers count as wrong."""
    shape: Literal["proportion", "ratio", "free"]
    weighted: Weighted
    """The measure's value for integer or real case weights."""
    better: Literal["higher", "lower"] = "higher"
    numerator: np.ndarray | None = None
    denominator: np.ndarray | None = None
    scale: Callable[[float], float] | None = None
    """For a ratio: from the ratio of sums to the value (monotone), None for the ratio itself."""
    subset: Callable[[np.ndarray], Scored] | None = None
    """For a free measure: the same measure of some rows."""

    def __len__(self) -> int:
        return len(self.error)

    def value(self, weights: np.ndarray | None = None) -> float:
        """The measure over all cases, or with weights."""
        return float(self.weighted(np.ones(len(self.error)) if weights is None else weights))

    def take(self, rows: np.ndarray) -> Scored:
        """The same measure of some rows (indices or a mask)."""
        rows = np.flatnonzero(rows) if np.asarray(rows).dtype == bool else np.asarray(rows)
        if self.shape == "proportion":
            return Scored.proportion(1.0 - self.error[rows], better=self.better)
        if self.shape == "ratio":
            assert self.numerator is not None and self.denominator is not None
            return Scored.ratio(
                self.numerator[rows],
                self.denominator[rows],
                error=self.error[rows],
                failure=self.failure[rows],
                better=self.better,
                scale=self.scale,
            )
        assert self.subset is not None, "a free measure says how to take a subset"
        return self.subset(rows)

    @classmethod
    def proportion(cls, right: np.ndarray, *, better: Literal["higher", "lower"] = "higher") -> Scored:
        """Share of cases that are right (1) rather than wrong (0)."""
        right = np.asarray(right, dtype=np.float64)

        def weighted(weights: np.ndarray) -> float:
            total = float(np.sum(weights))
            return float(np.dot(weights, right)) / total if total > 0 else float("nan")

        return cls(1.0 - right, right < 0.5, "proportion", weighted, better, right, np.ones(len(right)))

    @classmethod
    def ratio(
        cls,
        numerator: np.ndarray,
        denominator: np.ndarray,
        *,
        error: np.ndarray,
        failure: np.ndarray,
        better: Literal["higher", "lower"],
        scale: Callable[[float], float] | None = None,
    ) -> Scored:
        """Sum of numerators over sum of denominators, then `scale`."""

        def weighted(weights: np.ndarray) -> float:
            below = float(np.dot(weights, denominator))
            if below == 0:
                return float("nan")
            ratio = float(np.dot(weights, numerator)) / below
            return scale(ratio) if scale else ratio

        return cls(error, failure, "ratio", weighted, better, numerator, denominator, scale)
