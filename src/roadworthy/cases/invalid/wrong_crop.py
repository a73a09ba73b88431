"""A crop of another modality: a piece of a sound's spectrogram where a photograph is expected.

>>> image = wrong_crop(np.zeros((28, 28), np.uint8), np.random.default_rng(0))
>>> image.shape, bool(image.std() > 20)
((28, 28), True)
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.pixels import black_like, white
from roadworthy.registry import register


@register("sources", "wrong_crop", of="image")
def wrong_crop(like: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A piece of the spectrogram of made-up voices with overtones, in grey."""
    from scipy.signal import stft

    image = black_like(like)
    height, width = image.shape[:2]
    window = 3 * max(height, 8)  # half as many frequencies again as the crop has rows
    hop = window // 4
    time = np.arange(hop * (width + 4))
    sound = rng.normal(0, 0.01, len(time))
    for _ in range(3):
        pitch = rng.uniform(0.02, 0.15) * (1 + 0.1 * np.sin(time * rng.uniform(1, 4) / (hop * 8)))
        begin, length = rng.uniform(0, 0.6, 2) * len(time)
        loud = np.exp(-(((time - begin) / (length + hop)) ** 2))
        sound += sum(loud * np.sin(k * np.pi * np.cumsum(pitch)) / k for k in range(1, 7))
    strength = np.abs(stft(sound, nperseg=window, noverlap=window - hop)[2])
    top = int(rng.integers(len(strength) - height))
    # White is the loudest, black 60 decibels below it: three powers of ten.
    shades = 1 + np.log10(np.maximum(strength / strength.max(), 1e-3)) / 3
    piece = shades[::-1][top : top + height, :width] * white(image.dtype)
    grey = piece if image.dtype.kind == "f" else np.rint(piece)
    image[...] = grey.reshape(*grey.shape, *[1] * (image.ndim - 2))
    return image
