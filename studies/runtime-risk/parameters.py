"""The tables under figures 3 and 5 to 8: how well the parameters of a tree are known, and what a weak detector does.

python studies/runtime-risk/parameters.py        # a minute; figures 5 to 8 need the published scores
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import NamedTuple

import numpy as np
import protocol
from baselines import bayes_rate
from batches import SIZES, batch_rows, best_detector, right_batches, verdict_on_batches
from estimators import Read
from protocol import CLEAN_CALIBRATION, CLEAN_STREAM
from study import TABLES, write
from trials import RATES, WINDOW, Scores, trials

from roadworthy.analysis.risk.rates import Calibrated, Rates, alarm_counts
from roadworthy.analysis.risk.rates.rogan_gladen import mean_rate, paper_fallback_rate, rogan_gladen
from roadworthy.analysis.simulation.streams import detector_grid

DRAWS = 2000


class Synthetic(NamedTuple):
    """Figure 3: a synthetic detector's error of the rate, over all rates."""

    tpr: float
    tnr: float
    balanced_accuracy: float
    estimator: str
    error: float


def synthetic_rates(*, windows: int = 400, rows: int = 1000) -> Iterator[Synthetic]:
    """Detectors over the grid of TPR and TNR, calibrated on so many clean and shifted rows."""
    rng = np.random.default_rng(3)
    nominal = np.repeat(RATES, windows)
    for tpr, tnr in detector_grid():
        seen = Calibrated.from_table(
            {
                k: [rows - n, n]
                for k, n in (
                    ("clean", rng.binomial(rows, 1 - tnr)),
                    ("shift", rng.binomial(rows, tpr)),
                )
            }
        )
        drawn = rng.binomial(WINDOW, nominal * tpr + (1 - nominal) * (1 - tnr))
        alarms = alarm_counts(drawn, WINDOW)
        found: dict[str, Rates] = {"mean of verdicts": mean_rate(alarms, seen)}
        if seen.tpr > seen.fpr:
            found |= {
                "Rogan-Gladen, clipped": rogan_gladen(alarms, seen),
                "Rogan-Gladen, fallback": paper_fallback_rate(alarms, seen),
                "Bayes table": bayes_rate(alarms, seen),
            }
        for name, rates in found.items():
            yield Synthetic(
                tpr, tnr, (tpr + tnr) / 2, name, float(np.abs(rates.value - nominal).mean())
            )


class Parameter(NamedTuple):
    """Figures 5, 6 and 7: how far a parameter on the calibration fold lies from the same on another fold."""

    data: str
    detector: str
    batch: int
    parameter: str
    error: float
    least: float
    most: float


def accuracies(data: Scores) -> Iterator[Parameter]:
    """Figure 5: P(right | clean) and P(right | shifted), across batch sizes."""
    rng = np.random.default_rng(5)
    for size in SIZES:
        folds = (CLEAN_CALIBRATION, CLEAN_STREAM, *data.kinds)
        least = right_batches(data, batch_rows(data.rows(CLEAN_CALIBRATION), DRAWS, size, rng))
        at = {f: least(batch_rows(data.rows(f), DRAWS, size, rng)).mean() for f in folds}
        yield _spread(
            data, "", size, "accuracy_clean", [abs(at[CLEAN_CALIBRATION] - at[CLEAN_STREAM])]
        )
        yield _spread(
            data,
            "",
            size,
            "accuracy_shifted",
            [abs(at[a] - at[b]) for a, b in permutations(data.kinds, 2)],
        )


def leaves(data: Scores) -> Iterator[Parameter]:
    """Figure 6: the accuracies of the tree with a detector, for every detector."""
    for detector in data.columns:
        errors: dict[str, list[float]] = {}
        for a, b in permutations(data.kinds, 2):
            alarms = _alarms(data.only((detector,)), a)
            sides = {"clean": (CLEAN_CALIBRATION, CLEAN_STREAM), "shifted": (a, b)}
            for kind, (before, after) in sides.items():
                for word, raised in (("detected", alarms), ("undetected", ~alarms)):
                    shares = [_share(data.correct, data.rows(f), raised) for f in (before, after)]
                    errors.setdefault(f"accuracy_{kind}_{word}", []).append(
                        abs(shares[0] - shares[1])
                    )
        for name, values in errors.items():
            yield _spread(data, detector, 1, name, values)


def detection(data: Scores) -> Iterator[Parameter]:
    """Figure 7: TPR and TNR of the best detector, across batch sizes."""
    detector, rng = best_detector(data), np.random.default_rng(7)
    score = data.columns[detector]
    for size in SIZES:
        errors: dict[str, list[float]] = {"tpr": [], "tnr": []}
        for a, b in permutations(data.kinds, 2):
            drawn = {
                f: batch_rows(data.rows(f), DRAWS, size, rng)
                for f in (CLEAN_CALIBRATION, CLEAN_STREAM, a, b)
            }
            verdict = verdict_on_batches(score, drawn[CLEAN_CALIBRATION], drawn[a])
            at = {f: verdict(rows).mean() for f, rows in drawn.items()}
            errors["tpr"].append(abs(at[a] - at[b]))
            errors["tnr"].append(abs(at[CLEAN_CALIBRATION] - at[CLEAN_STREAM]))
        for name, values in errors.items():
            yield _spread(data, detector, size, name, values)


class Sensitivity(NamedTuple):
    """Figure 8: the error of the accuracy, by the rate and by the balanced accuracy of a synthetic detector."""

    data: str
    kind: str
    balanced_accuracy: float
    nominal: float
    error: float


def sensitivity(data: Scores, *, per: int = 20) -> Iterator[Sensitivity]:
    """The classifier's real outcomes, under verdicts of a synthetic detector; Rogan-Gladen, clipped."""
    rng = np.random.default_rng(8)
    found: dict[tuple[str, float, float], list[float]] = {}
    for trial in trials(data, per=per):
        read = Read(trial)
        shifted = data.fold[trial.windows] != CLEAN_STREAM
        for tpr, tnr in detector_grid():
            alarms = (rng.random(shifted.shape) < np.where(shifted, tpr, 1 - tnr)).sum(axis=1)
            known = Calibrated.from_table(
                {"clean": [1e6 * tnr, 1e6 * (1 - tnr)], "shift": [1e6 * (1 - tpr), 1e6 * tpr]}
            )
            error = np.abs(
                read.by_rate(rogan_gladen(alarm_counts(alarms, WINDOW), known)).accuracy.value
                - trial.accuracy
            )
            for nominal in RATES:
                key = trial.kind, round((tpr + tnr) / 2, 2), float(round(nominal, 1))
                found.setdefault(key, []).append(float(error[trial.nominal == nominal].mean()))
    for (kind, balanced, nominal), errors in sorted(found.items()):
        yield Sensitivity(data.name, kind, balanced, nominal, float(np.mean(errors)))


def _alarms(data: Scores, kind: str) -> np.ndarray:
    """Verdicts on all rows of a detector calibrated on one kind."""
    first = next(s for s in trials(data, per=1) if s.calibrated == (kind,) and s.kind == "unseen")
    return Read(first).alarms


def _share(correct: np.ndarray, rows: np.ndarray, some: np.ndarray) -> float:
    chosen = rows[some[rows]]
    return float(correct[chosen].mean()) if len(chosen) else 0.0


def _spread(data: Scores, detector: str, batch: int, name: str, errors: list[float]) -> Parameter:
    return Parameter(
        data.name, detector, batch, name, float(np.mean(errors)), min(errors), max(errors)
    )


def main() -> None:
    """The command."""
    write(TABLES / "figure-03.csv", synthetic_rates())
    data = [protocol.published(name) for name in protocol.available()]
    if not data:
        print(
            f"no published scores in {protocol.PUBLISHED.name}: figures 5 to 8 are left as they are"
        )
        return
    write(TABLES / "figure-05.csv", (row for d in data for row in accuracies(d)))
    write(TABLES / "figure-06.csv", (row for d in data for row in leaves(d)))
    write(TABLES / "figure-07.csv", (row for d in data for row in detection(d)))
    write(TABLES / "figure-08.csv", (row for d in data for row in sensitivity(d)))


if __name__ == "__main__":
    main()
