"""Motion blur: the camera moves while the shutter is open (Hendrycks and Dietterich 2019, section 3).

The blur is ImageMagick's: a pixel becomes the mean of the 2 x `radius` + 1 pixels that follow it on a line, with the
weights of one half of a Gaussian of width `sigma`, exp(-i^2 / 2 sigma^2). The line's angle is drawn between -45 and 45
degrees, once for a case: the frames of a video are smeared the same way. Beyond its edge the image goes on with the edge.

>>> import numpy as np
>>> dot = np.zeros((9, 9), np.uint8)
>>> dot[4, 4] = 255
>>> streak(dot.astype(np.float32), radius=1, sigma=1.0, angle=0.0)[4].round().astype(int).tolist()
[0, 0, 20, 89, 146, 0, 0, 0, 0]
"""

from __future__ import annotations

import functools
import math

import numpy as np

from roadworthy.cases.image.pixels import as_floats, as_pixels, on_pixels, opencv
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

TABLES = {
    "hendrycks": [{"radius": r, "sigma": s} for r, s in ((10, 3.0), (15, 5.0), (15, 8.0), (15, 12.0), (20, 15.0))],
    "wang": [{"radius": r, "sigma": s} for r, s in ((10, 3.0), (15, 8.0), (20, 15.0))],
}

_RUN = 10
"""So many neighbours on a line fit a 10 x 10 kernel, which OpenCV applies directly, skipping its zeros; for kernels of
11 x 11 and more it turns to a Fourier transform, which is slower for a line."""


@transform("motion_blur", of=IMAGE, tables=TABLES, draw="case")
@on_pixels
def motion_blur(image: np.ndarray, rng: np.random.Generator, *, radius: int, sigma: float) -> np.ndarray:
    """Every pixel is smeared along a line of random angle."""
    angle = rng.uniform(-45.0, 45.0)
    return as_pixels(streak(as_floats(image), radius=radius, sigma=sigma, angle=angle), image.dtype)


def streak(values: np.ndarray, *, radius: int, sigma: float, angle: float) -> np.ndarray:
    """Float32 pixels smeared along the line of that angle in degrees; 0 looks right, 90 down."""
    if radius < 0 or not sigma > 0:
        raise ValueError(f"the blur has radius {radius} and sigma {sigma}; 0 or more, and more than 0, were expected")
    cv2 = opencv()
    height, width = values.shape[:2]
    down, right = _line(2 * radius + 1, angle)
    weights = _half_gaussian(2 * radius + 1, sigma)
    top, left = max(0, -down[-1]), max(0, -right[-1])
    padded = cv2.copyMakeBorder(values, top, max(0, down[-1]), left, max(0, right[-1]), cv2.BORDER_REPLICATE)
    total = None
    for start in range(0, len(weights), _RUN):
        run = slice(start, start + _RUN)
        kernel, first_row, first_column = _kernel(down[run], right[run], weights[run])
        y, x = top + first_row, left + first_column
        seen = padded[y : y + height + kernel.shape[0] - 1, x : x + width + kernel.shape[1] - 1]
        part = cv2.filter2D(seen, cv2.CV_32F, kernel, anchor=(0, 0), borderType=cv2.BORDER_REPLICATE)
        part = part[:height, :width]
        total = part if total is None else cv2.add(total, part, dst=total)
    return np.ascontiguousarray(total)


def _line(length: int, angle: float) -> tuple[list[int], list[int]]:
    """Rows and columns of the pixels on a line that starts at 0, 0."""
    down, right = math.sin(math.radians(angle)), math.cos(math.radians(angle))
    return [math.ceil(i * down - 0.5) for i in range(length)], [math.ceil(i * right - 0.5) for i in range(length)]


@functools.lru_cache(maxsize=64)
def _half_gaussian(length: int, sigma: float) -> list[float]:
    """Weights that fall off like one half of a Gaussian and sum to 1."""
    weights = np.exp(-(np.arange(length) ** 2) / (2.0 * sigma**2))
    return (weights / weights.sum()).tolist()  # type: ignore[no-any-return]


def _kernel(down: list[int], right: list[int], weights: list[float]) -> tuple[np.ndarray, int, int]:
    """The smallest kernel that holds these points, and the row and column of its first element."""
    rows, columns = sorted((down[0], down[-1])), sorted((right[0], right[-1]))
    kernel = np.zeros((rows[1] - rows[0] + 1, columns[1] - columns[0] + 1), np.float32)
    for y, x, weight in zip(down, right, weights, strict=True):
        kernel[y - rows[0], x - columns[0]] += weight  # near 45 degrees two steps may fall on one pixel
    return kernel, rows[0], columns[0]
