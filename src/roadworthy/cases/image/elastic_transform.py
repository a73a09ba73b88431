"""Elastic deformation: a bent lens, tissue that moved (Hendrycks and Dietterich 2019, section 3).

Every pixel is displaced by two random fields, smoothed over 1% of the picture's sides. Without
smoothing a displacement would be uniform up to `strength` x 0.5% of the height. At levels 4 and 5
the map folds in places: some points of the old picture are seen twice.

>>> import numpy as np
>>> still = elastic_transform(np.eye(9), np.random.default_rng(0), strength=0.0)
>>> np.array_equal(still, np.eye(9))
True
"""

from __future__ import annotations

import math

import numpy as np

from roadworthy.cases.image.geometry import Warp, geometry
from roadworthy.cases.image.textures import soft_noise

TABLES = {"hendrycks": [{"strength": 250 * s} for s in (0.05, 0.065, 0.085, 0.1, 0.12)]}


@geometry(
    "elastic_transform", tables=TABLES, identity={"strength": 0.0}, limits={"strength": (0, None)}
)
def elastic_transform(shape: tuple[int, int], rng: np.random.Generator, *, strength: float) -> Warp:
    """Every pixel is moved by a smooth random field."""
    height, width = shape
    sigma = (0.01 * height, 0.01 * width)
    # The deviation of uniform numbers in [-1, 1), and what smoothing leaves of it on each axis.
    left = [min(1.0, (2 * math.sqrt(math.pi) * s) ** -0.5) for s in sigma]
    reach = np.float32(strength * 0.005 * height * math.sqrt(1 / 3) * math.prod(left))
    places = np.empty((height, width, 2), np.float32)
    rows, columns = (axis.astype(np.float32) for axis in np.ogrid[:height, :width])
    places[..., 0] = reach * soft_noise(shape, rng, sigma) + columns
    places[..., 1] = reach * soft_noise(shape, rng, sigma) + rows
    return Warp(places, shape, border="reflected")
