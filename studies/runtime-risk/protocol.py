"""The protocol of the study: which rows calibrate, which rows stream, and the windows that every estimator sees.

A data set has clean rows to calibrate (`ind_val`) and to stream (`ind_test`), and several kinds of shift. *Same*: one kind, half
of its rows calibrate and the other half streams. *Unseen*: one kind calibrates, another streams, for every ordered pair. *Left
out*: all kinds but one calibrate, that one streams. A window is 100 events, each shifted with the nominal rate (0, 0.1, ... 1);
rows are drawn with replacement. The rate is judged against the nominal rate, the accuracy against the window's own.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT.parent / "shared" / "data" / "pra-scores"
OWN = ROOT / "studies" / "runtime-risk" / "cache" / "fashion-scores.npz"
DETECTORS = ("cross_entropy", "energy", "grad_magnitude", "knn", "typicality")
DATASETS = ("CCT", "Office31", "OfficeHome")
MISALIGNED = {"Office31": ("knn", "typicality"), "OfficeHome": ("knn",)}
"""Files whose rows do not quite align with the others of their data set."""
WINDOW, RATES = 100, np.linspace(0.0, 1.0, 11)
CLEAN_CALIBRATION, CLEAN_STREAM = "ind_val", "ind_test"


@dataclass(frozen=True)
class Scores:
    """A data set: one row an input, with its fold, whether the classifier was right, and what each detector said."""

    name: str
    fold: np.ndarray
    correct: np.ndarray
    columns: dict[str, np.ndarray]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of shift."""
        return tuple(
            k for k in dict.fromkeys(self.fold.tolist()) if k not in ("train", CLEAN_CALIBRATION, CLEAN_STREAM)
        )

    def rows(self, fold: str) -> np.ndarray:
        """The rows of a fold."""
        return np.flatnonzero(self.fold == fold)

    def only(self, names: tuple[str, ...]) -> Scores:
        """The same rows with some detectors."""
        return Scores(self.name, self.fold, self.correct, {n: self.columns[n] for n in names})


@dataclass(frozen=True)
class Setting:
    """One calibration and the windows to judge it on."""

    data: Scores
    kind: str
    """same, unseen or left out."""
    calibrated: tuple[str, ...]
    streamed: str
    clean: np.ndarray
    shifted: np.ndarray
    """Rows that calibrate."""
    windows: np.ndarray
    """Rows of each window."""
    nominal: np.ndarray
    drawn: np.ndarray
    """The share of shifted events that each window really has."""

    def on(self, detectors: tuple[str, ...]) -> Setting:
        """The same rows and windows with some of the detectors."""
        return replace(self, data=self.data.only(detectors))

    @property
    def accuracy(self) -> np.ndarray:
        """What each window's accuracy really is."""
        return self.data.correct[self.windows].mean(axis=1)

    @property
    def calibration(self) -> np.ndarray:
        """All rows that calibrate, clean first."""
        return np.concatenate([self.clean, self.shifted])

    @property
    def kind_of_row(self) -> np.ndarray:
        """clean, or the kind of shift, of each row that calibrates."""
        return np.concatenate([np.full(len(self.clean), "clean", dtype=object), self.data.fold[self.shifted]])


def published(name: str, *, without: tuple[str, ...] = ()) -> Scores:
    """The published scores of one data set; the outcomes are those of its first file."""
    columns, fold, correct = {}, None, None
    for detector in DETECTORS:
        path = PUBLISHED / f"{name}-{detector}.csv.gz"
        if not path.exists() or detector in without:
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
    """Our own classifier of clothes under eleven kinds of shift (made by fashion_scores.py)."""
    with np.load(OWN, allow_pickle=False) as file:
        columns = {n.removeprefix("score."): file[n] for n in file.files if n.startswith("score.")}
        return Scores("Fashion-MNIST", file["fold"], file["correct"], columns)


def available() -> tuple[str, ...]:
    """The published data sets that are here."""
    return tuple(n for n in DATASETS if (PUBLISHED / f"{n}-energy.csv.gz").exists())


def settings(data: Scores, *, seed: int = 0, per: int = 40, left_out: bool = False) -> Iterator[Setting]:
    """Every calibration of a data set, with its windows; the same for the same seed, whoever asks."""
    clean, stream = data.rows(CLEAN_CALIBRATION), data.rows(CLEAN_STREAM)
    for i, a in enumerate(data.kinds):
        rng = np.random.default_rng([seed, i])
        mixed = rng.permutation(data.rows(a))
        half = len(mixed) // 2
        yield _setting(data, "same", (a,), a, clean, mixed[:half], stream, mixed[half:], rng, per)
        for b in data.kinds:
            if b != a:
                yield _setting(data, "unseen", (a,), b, clean, data.rows(a), stream, data.rows(b), rng, per)
        if left_out:
            others = tuple(k for k in data.kinds if k != a)
            rows = np.concatenate([data.rows(k) for k in others])
            yield _setting(data, "left out", others, a, clean, rows, stream, data.rows(a), rng, per)


def _setting(
    data: Scores,
    kind: str,
    calibrated: tuple[str, ...],
    streamed: str,
    clean: np.ndarray,
    shifted: np.ndarray,
    clean_stream: np.ndarray,
    shifted_stream: np.ndarray,
    rng: np.random.Generator,
    per: int,
) -> Setting:
    nominal = np.repeat(RATES, per)
    is_shifted = rng.random((len(nominal), WINDOW)) < nominal[:, None]
    windows = np.where(
        is_shifted, rng.choice(shifted_stream, is_shifted.shape), rng.choice(clean_stream, is_shifted.shape)
    )
    return Setting(data, kind, calibrated, streamed, clean, shifted, windows, nominal, is_shifted.mean(axis=1))
