"""One minus structural similarity, at one scale (Wang et al. 2004) or at several (Wang et al. 2003):
the distance between images of Wozniak et al. 2024, box 6.

SSIM has variants that differ by 0.07 on one pair. This one: Gaussian window of 11 x 11 with sigma
1.5, population covariance, K1 = 0.01, K2 = 0.03, L by the type of the pixels, a border of 5 pixels
cut, mean of channels. It equals scikit-image's `structural_similarity` with ``gaussian_weights=True,
use_sample_covariance=False``. SSIM is negative where structures are opposed, so the distance is 0 to 2.

MS-SSIM is the product of the contrast-structure terms of all scales and the luminance of the
coarsest, to the powers of Wang et al. 2003. Negative factors are cut to 0, so the distance is 0 to 1.
From scale to scale the mean of 2 x 2 pixels is taken; an odd last row or column is repeated.

Both are calculated from the sum s and the difference d of the images: with m the windowed mean and v
the windowed variance, SSIM = (m_s² - m_d² + 2 C1)(v_s - v_d + 2 C2) / ((m_s² + m_d² + 2 C1)(v_s + v_d + 2 C2)).
That is Wang's formula with four filters in place of five.

>>> ramp = np.tile(np.arange(0, 240, 5, dtype=np.uint8), (48, 1))
>>> ssim(ramp, ramp), round(ssim(ramp, ramp // 2), 3), ssim(ramp, 235 - ramp) > 1
(0.0, 0.29, True)
>>> ms_ssim(ramp, ramp)
Traceback (most recent call last):
ValueError: ms_ssim with 5 scales needs images of at least 161 x 161 pixels; these have 48 x 48
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from roadworthy.data.pixels import check_limits, opencv
from roadworthy.distances.images import EXTRA, mean_over_channels
from roadworthy.registry import register

SIGMA, RADIUS = 1.5, 5
K1, K2 = 0.01, 0.03
WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
"""Exponents of the scales, finest first (Wang et al. 2003, section 3.2)."""
STRIP = 2**17
"""Pixels worked on at once: more leave the processor's cache, fewer filter the borders too often."""
VARIANT = (
    "Gaussian window 11 x 11, sigma 1.5; population covariance; K1=0.01, K2=0.03; L by type of pixel; "
    "border of 5 pixels cut; mean of channels"
)


@register("distances", "ssim", of=("image",), extra=EXTRA, variant=VARIANT)
def ssim(first: Any, second: Any) -> float:
    """One minus structural similarity (SSIM); 0 to 2."""
    return mean_over_channels(
        first, second, lambda *pair: 1 - _similarity(*pair).whole, least=2 * RADIUS + 1, name="ssim"
    )


@register("distances", "ms_ssim", of=("image",), bounded=True, extra=EXTRA, variant=VARIANT)
def ms_ssim(first: Any, second: Any, *, scales: int = 5) -> float:
    """One minus multi-scale SSIM; with fewer scales their exponents keep the sum of all five."""
    check_limits("ms_ssim", {"scales": scales}, {"scales": (1, len(WEIGHTS))})
    weights = np.array(WEIGHTS[:scales]) * (sum(WEIGHTS) / sum(WEIGHTS[:scales]))
    return mean_over_channels(
        first,
        second,
        functools.partial(_multi_scale, weights=weights),
        least=2 * RADIUS * 2 ** (scales - 1) + 1,
        name=f"ms_ssim with {scales} scales",
    )


def _multi_scale(
    first: np.ndarray, second: np.ndarray, white: float, *, weights: np.ndarray
) -> float:
    factors = []
    for _ in weights[1:]:
        factors.append(_similarity(first, second, white).structure)
        first, second = _halved(first), _halved(second)
    factors.append(_similarity(first, second, white).whole)
    return 1 - float(np.prod(np.maximum(factors, 0.0) ** weights))


def _halved(image: np.ndarray) -> np.ndarray:
    """The mean of 2 x 2 pixels; an odd last row or column is repeated."""
    edges = [(0, side % 2) for side in image.shape]
    even = np.pad(image.astype(np.float64), edges, mode="edge") if any(map(any, edges)) else image
    height, width = even.shape
    halved: np.ndarray = even.reshape(height // 2, 2, width // 2, 2).mean(axis=(1, 3))
    return halved


class _Similarity(NamedTuple):
    """Means over the image: of SSIM, and of its contrast-structure term alone."""

    whole: float
    structure: float


def _similarity(first: np.ndarray, second: np.ndarray, white: float) -> _Similarity:
    """The two means of one channel, strip by strip, so that all values in between stay in the cache."""
    height, width = first.shape
    rows = min(max(STRIP // width, 2 * RADIUS), height - 2 * RADIUS)
    # Made once: to obtain large arrays again and again takes longer than to fill them.
    work = np.empty((6, rows + 2 * RADIUS, width))
    sums = np.zeros(2)
    for start in range(0, height - 2 * RADIUS, rows):
        part = slice(start, min(start + rows + 2 * RADIUS, height))
        sums += _sums_of(first[part], second[part], white, work[:, : part.stop - part.start])
    inside = (height - 2 * RADIUS) * (width - 2 * RADIUS)
    return _Similarity(*(sums / inside).tolist())


def _sums_of(
    first: np.ndarray, second: np.ndarray, white: float, work: np.ndarray
) -> tuple[float, float]:
    """Sums of SSIM and of its contrast-structure term over a strip without its border."""
    cv2 = opencv()
    weights = cv2.getGaussianKernel(2 * RADIUS + 1, SIGMA)
    total, change, *filtered = work
    cv2.add(first, second, dst=total, dtype=cv2.CV_64F)
    cv2.subtract(first, second, dst=change, dtype=cv2.CV_64F)
    for source, mean, square in zip((total, change), filtered[:2], filtered[2:], strict=True):
        cv2.sepFilter2D(source, -1, weights, weights, dst=mean)
        np.multiply(source, source, out=source)
        cv2.sepFilter2D(source, -1, weights, weights, dst=square)
    # Whole rows are contiguous; the border's columns are left out of the sums alone.
    above, below, mean_total, mean_change, var_total, var_change = work[:, RADIUS:-RADIUS]
    inside = above[:, RADIUS:-RADIUS]
    mean_total *= mean_total
    mean_change *= mean_change
    var_total -= mean_total
    var_change -= mean_change
    var_total += 2 * (K2 * white) ** 2
    mean_total += 2 * (K1 * white) ** 2
    np.subtract(var_total, var_change, out=above)
    var_total += var_change
    above /= var_total
    structure = float(inside.sum())
    np.subtract(mean_total, mean_change, out=below)
    mean_total += mean_change
    above *= below
    above /= mean_total
    return float(inside.sum()), structure
