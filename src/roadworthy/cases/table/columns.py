"""Which columns of a row of features a transform changes.

A row is a vector: numbers in the order of `features` in the data. A missing value is NaN, as in numpy, pandas and most models,
and stays missing. An answer of a subject may not hold NaN; an input may.

>>> chosen(np.array([5.0, 7.0, 9.0]), [0, -1]).tolist()
[0, 2]
>>> chosen(np.array([5.0, 7.0]), [2])
Traceback (most recent call last):
ValueError: columns: 2 is not a column of a row of 2; they are numbered from 0
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roadworthy.data.values import VECTOR


def chosen(row: np.ndarray, columns: Sequence[int] | None) -> np.ndarray:
    """The positions of the columns, all of them for None; what is no row of numbers is refused."""
    if not isinstance(row, np.ndarray) or row.dtype.kind not in "fiu" or row.ndim != 1:
        raise ValueError(f"the row {VECTOR.problem(row) or 'is no numpy array of numbers'}")
    if columns is None:
        return np.arange(len(row))
    for column in columns:
        if not -len(row) <= column < len(row):
            raise ValueError(
                f"columns: {column} is not a column of a row of {len(row)}; they are numbered from 0"
            )
    return np.arange(len(row))[list(columns)]
