"""What a measure says of a set of cases: an error and a failure each, and one number for any weighting of
them.

A measure is a registered function ``measure(outputs, targets, *, …) -> Scored``. ``None`` as an output (a row
of NaN where outputs are an array) means that the subject gave no answer; the measure counts it as a failure
and as the worst answer there is (see `silence`). Three shapes cover the field:

- *proportion*: the share of cases that are right (accuracy, success rate), or of those that are wrong (error
  rate);
- *ratio* of sums (word error rate, MOTA, RMSE before the root): ``scale(sum of numerators / sum of
  denominators)``;
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

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
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
    limits: tuple[float, float] = (0.0, 1.0)
    """The lowest and the highest value the measure can have."""
    subset: Callable[[np.ndarray], Scored] | None = None
    """The same measure of some rows: for a free measure where that is cheaper than weighting all rows, for a ratio
    where the parts of a case depend on the others."""

    def __post_init__(self) -> None:
        if self.error.shape != self.failure.shape or self.error.ndim != 1:
            raise ValueError(
                f"a measure gives one error and one failure a case, but the errors have the shape "
                f"{self.error.shape} and the failures {self.failure.shape}"
            )

    def __len__(self) -> int:
        return len(self.error)

    def value(self, weights: np.ndarray | None = None) -> float:
        """The measure over all cases, or with weights; NaN where it is not defined (nothing to find, no cases)."""
        return float(
            self.weighted(np.ones(len(self.error)) if weights is None else np.asarray(weights))
        )

    def take(self, rows: np.ndarray) -> Scored:
        """The same measure of some rows (indices or a mask)."""
        rows = np.asarray(rows)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64)
        return replace(self._rows(rows), failure=self.failure[rows])

    def with_failure(self, failure: np.ndarray) -> Scored:
        """The same measure with another idea of what counts as wrong (see `failure.failures`)."""
        return replace(self, failure=np.asarray(failure, dtype=bool))

    def _rows(self, rows: np.ndarray) -> Scored:
        if self.subset is not None:
            return self.subset(rows)
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
                limits=self.limits,
            )

        def weighted(weights: np.ndarray) -> float:
            return self.weighted(np.bincount(rows, weights=weights, minlength=len(self)))

        return replace(self, error=self.error[rows], failure=self.failure[rows], weighted=weighted)

    @classmethod
    def proportion(
        cls, right: np.ndarray, *, better: Literal["higher", "lower"] = "higher"
    ) -> Scored:
        """Share of cases that are right (1), or, where lower is better, of those that are wrong (0)."""
        right = np.asarray(right, dtype=np.float64)
        if not ((right == 0) | (right == 1)).all():
            raise ValueError(
                "a proportion counts cases that are right (1) or wrong (0); use Scored.ratio for scores between"
            )
        counted = right if better == "higher" else 1.0 - right

        def weighted(weights: np.ndarray) -> float:
            total = float(np.sum(weights))
            return float(np.dot(weights, counted)) / total if total > 0 else float("nan")

        return cls(
            1.0 - right, right < 0.5, "proportion", weighted, better, counted, np.ones(len(right))
        )

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
        limits: tuple[float, float] = (0.0, math.inf),
        recount: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None,
        subset: Callable[[np.ndarray], Scored] | None = None,
    ) -> Scored:
        """Sum of numerators over sum of denominators (neither below 0), then `scale`.

        Where the parts of a case depend on which others count (see `silence`), `recount` makes both parts from
        the weights and `subset` the measure of some rows.
        """
        numerator = np.asarray(numerator, dtype=np.float64)
        denominator = np.asarray(denominator, dtype=np.float64)

        def weighted(weights: np.ndarray) -> float:
            upper, lower = recount(weights) if recount else (numerator, denominator)
            below = float(np.dot(weights, lower))
            if below == 0:
                return float("nan")
            ratio = float(np.dot(weights, upper)) / below
            return scale(ratio) if scale else ratio

        return cls(
            error, failure, "ratio", weighted, better, numerator, denominator, scale, limits, subset
        )


def complement(ratio: float) -> float:
    """``1 - r``: from a rate of errors to a measure where higher is better."""
    return 1.0 - ratio
