"""Impulse noise: coloured salt and pepper, from faulty bits (Hendrycks and Dietterich 2019, section 3).

A share `amount` of the pixels turns white or black, half of them each; every channel by itself. See
`salt_and_pepper` for whole pixels.

>>> import numpy as np
>>> noisy = impulse_noise(np.full((99, 99), 90, np.uint8), np.random.default_rng(0), amount=0.2)
>>> [round(float(np.mean(noisy == v)), 1) for v in (0, 90, 255)]
[0.1, 0.8, 0.1]
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.pixels import on_pixels, sprinkled
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

TABLES = {"hendrycks": [{"amount": a} for a in (0.03, 0.06, 0.09, 0.17, 0.27)]}


@transform("impulse_noise", of=IMAGE, tables=TABLES, identity={"amount": 0.0})
@on_pixels(amount=(0, 1))
def impulse_noise(image: np.ndarray, rng: np.random.Generator, *, amount: float) -> np.ndarray:
    """Some pixels turn white or black, each channel by itself."""
    return sprinkled(image, rng, amount, image.shape)
