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
@on_pixels(share=(0.001, 0.999))
def lens_dirt(image: np.ndarray, rng: np.random.Generator, *, share: float) -> np.ndarray:
    """Soft dark spots lie over the image."""
    dirt = np.zeros(image.shape[:2], np.float32)
    for size, part in ((0.04, share), (0.012, share / 5)):
        noise = soft_noise(image.shape[:2], rng, size * min(image.shape[:2]))
        # Half as thick as can be where that share of the noise begins.
        spots = np.float32(0.9) * (noise - np.float32(NormalDist().inv_cdf(1 - part)))
        dirt = np.maximum(dirt, np.minimum(spots + np.float32(0.5), 1))
    return laid_over(image, _THICK * dirt, _DIRT)
