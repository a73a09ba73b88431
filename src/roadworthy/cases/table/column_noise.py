"""Noise on columns of a table: a sensor that drifts, a form that is filled in roughly.

A normal number is added to each of the `columns` (by position, all if not given). `scale` is its standard deviation, in the
column's own unit: one number, or one a column; usually a share of the column's deviation in the reference data. With
`relative` it is a share of the value itself, as the levels are. Columns in `whole` hold whole numbers: they are rounded.

>>> import numpy as np
>>> row = np.array([36.6, 120.0, 2.0])
>>> column_noise(row, np.random.default_rng(0), scale=[0.2, 5.0], columns=[0, 1], whole=[1]).round(2).tolist()
[36.63, 119.0, 2.0]
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.table.columns import chosen
from roadworthy.cases.transform import transform
from roadworthy.data.values import VECTOR

TABLES = {"plain": [{"scale": s, "relative": True} for s in (0.05, 0.1, 0.2)]}


@transform("column_noise", of=VECTOR, tables=TABLES, identity={"scale": 0.0, "relative": True})
def column_noise(
    row: np.ndarray,
    rng: np.random.Generator,
    *,
    scale: float | list[float],
    columns: list[int] | None = None,
    relative: bool = False,
    whole: list[int] | None = None,
) -> np.ndarray:
    """A normal number is added to columns of a row."""
    places = chosen(row, columns)
    deviations = np.asarray(scale, dtype=np.float64)
    if deviations.ndim and len(deviations) != len(places):
        raise ValueError(
            f"column_noise: scale has {len(deviations)} numbers for {len(places)} columns; one for "
            "each was expected, or one for all"
        )
    if not (np.isfinite(deviations) & (deviations >= 0)).all():
        raise ValueError(f"column_noise: scale is {scale}; 0 or more was expected")
    noisy = row.astype(np.float64)
    size = np.abs(noisy[places]) if relative else 1.0
    noisy[places] += deviations * size * rng.standard_normal(len(places))
    rounded = np.arange(len(row)) if row.dtype.kind in "iu" else chosen(row, whole or [])
    changed = np.intersect1d(rounded, places)
    noisy[changed] = np.rint(noisy[changed])
    return noisy.astype(row.dtype)
