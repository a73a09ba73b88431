"""A crop of another modality: a piece of a spectrogram where a photograph is expected.

A made-up sound of a few voices with overtones and some hiss is transformed by a short-time Fourier
transform, one row a frequency and one column a moment, in decibels; a piece of the image's size is cut
out of a spectrogram half as large again.

>>> image = wrong_crop(np.zeros((28, 28), np.uint8), np.random.default_rng(0))
>>> image.shape, bool(image.std() > 20)
((28, 28), True)
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.pixels import black_like, white
from roadworthy.registry import register

RANGE_DB = 60.0
"""From black to white, below the loudest."""
VOICES, OVERTONES = 3, 6


@register("sources", "wrong_crop", of="image")
def wrong_crop(like: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A piece of the spectrogram of a made-up sound, in grey."""
    image = black_like(like)
    height, width = image.shape[:2]
    picture = _spectrogram(rng, height + height // 2, width + width // 2)
    top = int(rng.integers(picture.shape[0] - height, endpoint=True))
    left = int(rng.integers(picture.shape[1] - width, endpoint=True))
    piece = picture[top : top + height, left : left + width] * white(image.dtype)
    if image.dtype.kind != "f":
        piece = np.rint(piece)
    image[...] = piece if image.ndim == 2 else piece[:, :, None]
    return image


def _spectrogram(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Shades from 0 to 1, low frequencies at the bottom."""
    from scipy.signal import stft

    window = 2 * max(rows, 8)
    hop = window // 4
    time = np.arange(hop * (columns + 4))
    sound = rng.normal(0, 0.01, len(time))
    for _ in range(VOICES):
        pitch = rng.uniform(0.02, 0.15) * (1 + 0.1 * np.sin(time * rng.uniform(1, 4) / (hop * 8)))
        begin, length = rng.uniform(0, 0.6), rng.uniform(0.2, 0.6)
        loud = np.exp(-((time / len(time) - begin - length / 2) ** 2) / (length / 2) ** 2)
        phase = np.cumsum(pitch) * np.pi
        sound += sum(loud * np.sin(k * phase) / k for k in range(1, OVERTONES + 1))
    strength = np.abs(stft(sound, nperseg=window, noverlap=window - hop)[2])[:rows, :columns]
    decibels = 20 * np.log10(np.maximum(strength, 1e-12) / strength.max())
    return np.clip(1 + decibels / RANGE_DB, 0, 1)[::-1]
