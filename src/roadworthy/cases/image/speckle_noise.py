"""Speckle noise: noise in proportion to brightness, as in radar and ultrasound (Hendrycks and
Dietterich 2019, section 3).

A pixel x becomes x + x n, where n is a normal number of deviation `scale`, drawn for every channel.

>>> import numpy as np
>>> noisy = speckle_noise(np.full((64, 64), 0.5), np.random.default_rng(0), scale=0.2)
>>> round(float(noisy.std()), 1)
0.1
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.pixels import as_pixels, on_pixels, opencv, strips
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

TABLES = {"hendrycks": [{"scale": s} for s in (0.15, 0.2, 0.35, 0.45, 0.6)]}


@transform("speckle_noise", of=IMAGE, tables=TABLES, identity={"scale": 0.0})
@on_pixels(scale=(0, None))
def speckle_noise(image: np.ndarray, rng: np.random.Generator, *, scale: float) -> np.ndarray:
    """A normal number times the pixel is added to every pixel and channel."""
    cv2 = opencv()
    noisy = np.empty_like(image)
    for rows in strips(image):
        noise = rng.standard_normal(image[rows].shape, dtype=np.float32)
        cv2.multiply(noise, image[rows], dst=noise, scale=scale, dtype=cv2.CV_32F)
        noisy[rows] = as_pixels(noise, image.dtype, onto=image[rows])
    return noisy
