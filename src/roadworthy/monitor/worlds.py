"""Streams to try an alarm on before release: what clean may be, and windows with a share of something else in them.

>>> from roadworthy.analysis.risk.calibration import calibrate
>>> rng = np.random.default_rng(0)
>>> kind = np.repeat(["clean", "fog"], 400)
>>> calibration = calibrate({"energy": rng.normal(np.repeat([0.0, 2.0], 400))}, kind, rng.random(800) < 0.8)
>>> worlds = clean_worlds(calibration, 5, rng)
>>> worlds.shape == (5, calibration.cells), bool(np.allclose(worlds.sum(axis=1), 1.0)), len(stream(worlds[0], 10, rng))
(True, True, 10)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from roadworthy.analysis.risk.between import directions
from roadworthy.monitor.cell_scores import CellScores
from roadworthy.monitor.events import Floats
from roadworthy.monitor.looks import Watched

if TYPE_CHECKING:
    from roadworthy.analysis.risk.calibration import Calibration

UNLUCKY = (0.96, 1.0)
"""Which worlds are simulated, by the rank of the evidence of their windows on average."""
UNLUCKY_TOO = (0.8, 0.85)
"""The same where groups are simulated, which has its own doubt (`between.DOUBT`): both are seldom unlucky at once."""
SMOOTH = 0.3
"""How far groups that were not calibrated lie beside those that were, in standard deviations of all groups."""
MOST_GROUPS = 400
"""Groups of one stream: where it would have more, they come again."""
_PRIOR = 0.5


def clean_worlds(calibration: Calibration, draws: int, rng: np.random.Generator) -> Floats:
    """What clean may be: Dirichlet draws over the bins of the shift score, and within each over its cells.

    Rows that came in groups count for as many as are independent.
    """
    rows = calibration.table[0].sum(axis=0).astype(np.float64)
    counts = (rows * (float(calibration.effective[0]) / max(rows.sum(), 1.0))).reshape(
        calibration.shift.bins, -1
    )
    bins = rng.dirichlet(counts.sum(axis=1) + _PRIOR, draws)
    inner = rng.standard_gamma(counts + _PRIOR / counts.shape[1], (draws, *counts.shape))
    inner = np.maximum(inner, 1e-300)
    worlds = bins[:, :, None] * inner / inner.sum(axis=2, keepdims=True)
    result: Floats = worlds.reshape(draws, -1)
    return result


def unlucky_worlds(
    watched: Watched, worlds: Floats, shares: tuple[float, float] = UNLUCKY
) -> Floats:
    """Those in which clean looks riskier than in most."""
    order = np.argsort(watched.estimator.odds(worlds * watched.window).evidence, kind="stable")
    low, high = (int(share * len(order)) for share in shares)
    return worlds[order[low:high]]


def stream(world: Floats, n: int, rng: np.random.Generator) -> np.ndarray:
    """Independent cells of one world."""
    upto = np.cumsum(world)
    return np.minimum(np.searchsorted(upto, rng.random(n) * upto[-1], side="right"), len(world) - 1)


@dataclass(frozen=True, eq=False)
class Swaying:
    """How clean varies from group to group, as the groups of the calibration do: cells become more or less frequent along what
    the groups differ in (an exponential tilt), by the lean of one of them and a little more or less."""

    directions: Floats
    leans: Floats
    """Groups x directions."""
    run: int
    """Events of one group that come in a row."""

    @classmethod
    def of(cls, calibration: Calibration, group_events: int) -> Swaying | None:
        """None where nobody knows how long a group lasts, where nothing is known of groups, or where they do not differ."""
        if not (group_events and calibration.between):
            return None
        return cls(
            directions(calibration), np.array(calibration.between, dtype=np.float64), group_events
        )

    def spread(self, window: int) -> float:
        """The deviation of the groups of a window, in standard deviations of the shift score: those of several cancel."""
        return float(self._deviations[0]) * within_windows(self.run, window)

    def groups(self, count: int, rng: np.random.Generator) -> Floats:
        """The leans of so many groups, in random order: as many like each of those calibrated, rare ones too."""
        from scipy.special import ndtri

        drawn = self.leans[rng.permutation(count) * len(self.leans) // count]
        places = np.stack([rng.permutation(count) for _ in self._deviations], axis=1)
        beside = SMOOTH * self._deviations * ndtri((places + 0.5) / count)
        result: Floats = (drawn + beside) / np.sqrt(1.0 + SMOOTH**2)
        return result

    def harder(self, worlds: Floats, deviations: Floats) -> Floats:
        """Groups of each world that are harder by so many standard deviations of the groups."""
        return self._leant(worlds, deviations[:, None] * self._deviations)

    @property
    def _deviations(self) -> Floats:
        result: Floats = np.sqrt(np.square(self.leans).mean(axis=0))
        return result

    def _leant(self, worlds: Floats, leans: Floats) -> Floats:
        tilts = leans @ self.directions
        tilted = worlds * np.exp(tilts - tilts.max(axis=1, keepdims=True))
        result: Floats = tilted / tilted.sum(axis=1, keepdims=True)
        return result

    def streams(
        self, worlds: Floats, n: int, rng: np.random.Generator, *, time: float = 1.0
    ) -> list[np.ndarray]:
        """Of each world independent cells, one group after the other; a cell stands for `time` events that are alike."""
        run = max(1, round(self.run / time))
        count = min(-(-n // run), MOST_GROUPS)
        which = np.arange(n) // run % count
        places, sizes = np.argsort(which, kind="stable"), np.bincount(which).tolist()
        leans = self.groups(len(worlds) * count, rng).reshape(len(worlds), count, -1)
        found = []
        for world, lean in zip(worlds, leans, strict=True):
            groups = self._leant(np.broadcast_to(world, (count, len(world))), lean)
            cells = np.empty(n, dtype=np.int64)
            cells[places] = np.concatenate(
                [stream(g, size, rng) for g, size in zip(groups, sizes, strict=True)]
            )
            found.append(cells)
        return found


def within_windows(run: int, window: int) -> float:
    """What is left of the deviation of groups in the mean of a window, where so many events of each come in a row.

    >>> within_windows(5000, 1000), round(within_windows(200, 1000), 2)
    (1.0, 0.45)
    """
    return float(np.sqrt(min(1.0, run / window)))


def window_of(
    clean: Floats, other: Floats, share: float, *, length: int, rng: np.random.Generator
) -> np.ndarray:
    """The cells of one window of a world, a share of them of something else."""
    cells = stream(clean, length, rng)
    where = np.flatnonzero(rng.random(length) < share)
    cells[where] = stream(other, len(where), rng)
    return cells


def mean_scores(scores: CellScores, windows: Sequence[np.ndarray]) -> tuple[Floats, Floats]:
    """The mean shift score and the mean expected error of each window."""
    cells = np.stack(windows)
    return scores.shift[cells].mean(axis=1), scores.error[cells].mean(axis=1)
