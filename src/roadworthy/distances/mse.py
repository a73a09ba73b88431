"""Mean squared error of pixels, in units of white squared (metric M14 of Wozniak et al. 2024), and PSNR.

MSE is 0 between equal images and 1 between black and white. PSNR = -10 log10(MSE) decibels falls with
distance and is infinite between equal images: it is reported, and it is no distance.

>>> dark, grey = np.zeros((4, 4), np.uint8), np.full((4, 4), 51, np.uint8)
>>> round(mse(dark, grey), 3), round(psnr(dark, grey), 2), psnr(dark, dark)
(0.04, 13.98, inf)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from roadworthy.distances.images import mean_over_channels
from roadworthy.registry import register


@register("distances", "mse", of=("image",), bounded=True, variant="mean of channels")
def mse(first: Any, second: Any) -> float:
    """Mean squared difference of pixels, in units of white squared."""
    return mean_over_channels(first, second, _squared_error, least=1, name="mse")


def psnr(first: Any, second: Any) -> float:
    """Peak signal-to-noise ratio in decibels; infinite between equal images."""
    error = mse(first, second)
    return -10.0 * math.log10(error) if error > 0 else math.inf


def _squared_error(first: np.ndarray, second: np.ndarray, white: float) -> float:
    difference = np.subtract(first, second, dtype=np.float64).ravel()
    return float(difference @ difference) / difference.size / white**2
