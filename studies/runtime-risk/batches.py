"""The tables under figures 4, 10 and 13: batches of 1 to 64 rows, all clean or all shifted (uniform) or drawn row by row (mixed).

    python studies/runtime-risk/batches.py           # some minutes; needs the published scores

A window is 100 batches, as in the paper. A detector of batches compares the mean score of a batch with the threshold of the best
TPR + TNR on batches of calibration rows. The paper calls a batch right if its accuracy is at least the first percentile of clean
calibration batches; a batch of one is right if its row is. Ours reads the rows of all detectors and needs no batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import protocol
from estimators import Read
from study import TABLES, write
from trials import RATES, WINDOW, Scores, Trial, trials

from roadworthy.analysis.calibration import at_balanced_accuracy
from roadworthy.analysis.risk.calibration import fit_calibration
from roadworthy.analysis.risk.estimator import Estimator
from roadworthy.analysis.risk.prototypes import accuracy_tree
from roadworthy.analysis.risk.rates import Calibrated, alarm_counts
from roadworthy.analysis.risk.rates.rogan_gladen import rogan_gladen
from roadworthy.analysis.simulation.streams import BATCHES as SIZES

DRAWS, PER = 1000, 10


class Batched(NamedTuple):
    """Errors at one batch size and nominal rate, mean over the folds."""

    data: str
    kind: str
    batches: str
    size: int
    estimator: str
    nominal: float
    rate_error: float
    accuracy_error: float
    """Of the share of right rows."""
    batch_error: float
    """Of the share of right batches, as the paper counts them."""


def batch_rows(rows: np.ndarray, n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """So many batches of these rows."""
    return rng.choice(rows, (n, size))


def right_batches(data: Scores, clean: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Which batches are right, given clean batches of calibration rows (section 4.5)."""
    least = np.quantile(data.correct[clean].mean(axis=1), 0.01) if clean.shape[1] > 1 else 1.0
    return lambda rows: data.correct[rows].mean(axis=-1) >= least


def verdict_on_batches(
    score: np.ndarray, clean: np.ndarray, shifted: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    """The verdict on batches by their mean score, either way round."""
    best = None
    for sign in (1.0, -1.0):
        sides = [sign * score[rows].mean(axis=1) for rows in (clean, shifted)]
        threshold = at_balanced_accuracy(*sides)
        gain = threshold.verdict(sides[1]).mean() - threshold.verdict(sides[0]).mean()
        if best is None or gain > best[0]:
            best = gain, sign, threshold.value
    _, way, value = best or (0.0, 1.0, 0.0)
    return lambda rows: way * score[rows].mean(axis=-1) > value


def best_detector(data: Scores) -> str:
    """The detector with the best balanced accuracy on the calibration rows, mean over kinds (the paper's choice)."""

    def balanced(name: str) -> float:
        tried = [s for s in trials(data.only((name,)), per=1) if s.kind == "same"]
        alarms = [(Read(s).alarms, s) for s in tried]
        return float(np.mean([a[s.shifted].mean() - a[s.clean].mean() for a, s in alarms]))

    return max(data.columns, key=balanced)


def windows_of(
    trial: Trial, shifted: np.ndarray, size: int, rng: np.random.Generator, *, uniform: bool
) -> np.ndarray:
    """Windows x batches x rows: a batch, or a row of it, is shifted with the nominal rate."""
    nominal = np.repeat(RATES, PER)
    shape = (len(nominal), WINDOW, size)
    struck = rng.random((len(nominal), WINDOW, 1) if uniform else shape) < nominal[:, None, None]
    clean = trial.data.rows(protocol.CLEAN_STREAM)
    return np.where(struck, rng.choice(shifted, shape), rng.choice(clean, shape))


def errors_of(trial: Trial, detector: str) -> Iterator[Batched]:
    """The paper's estimator with one detector and ours with all, for every size."""
    data, rng = trial.data, np.random.default_rng(13)
    nominal = np.repeat(RATES, PER)
    shifted_rows = np.setdiff1d(data.rows(trial.streamed), trial.shifted)
    rows = trial.calibration
    calibration = fit_calibration(
        {n: c[rows] for n, c in data.columns.items()}, trial.kind_of_row, data.correct[rows]
    )
    estimator, cells = Estimator(calibration, accuracy_tree()), calibration.place(data.columns)
    for size in SIZES:
        drawn = [batch_rows(side, DRAWS, size, rng) for side in (trial.clean, trial.shifted)]
        verdict, right = (
            verdict_on_batches(data.columns[detector], *drawn),
            right_batches(data, drawn[0]),
        )
        known = {
            k: np.bincount(verdict(b).astype(int), minlength=2)
            for k, b in zip(("clean", "shift"), drawn, strict=True)
        }
        accuracy = [right(b).mean() for b in drawn]
        for kind in ("uniform", "mixed") if size > 1 else ("uniform",):
            windows = windows_of(trial, shifted_rows, size, rng, uniform=kind == "uniform")
            alarmed = verdict(windows).sum(axis=1)
            rate = rogan_gladen(alarm_counts(alarmed, WINDOW), Calibrated.from_table(known)).value
            truth, plain = right(windows).mean(axis=1), data.correct[windows].mean(axis=(1, 2))
            counts = np.stack(
                [np.bincount(cells[w.ravel()], minlength=calibration.cells) for w in windows]
            )
            e = estimator.estimate(counts, shrink=1.0 / size)
            nothing = np.full(len(nominal), np.nan)
            share = [data.correct[side].mean() for side in (trial.clean, trial.shifted)]
            for name, r, off, off_batch in (
                ("in-distribution accuracy", nothing, share[0] - plain, accuracy[0] - truth),
                (
                    f"paper, {detector}",
                    rate,
                    _mixed(rate, *share) - plain,
                    _mixed(rate, *accuracy) - truth,
                ),
                ("ours, all rows", e.rate, e.accuracy - plain, nothing),
            ):
                for at in RATES:
                    here = nominal == at
                    errors = [float(np.abs(v[here]).mean()) for v in (r - nominal, off, off_batch)]
                    yield Batched(
                        data.name, trial.kind, kind, size, name, float(round(at, 1)), *errors
                    )


def _mixed(rate: np.ndarray, clean: float, shifted: float) -> np.ndarray:
    """Equation 2."""
    return (1 - rate) * clean + rate * shifted


def mean_over_folds(rows: list[Batched]) -> Iterator[Batched]:
    """One row a data set, kind, size, estimator and rate."""
    found: dict[tuple[object, ...], list[Batched]] = {}
    for row in rows:
        found.setdefault(row[:6], []).append(row)
    for some in found.values():
        yield Batched(*some[0][:6], *(float(np.mean([r[i] for r in some])) for i in (6, 7, 8)))


def main() -> None:
    """The command."""
    rows = []
    for name in protocol.available():
        data = protocol.published(name)
        detector = best_detector(data)
        for trial in trials(data, per=1):
            rows += list(errors_of(trial, detector))
            print(f"{name}: {trial.kind}, {trial.calibrated[0]} -> {trial.streamed}", flush=True)
    if rows:
        write(TABLES / "figures-04-10-13.csv", mean_over_folds(rows))
    else:
        print(f"no published scores in {protocol.PUBLISHED.name}: the table is left as it is")


if __name__ == "__main__":
    main()
