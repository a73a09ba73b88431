"""Pixelation: a small image shown large (Hendrycks and Dietterich 2019, section 3).

The image is shrunk to `factor` of its height and width, every new pixel the plain mean of the old ones whose centre it
covers, and enlarged again by repeating pixels: what Pillow's BOX and NEAREST filters do. Nothing is drawn at random.

>>> import numpy as np
>>> image = np.array([[0, 10, 20, 30]] * 4, np.uint8)
>>> pixelate(image, np.random.default_rng(0), factor=0.5)[0].tolist()
[5, 5, 25, 25]
"""

from __future__ import annotations

import functools

import numpy as np

from roadworthy.cases.image.pixels import as_pixels, on_pixels, opencv
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

TABLES = {
    "hendrycks": [{"factor": f} for f in (0.6, 0.5, 0.4, 0.3, 0.25)],
    "wang": [{"factor": f} for f in (0.6, 0.4, 0.25)],
}

_MOST_BYTES = (2**31 - 1) // 255
"""So many white 8-bit pixels can be summed in 32 bits."""


@transform("pixelate", of=IMAGE, tables=TABLES)
@on_pixels
def pixelate(image: np.ndarray, rng: np.random.Generator, *, factor: float) -> np.ndarray:
    """Blocks of pixels take their mean colour."""
    if not 0 < factor <= 1:
        raise ValueError(f"pixelate: factor is {factor}; more than 0 and at most 1 (the image itself) was expected")
    cv2 = opencv()
    height, width = image.shape[:2]
    means = as_pixels(_block_means(image, max(1, int(height * factor)), max(1, int(width * factor))), image.dtype)
    return cv2.resize(means, (width, height), interpolation=cv2.INTER_NEAREST_EXACT)  # type: ignore[no-any-return]


def _block_means(image: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Means over a grid of blocks, by differences of the image's running sums."""
    cv2 = opencv()
    height, width = image.shape[:2]
    whole = image.dtype == np.uint8 and height * width <= _MOST_BYTES
    sums = cv2.integral(image, sdepth=cv2.CV_32S if whole else cv2.CV_64F)
    y, x = _edges(height, rows), _edges(width, columns)
    sums = np.diff(sums[y], axis=0)
    sums = np.diff(sums.take(x, axis=1), axis=1)
    share = _shares(height, rows, width, columns)
    return sums * (share if image.ndim == 2 else share[:, :, None])  # type: ignore[no-any-return]


@functools.lru_cache(maxsize=64)
def _edges(length: int, blocks: int) -> np.ndarray:
    """Where blocks begin: a pixel belongs to the block that covers its centre, the right one if it lies between two."""
    return np.floor(np.arange(blocks + 1) * (length / blocks) + 0.5).astype(np.intp)


@functools.lru_cache(maxsize=64)
def _shares(height: int, rows: int, width: int, columns: int) -> np.ndarray:
    """One over the number of pixels, by block."""
    return 1.0 / np.outer(np.diff(_edges(height, rows)), np.diff(_edges(width, columns)))
