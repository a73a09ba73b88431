"""The cost study: table 6 of the paper with figures 11 and 12, and the same costs on real scores.

    python studies/runtime-risk/costs.py             # a minute; the second table needs the published scores

The polyp scores are not published, and the paper prints no polyp accuracies: figures 11 and 12 stand on POLYP_PARAMETERS in
`roadworthy.analysis.risk.prototypes`, which agree with what section 5.3 and table 3 say, and on a synthetic detector with
them. The true cost of a window of real scores is that of its own outcomes: an alarm calls a person, no alarm leaves the
classifier alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import protocol
from study import TABLES, write
from trials import RATES, WINDOW, Trial, trials

from roadworthy.analysis.risk.calibration import fit_calibration
from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.prototypes import (
    POLYP_COSTS,
    POLYP_PARAMETERS,
    POLYP_UNIT,
    TOLERABLE_POLYP,
    base_tree,
    detector_tree,
    live_parameters,
)
from roadworthy.analysis.risk.rates import Calibrated, alarm_counts
from roadworthy.analysis.risk.rates.rogan_gladen import rogan_gladen
from roadworthy.analysis.risk.tree import expectation, worth

TREES = {
    "without a detector": base_tree(POLYP_COSTS, unit=POLYP_UNIT),
    "with a detector": detector_tree(POLYP_COSTS, unit=POLYP_UNIT),
}
DETECTOR = ("tpr", "tnr")
CLASSIFIER = tuple(
    f"accuracy_{kind}_{word}"
    for kind in ("clean", "shifted")
    for word in ("detected", "undetected")
)


class Polyp(NamedTuple):
    """Figure 11: expected cost at a rate, and what windows of 100 verdicts of a synthetic detector estimate (5%, mean, 95%)."""

    tree: str
    rate: float
    risk: float
    estimated: float
    low: float
    high: float
    tolerable: float


def polyps(*, windows: int = 2000, rows: int = 1000) -> Iterator[Polyp]:
    """Both trees over all rates; the rate is Rogan-Gladen's, clipped, TPR and TNR from so many rows."""
    rng = np.random.default_rng(11)
    tpr, tnr = POLYP_PARAMETERS["tpr"], POLYP_PARAMETERS["tnr"]
    hits, false = round(rows * tpr), round(rows * (1 - tnr))
    known = Calibrated.from_table({"clean": [rows - false, false], "shift": [rows - hits, hits]})
    for name, tree in TREES.items():
        for rate in np.linspace(0.0, 1.0, 21):
            alarms = rng.binomial(WINDOW, rate * tpr + (1 - rate) * (1 - tnr), windows)
            at = [
                _risk(tree, p)
                for p in (rate, rogan_gladen(alarm_counts(alarms, WINDOW), known).value)
            ]
            low, high = np.percentile(at[1], [5, 95])
            yield Polyp(name, rate, float(at[0]), float(np.mean(at[1])), low, high, TOLERABLE_POLYP)


def _risk(tree: object, rate: np.ndarray | float) -> np.ndarray:
    given = {n: POLYP_PARAMETERS[n] for n in tree.parameters if n != "p_shift"}  # type: ignore[attr-defined]
    return np.asarray(expectation(tree, {"p_shift": rate, **given}))  # type: ignore[arg-type]


class Sweep(NamedTuple):
    """Figure 12: the cost at a rate of 0.5, by the classifier's accuracy under shift and by the detector's TPR = TNR."""

    classifier: float
    detector: float
    risk: float


def sweep() -> Iterator[Sweep]:
    """Ten steps each."""
    for classifier in np.linspace(0.4, 0.9, 11):
        for detector in np.linspace(0.5, 1.0, 11):
            shifted = {name: classifier for name in CLASSIFIER if "shifted" in name}
            given = {
                **POLYP_PARAMETERS,
                **shifted,
                **dict.fromkeys(DETECTOR, detector),
                "p_shift": 0.5,
            }
            given = {name: given[name] for name in TREES["with a detector"].parameters}
            yield Sweep(classifier, detector, float(expectation(TREES["with a detector"], given)))


class Point(NamedTuple):
    """What one point (0.01) more saves, in dollars a patient, at a rate of shift."""

    rate: float
    detector: float
    classifier: float


def points() -> Iterator[Point]:
    """At the parameters of the case study."""
    tree = TREES["with a detector"]
    for rate in RATES:
        given = {n: POLYP_PARAMETERS[n] for n in tree.parameters if n != "p_shift"} | {
            "p_shift": rate
        }
        yield Point(rate, *worth(tree, given, DETECTOR, CLASSIFIER))


class Real(NamedTuple):
    """Dollars a case on real scores: the true cost of windows, and the errors of the paper's estimate and of ours."""

    data: str
    kind: str
    tree: str
    rate: float
    risk: float
    paper_error: float
    our_error: float


def real(trial: Trial) -> Iterator[Real]:
    """All detectors together, for both; the costs are those of table 6."""
    data, rows = trial.data, trial.calibration
    calibration = fit_calibration(
        {n: c[rows] for n, c in data.columns.items()}, trial.kind_of_row, data.correct[rows]
    )
    cells = calibration.place(data.columns)
    counts = np.stack([np.bincount(cells[w], minlength=calibration.cells) for w in trial.windows])
    right = data.correct[trial.windows]
    for name, tree in TREES.items():
        estimator = Estimator(calibration, tree)
        alarm = calibration.shift_bin(cells) >= estimator.separation.cut
        known = _tables(trial, alarm)
        given = {n: v for n, v in live_parameters(*known).items() if n in tree.parameters}
        raised = alarm[trial.windows]
        counted = Calibrated.from_table(
            {k: t.sum(axis=0) for k, t in zip(("clean", "shift"), known, strict=True)}
        )
        rate = rogan_gladen(alarm_counts(raised.sum(axis=1), WINDOW), counted).value
        paper, e = (
            np.asarray(expectation(tree, {**given, "p_shift": rate})),
            estimator.estimate(counts),
        )
        answered = np.where(right, POLYP_COSTS.right, POLYP_COSTS.wrong)
        if "tpr" in tree.parameters:
            answered = np.where(
                raised, np.where(right, POLYP_COSTS.unnecessary, POLYP_COSTS.necessary), answered
            )
        truth = answered.mean(axis=1)
        for nominal in RATES:
            at = trial.nominal == nominal
            errors = [float(np.abs(v - truth)[at].mean()) for v in (paper, e.risk)]
            yield Real(data.name, trial.kind, name, nominal, float(truth[at].mean()), *errors)


def _tables(trial: Trial, alarm: np.ndarray) -> list[np.ndarray]:
    """Rows (right, wrong) x (no alarm, alarm), clean and shifted."""
    right = trial.data.correct
    return [
        np.array(
            [
                [np.count_nonzero((right[r] == w) & (alarm[r] == a)) for a in (False, True)]
                for w in (True, False)
            ]
        )
        for r in (trial.clean, trial.shifted)
    ]


def mean_over_folds(rows: list[Real]) -> Iterator[Real]:
    """One row a data set, kind, tree and rate."""
    found: dict[tuple[object, ...], list[Real]] = {}
    for row in rows:
        found.setdefault(row[:4], []).append(row)
    for some in found.values():
        yield Real(*some[0][:4], *(float(np.mean([r[i] for r in some])) for i in range(4, 7)))


def main() -> None:
    """The command."""
    write(TABLES / "figure-11.csv", polyps())
    write(TABLES / "figure-12.csv", sweep())
    write(TABLES / "figure-12-points.csv", points())
    found = [
        r
        for n in protocol.available()
        for s in trials(protocol.published(n), per=20)
        for r in real(s)
    ]
    if found:
        write(TABLES / "costs-published.csv", mean_over_folds(found))
    else:
        print(f"no published scores in {protocol.PUBLISHED.name}: their costs are left as they are")


if __name__ == "__main__":
    main()
