"""What every image transform shares: which pixels it may be given, and how numbers become pixels again.

A transform of images is written for one plain case, a contiguous (height, width) or (height, width, 3) array in its own
units (0 to 255, 0 to 65535 or 0 to 1), and `on_pixels` makes it serve all the others: it checks the image, drops and
restores a lone channel axis, and leaves an alpha channel as it is.

>>> @on_pixels(by=(0, 1))
... def half(image, rng, *, by: float = 0.5):
...     return as_pixels(as_floats(image) * by, image.dtype)
>>> half(np.full((8, 8, 1), 100, np.uint8), None).shape
(8, 8, 1)
>>> half(np.full((8, 8), 2.0), None)
Traceback (most recent call last):
    ...
ValueError: the image has pixels from 2 to 2; float pixels lie between 0 (black) and 1 (white): divide by the largest value
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

from roadworthy.data.pixels import Limits as Limits
from roadworthy.data.pixels import check_limits as check_limits
from roadworthy.data.pixels import opencv as opencv
from roadworthy.data.pixels import sound_image as sound_image
from roadworthy.data.pixels import white as white
from roadworthy.data.values import IMAGE

_STRIP = 30_000
_MADE_FOR = 224
"""The side of images for which Hendrycks and Dietterich chose their sizes in pixels."""
_F = TypeVar("_F", bound=Callable[..., np.ndarray])


def black_like(like: Any) -> np.ndarray:
    """A black image of the same shape and type; nothing else is read of what is given."""
    image = np.zeros_like(like)
    if IMAGE.problem(image):
        raise ValueError(f"the image {IMAGE.problem(image)}")
    return image


def as_floats(image: np.ndarray) -> np.ndarray:
    """The pixels as float32 in their own units."""
    return image.astype(np.float32)


def as_pixels(
    values: np.ndarray, dtype: np.dtype[Any], *, onto: np.ndarray | None = None
) -> np.ndarray:
    """Numbers, added to what is there, as pixels: cut off at black and white, whole ones rounded to the nearest."""
    if dtype.kind == "f":
        summed = values if onto is None else values + onto
        # Two passes, because np.clip takes several times as long to begin.
        return np.minimum(np.maximum(summed, 0), 1).astype(dtype, copy=False)
    cv2 = opencv()
    # OpenCV adds, rounds, saturates and converts in one pass; adding 0 makes it do the rest alone.
    return cv2.add(
        values, 0 if onto is None else onto, dtype=cv2.CV_8U if dtype == np.uint8 else cv2.CV_16U
    )  # type: ignore[no-any-return]


def strips(image: np.ndarray, *, at_least: int = 1) -> Iterator[slice]:
    """The image's rows in strips whose float32 values fit into the processor's cache.

    It is not only the cache: to obtain large arrays for values in between costs more than to fill them.

    >>> [(rows.start, rows.stop) for rows in strips(np.zeros((250, 300)))]
    [(0, 100), (100, 200), (200, 250)]
    """
    height = image.shape[0]
    step = max(at_least, _STRIP * height // image.size, 1)
    for start in range(0, height, step):
        yield slice(start, min(start + step, height))


_LUMA = (0.299, 0.587, 0.114)


def laid_over(
    image: np.ndarray,
    cover: np.ndarray,
    colour: tuple[float, float, float],
    *,
    as_light: bool = False,
) -> np.ndarray:
    """The image under a colour (white is 1, 1, 1), of which `cover` (height, width) says how much.

    As light it is added to the image instead. An image of one channel gets the colour's luma.
    """
    cv2 = opencv()
    plain = image.ndim == 2
    tint = np.dot(colour, _LUMA) if plain else np.array(colour)
    tint = (tint * white(image.dtype)).astype(np.float32)
    made = np.empty_like(image)
    for rows in strips(image):
        part, under = cover[rows] if plain else cv2.merge([cover[rows]] * 3), as_floats(image[rows])
        laid = part * tint + under if as_light else part * (tint - under) + under
        made[rows] = as_pixels(laid, image.dtype)
    return made


def unit_of_size(image: np.ndarray, relative: bool) -> float:
    """What a pixel of a kernel counts: 1, or, relative to the image, its short side over 224."""
    return min(image.shape[:2]) / _MADE_FOR if relative else 1.0


def softened(image: np.ndarray, sigma: float) -> np.ndarray:
    """A Gaussian blur, cut off at four sigmas; beyond its edge the image goes on with the edge."""
    cv2 = opencv()
    weights = cv2.getGaussianKernel(2 * int(4 * sigma + 0.5) + 1, max(sigma, 1e-6))
    # GaussianBlur takes longer, and on bytes its weights are rounded.
    return cv2.sepFilter2D(image, -1, weights, weights, borderType=cv2.BORDER_REPLICATE)  # type: ignore[no-any-return]


def sprinkled(
    image: np.ndarray, rng: np.random.Generator, amount: float, drawn: tuple[int, ...]
) -> np.ndarray:
    """The image with a share of its pixels white or black; one draw for every element of `drawn`."""
    noisy = image.copy()
    draws = rng.integers(0, 1 << 16, drawn, dtype=np.uint16)
    noisy[draws < round(amount * (1 << 16))] = white(image.dtype)
    noisy[draws < round(amount * (1 << 15))] = 0
    return noisy


def on_pixels(**limits: Limits) -> Callable[[_F], _F]:
    """Make a transform of contiguous (h, w) and (h, w, 3) arrays serve every sound image, with
    parameters within their limits: the least, and the most or None."""

    def decorate(paint: _F) -> _F:
        @functools.wraps(paint)
        def make(image: np.ndarray, rng: np.random.Generator, **parameters: Any) -> np.ndarray:
            check_limits(paint.__name__, parameters, limits)
            plain = sound_image(image)
            if plain.ndim == 2 or plain.shape[2] == 3:
                return paint(plain, rng, **parameters)
            if plain.shape[2] == 1:
                return paint(plain[:, :, 0], rng, **parameters).reshape(plain.shape)
            colours = paint(np.ascontiguousarray(plain[:, :, :3]), rng, **parameters)
            return np.concatenate([colours, plain[:, :, 3:]], axis=2)

        make.extra = ("cv2", "vision")  # type: ignore[attr-defined]
        return make  # type: ignore[return-value]

    return decorate
