"""What is handed to a module is its own: code that works in place changes neither the data nor what another module hears.

A user's function may scale the image it is given where it stands, or empty the goal of a dialogue. Were that the data set's own
row, the next condition would begin from what the last one left, and findings would depend on which worker had which chunk.

>>> row = np.zeros(2)
>>> mine = copied({"image": row, "name": "a"})
>>> mine["image"] += 1
>>> row.tolist(), mine["image"].tolist()
([0.0, 0.0], [1.0, 1.0])
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

_FIXED = (str, bytes, int, float, complex, type(None))
"""What nobody can change in place."""


def copied(value: Any) -> Any:
    """The value as it is now, to be changed by whoever gets it; what cannot be copied (an open connection) is handed on."""
    if isinstance(value, _FIXED):
        return value
    if isinstance(value, np.ndarray) and value.dtype != object:
        return np.array(value)
    if type(value) is list:
        return [copied(item) for item in value]
    if type(value) is dict:
        return {name: copied(item) for name, item in value.items()}
    try:
        return copy.deepcopy(value)
    except MemoryError:
        raise
    except Exception:
        return value
