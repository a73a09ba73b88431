"""Shifted lines: rows of pixels that a scanner read out of step (Wozniak et al. 2024, box 1).

A `share` of the rows moves left or right, each by up to `shift` of the width; beyond its edge a row
goes on with the edge.

>>> import numpy as np
>>> picture = np.tile(np.arange(50, dtype=np.uint8), (50, 1))
>>> moved = shifted_lines(picture, np.random.default_rng(0), share=0.4, shift=0.2)
>>> 10 < int((moved != picture).any(axis=1).sum()) < 30
True
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.pixels import on_pixels
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

_LEVELS = ((0.08, 0.02), (0.16, 0.04), (0.25, 0.06), (0.35, 0.08), (0.5, 0.1))
TABLES = {"plain": [{"share": s, "shift": b} for s, b in _LEVELS]}


@transform("shifted_lines", of=IMAGE, tables=TABLES, identity={"share": 0.0, "shift": 0.0})
@on_pixels(share=(0, 1), shift=(0, 1))
def shifted_lines(
    image: np.ndarray, rng: np.random.Generator, *, share: float, shift: float
) -> np.ndarray:
    """Some rows of pixels move left or right."""
    height, width = image.shape[:2]
    rows = np.flatnonzero(rng.random(height) < share)
    by = np.rint(rng.uniform(-shift, shift, len(rows)) * width).astype(np.intp)
    columns = np.clip(np.arange(width) - by[:, None], 0, width - 1)
    moved = image.copy()
    moved[rows] = image[rows[:, None], columns]
    return moved
