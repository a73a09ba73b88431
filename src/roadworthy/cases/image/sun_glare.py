"""Sun glare: a low sun in the picture, its halo and rays, and a veil over the rest.

The sun stands in the upper half. `radius` is that of its disc, in short sides of the image;
`strength` is how bright halo and veil are.

>>> import numpy as np
>>> dazzled = sun_glare(np.zeros((64, 64)), np.random.default_rng(0), radius=0.1, strength=0.6)
>>> float(dazzled.max()), bool(dazzled.min() > 0)
(1.0, True)
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.pixels import laid_over, on_pixels, opencv
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

_LEVELS = ((0.03, 0.3), (0.042, 0.42), (0.054, 0.54), (0.066, 0.66), (0.08, 0.8))
TABLES = {"plain": [{"radius": r, "strength": s} for r, s in _LEVELS]}
_WARM = (1.0, 0.96, 0.86)


@transform("sun_glare", of=IMAGE, tables=TABLES, draw="case")
@on_pixels(radius=(0.001, 10), strength=(0, 10))
def sun_glare(
    image: np.ndarray, rng: np.random.Generator, *, radius: float, strength: float
) -> np.ndarray:
    """A sun with halo, rays and veil is added."""
    cv2, (height, width) = opencv(), image.shape[:2]
    size = np.float32(radius * min(height, width))
    x = (np.arange(width, dtype=np.float32) - np.float32(rng.uniform(0.1, 0.9) * width)) / size
    y = (np.arange(height, dtype=np.float32) - np.float32(rng.uniform(0.05, 0.5) * height)) / size
    far, angle = cv2.cartToPolar(np.tile(x, (height, 1)), np.tile(y[:, None], (1, width)))
    rays = np.abs(np.cos(3 * angle + np.float32(rng.uniform(0, np.pi)))) ** 12
    halo = (1 + rays) / (1 + (far / 3) ** 2) + np.float32(0.15)
    disc = 1.5 * np.exp(-(far**4))
    return laid_over(image, np.float32(strength) * halo + disc, _WARM, as_light=True)
