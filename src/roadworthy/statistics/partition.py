"""Cells of the input space, and how near to each other two inputs of different classes lie.

Zhao et al. 2021 (remark 2) call labels r-separated if inputs of different classes are at least 2 r
apart. `label_separation` is the smallest such distance among labelled rows, exactly, and r half of
it: a label then reaches every input nearer than r, and no input is reached by two labels. The
smallest distance of a sample is too large: by exchange, the next row lowers it with probability
2 / (n + 1).

A `Grid` has equal cells and serves maps and paper mode; `Centres` are the nearest-centre regions of
k-means centres, which cover the whole space in any dimension.

>>> points = np.array([[0.1, 0.1], [0.2, 0.3], [0.6, 0.3], [0.9, 0.6]])
>>> found = label_separation(points, np.array([0, 0, 1, 1]))
>>> round(found.distance, 3), round(found.r, 3), found.pair, round(found.chance_lower, 2)
(0.4, 0.2, (1, 2), 0.4)
>>> grid = Grid.over([(0, 1), (0, 1)], side=0.3)
>>> grid.shape, grid.cell_of(np.array([[0.0, 0.26], [1.0, 1.0], [1.1, 0.5]])).tolist()
((4, 4), [1, 15, -1])
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from roadworthy.statistics.neighbours import nearest
from roadworthy.statistics.proportion import clopper_pearson

TREE_DIMENSIONS = 15
"""Above, a k-d tree visits nearly every point."""
NEARLY_ZERO = 1e-6
"""A distance below this share of the widest feature is more likely a copy than a neighbour."""
CELLS = 10_000_000
BYTES_PER_CELL = 64
"""Mass, its variance, failing share, its variance, label, vote and two temporaries."""
CODES = 256
"""Pairs of feature and value by which far inputs are told apart."""
PAIRS = 2**24
"""Pairs whose distance is bounded at once."""


@dataclass(frozen=True)
class LabelSeparation:
    """How far apart rows of different classes lie, and what a further row may change."""

    distance: float
    """Smallest distance of two rows of different classes."""
    r: float
    """Half of it, or as given: a label reaches inputs nearer than this."""
    norm: float
    pair: tuple[int, int]
    """The two rows."""
    n: int
    """Labelled rows."""
    chance_lower: float
    """2 / (n + 1): the probability that the next labelled row lowers the distance."""
    chance_upper: float
    """Its 97.5% upper value: Clopper-Pearson with one success, about 5.6 / n."""
    curve: tuple[tuple[int, float], ...]
    """Rows drawn at random and their smallest distance, up to all rows."""
    given: bool = False
    """r was given, which is an assumption."""
    nearly_zero: bool = False
    """Below 1e-6 of the widest feature: look at the pair."""


def label_separation(
    points: np.ndarray,
    labels: np.ndarray,
    *,
    norm: float = np.inf,
    r: float | None = None,
    names: Sequence[str] | None = None,
    seed: int = 0,
) -> LabelSeparation:
    """The smallest distance between rows of different labels; rows without one (-1) are left out.

    Distance 0 is refused with the pair named unless `r` is given.
    """
    points, labels = np.asarray(points), np.asarray(labels)
    known = np.flatnonzero(labels >= 0)
    classes = np.unique(labels[known])
    if len(classes) < 2:
        raise ValueError(
            f"labels of one class only ({classes.tolist()}): there is no distance between classes; "
            "add rows of a second class, or use the plain operational test alone"
        )
    if r is not None and not 0 < r < np.inf:
        raise ValueError(f"r is {r!r}; a positive number was expected")
    order = np.random.default_rng(seed).permutation(known)
    distance, pair, curve = _closest_pair(points, labels, order, norm)
    if distance == 0 and r is None:
        one, other = (str(row) if names is None else names[row] for row in pair)
        raise ValueError(
            f"rows {one} and {other} are equal but labelled {labels[pair[0]]} and "
            f"{labels[pair[1]]}: r would be 0; correct a label, leave a row out, or give r"
        )
    n = len(known)
    widest = float(np.ptp(points[known], axis=0).max())
    return LabelSeparation(
        distance=distance,
        r=distance / 2 if r is None else float(r),
        norm=norm,
        pair=pair,
        n=n,
        chance_lower=2 / (n + 1),
        chance_upper=clopper_pearson(1, n, confidence=0.975, sided="upper").high,
        curve=curve,
        given=r is not None,
        nearly_zero=distance < NEARLY_ZERO * widest,
    )


def _closest_pair(
    points: np.ndarray, labels: np.ndarray, order: np.ndarray, norm: float
) -> tuple[float, tuple[int, int], tuple[tuple[int, float], ...]]:
    """Over growing parts of `order`, each twice the last: a part's distance bounds the next one's
    from above, which leaves few pairs to compute."""
    sizes = [len(order)]
    while sizes[0] > 32:
        sizes.insert(0, sizes[0] // 2)
    best, pair, curve, start = math.inf, (-1, -1), [], 0
    for size in sizes:
        new, before = order[start:size], order[:size]
        for label in np.unique(labels[new]):
            own, other = new[labels[new] == label], before[labels[before] != label]
            if not len(other):
                continue
            near, rows = nearest_within(points[own], points[other], radius=best, norm=norm)
            first = int(near.argmin())
            if near[first] < best:
                best, pair = float(near[first]), (int(own[first]), int(other[rows[first]]))
        curve.append((size, best))
        start = size
    low, high = sorted(pair)
    return best, (low, high), tuple(entry for entry in curve if entry[1] < math.inf)


def nearest_within(
    queries: np.ndarray, points: np.ndarray, *, radius: float, norm: float = np.inf
) -> tuple[np.ndarray, np.ndarray]:
    """For every query the distance and row of the nearest point closer than `radius`, exactly;
    infinity and -1 if there is none.

    Up to 15 features by a tree; above, the norm 2 by matrix products, the others in blocks.
    """
    if norm not in (1, 2, np.inf):
        raise ValueError(f"norm is {norm!r}; 1, 2 or infinity was expected")
    if not len(queries) or not len(points):
        return np.full(len(queries), np.inf), np.full(len(queries), -1)
    if points.shape[1] <= TREE_DIMENSIONS:
        from scipy.spatial import cKDTree

        found, at = cKDTree(points).query(queries, p=norm)
    elif norm == 2:
        exact = nearest(queries, points)
        found, at = exact.distances[:, 0], exact.indices[:, 0]
    else:
        found, at = _by_blocks(queries, points, radius, norm)
    inside = found < radius
    return np.where(inside, found, np.inf), np.where(inside, at, -1)


def _by_blocks(
    queries: np.ndarray, points: np.ndarray, radius: float, norm: float
) -> tuple[np.ndarray, np.ndarray]:
    """Nearest by the norm 1 or infinity in many dimensions.

    In the norm infinity two inputs lie `radius` apart as soon as one is at most `a` and the other
    at least `a + radius` in any one feature. Whether there is such a feature is a matrix product of
    zeros and ones, and only pairs without one are compared.
    """
    from scipy.spatial.distance import cdist

    best, at = np.full(len(queries), np.inf), np.full(len(queries), -1)
    codes = _codes(queries, points, radius) if norm == np.inf and radius < np.inf else None
    step = max(1, PAIRS // len(points))
    for start in range(0, len(queries), step):
        part = queries[start : start + step]
        if codes is not None:
            rows, columns = np.nonzero(codes[0][start : start + step] @ codes[1].T == 0)
        if codes is None or len(rows) > len(part) * len(points) / 20:
            distances = cdist(part, points, "chebyshev" if norm == np.inf else "cityblock")
            at[start : start + step] = distances.argmin(axis=1)
            best[start : start + step] = distances.min(axis=1)
            continue
        distances = np.empty(len(rows))
        few = max(1, 2**20 // points.shape[1])
        for first in range(0, len(rows), few):
            some = slice(first, first + few)
            gaps = np.subtract(part[rows[some]], points[columns[some]], dtype=np.float64)
            distances[some] = np.abs(gaps, out=gaps).max(axis=1)
        order = np.argsort(distances, kind="stable")
        found, first_of = np.unique(rows[order], return_index=True)
        best[start + found] = distances[order[first_of]]
        at[start + found] = columns[order[first_of]]
    return best, at


def _codes(
    queries: np.ndarray, points: np.ndarray, radius: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """Zeros and ones whose product is above 0 only for pairs at least `radius` apart: at most `a`
    here and at least `a + radius` there, and the other way round, for the features and values `a`
    that tell most pairs of a sample apart."""
    shown = np.concatenate([part[:: len(part) // 1000 + 1] for part in (queries, points)])
    low, room = shown.min(axis=0), np.ptp(shown, axis=0) - radius
    tried = [low + share * room for share in (0.02, 0.35, 0.65, 0.98)]
    apart = [(shown <= a).mean(axis=0) * (shown >= a + radius).mean(axis=0) for a in tried]
    chosen = np.argsort(np.where(np.tile(room > 0, 4), -np.concatenate(apart), 1.0))[:CODES]
    chosen = chosen[np.concatenate(apart)[chosen] > 0]
    if not len(chosen):
        return None
    features, limits = chosen % points.shape[1], np.concatenate(tried)[chosen].astype(np.float64)
    # One step up: a difference of exactly the radius that rounding makes smaller must be compared.
    above = np.nextafter(limits + radius, np.inf)

    def coded(rows: np.ndarray, *, swapped: bool) -> np.ndarray:
        result = np.empty((len(rows), 2 * len(chosen)), dtype=np.float32)
        values = rows[:, features]
        halves = np.split(result, 2, axis=1)
        halves[swapped][...] = values <= limits
        halves[not swapped][...] = values >= above
        return result

    return coded(queries, swapped=False), coded(points, swapped=True)


@dataclass(frozen=True)
class Grid:
    """Equal cells over a box: half open, the last of a feature closed. Cell numbers run with the
    last feature fastest."""

    lower: np.ndarray
    upper: np.ndarray
    shape: tuple[int, ...]

    @classmethod
    def over(
        cls, domain: Sequence[tuple[float, float]], side: float, *, limit: int = CELLS
    ) -> Grid:
        """Cells from the lower corner of the domain with at most this side, shrunk to divide it.

        More cells than `limit` or than the free memory holds are refused before anything is made.
        """
        lower, upper = np.asarray(domain, dtype=np.float64).T
        if not (np.isfinite(lower).all() and np.isfinite(upper).all() and (lower < upper).all()):
            raise ValueError(f"domain is {domain}; (lower, upper) of every feature was expected")
        if not 0 < side < np.inf:
            raise ValueError(f"side is {side!r}; a positive number was expected")
        extent = upper - lower
        cells, free = _cells(extent, side), free_memory()
        if cells > limit or cells * BYTES_PER_CELL > free:
            fitting = _fitting(extent, side, min(limit, free // BYTES_PER_CELL))
            raise ValueError(
                f"a grid of side {side:g} has {cells:.3g} cells and takes about "
                f"{cells * BYTES_PER_CELL / 2**30:.3g} GiB; at most {limit:.3g} cells are allowed "
                f"and {free / 2**30:.3g} GiB are free. A side of {fitting:g} fits"
            )
        return cls(lower, upper, tuple(int(m) for m in _counts(extent, side)))

    @property
    def dimension(self) -> int:
        return len(self.shape)

    @property
    def cells(self) -> int:
        return math.prod(self.shape)

    @property
    def side(self) -> np.ndarray:
        """By feature."""
        return np.divide(self.upper - self.lower, self.shape)

    def edges(self, feature: int) -> np.ndarray:
        return np.linspace(self.lower[feature], self.upper[feature], self.shape[feature] + 1)

    def centres(self, feature: int) -> np.ndarray:
        edges = self.edges(feature)
        return (edges[:-1] + edges[1:]) / 2

    def corners(self, cells: np.ndarray) -> np.ndarray:
        """The lower corners of these cells, one row each."""
        at = np.unravel_index(cells, self.shape)
        return np.stack([self.edges(k)[at[k]] for k in range(self.dimension)], axis=1)

    def cell_of(self, points: np.ndarray) -> np.ndarray:
        """The cell of every point, -1 outside the box."""
        points = np.asarray(points)
        if points.ndim != 2 or points.shape[1] != self.dimension:
            raise ValueError(f"shape {points.shape}; (rows, {self.dimension}) was expected")
        inside = ((points >= self.lower) & (points <= self.upper)).all(axis=1)
        at = [
            np.minimum(np.searchsorted(self.edges(k), points[inside, k], side="right"), m) - 1
            for k, m in enumerate(self.shape)
        ]
        result = np.full(len(points), -1)
        result[inside] = np.ravel_multi_index(at, self.shape)
        return result


def _counts(extent: np.ndarray, side: float) -> np.ndarray:
    # 1 / (1 / 250) must be 250 cells, whatever its last digit.
    return np.ceil(np.maximum(extent / side * (1 - 1e-12), 1))


def _cells(extent: np.ndarray, side: float) -> float:
    with np.errstate(over="ignore"):
        return float(_counts(extent, side).prod())


def _fitting(extent: np.ndarray, side: float, cells: float) -> float:
    """The next larger side of two digits whose grid has at most so many cells."""
    while _cells(extent, side) > cells:
        scale = 10.0 ** (math.floor(math.log10(side * 1.0001)) - 1)
        side = (math.floor(side / scale * 1.0001) + 1) * scale
    return side


def free_memory() -> int:
    """Bytes that a program may still take: what the system caches counts as free."""
    try:
        with open("/proc/meminfo") as lines:
            return next(int(x.split()[1]) * 1024 for x in lines if x.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Centres:
    """Nearest-centre regions: they cover the whole space. Wider than r, so that labels go by
    distance inside them; for profile, allocation and breakdown."""

    points: np.ndarray

    @classmethod
    def fit(
        cls, points: np.ndarray, cells: int, *, rng: np.random.Generator, rounds: int = 50
    ) -> Centres:
        """k-means centres (k-means++, then Lloyd) of rows that are counted nowhere else."""
        points = np.asarray(points, dtype=np.float64)
        if not 1 <= cells <= len(points):
            raise ValueError(f"{cells} cells of {len(points)} rows; at most one a row was expected")
        centres = points[rng.integers(len(points), size=1)]
        squares = nearest(points, centres).distances[:, 0] ** 2
        while len(centres) < cells and squares.max() > 0:
            drawn = points[rng.choice(len(points), size=1, p=squares / squares.sum())]
            squares = np.minimum(squares, ((points - drawn) ** 2).sum(axis=1))
            centres = np.concatenate([centres, drawn])
        place = np.full(len(points), -1)
        for _ in range(rounds):
            moved = nearest(points, centres).indices[:, 0]
            if (moved == place).all():
                break
            place = moved
            sums = np.zeros_like(centres)
            np.add.at(sums, place, points)
            counts = np.bincount(place, minlength=len(centres))[:, None]
            # A centre that lost all its rows stays where it is.
            centres = np.where(counts > 0, sums / np.maximum(counts, 1), centres)
        return cls(centres)

    @property
    def cells(self) -> int:
        return len(self.points)

    def cell_of(self, points: np.ndarray) -> np.ndarray:
        """The nearest centre of every point."""
        return nearest(points, self.points).indices[:, 0]
