"""Work on rows, block by block, on as many threads as the products of matrices use: numpy lets go
of the interpreter's lock.

>>> squares = np.arange(6.0)
>>> def square(rows):
...     squares[rows] **= 2
>>> _ = in_blocks(square, len(squares), size=4, numbers=6)
>>> squares.tolist()
[0.0, 1.0, 4.0, 9.0, 16.0, 25.0]

Arrays on a torch device: moved once, computed there in the precision that was asked for, fetched
once.

``"cpu"`` means numpy wherever a `device` is asked for; any other name is torch's, so that
``"cpu:0"`` runs torch's code here.

>>> to_device(np.array([1.0, 2.0]), "cpu:0").sum().item()
3.0
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from roadworthy.registry import not_installed

Result = TypeVar("Result")

WORTHWHILE = 2**21
"""Numbers below which starting threads takes longer than the work."""
CACHED = 2**18
"""Numbers worked on at once where nothing else decides: they stay in a processor's cache."""


def in_blocks(work: Callable[[slice], Result], n: int, *, size: int, numbers: int) -> list[Result]:
    """What `work` gives for blocks of at most `size` of n rows, in order; `numbers` is how many it
    works on in all.

    Threads are started for this call alone, so that a process may be forked at any time.
    """
    blocks = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    count = min(threads(), len(blocks))
    if count < 2 or numbers < WORTHWHILE:
        return [work(block) for block in blocks]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, blocks))


def finite_rows(values: np.ndarray) -> np.ndarray:
    """Which rows of a matrix are finite, without a mask of all its numbers.

    >>> finite_rows(np.array([[1.0, 2.0], [np.nan, 0.0], [np.inf, 1.0]])).tolist()
    [True, False, False]
    """
    size = max(1, CACHED // max(values.shape[1], 1))
    found = in_blocks(
        lambda rows: np.isfinite(values[rows]).all(axis=1),
        len(values),
        size=size,
        numbers=values.size,
    )
    return np.concatenate(found) if found else np.zeros(0, dtype=bool)


def threads() -> int:
    """As many as there are processors to use, or as the environment allows for products."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        if os.environ.get(name, "").isdigit():
            return max(1, int(os.environ[name]))
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable else os.cpu_count() or 1


def torch_on(device: str) -> Any:
    """Torch, for another device than numpy's; its float32 products must be what they say, and it
    must know float64."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"{not_installed(f'device {device!r} needs torch', 'torch')}, or use device='cpu'"
        ) from error
    if torch.get_float32_matmul_precision() != "highest":
        raise ValueError(
            "torch.set_float32_matmul_precision lets float32 products be rounded to fewer digits, so that neighbours are missed; "
            "set it to 'highest', or use device='cpu'"
        )
    try:
        torch.zeros(1, dtype=torch.float64, device=device)
    except (RuntimeError, TypeError, AssertionError) as error:
        raise ValueError(
            f"device {device!r} cannot hold float64 here ({error}); use device='cpu'"
        ) from error
    return torch


def to_device(values: np.ndarray, device: str) -> Any:
    """A tensor of the same numbers and type; read-only memory, such as a mapped file's, is copied
    first."""
    torch = torch_on(device)
    values = np.ascontiguousarray(values)
    return torch.from_numpy(values if values.flags.writeable else values.copy()).to(device)


def whitened_on(points: np.ndarray, centre: np.ndarray, factor: np.ndarray, device: str) -> Any:
    """L⁻¹(x - centre) as a float64 tensor, one row a point."""
    torch = torch_on(device)
    moved = to_device(points, device).double() - to_device(centre, device)
    return torch.linalg.solve_triangular(to_device(factor, device), moved.T, upper=False).T


def gram_on(points: np.ndarray, centre: np.ndarray, device: str) -> np.ndarray:
    """XᵀX of the points around their centre (one row, or one for every point), in float64."""
    moved = to_device(points, device).double() - to_device(centre, device)
    product: np.ndarray = (moved.T @ moved).cpu().numpy()
    return product


def log_kernel_sums_on(queries: Any, points: Any, halves: Any, size: int) -> np.ndarray:
    """log Σ_i exp(-|q - p_i|²/2) of float64 tensors, `size` queries at once; `halves` are |p_i|²/2."""
    torch = torch_on(str(points.device))
    sums = torch.empty(len(queries), dtype=torch.float64, device=points.device)
    for start in range(0, len(queries), size):
        part = queries[start : start + size]
        exponents = torch.addmm(-halves, part, points.T)
        sums[start : start + size] = torch.logsumexp(exponents, dim=1) - 0.5 * part.square().sum(
            dim=1
        )
    fetched: np.ndarray = sums.cpu().numpy()
    return fetched
