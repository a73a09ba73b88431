"""Fog: every pixel moves towards white, by an amount drawn for each row."""

from __future__ import annotations

import numpy as np

from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE


@transform("light_fog", of=IMAGE, tables={"fogworks": [{"density": 0.3}, {"density": 0.9}]})
def light_fog(image: np.ndarray, rng: np.random.Generator, *, density: float) -> np.ndarray:
    """Every row of pixels moves towards white."""
    white = 1.0 if image.dtype.kind == "f" else float(np.iinfo(image.dtype).max)
    share = density * rng.uniform(0.5, 1.0, size=(len(image), *[1] * (image.ndim - 1)))
    return (image + share * (white - image)).astype(image.dtype)
