"""Which cases to label first: the share of failures found against the number of inputs labelled.

A supervisor puts the riskiest case first. The area under the curve of failures found is APFD, the average percentage of
faults detected (Rothermel et al. 1999; Feng et al. 2020, DeepGini, apply it to wrong answers). Its ends depend on the
failure rate, so it is given in normalised form too: 0 is a random order, 1 is all failures first, and below 0 is worse than
random. That form is 2 AUC - 1 of the ROC curve (the accuracy ratio), so its interval is DeLong's.

Cases with equal scores are labelled in random order, and every number is the expected value over such orders.

Two aims (Weiss et al. 2023, section IV-B). For *testing* every failure counts. For *active learning* labels of ambiguous
inputs are wasted: with `wasted` only the failures among the other cases count, while all cases stay in the order.

>>> order = LabellingOrder.of([0.9, 0.7, 0.7, 0.1], failed=[True, True, False, False])
>>> order.found([1, 2, 4]).tolist(), order.apfd, order.area
([0.5, 0.75, 1.0], 0.6875, 0.75)
>>> order.labels_for(1.0), order.random_labels(1.0), order.ideal_labels(1.0)
(2.5, 3.3333333333333335, 2)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.analysis.supervision import silence_counted
from roadworthy.analysis.systems.awareness import top_size
from roadworthy.finding import Finding
from roadworthy.statistics import Interval, bootstrap, delong
from roadworthy.statistics.arguments import Floats, group_codes, same_length

RESAMPLES = 500
NO_FAILURES = "no case failed"
ALL_FAILED = "all cases failed"


@dataclass(frozen=True)
class LabellingOrder:
    """Cases in the order in which a supervisor would have them labelled, the riskiest first."""

    scores: Floats
    """Falling."""
    failed: NDArray[np.bool_]
    """Which of them are failures that count."""
    wasted: NDArray[np.bool_]
    """Which of them are not worth a label."""
    groups: NDArray[np.intp]
    """Which of them belong together."""
    ends: NDArray[np.intp]
    """Positions of the last case of each run of equal scores."""

    @classmethod
    def of(
        cls,
        scores: ArrayLike,
        failed: ArrayLike,
        groups: ArrayLike | None = None,
        wasted: ArrayLike | None = None,
    ) -> LabellingOrder:
        """By score, higher is riskier; a missing score counts against the supervisor."""
        fails = np.asarray(failed, dtype=bool)
        useless = np.zeros(len(fails), bool) if wasted is None else np.asarray(wasted, dtype=bool)
        given = np.asarray(scores, dtype=np.float64)
        same_length(given, fails, "scores and failed")
        same_length(useless, fails, "wasted and failed")
        if not len(fails):
            raise ValueError("there are no cases to label")
        fails = fails & ~useless
        risk = silence_counted(given, fails)
        order = np.argsort(-risk, kind="stable")
        risk = risk[order]
        ends = np.flatnonzero(np.r_[risk[1:] != risk[:-1], True])
        codes = group_codes(groups, len(fails))[0]
        return cls(risk, fails[order], useless[order], codes[order], ends)

    def __len__(self) -> int:
        return len(self.failed)

    @property
    def failures(self) -> int:
        """How many failures count."""
        return int(self.failed.sum())

    @property
    def reason(self) -> str:
        """Why no order is better than another; empty if one is."""
        if not self.failures:
            return NO_FAILURES
        return ALL_FAILED if self.failures == len(self) else ""

    def found(self, labelled: ArrayLike) -> Floats:
        """The expected share of the failures among the first so many cases; NaN if there are none."""
        return self._among_first(self.failed, labelled) / (self.failures or math.nan)

    def wasted_labels(self, labelled: float) -> float:
        """The expected share of the first so many labels that is wasted."""
        return float(self._among_first(self.wasted, labelled)) / labelled

    def _among_first(self, marks: NDArray[np.bool_], labelled: ArrayLike) -> Floats:
        # In a random order of b equal cases with f marked ones, the first j hold f j / b on average.
        marked = np.r_[0, np.cumsum(marks)[self.ends]]
        first = np.asarray(labelled, dtype=np.float64)
        return np.asarray(np.interp(first, np.r_[0, self.ends + 1], marked))

    @property
    def apfd(self) -> float:
        """The area under the curve: 1 - (sum of the failures' positions) / (n m) + 1 / (2 n)."""
        places = np.r_[0, self.ends + 1]
        found = self.found(places)
        return float(np.diff(places) @ (found[1:] + found[:-1])) / (2 * len(self))

    @property
    def ideal_apfd(self) -> float:
        """APFD with all failures first; a random order has 0.5."""
        return 1.0 - self.failures / (2 * len(self))

    @property
    def area(self) -> float:
        """APFD between a random order (0) and the ideal one (1); NaN if all orders are equal."""
        return (self.apfd - 0.5) / (self.ideal_apfd - 0.5) if not self.reason else math.nan

    def labels_for(self, share: float) -> float:
        """The expected number of labels until this share of the failures is found; NaN if there are none."""
        wanted, found = self.ideal_labels(share), np.r_[0, np.cumsum(self.failed)[self.ends]]
        if not wanted:
            return math.nan
        run, places = int(np.searchsorted(found, wanted)), np.r_[0, self.ends + 1]
        among, cases = found[run] - found[run - 1], places[run] - places[run - 1]
        return float(places[run - 1] + _expected(wanted - found[run - 1], cases, among))

    def random_labels(self, share: float) -> float:
        """The same in random order."""
        return _expected(self.ideal_labels(share), len(self), self.failures)

    def ideal_labels(self, share: float) -> int:
        """The same with all failures first."""
        # Rounded up, whatever binary fractions say.
        return math.ceil(share * self.failures - 1e-9)

    def budget_size(self, share: float) -> int:
        """How many labels a share of the cases is, at least one."""
        return max(1, top_size(len(self), share))

    def area_finding(self, confidence: float) -> Finding:
        """The normalised area, with DeLong's interval, which respects groups."""
        if self.reason:
            return self._finding("label_area", math.nan, None)
        known = delong(self.scores, self.failed, self.groups, confidence=confidence)
        method = f"2 AUC - 1, {known.method}"
        interval = Interval(2 * known.low - 1, 2 * known.high - 1, known.confidence, method)
        return self._finding("label_area", self.area, interval)

    def found_finding(self, budget: float, confidence: float, seed: int) -> Finding:
        """The share of the failures among the first `budget` share of the cases; the bootstrap draws whole groups."""
        share = self.budget_size(budget) / len(self)

        def statistic(weights: NDArray[np.int64]) -> float:
            drawn = np.cumsum(weights)[self.ends]
            failed = np.cumsum(weights * self.failed)[self.ends]
            first = np.interp(share * drawn[-1], np.r_[0, drawn], np.r_[0, failed])
            return float(first / failed[-1]) if failed[-1] else math.nan

        value = float(self.found(share * len(self)))
        if self.reason:
            return self._finding("failures_found", value, None)
        rng, n = np.random.default_rng(seed), len(self)
        options: dict[str, Any] = {"confidence": confidence, "resamples": RESAMPLES, "rng": rng}
        known = bootstrap(statistic, n, self.groups, **options)
        # An end that the resamples say nothing of is that of the range.
        known = Interval(max(known.low, 0.0), min(known.high, 1.0), confidence, known.method)
        return self._finding("failures_found", value, known)

    def _finding(self, quantity: str, value: float, interval: Interval | None) -> Finding:
        return Finding(quantity, value, interval, len(self), reason=self.reason)


def _expected(wanted: float, cases: float, failures: float) -> float:
    """Labels until so many failures are found in random order: the mean of the negative hypergeometric distribution."""
    return wanted * (cases + 1) / (failures + 1) if failures else math.nan
