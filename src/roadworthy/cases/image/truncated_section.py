"""A truncated section: the patient is larger than the scanner's field of view (Wozniak et al. 2024,
box 1), or a part of the sensor is covered.

Of height and width a `share` turns black, split at random between the two sides. What remains stays
in its place, so that boxes are only cut.

>>> import numpy as np
>>> cut = truncated_section(np.ones((10, 10)), np.random.default_rng(0), share=0.2)
>>> float(cut.sum())
64.0
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.geometry import Warp, geometry

TABLES = {"plain": [{"share": s} for s in (0.08, 0.16, 0.24, 0.32, 0.4)]}


@geometry("truncated_section", tables=TABLES, identity={"share": 0.0}, limits={"share": (0, 0.99)})
def truncated_section(shape: tuple[int, int], rng: np.random.Generator, *, share: float) -> Warp:
    """Margins of the picture turn black."""
    black = [round(share * side) for side in shape]
    top, left = (int(rng.integers(0, b, endpoint=True)) for b in black)
    bottom, right = top + shape[0] - black[0], left + shape[1] - black[1]
    return Warp(None, shape, window=(left, top, right, bottom))
