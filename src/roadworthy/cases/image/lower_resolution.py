"""Lower resolution: the picture was made small and is shown at its old size (Wozniak et al. 2024, box 1).

Both sides shrink to `factor`, every new pixel the mean of the area that it covers, and grow again,
linear between pixels. See `pixelate` for visible blocks.

>>> import numpy as np
>>> lower_resolution(np.tile(np.eye(2), (8, 8)), np.random.default_rng(0), factor=0.5)[3, :3].tolist()
[0.5, 0.5, 0.5]
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.pixels import on_pixels, opencv
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

TABLES = {"plain": [{"factor": f} for f in (0.6, 0.42, 0.3, 0.21, 0.15)]}


@transform("lower_resolution", of=IMAGE, tables=TABLES, identity={"factor": 1.0})
@on_pixels(factor=(0.001, 1))
def lower_resolution(image: np.ndarray, rng: np.random.Generator, *, factor: float) -> np.ndarray:
    """The image is shrunk, and enlarged again without blocks."""
    cv2, (height, width) = opencv(), image.shape[:2]
    size = max(1, round(width * factor)), max(1, round(height * factor))
    small = cv2.resize(image, size, interpolation=cv2.INTER_AREA)
    return cv2.resize(small, (width, height), interpolation=cv2.INTER_LINEAR)  # type: ignore[no-any-return]
