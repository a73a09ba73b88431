"""Which kinds of shift have rows enough to say something about themselves; the others decide nothing.

A single kind of three rows, left among kinds of hundreds, used to make every window one that cannot be told: how sure one may be
was taken from the kind with the fewest rows. Where every kind is thin, all of them count, and figures are as unsure as that.

>>> from roadworthy.analysis.risk.calibration import calibrate
>>> rng = np.random.default_rng(0)
>>> kind = np.repeat(["clean", "fog", "snow"], [300, 300, 3])
>>> calibration = calibrate({"energy": rng.normal(2.0 * (kind != "clean"))}, kind, rng.random(603) < 0.8)
>>> firm(calibration).tolist(), firm_rows(calibration).tolist()
([True, True, False], [300.0, 300.0])
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from roadworthy.analysis.risk.calibration import Calibration

Floats = NDArray[np.float64]

FEW_OF_A_KIND = 10
"""Independent rows below which a kind says nothing about itself, and nothing is decided by it."""


def firm(calibration: Calibration) -> NDArray[np.bool_]:
    """Of clean, and of each kind: whether it counts."""
    enough = calibration.effective >= FEW_OF_A_KIND
    enough[0] = True
    return enough if enough[1:].any() else np.ones_like(enough)


def firm_rows(calibration: Calibration) -> Floats:
    """Independent rows of clean, and of the kinds that count."""
    found: Floats = calibration.effective[firm(calibration)]
    return found


def of_firm_kinds(calibration: Calibration) -> Calibration:
    """Without the kinds that do not count, as if their rows had never been."""
    keep = np.flatnonzero(firm(calibration)).tolist()
    if len(keep) == len(calibration.kinds):
        return calibration
    independent = (
        tuple(calibration.independent[at] for at in keep) if calibration.independent else ()
    )
    kinds = tuple(calibration.kinds[at] for at in keep)
    return replace(calibration, kinds=kinds, table=calibration.table[keep], independent=independent)


def rows_at(rates: Floats, independent: Floats) -> Floats:
    """How many rows tell as much about a mixture at each rate as the clean and the shifted ones together.

    No more than at even parts: what an event is takes both, and where one of them is rare the likeliest rate is a guess.
    """
    clean, shifted = (
        np.maximum(independent[0], 1.0),
        1.0 / np.mean(1.0 / np.maximum(independent[1:], 1.0)),
    )
    result: Floats = 1.0 / ((1.0 - rates) ** 2 / clean + rates**2 / shifted)
    return np.minimum(result, 4.0 / (1.0 / clean + 1.0 / shifted))
