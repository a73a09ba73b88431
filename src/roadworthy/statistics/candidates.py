"""Which points may be among the k nearest, from one matrix product whose rounding error is bounded, and their exact distances.

The product gives |p|² - 2 q·p, the squared distance but for a constant of the query. With e the bound of its error, the k-th
smallest of the products lies within e of the k-th smallest of the true values, so that a point is among the k nearest only if
its product is at most 2 e above, and it certainly is nearer than the k-th if its product is more than 2 e below.

>>> points = np.array([[0.0, 0.0], [3.0, 4.0], [1.0, 0.0]])
>>> frame = Frame.of(points)
>>> product = Product(frame.with_squares(points, np.float32), frame)
>>> proposed = product.candidates(np.array([[0.9, 0.0]]), 1, None, np.empty((1, 3), dtype=np.float32))
>>> proposed.rows.tolist(), proposed.columns.tolist()
([0], [2])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .row_blocks import in_blocks

GROUPS = 4
"""Smallest number of groups of points for every neighbour sought; their minima bound the k-th distance."""
PAIRS_AT_ONCE = 2**18
"""Differences refined at once, in numbers: as many as a processor's cache holds."""
ROWS_AT_ONCE = 512
"""Rows moved and squared at once, for the same reason; far fewer, and threads get into each other's way."""

ORDINARY = 16
"""Powers of two between which values need no other unit: their squares are far from the ends of float32."""
SAMPLED = 1024
"""Rows, or up to twice as many, that the centre is taken from."""
ROUND, NARROW = 16.0, 0.9
"""Squares of a sphere's radius may differ by so many eps, and its points' centre may lie so far out, as a share of that square."""
FEW = 32
"""So many groups for every neighbour sought, and the products of the groups that can hold one are fewer than all by far."""


def chunk_rows(width: int, memory_mb: int, *, bytes_each: int = 4) -> int:
    """How many rows of `width` numbers fit into the budget, with as much again for what is made from them; at least one.

    >>> chunk_rows(1_000_000, 16), chunk_rows(10**9, 1)
    (2, 1)
    """
    if memory_mb < 1:
        raise ValueError(f"memory_mb is {memory_mb}; at least 1 was expected")
    return max(1, memory_mb * 2**20 // (2 * bytes_each * max(width, 1)))


def extent_of(values: np.ndarray) -> float:
    """The largest absolute value; NaN where there is one."""
    return float(np.maximum(values.max(initial=0.0), -values.min(initial=0.0)))


@dataclass(frozen=True)
class Frame:
    """The coordinates in which products are taken: around the points' centre, in a unit in which they are about 1."""

    scale: float
    """A power of two, which is exact; around 1 no square of float32 overflows or vanishes."""
    centre: np.ndarray
    """float32, which makes the difference of two float32 exact enough. Any would do, as queries are moved along: of some rows."""

    @classmethod
    def of(cls, points: np.ndarray) -> Frame:
        """The frame of these points."""
        extent = extent_of(points)
        # Vanishing points are not magnified without limit, or ordinary queries would overflow beside them.
        least, most = (-40, 120) if points.dtype == np.float32 else (-400, 1000)
        exponent = np.clip(np.ceil(np.log2(2 * extent or 1.0)), least, most)
        scale = 2.0**-exponent if abs(exponent) > ORDINARY else 1.0
        some = points[:: max(1, len(points) // SAMPLED)]
        mean = some.mean(axis=0, dtype=np.float64) if len(some) else np.zeros(points.shape[1])
        return cls(float(scale), (mean * scale).astype(np.float32))

    def moved(self, values: np.ndarray, dtype: type[np.floating[Any]], out: np.ndarray) -> None:
        """Scaled and moved in the precision of the values or in `dtype`, whichever is finer, then as `dtype`."""
        scale = values.dtype.type(self.scale)
        if values.dtype == dtype:
            scaled = values if scale == 1 else np.multiply(values, scale, out=out)
            np.subtract(scaled, self.centre, out=out)
        else:
            out[:] = np.subtract(values * scale, self.centre, dtype=np.float64)

    def with_squares(self, values: np.ndarray, dtype: type[np.floating[Any]]) -> np.ndarray:
        """Moved values with their squared norm as one more column: times (-2 q, 1) it is |p|² - 2 q·p, in one product."""
        operand = np.empty((len(values), values.shape[1] + 1), dtype=dtype)

        def fill(rows: slice) -> None:
            block = operand[rows]
            self.moved(values[rows], dtype, block[:, :-1])
            block[:, -1] = np.einsum("ij,ij->i", block[:, :-1], block[:, :-1])

        in_blocks(fill, len(values), size=ROWS_AT_ONCE, numbers=operand.size)
        return operand

    def sphere(self, values: np.ndarray) -> float:
        """The radius, where all values lie on one sphere around the origin, to rounding, and spread widely enough on it; else 0.

        There |p|² is the same for all, so that the values are an operand as they are, without a copy.

        >>> Frame.of(np.eye(3)).sphere(np.eye(3)), Frame.of(np.eye(3)).sphere(np.arange(9.0).reshape(3, 3))
        (1.0, 0.0)
        """
        first = float(np.vdot(values[0], values[0])) if len(values) and self.scale == 1 else 0.0
        rounding = ROUND * float(np.finfo(np.float32).eps) * first

        def alike(rows: slice) -> bool:
            block = values[rows]
            return bool(np.abs(np.einsum("ij,ij->i", block, block) - first).max() <= rounding)

        # A few rows tell nearly always. Around a far centre, points close together would be lost in the rounding.
        if (
            not first
            or float(self.centre @ self.centre) > NARROW * first
            or not alike(slice(0, SAMPLED // 16))
        ):
            return 0.0
        on_it = in_blocks(alike, len(values), size=ROWS_AT_ONCE, numbers=values.size)
        return first**0.5 if all(on_it) else 0.0

    def error(self, norms: Any, largest: Any, *, width: int, dtype: type[np.floating[Any]]) -> Any:
        """How far |p|² - 2 q·p, computed in `dtype`, can be from its true value, for queries of these norms.

        A dot product of d terms is wrong by d u |q||p| at most (Higham, Accuracy and Stability, eq. 3.5), u half of eps: with
        |p|² - 2 q·p, and |p|² itself rounded so, by d eps |p|(|p| + |q|). The second part is for moving and casting the values.
        """
        eps, tiny = float(np.finfo(dtype).eps), float(np.finfo(dtype).tiny)
        reach = norms + largest
        return eps * ((width + 2) * largest * reach + 4 * reach**2) + 4 * (width + 1) * tiny


class Candidates(NamedTuple):
    """Pairs of a query and a point that may be among its nearest, in the order of the queries."""

    rows: np.ndarray
    columns: np.ndarray
    products: np.ndarray
    """What the product says of them: smaller is nearer."""
    slack: np.ndarray
    """For every query, twice the error of its products."""

    def of(self, usable: np.ndarray) -> Candidates:
        """Those of these queries alone."""
        kept = usable[self.rows]
        return Candidates(self.rows[kept], self.columns[kept], self.products[kept], self.slack)


class Product:
    """Points for products in one precision: moved, with their squares as a last column, or those of a sphere as they are."""

    def __init__(self, operand: np.ndarray, frame: Frame, *, radius: float = 0.0) -> None:
        self.operand, self.frame, self.radius = operand, frame, radius
        self.largest = radius or float(operand[:, -1].max()) ** 0.5

    def candidates(
        self, queries: np.ndarray, k: int, without: np.ndarray | None, room: np.ndarray
    ) -> Candidates:
        """All pairs that may be among the k nearest of their query, but for those between the columns of `without`.

        `room` takes the products.
        """
        dtype = self.operand.dtype.type
        if self.radius:
            norms = np.sqrt(np.einsum("ij,ij->i", queries, queries), dtype=np.float64)
            doubled = np.multiply(queries, -2, dtype=dtype, casting="same_kind")
        else:
            doubled = self.frame.with_squares(queries, dtype)
            norms = np.sqrt(doubled[:, -1], dtype=np.float64)
            doubled *= -2
            doubled[:, -1] = 1
        error = self.frame.error(norms, self.largest, width=queries.shape[1], dtype=dtype)
        # Twice: the bound may be too low by it, and a candidate too high. On a sphere the squares are left out.
        slack = 2 * (error + ROUND * float(np.finfo(dtype).eps) * self.radius**2)
        products = np.matmul(doubled, self.operand.T, out=room[: len(queries)])
        if without is not None:
            hide(products, without)
        slack = slack.astype(dtype)
        picked = in_blocks(
            lambda rows: _picked(products[rows], slack[rows], k),
            len(products),
            size=max(16, -(-len(products) // 8)),
            numbers=products.size,
        )
        counts = np.concatenate([count for count, _, _ in picked])
        columns, values = (np.concatenate([part[i] for part in picked]) for i in (1, 2))
        return Candidates(np.repeat(np.arange(len(counts)), counts), columns, values, slack)


def hide(products: Any, without: np.ndarray) -> None:
    """Products that no query may find, of a numpy or a torch matrix, are infinite."""
    bounds = np.clip(without, 0, products.shape[1])
    if (bounds[:, 1] - bounds[:, 0] == 1).all():
        products[np.arange(len(bounds)), bounds[:, 0]] = np.inf
        return
    # Queries of one class stand together, so that a few blocks hide all.
    starts = np.flatnonzero(np.append(True, (bounds[1:] != bounds[:-1]).any(axis=1)))
    for first, last in zip(starts, np.append(starts[1:], len(bounds)), strict=True):
        products[first:last, bounds[first, 0] : bounds[first, 1]] = np.inf


def groups_of(n: int, *, at_least: int) -> tuple[int, int]:
    """Into how many groups of how many points n points are split, the rest smaller than a group; (0, 0) if that saves nothing.

    >>> groups_of(20_000, at_least=256), groups_of(500, at_least=256)
    ((256, 78), (0, 0))
    """
    if n < 4 * at_least:
        return 0, 0
    size = n // at_least
    return n // size, size


def _picked(
    products: np.ndarray, slack: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For every row, how many columns may be among its k smallest; then these columns and their products, row by row."""
    n = products.shape[1]
    groups, size = groups_of(n, at_least=max(GROUPS * k, 256))
    # The k smallest of the groups' minima are k different points: the largest of them bounds the k-th distance from above.
    minima = products
    if groups:
        minima = products[:, : size * groups].reshape(len(products), size, groups).min(axis=1)
        rest = n - size * groups
        np.minimum(minima[:, :rest], products[:, n - rest :], out=minima[:, :rest])
    bound = np.partition(minima, k - 1, axis=1)[:, k - 1] if k > 1 else minima.min(axis=1)
    # What is hidden is infinite, and so is the bound where whole groups are.
    limit = np.minimum(bound + slack, np.finfo(products.dtype).max)
    if groups >= FEW * k:
        chosen = _in_groups(products, minima, limit)
    else:
        chosen = np.flatnonzero(products <= limit[:, None])
    rows = chosen // n
    return (
        np.bincount(rows, minlength=len(products)),
        chosen - rows * n,
        products.reshape(-1)[chosen],
    )


def _in_groups(products: np.ndarray, minima: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Positions of the products up to their row's limit, from the groups alone whose minimum is; row by row."""
    n, groups = products.shape[1], minima.shape[1]
    row, group = np.nonzero(minima <= limit[:, None])
    columns = group[:, None] + np.arange(0, n, groups)
    # Only the first groups have a member in the last, shorter round.
    positions = (row * n)[:, None] + np.minimum(columns, n - 1)
    small = (products.reshape(-1)[positions] <= limit[row][:, None]) & (columns < n)
    found: np.ndarray = positions[small]
    return found


def refine(
    proposed: Candidates, queries: np.ndarray, points: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The queries that have candidates, and for each the distances and indices of its k best; equal ones by index."""
    rows, columns = proposed.rows, proposed.columns
    squared = squared_distances(queries, points, rows, columns)
    order = np.lexsort((columns, squared, rows))
    answered, first = np.unique(rows, return_index=True)
    best = order[first[:, None] + np.arange(k)]
    return answered, np.sqrt(squared[best]), columns[best]


def refine_kth(
    proposed: Candidates, queries: np.ndarray, points: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """The queries that have candidates, and the distance of each to its k-th nearest point.

    Only candidates whose products are too close to the k-th to be told from it are refined.
    """
    counts = np.bincount(proposed.rows, minlength=len(queries))
    answered = np.flatnonzero(counts)
    count = counts[answered]
    position = np.arange(len(proposed.rows)) - np.repeat(np.cumsum(count) - count, count)
    of_answered = np.repeat(np.arange(len(answered)), count)
    sorted_products = np.full((len(answered), count.max()), np.inf, dtype=proposed.products.dtype)
    sorted_products[of_answered, position] = proposed.products
    kth, slack = np.partition(sorted_products, k - 1, axis=1)[:, k - 1], proposed.slack[answered]
    least, most = (kth - slack)[of_answered], (kth + slack)[of_answered]
    nearer = np.bincount(of_answered[proposed.products < least], minlength=len(answered))
    unsure = np.flatnonzero((proposed.products >= least) & (proposed.products <= most))
    squared = squared_distances(queries, points, proposed.rows[unsure], proposed.columns[unsure])
    order = np.lexsort((squared, of_answered[unsure]))
    begin = np.searchsorted(of_answered[unsure], np.arange(len(answered)))
    return answered, np.sqrt(squared[order[begin + k - 1 - nearer]])


def squared_distances(
    queries: np.ndarray, points: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> np.ndarray:
    """Of these pairs, from their differences in float64."""
    squared = np.empty(len(rows))
    step = max(1, PAIRS_AT_ONCE // max(points.shape[1], 1))
    for start in range(0, len(squared), step):
        part = slice(start, start + step)
        difference = points[columns[part]].astype(np.float64)
        difference -= queries[rows[part]]
        squared[part] = np.einsum("ij,ij->i", difference, difference)
    return squared
