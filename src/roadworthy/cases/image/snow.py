"""Falling snow (Hendrycks and Dietterich 2019, section 3).

A small layer of normal numbers (`mean`, `scale`) is enlarged by `zoom`, what lies under `threshold` is cut away, and the
flakes that remain are smeared downwards (`radius`, `sigma`). The image keeps a share `kept` of itself, the rest turns into a
lighter grey; the flakes are added to it, and once more turned by 180 degrees. The seven values that Wang et al. 2022, table 1,
gives to five symbols are these seven.

>>> import numpy as np
>>> snowy = snow(np.zeros((32, 32), np.uint8), np.random.default_rng(0), **TABLES["wang"][0])
>>> int(snowy.min())  # black turns into 20% of a half-light grey
26
"""

from __future__ import annotations

import functools
import math

import numpy as np

from roadworthy.cases.image.motion_blur import streak
from roadworthy.cases.image.pixels import as_floats, as_pixels, on_pixels, opencv, strips, white
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

_NAMES = ("mean", "scale", "zoom", "threshold", "radius", "sigma", "kept")
_IMAGENET_C = (
    (0.1, 0.3, 3.0, 0.5, 10, 4.0, 0.8),
    (0.2, 0.3, 2.0, 0.5, 12, 4.0, 0.7),
    (0.55, 0.3, 4.0, 0.9, 12, 8.0, 0.7),
    (0.55, 0.3, 4.5, 0.85, 12, 8.0, 0.65),
    (0.55, 0.3, 2.5, 0.85, 12, 12.0, 0.55),
)
_LEVELS = [dict(zip(_NAMES, row, strict=True)) for row in _IMAGENET_C]
TABLES = {"hendrycks": _LEVELS, "wang": [_LEVELS[0], _LEVELS[2], _LEVELS[4]]}


@transform("snow", of=IMAGE, tables=TABLES, draw="case")
@on_pixels(zoom=(1, 100), scale=(0, None), kept=(0, 1), radius=(0, 10_000), sigma=(0.001, None))
def snow(
    image: np.ndarray,
    rng: np.random.Generator,
    *,
    mean: float,
    scale: float,
    zoom: float,
    threshold: float,
    radius: int,
    sigma: float,
    kept: float,
) -> np.ndarray:
    """Smeared flakes are added to the image, which turns lighter and greyer."""
    cv2 = opencv()
    height, width = image.shape[:2]
    small = rng.standard_normal(
        (math.ceil(height / zoom), math.ceil(width / zoom)), dtype=np.float32
    )
    layer = _zoomed(small * np.float32(scale) + np.float32(mean), zoom)
    flakes = cv2.min(cv2.threshold(layer, threshold, 0, cv2.THRESH_TOZERO)[1], 1.0)
    fallen = streak(flakes, radius=radius, sigma=sigma, angle=rng.uniform(-135.0, -45.0))[
        :height, :width
    ]
    both = (fallen + fallen[::-1, ::-1]) * np.float32(white(image.dtype))
    snowy = np.empty_like(image)
    for rows in strips(image):
        values = _snowed_over(as_floats(image[rows]), both[rows], kept, white(image.dtype))
        snowy[rows] = as_pixels(values, image.dtype)
    return snowy


def _snowed_over(values: np.ndarray, flakes: np.ndarray, kept: float, top: float) -> np.ndarray:
    """kept x + (1 - kept) max(x, 1.5 grey + 0.5) + flakes, as max(x, kept x + (1 - kept)(1.5 grey + 0.5)) + flakes."""
    cv2 = opencv()
    grey = values if values.ndim == 2 else cv2.cvtColor(values, cv2.COLOR_RGB2GRAY)
    lighter = cv2.addWeighted(grey, 1.5 * (1 - kept), flakes, 1.0, 0.5 * top * (1 - kept))
    if values.ndim == 2:
        return cv2.addWeighted(values, kept, lighter, 1.0, 0.0)  # type: ignore[no-any-return]
    lighter = cv2.cvtColor(lighter, cv2.COLOR_GRAY2RGB)
    mixed = cv2.addWeighted(values, kept, lighter, 1.0, 0.0, dst=lighter)
    return cv2.max(mixed, cv2.add(values, cv2.cvtColor(flakes, cv2.COLOR_GRAY2RGB)), dst=mixed)  # type: ignore[no-any-return]


def _zoomed(layer: np.ndarray, zoom: float) -> np.ndarray:
    """The layer enlarged, linear between its points, corners on corners."""
    rows, columns = (round(n * zoom) for n in layer.shape)
    # Rows are gathered twice, since gathering columns is slow.
    return np.ascontiguousarray(_longer(np.ascontiguousarray(_longer(layer, rows).T), columns).T)


def _longer(layer: np.ndarray, length: int) -> np.ndarray:
    below, above, share = _between(layer.shape[0], length)
    start = layer[below]
    step = layer[above]
    step -= start
    step *= share
    step += start
    return step


@functools.lru_cache(maxsize=64)
def _between(n: int, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each of `length` evenly spread places on n points: the points around it, and its share of the way."""
    places = np.arange(length) * ((n - 1) / max(length - 1, 1))
    below = np.minimum(places.astype(np.intp), n - 1)
    return below, np.minimum(below + 1, n - 1), (places - below).astype(np.float32)[:, None]
