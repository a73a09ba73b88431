"""Fog (Hendrycks and Dietterich 2019, section 3).

A cloud from 0 to 1 is made by midpoint displacement on a square grid: every point between known ones
is their mean plus a uniform number, whose range falls by `decay` squared at every halving. The image
becomes (x + `density` cloud) m / (m + `density`), where m is its lightest pixel. Details of the cloud
below 1/512 of its side are left out: they would change a pixel by less than a grey level of 255.

>>> import numpy as np
>>> foggy = fog(np.tile(np.eye(8), (8, 8)), np.random.default_rng(0), density=2.0, decay=2.0)
>>> bool(foggy.std() < 0.3)
True
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.pixels import as_floats, as_pixels, on_pixels, opencv, strips, white
from roadworthy.cases.image.textures import plasma
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

_LEVELS = ((1.5, 2.0), (2.0, 2.0), (2.5, 1.7), (2.5, 1.5), (3.0, 1.4))
TABLES = {"hendrycks": [{"density": d, "decay": w} for d, w in _LEVELS]}


@transform("fog", of=IMAGE, tables=TABLES, draw="case", identity={"density": 0.0, "decay": 2.0})
@on_pixels(density=(0, None), decay=(1, None))
def fog(image: np.ndarray, rng: np.random.Generator, *, density: float, decay: float) -> np.ndarray:
    """A cloud is added, and the contrast of the rest lowered."""
    cv2 = opencv()
    lightest, thick = float(image.max()), density * white(image.dtype)
    kept = lightest / (lightest + thick) if lightest else 0.0
    cloud = plasma(image.shape[:2], rng, decay)
    foggy = np.empty_like(image)
    for rows in strips(image):
        layer = cloud[rows] if image.ndim == 2 else cv2.merge([cloud[rows]] * 3)
        made = cv2.addWeighted(as_floats(image[rows]), kept, layer, thick * kept, 0.0)
        foggy[rows] = as_pixels(made, image.dtype)
    return foggy
