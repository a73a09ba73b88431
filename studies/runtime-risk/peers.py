"""What QuaPy and NannyML estimate on the windows of the study. Runs in their own environment, on arrays alone:

    .venv-peers/risk/bin/python studies/runtime-risk/peers.py IN_FOLDER OUT_FOLDER

Each npz of IN_FOLDER has `features` (rows x columns), `confidence` (rows), `correct`, `clean` and `shifted` (rows that
calibrate) and `windows` (rows of each window). Each npz of OUT_FOLDER has rates by QuaPy's ACC, PACC, EMQ and KDEy, with a logistic
regression and the cross-validation they come with, and accuracies by NannyML's CBPE: `confidence` as the probability of "right", a
window as a chunk; with the clean rows as its reference (as it is meant), and with clean and shifted rows.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

os.environ["NML_DISABLE_USAGE_LOGGING"] = "1"
warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402


def quantifiers(features: np.ndarray, shifted: np.ndarray) -> dict:
    """QuaPy's, fitted with their defaults on rows of which it is known whether they are shifted."""
    import quapy as qp
    from quapy.method.aggregative import ACC, EMQ, PACC, KDEyML
    from sklearn.linear_model import LogisticRegression

    qp.environ["SAMPLE_SIZE"] = 100
    made = {}
    for name, method in {"acc": ACC, "pacc": PACC, "emq": EMQ, "kdey": KDEyML}.items():
        np.random.seed(0)  # noqa: NPY002  (QuaPy's folds take the global seed)
        made[name] = method(LogisticRegression(max_iter=2000)).fit(features, shifted)
    return made


class Remembered:
    """A kernel density that looks up rows it has seen: windows share rows, and the sums over all calibration rows are slow."""

    def __init__(self, density: Any, posteriors: np.ndarray) -> None:
        self._at, first = np.unique(posteriors[:, 1], return_index=True)
        self._log = density.score_samples(posteriors[first])

    def score_samples(self, posteriors: np.ndarray) -> np.ndarray:
        """As scikit-learn's."""
        return self._log[np.searchsorted(self._at, posteriors[:, 1])]


def rates(
    features: np.ndarray, clean: np.ndarray, shifted: np.ndarray, windows: np.ndarray
) -> dict[str, np.ndarray]:
    """The rate of shift in each window."""
    marks = np.concatenate([np.zeros(len(clean), int), np.ones(len(shifted), int)])
    found = {}
    for name, quantifier in quantifiers(features[np.concatenate([clean, shifted])], marks).items():
        classified = quantifier.classify(features)
        if name == "kdey":
            seen = classified[np.unique(windows)]
            quantifier.mix_densities = [
                Remembered(density, seen) for density in quantifier.mix_densities
            ]
        found[name] = np.array([quantifier.aggregate(classified[w])[1] for w in windows])
    return found


def cbpe(
    confidence: np.ndarray, correct: np.ndarray, reference: np.ndarray, windows: np.ndarray
) -> np.ndarray:
    """NannyML's estimate of the accuracy in each window."""
    import pandas as pd
    from nannyml import CBPE

    def frame(rows: np.ndarray) -> pd.DataFrame:
        return pd.DataFrame({"p": confidence[rows], "y": 1, "t": correct[rows].astype(int)})

    estimator = CBPE(
        y_pred_proba="p",
        y_pred="y",
        y_true="t",
        problem_type="classification_binary",
        metrics=["accuracy"],
        chunk_size=windows.shape[1],
    )
    result = estimator.fit(frame(reference)).estimate(frame(windows.ravel()).drop(columns="t"))
    table = result.filter(period="analysis").to_df()
    return table[("accuracy", "value")].to_numpy(dtype=float)


def main(given: Path, made: Path) -> None:
    """All files of the folder, in order."""
    made.mkdir(parents=True, exist_ok=True)
    for path in sorted(given.glob("*.npz")):
        with np.load(path, allow_pickle=False) as file:
            x = {name: file[name] for name in file.files}
        found = {
            f"rate.{k}": v
            for k, v in rates(x["features"], x["clean"], x["shifted"], x["windows"]).items()
        }
        if "confidence" in x:
            both = np.concatenate([x["clean"], x["shifted"]])
            found["accuracy.cbpe"] = cbpe(x["confidence"], x["correct"], x["clean"], x["windows"])
            found["accuracy.cbpe_both"] = cbpe(
                x["confidence_both"], x["correct"], both, x["windows"]
            )
        found["key"] = x["key"]
        np.savez(made / path.name, **found)  # type: ignore[arg-type]
        print(path.stem, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
