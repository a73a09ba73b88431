"""Random layers from which weather, dirt and deformations are made.

>>> layer = soft_noise((200, 300), np.random.default_rng(0), 5.0)
>>> layer.shape, 0.7 < float(layer.std()) < 1.3
((200, 300), True)
"""

from __future__ import annotations

import functools

import numpy as np

from roadworthy.cases.image.pixels import opencv

_COARSE = 2.0
"""Layers softer than twice this many pixels are drawn on a coarser grid and enlarged."""


def soft_noise(
    shape: tuple[int, int], rng: np.random.Generator, sigma: float | tuple[float, float]
) -> np.ndarray:
    """Normal numbers, smoothed by a Gaussian of `sigma` pixels (down, across), with variance 1."""
    cv2 = opencv()
    widths = (sigma, sigma) if isinstance(sigma, int | float) else sigma
    steps = [max(1, int(width / _COARSE)) for width in widths]
    grid = [max(1, -(-side // step)) for side, step in zip(shape, steps, strict=True)]
    down, across = (_weights(width / step) for width, step in zip(widths, steps, strict=True))
    white = rng.standard_normal(grid, dtype=np.float32)
    soft = cv2.sepFilter2D(white, cv2.CV_32F, across, down, borderType=cv2.BORDER_REFLECT)
    if steps == [1, 1]:
        return soft  # type: ignore[no-any-return]
    return cv2.resize(soft, shape[::-1], interpolation=cv2.INTER_CUBIC)  # type: ignore[no-any-return]


@functools.lru_cache(maxsize=64)
def _weights(sigma: float) -> np.ndarray:
    """A Gaussian cut off at three sigmas whose squares sum to 1, so that the variance stays 1."""
    reach = int(3 * sigma + 0.5)
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * max(sigma, 1e-6) ** 2))
    return (weights / np.sqrt(np.sum(weights**2))).astype(np.float32)
