"""Frost on the window or lens (Hendrycks and Dietterich 2019, section 3).

The image becomes `kept` x + `frost` f. In ImageNet-C f is cut from photos of frost; here it is drawn:
feathers of ice with side branches at 60 degrees, on a cloudy blue-white ground. The weights are
theirs, the pictures are not, so that only the look can be compared.

>>> import numpy as np
>>> iced = frost(np.zeros((128, 128, 3)), np.random.default_rng(0), kept=0.6, frost=0.75)
>>> 0.3 < float(iced.mean()) < 0.6
True
"""

from __future__ import annotations

import numpy as np

from roadworthy.cases.image.pixels import (
    as_floats,
    as_pixels,
    on_pixels,
    opencv,
    strips,
    white,
)
from roadworthy.cases.image.textures import plasma
from roadworthy.cases.transform import transform
from roadworthy.data.values import IMAGE

_LEVELS = ((1.0, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75))
TABLES = {"hendrycks": [{"kept": k, "frost": f} for k, f in _LEVELS]}

_SIDE = 256
"""Frost is drawn on a short side of at most so many pixels, and enlarged for larger images."""
_ICE = np.array([0.94, 1.0, 1.06], np.float32)
_FEATHERS, _BRANCHES, _SHADES = 140, 12, 5
"""Feathers in a square, branches on each side of one, and different shades of them."""


@transform("frost", of=IMAGE, tables=TABLES, draw="case", identity={"kept": 1.0, "frost": 0.0})
@on_pixels(kept=(0, 1), frost=(0, 1))
def frost(image: np.ndarray, rng: np.random.Generator, *, kept: float, frost: float) -> np.ndarray:
    """Feathers of ice are laid over the image."""
    cv2, top = opencv(), white(image.dtype)
    ice = _ice(image.shape[:2], rng) * np.float32(frost * top)
    iced = np.empty_like(image)
    for rows in strips(image):
        layer = ice[rows] if image.ndim == 2 else cv2.merge([ice[rows] * c for c in _ICE])
        made = cv2.addWeighted(as_floats(image[rows]), kept, layer, 1.0, 0.0)
        iced[rows] = as_pixels(made, image.dtype)
    return iced


def _ice(shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """The frost, from 0 to about 1."""
    cv2 = opencv()
    scale = max(1.0, min(shape) / _SIDE)
    height, width = (max(1, round(side / scale)) for side in shape)
    size = np.array([height, width])
    feathers = _feathers(rng, size, round(_FEATHERS * size.max() / size.min() / _SHADES))
    crystals = np.zeros((height, width), np.uint8)
    for shade, lines in zip(np.linspace(50, 230, _SHADES), feathers, strict=True):
        cv2.polylines(crystals, lines, False, float(shade), 1, cv2.LINE_AA, 4)
    ground = plasma((height, width), rng, 1.6)
    drawn = cv2.addWeighted(ground, 0.35, crystals.astype(np.float32), 0.6 / 255, 0.3)
    return cv2.resize(drawn, shape[::-1], interpolation=cv2.INTER_LINEAR) if scale > 1 else drawn  # type: ignore[no-any-return]


def _feathers(rng: np.random.Generator, size: np.ndarray, count: int) -> np.ndarray:
    """Lines (shade, line, end, 2) in sixteenths of a pixel: x and y of spines and their branches."""
    each = (_SHADES, count, 1)
    angle = rng.uniform(0, 2 * np.pi, each)
    length = rng.uniform(0.08, 0.35, each) * size.min()
    start = rng.uniform(0, 1, (*each, 2)) * size[::-1]
    along = np.linspace(0.08, 1, 2 * _BRANCHES)
    root = start + (along * length)[..., None] * _towards(angle)
    turn = np.tile([-np.pi / 3, np.pi / 3], _BRANCHES)
    reach = 0.33 * length * (1 - along) * rng.uniform(0.6, 1, (*each[:2], 2 * _BRANCHES))
    branches = np.stack([root, root + reach[..., None] * _towards(angle + turn)], axis=3)
    spines = np.stack([start, start + length[..., None] * _towards(angle)], axis=3)
    lines = np.concatenate([spines, branches], axis=2)
    return np.rint(16 * lines).astype(np.int32).reshape(_SHADES, -1, 2, 2)


def _towards(angle: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1)
