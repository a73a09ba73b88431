"""A classifier of 8 x 8 images: the nearest of three mean images."""

from __future__ import annotations

import os
import time

import numpy as np

BRIGHT, DARK = 138.0, 118.0
calls: list[int] = []


def mean_images() -> np.ndarray:
    """Left half brighter, upper half brighter, and a chequerboard."""
    means = np.full((3, 8, 8), DARK)
    means[0, :, :4] = BRIGHT
    means[1, :4] = BRIGHT
    means[2, ::2, ::2] = means[2, 1::2, 1::2] = BRIGHT
    return means


def predict(images):
    """Minus the squared distance to each mean, as a logit."""
    calls.append(len(images))
    if len(calls) > float(os.environ.get("NEAREST_MEAN_HOLDS_AFTER", "inf")):
        time.sleep(600)
    flat = np.asarray(images, dtype=np.float64).reshape(len(images), 1, 64)
    return -((flat - mean_images().reshape(1, 3, 64)) ** 2).sum(axis=2) / 4000


predict.batched = True


DROPPED = 0.3
"""The share of pixels that one look leaves out."""


def predict_dropping(images, rng):
    """The same from the pixels that dropout leaves; every image has a generator of its own."""
    kept = np.stack([one.random(64) >= DROPPED for one in rng])[:, None, :]
    flat = np.asarray(images, dtype=np.float64).reshape(len(images), 1, 64)
    squares = (flat - mean_images().reshape(1, 3, 64)) ** 2 * kept
    return -squares.sum(axis=2) / 4000 / (1 - DROPPED)


predict_dropping.batched = True
