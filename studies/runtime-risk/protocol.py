"""The scores of the study: those published with the paper, and our own. The trials on them are `roadworthy.analysis.risk.trials`.

Clean rows calibrate from `ind_val` and stream from `ind_test`. The rate is judged against the nominal rate, the accuracy against
the window's own.
"""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np

from roadworthy.analysis.risk.trials import Scores

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT.parent / "shared" / "data" / "pra-scores"
OWN = ROOT / "studies" / "runtime-risk" / "cache" / "fashion-scores.npz"
DETECTORS = ("cross_entropy", "energy", "grad_magnitude", "knn", "typicality")
DATASETS = ("CCT", "Office31", "OfficeHome")
MISALIGNED = {"Office31": ("knn", "typicality"), "OfficeHome": ("knn",)}
"""Files whose rows do not quite align with the others of their data set."""
CLEAN_CALIBRATION, CLEAN_STREAM = "ind_val", "ind_test"


def published(name: str) -> Scores:
    """The published scores of one data set; the outcomes are those of its first file."""
    columns, fold, correct = {}, None, None
    for detector in DETECTORS:
        path = PUBLISHED / f"{name}-{detector}.csv.gz"
        if not path.exists():
            continue
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            lines = list(csv.reader(file))[1:]
        columns[detector] = np.array([float(line[1]) for line in lines])
        found = np.array([line[0] for line in lines])
        if fold is None:
            fold, correct = found, np.array([float(line[2]) for line in lines]) > 0.5
        elif not np.array_equal(fold, found):
            raise ValueError(f"{path.name} has other folds than the files before it")
    if fold is None or correct is None:
        raise FileNotFoundError(f"no scores of {name} in {PUBLISHED.name}; they are not part of the project")
    return Scores(name, fold, correct, columns)


def own() -> Scores:
    """Our own classifier of clothes under twelve kinds of shift (made by fashion_scores.py)."""
    with np.load(OWN, allow_pickle=False) as file:
        columns = {n.removeprefix("score."): file[n] for n in file.files if n.startswith("score.")}
        return Scores("Fashion-MNIST", file["fold"], file["correct"], columns)


def available() -> tuple[str, ...]:
    """The published data sets that are here."""
    return tuple(n for n in DATASETS if (PUBLISHED / f"{n}-energy.csv.gz").exists())
