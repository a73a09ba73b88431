"""A blank image: a covered lens, a dead sensor, a glare that leaves nothing else.

>>> image = blank(np.zeros((2, 2, 3), np.uint8), np.random.default_rng(0), darkest=1.0)
>>> image.shape, sorted(set(image.ravel().tolist()))
((2, 2, 3), [255])
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.pixels import black_like, white
from roadworthy.registry import register


@register("sources", "blank", of="image")
def blank(
    like: np.ndarray, rng: np.random.Generator, *, darkest: float = 0.0, lightest: float = 1.0
) -> np.ndarray:
    """One shade of grey, drawn between the darkest (0, black) and the lightest (1, white)."""
    if not 0 <= darkest <= lightest <= 1:
        raise ValueError(
            f"blank: shades from {darkest} to {lightest}; 0 <= darkest <= lightest <= 1 was expected"
        )
    image = black_like(like)
    shade = rng.uniform(darkest, lightest) * white(image.dtype)
    image[...] = shade if image.dtype.kind == "f" else round(shade)
    return image
