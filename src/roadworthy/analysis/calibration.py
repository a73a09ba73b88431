"""From score to verdict: thresholds by rule, verdicts on batches, and the counts that follow.

A case is risky when its score lies *above* the threshold; a case without a score (NaN) is risky too, for nothing says
that it is not. Rules refuse NaN: whoever chooses decides first what a missing score means. Thresholds are observed
scores, so that a strictly increasing change of the score changes no verdict. Conformal thresholds are split-conformal
(Vovk et al. 2005). Batch verdicts (seed 003, sizes 1 to 64) compare the mean of a batch, or its Kolmogorov-Smirnov
distance from the reference, with what clean batches give. Results are counts, on rows that chose nothing.

>>> clean = np.arange(100.0)
>>> threshold = at_false_positive_rate(clean, rate=0.05)
>>> threshold.value, threshold.chosen_on, threshold.verdict([94.0, 95.0, np.nan])
(94.0, 100, array([False,  True,  True]))
>>> conformal(clean[:10], alpha=0.05).value
inf
>>> table = counts(threshold.verdict([3.0, 99.0]), [True, False], "snow", chosen_on=range(100), judged_on=[200, 201])
>>> table.risky_rate("snow").value, table.accuracy("snow", column=1).value, (table + table).n("snow")
(0.5, 0.0, 4)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.analysis.fusion import plain_number, thinned
from roadworthy.statistics import Interval, clopper_pearson

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

    `expected_rate` is (clean rows above + 1) / (clean rows + 1): the expectation for a further clean row where the rule
    fixed how many are above; optimistic where it searched for the best. `per_class` holds a threshold for each class.
    """

    value: float
    rule: str
    chosen_on: int
    expected_rate: float
    parameters: Mapping[str, float] = field(default_factory=dict)
    per_class: Mapping[str, Threshold] = field(default_factory=dict)

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
        return vars(self) | {"value": plain_number(self.value), "parameters": {**self.parameters}, "per_class": inner}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Threshold:
        """The inverse of `to_dict`."""
        inner = {name: cls.from_dict(one) for name, one in record["per_class"].items()}
        return cls(**{**record, "value": float(record["value"]), "per_class": inner})


def at_false_positive_rate(scores: ArrayLike, *, rate: float) -> Threshold:
    """The smallest threshold with at most this share of the clean rows above it."""
    ordered = np.sort(_scores(scores, "scores"))
    _share("rate", rate)
    n, allowed = len(ordered), _whole(rate * len(ordered))
    if allowed < 1:
        needed = f"a false-positive rate of {rate:g} needs at least {math.ceil(1 / rate - 1e-9)} clean rows, found {n}"
        raise ValueError(f"{needed}; give more, accept a higher rate, or use `conformal`, which then raises no alarm")
    return _threshold(ordered[n - 1 - allowed], "at_false_positive_rate", ordered, n, rate=rate)


def at_balanced_accuracy(nominal: ArrayLike, risky: ArrayLike) -> Threshold:
    """The threshold of best mean of sensitivity and specificity; of equals the highest."""
    return _best(nominal, risky, 1, 1, "at_balanced_accuracy")


def at_cost(nominal: ArrayLike, risky: ArrayLike, *, miss: float, false_alarm: float, prevalence: float) -> Threshold:
    """The threshold of least expected cost a case, given the share of risky cases in use; of equals the highest."""
    _share("prevalence", prevalence)
    if not (0.0 < miss < math.inf and 0.0 < false_alarm < math.inf):
        raise ValueError(f"costs must be positive and finite, found miss={miss!r} and false_alarm={false_alarm!r}")
    price = {"miss": miss, "false_alarm": false_alarm, "prevalence": prevalence}
    return _best(nominal, risky, prevalence * miss, (1.0 - prevalence) * false_alarm, "at_cost", **price)


def conformal(scores: ArrayLike, *, alpha: float) -> Threshold:
    """The threshold that a further clean row exceeds with probability at most alpha, whatever the distribution.

    It is the ceil((n + 1)(1 - alpha))-th smallest score, infinite if there is none: no alarm is then ever raised. The
    guarantee is for rows exchangeable with these, on average over the rows that could have been drawn.
    """
    ordered = np.sort(_scores(scores, "scores"))
    _share("alpha", alpha)
    n = len(ordered)
    position = n + 1 - _whole((n + 1) * alpha)
    value = ordered[position - 1] if position <= n else math.inf
    return _threshold(value, "conformal", ordered, n, alpha=alpha)


def per_class(
    rule: Rule, scores: ArrayLike, classes: ArrayLike, *, risky: Labelled | None = None, **parameters: float
) -> Threshold:
    """A rule applied within each class of the clean rows (and of `risky` scores and classes, if it needs both kinds)."""
    samples = [(scores, classes), *([] if risky is None else [risky])]
    labelled = [(np.asarray(rows, np.float64), _labels(given, np.size(rows))) for rows, given in samples]
    chosen: dict[str, Threshold] = {}
    for name in np.unique(labelled[0][1]):
        try:
            chosen[str(name)] = rule(*(rows[labels == name] for rows, labels in labelled), **parameters)
        except ValueError as error:
            raise ValueError(f"class {name}: {error}") from error
    whole = rule(*(rows for rows, _ in labelled), **parameters)
    rate = float(np.mean([chosen[str(name)].expected_rate for name in labelled[0][1]]))
    return replace(whole, expected_rate=rate, per_class=chosen)


class Rate(NamedTuple):
    """A share, its exact interval for independent rows, and the rows under it."""

    value: float
    interval: Interval
    n: int


@dataclass(frozen=True, eq=False)
class Counts:
    """How many rows: kind of shift x (right, wrong) x verdict (clear, risky), or score bin where there are edges."""

    kinds: tuple[str, ...]
    table: NDArray[np.int64]
    edges: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        expected = (len(self.kinds), 2, _width(self.edges))
        if self.table.shape != expected or self.table.dtype.kind != "i" or (self.table < 0).any():
            raise ValueError(f"counts must be whole numbers of shape {expected}, found {self.table.shape}")
        if list(self.kinds) != sorted(set(self.kinds)):
            raise ValueError(f"kinds must be distinct and in order, found {self.kinds}")
        self.table.setflags(write=False)

    def __add__(self, other: Counts) -> Counts:
        if self.edges != other.edges:
            raise ValueError("counts over different score bins, or of bins and verdicts, do not add up")
        kinds = sorted({*self.kinds, *other.kinds})
        table = np.zeros((len(kinds), *self.table.shape[1:]), dtype=np.int64)
        for one in (self, other):
            table[np.searchsorted(kinds, one.kinds)] += one.table
        return Counts(tuple(kinds), table, self.edges)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counts) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def n(self, kind: str) -> int:
        """Rows of a kind of shift."""
        return int(self._of(kind).sum())

    def risky_rate(self, kind: str, *, correct: bool | None = None, column: int = 1, confidence: float = 0.95) -> Rate:
        """Share of a kind's rows (only the right ones, the wrong ones) with this verdict or score bin, or a riskier one."""
        cells = self._of(kind)[[0, 1] if correct is None else [0 if correct else 1]]
        return _rate(int(cells[:, column:].sum()), int(cells.sum()), confidence)

    def accuracy(self, kind: str, *, column: int | None = None, confidence: float = 0.95) -> Rate:
        """Share of right answers among a kind's rows (with this verdict or score bin)."""
        cells = self._of(kind)[:, slice(None) if column is None else [column]]
        return _rate(int(cells[0].sum()), int(cells.sum()), confidence)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        edges = None if self.edges is None else [plain_number(e) for e in self.edges]
        return {"kinds": list(self.kinds), "table": self.table.tolist(), "edges": edges}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Counts:
        """The inverse of `to_dict`."""
        edges = None if record["edges"] is None else tuple(map(float, record["edges"]))
        table = np.array(record["table"], dtype=np.int64).reshape(-1, 2, _width(edges))
        return cls(tuple(map(str, record["kinds"])), table, edges)

    def _of(self, kind: str) -> NDArray[np.int64]:
        if kind not in self.kinds:
            raise ValueError(f"no rows of kind {kind!r}; there are {', '.join(self.kinds) or 'none at all'}")
        return self.table[self.kinds.index(kind)]


def counts(
    verdicts: ArrayLike,
    correct: ArrayLike,
    kind: str | ArrayLike,
    *,
    chosen_on: Iterable[Any],
    judged_on: Iterable[Any],
    edges: Iterable[float] | None = None,
) -> Counts:
    """Count rows by kind of shift, right or wrong, and verdict (or, with the edges they lie between, score bin).

    `chosen_on` and `judged_on` are ids of samples, or of groups where rows belong together.
    """
    right, ids = np.asarray(correct, dtype=bool), list(judged_on)
    separate(chosen_on, ids)
    column, bounds = np.asarray(verdicts), None if edges is None else tuple(map(float, edges))
    kinds = np.broadcast_to(np.asarray(kind).astype(str), right.shape)
    if not column.shape == right.shape == (len(ids),):
        raise ValueError(f"give a verdict, a mark and an id a row, found {column.shape}, {right.shape}, {len(ids)}")
    width = _width(bounds)
    if column.size and (column.dtype.kind not in "biu" or column.min() < 0 or column.max() >= width):
        raise ValueError(f"expected {'verdicts' if bounds is None else 'bins'}, whole numbers from 0 to {width - 1}")
    names, codes = np.unique(kinds, return_inverse=True)
    table = np.zeros((len(names), 2, width), dtype=np.int64)
    np.add.at(table, (codes, (~right).astype(np.intp), column.astype(np.intp)), 1)
    return Counts(tuple(map(str, names)), table, bounds)


def separate(chosen_on: Iterable[Any], judged_on: Iterable[Any]) -> None:
    """Refuse to judge rows on which the choice was made: their rates would flatter it."""
    both = sorted(map(str, set(chosen_on) & set(judged_on)))
    if both:
        found = f"{len(both)} of the rows to be judged, such as {both[0]}, also chose the threshold or the bins"
        raise ValueError(f"{found}; judge on other rows")


def score_edges(nominal: ArrayLike, *, bins: int = 10) -> tuple[float, ...]:
    """Inner edges of bins with equally many clean rows each; tied scores share a bin, so there may be fewer."""
    ordered = np.sort(_scores(nominal, "nominal", least=bins))
    if bins < 2:
        raise ValueError(f"bins must be at least 2, found {bins}")
    last = np.ceil(np.arange(1, bins) * len(ordered) / bins).astype(np.intp) - 1
    edges = np.unique(ordered[last])
    return tuple(map(float, edges[edges < ordered[-1]]))


def score_bins(scores: ArrayLike, edges: Iterable[float]) -> NDArray[np.intp]:
    """The bin of each score, 0 the safest; on an edge is below it, and a case without a score is in the riskiest bin."""
    return np.searchsorted(np.array(tuple(edges)), np.asarray(scores, dtype=np.float64), side="left")


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

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        reference = [plain_number(v) for v in self.reference]
        return {**vars(self), "threshold": self.threshold.to_dict(), "reference": reference}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> BatchThreshold:
        """The inverse of `to_dict`."""
        reference = tuple(map(float, record["reference"]))
        return cls(**{**record, "threshold": Threshold.from_dict(record["threshold"]), "reference": reference})


def batch_threshold(
    reference: ArrayLike, *, size: int, how: How = "mean", rate: float, rng: np.random.Generator, draws: int = 4000
) -> BatchThreshold:
    """A threshold for batches at a false-positive rate, from clean batches drawn out of the reference rows.

    The mean compares with nothing and draws from all rows, by Pólya's urn, so that batches vary as new ones do and not
    merely as batches of these very rows: resampling gives 7% false alarms instead of 5% for batches of 64 from 272
    rows. The distance compares with one random half and resamples the other, whose own distance from the first is
    enough (3 to 5% where 5% is asked for).
    """
    if how not in ("mean", "ks") or size < 1:
        raise ValueError(f"how must be 'mean' or 'ks' and size at least 1, found {how!r} and {size!r}")
    _share("rate", rate)
    rows = rng.permutation(_scores(reference, "reference"))
    compared = tuple(map(float, thinned(rows[: len(rows) // 2]))) if how == "ks" else ()
    pool = rows[len(rows) // 2 :] if how == "ks" else rows
    least = max(size, math.ceil(1.0 / rate - 1e-9))
    if len(pool) < least:
        raise ValueError(f"batches of {size} at a rate of {rate:g} need {least} rows to draw from, found {len(pool)}")
    drawn = np.sort(_statistic(_drawn(pool, draws, size, rng, copies=how == "mean"), how, compared))
    chosen = at_false_positive_rate(drawn, rate=rate)
    parameters = {"rate": rate, "size": size, "draws": draws}
    threshold = replace(chosen, rule=f"batch_{how}", chosen_on=len(rows), parameters=parameters)
    return BatchThreshold(size, how, threshold, compared)


def batch_verdicts(
    scores: ArrayLike, reference: ArrayLike, *, size: int, how: How = "mean", rate: float, rng: np.random.Generator
) -> Bools:
    """Which batches of consecutive scores are risky, at a false-positive rate against clean reference rows."""
    return batch_threshold(reference, size=size, how=how, rate=rate, rng=rng).verdict(scores)


def ks_distances(batches: ArrayLike, reference: ArrayLike) -> Floats:
    """The two-sided Kolmogorov-Smirnov distance of each row of `batches` from the reference."""
    rows, ordered = np.sort(np.asarray(batches, dtype=np.float64), axis=1), np.sort(np.asarray(reference, np.float64))
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


def _drawn(pool: Floats, draws: int, size: int, rng: np.random.Generator, *, copies: bool) -> Floats:
    """Batches drawn with replacement; with copies (Pólya's urn) an earlier row of the batch has the chance of one more."""
    batches, every = np.empty((draws, size)), np.arange(draws)
    for j in range(size):
        ball = rng.integers(len(pool) + j * copies, size=draws)
        again = batches[every, np.maximum(ball - len(pool), 0)]
        batches[:, j] = np.where(ball < len(pool), pool[np.minimum(ball, len(pool) - 1)], again)
    return batches


def _best(nominal: ArrayLike, risky: ArrayLike, lost: float, alarm: float, rule: str, **price: float) -> Threshold:
    clean = np.sort(_scores(nominal, "nominal", least=LEAST))
    bad = np.sort(_scores(risky, "risky", least=LEAST))
    candidates = np.r_[-np.inf, np.unique(np.r_[clean, bad])]
    missed = np.searchsorted(bad, candidates, "right") * len(clean)  # over a common denominator: exact whole numbers
    alarms = (len(clean) - np.searchsorted(clean, candidates, "right")) * len(bad)
    cost = lost * missed + alarm * alarms
    equal = cost <= cost.min() * (1.0 + 1e-12)
    return _threshold(candidates[equal][-1], rule, clean, len(clean) + len(bad), **price)


def _threshold(value: float, rule: str, clean: Floats, n: int, **parameters: float) -> Threshold:
    # Nothing lies above an infinite threshold.
    rate = 0.0 if value == math.inf else (int((clean > value).sum()) + 1) / (len(clean) + 1)
    return Threshold(float(value), rule, n, rate, parameters)


def _scores(scores: ArrayLike, name: str, *, least: int = 1) -> Floats:
    column = np.asarray(scores, dtype=np.float64)
    if column.ndim != 1 or len(column) < least:
        raise ValueError(f"{name} needs one score a row and at least {least} rows, found shape {column.shape}")
    if missing := int(np.isnan(column).sum()):
        found = f"{missing} of {len(column)} {name} are NaN"
        raise ValueError(f"{found}; leave these rows out, or set them to infinity: riskier than all")
    return column


def _share(name: str, value: float) -> None:
    if not 0.0 < value < 1.0:
        raise ValueError(f"{name} must lie between 0 and 1, found {value!r}; write 0.05 for 5%")


def _width(edges: tuple[float, ...] | None) -> int:
    return 2 if edges is None else len(edges) + 1


def _whole(x: float) -> int:
    return math.floor(x + 1e-9)  # 0.29 * 100 is 28.999999999999996 and means 29


def _labels(classes: ArrayLike, n: int) -> NDArray[np.str_]:
    labels = np.asarray(classes)
    if labels.shape != (n,) or labels.dtype.kind not in "iubUSO":
        raise ValueError(f"classes must be {n} words or whole numbers, found {labels.dtype} of shape {labels.shape}")
    return labels.astype(str)


def _rate(successes: int, n: int, confidence: float) -> Rate:
    return Rate(successes / n if n else math.nan, clopper_pearson(successes, n, confidence=confidence), n)
