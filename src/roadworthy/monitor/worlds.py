"""Streams to try an alarm on before release: what clean may be, and windows with a share of something else in them.

>>> from roadworthy.analysis.risk.cells import calibrate
>>> rng = np.random.default_rng(0)
>>> kind = np.repeat(["clean", "fog"], 400)
>>> calibration = calibrate({"energy": rng.normal(np.repeat([0.0, 2.0], 400))}, kind, rng.random(800) < 0.8)
>>> worlds = clean_worlds(calibration, 5, rng)
>>> worlds.shape == (5, calibration.cells), bool(np.allclose(worlds.sum(axis=1), 1.0)), len(stream(worlds[0], 10, rng))
(True, True, 10)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from roadworthy.monitor.cell_scores import CellScores
from roadworthy.monitor.events import Floats
from roadworthy.monitor.looks import Watched

if TYPE_CHECKING:
    from roadworthy.analysis.risk.cells import Calibration

UNLUCKY = (0.94, 0.99)
"""Which worlds are simulated, by the rank of the log-odds that their windows have on average."""
_PRIOR = 0.5


def clean_worlds(calibration: Calibration, draws: int, rng: np.random.Generator) -> Floats:
    """What clean may be: Dirichlet draws over the bins of the shift score, and within each over its cells.

    Rows that came in groups count for as many as are independent.
    """
    rows = calibration.table[0].sum(axis=0).astype(np.float64)
    counts = (rows * (float(calibration.effective[0]) / max(rows.sum(), 1.0))).reshape(calibration.shift.bins, -1)
    bins = rng.dirichlet(counts.sum(axis=1) + _PRIOR, draws)
    inner = rng.standard_gamma(counts + _PRIOR / counts.shape[1], (draws, *counts.shape))
    inner = np.maximum(inner, 1e-300)
    worlds = bins[:, :, None] * inner / inner.sum(axis=2, keepdims=True)
    result: Floats = worlds.reshape(draws, -1)
    return result


def unlucky_worlds(watched: Watched, worlds: Floats) -> Floats:
    """Those in which clean looks riskier than in most."""
    order = np.argsort(watched.estimator.log_odds(worlds * watched.window), kind="stable")
    low, high = (int(share * len(order)) for share in UNLUCKY)
    return worlds[order[low:high]]


def stream(world: Floats, n: int, rng: np.random.Generator) -> np.ndarray:
    """Independent cells of one world."""
    upto = np.cumsum(world)
    return np.minimum(np.searchsorted(upto, rng.random(n) * upto[-1], side="right"), len(world) - 1)


def window_of(clean: Floats, other: Floats, share: float, *, length: int, rng: np.random.Generator) -> np.ndarray:
    """The cells of one window of a world, a share of them of something else."""
    cells = stream(clean, length, rng)
    where = np.flatnonzero(rng.random(length) < share)
    cells[where] = stream(other, len(where), rng)
    return cells


def mean_scores(scores: CellScores, windows: Sequence[np.ndarray]) -> tuple[Floats, Floats]:
    """The mean shift score and the mean expected error of each window."""
    cells = np.stack(windows)
    return scores.shift[cells].mean(axis=1), scores.error[cells].mean(axis=1)
