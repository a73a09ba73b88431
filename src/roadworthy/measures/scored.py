"""What a measure says of a set of cases: an error and a failure each, and one number for any
weighting of them.

A measure is a registered function ``measure(outputs, targets, *, …) -> Scored``. ``None`` as an
output (a row of NaN where outputs are an array) means that the subject gave no answer; the measure
counts it as a failure and as the worst answer there is. Three shapes cover the
field:

- *proportion*: the share of cases that are right (accuracy, success rate), or of those that are
  wrong (error rate);
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

>>> answered([None, "yes"]).tolist()
[False, True]
>>> answered(np.array([[0.2, 0.8], [np.nan, np.nan]])).tolist()
[True, False]

What an answer that never came costs: at least everything, and at least as much as the worst answer
that did come.

The rule, for every measure: a case without answer fails, even where its target is empty; and
putting silence in place of an answer improves neither the value nor the case's error, as long as an
answer as bad remains among the cases. No finite charge can promise more for a measure without a
worst answer: whatever silence costs, one could answer a word error rate of ten times that, and then
fall silent. Where there is a worst answer (a label, an object that is found or not) silence costs
just that, and the rule holds without the condition.

A charge looks at the cases that are measured together. Weights and rows taken change what those
are, so it is made anew for them: a case of weight 0 sets no example.

>>> found = of_ratio((np.array([6.0, 0.0]), np.array([3.0, 5.0])), np.array([True, False]), silent_edits, better="lower")
>>> found.numerator.tolist(), found.value(), found.value(np.array([0, 1]))
([6.0, 10.0], 2.0, 1.0)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

Weighted = Callable[[np.ndarray], float]
WeightedRows = Callable[[np.ndarray], np.ndarray]


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
    """The same measure of some rows: for a free measure where that is cheaper than weighting all
    rows, for a ratio where the parts of a case depend on the others."""
    by_step: Callable[[np.ndarray, np.ndarray], Scored] | None = None
    """The same measure with steps as rows, if it knows what each of them costs: from the position
    of the case and the number of the step of every row."""
    weighted_rows: WeightedRows | None = None
    """The values for rows of case weights, if that is quicker than one row after the other."""

    def __post_init__(self) -> None:
        if self.error.shape != self.failure.shape or self.error.ndim != 1:
            raise ValueError(
                f"a measure gives one error and one failure a case, but the errors have the shape "
                f"{self.error.shape} and the failures {self.failure.shape}"
            )

    def __len__(self) -> int:
        return len(self.error)

    def value(self, weights: np.ndarray | None = None) -> float:
        """The measure over all cases, or with weights; NaN where it is not defined (nothing to
        find, no cases)."""
        return float(
            self.weighted(np.ones(len(self.error)) if weights is None else np.asarray(weights))
        )

    def values(self, weights: np.ndarray) -> np.ndarray:
        """The measure for each of many weightings (weightings, cases), as `value` gives it.

        >>> Scored.proportion(np.array([1.0, 0.0])).values(np.array([[1, 1], [2, 0]])).tolist()
        [0.5, 1.0]
        """
        if self.weighted_rows is not None:
            return self.weighted_rows(weights)
        return np.array([self.value(row) for row in weights])

    def take(self, rows: np.ndarray) -> Scored:
        """The same measure of some rows (indices or a mask)."""
        rows = np.asarray(rows)
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64)
        return replace(self._rows(rows), failure=self.failure[rows])

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

        parts = {"error": self.error[rows], "failure": self.failure[rows]}
        return replace(self, **parts, weighted=weighted, weighted_rows=None)

    @classmethod
    def proportion(
        cls, right: np.ndarray, *, better: Literal["higher", "lower"] = "higher"
    ) -> Scored:
        """Share of cases that are right (1), or, where lower is better, of those that are wrong
        (0)."""
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
            1.0 - right, right < 0.5, "proportion", weighted, better, counted, np.ones(len(right)),
            weighted_rows=lambda weights: _ratios(weights @ counted, weights.sum(axis=1)),
        )  # fmt: skip

    @classmethod
    def undefined(cls, n: int) -> Scored:
        """Of inputs that have no right answer: the measure has no value, and whatever is answered is wrong."""
        nothing = np.full(n, np.nan)
        return cls(nothing, np.ones(n, dtype=bool), "free", lambda weights: float("nan"))

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

        Where the parts of a case depend on which others count (see `silence`), `recount` makes both
        parts from the weights and `subset` the measure of some rows.
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

        def weighted_rows(weights: np.ndarray) -> np.ndarray:
            ratios = _ratios(weights @ numerator, weights @ denominator)
            return np.array([scale(ratio) for ratio in ratios.tolist()]) if scale else ratios

        return cls(
            error, failure, "ratio", weighted, better, numerator, denominator, scale, limits,
            subset, weighted_rows=None if recount else weighted_rows,
        )  # fmt: skip


def _ratios(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """NaN if a denominator is 0."""
    return np.divide(above, below, out=np.full(len(below), np.nan), where=below != 0)


def put_together(parts: Sequence[Scored]) -> Scored | None:
    """The measure of the rows of several, each with the charges it has there; None if it is no ratio of sums.

    >>> both = put_together([Scored.proportion(np.array([1.0, 0.0])), Scored.proportion(np.array([1.0]))])
    >>> round(both.value(), 3)
    0.667
    """
    if any(p.numerator is None or p.denominator is None for p in parts):
        return None
    above, below, error, failure = (
        np.concatenate([getattr(p, name) for p in parts])
        for name in ("numerator", "denominator", "error", "failure")
    )
    first = parts[0]
    return Scored.ratio(
        above, below, error=error, failure=failure, better=first.better, scale=first.scale,
        limits=first.limits,
    )  # fmt: skip


def complement(ratio: float) -> float:
    """``1 - r``: from a rate of errors to a measure where higher is better."""
    return 1.0 - ratio


class AnsweredRows(NamedTuple):
    """Dense outputs: one row of numbers a case (whatever stands in an unanswered row), and which
    cases were answered."""

    values: np.ndarray
    answered: np.ndarray


def answered(outputs: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Which cases have an answer: not None, and for numbers, no NaN."""
    if isinstance(outputs, np.ndarray) and outputs.dtype != object:
        if outputs.dtype.kind != "f":
            return np.ones(len(outputs), dtype=bool)
        return _without_nan(outputs)
    return np.array([not _is_missing(item) for item in outputs], dtype=bool)


def none_if_failed(outputs: Any, ok: np.ndarray) -> Any:
    """Outputs with "no answer" where a row failed: None, or a row of NaN."""
    if isinstance(outputs, np.ndarray):
        if ok.all():
            return outputs
        found = np.array(outputs)
        found[~ok] = np.nan
        return found
    return [item if sound else None for item, sound in zip(outputs, ok, strict=True)]


def _flat(values: np.ndarray) -> np.ndarray:
    return values.reshape(len(values), math.prod(values.shape[1:]))


def _without_nan(values: np.ndarray) -> np.ndarray:
    # A sum is NaN if a part of it is: one pass without a temporary of the whole size. Only infinities of
    # both signs in one row sum to NaN as well, so rows that look bad are looked at again.
    flat = _flat(values)
    with np.errstate(invalid="ignore", over="ignore"):
        suspect = np.isnan(flat.sum(axis=1))
    sound = ~suspect
    sound[suspect] = ~np.isnan(flat[suspect]).any(axis=1)
    return sound & (flat.shape[1] > 0)  # rows of no numbers: every case failed


def _is_missing(item: Any) -> bool:
    if item is None:
        return True
    if isinstance(item, float | np.ndarray):
        array = np.asarray(item)
        return array.dtype.kind == "f" and bool(np.isnan(array).any())
    return False


def rows_of(outputs: Sequence[Any] | np.ndarray, *, what: str) -> AnsweredRows:
    """Outputs as an array of one row a case; `what` names them in the error when the rows differ in
    length."""
    if isinstance(outputs, np.ndarray) and outputs.dtype != object:
        return AnsweredRows(_flat(outputs), answered(outputs))
    has_answer = answered(outputs)
    found = [
        np.atleast_1d(np.asarray(outputs[i], dtype=np.float64))
        for i in np.flatnonzero(has_answer).tolist()
    ]
    widths = {row.shape for row in found}
    if len(widths) > 1:
        raise ValueError(
            f"{what}: every row must have one shape, but these were found: {sorted(widths)}"
        )
    values = np.full((len(outputs), found[0].size if found else 0), np.nan)
    if found:
        values[has_answer] = np.stack(found).reshape(len(found), -1)
    return AnsweredRows(values, has_answer)


def same_cases(outputs: Any, targets: Any) -> int:
    """The number of cases; refuses outputs and targets that do not go together."""
    if len(outputs) != len(targets):
        raise ValueError(
            f"{len(outputs)} outputs but {len(targets)} targets: a measure needs one target an output, in the same order"
        )
    return len(outputs)


def refuse_unknown_truth(targets: Sequence[Any]) -> None:
    """A case without truth cannot be measured."""
    missing = [row for row, target in enumerate(targets) if target is None]
    if missing:
        raise ValueError(
            f"{len(missing)} of {len(targets)} cases have no target (the first is row {missing[0]}); "
            "leave cases without truth out before measuring"
        )


class Charged(NamedTuple):
    """Parts of a ratio and the errors by case, the unanswered cases charged for."""

    numerator: np.ndarray
    denominator: np.ndarray
    error: np.ndarray


Charge = Callable[..., Charged]
"""``charge(*columns, answered=…, weights=…)``: columns have an entry a case; those of unanswered
cases are not read."""


def of_ratio(
    columns: tuple[np.ndarray, ...],
    answered: np.ndarray,
    charge: Charge,
    *,
    better: Literal["higher", "lower"],
    tolerance: float = math.inf,
    scale: Callable[[float], float] | None = None,
    limits: tuple[float, float] = (0.0, math.inf),
) -> Scored:
    """A ratio whose unanswered cases are charged for; a case fails without answer or with an error
    above `tolerance`."""
    found = charge(*columns, answered=answered, weights=np.ones(len(answered)))

    def recount(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return charge(*columns, answered=answered, weights=weights)[:2]

    def subset(rows: np.ndarray) -> Scored:
        parts = tuple(column[rows] for column in columns)
        return of_ratio(
            parts,
            answered[rows],
            charge,
            better=better,
            tolerance=tolerance,
            scale=scale,
            limits=limits,
        )

    silent = not answered.all()
    return Scored.ratio(
        found.numerator,
        found.denominator,
        error=found.error,
        failure=(found.error > tolerance) | ~answered,
        better=better,
        scale=scale,
        limits=limits,
        recount=recount if silent else None,
        subset=subset if silent else None,
    )


def as_bad_as_any(counts: np.ndarray, totals: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """What each case would count if it were as bad as the worst of those `seen`, and no less than 1
    for 1.

    Counts grow with the total, so the worst rate is carried over; a case with nothing in it has no
    rate and is compared with its like.

    >>> seen = np.array([True, True, False, False])
    >>> as_bad_as_any(np.array([4.0, 7.0, 0.0, 0.0]), np.array([2.0, 0.0, 5.0, 0.0]), seen).tolist()
    [4.0, 7.0, 10.0, 7.0]
    """
    some = totals > 0
    rate = float((counts / np.maximum(totals, 1.0))[seen & some].max(initial=1.0))
    alone = float(counts[seen & ~some].max(initial=rate))
    return np.where(some, rate * totals, alone)


def silent_edits(
    errors: np.ndarray, totals: np.ndarray, *, answered: np.ndarray, weights: np.ndarray
) -> Charged:
    """Errors over totals (word error rate, 1 - MOTA): silence misses all, at least 1, at the worst
    rate of the answers.

    Nor is that rate below the one of all answers together, which errors on empty targets may lift
    above each of theirs. Where no target holds anything, the value is the mean of the cases' own
    errors.

    >>> silent_edits(np.array([1.0, 0.0]), np.array([4.0, 0.0]), answered=np.array([True, False]), weights=np.ones(2))[0].tolist()
    [1.0, 1.0]
    """
    error = errors / np.maximum(totals, 1.0)
    seen, silent = answered & (weights > 0), ~answered & (weights > 0)
    if not silent.any():
        return Charged(errors, totals, np.where(answered, error, 1.0))
    error = np.where(answered, error, float(error[seen].max(initial=1.0)))
    if not totals[seen | silent].any():
        return Charged(error, np.ones(len(error)), error)
    charged = as_bad_as_any(errors, totals, seen)
    known = float(np.dot(weights, np.where(answered, totals, 0.0)))
    if known > 0:
        made = np.where(answered, errors, np.where(totals > 0, 0.0, charged))
        charged = np.maximum(charged, float(np.dot(weights, made)) / known * totals)
    return Charged(np.where(answered, errors, charged), totals, error)


def silent_mean(
    errors: np.ndarray, least: np.ndarray, *, answered: np.ndarray, weights: np.ndarray
) -> Charged:
    """The mean of errors: silence costs the largest of them and of `least`, or 1 where all of these
    are 0.

    >>> silent_mean(np.array([2.0, 0.0]), np.zeros(2), answered=np.array([True, False]), weights=np.ones(2)).error.tolist()
    [2.0, 2.0]
    """
    counted = weights > 0
    worst = max(
        float(errors[answered & counted].max(initial=0.0)), float(least[counted].max(initial=0.0))
    )
    # Where all answers are perfect nothing says how bad bad is; silence still must not look perfect.
    error = np.where(answered, errors, worst or 1.0)
    return Charged(error, np.ones(len(error)), error)
