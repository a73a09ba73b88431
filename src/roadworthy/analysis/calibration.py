"""From score to verdict: thresholds by rule, verdicts on batches, and the counts that follow.

A case is risky when its score lies *above* the threshold; a case without a score (NaN) is risky too, for nothing says
that it is not. Rules count such rows as alarms that no threshold can prevent. Thresholds are observed scores, so that a
strictly increasing change of the score changes no verdict. Conformal thresholds are split-conformal (Vovk et al. 2005),
with groups hierarchical (Lee, Barber and Willett 2023, "Distribution-free inference with hierarchical data"). Batch
verdicts (Torpmann-Hagen et al. 2025, sizes 1 to 64) compare the mean of a batch, or its Kolmogorov-Smirnov distance
from the reference, with what clean batches give. Rows that chose are not judged.

>>> clean = np.arange(100.0)
>>> threshold = at_false_positive_rate(clean, rate=0.05)
>>> threshold.value, threshold.chosen_on, threshold.verdict([94.0, 95.0, np.nan])
(94.0, 100, array([False,  True,  True]))
>>> conformal(clean[:10], alpha=0.05).value
inf
>>> conformal(np.append(clean, np.nan), alpha=0.05).missing
1
>>> conformal(clean, alpha=0.05, groups=np.arange(100) // 4).value    # 25 groups of 4: a case of a new group
98.0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.statistics.fusion import plain_number, thinned

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
How = Literal["mean", "ks"]
Rule = Callable[..., "Threshold"]
Labelled = tuple[ArrayLike, ArrayLike]  # scores and the class of each

BATCH_SIZES = (1, 8, 16, 32, 64)
LEAST = 10  # rows of each kind below which a choice between two kinds is mostly luck


@dataclass(frozen=True)
class Threshold:
    """A threshold, the rule that chose it, on how many rows, and the false alarms to expect.

    `expected_rate` is (clean rows above or without a score + 1) / (clean rows + 1): the expectation for a further clean row
    where the rule fixed how many are above; optimistic where it searched for the best. Where groups chose, each counts as
    one, by its share of such rows. `per_class` holds a threshold for each class.
    """

    value: float
    rule: str
    chosen_on: int
    expected_rate: float
    parameters: Mapping[str, float] = field(default_factory=dict)
    per_class: Mapping[str, Threshold] = field(default_factory=dict)
    missing: int = 0
    """Clean rows without a score: alarms at any threshold."""
    groups: int | None = None
    """How many groups chose, where groups and not rows were taken as independent."""

    @property
    def overrun(self) -> bool:
        """Whether rows without a score are so many that no threshold keeps the rate."""
        return any(t.missing and t.value == math.inf for t in (self, *self.per_class.values()))

    def verdict(self, scores: ArrayLike, classes: ArrayLike | None = None) -> Bools:
        """Which cases are risky; a class that was not calibrated takes the threshold of all rows together."""
        column = np.asarray(scores, dtype=np.float64)
        if not self.per_class:
            return ~(column <= self.value)
        if classes is None:
            raise ValueError("this threshold was chosen per class; give the class of every case")
        labels, codes = np.unique(_labels(classes, len(column)), return_inverse=True)
        values = np.array([self.per_class.get(str(label), self).value for label in labels])
        return ~(column <= values[codes])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an infinite threshold is the word `inf`."""
        inner = {name: one.to_dict() for name, one in self.per_class.items()}
        return vars(self) | {
            "value": plain_number(self.value),
            "parameters": {**self.parameters},
            "per_class": inner,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Threshold:
        """The inverse of `to_dict`."""
        inner = {name: cls.from_dict(one) for name, one in record["per_class"].items()}
        return cls(**{**record, "value": float(record["value"]), "per_class": inner})


def at_false_positive_rate(scores: ArrayLike, *, rate: float) -> Threshold:
    """The smallest threshold with at most this share of the clean rows above it; infinite if missing ones are more."""
    column = _rows(scores, "scores")
    _share("rate", rate)
    scored, n, allowed = np.sort(column[~np.isnan(column)]), len(column), _whole(rate * len(column))
    if allowed < 1:
        needed = f"a false-positive rate of {rate:g} needs at least {math.ceil(1 / rate - 1e-9)} clean rows, found {n}"
        raise ValueError(
            f"{needed}; give more, accept a higher rate, or use `conformal`, which then raises no alarm"
        )
    left = allowed - (n - len(scored))
    value = scored[len(scored) - 1 - left] if left >= 0 else math.inf
    return _threshold(value, "at_false_positive_rate", column, n, {"rate": rate})


def at_balanced_accuracy(nominal: ArrayLike, risky: ArrayLike) -> Threshold:
    """The threshold of best mean of sensitivity and specificity; of equals the highest."""
    return _best(nominal, risky, 1, 1, "at_balanced_accuracy")


def at_cost(
    nominal: ArrayLike, risky: ArrayLike, *, miss: float, false_alarm: float, prevalence: float
) -> Threshold:
    """The threshold of least expected cost a case, given the share of risky cases in use; of equals the highest."""
    _share("prevalence", prevalence)
    if not (0.0 < miss < math.inf and 0.0 < false_alarm < math.inf):
        raise ValueError(
            f"costs must be positive and finite, found miss={miss!r} and false_alarm={false_alarm!r}"
        )
    price = {"miss": miss, "false_alarm": false_alarm, "prevalence": prevalence}
    return _best(
        nominal, risky, prevalence * miss, (1.0 - prevalence) * false_alarm, "at_cost", **price
    )


def conformal(scores: ArrayLike, *, alpha: float, groups: ArrayLike | None = None) -> Threshold:
    """The threshold that a further clean row exceeds with probability at most alpha, whatever the distribution.

    It is the ceil((n + 1)(1 - alpha))-th smallest score, infinite if there is none: no alarm is then ever raised. The
    guarantee is for rows exchangeable with these, on average over the rows that could have been drawn. With groups it is
    for a row of a further group: the smallest t with (sum over G groups of the share of rows above t + 1) / (G + 1) at
    most alpha, groups weighing equally. Rows of a group that are alike then promise no more than they know.
    """
    column = _rows(scores, "scores")
    _share("alpha", alpha)
    weights = _weights(groups, len(column))
    order = np.argsort(column, kind="stable")  # what has no score comes last: riskier than all
    above = np.r_[weights[order][::-1].cumsum()[::-1][1:], 0.0]
    scored = column[order][~np.isnan(column[order])]
    last = np.searchsorted(scored, scored, "right") - 1
    keeps = np.flatnonzero(above[last] + 1.0 <= alpha * (_units(weights) + 1) + 1e-9)
    value = scored[keeps[0]] if len(keeps) else math.inf
    return _threshold(
        value,
        "conformal",
        column,
        len(column),
        {"alpha": alpha},
        None if groups is None else weights,
    )


def per_class(
    rule: Rule,
    scores: ArrayLike,
    classes: ArrayLike,
    *,
    risky: Labelled | None = None,
    groups: ArrayLike | None = None,
    **parameters: float,
) -> Threshold:
    """A rule applied within each class of the clean rows (and of `risky` scores and classes, if it needs both kinds)."""
    samples = [(scores, classes), *([] if risky is None else [risky])]
    labelled = [
        (np.asarray(rows, np.float64), _labels(given, np.size(rows))) for rows, given in samples
    ]
    chosen: dict[str, Threshold] = {}
    for name in np.unique(labelled[0][1]):
        own = {} if groups is None else {"groups": np.asarray(groups)[labelled[0][1] == name]}
        try:
            chosen[str(name)] = rule(
                *(rows[labels == name] for rows, labels in labelled), **own, **parameters
            )
        except ValueError as error:
            raise ValueError(f"class {name}: {error}") from error
    every = {} if groups is None else {"groups": groups}
    whole = rule(*(rows for rows, _ in labelled), **every, **parameters)
    rate = float(np.mean([chosen[str(name)].expected_rate for name in labelled[0][1]]))
    return replace(whole, expected_rate=rate, per_class=chosen)


@dataclass(frozen=True)
class BatchThreshold:
    """A threshold for the statistic of batches of one size; `reference` is what Kolmogorov-Smirnov compares with."""

    size: int
    how: How
    threshold: Threshold
    reference: tuple[float, ...] = ()

    def statistics(self, scores: ArrayLike) -> Floats:
        """The mean or distance of each whole batch, in order; what is left over at the end is no batch."""
        column = np.asarray(scores, dtype=np.float64)
        batches = column[: len(column) // self.size * self.size].reshape(-1, self.size)
        return _statistic(batches, self.how, self.reference)

    def verdict(self, scores: ArrayLike) -> Bools:
        """Which of the whole batches are risky."""
        return self.threshold.verdict(self.statistics(scores))


def batch_threshold(
    reference: ArrayLike,
    *,
    size: int,
    how: How = "mean",
    rate: float,
    rng: np.random.Generator,
    draws: int = 4000,
) -> BatchThreshold:
    """A threshold for batches at a false-positive rate, from clean batches drawn out of the reference rows.

    The mean compares with nothing and draws from all rows, by Pólya's urn, so that batches vary as new ones do and not
    merely as batches of these very rows: resampling gives 7% false alarms instead of 5% for batches of 64 from 272
    rows. The distance compares with one random half and resamples the other, whose own distance from the first is
    enough (3 to 5% where 5% is asked for).
    """
    if how not in ("mean", "ks") or size < 1:
        raise ValueError(
            f"how must be 'mean' or 'ks' and size at least 1, found {how!r} and {size!r}"
        )
    _share("rate", rate)
    rows = rng.permutation(_scores(reference, "reference"))
    compared = tuple(map(float, thinned(rows[: len(rows) // 2]))) if how == "ks" else ()
    pool = rows[len(rows) // 2 :] if how == "ks" else rows
    least = max(size, math.ceil(1.0 / rate - 1e-9))
    if len(pool) < least:
        raise ValueError(
            f"batches of {size} at a rate of {rate:g} need {least} rows to draw from, found {len(pool)}"
        )
    drawn = np.sort(_statistic(_drawn(pool, draws, size, rng, copies=how == "mean"), how, compared))
    chosen = at_false_positive_rate(drawn, rate=rate)
    parameters = {"rate": rate, "size": size, "draws": draws}
    threshold = replace(chosen, rule=f"batch_{how}", chosen_on=len(rows), parameters=parameters)
    return BatchThreshold(size, how, threshold, compared)


def separate(chosen_on: Iterable[Any], judged_on: Iterable[Any]) -> None:
    """Refuse to judge rows on which the choice was made: their rates would flatter it."""
    both = sorted(map(str, set(chosen_on) & set(judged_on)))
    if both:
        found = f"{len(both)} of the rows to be judged, such as {both[0]}, also chose the threshold"
        raise ValueError(f"{found}; judge on other rows")


def ks_distances(batches: ArrayLike, reference: ArrayLike) -> Floats:
    """The two-sided Kolmogorov-Smirnov distance of each row of `batches` from the reference."""
    rows, ordered = (
        np.sort(np.asarray(batches, dtype=np.float64), axis=1),
        np.sort(np.asarray(reference, np.float64)),
    )
    steps, m = np.arange(rows.shape[1] + 1) / rows.shape[1], len(ordered)
    # The batch is ahead most where it has just stepped up, and behind most right before it does.
    ahead = steps[1:] - np.searchsorted(ordered, rows, "right") / m
    behind = np.searchsorted(ordered, rows, "left") / m - steps[:-1]
    return np.maximum(ahead, behind).max(axis=1)


def _statistic(batches: Floats, how: str, reference: Iterable[float]) -> Floats:
    if how == "ks":
        return ks_distances(batches, np.array(tuple(reference)))
    with np.errstate(invalid="ignore"):  # +inf and -inf in one batch: NaN, which is risky
        return batches.mean(axis=1)


def _drawn(
    pool: Floats, draws: int, size: int, rng: np.random.Generator, *, copies: bool
) -> Floats:
    """Batches drawn with replacement; with copies (Pólya's urn) an earlier row of the batch has the chance of one more."""
    batches, every = np.empty((draws, size)), np.arange(draws)
    for j in range(size):
        ball = rng.integers(len(pool) + j * copies, size=draws)
        again = batches[every, np.maximum(ball - len(pool), 0)]
        batches[:, j] = np.where(ball < len(pool), pool[np.minimum(ball, len(pool) - 1)], again)
    return batches


def _best(
    nominal: ArrayLike, risky: ArrayLike, lost: float, alarm: float, rule: str, **price: float
) -> Threshold:
    clean, bad = _rows(nominal, "nominal", least=LEAST), _rows(risky, "risky", least=LEAST)
    right, wrong = (np.sort(rows[~np.isnan(rows)]) for rows in (clean, bad))
    if not len(right):
        raise ValueError(f"none of the {len(clean)} nominal rows has a score")
    candidates = np.r_[-np.inf, np.unique(np.r_[right, wrong])]
    # Over a common denominator: exact whole numbers. A row without a score is never missed, and always an alarm.
    missed = np.searchsorted(wrong, candidates, "right") * len(clean)
    alarms = (len(clean) - np.searchsorted(right, candidates, "right")) * len(bad)
    cost = lost * missed + alarm * alarms
    equal = cost <= cost.min() * (1.0 + 1e-12)
    return _threshold(candidates[equal][-1], rule, clean, len(clean) + len(bad), price)


def _threshold(
    value: float,
    rule: str,
    clean: Floats,
    n: int,
    parameters: Mapping[str, float],
    weights: Floats | None = None,
) -> Threshold:
    each = np.ones(len(clean)) if weights is None else weights
    risky, missing = ~(clean <= value), int(np.isnan(clean).sum())
    units = _units(each)
    # Nothing lies above an infinite threshold, and only what has no score is then an alarm.
    silent = value == math.inf and not missing
    rate = 0.0 if silent else (float(each[risky].sum()) + 1.0) / (units + 1)
    groups = None if weights is None else units
    return Threshold(float(value), rule, n, rate, parameters, missing=missing, groups=groups)


def _weights(groups: ArrayLike | None, n: int) -> Floats:
    """What a row counts: one, or its share of its group."""
    if groups is None:
        return np.ones(n)
    _, codes, sizes = np.unique(
        _labels(groups, n, "groups"), return_inverse=True, return_counts=True
    )
    weights: Floats = 1.0 / sizes[codes]
    return weights


def _units(weights: Floats) -> int:
    """How many groups, or rows where they are alone."""
    return round(float(weights.sum()))


def _rows(scores: ArrayLike, name: str, *, least: int = 1) -> Floats:
    column = np.asarray(scores, dtype=np.float64)
    if column.ndim != 1 or len(column) < least:
        raise ValueError(
            f"{name} needs one score a row and at least {least} rows, found shape {column.shape}"
        )
    return column


def _scores(scores: ArrayLike, name: str, *, least: int = 1) -> Floats:
    column = _rows(scores, name, least=least)
    if missing := int(np.isnan(column).sum()):
        found = f"{missing} of {len(column)} {name} are NaN"
        raise ValueError(
            f"{found}; leave these rows out, or set them to infinity: riskier than all"
        )
    return column


def _share(name: str, value: float) -> None:
    if not 0.0 < value < 1.0:
        raise ValueError(f"{name} must lie between 0 and 1, found {value!r}; write 0.05 for 5%")


def _whole(x: float) -> int:
    return math.floor(x + 1e-9)  # 0.29 * 100 is 28.999999999999996 and means 29


def _labels(classes: ArrayLike, n: int, what: str = "classes") -> NDArray[np.str_]:
    labels = np.asarray(classes)
    if labels.shape != (n,) or labels.dtype.kind not in "iubUSO":
        raise ValueError(
            f"{what} must be {n} words or whole numbers, found {labels.dtype} of shape {labels.shape}"
        )
    return labels.astype(str)
