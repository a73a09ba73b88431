"""Work on rows, block by block, on as many threads as the products of matrices use: numpy lets go of the interpreter's lock.

>>> squares = np.arange(6.0)
>>> def square(rows):
...     squares[rows] **= 2
>>> _ = in_blocks(square, len(squares), size=4, numbers=6)
>>> squares.tolist()
[0.0, 1.0, 4.0, 9.0, 16.0, 25.0]
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import numpy as np

Result = TypeVar("Result")

WORTHWHILE = 2**21
"""Numbers below which starting threads takes longer than the work."""
CACHED = 2**18
"""Numbers worked on at once where nothing else decides: they stay in a processor's cache."""


def in_blocks(work: Callable[[slice], Result], n: int, *, size: int, numbers: int) -> list[Result]:
    """What `work` gives for blocks of at most `size` of n rows, in order; `numbers` is how many it works on in all.

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
