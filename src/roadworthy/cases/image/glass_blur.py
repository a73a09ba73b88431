"""Frosted glass: neighbouring pixels change places (Hendrycks and Dietterich 2019, section 3).

The image is blurred with a Gaussian of `sigma`; then, `rounds` times, every pixel takes the value of
one that lies from `reach` pixels before it to `reach` - 1 behind it, in both directions; then it is
blurred again. imagecorruptions means to swap pixels one by one, from the last to the first, but
copies them: a pixel takes what its neighbour holds by then. Here all pixels follow their chain of
neighbours at once, to the same effect.

>>> import numpy as np
>>> flat = np.full((8, 8), 7, np.uint8)
>>> bool((glass_blur(flat, np.random.default_rng(0), sigma=0.7, reach=1, rounds=2) == 7).all())
True
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.pixels import on_pixels, softened, unit_of_size
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

_LEVELS = ((0.7, 1, 2), (0.9, 2, 1), (1.0, 2, 3), (1.1, 3, 2), (1.5, 4, 2))
TABLES = {"hendrycks": [{"sigma": s, "reach": r, "rounds": n} for s, r, n in _LEVELS]}


@transform("glass_blur", of=IMAGE, tables=TABLES, identity={"sigma": 0.0, "reach": 0, "rounds": 0})
@on_pixels(sigma=(0, 100), reach=(0, 100), rounds=(0, 100))
def glass_blur(
    image: np.ndarray,
    rng: np.random.Generator,
    *,
    sigma: float,
    reach: int,
    rounds: int,
    relative: bool = False,
) -> np.ndarray:
    """Pixels take the values of neighbours, between two blurs."""
    size = unit_of_size(image, relative)
    blurred = softened(image, sigma * size)
    pixels = blurred.reshape(image.shape[0] * image.shape[1], -1)
    for _ in range(rounds if reach else 0):
        pixels = pixels.take(_neighbours(image.shape, rng, max(1, round(reach * size))), axis=0)
    return softened(pixels.reshape(image.shape), sigma * size)


def _neighbours(shape: tuple[int, ...], rng: np.random.Generator, reach: int) -> np.ndarray:
    """For every pixel in reading order, the one whose value it takes in one round."""
    height, width = shape[:2]
    down, across = rng.integers(-reach, reach, (2, height, width), dtype=np.int16)
    row = np.minimum(np.maximum(down + np.arange(height)[:, None], 0), height - 1)
    column = np.minimum(np.maximum(across + np.arange(width), 0), width - 1)
    first = (row * width + column).ravel()
    # Pixels are visited from the last to the first: one behind has changed already, and hands on
    # what it took itself.
    taken, pending = first.copy(), np.flatnonzero(first > np.arange(len(first)))
    while len(pending):
        via = taken[pending]
        taken[pending] = first[via]
        pending = pending[first[via] > via]
    return taken
