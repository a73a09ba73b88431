"""Chromatic aberration: a lens that bends colours differently, so that edges get coloured fringes.

Red is enlarged by 1 + `by` about the centre and blue shrunk by as much; fringes grow towards the
corners. A picture of one channel stays as it is.

>>> import numpy as np
>>> grey = np.repeat(np.tile(np.eye(4), (16, 16))[:, :, None], 3, axis=2)
>>> fringed = chromatic_aberration(grey, np.random.default_rng(0), by=0.02)
>>> bool(np.array_equal(fringed[:, :, 1], grey[:, :, 1])), bool(np.array_equal(fringed, grey))
(True, False)
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.pixels import on_pixels, opencv
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

TABLES = {"plain": [{"by": b} for b in (0.006, 0.012, 0.02, 0.03, 0.042)]}


@transform("chromatic_aberration", of=IMAGE, tables=TABLES, identity={"by": 0.0}, colour_only=True)
@on_pixels(by=(0, 0.5))
def chromatic_aberration(image: np.ndarray, rng: np.random.Generator, *, by: float) -> np.ndarray:
    """Red and blue are enlarged and shrunk about the centre."""
    if image.ndim == 2:
        return image.copy()
    cv2, (height, width) = opencv(), image.shape[:2]
    red, green, blue = cv2.split(image)
    how = {"flags": cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP, "borderMode": cv2.BORDER_REPLICATE}
    sized = []
    for channel, scale in ((red, 1 / (1 + by)), (blue, 1 / (1 - by))):
        x, y = (width - 1) / 2 * (1 - scale), (height - 1) / 2 * (1 - scale)
        back = np.array([[scale, 0, x], [0, scale, y]])
        sized.append(cv2.warpAffine(channel, back, (width, height), **how))
    return cv2.merge([sized[0], green, sized[1]])  # type: ignore[no-any-return]
