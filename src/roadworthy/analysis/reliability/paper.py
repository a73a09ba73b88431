"""Paper mode: the probability of misclassification per input (pmi) as Zhao et al. 2021 computed it.

Equations 4-7 and 9-14, with the settings of the authors' program: a Gaussian density at the centres
of equal cells, divided by its sum over the cells; its variance from resamples of half the rows; one
draw of offsets used in every cell; a cell without labels takes the majority of the model's own
answers; a cell with two labels fails entirely, with variance 0; cells are independent. The bound
does not hold (in simulation at nominal 97.5% it covered 0% of the time): it is printed beside the
published figures, and no claim is judged by it.

>>> points = np.array([[0.1, 0.1], [0.2, 0.3], [0.8, 0.9], [0.9, 0.6]])
>>> result = paper_mode(points, np.array([0, 0, 1, 1]), lambda x: x[:, 0] > 0.45, side=0.1)
>>> result.normal, result.empty, result.cross_boundary
(4, 96, 0)
>>> round(result.acu, 3), round(result.estimate, 3), round(result.bound, 3)
(0.049, 0.031, 0.048)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from roadworthy.statistics.partition import Grid
from roadworthy.statistics.profile import gaussian, on_grid, row_sums

Answer = Callable[[np.ndarray], np.ndarray]
"""Points as float32 rows (stored by column) to the class of each."""
EMPTY, CROSSED = -1, -2
"""Cells without a label, and with two."""
BLOCK = 40_000
"""Samples asked for at once, in whole cells: a small network's layers stay in the cache."""


@dataclass(frozen=True)
class PaperResult:
    """What the paper's table 1 shows of a data set, and the cells for a map."""

    acu: float
    """Average cell unastuteness: the mean over all cells, cross-boundary cells at 1."""
    estimate: float
    """E of equation 5."""
    variance: float
    """V of equation 6, of independent cells."""
    deviation: float
    """Its root; the paper prints this in the column V."""
    full_deviation: float
    """Of the same estimate with the covariance between cells, from the influence of every row."""
    bound: float
    """Upper bound of equation 7."""
    confidence: float
    normal: int
    empty: int
    cross_boundary: int
    grid: Grid
    mass: np.ndarray
    """By cell, its probability in the profile; the cells' sum is 1."""
    unastuteness: np.ndarray
    """By cell, the share of its samples that fail."""
    truth: np.ndarray
    """By cell, the label of its rows; EMPTY or CROSSED."""
    votes: np.ndarray
    """By cell, the majority of its samples' answers; -1 in cross-boundary cells."""


def paper_mode(
    points: np.ndarray,
    labels: np.ndarray,
    answer: Answer,
    *,
    domain: Sequence[tuple[float, float]] = ((0.0, 1.0), (0.0, 1.0)),
    side: float = 1 / 250,
    bandwidth: float = 0.2,
    samples: int = 10_000,
    seed: int = 100,
    resamples: int = 100,
    confidence: float = 0.975,
) -> PaperResult:
    """The paper's figures for a model that `answer` asks; rows without a label (-1) shape the
    profile only."""
    from scipy.special import ndtri

    points = np.asarray(points, dtype=np.float64)
    grid = Grid.over(domain, side)
    place = grid.cell_of(points)
    if (place < 0).any():
        raise ValueError(
            f"{(place < 0).sum()} rows lie outside the domain, the first is row {place.argmin()}; "
            "paper mode takes no such rows: widen the domain or leave them out"
        )
    truth = _labels_of_cells(place, np.asarray(labels), grid.cells)
    unastuteness, votes = _monte_carlo(grid, truth, answer, samples, seed)
    variance = unastuteness * (1 - unastuteness) / (samples - 1)

    factors = [gaussian(grid.centres(k), points[:, k], bandwidth) for k in range(grid.dimension)]
    density = on_grid(factors) / len(points)
    mass = density / density.sum()
    mass_variance = _resampled_variance(factors, resamples) / density.sum() ** 2

    estimate = float(mass @ unastuteness)
    # Every row's part in numerator and denominator: a ratio of means, and its deviation.
    sums = row_sums(factors, np.ones(grid.cells))
    shares, sums = row_sums(factors, unastuteness) / sums.mean(), sums / sums.mean()
    total = float(
        (unastuteness**2 * mass_variance + mass**2 * variance + variance * mass_variance).sum()
    )
    return PaperResult(
        acu=float(unastuteness.mean()),
        estimate=estimate,
        variance=total,
        deviation=total**0.5,
        full_deviation=float(np.sqrt(((shares - estimate * sums) ** 2).mean() / len(points))),
        bound=estimate + float(ndtri(confidence)) * total**0.5,
        confidence=confidence,
        normal=int((truth >= 0).sum()),
        empty=int((truth == EMPTY).sum()),
        cross_boundary=int((truth == CROSSED).sum()),
        grid=grid,
        mass=mass,
        unastuteness=unastuteness,
        truth=truth,
        votes=votes,
    )


def _labels_of_cells(place: np.ndarray, labels: np.ndarray, cells: int) -> np.ndarray:
    """By cell, the one label of its rows, EMPTY or CROSSED."""
    known = labels >= 0
    lowest, highest = np.full(cells, np.iinfo(np.int64).max), np.full(cells, -1)
    np.minimum.at(lowest, place[known], labels[known])
    np.maximum.at(highest, place[known], labels[known])
    return np.where(highest < 0, EMPTY, np.where(lowest == highest, highest, CROSSED))


def _monte_carlo(
    grid: Grid, truth: np.ndarray, answer: Answer, samples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """By cell, the share of its samples that fail (equation 13) and the majority of their answers;
    the same offsets in every cell."""
    # The authors' own stream of random numbers, without which their digits do not come back.
    draw = np.random.RandomState(seed).uniform(size=(samples, grid.dimension))
    offsets = (draw * grid.side).T[:, None, :]
    unastuteness, votes = np.ones(grid.cells), np.full(grid.cells, -1)
    # By column, in float32: scikit-learn and most networks compare in it.
    size = max(1, BLOCK // samples)
    inputs = np.empty((grid.dimension, size, samples), dtype=np.float32)
    asked = np.flatnonzero(truth != CROSSED)
    for start in range(0, len(asked), size):
        cells = asked[start : start + size]
        now = inputs[:, : len(cells)]
        corners = grid.corners(cells).T[:, :, None]
        np.add(corners, offsets, out=now, casting="same_kind")
        given = np.asarray(answer(now.reshape(grid.dimension, -1).T))
        votes[cells], failing = _counted(given.reshape(len(cells), samples), truth[cells])
        unastuteness[cells] = failing / samples
    return unastuteness, votes


def _counted(given: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By cell, the majority of its answers (equal votes: the lowest class), and how many differ
    from its label, or from the majority if it has none."""
    majority, highest = (given.min(axis=1).astype(np.int64), given.max(axis=1))
    failing = np.where((truth == EMPTY) | (truth == majority), 0, given.shape[1])
    for cell in np.flatnonzero(majority != highest):
        votes = np.bincount(given[cell].astype(np.int64), minlength=truth[cell] + 1)
        majority[cell] = votes.argmax()
        own = majority[cell] if truth[cell] == EMPTY else truth[cell]
        failing[cell] = given.shape[1] - votes[own]
    return majority, failing


def _resampled_variance(factors: list[np.ndarray], resamples: int) -> np.ndarray:
    """Variance of the density at the cells over resamples of half the rows (equation 11)."""
    n = factors[0].shape[1]
    whole = on_grid(factors) / n
    total, squares = np.zeros_like(whole), np.zeros_like(whole)
    for b in range(resamples):
        # The rows that sklearn.utils.resample(n_samples=n // 2, random_state=b) draws.
        rows = np.random.RandomState(b).randint(0, n, n // 2)
        moved = on_grid(factors, weights=np.bincount(rows, minlength=n)) / (n // 2) - whole
        total += moved
        squares += moved**2
    return np.divide(squares - total**2 / resamples, resamples - 1)
