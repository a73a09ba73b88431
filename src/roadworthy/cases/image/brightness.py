"""Brighter light (Hendrycks and Dietterich 2019, section 3).

The value of a pixel in HSV, its largest channel, rises by `by` (where white is 1), up to white; hue
and saturation stay. Grey pixels rise by as much.

>>> import numpy as np
>>> brightness(np.array([[[0.2, 0.4, 0.1]]]), np.random.default_rng(0), by=0.2).round(2).tolist()
[[[0.3, 0.6, 0.15]]]
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.pixels import as_floats, as_pixels, on_pixels, opencv, strips, white
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

TABLES = {"hendrycks": [{"by": b} for b in (0.1, 0.2, 0.3, 0.4, 0.5)]}


@transform("brightness", of=IMAGE, tables=TABLES, identity={"by": 0.0})
@on_pixels(by=(0, 1))
def brightness(image: np.ndarray, rng: np.random.Generator, *, by: float) -> np.ndarray:
    """Every pixel becomes lighter in its own colour."""
    cv2, top = opencv(), white(image.dtype)
    if image.ndim == 2:
        return as_pixels(as_floats(image) + np.float32(by * top), image.dtype)
    lighter = np.empty_like(image)
    for rows in strips(image):
        channels = cv2.split(as_floats(image[rows]))
        value = cv2.max(cv2.max(channels[0], channels[1]), channels[2])
        # A black pixel has no colour to keep; a hair above black its factor is finite.
        rise = cv2.divide(cv2.min(value + by * top, top), cv2.max(value, 1e-6 * top))
        floor = cv2.threshold(value, 1e-6 * top, by * top, cv2.THRESH_BINARY_INV)[1]
        made = cv2.merge([cv2.add(cv2.multiply(c, rise), floor) for c in channels])
        lighter[rows] = as_pixels(made, image.dtype)
    return lighter
