"""A contact sheet: one image under every transform at every level, to see what levels mean.

Kernels count pixels of the image that is given: on a large one the levels look weaker. Thumbnails
are made after the transform.

>>> contact_sheet(np.zeros((40, 60), np.uint8), names=("contrast", "fog"), side=50).shape
(101, 1276, 3)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roadworthy import registry
from roadworthy.cases.image.pixels import opencv, sound_image, white
from roadworthy.cases.transform import every_level
from roadworthy.data.values import IMAGE

LABEL, GAP, TITLE = 160, 4, 22
"""Width of the column of names, space between thumbnails, and height of a line of words."""
BLOCKS = 2
"""The names stand in so many blocks side by side."""


def contact_sheet(
    image: np.ndarray, *, names: Sequence[str] | None = None, side: int = 112, seed: int = 0
) -> np.ndarray:
    """An RGB picture of thumbnails `side` pixels high: a row a transform, the clean image first."""
    plain = sound_image(image)
    known = registry.components("transforms")
    chosen = names or [n for n, c in known.items() if c.traits["of"] == IMAGE.name]
    every = {n: every_level(n) for n in chosen}
    rows = {n: [t for t in of if t.table == of[0].table] for n, of in every.items()}
    columns = 1 + max(map(len, rows.values()))
    width = max(1, round(side * plain.shape[1] / plain.shape[0]))
    block = LABEL + columns * (width + GAP) + GAP
    tall = -(-len(rows) // BLOCKS)
    sheet = np.full((2 * TITLE + 3 + tall * (side + GAP), BLOCKS * block, 3), 255, np.uint8)
    about = f"{plain.shape[1]} x {plain.shape[0]} pixels; kernel sizes are pixels of this image"
    _write(sheet, about, 6, TITLE - 6)
    for i in range(BLOCKS):
        for column in range(columns):
            words = f"level {column}" if column else "clean"
            _write(sheet, words, i * block + LABEL + column * (width + GAP), 2 * TITLE - 6)
    for i, (name, levels) in enumerate(rows.items()):
        top, left = 2 * TITLE + (i % tall) * (side + GAP), i // tall * block
        _write(sheet, name, left + 6, top + side // 2)
        for column, made in enumerate((None, *levels)):
            shown = plain if made is None else made.at_step(plain, seed, name)
            x = left + LABEL + column * (width + GAP)
            sheet[top : top + side, x : x + width] = _thumbnail(shown, width, side)
    return sheet


def _thumbnail(image: np.ndarray, width: int, height: int) -> np.ndarray:
    cv2 = opencv()
    small = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
    bytes_ = np.rint(small * (255 / white(image.dtype))).astype(np.uint8)
    return cv2.cvtColor(bytes_, cv2.COLOR_GRAY2RGB) if bytes_.ndim == 2 else bytes_[:, :, :3]  # type: ignore[no-any-return]


def _write(sheet: np.ndarray, words: str, x: int, y: int) -> None:
    cv2 = opencv()
    cv2.putText(sheet, words, (x, y), cv2.FONT_HERSHEY_SIMPLEX, 0.4, (0, 0, 0), 1, cv2.LINE_AA)
