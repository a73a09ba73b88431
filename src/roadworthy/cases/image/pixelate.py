"""Pixelation: a small image shown large (Hendrycks and Dietterich 2019, section 3).

The image is shrunk to `factor` of its height and width, every new pixel the plain mean of the old ones whose centre it
covers, and enlarged again by repeating pixels: what Pillow's BOX and NEAREST filters do. Where the image is no multiple of
the blocks, OpenCV's area filter would mix neighbouring blocks instead. Nothing is drawn at random.

>>> import numpy as np
>>> image = np.array([[0, 10, 20, 30]] * 4, np.uint8)
>>> pixelate(image, np.random.default_rng(0), factor=0.5)[0].tolist()
[5, 5, 25, 25]
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from roadworthy.cases.image.pixels import as_pixels, on_pixels, opencv
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

TABLES = {
    "hendrycks": [{"factor": f} for f in (0.6, 0.5, 0.4, 0.3, 0.25)],
    "wang": [{"factor": f} for f in (0.6, 0.4, 0.25)],
}

_MOST_PIXELS = (2**31 - 1) // 255
"""So many white 8-bit pixels can be summed in 32 bits."""


@transform("pixelate", of=IMAGE, tables=TABLES, identity={"factor": 1.0})
@on_pixels(factor=(0.001, 1))
def pixelate(image: np.ndarray, rng: np.random.Generator, *, factor: float) -> np.ndarray:
    """Blocks of pixels take their mean colour."""
    height, width = image.shape[:2]
    down = _blocks(height, max(1, int(height * factor)))
    across = _blocks(width, max(1, int(width * factor)), image[0, 0].size)
    means = as_pixels(_means(image, down, across), image.dtype)
    return means.take(across.of_pixel, axis=1).take(down.of_pixel, axis=0).reshape(image.shape)


class _Blocks(NamedTuple):
    """How one side of an image, its channels side by side, falls into blocks."""

    start: np.ndarray
    end: np.ndarray
    share: np.ndarray
    """One over each block's length."""
    of_pixel: np.ndarray
    """The block each pixel is shown from."""


def _means(image: np.ndarray, down: _Blocks, across: _Blocks) -> np.ndarray:
    """Means over the blocks, by differences of the image's running sums."""
    cv2 = opencv()
    whole = image.dtype == np.uint8 and image.shape[0] * image.shape[1] <= _MOST_PIXELS
    running = cv2.integral(image, sdepth=cv2.CV_32S if whole else cv2.CV_64F)
    running = running.reshape(len(running), -1)
    in_rows = running.take(down.end, axis=0)
    in_rows -= running.take(down.start, axis=0)
    sums = in_rows.take(across.end, axis=1)
    sums -= in_rows.take(across.start, axis=1)
    return sums * (down.share[:, None] * across.share)  # type: ignore[no-any-return]


@functools.lru_cache(maxsize=64)
def _blocks(length: int, blocks: int, channels: int = 1) -> _Blocks:
    """A pixel belongs to the block that covers its centre.

    Where a centre lies just between two blocks, rounding decides, to either or both or none; so the arithmetic is Pillow's.
    """
    size = length / blocks
    centre = (np.arange(blocks) + 0.5) * size
    start = np.maximum((centre - 0.5 * size + 0.5).astype(np.intp), 0)
    end = np.minimum((centre + 0.5 * size + 0.5).astype(np.intp), length)
    start += (start - centre + 0.5) * (1 / size) <= -0.5
    end -= (end - 1 - centre + 0.5) * (1 / size) > 0.5
    steps = np.full(length, blocks / length)
    steps[0] /= 2
    of_pixel = np.minimum(np.add.accumulate(steps).astype(np.intp), blocks - 1)
    return _Blocks(
        _side_by_side(start, channels),
        _side_by_side(end, channels),
        np.repeat(1.0 / (end - start), channels),
        _side_by_side(of_pixel, channels),
    )


def _side_by_side(places: np.ndarray, channels: int) -> np.ndarray:
    """Indices of pixels as indices of their channels."""
    return (places[:, None] * channels + np.arange(channels)).ravel()
