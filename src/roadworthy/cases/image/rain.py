"""Rain: streaks of falling drops, and haze behind them.

`drops` streaks are drawn in a square of the image's short side, up to `length` of it long, near ones
longer and brighter than far ones; all fall at one angle, up to 20 degrees from the vertical. `haze`
is the share of grey that lies over the whole image.

>>> import numpy as np
>>> wet = rain(np.zeros((64, 64)), np.random.default_rng(0), drops=200, length=0.1, haze=0.1)
>>> bool(wet.min() > 0), bool(wet.max() > 0.5)
(True, True)
"""

from __future__ import annotations

import math

import numpy as np

from roadworthy.cases.image.pixels import laid_over, on_pixels, opencv
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

_LEVELS = (
    (200, 0.08, 0.1),
    (400, 0.1, 0.18),
    (650, 0.12, 0.26),
    (950, 0.14, 0.34),
    (1300, 0.17, 0.42),
)
TABLES = {"plain": [{"drops": d, "length": s, "haze": h} for d, s, h in _LEVELS]}
_HAZE, _WATER = (0.52, 0.54, 0.57), (0.9, 0.92, 0.95)
_DEPTHS = 4


@transform(
    "rain", of=IMAGE, tables=TABLES, draw="case", identity={"drops": 0, "length": 0.07, "haze": 0.0}
)
@on_pixels(drops=(0, 100_000), length=(0, 10), haze=(0, 1))
def rain(
    image: np.ndarray, rng: np.random.Generator, *, drops: int, length: float, haze: float
) -> np.ndarray:
    """Light streaks fall, and all turns a little greyer."""
    cv2, (height, width) = opencv(), image.shape[:2]
    short = min(height, width)
    slant = rng.uniform(-1, 1) * math.tan(math.radians(20))
    layer = np.zeros((height, width), np.uint8)
    count = math.ceil(drops * max(height, width) / short / _DEPTHS)
    for depth in range(1, _DEPTHS + 1):  # from far to near
        start = rng.uniform(-0.1, 1.05, (count, 2)) * (width, height)
        fall = rng.uniform(0.6, 1, count) * length * short * depth / _DEPTHS
        ends = start + np.stack([slant * fall, fall], axis=1)
        lines = np.rint(16 * np.stack([start, ends], axis=1)).astype(np.int32)
        thick = max(1, round(short * depth / (300 * _DEPTHS)))
        cv2.polylines(layer, lines, False, 90 + 40 * depth, thick, cv2.LINE_AA, 4)
    streaks = cv2.blur(layer, (1, 3)).astype(np.float32) * np.float32(0.75 / 255)
    grey = laid_over(image, np.full((height, width), haze, np.float32), _HAZE)
    return laid_over(grey, streaks, _WATER)
