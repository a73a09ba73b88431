"""Which kinds of shift have rows enough to say something about themselves; the others decide nothing.

A single kind of three rows, left among kinds of hundreds, used to make every window one that cannot be told: how sure one may be
was taken from the kind with the fewest rows. Where every kind is thin, all of them count, and figures are as unsure as that.

>>> from roadworthy.analysis.risk.cells import calibrate
>>> rng = np.random.default_rng(0)
>>> kind = np.repeat(["clean", "fog", "snow"], [300, 300, 3])
>>> calibration = calibrate({"energy": rng.normal(2.0 * (kind != "clean"))}, kind, rng.random(603) < 0.8)
>>> firm(calibration).tolist(), firm_rows(calibration).tolist()
([True, True, False], [300.0, 300.0])
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.cells import Calibration

FEW_OF_A_KIND = 10
"""Independent rows below which a kind says nothing about itself, and nothing is decided by it."""


def firm(calibration: Calibration) -> NDArray[np.bool_]:
    """Of clean, and of each kind: whether it counts."""
    enough = calibration.effective >= FEW_OF_A_KIND
    enough[0] = True
    return enough if enough[1:].any() else np.ones_like(enough)


def firm_rows(calibration: Calibration) -> NDArray[np.float64]:
    """Independent rows of clean, and of the kinds that count."""
    found: NDArray[np.float64] = calibration.effective[firm(calibration)]
    return found
