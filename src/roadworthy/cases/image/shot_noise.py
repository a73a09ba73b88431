"""Shot noise: light arrives in photons (Hendrycks and Dietterich 2019, section 3).

A pixel of brightness x, where white is 1, becomes a Poisson number of mean x `photons`, divided by
`photons`. The number is read from a table of quantiles by a draw of 16 bits, so that tails below
one in 65,536 are cut off. Brightness between two of 256 levels is kept as it is beside the noise of
the nearest level.

>>> import numpy as np
>>> noisy = shot_noise(np.full((64, 64), 0.5), np.random.default_rng(0), photons=50.0)
>>> round(float(noisy.mean()), 1), round(float(noisy.std()), 1)  # the root of 0.5 / 50 is 0.1
(0.5, 0.1)
"""

from __future__ import annotations

import functools

import numpy as np

from roadworthy.cases.image.pixels import as_floats, as_pixels, on_pixels, strips, white
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

TABLES = {"hendrycks": [{"photons": p} for p in (60.0, 25.0, 12.0, 5.0, 3.0)]}


@transform("shot_noise", of=IMAGE, tables=TABLES)
@on_pixels(photons=(0.001, 10_000))
def shot_noise(image: np.ndarray, rng: np.random.Generator, *, photons: float) -> np.ndarray:
    """Every pixel and channel becomes a Poisson number of photons."""
    quantiles, top = _quantiles(photons), white(image.dtype)
    noisy = np.empty_like(image)
    for rows in strips(image):
        part, rest = image[rows], None
        if part.dtype != np.uint8:
            part = np.rint(image[rows] * (255 / top)).astype(np.uint8)
            rest = as_floats(image[rows]) - part * np.float32(top / 255)
        at = part.astype(np.int32)
        at <<= 16
        at |= rng.integers(0, 1 << 16, part.shape, dtype=np.uint16)
        arrived = quantiles.take(at).astype(np.float32) * np.float32(top / photons)
        noisy[rows] = as_pixels(arrived, image.dtype, onto=rest)
    return noisy


@functools.lru_cache(maxsize=2)
def _quantiles(photons: float) -> np.ndarray:
    """For each of 256 levels of brightness the Poisson numbers at 65,536 probabilities, in a row."""
    from scipy.stats import poisson

    means = np.arange(256) * (photons / 255)
    most = int(poisson.ppf(1 - 2**-17, means[-1])) + 1
    numbers = np.arange(most + 1, dtype=np.uint8 if most < 256 else np.uint16)
    up_to = np.rint(poisson.cdf(numbers, means[:, None]) * (1 << 16)).astype(np.int64)
    up_to[:, -1] = 1 << 16
    return np.concatenate([np.repeat(numbers, np.diff(row, prepend=0)) for row in up_to])
