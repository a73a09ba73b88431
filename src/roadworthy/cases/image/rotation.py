"""Rotation about the centre: a camera that is not level, a patient who lies askew (Wozniak et al.
2024, box 1: between -20 and 20 degrees).

The angle is uniform between -`degrees` and `degrees`. What was not seen before is black.

>>> import numpy as np
>>> turned = rotation(np.full((99, 99), 200, np.uint8), np.random.default_rng(0), degrees=20.0)
>>> int(turned[0, 0]), int(turned[49, 49])
(0, 200)
"""

from __future__ import annotations

import math

import numpy as np

from roadworthy.cases.image.geometry import Warp, geometry

TABLES = {"plain": [{"degrees": d} for d in (4.0, 8.0, 12.0, 16.0, 20.0)]}


@geometry("rotation", tables=TABLES, identity={"degrees": 0.0}, limits={"degrees": (0, 180)})
def rotation(shape: tuple[int, int], rng: np.random.Generator, *, degrees: float) -> Warp:
    """The picture is turned by an angle up to the given one, with a black border."""
    angle = math.radians(rng.uniform(-degrees, degrees))
    cos, sin = math.cos(angle), math.sin(angle)
    y, x = ((side - 1) / 2 for side in shape)
    return Warp(
        np.array([[cos, -sin, x - cos * x + sin * y], [sin, cos, y - sin * x - cos * y]]), shape
    )
