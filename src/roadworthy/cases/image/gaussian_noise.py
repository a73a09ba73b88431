"""Gaussian noise: what a sensor adds in low light (Hendrycks and Dietterich 2019, section 3).

Every pixel and channel gets a normal number of its own; `scale` is its standard deviation where white is 1. Wang et al. 2022,
table 1, calls it a variance, but its values are Hendrycks's standard deviations.

>>> import numpy as np
>>> noisy = gaussian_noise(np.full((64, 64), 128, np.uint8), np.random.default_rng(0), scale=0.1)
>>> round(float(noisy.std()) / 255, 2)
0.1
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.pixels import as_pixels, on_pixels, strips, white
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

TABLES = {
    "hendrycks": [{"scale": s} for s in (0.08, 0.12, 0.18, 0.26, 0.38)],
    "wang": [{"scale": s} for s in (0.08, 0.18, 0.38)],
}


@transform("gaussian_noise", of=IMAGE, tables=TABLES, identity={"scale": 0.0})
@on_pixels(scale=(0, None))
def gaussian_noise(image: np.ndarray, rng: np.random.Generator, *, scale: float) -> np.ndarray:
    """A normal number is added to every pixel and channel."""
    noisy = np.empty_like(image)
    for rows in strips(image):
        noise = rng.standard_normal(image[rows].shape, dtype=np.float32)
        noise *= np.float32(scale * white(image.dtype))
        noisy[rows] = as_pixels(noise, image.dtype, onto=image[rows])
    return noisy
