"""JPEG compression with a low quality (Hendrycks and Dietterich 2019, section 3).

JPEG holds 8 bits a channel, so that finer pixels are rounded to 255 levels first.

>>> import numpy as np
>>> grain = np.random.default_rng(0).integers(100, 156, (16, 16)).astype(np.uint8)
>>> made = jpeg_compression(grain, np.random.default_rng(0), quality=7)
>>> bool(made.std() < grain.std())
True
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.pixels import on_pixels, opencv, white
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

TABLES = {"hendrycks": [{"quality": q} for q in (25, 18, 15, 10, 7)]}


@transform("jpeg_compression", of=IMAGE, tables=TABLES)
@on_pixels(quality=(1, 100))
def jpeg_compression(image: np.ndarray, rng: np.random.Generator, *, quality: int) -> np.ndarray:
    """The picture is compressed as JPEG and read again."""
    cv2, top = opencv(), white(image.dtype)
    bytes_ = image if top == 255 else np.rint(image * (255 / top)).astype(np.uint8)
    colour = image.ndim == 3
    seen = cv2.cvtColor(bytes_, cv2.COLOR_RGB2BGR) if colour else bytes_
    _, file = cv2.imencode(".jpg", seen, [cv2.IMWRITE_JPEG_QUALITY, quality])
    read = cv2.imdecode(file, cv2.IMREAD_COLOR if colour else cv2.IMREAD_GRAYSCALE)
    read = cv2.cvtColor(read, cv2.COLOR_BGR2RGB, dst=read) if colour else read
    return read if top == 255 else (read * (top / 255)).astype(image.dtype)  # type: ignore[no-any-return]
