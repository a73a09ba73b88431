"""Wrong unit: pounds for kilograms, millimetres for inches, grams for kilograms.

The `columns` (by position, all if not given) are multiplied by `factor`. Nothing is drawn: under this circumstance every
case has it. The levels are the three units above.

>>> import numpy as np
>>> wrong_unit(np.array([70.0, 1.8]), np.random.default_rng(0), factor=2.205, columns=[0]).round(2).tolist()
[154.35, 1.8]
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.table.columns import chosen
from roadworthy.cases.transform import transform
from roadworthy.data.values import VECTOR

TABLES = {"plain": [{"factor": f} for f in (2.205, 25.4, 1000.0)]}


@transform("wrong_unit", of=VECTOR, tables=TABLES, identity={"factor": 1.0})
def wrong_unit(
    row: np.ndarray,
    rng: np.random.Generator,
    *,
    factor: float,
    columns: list[int] | None = None,
) -> np.ndarray:
    """Columns of a row are multiplied by a factor."""
    places = chosen(row, columns)
    if not np.isfinite(factor):
        raise ValueError(f"wrong_unit: factor is {factor}; a finite number was expected")
    converted = row.astype(np.float64)
    converted[places] *= factor
    return (np.rint(converted) if row.dtype.kind in "iu" else converted).astype(row.dtype)
