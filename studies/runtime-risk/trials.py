"""Trials of transfer: some kinds of shift calibrate, one streams, and every estimator is judged on the same windows.

*Same*: one kind, half of its rows calibrate and the other half streams. *Unseen*: one kind calibrates, another streams, for every
ordered pair. *Left out*: all kinds but one calibrate, that one streams. Clean rows that calibrate and that stream are given. A
window is `WINDOW` events, each shifted with the nominal rate; rows are drawn with replacement
(Torpmann-Hagen et al. 2025, section 4.5, batch 1).

>>> rng = np.random.default_rng(0)
>>> fold = np.repeat(["ind_val", "ind_test", "fog", "snow"], 100)
>>> data = Scores("example", fold, rng.random(400) < 0.8, {"energy": rng.normal(size=400)})
>>> [(t.kind, *t.calibrated, t.streamed) for t in trials(data, per=2)]
[('same', 'fog', 'fog'), ('unseen', 'fog', 'snow'), ('same', 'snow', 'snow'), ('unseen', 'snow', 'fog')]
>>> first = next(trials(data, per=2))
>>> first.windows.shape, first.nominal[:4].tolist(), bool(np.isin(first.windows, first.calibration).any())
((22, 100), [0.0, 0.0, 0.1, 0.1], False)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

WINDOW = 100
RATES = np.linspace(0.0, 1.0, 11)
CLEAN = "clean"


@dataclass(frozen=True, eq=False)
class Scores:
    """One row an input, with its fold, whether the subject was right, and what each supervisor said."""

    name: str
    fold: NDArray[Any]
    correct: NDArray[np.bool_]
    columns: Mapping[str, NDArray[np.float64]]
    calibrates: str = "ind_val"
    """The fold of clean rows to calibrate on."""
    streams: str = "ind_test"
    """The fold of clean rows to stream."""
    unused: tuple[str, ...] = ("train",)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of shift: all other folds."""
        known = (self.calibrates, self.streams, *self.unused)
        return tuple(k for k in dict.fromkeys(self.fold.tolist()) if k not in known)

    def rows(self, fold: str) -> NDArray[np.int64]:
        """The rows of a fold."""
        return np.flatnonzero(self.fold == fold)

    def only(self, names: tuple[str, ...]) -> Scores:
        """The same rows with some supervisors."""
        return replace(self, columns={n: self.columns[n] for n in names})


@dataclass(frozen=True, eq=False)
class Trial:
    """One calibration, and the windows to judge it on."""

    data: Scores
    kind: str
    """same, unseen or left out."""
    calibrated: tuple[str, ...]
    streamed: str
    clean: NDArray[np.int64]
    shifted: NDArray[np.int64]
    """Rows that calibrate."""
    windows: NDArray[np.int64]
    """Rows of each window."""
    nominal: NDArray[np.float64]
    drawn: NDArray[np.float64]
    """The share of shifted events that each window really has."""

    def on(self, names: tuple[str, ...]) -> Trial:
        """The same rows and windows with some supervisors."""
        return replace(self, data=self.data.only(names))

    @property
    def accuracy(self) -> NDArray[np.float64]:
        """What each window's accuracy really is."""
        result: NDArray[np.float64] = self.data.correct[self.windows].mean(axis=1)
        return result

    @property
    def calibration(self) -> NDArray[np.int64]:
        """All rows that calibrate, clean first."""
        return np.concatenate([self.clean, self.shifted])

    @property
    def kind_of_row(self) -> NDArray[Any]:
        """clean, or the kind of shift, of each row that calibrates."""
        return np.concatenate(
            [np.full(len(self.clean), CLEAN, dtype=object), self.data.fold[self.shifted]]
        )


def trials(
    data: Scores, *, seed: int = 0, per: int = 40, left_out: bool = False
) -> Iterator[Trial]:
    """Every calibration of a data set, with `per` windows a nominal rate; the same for the same seed, whoever asks."""
    for i, a in enumerate(data.kinds):
        rng = np.random.default_rng([seed, i])
        mixed = rng.permutation(data.rows(a))
        half = len(mixed) // 2
        yield _trial(data, "same", (a,), a, mixed[:half], mixed[half:], rng, per)
        for b in data.kinds:
            if b != a:
                yield _trial(data, "unseen", (a,), b, data.rows(a), data.rows(b), rng, per)
        if left_out:
            others = tuple(k for k in data.kinds if k != a)
            rows = np.concatenate([data.rows(k) for k in others])
            yield _trial(data, "left out", others, a, rows, data.rows(a), rng, per)


def _trial(
    data: Scores,
    kind: str,
    calibrated: tuple[str, ...],
    streamed: str,
    shifted: NDArray[np.int64],
    live: NDArray[np.int64],
    rng: np.random.Generator,
    per: int,
) -> Trial:
    nominal = np.repeat(RATES, per)
    struck = rng.random((len(nominal), WINDOW)) < nominal[:, None]
    windows = np.where(
        struck, rng.choice(live, struck.shape), rng.choice(data.rows(data.streams), struck.shape)
    )
    clean = data.rows(data.calibrates)
    return Trial(
        data, kind, calibrated, streamed, clean, shifted, windows, nominal, struck.mean(axis=1)
    )
