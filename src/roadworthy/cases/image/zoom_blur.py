"""Zoom blur: the camera moves fast towards the scene (Hendrycks and Dietterich 2019, section 3).

The mean of the image and of its enlargements by 1, 1 + `step`, … up to `largest`, about the centre.

>>> import numpy as np
>>> flat = np.full((16, 16), 50, np.uint8)
>>> bool((zoom_blur(flat, np.random.default_rng(0), largest=1.1, step=0.01) == 50).all())
True
"""

from __future__ import annotations

import math

import numpy as np

from roadworthy.cases.image.pixels import as_floats, as_pixels, on_pixels, opencv
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

_LEVELS = ((1.11, 0.01), (1.15, 0.01), (1.2, 0.02), (1.24, 0.02), (1.3, 0.03))
TABLES = {"hendrycks": [{"largest": z, "step": s} for z, s in _LEVELS]}


@transform("zoom_blur", of=IMAGE, tables=TABLES, identity={"largest": 1.0, "step": 0.01})
@on_pixels(largest=(1, 10), step=(0.001, 1))
def zoom_blur(
    image: np.ndarray, rng: np.random.Generator, *, largest: float, step: float
) -> np.ndarray:
    """The mean of the image and of enlargements about its centre."""
    cv2 = opencv()
    count = round((largest - 1) / step)
    total = 2 * as_floats(image)
    height, width = image.shape[:2]
    for zoom in (1 + step * i for i in range(1, count + 1)):
        down, across = (_stretch(side, zoom) for side in (height, width))
        back = np.array([[across[0], 0, across[1]], [0, down[0], down[1]]])
        how = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        layer = cv2.warpAffine(
            image, back, (width, height), flags=how, borderMode=cv2.BORDER_REPLICATE
        )
        total = cv2.add(total, layer, dst=total, dtype=cv2.CV_32F)
    total *= np.float32(1 / (count + 2))
    return as_pixels(total, image.dtype)


def _stretch(length: int, zoom: float) -> tuple[float, float]:
    """How pixels of an enlargement lie on the image, corners on corners: scale and start."""
    seen = math.ceil(length / zoom)
    return (seen - 1) / max(round(seen * zoom) - 1, 1), (length - seen) // 2
