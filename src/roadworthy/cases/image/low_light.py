"""Low light: dark and noisy, as a camera sees night.

Light is taken as the square of the pixel (white is 1) and reduced to `exposure`. What is left is
counted in photons, 400 for white in full light, by a sensor whose reading is off by a deviation of
0.3% of white; both errors are drawn as normal numbers. The root of it is the new pixel.

>>> import numpy as np
>>> dark = low_light(np.full((64, 64), 0.8), np.random.default_rng(0), exposure=0.25)
>>> round(float(dark.mean()), 1), bool(dark.std() > 0.01)
(0.4, True)
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.pixels import as_floats, as_pixels, on_pixels, opencv, strips, white
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

TABLES = {"plain": [{"exposure": e} for e in (0.4, 0.2, 0.1, 0.05, 0.025)]}
_PHOTONS, _READING = 400.0, 0.003


@transform("low_light", of=IMAGE, tables=TABLES)
@on_pixels(exposure=(0.0001, 1))
def low_light(image: np.ndarray, rng: np.random.Generator, *, exposure: float) -> np.ndarray:
    """Light is reduced, and counted in photons by a noisy sensor."""
    cv2, top = opencv(), white(image.dtype)
    night = np.empty_like(image)
    for rows in strips(image):
        pixel = as_floats(image[rows])
        light = cv2.multiply(pixel, pixel, scale=exposure / top**2)
        deviation = cv2.sqrt(light * np.float32(1 / _PHOTONS) + np.float32(_READING**2))
        light += deviation * rng.standard_normal(light.shape, dtype=np.float32)
        seen = cv2.sqrt(np.maximum(light, 0)) * np.float32(top)
        night[rows] = as_pixels(seen, image.dtype)
    return night
