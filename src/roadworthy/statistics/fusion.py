"""Several supervisors' scores as one: the average of their ranks, and a logistic combination of them.

A rank is the share of reference scores (clean cases) below a score, ties half, so that scores of any scale or unit
can be added; a strictly increasing change of a member's score changes nothing. The logistic combination takes powers
1, 2 and 6 of the ranks: the square bends, the sixth power sees only the top of the range. It need not rise with every
member: if a kind of shift *lowers* a score, it learns that. numpy alone, since the monitor carries it.

A member that gives no score (NaN) for a case takes the average rank of the members that do; a case for which none
does has no fused score (NaN).

>>> ranks([0.0, 2.0, 9.0], reference=[1.0, 2.0, 3.0])
array([0.125, 0.5  , 0.875])
>>> clean, shifted = np.arange(20.0), np.arange(10.0, 30.0)
>>> columns = {"energy": np.r_[clean, shifted], "knn": np.r_[clean, 2.0 * shifted]}
>>> fusion = LogisticFusion.fit(columns, np.r_[np.zeros(20), np.ones(20)])
>>> risk = fusion.score({"energy": [3.0, 28.0, np.nan], "knn": [2.0, 55.0, 55.0]})
>>> bool(risk[0] < risk[1]), bool(risk[1] == risk[2])
(True, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Columns = Mapping[str, ArrayLike]

RESOLUTION = 1001
"""A rank is then right to 0.0015, and a member of the bundle takes a few kilobytes."""
BUCKETS, FULLEST = 4096, 12
"""Buckets in which values are looked up, and how many values one may hold."""


def ranks(scores: ArrayLike, reference: ArrayLike) -> Floats:
    """The mid-rank of each score among the reference scores, strictly between 0 and 1; NaN stays NaN."""
    return _ranks(_column(scores, "scores"), _sorted(reference, "reference"))


def search_in(values: Floats) -> Callable[[Floats], NDArray[np.intp]]:
    """`values.searchsorted` for distinct, rising values, in a quarter of the time if they are even.

    The bucket of a score never falls if the score rises, so that values in lower buckets lie below
    it; those in its own bucket are compared with it one after the other.

    >>> search_in(np.array([1.0, 2.0, 4.0]))(np.array([0.0, 1.0, 3.0, 9.0])).tolist()
    [0, 0, 2, 3]
    """
    with np.errstate(over="ignore", divide="ignore"):
        scale = BUCKETS / (values[-1] - values[0])
    if not 0.0 < scale < 1e100:
        return values.searchsorted

    def bucket(scores: Floats) -> NDArray[np.intp]:
        inside = np.clip(scores, values[0], values[-1])
        return ((inside - values[0]) * scale).astype(np.intp)

    held, ended = bucket(values), np.append(values, np.inf)
    first, fullest = held.searchsorted(np.arange(BUCKETS + 2)), int(np.bincount(held).max())

    def search(scores: Floats) -> NDArray[np.intp]:
        at = first.take(bucket(scores))
        for _ in range(fullest):
            at += ended.take(at) < scores
        return at

    return search if fullest <= FULLEST else values.searchsorted


def rank_steps(reference: Floats) -> tuple[Floats, Floats]:
    """The distinct reference scores, and the mid-rank below each, at each, and above all.

    >>> values, steps = rank_steps(np.array([1.0, 2.0, 2.0]))
    >>> values.tolist(), steps.tolist()
    ([1.0, 2.0], [0.125, 0.25, 0.375, 0.625, 0.875])
    """
    values, counts = np.unique(reference, return_counts=True)
    upto = np.concatenate([[0], np.cumsum(counts)])
    steps = np.empty(2 * len(values) + 1)
    steps[0::2] = upto
    steps[1::2] = 0.5 * (upto[:-1] + upto[1:])
    return values, (steps + 0.5) / (len(reference) + 1.0)


def rank_average(columns: Columns, references: Columns) -> Floats:
    """The mean of the members' ranks; the order of the members makes no difference."""
    return _mean_of_given(
        _rank_table(columns, {name: _sorted(r, name) for name, r in references.items()})
    )


def features(ranks: Floats, powers: Sequence[int] = (1, 2, 6)) -> Floats:
    """Each power of each member's rank: (cases, members) to (cases, members x powers), power by power."""
    table = np.asarray(ranks, dtype=np.float64)
    # By products: a vectorised power function may round a case differently in another batch.
    products = list(accumulate(repeat(table, int(max(powers))), np.multiply))
    return np.concatenate([products[int(p) - 1] for p in powers], axis=1)


def fit_logistic(
    x: ArrayLike,
    y: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    ridge: float = 1.0,
    iterations: int = 50,
) -> Floats:
    """Coefficients of a logistic regression, intercept first, in the units of `x`.

    They minimise the weighted log-loss plus ridge / 2 times the squared coefficients of the standardised features
    (the intercept is free), by Newton's method with step halving. The ridge keeps them finite where a feature
    separates the classes. A weight of 2 is the same as the row twice.
    """
    table, marks, w = _logistic_rows(x, y, weights)
    if not (math.isfinite(ridge) and ridge > 0.0):
        raise ValueError(
            f"ridge must be positive, found {ridge!r}; separable classes have no finite answer without it"
        )
    centre = w @ table / w.sum()
    spread = np.sqrt(w @ (table - centre) ** 2 / w.sum())
    # A column that rounding alone makes vary says nothing and must not be blown up.
    scale = np.where(spread > 1e-12 * (1.0 + np.abs(centre)), spread, np.inf)
    design = np.column_stack([np.ones(len(table)), (table - centre) / scale])
    beta = _newton(design, marks, w, np.r_[0.0, np.full(table.shape[1], ridge)], iterations)
    slopes = beta[1:] / scale
    return np.r_[beta[0] - slopes @ centre, slopes]


@dataclass(frozen=True)
class LogisticFusion:
    """A fitted logistic combination of members by name."""

    references: Mapping[str, Floats]
    """Per member its sorted clean scores, thinned to a fixed number of order statistics."""
    coefficients: Floats
    """The intercept, then those of the features, members in the order of their names."""

    @classmethod
    def fit(cls, columns: Columns, shifted: ArrayLike) -> LogisticFusion:
        """Learn to tell the rows marked `shifted` (or failed) from the others, which are the reference.

        Both kinds weigh the same. Rows for which no member has a score are left out.
        """
        marks = np.asarray(shifted).astype(np.float64)
        scores = {name: _column(columns[name], name) for name in sorted(columns)}
        for name, column in scores.items():
            if len(column) != len(marks):
                raise ValueError(f"{name} has {len(column)} scores for {len(marks)} marks")
        references = {name: thinned(column[marks == 0]) for name, column in scores.items()}
        table = completed(_rank_table(scores, references))
        given = ~np.isnan(table[:, 0]) if table.size else np.zeros(len(marks), dtype=bool)
        weights = _even(marks[given])
        return cls(references, fit_logistic(features(table[given]), marks[given], weights=weights))

    def score(self, columns: Columns) -> Floats:
        """Log-odds of shift for each case: higher is riskier, and never so large that two cases become equal."""
        missing = [name for name in self.references if name not in columns]
        if missing:
            raise ValueError(f"{missing[0]} is missing; give it, as NaN where a case has no score")
        table = completed(
            _rank_table({name: columns[name] for name in self.references}, self.references)
        )
        # Added column by column, so that a case has the same score alone and among others.
        terms = zip(self.coefficients[1:], features(table).T, strict=True)
        return self.coefficients[0] + sum((c * column for c, column in terms), np.zeros(len(table)))


def thinned(scores: ArrayLike) -> Floats:
    """The sorted scores, or `RESOLUTION` evenly spaced order statistics of them; never interpolated, so ranks survive rescaling."""
    ordered = _sorted(scores, "scores")
    if len(ordered) <= RESOLUTION:
        return ordered
    return ordered[np.round(np.linspace(0, len(ordered) - 1, RESOLUTION)).astype(np.intp)]


def plain_number(value: float) -> float | str:
    """A number that JSON can hold: infinity, which it cannot, as a word that `float` reads back."""
    return float(value) if math.isfinite(value) else str(float(value))


def _column(scores: ArrayLike, name: str) -> Floats:
    column = np.asarray(scores, dtype=np.float64)
    if column.ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional, one score per case, found shape {column.shape}"
        )
    return column


def _sorted(reference: ArrayLike, name: str) -> Floats:
    column = _column(reference, name)
    ordered = np.sort(column[~np.isnan(column)])
    if not len(ordered):
        raise ValueError(
            f"{name} has no reference scores; a rank needs clean cases that the member has scored"
        )
    return ordered


def _ranks(scores: Floats, ordered: Floats) -> Floats:
    below, upto = (
        np.searchsorted(ordered, scores, "left"),
        np.searchsorted(ordered, scores, "right"),
    )
    return np.where(np.isnan(scores), np.nan, (0.5 * (below + upto) + 0.5) / (len(ordered) + 1.0))


def _rank_table(columns: Columns, ordered: Mapping[str, Floats]) -> Floats:
    """Cases x members, members by name so that their order never matters, not even in the last digit."""
    if set(columns) != set(ordered) or not columns:
        raise ValueError(
            f"every member needs scores and a reference; found {sorted(columns)} and {sorted(ordered)}"
        )
    table = [_ranks(_column(columns[name], name), ordered[name]) for name in sorted(columns)]
    if len({len(column) for column in table}) != 1:
        raise ValueError(
            f"all members must score the same cases, found {[len(column) for column in table]} scores"
        )
    return np.column_stack(table)


def _mean_of_given(table: Floats) -> Floats:
    given = ~np.isnan(table)
    count = given.sum(axis=1)
    total = np.where(given, table, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def completed(table: Floats) -> Floats:
    """Missing ranks (cases x members) replaced by the mean of the case's others."""
    return np.where(np.isnan(table), _mean_of_given(table)[:, None], table)


def _even(marks: Floats) -> Floats:
    """Weights that give both kinds half of the rows."""
    share = np.where(marks == 1.0, marks.sum(), (marks == 0.0).sum())
    return len(marks) / (2.0 * np.maximum(share, 1.0))


def _logistic(x: Floats) -> Floats:
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def _logistic_rows(
    x: ArrayLike, y: ArrayLike, weights: ArrayLike | None
) -> tuple[Floats, Floats, Floats]:
    table, marks = np.asarray(x, dtype=np.float64), np.asarray(y).astype(np.float64)
    w = np.ones(len(marks)) if weights is None else np.asarray(weights, dtype=np.float64)
    if table.ndim != 2 or marks.shape != table.shape[:1] or w.shape != marks.shape:
        raise ValueError(
            f"x must be rows x features with a mark and a weight a row, found {table.shape}, {marks.shape}, {w.shape}"
        )
    if not np.isfinite(table).all():
        raise ValueError("x has NaN or infinite entries; give ranks, or drop these rows")
    if not (np.isfinite(w).all() and (w >= 0.0).all()):
        raise ValueError("weights must be finite and not negative")
    if not np.isin(marks, (0.0, 1.0)).all():
        raise ValueError("y must be 0 (clean) or 1 (shifted or failed) for every row")
    for mark in (0.0, 1.0):
        if not w[marks == mark].sum() > 0.0:
            raise ValueError(
                "a logistic fit needs rows of both classes, clean (0) and shifted or failed (1); "
                f"class {int(mark)} has no row with weight: add some"
            )
    return table, marks, w


def _newton(design: Floats, y: Floats, w: Floats, penalty: Floats, iterations: int) -> Floats:
    def loss(b: Floats) -> float:
        margin = design @ b
        return float(w @ (np.logaddexp(0.0, margin) - y * margin) + 0.5 * penalty @ (b * b))

    beta = np.zeros(design.shape[1])
    beta[0] = np.log((w @ y) / (w @ (1.0 - y)))
    now = loss(beta)
    for _ in range(iterations):
        p = _logistic(design @ beta)
        gradient = design.T @ (w * (p - y)) + penalty * beta
        if np.abs(gradient).max() <= 1e-10 * w.sum():
            return beta
        curvature = design.T @ (design * (w * p * (1.0 - p))[:, None]) + np.diag(penalty)
        curvature[0, 0] += (
            1e-12 * w.sum()
        )  # the intercept has no ridge, and no curvature where all is certain
        step, size = np.linalg.solve(curvature, gradient), 1.0
        while size > 1e-6 and loss(beta - size * step) > now:
            size /= 2.0
        if size <= 1e-6:  # no descent is left in double precision
            return beta
        beta = beta - size * step
        now = loss(beta)
    raise ValueError(
        f"the fit did not settle within {iterations} iterations; allow more, or a larger ridge"
    )
