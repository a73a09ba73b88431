"""Uniform noise: a sensor or a decoder that delivers no picture at all.

>>> image = uniform_noise(np.zeros((64, 64), np.uint8), np.random.default_rng(0))
>>> image.shape, image.dtype, int(image.min()), int(image.max())
((64, 64), dtype('uint8'), 0, 255)
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.pixels import black_like, white
from roadworthy.registry import register


@register("sources", "uniform_noise", of="image")
def uniform_noise(like: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Every pixel and channel is drawn by itself, black to white."""
    image = black_like(like)
    if image.dtype.kind == "f":
        return rng.random(image.shape, dtype=image.dtype.type)
    return rng.integers(int(white(image.dtype)), size=image.shape, dtype=image.dtype, endpoint=True)
