"""What loaders of boxes share: a box has a size and lies in its image.

>>> sound_corners("a.xml", [0, 0, 41, 30], Size(40, 30))
(0.0, 0.0, 41.0, 30.0)
>>> sound_corners("a.xml", [0, 0, 42, 30], Size(40, 30))
Traceback (most recent call last):
roadworthy.data.samples.DataError: a.xml has a box from (0, 0) to (42, 30), outside its image of 40 x 30 pixels; correct or
drop it
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from roadworthy.data.samples import DataError

SLACK = 1.0
"""Pixels by which a box may stick out of its image: annotation tools round."""
Corners = tuple[float, float, float, float]


class Size(NamedTuple):
    """Of an image in pixels; infinite if nothing says it."""

    width: float = math.inf
    height: float = math.inf


def sound_corners(where: str, corners: Sequence[float], size: Size) -> Corners:
    """The corners x1 y1 x2 y2 as they are: COCO counts boxes as they are written, uncut."""
    x1, y1, x2, y2 = (float(c) for c in corners)
    shown = f"a box from ({x1:g}, {y1:g}) to ({x2:g}, {y2:g})"
    if not all(map(math.isfinite, (x1, y1, x2, y2))) or x2 <= x1 or y2 <= y1:
        raise DataError(
            f"{where} has {shown}, whose width and height are not both above 0; correct or drop it"
        )
    if min(x1, y1) < -SLACK or x2 > size.width + SLACK or y2 > size.height + SLACK:
        raise DataError(
            f"{where} has {shown}, outside its image of {size.width:g} x {size.height:g} pixels; "
            "correct or drop it"
        )
    return x1, y1, x2, y2
