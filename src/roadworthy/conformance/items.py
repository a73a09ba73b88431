"""Sound items of every kind, to try transforms on.

>>> [str(image.dtype) for image in of_kind("image")][:3]
['uint8', 'uint8', 'uint16']
"""

from __future__ import annotations

from typing import Any

import numpy as np

from roadworthy.data.values import Audio, Boxes, Episode, Tracks


def of_kind(name: str) -> tuple[Any, ...]:
    """Several items, made anew: for images grey and colour, 8 and 16 bit and float, as small as 8 x 8."""
    return tuple(_MAKE[name]())


def _images() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    grey = np.clip(rng.normal(120, 50, (8, 8)), 0, 255)
    colour = np.clip(rng.normal(120, 50, (24, 33, 3)), 0, 255)
    return [
        grey.astype(np.uint8),
        colour.astype(np.uint8),
        (grey * 257).astype(np.uint16),
        (colour * 257).astype(np.uint16),
        (colour / 255).astype(np.float32),
        (grey / 255).astype(np.float64)[:, :, None],
    ]


def _waves() -> list[Audio]:
    tone = np.sin(np.arange(1600, dtype=np.float32) / 5)
    return [Audio(tone / 4, 8000), Audio(tone[:37], 16000)]


def _boxes() -> list[Boxes]:
    return [Boxes.of([[0, 0, 4, 4], [2, 2, 7, 5]], labels=[0, 1], scores=[0.9, 0.4]), Boxes.of([])]


_MAKE: dict[str, Any] = {
    "image": _images,
    "frames": lambda: [[image] * 2 for image in _images()],
    "audio": _waves,
    "text": lambda: ["I want a cheap hotel, somewhere in the north please", "yes", ""],
    "class_scores": lambda: [np.array([0.2, 0.5, 0.3], np.float32)],
    "label": lambda: [2],
    "vector": lambda: [np.array([0.5, -1.5], np.float32)],
    "boxes": _boxes,
    "tracks": lambda: [Tracks.of([0, 1], [7, 7], [[0, 0, 4, 4], [1, 0, 5, 4]])],
    "goal": lambda: [{"area": "north", "stars": 4}],
    "episode": lambda: [Episode(({"said": "hello"},), {"area": "north"})],
}
