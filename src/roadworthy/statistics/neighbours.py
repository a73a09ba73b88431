"""Exact nearest neighbours by matrix products, in chunks of a given memory.

Squared distances come from |q|² - 2 q·p + |p|², which is one matrix product and loses digits where points lie close together
and far from the origin. So the product, in float32 and around the points' centre, only proposes: every point that the rounding
error of the product leaves a chance is kept, and its distance is computed from the differences in float64. The answer is that of
a loop over all pairs, whatever the chunks; equal distances are ordered by index.

>>> queries, points = np.array([[0.0, 0.0], [5.0, 5.0]]), np.array([[3.0, 4.0], [0.0, 1.0], [5.0, 6.0]])
>>> nearest(queries, points, k=2).distances.round(3).tolist()
[[1.0, 5.0], [1.0, 2.236]]
>>> nearest(queries, points).indices.tolist()
[[1], [2]]
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

GROUPS = 4
"""Smallest number of groups of points for every neighbour sought; their minima bound the k-th distance."""
CROWD = 64
"""So many candidates beyond 8 k are a sign that float32 cannot tell the points of a row apart."""
PAIRS_AT_ONCE = 2**18
"""Differences refined at once, in numbers: as many as a processor's cache holds."""
LARGEST = 1e150
"""Squares of larger numbers are no float64."""


class Neighbours(NamedTuple):
    """For every query, its k nearest points, nearest first."""

    distances: np.ndarray
    """float64, (queries, k)."""
    indices: np.ndarray
    """int64, (queries, k)."""


class _Candidates(NamedTuple):
    """Pairs that may be among the nearest, in the order of the queries."""

    rows: np.ndarray
    columns: np.ndarray


def nearest(
    queries: np.ndarray,
    points: np.ndarray,
    *,
    k: int = 1,
    device: str = "cpu",
    memory_mb: int = 512,
    exclude_self: bool = False,
) -> Neighbours:
    """The `k` nearest `points` of every query by Euclidean distance.

    `device` is numpy's processor or a torch device for the products. With `exclude_self` the queries are the points themselves,
    and none is its own neighbour. `memory_mb` bounds the products held at once, not the answer.
    """
    queries, points = _checked(queries, "queries"), _checked(points, "points")
    available = len(points) - exclude_self
    if queries.shape[1] != points.shape[1]:
        raise ValueError(
            f"queries have {queries.shape[1]} columns and points {points.shape[1]}; the same number was expected"
        )
    if exclude_self and len(queries) != len(points):
        raise ValueError(
            f"exclude_self takes the points as queries, but there are {len(queries)} and {len(points)} of them"
        )
    if not 1 <= k <= available:
        raise ValueError(f"k is {k}; from 1 to {available} was expected, as many as there are points to choose from")
    found = Neighbours(np.empty((len(queries), k)), np.empty((len(queries), k), dtype=np.int64))
    if not len(queries):
        return found
    rows = np.arange(len(queries))
    crowded = _search(found, queries, points, rows, np.float32, device, memory_mb, exclude_self)
    if len(crowded):
        _search(found, queries, points, crowded, np.float64, device, memory_mb, exclude_self)
    return found


def chunk_rows(width: int, memory_mb: int, *, bytes_each: int = 4) -> int:
    """How many rows of `width` numbers fit into the budget, with as much again for what is made from them; at least one.

    >>> chunk_rows(1_000_000, 16), chunk_rows(10**9, 1)
    (2, 1)
    """
    if memory_mb < 1:
        raise ValueError(f"memory_mb is {memory_mb}; at least 1 was expected")
    return max(1, memory_mb * 2**20 // (2 * bytes_each * max(width, 1)))


def _checked(values: np.ndarray, name: str) -> np.ndarray:
    values = np.asarray(values)
    if values.ndim != 2:
        raise ValueError(f"{name} have the shape {values.shape}; one row each was expected: (n, columns)")
    if values.dtype != np.float32:
        values = values.astype(np.float32 if values.dtype == np.float16 else np.float64, copy=False)
    if not _extent(values) < LARGEST:
        broken = int((~np.isfinite(values).all(axis=1)).sum())
        found = f"NaN or infinite values in {broken} rows" if broken else f"values above {LARGEST:g}"
        raise ValueError(f"{name} hold {found}; finite numbers whose squares are finite were expected")
    return values


def _extent(values: np.ndarray) -> float:
    """The largest absolute value; NaN where there is one."""
    return float(max(values.max(initial=0.0), -values.min(initial=0.0))) if not np.isnan(values.sum()) else np.nan


def _search(
    found: Neighbours,
    queries: np.ndarray,
    points: np.ndarray,
    rows: np.ndarray,
    dtype: type[np.floating[Any]],
    device: str,
    memory_mb: int,
    exclude_self: bool,
) -> np.ndarray:
    """Fill in the answer of these rows; gives back those that this precision cannot tell."""
    k = found.indices.shape[1]
    centre = points.mean(axis=0, dtype=np.float64)
    # Around 1, so that no square of float32 overflows or vanishes.
    scale = 1 / (2 * max(_extent(points), _extent(queries)) or 1.0)
    product = _Product(points, centre, scale, dtype, device)
    most = 8 * k + CROWD if dtype is np.float32 else len(points)
    size = chunk_rows(len(points), memory_mb, bytes_each=np.dtype(dtype).itemsize)
    crowded = []
    for start in range(0, len(rows), size):
        chunk = rows[start : start + size]
        centred = _moved(queries[chunk], centre, scale, dtype)
        candidates = product.candidates(centred, k, chunk if exclude_self else None)
        count = np.bincount(candidates.rows, minlength=len(chunk))
        usable = count <= most
        crowded.append(chunk[~usable])
        keep = usable[candidates.rows]
        if not usable.all():
            candidates = _Candidates(candidates.rows[keep], candidates.columns[keep])
        _refine(found, queries, points, chunk, candidates)
    return np.concatenate(crowded)


class _Product:
    """The points, ready for products on a device, and how far such a product can be wrong."""

    def __init__(
        self, points: np.ndarray, centre: np.ndarray, scale: float, dtype: type[np.floating[Any]], device: str
    ) -> None:
        centred = _moved(points, centre, scale, dtype)
        squares = np.einsum("ij,ij->i", centred, centred)
        # Rounding of a dot product of d terms is at most d eps |q||p| (Higham, Accuracy and Stability, eq. 3.5); the rest is for
        # the norms, the sum and the cast of the centred values.
        self.error = (2 * points.shape[1] + 16) * float(np.finfo(dtype).eps)
        self.smallest = 4 * points.shape[1] * float(np.finfo(dtype).tiny)
        self.largest = float(np.sqrt(squares.max(initial=0.0)))
        self.torch = None if device == "cpu" else _torch_on(device)
        self.device = device
        if self.torch is not None:
            self.points: Any = self.torch.from_numpy(centred).to(device)
            self.squares: Any = self.torch.from_numpy(squares).to(device)
        else:
            self.points, self.squares = centred, squares

    def candidates(self, queries: np.ndarray, k: int, own: np.ndarray | None) -> _Candidates:
        """All pairs that may be among the k nearest of their query; `own` are columns that a query must not find."""
        norms = np.sqrt(np.einsum("ij,ij->i", queries, queries, dtype=np.float64))
        slack = 2 * self.error * (norms + self.largest) ** 2 + self.smallest
        pick = _pick_numpy if self.torch is None else _pick_torch
        return _Candidates(*pick(self, queries, slack.astype(queries.dtype), k, own))


def _pick_numpy(
    product: _Product, queries: np.ndarray, slack: np.ndarray, k: int, own: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    values = (-2 * queries) @ product.points.T
    values += product.squares
    if own is not None:
        values[np.arange(len(own)), own] = np.inf
    n = values.shape[1]
    groups = _groups(n, k)
    if groups:
        # The k smallest of the groups' minima are k different points: the largest of them bounds the k-th distance from above.
        per = n // groups
        minima = values[:, : per * groups].reshape(len(values), per, groups).min(axis=1)
        bound = np.partition(minima, k - 1, axis=1)[:, k - 1] if k > 1 else minima.min(axis=1)
    else:
        bound = np.partition(values, k - 1, axis=1)[:, k - 1] if k > 1 else values.min(axis=1)
    chosen = np.flatnonzero(values <= (bound + slack)[:, None])
    return np.divmod(chosen, n)


def _pick_torch(
    product: _Product, queries: np.ndarray, slack: np.ndarray, k: int, own: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    torch: Any = product.torch
    here = torch.from_numpy(queries).to(product.device)
    values = torch.addmm(product.squares[None, :], here, product.points.T, alpha=-2)
    if own is not None:
        values[torch.arange(len(own), device=product.device), torch.from_numpy(own).to(product.device)] = torch.inf
    n = values.shape[1]
    groups = _groups(n, k)
    if groups:
        per = n // groups
        values_of_groups = values[:, : per * groups].reshape(len(values), per, groups).amin(dim=1)
    else:
        values_of_groups = values
    bound = torch.kthvalue(values_of_groups, k, dim=1).values
    chosen = torch.nonzero(values <= (bound + torch.from_numpy(slack).to(product.device))[:, None]).cpu().numpy()
    return chosen[:, 0], chosen[:, 1]


def _groups(n: int, k: int) -> int:
    """Into how many groups n points are split, 0 where that saves nothing."""
    groups = max(GROUPS * k, 256)
    return groups if n >= 4 * groups else 0


def _moved(values: np.ndarray, centre: np.ndarray, scale: float, dtype: type[np.floating[Any]]) -> np.ndarray:
    """(values - centre) * scale; the difference is taken in float64, a block at a time."""
    moved = np.empty(values.shape, dtype=dtype)
    for start in range(0, len(values), 1024):
        block = values[start : start + 1024] - centre
        block *= scale
        moved[start : start + 1024] = block
    return moved


def _refine(
    found: Neighbours, queries: np.ndarray, points: np.ndarray, chunk: np.ndarray, candidates: _Candidates
) -> None:
    """Distances of the candidates from their differences in float64; the k best of each row, equal ones by index."""
    if not len(candidates.rows):
        return
    k = found.indices.shape[1]
    squared = np.empty(len(candidates.rows))
    step = max(1, PAIRS_AT_ONCE // points.shape[1])
    for start in range(0, len(squared), step):
        part = slice(start, start + step)
        difference = points[candidates.columns[part]].astype(np.float64)
        difference -= queries[chunk[candidates.rows[part]]]
        squared[part] = np.einsum("ij,ij->i", difference, difference)
    order = np.lexsort((candidates.columns, squared, candidates.rows))
    rows, first = np.unique(candidates.rows, return_index=True)
    best = order[first[:, None] + np.arange(k)]
    found.distances[chunk[rows]] = np.sqrt(squared[best])
    found.indices[chunk[rows]] = candidates.columns[best]


def _torch_on(device: str) -> Any:
    """Torch, for another device than numpy's; its float32 products must be what they say."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"device {device!r} needs torch, which is not installed; use device='cpu'") from error
    if torch.get_float32_matmul_precision() != "highest":
        raise ValueError(
            "torch.set_float32_matmul_precision lets float32 products be rounded to fewer digits, so that neighbours are missed; "
            "set it to 'highest', or use device='cpu'"
        )
    return torch
