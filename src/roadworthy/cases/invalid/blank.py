"""A blank image: a covered lens, a dead sensor, glare that leaves nothing else.

>>> image = blank(np.zeros((2, 2, 3), np.uint8), np.random.default_rng(0))
>>> image.shape, len(set(image.ravel().tolist()))
((2, 2, 3), 1)
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.pixels import black_like, white
from roadworthy.registry import register


@register("sources", "blank", of="image")
def blank(like: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One shade of grey for the whole image, drawn between black and white."""
    image = black_like(like)
    shade = rng.random() * white(image.dtype)
    image[...] = shade if image.dtype.kind == "f" else round(shade)
    return image
