"""Defocus: a point becomes a disc (Hendrycks and Dietterich 2019, section 3).

The disc has `radius` pixels and an edge softened by a Gaussian of `edge` pixels. As in ImageNet-C a
disc of 8 pixels or more touches the border of its kernel, which adds up to 1% of light.

>>> import numpy as np
>>> dot = np.zeros((9, 9), np.uint8)
>>> dot[4, 4] = 130
>>> defocus_blur(dot, np.random.default_rng(0), radius=2, edge=0.1)[4].tolist()
[0, 0, 10, 10, 10, 10, 10, 0, 0]
"""

from __future__ import annotations

import functools
import math

import numpy as np

from roadworthy.cases.image.pixels import as_pixels, on_pixels, opencv, unit_of_size
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

_LEVELS = ((3.0, 0.1), (4.0, 0.5), (6.0, 0.5), (8.0, 0.5), (10.0, 0.5))
TABLES = {"hendrycks": [{"radius": r, "edge": e} for r, e in _LEVELS]}


@transform("defocus_blur", of=IMAGE, tables=TABLES, identity={"radius": 0.0, "edge": 0.1})
@on_pixels(radius=(0, 1000), edge=(0.01, 100))
def defocus_blur(
    image: np.ndarray,
    rng: np.random.Generator,
    *,
    radius: float,
    edge: float,
    relative: bool = False,
) -> np.ndarray:
    """Every pixel becomes the mean over a disc."""
    cv2 = opencv()
    radius *= unit_of_size(image, relative)
    sums, count = _sums_over_discs(image, radius)
    means = sums * np.float32(_light(radius, edge) / count)
    means = cv2.GaussianBlur(means, _edge_size(radius), edge, borderType=cv2.BORDER_REPLICATE)
    return as_pixels(means, image.dtype)


def _sums_over_discs(image: np.ndarray, radius: float) -> tuple[np.ndarray, int]:
    """Sums of the pixels in a disc about each pixel, row by row of the disc, and how many they are.

    A row of the disc is a difference of running sums. Those of whole numbers may overflow: the
    differences are right all the same.
    """
    reach, (height, width) = int(radius), image.shape[:2]
    half = [int(math.sqrt(radius**2 - dy**2)) for dy in range(-reach, reach + 1)]
    count = sum(2 * w + 1 for w in half)
    wider = {"u1": np.uint16, "u2": np.uint32}.get(image.dtype.str[1:], np.float64)
    edge = opencv().BORDER_REPLICATE
    padded = opencv().copyMakeBorder(image, reach, reach, reach + 1, reach, edge)
    running = np.cumsum(padded, axis=1, dtype=wider)
    overflows = wider == np.uint16 and count * 255 >= 1 << 16
    total = np.zeros(image.shape, np.uint32 if overflows else wider)
    for w in dict.fromkeys(half):
        end = reach + 1 + w
        row = running[:, end : end + width] - running[:, reach - w : reach - w + width]
        for top in (i for i, other in enumerate(half) if other == w):
            total += row[top : top + height]
    return total.astype(np.float32), count


def _edge_size(radius: float) -> tuple[int, int]:
    return (3, 3) if radius <= 8 else (5, 5)


@functools.lru_cache(maxsize=64)
def _light(radius: float, edge: float) -> float:
    """The sum of ImageNet-C's kernel, a disc softened within its own array."""
    reach = max(8, int(radius))
    at = np.arange(-reach, reach + 1)
    disc = (at[:, None] ** 2 + at**2 <= radius**2).astype(np.float32)
    return float(opencv().GaussianBlur(disc / disc.sum(), _edge_size(radius), edge).sum())
