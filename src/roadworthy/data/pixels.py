"""What reads pixels shares: a sound image, the value of white, limits of parameters, OpenCV.

>>> white(np.dtype(np.uint16)), sound_image(np.zeros((2, 3), np.uint8)).shape
(65535.0, (2, 3))
>>> sound_image(np.full((8, 8), 2.0))
Traceback (most recent call last):
    ...
ValueError: the image has pixels from 2 to 2; float pixels lie between 0 (black) and 1 (white): divide by the largest value
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from roadworthy.data.values import IMAGE
from roadworthy.registry import not_installed

_WHITE = {
    np.dtype(np.uint8): 255.0,
    np.dtype(np.uint16): 65535.0,
    np.dtype("f4"): 1.0,
    np.dtype("f8"): 1.0,
}
Limits = tuple[float, float | None]


@functools.cache
def opencv() -> Any:
    """OpenCV, loaded on first use."""
    try:
        import cv2
    except ImportError as error:
        needs = "transforms of images and distances between them need OpenCV"
        raise ImportError(not_installed(needs, "vision")) from error
    return cv2


def white(dtype: np.dtype[Any]) -> float:
    """The value of a white pixel: 255, 65535 or 1."""
    return _WHITE[dtype]


def sound_image(image: Any) -> np.ndarray:
    """The image, contiguous; refused by a sentence if it is not a sound one."""
    array = np.ascontiguousarray(image)
    # A type that is known needs no further look but at the shape: this runs once an image, hundreds of thousands of times.
    sound_shape = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))
    if not (sound_shape and array.size and array.dtype in _WHITE):
        raise ValueError(f"the image {IMAGE.problem(image) or 'cannot be read'}")
    if array.dtype.kind == "f":
        darkest, lightest = float(array.min()), float(array.max())
        if not (darkest >= 0 and lightest <= 1):
            raise ValueError(_out_of_range(darkest, lightest))
    return array


def _out_of_range(darkest: float, lightest: float) -> str:
    if not (np.isfinite(darkest) and np.isfinite(lightest)):
        return "the image has NaN or infinite pixels; replace them, or leave the image out"
    return (
        f"the image has pixels from {darkest:g} to {lightest:g}; float pixels lie between 0 (black) and 1 (white): "
        "divide by the largest value"
    )


def check_limits(name: str, given: Mapping[str, Any], limits: Mapping[str, Limits]) -> None:
    """Refuse parameters of a transform or distance beyond their limits.

    >>> check_limits("fog", {"density": -1.0}, {"density": (0, None)})
    Traceback (most recent call last):
    ValueError: fog: density is -1; 0 or more was expected
    """
    for parameter, (least, most) in limits.items():
        value = given.get(parameter, least)
        if not least <= value <= (math.inf if most is None else most):
            wanted = f"{least:g} or more" if most is None else f"{least:g} to {most:g}"
            raise ValueError(f"{name}: {parameter} is {value:g}; {wanted} was expected")
