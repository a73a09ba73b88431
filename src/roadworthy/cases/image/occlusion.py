"""Occlusion: something stands before the scene.

Blocks of flat grey, or pictures cut out of their background, cover up to a `share` of the image; they
may overlap. `folder` holds the cut-outs: image files with an alpha channel, in the order of their names.

>>> import numpy as np
>>> hidden = occlusion(np.ones((100, 100)), np.random.default_rng(0), share=0.2, blocks=1)
>>> round(float((hidden < 1).mean()), 2)
0.2
"""

from __future__ import annotations

import functools
import math
from pathlib import Path

import numpy as np

from roadworthy.cases.image.pixels import as_pixels, on_pixels, opencv, white
from roadworthy.cases.transform import transform
from roadworthy.data.loaders.files import image_files, located, read_image
from roadworthy.data.values import IMAGE

TABLES = {"plain": [{"share": s} for s in (0.05, 0.1, 0.18, 0.28, 0.4)]}


@transform("occlusion", of=IMAGE, tables=TABLES, draw="case", identity={"share": 0.0})
@on_pixels(share=(0, 1), blocks=(1, 10_000))
def occlusion(
    image: np.ndarray,
    rng: np.random.Generator,
    *,
    share: float,
    blocks: int = 4,
    folder: Path | None = None,
) -> np.ndarray:
    """Blocks, or cut-outs from a folder, cover parts of the image."""
    hidden, (height, width) = image.copy(), image.shape[:2]
    known = _cut_outs(folder, _changed(folder)) if folder else ()
    for _ in range(blocks if share else 0):
        figure = known[int(rng.integers(len(known)))] if known else None
        aspect = figure.shape[0] / figure.shape[1] if figure is not None else rng.uniform(0.5, 2)
        area = share / blocks * height * width
        rows = max(1, min(height, round(math.sqrt(area * aspect))))
        columns = max(1, min(width, round(area / rows)))
        top, left = (
            int(rng.integers(0, n, endpoint=True)) for n in (height - rows, width - columns)
        )
        place = hidden[top : top + rows, left : left + columns]
        grey = np.full(place.shape, rng.uniform(0, 0.8) * white(image.dtype), np.float32)
        place[:] = as_pixels(grey, image.dtype) if figure is None else _shown(figure, place)
    return hidden


def _shown(figure: np.ndarray, under: np.ndarray) -> np.ndarray:
    """A cut-out, at the size of what is under it, before that."""
    cv2 = opencv()
    sized = cv2.resize(figure, under.shape[1::-1], interpolation=cv2.INTER_AREA)
    colour, cover = sized[:, :, :3] * np.float32(white(under.dtype)), sized[:, :, 3:]
    if under.ndim == 2:
        colour, cover = cv2.cvtColor(colour, cv2.COLOR_RGB2GRAY), cover[:, :, 0]
    return as_pixels(under + cover * (colour - under), under.dtype)


def _changed(folder: Path) -> int:
    return located(folder, base=Path(), what="folder", folder=True).stat().st_mtime_ns


@functools.lru_cache(maxsize=8)
def _cut_outs(folder: Path, changed: int) -> tuple[np.ndarray, ...]:
    """The pictures of a folder as RGBA from 0 to 1, in the order of their names."""
    found = []
    for file in image_files(folder):
        picture = read_image(file)
        if picture.ndim != 3 or picture.shape[2] != 4:
            raise ValueError(
                f"occlusion: {file} has no alpha channel; save the cut-out as a PNG with transparency"
            )
        found.append(picture / np.float32(white(picture.dtype)))
    if not found:
        raise ValueError(f"occlusion: no image files in {folder}; name a folder of cut-outs")
    return tuple(found)
