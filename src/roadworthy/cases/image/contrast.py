"""Lower contrast: haze, bad light, a dull display (Hendrycks and Dietterich 2019, section 3).

Every pixel moves towards its channel's mean over the image: (x - mean) x `factor` + mean. Nothing is drawn at random.

>>> import numpy as np
>>> image = np.array([[0, 100], [100, 200]], np.uint8)
>>> contrast(image, np.random.default_rng(0), factor=0.2).tolist()
[[80, 100], [100, 120]]
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.pixels import as_pixels, on_pixels, opencv
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

TABLES = {
    "hendrycks": [{"factor": f} for f in (0.4, 0.3, 0.2, 0.1, 0.05)],
    "wang": [{"factor": f} for f in (0.4, 0.2, 0.05)],
}


@transform("contrast", of=IMAGE, tables=TABLES, identity={"factor": 1.0})
@on_pixels(factor=(0, None))
def contrast(image: np.ndarray, rng: np.random.Generator, *, factor: float) -> np.ndarray:
    """Every pixel moves towards its channel's mean."""
    if image.dtype == np.uint8 and factor <= 1:
        return _of_bytes(image, factor)
    mean = image.mean(axis=(0, 1), keepdims=True, dtype=np.float64)
    return as_pixels((image - mean) * factor + mean, image.dtype)


def _of_bytes(image: np.ndarray, factor: float) -> np.ndarray:
    """The same in one pass a channel; no value turns negative for a factor up to 1, so its absolute value is itself."""
    cv2 = opencv()

    def flatter(channel: np.ndarray) -> np.ndarray:
        mean = cv2.mean(channel)[0]
        return cv2.convertScaleAbs(channel, alpha=factor, beta=(1 - factor) * mean)  # type: ignore[no-any-return]

    return flatter(image) if image.ndim == 2 else cv2.merge([flatter(c) for c in cv2.split(image)])
