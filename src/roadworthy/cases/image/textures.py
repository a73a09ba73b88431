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
_FINEST = 512
"""Points a side of the finest cloud; larger ones are enlarged."""


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


def plasma(shape: tuple[int, int], rng: np.random.Generator, decay: float) -> np.ndarray:
    """A cloud from 0 to 1 by midpoint displacement; see `roadworthy.cases.image.fog`."""
    cv2 = opencv()
    whole = 1 << max(1, (max(shape) - 1).bit_length())
    cloud, reach = np.zeros((1, 1), np.float32), 1.0
    while len(cloud) < min(whole, _FINEST):
        cloud = _halved(cloud, rng, reach)
        reach /= decay**2
    cloud -= cloud.min()
    cloud /= cloud.max()
    scale = whole // len(cloud)
    cut = np.ascontiguousarray(cloud[: -(-shape[0] // scale), : -(-shape[1] // scale)])
    if scale == 1:
        return cut
    large = cv2.resize(cut, None, fx=scale, fy=scale, interpolation=cv2.INTER_LINEAR)
    return np.ascontiguousarray(large[: shape[0], : shape[1]])


def _halved(known: np.ndarray, rng: np.random.Generator, reach: float) -> np.ndarray:
    """The grid with a point between every two; a point beyond an edge is one at the other edge."""
    n = len(known)
    noise = rng.random((3, n, n), dtype=np.float32)
    noise *= np.float32(8 * reach)
    noise -= np.float32(4 * reach)
    below, right = np.roll(known, -1, axis=0), np.roll(known, -1, axis=1)
    centre = known + below
    centre += np.roll(centre, -1, axis=1)
    centre += noise[0]
    centre *= np.float32(0.25)
    finer = np.empty((n, 2, n, 2), np.float32)
    finer[:, 0, :, 0] = known
    finer[:, 1, :, 1] = centre
    across = centre + np.roll(centre, 1, axis=0) + known + right + noise[1]
    down = centre + np.roll(centre, 1, axis=1) + known + below + noise[2]
    np.multiply(across, np.float32(0.25), out=finer[:, 0, :, 1])
    np.multiply(down, np.float32(0.25), out=finer[:, 1, :, 0])
    return finer.reshape(2 * n, 2 * n)


@functools.lru_cache(maxsize=64)
def _weights(sigma: float) -> np.ndarray:
    """A Gaussian cut off at three sigmas whose squares sum to 1, so that the variance stays 1."""
    reach = int(3 * sigma + 0.5)
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * max(sigma, 1e-6) ** 2))
    return (weights / np.sqrt(np.sum(weights**2))).astype(np.float32)
