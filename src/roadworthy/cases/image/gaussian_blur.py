"""Gaussian blur: a soft lens, a smoothing reconstruction (Hendrycks and Dietterich 2019, section 3).

>>> import numpy as np
>>> edge = np.repeat(np.uint8([[0] * 6 + [200] * 6]), 8, axis=0)
>>> gaussian_blur(edge, np.random.default_rng(0), sigma=1.0)[4].tolist()
[0, 0, 0, 1, 12, 60, 140, 188, 199, 200, 200, 200]
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.pixels import on_pixels, softened, unit_of_size
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

TABLES = {"hendrycks": [{"sigma": s} for s in (1.0, 2.0, 3.0, 4.0, 6.0)]}


@transform("gaussian_blur", of=IMAGE, tables=TABLES, identity={"sigma": 0.0})
@on_pixels(sigma=(0, 1000))
def gaussian_blur(
    image: np.ndarray, rng: np.random.Generator, *, sigma: float, relative: bool = False
) -> np.ndarray:
    """Every pixel becomes a mean with Gaussian weights."""
    return softened(image, sigma * unit_of_size(image, relative))
