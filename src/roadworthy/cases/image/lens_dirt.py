"""Dirt on the lens: dark, soft spots, since the lens is out of focus.

Spots are where smooth noise is highest: large ones cover about `share` of the image, small ones a
fifth as much. Where dirt is thickest, it keeps back 80% of the light.

>>> import numpy as np
>>> dirty = lens_dirt(np.ones((200, 200)), np.random.default_rng(0), share=0.2)
>>> 0.1 < float((dirty < 0.8).mean()) < 0.4
True
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from roadworthy.cases.image.pixels import laid_over, on_pixels
from roadworthy.cases.image.textures import soft_noise
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

TABLES = {"plain": [{"share": s} for s in (0.05, 0.11, 0.18, 0.26, 0.36)]}
_DIRT = (0.2, 0.17, 0.13)
_THICK = 0.8


@transform("lens_dirt", of=IMAGE, tables=TABLES, draw="case")
@on_pixels
def lens_dirt(image: np.ndarray, rng: np.random.Generator, *, share: float) -> np.ndarray:
    """Soft dark spots lie over the image."""
    if not 0 < share < 1:
        raise ValueError(f"lens_dirt: share is {share}; more than 0 and less than 1 was expected")
    short = min(image.shape[:2])
    spots = [
        _spots(image.shape[:2], rng, 0.04 * short, share),
        _spots(image.shape[:2], rng, 0.012 * short, share / 5),
    ]
    return laid_over(image, _THICK * np.maximum(*spots), _DIRT)


def _spots(
    shape: tuple[int, int], rng: np.random.Generator, sigma: float, share: float
) -> np.ndarray:
    """0 to 1, half of it where a share of the noise begins."""
    above = soft_noise(shape, rng, sigma) - np.float32(NormalDist().inv_cdf(1 - share))
    return np.clip(above * np.float32(0.9) + np.float32(0.5), 0, 1)
