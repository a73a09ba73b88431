"""Another density contrast: a scanner of another make, other exposure (Wozniak et al. 2024, box 1).

The contrast about the mean rises or falls by `factor`, with equal chance. See `contrast` for lower
contrast alone.

>>> import numpy as np
>>> grey = np.random.default_rng(0).integers(100, 150, (16, 16)).astype(np.uint8)
>>> made = density_contrast(grey, np.random.default_rng(0), factor=2.0)
>>> round(float(made.std() / grey.std()), 1) in (0.5, 2.0)
True
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.contrast import contrast
from roadworthy.cases.image.pixels import on_pixels
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

TABLES = {"plain": [{"factor": f} for f in (1.25, 1.55, 1.9, 2.35, 3.0)]}


@transform("density_contrast", of=IMAGE, tables=TABLES, draw="case", identity={"factor": 1.0})
@on_pixels(factor=(1, None))
def density_contrast(image: np.ndarray, rng: np.random.Generator, *, factor: float) -> np.ndarray:
    """Contrast about the mean becomes higher or lower."""
    return contrast(image, rng, factor=factor if rng.random() < 0.5 else 1 / factor)
