"""The scores of the study: published with the paper, our own, and elsewhere. Their trials: `trials.py`.

Clean rows calibrate from `ind_val` and stream from `ind_test`. The rate is judged against the nominal rate, the accuracy against
the window's own.
"""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
from trials import Scores

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT.parent / "shared" / "data" / "pra-scores"
OWN = ROOT / "studies" / "runtime-risk" / "cache" / "fashion-scores.npz"
ELSEWHERE = ROOT / "studies" / "runtime-risk" / "cache" / "elsewhere"
DETECTORS = ("cross_entropy", "energy", "grad_magnitude", "knn", "typicality")
DATASETS = ("CCT", "Office31", "OfficeHome")
MISALIGNED = {"Office31": ("knn", "typicality"), "OfficeHome": ("knn",)}
"""Files whose rows do not quite align with the others of their data set."""
LOOKED_AT = {"digits": 1, "letters": 1, "carriers": 1, "delays": 1, "few digits": 6}
"""Sets made elsewhere, and how many tables each has. Sets like these were looked at while a constant of `draws.py` was chosen."""
UNTOUCHED = {"languages": 1, "instruments": 1}
"""These were defined before any result on them was seen, and chose nothing."""
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
        raise FileNotFoundError(
            f"no scores of {name} in {PUBLISHED.name}; they are not part of the project"
        )
    return Scores(name, fold, correct, columns)


def kept(path: Path, name: str) -> Scores:
    """A table of scores that a script of the study made."""
    with np.load(path, allow_pickle=False) as file:
        columns = {n.removeprefix("score."): file[n] for n in file.files if n.startswith("score.")}
        return Scores(name, file["fold"], file["correct"], columns)


def own() -> list[Scores]:
    """Our own classifier of clothes under twelve kinds of shift (made by fashion_scores.py)."""
    return [kept(OWN, "Fashion-MNIST")]


def elsewhere() -> list[Scores]:
    """The sets of elsewhere/, all or none: means over fewer would be other means."""
    found = []
    for name, tables in {**LOOKED_AT, **UNTOUCHED}.items():
        paths = [
            ELSEWHERE / (f"{name} {i}.npz" if tables > 1 else f"{name}.npz")
            for i in range(1, tables + 1)
        ]
        found += [kept(path, name) for path in paths if path.exists()]
    return found if len(found) == sum({**LOOKED_AT, **UNTOUCHED}.values()) else []


def available() -> tuple[str, ...]:
    """The published data sets that are here."""
    return tuple(n for n in DATASETS if (PUBLISHED / f"{n}-energy.csv.gz").exists())
