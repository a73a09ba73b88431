"""Motion blur: the camera moves while the shutter is open (Hendrycks and Dietterich 2019, section 3).

The blur is ImageMagick's: a pixel becomes the mean of the 2 x `radius` + 1 pixels that follow it on a line, with the
weights of one half of a Gaussian of width `sigma`, exp(-i^2 / 2 sigma^2). The line's angle is drawn between -45 and 45
degrees, once for a case: the frames of a video are smeared the same way. Beyond its edge the image goes on with the edge.

>>> import numpy as np
>>> dot = np.zeros((9, 9), np.uint8)
>>> dot[4, 4] = 255
>>> streak(dot, radius=1, sigma=1.0, angle=0.0)[4].tolist()
[0, 0, 20, 89, 146, 0, 0, 0, 0]
"""

from __future__ import annotations

import functools
import math

import numpy as np

from roadworthy.cases.image.pixels import as_floats, as_pixels, on_pixels, opencv, strips
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
    return streak(image, radius=radius, sigma=sigma, angle=rng.uniform(-45.0, 45.0))


def streak(image: np.ndarray, *, radius: int, sigma: float, angle: float) -> np.ndarray:
    """The image smeared along the line of that angle in degrees; 0 looks right, 90 down."""
    if radius < 0 or not sigma > 0:
        raise ValueError(f"the blur has radius {radius} and sigma {sigma}; 0 or more, and more than 0, were expected")
    cv2 = opencv()
    down, right = _line(2 * radius + 1, angle)
    top, bottom, left, far_right = max(0, -down[-1]), max(0, down[-1]), max(0, -right[-1]), max(0, right[-1])
    spare = _RUN - 1
    padded = cv2.copyMakeBorder(image, top, bottom + spare, left, far_right + spare, cv2.BORDER_REPLICATE)
    kernels = [(kernel, top + y, left + x) for kernel, y, x in _kernels(down, right, radius, sigma)]
    smeared = np.empty_like(image)
    for rows in strips(image, at_least=top + bottom + 1):
        seen = as_floats(padded[rows.start : rows.stop + top + bottom + spare])
        sums = _filtered(seen, kernels, rows.stop - rows.start, image.shape[1])
        smeared[rows] = as_pixels(sums, image.dtype)
    return smeared


def _filtered(seen: np.ndarray, kernels: list[tuple[np.ndarray, int, int]], height: int, width: int) -> np.ndarray:
    """The sum of all kernels, each laid on from its own first row and column."""
    cv2 = opencv()
    spare = _RUN - 1
    total = part = None
    for kernel, y, x in kernels:
        window = seen[y : y + height + spare, x : x + width + spare]
        part = cv2.filter2D(window, cv2.CV_32F, kernel, dst=part, anchor=(0, 0))
        if total is None:
            total, part = part, None
        else:
            cv2.add(total, part, dst=total)
    assert total is not None
    return total[:height, :width]  # type: ignore[no-any-return]


def _line(length: int, angle: float) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Rows and columns of the pixels on a line that starts at 0, 0."""
    down, right = math.sin(math.radians(angle)), math.cos(math.radians(angle))
    steps = range(length)
    return tuple(math.ceil(i * down - 0.5) for i in steps), tuple(math.ceil(i * right - 0.5) for i in steps)


def _weights(radius: int, sigma: float) -> list[float]:
    """Weights that fall off like one half of a Gaussian and sum to 1."""
    weights = np.exp(-(np.arange(2 * radius + 1) ** 2) / (2.0 * sigma**2))
    return (weights / weights.sum()).tolist()  # type: ignore[no-any-return]


@functools.lru_cache(maxsize=2048)  # of all angles, lines of 31 pixels come in about a thousand shapes
def _kernels(
    down: tuple[int, ...], right: tuple[int, ...], radius: int, sigma: float
) -> tuple[tuple[np.ndarray, int, int], ...]:
    """Small kernels that make up the line, each with the row and column of its first element."""
    weights = _weights(radius, sigma)
    kernels = []
    for start in range(0, len(weights), _RUN):
        run = slice(start, start + _RUN)
        y, x = down[run], right[run]
        top, left = min(y[0], y[-1]), min(x[0], x[-1])
        kernel = np.zeros((abs(y[-1] - y[0]) + 1, abs(x[-1] - x[0]) + 1), np.float32)
        for row, column, weight in zip(y, x, weights[run], strict=True):
            kernel[row - top, column - left] += weight  # near 45 degrees two steps may fall on one pixel
        kernels.append((kernel, top, left))
    return tuple(kernels)
