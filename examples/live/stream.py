"""A stream of images that no run of the examples has seen, and two ways in which a camera fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from roadworthy.data.loaders.bundled import bundled

USED = 600
"""Images of the calibration split that the assessment files use; the others are the stream."""


def haze(images: np.ndarray) -> np.ndarray:
    """A grey veil: the lens is damp."""
    return (0.75 * images + 60).astype(np.uint8)


def negative(images: np.ndarray) -> np.ndarray:
    """Black is white: a camera with another polarity."""
    return 255 - images


@dataclass(frozen=True)
class Stream:
    """Images in the order in which they come in, and a truth that no monitor sees."""

    images: np.ndarray
    truth: list[str]
    begins: int
    """How many images come before the camera fails."""

    @classmethod
    def failing(cls, how: Callable[[np.ndarray], np.ndarray]) -> Stream:
        """400 images as they are, then the same ones from a camera that fails."""
        data = bundled(path="fashion-mnist", split="calibration")
        images, labels = np.asarray(data.inputs[USED:]), np.asarray(data.targets)[USED:]
        names = [str(data.classes[label]) for label in labels]
        return cls(np.concatenate([images, how(images)]), names * 2, len(images))
