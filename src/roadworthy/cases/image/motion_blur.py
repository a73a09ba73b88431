"""Motion blur: the camera moves while the shutter is open (Hendrycks and Dietterich 2019, section 3).

The blur is ImageMagick's: a pixel becomes the mean of the 2 x `radius` + 1 pixels that follow it on a line, with the
weights of one half of a Gaussian of width `sigma`, exp(-i^2 / 2 sigma^2). The line's angle is drawn between -45 and 45
degrees, once for a case: the frames of a video are smeared the same way. Beyond its edge the image goes on with the edge.
The blur is one-sided, so that objects move, at level 5 by 11 pixels: a box drawn before no longer fits. `centred` moves the
streak back by its centre of mass, to the nearest pixel, and leaves objects in place: use it to test detectors and trackers.

>>> import numpy as np
>>> dot = np.zeros((9, 9), np.uint8)
>>> dot[4, 4] = 255
>>> streak(dot, radius=1, sigma=1.0, angle=0.0)[4].tolist()
[0, 0, 20, 89, 146, 0, 0, 0, 0]
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any, NamedTuple

import numpy as np

from roadworthy.cases.image.pixels import (
    as_floats,
    as_pixels,
    on_pixels,
    opencv,
    strips,
    unit_of_size,
)
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

TABLES = {
    "hendrycks": [
        {"radius": r, "sigma": s}
        for r, s in ((10, 3.0), (15, 5.0), (15, 8.0), (15, 12.0), (20, 15.0))
    ],
    "wang": [{"radius": r, "sigma": s} for r, s in ((10, 3.0), (15, 8.0), (20, 15.0))],
}

_DIRECT = 11 * 11
"""OpenCV (4.14, timed) applies kernels up to this area directly, skipping their zeros; for larger ones it turns to a
Fourier transform, which is slower for a line. So a line is laid on piece by piece."""


class _Piece(NamedTuple):
    """A part of the line: its kernel, and where the kernel's first element lies."""

    kernel: np.ndarray
    row: int
    column: int


@transform(
    "motion_blur", of=IMAGE, tables=TABLES, draw="case", identity={"radius": 0, "sigma": 3.0}
)
@on_pixels(radius=(0, 10_000), sigma=(0.001, None))
def motion_blur(
    image: np.ndarray,
    rng: np.random.Generator,
    *,
    radius: int,
    sigma: float,
    centred: bool = False,
    relative: bool = False,
) -> np.ndarray:
    """Every pixel is smeared along a line of random angle."""
    size, angle = unit_of_size(image, relative), rng.uniform(-45.0, 45.0)
    return streak(
        image, radius=round(radius * size), sigma=sigma * size, angle=angle, centred=centred
    )


def streak(
    image: np.ndarray, *, radius: int, sigma: float, angle: float, centred: bool = False
) -> np.ndarray:
    """The image smeared along the line of that angle in degrees; 0 looks right, 90 down."""
    cv2 = opencv()
    down, right = _line(2 * radius + 1, angle)
    if centred:
        down, right = (_about_its_centre(places, sigma) for places in (down, right))
    pieces = _pieces(down, right, sigma)
    height, width = (
        max(sizes) - 1 for sizes in zip(*(p.kernel.shape for p in pieces), strict=True)
    )
    top, left = (-min(0, *places) for places in (down, right))
    bottom, far_right = (max(0, *places) for places in (down, right))
    padded = cv2.copyMakeBorder(
        image, top, bottom + height, left, far_right + width, cv2.BORDER_REPLICATE
    )
    smeared = np.empty_like(image)
    for rows in strips(image, at_least=top + bottom + 1):
        seen = as_floats(padded[rows.start : rows.stop + top + bottom + height])
        total: Any = None
        part: Any = None
        for kernel, row, column in pieces:
            y, x = top + row, left + column
            window = seen[y : y + rows.stop - rows.start + height, x : x + image.shape[1] + width]
            part = cv2.filter2D(window, cv2.CV_32F, kernel, dst=part, anchor=(0, 0))
            total, part = (part, None) if total is None else (cv2.add(total, part, dst=total), part)
        smeared[rows] = as_pixels(total[: rows.stop - rows.start, : image.shape[1]], image.dtype)
    return smeared


def _line(length: int, angle: float) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Rows and columns of the pixels on a line that starts at 0, 0."""
    down, right = math.sin(math.radians(angle)), math.cos(math.radians(angle))
    steps = range(length)
    return tuple([math.ceil(i * down - 0.5) for i in steps]), tuple(
        [math.ceil(i * right - 0.5) for i in steps]
    )


def _about_its_centre(places: tuple[int, ...], sigma: float) -> tuple[int, ...]:
    centre = round(sum(map(operator.mul, places, _weights(len(places), sigma))))
    return tuple([place - centre for place in places])


@functools.lru_cache(maxsize=64)
def _weights(length: int, sigma: float) -> list[float]:
    """Weights that fall off like one half of a Gaussian and sum to 1."""
    weights = np.exp(-(np.arange(length) ** 2) / (2.0 * sigma**2))
    return (weights / weights.sum()).tolist()  # type: ignore[no-any-return]


@functools.lru_cache(
    maxsize=2048
)  # of all angles, lines of 31 pixels come in 743 shapes, of 41 in 1321
def _pieces(down: tuple[int, ...], right: tuple[int, ...], sigma: float) -> tuple[_Piece, ...]:
    """The line cut into the longest pieces that OpenCV applies directly."""
    weights = _weights(len(down), sigma)
    pieces, start = [], 0
    for end in range(1, len(down) + 1):
        if end == len(down) or _span(down, start, end) * _span(right, start, end) >= _DIRECT:
            pieces.append(_piece(down[start:end], right[start:end], weights[start:end]))
            start = end
    return tuple(pieces)


def _span(places: tuple[int, ...], start: int, last: int) -> int:
    return abs(places[last] - places[start]) + 1


def _piece(down: tuple[int, ...], right: tuple[int, ...], weights: list[float]) -> _Piece:
    top, left = min(down[0], down[-1]), min(right[0], right[-1])
    height, width = abs(down[-1] - down[0]) + 1, abs(right[-1] - right[0]) + 1
    kernel = [0.0] * (height * width)
    for row, column, weight in zip(down, right, weights, strict=True):
        kernel[(row - top) * width + column - left] += (
            weight  # near 45 degrees two steps may fall on one pixel
        )
    return _Piece(np.array(kernel, np.float32).reshape(height, width), top, left)
