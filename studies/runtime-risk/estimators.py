"""Everyone who estimates, on the windows of one trial: the paper's estimators, simple ones, those from confidences, and ours.

The verdict of one detector is its score, either way round, against the threshold of the best TPR + TNR on the calibration rows; of
several, the verdict of their logistic combination. Accuracy follows from a rate as in equation 2 of the paper. Confidences are the
probability of being right that a logistic regression on the clean calibration rows reads from the detectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from baselines import Atc, Doc, bayes_rate, likelihood_rate, posterior_rate
from trials import WINDOW, Trial

from roadworthy.analysis.calibration import at_balanced_accuracy
from roadworthy.analysis.risk.calibration import fit_calibration
from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.analysis.risk.rates import Calibrated, Rates, alarm_counts
from roadworthy.analysis.risk.rates.rogan_gladen import mean_rate, paper_fallback_rate, rogan_gladen
from roadworthy.analysis.simulation.estimators import Cbpe, Estimated
from roadworthy.statistics.fusion import features, fit_logistic, ranks

BINS = 15


@dataclass(frozen=True)
class Estimate:
    """What one estimator says of each window; no rate where it gives none."""

    accuracy: Estimated
    rate: Estimated | None = None
    refused: np.ndarray | None = None
    """The windows of which it says that it no estimate; they are judged all the same."""


@dataclass(frozen=True)
class Read:
    """What the simple estimators read from a trial, worked out once for all of them."""

    trial: Trial

    @cached_property
    def features(self) -> np.ndarray:
        """Ranks among the clean calibration rows, with squares and sixth powers."""
        columns = self.trial.data.columns.values()
        return features(np.stack([ranks(c, c[self.trial.clean]) for c in columns], axis=1))

    @cached_property
    def shift_score(self) -> np.ndarray:
        """How shifted each row looks: a logistic regression in which clean and shifted rows weigh the same."""
        s = self.trial
        marks = np.repeat([0.0, 1.0], [len(s.clean), len(s.shifted)])
        weights = np.repeat(
            [0.5 / len(s.clean), 0.5 / len(s.shifted)], [len(s.clean), len(s.shifted)]
        ) * len(marks)
        slopes = fit_logistic(self.features[s.calibration], marks, weights=weights)
        return slopes[0] + self.features @ slopes[1:]

    def confidence(self, rows: np.ndarray) -> np.ndarray:
        """The probability of being right, learned on these rows."""
        slopes = fit_logistic(self.features[rows], self.trial.data.correct[rows].astype(float))
        return 1.0 / (1.0 + np.exp(-(slopes[0] + self.features @ slopes[1:])))

    @cached_property
    def alarms(self) -> np.ndarray:
        """The verdict on each row."""
        s = self.trial
        score = (
            next(iter(s.data.columns.values())) if len(s.data.columns) == 1 else self.shift_score
        )
        verdicts = [
            at_balanced_accuracy(v[s.clean], v[s.shifted]).verdict(v) for v in (score, -score)
        ]
        return max(verdicts, key=lambda v: v[s.shifted].mean() - v[s.clean].mean())

    @cached_property
    def bins(self) -> np.ndarray:
        """The bin of each row, of about as many calibration rows each."""
        s, score = self.trial, self.shift_score
        both = np.concatenate([score[s.clean], score[s.shifted]])
        weights = np.repeat(
            [0.5 / len(s.clean), 0.5 / len(s.shifted)], [len(s.clean), len(s.shifted)]
        )
        order = np.argsort(both)
        places = np.searchsorted(np.cumsum(weights[order]), np.arange(1, BINS) / BINS)
        return np.searchsorted(np.unique(both[order][places]), score, side="right")

    def counted(self, values: np.ndarray) -> Calibrated:
        """Calibration rows by value (verdict or bin)."""
        s, most = self.trial, int(values.max()) + 1
        kinds = {k: s.shifted[s.data.fold[s.shifted] == k] for k in s.calibrated}
        return Calibrated.from_table(
            {
                k: np.bincount(values[rows], minlength=most)
                for k, rows in {"clean": s.clean, **kinds}.items()
            }
        )

    def in_windows(self, values: np.ndarray) -> np.ndarray:
        """The counts of each value in each window."""
        most = int(values.max()) + 1
        return np.stack([np.bincount(values[w], minlength=most) for w in self.trial.windows])

    def by_rate(self, rates: Rates | np.ndarray) -> Estimate:
        """Equation 2: the accuracies of the clean and of the shifted calibration rows, weighed by the rate."""
        s = self.trial
        clean, shifted = (s.data.correct[rows].mean() for rows in (s.clean, s.shifted))
        value = rates.value if isinstance(rates, Rates) else rates
        told = (
            Estimated(value, rates.low, rates.high)
            if isinstance(rates, Rates)
            else Estimated(value)
        )
        return Estimate(Estimated((1 - value) * clean + value * shifted), told)


def quick_combination(read: Read) -> np.ndarray:
    """The issue's: bins of the combination as they fell in calibration, and the posterior mean of the rate."""
    grid = np.linspace(0.0, 1.0, 101)
    counted = read.counted(read.bins)
    clean, shifted = (counts + 0.5 for counts in (counted.clean, counted.shifted.sum(axis=0)))
    mixture = grid[:, None] * shifted / shifted.sum() + (1 - grid[:, None]) * clean / clean.sum()
    log = read.in_windows(read.bins) @ np.log(mixture).T
    weights = np.exp(log - log.max(axis=1, keepdims=True))
    return weights @ grid / weights.sum(axis=1)


def ours(trial: Trial) -> Estimate:
    """The estimator of this package."""
    rows = trial.calibration
    columns = {name: column[rows] for name, column in trial.data.columns.items()}
    calibration = fit_calibration(columns, trial.kind_of_row, trial.data.correct[rows])
    cells = calibration.place(trial.data.columns)
    counts = np.stack([np.bincount(cells[w], minlength=calibration.cells) for w in trial.windows])
    e = Estimator(calibration, accuracy_tree()).estimate(counts)
    refused = np.array([reason is not None for reason in e.no_estimate])
    return Estimate(
        Estimated(e.accuracy, e.accuracy_low, e.accuracy_high),
        Estimated(e.rate, e.rate_low, e.rate_high),
        refused,
    )


def without_detectors(trial: Trial) -> Iterator[tuple[str, Estimate]]:
    """Those that ask no detector."""
    read = Read(trial)
    clean = trial.data.correct[trial.clean].mean()
    yield "in-distribution accuracy", Estimate(Estimated(np.full(len(trial.nominal), clean)))
    yield "fixed 50/50", read.by_rate(np.full(len(trial.nominal), 0.5))
    yield "knowing the nominal rate", read.by_rate(trial.nominal)
    yield "knowing the share in the window", read.by_rate(trial.drawn)


def with_detectors(trial: Trial) -> Iterator[tuple[str, Estimate]]:
    """Those that read the scores of the trial's detectors."""
    read = Read(trial)
    alarms = alarm_counts(read.alarms[trial.windows].sum(axis=1), WINDOW)
    known = read.counted(read.alarms.astype(int))
    yield "mean of verdicts", read.by_rate(mean_rate(alarms, known))
    yield "Rogan-Gladen, clipped", read.by_rate(rogan_gladen(alarms, known))
    yield "Rogan-Gladen, fallback", read.by_rate(paper_fallback_rate(alarms, known))
    yield "Bayes table", read.by_rate(bayes_rate(alarms, known))
    counts, bins = read.in_windows(read.bins), read.counted(read.bins)
    yield "maximum likelihood, bins", read.by_rate(likelihood_rate(counts, bins))
    yield "posterior mean, bins", read.by_rate(posterior_rate(counts, bins))
    yield "quick combination", read.by_rate(quick_combination(read))
    confidence = read.confidence(trial.clean)
    live, right = confidence[trial.windows], trial.data.correct[trial.clean]
    clean = confidence[trial.clean]
    yield "CBPE", Estimate(Estimated(Cbpe.fit(clean, right).estimate(live)))
    yield "ATC", Estimate(Estimated(Atc.fit(clean, right).estimate(live)))
    yield "DoC", Estimate(Estimated(Doc.fit(clean, right).estimate(live)))
    yield "ours", ours(trial)


PEERS = {"acc": "QuaPy ACC", "pacc": "QuaPy PACC", "emq": "QuaPy EMQ", "kdey": "QuaPy KDEy"}
CONFIDENT = {"cbpe": "NannyML CBPE", "cbpe_both": "NannyML CBPE, shift in reference"}


def by_peers(trial: Trial, found: dict[str, np.ndarray]) -> Iterator[tuple[str, Estimate]]:
    """What peers.py left behind."""
    read = Read(trial)
    yield from ((name, read.by_rate(found[f"rate.{key}"])) for key, name in PEERS.items())
    yield from (
        (name, Estimate(Estimated(found[f"accuracy.{key}"]))) for key, name in CONFIDENT.items()
    )
