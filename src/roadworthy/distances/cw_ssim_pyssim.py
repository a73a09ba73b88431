"""What the package pyssim calls CW-SSIM, as a distance: for comparison with values made by it.

pyssim reads the grey image as one long row, takes 30 real Mexican-hat wavelets of it, and averages
``(2 |sum c e| + k) / (sum c² + sum e² + k)`` over pixels, where the sums are over the wavelets. (Its two
factors share a term, which cancels.) That is neither complex nor two-dimensional, and differs from
Sampat et al. 2009: see `cw_ssim`. Colour is turned into grey of 8 bits, as Pillow does it.

>>> image = np.arange(256, dtype=np.uint8).reshape(16, 16)
>>> cw_ssim_pyssim(image, image), round(cw_ssim_pyssim(image, image[:, ::-1]), 3)
(0.0, 0.338)
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from roadworthy.data.pixels import check_limits, white
from roadworthy.distances.images import checked_pair
from roadworthy.registry import register

GREY = (19595, 38470, 7471)
"""Pillow's weights of red, green and blue, of 65536."""
REACH, POINTS = 8.0, 2**12
"""The Mexican hat is tabulated by PyWavelets at so many points from -8 to 8."""
BLOCK = 2**13
"""Pixels transformed at once: 30 wavelets of two images then stay in the processor's cache."""


@register("distances", "cw_ssim_pyssim", of=("image",), bounded=True, variant="as pyssim 0.7; grey")
def cw_ssim_pyssim(first: Any, second: Any, *, width: int = 30, k: float = 0.01) -> float:
    """One minus what pyssim calls CW-SSIM: real wavelets of the flattened grey image."""
    check_limits("cw_ssim_pyssim", {"width": width, "k": k}, {"width": (1, 128), "k": (1e-9, None)})
    pair = np.stack([_grey(image).ravel() for image in checked_pair(first, second)])
    if np.array_equal(pair[0], pair[1]):
        return 0.0
    from scipy import fft

    spectra, reach = _wavelets(width)
    before, after = reach
    pixels, step = pair.shape[1], BLOCK - before - after
    padded = np.pad(pair, ((0, 0), (before, after + step)))
    total = 0.0
    for start in range(0, pixels, step):
        block = fft.rfft(padded[:, start : start + BLOCK], BLOCK)
        found = fft.irfft(block[:, None] * spectra, BLOCK)
        one, other = found[:, :, before + after : before + after + min(step, pixels - start)]
        cross = np.einsum("sp,sp->p", one, other)
        energy = np.einsum("sp,sp->p", one, one) + np.einsum("sp,sp->p", other, other)
        total += float(np.sum((2 * np.abs(cross) + k) / (energy + k)))
    return max(0.0, 1 - total / pixels)


def _grey(image: np.ndarray) -> np.ndarray:
    """Grey values from 0 to 255, whole."""
    if image.dtype != np.uint8:
        image = np.rint(image * (255 / white(image.dtype))).astype(np.uint8)
    if image.ndim == 3 and image.shape[2] >= 3:
        # Rounded half up, in fixed point.
        return ((image[:, :, :3].astype(np.int64) @ np.array(GREY) + 2**15) >> 16).astype(float)
    return image.astype(np.float64)


@functools.lru_cache(maxsize=4)
def _wavelets(width: int) -> tuple[np.ndarray, tuple[int, int]]:
    """Spectra of the wavelets of scales 1 to `width`, and how many pixels they reach back and forth.

    As PyWavelets has it, a scale is the difference of the integrated wavelet, read off a table.
    """
    from scipy import fft

    x = np.linspace(-REACH, REACH, POINTS)
    step = x[1] - x[0]
    hat = (1 - x**2) * np.exp(-(x**2) / 2) * 2 / (math.sqrt(3) * math.pi**0.25)
    integral = np.cumsum(hat) * step
    kernels = []
    for scale in range(1, width + 1):
        places = (np.arange(scale * (x[-1] - x[0]) + 1) / (scale * step)).astype(int)
        steps = np.diff(integral[places[places < POINTS]][::-1], prepend=0.0, append=0.0)
        kernels.append(-math.sqrt(scale) * steps)
    centres = [1 + (len(kernel) - 3) // 2 for kernel in kernels]
    before = max(len(kernel) - 1 - centre for kernel, centre in zip(kernels, centres, strict=True))
    after = max(centres)
    table = np.zeros((width, BLOCK))
    for row, kernel, centre in zip(table, kernels, centres, strict=True):
        row[after - centre : after - centre + len(kernel)] = kernel
    return fft.rfft(table), (before, after)
