"""Drops of water or mud on the lens (Hendrycks and Dietterich 2019, section 3).

A layer of normal numbers (`mean`, `scale`), softened by a Gaussian of `sigma`, is liquid where it
reaches `threshold`. Water is bright at one side of a drop and dark at the other, up to `light`, in
pale turquoise; mud covers what is under it. A picture of one channel gets the colour's luma.

>>> import numpy as np
>>> muddy = spatter(np.ones((64, 64)), np.random.default_rng(0), **TABLES["hendrycks"][4])
>>> 0.05 < float((muddy < 0.5).mean()) < 0.5
True
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.pixels import laid_over, on_pixels, opencv, softened
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

_WATER = ((4.0, 0.69, 0.6), (3.0, 0.68, 0.6), (2.0, 0.68, 0.5))
_MUD = ((0.65, 0.3), (0.67, 0.4))
TABLES = {
    "hendrycks": [
        {"mean": 0.65, "scale": 0.3, "sigma": s, "threshold": t, "light": a} for s, t, a in _WATER
    ]
    + [{"mean": m, "scale": s, "sigma": 1.0, "threshold": 0.65, "mud": True} for m, s in _MUD]
}
_TURQUOISE, _BROWN = (175 / 255, 238 / 255, 238 / 255), (63 / 255, 42 / 255, 20 / 255)


@transform("spatter", of=IMAGE, tables=TABLES, draw="case")
@on_pixels(scale=(0, None), sigma=(0, 1000), light=(0, 1))
def spatter(
    image: np.ndarray,
    rng: np.random.Generator,
    *,
    mean: float,
    scale: float,
    sigma: float,
    threshold: float,
    light: float = 0.6,
    mud: bool = False,
) -> np.ndarray:
    """Drops of water shine, or mud covers parts of the image."""
    cv2 = opencv()
    layer = rng.standard_normal(image.shape[:2], dtype=np.float32) * np.float32(scale) + np.float32(
        mean
    )
    liquid = cv2.threshold(softened(layer, sigma), threshold, 0, cv2.THRESH_TOZERO)[1]
    cover = _mud(liquid) if mud else _water(liquid) * np.float32(light)
    return laid_over(image, cover, _BROWN if mud else _TURQUOISE, as_light=not mud)


def _mud(liquid: np.ndarray) -> np.ndarray:
    """How much is covered, 0 or 0.8 to 1."""
    covered = softened((liquid > 0).astype(np.float32), 1.5)
    return opencv().threshold(covered, 0.8, 0, opencv().THRESH_TOZERO)[1]  # type: ignore[no-any-return]


def _water(liquid: np.ndarray) -> np.ndarray:
    """Light from drops, 0 to 1: distances from their edges, seen from the lower right."""
    cv2 = opencv()
    drops = (np.minimum(liquid, 1) * 255).astype(np.uint8)
    far = cv2.distanceTransform(255 - cv2.Canny(drops, 50, 150), cv2.DIST_L2, 5)
    near = cv2.equalizeHist(cv2.blur(np.minimum(far, 20), (3, 3)).astype(np.uint8))
    relief = cv2.filter2D(near, cv2.CV_8U, np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]]))
    shine = drops * cv2.blur(relief, (3, 3)).astype(np.float32)
    return shine / max(float(shine.max()), 1.0)  # type: ignore[no-any-return]
