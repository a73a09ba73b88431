"""Features of images for the distances between data sets, without any learned weights.

`image_features` gives 64 numbers, of one meaning and order for images of any size and type. They are
simple statistics of colour, layout, edges, frequencies, noise and blur; a distance on them is never FID.

| places | what |
| --- | --- |
| 0-5 | mean and standard deviation of red, green, blue |
| 6-11 | 5%, 25%, 50%, 75%, 95% quantile of luma; mean saturation (largest less smallest colour) |
| 12-27 | mean luma on a grid of 4 x 4 |
| 28-43 | mean length of the gradient on that grid |
| 44-51 | share of 8 orientations (0 to 180 degrees) in the lengths of all gradients |
| 52-59 | log10 of the power in 8 octave-like bands of frequency, divided by 10 |
| 60-63 | noise (Immerkær 1996), sharpness (log10 variance of the Laplacian, divided by 10), share of black, share of white |

Colours are in units of white. Grid, gradients and frequencies are those of luma resized to 64 x 64.

>>> feature_matrix([np.zeros((20, 30), np.uint8), np.full((90, 70, 3), 255, np.uint8)])[:, :3].tolist()
[[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from roadworthy.data.pixels import opencv, sound_image, white

LUMA = (0.299, 0.587, 0.114)
SIDE, GRID, ORIENTATIONS, BANDS = 64, 4, 8, 8
SMALLEST_POWER = 1e-10
"""Added before a logarithm: what an image of 16 bits cannot show."""
NOISE = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], dtype=np.float64)
"""Immerkær 1996, eq. 2: insensitive to edges, of which it takes second differences twice."""


def feature_matrix(
    images: Iterable[Any], extract: Callable[[Any], Any] | None = None
) -> np.ndarray:
    """The features of all images, float64 (images, features); by `image_features` or your own function.

    Images may come from an iterator: one at a time is in memory.
    """
    extract = extract or image_features
    rows = [np.asarray(extract(image), dtype=np.float64).ravel() for image in images]
    lengths = {len(row) for row in rows}
    if len(lengths) > 1:
        raise ValueError(
            f"the images have from {min(lengths)} to {max(lengths)} features; "
            "the function must give as many for each"
        )
    return np.stack(rows) if rows else np.zeros((0, 0))


def image_features(image: Any) -> np.ndarray:
    """64 features of an image: colour, layout, edges, frequencies, noise and blur."""
    plain = sound_image(image)
    colours = plain.reshape(*plain.shape[:2], -1)[:, :, :3] / white(plain.dtype)
    colours = np.repeat(colours, 3, axis=2) if colours.shape[2] == 1 else colours
    luma = np.ascontiguousarray(colours @ np.array(LUMA))
    small = opencv().resize(luma, (SIDE, SIDE), interpolation=opencv().INTER_AREA)
    return np.concatenate(
        [
            colours.mean(axis=(0, 1)),
            colours.std(axis=(0, 1)),
            np.quantile(luma, (0.05, 0.25, 0.5, 0.75, 0.95)),
            [float(np.mean(colours.max(axis=2) - colours.min(axis=2)))],
            _on_grid(small),
            *_gradients(small),
            _powers(small),
            _quality(luma),
        ]
    )


def _on_grid(values: np.ndarray) -> np.ndarray:
    """Means on a grid of 4 x 4, row by row."""
    cell = SIDE // GRID
    means: np.ndarray = values.reshape(GRID, cell, GRID, cell).mean(axis=(1, 3))
    return means.ravel()


def _gradients(luma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean length of gradients on the grid, and the share of each orientation."""
    down, right = np.gradient(luma)
    length = np.hypot(down, right)
    which = np.floor(np.arctan2(down, right) / np.pi * ORIENTATIONS).astype(int) % ORIENTATIONS
    shares = np.bincount(which.ravel(), weights=length.ravel(), minlength=ORIENTATIONS)
    return _on_grid(length), shares / max(float(length.sum()), SMALLEST_POWER)


def _powers(luma: np.ndarray) -> np.ndarray:
    """log10 of the mean power in bands of equal width in the logarithm of frequency, over 10."""
    frequency = np.hypot(np.fft.fftfreq(SIDE)[:, None], np.fft.rfftfreq(SIDE)) * SIDE
    power = np.square(np.abs(np.fft.rfft2(luma, norm="ortho")))
    edges = np.geomspace(1, SIDE / 2, BANDS + 1)
    band = np.digitize(frequency, edges[1:-1])
    inside = frequency > 0
    sums = np.bincount(band[inside], weights=power[inside], minlength=BANDS)
    means: np.ndarray = sums / np.bincount(band[inside], minlength=BANDS)
    return np.log10(means + SMALLEST_POWER) / 10


def _quality(luma: np.ndarray) -> np.ndarray:
    """Noise, sharpness, share of black and of white, at full size."""
    cv2 = opencv()
    residual = np.abs(cv2.filter2D(luma, -1, NOISE, borderType=cv2.BORDER_REFLECT))
    noise = np.sqrt(np.pi / 2) / 6 * float(residual.mean())
    laplacian = cv2.Laplacian(luma, cv2.CV_64F, borderType=cv2.BORDER_REFLECT)
    sharpness = np.log10(float(laplacian.var()) + SMALLEST_POWER) / 10
    # Half a level of 8 bits, so that what is black or white for 8 bits is so for 16.
    ends = [float(np.mean(luma <= 1 / 510)), float(np.mean(luma >= 1 - 1 / 510))]
    return np.array([noise, sharpness, *ends])
