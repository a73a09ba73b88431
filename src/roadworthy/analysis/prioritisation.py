"""Which cases to label first: the share of failures found against the number of inputs labelled.

Cases with equal scores are labelled in random order, and every number is the expected value over such orders. So equal scores
stand for random order, and `failed` as the scores for the ideal one.

The area under the curve is APFD, the average percentage of faults detected (Rothermel et al. 1999; of wrong answers Feng et
al. 2020). Normalised it is 0 in random and 1 in ideal order, and equals 2 AUC - 1 of the ROC curve: its interval is DeLong's.

Two aims (Weiss et al. 2023, section IV-B): for testing every failure counts. For active learning labels of ambiguous inputs
are `wasted`: they are paid for, and only failures among the other cases count.

>>> order = LabellingOrder([0.9, 0.7, 0.7, 0.1], failed=[True, True, False, False])
>>> order.found([1, 2, 4]).tolist(), order.labels_for(1.0), order.apfd, order.area
([0.5, 0.75, 1.0], 2.5, 0.6875, 0.75)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadworthy.analysis.supervision import silence_counted
from roadworthy.finding import Finding
from roadworthy.statistics import Interval, bootstrap, delong
from roadworthy.statistics.arguments import Floats, group_codes, same_length


class LabellingOrder:
    """Cases in the order in which a supervisor would have them labelled."""

    def __init__(
        self,
        scores: ArrayLike,
        failed: ArrayLike,
        groups: ArrayLike | None = None,
        wasted: ArrayLike = False,
    ) -> None:
        """By score, higher is riskier; a missing score counts against the supervisor."""
        given, fails = np.asarray(scores, dtype=np.float64), np.asarray(failed, dtype=bool)
        same_length(given, fails, "scores and failed")
        useless = np.broadcast_to(np.asarray(wasted, dtype=bool), fails.shape)
        risk = silence_counted(given, counts := fails & ~useless)
        order = np.argsort(-risk, kind="stable")
        self.scores, self.failed, self.wasted = (c[order] for c in (risk, counts, useless))
        self.groups = group_codes(groups, len(fails))[0][order]
        # 0, and after how many labels each run of equal scores ends.
        new = self.scores[1:] != self.scores[:-1]
        self.places = np.r_[0, np.flatnonzero(new) + 1, len(order)]
        self.failures = int(self.failed.sum())
        # Why every order is as good as another, if it is.
        alike = {0: "no case failed", len(fails): "all cases failed"}
        self.reason = alike.get(self.failures, "")

    def __len__(self) -> int:
        return len(self.failed)

    def found(self, labelled: ArrayLike) -> Floats:
        """The share of the failures among the first so many cases; NaN if there are none."""
        return self._among_first(self.failed, labelled) / (self.failures or math.nan)

    def wasted_labels(self, labelled: float) -> float:
        """The share of the first so many labels that is wasted."""
        return float(self._among_first(self.wasted, labelled)) / labelled

    def _among_first(self, marks: NDArray[np.bool_], labelled: ArrayLike) -> Floats:
        # The first j of b cases in random order, f of which are marked, hold f j / b on average.
        first, marked = np.asarray(labelled, dtype=np.float64), np.r_[0, np.cumsum(marks)]
        return np.asarray(np.interp(first, self.places, marked[self.places]))

    @property
    def apfd(self) -> float:
        """1 - (sum of the positions of the m failures) / (n m) + 1 / (2 n)."""
        found = self.found(self.places)
        return float(np.diff(self.places) @ (found[1:] + found[:-1])) / (2 * len(self))

    @property
    def area(self) -> float:
        """APFD between random order (0.5) and ideal order (1 - m / (2 n)); NaN if both are the same."""
        spread = 1 - self.failures / len(self)
        return math.nan if self.reason else (2 * self.apfd - 1) / spread

    def labels_for(self, share: float) -> float:
        """The number of labels until this share of the failures is found, rounded up; NaN if there are none."""
        found = np.r_[0, np.cumsum(self.failed)][self.places]
        wanted = math.ceil(share * self.failures - 1e-9)
        if not wanted:
            return math.nan
        run = int(np.searchsorted(found, wanted))
        (before, after), (known, then) = self.places[run - 1 : run + 1], found[run - 1 : run + 1]
        # The mean of the negative hypergeometric distribution.
        return float(before + (wanted - known) * (after - before + 1) / (then - known + 1))

    def area_finding(self, confidence: float) -> Finding:
        """The normalised area."""
        known = None
        if not self.reason:
            auc = delong(self.scores, self.failed, self.groups, confidence=confidence)
            low, high = 2 * auc.low - 1, 2 * auc.high - 1
            known = Interval(low, high, confidence, f"2 AUC - 1, {auc.method}")
        return Finding("label_area", self.area, known, len(self), reason=self.reason)

    def found_finding(self, labelled: int, confidence: float, seed: int) -> Finding:
        """The share of the failures among the first so many cases; the bootstrap draws whole groups."""
        ends, share, known = self.places[1:] - 1, labelled / len(self), None

        def statistic(weights: NDArray[np.int64]) -> float:
            cases = np.r_[0, np.cumsum(weights)[ends]]
            failed = np.r_[0, np.cumsum(weights * self.failed)[ends]]
            return float(np.interp(share * cases[-1], cases, failed) / (failed[-1] or math.nan))

        if not self.reason:
            options: dict[str, Any] = {"resamples": 500, "rng": np.random.default_rng(seed)}
            drawn = bootstrap(statistic, len(self), self.groups, confidence=confidence, **options)
            # An end that the resamples say nothing of is that of the range.
            known = Interval(max(drawn.low, 0.0), min(drawn.high, 1.0), confidence, drawn.method)
        value, n = float(self.found(labelled)), len(self)
        return Finding("failures_found", value, known, n, reason=self.reason)
