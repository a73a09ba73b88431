"""Salt and pepper: dead pixels of a scanner (Wozniak et al. 2024, box 1).

A share `amount` of the pixels turns white or black, half of them each, in all channels at once.

>>> import numpy as np
>>> grey = np.full((50, 50, 3), 90, np.uint8)
>>> noisy = salt_and_pepper(grey, np.random.default_rng(0), amount=0.2)
>>> bool(np.all(noisy == noisy[:, :, :1]))
True
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.pixels import on_pixels, sprinkled
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

TABLES = {"plain": [{"amount": a} for a in (0.01, 0.03, 0.06, 0.1, 0.16)]}


@transform("salt_and_pepper", of=IMAGE, tables=TABLES, identity={"amount": 0.0})
@on_pixels(amount=(0, 1))
def salt_and_pepper(image: np.ndarray, rng: np.random.Generator, *, amount: float) -> np.ndarray:
    """Some pixels turn white or black."""
    return sprinkled(image, rng, amount, image.shape[:2])
