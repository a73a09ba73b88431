"""Missing values: a sensor without a signal, a field that was left empty.

Each of the `columns` (by position, all if not given) is NaN with a `probability` of its own. NaN reaches the subject as it
is: a subject that cannot take it fails the case, and the report says why. `roadworthy cases export` writes null.

>>> import numpy as np
>>> missing_values(np.array([36.6, 120.0, 2.0]), np.random.default_rng(0), probability=0.5).tolist()
[36.6, nan, nan]
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.table.columns import chosen
from roadworthy.cases.transform import transform
from roadworthy.data.values import VECTOR

TABLES = {"plain": [{"probability": p} for p in (0.1, 0.3, 0.5)]}


@transform(
    "missing_values", of=VECTOR, tables=TABLES, identity={"probability": 0.0}, gives_nan=True
)
def missing_values(
    row: np.ndarray,
    rng: np.random.Generator,
    *,
    probability: float,
    columns: list[int] | None = None,
) -> np.ndarray:
    """Columns of a row are missing (NaN)."""
    places = chosen(row, columns)
    if not 0 <= probability <= 1:
        raise ValueError(f"missing_values: probability is {probability}; 0 to 1 was expected")
    if row.dtype.kind != "f":
        raise ValueError(
            f"the row is of type {row.dtype}, which cannot hold NaN; give it as floats"
        )
    left = row.copy()
    left[places[rng.random(len(places)) < probability]] = np.nan
    return left
