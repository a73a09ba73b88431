"""Rows of a calibration, counted: by kind of shift, right or wrong, and cell; and how many of them are independent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.placement import NOWHERE

if TYPE_CHECKING:
    from roadworthy.analysis.risk.calibration import Calibration
    from roadworthy.analysis.risk.rows import Rows


def filled(made: Calibration, rows: Rows, cells: NDArray[Any]) -> Calibration:
    """With the rows counted, and how many of each kind are independent: by their shift score, or by being right."""
    table = _counted(made, rows, cells)
    if not made.grouped:
        return replace(made, table=table)
    from roadworthy.statistics.clusters import effective_size

    columns = made.shift_bin(cells).astype(np.float64), rows.correct.astype(np.float64)
    found = []
    for number in range(len(made.kinds)):
        on = rows.kind == number
        found.append(
            min(float(effective_size(column[on], rows.groups[on])) for column in columns)
            if on.any()
            else 0.0
        )
    return replace(made, table=table, independent=tuple(found))


def _counted(made: Calibration, rows: Rows, cells: NDArray[Any]) -> NDArray[np.int64]:
    table, placed = np.zeros(made.table.shape, dtype=np.int64), cells != NOWHERE
    np.add.at(
        table, (rows.kind[placed], (~rows.correct[placed]).astype(np.int64), cells[placed]), 1
    )
    return table
